"""A part of a trace: the numbers of what is left are those of the whole, and the file is whole JSON."""

from __future__ import annotations

import io
import json
from collections import Counter

import numpy as np
import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.cells import cells_of
from tests.support.paths import SAMPLES, SHARED
from tests.support.traces import loaded
from tracetui.cli.main import main
from tracetui.errors import UsageError
from tracetui.linking.step_sources import with_steps
from tracetui.linking.steps import steps
from tracetui.panes import PANES
from tracetui.reading.load import load
from tracetui.writing.anonymizing import Anonymizer
from tracetui.writing.cut import Cut, without_stack
from tracetui.writing.selection import Wanted

EAGER = SAMPLES / "mlp_eager_cpu.json.gz"
PERIODS = {"period_us", "gpu_idle_us", "idle_pct", "mfu_pct"}
"""Columns that rest on the end of the step before, which a part of a trace does not have."""
OF_OTHER_STEPS = {"to_median", "off_median"}
"""Columns that compare a step with all others."""
COMPARED = ("kernels", "ops", "launches", "gaps", "views", "occupancy", "steps", "roofline")
TIMES = ("start_us", "launch_start_us", "gpu_start_us", "gpu_end_us")
STEPPED = (
    "d08_b200_cuda13_ep_moe.json",
    "d05a_a100_megatron_tp8_rank0.json",
    pytest.param("d01_v100_torch1.9_6steps_mem_occ.json.gz", marks=pytest.mark.full),
    pytest.param("d04_a100_8rank_6steps_occ_nccl.json.gz", marks=pytest.mark.full),
    pytest.param("d07_mi300x_8rank_3steps_stack.json.gz", marks=pytest.mark.full),
)
"""Traces with steps, one of each kind: new, Megatron, old with memory, many steps with NCCL, ROCm with stacks.

What has no step has nothing to show here. d02 is like d01 but for its container, d03 like d04 but for its size, and the
one step of d06 and of d13 is nearly all of the file.
"""
FAST = ("d16_b300_tiny.json.gz", "d08_b200_cuda13_ep_moe.json", "d05a_a100_megatron_tp8_rank0.json")
ALIKE = (
    "d01_v100_torch1.9_6steps_mem_occ.json.gz",
    "d03_v100_2rank_5steps_mem_occ_nccl.json.gz",
    "d04_a100_8rank_6steps_occ_nccl.json.gz",
    "d05b_a100_megatron_tp8_rank1.json",
    "d13_mtia_456k_events.json.gz",
    "puzzlers/addition_d2h_sync_final.json.gz",
)
"""Large ones whose kinds of events, containers and heads others have: arrays d02, many blocks and stacks d06."""
PATHS = (*SHARED.glob("d*.json*"), *SHARED.glob("puzzlers/*.json*"))
SLOW = sorted({path.relative_to(SHARED).as_posix() for path in PATHS} - {*FAST, *ALIKE})
REAL = [*FAST, *(pytest.param(name, marks=pytest.mark.full) for name in SLOW)]


def cut_of(trace, path, **wanted):
    """The part as a trace of its own, and the document that was written."""
    sink = io.BytesIO()
    kept = Cut(trace, Wanted(**wanted)).write(sink)
    document = orjson.loads(sink.getvalue())
    events = document["traceEvents"] if isinstance(document, dict) else document
    assert kept.events == len(events)
    path.write_bytes(sink.getvalue())
    return load(str(path)), document


def raw_events(trace):
    """The bytes of every event."""
    return [event for _, events in trace.store.raw(np.ones(trace.events, bool)) for event in events]


def rows_of(trace, pane, step, shift):
    """The names of a pane's columns that other steps do not change, and its rows with the times of the whole trace.

    Order is left out, for ties have none.
    """
    table = PANES[pane].build(trace, step=step, by=None)
    columns = [column for column in table.columns if column.name not in OF_OTHER_STEPS]
    cells = [cells_of(column, shift if column.name in TIMES else 0) for column in columns]
    return [column.name for column in columns], Counter(zip(*cells, strict=True))


def test_cells_are_those_of_the_table():
    trace = load(str(EAGER))
    for pane in COMPARED:
        for column in PANES[pane].build(trace).columns:
            expected = [column.cell(row) for row in range(len(column))]
            assert cells_of(column, 0) == [round(cell, 3) if isinstance(cell, float) else cell for cell in expected]


