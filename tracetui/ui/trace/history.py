"""Viewpoints to return to: those left by jumps, and marked ones. Pure data, without a screen."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tracetui.model.viewpoint import Viewpoint

MAX_JUMPS = 200
"""Maximum jumps that can be undone."""


@dataclass
class History:
    """A stack of viewpoints to go back to; the oldest are forgotten."""

    viewpoints: list[Viewpoint] = field(default_factory=list)

    def leave(self, viewpoint: Viewpoint) -> None:
        """Remember a viewpoint before jumping away; the same one twice in a row counts once."""
        last = self.viewpoints[-1] if self.viewpoints else None
        if last is None or viewpoint not in (last, replace(last, part="")):
            self.viewpoints.append(viewpoint)
            del self.viewpoints[:-MAX_JUMPS]

    def back(self, current: Viewpoint) -> Viewpoint | None:
        """Forget and return the last viewpoint that differs from the current one, None when there is none.

        The part with the focus counts where the jump led to another part.
        """
        while self.viewpoints:
            viewpoint = self.viewpoints.pop()
            if viewpoint != (current if viewpoint.part else replace(current, part="")):
                return viewpoint
        return None


@dataclass(frozen=True)
class Mark:
    """A viewpoint with a title that names the selection."""

    viewpoint: Viewpoint
    title: str


@dataclass
class Marks:
    """Marked viewpoints, in the order in which they were set."""

    marks: list[Mark] = field(default_factory=list)

    def without_steps(self) -> Marks:
        """The same marks where other steps count: their numbers mean something else there."""
        return Marks([replace(mark, viewpoint=replace(mark.viewpoint, step=None, steps_by="")) for mark in self.marks])

    def toggle(self, viewpoint: Viewpoint, title: str) -> bool:
        """Mark a viewpoint, or remove the mark of the same event (without one: the same viewpoint); True when set."""
        for index, mark in enumerate(self.marks):
            if mark.viewpoint == viewpoint or _is_of_same_event(mark.viewpoint, viewpoint):
                del self.marks[index]
                return False
        self.marks.append(Mark(viewpoint, title))
        return True


def _is_of_same_event(a: Viewpoint, b: Viewpoint) -> bool:
    """Whether two viewpoints are of one slice, or of the gap before one."""
    return a.event == b.event >= 0 and a.is_gap == b.is_gap
