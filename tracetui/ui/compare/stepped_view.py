"""Going from step to step in the view of two traces: within the sides, or, of single steps and runs, to other sides.

Everything else stays as it is: the tab and how it is arranged, the row under the cursor, the window, the focus.
"""

from __future__ import annotations

import numpy as np
from textual import on

from tracetui.analysis.comparing.comparison import comparison
from tracetui.analysis.comparing.sides.side import CAPTURE
from tracetui.drawing.timeline.raster import Picture
from tracetui.ui.compare.compare_headline import MARKS
from tracetui.ui.compare.compare_list import CompareList
from tracetui.ui.compare.compared_view import ComparedView
from tracetui.ui.compare.partners import Partners
from tracetui.ui.compare.shown_part import ShownPart, neighbour
from tracetui.ui.compare.timelines import Parts, Timelines

WAYS = {-1: "before", 1: "after"}


class SteppedView(ComparedView):
    """Base of the view of two traces: which parts of the sides are shown."""

    pictures: tuple[Picture, Picture]

    @property
    def panes(self) -> CompareList:
        """The tabs and their list."""
        return self.query_one(CompareList)

    @property
    def timelines(self) -> Timelines:
        """Both timelines."""
        return self.query_one(Timelines)

    def action_step(self, direction: int) -> None:
        """Show the next or previous part of both sides; neither moves where one cannot."""
        self._move((0, 1), direction)

    def action_step_one(self, direction: int) -> None:
        """Show the next or previous part of one side."""
        self._move((0 if self.timelines.focused == 0 else 1,), direction)

    def show_parts(self, parts: Parts) -> None:
        """Show other parts; where those are of other sides, these are compared."""
        if all(part.side is side for part, side in zip(parts, self.sides, strict=True)):
            self.partners = Partners(parts)
            self.timelines.show_parts(parts)
            self.light_row()
        else:
            self.told = comparison(parts[0].side, parts[1].side)
            self.partners = Partners(parts)
            self.begin(whole=False)
        self.match(parts)

    def light_row(self) -> None:
        """Light what the current row of the list stands for, the first of it selected."""
        raise NotImplementedError

    def begin(self, whole: bool = True) -> None:
        """Show the sides as they are, and have them compared; if not `whole`, in the place of those before."""
        raise NotImplementedError

    def _move(self, sides: tuple[int, ...], direction: int) -> None:
        moved = {side: neighbour(self.parts[side], direction) for side in sides}
        stuck = [side for side in sides if moved[side] is None]
        if stuck:
            self.notice(stuck_words(self.parts, stuck, sides, direction))
            return
        first, second = (moved.get(side) or self.parts[side] for side in (0, 1))
        self.show_parts((first, second))

    @on(Timelines.PartChosen)
    def _choose_part(self, message: Timelines.PartChosen) -> None:
        parts = list(self.parts)
        side = self.sides[message.side]
        parts[message.side] = ShownPart(side, int(np.flatnonzero(side.number == message.number)[0]))
        if parts[message.side].part != self.parts[message.side].part:
            self.show_parts((parts[0], parts[1]))


def stuck_words(parts: Parts, stuck: list[int], asked: tuple[int, ...], direction: int) -> str:
    """Why there is no going on: which side has nothing in that direction, and which key moves the other."""
    said = []
    for side in stuck:
        sort = parts[side].side.sort
        said.append(
            f"{MARKS[side]} is the whole capture"
            if sort == CAPTURE
            else f"{MARKS[side]} has no {sort} {WAYS[direction]} this one"
        )
    text = " and ".join(said)
    if len(asked) > len(stuck):
        key = "{" if direction < 0 else "}"
        text += f": {key} moves {MARKS[1 - stuck[0]]} alone{' while its lanes have the keys' if stuck[0] == 1 else ''}"
    return f"{text}."
