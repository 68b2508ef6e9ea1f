"""From the list of traces to the form of a recording, by keys."""

from __future__ import annotations

from tests.support.app import settle
from tests.support.waiting import until
from tracetui.ui.opening.trace_picker import TracePicker
from tracetui.ui.recording.recording_form import RecordingScreen, WorkloadPicker
from tracetui.ui.widgets.bar import Bar


async def form(app, pilot, row=0):
    """Go from the list of traces to the form of a workload."""
    await settle(pilot)
    assert isinstance(app.screen, TracePicker)
    await pilot.press("r")
    await settle(pilot)
    assert isinstance(app.screen, WorkloadPicker)
    await pilot.press(*["j"] * row, "enter")
    await pilot.pause()


def said(app, place):
    return app.screen.query_one(place, Bar).text


async def settle_recording(app, pilot):
    """Wait until the screen of the recording shows its first events."""
    await until(pilot, lambda: isinstance(app.screen, RecordingScreen) and app.screen._stages, "nothing is recorded")
    app.screen._paint()
