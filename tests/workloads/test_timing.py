"""Times without the profiler: the median and its interval, turns in a ring of pipes, and the load of the machine."""

from __future__ import annotations

import os
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from tracetui_workloads import machine
from tracetui_workloads.recording import profiling as timing
from tracetui_workloads.recording.profiling import (
    Load,
    LoadMeter,
    Ring,
    Timing,
    time_in_turns,
    time_step,
    timing_of,
)

CPU: Any = SimpleNamespace(kind="cpu", synchronize=lambda: None)


@pytest.fixture
def clock(monkeypatch):
    """A clock that only a step moves; returns the function that makes such a step."""
    now = [0.0]
    monkeypatch.setattr(timing, "perf_counter", lambda: now[0])

    def stepping(*seconds: float) -> Any:
        calls: list[int] = []

        def step() -> None:
            now[0] += seconds[len(calls) % len(seconds)]
            calls.append(1)

        return SimpleNamespace(step=step, calls=calls)

    return stepping


def timed(made: Any, limit_s: float) -> Timing:
    """The timing of a step of `clock`."""
    timing = time_step(made.step, CPU, limit_s, lambda: None)
    assert timing is not None
    return timing


def test_the_interval_of_a_median_needs_six_samples():
    assert timing_of([1.0] * 5, 1, "x").low_us is None
    six = timing_of([6.0, 1.0, 5.0, 2.0, 4.0, 3.0], 1, "x")
    assert (six.median_us, six.low_us, six.high_us) == (3.5, 1.0, 6.0), "all of them: 97 %"


@pytest.mark.parametrize(("count", "low"), [(6, 0), (9, 1), (20, 5), (100, 39)])
def test_ranks_of_the_interval_are_those_of_the_binomial(count, low):
    assert timing.rank_of_interval(count) == low


def test_the_ranks_of_many_samples_go_on_where_those_of_few_end():
    few, many = timing.rank_of_interval(1000), timing.rank_of_interval(1001)
    assert few is not None and many is not None and abs(few - many) <= 1


def test_short_steps_are_called_often_for_a_sample_and_long_ones_once(clock):
    short = timed(clock(20e-6), 1.0)
    assert (short.calls_per_sample, short.median_us, short.is_settled) == (50, 20.0, True)
    long = timed(clock(0.4), 1.0)
    assert (long.calls_per_sample, long.samples, long.low_us) == (1, timing.MIN_SAMPLES, 400_000.0)


def test_timing_ends_when_the_interval_is_narrow_or_time_is_over(clock):
    assert timed(clock(2e-3), 60.0).samples == 4 * timing.MIN_SAMPLES
    noisy = timed(clock(*[2e-3 + 1e-4 * number for number in range(20)]), 1.0)
    assert not noisy.is_settled
    assert 300 < noisy.samples < 400
    endless = timed(clock(10.0), 1.0)
    assert (endless.samples, endless.low_us) == (1, None), "too few to say more"


def test_a_cancel_between_samples_ends_it(clock):
    step = clock(2e-3)

    def cancel():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        time_step(step.step, CPU, 60.0, cancel)
    assert len(step.calls) == 2


def ring_of(count: int) -> list[tuple[int, int]]:
    """A ring in one process, with the first turn given away."""
    pipes = [os.pipe() for _ in range(count)]
    os.write(pipes[0][1], b".")
    return [(pipes[index][0], pipes[(index + 1) % count][1]) for index in range(count)]


def test_processes_in_a_ring_measure_one_at_a_time_and_in_turns():
    order, ends = [], ring_of(2)
    found: dict[int, Any] = {}

    def run(name, source, sink):
        def step():
            order.append(name)

        found[name] = time_in_turns(step, CPU, 0.01, lambda: None, Ring(source, sink))

    threads = [threading.Thread(target=run, args=(index, *ends[index])) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # The first call of each tells how long a step takes, and comes before anybody's turn.
    turns = [name for index, name in enumerate(order) if index == 0 or order[index - 1] != name]
    assert len(turns) >= 2 * timing.ROUNDS
    assert all(each.samples >= timing.ROUNDS for each in found.values())
    for end in (end for pair in ends for end in pair):
        os.close(end)


def test_who_waits_for_a_process_that_ended_keeps_what_it_has():
    source, sink = os.pipe()
    gone, other = os.pipe()
    os.write(sink, b".." + b".")
    os.close(sink)
    os.close(gone)
    timed = time_in_turns(lambda: None, CPU, 0.01, lambda: None, Ring(source, other))
    assert timed is not None and timed.samples > 0, "two turns, then the end"
    assert time_in_turns(lambda: None, CPU, 0.01, lambda: None, Ring(source, other)) is None
    os.close(source)
    os.close(other)


def test_what_other_programs_use_is_what_is_busy_less_ones_own(tmp_path, monkeypatch):
    stat, now = tmp_path / "stat", [0.0]
    monkeypatch.setattr(timing, "monotonic", lambda: now[0])
    own = [0.0]
    monkeypatch.setattr(os, "times", lambda: (own[0], 0.0, 0.0, 0.0, 0.0))
    ticks = os.sysconf("SC_CLK_TCK")
    stat.write_text("cpu 100 0 0 1000 500 0 0 0 0 0\ncpu0 ...\n")
    meter = LoadMeter(stat)
    assert meter.load() is None, "no time has passed"
    now[0], own[0] = 2.0, 1.5
    stat.write_text(f"cpu {100 + 5 * ticks} 0 0 9000 900 0 0 0 0 0\n")
    found = meter.load()
    assert found is not None and found.others_cpus == pytest.approx((5 - 1.5) / 2)
    stat.write_text("nonsense")
    assert meter.load() is None
    assert LoadMeter(tmp_path / "nowhere").load() is None


def test_a_warning_about_the_load_needs_much_of_it():
    assert Load(1.0, 2).is_high
    assert not Load(0.2, 2).is_high
    assert not Load(1.5, 16).is_high
    assert "1.0 of 2 CPUs" in Load(1.0, 2).sentence


def test_threads_are_the_cores_that_a_process_may_use(tmp_path, monkeypatch):
    for cpu, core in enumerate("0011"):
        folder = tmp_path / f"devices/system/cpu/cpu{cpu}/topology"
        folder.mkdir(parents=True)
        (folder / "physical_package_id").write_text("0\n")
        (folder / "core_id").write_text(f"{core}\n")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)
    assert machine.physical_cores(tmp_path) == 2
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    assert machine.physical_cores(tmp_path) == 1
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 2, 7}, raising=False)
    assert machine.physical_cores(tmp_path) == 3, "nothing is known of one"
    (tmp_path / "fs/cgroup").mkdir(parents=True)
    (tmp_path / "fs/cgroup/cpu.max").write_text("150000 100000\n")
    assert machine.physical_cores(tmp_path) == 1, "a container's quota"
    (tmp_path / "fs/cgroup/cpu.max").write_text("max 100000\n")
    assert machine.physical_cores(tmp_path) == 3
