"""Layers of a step over time, as a strip above a list and as a line of the timeline: where each is drawn."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.support.build import Event, annotation, kernel, launch, make_trace
from tracetui.drawing.text.pictures import MARGIN, layer_lines, picture_lines
from tracetui.drawing.timeline.grid import TimelineGrid, View, label_width
from tracetui.drawing.timeline.layout import Fold, Layout, Shows
from tracetui.drawing.timeline.palette import palette
from tracetui.drawing.timeline.raster import TimelineIndex
from tracetui.drawing.timeline.window import Window
from tracetui.kernel_names import Family
from tracetui.model.trace import Trace
from tracetui.panes import PANES

US = 1_000
ALL = slice(MARGIN + 1, None)


def model(layers: int, odd: int = 0) -> Trace:
    """A step of a head of 200 us, layers of 100 us, one of which may take 300, and a tail of 100 us."""
    names = ["embedding", *["gemm", "norm"] * layers, "logits"]
    took = [200, *[50] * (2 * layers), 100]
    if odd:
        took[2 * odd - 1] = 250
    events: list[Event] = [annotation("ProfilerStep#1", 0, 100 * US + sum(took) * US)]
    at = 10 * US
    for index, (name, length) in enumerate(zip(names, took, strict=True), 1):
        events += [launch(index * 100, 50, index), kernel(name, at, length * US, correlation=index)]
        at += length * US
    return make_trace(events)


def strip(trace: Trace, by: str | None, width: int) -> tuple[str, str]:
    letters, labels = picture_lines("layers", by, PANES["layers"].build(trace, by=by), width, 14)
    assert len(letters) == width and letters[MARGIN] == "│" and letters[:MARGIN].strip() == "step"
    return letters[ALL], labels[ALL]


def test_each_layer_is_drawn_where_it_ran_and_what_is_beside_them_apart() -> None:
    letters, labels = strip(model(7), None, MARGIN + 1 + 30)
    assert letters == "······" + "███▒▒▒███▒▒▒███▒▒▒███" + "···"
    assert labels == "       1                 7"
    # The table by layer knows no tail.
    letters, labels = strip(model(7), "layer", MARGIN + 1 + 27)
    assert letters == "······" + "███▒▒▒███▒▒▒███▒▒▒███" and labels == "       1                 7"


@pytest.mark.parametrize("by", [None, "layer"])
def test_an_odd_layer_is_apart_with_its_number_however_narrow_it_is(by: str | None) -> None:
    letters, labels = strip(model(40, odd=20), by, MARGIN + 1 + 24)
    assert "▲" in letters
    place = letters.index("▲")
    assert "20" in labels[max(place - 2, 0) : place + 4] and labels.strip().startswith("1") and labels.endswith("40")
    assert "▲" not in strip(model(40), by, MARGIN + 1 + 24)[0]


def test_no_layers_and_no_room_draw_nothing() -> None:
    table = PANES["layers"].build(model(7))
    assert layer_lines(table, MARGIN, 14) == layer_lines(table, 80, 1) == []
    assert layer_lines(PANES["layers"].build(model(1)), 80, 14) == []


def test_steps_of_other_depth_have_a_strip_of_their_own() -> None:
    events: list[Event] = []
    for number, layers in enumerate((5, 9)):
        at = 10_000 * US * number
        events.append(annotation(f"ProfilerStep#{number}", at, 9_000 * US))
        for index, name in enumerate(["embedding", *["gemm", "norm"] * layers, "logits"], 1):
            link = 100 * number + index
            events += [
                launch(at + index * 100, 50, link),
                kernel(name, at + 50 * US * index, 50 * US, correlation=link),
            ]
    lines = layer_lines(PANES["layers"].build(make_trace(events)), 80, 14)
    assert len(lines) == 4 and [line[ALL].split() for line in lines[1::2]] == [["1", "5"], ["1", "9"]]


def test_a_part_starts_after_those_before_it() -> None:
    table = PANES["layers"].build(model(7))
    assert table["from_start_us"].values.tolist() == [0, 200, 900]
    by_layer = PANES["layers"].build(model(7), by="layer")
    assert by_layer["from_start_us"].values.tolist() == [200 + 100 * index for index in range(7)]


@pytest.mark.parametrize("by", [None, "layer"])
@pytest.mark.parametrize("layers", [24, 40, 61])
def test_of_many_layers_in_few_cells_several_share_a_shade_and_the_strip_says_how_many(
    by: str | None, layers: int
) -> None:
    letters, labels = strip(model(layers), by, MARGIN + 1 + 27)
    bands = [len(band) for band in letters.strip("·").replace("▒█", "▒ █").replace("█▒", "█ ▒").split()]
    # All bands but the last, of the layers that are left, look alike.
    assert min(bands[:-1]) >= 2 and max(bands[:-1]) - min(bands[:-1]) <= 1
    together = round(layers / len(bands))
    assert any(f" ({together} {words}) " in labels for words in ("layers per shade", "per shade"))
    assert labels.split()[0] == "1" and labels.endswith(f"{layers}")


WIDTH = 140


def timeline(trace: Trace, height: int = 20) -> TimelineGrid:
    index = TimelineIndex(trace)
    grid = TimelineGrid(index, Layout(index))
    grid.layout.resize(height)
    return grid


def lines_of_layers(grid: TimelineGrid) -> list[int]:
    return [number for number, line in enumerate(grid.layout.lines) if line.shows == Shows.LAYERS]


def drawn(grid: TimelineGrid, length: int, colours: int = 256) -> tuple[str, list[int]]:
    """The text of the line of layers in a window from 0 on, and the colour of each cell behind its label."""
    left = label_width(WIDTH)
    view = View(Window(0, length / (WIDTH - left)))
    frame = grid.draw(view, WIDTH, 20, palette(colours))
    (number,) = lines_of_layers(grid)
    return frame.text(number + grid.axis_lines), frame.bg[number + grid.axis_lines, left:].tolist()


def test_a_line_above_the_streams_has_the_layers_with_their_numbers() -> None:
    grid = timeline(model(7))
    (number,) = lines_of_layers(grid)
    below = grid.layout.lines[number + 1]
    assert below.lane == grid.layout.lines[number].lane and below.head
    text, ground = drawn(grid, 1_100 * US)
    assert text.split()[:2] == ["GPU", "0"] and [int(each) for each in text.split() if each.isdecimal()][1:] == [
        *range(1, 8)
    ]
    # Two shades in turn, and the ground before the first layer and behind the last.
    shades = [ground[0], *(after for before, after in pairwise(ground) if before != after)]
    assert len(shades) == 9 and shades[0] == shades[-1] and len({*shades[1:-1]}) == 2 and shades[0] not in shades[1:-1]


@pytest.mark.parametrize("colours", [256, 16, 0])
def test_narrow_layers_share_a_shade_on_the_line_too(colours: int) -> None:
    text, ground = drawn(timeline(model(100)), 10_400 * US, colours)
    changes = sum(before != after for before, after in pairwise(ground))
    assert changes <= 54
    words = text[label_width(WIDTH) :]
    assert words.index("L1 ") < words.index(" 2 layers per shade ") < words.index(" L100")


def test_layers_too_narrow_for_their_numbers_have_the_first_and_the_last() -> None:
    text, ground = drawn(timeline(model(40)), 4_400 * US)
    assert text.split()[3:] == ["L1", *(f"L{number}" for number in range(5, 36, 5)), "L40"]
    assert len({*ground}) == 3


def test_without_colours_every_second_layer_has_a_texture() -> None:
    textures = palette(0).textures
    assert textures is not None
    texture = chr(int(textures[Family.COPY]))
    text, _ = drawn(timeline(model(7)), 1_100 * US, 0)
    assert len("".join(each if each == texture else " " for each in text).split()) >= 3
    assert texture not in drawn(timeline(model(7)), 1_100 * US)[0]


def test_the_line_goes_with_the_folded_stream_and_where_there_is_no_room_or_no_layer() -> None:
    grid = timeline(model(7))
    (number,) = lines_of_layers(grid)
    assert grid.layout.fold(grid.layout.lines[number].lane) == Fold.FOLDED and lines_of_layers(grid) == []
    grid = timeline(model(7))
    # Behind all layers, and so far away that all of a step would be one.
    for window in (Window(2_000 * US, US), Window(0, 1_000 * US)):
        grid.layout.see(window, WIDTH)
        assert lines_of_layers(grid) == []
    assert lines_of_layers(timeline(model(7), 6)) == lines_of_layers(timeline(model(1))) == []
