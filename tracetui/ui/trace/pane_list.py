"""The panes of one trace as tabs, for the current step.

Tables are built in a thread, the visible pane first, and kept by (pane, step, grouping). What the rest of the screen
tells follows while no key is pressed, then the visible pane of the steps before and after; other panes are built when
they are opened. The list never selects anything by itself: it reports what the user moved to, and follows the
selection.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from textual import on, work
from textual.message import Message
from textual.reactive import reactive
from textual.worker import Worker, get_current_worker

from tracetui.config import config
from tracetui.drawing.drawn_columns import RowGraphics, row_graphics
from tracetui.drawing.format import named_groups
from tracetui.drawing.text.export import render
from tracetui.drawing.text.readable_table import Extent, readable
from tracetui.errors import AnalysisFailed, TracetuiError
from tracetui.health.summary import activity_counts
from tracetui.idle.idle_parts import idle_parts
from tracetui.kernel_names.slice_names import short_kernel
from tracetui.linking.lines import known_sites
from tracetui.linking.links import links
from tracetui.linking.placement import step_labels
from tracetui.linking.steps import steps
from tracetui.model.intervals import Part, TimeRange
from tracetui.model.quantities import count
from tracetui.model.results import guarded, is_kept
from tracetui.model.table import Table, TextKind
from tracetui.model.trace import Interrupted, Trace, interruptible
from tracetui.overview.facts import Overview
from tracetui.overview.overview_table import kept_overview, table_of
from tracetui.panes import PANES
from tracetui.tables.source_table import index_of_line
from tracetui.text import clean
from tracetui.ui.base.crash_safe_app import CrashSafeApp
from tracetui.ui.base.keys import tab_key
from tracetui.ui.trace.described_list import DescribedList, TableKey
from tracetui.ui.trace.pane_parts import (
    OVERVIEW,
    OWN_KEYS,
    TABS,
    OverviewList,
    RowTree,
    place_in_tree,
    place_on_step,
    tab_groups,
)
from tracetui.ui.trace.selection import prepare_descriptions
from tracetui.ui.widgets.bar import BarPart
from tracetui.ui.widgets.columns import ShownColumn, layout_of
from tracetui.ui.widgets.details import WAITING_NOTE
from tracetui.ui.widgets.tabbed_list import ListArrangement, OpenGroup, Tab, TabGroup, group_parts
from tracetui.ui.widgets.table_view import LEAF, TableView

UNKNOWN_LENGTH = 1000
"""Stands for the length of a list that is not known yet: more rows than any screen has lines."""

MAX_KEPT_TABLES = 150
"""Maximum tables kept; those that were listed the longest ago go first."""
MANY_SLICES = 500_000
"""From so many slices on lanes are painted before tables are begun."""
EARLY_PANES = ("findings", "summary", "health")
"""Panes that are built whichever is open: the sentence at the top, the header and its warnings come with them."""
STEPS_AHEAD = (1, -1)
"""Steps that are built before they are asked for, counted from the one that is listed."""
QUIET_SECONDS = 0.06
"""Seconds without a key after which what is not on screen is worked out."""
PAUSE_SECONDS = 0.01
"""Seconds between two looks at whether keys have come."""
MAX_ROWS_SECONDS = 3.0
"""Seconds for which a key waits for the rows of the pane that the key before it opened."""
WITHOUT_MODULES = "Functions are listed: no nn.Module was called while Python frames were recorded."
"""Stands below the pane of modules that lists functions in their place."""
RESHAPED_PANES = ("findings", "range", "summary", "modules")
"""Panes whose tables are made readable for the screen, each of which gets columns of its own."""


class PaneList(DescribedList):
    """The panes of one trace."""

    step: reactive[int | None] = reactive(None, repaint=False, init=False)
    """Number of the step whose rows are listed; None for all."""

    @dataclass
    class Built(Message):
        """A table is ready, or there is none and the sentence says why."""

        key: TableKey
        table: Table | None
        note: str = ""
        columns: list[ShownColumn] = field(default_factory=list)
        """The measured columns of the table; none where it is shown as another one."""
        graphics: RowGraphics | None = None
        """What is drawn in its rows; None where that failed."""

        @property
        def has_rows(self) -> bool:
            """True where it lists anything."""
            return self.table is not None and len(self.table) > 0

    @dataclass
    class Sketched(Message):
        """A part of an overview is known."""

        key: TableKey
        overview: Overview

    class Prepared(Message):
        """The analyses that descriptions of slices ask for are there."""

    @dataclass
    class Summed(Message):
        """The summary of the whole trace is ready."""

        table: Table

    class Judged(Message):
        """The findings are known, and with them the sentence about all of them."""

    class Measured(Message):
        """It is known how long the lists are."""

    class Explained(Message):
        """The causes of idle time are known."""

    def __init__(self, trace: Trace, *, id: str | None = None) -> None:
        super().__init__(trace, TABS, id=id)
        self.view = self.overview = OverviewList(trace)
        self._largest_first = {name: pane.largest_first for name, pane in PANES.items()}
        # What is the operator's own adds up to a whole, which a total does not.
        self._largest_first["ops"] = "self_device_us" if len(links(trace).gpu) else "self_cpu_us"
        for name, column in self._largest_first.items():
            if column is not None:
                self.arrangements[name] = ListArrangement(column, descending=True)
        if len(steps(trace)) == 0:
            self.arrangements["steps"] = ListArrangement(by="source")
        self._lists_functions = {"function", "module"}.intersection(known_sites(trace)) == {"function"}
        """True where functions stand in for modules, of which none was called."""
        if self._lists_functions:
            self.arrangements["modules"] = ListArrangement(by="function")
        self.time_range: TimeRange | None = None
        """The range of time that the pane of this name sums up."""
        self._is_range_listed = False
        """True while all panes list only what ran in it."""
        self._offered = {name for name in TABS if PANES[name].is_offered(trace)}
        """Panes for which the trace can have rows."""
        # Of a log of torch.compile by itself the overview knows nothing but its phases.
        first = "compiles" if trace.compile_log is None else ""
        for pane in (config().word("pane"), first):
            if pane in self._offered:
                self.set_reactive(PaneList.pane, pane)
                break
        self._trees: dict[TableKey, RowTree] = {}
        self._tables: dict[TableKey, Table | str] = {}
        self._has_rows: dict[str, bool] = {}
        """Whether a pane listed anything when it was last built, for whichever part."""
        self._is_started = False
        self._is_explained = False
        self._is_sketched = False
        """True once the causes of idle time are known."""
        self._sought = ""
        """The pane that the key of its group opened, until it is known whether it lists anything."""
        self._opened_at = 0.0
        """When a key opened the pane, or grouped it."""
        self._sought_first = ""
        """The pane that it opened first, to which it comes back where none lists anything."""
        self._listed: TableKey | None = None
        """The table that the list shows."""
        self._measured = UNKNOWN_LENGTH
        """The longest list when it was last reported."""
        self._is_row_due = False
        """True where the first row is to be selected once it is listed."""
        self._due_slice = -1
        """The slice whose row gets the cursor as soon as rows are listed."""
        self._followed_names: Sequence[str] = ()
        self.details.is_waiting = not is_kept(trace, prepare_descriptions)
        self._follows_gap = False
        """True where the gap before the first followed slice is selected, and not that slice."""

    def start(self) -> None:
        """Build the tables, once it is known which step comes first.

        Those of many slices take the interpreter from whatever draws the lanes, which come first.
        """
        self._is_started = True
        if len(self.trace.slices) < MANY_SLICES:
            self._build()
        else:
            self.call_after_refresh(self._build)

    @property
    def longest(self) -> int:
        """Rows of the longest list that goes with the timeline, of the current step; a large number while unknown."""
        if len(links(self.trace).gpu):
            # Kernels have as many rows, and launches and gaps hardly more; they are counted as a table is built.
            is_known = is_kept(self.trace, activity_counts, self.part)
            return sum(self._count_activities(self.part).values()) if is_known else UNKNOWN_LENGTH
        table = self._tables.get(self._key("ops"))
        if table is None:
            return UNKNOWN_LENGTH
        return len(table) if isinstance(table, Table) else 0

    @property
    def groups_names(self) -> bool:
        """True where a row stands for all slices of a name rather than for one."""
        return PANES[self.pane].is_of_names or self.arrangements[self.pane].by is not None

    @property
    def table(self) -> Table | None:
        """The whole table of the current pane, None while it is being built or when there is none."""
        table = self._tables.get(self._key(self.pane))
        return table if isinstance(table, Table) else None

    def is_built(self, pane: str) -> bool:
        """True where a pane of the current step is there, or it is known why not."""
        return self._key(pane) in self._tables

    @property
    def headline(self) -> str:
        """The findings of the current step in a sentence; empty until they are known."""
        table = self._tables.get(self._key("findings"))
        return table.headline if isinstance(table, Table) else ""

    @property
    def groupings(self) -> Sequence[str]:
        """The groupings of the current pane that this trace has."""
        return PANES[self.pane].offered(self.trace)

    @property
    def part(self) -> Part | None:
        """The range of time or the step that is listed, None for everything."""
        return self.time_range if self._is_range_listed else self.step

    @property
    def listed_part(self) -> Part | None:
        """The range of time or the step that the current pane lists, None for everything."""
        return self._key(self.pane)[1]

    @property
    def range_headline(self) -> str:
        """A sentence about what ran in the range of time; empty until that is known."""
        table = self._tables.get(self._key("range"))
        return table.headline if isinstance(table, Table) else ""

    def watch_pane(self, old: str, new: str) -> None:
        """Show another tab; where it is not built yet, it comes before all others."""
        self._opened_at = time.monotonic()
        left = self.arrangements[old].group
        if left is not None and left.slices:
            self.arrangements[old] = ListArrangement()
        super().watch_pane(old, new)
        self.details.turn_to_row(True)
        if self._is_started and self._key(new) not in self._tables:
            self._build()

    @property
    def tab_keys(self) -> list[str]:
        """The keys of the groups and of the tabs."""
        return [*(group.key for group in self.tab_groups), *(tab.key for tab in self._tabs() if tab.key)]

    @property
    def tab_groups(self) -> list[TabGroup]:
        """The groups with the panes that have a tab for this trace."""
        return tab_groups(self._tabs(), self.pane)

    @property
    def awaits_rows(self) -> bool:
        """True for a moment after a key opened a pane whose rows are not there: the next key may be about them."""
        is_missing = self._is_started and not self.is_built(self.pane)
        return is_missing and time.monotonic() - self._opened_at < MAX_ROWS_SECONDS

    def watch_step(self) -> None:
        """List another step, unless a range of time is listed."""
        if not self._is_range_listed:
            self._list_anew()

    def list_range(self, time_range: TimeRange | None, is_listed: bool) -> None:
        """Sum up a range of time, and list in all panes only what ran in it."""
        before = self.time_range, self.part
        self.time_range, self._is_range_listed = time_range, is_listed and time_range is not None
        if (self.time_range, self.part) != before:
            self._list_anew()

    def _list_anew(self) -> None:
        # A list that is the same for every part stays where it is: its row may have led to this part.
        stays = self._key(self.pane) == self._listed
        self._cursors = {self.pane: self.view.cursor} if stays else {}
        if self._is_started:
            self._build()

    def follow(self, slices: Sequence[int], names: Sequence[str], is_gap: bool = False) -> None:
        """Put the cursor on the selection: the first of `slices`, or of `names` where those are listed.

        With `is_gap` it is the gap before the first slice that is selected.
        """
        self._followed_slices, self._followed_names, self._follows_gap = slices, names, is_gap
        self._place_cursor()
        self.details.turn_to_row(self.view.slice_row >= 0 and self.view.slice_row in slices[:1])

    def arrange_by(self, arrangement: ListArrangement, select_first: bool = False) -> None:
        """Sort, filter or group the current pane; `select_first` selects the first row once it is listed."""
        before = self.arrangement
        self._is_row_due = select_first
        if select_first:
            self._cursors.pop(self.pane, None)
            self._followed_slices = self._followed_names = ()
        self.arrangements[self.pane] = arrangement
        if arrangement.by != before.by:
            self._opened_at = time.monotonic()
            self._build()
        elif (arrangement.sort, arrangement.descending) != (before.sort, before.descending):
            # What someone sorts for is at the top.
            self._followed_slices = self._followed_names = ()
            self._show(0)
            self.view.announce_row()
        else:
            self._show(0)

    def list_step_sources(self, used: int) -> None:
        """List what can count as a step, with the cursor on the source whose first run is the slice `used`."""
        self.open_tab("steps")
        self._due_slice = used
        self.arrange_by(replace(self.arrangement, by="source", sort=None, filter=""))

    def _first_sort(self, by: str | None) -> tuple[str | None, bool]:
        column = self._largest_first[self.pane] if by is None else None
        return column, column is not None

    @property
    def row_tree(self) -> RowTree | None:
        """The tree of the current pane; None where rows are no tree, or are sorted or filtered."""
        table, arrangement = self.table, self.arrangement
        if self.pane != "modules" or table is None or arrangement.sort or arrangement.filter:
            return None
        key = self._key(self.pane)
        known = self._trees.get(key)
        if known is None or known.table is not table:
            of_other_steps = [tree for (_, _, by), tree in self._trees.items() if by == key[2] != "call"]
            known = RowTree.of(table, of_other_steps[-1] if of_other_steps else None)
            self._trees[key] = known
        return known

    def toggle_row(self, row: int) -> bool:
        """Open or close a row of a tree; False for a row with nothing below it, and in lists."""
        tree = self.row_tree
        if tree is None or tree.states[row] == LEAF:
            return False
        tree.opened[row] = not tree.opened[row]
        # The cursor stays on the row that was opened, wherever the selection is.
        self._followed_slices = self._followed_names = ()
        self._show(int(np.searchsorted(tree.listed(), row)))
        return True

    @on(TableView.RowOpened)
    def _open_row(self, message: TableView.RowOpened) -> None:
        message.stop()
        self.toggle_row(message.row)

    def _arranged(self, table: Table) -> tuple[NDArray[np.int64], str]:
        order, note = super()._arranged(table)
        tree = self.row_tree
        return (order if tree is None else tree.listed()), note

    def _states(self) -> NDArray[np.int64] | None:
        tree = self.row_tree
        return None if tree is None else tree.states

    def _group_at(self, table: Table, row: int) -> OpenGroup | None:
        by = self.arrangement.by
        grouping = PANES[self.pane].grouping(by)
        if by is None or grouping is None or grouping.opens is None:
            return None
        key = table.columns[0]
        label = str(named_groups(table, by).columns[0].cell(row))
        label = clean(short_kernel(label) if key.spec.text is TextKind.KERNEL else label)
        names = [key.name, *(name for name in grouping.opens.split() if name in table)]
        if (self.pane, by) == ("kernels", "stream") and table.slices is not None:
            return OpenGroup(by, label, (), int(self.trace.slices.lane[table.slices[row]]))
        return OpenGroup(by, label, tuple((name, table[name].cell(row)) for name in names))

    def _in_group(self, table: Table, group: OpenGroup) -> NDArray[np.bool_]:
        if group.slices and table.slices is not None:
            return np.asarray(np.isin(table.slices, group.slices))
        if group.lane < 0 or table.slices is None:
            return super()._in_group(table, group)
        return np.asarray(self.trace.slices.lane[table.slices] == group.lane)

    def as_text(self, format: str, row: int | None = None, most: int | None = None) -> str:
        """The listed rows, at most `most`, or one row of the table, as `csv`, `md` or `json`."""
        table = self.table
        if table is None:
            return ""
        arrangement, listed = self.arrangement, self.view.order
        rows = listed[:most] if row is None else np.array([row], np.int64)
        extent = Extent(
            self.listed_part,
            arrangement.by,
            self._kept_words() if row is None else "",
            len(listed) if row is None else None,
        )
        return render(table.take(rows), self.trace, self.pane, format, extent)

    def _kept_words(self) -> str:
        """The filter and the open group in words."""
        arrangement = self.arrangement
        return " in ".join(filter(None, (arrangement.filter, arrangement.group.label if arrangement.group else "")))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """As in any list; whether a pane can be grouped at all is known without looking at the trace."""
        if action == "group":
            return bool(PANES[self.pane].groups)
        return super().check_action(action, parameters)

    @on(Built)
    def _take(self, message: Built) -> None:
        message.stop()
        self._tables.pop(message.key, None)
        while len(self._tables) >= MAX_KEPT_TABLES:
            oldest = next(iter(self._tables))
            self._tables.pop(oldest)
            self._drawn.pop(oldest, None)
        self._drawn[message.key] = message.graphics
        self._tables[message.key] = message.note if message.table is None else message.table
        pane, _, by = message.key
        self._has_rows[pane] = message.has_rows
        if message.table is not None and message.columns:
            self.view.keep_layout(pane, message.table, by, message.columns)
        if message.key[:2] == ("summary", None) and message.table is not None:
            self.post_message(self.Summed(message.table))
        if message.key in (self._key("findings"), self._key("range")):
            self.post_message(self.Judged())
        self._report_length()
        if message.key == self._key(self.pane):
            self._show(self._cursors.get(self.pane, 0))
            self._seek()
        elif message.key == self._key(pane):
            self._show_tabs()

    def open_group_tab(self, title: str) -> None:
        """Open the first pane of a group that lists anything, of the open group the next."""
        group = next((group for group in self.tab_groups if group.title == title), None)
        if group is not None:
            self.open_tab(group.opens)
            self._sought = self._sought_first = group.opens
            self._seek()

    def _seek(self) -> None:
        """Go on from a pane that the key of its group opened and that lists nothing, to the next that may list any."""
        if self.pane != self._sought or not self.is_built(self.pane):
            return
        self._sought = ""
        group = next(group for group in self.tab_groups if any(tab.name == self.pane for tab in group.tabs))
        if not self._is_empty(self.pane):
            return
        if self._is_empty(group.opens):
            self.open_tab(self._sought_first)
        else:
            self.open_tab(group.opens)
            self._sought = group.opens
            self._seek()

    @on(Explained)
    def _note_explained(self) -> None:
        self._is_explained = True

    @on(Prepared)
    def _describe(self, message: Prepared) -> None:
        message.stop()
        self.details.end_waiting()
        self._explain_row()

    def _report_length(self) -> None:
        """Report another length of the lists that go with the timeline, once it is known."""
        if self._measured != self.longest < UNKNOWN_LENGTH:
            self._measured = self.longest
            self.post_message(self.Measured())

    def _key(self, pane: str) -> TableKey:
        part = self.part
        if pane == "range" and self.time_range is not None:
            part = self.time_range
        return self._key_of(pane, part)

    def _key_of(self, pane: str, part: Part | None) -> TableKey:
        """The table that a pane shows where a step or a range of time is listed."""
        declared = PANES[pane]
        is_listed = declared.of_range if isinstance(part, TimeRange) else declared.of_step
        return pane, part if is_listed else None, self.arrangements[pane].by

    def _build(self) -> None:
        """Have the missing tables of this step built, the visible one first."""
        # Of a CPU the operators say how long the list may be.
        by_length = () if len(links(self.trace).gpu) else ("ops",)
        panes = [self.pane, *EARLY_PANES, *by_length, *(("range",) if self.time_range else ())]
        wanted = [self._key(pane) for pane in panes]
        for key in wanted:
            if key in self._tables:
                # To the end of the order: it is not the next to go.
                self._tables[key] = self._tables.pop(key)
        missing = [key for key in dict.fromkeys(wanted) if key not in self._tables]
        ahead = [key for key in self._keys_ahead() if key not in self._tables]
        if self._key(self.pane) not in missing:
            self._show(self._cursors.get(self.pane, 0))
        else:
            # The rows of before stay until the new ones are there: a blink would be all there is to see.
            self._show_tabs()
        if missing or ahead or self.details.is_waiting or not self._is_explained:
            urgent = missing[:1] if self._key(self.pane) in missing else []
            self._build_tables(urgent, [key for key in [*missing, *ahead] if key not in urgent])
        self._report_length()
        if self._key("range" if self._is_range_listed else "findings") not in missing:
            self.post_message(self.Judged())

    def _keys_ahead(self) -> list[TableKey]:
        """The visible pane of the steps that are likely to be asked for next."""
        labels = step_labels(self.trace)
        if self._is_range_listed or self.step not in labels or self.pane in ("range", OVERVIEW):
            return []
        index = labels.index(self.step)
        ahead = [labels[index + by] for by in STEPS_AHEAD if 0 <= index + by < len(labels)]
        keys = [self._key_of(self.pane, number) for number in ahead]
        return [key for key in keys if key[1] is not None]

    @work(thread=True, exclusive=True, group="panes")
    def _build_tables(self, urgent: list[TableKey], others: list[TableKey]) -> None:
        """Build tables: those on screen at once, the others as long as no key is pressed."""
        worker = get_current_worker()

        quiet = self._once_quiet(worker)

        def is_wanted() -> bool:
            # What is left of an overview that is drawn in part waits for keys, as what is not on screen does.
            return quiet() if self._is_sketched else not worker.is_cancelled

        try:
            self._is_sketched = False
            for keys, goes_on in ((urgent, is_wanted), (others, quiet)):
                with interruptible(goes_on):
                    if keys is others and not self._is_explained and goes_on():
                        # The findings rest on them, and come next.
                        with suppress(AnalysisFailed), guarded("The causes of idle time"):
                            idle_parts(self.trace)
                        self.post_message(self.Explained())
                    for key in keys:
                        if not goes_on():
                            return
                        self.post_message(self._built(key))
                    if self.details.is_waiting:
                        self._prepare()
        except Interrupted:
            return

    def _once_quiet(self, worker: Worker[None]) -> Callable[[], bool]:
        """A function that waits while keys come, and returns whether the worker is to go on."""
        app = self.app

        def wait() -> bool:
            while not worker.is_cancelled and isinstance(app, CrashSafeApp):
                if time.monotonic() - app.last_key >= QUIET_SECONDS:
                    break
                time.sleep(PAUSE_SECONDS)
            return not worker.is_cancelled

        return wait

    def _built(self, key: TableKey) -> Built:
        """A table with its columns measured; where it cannot be built, the sentence that says why."""
        pane, part, by = key
        try:
            if pane == OVERVIEW:
                kept_overview(self.trace, part, lambda overview: self._tell(key, overview))
            table = PANES[pane].build(self.trace, step=part, by=by)
            with guarded(f"The pane {pane}"):
                # The tabs ask for these on the event loop, where they must not be made.
                self._count_activities(part)
                reshaped = pane in RESHAPED_PANES or by is not None
                columns = [] if reshaped else layout_of(pane, table, by)
            return self.Built(key, table, columns=columns, graphics=self._graphics_of(key, table))
        except TracetuiError as error:
            return self.Built(key, None, str(error))

    def _graphics_of(self, key: TableKey, table: Table) -> RowGraphics | None:
        """Drawings in the rows of a table; None where these cannot be worked out, which costs nothing else."""
        pane, part, by = key
        try:
            with guarded(f"What is drawn in the pane {pane}"):
                return row_graphics(self.trace, pane, by, table, isinstance(part, TimeRange))
        except AnalysisFailed:
            return None

    def _count_activities(self, part: Part | None) -> dict[str, int]:
        """Kernels and other GPU activities of what is listed, by their words; empty where counting them failed."""
        try:
            with guarded("The count of kernels"):
                return activity_counts(self.trace, part)
        except AnalysisFailed:
            return {}

    def _prepare(self) -> None:
        """Run the analyses that descriptions of slices need; the description that meets a defect reports it."""
        # The report is written here: the description says where it meets the same defect.
        with suppress(AnalysisFailed), guarded("The description of slices"):
            prepare_descriptions(self.trace)
        self.post_message(self.Prepared())

    def _missing_note(self) -> str:
        note = self._tables.get(self._key(self.pane))
        return note if isinstance(note, str) else WAITING_NOTE

    def _empty_note(self, table: Table) -> str:
        if not self.trace.is_torch:
            return f"{table.headline or table.note} Lanes and search work."
        if self.pane == "ops" and len(table) == 0:
            return "No operators, annotations or runtime calls in this trace. Lanes and search show what there is."
        return table.headline or table.note or f"Nothing to list: {PANES[self.pane].help}"

    def _note_below(self, table: Table) -> str:
        if self.pane == "modules" and self.arrangement.by == "function" and self._lists_functions:
            return f"{WITHOUT_MODULES} {table.note}".rstrip()
        return table.note

    def _readable(self, table: Table) -> Table:
        if self.pane == "findings" or (self.pane == "range" and self._is_range_listed):
            # The headline stands at the top of the screen.
            return replace(table, headline="")
        tree = self.row_tree
        if tree is not None:
            return tree.readable()
        return readable(table) if self.pane == "summary" else named_groups(table, self.arrangement.by)

    def _graphics(self) -> RowGraphics | None:
        return self._drawn.get(self._key(self.pane))

    def _show(self, cursor: int) -> None:
        self.overview.part, self.overview.sketch = self.listed_part, None
        self._listed = self._key(self.pane)
        super()._show(cursor)

    def _tell(self, key: TableKey, overview: Overview) -> None:
        self._is_sketched = True
        self.post_message(self.Sketched(key, overview))

    @on(Sketched)
    def _draw_sketch(self, message: Sketched) -> None:
        message.stop()
        if message.key == self._key(OVERVIEW) == self._key(self.pane) and message.key not in self._tables:
            self.overview.sketch = message.overview
            table = table_of(message.overview)
            self.overview.show(OVERVIEW, table, np.arange(len(table)), self.overview.cursor)
            self.post_message(self.Opened())

    def open_filtered(self, pane: str, condition: str) -> None:
        """Open a pane with only the rows that a condition keeps."""
        self.open_tab(pane)
        sort, descending = self._first_sort(None)
        self.arrange_by(ListArrangement(sort, descending, condition), select_first=True)

    def open_group_of(self, by: str, label: str, name: str) -> None:
        """Open the kernels of a group: of a name, a source line, an operator."""
        self.open_tab("kernels")
        self.arrange_by(ListArrangement(group=OpenGroup(by, label, ((by, name),))), select_first=True)

    def list_finding(self, jump: str) -> bool:
        """Open the findings with the cursor on the one that leads to a viewpoint; False where this part has none."""
        table = self._tables.get(self._key("findings"))
        if not isinstance(table, Table):
            return False
        rows = [row for row in range(len(table)) if table["jump"].cell(row) == jump]
        if rows:
            self._cursors["findings"] = rows[0]
            self.open_tab("findings")
        return bool(rows)

    def _rows_listed(self) -> None:
        self._place_cursor()
        if self._due_slice >= 0 and self.view.table is not None:
            self.view.put_cursor_on_slice(self._due_slice)
            self._due_slice = -1
        if self._is_row_due:
            self._is_row_due = False
            self.view.announce_row()

    def _place_cursor(self) -> None:
        """Move the cursor to the row that stands for the selection, or near it."""
        view = self.view
        if self.pane == OVERVIEW:
            return
        if self.pane == "modules" and view.table is not None and self._followed_slices:
            first, by = int(self._followed_slices[0]), self.arrangement.by
            index, view.located = place_in_tree(self.trace, view.table, view.order, view.row, first, by)
            if index >= 0:
                view.put_cursor(index)
        elif self.groups_names:
            # Names are read from the top: the cursor stays, and only shows whether it is on the selection's name.
            view.located = view.text in self._followed_names
        elif self.lists_gaps and not self._follows_gap and self.arrangement.sort == PANES["gaps"].largest_first:
            # Kernels do not come in this order: the cursor stays on the longest, or where it was left.
            view.located = False
        elif self.pane in ("findings", "range", "health"):
            # The most severe is on top: a finding that is about the selection by chance is no reason to leave it.
            view.located = view.slice_row >= 0 and view.slice_row in self._followed_slices[:1]
        elif self.pane == "source" and view.table is not None and self._followed_slices:
            index = index_of_line(self.trace, view.table, view.order, int(self._followed_slices[0]))
            view.located = index >= 0
            if view.located:
                view.put_cursor(index)
        elif self.pane == "steps" and view.table is not None:
            index, view.located = place_on_step(self.trace, view.table, view.order, self._followed_slices, self.step)
            if index >= 0:
                view.put_cursor(index)
        elif self._followed_slices:
            view.located = any(view.put_cursor_on_slice(row) for row in self._followed_slices)
            if not view.located and PANES[self.pane].is_in_time_order:
                self._place_near(int(self.trace.slices.start[self._followed_slices[0]]))
        self._explain_row()

    def _place_near(self, moment: int) -> None:
        """Move the cursor to what starts next to a moment (ns), in a list that does not hold the selection."""
        table, order = self.view.table, self.view.order
        if table is not None and table.slices is not None and len(order):
            rows = table.slices[order]
            distance = np.where(rows < 0, np.iinfo(np.int64).max, abs(self.trace.slices.start[rows] - moment))
            self.view.put_cursor(int(np.argmin(distance)))

    def _tabs(self) -> Sequence[Tab]:
        return [
            Tab(
                name,
                PANES[name].title,
                self._count(name),
                str(tab_key(OWN_KEYS[name])) if name in OWN_KEYS else "",
                self._is_empty(name),
            )
            for name in TABS
            if name == self.pane or (name in self._offered and (name != "range" or self.time_range))
        ]

    def _tab_parts(self, width: int) -> tuple[BarPart, ...]:
        return group_parts(self.tab_groups, self.pane, self._remarks(), width)

    def _is_empty(self, name: str) -> bool:
        table = self._tables.get(self._key(name))
        if table is None:
            return not self._has_rows.get(name, True)
        return isinstance(table, str) or len(table) == 0

    def _count(self, name: str) -> str:
        table = self._tables.get(self._key(name))
        if not isinstance(table, Table) or name == "summary":
            return ""
        arrangement = self.arrangements[name]
        by = f" by {arrangement.by}" if arrangement.by is not None else ""
        if arrangement.filter or arrangement.group is not None:
            # Of another tab it is not known how many rows fit until it is listed.
            return f"{count(len(self.view.order))}{by}" if name == self.pane else ""
        if name == "kernels" and not by:
            in_step = self._count_activities(self.part)
            kernels, others = in_step.get("kernels", 0), in_step.get("copies", 0)
            if others and kernels + others == len(table):
                return f"{count(kernels)}+{count(others)}"
        if name == "layers" and not by and len(table):
            # One row stands for all layers of a series.
            series = [int(number) for number in table["layers"].values[~table["layers"].nulls()].tolist()]
            return count(series[0]) if len(series) == 1 else f"{count(len(series))} series"
        if name == "health" and not by:
            # A check that is fine is listed, and nothing to look at.
            warnings = int(np.sum(table["count"].values.astype(np.int64) > 0))
            return count(warnings) if warnings else ""
        return f"{count(len(table))}{by}" if len(table) else ""
