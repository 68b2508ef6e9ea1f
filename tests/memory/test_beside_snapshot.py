"""A memory snapshot beside a trace of the same run, both written from one allocator whose lines are known.

No recording on a CPU has such a pair, as only the allocator of CUDA writes snapshots.
"""

from __future__ import annotations

import gzip
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.memory_snapshots import LIBRARY, MIB, START_US, FakeAllocator, frame, write
from tests.support.paths import SAMPLES
from tracetui.cli.main import main
from tracetui.errors import NotATrace, NotFound
from tracetui.files import NO_FILE
from tracetui.memory.beside_snapshot import snapshot_holders
from tracetui.memory.memory_table import memory
from tracetui.model.trace import Trace
from tracetui.opening.trace_opening import OpenOptions, open_trace

BASE_NS = START_US * 1000 - 5_000_000_000


def training(rounds: int = 4) -> FakeAllocator:
    """Two lines that take turns at one address with one size, above memory that stays; then an OOM."""
    fake = FakeAllocator(limit=64 * MIB)
    fake.alloc(30 * MIB + 5, [frame(5, name="weights")])
    for number in range(rounds):
        address = fake.alloc(3 * MIB - 100, [LIBRARY, frame(10 + number % 2), frame(90, name="main")])
        assert address is not None
        fake.free(address)
    fake.alloc(60 * MIB, [frame(40, name="backward")])
    return fake


def traced(fake: FakeAllocator, late_us: Callable[[int], float] = lambda _: 0, device: int = 0) -> dict[str, Any]:
    """The trace of the profiler beside the history: sizes are rounded up, a free is written when it is asked for."""
    events: list[dict[str, Any]] = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 5_000_000, "dur": 1_000}
    ]
    total = 0
    for index, event in enumerate(fake.events):
        sign = {"alloc": 1, "free_requested": -1, "oom": 1}.get(event["action"])
        if sign is None:
            continue
        size = -(-event["size"] // 512) * 512 * sign
        total += 0 if event["action"] == "oom" else size
        more = {} if event["action"] == "oom" else {"Addr": event["addr"]}
        events.append(
            {
                "ph": "i",
                "cat": "cpu_instant_event",
                "s": "t",
                "name": "[OutOfMemory]" if event["action"] == "oom" else "[memory]",
                "pid": 1,
                "tid": 1,
                "ts": event["time_us"] - BASE_NS / 1000 + late_us(index),
                "args": {"Bytes": size, "Total Allocated": total, "Device Type": 1, "Device Id": device, **more},
            }
        )
    return {"schemaVersion": 1, "baseTimeNanoseconds": BASE_NS, "traceEvents": events}


def opened(folder: Path, fake: FakeAllocator, trace: dict[str, Any], snapshot: str | None = None) -> Trace:
    write(folder / "memory.pickle", fake.snapshot())
    (folder / "trace.json").write_text(json.dumps(trace))
    return open_trace(str(folder / "trace.json"), OpenOptions(uses_cache=False, snapshot=snapshot))


def lines(trace: Trace) -> list[object]:
    return [row["holder"] for row in memory(trace).rows()]


EXPECTED = [
    "train.py:5 weights",
    *["train.py:10 forward", "train.py:10 forward", "train.py:11 forward", "train.py:11 forward"] * 2,
    "train.py:40 backward",
]


@pytest.mark.parametrize("late", [0, 30, -30, 3_000])
def test_each_event_has_the_line_that_allocated_it(late: int, tmp_path: Path) -> None:
    trace = opened(tmp_path, training(), traced(training(), lambda index: late + index % 3))
    assert lines(trace) == EXPECTED
    stacks = [row["holder_stack"] for row in memory(trace).rows()]
    assert stacks[1] == "train.py:10 forward ◂ train.py:90 main"
    assert "has 10 of these 10 events" in memory(trace).note


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 3 * MIB)), min_size=1, max_size=40), st.integers(-4, 4))
@settings(max_examples=40, deadline=None)
@pytest.mark.full
def test_any_order_of_allocations_and_frees(
    tmp_path_factory: pytest.TempPathFactory, actions: list[tuple[int, int]], late: int
) -> None:
    fake, expected = FakeAllocator(limit=64 * MIB), []
    live: list[tuple[int, int]] = []
    for line, size in actions:
        if line == 0 and live:
            address, owner = live.pop(size % len(live))
            fake.free(address)
        else:
            owner = line
            if (made := fake.alloc(size, [frame(line)])) is not None:
                live.append((made, line))
        expected.append(f"train.py:{owner} forward")
    trace = opened(tmp_path_factory.mktemp("pair"), fake, traced(fake, lambda _: late))
    assert lines(trace) == expected


def test_groups_add_up_and_name_what_is_older_than_the_history(tmp_path: Path) -> None:
    fake, whole = training(), traced(training())
    # The history begins behind the first allocation.
    shorter = FakeAllocator(limit=fake.limit, events=fake.events[2:], segments=fake.segments, live=fake.live)
    for block in shorter.live.values():
        block["is_known"] = False
    trace = opened(tmp_path, shorter, whole)
    assert lines(trace) == [None, *EXPECTED[1:]]
    by = {row["holder"]: row for row in memory(trace, by="holder").rows()}
    assert by["train.py:10 forward"]["allocated"] == by["train.py:10 forward"]["freed"] == 2 * 3 * MIB
    total = sum(int(row["allocated"] or 0) for row in by.values())
    assert total == sum(max(int(row["bytes"] or 0), 0) for row in memory(trace).rows() if row["event"] == "alloc")
    fake.free(next(iter(fake.live)))
    shorter.events = fake.events[2:]
    assert lines(opened(tmp_path, shorter, traced(fake)))[-1] == "(older than the history)"


