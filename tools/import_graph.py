"""Draws which package imports which: docs/pictures/import_graph.svg, and the lines of each package.

python tools/import_graph.py                         # writes the picture
python tools/import_graph.py --source PATH --out SVG  # of another checkout's src/egorecovery

An arrow points from a package to one that it imports. Arrows that follow from others are left out (if a imports b and
c, and b imports c, then a -> c is not drawn). An import against the order would be drawn in red.
"""

import argparse
import ast
from collections import defaultdict
from functools import partial
from html import escape
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = "egorecovery"
BOX_W, BOX_H, GAP_X, GAP_Y, LANE_W, MARGIN = 124, 40, 26, 44, 20, 20
INK, SOFT, RULE, PALE, WRONG = "#1d2730", "#5b6874", "#8fa3b3", "#eef4f8", "#b3261e"
Graph = dict[str, set[str]]


def packages(source: Path) -> dict[str, int]:
    """Lines of Python by package."""
    return {
        folder.name: sum(len(path.read_text().splitlines()) for path in folder.rglob("*.py"))
        for folder in sorted(source.iterdir())
        if (folder / "__init__.py").exists()
    }


def imports(source: Path, names: set[str]) -> Graph:
    """Wherever in a file they stand, also inside functions."""
    graph: Graph = {name: set() for name in names}
    for name in names:
        for path in (source / name).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom) and node.module == PACKAGE:
                    modules += [f"{PACKAGE}.{alias.name}" for alias in node.names]
                parts = [module.split(".") for module in modules]
                graph[name] |= {part[1] for part in parts if part[0] == PACKAGE and len(part) > 1} & names - {name}
    return graph


def levels(graph: Graph) -> dict[str, int]:
    """How far above the ground: one more than the highest that it imports. What closes a circle does not count."""
    known: dict[str, int] = {}

    def level(name: str, above: tuple[str, ...]) -> int:
        if name not in known:
            below = [level(other, (*above, name)) for other in sorted(graph[name]) if other not in (*above, name)]
            known[name] = 1 + max(below, default=-1)
        return known[name]

    for name in sorted(graph):
        level(name, ())
    return known


def reduced(graph: Graph, height: dict[str, int]) -> Graph:
    """Without arrows that follow from others."""
    reach: Graph = {}
    for name in sorted(graph, key=height.__getitem__):
        below = {other for other in graph[name] if height[other] < height[name]}
        reach[name] = below.union(*(reach[other] for other in below)) if below else set()
    return {
        name: {
            other
            for other in others
            if height[other] >= height[name]
            or not any(other in reach[via] for via in others if via != other and height[via] < height[name])
        }
        for name, others in graph.items()
    }


def rows(drawn: Graph, height: dict[str, int]) -> tuple[list[list[str]], Graph]:
    """From the ground up, near to what they import. An arrow over several rows gets a place in each of them."""
    ordered: list[list[str]] = [[] for _ in range(1 + max(height.values()))]
    links: Graph = defaultdict(set)
    for name in sorted(drawn):
        ordered[height[name]].append(name)
        for other in sorted(drawn[name]):
            upper = name
            for level in range(height[name] - 1, height[other], -1):
                place = f"{name}>{other}@{level}"
                ordered[level].append(place)
                links[upper].add(place)
                upper = place
            links[upper].add(other)
    neighbours: Graph = defaultdict(set)
    for upper, lowers in links.items():
        for lower in lowers:
            neighbours[upper].add(lower)
            neighbours[lower].add(upper)
    at = _abscissae(ordered)
    for sweep in range(24):
        for row in ordered if sweep % 2 else ordered[::-1]:
            row.sort(key=partial(_middle_of_neighbours, neighbours, at))
            at = _abscissae(ordered)
    return ordered, links


def _middle_of_neighbours(neighbours: Graph, at: dict[str, float], name: str) -> tuple[float, str]:
    return sum(at[other] for other in neighbours[name]) / max(len(neighbours[name]), 1), name


