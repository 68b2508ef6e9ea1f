"""The screen of a memory snapshot: from a file of an OOM to what to free, by keys."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot

from tests.support.app import keys, settle
from tests.support.memory_snapshots import fragmented, write
from tests.support.waiting import until
from tracetui.ui.app import TraceApp
from tracetui.ui.opening.trace_picker import TracePicker
from tracetui.ui.snapshot_view import LIVE, OOM, PEAK, SEGMENTS, SnapshotScreen, SnapshotView
from tracetui.ui.trace.trace_screen import TraceScreen


@pytest.fixture
def path(tmp_path: Path) -> str:
    return write(tmp_path / "oom.pickle", fragmented().snapshot())


async def shown(app: TraceApp, pilot: Pilot[int]) -> SnapshotView:
    await until(pilot, lambda: isinstance(app.screen, SnapshotScreen), "the snapshot is not shown")
    assert isinstance(app.screen, SnapshotScreen)
    await settle(pilot)
    return app.screen.view


async def test_a_snapshot_opens_at_its_oom_and_is_walked_by_keys(path: str) -> None:
    app = TraceApp([path])
    async with app.run_test(size=(120, 40)) as pilot:
        view = await shown(app, pilot)
        history = view.history
        assert view.panes.pane == OOM
        assert "16.0 MiB was asked for" in view.statement.sentences[0]
        assert view.curve.cursor == history.ooms[0]
        # The peak, and from there a moment before it.
        await keys(pilot, "1")
        assert (view.panes.pane, view.curve.cursor) == (PEAK, history.peak)
        await keys(pilot, "full_stop")
        assert view.panes.pane == LIVE
        assert view.panes.moment == view.curve.cursor > history.peak
        held = view.panes.table["bytes"].values.sum()
        assert held == history.active[view.curve.cursor]
        await keys(pilot, "tab", "left", "left", "home")
        assert view.curve.cursor == 0
        await keys(pilot, "end")
        assert view.curve.cursor == history.count
        await keys(pilot, "plus", "minus", "0")
        await keys(pilot, "escape", "3")
        assert view.panes.pane == SEGMENTS
        assert view.panes.table["free"].cell(0) == 32 << 20
        await keys(pilot, "5", "b")
        assert view.panes.arrangement.by == "stack"
        await keys(pilot, "backspace")
        await until(pilot, lambda: isinstance(app.screen, TracePicker), "there is no list to go back to")


async def test_a_small_screen_and_one_device(path: str) -> None:
    app = TraceApp([path])
    async with app.run_test(size=(80, 24)) as pilot:
        view = await shown(app, pilot)
        await keys(pilot, "U", "V", "V", "i")
        assert view.has_class("-details")
        assert "train.py:11 forward" in "\n".join(line.text for line in view._lines(view.panes.table, 0, 60))


async def test_a_snapshot_is_in_the_list_beside_traces(path: str) -> None:
    app = TraceApp([str(Path(path).parent)])
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, TracePicker), "no list")
        await settle(pilot)
        await keys(pilot, "enter")
        await shown(app, pilot)
        assert not any(isinstance(screen, TraceScreen) for screen in app.screen_stack)
