"""The app while it records something that fails, prints or does not end: what it starts ends with it."""

from __future__ import annotations

import os
import signal
import sys

import pytest
from textual.app import App
from textual.widgets import Static
from tracetui_workloads.recording.launcher import Hello

from tests.support.terminal.raw import Raw
from tests.support.terminal.recording import begin
from tests.support.waiting import SOON, until
from tests.support.workloads.children import LIGHT_TORCH, asked, is_gone, needs_torch, own_function
from tracetui.ui.recording.recording_form import RecordingScreen
from tracetui.ui.widgets.bar import Bar

pytestmark = pytest.mark.full

DEAF = """
import multiprocessing, os, signal, subprocess, time
def step():
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    os.write(1, b"\\x1b]0;title\\x07\\x1b[31m[bold]waits\\n")
    time.sleep(600)
"""
CRASHES = "import os\ndef step():\n    os.write(2, b'\\x1b[?1049h[red]' * 100_000)\n    os.abort()"


@pytest.fixture
def light_torch(monkeypatch):
    """Recordings with a torch that takes no time."""
    for key, value in LIGHT_TORCH.items():
        monkeypatch.setenv(key, value)


class Recorder(App[None]):
    """An app of nothing but the screen."""

    def __init__(self, request) -> None:
        super().__init__()
        self.request = request
        self.pids: list[int] = []

    def on_mount(self) -> None:
        """Begin, and keep the process that records."""
        screen = RecordingScreen([self.request])
        hear = screen._take_event

        def keep(event):
            if isinstance(event, Hello):
                self.pids.append(event.pid)
            hear(event)

        screen._take_event = keep  # type: ignore[method-assign]
        self.push_screen(screen)


async def test_a_recording_that_is_deaf_is_gone_when_the_screen_is(tmp_path, light_torch):
    app = Recorder(asked(own_function(tmp_path / "own.py", DEAF), tmp_path / "out" / "x.json"))
    async with app.run_test(size=(80, 24)) as pilot:
        screen = app.screen
        await until(pilot, lambda: app.screen.query("#log") and "waits" in words(app))
        assert words(app) == "[bold]waits", "nothing that steers, and no markup"
        await pilot.press("q")
        await until(pilot, lambda: app.screen is not screen or not app.is_running)
        assert is_gone(app.pids[0])
    assert not (tmp_path / "out").exists()


async def test_a_crash_is_told_on_the_screen(tmp_path, light_torch):
    app = Recorder(asked(own_function(tmp_path / "own.py", CRASHES), tmp_path / "out" / "x.json"))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "SIGABRT" in str(app.screen.query_one("#notes", Static).render()))
        assert "crashed while making the first call" in str(app.screen.query_one("#notes", Static).render())
        assert is_gone(app.pids[0])
        assert not (tmp_path / "out").exists()


def words(app) -> str:
    """The last line that was printed, as the screen shows it."""
    return "".join(part.text for part in app.screen.query_one("#log", Bar).parts)


@needs_torch
@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
def test_an_app_that_is_killed_takes_the_recording_with_it(tmp_path, number):
    raw = Raw(sys.executable, "-m", "tracetui", str(tmp_path))
    try:
        begin(raw)
        assert len(raw.alive()) > 2, "the app, the supervisor and the recorder"
        os.kill(raw.process.pid, number)
        raw.exit_code(SOON)
        raw.wait_until_gone(SOON)
        assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    finally:
        raw.close()
