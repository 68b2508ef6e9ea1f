"""The pipe between child and parent, the files a child writes, and what a request may hold; no child."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import threading
import warnings
from typing import get_args

import pytest
from tracetui_workloads.api import BadRequest
from tracetui_workloads.recording import child, protocol, trace_file
from tracetui_workloads.recording.child import MAX_NOTES, Reporter
from tracetui_workloads.recording.exceptions import Cancel, RecordingError
from tracetui_workloads.recording.protocol import (
    DeviceChosen,
    Event,
    Failed,
    Failure,
    Heartbeat,
    LogLine,
    Note,
    Options,
    Progress,
    Request,
    Result,
    Stage,
    as_line,
    file_name,
    from_line,
    tag,
)

from tests.support.paths import ROOT
from tests.support.waiting import POLL_SECONDS, PROCESS_SECONDS

SAID: list[Event] = [
    protocol.Hello(42, "3.11.7"),
    DeviceChosen("cuda:0", "GPU", "2.13.0", ["CPU", "CUDA"], 8),
    Stage("recording", 5),
    protocol.StageDone("recording", 0.5),
    Progress("recording", 1, 5),
    Note("warning", "odd\nwords \x1b[31m"),
    Heartbeat("compiling", 12.0),
    Result("x.json", 12, {"workload": "mlp"}),
    Failed(Failure("oom", "too much", "less", "details", "building")),
]


def pipe_of(reporter_says):
    """What comes out of a pipe when a reporter speaks into it."""
    ours, theirs = os.pipe()
    collected = []
    with os.fdopen(ours, "rb") as file:
        reader = threading.Thread(target=lambda: collected.append(file.read()))
        reader.start()
        reporter_says(Reporter(theirs))
        os.close(theirs)
        reader.join()
    return collected[0].splitlines()


@pytest.mark.parametrize("event", SAID)
def test_what_is_said_is_what_is_heard(event):
    line = as_line(event)
    assert line.count(b"\n") == 1
    assert from_line(line) == event


def test_every_event_of_the_child_is_tried():
    assert {type(event) for event in SAID} | {LogLine} == set(get_args(Event))


@pytest.mark.parametrize(
    "line",
    [b"", b"\n", b"not json", b"[1]", b"3", b"null", b'{"ev": "nonsense"}', b'{"ev": "stage"}', b'{"ev": "error"}']
    + [b'{"ev": "stage", "name": "x", "odd": 1}', b'{"ev": "error", "failure": 3}', b'{"ev": []}', b'\xff{"ev": 1}'],
)
def test_a_line_that_is_no_event_is_passed_over(line):
    assert from_line(line) is None


def test_an_event_larger_than_the_pipe_arrives_whole():
    failure = Failed(Failure("error", "x", details="y" * 300_000))
    lines = pipe_of(lambda reporter: reporter.send(failure))
    assert [from_line(line) for line in lines] == [failure]


def test_a_line_that_a_signal_cut_short_spoils_no_other():
    def say(reporter):
        reporter._is_line_unfinished = True
        reporter.send(Stage("building"))

    assert [from_line(line) for line in pipe_of(say)] == [None, Stage("building")]


def test_notes_are_flat_and_few():
    def say(reporter):
        for _ in range(100):
            reporter.note("two\nlines \x1b[31mred\x1b[0m" + "." * 1000)

    lines = pipe_of(say)
    assert len(lines) == MAX_NOTES
    note = from_line(lines[0])
    assert isinstance(note, Note)
    assert note.text.startswith("two lines red..")
    assert len(note.text) == 500


def test_python_warnings_are_notes():
    def say(reporter):
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            reporter.collect_warnings()
            warnings.warn("odd", stacklevel=1)

    assert from_line(pipe_of(say)[0]) == Note("warning", "odd")


def test_progress_is_reported_sparingly():
    def say(reporter):
        with reporter.during("recording", 10_000):
            for number in range(10_000):
                reporter.progress(number, 10_000)

    heard = [from_line(line) for line in pipe_of(say)]
    assert len(heard) < 10
    assert heard[0] == Stage("recording", 10_000)


def test_the_heart_beats_except_while_it_would_be_recorded(monkeypatch):
    monkeypatch.setattr(child, "HEARTBEAT_INTERVAL_S", 0.01)

    beaten = threading.Event()

    def say(reporter):
        tell = reporter.send

        def noted(event):
            tell(event)
            if isinstance(event, Heartbeat):
                beaten.set()

        reporter.send = noted
        with reporter.during("compiling"):
            reporter.start_heartbeat()
            assert beaten.wait(POLL_SECONDS)
            with reporter.without_heartbeat():
                assert not [thread for thread in threading.enumerate() if thread.name == "heartbeat"]
        with reporter.without_heartbeat():
            reporter.start_heartbeat = lambda: None

    heard = [from_line(line) for line in pipe_of(say)]
    beats = [event for event in heard if isinstance(event, Heartbeat)]
    assert beats
    assert {beat.stage for beat in beats} == {"compiling"}


def test_a_cancel_that_was_swallowed_is_raised_again_at_the_next_stage():
    def say(reporter):
        with pytest.raises(Cancel):
            reporter.interrupts._handle(signal.SIGINT, None)
        with pytest.raises(Cancel), reporter.during("building"):
            pytest.fail("the stage began")

    assert pipe_of(say) == []


def test_a_request_survives_the_way_to_the_child():
    request = Request("a.py:fn", "x/ü.json", {"n": 3, "name": "é"}, Options(cold=True, seed=3), ("tracetui", "run"))
    assert Request.from_json(request.as_json()) == request


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "nope", "compile": True},
        {"backend": "nope", "compile": True},
        {"mode": "max-autotune"},
        {"backend": "aot_eager"},
        {"mode": "max-autotune", "backend": "aot_eager", "compile": True},
        {"shapes": "maybe"},
        {"dtype": "int8"},
        {"active": 0},
        {"wait": -1},
        {"warmup": -1},
        {"cold": True, "warm_seconds": 0.5},
    ],
)
def test_options_that_contradict_each_other_are_refused(options):
    with pytest.raises(BadRequest):
        Options(**options)


@pytest.mark.parametrize(
    ("params", "options", "dtype", "name"),
    [
        ({"size": 64, "batch": 0}, {"cold": True}, "bf16", "64_bf16_cold_eager"),
        ({"size": 4096, "batch": 8}, {"compile": True}, "bf16", "4096_8_bf16_warm_compile"),
        ({}, {"compile": True, "mode": "reduce-overhead"}, "", "warm_compile-reduce-overhead"),
        ({"impl": "sdpa", "backend": "auto"}, {"compile": True, "backend": "eager"}, "", "sdpa_warm_compile-eager"),
        ({"path": "../../etc"}, {}, "", "etc_warm_eager"),
    ],
)
def test_the_name_of_a_recording(params, options, dtype, name):
    assert tag(params, Options(**options), dtype) == name


def test_a_file_name_stays_in_its_folder():
    assert file_name("../a b/c:d") == "a_b_c_d"


TRACE = (
    b' {"traceEvents": [{"cat": "kernel", "name": "ProfilerStep#2"}, {"cat":"gpu_memcpy", "name": "ProfilerStep#2"}, \
{"cat": "cpu_op", "name": "Torch-Compiled Region: 0/0"}, {"name": "ProfilerStep#3"}],"traceName": "%s"}'
)


def written(path, content=TRACE):
    """A profiler's file under a name."""
    path.write_bytes(content % bytes(path) if b"%s" in content else content)
    return path


