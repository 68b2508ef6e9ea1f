"""The tables of a set of ranks under their tabs; rows of ranks appear while the files are read."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from textual.app import App

from tracetui.drawing.text.rank_text import TRANSFER, WAIT, bar_cells, readable_ranks
from tracetui.model import columns as col
from tracetui.model.quantities import ABSENT, count, counted, duration, rounded_percent
from tracetui.model.table import NULL, ColumnSpec, Table, micros, numbers, texts
from tracetui.opening.rank_folder import RankSetName
from tracetui.ranks.causes import LateRank
from tracetui.ranks.moments import caused_in, late_moment, moment_sentences, operation_words, top_waits, worst_instance
from tracetui.ranks.rank_runs import RankRun
from tracetui.ranks.rank_set import RankSet
from tracetui.ranks.rank_summary import RankSummary
from tracetui.ranks.rank_tables import GROUPINGS, TABLES, grouped_ranks
from tracetui.ranks.sentences import late_words, rank_times
from tracetui.text import clean
from tracetui.ui.base import keys
from tracetui.ui.base.exports import ExportNotice, copy_out
from tracetui.ui.widgets.details import WAITING_NOTE, DetailFact, DetailLine, fact_lines, folded
from tracetui.ui.widgets.tabbed_list import ListArrangement, OpenGroup, Tab, TabbedList

RANKS, COLLECTIVES, MATRIX, GROUPS, STEPS, FILES, COMPILES = TABLES
RANK_KEYS = dict(zip(TABLES, "1234567", strict=True))
"""The key of each tab."""
RANK_TAB_HELP = {
    RANKS: "A row per rank, the one that others waited for most first.",
    COLLECTIVES: "Operations that ranks have in common: skew, transfer, who came last.",
    MATRIX: "Which rank waited for which, and how long.",
    GROUPS: "Process groups: waiting, transfer, bandwidth, imbalance.",
    STEPS: "Steps: how long, and for whom ranks waited most.",
    FILES: "Ranks that are not here, files that were left out or cut off, and why.",
    COMPILES: "Compilations by torch.compile, those that other ranks waited for first.",
}
"""The help of each tab."""
_MARK = ColumnSpec("mark", "", width=1)


class RankList(TabbedList):
    """The tables of one set."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(tuple(TABLES), id=id)
        self.tables: dict[str, Table] = {}
        """The whole tables by tab, as far as they are there."""
        self._failed: dict[str, str] = {}
        """Sentences about tabs whose tables could not be made."""
        self._grouped: dict[str, Table] = {}
        self.note = WAITING_NOTE
        """The note in place of a table that is not there."""
        self.has_bars = True
        """True while the list draws what ranks spend the run on."""
        self.marked: list[int] = []
        """Numbers of the ranks that are marked, in order."""

    @property
    def table(self) -> Table | None:
        """The rows of the current tab, grouped as wanted; None until they are there."""
        by = self.arrangement.by
        return self._grouped_by(by) if by and self.pane == RANKS else self.tables.get(self.pane)

    @property
    def groupings(self) -> Sequence[str]:
        """The columns by which ranks can be grouped, of those that any rank has a value in."""
        table = self.tables.get(RANKS)
        if self.pane != RANKS or table is None:
            return ()
        return [by for by in GROUPINGS if by in table and not table[by].nulls().all()]

    @property
    def layout_name(self) -> str:
        """The name of the column layout of the current tab."""
        return RANKS if self.pane == RANKS else f"ranks by {self.pane}"

    def has(self, name: str) -> bool:
        """True once the table of a tab is there."""
        return name in self.tables

    def fail(self, name: str, sentence: str) -> None:
        """Say in a tab why there is no table; what was listed while files were read rests on no analysis, and goes."""
        self._failed[name] = sentence
        self.tables.pop(name, None)
        self._grouped.clear()
        self._show(0)

    def take(self, name: str, table: Table) -> None:
        """Show a table once it is made; the cursor of a tab stays on its row."""
        # The sentence about the set stands above the tabs.
        table = replace(table, headline="")
        old = self.rank_at(self.view.row) if name == self.pane else None
        self.tables[name] = table
        self._grouped.clear()
        if name != self.pane:
            self._show_tabs()
            return
        self._show(self.view.cursor)
        if old is not None and name == RANKS and self.view.cursor > 0:
            self.put_cursor_on_rank(old)

    def rank_at(self, row: int) -> int | None:
        """The number of the rank of a row of the current tab, None where it is of none."""
        table = self.table
        if table is None or not 0 <= row < len(table) or "rank" not in table or self.arrangement.by:
            return None
        value = table["rank"].cell(row)
        return value if isinstance(value, int) else None

    def put_cursor_on_rank(self, rank: int) -> None:
        """Move the cursor to a rank, where it is listed."""
        table = self.table
        if table is not None and "rank" in table:
            indices = np.flatnonzero(table["rank"].values[self.view.order] == rank)
            if len(indices):
                self.view.put_cursor(int(indices[0]))

    def arrange_by(self, arrangement: ListArrangement, select_first: bool = False) -> None:
        """Sort, filter or group the current tab."""
        self.arrangements[self.pane] = arrangement
        self._show(0)
        if not arrangement.filter or select_first:
            self.view.announce_row()

    def show_marks(self) -> None:
        """Draw the rows again, with other marks."""
        self._show(self.view.cursor)

    def draw_bars(self, has_bars: bool) -> None:
        """Draw bars in the list, or leave them to what stands above it."""
        if has_bars != self.has_bars:
            self.has_bars = has_bars
            if self.pane == RANKS and self.table is not None:
                self._show(self.view.cursor)

    def on_resize(self) -> None:
        """Fit the bars to the new width."""
        if self.pane == RANKS and self.table is not None:
            self._show(self.view.cursor)

    def _grouped_by(self, by: str) -> Table | None:
        table = self.tables.get(RANKS)
        if table is None or "wait_caused_us" not in table:
            return table
        if by not in self._grouped:
            self._grouped[by] = grouped_ranks(table, by)
        return self._grouped[by]

    def _group_at(self, table: Table, row: int) -> OpenGroup | None:
        by = self.arrangement.by
        if by is None or self.pane != RANKS:
            return None
        value = table[by].cell(row)
        return OpenGroup(by, ABSENT if value is None else clean(str(value)), ((by, value),))

    def _readable(self, table: Table) -> Table:
        if self.pane != RANKS or self.arrangement.by:
            return table
        readable = readable_ranks(table, bar_cells(self.app.size.width) if self.has_bars else 0)
        marks = dict(zip(self.marked, map(str, range(1, 10)), strict=False))
        if marks:
            column = texts(_MARK, [marks.get(rank, "") for rank in table["rank"].values.tolist()])
            readable = replace(readable, columns=(column, *readable.columns))
        return readable

    def _missing_note(self) -> str:
        return self._failed.get(self.pane, self.note)

    def _tabs(self) -> Sequence[Tab]:
        tables = self.tables
        return [
            Tab(
                name,
                name.title(),
                self._count(name),
                str(keys.tab_key(RANK_KEYS[name])),
                name in tables and not len(tables[name]),
            )
            for name in TABLES
            # Few sets have logs.
            if name != COMPILES or len(tables.get(name, ()))
        ]

    def _count(self, name: str) -> str:
        table = self.tables.get(name)
        if table is None:
            return ""
        return count(len(self.view.order) if name == self.pane else len(table))


