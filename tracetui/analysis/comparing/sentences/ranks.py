"""Which ranks of a distributed job two sides are, as the profiler writes it into a trace.

Ranks of one job run at the same time, and wait for each other in every collective: how long one of them is in there
says how late the others came. By their ids nothing tells jobs apart; what was recorded at the same time is one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tracetui.analysis.comparing.sides.side import Side
from tracetui.model.trace import Trace

KEY = "distributedInfo"
WAITS = "a collective waits for the slowest rank, so the time in it says who waited, not what is slow"


class Rank(NamedTuple):
    """One of the processes of a job."""

    number: int
    of: int


def rank(trace: Trace) -> Rank | None:
    """The rank that recorded a trace; None where the file does not say."""
    about = trace.metadata.get(KEY)
    if not isinstance(about, Mapping):
        return None
    number, of = about.get("rank"), about.get("world_size")
    return Rank(number, of) if isinstance(number, int) and isinstance(of, int) and 0 <= number < of else None


def are_ranks(a: Side, b: Side) -> bool:
    """Whether both sides are different ranks of as many."""
    left, right = rank(a.trace), rank(b.trace)
    return left is not None and right is not None and left.of == right.of and left.number != right.number


def is_one_job(a: Side, b: Side) -> bool:
    """Whether they are ranks that were recorded at the same time."""
    (low_a, high_a), (low_b, high_b) = _when(a.trace), _when(b.trace)
    return are_ranks(a, b) and low_a < high_b and low_b < high_a


def ranks_told(a: Side, b: Side, names: tuple[str, str]) -> Iterator[str]:
    """That the sides are different ranks, or of jobs of different size; nothing where they are not."""
    left, right = rank(a.trace), rank(b.trace)
    if left is None or right is None:
        return
    both = " and ".join(names)
    if left.of != right.of:
        yield f"Different numbers of ranks: {left.of} and {right.of}."
    elif is_one_job(a, b):
        yield f"{both} are ranks {left.number} and {right.number} of one job of {left.of}: {WAITS}."
    elif left.number != right.number:
        yield f"{both} are different ranks, {left.number} and {right.number} of {left.of}: {WAITS}."


def _when(trace: Trace) -> tuple[int, int]:
    """The first and the last moment of a trace by the clock on the wall, in ns."""
    return trace.origin_ns + trace.window[0], trace.origin_ns + trace.window[1]
