"""The app with two traces made by hand beside each other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from textual.pilot import Pilot

from tests.support.app import settle
from tests.support.waiting import until
from tracetui.opening.trace_opening import SideName
from tracetui.ui.app import TraceApp
from tracetui.ui.compare.compare_view import CompareScreen, CompareView
from tracetui.ui.widgets.bar import Bar


class Compared(TraceApp):
    """The app on two sides, with shorter ways to look at it."""

    def __init__(self, a: SideName, b: SideName) -> None:
        super().__init__(list(dict.fromkeys([a.path, b.path])), sides=(a, b))

    @property
    def view(self) -> CompareView:
        screen = next(screen for screen in self.screen_stack if isinstance(screen, CompareScreen))
        return screen.view

    def selected(self, side: int) -> str:
        row = self.view.timelines.lanes[side].selected
        return self.view.compared.sides[side].trace.name_of(row) if row >= 0 else ""

    def highlighted(self, side: int) -> set[str]:
        trace = self.view.compared.sides[side].trace
        return {trace.name_of(row) for row in self.view.timelines.lanes[side].highlighted}

    def text(self, bar: str) -> str:
        return self.view.query_one(bar, Bar).text

    def listed(self, column: str) -> list[object]:
        view = self.view.panes.view
        assert view.table is not None
        return [view.table[column].cell(int(row)) for row in view.order]


async def compared(app: TraceApp, pilot: Pilot[int]) -> None:
    """Wait until two traces are on screen, or the app has given up."""
    await until(pilot, lambda: isinstance(app.screen, CompareScreen) or app.failure is not None, "nothing is compared")
    await settle(pilot)


@asynccontextmanager
async def shown(
    a: SideName, b: SideName, size: tuple[int, int] = (120, 40)
) -> AsyncIterator[tuple[Compared, Pilot[int]]]:
    app = Compared(a, b)
    async with app.run_test(size=size) as pilot:
        await compared(app, pilot)
        yield app, pilot
