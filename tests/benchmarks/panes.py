"""Building the lanes and every pane of a loaded trace."""

from __future__ import annotations

from pathlib import Path
from statistics import median

from tests.benchmarks.loading import child


def run(trace: Path, rounds: int) -> None:
    """Measure and print medians, each pane after those above it."""
    results = [child("panes", trace) for _ in range(rounds)]
    total = 0.0
    for name, (_, rows) in results[0].items():
        seconds = median(result[name][0] for result in results)
        total += seconds
        print(f"  {name:<10} {seconds:7.3f} s  {rows:>9,} {'slices' if name == 'lanes' else 'rows'}")
    print(f"  {'together':<10} {total:7.3f} s")
