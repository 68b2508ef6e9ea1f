"""The lower half of the screen of two traces: what changed, as kernels, as operators, and in sum.

And what the details say of a row of it, and of a slice that was walked to.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from textual.app import App
from textual.binding import BindingType

from tracetui.comparing.change_rows import CANNOT_TELL
from tracetui.comparing.kernel_changes import part_times
from tracetui.comparing.measures import measures
from tracetui.comparing.noise import ASSUMED_NOISE
from tracetui.comparing.side import CAPTURE, Side
from tracetui.comparing.statement import Comparison
from tracetui.drawing.format import cell, named_groups
from tracetui.drawing.hues import bar, is_plain
from tracetui.drawing.text import comparison_text
from tracetui.drawing.text.comparison_text import is_unchanged
from tracetui.drawing.text.export import render
from tracetui.drawing.text.readable_table import words
from tracetui.model import columns as col
from tracetui.model.quantities import ABSENT, count, duration, percent, quantity, size
from tracetui.model.table import Cell, Column, Table, coded, numbers, texts
from tracetui.text import clean
from tracetui.ui.base import keys
from tracetui.ui.base.exports import ExportNotice, copy_out
from tracetui.ui.base.keys import command
from tracetui.ui.compare.shown_part import MARKS, NO_PARTNER, ROW_PARTNERS, ShownPart, place_words
from tracetui.ui.trace.slice_description import short_name
from tracetui.ui.widgets.details import WAITING_NOTE, DetailFact, DetailLine, fact_lines, folded
from tracetui.ui.widgets.tabbed_list import ListArrangement, OpenGroup, Tab, TabbedList

# The tables of a comparison for the screen: marks with a sign, measures as words, numbers with units. Pure.
#
# Signs are those of a diff: `+` is what B has more of, `-` what it has less of or what is gone. Text output and
# exports have the plain words.

SIGNS = {"faster": "-", "slower": "+", "gone": "-", "new": "+", "same": "=", "cannot tell": "?"}
SHORT = {"fused into": "fused", "split into": "split", "cannot tell": "noise"}
"""Marks in a word, for a narrow column."""


BAR_CELLS = ((170, 14), (140, 6), (0, 0))
"""Cells of the bar beside each time by the width of the screen from which it has them."""
MIN_OPS_WIDTH = 150
"""Minimum width of a screen that shows bars of operators, whose columns are wider."""
_TIMES = (("a_us", "b_us"), ("self_cpu_a_us", "self_cpu_b_us"))
"""The columns with the times of A and B."""


def with_bars(table: Table, width: int) -> Table:
    """The times of A and of B with bars beside them, all on one scale; without bars on a narrow screen."""
    cells = next(cells for least, cells in BAR_CELLS if width >= least)
    names = next((each for each in _TIMES if each[0] in table), ())
    if not cells or not names or not len(table) or (names == _TIMES[1] and width < MIN_OPS_WIDTH):
        return table
    longest = max(float(np.nan_to_num(table[name].values.astype(np.float64)).max()) for name in names)
    for name in names:
        column = table[name]
        words = [cell(column, column.cell(row)) for row in range(len(table))]
        values = np.nan_to_num(column.values.astype(np.float64)) / (longest or 1.0)
        bars = [bar(share, cells, is_plain(os.environ)).ljust(cells) for share in values.tolist()]
        room = max(map(len, words))
        drawn = [f"{word:>{room}} {drawn}" for word, drawn in zip(words, bars, strict=True)]
        # The title stands above the numbers, and not above the bars.
        heading = column.spec.heading + " " * (cells + 1)
        table = _with(table, texts(replace(column.spec, heading=heading, unit="", is_number_text=True), drawn))
    return table


def readable_changes(table: Table) -> Table:
    """Kernels or operators with the sign before their mark, which is one word."""
    mark, change = table["mark"], table["change_us"]
    marks = [signed(str(mark.cell(row)), change.cell(row)) for row in range(len(table))]
    readable = _with(
        table,
        texts(replace(mark.spec, is_signed=True), [f"{each[:2]}{SHORT.get(each[2:], each[2:])}" for each in marks]),
    )
    return with_calls(readable) if "calls_a" in table else readable


def rows_without_change(table: Table) -> NDArray[np.bool_]:
    """Mask of the rows that took the same time to the nanosecond, and of measures that are 0 on both sides."""
    if "change_us" in table:
        return is_unchanged(table)
    zero = [table[name].equal(0) for name in ("a", "b")]
    return np.asarray(zero[0] & zero[1])


def with_calls(table: Table) -> Table:
    """The table with the calls of both sides in the column of A's: `16 → 1`, or one number where they are as many."""
    before, after = table["calls_a"], table["calls_b"]
    words = []
    for row in range(len(table)):
        counts = [cell(column, column.cell(row)) for column in (before, after)]
        words.append(counts[0] if counts[0] == counts[1] else " → ".join(counts))
    both = replace(
        before.spec, heading="calls", help="Calls in a part of A, and of B where they differ.", is_number_text=True
    )
    return _with(table, texts(both, words))


