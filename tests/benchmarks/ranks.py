"""The table of many ranks, the first time and again, and of a few ranks beside HTA's loader."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.benchmarks.context import Context
from tests.benchmarks.large_trace import rank_set
from tests.benchmarks.peers import HTA, PeerMissing, interpreter, peer_folder
from tests.benchmarks.processes import Figures, MeasurementError, printed_figures, timed_command
from tests.benchmarks.runs import best, collected

MANY, FEW = 512, 8
"""Ranks of the two sets."""
PEER_CHILD = Path(__file__).with_name("peer_child.py")


def run(context: Context) -> dict[str, Any]:
    """Seconds and memory of `tracetui ranks` on the large set, cold and again, and on the small one beside HTA."""
    many, few = rank_set(MANY), rank_set(FEW)
    rounds: dict[str, list[Figures]] = {"first": [], "again": [], "few": []}
    for _ in range(context.rounds):
        with tempfile.TemporaryDirectory() as cache:
            rounds["first"].append(table_of(many, cache))
            rounds["again"].append(table_of(many, cache))
            rounds["few"].append(table_of(few, cache))
    results: dict[str, Any] = {name: collected(figures) for name, figures in rounds.items()}
    for name, side in results.items():
        print(f"  {name:6} {best(side, 'wall'):.2f} s on the clock, {best(side, 'peak') / 1e6:.0f} MB")
    results["hta"], results["missing"] = beside_hta(few)
    return results


def table_of(folder: Path, cache: str) -> Figures:
    """The whole command, with a cache in a folder; the peak is that of its largest process.

    Raises: MeasurementError.
    """
    command = [sys.executable, "-m", "tracetui", "ranks", str(folder), "--limit", "1"]
    return timed_command(command, {"XDG_CACHE_HOME": cache})


def beside_hta(folder: Path) -> tuple[Figures | None, str]:
    """What HTA's loader takes for the same ranks, or why that is not known."""
    try:
        HTA.prepare(peer_folder(HTA.name))
        python = interpreter(peer_folder(HTA.name))
        figures = printed_figures([str(python), str(PEER_CHILD), "HTA-ranks", str(folder)])
    except (PeerMissing, MeasurementError) as error:
        return None, " ".join(str(error).split())[:300]
    print(f"  HTA    {figures['wall']:.2f} s on the clock for {figures['ranks']} ranks")
    return figures, ""
