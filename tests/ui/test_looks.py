"""A few pictures of the whole screen; look at the report before accepting a change (`--snapshot-update`)."""

from __future__ import annotations

from contextlib import suppress

import pytest
from textual import constants
from textual.worker import WorkerCancelled

from tests.support.paths import SAMPLES
from tracetui.ui.app import TraceApp
from tracetui.ui.trace.trace_screen import TraceScreen


@pytest.fixture(autouse=True)
def colours(monkeypatch):
    """A picture must not depend on the terminal in which the tests run."""
    monkeypatch.setattr(constants, "COLOR_SYSTEM", "truecolor")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)


async def opened(pilot):
    """Wait until the trace is on screen and its tables are built."""
    while not isinstance(pilot.app.screen, TraceScreen):
        await pilot.pause(0.02)
    # One table asks for the next: rest means that nothing has run for several turns.
    for _ in range(5):
        # A table that is no longer wanted is cancelled.
        with suppress(WorkerCancelled):
            await pilot.app.workers.wait_for_complete()
        await pilot.pause(0.1)


async def in_help(pilot):
    """The same with the help on top."""
    await opened(pilot)
    await pilot.press("question_mark")
    await pilot.pause()


@pytest.mark.parametrize("size", [(200, 50), (80, 24)])
def test_a_training_step(snap_compare, size):
    app = TraceApp([str(SAMPLES / "mlp_train_cpu.json.gz")])
    assert snap_compare(app, terminal_size=size, run_before=opened)


def test_help(snap_compare):
    app = TraceApp([str(SAMPLES / "mlp_eager_cpu.json.gz")])
    assert snap_compare(app, terminal_size=(120, 40), run_before=in_help)
