"""A range of time on the screen: drawn, kept, listed, compared, cut, named, dropped."""

from __future__ import annotations

import numpy as np
import pytest
from textual.pilot import Pilot

from tests.support.app import Shown, burst, keys, settle, shown, to_pane, training
from tests.support.build import make_trace, op
from tests.support.paths import SAMPLES
from tests.support.waiting import until
from tracetui.drawing.timeline.grid import DOTS, label_width
from tracetui.model.intervals import TimeRange
from tracetui.panes import PANES
from tracetui.reading.load import load
from tracetui.ui.base.exports import exports_folder
from tracetui.ui.compare.compare_view import CompareScreen
from tracetui.ui.trace.marks import scopes_beside_range
from tracetui.ui.trace.navigator import write_range
from tracetui.ui.trace.trace_screen import TraceScreen
from tracetui.ui.widgets.lanes import LanesView

US = 1_000
SIZES = [(200, 50), (80, 24)]
GEMM_TO_RELU = TimeRange(1_060 * US, 1_490 * US)
"""Both kernels of step 2, at which the trace opens."""


def range_of(app: Shown) -> tuple[int, int] | None:
    marked = app.view.ranges.marked
    return None if marked is None else (marked.start // US, marked.end // US)


def sentence(app: Shown) -> str:
    return app.view.headline.sentence


def listed(app: Shown) -> list[str]:
    table = app.list.table
    assert table is not None
    return [str(table.columns[0].cell(row)) for row in app.list.order]


@pytest.mark.parametrize(("size", "end"), zip(SIZES, ("v", "enter"), strict=True))
@pytest.mark.full
async def test_a_range_from_one_kernel_to_the_next(size, end):
    async with shown(training(), size) as (app, pilot):
        await keys(pilot, "v")
        assert range_of(app) == (1_060, 1_260)
        assert sentence(app).startswith("Range 1.060–1.260 ms (200.0 µs): moving extends it, v or enter keeps it")
        await keys(pilot, "full_stop")
        assert range_of(app) == (1_060, 1_490)
        assert app.view.ranges.kept is None
        await keys(pilot, end)
        assert app.view.ranges.kept == GEMM_TO_RELU
        assert app.view.panes.pane == "range" and app.focused is app.list
        assert sentence(app).startswith("Range 1.060–1.490 ms (430.0 µs): 2 kernels,")
        assert sentence(app).endswith("W lists everything.")
        assert listed(app)[:4] == ["range", "steps", "GPU busy", "GPU idle"]


async def test_the_cursor_may_go_back_behind_the_start():
    async with shown(training()) as (app, pilot):
        await keys(pilot, "full_stop", "v", "comma", "comma")
        assert range_of(app) == (440, 1_490)
        await keys(pilot, "full_stop", "full_stop", "full_stop")
        assert range_of(app) == (1_440, 2_260)


@pytest.mark.full
async def test_every_pane_lists_the_range_until_it_is_asked_for_everything():
    async with shown(training()) as (app, pilot):
        await keys(pilot, "right_square_bracket", "v", "left_square_bracket", "v")
        assert range_of(app) == (1_060, 2_260)
        for pane in ("kernels", "ops", "launches", "gaps", "steps", "summary", "modules", "memory", "findings"):
            app.view.panes.open_tab(pane)
            await settle(pilot)
            by = app.view.panes.arrangement.by
            assert app.view.panes.table is PANES[pane].build(app.trace, step=app.view.ranges.kept, by=by), pane
        await keys(pilot, *to_pane("kernels"))
        assert len(app.list.order) == 3
        await keys(pilot, "W")
        assert len(app.list.order) == 2
        assert "Range " not in sentence(app) and range_of(app) == (1_060, 2_260)
        await keys(pilot, "T")
        assert len(app.list.order) > 3
        await keys(pilot, "W", *to_pane("kernels"))
        assert len(app.list.order) == 3


async def test_a_listed_range_stays_listed_while_the_selection_walks_through_steps():
    async with shown(training()) as (app, pilot):
        await keys(pilot, "v", "right_square_bracket", "v", *to_pane("kernels"))
        # The cursor follows the selection once the list is there.
        await until(pilot, lambda: len(app.list.order) == 3 and app.list.cursor == 2)
        first = app.view.selected
        await keys(pilot, "home")
        await until(pilot, lambda: app.list.cursor == 0 and app.view.selected != first)
        for expected in ("relu_kernel", "gemm", "gemm"):
            await keys(pilot, "full_stop")
            assert app.selected == expected
            assert len(app.list.order) == 3


@pytest.mark.full
async def test_esc_drops_what_is_drawn_and_then_what_was_kept():
    async with shown(training()) as (app, pilot):
        await keys(pilot, "v", "full_stop", "escape")
        assert range_of(app) is None and "Range " not in sentence(app)
        await keys(pilot, "comma", "v", "full_stop", "v", "v", "comma", "escape")
        assert app.view.ranges.kept == GEMM_TO_RELU
        await keys(pilot, "escape")
        assert range_of(app) is None and not app.view.ranges.is_listed
        await keys(pilot, *to_pane("kernels"))
        assert len(app.list.order) == 2


async def test_backspace_undoes_what_keeping_a_range_did():
    async with shown(training()) as (app, pilot):
        await keys(pilot, *to_pane("ops"), "v", "full_stop", "v", "backspace")
        assert app.view.panes.pane == "ops" and not app.view.ranges.is_listed


@pytest.mark.full
async def test_panning_moves_the_end_under_the_cursor():
    async with shown(training()) as (app, pilot):
        await keys(pilot, "tab", "v")
        start, end = range_of(app) or (0, 0)
        await keys(pilot, "right")
        moved = range_of(app) or (0, 0)
        assert moved[0] == start and moved[1] > end
        window = app.view.window
        assert window is not None
        by = app.view.lanes.cells // 6 * window.ns_per_cell / US
        assert moved[1] - end == pytest.approx(by, abs=1)
        await keys(pilot, "d")
        assert (range_of(app) or (0, 0))[1] - moved[1] == pytest.approx(by, abs=1)
        await keys(pilot, "a", "a", "a", "a")
        back = range_of(app) or (0, 0)
        assert back[0] < start and back[1] == end
        await keys(pilot, *["right"] * 90)
        assert (range_of(app) or (0, 0))[1] == app.trace.window[1] // US
        await keys(pilot, "enter")
        assert app.view.ranges.kept is not None


@pytest.mark.full
async def test_a_burst_of_keys_does_what_single_keys_do():
    async with shown(training()) as (app, pilot):
        await keys(pilot, "tab", "v", "right", "right", "full_stop", "v")
        single = app.view.ranges.kept
    async with shown(training()) as (app, pilot):
        burst(app, "tab", "v", "right", "right", "full_stop", "v", *to_pane("kernels"))
        await settle(pilot)
        assert app.view.ranges.kept == single is not None
        assert app.view.panes.pane == "kernels"


async def test_zooming_leaves_the_range_as_it_is():
    async with shown(training()) as (app, pilot):
        await keys(pilot, "v", "full_stop", "plus", "plus", "minus", "0")
        assert range_of(app) == (1_060, 1_490)


async def test_shift_and_the_mouse_draw_a_range():
    async with shown(training(), (200, 50)) as (app, pilot):
        window = app.view.window
        assert window is not None
        left = label_width(200)
        await pilot.mouse_down(LanesView, offset=(left + 30, 2), shift=True)
        await pilot.hover(LanesView, offset=(left + 50, 2))
        await pilot.mouse_up(LanesView, offset=(left + 59, 2), shift=True)
        await settle(pilot)
        kept = app.view.ranges.kept
        assert kept is not None
        edges = window.edges(180)
        assert (kept.start, kept.end) == (edges[30], edges[60])
        assert app.view.panes.pane == "range"


async def test_a_drag_without_shift_pans():
    async with shown(training(), (200, 50)) as (app, pilot):
        before = app.view.window
        await pilot.mouse_down(LanesView, offset=(60, 2))
        await pilot.hover(LanesView, offset=(80, 2))
        await pilot.mouse_up(LanesView, offset=(80, 2))
        await settle(pilot)
        assert range_of(app) is None and app.view.window != before


@pytest.mark.full
async def test_a_click_extends_a_range():
    async with shown(training(), (200, 50)) as (app, pilot):
        await keys(pilot, "v")
        window = app.view.window
        assert window is not None
        column = window.cell_of(1_600 * US)
        rows = [row for row in range(1, 12) if await _clicked(pilot, label_width(200) + column, row)]
        marked = app.view.ranges.marked
        assert rows and marked is not None
        assert marked.start == 1_060 * US
        assert marked.end >= 1_600 * US


async def _clicked(pilot: Pilot[int], column: int, row: int) -> bool:
    return await pilot.click(LanesView, offset=(column, row))


@pytest.mark.parametrize("size", SIZES)
async def test_the_range_is_marked_and_its_length_stands_on_the_axis(size):
    async with shown(training(), size) as (app, pilot):
        await keys(pilot, "v", "full_stop", "v")
        frame = app.view.lanes._frame
        assert frame is not None
        left = label_width(size[0])
        axis = "".join(map(chr, frame.chars[0]))
        assert axis.lstrip().startswith("↔ 430.0 µs")
        begin, end = axis.index("[", left), axis.index("]", left)
        window = app.view.window
        assert window is not None
        assert window.cell_of(1_060 * US) == begin - left
        assert abs(window.cell_of(1_490 * US) - (end - left)) <= 1
        (stream,) = [row for row in frame.chars[1:] if "".join(map(chr, row[:left])).strip("▐▕ ").endswith("7")]
        dotted = stream == DOTS
        assert dotted.any() and not dotted[:begin].any() and not dotted[end + 1 :].any()


async def test_without_colours_dots_fill_the_range(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    async with shown(training(), (80, 24)) as (app, pilot):
        await keys(pilot, "v", "full_stop", "v")
        frame = app.view.lanes._frame
        assert frame is not None
        dotted = np.flatnonzero((frame.chars == DOTS).any(axis=0))
        axis = "".join(map(chr, frame.chars[0]))
        assert axis.index("[") <= dotted.min() and dotted.max() <= axis.index("]")


@pytest.mark.parametrize("listing", [True, False])
@pytest.mark.full
async def test_a_view_string_leads_back_to_the_range(listing):
    trace = training()
    async with shown(trace, (200, 50)) as (app, pilot):
        await keys(pilot, "v", "full_stop", "v", *to_pane("kernels"), *([] if listing else ["W"]), "Y")
        text = app.clipboard
    assert "range=1060us+430us/kernels/e" in text
    async with shown(trace, (120, 40), at=text) as (app, pilot):
        assert app.view.ranges.kept == GEMM_TO_RELU
        assert app.view.ranges.is_listed == listing
        assert app.view.panes.pane == "kernels" and app.selected == "relu_kernel"
        await keys(pilot, "Y")
        assert app.clipboard.split("@")[0] == text.split("@")[0]


async def test_a_view_string_of_a_range_alone_fits_it():
    async with shown(training(), at="range=1060us+430us/range") as (app, _):
        window = app.view.window
        assert window is not None and app.view.panes.pane == "range"
        assert window.start_ns < GEMM_TO_RELU.start and window.end_ns(app.view.lanes.cells) > GEMM_TO_RELU.end
        assert window.end_ns(app.view.lanes.cells) - window.start_ns < 2 * GEMM_TO_RELU.length


async def test_two_ranges_are_compared():
    async with shown(training()) as (app, pilot):
        await keys(pilot, "v", "v", "space")
        assert "Marked A @1060us+200us" in app.text("#hints")
        screen = app.screen
        assert isinstance(screen, TraceScreen)
        await keys(pilot, "v", "full_stop", "v")
        assert [part.scope for part in screen.marked_parts] == ["@1060us+200us"]
        await keys(pilot, "c")
        await until(pilot, lambda: isinstance(app.screen, CompareScreen), "nothing is compared")
        compared = app.screen
        assert isinstance(compared, CompareScreen)
        assert [side.scope for side in compared.view.compared.sides] == ["@1060us+200us", "@1060us+430us"]


async def test_a_range_is_compared_with_the_time_before_it():
    async with shown(training()) as (app, pilot):
        await keys(pilot, "v", "v", "c", "enter")
        await until(pilot, lambda: isinstance(app.screen, CompareScreen), "nothing is compared")
        compared = app.screen
        assert isinstance(compared, CompareScreen)
        assert [side.scope for side in compared.view.compared.sides] == ["@860us+200us", "@1060us+200us"]


@pytest.mark.parametrize(
    ("kept", "offered"),
    [((0, 900), ["@0us+900us/@900us+900us"]), ((1_500, 2_500), ["@500us+1000us/@1500us+1000us"]), ((10, 2_890), [])],
)
def test_only_time_of_the_trace_is_offered_for_a_comparison(kept, offered):
    choices = scopes_beside_range(training(), TimeRange(kept[0] * US, kept[1] * US))
    assert ["/".join(scopes.scopes) for scopes in choices] == offered


async def test_all_steps_are_listed_after_a_range():
    async with shown(training()) as (app, pilot):
        await keys(pilot, "v", "v", "A", *to_pane("kernels"))
        assert not app.view.ranges.is_listed and len(app.list.order) == 6


async def test_the_pane_without_a_range_is_about_the_step():
    async with shown(training()) as (app, pilot):
        await keys(pilot, "T")
        assert app.view.panes.table is PANES["range"].build(app.trace, step=2)
        await keys(pilot, "right_square_bracket")
        assert app.view.panes.table is PANES["range"].build(app.trace, step=3)
        await keys(pilot, *to_pane("kernels"))
        assert "range" not in {tab.name for tab in app.view.panes._tabs()}


async def test_keys_about_a_range_say_that_there_is_none():
    async with shown(training()) as (app, pilot):
        for key in ("W", "E"):
            await keys(pilot, key)
            assert app.text("#hints").startswith("There is no range of time: v begins one")


async def test_a_range_is_written_as_a_trace_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    trace = load(str(SAMPLES / "mlp_train_cpu.json.gz"))
    async with shown(trace) as (app, pilot):
        await keys(pilot, "v", "j", "j", "v", "E")
        kept = app.view.ranges.kept
        assert kept is not None
        assert "events written to" in app.text("#hints")
        await keys(pilot, "E", "e")
    written = sorted(path.name for path in (tmp_path / "tracetui" / "exports").iterdir())
    assert written == [
        f"mlp_train_cpu-{kept.text}-2.json.gz",
        f"mlp_train_cpu-{kept.text}.json.gz",
        f"mlp_train_cpu-range-range{kept.text}.csv",
        f"mlp_train_cpu-range-range{kept.text}.md",
    ]
    part = load(str(tmp_path / "tracetui" / "exports" / f"mlp_train_cpu-{kept.text}.json.gz"))
    inside = kept.touched(trace.slices.start, trace.slices.end)
    assert 0 < len(part.slices) <= len(trace.slices)
    assert {trace.name_of(int(row)) for row in np.flatnonzero(inside)} == {
        part.name_of(r) for r in range(len(part.slices))
    }


@pytest.mark.full
def test_a_range_of_a_protobuf_trace_is_written_as_protobuf(shared_trace):
    trace = load(str(shared_trace("pftrace/d06_h100_stack_mem.pftrace.gz")))
    notice, is_warning = write_range(trace, TimeRange(128_842_549, 129_793_675))
    assert not is_warning and "d06_h100_stack_mem-128842.549us+951.126us.pftrace.gz" in notice
    (path,) = exports_folder().iterdir()
    assert 0 < len(load(str(path)).slices) < len(trace.slices)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.full
async def test_a_trace_without_steps_and_without_a_gpu(size):
    trace = make_trace([op("aten::mm", 0, 300 * US), op("aten::add", 400 * US, 50 * US), op("aten::mul", 600 * US, US)])
    async with shown(trace, size) as (app, pilot):
        await keys(pilot, "home", "v", "full_stop", "enter")
        assert range_of(app) == (0, 450)
        assert set(listed(app)) == {"range", "operators", "operator", "thread"}
        await keys(pilot, *to_pane("ops"), "Y")
        assert app.clipboard.startswith("range=0us+450us/ops/")


async def test_the_range_of_an_empty_stretch():
    async with shown(training(), at="@1700us+20us") as (app, pilot):
        await keys(pilot, "v", "v")
        assert app.view.ranges.kept is not None
