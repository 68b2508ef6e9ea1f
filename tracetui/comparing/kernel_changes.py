"""Changes of GPU activities: one row per kernel, copy or fill of either side, or per fused kernel (R3.50).

The rows hold all activities of the representative parts, each once. Times are per part, medians over all parts of a
side, so that a difference can be compared with the noise.

Bytes are those of the kernels pane. Of a fused kernel little is recorded: it moves what the operators moved that went
into it, less what one of them wrote and another read, which stays on the chip. That is an estimate; where the sizes of
its tensors were recorded, each tensor once is a lower bound, and the larger number is taken.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tracetui.comparing.change_rows import (
    CANNOT_TELL,
    FUSED_INTO,
    GONE,
    JOINED,
    MARKS,
    NEW,
    PAIRED,
    PARTED,
    SAME,
    SPLIT_INTO,
    ChangeRows,
    change_rows,
)
from tracetui.comparing.fusing import ActivityClass, activity_classes
from tracetui.comparing.match import FUSED, MATCH_KINDS, SPLIT, TAKEN_IN, Matching, even_pairs, in_launch_order, match
from tracetui.comparing.noise import (
    BEYOND_NOISE,
    Change,
    Difference,
    difference,
    other_steps,
    representative,
    shared_tick,
    within_tick,
)
from tracetui.comparing.side import Side
from tracetui.devices.formulas import Operands
from tracetui.devices.kernel_work import kernel_work
from tracetui.frozen import frozen
from tracetui.linking.groups import combinations
from tracetui.model import columns as col
from tracetui.model.intervals import Int64
from tracetui.model.table import Table, numbers, texts
from tracetui.model.trace import Float64, Trace
from tracetui.operators.key_averages import Signature

# The time of each table row in every part of a side, from which its median and noise follow.
#
# A row holds activities of the representative part. Each of them is paired with one of every other part: by class
# where both parts have equally many, else by name and operator, else by name, always in order of launch. A copy whose
# size changes from step to step is paired by its position. So the rows of a part with equally many activities of each
# name add up to its total.
#
# Where a part has another number of them, the mean time of a call of the class counts; for a class that it lacks, that
# of the sizes that only it has. Otherwise the row's time in that part is unknown.


def part_times(side: Side, rows: Int64, row: Int64, count: int) -> Float64:
    """Times in ns by part and table row, of the slices `rows`, in order of launch, in the table rows `row`.

    NaN is unknown. A table row without activities takes 0.
    """
    trace, work_classes = side.trace, activity_classes(side.trace)
    work = in_launch_order(trace, side.activities()[0])
    part = side.part_of(work)
    order = np.argsort(part, kind="stable")
    bounds = np.searchsorted(part[order], np.arange(len(side) + 1))
    own = _Own(work_classes.of(rows), row, work_classes.known)
    times = np.zeros((len(side), count))
    for index in range(len(side)):
        mine = work[order[bounds[index] : bounds[index + 1]]]
        times[index] = np.bincount(row, own.beside(work_classes.of(mine), side.times(mine)), count)
    return times


class _Own:
    """The activities of the representative part, in order of launch."""

    def __init__(self, number: Int64, row: Int64, known: list[ActivityClass]) -> None:
        self._number, self._row = number, row
        self._coarse = _ids([(work.plain, work.op) for work in known])
        names = _ids([(work.plain,) for work in known])
        self._levels = np.arange(len(known)), self._coarse, names

    def beside(self, number: Int64, dur: Int64) -> Float64:
        """Times in another part of the activities of the representative, given that part's classes and durations in
        order of launch.
        """
        if np.array_equal(number, self._number):
            return dur.astype(np.float64)
        times = np.full(len(self._number), np.nan)
        mine, theirs = np.arange(len(times)), np.arange(len(number))
        for keys in self._levels:
            pairs = even_pairs(keys[self._number[mine]], keys[number[theirs]])
            times[mine[pairs[0]]] = dur[theirs[pairs[1]]]
            mine, theirs = np.delete(mine, pairs[0]), np.delete(theirs, pairs[1])
        if len(mine) and len(theirs):
            times[mine] = self._estimated(mine, number[theirs], dur[theirs])
        return times

    def _estimated(self, mine: Int64, number: Int64, dur: Int64) -> Float64:
        """Times of activities of which a part has another number, from its remaining classes and durations."""
        own, size = self._number[mine], len(self._coarse)
        times = _means(number, dur, size)[own]
        lacking, strange = np.flatnonzero(np.isnan(times)), ~np.isin(number, own)
        wanted, given, dur = self._coarse[own[lacking]], self._coarse[number[strange]], dur[strange]
        # A mean of several sizes is that of a row as a whole, and not of one of them.
        entries = combinations(wanted, self._row[mine[lacking]])
        in_one_row = np.bincount(wanted[entries.first], minlength=size) == 1
        means = np.where(in_one_row, _means(given, dur, size), np.nan)
        times[lacking] = means[wanted]
        pairs = even_pairs(wanted, given)
        times[lacking[pairs[0]]] = dur[pairs[1]]
        return times


def _means(key: Int64, dur: Int64, size: int) -> Float64:
    """Mean time by key, NaN where a key does not occur."""
    calls = np.bincount(key, minlength=size)
    with np.errstate(invalid="ignore"):
        means: Float64 = np.bincount(key, dur, size) / calls
    return means


def _ids(keys: list[tuple[str, ...]]) -> Int64:
    """The same number for all classes with an equal key."""
    ids: dict[tuple[str, ...], int] = {}
    return np.array([ids.setdefault(key, len(ids)) for key in keys], np.int64)


ESTIMATED = "Bytes of fused kernels are estimated: those of the operators, less what no longer leaves the chip."
_SIZES = (1, 2, 4, 8, 16)
"""Possible sizes of an element in bytes."""
_COPY = "copy_"
_TAKEN_IN = [MATCH_KINDS.index(how) for how in TAKEN_IN]


@frozen
class ChangeBytes:
    """Bytes of each table row; NaN where they are not known for all its activities."""

    a: Float64
    b: Float64
    estimated: bool
    """Some are estimates."""


def change_bytes(a: Trace, b: Trace, matching: Matching, rows: ChangeRows) -> ChangeBytes:
    """The bytes of each row."""
    count = len(rows.how)
    moved = [_sums(a, matching.rows_a, rows.row_a, count), _sums(b, matching.rows_b, rows.row_b, count)]
    estimated = False
    side_a = _SideBytes(a, matching.rows_a, rows.row_a, matching.partner)
    side_b = _SideBytes(b, matching.rows_b, rows.row_b, matching.partner_b)
    for many, apart, whole in ((JOINED, side_a, side_b), (PARTED, side_b, side_a)):
        known = moved[1 if many == JOINED else 0]
        for index in np.flatnonzero((rows.many == many) & np.isin(rows.how, _TAKEN_IN)).tolist():
            guess = _estimate(apart, whole, index)
            if math.isnan(guess) or not (
                np.isnan(known[index]) or whole.classes(np.flatnonzero(whole.row == index)[:1])[0].is_generated
            ):
                continue
            estimated |= not known[index] >= guess
            known[index] = np.fmax(known[index], guess)
    return ChangeBytes(moved[0], moved[1], estimated)


def _sums(trace: Trace, rows: Int64, row: Int64, count: int) -> Float64:
    """Bytes by table row; helper kernels of a call add nothing."""
    work = kernel_work(trace)
    at = work.at(rows)
    helps = (work.main[at] >= 0) & (work.main[at] != at)
    sums = np.bincount(row, np.where(helps, 0, work.bytes[at]), count).astype(np.float64)
    only_help = np.bincount(row, ~helps, count) == 0
    sums[only_help & (np.bincount(row, minlength=count) > 0)] = np.nan
    return sums


@frozen
class _SideBytes:
    """The activities of one side."""

    trace: Trace
    rows: Int64
    row: Int64
    partner: Int64

    def classes(self, indices: Int64) -> list[ActivityClass]:
        """The class of each of some activities."""
        work_classes = activity_classes(self.trace)
        return [work_classes.known[number] for number in work_classes.of(self.rows[indices]).tolist()]


def _estimate(apart: _SideBytes, whole: _SideBytes, row: int) -> float:
    """Bytes of the fused kernels of a row, from the activities that went into them; NaN where that is not known.

    All of the fused kernels must have taken in the same activities.
    """
    taken_in, kernels = np.flatnonzero(apart.row == row), np.flatnonzero(whole.row == row)
    first = taken_in[apart.partner[taken_in] == kernels[0]]
    work_classes = activity_classes(apart.trace)
    of_one, of_all = (
        np.bincount(work_classes.of(apart.rows[indices]), minlength=len(work_classes.known))
        for indices in (first, taken_in)
    )
    if (of_one * len(kernels) != of_all).any():
        return math.nan
    work = kernel_work(apart.trace)
    moved = work.bytes[work.at(apart.rows[first])]
    each = list(zip(apart.classes(first), moved.tolist(), strict=True))
    return len(kernels) * _less_what_stays(each)


def _less_what_stays(members: Sequence[tuple[ActivityClass, float]]) -> float:
    """The bytes of operators in order, without what one writes and later ones read."""
    total = 0.0
    written: list[_Tensor] = []
    read: set[int] = set()
    for work, moved in members:
        if work.signature is None:
            return math.nan
        inputs, output = _tensors(work.op, work.signature, moved)
        total += moved
        within = [index for index in range(len(written)) if written[index] in inputs]
        for tensor in inputs:
            index = next((index for index in reversed(within) if written[index] == tensor), -1)
            if index >= 0:
                within.remove(index)
                read.add(index)
                total -= tensor.bytes
        written += [output] if output else []
    return total - sum(written[index].bytes for index in read)


class _Tensor(NamedTuple):
    """A tensor, in whatever view."""

    elements: int
    bytes: float


def _tensors(op: str, signature: Signature, moved: float) -> tuple[list[_Tensor], _Tensor | None]:
    """The tensors that an operator reads, and the one it writes where that is as large as the largest input."""
    given = Operands(signature)
    inputs = []
    for index in range(len(signature.dims)):
        shape, size = given.shape(index), given.bytes(index)
        if shape and size:
            inputs.append(_Tensor(math.prod(shape), size))
    if op.endswith(_COPY) and len(inputs) > 1:
        return inputs[1:2], inputs[0]
    elements = max((tensor.elements for tensor in inputs), default=0)
    left = moved - sum(tensor.bytes for tensor in inputs)
    return inputs, _Tensor(elements, left) if elements and left / elements in _SIZES else None


MORE_CALLS, FEWER_CALLS, GENERATED = "more calls", "fewer calls", "same op, generated"
"""Shown in place of the kind of match: one side has more calls; torch.compile generated the kernel of one op."""


@frozen
class KernelChanges:
    """The table, and the activities behind each of its rows."""

    table: Table
    rows_a: list[Int64]
    """For each table row the slices of A's representative part, in order of launch."""
    rows_b: list[Int64]
    part_a: int
    """Index of the representative part; -1 for a side without parts."""
    part_b: int


