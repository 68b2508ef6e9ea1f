"""An operator of the trace built again and timed here, beside alternatives, in a process that esc stops."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static
from tracetui_workloads.recording.launcher import Event, Note, Stage, record
from tracetui_workloads.verifying.task import TIME, requested

from tracetui.drawing.text.verify_text import verified_lines, verify_document
from tracetui.errors import TracetuiError
from tracetui.model.trace import Trace
from tracetui.tables.call_variants import require_buildable, selected_variant, task_fields
from tracetui.text import clean
from tracetui.ui.base import keys
from tracetui.ui.base.keys import command
from tracetui.ui.base.overlay import Overlay
from tracetui.ui.widgets.bar import Bar, BarPart, HintsBar


class VerifyScreen(Overlay[None]):
    """Stages while it runs, then times or the reason why there are none."""

    BINDINGS: ClassVar[list[BindingType]] = [
        command(keys.ESCAPE, "close", "Stop, or go back", "Leaves no process.", "back"),
        command(keys.QUIT, "close", "Close", "", "close"),
    ]

    def __init__(self, trace: Trace, row: int, step: int | None, alternatives: list[str]) -> None:
        """`row` is an operator or a slice that it launched; else the longest operator of the step is taken."""
        super().__init__()
        self.trace, self.row, self.step, self.alternatives = trace, row, step, alternatives
        self.lines: list[str] = []
        self._cancel = asyncio.Event()
        self._verifying: asyncio.Task[None] | None = None
        self.hints = HintsBar()

    def compose(self) -> ComposeResult:
        """The operator, what is known of it, the keys."""
        yield Bar(id="title")
        with VerticalScroll():
            yield Static(id="lines", markup=False)
        yield self.hints

    def on_mount(self) -> None:
        """Start at once."""
        self.query_one("#title", Bar).parts = (BarPart("verify "),)
        self.hints.show_hints()
        self._verifying = asyncio.create_task(self._verify())

    async def on_unmount(self) -> None:
        """Stop the process, and wait until it is gone."""
        self._cancel.set()
        if self._verifying is not None:
            await asyncio.wait({self._verifying})

    async def _verify(self) -> None:
        try:
            variant = await asyncio.to_thread(selected_variant, self.trace, self.row, self.step)
            if self.is_mounted:
                self.query_one("#title", Bar).parts = (BarPart("verify "), BarPart(clean(variant.name), "strong"))
            require_buildable(self.trace, variant, True)
            fields = await asyncio.to_thread(task_fields, self.trace, [variant])
            with requested(TIME, alternatives=self.alternatives, **fields) as request:
                outcome = await record(request, self._hear, self._cancel)
        except TracetuiError as error:
            self._show([str(error)])
            return
        if outcome.failure is not None:
            self._show([*self.lines, str(outcome.failure)])
            return
        document = verify_document(self.trace, [variant], outcome.metadata, True)
        self._show(verified_lines(document["operators"][0], document["machine"], "try again when less runs here"))

    def _hear(self, event: Event) -> None:
        if isinstance(event, Stage):
            self._show([*self.lines, f"{event.name} …"])
        elif isinstance(event, Note):
            self._show([*self.lines, event.text])

    def _show(self, lines: list[str]) -> None:
        self.lines = lines
        if self.is_mounted and not self._cancel.is_set():
            self.query_one("#lines", Static).update(Text("\n".join(map(clean, lines))))

    def action_close(self) -> None:
        """Back to the trace; what runs is stopped."""
        self.dismiss(None)
