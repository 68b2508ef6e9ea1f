"""A view string that `Y` copies leads back to the same place, whatever the trace and the size of the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot

from tests.conftest import SAMPLES
from tests.test_app import Shown, settle, shown, training
from tracetui.drawing.window import Window
from tracetui.importers.load import load
from tracetui.model.place import Place, read_view_string, view_string
from tracetui.model.trace import Trace

WALKS = (
    (),
    ("right_square_bracket", "full_stop", "full_stop"),
    ("2", "j", "j"),
    ("A", "8"),
    ("7", "j"),
    ("tab", "plus", "plus", "l", "l"),
    ("5", "j", "enter"),
    ("0",),
    ("g", "f", "3"),
)
"""Keys that lead to different places: step, pane, selection and window."""


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("TMUX", raising=False)


async def copied(app: Shown, pilot: Pilot[int], keys: tuple[str, ...]) -> str:
    """Press keys, copy the view string, and read it where it was put."""
    await pilot.press(*keys)
    await settle(pilot)
    await pilot.press("Y")
    await settle(pilot)
    return app.clipboard


def place(app: Shown) -> tuple[object, ...]:
    """Everything that a view string promises but the window."""
    return app.view.step, app.view.panes.pane, app.view.selected


def stretch(app: Shown) -> tuple[float, float, float]:
    """Start and end of the window in ns, and how long a cell is."""
    window = app.view.window
    assert window is not None
    return window.start_ns, window.end_ns(app.view.lanes.cells), window.ns_per_cell


async def there_and_back(trace: Trace, keys: tuple[str, ...], size: tuple[int, int], other: tuple[int, int]) -> None:
    async with shown(trace, size) as (app, pilot):
        text = await copied(app, pilot, keys)
        here, seen = place(app), stretch(app)
    async with shown(trace, other, text) as (app, pilot):
        assert place(app) == here, text
        start, end, cell = stretch(app)
        # Cells are on a grid that never moves, so a window begins on the nearest of its edges.
        coarse = max(cell, seen[2])
        assert abs(start - seen[0]) <= coarse / 2 + 1, text
        assert abs((end - start) - (seen[1] - seen[0])) <= 2, text
        again = read_view_string(await copied(app, pilot, ()))
        first = read_view_string(text)
        assert (again.step, again.event, again.every_step) == (first.step, first.event, first.every_step)


@pytest.mark.parametrize("keys", WALKS, ids=" ".join)
@pytest.mark.parametrize("other", [(200, 50), (80, 24)], ids=["same size", "other size"])
async def test_every_walk_can_be_repeated(keys: tuple[str, ...], other: tuple[int, int]) -> None:
    await there_and_back(training(), keys, (200, 50), other)


async def test_a_small_terminal_s_view_opens_on_a_large_one() -> None:
    await there_and_back(training(), WALKS[1], (80, 24), (200, 50))


@pytest.mark.parametrize("keys", [WALKS[1], WALKS[3], WALKS[5]], ids=" ".join)
async def test_a_trace_without_a_gpu(keys: tuple[str, ...]) -> None:
    await there_and_back(load(str(SAMPLES / "mlp_train_cpu.json.gz")), keys, (120, 40), (80, 24))


@pytest.mark.slow
@pytest.mark.parametrize("keys", [WALKS[1], WALKS[3], WALKS[6]], ids=" ".join)
@pytest.mark.parametrize(
    "name",
    [
        "d03_v100_2rank_5steps_mem_occ_nccl.json.gz",
        "d06_h100_stack_mem.json.gz",
        "d09_rtx3090_compile_triton.json",
        "d10_cudagraph_stack.json",
        "d15_chrome_all_phases.json.gz",
    ],
)
async def test_real_traces(name: str, keys: tuple[str, ...], shared_trace) -> None:
    await there_and_back(load(str(shared_trace(name))), keys, (200, 50), (80, 24))


async def test_what_is_not_in_the_trace_is_said() -> None:
    for text, words in (("e999999", "no event 999999"), ("s2/k77", "no kernel 77"), ("s9", "no step 9")):
        async with shown(training(), (120, 40), text) as (app, _):
            assert words in app.text("#hints")


def test_a_window_over_a_stretch_begins_where_it_is_told() -> None:
    for width in (57, 180):
        window = Window.over(12_345_678.0, 90_000.0, width)
        assert window.end_ns(width) - window.start_ns == pytest.approx(90_000.0)
        assert abs(window.start_ns - 12_345_678.0) <= window.ns_per_cell / 2


def test_every_step_is_a_place_of_its_own() -> None:
    every = Place(None, "kernels", 7, every_step=True)
    assert view_string(every) == "all/kernels/e7"
    assert read_view_string("all/kernels/e7") == every
    assert not read_view_string("kernels/e7").every_step
