"""Bytes that the kernels of a row must move in either part, and how many fusing saved.

Bytes are those of the kernels pane. Of a fused kernel little is recorded: it moves what the operators moved that went
into it, less what one of them wrote and another read, which stays on the chip. That is an estimate. Where the sizes of
its tensors were recorded it moves at least these, each once, and the larger of the two numbers stands.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tracetui.analysis.comparing.changes.change_rows import JOINED, PARTED, ChangeRows
from tracetui.analysis.comparing.matching.classes import WorkClass, classes
from tracetui.analysis.comparing.matching.match import HOWS, TAKEN_IN, Matching
from tracetui.analysis.operators.signatures import Signature
from tracetui.analysis.work.kernel_work import kernel_work
from tracetui.analysis.work.operands import Operands
from tracetui.model.intervals import Int64
from tracetui.model.table import Column, numbers
from tracetui.model.trace import Float64, Trace

ESTIMATED = "Bytes of fused kernels are estimated: those of the operators, less what no longer leaves the chip."
_SIZES = (1, 2, 4, 8, 16)
"""Bytes that an element can have."""
_COPY = "copy_"
_TAKEN_IN = [HOWS.index(how) for how in TAKEN_IN]


@dataclass(frozen=True, eq=False)
class ChangeBytes:
    """One entry per row of a table; NaN where not all of its work is known."""

    a: Float64
    b: Float64
    estimated: bool
    """Whether some are not what the trace says."""

    def columns(self) -> tuple[Column, ...]:
        """Columns a_bytes, b_bytes and saved_bytes."""
        return (
            numbers("a_bytes", self.a, "bytes", "Least bytes that these calls of A read and write."),
            numbers("b_bytes", self.b, "bytes", "The same of B; of a fused kernel an estimate from what went into it."),
            numbers("saved_bytes", self.a - self.b, "bytes", "How many fewer these are in B."),
        )

    @property
    def doubts(self) -> dict[str, tuple[str, ...]]:
        """What is doubtful about the columns."""
        return {ESTIMATED: ("a_bytes", "b_bytes", "saved_bytes")} if self.estimated else {}


def change_bytes(a: Trace, b: Trace, found: Matching, rows: ChangeRows) -> ChangeBytes:
    """The bytes of each row."""
    count = len(rows)
    moved = [_sums(a, found.rows_a, rows.row_a, count), _sums(b, found.rows_b, rows.row_b, count)]
    estimated = False
    halves = (
        (
            JOINED,
            _Half(a, found.rows_a, rows.row_a, found.partner),
            _Half(b, found.rows_b, rows.row_b, found.partner_b),
        ),
        (
            PARTED,
            _Half(b, found.rows_b, rows.row_b, found.partner_b),
            _Half(a, found.rows_a, rows.row_a, found.partner),
        ),
    )
    for many, apart, whole in halves:
        known = moved[1 if many == JOINED else 0]
        for place in np.flatnonzero((rows.many == many) & np.isin(rows.how, _TAKEN_IN)).tolist():
            guess = _estimate(apart, whole, place)
            if math.isnan(guess) or not (np.isnan(known[place]) or whole.is_generated(place)):
                continue
            estimated |= not known[place] >= guess
            known[place] = np.fmax(known[place], guess)
    return ChangeBytes(moved[0], moved[1], estimated)


def _sums(trace: Trace, rows: Int64, row: Int64, count: int) -> Float64:
    """Bytes by table row; what only helps another kernel of its call adds nothing."""
    work = kernel_work(trace)
    at = work.at(rows)
    helps = (work.main[at] >= 0) & (work.main[at] != at)
    sums = np.bincount(row, np.where(helps, 0, work.bytes[at]), count).astype(np.float64)
    only_help = np.bincount(row, ~helps, count) == 0
    sums[only_help & (np.bincount(row, minlength=count) > 0)] = np.nan
    return sums


@dataclass(frozen=True, eq=False)
class _Half:
    """The work of one side."""

    trace: Trace
    rows: Int64
    row: Int64
    partner: Int64

    def places(self, row: int) -> Int64:
        """Which of the work is in a table row."""
        return np.flatnonzero(self.row == row)

    def classes(self, places: Int64) -> list[WorkClass]:
        """The class of each."""
        found = classes(self.trace)
        return [found.known[number] for number in found.of(self.rows[places]).tolist()]

    def is_generated(self, row: int) -> bool:
        """Whether the compiler wrote the first kernel of a row."""
        return self.classes(self.places(row)[:1])[0].is_generated


def _estimate(apart: _Half, whole: _Half, row: int) -> float:
    """Bytes of the whole kernels of a row from the work that went into them; NaN where that does not tell.

    All of them must have taken in the same.
    """
    every, kernels = apart.places(row), whole.places(row)
    first = every[apart.partner[every] == kernels[0]]
    found = classes(apart.trace)
    one, all_ = (np.bincount(found.of(apart.rows[places]), minlength=len(found.known)) for places in (first, every))
    if (one * len(kernels) != all_).any():
        return math.nan
    work = kernel_work(apart.trace)
    moved = work.bytes[work.at(apart.rows[first])]
    each = list(zip(apart.classes(first), moved.tolist(), strict=True))
    return len(kernels) * _less_what_stays(each)


def _less_what_stays(members: Sequence[tuple[WorkClass, float]]) -> float:
    """The bytes of operators in their order, without what one writes and later ones read."""
    total = 0.0
    written: list[_Tensor] = []
    read: set[int] = set()
    for work, moved in members:
        if work.signature is None:
            return math.nan
        inputs, output = _tensors(work.op, work.signature, moved)
        total += moved
        within = [place for place in range(len(written)) if written[place] in inputs]
        for tensor in inputs:
            place = next((place for place in reversed(within) if written[place] == tensor), -1)
            if place >= 0:
                within.remove(place)
                read.add(place)
                total -= tensor.bytes
        written += [output] if output else []
    return total - sum(written[place].bytes for place in read)


class _Tensor(NamedTuple):
    """A tensor, however it is viewed."""

    elements: int
    bytes: float


def _tensors(op: str, signature: Signature, moved: float) -> tuple[list[_Tensor], _Tensor | None]:
    """What an operator reads, and what it writes where that is as large as the largest of them."""
    given = Operands(signature)
    inputs = []
    for place in range(len(signature.dims)):
        shape, size = given.shape(place), given.bytes(place)
        if shape and size:
            inputs.append(_Tensor(math.prod(shape), size))
    if op.endswith(_COPY) and len(inputs) > 1:
        return inputs[1:2], inputs[0]
    elements = max((tensor.elements for tensor in inputs), default=0)
    left = moved - sum(tensor.bytes for tensor in inputs)
    return inputs, _Tensor(elements, left) if elements and left / elements in _SIZES else None
