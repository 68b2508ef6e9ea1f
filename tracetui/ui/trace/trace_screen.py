"""The screen of one trace."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar

from textual import on
from textual.binding import BindingType
from textual.message import Message
from textual.worker import get_current_worker

from tracetui.drawing.format import cut_name
from tracetui.drawing.timeline.raster import TimelineIndex
from tracetui.linking.step_sources import AUTO, NONE
from tracetui.model.trace import Interrupted, Kind, Trace, interruptible
from tracetui.model.viewpoint import Viewpoint
from tracetui.opening.trace_opening import SideName
from tracetui.text import clean
from tracetui.ui.base import keys
from tracetui.ui.base.keys import command
from tracetui.ui.base.overlay import CompareAsked
from tracetui.ui.trace.marks import ComparableScopes, MarkedPart, part_of_list, part_of_slice
from tracetui.ui.trace.navigator import Marks
from tracetui.ui.trace.slice_description import short_name
from tracetui.ui.trace.trace_view import TraceView
from tracetui.ui.widgets.searchable_view import SizedScreen

MAX_NAMED_AT_ONCE = 100_000
"""Maximum annotations and frames among which variants are looked for while the keyboard waits: some tens of ms."""


@dataclass
class StepsAsked(Message):
    """The user wants the runs of something in a trace as its steps."""

    path: str
    trace: Trace
    name: str
    """The source of the steps, as `--steps-by` takes it."""
    viewpoint: Viewpoint
    """The view to open then."""
    marks: Marks
    """The marks of the trace."""


class TraceScreen(SizedScreen):
    """Composes one `TraceView`."""

    view: TraceView

    BINDINGS: ClassVar[list[BindingType]] = [
        command(keys.COMPARE, "compare", "Compare", "What is marked; else steps, or another trace.", "compare"),
        command(
            keys.SPACE,
            "mark_part",
            "Mark for a comparison",
            f"A step, function, module or run; `{keys.COMPARE}` compares two.",
        ),
        command(
            keys.ESCAPE, "leave", "Leave the trace", "To the comparison or the list from which it was opened.", "back"
        ),
        command(keys.ESCAPE, "stop_looking", "Stop looking for what can be compared", before_typing=True),
        command(keys.BACK, "leave_below", "Leave the trace", "To the comparison from which it was opened."),
        command(keys.LESSON, "lesson", "Lesson of the workload", "What its trace was to show, and what it shows."),
    ]

    def __init__(
        self,
        trace: Trace,
        timeline_index: TimelineIndex,
        viewpoint: Viewpoint,
        path: str = "-",
        marks: Marks | None = None,
    ) -> None:
        super().__init__(TraceView(trace, timeline_index, viewpoint, marks))
        self.trace, self.timeline_index, self.path = trace, timeline_index, path
        self.marked_parts: list[MarkedPart] = []
        """The parts to compare: A, then B."""

    @property
    def traces(self) -> tuple[Trace, ...]:
        """The trace."""
        return (self.trace,)

    @property
    def awaits_rows(self) -> bool:
        """True while the next key waits for the rows of the pane that the last one opened."""
        return self.view.panes.awaits_rows

    @property
    def label(self) -> str:
        """The name of the trace."""
        return self.trace.label

    def visit(self, viewpoint: Viewpoint) -> None:
        """Go to a viewpoint, from where `backspace` leads back to the screen below."""
        self.view.navigator.history.viewpoints.clear()
        self.view.navigator.visit(viewpoint)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leaving takes a screen below, or the list that the trace was picked from; only what goes on is stopped."""
        if action == "stop_looking":
            return any(worker.group == "choices" and worker.is_running for worker in self.workers)
        if action == "leave":
            return self.is_over_another or bool(getattr(self.app, "has_list", False))
        return self.is_over_another if action == "leave_below" else True

    def explained(self) -> tuple[str, str]:
        """The name of the slice that the details describe, and what it is."""
        # The page is read only once it is asked for.
        from tracetui.kernel_names.slice_names import explanation

        view, listed = self.view, self.view.panes.view
        is_of_row = view.panes.details.describes_row and listed.slice_row >= 0 and not view.panes.lists_gaps
        row = listed.slice_row if is_of_row else view.selected
        if row < 0 or (view.gap >= 0 and not is_of_row):
            return "", ""
        entry = explanation(self.trace.name_of(row), Kind(int(self.trace.slices.kind[row])))
        if entry is None:
            return "", ""
        return f"{cut_name(short_name(self.trace, row), 60)}: {entry.title[:1].lower()}{entry.title[1:]}", entry.text

    def action_lesson(self) -> None:
        """Show the lesson of the workload, or say that this is a recording of none."""
        # Workloads are needed only once somebody asks for the lesson.
        from tracetui_workloads.registry import with_name

        from tracetui.ui.widgets.picker import TextPage
        from tracetui.verification import lesson_lines, recording_metadata, verify

        metadata = recording_metadata(self.trace)
        workload = with_name(str(metadata.get("workload", "")))
        if workload is None or not workload.lesson:
            self.view.notice("This trace is no recording of a workload with a lesson: `tracetui run` makes one.")
            return
        lines = lesson_lines(workload, verify(workload, metadata, self.trace))
        self.app.push_screen(TextPage(f"Lesson of {workload.name}", lines))

    def action_leave_below(self) -> None:
        """Back to the screen below."""
        self.app.pop_screen()

    @on(TraceView.StepsPicked)
    def _change_steps(self, message: TraceView.StepsPicked) -> None:
        """Ask for other steps; what is selected stays, and the panes list the new steps."""
        view = self.view
        name = cut_name(clean(message.name), 60)
        words = {AUTO: "Looking for steps ...", NONE: "Turning steps off ..."}
        view.notice(words.get(message.name, f"Taking the runs of {name} as steps ..."))
        before = view.before_sources or view.navigator.here
        here = replace(before, step=None, every_step=False, steps_by=message.name, pane="steps")
        marks = view.navigator.marks.without_steps()
        self.post_message(StepsAsked(self.path, self.trace, message.name, here, marks))

    def action_mark_part(self) -> None:
        """Mark what the cursor stands for as A or B of a comparison, or remove its mark."""
        part = self._current_part()
        if part is None:
            self.view.notice("This is no step, function, module or annotation, and can be compared with nothing.")
        elif part in self.marked_parts:
            self.marked_parts.remove(part)
            self.view.notice(f"No longer marked: {cut_name(clean(part.title), 60)}.")
        else:
            self.marked_parts = [*self.marked_parts[:1], part]
            names = [
                f"{letter} {cut_name(clean(each.title), 40)}"
                for letter, each in zip("AB", self.marked_parts, strict=False)
            ]
            also = f"{keys.SPACE} marks another one, {keys.COMPARE} compares with what is current"
            then = f"{keys.COMPARE} compares" if len(names) > 1 else also
            self.view.notice(f"Marked {', '.join(names)}: {then}.")

    def _current_part(self) -> MarkedPart | None:
        view, kept = self.view, self.view.ranges.kept
        if kept is not None and (view.lanes.has_focus or view.panes.pane == "range"):
            return MarkedPart(f"@{kept.text}", 1)
        if view.lanes.has_focus:
            return part_of_slice(self.trace, view.selected)
        return part_of_list(self.trace, view.panes)

    def _compare_marked(self) -> bool:
        """Compare the two marked parts, or the only one with what is current; False where there are no two."""
        parts = list(self.marked_parts)
        current = self._current_part() if len(parts) == 1 else None
        if current is not None and current not in parts:
            parts.append(current)
        if len(parts) < 2:
            return False
        self.marked_parts = []
        a, b = (SideName(self.path, part.scope) for part in parts)
        self.post_message(CompareAsked(a, b))
        return True

    def action_compare(self) -> None:
        """Compare what is marked, or pick what to compare this step with."""
        if self._compare_marked():
            return
        if len(self.trace.slices.of_kind(Kind.ANNOTATION, Kind.PYTHON)) <= MAX_NAMED_AT_ONCE:
            self._pick(self._choices())
        else:
            self.view.notice(f"Looking for what can be compared …   {keys.ESCAPE} gives up")
            self.run_worker(self._find_choices, thread=True, exclusive=True, group="choices", description="choices")

    def action_stop_looking(self) -> None:
        """Look for no runs that can be compared any more."""
        self.workers.cancel_group(self, "choices")
        self.view.notice("Nothing is compared.")

    def _find_choices(self) -> None:
        worker = get_current_worker()
        with suppress(Interrupted), interruptible(lambda: not worker.is_cancelled):
            choices = self._choices()
            if not worker.is_cancelled:
                self.app.call_from_thread(self._pick, choices)

    def _choices(self) -> list[ComparableScopes]:
        """Sides that can be compared, the likeliest first."""
        # The picker is needed only once it is asked for.
        from tracetui.ui.trace.marks import comparable_scopes, scopes_beside_range

        view = self.view
        choices = scopes_beside_range(self.trace, view.ranges.kept) if view.ranges.kept is not None else []
        return [*choices, *comparable_scopes(self.trace, view.step, view.selected)]

    def _pick(self, choices: list[ComparableScopes]) -> None:
        from tracetui.ui.trace.marks import OTHER_TRACE, ComparePicker

        def take(choice: tuple[str, ...] | None) -> None:
            if choice == OTHER_TRACE:
                self.post_message(CompareAsked(SideName(self.path, ""), None))
            elif choice is not None:
                a, b, *others = (SideName(self.path, scope) for scope in choice)
                self.post_message(CompareAsked(a, b, others=tuple(others)))

        if self.is_current:
            self.app.push_screen(ComparePicker(choices), take)