def reading_table(run: RankRun, summaries: Mapping[str, RankSummary], shown_path: str = "") -> Table:
    """The ranks that have been read so far, in order of rank: what each says alone."""
    files = [file for file in run.files if file.path in summaries]
    read = [summaries[file.path] for file in files]
    median = np.array([each.steps.median for each in read], np.int64)
    return Table(
        (
            numbers(col.RANK, np.array([file.rank for file in files], np.int64)),
            texts(col.FILE, [file.path.removeprefix(shown_path).lstrip("/") for file in files]),
            texts(col.HOST, [file.host for file in files]),
            numbers(col.STEPS, np.array([len(each.steps) for each in read], np.int64)),
            micros(col.STEP_US, median, null=median == NULL),
            numbers(
                col.COLLECTIVES.but(help="Collectives that it recorded."),
                np.array([len(each.collectives) for each in read], np.int64),
            ),
        )
    )


# The details of a row of a set of ranks, as lines; pure functions of the summaries.

MAX_WAITS = 4
"""Maximum ranks listed of those that a rank waited for, or that waited for it."""
MAX_PICTURED = 9
"""Maximum ranks drawn of one collective."""
COMPILE_TEXTS = {"recompiled_for": "recompiled for", "cache": "caches"}
"""Columns of a compilation whose texts stand in full, with their names."""
BEFORE = "━"
"""Glyph of the stretch before a collective."""


