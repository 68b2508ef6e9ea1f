"""Two programs that have next to nothing in common: of these no time is a speed-up, and none explains the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tracetui.analysis.comparing.changes.kernel_changes import kernel_changes
from tracetui.analysis.comparing.changes.totals_table import Total
from tracetui.analysis.comparing.sentences.words import per, percent, unit
from tracetui.analysis.comparing.sides.calls import OP
from tracetui.analysis.comparing.sides.noise import Change
from tracetui.analysis.comparing.sides.side import Side
from tracetui.analysis.comparing.sides.traits import traits

Row = Mapping[str, Any]

ALIEN = (20.0, 50.0)
"""Percent of the GPU time of one side, and of the other: where less has a counterpart, the work is other work.

Of a program from which most was taken out all that is left has one.
"""
SHARED = 0.25
"""Of the calls of operators on the side that has more of them: with fewer of the same names it is another program."""
TIMES = {"gpu_span_us": "GPU{}, from the first kernel to the last", "gpu_busy_us": "GPU time{}", "cpu_us": "CPU time{}"}
"""The times that are told beside each other."""
COUNTS = {"kernels": "Kernels{}", "cpu_ops": "Operators{}"}


def in_common(rows: Sequence[Row]) -> tuple[float, float]:
    """Percent of each side's GPU time that has a counterpart, from the rows of the table of kernels."""
    shares = []
    for mine, other, us in (("calls_a", "calls_b", "a_us"), ("calls_b", "calls_a", "b_us")):
        total = sum(row[us] for row in rows if row[mine])
        shares.append(100 * sum(row[us] for row in rows if row[mine] and row[other]) / total if total else 100.0)
    return shares[0], shares[1]


def shared_calls(ops: Sequence[Row]) -> float:
    """The share of the calls of operators that both sides make, of those of the side that makes more; 1 for none."""
    mine = [row for row in ops if row["kind"] == OP]
    larger = max(sum(row["calls_a"] for row in mine), sum(row["calls_b"] for row in mine))
    shared: float = sum(min(row["calls_a"], row["calls_b"]) for row in mine)
    return shared / larger if larger else 1.0


def strangers(a: Side, b: Side, ops: Sequence[Row], names: tuple[str, str] = ("A", "B")) -> str:
    """That the sides are two programs, as a sentence; empty where they are not."""
    if not (len(a.work()[0]) and len(b.work()[0])):
        return ""
    shares = in_common(list(kernel_changes(a, b).table.rows()))
    if min(shares) >= ALIEN[0] or max(shares) >= ALIEN[1] or shared_calls(ops) >= SHARED:
        return ""
    one, other = names
    held = f"of {one}'s GPU time {percent(shares[0])} has a counterpart in {other}, of {other}'s {percent(shares[1])}"
    return f"These are not the same program: {held} one in {one}. What follows are numbers of each, and no speed-up."


def times_apart(a: Side, b: Side, totals: Mapping[str, Total]) -> Iterator[str]:
    """Times, counts and verdicts of both sides beside each other."""
    for name, words in TIMES.items():
        if (each := totals.get(name)) and each.difference.change is not Change.UNKNOWN:
            before, after = each.difference.a.median, each.difference.b.median
            scales = unit((before,)), unit((after,))
            yield f"{words.format(per(a, b))}: A {scales[0].one(before)}, B {scales[1].one(after)}."
    for name, words in COUNTS.items():
        if (each := totals.get(name)) and each.difference.change is not Change.UNKNOWN:
            before, after = each.difference.a.median, each.difference.b.median
            yield f"{words.format(per(a, b))}: A {before:,g}, B {after:,g}."
    left, right = traits(a).verdict, traits(b).verdict
    if left and right and left != right:
        yield f"What holds each back: A is {left}, B is {right}."
