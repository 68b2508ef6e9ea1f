"""The screen of one trace."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.message import Message

from tracetui.drawing.format import shorten
from tracetui.drawing.timeline.raster import Picture
from tracetui.model.trace import Trace
from tracetui.model.viewpoint import Viewpoint
from tracetui.opening import SideName
from tracetui.safe_text import clean
from tracetui.ui.base import keys
from tracetui.ui.base.commands import command
from tracetui.ui.base.messages import CompareAsked
from tracetui.ui.trace.history import Marks
from tracetui.ui.trace.trace_view import TraceView
from tracetui.ui.widgets.sized_screen import SizedScreen


@dataclass
class StepsAsked(Message):
    """The user wants the runs of something in a trace as its steps."""

    path: str
    trace: Trace
    name: str
    """What counts as a step, as `--steps-by` takes it."""
    viewpoint: Viewpoint
    """Where to look then."""
    marks: Marks
    """What is marked in it."""


class TraceScreen(SizedScreen):
    """Composes one `TraceView`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        command(keys.COMPARE, "compare", "Compare", "This step with another one, or with another trace.", "compare"),
        command(
            keys.ESCAPE, "leave", "Leave the trace", "To the comparison or the list from which it was opened.", "back"
        ),
        command(keys.BACK, "leave_below", "Leave the trace", "To the comparison from which it was opened."),
    ]

    def __init__(
        self, trace: Trace, picture: Picture, viewpoint: Viewpoint, path: str = "-", marks: Marks | None = None
    ) -> None:
        super().__init__()
        self.trace, self.picture, self.path = trace, picture, path
        self._opening_viewpoint, self._marks = viewpoint, marks

    @property
    def view(self) -> TraceView:
        """What fills the screen."""
        return self.query_one(TraceView)

    @property
    def traces(self) -> tuple[Trace, ...]:
        """What is shown."""
        return (self.trace,)

    @property
    def label(self) -> str:
        """The name of the trace."""
        return self.trace.label

    def compose_view(self) -> ComposeResult:
        """The trace."""
        yield TraceView(self.trace, self.picture, self._opening_viewpoint, self._marks)

    def visit(self, viewpoint: Viewpoint) -> None:
        """Go to a viewpoint, from where `backspace` leads back to the screen below."""
        self.view.navigator.history.viewpoints.clear()
        self.view.navigator.visit(viewpoint)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leaving takes a screen below, or the list that the trace was picked from."""
        if action == "leave":
            return self.is_over_another or bool(getattr(self.app, "has_list", False))
        return self.is_over_another if action == "leave_below" else True

    def action_leave(self) -> None:
        """Back to the screen below, or to the list."""
        if self.is_over_another:
            self.app.pop_screen()
        else:
            self.app.call_later(self.app.run_action, "app.traces")

    def action_leave_below(self) -> None:
        """Back to the screen below."""
        self.app.pop_screen()

    def help_title(self) -> str:
        """What stands above the help."""
        return f"Help: keys, and below them the columns of {self.view.panes.pane}"

    @on(TraceView.StepsPicked)
    def _change_steps(self, message: TraceView.StepsPicked) -> None:
        """Ask for other steps; what is selected stays, and the panes list the new steps."""
        view = self.view
        view.notice(f"Taking the runs of {shorten(clean(message.name), 60)} as steps ...")
        here = replace(view.navigator.here, step=None, every_step=False, steps_by=message.name, pane="steps")
        marks = view.navigator.marks.without_steps()
        self.post_message(StepsAsked(self.path, self.trace, message.name, here, marks))

    def action_compare(self) -> None:
        """Pick what to compare this step with."""
        # The picker is needed only once it is asked for.
        from tracetui.ui.trace.compare_picker import OTHER_TRACE, ComparePicker, offers_for

        def take(choice: tuple[str, str] | None) -> None:
            if choice == OTHER_TRACE:
                self.post_message(CompareAsked(SideName(self.path, ""), None))
            elif choice is not None:
                self.post_message(CompareAsked(SideName(self.path, choice[0]), SideName(self.path, choice[1])))

        view = self.view
        self.app.push_screen(ComparePicker(offers_for(self.trace, view.step, view.selected)), take)