def kernel_changes(a: Side, b: Side) -> KernelChanges:
    """The GPU activities of the representative parts of two sides, the largest change first; computed once."""
    return a.trace.keep(("kernel changes", a.scope, b.trace, b.scope), lambda: _kernel_changes(a, b))


def _kernel_changes(a: Side, b: Side) -> KernelChanges:
    part_a, part_b = representative(a), representative(b)
    matching = match(a, part_a, b, part_b)
    rows = change_rows(a.trace, b.trace, matching)
    halves = (
        _KernelSide(a, matching.rows_a, rows.row_a, len(rows.how)),
        _KernelSide(b, matching.rows_b, rows.row_b, len(rows.how)),
    )
    tick, count = shared_tick(a.trace, b.trace, on_gpu=True) / 1000, len(rows.how)
    reach = np.full(count, np.nan)
    for each in other_steps(a, b):
        for side, slices, row in ((a, matching.rows_a, rows.row_a), (b, matching.rows_b, rows.row_b)):
            if each.complete.trace is side.trace:
                reach = np.fmax(reach, each.reach(part_times(each.complete, slices, row, count)) / 1000)
    both = zip(halves[0].times.T, halves[1].times.T, reach.tolist(), strict=True)
    differences = [difference(before, after, False, tick, others) for before, after, others in both]
    calls = np.maximum(halves[0].calls, halves[1].calls).astype(np.float64)
    # Without repetitions there is no noise to compare a difference with, but the clock has a tick.
    amounts, noise = (np.array([getattr(each, name) for each in differences]) for name in ("delta", "noise"))
    unclear = within_tick(amounts, calls, tick) & np.isnan(noise)
    changes = [
        Change.WITHIN_NOISE if open_one and each.change in BEYOND_NOISE else each.change
        for each, open_one in zip(differences, unclear.tolist(), strict=True)
    ]
    table = _table(rows, *halves, differences, changes, change_bytes(a.trace, b.trace, matching, rows))
    marks = [str(table["mark"].cell(row)) for row in range(len(table))]
    order = change_order(marks, *(np.asarray(table[name].values, np.float64) for name in ("change_us", "a_us")))
    behind_a, behind_b = ([half.slices[index] for index in order.tolist()] for half in halves)
    return KernelChanges(table.take(order), behind_a, behind_b, part_a, part_b)


