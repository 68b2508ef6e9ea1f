"""Matched GPU activities gathered into table rows: one row for all that changed in the same way.

A row holds pairs of one name, operator and kind of match; or everything that went into kernels of one name; or
activities that only one side has. An unmatched activity whose class is paired elsewhere is in the row of those pairs,
whose numbers of calls then differ; likewise a kernel whose name already replaces others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tracetui.comparing.fusing import Classes, activity_classes
from tracetui.comparing.match import FUSED, MATCH_KINDS, OTHER_SHAPES, SAME_NAME, SPLIT, TAKEN_IN, Matching
from tracetui.comparing.measures import COUNT, Measure, launch_gap, measures, rests_on_launches, without_launches
from tracetui.comparing.noise import (
    ASSUMED_NOISE,
    Change,
    Difference,
    difference,
    is_mixed,
    other_steps,
    shared_tick,
)
from tracetui.comparing.side import Side
from tracetui.frozen import frozen
from tracetui.idle.utilisation import is_bound
from tracetui.linking.groups import combinations
from tracetui.model import columns as col
from tracetui.model.intervals import Bool, Int64
from tracetui.model.quantities import rounded_percent
from tracetui.model.table import Strings, Table, numbers, texts
from tracetui.model.trace import Float64, Trace

SAME, FASTER, SLOWER, CANNOT_TELL = "same", "faster", "slower", "cannot tell"
FUSED_INTO, SPLIT_INTO, GONE, NEW = "fused into", "split into", "gone", "new"

MARKS = {
    Change.SAME: SAME,
    Change.LESS: FASTER,
    Change.MORE: SLOWER,
    Change.WITHIN_NOISE: CANNOT_TELL,
    Change.UNKNOWN: CANNOT_TELL,
}
"""Marks of rows that both sides have, by the change of their time."""

JOINED, PAIRED, PARTED, BOTH = 1, 0, -1, 2
"""Several activities of A are one of B, one is one, one of A is several of B, several are several."""
_TAKEN_IN = [MATCH_KINDS.index(each) for each in TAKEN_IN]
_BY_NAME = (MATCH_KINDS.index(SAME_NAME), MATCH_KINDS.index(OTHER_SHAPES))


@frozen
class ChangeRows:
    """Rows of all activities of both parts; every activity is in exactly one row."""

    row_a: Int64
    """The row of each of the matching's `rows_a`."""
    row_b: Int64
    how: Int64
    """For each row an index in `MATCH_KINDS`, -1 for activities that only one side has."""
    many: Int64
    """For each row `JOINED`, `PAIRED`, `PARTED` or `BOTH`."""


def change_rows(a: Trace, b: Trace, matching: Matching) -> ChangeRows:
    """The rows of a matching."""
    # For each activity, those of A and then those of B, the first activity of A and of B in its group; -1 for none.
    none = np.int64(-1)
    own_a, own_b = np.arange(len(matching.rows_a)), np.arange(len(matching.rows_b))
    first_a = np.where(matching.partner >= 0, np.append(matching.partner_b, none)[matching.partner], own_a)
    first_b = np.where(matching.partner_b >= 0, np.append(matching.partner, none)[matching.partner_b], own_b)
    middle_a, middle_b = np.concatenate([first_a, matching.partner_b]), np.concatenate([matching.partner, first_b])
    how = np.concatenate([matching.how, matching.how_b]).astype(np.int64)
    # `JOINED`, `PAIRED`, `PARTED` or `BOTH` for the group of each activity.
    joined = _shared(matching.partner, len(matching.rows_b))[middle_b] & (middle_b >= 0)
    parted = _shared(matching.partner_b, len(matching.rows_a))[middle_a] & (middle_a >= 0)
    joined |= how == MATCH_KINDS.index(FUSED)
    parted |= how == MATCH_KINDS.index(SPLIT)
    many = np.select([joined & parted, joined, parted], [BOTH, JOINED, PARTED], PAIRED).astype(np.int64)
    labels = _Labels(activity_classes(a), activity_classes(b), matching)
    count = len(matching.rows_a)
    label_a, label_b = labels.of(0, "label"), labels.of(1, "label")
    group_a = np.where(np.isin(many, (JOINED, BOTH)), -1, label_a[middle_a])
    group_b = np.where(np.isin(many, (PARTED, BOTH)), -1, label_b[middle_b])
    # Work of several operators is in one kernel: it has a row for the kernel, not for the operators.
    taken_in = (many != PAIRED) & np.isin(how, _TAKEN_IN)
    ops = labels.of(0, "op")[middle_a], labels.of(1, "op")[middle_b]
    row = combinations(how, many, group_a, group_b, *(np.where(taken_in, -1, each) for each in ops)).member
    label = np.concatenate([label_a[:-1], label_b[:-1]])
    is_b = np.arange(len(row)) >= count
    for whole, mine in ((JOINED, is_b), (PARTED, ~is_b)):
        # A kernel without partner stands in the row in which its name already replaces others: where one kernel became
        # sixteen, the matching pairs it with the first of them.
        is_whole = mine & taken_in & (many == whole)
        into = np.full(int(label.max(initial=-1)) + 2, -1, np.int64)
        into[label[is_whole]] = row[is_whole]
        row = np.where((mine & (how < 0)) & (into[label] >= 0), into[label], row)
    row[:count] = _with_their_like(row[:count], matching.how, labels.number[0])
    row[count:] = _with_their_like(row[count:], matching.how_b, labels.number[1])
    # A row is of pairs where it holds some: what only one side has comes last.
    order = np.argsort(how < 0, kind="stable")
    _, first, member = np.unique(row[order], return_index=True, return_inverse=True)
    number = np.empty(len(row), np.int64)
    number[order] = member
    sample = order[first]
    return ChangeRows(number[:count], number[count:], how[sample], many[sample])


