"""Variants from the form: recorded one after the other, then compared; what is told, and what is not begun."""

from __future__ import annotations

import pytest
from textual.widgets import Input, Static
from tracetui_workloads.recording.launcher import Outcome
from tracetui_workloads.recording.protocol import Failure

from tests.support.app import settle
from tests.support.recording_form import form, said, settle_recording
from tests.support.waiting import until
from tests.support.workloads.traced import LINEAR, trace_file
from tracetui.ui.app import TraceApp
from tracetui.ui.compare.compare_view import CompareScreen
from tracetui.ui.recording.recording_form import RecordingForm, RecordingScreen

pytestmark = pytest.mark.full


async def test_variants_that_do_not_exist_are_refused_in_the_form(recordings, folder):
    app = TraceApp([str(folder)])
    async with app.run_test(size=(80, 24)) as pilot:
        await form(app, pilot)
        await pilot.press(*["up"] * 2, *"eager,odd", "enter")
        await pilot.pause()
        assert said(app, "#command") == "tracetui run linear --compare=eager,odd"
        assert "linear has no variant odd; there are eager, compile" in said(app, "#trouble")
        assert recordings[0] == []


async def comparing(app, pilot, words="eager,compile"):
    """Ask for variants in the form, and begin."""
    await form(app, pilot)
    await pilot.press(*["up"] * 3)
    app.screen.query_one("#field-option-compare", Input).value = words
    await pilot.press("enter")
    await settle_recording(app, pilot)


async def at_recording(app, pilot, number):
    """Wait until so many recordings have begun."""
    await until(pilot, lambda: f" {number}/" in said(app, "#what"), "no further recording")


async def compared(app, pilot):
    """Wait until two traces are beside each other; their names."""
    await until(pilot, lambda: isinstance(app.screen, CompareScreen) and app.screen.view.is_mounted)
    await settle(pilot)
    return [side.trace.label for side in app.screen.view.compared.sides]


async def test_two_variants_are_recorded_one_after_the_other_and_compared(recordings, folder):
    app = TraceApp([str(folder)])
    async with app.run_test(size=(120, 40)) as pilot:
        await comparing(app, pilot)
        assert "linear eager 1/2" in said(app, "#what")
        recordings[1].put_nowait(Outcome(trace_file(folder / "a.json", "fwd", LINEAR, {}), None))
        await at_recording(app, pilot, 2)
        assert "linear compile 2/2" in said(app, "#what")
        assert str(app.screen.query_one("#notes", Static).render()).count("No GPU") == 1
        recordings[1].put_nowait(Outcome(trace_file(folder / "b.json", "fwd", LINEAR[1:], {}), None))
        assert await compared(app, pilot) == ["a.json", "b.json"]
        assert not any(isinstance(screen, RecordingForm | RecordingScreen) for screen in app.screen_stack)
    assert [request.variant for request in recordings[0]] == ["eager", "compile"]
    assert list(recordings[0][1].argv) == ["tracetui", "run", "linear", "--compare=eager,compile"]


async def test_a_variant_that_cannot_run_is_told_and_the_others_are_compared(recordings, folder, monkeypatch):
    # What the screen shows of it goes after a few seconds.
    noticed: list[str] = []
    monkeypatch.setattr(TraceApp, "notify", lambda app, message, **more: noticed.append(message))
    app = TraceApp([str(folder)])
    endings = [
        Outcome(trace_file(folder / "a.json", "fwd", LINEAR, {}), None),
        Outcome(None, Failure("missing:compiler", "None [works] here.")),
        Outcome(trace_file(folder / "c.json", "fwd", LINEAR, {}), None),
    ]
    async with app.run_test(size=(120, 40)) as pilot:
        await comparing(app, pilot, "eager,compile,batch=2")
        for number, ending in enumerate(endings, 1):
            await at_recording(app, pilot, number)
            recordings[1].put_nowait(ending)
        assert await compared(app, pilot) == ["a.json", "c.json"]
    assert ["None [works] here." in message for message in noticed] == [True]


async def test_with_one_of_two_there_is_nothing_to_compare(recordings, folder):
    app = TraceApp([str(folder)])
    async with app.run_test(size=(100, 30)) as pilot:
        await comparing(app, pilot)
        recordings[1].put_nowait(Outcome(trace_file(folder / "a.json", "fwd", LINEAR, {}), None))
        await at_recording(app, pilot, 2)
        recordings[1].put_nowait(Outcome(None, Failure("missing:compiler", "None works here.", "Install g++.")))
        await settle(pilot)
        assert "None works here. Install g++." in str(app.screen.query_one("#notes", Static).render())
        await pilot.press("escape")
        await pilot.pause()
        assert isinstance(app.screen, RecordingForm)


async def test_what_all_variants_share_is_tried_once(recordings, folder):
    app = TraceApp([str(folder)])
    async with app.run_test(size=(100, 30)) as pilot:
        await comparing(app, pilot)
        recordings[1].put_nowait(Outcome(None, Failure("missing:torch", "No torch.")))
        await settle(pilot)
        assert "No torch." in str(app.screen.query_one("#notes", Static).render())
        assert len(recordings[0]) == 1


async def test_escape_in_the_first_begins_no_second(recordings, folder):
    app = TraceApp([str(folder)])
    async with app.run_test(size=(100, 30)) as pilot:
        await comparing(app, pilot)
        await pilot.press("escape")
        await settle(pilot)
        assert isinstance(app.screen, RecordingForm)
        assert len(recordings[0]) == 1
