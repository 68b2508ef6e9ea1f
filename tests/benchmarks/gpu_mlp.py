"""The fused MLP on this GPU beside eager and torch.compile, and beside what the card could do: `make bench-gpu`.

Prints a Markdown table, a row per shape as it is measured. Times are medians of CUDA events around a forward, with the
L2 cache flushed before each; the flush also lets the CPU run ahead, so that launches are hidden and what counts is the
GPU's time. The ceilings are measured on the same card: a large product, and a large copy.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

from tracetui_workloads import machine
from tracetui_workloads.programs.mlp import FUSED_MLP

if TYPE_CHECKING:
    import torch
    from tracetui_workloads.programs.mlp import Geglu

TOKENS = (512, 2048, 8192, 32768)
HIDDEN = {768: 3072, 1024: 4096, 4096: 14336}
"""The width between the products, by the width of the block."""
REPEATS = 50
WARM_CALLS = 5
FLUSHED = 1 << 30
"""Bytes that are written before each call: more than any L2 cache holds, and a quarter of a millisecond or more."""
AUTOTUNED = "max-autotune-no-cudagraphs"
"""With CUDA graphs the input would be copied within the time."""
VARIANTS = ("eager", "compile", AUTOTUNED, "packed", "geglu", "gateup")

Forward = Callable[["torch.Tensor"], "torch.Tensor"]


@dataclass(frozen=True)
class Ceilings:
    """What this card does at most."""

    flops: float
    """Of bfloat16 products, per second."""
    bytes: float
    """Read and written, per second."""

    def seconds(self, tokens: int, dim: int, hidden: int, traffic: int) -> float:
        """The three products, and `traffic` bytes for each element between them."""
        return 6 * tokens * dim * hidden / self.flops + traffic * tokens * hidden / self.bytes


def main() -> int:
    """Measure what the command line names; returns the exit code, 3 where there is nothing to measure on."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.gpu_mlp", description=__doc__)
    parser.add_argument("--tokens", type=int, nargs="+", choices=TOKENS, default=TOKENS)
    parser.add_argument("--dims", type=int, nargs="+", choices=HIDDEN, default=tuple(HIDDEN))
    parser.add_argument("--repeats", type=int, default=REPEATS, help=f"calls per median (default: {REPEATS})")
    options = parser.parse_args()
    reason = reason_against()
    if reason:
        print(f"bench-gpu: {reason}.", file=sys.stderr)
        return 3
    ceilings = measured_ceilings(options.repeats)
    print_head(ceilings, options.repeats)
    for dim in options.dims:
        for tokens in options.tokens:
            print_row(ceilings, tokens, dim, measured(tokens, dim, options.repeats))
    print_geglu(options.repeats)
    return 0


def reason_against() -> str | None:
    """Why nothing can be measured here, in words."""
    reason = machine.unavailable_reason(FUSED_MLP, machine.inspect_machine())
    if reason:
        return f"{FUSED_MLP.name} cannot run here: {reason}"
    import torch

    return None if torch.cuda.is_available() else f"PyTorch {torch.__version__} finds no GPU that CUDA events can time"


def measured(tokens: int, dim: int, repeats: int) -> dict[str, float]:
    """Seconds of a forward, by variant; each is checked against eager first."""
    import torch
    from tracetui_workloads.programs.common import TOLERANCES
    from tracetui_workloads.programs.mlp import Geglu
    from tracetui_workloads.recording.protocol import Options
    from tracetui_workloads.recording.recorder import RunContext

    context = RunContext("cuda", torch.bfloat16, Options(), note=lambda text: print(text, file=sys.stderr))
    # Shapes that were compiled before would make the next ones dynamic.
    torch.compiler.reset()
    torch.manual_seed(0)
    eager = Geglu(context, dim, HIDDEN[dim])
    x = torch.randn(tokens, dim, device="cuda", dtype=torch.bfloat16)
    relative, absolute = TOLERANCES["bfloat16"]
    seconds = {}
    with torch.no_grad():
        for name in VARIANTS:
            forward = variant(name, context, eager, x)
            torch.testing.assert_close(forward(x), eager(x), rtol=relative, atol=absolute)
            seconds[name] = median_seconds(partial(forward, x), repeats)
    return seconds


