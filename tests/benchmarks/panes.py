"""Building the lanes and every pane of a loaded trace; Ops and Summary also in a process of their own."""

from __future__ import annotations

from statistics import median
from typing import Any

from tests.benchmarks.context import Context
from tests.benchmarks.processes import measured_child
from tests.benchmarks.runs import best, collected

ALONE = ("ops", "summary")


def run(context: Context) -> dict[str, Any]:
    """Measure and print medians, each pane after those above it; then the panes that are measured alone."""
    rounds = [measured_child("panes", context.large) for _ in range(context.rounds)]
    total = 0.0
    for name, (_, rows) in rounds[0].items():
        seconds = median(figures[name][0] for figures in rounds)
        total += seconds
        print(f"  {name:<10} {seconds:7.3f} s  {rows:>9,} {'slices' if name == 'lanes' else 'rows'}")
    print(f"  {'together':<10} {total:7.3f} s")
    results: dict[str, Any] = {"together": total}
    for name in ALONE:
        results[name] = collected([measured_child("pane", context.large, name) for _ in range(context.rounds)])
        print(
            f"  {name} alone: {best(results[name], 'wall'):.2f} s on the clock, {best(results[name], 'cpu'):.2f} CPU s"
        )
    return results
