"""Each sentence about GPU work: when it must stand there, and when it must not."""

from __future__ import annotations

import pytest

from tests.support.comparing.played import compiled, eager, said, trace_of
from tests.support.comparing.recording import Call, Work
from tracetui.comparing.kernel_changes import kernel_changes
from tracetui.comparing.side import side

TENSILE = "Cijk_Ailk_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT128x128x64_MI16x16x1_SN_LDSB0_AFC0_AFEM1"
AMPERE = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn"


def text(before: list[Call], after: list[Call]) -> str:
    return "\n".join(said(trace_of(before, before), trace_of(after, after)))


def product(name: str = AMPERE, us: int = 200) -> Call:
    dims = [[128, 64], [64, 128]]
    return Call("aten::mm", dims, ["c10::BFloat16"] * 2, work=(Work(name, 1000 * us),))


def extra(name: str = "my_filter_kernel", us: int = 150) -> Call:
    return Call("my::filter", work=(Work(name, 1000 * us),))


def test_a_kernel_that_is_new_is_named():
    there = text([product(), *eager(2)], [product(), *eager(2), extra()])
    assert "Kernels per step 5 → 6; new: my_filter_kernel (150 µs)." in there
    assert "gone: my_filter_kernel" not in there


def test_a_kernel_that_is_gone_is_named():
    there = text([product(), *eager(2), extra()], [product(), *eager(2)])
    assert "Kernels per step 6 → 5; gone: my_filter_kernel (150 µs)." in there
    assert "new: " not in there


def test_as_many_kernels_as_before_are_not_counted():
    there = text([product(), *eager(2), extra("one_kernel")], [product(), extra("other_thing", 900), *eager(2)])
    assert "Kernels per step" not in there
    assert "GPU activity " in there


def test_what_is_small_explains_nothing():
    assert "new: my_filter" not in text([product(), *eager(2)], [product(), *eager(2), extra(us=5)])


@pytest.mark.parametrize(
    ("name", "library", "other"), [(TENSILE, "hipBLASLt", "cuBLAS"), (AMPERE, "cuBLAS", "hipBLASLt")]
)
def test_products_of_a_compiled_program_name_their_library(name, library, other):
    there = text([product(name), *eager(2)], [product(name), *compiled(2)])
    assert f"The GEMM is the same kernel, as expected: the compiler calls {library} for it." in there
    assert other not in there
    several = text([product(name), product(name), *eager(2)], [product(name), product(name), *compiled(2)])
    assert f"2 GEMMs are the same kernels, as expected: the compiler calls {library} for them." in several


def test_products_are_not_told_where_both_or_none_are_compiled():
    both = [product(), *compiled(2)]
    assert "GEMM" not in text(both, [*both, extra()])
    assert "GEMM" not in text([product(), *eager(2)], [product(), *eager(2), extra()])
    assert "same kernel" not in text([product(), *eager(2)], [product("other_gemm_kernel"), *compiled(2)])


def test_fewer_and_larger_kernels_are_told_with_their_calls():
    many = [Call("aten::tanh", work=(Work("tanh_kernel", 20_000),))] * 8
    one = [Call("aten::tanh", work=(Work("tanh_kernel", 120_000),))]
    there = text([product(), *many], [product(), *one])
    assert "fewer and larger: tanh_kernel 8 → 1 calls (160 → 120 µs)." in there
    assert "larger" not in text([product(), *one], [product(), *many])


def test_that_little_has_a_match_is_told():
    others = [Call(f"my::op{number}", work=(Work(f"kernel_{number}", 90_000),)) for number in range(6)]
    there = text([product(), *others, *eager(2)], [product(), *eager(2)])
    assert "Of A's GPU time 36 % has a match in B, of B's 100 % has one in A." in there
    assert "has a match" not in text([product(), *others[:3], *eager(2)], [product(), *eager(2)])


def test_one_kernel_that_became_several_is_one_row():
    a, b = side(trace_of(eager(1), eager(1))), side(trace_of(compiled(16), compiled(16)))
    for before, after, calls in ((a, b, (2, 16)), (b, a, (16, 2))):
        [row] = kernel_changes(before, after).table.rows()
        assert (row["calls_a"], row["calls_b"]) == calls
        assert row["mark"] == ("fused into" if calls[0] == 2 else "split into")
    found = kernel_changes(a, b)
    assert [len(rows) for rows in (*found.rows_a, *found.rows_b)] == [2, 16]