def signed(mark: str, change: object) -> str:
    """A mark with its sign; that of a fused or split kernel follows from the change of its time."""
    sign = SIGNS.get(mark, "")
    if not sign:
        sign = "=" if not isinstance(change, int | float) or change == 0 else "-" if change < 0 else "+"
    return f"{sign} {mark}"


def readable_totals(table: Table) -> Table:
    """Measures in words, every number in the unit of its row."""
    rows = list(table.rows())
    columns = [texts(table["measure"].spec, [words(str(row["measure"])) for row in rows])]
    for column in table.columns[1:]:
        if column.name in ("a", "a_scatter", "b", "b_scatter", "difference"):
            cells = [(row[column.name], str(row["unit"] or "")) for row in rows]
            numbers = [quantity(value, unit) if isinstance(value, int | float) else None for value, unit in cells]
            columns.append(texts(replace(column.spec, is_number_text=True), numbers))
        elif column.name == "change":
            changes = [None if row["change"] == "unknown" else str(row["change"]) for row in rows]
            columns.append(texts(column.spec, changes))
        elif column.name != "unit":
            columns.append(column)
    return replace(table, columns=tuple(columns))


def _with(table: Table, column: Column) -> Table:
    """The table with a column in place of that of its name."""
    return replace(table, columns=tuple(column if each.name == column.name else each for each in table.columns))


def grouped(table: Table, by: str) -> Table:
    """One row per value of a text column: calls and times added up, the largest change on top.

    Medians are added, so that the sum of a family is what its kernels have at the middle, and not a median itself.
    """
    key = table[by]
    used, member = np.unique(key.values, return_inverse=True)
    columns = [coded(key.spec, used, key.strings or ())]
    for name in ("calls_a", "calls_b", "a_us", "b_us", "self_cpu_a_us", "self_cpu_b_us", "change_us"):
        if name in table:
            column = table[name]
            values = np.where(column.nulls(), 0, column.values).astype(np.float64)
            columns.append(replace(column, values=np.bincount(member, values, len(used))))
    groups = Table((*columns, *_percents(columns)), None, table.note)
    return groups.take(np.lexsort((-np.abs(groups["change_us"].values.astype(np.float64)),)))


def _percents(columns: list[Column]) -> list[Column]:
    """The time that B takes more, in percent of A's."""
    values = {column.name: column.values.astype(np.float64) for column in columns if not column.is_text}
    before = values.get("a_us", values.get("self_cpu_a_us"))
    if before is None:
        return []
    with np.errstate(divide="ignore", invalid="ignore"):
        more = np.where(before > 0, 100 * values["change_us"] / before, np.nan)
    return [numbers(col.CHANGE_PCT, more)]


KERNELS, OPS, TOTALS = "kernels", "ops", "totals"
CHANGE_TABS = (KERNELS, OPS, TOTALS)
"""The tabs, in order."""
CHANGE_KEYS = dict(zip(CHANGE_TABS, "123", strict=True))
"""The key of each tab."""
CHANGE_HELP = {
    KERNELS: "What changed, by kernel.",
    OPS: "What changed, by operator.",
    TOTALS: "Measures of both sides, and how they differ.",
}
"""The help of each tab."""
GROUPS: dict[str, tuple[str, ...]] = {KERNELS: ("family", "op", "mark"), OPS: ("kind", "mark"), TOTALS: ()}
"""The columns by which the rows of each tab can be grouped."""
UNKNOWN_LENGTH = 1000
"""Stands for the length of a list that is not known yet: more rows than any screen has lines."""
_IDENTITY = {KERNELS: ("short_name", "op"), OPS: ("kind", "name"), TOTALS: ("measure",)}
"""The columns that identify the rows of each tab."""
_READABLE = {KERNELS: readable_changes, OPS: readable_changes, TOTALS: readable_totals}

