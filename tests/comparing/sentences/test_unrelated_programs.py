"""Two programs with next to nothing in common: numbers of each, and no speed-up."""

from __future__ import annotations

import pytest

from tests.support.comparing import tutorial
from tests.support.comparing.played import said, trace_of
from tests.support.comparing.recording import Call, Work
from tests.support.traces import loaded
from tracetui.comparing.fairness import shared_calls, unrelated_programs
from tracetui.comparing.op_changes import op_changes
from tracetui.comparing.side import side
from tracetui.comparing.statement import Comparison
from tracetui.model.trace import Trace

CLAIMS = ("times as", " less", " more", "became", "gone", "new:", "faster", "slower")


def is_told(a: Trace, b: Trace) -> bool:
    return bool(unrelated_programs(side(a), side(b), list(op_changes(side(a), side(b)).rows())))


def test_numbers_stand_beside_each_other():
    lines = said(tutorial.split_stack(), tutorial.mlp())
    assert lines[0] == (
        "These are different programs: of A's GPU time 0 % has a match in B, of B's 0 % one in A. "
        "The numbers below describe each of them, and are no speed-up."
    )
    assert "Kernels per step: A 36, B 5." in lines
    assert "Bottlenecks: A is overhead-bound, B is compute-bound." in lines
    assert not [claim for claim in CLAIMS for line in lines[1:] if claim in line]


PROGRAMS = {
    "mlp": tutorial.mlp,
    "matmul_add": tutorial.matmul_add,
    "linear": tutorial.linear,
    "split_stack": tutorial.split_stack,
    "combined": tutorial.combined,
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.full
def test_a_program_compiled_is_the_same(name):
    assert not is_told(PROGRAMS[name](), PROGRAMS[name](tutorial.COMPILED))
    assert not is_told(PROGRAMS[name](tutorial.COMPILED), PROGRAMS[name]())


def test_other_ways_of_one_thing_are_the_same():
    assert not is_told(tutorial.attention("naive"), tutorial.attention("flash"))
    assert not is_told(tutorial.split_stack(), tutorial.combined())
    assert not is_told(tutorial.mlp(), tutorial.mlp(tutorial.FUSED))


def test_a_program_from_which_most_was_taken_out_is_the_same():
    rest = [Call("aten::mm", [[64, 64]] * 2, ["float"] * 2, work=(Work("gemm", 20_000),))]
    large = [Call(f"my::op{n}", [[n, 8]], ["float"], work=(Work(f"kernel_{n}", 90_000),)) for n in range(30)]
    text = "\n".join(said(trace_of([*rest, *large] * 2, [*rest, *large] * 2), trace_of(rest * 2, rest * 2)))
    assert "not the same program" not in text
    assert "has a match in B, of B's 100 % has one in A." in text


def test_calls_of_the_same_names():
    a, b = side(tutorial.mlp()), side(tutorial.matmul_add())
    rows = [
        {"kind": "op", "calls_a": 10, "calls_b": 1},
        {"kind": "op", "calls_a": 0, "calls_b": 9},
        {"kind": "runtime", "calls_a": 50, "calls_b": 50},
    ]
    assert shared_calls(rows) == 0.1
    assert shared_calls([]) == 1
    assert 0 < shared_calls(list(op_changes(a, b).rows())) < 0.25


def test_a_stranger_without_a_gpu_is_no_76_times_as_slow():
    """Of two programs of which one ran on the CPU and that share no operator no ratio is told."""
    on_cpu = trace_of([Call(f"my::{n}", own=900_000) for n in range(9)] * 3)
    made = Comparison(side(on_cpu), side(tutorial.mlp()))
    assert made.statement[0].startswith("These are different programs: both make 0 % of the operator calls")
    assert made.headline.ratios[0].words == "only one on a GPU: no ratio"
    assert not [claim for claim in CLAIMS for line in made.statement[1:] if claim in line]


def test_without_a_gpu_nothing_is_said_of_counterparts():
    eager, large = (trace_of([Call(f"my::{name}", own=90_000)] * 3) for name in ("one", "other"))
    assert not is_told(eager, large)


@pytest.mark.full
def test_real_strangers(shared_trace):
    a, b = (
        loaded(shared_trace(name)) for name in ("d06_h100_stack_mem.json.gz", "d07_mi300x_8rank_3steps_stack.json.gz")
    )
    lines = said(a, b)
    assert lines[0].startswith("These are different programs: of A's GPU time under 0.1 % has a match in B, ")
    assert not [claim for claim in CLAIMS for line in lines[1:] if claim in line]
    names = "d01_v100_torch1.9_6steps_mem_occ.json.gz", "d02_v100_2020_array.json.gz"
    d01, d02 = (loaded(shared_trace(name)) for name in names)
    assert not is_told(d01, d02)
