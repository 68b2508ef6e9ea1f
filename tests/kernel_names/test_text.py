"""Names of kernels as text: parts, mangled names, the vocabulary."""

from __future__ import annotations

import re
import shutil
import subprocess
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.waiting import PROCESS_SECONDS
from tracetui.kernel_names import MAX_SHORT_NAME, decode, normalised
from tracetui.kernel_names.text import call, demangled, identifiers, name_parts, plain, split_arguments
from tracetui.model.trace import Kind

SIGNS = "<>(){}[],:_*&~#. 0129"
WORDS = [
    "void ", "at::native::", "(anonymous namespace)::", "operator()", "operator<", "->", "{lambda(float)#1}", "(bool)1",
    "triton_poi_fused_", "nvjet_tst_", "cutlass_80_tensorop_", "Cijk_Ailk_Bljk_", "_ZN7cutlass", "S1_", "Li64E", "J",
    "ncclDevKernel_", "elementwise_kernel<128, 4, ", "reduce_kernel<512, 1, ", "std::enable_if<", ">::type ",
    "Flash_fwd_kernel_traits<", "CollectiveMma<", "sm90_xmma_gemm_", "x", "64x64", "splitK", "\udc80", "\x00", "é",
]  # fmt: skip
ODD = st.lists(st.one_of(st.sampled_from(WORDS), st.text(SIGNS, max_size=6), st.text(max_size=4)), max_size=24)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("void f<int>(int, float*)", "f<int>"),
        ("static void f<(bool)1, (int)4, 4ul, 0u>(T)", "f<true, 4, 4, 0>"),
        ("void a::(anonymous namespace)::f<b<c> >(d)", "a::(anonymous namespace)::f<b<c>>"),
        ("a::<unnamed>::f(int)", "a::(anonymous namespace)::f"),
        ("f<(cudnnKernelDataType_t)2>(float)", "f<2>"),
        ("std::enable_if<!(false), void>::type internal::gemvx::kernel<int>(P)", "internal::gemvx::kernel<int>"),
        ("f(int) [clone .kd]", "f"),
        ("Cijk_Ailk_Bljk_SB_MT64x64x8.kd", "Cijk_Ailk_Bljk_SB_MT64x64x8"),
        ("a::f(T)::{lambda()#1}::operator()() const", "a::f(T)::{lambda()#1}::operator()"),
        ("(anonymous namespace)", "(anonymous namespace)"),
        ("f<1>(unfinished, list", "f<1>"),
    ],
)
def test_plain(raw, text):
    assert plain(raw) == text


def test_parts_of_a_name():
    parts = name_parts("void at::native::(anonymous namespace)::f<4, g(T, U)::{lambda(int, bool)#1}, h<i, j> >(int)")
    assert parts.path == "at::native::f"
    assert parts.base == "f"
    assert parts.arguments == ("4", "g(T, U)::{lambda(int, bool)#1}", "h<i, j>")


@pytest.mark.parametrize(
    ("inside", "parts"),
    [
        ("", ()),
        ("a, b", ("a", "b")),
        ("a<b, c>, d", ("a<b, c>", "d")),
        ("f(a, b)::{lambda()#2}::operator()() const::{lambda(c, d)#1}, e", None),
        ("a<b, c", ("a<b, c",)),
        ("a>, b", ("a>", "b")),
        ("(a < b), c", ("(a < b)", "c")),
        ("decltype(x->y), c", ("decltype(x->y)", "c")),
    ],
)
def test_split_arguments(inside, parts):
    found = split_arguments(inside)
    assert found == parts if parts is not None else len(found) == 2


def test_call():
    assert call("a::F<b<c>, d>::operator()<e>(f)") == ("F", ("b<c>", "d"))
    assert call("plain") == ("plain", ())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("triton_poi_fused_add_3", "triton_poi_fused_add_17"),
        ("triton_per_fused_layer_norm_0_0d1d2d", "triton_per_fused_layer_norm_2_0d1d2de"),
        ("void f<4ul>(int)", "f<4>(long)"),
        ("ProfilerStep#3", "ProfilerStep#12"),
        ("## Call CompiledFxGraph fabc12 ##", "## Call CompiledFxGraph f0987 ##"),
        ("copy to 0x7f12ab00", "copy to 0x7f99cd00"),
    ],
)
def test_what_differs_from_run_to_run_is_normalised(one, other):
    assert normalised(one) == normalised(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("triton_poi_fused_add_3", "triton_poi_fused_mul_3"),
        ("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pinned -> Device)"),
        (
            "f::{lambda()#1}::operator()() const::{lambda(float)#1}",
            "f::{lambda()#2}::operator()() const::{lambda(float)#1}",
        ),
        ("nvjet_tst_64x8_64x16_1x4_h_bz_TNT", "nvjet_tst_64x8_64x16_1x4_h_bz_TNN"),
    ],
)
def test_what_is_another_kernel_stays_another(one, other):
    assert normalised(one) != normalised(other)


@given(ODD)
def test_no_name_is_too_odd(words):
    name = "".join(words)
    for kind in (Kind.KERNEL, Kind.MEMCPY, Kind.CPU_OP):
        found = decode(name, kind)
        assert 0 < len(found.short) <= MAX_SHORT_NAME
        assert not found.inferred - set(found.__dataclass_fields__)
    assert isinstance(normalised(name), str)


