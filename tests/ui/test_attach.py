"""Attaching from the list of traces: processes are listed as they ask, and the trace of one opens."""

from __future__ import annotations

import socket

import pytest

from tests.support.attached_jobs import jobs_in, socket_folder
from tests.support.waiting import until
from tracetui.ui.app import TraceApp
from tracetui.ui.opening.trace_picker import TracePicker
from tracetui.ui.recording.attach_form import AttachForm, AttachPicker
from tracetui.ui.trace.trace_screen import TraceScreen
from tracetui.ui.widgets.bar import Bar

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not hasattr(socket, "SO_PASSCRED"), reason="Kineto asks for requests on Linux only"),
]


@pytest.fixture
def start(tmp_path, monkeypatch):
    with socket_folder() as folder, jobs_in(folder) as begin:
        monkeypatch.setenv("KINETO_IPC_SOCKET_DIR", folder)
        monkeypatch.setenv("KINETO_ONDEMAND_TRACE_DIR", str(tmp_path))
        monkeypatch.chdir(tmp_path)
        yield begin


async def listed(pilot, app, count):
    """The screen of processes, once so many are listed."""
    await until(pilot, lambda: isinstance(app.screen, TracePicker))
    await pilot.press("a")
    await until(pilot, lambda: isinstance(app.screen, AttachPicker) and len(app.screen.choices) == count)
    return app.screen


async def test_the_trace_of_a_process_opens(start, tmp_path):
    job = start(rank=1)
    app = TraceApp([str(tmp_path)])
    async with app.run_test(size=(100, 30)) as pilot:
        screen = await listed(pilot, app, 1)
        assert (screen.choices[0].pid, screen.choices[0].rank) == (job.pid, 1)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, AttachForm) and app.screen.focused is not None)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, TraceScreen))
    assert [path.name for path in tmp_path.rglob("*.json*")] == ["rank1_trace.json.gz"]
    assert job.poll() is None


async def test_escape_gives_up_and_leaves_nothing(start, tmp_path):
    job = start("silent")
    other = start()
    app = TraceApp([str(tmp_path)])
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await listed(pilot, app, 1)
        assert screen.choices[0].pid == other.pid
        other.kill()
        other.wait()
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, AttachForm) and app.screen.focused is not None)
        await pilot.press("enter")
        form = app.screen
        await until(pilot, lambda: "ended" in form.query_one("#trouble", Bar).text)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, AttachPicker))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, TracePicker))
    assert list(tmp_path.iterdir()) == []
    assert job.poll() is None


async def test_a_length_that_makes_no_trace_is_refused(start, tmp_path):
    start()
    app = TraceApp([str(tmp_path)])
    async with app.run_test(size=(100, 30)) as pilot:
        await listed(pilot, app, 1)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, AttachForm) and app.screen.focused is not None)
        await pilot.press("end", "x", "enter")
        assert "number" in app.screen.query_one("#trouble", Bar).text
