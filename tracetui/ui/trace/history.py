"""Places left behind by jumps, and places that were marked. Pure data: nothing here knows a screen."""

from __future__ import annotations

from dataclasses import dataclass, field

from tracetui.model.viewpoint import Viewpoint

LIMIT = 200
"""So many jumps can be undone."""


@dataclass
class History:
    """A stack of places to go back to; the oldest are forgotten."""

    places: list[Viewpoint] = field(default_factory=list)

    def leave(self, place: Viewpoint) -> None:
        """Remember a place before jumping away; the same place twice in a row counts once."""
        if not self.places or self.places[-1] != place:
            self.places.append(place)
            del self.places[:-LIMIT]

    def back(self, current: Viewpoint) -> Viewpoint | None:
        """Forget and return the last place that differs from the current one, None when there is none."""
        while self.places:
            place = self.places.pop()
            if place != current:
                return place
        return None


@dataclass(frozen=True)
class Mark:
    """A place with a title that says what was selected there."""

    place: Viewpoint
    title: str


@dataclass
class Marks:
    """Marked places, in the order in which they were set."""

    marks: list[Mark] = field(default_factory=list)

    def toggle(self, place: Viewpoint, title: str) -> bool:
        """Mark a place, or remove the mark of the same event (without one: the same place); True when set."""
        for index, mark in enumerate(self.marks):
            if mark.place == place or mark.place.event == place.event >= 0:
                del self.marks[index]
                return False
        self.marks.append(Mark(place, title))
        return True
