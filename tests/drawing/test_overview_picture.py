"""The overview drawn: at every size it fits, every part is there, and without colours idle and busy differ."""

from __future__ import annotations

from functools import lru_cache

import pytest

from tests.support.app import training
from tests.support.build import Event, make_trace
from tests.support.paths import SAMPLES
from tests.support.traces import loaded
from tracetui.drawing.hues import Hue
from tracetui.drawing.overview.canvas import Canvas, Look, Pen
from tracetui.drawing.overview.picture import Picture, strip_cells
from tracetui.idle.scope_times import median_step
from tracetui.model.trace import Kind
from tracetui.overview.facts import overview_of, overview_stages
from tracetui.overview.strip import strip_of

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
