"""The rule about element-wise kernels, copies and norms that nothing fuses."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.support.build import Event, annotation
from tests.support.devices import A100
from tests.support.findings import ids, one
from tests.support.gpu_programs import Work, queued
from tracetui.findings.fusion import unfused_kernels
from tracetui.findings.kernel_times import gpu_time_by_family
from tracetui.findings.scope import Scope
from tracetui.model.trace import Kind, Trace

MUL = "void at::native::vectorized_elementwise_kernel<4, at::native::MulFunctor<float>, std::array<char*, 3ul> >(int)"
CAT = "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 4, 64, 64>(T)"
PRODUCT = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn"


def multiply(dur: int = 100_000, sizes: Sequence[int] = (1024, 1024), name: str = MUL) -> Work:
    return Work(name, dur, "aten::mul", [list(sizes), list(sizes)], types=["float", "float"])


def eager(*work: Work) -> Trace:
    """The work between two products of 100 us."""
    return queued([Work(PRODUCT), *work, Work(PRODUCT)])


def test_two_thirds_of_the_shorter_of_two_neighbours_are_saved():
    finding = one(eager(multiply(), multiply(60_000), multiply(90_000)), "unfused-elementwise")
    assert finding.cost == 80_000 == pytest.approx(2 / 3 * (60_000 + 60_000))
    assert finding.evidence == (
        "3 kernels, 250.0 µs, 56 % of the GPU time: element-wise 56 %; most in aten::mul 250.0 µs; 3 "
        "kernels of 250.0 µs run next to another one, and joining two saves two thirds of the shorter "
        "one's time"
    )


def test_the_norms_of_eager_code_count_as_norms_and_the_shares_add_up_to_that_of_the_kernels():
    work = [Work(PRODUCT), *[multiply()] * 3, Work(PRODUCT)]
    # The second and third are launched within a norm.
    norm = Event("nn.Module: RMSNorm_0", 1_950, 2_000, Kind.PYTHON)
    finding = one(queued(work, more=[norm]), "unfused-elementwise")
    assert "3 kernels, 300.0 µs, 60 % of the GPU time: norms 40 %, element-wise 20 %; most in" in finding.evidence


@pytest.mark.parametrize(
    "work",
    [
        [multiply(), Work(PRODUCT), multiply()],
        [multiply(), multiply(sizes=[77, 3])],
        [multiply(25_000), multiply(20_000)],
        [multiply(8_000)] * 30,
        [multiply(name=PRODUCT)] * 3,
        [multiply(0), multiply(0)],
    ],
    ids=["product between", "other sizes", "small share", "tiny kernels have a rule", "products", "no time"],
)
def test_kernels_that_no_compiler_would_join_are_not_counted(work):
    assert "unfused-elementwise" not in ids(eager(*work))


def test_a_list_of_tensors_has_the_size_of_all_together():
    half = [512, 1024]
    joined = Work(CAT, 100_000, "aten::cat", [[half, half], []], types=["TensorList", "Scalar"])
    assert len(unfused_kernels(Scope(eager(joined, multiply()), None)).joined) == 2
    assert "unfused-elementwise" in ids(eager(*[Work(MUL, 100_000, "aten::mul")] * 2)), "no shapes: neighbours count"


def test_a_program_that_is_compiled_has_nothing_left_to_fuse():
    work = [Work(PRODUCT), multiply(), multiply()]
    region = annotation("Torch-Compiled Region: 0/0", 0, 10_000)
    assert "unfused-elementwise" in ids(queued(work))
    assert "unfused-elementwise" not in ids(queued(work, more=[region]))


@pytest.mark.parametrize(("dur", "rule"), [(60_000, "unfused-elementwise"), (100_000, "far-from-roofline")])
def test_a_kernel_is_joined_or_made_faster_and_not_both(dur, rule):
    # At the bandwidth of the device it takes 25 us; joining saves two thirds at most.
    work = queued([multiply(dur, [2048, 2048])] * 4, [A100])
    assert [each for each in ids(work) if each in ("unfused-elementwise", "far-from-roofline")] == [rule]


def test_gpu_time_by_family_begins_with_the_largest_and_leaves_out_what_takes_next_to_nothing():
    reduce = Work("ncclDevKernel_AllReduce_Sum_f32_RING_LL(int)", 50_000)
    trace = queued([Work(PRODUCT, 30_000), reduce, multiply(19_900), Work("Memset", 100)])
    assert gpu_time_by_family(Scope(trace, None)) == "communication 50 %, GEMM 30 %, element-wise 20 %"
    assert gpu_time_by_family(Scope(queued([]), None)) == ""
