"""Charts as inline SVG, drawn in Python: they need no script, stay sharp in print, and say their numbers on hover."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise

Px = int | float
Points = Sequence[tuple[Px, Px]]
INK, SOFT, GRID, RULE = "#1d2730", "#5b6874", "#e6e9ec", "#9aa5af"


@dataclass(kw_only=True)
class Axis:
    """A range of values on a range of pixels."""

    low: Px
    high: Px
    start_px: Px
    end_px: Px
    log: bool = False

    def __call__(self, value: Px) -> float:
        low, high, at = (math.log10(v) if self.log else v for v in (self.low, self.high, value))
        return round(self.start_px + (at - low) / ((high - low) or 1) * (self.end_px - self.start_px), 1)


@dataclass(kw_only=True)
class Canvas:
    width: int
    height: int
    label: str  # what a screen reader says
    parts: list[str] = field(default_factory=list)

    def line(self, x1: Px, y1: Px, x2: Px, y2: Px, colour: str = RULE, width: Px = 1, dash: str = "") -> None:
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(
            f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{colour}" '
            f'stroke-width="{width:g}"{dashed}/>'
        )

    def path(self, points: Points, colour: str, width: Px = 2, dash: str = "", opacity: Px = 1) -> None:
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        route = " ".join(f"{x:g},{y:g}" for x, y in points)
        self.parts.append(
            f'<polyline points="{route}" fill="none" stroke="{colour}" stroke-width="{width:g}"{dashed} '
            f'stroke-opacity="{opacity:g}" stroke-linejoin="round" stroke-linecap="round"/>'
        )

    def area(self, points: Points, colour: str, opacity: Px = 0.14) -> None:
        route = " ".join(f"{x:g},{y:g}" for x, y in points)
        self.parts.append(f'<polygon points="{route}" fill="{colour}" fill-opacity="{opacity:g}"/>')

    def box(self, x: Px, y: Px, width: Px, height: Px, colour: str, round_px: Px = 0) -> None:
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{round_px:g}" fill="{colour}"/>'
        )

    def mark(self, shape: str, x: Px, y: Px, colour: str, size: Px = 4.5, open_: bool = False, tip: str = "") -> None:
        """Methods differ by shape as well as by colour."""
        fill = "#ffffff" if open_ else colour
        style = f'fill="{fill}" stroke="{colour}" stroke-width="1.6"'
        told = f"<title>{escape(tip)}</title>" if tip else ""
        if shape == "circle":
            self.parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="{size:g}" {style}>{told}</circle>')
            return
        corners = {
            "square": ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
            "diamond": ((0, -1.25), (1.25, 0), (0, 1.25), (-1.25, 0)),
            "up": ((0, -1.2), (1.1, 0.9), (-1.1, 0.9)),
            "down": ((0, 1.2), (1.1, -0.9), (-1.1, -0.9)),
            "left": ((-1.2, 0), (0.9, -1.1), (0.9, 1.1)),
        }[shape]
        route = " ".join(f"{x + size * across:.1f},{y + size * down:.1f}" for across, down in corners)
        self.parts.append(f'<polygon points="{route}" {style}>{told}</polygon>')

    def text(
        self,
        x: Px,
        y: Px,
        words: str,
        *,
        anchor: str = "start",
        size: Px = 11.5,
        colour: str = SOFT,
        bold: bool = False,
    ) -> None:
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size:g}" fill="{colour}"{weight}>'
            f"{escape(words)}</text>"
        )

    def svg(self) -> str:
        return (
            f'<svg viewBox="0 0 {self.width} {self.height}" width="{self.width}" height="{self.height}" role="img" '
            f'aria-label="{escape(self.label)}">{"".join(self.parts)}</svg>'
        )


def ticks(low: Px, high: Px, about: int = 5) -> list[Px]:
    """Round numbers."""
    span = (high - low) or 1
    step = 10 ** math.floor(math.log10(span / about))
    step *= next(factor for factor in (1, 2, 5, 10) if span / (step * factor) <= about)
    first = math.ceil(low / step - 1e-9)
    return [round(step * number, 10) for number in range(first, math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: Px, high: Px) -> list[float]:
    """Powers of ten; thirds as well where there are few."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found = [10.0**power for power in powers if low <= 10.0**power <= high]
    if len(found) < 2:
        found = [f * 10.0**power for power in powers for f in (1, 2, 5) if low <= f * 10.0**power <= high]
    return found


def thinned(points: Points, most: int) -> list[tuple[Px, Px]]:
    """Means of equal stretches between the first and the last point: a light page, and a curve without its noise."""
    if len(points) <= most:
        return list(points)
    edges = [round(number * len(points) / most) for number in range(most + 1)]
    parts = [points[a:b] for a, b in pairwise(edges) if b > a]
    means = [(sum(x for x, _ in part) / len(part), sum(y for _, y in part) / len(part)) for part in parts]
    return [points[0], *means, points[-1]]