def test_what_a_file_holds(tmp_path):
    contents = trace_file.read_contents(written(tmp_path / "raw"))
    assert (contents.steps, contents.gpu_activities, contents.compiled_regions) == (2, 2, 1)


@pytest.mark.parametrize("content", [TRACE[:-1], TRACE[:40], b"[]", b"x"])
def test_a_file_that_is_cut_off(tmp_path, content):
    with pytest.raises(RecordingError, match="MB are free") as raised:
        trace_file.read_contents(written(tmp_path / "raw", content))
    assert raised.value.kind == "incomplete"


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(RecordingError, match="folder does not exist") as raised:
        trace_file.read_contents(tmp_path / "gone" / "raw")
    (tmp_path / "raw").touch()
    assert raised.value.kind == "destination"
    with pytest.raises(RecordingError):
        trace_file.read_contents(tmp_path / "raw")


@pytest.mark.parametrize("name", ["x.json", "x.json.gz"])
@pytest.mark.parametrize("padding", [0, 100_000])
def test_a_file_keeps_its_content_and_gets_its_name(tmp_path, name, padding):
    out = tmp_path / name
    raw, part = trace_file.part_paths(out, "42")
    written(raw, b" " * padding + TRACE)
    trace_file.pack(raw, part, out)
    data = part.read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == [f"{name}.42.part"]
    content = json.loads(gzip.decompress(data) if name.endswith(".gz") else data)
    assert content["traceName"] == name
    assert len(content["traceEvents"]) == 4


def test_only_the_childs_own_parts_are_removed(tmp_path):
    out = tmp_path / "x[1].json.gz"
    others = [out, *trace_file.part_paths(out, "43"), tmp_path / "x1.json.gz.42.part"]
    for path in [*others, *trace_file.part_paths(out, "42"), tmp_path / "x[1].json.gz.42.table.part"]:
        path.touch()
    trace_file.remove_parts(out, "42")
    assert set(tmp_path.iterdir()) == set(others)


def test_neither_the_registry_nor_the_launcher_loads_torch():
    script = "import sys, tracetui_workloads.registry, tracetui_workloads.recording.launcher\n"
    script += "assert len(tracetui_workloads.registry.entries()) > 5\n"
    script += "print(sorted({'torch', 'triton', 'numpy', 'tracetui', 'rich'} & {m.split('.')[0] for m in sys.modules}))"
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=PROCESS_SECONDS, check=True
    )
    assert result.stdout == "[]\n"
