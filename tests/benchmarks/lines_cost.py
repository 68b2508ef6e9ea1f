"""Measure what `--lines` costs: steps of a workload under the profiler, with and without records in turn.

    python -m tests.benchmarks.lines_cost mlp batch=1 seq=16 dim=64 hidden=128

Both run in one process and alternate, and what counts is the CPU time of the process with one thread, as another
program on the machine lengthens all else.
"""

from __future__ import annotations

import random
import sys
from importlib import import_module
from pathlib import Path
from statistics import median
from time import process_time
from types import SimpleNamespace

import torch
from torch.profiler import ProfilerActivity, profile
from tracetui_workloads.recording.lines import LineRecorder
from tracetui_workloads.registry import built_in

ROUNDS, PAIRS, WARM = 10, 30, 5


def main(name: str, *given: str) -> None:
    """Print the median of both, and of the ratio by pair, over several profiles."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    workload = built_in(name)
    params = {each.name: each.default for each in workload.params} | {
        key: int(value) for key, _, value in (word.partition("=") for word in given)
    }
    context = SimpleNamespace(
        device="cpu", dtype=torch.float32, seed=0, compiled=False, rank=0, ranks=1, compile=lambda model: model
    )
    module, _, function = workload.prepare.partition(":")
    prepared = getattr(import_module(module), function)(context, **params)
    recorder = LineRecorder(Path(sys.modules[module].__file__ or "").parent)
    recorder.install()
    for _ in range(WARM):
        prepared.step()
    times: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(ROUNDS):
        with profile(activities=[ProfilerActivity.CPU]):
            for _ in range(PAIRS):
                for is_on in random.sample((False, True), 2):
                    recorder.switch(is_on)
                    began = process_time()
                    prepared.step()
                    times[is_on].append(process_time() - began)
    recorder.restore()
    ratios = sorted(on / off for off, on in zip(times[False], times[True], strict=True))
    quarter, three = (100 * (ratios[len(ratios) * n // 4] - 1) for n in (1, 3))
    without, lines = (1e6 * median(times[is_on]) for is_on in (False, True))
    print(f"{name} {' '.join(given)}: {without:,.1f} us without, {lines:,.1f} us with lines, {len(ratios)} pairs")
    print(f"by pair {100 * (median(ratios) - 1):+.2f} %, the middle half {quarter:+.2f} to {three:+.2f} %")


if __name__ == "__main__":
    main(*sys.argv[1:])
