"""Numbers as words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetui.model.quantities import (
    adapted,
    count,
    counted,
    digits,
    duration,
    how_fast,
    how_much,
    operations,
    percent,
    quantity,
    rate,
    rounded_percent,
    size,
    size_change,
    time_scale,
)


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
        (99_999_000_000, "99.999 s"),
        (947_593_000_000, "947.6 s"),
        (3_600_000_000_000, "3,600.0 s"),
        (0.4, "0 ns"),
        (-0.4, "0 ns"),
        (-48_900, "-48.9 µs"),
        (-125_000_000_000, "-125.0 s"),
    ],
)
def test_duration(nanoseconds, text):
    assert duration(nanoseconds) == text


@given(st.integers(0, 10**15))
def test_duration_never_shows_a_thousand_of_a_unit(nanoseconds):
    number, unit = duration(nanoseconds).split()
    assert unit == "s" or float(number) < 1000


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (512, "512 B"), (1024, "1.0 KiB"), (1_288_490_189, "1.2 GiB"), (1_048_570, "1.0 MiB")],
)
def test_size(number, text):
    assert size(number) == text


def test_counts_and_shares():
    assert [counted(number, "copy") for number in (0, 1, 2000)] == ["0 copies", "1 copy", "2,000 copies"]
    things = ("replay", "query", "wait", "launch")
    assert [counted(2, thing) for thing in things] == ["2 replays", "2 queries", "2 waits", "2 launches"]
    assert count(12345) == "12,345"
    assert percent(63.14) == "63.1 %"


@pytest.mark.parametrize(
    ("us", "before", "after", "words"),
    [
        ((9_740, 11_300), 9_740, 11_300, "9.74 → 11.3 ms"),
        ((9_740, 8_360), 9_740, 8_360, "9.74 → 8.36 ms"),
        ((9_741, 9_744), 9_741, 9_744, "9,741 → 9,744 µs"),
        ((1_613, 191), 1_613, 191, "1,613 → 191 µs"),
        ((20e6, 3), 20e6, 3, "20.0 → <0.01 s"),
        ((0, 0), 0, 0, "0 µs"),
    ],
)
def test_all_times_of_a_sentence_have_the_unit_of_the_longest(us, before, after, words):
    assert time_scale(us).change(before, after) == words


def test_two_sizes_name_a_common_unit_once():
    assert size_change(453e6, 352e6) == "432.0 → 335.7 MiB"
    assert size_change(2.42e9, 67.1e6) == "2.3 GiB → 64.0 MiB"
    assert size_change(512, 128) == "512 → 128 B"
    assert size_change(0, 0) == "0 B"


@pytest.mark.parametrize(
    ("before", "after", "much", "fast"),
    [
        (100, 92, "8 % less", "8 % less"),
        (300, 100, "67 % less", "3.00 times as fast"),
        (1e6, 1, "99.9 % less", "1,000,000 times as fast"),
        (100, 140, "40 % more", "40 % more"),
        (100, 300, "3.00 times as much", "3.00 times as much"),
        (0, 5, "none before", "none before"),
        (5, 0, "none left", "none left"),
    ],
)
def test_how_two_amounts_differ(before, after, much, fast):
    assert how_much(before, after) == much
    assert how_fast(before, after) == fast


def test_small_numbers_do_not_read_as_nothing():
    assert [digits(value) for value in (0, 0.001, 0.2, 12.34, 1234.5)] == ["0", "<0.01", "0.20", "12.3", "1,234"]
    assert [rounded_percent(value) for value in (0, 0.01, 0.4, 8.2, 99.6, 100)] == [
        "0 %",
        "under 0.1 %",
        "0.4 %",
        "8 %",
        "99.6 %",
        "100 %",
    ]
    assert [time_scale((5,)).roughly(value) for value in (0, 0.001, 0.2, 2.12, 61.8)] == [
        "0 µs",
        "<0.01 µs",
        "0.20 µs",
        "2.1 µs",
        "62 µs",
    ]


@pytest.mark.parametrize(
    ("count", "nanoseconds", "text"),
    [(12_300, 1_000, "12.3 GB/s"), (1, 1_000_000_000, "1 B/s"), (3_350_000, 1_000, "3.35 TB/s"), (0, 0, "0 B/s")],
)
def test_rates_are_decimal(count, nanoseconds, text):
    assert rate(count, nanoseconds) == text


@pytest.mark.parametrize(("number", "text"), [(0, "0 FLOP"), (999, "999 FLOP"), (55_061_234_567, "55.06 GFLOP")])
def test_operations_are_decimal(number, text):
    assert operations(number) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (12_340, "us", "12.34 ms"),
        (961, "ns", "961 ns"),
        (63.14, "%", "63.1 %"),
        (352e6, "bytes", "335.7 MiB"),
        (2e9, "flop", "2 GFLOP"),
        (1234, "", "1,234"),
        (2.5, "GB/s", "2.5 GB/s"),
    ],
)
def test_a_quantity_is_written_as_its_unit_is(value, unit, text):
    assert quantity(value, unit) == text


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (947_600_000, "us", (947.6, "s")),
        (0.5, "us", (0.5, "µs")),
        (-2_000, "us", (-2.0, "ms")),
        (0, "bytes", (0, "bytes")),
        (3 << 20, "bytes", (3.0, "MiB")),
        (5, "%", (5, "%")),
    ],
)
def test_a_plain_number_moves_to_the_unit_that_suits_it(value, unit, expected):
    assert adapted(value, unit) == expected