def variant(name: str, context: Any, eager: Geglu, x: torch.Tensor) -> Forward:
    """The block by one of the names, with the same weights."""
    import torch
    from tracetui_workloads.programs.mlp import fused

    if name == "eager":
        return eager
    if name == "packed":
        return torch.compile(packed(eager), dynamic=False)
    if name in ("compile", AUTOTUNED):
        mode = "default" if name == "compile" else name
        compiled: Forward = torch.compile(eager.__call__, mode=mode, dynamic=False)
        return compiled
    return fused(context, name, eager, x)


def packed(eager: Geglu) -> Forward:
    """The usual practice: one product for gate and up together."""
    import torch
    from torch.nn import functional

    weight = torch.cat([eager.gate.weight, eager.up.weight])

    def forward(x: torch.Tensor) -> torch.Tensor:
        gate, up = functional.linear(x, weight).chunk(2, dim=-1)
        down: torch.Tensor = eager.down(functional.gelu(gate, approximate="tanh") * up)
        return down

    return forward


def print_geglu(repeats: int, tokens: int = 8192, hidden: int = 3072) -> None:
    """The pointwise part alone: eager, compiled and the Triton kernel."""
    import torch
    from torch.nn import functional
    from tracetui_workloads.programs.geglu_kernels import geglu

    gate, up = (torch.randn(tokens, hidden, device="cuda", dtype=torch.bfloat16) for _ in range(2))

    def eager() -> torch.Tensor:
        return functional.gelu(gate, approximate="tanh") * up

    ways = {"eager": eager, "compile": torch.compile(eager, dynamic=False), "geglu": lambda: geglu(gate, up)}
    print(f"\nGeGLU alone, {tokens} x {hidden}, µs:\n")
    print(f"| {' | '.join(ways)} |")
    print(f"|{' ---: |' * len(ways)}")
    with torch.no_grad():
        times = [f"{median_seconds(way, repeats) * 1e6:,.1f}" for way in ways.values()]
    print(f"| {' | '.join(times)} |", flush=True)


def median_seconds(call: Callable[[], object], repeats: int) -> float:
    """The median time of a call on the GPU."""
    import torch

    flushed = torch.empty(FLUSHED, dtype=torch.uint8, device="cuda")
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(repeats)]
    for _ in range(WARM_CALLS):
        call()
    for start, end in events:
        flushed.zero_()
        start.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return median(start.elapsed_time(end) for start, end in events) / 1e3


def measured_ceilings(repeats: int) -> Ceilings:
    """The rate of a product of 8192 cubed, and of copying a gibibyte."""
    import torch

    size = 8192
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    product = median_seconds(lambda: a @ b, repeats)
    source = torch.zeros(1 << 30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    copy = median_seconds(lambda: target.copy_(source), repeats)
    return Ceilings(2 * size**3 / product, 2 * source.numel() / copy)


def print_head(ceilings: Ceilings, repeats: int) -> None:
    """What was measured on what, and the table's first lines."""
    import torch
    import triton

    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, triton {triton.__version__}, bf16\n")
    print(f"Ceilings: {ceilings.flops / 1e12:,.0f} TFLOP/s, {ceilings.bytes / 1e12:.2f} TB/s.")
    print(f"Times in µs, medians of {repeats} with the L2 cache flushed. Bounds: the products and what fusion leaves")
    print("of the traffic between them, at the ceilings. Gains: over compile.\n")
    heads = ["tokens", "dim", *VARIANTS, "bound", "bound gateup", "gain geglu", "gain gateup"]
    print(f"| {' | '.join(heads)} |")
    print(f"|{' ---: |' * len(heads)}", flush=True)


def print_row(ceilings: Ceilings, tokens: int, dim: int, seconds: dict[str, float]) -> None:
    """A line of the table."""
    bounds = [ceilings.seconds(tokens, dim, HIDDEN[dim], traffic) for traffic in (6, 0)]
    times = [f"{each * 1e6:,.1f}" for each in (*seconds.values(), *bounds)]
    gains = [f"{seconds['compile'] / seconds[name]:.2f}" for name in ("geglu", "gateup")]
    print(f"| {' | '.join([str(tokens), str(dim), *times, *gains])} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
