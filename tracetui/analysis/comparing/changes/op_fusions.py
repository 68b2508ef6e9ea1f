"""What became of whole calls on the CPU: operators that a generated kernel does the work of, and kernels of kernels.

What went into a kernel is weighed with all that it called and that went with it: `masked_fill` works through a copy
and `masked_fill_`, and beside the kernel that took its place stands their time too. What it called and the other side
calls as often as before is work that stayed, and is not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tracetui.analysis.common.trees import forest, nearest
from tracetui.analysis.comparing.changes.change_rows import FUSED_INTO, GONE, NEW
from tracetui.analysis.comparing.sides.calls import OP, Calls, calls
from tracetui.analysis.comparing.sides.noise import Difference, difference
from tracetui.analysis.comparing.sides.op_names import is_generated, ops_within, versionless_name
from tracetui.analysis.comparing.sides.side import Side
from tracetui.model.intervals import Bool, Int64
from tracetui.model.trace import Float64

Row = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class OpFusion:
    """Operators or kernels of A that are other ones in B."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    times: Difference
    """CPU time in us, of each with all that it called and that went with it."""


@dataclass(frozen=True, eq=False)
class CallTimes:
    """The calls of one side, some of them taken together."""

    side: Side

    @cached_property
    def calls(self) -> Calls:
        """The calls themselves."""
        return calls(self.side)

    @cached_property
    def _parent(self) -> Int64:
        return forest(self.side.trace, self.calls.row)

    def of(self, names: Iterable[str]) -> Bool:
        """Mask of the operators of these names."""
        wanted = frozenset(names)
        keys = self.calls.keys
        held = [key.kind == OP and bool({key.name, versionless_name(key.name)} & wanted) for key in keys]
        mask: Bool = np.array(held, bool)[self.calls.key]
        return mask

    def with_inner(self, names: Iterable[str], but: Iterable[str]) -> Bool:
        """Mask of the operators of these names and of all within them, but not of the others' subtrees."""
        mine, others = self.of(names), self.of(but)
        others &= ~mine
        above = nearest(self._parent, mine | others)
        within: Bool = mine | (~others & (above >= 0) & mine[above])
        return within

    def self_us(self, mask: Bool) -> Float64:
        """CPU time of each part in us, outside of what the calls of the mask called."""
        sums = np.bincount(self.calls.part[mask], self.calls.self_cpu[mask], len(self.side)) / 1000
        return sums.astype(np.float64)

    def count(self, mask: Bool) -> Float64:
        """Calls of each part."""
        return np.bincount(self.calls.part[mask], minlength=len(self.side)).astype(np.float64)


@dataclass(frozen=True, eq=False)
class OpFusions:
    """All that became something else, the longest first, and what is left of both sides without it."""

    fusions: Sequence[OpFusion]
    a: CallTimes
    b: CallTimes
    fused_a: Bool
    """Mask of the calls of A whose time is in one of the fusions."""
    fused_b: Bool


def op_fusions(a: Side, b: Side, rows: Sequence[Row]) -> OpFusions:
    """The fusions of two sides, of the rows of `op_changes`."""
    left, right = CallTimes(a), CallTimes(b)
    told_a, told_b = np.zeros(len(left.calls.row), bool), np.zeros(len(right.calls.row), bool)
    kept_a = [row["name"] for row in rows if 0 < row["calls_a"] <= row["calls_b"]]
    kept_b = [row["name"] for row in rows if 0 < row["calls_b"] <= row["calls_a"]]
    made = []
    for before, after in _groups(rows):
        mask_a, mask_b = left.with_inner(before, kept_a) & ~told_a, right.with_inner(after, kept_b) & ~told_b
        told_a |= mask_a
        told_b |= mask_b
        made.append(OpFusion(tuple(before), tuple(after), difference(left.self_us(mask_a), right.self_us(mask_b))))
    made.sort(key=lambda each: -max(each.times.a.median, each.times.b.median))
    return OpFusions(made, left, right, told_a, told_b)


def _groups(rows: Sequence[Row]) -> list[tuple[list[str], list[str]]]:
    """The names that became other names."""
    lost = [str(row["name"]) for row in rows if row["mark"] == GONE and is_generated(row["name"])]
    made = [str(row["name"]) for row in rows if row["mark"] == NEW and is_generated(row["name"])]
    into: dict[str, list[str]] = {}
    for row in rows:
        if row["mark"] == FUSED_INTO:
            into.setdefault(str(row["fused_into"]), []).append(str(row["name"]))
    alike = _alike(lost, made)
    joined = [([*into.pop(after[0], []), *before] if len(after) == 1 else before, after) for before, after in alike]
    taken = {name for before, _ in alike for name in before}
    fresh = [str(row["name"]) for row in rows if row["mark"] == NEW and row["kind"] == OP]
    parted = [([name], [op for op in fresh if op in ops_within(name)]) for name in lost if name not in taken]
    return [*((before, [after]) for after, before in into.items()), *joined, *(pair for pair in parted if pair[1])]


def _alike(lost: Sequence[str], made: Sequence[str]) -> list[tuple[list[str], list[str]]]:
    """Generated kernels of both sides that do the work of the same operators: each with those most like it."""
    groups: list[tuple[list[str], list[str]]] = []
    for name in lost:
        other = max(made, key=lambda each: _share(name, each), default="")
        if _share(name, other) > 0:
            mine = next((group for group in groups if other in group[1]), None)
            if mine is None:
                groups.append(([name], [other]))
            else:
                mine[0].append(name)
    known = {name for _, after in groups for name in after}
    for name in (each for each in made if each not in known):
        other = max(lost, key=lambda each: _share(each, name), default="")
        mine = next((group for group in groups if other in group[0] and _share(other, name) > 0), None)
        if mine is not None:
            mine[1].append(name)
    return groups


def _share(name: str, other: str) -> float:
    """How many of the operators of two generated kernels both have."""
    left, right = ops_within(name), ops_within(other)
    return len(left & right) / len(left | right) if left | right else 0.0