def rank_lines(ranks: RankSet, index: int, width: int) -> list[DetailLine]:
    """A rank: why it is late, how it spent the run, for whom it waited, and the collective that shows it most."""
    late = next((each for each in ranks.late if each.index == index), None)
    host = ranks.hosts[index]
    lines = [DetailLine(f"Rank {ranks.ranks[index]}{f' on {clean(host)}' if host else ''}", "title")]
    lines += _sentences([late_words(ranks, late)] if late is not None else [], width)
    if (passed := ranks.passed_on.get(index)) is not None:
        began = f"{duration(passed.time)} of the {duration(passed.whole)} that others wait for it"
        source = ranks.ranks[passed.source]
        lines += _sentences(
            [f"It passed a delay on: {began} began at rank {source}, which it waited for itself."], width
        )
    for fact in _facts(ranks, index, late):
        lines += fact_lines(fact, width)
    instance = worst_instance(ranks, index)
    if instance >= 0:
        there, every = caused_in(ranks, index, instance)
        shown = f"Where it shows most: {duration(there)} of the {duration(every)} that others wait for it"
        lines += [DetailLine(""), *(DetailLine(piece, "title") for piece in folded(shown, width))]
        lines += instance_lines(ranks, instance, index, width)
    return lines


def _facts(ranks: RankSet, index: int, late: LateRank | None) -> list[DetailFact]:
    times, whole = rank_times(ranks), max(ranks.run_ns, 1)

    def part(time: int) -> str:
        return f"{duration(time)}, {rounded_percent(100 * time / whole)} of the run"

    exposed, wait = int(times.exposed[index]), int(times.exposed_wait[index])
    facts = [
        DetailFact("file", clean(ranks.shown_path(ranks.summaries[index].header.path))),
        DetailFact("busy", part(int(times.busy[index]))),
        DetailFact("exposed transfer", part(exposed - wait)),
        DetailFact("exposed waiting", part(wait)),
        DetailFact("idle", part(int(times.idle[index]))),
    ]
    if late is not None and late.causes:
        facts.append(DetailFact("late by", ", ".join(f"{cause} {duration(excess)}" for cause, excess in late.causes)))
    for label, caused in (("made wait", True), ("waited for", False)):
        waits = top_waits(ranks, index, caused, MAX_WAITS)
        waited = [f"rank {ranks.ranks[other]} {duration(time)} in {count}" for other, time, count in waits]
        if waited:
            facts.append(DetailFact(label, ", ".join(waited)))
    return facts


def instance_lines(ranks: RankSet, instance: int, index: int | None, width: int) -> list[DetailLine]:
    """An operation: what it was, who arrived when as a drawing, and what the last rank did before."""
    last = int(ranks.waiting.last[instance]) if index is None else index
    lines = _sentences([clean(operation_words(ranks, instance)) + "."], width)
    lines += [DetailLine(text) for text in arrivals(ranks, instance, width)]
    moment = late_moment(ranks, instance, last) if last >= 0 else None
    if moment is not None:
        lines += [DetailLine(""), *_sentences([clean(each) for each in moment_sentences(ranks, moment)], width)]
    return lines


