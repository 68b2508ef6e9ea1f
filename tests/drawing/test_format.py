"""Numbers and names as people read them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetui.drawing.format import (
    ABSENT,
    cell,
    clean,
    count,
    duration,
    micros,
    percent,
    shorten,
    size,
)
from tracetui.model.table import NULL, numbers, texts


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0 ns"),
        (961, "961 ns"),
        (999, "999 ns"),
        (1_000, "1.0 µs"),
        (48_900, "48.9 µs"),
        (999_960, "1.00 ms"),
        (12_340_000, "12.34 ms"),
        (999_999_999, "1.000 s"),
        (1_203_000_000, "1.203 s"),
        (125_000_000_000, "2 min 05 s"),
        (-48_900, "-48.9 µs"),
        (-125_000_000_000, "-2 min 05 s"),
    ],
)
def test_duration(nanoseconds, text):
    assert duration(nanoseconds) == text


@given(st.integers(0, 10**15))
def test_duration_never_shows_a_thousand_of_a_unit(nanoseconds):
    number, unit, *_ = duration(nanoseconds).split()
    assert unit in {"s", "min"} or float(number) < 1000


@pytest.mark.parametrize(
    ("us", "text"), [(48.9, "48.9"), (1203.4, "1,203.4"), (0.0, "0.0"), (0.012, "0.012"), (-6.1, "-6.1")]
)
def test_micros(us, text):
    assert micros(us) == text


def test_a_small_time_is_never_shown_as_zero():
    assert float(micros(0.001)) > 0


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (512, "512 B"), (1024, "1.0 KiB"), (1_288_490_189, "1.2 GiB"), (1_048_570, "1.0 MiB")],
)
def test_size(number, text):
    assert size(number) == text


def test_counts_and_shares():
    assert count(12345) == "12,345"
    assert percent(63.14) == "63.1 %"


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
    assert [cell(times, times.cell(row)) for row in range(2)] == ["48.9", ABSENT]
    identifier = numbers("correlation", np.array([123456, NULL]))
    assert [cell(identifier, identifier.cell(row)) for row in range(2)] == ["123456", ABSENT]
    assert cell(numbers("calls", [12345]), 12345) == "12,345"
    assert cell(numbers("share_pct", [63.14], "%"), 63.14) == "63.1"
    assert cell(numbers("bytes", [1024], "bytes"), 1024) == "1.0 KiB"
    assert cell(texts("name", ["a\nb"]), "a\nb") == "a b"
    assert cell(numbers("metadata_only", np.array([True])), True) == "yes"
