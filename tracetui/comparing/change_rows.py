"""Matched GPU activities gathered into table rows: one row for all that changed in the same way.

A row holds pairs of one name, operator and kind of match; or everything that went into kernels of one name; or
activities that only one side has. An unmatched activity whose class is paired elsewhere is in the row of those pairs,
whose numbers of calls then differ; likewise a kernel whose name already replaces others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetui.comparing.classes import Classes, classes
from tracetui.comparing.match import FUSED, MATCH_KINDS, OTHER_SHAPES, SAME_NAME, SPLIT, TAKEN_IN, Matching
from tracetui.comparing.noise import Change
from tracetui.linking.groups import combinations
from tracetui.model.intervals import Bool, Int64
from tracetui.model.strings import Strings
from tracetui.model.trace import Trace

SAME, FASTER, SLOWER, CANNOT_TELL = "same", "faster", "slower", "cannot tell"
FUSED_INTO, SPLIT_INTO, GONE, NEW = "fused into", "split into", "gone", "new"

_MARKS = {Change.SAME: SAME, Change.LESS: FASTER, Change.MORE: SLOWER}


def mark_of(change: Change) -> str:
    """The mark of a row that both sides have, by how its time changed."""
    return _MARKS.get(change, CANNOT_TELL)


JOINED, PAIRED, PARTED, BOTH = 1, 0, -1, 2
"""Several activities of A are one of B, one is one, one of A is several of B, several are several."""
_TAKEN_IN = [MATCH_KINDS.index(each) for each in TAKEN_IN]
_BY_NAME = (MATCH_KINDS.index(SAME_NAME), MATCH_KINDS.index(OTHER_SHAPES))


@dataclass(frozen=True, eq=False)
class ChangeRows:
    """Rows of all activities of both parts; every activity is in exactly one row."""

    row_a: Int64
    """The row of each of the matching's `rows_a`."""
    row_b: Int64
    how: Int64
    """For each row an index in `MATCH_KINDS`, -1 for activities that only one side has."""
    many: Int64
    """For each row `JOINED`, `PAIRED`, `PARTED` or `BOTH`."""

    def __len__(self) -> int:
        return len(self.how)


def change_rows(a: Trace, b: Trace, matching: Matching) -> ChangeRows:
    """The rows of a matching."""
    middle_a, middle_b = _middles(matching)
    how = np.concatenate([matching.how, matching.how_b]).astype(np.int64)
    many = _many(matching, how, middle_a, middle_b)
    labels = _Labels(classes(a), classes(b), matching)
    shown_a = np.where(np.isin(many, (JOINED, BOTH)), -1, labels.of_a("shown", middle_a))
    shown_b = np.where(np.isin(many, (PARTED, BOTH)), -1, labels.of_b("shown", middle_b))
    # Work of several operators is in one kernel: it has a row for the kernel, not for the operators.
    taken_in = (many != PAIRED) & np.isin(how, _TAKEN_IN)
    op_a, op_b = (np.where(taken_in, -1, ops) for ops in (labels.of_a("op", middle_a), labels.of_b("op", middle_b)))
    row = combinations(how, many, shown_a, shown_b, op_a, op_b).member
    count = len(matching.rows_a)
    shown = np.concatenate([labels.of_a("shown", np.arange(count)), labels.of_b("shown", np.arange(len(row) - count))])
    is_b = np.arange(len(row)) >= count
    for whole, mine in ((JOINED, is_b), (PARTED, ~is_b)):
        row = _with_their_kernel(row, shown, mine & taken_in & (many == whole), mine & (how < 0))
    row[:count] = _with_their_like(row[:count], matching.how, labels.number_a)
    row[count:] = _with_their_like(row[count:], matching.how_b, labels.number_b)
    # A row is of pairs where it holds some: what only one side has comes last.
    order = np.argsort(how < 0, kind="stable")
    _, first, member = np.unique(row[order], return_index=True, return_inverse=True)
    number = np.empty(len(row), np.int64)
    number[order] = member
    sample = order[first]
    return ChangeRows(number[:count], number[count:], how[sample], many[sample])


def _middles(matching: Matching) -> tuple[Int64, Int64]:
    """For each activity, those of A and then those of B, the first activity of A and of B in its group; -1 for none."""
    none = np.int64(-1)
    own_a, own_b = np.arange(len(matching.rows_a)), np.arange(len(matching.rows_b))
    first_a = np.where(matching.partner >= 0, np.append(matching.partner_b, none)[matching.partner], own_a)
    first_b = np.where(matching.partner_b >= 0, np.append(matching.partner, none)[matching.partner_b], own_b)
    return np.concatenate([first_a, matching.partner_b]), np.concatenate([matching.partner, first_b])


def _many(matching: Matching, how: Int64, middle_a: Int64, middle_b: Int64) -> Int64:
    """For each activity whether its group is a pair, several of A or several of B."""
    joined = _shared(matching.partner, len(matching.rows_b))[middle_b] & (middle_b >= 0)
    parted = _shared(matching.partner_b, len(matching.rows_a))[middle_a] & (middle_a >= 0)
    joined |= how == MATCH_KINDS.index(FUSED)
    parted |= how == MATCH_KINDS.index(SPLIT)
    return np.select([joined & parted, joined, parted], [BOTH, JOINED, PARTED], PAIRED).astype(np.int64)


def _shared(partner: Int64, size: int) -> Bool:
    """Which indices are the partner of several activities; the last entry stands for -1."""
    shared: Bool = np.append(np.bincount(partner[partner >= 0], minlength=size) > 1, False)
    return shared


def _with_their_like(row: Int64, how: np.ndarray, number: Int64) -> Int64:
    """The rows, with unmatched activities moved to the row in which their class is paired by name."""
    like = np.full(int(number.max(initial=-1)) + 1, -1, np.int64)
    paired = np.isin(how, _BY_NAME)
    like[number[paired]] = row[paired]
    moved = (how < 0) & (like[number] >= 0)
    return np.where(moved, like[number], row)


def _with_their_kernel(row: Int64, shown: Int64, whole: Bool, alone: Bool) -> Int64:
    """The rows, with a kernel without partner moved to the row in which its name already replaces others.

    Where one kernel became sixteen, the matching pairs it with the first of them.
    """
    into = np.full(int(shown.max(initial=-1)) + 2, -1, np.int64)
    into[shown[whole]] = row[whole]
    return np.where(alone & (into[shown] >= 0), into[shown], row)


class _Labels:
    """Texts of the classes of both sides, as numbers that mean the same on both."""

    def __init__(self, a: Classes, b: Classes, matching: Matching) -> None:
        self._known = a.known, b.known
        self.number_a, self.number_b = a.of(matching.rows_a), b.of(matching.rows_b)
        self._strings = Strings([""])

    def of_a(self, what: str, indices: Int64) -> Int64:
        """Numbers of a text (`shown`, `op`) of activities of A by index; -1 for no activity."""
        return self._of(0, what, self.number_a, indices)

    def of_b(self, what: str, indices: Int64) -> Int64:
        """The same for B."""
        return self._of(1, what, self.number_b, indices)

    def _of(self, side: int, what: str, number: Int64, indices: Int64) -> Int64:
        used = np.unique(number)
        texts = [self._strings.intern(getattr(self._known[side][each], what)) for each in used.tolist()]
        ids = np.append(np.array(texts, np.int64)[np.searchsorted(used, number)], -1)
        return ids[indices]
