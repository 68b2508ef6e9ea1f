"""Numbers and names as people read them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracetui.drawing.format import cell, shorten
from tracetui.model.quantities import ABSENT
from tracetui.model.table import NULL, numbers, texts
from tracetui.text import clean


def test_clean_takes_the_power_from_escape_sequences():
    assert clean("\x1b[31mred\x1b]0;title\x07") == "�[31mred�]0;title�"
    assert clean("a\u202eb\u2066c") == "a�b�c"
    assert clean("C1 \x9b31m") == "C1 �31m"
    assert clean("two\nlines\tand a tab") == "two lines and a tab"
    assert clean("lone \ud800 surrogate").encode() == "lone � surrogate".encode()


def test_clean_leaves_ordinary_text_alone():
    for text in ("aten::mm", "µs – 12", "日本語", "void at::native::f<float>(int)"):
        assert clean(text) == text


@given(st.text())
def test_clean_text_has_no_control_characters(text):
    assert all(letter.isprintable() or letter.isspace() for letter in clean(text))
    assert "\n" not in clean(text)


def test_shorten():
    assert shorten("kernel", 6) == "kernel"
    assert shorten("kernels", 6) == "kerne…"
    assert shorten("kernels", 0) == ""


def test_cells():
    times = numbers("dur_us", [48.9, np.nan], "us")
    assert [cell(times, times.cell(row)) for row in range(2)] == ["48.9 µs", ABSENT]
    identifier = numbers("correlation", np.array([123456, NULL]))
    assert [cell(identifier, identifier.cell(row)) for row in range(2)] == ["123456", ABSENT]
    assert cell(numbers("calls", [12345]), 12345) == "12,345"
    assert cell(numbers("share_pct", [63.14], "%"), 63.14) == "63.1"
    assert cell(numbers("bytes", [1024], "bytes"), 1024) == "1.0 KiB"
    assert cell(texts("name", ["a\nb"]), "a\nb") == "a b"
    assert cell(numbers("metadata_only", np.array([True])), True) == "yes"
