"""Loading a trace beside `orjson.loads` of the same file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

SIDES = ("tracetui", "orjson")


def run(trace: Path, rounds: int) -> None:
    """Measure both sides in turns and print medians and ratios."""
    results: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
    for _ in range(rounds):
        for side in SIDES:
            results[side].append(child(side, trace))
    ours = {key: median(result[key] for result in results["tracetui"]) for key in results["tracetui"][0]}
    theirs = {key: median(result[key] for result in results["orjson"]) for key in results["orjson"][0]}
    size, events = trace.stat().st_size / 1e6, ours["events"]
    print(f"  {events:,.0f} events, {ours['slices']:,.0f} slices; CPU seconds, medians of {rounds}")
    print(
        f"  tracetui  read {ours['read_cpu']:.2f}, loaded {ours['load_cpu']:.2f}, usable {ours['cpu']:.2f} "
        f"({ours['wall']:.2f} on the clock); {size / ours['cpu']:,.0f} MB/s, {events / ours['cpu']:,.0f} events/s; "
        f"peak {ours['peak'] / 1e6:,.0f} MB, {ours['peak'] / events:,.0f} bytes per event; "
        f"columns keep {ours['kept'] / events:,.0f}"
    )
    print(
        f"  orjson    loaded {theirs['cpu']:.2f} ({theirs['wall']:.2f} on the clock, gc off); "
        f"peak {theirs['peak'] / 1e6:,.0f} MB, {theirs['peak'] / events:,.0f} bytes per event"
    )
    print(
        f"  ratios    read {ours['read_cpu'] / theirs['cpu']:.2f}, loaded {ours['load_cpu'] / theirs['cpu']:.2f}, "
        f"usable {ours['cpu'] / theirs['cpu']:.2f}, memory 1/{theirs['peak'] / ours['peak']:.1f}"
    )


def child(what: str, trace: Path) -> dict[str, Any]:
    """One measurement of `tests.benchmarks.child`, in a process of its own."""
    command = [sys.executable, "-m", "tests.benchmarks.child", what, str(trace)]
    result = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    figures: dict[str, Any] = json.loads(result.stdout)
    return figures
