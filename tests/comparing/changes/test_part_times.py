"""What a table row takes in every part: from the work that goes with it there, and from no other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.build import make_trace
from tests.support.comparing.recording import Call, Work, record_steps
from tests.support.comparing.small import PROGRAMS, pointwise
from tests.support.slow import slow_events
from tracetui.comparing.change_rows import change_rows
from tracetui.comparing.kernel_changes import kernel_changes, part_times
from tracetui.comparing.match import match
from tracetui.comparing.noise import representative
from tracetui.comparing.side import Side, side
from tracetui.model.table import Cell
from tracetui.model.trace import Float64, Kind, Trace
from tracetui.reading.load import load

RECOMMENDER = "d04_a100_8rank_6steps_occ_nccl.json.gz"
SHARED = (
    "d01_v100_torch1.9_6steps_mem_occ.json.gz",
    RECOMMENDER,
    "d08_b200_cuda13_ep_moe.json",
    "d07_mi300x_8rank_3steps_stack.json.gz",
)
UPLOAD = "Memcpy HtoD (Pinned -> Device)"


@lru_cache
def read(path: Path) -> Trace:
    """A real trace, read once for all that is asked of it."""
    return load(str(path))


def made(*programs: Sequence[Call], jitter: float = 0.0) -> Trace:
    return make_trace(record_steps("forward", programs, jitter))


def upload(size: int, us: int) -> Call:
    work = Work(UPLOAD, 1_000 * us, Kind.MEMCPY, {"bytes": size}, "cudaMemcpyAsync")
    return Call("aten::copy_", work=(work,))


def times(found: Side) -> Float64:
    """By part and row, of a side beside itself."""
    part = representative(found)
    matching = match(found, part, found, part)
    rows = change_rows(found.trace, found.trace, matching)
    return part_times(found, matching.rows_a, rows.row_a, len(rows.how))


def only_row(a: Trace, name: str) -> dict[str, Cell]:
    (row,) = [row for row in kernel_changes(side(a), side(a)).table.rows() if row["name_a"] == name]
    return row


def check_sums(found: Side) -> int:
    """The rows of a part add up to its work where its names are those of the representative part; says how many do."""
    rows, part = found.activities()
    slices = found.trace.slices
    names = [Counter(slices.name[rows[part == place]].tolist()) for place in range(len(found))]
    alike = [place for place in range(len(found)) if names[place] == names[representative(found)]]
    told = times(found)
    for place in alike:
        assert told[place].sum() == pytest.approx(slices.dur[rows[part == place]].sum())
    return len(alike)


class TestSizesThatVary:
    def test_a_large_copy_of_another_size_in_every_step_keeps_its_own_time(self) -> None:
        """By its bytes the large copy of one step is none of those of another, and it is no small one."""
        steps = [[upload(64, 2), upload(55_000_000 + 7 * number, 5_000 + number)] for number in range(5)]
        row = only_row(made(*steps), UPLOAD)
        assert (row["calls_a"], row["a_us"], row["noise_us"]) == (2, 5_004.0, 2.0)

    def test_what_no_step_has_alike_goes_by_its_turn(self) -> None:
        steps = [[upload(10 * n + 1, 100), upload(10 * n + 2, 900)] for n in range(1, 4)]
        found = side(made(*steps))
        assert times(found).sum(axis=1).tolist() == [1_000_000.0] * 3
        part = representative(found)
        rows = match(found, part, found, part).rows_a
        assert part_times(found, rows, np.array([0, 1]), 2).tolist() == [[100_000.0, 900_000.0]] * 3

    def test_an_operator_that_changes_goes_by_the_name(self) -> None:
        def call(op: str) -> Call:
            return Call(op, work=(Work("some_kernel", 3_000),))

        found = side(made([call("my::a")], [call("my::a")], [call("my::b")]))
        assert times(found).tolist() == [[3_000.0]] * 3

    def test_more_of_another_size_count_with_their_mean(self) -> None:
        """The third step has two large ones where the others have one: one takes as long as their mean."""
        steps = [[upload(1, 1), upload(100 + n, 800)] for n in range(2)]
        found = side(made(*steps, [upload(1, 1), upload(200, 600), upload(201, 1_000)]))
        assert times(found).sum(axis=1).tolist() == [801_000.0] * 3

    def test_of_two_rows_a_mean_is_of_neither(self) -> None:
        two = [upload(11, 1), upload(12, 900)]
        found = side(made(two, two, [upload(21, 2), upload(22, 3), upload(23, 4)]))
        part = representative(found)
        rows = match(found, part, found, part).rows_a
        apart, together = (part_times(found, rows, np.array(row), 2) for row in ([0, 1], [0, 0]))
        assert np.isnan(apart[2]).all()
        assert together[2].tolist() == [6_000.0, 0.0]

    def test_a_class_that_is_not_there_takes_no_other_ones_time(self) -> None:
        """One step copies the small one three times and the large one never: nothing is known of the large one."""
        small, large = upload(1, 1), upload(100, 800)
        found = side(made([small, large], [small, large], [small] * 3))
        part = representative(found)
        rows = match(found, part, found, part).rows_a
        told = part_times(found, rows, np.array([0, 1]), 2)
        assert told[2][0] == 1_000
        assert np.isnan(told[2][1])


class TestSums:
    @pytest.mark.full
    @given(PROGRAMS, st.integers(2, 5), st.integers(0, 99))
    def test_rows_add_up_whatever_the_sizes_and_the_order(self, program: list[Call], steps: int, seed: int) -> None:
        random = Random(seed)
        programs = []
        for _ in range(steps):
            calls = [_resized(call, random.randrange(3)) for call in program]
            random.shuffle(calls)
            programs.append(calls)
        assert check_sums(side(made(*programs, jitter=0.4))) == steps

    @pytest.mark.full
    @pytest.mark.parametrize("name", SHARED)
    def test_rows_of_real_traces_add_up(self, name: str, shared_trace: Callable[[str], Path]) -> None:
        found = side(read(shared_trace(name)))
        assert check_sums(found) == len(found)


def _resized(call: Call, more: int) -> Call:
    dims = [[each[0] + more, *each[1:]] if isinstance(each, list) and each else each for each in call.dims or ()]
    return Call(call.name, dims, call.types, call.own, call.inside, call.work, call.kind)


def slow_times(path: Path) -> dict[str, list[float]]:
    """Time of the work of each name in each step, in us, by the calls that launched it: one event after another."""
    events = [event for event in slow_events(path) if event.get("ph") == "X"]
    marks = sorted((e["ts"], e["ts"] + e["dur"]) for e in events if e["name"].startswith("ProfilerStep#"))
    calls = [event for event in events if event.get("cat", "").lower() in ("cuda_runtime", "runtime")]
    launched = {event["args"]["correlation"]: event["ts"] for event in calls}
    found: dict[str, list[float]] = {}
    for event in events:
        if event.get("cat", "").lower() in ("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"):
            times = found.setdefault(event["name"], [0.0] * len(marks))
            moment = launched[event["args"]["correlation"]]
            for place, (begin, end) in enumerate(marks):
                times[place] += event["dur"] if begin <= moment < end else 0.0
    return found


@pytest.mark.full
@pytest.mark.parametrize("name", [SHARED[0], RECOMMENDER])
def test_a_slow_script_finds_the_same_times(name: str, shared_trace: Callable[[str], Path]) -> None:
    """Of names in one row the times; of those in several the sum of the middles lies among the steps."""
    path = shared_trace(name)
    trace = read(path)
    rows: dict[str, list[float]] = {}
    for row in kernel_changes(side(trace), side(trace)).table.rows():
        rows.setdefault(str(row["name_a"]), []).append(float(str(row["a_us"])))
    slow = slow_times(path)
    assert set(rows) == set(slow)
    assert name != RECOMMENDER or len(rows[UPLOAD]) == 1
    for text, found in rows.items():
        if len(found) == 1:
            assert found[0] == pytest.approx(float(np.median(slow[text])))
        else:
            assert min(slow[text]) <= sum(found) + 1e-6
            assert sum(found) <= max(slow[text]) + 1e-6


def test_a_part_without_any_of_it() -> None:
    add = pointwise("add")
    found = times(side(made([add], [add], []), "2:4"))
    assert found[:2].tolist() == [[5_000.0]] * 2
    assert np.isnan(found[2]).all()
