"""The overview drawn: at every size it fits, every part is there, and without colours idle and busy differ."""

from __future__ import annotations

from functools import lru_cache

import pytest

from tests.support.app import training
from tests.support.build import Event, annotation, kernel, launch, make_trace, op
from tests.support.paths import SAMPLES
from tests.support.traces import loaded
from tracetui.drawing.hues import Hue
from tracetui.drawing.overview.canvas import Canvas, Look, Pen
from tracetui.drawing.overview.picture import Picture, strip_cells
from tracetui.idle.scope_times import median_step
from tracetui.model.trace import Kind
from tracetui.overview.facts import overview_of, overview_stages
from tracetui.overview.overview_table import strip_of

SIZES = [(60, 12), (80, 18), (100, 24), (120, 34), (160, 44), (200, 44), (300, 90)]
LOOKS = [Look(256), Look(256, dark=False), Look(16), Look(0), Look(0, plain=True)]


@lru_cache
def made(name):
    trace = {
        "training": training,
        "sample": lambda: loaded(SAMPLES / "mlp_eager_cpu.json.gz"),
        "names": lambda: make_trace([Event("矩阵乘法 \x1b[31m[bold]" * 9, 0, 100, Kind.OTHER)]),
    }[name]()
    return trace, overview_of(trace, median_step(trace))


@pytest.mark.parametrize("name", ["training", "sample", "names"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.full
def test_it_fits(name, size):
    trace, overview = made(name)
    for look in LOOKS:
        picture = Picture(overview, strip_of(trace, overview, strip_cells(size[0])), size[0], size[1], look)
        for line in range(size[1]):
            segments = picture.canvas.segments(line)
            assert sum(segment.cell_length for segment in segments) == size[0]
            assert "\x1b" not in "".join(segment.text for segment in segments)
        for item in picture.canvas.items:
            assert 0 <= item.x < size[0] and 0 <= item.y < size[1] and item.width >= 0
        if look.plain and name != "names":
            assert "\n".join(picture.canvas.text_lines()).isascii()


@pytest.mark.parametrize("size", [(80, 18), (120, 34), (200, 44)])
def test_three_things_are_said_at_every_size(size):
    _, overview = made("training")
    text = "\n".join(Picture(overview, None, size[0], size[1], Look(0)).canvas.text_lines())
    for words in ("where a step goes · step 2, the median of 3", "what to do first", "heaviest kernels", "gemm"):
        assert words in text


def test_while_it_is_being_made_it_claims_nothing():
    for stage in list(overview_stages(training(), 2))[:2]:
        text = "\n".join(Picture(stage, None, 120, 34, Look(0)).canvas.text_lines())
        assert "no doubt" not in text and "No rule" not in text


def test_idle_and_busy_differ_without_colours():
    canvas = Canvas(20, 1, Look(0))
    canvas.stacked(0, 0, 20, [("", "", 10.0, Hue.GEMM), ("", "", 10.0, Hue.IDLE)])
    assert next(canvas.text_lines()) == "█" * 10 + "·" * 10


def test_a_wide_letter_takes_two_cells_and_is_never_split():
    canvas = Canvas(5, 1, Look(0))
    canvas.put(0, 0, "行列行列", Pen())
    assert next(canvas.text_lines()) == "行列"


def steps_of(periods):
    """Steps of some periods in ms, all of the same kernel of 1 ms, which ends each."""
    events, at = [], 0
    for number, period in enumerate(periods, 1):
        events += [annotation(f"ProfilerStep#{number}", at, period * 1_000_000), op("aten::mm", at, 10_000)]
        end = at + period * 1_000_000
        events += [launch(end - 1_100_000, 1_000, number), kernel("gemm", end - 1_000_000, 990_000, correlation=number)]
        at = end
    return make_trace(events)


def lines_of(trace, height=40):
    overview = overview_of(trace, median_step(trace))
    return Picture(overview, strip_of(trace, overview, strip_cells(120)), 120, height, Look(0)).canvas.text_lines()


def test_the_bar_of_a_first_step_far_longer_than_the_others_is_cut():
    lines = lines_of(steps_of([1_000, 20, 24, 20, 20]))
    bars = {line.split()[1]: line for line in lines if line.startswith("│   ") and line.split()[1] in ("1", "2", "3")}
    assert "»" in bars["1"] and "1.00 s" in bars["1"] and not any("»" in bars[number] for number in "23")
    assert bars["2"].count("╱") + bars["2"].count("·") > 5, "a bar of its own, and not one cell"
    assert "»" not in "".join(lines_of(steps_of([60, 20, 24, 20, 20])))


def test_one_odd_step_beside_those_that_are_named_is_one():
    for odd, words in ((3, "and 1 more odd step "), (4, "and 2 more odd steps ")):
        lines = lines_of(steps_of([20] * 25 + [40] * odd), 34)
        assert any(words in f"{line} " for line in lines), words