RowIdentity = tuple[object, ...]
"""Tab, grouping and the cells that identify a row."""


class CompareList(TabbedList):
    """The tables of one comparison."""

    BINDINGS: ClassVar[list[BindingType]] = [
        command(keys.FOLD, "fold", "List what is the same", "Rows without a change, or leave them out.", "fold"),
    ]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(CHANGE_TABS, id=id)
        self._tables: dict[str, Table | str] = {}
        """The table of each tab, or the sentence that says why there is none."""
        self._stale: set[str] = set()
        """Tabs whose tables are of what was compared before."""
        self._sought: RowIdentity = ()
        """The row that the cursor was on in those."""
        self.is_folded = True
        """True while rows without a change are left out."""
        self._bars_width = 0
        """Width of the screen for which the bars were made last."""

    @property
    def table(self) -> Table | None:
        """The rows of the current tab, grouped as wanted; None until they are there."""
        table = self._tables.get(self.pane)
        if not isinstance(table, Table) or self.pane in self._stale:
            return None
        return grouped(table, self.arrangement.by) if self.arrangement.by else table

    @property
    def change(self) -> int:
        """The row of the current tab's whole table under the cursor, -1 for none or for a group."""
        return -1 if self.arrangement.by else self.view.row

    @property
    def groupings(self) -> Sequence[str]:
        """The columns by which the rows of the current tab can be grouped."""
        table = self._tables.get(self.pane)
        return [by for by in GROUPS[self.pane] if isinstance(table, Table) and by in table]

    @property
    def layout_name(self) -> str:
        """The name of the column layout of the current tab."""
        return self.pane if self.pane == TOTALS else f"changed {self.pane}"

    @property
    def longest(self) -> int:
        """Rows of the longest list of what ran; a large number while that is not known."""
        tables = [self._tables.get(name) for name in (KERNELS, OPS)]
        return max(
            len(table) if isinstance(table, Table) else 0 if isinstance(table, str) else UNKNOWN_LENGTH
            for table in tables
        )

    def clear(self) -> None:
        """Drop the tables: other sides are compared."""
        self._tables.clear()
        self._stale.clear()
        self._cursors.clear()
        self._show(0)

    def expect(self) -> None:
        """Other sides are compared: the rows stay until the new ones are there, and the cursor finds its row again."""
        if self.table is not None and self.view.row >= 0:
            self._sought = self._identity(self.table, self.view.row)
        self._stale = set(self._tables)
        self._show_tabs()

    def has(self, name: str) -> bool:
        """True once the table of a tab is there."""
        return isinstance(self._tables.get(name), Table) and name not in self._stale

    def take(self, name: str, table: Table | str) -> None:
        """Show a table once it is made, or the sentence that says why there is none."""
        self._tables[name] = table
        was_stale = name in self._stale
        self._stale.discard(name)
        if name == self.pane:
            self._show(self.view.cursor if was_stale else self._cursors.get(name, 0))
            self._find_row()
        else:
            self._show_tabs()

    def arrange_by(self, arrangement: ListArrangement, select_first: bool = False) -> None:
        """Sort, filter or group the current tab; what someone sorts for is at the top."""
        self.arrangements[self.pane] = arrangement
        self._show(0)
        if not arrangement.filter or select_first:
            self.view.announce_row()

    def action_fold(self) -> None:
        """List the rows that are the same in both, or leave them out again."""
        self.is_folded = not self.is_folded
        row = self.view.row
        self._show(0)
        self.put_cursor_on(row)

    def _folded(self, name: str) -> NDArray[np.bool_] | None:
        """Mask of the rows of a tab that are left out; None for none."""
        table, arrangement = self._tables.get(name), self.arrangements[name]
        is_whole = not (arrangement.filter or arrangement.by or arrangement.group)
        if not isinstance(table, Table) or not self.is_folded or not is_whole:
            return None
        mask = rows_without_change(table)
        return mask if mask.any() and not mask.all() else None

    def _arranged(self, table: Table) -> tuple[NDArray[np.int64], str]:
        order, note = super()._arranged(table)
        mask = self._folded(self.pane)
        return (order if mask is None else order[~mask[order]]), note

    def put_cursor_on(self, change: int) -> None:
        """Move the cursor to a row of the whole table; -1, or one that is not listed, leaves it where it was.

        A row that is left out because nothing changed in it is listed with all others.
        """
        wanted = -1 if self.arrangement.by or change < 0 else change
        mask = self._folded(self.pane)
        if wanted >= 0 and mask is not None and mask[wanted]:
            self.is_folded = False
            self._show(0)
        indices = np.flatnonzero(self.view.order == wanted)
        if len(indices):
            self.view.put_cursor(int(indices[0]))
        self.view.located = len(indices) > 0

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """As in any list; grouping needs rows too, and folding some that are the same."""
        if action == "fold":
            return not self.is_folded or self._folded(self.pane) is not None
        return super().check_action(action, parameters) and (action != "group" or self.table is not None)

    def _group_at(self, table: Table, row: int) -> OpenGroup | None:
        by = self.arrangement.by
        value = table.columns[0].cell(row)
        label = str(named_groups(table, by).columns[0].cell(row))
        return OpenGroup(by, clean(label), ((by, value),)) if by is not None else None

    def _identity(self, table: Table, row: int) -> RowIdentity:
        """The identity of a row, whatever it is compared with."""
        by = self.arrangement.by
        names = (by,) if by else _IDENTITY[self.pane]
        return (self.pane, by, *(table[name].cell(row) for name in names))

    def _find_row(self) -> None:
        """Put the cursor on what it was on before."""
        table, sought = self.table, self._sought
        self._sought = ()
        if table is not None and sought:
            order = self.view.order.tolist()
            same = (index for index, row in enumerate(order) if self._identity(table, row) == sought)
            self.view.put_cursor(next(same, self.view.cursor))

    def _missing_note(self) -> str:
        note = self._tables.get(self.pane)
        return note if isinstance(note, str) else WAITING_NOTE

    def _empty_note(self, table: Table) -> str:
        if self.pane == KERNELS:
            return f"Neither side ran anything on a GPU. {table.note} 2 lists the operators."
        return table.note or "There is nothing to compare."

    def _readable(self, table: Table) -> Table:
        by = self.arrangement.by
        drawn = with_bars(table, self.app.size.width)
        return named_groups(with_calls(drawn), by) if by else _READABLE[self.pane](drawn)

    def on_resize(self) -> None:
        """Fit the bars to the new width."""
        width = self.app.size.width
        if width != self._bars_width and self.table is not None:
            self._show(self.view.cursor)
        self._bars_width = width

    def _remarks(self) -> str:
        mask = self._folded(self.pane)
        left_out = "" if mask is None else f" {count(int(mask.sum()))} the same, {keys.FOLD} lists them"
        return super()._remarks() + left_out + (" comparing …" if self.pane in self._stale else "")

    def _tabs(self) -> Sequence[Tab]:
        return [
            Tab(name, name.title(), self._count(name), str(keys.tab_key(CHANGE_KEYS[name]))) for name in CHANGE_TABS
        ]

    def _count(self, name: str) -> str:
        table, mask = self._tables.get(name), self._folded(name)
        if not isinstance(table, Table):
            return ""
        if name == self.pane and name not in self._stale:
            return count(len(self.view.order))
        return count(len(table) - (0 if mask is None else int(mask.sum())))