def arrivals(ranks: RankSet, instance: int, width: int) -> list[str]:
    """Ranks of an operation as lines, of many the first, the last and some between: stretch, waiting, transfer."""
    first = ranks.matches.first
    rows = np.arange(int(first[instance]), int(first[instance + 1]))
    start, end = ranks.waiting.start[rows], ranks.waiting.end[rows]
    order = np.argsort(start, kind="stable")
    if len(order) > MAX_PICTURED:
        order = order[np.unique(np.linspace(0, len(order) - 1, MAX_PICTURED).round().astype(np.int64))]
    stretch = ranks.of_entries("stretch")[rows]
    arrived = int(start.max())
    low = max(int((start - stretch)[order].max()), int(start.min()) - 2 * max(arrived - int(start.min()), 1))
    high = max(int(end[order].max()), low + 1)
    numbers = [str(ranks.ranks[int(ranks.matches.entries.rank[rows[each]])]) for each in order.tolist()]
    label = max(map(len, numbers))
    cells = max(width - label - 1, 8)

    def cell(moment: int) -> int:
        return min(max(round(cells * (moment - low) / (high - low)), 0), cells)

    lines = []
    for name, each in zip(numbers, order.tolist(), strict=True):
        begin, waited, done = cell(int(start[each])), cell(min(arrived, int(end[each]))), cell(int(end[each]))
        drawn = BEFORE * begin + WAIT * max(waited - begin, 0) + TRANSFER * max(done - max(waited, begin), 0)
        lines.append(f"{name:>{label}} {drawn}")
    return lines


def compilation_lines(table: Table, row: int, width: int) -> list[DetailLine]:
    """A compilation: function and id, and the guards that failed and its caches in full."""
    cells = {name: table[name].cell(row) for name in ("rank", "compile_id", "function", "line", *COMPILE_TEXTS)}
    title = " ".join(clean(str(cells[name])) for name in ("compile_id", "function", "line") if cells[name] is not None)
    lines = [DetailLine(f"Rank {cells['rank']}: {title}", "title")]
    for name, label in COMPILE_TEXTS.items():
        if cells[name] is not None:
            lines += fact_lines(DetailFact(label, clean(str(cells[name]))), width)
    return lines


def group_lines(ranks: RankSet, members: list[int], width: int) -> list[DetailLine]:
    """Some ranks together: how many, and those of them that stand out."""
    numbers = [ranks.ranks[each] for each in members]
    lines = [DetailLine(counted(len(numbers), "rank"), "title")]
    lines += _sentences([late_words(ranks, each) for each in ranks.late if each.index in members], width)
    return lines


def step_worst(ranks: RankSet, step: int, index: int) -> int:
    """The operation of a step in which others waited longest for a rank, -1 for none."""
    attributed = ranks.attributed_to(index)
    mine = (attributed.late == index) & (ranks.step_of_instances[attributed.instance] == step) & (step != NULL)
    if not mine.any():
        return -1
    return int(np.bincount(attributed.instance[mine], attributed.time[mine]).argmax())


def _sentences(sentences: list[str], width: int) -> list[DetailLine]:
    return [DetailLine(piece) for each in sentences for piece in folded(clean(each), width)]


def send_ranks_command(app: App[object], panes: RankList, name: RankSetName) -> ExportNotice:
    """Copy the command line that prints the table."""
    words = ["tracetui", "ranks", *name.paths, "--show", panes.pane]
    words += ["--rank-pattern", name.options.pattern] if name.options.pattern else []
    words += ["--run", str(name.options.run)] if name.options.run != 1 else []
    if panes.arrangement.filter:
        words += ["--where", panes.arrangement.filter]
    text = shlex.join(words)
    return copy_out(app, text, "command.txt", text)