def _shared(partner: Int64, size: int) -> Bool:
    """Mask of the indices that are the partner of several activities; the last entry stands for -1."""
    shared: Bool = np.append(np.bincount(partner[partner >= 0], minlength=size) > 1, False)
    return shared


def _with_their_like(row: Int64, how: np.ndarray, number: Int64) -> Int64:
    """The rows, with unmatched activities moved to the row in which their class is paired by name."""
    like = np.full(int(number.max(initial=-1)) + 1, -1, np.int64)
    paired = np.isin(how, _BY_NAME)
    like[number[paired]] = row[paired]
    moved = (how < 0) & (like[number] >= 0)
    return np.where(moved, like[number], row)


class _Labels:
    """Texts of the classes of both sides, as numbers that mean the same on both."""

    def __init__(self, a: Classes, b: Classes, matching: Matching) -> None:
        self._known = a.known, b.known
        self.number = a.of(matching.rows_a), b.of(matching.rows_b)
        """The class of each activity, by side."""
        self._strings = Strings([""])

    def of(self, side: int, what: str) -> Int64:
        """Numbers of a text (`label`, `op`) of all activities of a side, and a last one of -1 for no activity."""
        used = np.unique(self.number[side])
        texts = [self._strings.intern(getattr(self._known[side][each], what)) for each in used.tolist()]
        return np.append(np.array(texts, np.int64)[np.searchsorted(used, self.number[side])], -1)


# Totals of two sides: one row per measure of `measures`.
#
# A measure that only one side has is 0 on the other where the other has GPU activities at all: a cause of gaps or a
# family of kernels that does not occur there. Bytes and operations that were not recorded stay unknown.

MIN_KNOWN_PERCENT = 90.0
"""Minimum percent of the GPU time with known bytes, for sums of bytes to be compared."""
SHAPE_MEASURES = ("moved_bytes", "flops")
"""Measures that cover only activities whose shapes were recorded."""
MAX_WORK_DIFFERENCE = 0.01
"""Maximum difference of the known operations of two sides, as a share, for lower bounds of MFU to be compared."""
_SCATTER = (
    "How far {}'s parts lie apart: between the quartiles; of fewer than four parts, and beside a single one, "
    "between the least and the largest."
)


@frozen
class Total:
    """One measure of both sides."""

    name: str
    unit: str
    help: str
    difference: Difference
    doubt: str = ""
    """Reason why the difference is undecided although both sides have values, part of a sentence; empty for none."""
    gap: str = ""
    """Reason why a side has no value, or not for all of its parts."""

    @property
    def change(self) -> Change:
        """The change of the measure; within noise where a doubt leaves it undecided."""
        change = self.difference.change
        return Change.WITHIN_NOISE if self.doubt and change is not Change.UNKNOWN else change

    @property
    def remark(self) -> str:
        """Reasons why nothing more can be said."""
        return "; ".join(filter(None, (self.gap, self.doubt)))


def paired(
    a: Side, b: Side, names: tuple[str, str] = ("A", "B"), all_measures: Mapping[str, Measure] | None = None
) -> dict[str, Total]:
    """The measures that either side has, by name and in their order.

    `names` are the names of the sides; `all_measures` holds the measures of further sides too, in their order.
    """
    left, right = measures(a), measures(b)
    mixed = _mixed(a, b, names)
    gaps = "; ".join(f"{name}: {gap}" for name, side in zip(names, (a, b), strict=True) if (gap := launch_gap(side)))
    result = {}
    tick = max(shared_tick(a.trace, b.trace, on_gpu) for on_gpu in (True, False)) / 1000
    others = [(each, measures(each.complete)) for each in other_steps(a, b)]
    for name, known in (all_measures or merged(left, right)).items():
        reaches = [float(each.reach(_values(each.complete, name, known_there))) for each, known_there in others]
        reach = max((each for each in reaches if each == each), default=np.nan)
        values = _values(a, name, left), _values(b, name, right)
        change = difference(*values, known.unit == COUNT, tick if known.unit == "us" else 0.0, reach)
        if len(change.a.values) or len(change.b.values):
            gap = gaps if rests_on_launches(name) else ""
            result[name] = Total(name, known.unit, known.help, change, mixed, gap)
    share = result.get("moved_known_pct")
    sides = zip(names, (share.difference.a, share.difference.b), strict=True) if share else ()
    shares = {name: each.median for name, each in sides if len(each.values)}
    if min(shares.values(), default=MIN_KNOWN_PERCENT) < MIN_KNOWN_PERCENT:
        reason = f"known of {' and '.join(map(rounded_percent, shares.values()))} of the GPU time"
        reason += f" of {next(iter(shares))}" if len(shares) == 1 else ""
        result |= {name: replace(result[name], doubt=reason) for name in SHAPE_MEASURES if name in result}
    if "mfu_pct" in result and (doubt := _mfu_doubt(a, b, result)):
        result["mfu_pct"] = replace(result["mfu_pct"], doubt=doubt)
    return result


