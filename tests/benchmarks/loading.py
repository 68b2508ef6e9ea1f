"""Loading traces beside `orjson.loads` and beside other programs, in turns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.benchmarks.context import Context
from tests.benchmarks.peers import Peer, measured_peer
from tests.benchmarks.processes import Figures, MeasurementError, available_memory, measured_child
from tests.benchmarks.runs import best, collected

ORJSON_MEMORY = 9
"""Bytes that `orjson.loads` takes per byte of the trace, from above."""


def run(context: Context) -> dict[str, Any]:
    """Measure the middle and the large trace; what was measured, by trace."""
    if context.trace is not None:
        return {"named": beside_peers(context.trace, context)}
    return {"middle": beside_peers(context.middle, context), "large": beside_peers(context.large, context)}


def beside_peers(trace: Path, context: Context) -> dict[str, Any]:
    """Every side in turns, round by round; those that could not be measured under `missing`."""
    rounds: dict[str, list[Figures]] = {}
    missing = dict(context.missing)
    for number in range(context.rounds):
        for name, memory, measure, is_slow in sides(context.peers):
            if name in missing or (number and is_slow):
                continue
            try:
                require_memory(memory * trace.stat().st_size)
                figures = measure(trace)
            except MeasurementError as reason:
                missing[name] = str(reason)
                continue
            rounds.setdefault(name, []).append(figures)
    runs = {name: collected(figures) for name, figures in rounds.items()}
    size = trace.stat().st_size
    print(f"  {size / 1e6:,.0f} MB, best of {context.rounds} rounds")
    for name, side in runs.items():
        print(f"  {words(name, side, runs['tracetui'], size)}", flush=True)
    for name, why in missing.items():
        print(f"  {name:18} not measured: {why}")
    return {"bytes": size, "sides": runs, "missing": missing}


def sides(peers: list[Peer]) -> list[tuple[str, float, Callable[[Path], Figures], bool]]:
    """Name, memory per byte, how to measure, and whether one round has to do."""
    return [
        ("tracetui", 1, lambda trace: measured_child("tracetui", trace), False),
        ("orjson", ORJSON_MEMORY, lambda trace: measured_child("orjson", trace), False),
        *(
            (peer.name, peer.memory, lambda trace, peer=peer: measured_peer(peer, trace), peer.is_slow)
            for peer in peers
        ),
    ]


def require_memory(needed: float) -> None:
    """Raises: MeasurementError where the machine has less memory to give than is needed."""
    available = available_memory()
    if available is not None and available < needed:
        raise MeasurementError(f"takes up to {needed / 1e9:.0f} GB of memory, and {available / 1e9:.0f} GB are free")


def words(name: str, side: dict[str, Any], ours: dict[str, Any], size: int) -> str:
    """One side on a line."""
    cpu, wall, peak = best(side, "cpu"), best(side, "wall"), best(side, "peak")
    read = f"read {best(side, 'read_cpu'):.2f}, loaded {best(side, 'load_cpu'):.2f}, " if "read_cpu" in side else ""
    counts = f"{side['events']:,} events" + (f", {side['activities']:,} of a GPU" if side["activities"] else "")
    shares = f"{best(ours, 'cpu') / cpu:.2f} of the CPU time, {best(ours, 'wall') / wall:.2f} of the wall time"
    return (
        f"{name:18} {read}{cpu:.2f} CPU s, {wall:.2f} s on the clock, {size / 1e6 / cpu:,.0f} MB/s; peak "
        f"{peak / 1e6:,.0f} MB; tracetui takes {shares} and 1/{peak / best(ours, 'peak'):.1f} of the memory; {counts}"
    )
