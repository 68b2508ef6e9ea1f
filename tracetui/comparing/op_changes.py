"""Changes on the CPU: one row per operator, annotation or runtime call of either side.

Rows are distinguished by name, without what differs from run to run; numbers in names of generated kernels are ignored
where needed to match. Times are per part, as in the ops pane; the self time of a row includes the view ops and
occupancy queries folded into it, so that the rows add up to the total.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tracetui.comparing.change_rows import CANNOT_TELL, FUSED_INTO, GONE, MARKS, NEW, note
from tracetui.comparing.kernel_changes import change_order, kernel_changes
from tracetui.comparing.measures import (
    OP,
    RUNTIME,
    CallKey,
    Calls,
    calls,
    is_generated,
    launch_gap,
    ops_within,
    versionless_name,
)
from tracetui.comparing.noise import (
    BEYOND_NOISE,
    CHANGES,
    Change,
    Difference,
    Spread,
    changes,
    difference,
    is_mixed,
    noises,
    other_steps,
    representative,
    shared_tick,
    spread,
    within_tick,
)
from tracetui.comparing.side import Side
from tracetui.frozen import frozen
from tracetui.linking.groups import distinct
from tracetui.linking.links import links
from tracetui.linking.trees import forest, nearest
from tracetui.model import columns as col
from tracetui.model.intervals import Bool, Int64
from tracetui.model.table import Column, Table, numbers, texts
from tracetui.model.trace import Float64
from tracetui.operators.costs import asynchronous_slices

OVERLAP = "what it calls overlaps, so that its self time counts as 0"
"""Reason why the self time of a row is undecided."""
ASYNCHRONOUS = "it is asynchronous and has no self time: compare its time with its children"
"""Reason of a row that has durations alone, which differ."""
_BEYOND_NOISE = tuple(map(CHANGES.index, BEYOND_NOISE))


@frozen
class _OpSide:
    """One side of the table, by row."""

    all_calls: Calls
    side: Side
    row: Int64
    """The row of each call."""
    into: Int64
    """The row into which each call is folded, -1 for none."""
    rows: int

    @cached_property
    def _alone(self) -> Int64:
        """Indices of the calls that stand for themselves."""
        return np.flatnonzero(self.into < 0)

    @cached_property
    def calls(self) -> Spread:
        """Calls per part."""
        alone = self._alone
        return spread(self.row[alone], self.all_calls.part[alone], None, self.rows, len(self.side))

    @cached_property
    def own(self) -> Spread:
        """Self time in ns, with that of calls folded into the row."""
        row = np.where(self.into >= 0, self.into, self.row)
        return spread(row, self.all_calls.part, self.all_calls.self_cpu, self.rows, len(self.side))

    @cached_property
    def overlapped(self) -> Bool:
        """Rows with a call whose self time measures nothing, folded calls included."""
        mask = np.zeros(self.rows, bool)
        mask[np.where(self.into >= 0, self.into, self.row)[self.all_calls.overlapped]] = True
        return mask

    @cached_property
    def untimed(self) -> Bool:
        """Rows with asynchronous slices, which have a duration and no self time."""
        mask = np.zeros(self.rows, bool)
        mask[self.row[np.isin(self.all_calls.row, asynchronous_slices(self.side.trace)[0])]] = True
        return mask

    @cached_property
    def total(self) -> Spread:
        """Total time in ns, with callees."""
        alone = self._alone
        cpu = self.all_calls.cpu[alone]
        return spread(self.row[alone], self.all_calls.part[alone], cpu, self.rows, len(self.side))

    @cached_property
    def there(self) -> Bool:
        """Rows with a call of their own on this side."""
        mask = np.zeros(self.rows, bool)
        mask[self.row[self._alone]] = True
        return mask

    def first(self) -> Int64:
        """The first slice of each row in the representative part, else in any part."""
        alone, slices = self._alone, self.side.trace.slices
        rows = self.all_calls.row[alone]
        others = self.all_calls.part[alone] != representative(self.side)
        order = np.lexsort((slices.start[rows], others))[::-1]
        first = np.full(self.rows, -1, np.int64)
        first[self.row[alone[order]]] = rows[order]
        return first

    def folded(self) -> dict[int, dict[int, float]]:
        """For each row the rows folded into it, and their calls per part."""
        inner = np.flatnonzero(self.into >= 0)
        pairs, member = np.unique(self.into[inner] * self.rows + self.row[inner], return_inverse=True)
        often = spread(member, self.all_calls.part[inner], None, len(pairs), len(self.side)).median
        folded: dict[int, dict[int, float]] = {}
        for pair, number in zip(pairs.tolist(), often.tolist(), strict=True):
            folded.setdefault(pair // self.rows, {})[pair % self.rows] = number
        return folded


def op_changes(a: Side, b: Side, unfold: bool = False) -> Table:
    """The rows of both sides, the largest change first; with `unfold`, view ops and queries are rows too.

    `slices` holds the first slice in A's representative part, or in B's where only B has the row.
    """
    keys, left, right, reach = _both_sides(a, b, unfold)
    kept = np.flatnonzero(left.there | right.there)
    into = _fused_into(a, b, keys, left.there, right.there)
    noise = np.fmax(noises(left.own, right.own), reach)
    names = [key.name for key in keys]
    first_a, first_b = left.first(), right.first()
    doubts = _doubts(keys, left, right)
    with np.errstate(divide="ignore", invalid="ignore"):
        percent = np.where(left.own.median > 0, 100 * (right.own.median - left.own.median) / left.own.median, np.nan)
    table = Table(
        (
            texts(col.MARK, _marks(left, right, noise, into, doubts)),
            texts(col.OP_NAME.but(help="Name; without what differs from run to run."), names),
            texts(
                col.KIND.but(help="Op, annotation, runtime call, wait for the GPU, or compile."),
                [key.kind for key in keys],
            ),
            numbers(col.CALLS_A.but(help="Calls in a part of A, at the middle."), left.calls.median),
            numbers(col.CALLS_B.but(help="Calls in a part of B, at the middle."), right.calls.median),
            numbers(col.SELF_CPU_A_US, left.own.median / 1000),
            numbers(col.SELF_CPU_B_US, right.own.median / 1000),
            numbers(col.CHANGE_US, (right.own.median - left.own.median) / 1000),
            numbers(col.CHANGE_PCT, percent),
            numbers(col.NOISE_US, noise / 1000),
            numbers(col.CPU_A_US, left.total.median / 1000),
            numbers(col.CPU_B_US, right.total.median / 1000),
            texts(col.FUSED_INTO, [into.get(row) for row in range(len(keys))]),
            *_folded_columns(left, right, names),
            texts(col.REMARK, [doubts.get(row) for row in range(len(keys))]),
        ),
        np.where(first_a >= 0, first_a, first_b),
        note(a, b),
    )
    table = table.take(kept)
    marks = [str(table["mark"].cell(row)) for row in range(len(table))]
    values = (np.asarray(table[name].values, np.float64) for name in ("change_us", "self_cpu_a_us"))
    return table.take(change_order(marks, *values))


def _both_sides(a: Side, b: Side, unfold: bool) -> tuple[list[CallKey], _OpSide, _OpSide, Float64]:
    """The keys of the rows, both sides by row, and the noise in ns that other steps tell; NaN without any."""
    both_calls = calls(a), calls(b)
    renamed = _renamed(*(set(each.keys) for each in both_calls))
    rows: dict[CallKey, int] = {}
    indices = [
        np.array([rows.setdefault(renamed.get(k, k), len(rows)) for k in each.keys], np.int64) for each in both_calls
    ]
    halves = []
    for side, each, index in zip((a, b), both_calls, indices, strict=True):
        into = np.append(index, -1)[each.into]
        none = np.full_like(into, -1)
        halves.append(_OpSide(each, side, index[each.key], none if unfold else into, len(rows)))
    reach = np.full(len(rows), np.nan)
    for others in other_steps(a, b):
        own_calls = calls(others.complete)
        index = np.array([rows.get(renamed.get(key, key), -1) for key in own_calls.keys] or [-1], np.int64)
        row = index[own_calls.key]
        row = row if unfold else np.where(own_calls.into >= 0, np.append(index, -1)[own_calls.into], row)
        listed = (row >= 0) & others.kept[own_calls.part]
        number = (np.cumsum(others.kept) - 1)[own_calls.part[listed]]
        own = spread(row[listed], number, own_calls.self_cpu[listed], len(rows), int(others.kept.sum()))
        reach = np.fmax(reach, own.reach)
    return list(rows), halves[0], halves[1], reach


def _renamed(left: set[CallKey], right: set[CallKey]) -> dict[CallKey, CallKey]:
    """New keys for names that only one side has, where the other side has them in another version."""
    loose: tuple[dict[CallKey, list[CallKey]], ...] = ({}, {})
    for keys, by_name in zip((left - right, right - left), loose, strict=True):
        for key in keys:
            by_name.setdefault(CallKey(key.kind, versionless_name(key.name)), []).append(key)
    shared = loose[0].keys() & loose[1].keys()
    return {key: wanted for wanted in shared for by_name in loose for key in by_name[wanted]}


def _marks(left: _OpSide, right: _OpSide, noise: Float64, into: dict[int, str], doubts: dict[int, str]) -> list[str]:
    tick = shared_tick(left.side.trace, right.side.trace, on_gpu=False)
    codes = changes(left.own.median, right.own.median, noise, tick=tick)
    most = np.maximum(left.calls.median, right.calls.median)
    # Without repetitions there is no noise to compare a difference with, but the clock has a tick.
    unclear = np.isnan(noise) & within_tick(right.own.median - left.own.median, most, tick)
    codes = np.where(unclear & np.isin(codes, _BEYOND_NOISE), CHANGES.index(Change.WITHIN_NOISE), codes)
    marks = [MARKS[CHANGES[code]] for code in codes.tolist()]
    rates = noises(left.calls, right.calls)
    often = changes(left.calls.median, right.calls.median, rates, exact=True).tolist()
    # What was recorded of single parts is the same, and the remark says what was not. Overlapped self times are no
    # values that could be equal.
    equal = (left.own.median == right.own.median) & (left.calls.median == right.calls.median)
    equal &= np.isnan(noise) & ~left.overlapped & ~right.overlapped
    equal &= ~_lasts_otherwise(left, right)
    if is_mixed(left.side) or is_mixed(right.side):
        marks = [CANNOT_TELL] * len(marks)
    for row, (in_a, in_b) in enumerate(zip(left.there.tolist(), right.there.tolist(), strict=True)):
        if row in into:
            marks[row] = FUSED_INTO
        elif in_a != in_b:
            marks[row] = (GONE if in_a else NEW) if often[row] in _BEYOND_NOISE else CANNOT_TELL
        if row in doubts and not equal[row]:
            marks[row] = CANNOT_TELL
    return marks


def _lasts_otherwise(left: _OpSide, right: _OpSide) -> Bool:
    """Mask of the rows of both sides that have no self time to compare, and not the same duration."""
    differs: Bool = left.total.median != right.total.median
    return differs & left.untimed & right.untimed & left.there & right.there


def _doubts(keys: list[CallKey], left: _OpSide, right: _OpSide) -> dict[int, str]:
    """Reasons of rows that are undecided: launches that were not all recorded, self times that measure nothing."""
    doubts, sides = {}, (("A", left.side), ("B", right.side))
    if reasons := [f"{mark}: {gap}" for mark, side in sides if (gap := launch_gap(side))]:
        launches = {
            side.trace.names[name]
            for _, side in sides
            for name in distinct(side.trace.slices.name[links(side.trace).launches]).tolist()
        }
        rows = (row for row, key in enumerate(keys) if key.kind == RUNTIME and key.name in launches)
        doubts = dict.fromkeys(rows, "; ".join(reasons))
    doubts |= dict.fromkeys(np.flatnonzero(_lasts_otherwise(left, right)).tolist(), ASYNCHRONOUS)
    for row in np.flatnonzero(left.overlapped | right.overlapped).tolist():
        names = " and ".join(mark for mark, each in (("A", left), ("B", right)) if each.overlapped[row])
        doubts[row] = "; ".join(filter(None, (doubts.get(row), f"{names}: {OVERLAP}")))
    return doubts


def _fused_into(a: Side, b: Side, keys: list[CallKey], in_a: Bool, in_b: Bool) -> dict[int, str]:
    """For operators that only A has, the kernel of B that replaces them, by its name or by matched kernels."""
    into, fusing = {}, _fusing(a, b)
    for kernel in (keys[row].name for row in np.flatnonzero(in_b & ~in_a).tolist()):
        for name in ops_within(kernel):
            fusing.setdefault(name, kernel)
    for row in np.flatnonzero(in_a & ~in_b).tolist():
        if keys[row].kind == OP and not is_generated(keys[row].name) and keys[row].name in fusing:
            into[row] = fusing[keys[row].name]
    return into


def _fusing(a: Side, b: Side) -> dict[str, str]:
    """Operators all of whose kernels went into other kernels, and the names of these."""
    kernels_of_op: dict[str, set[str]] = {}
    for row in kernel_changes(a, b).table.rows():
        name = str(row["name_b"] or "") if row["mark"] == FUSED_INTO else ""
        for op in str(row["op"] or "").split(", "):
            kernels_of_op.setdefault(op, set()).add(name)
    return {op: sorted(names)[0] for op, names in kernels_of_op.items() if "" not in names}


def _folded_columns(left: _OpSide, right: _OpSide, names: list[str]) -> tuple[Column, ...]:
    """Columns of the names folded into each row, and of their changes."""
    sides = left.folded(), right.folded()
    listed: list[str | None] = []
    changed: list[str | None] = []
    for row in range(len(names)):
        in_a, in_b = (each.get(row, {}) for each in sides)
        inner = list(dict.fromkeys([*in_a, *in_b]))
        listed.append(", ".join(names[each] for each in inner) or None)
        gone = [names[each] for each in inner if each not in in_b]
        new = [names[each] for each in inner if each not in in_a]
        both = [each for each in inner if each in in_a and each in in_b and in_a[each] != in_b[each]]
        parts = [f"{', '.join(some)} {word}" for some, word in ((gone, GONE), (new, NEW)) if some]
        changed.append(
            "; ".join([*parts, *(f"{names[each]} {in_a[each]:g} → {in_b[each]:g}" for each in both)]) or None
        )
    return (
        texts(col.FOLDED, listed),
        texts(col.FOLDED_CHANGE, changed),
    )


# Operators on the CPU that generated kernels replace, and generated kernels that replace other generated kernels.
#
# A replaced operator counts with everything it called that was replaced too: `masked_fill` works through a copy and
# `masked_fill_`, whose time is included. A callee that the other side calls as often as before is not counted.

Row = Mapping[str, Any]


@frozen
class OpFusion:
    """Operators or kernels of A that became other ones in B."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    times: Difference
    """CPU time in us, with the callees that were replaced too."""


@frozen
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
        is_wanted = [key.kind == OP and bool({key.name, versionless_name(key.name)} & wanted) for key in keys]
        mask: Bool = np.array(is_wanted, bool)[self.calls.key]
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


@frozen
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
    fused_a, fused_b = np.zeros(len(left.calls.row), bool), np.zeros(len(right.calls.row), bool)
    kept_a = [row["name"] for row in rows if 0 < row["calls_a"] <= row["calls_b"]]
    kept_b = [row["name"] for row in rows if 0 < row["calls_b"] <= row["calls_a"]]
    fusions = []
    for before, after in _groups(rows):
        mask_a, mask_b = left.with_inner(before, kept_a) & ~fused_a, right.with_inner(after, kept_b) & ~fused_b
        fused_a |= mask_a
        fused_b |= mask_b
        fusions.append(OpFusion(tuple(before), tuple(after), difference(left.self_us(mask_a), right.self_us(mask_b))))
    fusions.sort(key=lambda each: -max(each.times.a.median, each.times.b.median))
    return OpFusions(fusions, left, right, fused_a, fused_b)


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
