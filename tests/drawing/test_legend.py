"""The legend shows each colour and mark as the timeline draws it, at any width."""

from __future__ import annotations

import pytest

from tracetui.drawing.timeline.legend import FAMILY_WORDS, draw_legend, legend_entries, legend_lines
from tracetui.drawing.timeline.palette import REVERSE, palette
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
    assert [entries[words].fg[0] for words in entries if words.startswith("idle")] == [used.idle]


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


def test_without_colours_textures_and_reverse_video_tell():
    used = palette(0)
    frame = draw_legend(used, 120, len(legend_lines(used, 120)))
    assert "   GEMM" in frame.text(0) and "▒▒ communication" in frame.text(0)
    assert frame.attributes[0, 0] == REVERSE
    assert (frame.fg < 0).all() and (frame.bg < 0).all()
