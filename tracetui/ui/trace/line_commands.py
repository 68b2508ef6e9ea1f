"""The command line of one trace: steps, kernels, operators and ranges of time by name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import ClassVar

import numpy as np
from textual import work
from textual.binding import Binding
from textual.reactive import reactive

from tracetui.errors import TracetuiError, UsageError
from tracetui.linking.links import links
from tracetui.linking.placement import activities_of_step_number
from tracetui.linking.step_sources import AUTO, NONE, step_sources
from tracetui.model.intervals import Int64, TimeRange, read_time_range
from tracetui.model.quantities import count
from tracetui.model.results import guarded
from tracetui.model.trace import Interrupted, Kind, Trace
from tracetui.model.viewpoint import ALL, read_view_string
from tracetui.panes import pane_named
from tracetui.ui.base import keys
from tracetui.ui.trace.navigator import RangeCommands, TraceFinder
from tracetui.ui.trace.pane_list import PaneList
from tracetui.ui.trace.pane_parts import COMMANDS_WITHOUT_KEY
from tracetui.ui.trace.selection import step_of
from tracetui.ui.widgets.command_line import Deed, LineCommand, beginning, without_argument

MAX_OFFERED = 30
"""Maximum names that are offered for what was typed."""


def operators_meant(names: list[str], text: str) -> list[str]:
    """The operators that a text may mean: the one of that name, else those that begin so, with or without namespace."""
    if text in names:
        return [text]
    bare = {name: name.rpartition("::")[2] for name in names}
    exact = [name for name in names if bare[name] == text]
    return exact or [name for name in names if beginning((name, bare[name]), text)]


def no_steps_here(trace: Trace) -> str:
    """A sentence on why there are no steps, and the key that helps."""
    if trace.steps_by == NONE:
        return f"Steps are turned off: {keys.STEPS_BY} and {AUTO} find them again."
    return f"The profiler recorded no steps: {keys.STEPS_BY} shows what can count as one."


class LineCommands(RangeCommands):
    """Commands of the command line of a trace view, and the keys of groups of panes."""

    WITHOUT_KEY: ClassVar[list[Binding]] = COMMANDS_WITHOUT_KEY

    panes: PaneList
    finder: TraceFinder
    has_gpu: bool
    steps: list[int]
    step: reactive[int | None]
    selected: reactive[int]

    def show_step(self, number: int) -> None:
        """List a step, fit it in the window and select what it launched first."""
        raise NotImplementedError

    def select(self, row: int, jump: bool = False) -> None:
        """Select a slice; a jump can be undone."""
        raise NotImplementedError

    def pick_steps(self, name: str) -> None:
        """Ask for other steps."""
        raise NotImplementedError

    def action_flame(self) -> None:
        """Show the flame view of what is listed."""
        raise NotImplementedError

    def show_sql(self, query: str) -> None:
        """Show the screen of queries, and answer one that was typed already."""
        raise NotImplementedError

    def show_verify(self, alternatives: list[str]) -> None:
        """Show the screen that times the operator of the selection again."""
        raise NotImplementedError

    def action_pane_group(self, title: str) -> None:
        """Open a group of panes, or where it is open the next of its panes that lists anything."""
        self.panes.open_group_tab(title)
        self.action_tab(self.panes.pane)

    def line_commands(self) -> list[LineCommand]:
        """The commands of the command line, in the order in which it offers them."""
        slices, kernels = self.trace.slices, count(len(self._activities()))
        calls = np.bincount(slices.name[slices.kind == Kind.CPU_OP], minlength=1)
        # Operators with the most calls first.
        names = [self.trace.names[name] for name in np.argsort(-calls, kind="stable").tolist() if calls[name]]
        numbers = [*map(str, self.steps), ALL]
        return [
            LineCommand("step", "NUMBER, or all", self._read_step, partial(beginning, numbers)),
            LineCommand("kernel", f"NUMBER: by its number in the step, 1 to {kernels}", self._read_kernel),
            LineCommand(
                "op",
                "NAME: its first slice in the step; n and N go on",
                partial(self._read_operator, names),
                lambda text: operators_meant(names, text)[:MAX_OFFERED],
            ),
            LineCommand(
                "steps-by",
                "none, auto or NAME: what counts as a step",
                self._read_steps_by,
                lambda text: beginning([AUTO, NONE, *(each.name for each in step_sources(self.trace))], text),
            ),
            LineCommand("range", "START+LENGTH, as in 100ms+50ms: list what ran in it", self._read_range),
            LineCommand("flame", "the flame view", without_argument("flame", self.action_flame)),
            LineCommand("sql", "QUERY, or nothing: ask with SQL", self._read_query),
            LineCommand(
                "verify",
                "compile,bf16, or nothing: time the selected operator again",
                self._read_verify,
            ),
            LineCommand("whatif", "CHANGE: what a step would take, as in scale(softmax, 0.5)", self._read_whatif),
            *self._code_commands(),
            LineCommand("at", f"VIEW: a view string, as {keys.COPY_VIEW} copies it", self._read_viewpoint),
            *super().line_commands(),
        ]

    def _activities(self) -> Int64:
        """The GPU activities of the step that is listed or has the selection, in the order of their numbers."""
        number = self.step if self.step is not None else step_of(self.trace, self.selected)
        return links(self.trace).gpu if number is None else activities_of_step_number(self.trace, number)

    def _read_step(self, text: str) -> Deed:
        if not self.steps:
            raise UsageError(no_steps_here(self.trace))
        if text == ALL:
            return partial(setattr, self, "step", None)
        if not text.isdecimal() or int(text) not in self.steps:
            raise UsageError(f"There is no step {text!r}: there are {self.steps[0]} to {self.steps[-1]}, and all.")
        return self._from_here(partial(self.show_step, int(text)))

    def _read_steps_by(self, text: str) -> Deed:
        if not text:
            raise UsageError(f"Name what counts as a step: {AUTO}, {NONE}, or one of those that {keys.STEPS_BY} lists.")
        return partial(self.pick_steps, text)

    def _read_kernel(self, text: str) -> Deed:
        rows = self._activities()
        if not text.isdecimal() or not 1 <= int(text) <= len(rows):
            raise UsageError(f"There is no kernel {text!r} in this step: it has {count(len(rows))}.")
        return partial(self.select, int(rows[int(text) - 1]), jump=True)

    def _read_operator(self, names: list[str], text: str) -> Deed:
        meant = operators_meant(names, text) if text else []
        if not meant:
            raise UsageError(f"No operator begins with {text!r}." if names else "This trace has no operators.")
        return partial(self.finder.go_into, meant[0])

    def _read_range(self, text: str) -> Deed:
        if not text:
            return partial(self.action_tab, "range")
        return self._from_here(partial(self._show_range, read_time_range(text)))

    def _show_range(self, time_range: TimeRange) -> None:
        self.ranges.visit(time_range, True)
        self.ranges.fit()
        self.action_tab("range")

    def _code_commands(self) -> list[LineCommand]:
        # Few traces have a log of torch.compile.
        from tracetui.tables.compiles import compilations, has_compilations

        if not has_compilations(self.trace):
            return []
        codes = {each.run: each.code for each in compilations(self.trace) if each.code}
        meaning = "ID, or nothing in Compiles: the generated code, in $EDITOR"
        return [LineCommand("code", meaning, partial(self._read_code, codes), partial(beginning, list(codes)))]

    def _read_code(self, codes: Mapping[str, list[int]], text: str) -> Deed:
        from tracetui.tables.compiles import code_of
        from tracetui.ui.base.exports import open_in_editor, stem

        table, row = self.panes.table, self.panes.view.row
        if not text and self.panes.pane == "compiles" and table is not None and 0 <= row < len(table):
            text = str(table["compile_id"].cell(row))
        if text not in codes:
            some = f"there is some of {', '.join(codes)}" if codes else "the log has none"
            raise UsageError(f"There is no generated code of {text!r}: {some}." if text else f"Name an id: {some}.")

        def open_code() -> None:
            name = f"{stem(self.trace.label)}-{text}.py"
            self.notice(*open_in_editor(self.app, code_of(self.trace, codes[text]), name))

        return open_code

    def _read_query(self, text: str) -> Deed:
        # It is an extra, which few use.
        from tracetui.sql.database import require_duckdb

        require_duckdb()
        return partial(self.show_sql, text)

    def _read_verify(self, text: str) -> Deed:
        # Its analyses are needed for this alone.
        from tracetui_workloads.verifying.task import ALTERNATIVES

        from tracetui.tables.call_variants import read_alternatives

        return partial(self.show_verify, read_alternatives(text, ALTERNATIVES))

    def _read_whatif(self, text: str) -> Deed:
        # Few ask.
        from tracetui.whatif.prediction import EXAMPLES, read_change, split_changes

        changes = split_changes(text)
        if not changes:
            raise UsageError(f"Name one change or several: {EXAMPLES}.")
        for each in changes:
            read_change(each)

        def ask() -> None:
            self.notice("Replaying the launches ...")
            self._replay(changes)

        return ask

    @work(thread=True, exclusive=True, group="whatif")
    def _replay(self, changes: list[str]) -> None:
        from tracetui.drawing.text.whatif_text import as_lines
        from tracetui.ui.widgets.picker import TextPage
        from tracetui.whatif.prediction import predict

        try:
            with guarded("The replay"):
                lines = as_lines(predict(self.trace, changes))
        except Interrupted:
            return
        except TracetuiError as error:
            # A page has room for all of the sentence.
            lines = [str(error)]
        self.app.call_from_thread(self.hints.end_notice)
        self.app.call_from_thread(self.app.push_screen, TextPage("What if", lines))

    def _read_viewpoint(self, text: str) -> Deed:
        viewpoint = read_view_string(text)
        if viewpoint.pane is not None:
            pane_named(viewpoint.pane)
        return self._from_here(partial(self.navigator.visit, viewpoint))

    def _from_here(self, deed: Deed) -> Deed:
        """Viewpoint that backspace leads back to."""

        def leave_first() -> None:
            self.navigator.leave(to_part=True)
            deed()

        return leave_first