def _abscissae(ordered: list[list[str]]) -> dict[str, float]:
    """The middle of each place, rows centred on 0."""
    at: dict[str, float] = {}
    for row in ordered:
        widths = [LANE_W if ">" in name else BOX_W + GAP_X for name in row]
        right = -sum(widths) / 2
        for name, width in zip(row, widths, strict=True):
            at[name] = right + width / 2
            right += width
    return at


def picture(lines: dict[str, int], graph: Graph) -> str:
    height = levels(graph)
    ordered, links = rows(reduced(graph, height), height)
    at = _abscissae(ordered)
    left, right = (extreme(at.values()) for extreme in (min, max))
    width, tall = right - left + BOX_W + 2 * MARGIN, len(ordered) * (BOX_H + GAP_Y) - GAP_Y + 2 * MARGIN
    centre = {
        name: (at[name] - left + BOX_W / 2 + MARGIN, MARGIN + (len(ordered) - 1 - level) * (BOX_H + GAP_Y))
        for level, row in enumerate(ordered)
        for name in row
    }
    parts = [_arrow(name, other, centre) for name in sorted(links) for other in sorted(links[name])]
    parts += [_lane(*centre[name]) for name in sorted(centre) if ">" in name]
    parts += [_box(name, lines[name], *centre[name]) for name in sorted(centre) if ">" not in name]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {tall:g}" width="{width:g}" height="{tall:g}" '
        f'font-family="system-ui, DejaVu Sans, sans-serif" role="img" aria-label="which package imports which">\n'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n<defs>{_head("tip", RULE)}{_head("wrong", WRONG)}</defs>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _head(name: str, colour: str) -> str:
    return (
        f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0L8 4L0 8z" fill="{colour}"/></marker>'
    )


def _arrow(name: str, other: str, centre: dict[str, tuple[float, float]]) -> str:
    (x1, top), (x2, y2) = centre[name], centre[other]
    down = y2 > top
    y1, y2 = (top + BOX_H, y2) if down else (top, y2 + BOX_H)
    bend = (y2 - y1) / 2
    colour = RULE if down else WRONG
    tip = "" if ">" in other else f' marker-end="url(#{"tip" if down else "wrong"})"'
    return (
        f'<path d="M{x1:g} {y1:g}C{x1:g} {y1 + bend:g} {x2:g} {y2 - bend:g} {x2:g} {y2:g}" fill="none" '
        f'stroke="{colour}" stroke-width="1.3"{tip}/>'
    )


def _lane(x: float, y: float) -> str:
    """Of an arrow that passes a row."""
    return f'<path d="M{x:g} {y:g}V{y + BOX_H:g}" stroke="{RULE}" stroke-width="1.3"/>'


def _box(name: str, lines: int, x: float, y: float) -> str:
    left = x - BOX_W / 2
    return (
        f'<rect x="{left:g}" y="{y:g}" width="{BOX_W}" height="{BOX_H}" rx="6" fill="{PALE}" stroke="{RULE}"/>'
        f'<text x="{x:g}" y="{y + 17:g}" text-anchor="middle" font-size="14" font-weight="600" fill="{INK}">'
        f'{escape(name)}</text><text x="{x:g}" y="{y + 32:g}" text-anchor="middle" font-size="11" fill="{SOFT}">'
        f"{lines:,} lines</text>"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, default=ROOT / "src" / PACKAGE)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "pictures" / "import_graph.svg")
    given = parser.parse_args()
    lines = packages(given.source)
    graph = imports(given.source, set(lines))
    given.out.write_text(picture(lines, graph))
    for name, count in lines.items():
        print(f"{name:14s} {count:7,d}  imports {', '.join(sorted(graph[name])) or 'nothing'}")
    print(f"{'all':14s} {sum(lines.values()):7,d}  {given.out}")


if __name__ == "__main__":
    main()
