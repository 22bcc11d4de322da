"""Counters and histograms of a server, in Prometheus text format."""

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
OUTCOMES = ("answered", "refused", "malformed", "error", "lost", "slow")
TENTHS = tuple(tenth / 10 for tenth in range(1, 11))
PREFIX = "egorecovery"


@dataclass
class Histogram:
    """A cumulative histogram: how often a value was at most each bound."""

    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def lines(self, name: str) -> list[str]:
        so_far, lines = 0, []
        for bound, count in zip((*(f"{edge:g}" for edge in self.bounds), "+Inf"), self.counts, strict=True):
            so_far += count
            lines.append(f'{name}_bucket{{le="{bound}"}} {so_far}')
        return [*lines, f"{name}_sum {self.total:.9g}", f"{name}_count {so_far}"]


@dataclass
class Metrics:
    """All counters of a server. Used on its event loop only."""

    requests: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(OUTCOMES, 0)))
    refusals: Counter[str] = field(default_factory=Counter)  # of connections, by reason
    reloads: Counter[str] = field(default_factory=Counter)  # by result
    batches: int = 0
    clients: int = 0  # connected now
    inference_s: Histogram = field(default_factory=lambda: Histogram(SECONDS))
    request_s: Histogram = field(default_factory=lambda: Histogram(SECONDS))
    gate: Histogram = field(default_factory=lambda: Histogram(TENTHS))

    def text(self, model: str, checkpoint: str, waiting: int) -> str:
        lines: list[str] = []

        def add(name: str, kind: str, help_text: str, values: list[str]) -> None:
            lines.extend([f"# HELP {PREFIX}_{name} {help_text}", f"# TYPE {PREFIX}_{name} {kind}", *values])

        def counted(name: str, label: str, counts: Counter[str], help_text: str) -> None:
            values = [f'{PREFIX}_{name}{{{label}="{key}"}} {count}' for key, count in sorted(counts.items())]
            add(name, "counter", help_text, values)

        def gauge(name: str, value: int, help_text: str, kind: str = "gauge") -> None:
            add(name, kind, help_text, [f"{PREFIX}_{name} {value}"])

        counted("requests_total", "outcome", self.requests, "Observations received, by outcome.")
        counted("refused_connections_total", "reason", self.refusals, "Connections refused, by reason.")
        counted("reloads_total", "result", self.reloads, "Checkpoints asked to be loaded, by result.")
        gauge("batches_total", self.batches, "Inferences, of one or more observations.", "counter")
        gauge("clients", self.clients, "Robots connected.")
        gauge("waiting_observations", waiting, "Observations in the queue.")
        for name, histogram, help_text in (
            ("inference_seconds", self.inference_s, "Time of one inference of the policy."),
            ("request_seconds", self.request_s, "Time from an observation's arrival to its reply's departure."),
            ("gate", self.gate, "The gate of every chunk: probability that correction is needed."),
        ):
            add(name, "histogram", help_text, histogram.lines(f"{PREFIX}_{name}"))
        labels = f'model="{_escaped(model)}",checkpoint="{_escaped(checkpoint)}"'
        add("model_info", "gauge", "The policy that answers.", [f"{PREFIX}_model_info{{{labels}}} 1"])
        return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
