"""The legend shows each colour and mark as the timeline draws it, at any width."""

from __future__ import annotations

import pytest

from tracetui.drawing.timeline.legend import FAMILY_WORDS, draw_legend, legend_entries, legend_lines
from tracetui.drawing.timeline.palette import IDLE_CLASS, IDLE_WORDS, REVERSE, palette, rgb
from tracetui.idle.waits import Cause
from tracetui.kernel_names.slice_names import Family


def test_every_family_has_a_word_of_its_own():
    assert set(FAMILY_WORDS) == set(Family)
    assert len(set(FAMILY_WORDS.values())) == len(Family)


@pytest.mark.parametrize("colours", [256, 16])
@pytest.mark.parametrize("dark", [True, False])
def test_samples_have_the_colours_of_slices(colours, dark):
    used = palette(colours, dark)
    entries = {entry.words: entry for entry in legend_entries(used)}
    for family, words in FAMILY_WORDS.items():
        assert list(entries[words].bg) == used.shades[family].tolist()
    assert set(entries["selected"].bg) == {used.selected}
    assert set(entries["related to it"].bg) == {used.highlighted}
    assert [entries[words].fg[0] for words in entries if words.startswith("idle")] == used.idle.tolist()


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("colours", [256, 16, 0])
def test_no_line_is_wider_than_the_screen_and_nothing_is_lost(width, colours):
    used = palette(colours)
    lines = legend_lines(used, width)
    frame = draw_legend(used, width, len(lines))
    text = " ".join(frame.text(y).rstrip() for y in range(len(lines)))
    for entry in legend_entries(used):
        assert entry.words in text
    assert all(sum(entry.cells for entry in line) - 2 <= width for line in lines)


def test_without_colours_letters_and_reverse_video_tell():
    used = palette(0)
    frame = draw_legend(used, 120, len(legend_lines(used, 120)))
    assert frame.text(0).startswith("gG matrix products")
    assert frame.attributes[0, 0] == REVERSE
    assert (frame.fg < 0).all() and (frame.bg < 0).all()


def test_there_is_a_sample_for_every_class_of_causes():
    for colours in (256, 16):
        for dark in (True, False):
            idle = palette(colours, dark).idle.tolist()
            assert len(idle) == len(set(idle)) == len(IDLE_WORDS) < len(Cause)


@pytest.mark.parametrize("dark", [True, False])
def test_idle_time_is_read_on_its_ground(dark):
    """Its lines are thin: of the 256 colours each has a contrast of 3 to 1, as the WCAG asks of graphics."""

    def light(colour):
        red, green, blue = ((channel / 255) ** 2.2 for channel in rgb(colour))
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05

    ground = light(234 if dark else 231)
    for colour in palette(256, dark).idle.tolist():
        contrast = max(light(colour), ground) / min(light(colour), ground)
        assert contrast > 3
    assert IDLE_CLASS.shape == (len(Cause),)
    assert set(IDLE_CLASS.tolist()) == set(range(len(IDLE_WORDS)))