def test_the_curve_is_that_of_the_history_on_the_axis_of_the_trace(tmp_path: Path) -> None:
    fake = training()
    trace = opened(tmp_path, fake, traced(fake))
    active, reserved = trace.counters
    inside = [
        at for at, event in enumerate(fake.events) if event["time_us"] * 1000 <= trace.origin_ns + trace.window[1]
    ]
    times = [fake.events[at]["time_us"] * 1000 - trace.origin_ns for at in inside]
    assert active.time.tolist() == reserved.time.tolist() == times
    assert reserved.value.tolist() == [fake.reserved[at] for at in inside]
    # What the allocator rounds up is in the curve, and not in the events.
    assert len(set(active.value - [fake.active[at] for at in inside])) == 1


def test_events_of_a_thread_that_was_not_recorded_are_missing(tmp_path: Path) -> None:
    fake = training(300)
    whole = traced(fake, lambda index: 37 + index % 3)
    del whole["traceEvents"][5::7]
    wanted = lines(opened(tmp_path, fake, traced(fake)))
    del wanted[4::7]
    assert lines(opened(tmp_path, fake, whole)) == wanted
    assert set(wanted) == {*EXPECTED}


@pytest.mark.parametrize(
    ("moved_us", "words"),
    [
        (60 * 10**6, "ends 60.000 s before"),
        (-60 * 10**6, "begins 59.999 s after"),
        (-START_US + 10**6, "no wall clock"),
    ],
)
def test_clocks_that_do_not_overlap_are_named(moved_us: int, words: str, tmp_path: Path) -> None:
    whole = traced(training())
    whole["baseTimeNanoseconds"] += moved_us * 1000
    trace = opened(tmp_path, training(), whole)
    assert trace.snapshot is None
    assert not trace.counters
    assert words in "".join(trace.quality.notes)
    assert "holder" not in memory(trace)


def test_another_device_and_a_history_without_times_name_nothing(tmp_path: Path) -> None:
    trace = opened(tmp_path, training(), traced(training(), device=3))
    assert set(lines(trace)) == {None}
    fake = training()
    for event in fake.events:
        del event["time_us"]
    assert any("no times" in note for note in opened(tmp_path, fake, traced(training())).quality.notes)


def test_files_beside_a_trace_are_chosen_with_care(tmp_path: Path) -> None:
    fake, whole = training(), traced(training())
    assert opened(tmp_path, fake, whole, NO_FILE).snapshot is None
    (tmp_path / "weights.pkl").write_bytes(pickle.dumps({"weights": [1, 2]}))
    (tmp_path / "bad.pickle.gz").write_bytes(gzip.compress(b"no pickle"))
    assert opened(tmp_path, fake, whole).snapshot is not None
    cut_off = write(tmp_path / "other_rank7.pickle", fake.snapshot())
    several = opened(tmp_path, fake, whole)
    assert several.snapshot is None
    assert any("--snapshot FILE reads one" in note for note in several.quality.notes)
    assert opened(tmp_path, fake, {**whole, "distributedInfo": {"rank": 0}}).snapshot is not None
    assert opened(tmp_path, fake, whole, str(tmp_path / "memory.pickle")).snapshot is not None
    Path(cut_off).write_bytes(Path(cut_off).read_bytes()[:-200])
    (tmp_path / "memory.pickle").rename(tmp_path / "kept")
    broken = open_trace(str(tmp_path / "trace.json"), OpenOptions(uses_cache=False))
    assert any("cannot be used" in note for note in broken.quality.notes)
    with pytest.raises(NotATrace):
        opened(tmp_path, fake, whole, cut_off)
    with pytest.raises(NotFound):
        opened(tmp_path, fake, whole, str(tmp_path / "none.pickle"))
    with pytest.raises(NotATrace, match="no memory snapshot"):
        opened(tmp_path, fake, whole, str(tmp_path / "trace.json"))


def test_the_command_line_names_holders_and_lists_the_curve(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    opened(tmp_path, training(), traced(training()))
    path = str(tmp_path / "trace.json")
    assert main(["show", "memory", path, "--by", "holder", "--format", "csv"]) == 0
    assert "train.py:40 backward" in capsys.readouterr().out
    assert main(["show", "counters", path, "--snapshot", str(tmp_path / "memory.pickle"), "--format", "csv"]) == 0
    assert "active (snapshot)" in capsys.readouterr().out
    assert main(["show", "counters", path, "--snapshot", "none"]) == 0
    assert "active (snapshot)" not in capsys.readouterr().out
    assert (
        main(["show", "memory", str(SAMPLES / "mlp_train_cpu.json.gz"), "--snapshot", str(tmp_path / "memory.pickle")])
        == 0
    )
    assert "memory.pickle is not shown" in capsys.readouterr().err


def test_holders_are_worked_out_once(tmp_path: Path) -> None:
    trace = opened(tmp_path, training(), traced(training()))
    assert snapshot_holders(trace) is snapshot_holders(trace)
