"""Sums over slices of one key, from costs given by hand: which share a key, which slice is first, which longest."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.build import Event, make_trace
from tracetui.model.trace import Kind, Trace
from tracetui.operators.costs import Costs
from tracetui.operators.key_averages import KIND_WORDS, Averages, averages, grouped, some_member

DEVICE = {Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET, Kind.GPU_ANNOTATION, Kind.SYNC}


def costed(*slices: tuple[str, int, int, Kind]) -> tuple[Trace, Costs]:
    """Slices given as name, start, duration and kind; each owns GPU work as long as a tenth of it and two kernels."""
    lanes = {kind: ("0", f"stream {kind}") if kind in DEVICE else ("1", str(int(kind))) for kind in Kind}
    trace = make_trace([Event(name, start, dur, kind, lanes[kind]) for name, start, dur, kind in slices])
    row = np.arange(len(slices))
    dur = trace.slices.dur[row]
    on_device = np.isin(trace.slices.kind[row], list(DEVICE))
    cpu, device = np.where(on_device, 0, dur), np.where(on_device, dur, 0)
    name = trace.slices.name[row].astype(np.int64)
    return trace, Costs(row, name, trace.names, cpu, cpu // 2, device, device // 5, np.full(len(row), 2))


def summed(*slices: tuple[str, int, int, Kind]) -> tuple[Trace, Averages]:
    trace, cost = costed(*slices)
    return trace, averages(trace.slices, cost, grouped(trace.slices, cost))


def keys_of(*slices: tuple[str, int, int, Kind], shape: list[int] | None = None) -> int:
    """How many different keys some slices have."""
    trace, cost = costed(*slices)
    return len(grouped(trace.slices, cost, None if shape is None else np.array(shape)))


def test_torch_tells_devices_and_annotations_apart_and_no_other_kinds():
    assert keys_of(*(("x", 0, 10, kind) for kind in (Kind.CPU_OP, Kind.RUNTIME, Kind.OVERHEAD, Kind.PYTHON))) == 1
    assert keys_of(*(("x", 0, 10, kind) for kind in (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET, Kind.SYNC))) == 1
    assert keys_of(*(("x", 0, 10, kind) for kind in Kind)) == 4


def test_a_name_is_not_the_next_name_on_a_device():
    """Names are numbered in the order of the slices."""
    both = ("a", 0, 10, Kind.GPU_ANNOTATION), ("b", 5, 10, Kind.GPU_ANNOTATION)
    assert keys_of(*both, ("b", 0, 10, Kind.CPU_OP), ("a", 20, 10, Kind.CPU_OP)) == 4


def test_a_name_on_a_device_is_not_the_name_after_the_next():
    assert keys_of(("a", 0, 9, Kind.KERNEL), ("b", 10, 9, Kind.CPU_OP), ("c", 20, 9, Kind.CPU_OP)) == 3


def test_a_slice_without_shapes_is_not_the_one_before_with_the_last_shape():
    slices = ("x", 0, 10, Kind.CPU_OP), ("x", 20, 10, Kind.CPU_OP), ("x", 0, 10, Kind.ANNOTATION)
    assert [keys_of(*slices, shape=shape) for shape in ([0, -1, 1], [1, 1, -1], [1, 1, 0])] == [3, 2, 2]


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        (Kind.CPU_OP, "op"),
        (Kind.ANNOTATION, "annotation"),
        (Kind.RUNTIME, "runtime"),
        (Kind.OVERHEAD, "overhead"),
        (Kind.OTHER, "slice"),
        (Kind.BOOKKEEPING, "slice"),
        (Kind.PYTHON, "frame"),
        (Kind.KERNEL, "kernel"),
        (Kind.MEMCPY, "memcpy"),
        (Kind.MEMSET, "memset"),
        (Kind.GPU_ANNOTATION, "GPU annotation"),
        (Kind.SYNC, "wait"),
    ],
)
def test_every_kind_has_its_word(kind, word):
    _, sums = summed(("x", 0, 10, kind))
    assert [KIND_WORDS[int(number)] for number in sums.kind] == [word]


def test_of_several_kinds_under_one_key_the_first_word_stands():
    _, sums = summed(("x", 0, 10, Kind.OVERHEAD), ("x", 0, 10, Kind.RUNTIME), ("x", 20, 5, Kind.PYTHON))
    assert [KIND_WORDS[int(number)] for number in sums.kind] == ["runtime"]


def test_sums_first_and_longest():
    trace, sums = summed(
        ("x", 0, 10, Kind.CPU_OP),
        ("x", 20, 30, Kind.CPU_OP),
        ("x", 60, 30, Kind.CPU_OP),
        ("y", 2, 4, Kind.CPU_OP),
    )
    order = np.argsort(sums.name)
    assert [trace.names[int(name)] for name in sums.name[order]] == ["x", "y"]
    assert sums.calls[order].tolist() == [3, 1]
    assert (sums.cpu[order].tolist(), sums.self_cpu[order].tolist()) == ([70, 4], [35, 2])
    assert (sums.device.tolist(), sums.kernels[order].tolist()) == ([0, 0], [6, 2])
    assert (sums.first[order].tolist(), sums.length[order].tolist()) == ([0, 2], [10, 4])
    assert trace.slices.start[sums.longest[order]].tolist() == [20, 2]


def test_on_a_device_the_time_is_the_device_s():
    trace, sums = summed(("k", 5, 10, Kind.KERNEL), ("k", 20, 40, Kind.KERNEL))
    assert (sums.cpu.tolist(), sums.self_cpu.tolist()) == ([0], [0])
    assert (sums.device.tolist(), sums.self_device.tolist()) == ([50], [10])
    assert (sums.first.tolist(), sums.length.tolist()) == ([5], [10])
    assert trace.slices.start[sums.longest].tolist() == [20]


def test_of_slices_that_began_together_the_longer_one_is_first():
    """On two threads: `a` begins with 3 ns and with 9, `b` at the same moment with 5, `c` before them."""
    trace, sums = summed(
        ("a", 10, 3, Kind.RUNTIME), ("b", 10, 5, Kind.OVERHEAD), ("a", 10, 9, Kind.CPU_OP), ("c", 9, 1, Kind.CPU_OP)
    )
    names = [trace.names[int(name)] for name in sums.name[sums.in_order()]]
    assert names == ["c", "a", "b"]
    assert sorted(sums.length.tolist()) == [1, 5, 9]


def test_an_allocator_event_takes_no_time_and_has_no_slice():
    trace, sums = summed(("x", 7, 10, Kind.CPU_OP), ("[memory]", 20, 5, Kind.OTHER))
    made = sums.with_instants(trace, {"[memory]": np.array([3, 4, 9])})
    assert (len(made.calls), made.calls[-1], made.first[-1], made.longest[-1]) == (len(sums.calls) + 1, 3, 3, -1)
    assert trace.names[int(made.name[-1])] == "[memory]"
    assert KIND_WORDS[int(made.kind[-1])] == "allocation"
    for column in (made.self_cpu, made.cpu, made.self_device, made.device, made.kernels, made.length):
        assert column[-1] == 0
    assert made.cpu[:-1].tolist() == sums.cpu.tolist()
    assert sums.with_instants(trace, {}) is sums


def test_a_member_of_each_group_is_one_of_its_rows():
    trace, cost = costed(("a", 0, 1, Kind.CPU_OP), ("b", 5, 1, Kind.CPU_OP), ("a", 10, 1, Kind.CPU_OP))
    names = grouped(trace.slices, cost)
    assert names.member[some_member(names)].tolist() == [0, 1]
