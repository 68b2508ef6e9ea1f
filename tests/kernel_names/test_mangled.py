"""Mangled names against a demangler of the system, and names that no demangler reads."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.waiting import PROCESS_SECONDS
from tracetui.kernel_names.text import demangled, identifiers

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