def table_of(comparison: Comparison, name: str) -> Table:
    """The table of a tab; this makes it, which may take a while."""
    return {KERNELS: lambda: comparison.kernels, OPS: lambda: comparison.ops, TOTALS: lambda: comparison.totals}[name]()


def send_command(app: App[object], paths: tuple[str, str], comparison: Comparison) -> ExportNotice:
    """Copy the command line that opens the comparison again."""
    if "-" in paths:
        return "What came in through a pipe cannot be opened again: there is no command to copy.", True
    a, b = comparison.a, comparison.b
    if a.trace.steps_by != b.trace.steps_by:
        return "A and B have steps of different names: there is no command that opens both.", True
    steps_by = ["--steps-by", a.trace.steps_by] if a.trace.steps_by else []
    named = [f"{path}#{side.scope}" if side.scope else path for path, side in zip(paths, (a, b), strict=True)]
    text = shlex.join(["tracetui", "open", *named, *steps_by])
    return copy_out(app, text, "command.txt", text)


def list_text(comparison: Comparison, panes: CompareList, table: Table, format: str) -> str:
    """Rows of a tab as `csv` or `md`; as Markdown with what is compared above them, unless they are groups."""
    if format == "csv" or panes.arrangement.by:
        return render(table, comparison.a.trace, panes.pane, format)
    return comparison_text.as_markdown(comparison, [comparison_text.Shown(panes.pane, table, None)])


