"""Rules about compiled code: what is compiled while the GPU waits, graph breaks, and guards."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.build import Event, annotation, kernel, launch, make_trace, op, python, step
from tests.support.findings import MS, ids, one
from tracetui.findings import finding_list
from tracetui.findings.scope import Severity
from tracetui.model.trace import Kind, Trace

RECOMPILED = "recompilation"
COMPILE = "_compile.compile_inner (dynamo_timed)"
LOOKUP = "TorchDynamo Cache Lookup"
REGION = "Torch-Compiled Region: {}/0"


def _step(number: int, busy: int, *inside: Event) -> list[Event]:
    """A step of 10 ms with a kernel at its start and one at its end, launched late; `busy` ns of the first."""
    begin = number * 10 * MS
    calls = [launch(begin + 1_000, 1_000, 2 * number + 1), launch(begin + 8 * MS, 1_000, 2 * number + 2)]
    first = kernel("a", begin + 5_000, busy, correlation=2 * number + 1)
    second = kernel("b", max(begin + 8 * MS + 5_000, begin + 5_000 + busy), MS, correlation=2 * number + 2)
    moved = [replace(each, start=begin + each.start) for each in inside]
    return [step(number, begin, 10 * MS), *calls, first, second, *moved]


@pytest.mark.parametrize(("busy", "waits"), [(MS, True), (7 * MS, False)])
def test_compilation_costs_what_the_gpu_waits_for_it(busy, waits):
    trace = make_trace(_step(0, busy, annotation(COMPILE, 2 * MS, 3 * MS)))
    assert ("recompilation" in ids(trace)) == waits
    if waits:
        finding = one(trace, "recompilation")
        assert finding.cost == 3 * MS
        assert finding.title == "Code is compiled while the GPU waits: 3.00 ms, 30 % of the steps"
        assert finding.action == "warm up before recording"


def test_compilation_before_the_first_kernel_counts():
    trace = make_trace(
        [annotation(COMPILE, 0, 6 * MS), launch(7 * MS, 1_000, 1), kernel("a", 8 * MS, MS, correlation=1)]
    )
    assert one(trace, "recompilation").cost == 6 * MS


@pytest.mark.parametrize(
    ("function", "compiles"), [("compile_fx_inner", True), ("fx_codegen_and_compile", True), ("wrapper", False)]
)
def test_frames_of_the_compiler_compile_and_wrappers_of_what_it_made_do_not(function, compiles):
    frame = python(f"torch/_inductor/compile_fx.py(790): {function}", 2 * MS, 3 * MS)
    assert ("recompilation" in ids(make_trace(_step(0, MS, frame)))) == compiles


def test_the_capture_of_graphs_is_called_so():
    calls = [launch(2 * MS, 900_000, 90, "cudaStreamBeginCapture"), launch(4 * MS, 900_000, 91, "cudaStreamEndCapture")]
    finding = one(make_trace(_step(0, MS, *calls)), "graph-capture")
    assert "recompilation" not in ids(make_trace(_step(0, MS, *calls)))
    assert finding.title == "A CUDA graph is captured while the GPU waits: 2.90 ms, 29 % of the steps"


def test_code_that_is_compiled_in_several_steps_fails_a_guard():
    compiling = annotation(COMPILE, 2 * MS, 3 * MS)
    again = make_trace([*_step(0, MS, compiling), *_step(1, MS, compiling), *_step(2, MS)])
    assert one(again, "recompilation").title.startswith("Code is compiled in 2 of 3 steps while the GPU waits: 6.00 ms")
    assert one(again, "recompilation").action == "find the guard that fails"
    once = make_trace([*_step(0, MS, compiling), *_step(1, MS), *_step(2, MS)])
    assert one(once, "recompilation").action == "warm up before recording"


@pytest.mark.parametrize(("version", "again"), [(1, True), (0, False)])
def test_a_second_version_of_a_frame_is_a_recompilation(version, again):
    name = f"entire_frame_compile_data: fn_name=_compile.compile_inner, compile_id=3/{version}"
    finding = one(
        make_trace(_step(0, MS, annotation(COMPILE, 2 * MS, 3 * MS), annotation(name, 3 * MS, 10))), RECOMPILED
    )
    assert ("; compiled again: frame 3, version 1" in finding.evidence) == again
    assert finding.action == ("find the guard that fails" if again else "warm up before recording")


def test_without_a_gpu_the_program_waits_for_all_of_the_compilation():
    finding = one(make_trace([step(0, 0, 10 * MS), annotation(COMPILE, MS, 4 * MS)]), "recompilation")
    assert (finding.cost, finding.severity) == (4 * MS, Severity.MAJOR)
    assert finding.title.startswith("Code is compiled: 4.00 ms, 40 % of the steps")


def _region(number: int, start: int, dur: int) -> list[Event]:
    return [annotation(REGION.format(number), start, dur), annotation(LOOKUP, start - 200_000, 200_000)]


def test_a_region_within_a_region_is_a_graph_break():
    outer, inner = _region(0, 2 * MS, 5 * MS), _region(1, 4 * MS, MS)
    finding = one(make_trace(_step(0, MS, *outer, *inner)), "graph-breaks")
    assert finding.title.startswith("Graph breaks interrupt compiled code 1 time a step: the GPU waits 400.0 µs, 4 %")
    assert finding.evidence.startswith("2 compiled regions, 2 guard checks; ")
    assert (finding.cost, finding.severity) == (None, Severity.MINOR), "launch overhead has the time"
    beside = _region(1, int(7.5 * MS), MS // 4)
    assert "graph-breaks" not in ids(make_trace(_step(0, MS, *outer, *beside)))
    assert "graph-breaks" not in ids(make_trace(_step(0, 7 * MS, *outer, *inner)))


def test_a_frame_that_resumes_compiled_code_names_the_break():
    frame = python("model.py(30): torch_dynamo_resume_in_forward_at_42", 4 * MS, MS)
    finding = one(make_trace(_step(0, MS, *_region(0, 2 * MS, MS), frame)), "graph-breaks")
    assert "most often model.py(30): torch_dynamo_resume_in_forward_at_42" in finding.evidence
    plain = python("model.py(30): forward", 4 * MS, MS)
    assert "graph-breaks" not in ids(make_trace(_step(0, MS, *_region(0, 2 * MS, MS), plain)))


def test_what_a_region_does_outside_of_its_graphs_is_part_of_the_break():
    graphs = [annotation("## Call CompiledFxGraph f ##", at, MS // 2) for at in (3 * MS, 5 * MS)]
    outer, inner = _region(0, 2 * MS, 5 * MS), _region(1, 5 * MS - 100_000, MS)
    finding = one(make_trace(_step(0, MS, *outer, *inner, *graphs)), "graph-breaks")
    # The outer region and the guards before it, without the graphs.
    assert "the GPU waits 4.20 ms" in finding.title


@pytest.mark.parametrize(("eager", "count", "breaks"), [(True, 12, True), (False, 12, False), (True, 8, False)])
def test_many_regions_with_eager_operators_between_are_broken_up(eager, count, breaks):
    inside: list[Event] = []
    for number in range(count):
        at = MS + (number + 1) * 500_000
        inside += [annotation(LOOKUP, at, 50_000), annotation(REGION.format(number), at + 50_000, 50_000)]
        inside += [launch(at + 300_000, 1_000, 100 + number)] if eager else []
    work = [kernel("c", 9 * MS + 10_000 + number, 1, correlation=100 + number) for number in range(count * eager)]
    said = ids(make_trace([*_step(0, MS // 2, *inside), *work]))
    assert ("graph-breaks" in said) == breaks
    assert ("compile-preamble" in said) == (not breaks)


def test_guards_cost_what_the_gpu_waits_and_a_stalled_thread_is_no_guard():
    guards = [annotation(LOOKUP, 2 * MS + 300_000 * number, 100_000) for number in range(5)]
    finding = one(make_trace(_step(0, MS, *guards)), "compile-preamble")
    assert finding.title.endswith("check their guards: 500.0 µs, 5 % of the steps")
    assert finding.severity == Severity.MINOR
    assert "compile-preamble" not in ids(make_trace(_step(0, 7 * MS, *guards)))
    short = [annotation(LOOKUP, 2 * MS + 300_000 * number, 1_000) for number in range(5)]
    assert "compile-preamble" not in ids(make_trace(_step(0, MS, *short, annotation(LOOKUP, 4 * MS, 2 * MS))))


def test_eager_code_has_neither():
    trace = make_trace(_step(0, MS, op("aten::mm", 2 * MS, 4 * MS)))
    assert not {"graph-breaks", "compile-preamble", "recompilation"} & set(ids(trace))


def _captured(begin: bool = True, end: bool = True) -> Trace:
    """Launches of which nothing runs, between two kernels and within the capture of a graph."""
    calls = [launch(20_000 + number * 90_000, 5_000, 10 + number) for number in range(30)]
    edges = [Event("cudaStreamBeginCapture", 15_000, 2_000, Kind.RUNTIME)] if begin else []
    edges += [Event("cudaStreamEndCapture", 2_800_000, 2_000, Kind.RUNTIME)] if end else []
    runs = [launch(1_000, 2_000, 1), kernel("a", 5_000, 5_000, correlation=1)]
    runs += [launch(2_805_000, 2_000, 2), kernel("b", 2_811_000, 100_000, correlation=2)]
    return make_trace([*runs, *edges, *calls])


@pytest.mark.parametrize(("begin", "end"), [(True, True), (False, True), (True, False)])
def test_launches_that_a_graph_captures_are_not_lost_and_cost_no_launch_overhead(begin, end):
    trace = _captured(begin, end)
    assert {"untrusted", "launch-overhead"}.isdisjoint(ids(trace))
    finding = one(trace, "graph-capture")
    assert finding.title.startswith("The recording is of the capture of a CUDA graph")
    assert finding.evidence.startswith("1 capture of 30 launches" if begin and end else "1 capture of ")
    assert "the GPU waited for it 2." in finding.evidence


def test_the_recording_of_a_capture_is_named_by_its_annotation_and_frames_slow_it_down():
    """Most launches are captured; the GPU ran two kernels one behind the other and waited for nothing."""
    edges = [Event("hipStreamBeginCapture", 100_000, 2_000, Kind.RUNTIME)]
    edges += [Event("hipStreamEndCapture", 9 * MS, 2_000, Kind.RUNTIME)]
    inside = [launch(200_000 + number * 90_000, 5_000, 10 + number, "hipLaunchKernel") for number in range(30)]
    runs = [launch(10_000 + 10 * n, 5, 1 + n, "hipLaunchKernel") for n in range(2)]
    work = [kernel("fill", 20_000 + 5_000 * n, 5_000, correlation=1 + n) for n in range(2)]
    note = [annotation("capture_32_DECODE", 0, 10 * MS), step(1, 0, 10 * MS)]
    frames = [python("server.py(3): capture", 1 + n, 9 * MS - 2 * n) for n in range(30)]
    trace = make_trace([*note, *edges, *inside, *runs, *work, *frames])
    assert one(trace, "graph-capture").title == (
        "The recording is of the capture of a CUDA graph in capture_32_DECODE: nothing about the load of the GPU "
        "follows from it"
    )
    assert "stack-recording" in ids(trace)
    replayed = [launch(9_100_000, 5, 90, "hipGraphLaunch")]
    replayed += [kernel("node", 9_110_000 + 1_000 * n, 1_000, correlation=90) for n in range(40)]
    with_replays = make_trace([*note, *edges, *inside, *runs, *work, *replayed])
    assert not any(each.title.startswith("The recording is of") for each in finding_list(with_replays))


def test_launches_outside_of_a_capture_have_lost_their_kernels():
    assert "untrusted" in ids(_captured(begin=False, end=False))