class _KernelSide:
    """The activities of one side by table row."""

    def __init__(self, side: Side, rows: Int64, row: Int64, count: int) -> None:
        self.trace: Trace = side.trace
        order = np.argsort(row, kind="stable")
        self.calls = np.bincount(row, minlength=count)
        self.slices = np.split(rows[order], np.cumsum(self.calls)[:-1]) if count else []
        self.times = part_times(side, rows, row, count) / 1000

    def classes(self, index: int) -> list[ActivityClass]:
        """The distinct classes in a row, in order of their first launch."""
        known = activity_classes(self.trace)
        return [known.known[number] for number in dict.fromkeys(known.of(self.slices[index]).tolist())]


def _table(
    rows: ChangeRows,
    a: _KernelSide,
    b: _KernelSide,
    differences: Sequence[Difference],
    changes: Sequence[Change],
    moved: ChangeBytes,
) -> Table:
    kinds = [(a.classes(index), b.classes(index)) for index in range(len(rows.how))]
    marks = [
        _mark(rows, index, changes[index], (int(a.calls[index]), int(b.calls[index]))) for index in range(len(rows.how))
    ]
    before = np.array([each.a.median for each in differences], np.float64)
    after = np.array([each.b.median for each in differences], np.float64)
    noise = np.array([each.noise for each in differences], np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        percent = np.where(before > 0, 100 * (after - before) / before, np.nan)
    columns = (
        texts(col.MARK, marks),
        texts(col.SHORT_NAME, [_short_name(*each) for each in kinds]),
        texts(col.FAMILY, [_family(*each) for each in kinds]),
        texts(
            col.OP.but(help="The operators that launched it in A; in B of what is new. ~: captured it into a graph."),
            [_ops(*each) for each in kinds],
        ),
        texts(col.HOW, [_how(rows, index, a, b) for index in range(len(rows.how))]),
        numbers(col.CALLS_A, a.calls),
        numbers(col.CALLS_B, b.calls),
        numbers(col.A_US, before),
        numbers(col.B_US, after),
        numbers(col.CHANGE_US, after - before),
        numbers(col.CHANGE_PCT, percent),
        numbers(col.NOISE_US, noise),
        texts(col.CHANGE, [each.value for each in changes]),
        numbers(col.A_BYTES, moved.a),
        numbers(col.B_BYTES, moved.b),
        numbers(col.CHANGE_BYTES, moved.b - moved.a),
        texts(col.NAME_A, [_names(each[0]) for each in kinds]),
        texts(col.NAME_B, [_names(each[1]) for each in kinds]),
    )
    return Table(columns, doubts={ESTIMATED: ("a_bytes", "b_bytes", "change_bytes")} if moved.estimated else {})


def _mark(rows: ChangeRows, index: int, change: Change, calls: tuple[int, int]) -> str:
    if 0 in calls:
        return GONE if calls[0] else NEW
    if rows.many[index] != PAIRED and calls[0] != calls[1] and MATCH_KINDS[rows.how[index]] in TAKEN_IN:
        return FUSED_INTO if rows.many[index] == JOINED else SPLIT_INTO
    return MARKS[change]


def _how(rows: ChangeRows, index: int, a: _KernelSide, b: _KernelSide) -> str | None:
    """The kind of match, or that one side has more calls; None without a partner."""
    if rows.how[index] < 0:
        return None
    surplus, how = int(b.calls[index] - a.calls[index]), MATCH_KINDS[rows.how[index]]
    if rows.many[index] != PAIRED:
        return GENERATED if surplus == 0 and how in (FUSED, SPLIT) else how
    return how if surplus == 0 else MORE_CALLS if surplus > 0 else FEWER_CALLS


def _short_name(a: list[ActivityClass], b: list[ActivityClass]) -> str:
    """The short names of both sides where they differ."""
    sides = [", ".join(dict.fromkeys(each.decoded.short or each.plain for each in side)) for side in (a, b) if side]
    return " → ".join(dict.fromkeys(sides))


def _family(a: list[ActivityClass], b: list[ActivityClass]) -> str:
    """The family of all activities of A, else of the first of B."""
    families = {each.decoded.family for each in a} or {each.decoded.family for each in b}
    return (families.pop() if len(families) == 1 else (b or a)[0].decoded.family).name.lower()


def _ops(a: list[ActivityClass], b: list[ActivityClass]) -> str | None:
    """The operators of A, of B where A has none; `~` stands before those that captured it into a graph."""
    for side in (a, b):
        ops = list(dict.fromkeys(f"{'~' * each.is_captured}{each.op}" for each in side if each.op))
        if ops:
            return ", ".join(ops)
    return None


def _names(side: list[ActivityClass]) -> str | None:
    return " + ".join(dict.fromkeys(each.name for each in side)) or None


def change_order(marks: Sequence[str], change: Float64, before: Float64) -> Int64:
    """Order of rows: changed ones first, then the others; in both the largest change first, then the longest."""
    is_quiet = np.isin(np.array(marks, object), (CANNOT_TELL, SAME))
    return np.lexsort((-np.nan_to_num(before), -np.abs(np.nan_to_num(change)), is_quiet))
