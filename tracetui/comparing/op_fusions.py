"""Operators on the CPU that generated kernels replace, and generated kernels that replace other generated kernels.

A replaced operator counts with everything it called that was replaced too: `masked_fill` works through a copy and
`masked_fill_`, whose time is included. A callee that the other side calls as often as before is not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tracetui.comparing.calls import OP, Calls, calls
from tracetui.comparing.change_rows import FUSED_INTO, GONE, NEW
from tracetui.comparing.noise import Difference, difference
from tracetui.comparing.op_names import is_generated, ops_within, versionless_name
from tracetui.comparing.side import Side
from tracetui.linking.trees import forest, nearest
from tracetui.model.intervals import Bool, Int64
from tracetui.model.trace import Float64

Row = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class OpFusion:
    """Operators or kernels of A that became other ones in B."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    times: Difference
    """CPU time in us, with the callees that were replaced too."""


@dataclass(frozen=True, eq=False)
class CallTimes:
    """Times and numbers of calls of one side, for groups of names."""

    side: Side

    @cached_property
    def calls(self) -> Calls:
        """All calls of the side."""
        return calls(self.side)

    @cached_property
    def _parent(self) -> Int64:
        return forest(self.side.trace, self.calls.row)

    def of(self, names: Iterable[str]) -> Bool:
        """Mask of the operators with these names."""
        wanted = frozenset(names)
        keys = self.calls.keys
        held = [key.kind == OP and bool({key.name, versionless_name(key.name)} & wanted) for key in keys]
        mask: Bool = np.array(held, bool)[self.calls.key]
        return mask

    def with_inner(self, names: Iterable[str], but: Iterable[str]) -> Bool:
        """Mask of the operators with these names and everything within them, except the subtrees of `but`."""
        mine, others = self.of(names), self.of(but)
        others &= ~mine
        above = nearest(self._parent, mine | others)
        within: Bool = mine | (~others & (above >= 0) & mine[above])
        return within

    def self_us(self, mask: Bool) -> Float64:
        """CPU time per part in us of the calls of a mask, without callees outside of it."""
        sums = np.bincount(self.calls.part[mask], self.calls.self_cpu[mask], len(self.side)) / 1000
        return sums.astype(np.float64)

    def count(self, mask: Bool) -> Float64:
        """Calls per part."""
        return np.bincount(self.calls.part[mask], minlength=len(self.side)).astype(np.float64)


@dataclass(frozen=True, eq=False)
class OpFusions:
    """All fusions, the longest first, and the calls of both sides."""

    fusions: Sequence[OpFusion]
    a: CallTimes
    b: CallTimes
    fused_a: Bool
    """Mask of the calls of A whose time is part of a fusion."""
    fused_b: Bool


def op_fusions(a: Side, b: Side, rows: Sequence[Row]) -> OpFusions:
    """The fusions of two sides, from the rows of `op_changes`."""
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
    """Groups of names of A and the names of B that replace them."""
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
    """Generated kernels of both sides grouped by the operators they share most."""
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
    """Share of the operators of two generated kernels that both have."""
    left, right = ops_within(name), ops_within(other)
    return len(left & right) / len(left | right) if left | right else 0.0