@pytest.mark.parametrize("name", STEPPED)
@pytest.mark.full
def test_the_panes_of_a_step_are_those_of_the_whole(name, shared_trace, tmp_path):
    whole = loaded(shared_trace(name))
    texts = raw_events(whole)
    numbers = list(dict.fromkeys(steps(whole).number.tolist()))
    # The first has nothing in front of it and the last nothing behind; those between are all like the middle one.
    for step in dict.fromkeys([numbers[0], numbers[len(numbers) // 2], numbers[-1]]):
        part, _ = cut_of(whole, tmp_path / "part.json", steps=(step, step))
        shift = part.origin_us - whole.origin_us
        for pane in COMPARED:
            apart = PERIODS if step != numbers[0] else set()
            assert told(rows_of(part, pane, step, shift), apart) == told(rows_of(whole, pane, step, 0), apart), (
                step,
                pane,
            )
        left = iter(texts)
        assert all(event in left for event in raw_events(part)), "an event was changed, or stands elsewhere"
        assert part.events < whole.events or len(steps(whole)) == 1
        assert set(steps(part).number.tolist()) == {step}


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.json.gz")), ids=lambda path: path.name)
@pytest.mark.full
def test_the_same_for_the_samples(path, tmp_path):
    whole = load(str(path))
    part, _ = cut_of(whole, tmp_path / "part.json", steps=(3, None))
    assert steps(part).number.tolist() == [3, 4]
    # Of a machine that runs for months, the origin in microseconds is no longer exact to the nanosecond.
    shift = float(steps(whole).start[1] - steps(part).start[0]) / 1000
    for step in (3, 4):
        for pane in ("ops", "views", "steps"):
            assert rows_of(part, pane, step, shift) == rows_of(whole, pane, step, 0), pane


@pytest.mark.parametrize("name", REAL)
@pytest.mark.nightly
def test_a_cut_of_everything_has_every_event(name, shared_trace, tmp_path):
    whole = loaded(shared_trace(name))
    part, document = cut_of(whole, tmp_path / "part.json")
    assert raw_events(part) == raw_events(whole)
    assert isinstance(document, dict) == (", object" in whole.format)
    assert dict(part.metadata) == dict(whole.metadata)
    assert part.devices == whole.devices
    assert len(part.slices) == len(whole.slices)


# What a file holds beside complete slices.


def x(name, ts, dur, **more):
    """A complete event on thread 1 of process 1."""
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, **more}


def trace_of(tmp_path, document):
    """A trace of events, or of a whole document."""
    path = tmp_path / "whole.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return load(str(path))


def window(tmp_path, events, low, high, **more):
    """Names and phases of what is left of events between two times in µs from the first."""
    low, high = None if low is None else low * 1000, None if high is None else high * 1000
    _, document = cut_of(trace_of(tmp_path, events), tmp_path / "part.json", window=(low, high), **more)
    return [(event["ph"], event["name"]) for event in document]


def test_what_touches_the_window_is_kept_whole(tmp_path):
    events = [x("around", 0, 100), x("before", 0, 10), x("in", 12, 3), x("empty", 20, 0), x("after", 20, 5)]
    assert window(tmp_path, events, 10, 20) == [("X", "around"), ("X", "in")]
    assert window(tmp_path, events, 20, 21) == [("X", "around"), ("X", "empty"), ("X", "after")]
    assert window(tmp_path, events, None, 5) == [("X", "around"), ("X", "before")]
    assert window(tmp_path, events, 25, None) == [("X", "around")]


def test_begins_and_ends_stay_together(tmp_path):
    def mark(phase, name, ts, **more):
        return {"ph": phase, "cat": "c", "name": name, "pid": 1, "tid": 1, "ts": ts, **more}

    events = [x("all", 0, 100)]
    for phases in ("BE", "be", "SF"):
        events += [mark(phases[0], f"out{phases}", 0, id=1), mark(phases[1], f"out{phases}", 9, id=1)]
        events += [mark(phases[0], f"in{phases}", 5, id=2), mark(phases[1], f"in{phases}", 30, id=2)]
    events += [mark("E", "stray", 15), mark("T", "inSF", 8, id=2)]
    left = window(tmp_path, events, 10, 20)
    assert sorted(left) == sorted(
        [("X", "all"), ("B", "inBE"), ("E", "inBE"), ("b", "inbe"), ("e", "inbe"), ("S", "inSF"), ("F", "inSF")]
    )


def test_an_arrow_has_both_ends_or_none(tmp_path):
    def end(phase, number, ts):
        return {"ph": phase, "cat": "ac2g", "name": f"{number}", "id": number, "pid": 1, "tid": 1, "ts": ts, "bp": "e"}

    events = [x("a", 0, 5), x("b", 20, 5), x("c", 30, 5), x("around", 0, 100, tid=2)]
    events += [end("s", 1, 2), end("f", 1, 22), end("s", 2, 21), end("f", 2, 32), end("f", 3, 20)]
    assert window(tmp_path, events, 20, 40)[3:] == [("s", "2"), ("f", "2"), ("f", "3")]


def test_a_counter_keeps_the_value_it_had(tmp_path):
    def sample(ts, value):
        return {"ph": "C", "name": f"at {ts}", "pid": 1, "ts": ts, "args": {"v": value}}

    def one(ts):
        return {"ph": "C", "name": "queue", "pid": 1, "ts": ts, "args": {"a": ts, "b": 1}}

    events = [x("op", 0, 50), sample(1, 1), one(0), one(5), one(15), one(40)]
    left = window(tmp_path, events, 10, 20)
    assert left == [("X", "op"), ("C", "at 1"), ("C", "queue"), ("C", "queue")]


def test_metadata_of_what_is_left_and_once(tmp_path):
    def told(what, pid, tid, text):
        return {"ph": "M", "name": what, "pid": pid, "tid": tid, "ts": 0, "args": {"name": text}}

    here = [told("process_name", 1, 0, "p"), told("thread_name", 1, 1, "t")]
    gone = [told("thread_name", 1, 2, "u"), told("process_name", 9, 0, "q"), told("process_sort_index", 9, 0, "")]
    events = [x("a", 0, 5), x("b", 50, 5, tid=2), x("c", 50, 5, pid=9), *here, *gone, *here]
    assert window(tmp_path, events, 0, 10) == [("X", "a"), ("M", "process_name"), ("M", "thread_name")]


def test_objects_are_made_and_deleted_whenever_that_was(tmp_path):
    def mark(phase, ts):
        return {"ph": phase, "name": "layer", "cat": "cc", "id": "0x1", "pid": 1, "tid": 1, "ts": ts}

    events = [x("op", 0, 50, cat="c"), mark("N", 1), mark("O", 2), mark("O", 15), mark("D", 40)]
    events.append({**mark("D", 41), "id": "0x2"})
    assert window(tmp_path, events, 10, 20) == [("X", "op"), ("N", "layer"), ("O", "layer"), ("D", "layer")]


@st.composite
def files(draw):
    """Events of many sorts on a few threads."""
    events = []
    for number in range(draw(st.integers(1, 25))):
        start, tid = draw(st.integers(0, 60)), draw(st.integers(1, 3))
        length = draw(st.integers(0, 30))
        common = {"pid": 1, "tid": tid, "name": f"n{number}", "cat": draw(st.sampled_from(["cpu_op", "other"]))}
        sort = draw(st.sampled_from("XBbsi"))
        if sort == "X":
            events.append({"ph": "X", "ts": start, "dur": length, **common})
        elif sort == "i":
            events.append({"ph": "i", "ts": start, "s": "t", **common})
        else:
            other = {"B": "E", "b": "e", "s": "f"}[sort]
            events.append({"ph": sort, "ts": start, "id": number, **common})
            # An end at the time of its begin, and in front of it in the file, would end nothing.
            events.append({"ph": other, "ts": start + length + 1, "id": number, "bp": "e", **common})
    events.append({"ph": "X", "ts": 0, "dur": 100, "pid": 2, "tid": 1, "name": "anchor", "cat": "other"})
    return draw(st.permutations(events))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files(), st.integers(0, 60), st.integers(1, 40))
@pytest.mark.full
def test_windows_of_anything(tmp_path, events, low, length):
    high = low + length
    left = window(tmp_path, events, low, high)
    kept = {name for _, name in left}
    phases = Counter(left)
    for event in events:
        ts, phase, name = event["ts"], event["ph"], event["name"]
        if phase == "X":
            inside = ts < high and max(ts + event["dur"], ts + 0.001) > low
            assert (name in kept) == inside, event
        elif phase == "i":
            assert (name in kept) == (low <= ts < high), event
    for (begin, name), count in phases.items():
        if begin in "Bbs":
            end = {"B": "E", "b": "e", "s": "f"}[begin]
            assert phases[end, name] == count
        elif begin in "Eef":
            assert phases[{"E": "B", "e": "b", "f": "s"}[begin], name] == count


@st.composite
def loops(draw):
    """Three steps on a thread that launches work on two streams, which lag behind, wait and run side by side."""
    events, correlation, free = [], 0, {7: 0, 20: 0}
    for number in range(3):
        begin, now = number * 200, number * 200 + 2
        events.append(x(f"ProfilerStep#{number}", begin, draw(st.sampled_from([198, 200])), cat="user_annotation"))
        for _ in range(draw(st.integers(0, 5))):
            now += draw(st.integers(0, 15))
            events.append(x(draw(st.sampled_from(["aten::mm", "aten::add"])), now, 12))
            call = draw(st.sampled_from(["cudaLaunchKernel", "cudaGraphLaunch", "cudaStreamWaitEvent", "nothing"]))
            if call != "nothing":
                correlation += 1
                args = {"correlation": correlation}
                events.append(x(call, now + 1, draw(st.integers(1, 6)), cat="cuda_runtime", args=args))
            for _ in range({"cudaLaunchKernel": 1, "cudaGraphLaunch": 3}.get(call, 0)):
                stream = draw(st.sampled_from([7, 20]))
                start = max(now + 3, free[stream]) + draw(st.integers(0, 40))
                length = draw(st.integers(1, 120))
                free[stream] = start + length
                kernel = x("gemm", start, length, cat="kernel", pid=0, args={**args, "stream": stream, "device": 0})
                events.append({**kernel, "tid": stream})
            now += 12
        if draw(st.booleans()):
            events.append(x("cudaDeviceSynchronize", now, max(1, begin + 197 - now), cat="cuda_runtime"))
    return events


APART = PERIODS | {"cause", "cpu_doing", "shares", "partial", "verdict"}
"""Columns that rest on the median latency of the whole trace, or on the other steps."""


@pytest.mark.full
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(loops(), st.integers(0, 2))
def test_steps_of_any_loop(tmp_path, events, step):
    whole = trace_of(tmp_path, events)
    part, _ = cut_of(whole, tmp_path / "part.json", steps=(step, step))
    for pane in COMPARED:
        ours = rows_of(part, pane, step, part.origin_us - whole.origin_us)
        theirs = rows_of(whole, pane, step, 0)
        assert told(ours, APART) == told(theirs, APART), pane


def test_a_step_during_which_only_other_steps_keep_the_gpu(tmp_path):
    """Its period is empty in the whole trace, and not in the part: the numbers that need no period are the same."""
    events = [x(f"ProfilerStep#{number}", number * 200, 198, cat="user_annotation") for number in range(3)]
    launches = [(0, 27, 1), (1, 203, 2)]
    events += [x("cudaLaunchKernel", ts, 1, cat="cuda_runtime", args={"correlation": n}) for _, ts, n in launches]
    for start, length, correlation, stream in [(203, 1, 1, 7), (204, 2, 1, 7), (205, 1, 2, 20)]:
        args = {"correlation": correlation, "stream": stream, "device": 0}
        events.append({**x("gemm", start, length, cat="kernel", pid=0, args=args), "tid": stream})
    whole = trace_of(tmp_path, events)
    part, _ = cut_of(whole, tmp_path / "part.json", steps=(1, 1))
    ours, theirs = rows_of(part, "steps", 1, part.origin_us - whole.origin_us), rows_of(whole, "steps", 1, 0)
    assert told(ours, APART) == told(theirs, APART)
    assert dict(zip(theirs[0], next(iter(theirs[1])), strict=True))["exposed_comm_us"] == 0


def told(table, apart):
    """The names and the rows without the columns that stand apart."""
    names, rows = table
    places = [place for place, name in enumerate(names) if name not in apart]
    found: Counter[tuple] = Counter()
    for row, count in rows.items():
        found[tuple(row[place] for place in places)] += count
    return [names[place] for place in places], found


# Lanes, stacks, memory.


def gpu_trace(tmp_path):
    """A launch, its kernel, and a kernel of another stream."""
    common = {"ph": "X", "pid": 0, "cat": "kernel", "dur": 5}
    events = [
        x("aten::mm", 0, 10, args={"Call stack": "a.py(1): f;b.py(2): g", "Input Dims": [[2, 2]]}),
        x("a.py(1): f", 0, 12, cat="python_function", args={"Python id": 1}),
        x("cudaLaunchKernel", 2, 2, cat="cuda_runtime", args={"correlation": 7}),
        {**common, "name": "k7", "tid": 7, "ts": 20, "args": {"correlation": 7, "stream": 7, "device": 0}},
        {**common, "name": "k70", "tid": 70, "ts": 20, "args": {"correlation": 8, "stream": 70, "device": 0}},
        {"ph": "i", "s": "t", "name": "[memory]", "cat": "cpu_instant_event", "pid": 1, "tid": 1, "ts": 3, "args": {}},
    ]
    return trace_of(tmp_path, {"traceEvents": events, "schemaVersion": 1, "stackFrames": {"1": {"name": "secret.py"}}})


def names(document):
    """Names of the events of a document."""
    return [event["name"] for event in document["traceEvents"]]


def test_lanes_by_name_with_numbers_whole(tmp_path):
    trace, path = gpu_trace(tmp_path), tmp_path / "part.json"
    assert names(cut_of(trace, path, lanes=("STREAM 7",))[1]) == ["k7"]
    assert names(cut_of(trace, path, lanes=("stream",))[1]) == ["k7", "k70"]
    assert names(cut_of(trace, path, without=("stream", "nothing"))[1])[-2:] == ["cudaLaunchKernel", "[memory]"]
    assert names(cut_of(trace, path, lanes=("gpu",), without=("stream 7",))[1]) == ["k70"]


def test_without_stacks_and_memory_nothing_else_changes(tmp_path):
    trace = gpu_trace(tmp_path)
    _, document = cut_of(trace, tmp_path / "part.json", stacks=False, memory=False)
    assert names(document) == ["aten::mm", "cudaLaunchKernel", "k7", "k70"]
    assert document["traceEvents"][0]["args"] == {"Input Dims": [[2, 2]]}
    assert "secret" not in json.dumps(document)
    assert document["schemaVersion"] == 1


def test_a_stack_goes_also_from_an_event_with_a_name_that_is_not_utf8():
    event = b'{"ph":"X","name":"a","n\xffme":1,"args":{"Call stack":"secret","k\xffy":2,"External id":7}}'
    assert b"secret" not in without_stack(event)
    assert json.loads(without_stack(event))["args"]["External id"] == 7


def test_times_keep_their_digits_where_a_stack_is_taken_out(tmp_path):
    event = '{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1749686400123456.789,"dur":0.250,"args":%s}'
    trace = trace_of(tmp_path, "[" + event % '{"Call stack":"x","big":12345678901234567890.10}' + "]")
    sink = io.BytesIO()
    Cut(trace, Wanted(stacks=False)).write(sink)
    assert b'"ts":1749686400123456.789,"dur":0.250' in sink.getvalue()
    assert b'{"big":12345678901234567890.10}' in sink.getvalue()


def test_an_annotation_marks_the_steps(tmp_path):
    events = [x("iteration", n * 100, 90, cat="user_annotation") for n in range(4)]
    events += [x(f"op{n}", n * 100 + 5, 5) for n in range(4)]
    trace = with_steps(trace_of(tmp_path, events), "iteration")
    _, document = cut_of(trace, tmp_path / "part.json", steps=(2, 3))
    assert [event["name"] for event in document] == ["iteration", "iteration", "op1", "op2"]


@pytest.mark.parametrize("asked", [(9, 9), (5, None), (None, 1)])
def test_steps_that_are_not_there(asked):
    with pytest.raises(UsageError, match="numbered 2, 3, 4"):
        Cut(load(str(EAGER)), Wanted(steps=asked))


# Containers and damage.


def test_lines_become_an_array(tmp_path):
    trace = trace_of(tmp_path, "\n".join(json.dumps(x(f"op{n}", n, 1)) for n in range(3)))
    assert [event["name"] for event in cut_of(trace, tmp_path / "part.json")[1]] == ["op0", "op1", "op2"]


def test_a_damaged_head_is_written_anew(tmp_path):
    text = f'{{"schemaVersion": 1, "INFO": [bad], "traceEvents": [{json.dumps(x("op", 0, 1))}], "traceName": "t"}}'
    _, document = cut_of(trace_of(tmp_path, text), tmp_path / "part.json")
    assert document == {"schemaVersion": 1, "traceName": "t", "traceEvents": [x("op", 0, 1)]}


def test_half_a_character_of_a_damaged_event_is_written_as_a_sign(tmp_path):
    damaged = json.dumps(x("op", 0, 1))[:-1] + r',"more":nan,"args":{"a":"\\ud83d\ude00"}}'
    trace = trace_of(tmp_path, f"[{damaged}]")
    sink = io.BytesIO()
    Cut(trace, Wanted()).write(sink)
    assert orjson.loads(sink.getvalue())[0]["args"] == {"a": "\\ud83d\ufffd"}


@pytest.mark.parametrize(
    ("field", "key", "left"),
    [
        ('"args":{"dtype":["Half",1e999]}', "args", {"dtype": ["Half", None]}),
        (f'"args":{{"dtype":["Half",{"9" * 5000}]}}', "args", {"dtype": ["Half", None]}),
        ('"id2":{"local":1e999}', "id2", {"local": None}),
        ('"scope":1e999', "scope", Anonymizer(b"salt").stand_in("1e999")),
    ],
    ids=["args", "digits", "id2", "scope"],
)
def test_numbers_out_of_range_where_names_are_hidden(field, key, left, tmp_path):
    trace = trace_of(tmp_path, f"[{json.dumps(x('mine', 0, 1))[:-1]},{field}}}]")
    sink = io.BytesIO()
    Cut(trace, Wanted(), Anonymizer(b"salt")).write(sink)
    assert [event[key] for event in json.loads(sink.getvalue())] == [left]


def with_layers(trace, path, **wanted):
    """The part with layers and phases as lanes, what was kept, and the slices that were added."""
    sink = io.BytesIO()
    kept = Cut(trace, Wanted(**wanted), with_layers=True).write(sink)
    path.write_bytes(sink.getvalue())
    events = orjson.loads(sink.getvalue())["traceEvents"]
    return kept, [each for each in events if str(each.get("tid")).startswith(("layers, ", "phases, "))]


@pytest.mark.skipif(not SHARED.exists(), reason="the given traces are not here")
def test_layers_are_a_lane_and_change_no_number(tmp_path):
    trace = loaded(SHARED / "d25_h100_hf_qwen15_24layers.json.gz")
    kept, added = with_layers(trace, tmp_path / "with.json")
    assert kept.added == len(added) and kept.events == trace.events
    names = [each["name"] for each in added if each["tid"] == "layers, GPU 0"]
    assert names == ["head", *(f"layer {number} of 24" for number in range(1, 25)), "tail"]
    again = load(str(tmp_path / "with.json"))
    for pane in (*COMPARED, "layers"):
        assert rows_of(again, pane, None, 0) == rows_of(trace, pane, None, 0)
    # A layer lasts until the next one begins, as the pane has it.
    ends = {each["name"]: each["ts"] + each["dur"] for each in added}
    starts = {each["name"]: each["ts"] for each in added}
    assert all(abs(ends[f"layer {n} of 24"] - starts[f"layer {n + 1} of 24"]) < 0.01 for n in range(1, 24))


def test_parts_of_a_step_are_lanes_by_thread_and_only_what_is_kept(tmp_path):
    trace = loaded(SAMPLES / "mlp_train_cpu.json.gz")
    _, every = with_layers(trace, tmp_path / "with.json")
    assert {each["name"] for each in every} >= {"forward", "backward"}
    number = int(steps(trace).number[1])
    _, some = with_layers(trace, tmp_path / "some.json", steps=(number, number))
    assert 0 < len(some) < len(every) and all(each in every for each in some)


@pytest.mark.skipif(not SHARED.exists(), reason="the given traces are not here")
def test_lanes_are_added_to_no_protobuf(tmp_path, capsys):
    path = SHARED / "pftrace"
    source = next(iter(sorted(path.glob("*.pftrace"))))
    assert main(["cut", str(source), "-o", str(tmp_path / "part.pftrace"), "--with-layers"]) == 2
    assert "--with-layers is for JSON traces" in capsys.readouterr().err