LONG = [
    "<" * 100_000,
    "(" * 50_000 + ")" * 50_000,
    "<(" * 50_000,
    "<" * 10_000 + ")" * 90_000,
    "triton_poi_fused_" + "add_" * 25_000 + "0",
    "triton_poi_fused_" + "_" * 100_000,
    "_Z" + "N1a" * 30_000,
    "_ZN1aI" + "S_S0_" * 20_000,
    "_Z" + "9" * 100_000,
    "cutlass_80_tensorop_" + "bf16_" * 20_000,
    "nvjet_tst_" + "1" * 100_000 + "x64_64x4_1x1_h_TNN",
    "sm90_xmma_gemm_" + "bf16" * 25_000,
    "void at::native::elementwise_kernel<128, 4, " + "at::native::BinaryFunctor<" * 4_000,
    "Cijk_" + "Ailk_" * 20_000 + "MT64x64x64",
    "std::enable_if<" * 7_000,
    "void kernel<" + "mine::Thing, " * 8_000 + ">(int)",
    "void " + "mine::" * 15_000 + "kernel<int>(int)",
    "void mine::f<" + "void g<int>(int) " * 6_000 + ">(int)",
    "kernel_cutlass_" + "kernel_" * 14_000 + "_object_at_",
    "_ZN" + "4mine" * 20_000 + "IXadL",
]


@pytest.mark.parametrize("name", LONG, ids=lambda name: name[:24])
def test_a_name_of_100_kilobytes_is_decoded_quickly(name):
    begin = time.process_time()
    assert len(decode(name).short) <= MAX_SHORT_NAME
    assert time.process_time() - begin < 1


def test_the_last_part_of_a_huge_name_is_not_read():
    assert decode("x" * 100_000 + "gemm").operation == "unknown"


NAMES = [
    "_ZN3foo3barIiEEvT_",
    "_ZN7cutlass13device_kernelIN2at4cuda6detail25enable_3x_kernel_for_sm10INS_4gemm6kernel13GemmUniversalIiEEEEEEvNT_6ParamsE",
    "_ZN2ck4testILi256ELi128ELb1ELb0EEEvv",
    "_ZN2ck4testINS_8SequenceIJLi1ELi2EEEES2_NS1_IJLi3EEEEEEvv",
    "_ZN12_GLOBAL__N_14testIPKfRiEEvv",
    "_Z4testIfLj4ELm7EEvv",
    "_Z4testILin5EEvv",
    "_ZN4cute4testINS_5tupleIJNS_1CILi1EEES3_S3_EEEEEvv",
    "_Z4testISt4plusIfEEvv",
    "_Z4testIN2ns4KindEEvv",
    "_Z4testILN2ns4KindE3EEvv",
    "_Z4testIDnEvv",
]
CXXFILT = shutil.which("c++filt")


@pytest.mark.skipif(CXXFILT is None, reason="needs c++filt of binutils")
@pytest.mark.parametrize("name", NAMES)
def test_names_read_as_binutils_reads_them(name):
    read = subprocess.run(
        [str(CXXFILT)], input=name, capture_output=True, text=True, check=True, timeout=PROCESS_SECONDS
    ).stdout
    assert read.startswith("void "), "not a mangled name"
    assert re.sub(r">\s+(?=>)", ">", read.removeprefix("void ")).startswith(f"{demangled(name)}(")


def test_repeated_parts_are_substituted():
    """The tile of a grouped product: its second side is written as the first one's number."""
    name = "_ZN7cutlass13device_kernelINS_3MmaIN4cute5tupleIJNS2_1CILi256EEES5_NS4_ILi64EEEEEEEEEEvv"
    assert (
        demangled(name) == "cutlass::device_kernel<cutlass::Mma<cute::tuple<cute::C<256>, cute::C<256>, cute::C<64>>>>"
    )


@pytest.mark.parametrize(
    "name",
    [
        "_Z",
        "_ZN",
        "_ZN3fo",
        "_ZN3fooIS9_EEvv",
        "_ZN3fooIXgt1E1EEEvv",
        "_ZZN3foo3barEvENKUlvE_clEv",
        "_ZN3fooILi" + "1" * 9,
        "_ZN1aI" + "NS_1bI" * 500,
        "_ZN1aIJ" + "S_" * 3 + "E",
    ],
)
def test_what_cannot_be_read_is_given_up(name):
    assert demangled(name) is None


def test_a_name_that_explodes_is_given_up():
    """Every part holds the one before it twice."""
    doubling = "".join(
        f"NS_1bIJS{'' if i == 0 else chr(48 + i - 1)}_S{'' if i == 0 else chr(48 + i - 1)}_EEE" for i in range(9)
    )
    text = demangled(f"_ZN1aI{doubling}EEvv")
    assert text is None or len(text) < 100_000


def test_identifiers():
    assert identifiers("_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdI") == ["ck_tile", "kentry", "Rmsnorm2dFwd"]


@given(st.text("_ZNSIEJLTK0123456789abifPGOBAL", max_size=60))
def test_no_text_is_too_odd(text):
    assert demangled("_Z" + text) is None or len(demangled("_Z" + text) or "") < 200_000
    assert all(word.isidentifier() for word in identifiers("_Z" + text))
