"""How fast the libraries' own products and convolutions are, one at a time, at the sizes of recipe `paper`.

Every one of them is timed in replays of a CUDA graph over several inputs, so that the cache holds none of them. Their
sum is what a step would take if it were made of library calls alone, with nothing between them.

python benchmarks/library_rates.py
"""

from collections.abc import Callable, Sequence

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.nn.functional import conv2d, linear

from kernel_times import graph_us, normal

BATCH = 192
INPUTS = 6
ROWS = {"trunk": BATCH * 128, "one decoder": BATCH // 2 * 100}
WEIGHTS = {"qkv": (768, 256), "out": (256, 256), "rise": (1024, 256), "fall": (256, 1024)}  # outputs, inputs
# In, out, side of the map at 224 pixels, kernel, stride, how often a ResNet-18 has it
CONVOLUTIONS = [
    (64, 64, 56, 3, 1, 4), (64, 128, 56, 3, 2, 1), (64, 128, 56, 1, 2, 1), (128, 128, 28, 3, 1, 3),
    (128, 256, 28, 3, 2, 1), (128, 256, 28, 1, 2, 1), (256, 256, 14, 3, 1, 3), (256, 512, 14, 3, 2, 1),
    (256, 512, 14, 1, 2, 1), (512, 512, 7, 3, 1, 3),
]  # fmt: skip


def microseconds(calls: Sequence[Callable[[], object]]) -> float:
    """Of one call, the median."""
    return graph_us(lambda: [call() for call in calls]) / len(calls)


def product_times(rows: int, outputs: int, inputs: int) -> list[float]:
    """Forward, gradient of the input, gradient of the weight."""
    weight = normal(outputs, inputs)
    pairs = [(normal(rows, inputs), normal(rows, outputs)) for _ in range(INPUTS)]
    return [
        microseconds([lambda given=given: linear(given, weight) for given, _ in pairs]),
        microseconds([lambda d_out=d_out: d_out @ weight for _, d_out in pairs]),
        microseconds([lambda given=given, d_out=d_out: d_out.t() @ given for given, d_out in pairs]),
    ]


def convolution_times(inputs: int, outputs: int, side: int, kernel: int, stride: int) -> list[float]:
    weight = normal(outputs, inputs, kernel, kernel, images=True)
    after = -(-side // stride)
    pairs = [
        (normal(BATCH, inputs, side, side, images=True), normal(BATCH, outputs, after, after, images=True))
        for _ in range(INPUTS)
    ]

    def backward(given: Tensor, d_out: Tensor, wanted: list[bool]) -> object:
        return torch.ops.aten.convolution_backward(
            d_out, given, weight, None, [stride] * 2, [kernel // 2] * 2, [1, 1], False, [0, 0], 1, wanted
        )

    forward = [lambda given=given: conv2d(given, weight, stride=stride, padding=kernel // 2) for given, _ in pairs]
    of_input = [lambda pair=pair: backward(*pair, [True, False, False]) for pair in pairs]
    of_weight = [lambda pair=pair: backward(*pair, [False, True, False]) for pair in pairs]
    return [microseconds(forward), microseconds(of_input), microseconds(of_weight)]


@torch.no_grad()
def main() -> None:
    torch.backends.cudnn.benchmark = True
    table = Table("", "forward us", "of input us", "of weight us", "TFLOP/s")

    def show(name: str, times: list[float], flop: float) -> None:
        table.add_row(name, *(f"{us:.1f}" for us in times), " ".join(f"{flop / us / 1e6:.0f}" for us in times))

    for where, rows in ROWS.items():
        for name, (outputs, inputs) in WEIGHTS.items():
            show(f"{where} {name}", product_times(rows, outputs, inputs), 2 * rows * outputs * inputs)
    for pixels in (224, 96):
        total = 0.0
        for inputs, outputs, side_at_224, kernel, stride, count in CONVOLUTIONS:
            side = side_at_224 * pixels // 224
            times = convolution_times(inputs, outputs, side, kernel, stride)
            flop = 2 * BATCH * (-(-side // stride)) ** 2 * inputs * outputs * kernel * kernel
            show(f"{pixels}: {count} x {inputs} to {outputs}, {side} x {side}, {kernel} / {stride}", times, flop)
            total += count * sum(times)
        table.add_row(f"[b]{pixels}: all but the stem, three views[/b]", f"{3 * total / 1e3:.1f} ms", "", "", "")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