def _mfu_doubt(a: Side, b: Side, all_totals: Mapping[str, Total]) -> str:
    """The reason why two MFU cannot be compared: of one side more operations may be known than of the other."""
    work, known = all_totals.get("flops"), all_totals["flops_known_pct"].difference
    medians = known.a.median, known.b.median
    bound = any(is_bound(side.trace, share) for side, share in zip((a, b), medians, strict=True))
    # Where both do the same known work, only the time differs.
    if not bound or (work and abs(work.difference.ratio - 1) < MAX_WORK_DIFFERENCE) or np.isnan(medians).any():
        return ""
    return f"FLOPs are known of {' and '.join(map(rounded_percent, medians))} of the GPU time"


def _mixed(a: Side, b: Side, names: tuple[str, str] = ("A", "B")) -> str:
    """The reason why medians are misleading where the parts of a side differ in what they run."""
    mixed = [name for name, side in zip(names, (a, b), strict=True) if is_mixed(side)]
    return f"the parts of {' and of '.join(mixed)} differ in what they run" if mixed else ""


def totals(a: Side, b: Side) -> Table:
    """One row per measure: medians, noise and change."""
    rows = list(paired(a, b).values())
    differences = [row.difference for row in rows]
    return Table(
        (
            texts(col.MEASURE, [row.name for row in rows]),
            texts(col.UNIT.but(help="Unit of the numbers; empty for counts."), [row.unit for row in rows]),
            numbers(col.A, [each.a.median for each in differences]),
            numbers(col.A_SCATTER.but(help=_SCATTER.format("A")), [each.a.scatter for each in differences]),
            numbers(col.B, [each.b.median for each in differences]),
            numbers(col.B_SCATTER.but(help=_SCATTER.format("B")), [each.b.scatter for each in differences]),
            numbers(col.DIFFERENCE, [each.delta for each in differences]),
            numbers(col.RATIO, [each.ratio for each in differences]),
            texts(col.CHANGE.but(help="What noise lets one say of B beside A."), [row.change.value for row in rows]),
            texts(col.REMARK.but(help="What stands in the way of saying more."), [row.remark or None for row in rows]),
            texts(col.ABOUT, [row.help for row in rows]),
        ),
        None,
        note(a, b),
    )


def note(a: Side, b: Side) -> str:
    """The note below any table of the two sides."""
    remarks = [side.remark for side in (a, b) if side.remark]
    if reason := _mixed(a, b):
        remarks.append(f"{reason[0].upper()}{reason[1:]}: a median describes none of them.")
    if other_steps(a, b):
        remarks.append("Each side is one step: noise is the range of the other steps of its file.")
    elif len(a) == 1 and len(b) == 1:
        remarks.append(f"Each side has one part, so noise is unknown: {100 * ASSUMED_NOISE:g} % is assumed.")
    return " ".join(dict.fromkeys(remarks))


def _values(side: Side, name: str, known: Mapping[str, Measure]) -> Float64:
    """Values of every part; 0 for a kind of activity that does not occur on a side with GPU activities."""
    if name in known:
        return known[name].values
    unknown = without_launches(side) if rests_on_launches(name) else np.zeros(len(side), bool)
    return np.where(unknown | (not side.uses_gpu), np.nan, 0.0)


def merged(left: Mapping[str, Measure], right: Mapping[str, Measure]) -> dict[str, Measure]:
    """The measures of both sides; those of the second alone stand behind their predecessor there."""
    names, others = list(left), list(right)
    for index, name in enumerate(others):
        if name not in names:
            names.insert(names.index(others[index - 1]) + 1 if index else 0, name)
    return {name: left.get(name) or right[name] for name in names}


_CHANGES = "family op kind mark change_us calls_a a_us b_us self_cpu_a_us self_cpu_b_us change_pct"
COLUMN_ORDERS = {
    "changed kernels": "mark short_name change_us calls_a a_us b_us change_pct noise_us op how change_bytes",
    "changed ops": (
        "mark name change_us calls_a self_cpu_a_us self_cpu_b_us change_pct noise_us fused_into folded_change "
        "kind cpu_a_us cpu_b_us"
    ),
    "totals": "measure a b difference ratio change a_scatter b_scatter about",
    "changed kernels by family": _CHANGES,
    "changed kernels by op": _CHANGES,
    "changed kernels by mark": _CHANGES,
    "changed ops by kind": _CHANGES,
    "changed ops by mark": _CHANGES,
}
"""Names of the columns of comparison tables in order of importance, by table, or by table and grouping."""
