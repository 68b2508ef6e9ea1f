"""A trace beside one of its own steps: nothing has changed, and nothing may be told to have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.build import make_trace
from tests.support.comparing.recording import Call, record_steps
from tests.support.comparing.small import PROGRAMS
from tests.support.comparing.tutorial import split_stack
from tests.support.traces import loaded
from tracetui.comparing.change_rows import paired
from tracetui.comparing.kernel_changes import kernel_changes
from tracetui.comparing.noise import Change
from tracetui.comparing.op_changes import op_changes
from tracetui.comparing.side import Side, side
from tracetui.model.trace import Trace

SHARED = (
    "d01_v100_torch1.9_6steps_mem_occ.json.gz",
    pytest.param("d04_a100_8rank_6steps_occ_nccl.json.gz", marks=pytest.mark.full),
    "d07_mi300x_8rank_3steps_stack.json.gz",
)
QUIET = ("same", "cannot tell")


def claims(a: Side, b: Side) -> Iterator[str]:
    """What is said to have changed: measures, kernels and operators."""
    yield from (name for name, each in paired(a, b).items() if each.change in (Change.LESS, Change.MORE))
    for table, name in ((kernel_changes(a, b).table, "short_name"), (op_changes(a, b), "name")):
        yield from (f"{row['mark']} {row[name]}" for row in table.rows() if row["mark"] not in QUIET)


def check(trace: Trace) -> None:
    whole = side(trace)
    numbers = whole.number.tolist()
    # The first, with nothing in front of it, one in the middle, which may be the one that stands for all, and the last.
    for number in dict.fromkeys([numbers[0], numbers[len(numbers) // 2], numbers[-1]]):
        one = side(trace, str(number))
        assert list(claims(whole, one)) == list(claims(one, whole)) == []


@pytest.mark.parametrize("name", SHARED)
@pytest.mark.full
def test_of_a_real_trace_no_step_is_another(name: str, shared_trace: Callable[[str], Path]) -> None:
    check(loaded(shared_trace(name)))


@pytest.mark.full
@settings(max_examples=20, deadline=None)
@given(PROGRAMS, st.integers(2, 6), st.integers(0, 99))
def test_of_any_program_no_step_is_another(program: Sequence[Call], steps: int, seed: int) -> None:
    check(make_trace(record_steps("forward", [program] * steps, 0.5, seed)))


def test_an_operator_that_some_steps_do_not_call() -> None:
    """By its median the steps call it; one that does not is among them."""
    rare = Call("my::rare")
    check(make_trace(record_steps("forward", [[rare], [rare], [], [rare], []])))


def test_a_step_beyond_all_others_is_found() -> None:
    trace = split_stack(steps=6, jitter=0.01)
    slow = split_stack(steps=1, jitter=0.0)
    slow.slices.dur[:] *= 2
    assert "more gpu_work_us" in {
        f"{each.change.value} {name}" for name, each in paired(side(trace), side(slow)).items()
    }
