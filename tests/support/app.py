"""The app with a trace made by hand, and keys that are sent to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from textual.app import App
from textual.events import Key
from textual.pilot import Pilot

from tests.support.build import kernel, launch, make_trace, op, step
from tests.support.waiting import until
from tracetui.drawing.timeline.raster import TimelineIndex
from tracetui.model.trace import GPU_WORK, Trace
from tracetui.model.viewpoint import Viewpoint, read_view_string
from tracetui.ui.app import TraceApp
from tracetui.ui.base.crash_safe_app import CrashSafeApp
from tracetui.ui.base.overlay import Loaded
from tracetui.ui.trace.trace_screen import TraceScreen
from tracetui.ui.trace.trace_view import TraceView
from tracetui.ui.widgets.bar import Bar
from tracetui.ui.widgets.table_view import TableView


def training() -> Trace:
    """Three steps of two ops with a kernel each; `aten::view` launches nothing."""
    events = []
    for number in range(3):
        at = number * 1_000_000
        events += [
            step(number + 1, at, 900_000),
            op("aten::linear", at + 10_000, 300_000),
            op("aten::view", at + 11_000, 2_000),
            launch(at + 20_000, 5_000, number * 10 + 1),
            kernel("gemm", at + 60_000, 200_000, correlation=number * 10 + 1, args={"grid": [4, 2, 1]}),
            op("aten::relu", at + 400_000, 100_000),
            launch(at + 410_000, 5_000, number * 10 + 2),
            kernel("relu_kernel", at + 440_000, 50_000, correlation=number * 10 + 2),
        ]
    return make_trace(events)


class Shown(TraceApp):
    """The app with a trace that needs no loading."""

    def __init__(self, trace: Trace, place: Viewpoint | None = None, pane: str = "kernels") -> None:
        """`pane` is where it opens, in the place of the overview; without a GPU the operators stand for kernels."""
        if pane == "kernels" and len(trace.slices.of_kind(*GPU_WORK)) == 0:
            pane = "ops"
        place = place or Viewpoint()
        super().__init__(["made.json"], replace(place, pane=place.pane or pane))
        self.trace = trace

    def start(self) -> None:
        self.post_message(Loaded("made.json", self.trace, TimelineIndex(self.trace)))

    @property
    def view(self) -> TraceView:
        return self.screen_stack[1].query_one(TraceView)

    @property
    def list(self) -> TableView:
        return self.view.query_one(TableView)

    @property
    def selected(self) -> str:
        return self.trace.name_of(self.view.selected)

    def text(self, bar: str) -> str:
        return self.view.query_one(bar, Bar).text


async def settle(pilot: Pilot[int]) -> None:
    """Wait until every key is carried out and no thread is at work."""
    app = pilot.app

    def is_quiet() -> bool:
        holds = isinstance(app, CrashSafeApp) and app._key_order.holds
        return not holds and all(worker.is_finished for worker in app.workers)

    await until(pilot, is_quiet, "keys are held for ever, or a worker does not end")
    await pilot.pause()


async def opened(app: TraceApp, pilot: Pilot[int]) -> None:
    """Wait until a trace is on screen."""
    await until(pilot, lambda: isinstance(app.screen, TraceScreen), "no trace is shown")
    await settle(pilot)


def burst(app: App[int], *names: str) -> None:
    """Keys that are all there before the first is looked at."""
    assert app._driver is not None
    for name in names:
        app._driver.process_message(Key(name, name if len(name) == 1 else None))


async def keys(pilot: Pilot[int], *names: str) -> None:
    """Press many keys: unlike `pilot.press`, it waits after each only until it was handed on."""
    for name in names:
        burst(pilot.app, name)
        await pilot.pause(0)
    await settle(pilot)


def to_pane(name: str) -> tuple[str, ...]:
    """The keys that open a pane, whichever is open."""
    return "colon", *name, "enter"


@asynccontextmanager
async def shown(
    trace: Trace, size: tuple[int, int] = (120, 40), at: str = ""
) -> AsyncIterator[tuple[Shown, Pilot[int]]]:
    app = Shown(trace, read_view_string(at))
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        yield app, pilot
