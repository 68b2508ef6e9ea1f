"""The rule about equal calls that take different times."""

from __future__ import annotations

from dataclasses import replace

from tests.support.build import kernel
from tests.support.findings import ids, one
from tests.support.gpu_programs import START, Work, queued

MUL = "void at::native::vectorized_elementwise_kernel<4, at::native::MulFunctor<float>, A>(int)"
USUAL = Work(MUL, 50_000, "aten::mul", [[1024, 1024], [1024, 1024]])
SLOW = replace(USUAL, dur=400_000)


def test_a_call_that_takes_twice_the_median_of_its_equals():
    finding = one(queued([*[USUAL] * 9, SLOW]), "uneven-kernels")
    assert finding.cost == 350_000
    assert finding.evidence.startswith(
        "1 call took more than twice the median of equal calls (operator, shapes and grid)"
    )
    assert "median 50.0 µs, up to 400.0 µs" in finding.evidence and "nothing ran beside them" in finding.evidence


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