MAX_LISTED_PARTS = 40
"""Maximum steps or runs listed one by one."""


def change_lines(comparison: Comparison, tab: str, row: int, sentences: Sequence[str], width: int) -> list[DetailLine]:
    """The lines for a row of the whole table of a tab, and below them the statement about the comparison."""
    lines: list[DetailLine] = []
    if row >= 0:
        cells = table_of(comparison, tab).row(row)
        if tab == KERNELS:
            title, facts = (
                cells["short_name"] or cells["name_a"] or cells["name_b"],
                _kernel_facts(comparison, cells, row),
            )
        elif tab == OPS:
            title, facts = cells["name"], _op_facts(comparison, cells)
        else:
            title, facts = words(str(cells["measure"])), _total_facts(comparison, cells)
        lines = [DetailLine(piece, "title") for piece in folded(clean(str(title)), width)]
        for fact in facts:
            lines += fact_lines(fact, width)
        lines += _names(cells, width)
    return [*lines, *_statement(sentences, width, bool(lines))]


def slice_lines(side: int, part: ShownPart, row: int, partners: str, width: int) -> list[DetailLine]:
    """The same as lines above the details of its change."""
    slices, other = part.side.trace.slices, MARKS[1 - side]
    lines = [DetailLine(piece, "title") for piece in folded(clean(short_name(part.side.trace, row)), width)]
    facts = [
        DetailFact(f"in {MARKS[side]}", place_words(part, row)),
        DetailFact("starts at", duration(int(slices.start[row]) - part.start)),
        DetailFact("lasts", duration(int(slices.dur[row]))),
    ]
    if partners == NO_PARTNER:
        facts.append(DetailFact(f"in {other}", "no match on the other side"))
    elif partners == ROW_PARTNERS:
        facts.append(DetailFact(f"in {other}", "no match of its own: what its whole row became is highlighted"))
    return [*lines, *(line for fact in facts for line in fact_lines(fact, width))]


def _kernel_facts(comparison: Comparison, cells: Mapping[str, Cell], row: int) -> Iterator[DetailFact]:
    yield from _change_facts(cells, ("a_us", "b_us"), comparison)
    for label, name in (("matched by", "how"), ("operator", "op"), ("family", "family")):
        if cells.get(name):
            yield DetailFact(label, clean(str(cells[name])))
    yield from _byte_facts(cells)
    changes = comparison.kernel_changes
    for letter, side, instances in (("A", comparison.a, changes.rows_a), ("B", comparison.b, changes.rows_b)):
        if len(side) > 1 and len(instances[row]):
            times = part_times(side, instances[row], np.zeros(len(instances[row]), np.int64), 1)
            durations = [
                ABSENT if value != value else duration(value) for value in times[:MAX_LISTED_PARTS, 0].tolist()
            ]
            yield _numbered(letter, side, durations)


def _op_facts(comparison: Comparison, cells: Mapping[str, Cell]) -> Iterator[DetailFact]:
    yield from _change_facts(cells, ("self_cpu_a_us", "self_cpu_b_us"), comparison)
    whole = [_us(cells[f"cpu_{side}_us"]) if cells[f"calls_{side}"] else ABSENT for side in "ab"]
    yield DetailFact("with its children", f"{whole[0]} in A, {whole[1]} in B")
    for label, name in (("kind", "kind"), ("fused into", "fused_into"), ("within it", "folded_change"),
                        ("folded into it", "folded"), ("remark", "remark")):  # fmt: skip
        if cells.get(name):
            yield DetailFact(label, clean(str(cells[name])))


def _total_facts(comparison: Comparison, cells: Mapping[str, Cell]) -> Iterator[DetailFact]:
    name, unit = str(cells["measure"]), str(cells["unit"] or "")
    yield DetailFact("meaning", clean(str(cells.get("about") or "")))
    for label, column in (("A", "a"), ("B", "b"), ("B - A", "difference")):
        value = cells[column]
        if isinstance(value, int | float):
            yield DetailFact(label, quantity(value, unit))
    yield DetailFact("change", clean(str(cells["change"])))
    if cells.get("remark"):
        yield DetailFact("remark", clean(str(cells["remark"])))
    for letter, side in (("A", comparison.a), ("B", comparison.b)):
        measured = measures(side).get(name)
        if measured is not None and len(side) > 1:
            values = [
                quantity(value, unit) if value == value else ABSENT
                for value in measured.values[:MAX_LISTED_PARTS].tolist()
            ]
            yield _numbered(letter, side, values)


