"""The rule about equal calls that take different times."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.build import kernel
from tests.support.findings import ids, one
from tests.support.gpu_programs import START, Work, queued
from tracetui.findings import Severity

MUL = "void at::native::vectorized_elementwise_kernel<4, at::native::MulFunctor<float>, A>(int)"
USUAL = Work(MUL, 50_000, "aten::mul", [[1024, 1024], [1024, 1024]])
SLOW = replace(USUAL, dur=400_000)


def test_a_call_that_takes_twice_the_median_of_its_equals():
    finding = one(queued([*[USUAL] * 9, SLOW]), "uneven-kernels")
    assert finding.cost == 350_000
    assert finding.evidence == (
        "1 call took 350.0 µs more than the median of equal calls (operator, shapes and grid): mul<f32> vec4, 10 calls "
        "of 50.0 µs to 400.0 µs, median 50.0 µs; spread over the recording; nothing ran beside them"
    )


def test_other_shapes_are_other_work():
    assert "uneven-kernels" not in ids(queued([*[USUAL] * 9, replace(SLOW, dims=[[8192, 1024], [8192, 1024]])]))


def test_unknown_shapes_are_not_judged():
    assert "uneven-kernels" not in ids(queued([replace(each, dims=None) for each in [*[USUAL] * 9, SLOW]]))


def test_few_calls_have_no_median():
    assert "uneven-kernels" not in ids(queued([USUAL, USUAL, SLOW]))


def test_sorts_take_what_their_values_take():
    sort = "void at::native::radixSortKVInPlace<2, -1, 128, 32, float, long, unsigned int>(T)"
    assert "uneven-kernels" not in ids(queued([replace(each, name=sort) for each in [*[USUAL] * 9, SLOW]]))


def test_kernels_of_one_call_are_compared_with_their_own_kind():
    pair = [replace(USUAL, dur=20_000), replace(USUAL, dur=90_000, is_same_call=True)]
    assert "uneven-kernels" not in ids(queued(pair * 6))


def test_half_of_a_slow_call_beside_others_is_contention():
    beside = kernel("other", START + 9 * 50_000, 250_000, "stream 9")
    finding = one(queued([*[USUAL] * 9, SLOW], more=[beside]), "uneven-kernels")
    assert "other activities ran beside them for 62 %" in finding.evidence and "shared the device" in finding.advice


def test_other_strides_are_other_work():
    strided = "void at::native::elementwise_kernel<128, 2, at::native::MulFunctor<float>>(int)"
    assert "uneven-kernels" not in ids(queued([replace(each, name=strided) for each in [*[USUAL] * 9, SLOW]]))
    known = [replace(each, name=strided, strides=[[1024, 1], [1024, 1]]) for each in [*[USUAL] * 9, SLOW]]
    assert "uneven-kernels" in ids(queued(known))
    transposed = replace(known[-1], strides=[[1, 1024], [1024, 1]])
    assert "uneven-kernels" not in ids(queued([*known[:-1], transposed]))


# Equal calls none of which is typical.

VARYING = [580_000 + 51_000 * (7 * number % 20) for number in range(20)]
"""From 580 us to 1.55 ms in no order."""


@pytest.mark.parametrize(
    ("dims", "cost", "said"),
    [
        (USUAL.dims, 2_550_000, "(operator, shapes and grid): mul<f32> vec4, 20 calls of 580.0 µs to 1.55 ms, median"),
        # The first and the last call have other neighbours.
        (None, 2_371_500, "no shapes are known): mul<f32> vec4, 18 calls of 631.0 µs to 1.55 ms, median"),
    ],
)
def test_calls_without_a_typical_time_are_named_with_and_without_shapes(dims, cost, said):
    # No call takes twice the median.
    finding = one(queued([replace(USUAL, dur=dur, dims=dims) for dur in VARYING]), "uneven-kernels")
    assert finding.cost == cost and said in finding.evidence
    assert finding.severity == (Severity.MAJOR if dims else Severity.MINOR)


@pytest.mark.parametrize(
    "work",
    [
        [replace(USUAL, dur=dur, dims=None) for dur in [580_000, 1_600_000] * 10],
        [replace(USUAL, dur=dur, dims=None) for dur in VARYING[:6]],
        [replace(USUAL, dur=dur // 200, dims=None) for dur in VARYING],
        [Work("flash_fwd_kernel", dur, "") for dur in VARYING],
        [Work("matmul_kernel_persistent", dur, "") for dur in VARYING],
    ],
    ids=["two sizes", "few calls", "short calls", "attention of other lengths", "a grid for all sizes"],
)
def test_without_shapes_other_sizes_may_explain_the_times(work):
    assert "uneven-kernels" not in ids(queued(work))


def test_without_shapes_equal_calls_stand_between_the_same_kernels():
    work = [[replace(USUAL, dur=dur, dims=None), Work(f"k{n % 5}", 1_000, "")] for n, dur in enumerate(VARYING)]
    assert "uneven-kernels" not in ids(queued([each for pair in work for each in pair]))


def test_without_shapes_what_ran_beside_them_may_explain_the_times():
    beside = kernel("other", START, 13_000_000, "stream 9")
    work = [replace(USUAL, dur=dur, dims=None) for dur in VARYING]
    assert "uneven-kernels" not in ids(queued(work, more=[beside]))
    finding = one(queued([replace(each, dims=USUAL.dims) for each in work], more=[beside]), "uneven-kernels")
    assert "shared the device" in finding.advice
