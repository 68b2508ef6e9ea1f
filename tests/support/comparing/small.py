"""Programs of a few calls, made of small parts, and what is found between two of them."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from tests.support.build import make_trace
from tests.support.comparing.recording import Call, Work, record
from tracetui.comparing.match import MATCH_KINDS, Matching, match
from tracetui.comparing.noise import representative
from tracetui.comparing.side import side
from tracetui.model.trace import Kind, Trace

F32 = "float"


def together(a: Trace, b: Trace) -> Matching:
    one, two = side(a), side(b)
    return match(one, representative(one), two, representative(two))


def pairs(a: Trace, b: Trace) -> list[tuple[str, str, str]]:
    """What was found as names, of A and then what B alone has."""
    found = together(a, b)
    told = []
    for place, row in enumerate(found.rows_a.tolist()):
        partner = int(found.partner[place])
        other = b.name_of(int(found.rows_b[partner])) if partner >= 0 else ""
        told.append((a.name_of(row), other, MATCH_KINDS[found.how[place]] if partner >= 0 else ""))
    lone = found.rows_b[found.partner_b < 0]
    return told + [("", b.name_of(row), "") for row in lone.tolist()]


def pointwise(name: str, dims: Sequence[int] = (64, 64), kernel_name: str = "", dur: int = 5_000) -> Call:
    shape = list(dims)
    return Call(f"aten::{name}", [shape], [F32], work=(Work(kernel_name or f"{name}_kernel", dur),))


def product(rows: int, inner: int, columns: int, name: str = "some_gemm", bias: bool = False) -> Call:
    dims: list[list[int]] = [[rows, inner], [inner, columns]]
    if bias:
        return Call("aten::addmm", [[columns], *dims], [F32] * 3, work=(Work(name, 50_000),))
    return Call("aten::mm", dims, [F32] * 2, work=(Work(name, 50_000),))


def fused(name: str, dims: Sequence[int] = (64, 64)) -> Call:
    return Call(name, [list(dims)], [F32], work=(Work(name, 6_000, call="cuLaunchKernel"),))


def trace(*program: Call, shapes: bool = True) -> Trace:
    return make_trace(record("forward", program, steps=1, shapes=shapes))


ALPHABET = (
    pointwise("add", (8, 8)),
    pointwise("add", (64, 8)),
    pointwise("gelu", (64, 8)),
    pointwise("gelu", (64, 8), "another_gelu"),
    product(64, 8, 16, "gemm_x"),
    product(64, 8, 16, "gemm_y"),
    product(64, 16, 8, "gemm_x"),
    product(64, 8, 16, "gemm_x", bias=True),
    fused("triton_poi_fused_add_gelu_0", (64, 8)),
    fused("triton_poi_fused_add_1", (8, 8)),
    Call("aten::copy_", work=(Work("Memcpy DtoD (Device -> Device)", 900, Kind.MEMCPY, {"bytes": 64}),)),
    Call("my::op", work=(Work("prepare", 700), Work("finish", 800))),
    Call("my::op", work=(Work("at once", 700),)),
)
PROGRAMS = st.lists(st.sampled_from(ALPHABET), max_size=14)


def programs() -> st.SearchStrategy[tuple[list[Call], list[Call]]]:
    """Two programs that have much in common: one and what some removals, additions and swaps leave of it."""

    def changed(program: list[Call], edits: list[tuple[int, Call | None]]) -> tuple[list[Call], list[Call]]:
        other = list(program)
        for place, call in edits:
            if call is None and other:
                other.pop(place % len(other))
            elif call is not None:
                other.insert(place % (len(other) + 1), call)
        return program, other

    edit = st.tuples(st.integers(0, 20), st.none() | st.sampled_from(ALPHABET))
    return st.builds(changed, PROGRAMS, st.lists(edit, max_size=6))
