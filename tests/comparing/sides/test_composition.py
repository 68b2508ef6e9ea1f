"""Sides whose parts run different things: what is said first, and what is not claimed of their middle."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.support.build import make_trace, op, step
from tests.support.comparing import tutorial
from tests.support.comparing.played import compiled, eager, played, said, trace_of
from tests.support.comparing.recording import Call, Work
from tests.support.traces import loaded
from tracetui.comparing.change_rows import paired, totals
from tracetui.comparing.measures import recording_conditions
from tracetui.comparing.noise import groups_of_parts, is_mixed
from tracetui.comparing.op_changes import op_changes
from tracetui.comparing.side import side
from tracetui.drawing.text.comparison_text import in_words
from tracetui.model.trace import Trace

PUZZLE = "puzzlers/fusion_mwe_trace.json.gz"
CLAIMS = re.compile(r"times as|% (less|more)|became|new:|gone:|the same|Less CPU|cannot tell")


def shape(trace: Trace, scope: str = "") -> list[tuple[list[int], int]]:
    """The groups of a side: parts, and kernels in the first of them."""
    return [(group.parts.tolist(), group.count) for group in groups_of_parts(side(trace, scope))]


def test_parts_that_run_the_same_are_one_group():
    assert shape(trace_of(eager(), eager(), eager())) == [([0, 1, 2], 8)]
    assert not is_mixed(side(tutorial.mlp()))


def test_an_eager_and_a_compiled_part_are_two():
    assert shape(trace_of(eager(), compiled())) == [([0], 8), ([1], 4)]
    assert shape(trace_of(eager(), compiled(), steps=False), "f") == [([0], 8), ([1], 4)]
    assert is_mixed(side(trace_of(eager(), compiled())))


def test_a_few_percent_are_no_other_work():
    assert len(groups_of_parts(side(trace_of(eager(20), eager(21))))) == 1
    assert len(groups_of_parts(side(trace_of(eager(20), eager(24))))) == 2


def test_as_many_kernels_of_other_names_are_other_work():
    others = [Call("aten::tanh", work=(Work("tanh_kernel", 20_000),))] * 8
    [line, *_] = said(trace_of(eager(), others), trace_of(eager(), eager()))
    assert line == "The steps of A differ in what they run (8 and 8 kernels, and not the same): compare #1 or #2."


@pytest.mark.parametrize(
    ("first", "others", "mixed"), [(1, 2, True), (1, 3, False), (2, 3, True), (1, 9, False), (5, 5, True)]
)
def test_one_that_warms_up_does_not_spoil_the_others(first, others, mixed):
    trace = trace_of(*[eager(6)] * first, *[eager(4)] * others, steps=False)
    assert is_mixed(side(trace, "f")) is mixed


def test_without_a_gpu_operators_count():
    def program(*counts: int) -> Trace:
        events = []
        for number, count in enumerate(counts, 1):
            begin = 100_000 * number
            events += [step(number, begin, 90_000)]
            events += [op("aten::mm", begin + 10 + 100 * place, 90) for place in range(count)]
        return make_trace(events)

    assert shape(program(4, 9)) == [([0], 4), ([1], 9)]
    [line, *rest] = said(program(4, 9), program(4, 4))
    assert line == "The steps of A differ in what they run (4 and 9 operators): compare #1 or #2."
    assert not any("GPU" in each for each in rest)


def test_every_part_is_in_one_group():
    programs = [eager(number) for number in (3, 9, 3, 4, 30, 31, 9, 3, 1, 60, 120, 240, 480)]
    found = groups_of_parts(side(trace_of(*programs, steps=False), "f"))
    assert sorted(np.concatenate([group.parts for group in found]).tolist()) == list(range(len(programs)))
    assert {frozenset(group.parts.tolist()) for group in found[:3]} == {
        frozenset({0, 2, 7}),
        frozenset({1, 6}),
        frozenset({3}),
    }


def test_the_mix_is_said_first_and_nothing_is_claimed():
    lines = said(trace_of(eager(), compiled(), steps=False), trace_of(eager(), eager(), steps=False), "f", "f")
    assert lines[0] == "The runs of A differ in what they run (8 and 4 kernels): compare #f[1] or #f[2]."
    assert not CLAIMS.search("\n".join(lines))
    # What each sort takes is told: 4 x (20 + 30) us and 4 x 25 us of kernels.
    assert "GPU time per run, in µs: A 200 and 100, B 200." in lines


def test_totals_of_a_mixed_side_say_nothing():
    a, b = side(trace_of(eager(), compiled(), steps=False), "f"), side(trace_of(eager(), eager(), steps=False), "f")
    for total in paired(a, b).values():
        assert total.change.value in ("cannot tell", "unknown")
    rows = list(totals(a, b).rows())
    assert {row["remark"] for row in rows} == {"the parts of A differ in what they run"}
    assert "The parts of A differ in what they run: a median describes none of them." in totals(a, b).note
    assert not {row["mark"] for row in op_changes(a, b).rows()} & {"faster", "slower", "same"}
    clean = paired(b, b)["kernels"]
    assert (clean.change.value, clean.remark) == ("same", "")


def test_compiled_are_only_sides_of_which_all_parts_are():
    def words(*programs: list[Call]) -> str:
        return in_words(recording_conditions(side(trace_of(*programs, steps=False), "f")))

    assert words(compiled(), compiled()) == "2 runs, compiled"
    assert words(eager(), compiled(), compiled()) == "3 runs, 2 of them compiled"
    assert words(eager(), eager()) == "2 runs"


def test_the_puzzle(shared_trace):
    trace = loaded(shared_trace(PUZZLE))
    lines = said(trace, trace, "unfused", "fused")
    assert lines[:2] == [
        "The runs of A differ in what they run (36 and 19 kernels): compare #unfused[1] or #unfused[2].",
        "The runs of B differ in what they run (5 and 4 kernels): compare #fused[1] or #fused[2].",
    ]
    assert not CLAIMS.search("\n".join(lines))
    assert "GPU per run, from the first kernel to the last, in µs: A 1,613 and 634, B 191 and 157." in lines
    assert not recording_conditions(side(trace, "unfused")).compiled
    assert recording_conditions(side(trace, "unfused[2]")).compiled


def test_real_steps_are_not_called_mixed(shared_trace):
    for name in ("d01_v100_torch1.9_6steps_mem_occ.json.gz", "d04_a100_8rank_6steps_occ_nccl.json.gz"):
        assert not is_mixed(side(loaded(shared_trace(name))))


def test_what_is_played_is_what_the_tests_say():
    names = [event.name for event in played(eager(1), compiled(1)) if "kernel" in event.name or "triton" in event.name]
    assert names == ["gelu_kernel", "mul_kernel", "triton_poi_fused_gelu_mul_0", "triton_poi_fused_gelu_mul_0"]
