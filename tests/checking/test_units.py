"""Units: what may stand beside what, and what a number of one unit is in another."""

from __future__ import annotations

import pytest

from tests.support.checks import leaf, status, work
from tracetui.checking.values import Amount, ExpressionError

TRACE = work(800, 900, 800)
"""Steps of 800 us at the middle, 3 kernels each; gemm 100 us, triton 10 and 30 us."""


@pytest.mark.parametrize(
    "text",
    [
        "dur_us == 800",
        "dur_us == 800us",
        "dur_us == 800µs",
        "dur_us == 0.8ms",
        "dur_us == 0.0008s",
        "dur_us == 800_000ns",
        "0.8ms == dur_us",
        "dur_us / 1000 == 0.8",
        "dur_us + 200 == 1ms",
        "1ms - dur_us == 200",
        "kernels * 2us == 6us",
        "dur_us / kernels > 266us",
        "gemm_us / dur_us == 12.5%",
        "gemm_us / dur_us == 0.125",
        "100 * gemm_us / dur_us == 12.5",
        "50% * dur_us == 400",
        "dur_us * 50% == 400us",
        "dur_us + 10% == 880",
        "dur_us - 10% == 720",
        "kernels + 100% == 6",
        "kernels + copies == 3",
        "kernels / launches == 1",
        "kernels / launches == 100%",
        "2 * gpu_idle_pct / 2 == gpu_idle_pct",
        "gpu_idle_pct + 1% > gpu_idle_pct",
        "max(10us, 0.02ms) == 20us",
        "abs(gemm_us - 1ms) == 900us",
        "1GiB > 1GB and 1024KiB == 1MiB and 1MB == 1000kB",
        "1GB / 1ms == 1TB/s",
        "1TFLOP / 1s == 1TFLOP/s",
        "0.1 + 0.2 == 0.3",
        "0.3ms == 300us",
        "5 / 10% == 50",
    ],
)
def test_what_is_equal(text):
    assert status(TRACE, text) == "holds"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kernels < 5us", "A count and a time"),
        ("dur_us < 5MB", "A time and a size in bytes"),
        ("kernels < 10%", "A count and a percentage"),
        ("dur_us < 10%", "A time and a percentage"),
        ("dur_us + kernels > 5", "A time and a count cannot be added"),
        ("kernels < 5 + 5%", "percentage of it"),
        ("verdict < 5", "text"),
        ('kernels ~ "5"', "pattern"),
        ('verdict < "z"', "texts?"),
        ("dur_us * gemm_us < 5us", "us"),
        ("(kernels == 5) == 1", "true or false"),
        ("-verdict == 1", "takes a number"),
        ("kernels and dur_us", "is a value"),
        ("within(kernels, 5, 1us)", "within"),
    ],
)
def test_what_does_not_fit_is_no_answer(text, says):
    with pytest.raises(ExpressionError, match=says):
        status(TRACE, text)


def test_what_is_found_is_told_in_the_unit_that_is_written():
    found = leaf(TRACE, "dur_us < 0.5ms")
    assert [(each.value, each.unit.label) for each in found.found if isinstance(each, Amount)] == [(0.8, "ms")]
    assert found.wanted[0] == "<"
    mirrored = leaf(TRACE, "0.5ms > dur_us")
    assert (mirrored.found, mirrored.wanted) == (found.found, found.wanted)
    plain = leaf(TRACE, "dur_us < 500").found[0]
    assert isinstance(plain, Amount) and (plain.value, plain.unit.label) == (800, "us")


@pytest.mark.parametrize("text", ["1 / 0 == 1", "dur_us / 0 < 5", "dur_us / (kernels - 3) < 5us", "1e300 * 1e300 > 1"])
def test_what_is_no_number_is_missing_with_a_reason(text):
    trace = work(800)
    assert status(trace, text) == "missing"
