"""One hazard of the format per test, each a tiny trace (sections 1 and 2 of docs/semantics.md)."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tracetui.errors import NoEvents
from tracetui.model.table import NULL
from tracetui.model.trace import NO_ID, Kind, LaneKind
from tracetui.reading.load import load
from tracetui.reading.load_progress import LoadProgress


@pytest.fixture
def read(tmp_path):
    """A function that writes events, or text, to a file and loads it."""

    def write_and_load(content, **more):
        path = tmp_path / "t.json"
        text = content if isinstance(content, str) else json.dumps({"traceEvents": content} | more)
        path.write_text(text)
        return load(str(path))

    return write_and_load


def x(name, ts, dur=1, cat="cpu_op", pid=1, tid=1, **more):
    """A complete slice."""
    return {"ph": "X", "name": name, "ts": ts, "dur": dur, "cat": cat, "pid": pid, "tid": tid} | more


def lanes(trace):
    """Process, thread, kind and slice names of every lane."""
    return [
        (lane.pid, lane.tid, lane.kind.name, [trace.name_of(row) for row in range(lane.first, lane.last)])
        for lane in trace.lanes
    ]


def spans(trace):
    """Name to (start, duration) in ns."""
    slices = trace.slices
    return {trace.name_of(i): (int(slices.start[i]), int(slices.dur[i])) for i in range(len(slices))}


def test_a_thread_is_one_lane_whether_written_as_text_or_number(read):
    trace = read([x("a", 1, tid="25738"), x("b", 2, tid=25738), x("c", 3, tid=25738.0)])
    assert lanes(trace) == [("1", "25738", "CPU", ["a", "b", "c"])]


def test_lane_kind_comes_from_categories_where_cpu_and_gpu_share_a_pid(read):
    trace = read([x("op", 1, pid=0, tid=7), x("gemm", 2, cat="kernel", pid=0, tid=7)])
    assert lanes(trace) == [("0", "7", "CPU", ["op"]), ("0", "7", "GPU", ["gemm"])]


@pytest.mark.parametrize(
    ("category", "kind"),
    [
        ("Operator", Kind.CPU_OP),
        ("cpu_op", Kind.CPU_OP),
        ("user_annotation", Kind.ANNOTATION),
        ("Kernel", Kind.KERNEL),
        ("gpu_memcpy", Kind.MEMCPY),
        ("Memset", Kind.MEMSET),
        ("Runtime", Kind.RUNTIME),
        ("cuda_driver", Kind.RUNTIME),
        ("xpu_runtime", Kind.RUNTIME),
        ("python_function", Kind.PYTHON),
        ("gpu_user_annotation", Kind.GPU_ANNOTATION),
        ("cuda_sync", Kind.SYNC),
        ("overhead", Kind.OVERHEAD),
        ("toplevel,kernel", Kind.KERNEL),
        ("ipc", Kind.OTHER),
    ],
)
def test_categories_of_every_age(read, category, kind):
    assert read([x("a", 1, cat=category)]).slices.kind.tolist() == [kind]


def test_metadata_may_stand_on_either_side_of_the_events(read):
    events = json.dumps([x("a", 1)])
    before = read('{"schemaVersion": 1, "baseTimeNanoseconds": 5, "traceEvents": ' + events + "}")
    after = read('{"traceEvents": ' + events + ', "schemaVersion": 1, "baseTimeNanoseconds": 5}')
    assert before.metadata == after.metadata == {"schemaVersion": 1, "baseTimeNanoseconds": 5}
    assert before.origin_ns == after.origin_ns == 1005


def test_a_header_that_is_not_json_still_gives_its_good_keys(read):
    trace = read(
        '{"WARNING": ["bad "quote""], "deviceProperties": [{"id": 0, "name": "G"}], "traceEvents": ['
        + json.dumps(x("a", 1))
        + "]}"
    )
    assert [device.name for device in trace.devices] == ["G"]


def test_names_of_lanes_come_from_metadata_anywhere_and_never_turn_generic(read):
    def named(tid, name, event="thread_name"):
        return {"ph": "M", "name": event, "pid": 1, "tid": tid, "args": {"name": name}}

    trace = read(
        [
            x("a", 1, tid=5),
            named(5, "thread 5 (python3)"),
            named(5, "thread 5 (pt_autograd_0)"),
            named(5, "thread 5 (python3)"),
            named(0, "python", "process_name"),
        ]
    )
    assert (trace.lanes[0].name, trace.lanes[0].process) == ("thread 5 (pt_autograd_0)", "python 1")


def test_threads_stand_before_streams_and_follow_the_sort_index(read):
    def sort_index(pid, value):
        return {"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": {"sort_index": value}}

    trace = read(
        [
            x("k", 1, cat="kernel", pid=0, tid=7),
            x("k", 1, cat="kernel", pid=1, tid=7),
            x("a", 1, pid=90, tid=91),
            x("b", 1, pid=80, tid=80),
            sort_index(1, 5_000_000),
            sort_index(0, 5_000_001),
        ]
    )
    assert [(lane.pid, lane.kind) for lane in trace.lanes] == [
        ("80", LaneKind.CPU),
        ("90", LaneKind.CPU),
        ("1", LaneKind.GPU),
        ("0", LaneKind.GPU),
    ]


def test_the_profilers_own_span_is_no_work(read):
    trace = read([x("PyTorch Profiler (0)", -500, 9000, "Trace", "Spans", "PyTorch Profiler"), x("a", 100, 10)])
    assert trace.window == (0, 10_000)
    assert sorted(lane.kind for lane in trace.lanes) == [LaneKind.CPU, LaneKind.BOOKKEEPING]


def test_the_profilers_own_moments_are_kept_apart(read):
    start = {"ph": "i", "s": "g", "name": "Iteration Start: PyTorch Profiler", "pid": "Traces", "tid": "Trace", "ts": 1}
    end = {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 99}
    trace = read([start, x("a", 10, 20), end])
    assert trace.window == (0, 20_000)
    assert [lane.kind for lane in trace.lanes] == [LaneKind.CPU, LaneKind.BOOKKEEPING, LaneKind.BOOKKEEPING]


def test_integer_and_fractional_times_are_exact_to_the_nanosecond(read):
    trace = read([x("a", 1749686400123456, 1), x("b", 1749686400123457, 2)])
    assert spans(trace) == {"a": (0, 1000), "b": (1000, 2000)}
    text = '[{"ph":"X","name":"a","ts":1749686400123456.789,"dur":0.5},'
    text += '{"ph":"X","name":"b","ts":"1749686400123457.001","dur":"1.25"}]'
    assert spans(read(text)) == {"a": (0, 500), "b": (212, 1250)}
    text = (
        '[{"ph":"X","name":"a","ts":3605057436108.407,"dur":0.5},{"ph":"X","name":"b","ts":3605057436108.408,"dur":0}]'
    )
    assert spans(read(text)) == {"a": (0, 500), "b": (1, 0)}


def test_durations_that_are_missing_or_negative_are_kept_and_counted(read):
    events = [x("none", 1), x("null", 2, None), x("negative", 3, -5), x("good", 4, 5)]
    del events[0]["dur"]
    trace = read(events)
    assert {name: dur for name, (_, dur) in spans(trace).items()} == {"none": 0, "null": 0, "negative": 0, "good": 5000}
    assert (trace.quality.unfinished, trace.quality.negative) == (2, 1)


def test_odd_types_are_put_straight_and_events_without_time_are_counted(read):
    trace = read(
        [
            {"ph": "X", "name": 42, "ts": "10.5", "dur": "2", "pid": "p", "args": "__stripped__"},
            {"ph": "X", "ts": 11, "dur": 1, "args": [1]},
            {"ph": "X", "name": True, "ts": 12, "cat": None},
            {"ph": "X", "name": "untimed"},
            {},
        ]
    )
    assert [name for name, _ in sorted(spans(trace).items(), key=lambda item: item[1])] == ["42", "[No name]", "true"]
    assert trace.quality.dropped == 1
    assert trace.events == 5


def test_ids_of_any_size_do_not_stop_the_loading(read):
    trace = read([x("a", 1, args={"correlation": 1 << 70}), x("b", 2, args={"correlation": 7}), x("c", 3)])
    assert trace.slices.correlation.tolist() == [NO_ID, 7, NO_ID]


def test_begins_and_ends_become_slices(read):
    def event(phase, ts, **more):
        return {"ph": phase, "ts": ts, "pid": 1, "tid": 1} | more

    trace = read(
        [
            event("B", 1, name="outer"),
            event("B", 2, name="inner"),
            event("E", 4),
            event("E", 9, name="outer"),
            event("E", 10),
            event("B", 11, name="open"),
            x("late", 12, 8, cat=""),
        ]
    )
    assert spans(trace) == {"outer": (0, 8000), "inner": (1000, 2000), "open": (10_000, 9000), "late": (11_000, 8000)}
    assert (trace.quality.unmatched_ends, trace.quality.unfinished) == (1, 1)
    assert trace.slices.depth.tolist() == [0, 1, 0, 1]


def test_asynchronous_spans_get_a_lane_of_their_own_and_are_packed(read):
    def event(phase, ts, key, **more):
        return {"ph": phase, "ts": ts, "cat": "net", "name": "get", "pid": 1, "tid": 1, "id": key} | more

    trace = read([event("b", 1, "0x1"), event("b", 2, 2), event("n", 3, 2), event("e", 5, "0x1"), event("e", 6, 2)])
    assert lanes(trace) == [("1", "net", "ASYNC", ["get", "get"])]
    assert trace.slices.dur.tolist() == [4000, 4000]
    assert trace.slices.row.tolist() == [0, 1]
    assert trace.instants.time.tolist() == [2000]


def test_legacy_asynchronous_spans(read):
    trace = read(
        [
            {"ph": phase, "ts": ts, "cat": "c", "name": "n", "pid": 1, "id": 1}
            for phase, ts in (("S", 1), ("T", 2), ("F", 3))
        ]
    )
    assert spans(trace) == {"n": (0, 2000)}


def test_counters_hold_every_numeric_series(read):
    events = [
        {"ph": "C", "name": "mem", "ts": ts, "pid": 1, "args": {"a": ts, "b": "2.5", "note": "x"}} for ts in (3, 1)
    ]
    counters = {counter.series: counter for counter in read(events).counters}
    assert sorted(counters) == ["a", "b"]
    assert counters["a"].time.tolist() == [0, 2000]
    assert counters["a"].value.tolist() == [1, 3]
    assert counters["b"].value.tolist() == [2.5, 2.5]


def test_flows_land_on_the_lanes_of_their_ends(read):
    def flow(phase, ts, pid, tid):
        return {"ph": phase, "id": 9, "ts": ts, "pid": pid, "tid": tid, "cat": "ac2g", "name": "ac2g", "bp": "e"}

    trace = read([x("op", 1), x("k", 5, cat="kernel", pid=0, tid="stream 7"), flow("s", 1, 1, 1), flow("f", 5, 0, 7)])
    flows = trace.flows
    assert [trace.lanes[lane].kind for lane in flows.lane] == [LaneKind.CPU, LaneKind.GPU]
    assert flows.phase.tolist() == [0, 2]
    assert flows.id.tolist() == [9, 9]
    assert len(set(flows.key.tolist())) == 1
    assert len(trace.lanes) == 2


def test_instants_with_their_scope(read):
    trace = read(
        [
            x("op", 1),
            {"ph": "i", "name": "[memory]", "ts": 2, "pid": 1, "tid": 1, "s": "t"},
            {"ph": "I", "name": "g", "ts": 3, "s": "g"},
        ]
    )
    assert sorted(zip(trace.instants.time.tolist(), trace.instants.scope.tolist(), strict=True)) == [
        (1000, 0),
        (2000, 2),
    ]


def test_unknown_phases_are_counted_by_letter(read):
    trace = read(
        [
            x("a", 1),
            {"ph": "?", "ts": 1, "name": "q"},
            {"ph": "V", "ts": 1, "name": "dump"},
            {"ph": "?", "ts": 2, "name": "q"},
        ]
    )
    assert trace.quality.skipped_phases == {"?": 2, "V": 1}


def test_an_absurd_duration_is_clipped_and_counted(read):
    trace = read([x(f"op{n}", n, 1) for n in range(2000)] + [x("rocm", 5, 1.8e13, tid=2)])
    assert trace.quality.clipped == 1
    assert trace.window == (0, 2_000_000)
    assert spans(trace)["rocm"] == (5000, 1_995_000)


def test_a_kernel_that_outlasts_everything_is_clipped(read):
    trace = read([x(f"op{n}", n, 1) for n in range(2000)] + [x("rocm", 5, 3.4e6, "kernel", 0, 7)])
    assert trace.quality.clipped == 1


def test_a_frame_around_a_short_recording_keeps_its_length(read):
    trace = read([x("main", 0, 1e6, "python_function")] + [x(f"op{n}", 5 + n, 1) for n in range(2000)])
    assert trace.quality.clipped == 0
    assert spans(trace)["main"] == (0, 1_000_000_000)


def test_overlapping_kernels_are_packed_and_none_is_lost(read):
    trace = read([x(f"k{n}", n * 5, 9, "kernel", 0, 7) for n in range(4)])
    assert trace.slices.row.tolist() == [0, 1, 0, 1]
    assert trace.lanes[0].rows == 2


def test_metadata_alone_is_no_trace(read):
    with pytest.raises(NoEvents, match="1 metadata"):
        read([{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "x"}}])


def test_one_object_per_line_without_an_array(read):
    trace = read("\n".join(json.dumps(x(f"n{n}", n)) for n in range(5)))
    assert len(trace.slices) == 5
    assert trace.format.endswith("lines")


def test_stopping_keeps_what_was_read_and_marks_it(tmp_path):
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": [x(f"op{n % 7}", n) for n in range(40_000)]}))
    seen: list[LoadProgress] = []
    trace = load(str(path), progress=seen.append, cancelled=lambda: len(seen) >= 2)
    assert trace.quality.partial
    assert 0 < len(trace.slices) < 40_000
    assert seen[0].bytes_total == path.stat().st_size
    assert [progress.stage for progress in seen][-1] == "nesting"
    assert np.all(np.diff([progress.events for progress in seen]) >= 0)


def test_kept_arguments_are_numbers_or_null_whatever_the_file_says(read):
    odd = ["32", 40, "many", None, True, [1], 1e400, 12.0]
    trace = read([x("k", i, cat="kernel", args={"registers per thread": value}) for i, value in enumerate(odd)])
    found = trace.work_args.number("registers per thread", trace.slices.event)
    assert found.tolist() == [32, 40, NULL, NULL, NULL, NULL, NULL, 12]


def test_arguments_of_ops_and_work_are_kept_by_event(read):
    sizes = {"Input Dims": [[2, 3], []], "Input type": ["float", "Scalar"], "Sequence number": 7, "Fwd thread id": 0}
    old = {"Input dims": [[5]], "Sequence number": 8}
    events = [x("a", 0, args=sizes), x("python", 1, cat="python_function"), x("k", 5, cat="kernel", args={"grid": [1]})]
    trace = read(events)
    given, event = trace.op_args, trace.slices.event
    assert given.event.tolist() == [0]
    assert given.strings[given.text("Input Dims", event)[0]] == "[[2,3],[]]".replace(",", ", ")
    assert given.number("Sequence number", event).tolist() == [7, NULL, NULL]
    grids = trace.work_args.text("grid", event).tolist()
    assert [trace.work_args.strings[number] if number >= 0 else None for number in grids] == [None, None, "[1]"]
    trace = read([x("a", 0, args=old)])
    assert trace.op_args.strings[trace.op_args.text("Input Dims", trace.slices.event)[0]] == "[[5]]"


def test_allocations_are_kept_and_other_instants_are_not(read):
    memory = {"Bytes": -512, "Device Type": 1, "Device Id": 0, "Total Allocated": 1024}
    instants = [("[memory]", memory), ("else", memory)]
    events = [{"ph": "i", "name": name, "ts": 1, "pid": 1, "tid": 1, "args": args} for name, args in instants]
    trace = read([x("a", 0, 5), *events])
    assert trace.memory_args.event.tolist() == [1]
    assert {name: values.tolist() for name, values in trace.memory_args.numbers.items()} == {
        "Addr": [NULL],
        "Bytes": [-512],
        "Total Allocated": [1024],
        "Total Reserved": [NULL],
        "Device Type": [1],
        "Device Id": [0],
    }
