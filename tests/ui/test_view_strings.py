"""A view string that `Y` copies leads back to the same place, whatever the trace and the size of the terminal."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from textual.pilot import Pilot

from tests.support.app import Shown, settle, shown, to_pane, training
from tests.support.paths import SAMPLES
from tracetui.drawing.timeline.window import Window
from tracetui.model.trace import Trace
from tracetui.model.viewpoint import Viewpoint, read_view_string, view_string
from tracetui.reading.load import load

pytestmark = pytest.mark.full

Walks = Sequence[tuple[str, ...]]

STEPPED = ("right_square_bracket", "full_stop", "full_stop")
OPENED = (*to_pane("launches"), "j", "enter")
EVERY_STEP = ("A", "8")
IN_THE_LANES = ("tab", "plus", "plus", "l", "l")
WALKS = (
    (),
    STEPPED,
    (*to_pane("ops"), "j", "j"),
    ("7", "j"),
    OPENED,
    ("0",),
    ("g", "f", *to_pane("views")),
    EVERY_STEP,
    IN_THE_LANES,
)
"""Keys that lead to different places, each from the one before: step, pane, selection and window."""


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


Copied = tuple[str, tuple[object, ...], tuple[float, float, float]]
"""A view string, and the place and the stretch where it was copied."""


async def there(trace: Trace, walks: Walks, size: tuple[int, int]) -> list[Copied]:
    """What is copied in one app at the end of each walk."""
    found = []
    async with shown(trace, size) as (app, pilot):
        for keys in walks:
            text = await copied(app, pilot, keys)
            found.append((text, place(app), stretch(app)))
    return found


async def and_back(trace: Trace, there: Copied, other: tuple[int, int]) -> None:
    """Open a view string and be where it was copied."""
    text, here, seen = there
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


@pytest.mark.nightly
async def test_every_walk_can_be_repeated() -> None:
    trace = training()
    found = await there(trace, WALKS, (200, 50))
    assert len({text for text, _, _ in found}) >= len(WALKS) - 1, "the places differ"
    for each in found:
        await and_back(trace, each, (80, 24))
    # In the same size a window needs no fitting: one of a step, and one that was zoomed.
    for each in (found[1], found[-1]):
        await and_back(trace, each, (200, 50))


async def test_a_small_terminal_s_view_opens_on_a_large_one() -> None:
    trace = training()
    (found,) = await there(trace, [STEPPED], (80, 24))
    await and_back(trace, found, (200, 50))


async def test_a_trace_without_a_gpu() -> None:
    trace = load(str(SAMPLES / "mlp_train_cpu.json.gz"))
    for each in await there(trace, (STEPPED, EVERY_STEP, IN_THE_LANES), (120, 40)):
        await and_back(trace, each, (80, 24))


# One of each kind: ranks, memory and many steps; a compiled one; graphs and stacks; every phase that Chrome knows.
@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "walks"),
    [
        ("d03_v100_2rank_5steps_mem_occ_nccl.json.gz", (STEPPED, EVERY_STEP)),
        ("d09_rtx3090_compile_triton.json", (OPENED, EVERY_STEP)),
        ("d10_cudagraph_stack.json", (STEPPED, OPENED)),
        ("d15_chrome_all_phases.json.gz", (OPENED, EVERY_STEP)),
    ],
    ids=lambda value: value[:3] if isinstance(value, str) else "",
)
async def test_real_traces(name: str, walks: Walks, shared_trace) -> None:
    trace = load(str(shared_trace(name)))
    for each in await there(trace, walks, (200, 50)):
        await and_back(trace, each, (80, 24))


async def test_what_is_not_in_the_trace_is_said() -> None:
    for text, words in (("e999999", "no event 999999"), ("s2/k77", "no kernel 77")):
        async with shown(training(), (120, 40), text) as (app, _):
            assert words in app.text("#hints")


def test_a_window_over_a_stretch_begins_where_it_is_told() -> None:
    for width in (57, 180):
        window = Window.over(12_345_678.0, 90_000.0, width)
        assert window.end_ns(width) - window.start_ns == pytest.approx(90_000.0)
        assert abs(window.start_ns - 12_345_678.0) <= window.ns_per_cell / 2


def test_every_step_is_a_place_of_its_own() -> None:
    every = Viewpoint(None, "kernels", 7, every_step=True)
    assert view_string(every) == "all/kernels/e7"
    assert read_view_string("all/kernels/e7") == every
    assert not read_view_string("kernels/e7").every_step