def _change_facts(cells: Mapping[str, Cell], times: tuple[str, str], comparison: Comparison) -> Iterator[DetailFact]:
    """The change with its mark, B less A, and the times before and after."""
    difference, change = cells["change_us"], cells.get("change_pct")
    text = signed(str(cells["mark"]), difference)
    if isinstance(difference, float) and difference:
        text += f": {_plus(difference)}{_us(difference)}"
    if isinstance(change, float):
        text += f", {_plus(change)}{percent(change)}"
    yield DetailFact("B - A", text)
    yield DetailFact("noise", _noise_words(comparison, cells))
    for letter, column, calls in (("A", times[0], "calls_a"), ("B", times[1], "calls_b")):
        value, number = cells[column], cells[calls]
        if isinstance(value, float) and isinstance(number, int | float) and number:
            times_called = count(number) if float(number).is_integer() else f"{np.round(number, 1):g}"
            yield DetailFact(letter, f"{_us(value)} in {times_called} call{'' if number == 1 else 's'}")
        else:
            yield DetailFact(letter, "absent")


def _noise_words(comparison: Comparison, cells: Mapping[str, Cell]) -> str:
    """The noise of the time, and whether the change of this row is below it."""
    noise, change, part = cells.get("noise_us"), cells["change_us"], comparison.a.part_kind
    if not isinstance(noise, float):
        kinds = " and ".join(dict.fromkeys(f"one {side.part_kind}" for side in (comparison.a, comparison.b)))
        return f"unknown: each side is {kinds}; {100 * ASSUMED_NOISE:g} % is assumed"
    of_others = len(comparison.a) == len(comparison.b) == 1
    text = f"{_us(noise)}: so much {f'other {part}s of the file' if of_others else f'{part}s of one side'} differ"
    if cells["mark"] == CANNOT_TELL and isinstance(change, float) and abs(change) <= noise:
        return f"{text}, more than A and B do"
    return text


def _byte_facts(cells: Mapping[str, Cell]) -> Iterator[DetailFact]:
    before, after = cells.get("a_bytes"), cells.get("b_bytes")
    change = cells.get("change_bytes")
    if isinstance(before, int | float) or isinstance(after, int | float):
        sizes = [size(value) if isinstance(value, int | float) else ABSENT for value in (before, after)]
        more = f", {_plus(change)}{size(change)}" if isinstance(change, int | float) and change else ""
        yield DetailFact("minimum bytes moved", f"{sizes[0]} in A, {sizes[1]} in B{more}")


def _numbered(letter: str, side: Side, values: Sequence[str]) -> DetailFact:
    """Values with the numbers of their steps or runs."""
    numbered = " · ".join(f"{number}: {value}" for number, value in zip(side.number.tolist(), values, strict=False))
    more = f" and {count(len(side) - len(values))} more" if len(side) > len(values) else ""
    what = "" if side.part_kind == CAPTURE else f" by {side.part_kind}"
    return DetailFact(f"{letter}{what}", f"{numbered}{more}")


def _names(cells: Mapping[str, Cell], width: int) -> list[DetailLine]:
    """Both names in full, once where they are the same."""
    before, after = cells.get("name_a"), cells.get("name_b")
    named = [("name in A and B", before)] if before == after else [("name in A", before), ("name in B", after)]
    lines: list[DetailLine] = []
    for label, name in named:
        if name:
            lines += [DetailLine(""), DetailLine(label, "label"), *map(DetailLine, folded(clean(str(name)), width))]
    return lines


def _statement(sentences: Sequence[str], width: int, below: bool) -> list[DetailLine]:
    if not sentences:
        return []
    lines = [DetailLine(""), DetailLine("overall", "label")] if below else []
    for sentence in sentences:
        lines += [*map(DetailLine, folded(clean(sentence), width)), DetailLine("")]
    return lines[:-1]


def _plus(change: float) -> str:
    """A plus before what B has more of: a minus stands there by itself."""
    return "+" if change > 0 else ""


def _us(value: Cell) -> str:
    return duration(1000 * value) if isinstance(value, int | float) else ABSENT
