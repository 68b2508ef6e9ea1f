"""A trace that is on screen goes to the cache in the background, and comes from there the next time."""

from __future__ import annotations

from pathlib import Path
from threading import Event

import pytest

from tests.support.app import opened, settle
from tests.support.paths import SAMPLES
from tests.support.waiting import POLL_SECONDS, until
from tracetui.linking.links import links
from tracetui.opening import kept_traces
from tracetui.opening.cache_folder import SIZE_VARIABLE
from tracetui.opening.kept_traces import kept_entries
from tracetui.opening.trace_opening import OpenOptions
from tracetui.ui import open_comparison
from tracetui.ui.app import TraceApp
from tracetui.ui.trace.trace_view import TraceView

TRACE = str(SAMPLES / "mlp_train_cpu.json.gz")


@pytest.fixture(autouse=True)
def keeps_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SIZE_VARIABLE)
    monkeypatch.setattr(kept_traces, "MIN_TRACE_BYTES", 0)
    monkeypatch.setattr(open_comparison, "KEEPING_DELAYS", (0.01,))


@pytest.mark.full
async def test_what_was_shown_is_kept_with_its_picture_and_shown_again(monkeypatch: pytest.MonkeyPatch) -> None:
    app = TraceApp([TRACE])
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(app, pilot)
        view = app.screen.query_one(TraceView)
        shown = [str(strip) for strip in view.lanes.render_lines(view.lanes.size.region)]
        await until(pilot, lambda: bool(kept_entries()), "nothing is kept")
    monkeypatch.setattr("tracetui.opening.kept_traces.read_file", lambda *_: pytest.fail("it was read again"))
    again = TraceApp([TRACE])
    async with again.run_test(size=(120, 40)) as pilot:
        await opened(again, pilot)
        view = again.screen.query_one(TraceView)
        assert "track_layout" in kept_traces._readings[view.trace.store].results
        assert view.trace.cache["links"] is links(view.trace)
        assert [str(strip) for strip in view.lanes.render_lines(view.lanes.size.region)] == shown


async def test_without_the_cache_nothing_is_kept() -> None:
    app = TraceApp([TRACE], options=OpenOptions(uses_cache=False))
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(app, pilot)
        await settle(pilot)
        assert not kept_entries()


@pytest.mark.full
async def test_the_end_of_the_app_ends_the_writing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    begun, ended = Event(), Event()

    def keep(trace, stopped):
        begun.set()
        while not stopped():
            ended.wait(0.01)
        ended.set()

    monkeypatch.setattr(open_comparison, "keep_opened", keep)
    app = TraceApp([TRACE])
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, begun.is_set, "nothing is written")
        assert not ended.is_set()
    assert ended.wait(POLL_SECONDS)
