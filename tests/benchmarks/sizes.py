"""Loading the same kind of trace at different sizes, packed, and within a limit to memory."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from tests.benchmarks import large_trace
from tests.benchmarks.context import Context
from tests.benchmarks.processes import Figures, MeasurementError, measured_child
from tests.benchmarks.runs import best, collected

BEYOND_COLUMNS = 2_000_000_000
"""Bytes of data that a process may take beyond the columns, of the 4 GB trace."""
FREE_DISK = 3
"""How often the 4 GB must fit on the disk before the trace is made."""


def run_gzip(context: Context) -> dict[str, Any]:
    """The middle trace plain and packed, in turns."""
    plain = context.middle
    packed = large_trace.packed(plain)
    rounds: dict[str, list[Figures]] = {"plain": [], "gzip": []}
    for _ in range(context.rounds):
        rounds["plain"].append(measured_child("tracetui", plain))
        rounds["gzip"].append(measured_child("tracetui", packed))
    runs = {name: collected(figures) for name, figures in rounds.items()}
    for name, side in runs.items():
        print(f"  {name:6} {best(side, 'wall'):.2f} s on the clock, {best(side, 'cpu'):.2f} CPU s")
    return {"bytes": plain.stat().st_size, **runs}


def run_sizes(context: Context) -> dict[str, Any]:
    """The trace in four sizes, in turns; the largest where it was asked for, and within a limit to memory too."""
    traces = [large_trace.first_part(), large_trace.large_trace(large_trace.SMALL_COPIES), large_trace.large_trace()]
    if not context.is_huge:
        return {"sizes": measured_sizes(traces, context.rounds)}
    huge = huge_trace()
    try:
        sizes = measured_sizes([*traces, huge], context.rounds)
        return {"sizes": sizes, "limited": within_limit(huge, sizes[-1]["kept"] + BEYOND_COLUMNS)}
    finally:
        huge.unlink()


def measured_sizes(traces: list[Path], rounds: int) -> list[dict[str, Any]]:
    """What loading took of each trace, in turns."""
    results: list[list[Figures]] = [[] for _ in traces]
    for _ in range(rounds):
        for figures, trace in zip(results, traces, strict=True):
            figures.append(measured_child("tracetui", trace))
    runs = []
    for figures, trace in zip(results, traces, strict=True):
        side = {"bytes": trace.stat().st_size, **collected(figures)}
        runs.append(side)
        print(
            f"  {side['bytes'] / 1e6:7,.0f} MB  {best(side, 'cpu') / side['bytes'] * 1e9:.2f} CPU ns per byte, "
            f"{best(side, 'peak') / side['events']:.0f} bytes per event"
        )
    return runs


def within_limit(trace: Path, limit: int) -> dict[str, Any]:
    """Whether a trace opens where data may take so many bytes."""
    try:
        figures = measured_child("limited", trace, str(limit))
        print(f"  opens within {limit / 1e9:.1f} GB of data")
        return {"limit": limit, "events": figures["events"]}
    except MeasurementError as reason:
        print(f"  does not open within {limit / 1e9:.1f} GB of data: {reason}")
        return {"limit": limit, "failure": str(reason)}


def huge_trace() -> Path:
    """The 4 GB trace, made for this run.

    Raises: SystemExit where the disk has no room for it.
    """
    room = shutil.disk_usage(large_trace.benchmark_folder()).free
    if room < FREE_DISK * 4e9:
        raise SystemExit(f"the trace of 4 GB needs room for {FREE_DISK} of it, and {room / 1e9:.0f} GB are free")
    return large_trace.large_trace(large_trace.HUGE_COPIES)
