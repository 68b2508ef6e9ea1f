"""How the CPU time of each pane and command grows with the trace, and that of ranks with their number."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks import large_trace
from tests.benchmarks.context import Context
from tests.benchmarks.processes import measured_child, timed_command
from tests.benchmarks.ranks import table_of

COPIES = (large_trace.SMALL_COPIES, large_trace.MIDDLE_COPIES, large_trace.COPIES)
RANKS = (1, 8, 64, 512)
COMMANDS = {
    "compare": ("compare", "TRACE", "TRACE", "--format", "json"),
    "cut": ("cut", "TRACE", "--steps", "1:1000000", "-o", "OUT"),
    "report": ("report", "TRACE", "-o", "OUT"),
}
"""Whole commands, the reading of the trace included."""
LEAST_SECONDS = 0.05
"""CPU seconds of the smallest trace from which on a growth is told: below it is mostly what does not grow."""


def run(context: Context) -> dict[str, Any]:
    """CPU seconds of everything at each size, the least of all rounds."""
    traces = [large_trace.large_trace(copies) for copies in COPIES]
    seconds: dict[str, list[float]] = {}
    for index, trace in enumerate(traces):
        for _ in range(context.rounds):
            for name, cpu in {**measured_child("growth", trace), **of_commands(trace)}.items():
                row = seconds.setdefault(name, [np.inf] * len(traces))
                row[index] = min(row[index], cpu)
        print(f"  {trace.stat().st_size / 1e6:,.0f} MB: all of it {sum(row[index] for row in seconds.values()):.1f} s")
    ranks = [np.inf] * len(RANKS)
    for index, count in enumerate(RANKS):
        for _ in range(context.rounds):
            with tempfile.TemporaryDirectory() as cache:
                ranks[index] = min(ranks[index], table_of(large_trace.rank_set(count), cache)["cpu"])
    sizes = [trace.stat().st_size for trace in traces]
    for name, row in seconds.items():
        print(f"  {name:<12} {' '.join(f'{each:8.3f}' for each in row)} s  {exponent(sizes, row) or 0:.2f}")
    print(f"  {'ranks':<12} {' '.join(f'{each:8.3f}' for each in ranks)} s  {exponent(RANKS, ranks) or 0:.2f}")
    return {"bytes": sizes, "seconds": seconds, "ranks": list(RANKS), "rank_seconds": ranks}


def of_commands(trace: Path) -> dict[str, float]:
    """CPU seconds of each command in a process of its own, without a cache.

    Raises: MeasurementError when one fails.
    """
    spent = {}
    for name, words in COMMANDS.items():
        with tempfile.TemporaryDirectory(dir=large_trace.benchmark_folder()) as folder:
            places = {"TRACE": str(trace), "OUT": os.path.join(folder, f"{name}.{'json' if name == 'cut' else 'html'}")}
            command = [sys.executable, "-m", "tracetui", *(places.get(word, word) for word in words), "--no-cache"]
            spent[name] = timed_command(command)["cpu"]
    return spent


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float | None:
    """The power of the size that the seconds grow with; None where they are too few to tell."""
    if seconds[0] < LEAST_SECONDS:
        return None
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
