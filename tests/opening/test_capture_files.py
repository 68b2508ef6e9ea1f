"""Files beside a trace, and the ways in."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.build import Event, annotation
from tests.support.captures import CapturedLaunch, captured, write_trace
from tests.support.graphs import replay
from tests.support.paths import SHARED
from tests.support.terminal.hostile import PAYLOADS, steered
from tracetui.cli.main import main
from tracetui.errors import NotATrace, NotFound, UsageError
from tracetui.linking.graph_nodes import capture_counts, graph_nodes
from tracetui.linking.steps import steps
from tracetui.model.trace import Kind, Trace
from tracetui.opening import capture_files
from tracetui.opening.capture_files import beside
from tracetui.opening.trace_opening import OpenOptions, open_trace
from tracetui.reading.load import load
from tracetui.tables.kernels import kernels

GRAPH = [CapturedLaunch("aten::mm", "gemm_kernel", "Linear_0"), CapturedLaunch("aten::add", "add_kernel")]
OTHER = [CapturedLaunch("aten::mul", "mul_kernel"), CapturedLaunch("aten::sub", "sub_kernel")]
REPLAYED = replay(10_000, 91, ["gemm_kernel", "add_kernel"])


def served(folder: Path, *more: Event, **fields: object) -> Path:
    return write_trace(folder / "rank0.json", [*REPLAYED, *more], **fields)


def recorded(path: Path, graph: list[CapturedLaunch] = GRAPH, name: str = "") -> Path:
    return write_trace(path, captured([graph], name=name))


def opened(path: Path, *captures: Path | str) -> Trace:
    return open_trace(str(path), OpenOptions(captures=tuple(map(str, captures))))


def ops(trace: Trace) -> list[str]:
    return [str(row["op"] or "") for row in kernels(trace).rows()]


@pytest.mark.parametrize(
    "name",
    ["graph_capture_rank_0.17.pt.trace.json", "bs_32_rank0.json", "bs_32_q_1_rank0.json", "anything.json"],
)
def test_a_file_of_this_rank_in_the_folder_beside_the_trace_is_used(tmp_path, name):
    path = served(tmp_path)
    recorded(tmp_path / "capture_traces" / name)
    trace = opened(path)
    assert ops(trace) == ["aten::mm", "aten::add"]
    assert capture_counts(trace).labels == (name,)
    assert ops(opened(path, "none")) == ["", ""]


@pytest.mark.parametrize(
    "name", ["graph_capture_rank_1.17.pt.trace.json", "bs_32_rank1.json", "notes.txt", "execution_details.json"]
)
def test_files_of_other_ranks_and_what_is_no_trace_are_left_alone(tmp_path, name):
    path = served(tmp_path)
    recorded(tmp_path / "capture_traces" / name)
    assert ops(opened(path)) == ["", ""]
    assert opened(path).quality.notes == []


def test_the_rank_is_that_of_the_metadata_before_that_of_the_name(tmp_path):
    path = served(tmp_path, distributedInfo={"rank": 1})
    recorded(tmp_path / "capture_traces" / "bs_32_rank1.json")
    assert ops(opened(path)) == ["aten::mm", "aten::add"]


def test_a_named_file_or_folder_is_read_wherever_it_is(tmp_path):
    path, file = served(tmp_path), recorded(tmp_path / "elsewhere" / "capture.json")
    assert ops(opened(path, file)) == ops(opened(path, file.parent)) == ["aten::mm", "aten::add"]
    assert ops(opened(path)) == ["", ""]


def test_a_named_file_that_does_not_fit_is_refused_with_a_sentence(tmp_path):
    path, file = served(tmp_path), recorded(tmp_path / "capture.json", OTHER)
    trace = opened(path, file)
    assert ops(trace) == ["", ""]
    assert trace.quality.notes == [
        "The operators of graph 1 (2 nodes) stay unknown: no graph of capture.json has 90 % of its names in order; the "
        "nearest shares 0 % of them."
    ]


def test_one_that_is_found_and_does_not_fit_says_nothing(tmp_path):
    path = served(tmp_path)
    recorded(tmp_path / "capture_traces" / "a_rank0.json", OTHER)
    recorded(tmp_path / "capture_traces" / "b_rank0.json")
    trace = opened(path)
    assert ops(trace) == ["aten::mm", "aten::add"]
    assert (capture_counts(trace).labels, trace.quality.notes) == (("b_rank0.json",), [])


def test_a_named_file_without_a_capture_or_that_is_none_is_an_error(tmp_path):
    path = served(tmp_path)
    with pytest.raises(UsageError, match="holds no capture of a graph"):
        opened(path, write_trace(tmp_path / "plain.json", REPLAYED))
    with pytest.raises(NotFound):
        opened(path, tmp_path / "absent.json")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="holds no trace of the capture"):
        opened(path, tmp_path / "empty")


def test_a_broken_file_in_the_folder_is_named_and_the_others_are_used(tmp_path):
    path = served(tmp_path)
    recorded(tmp_path / "capture_traces" / "b.json")
    (tmp_path / "capture_traces" / "a.json").write_text("not a trace")
    trace = opened(path)
    assert ops(trace) == ["aten::mm", "aten::add"]
    assert len(trace.quality.notes) == 1
    assert trace.quality.notes[0].startswith("capture_traces/a.json beside the trace cannot be used: ")


def test_what_is_no_capture_in_a_named_folder_is_passed_over_with_a_note(tmp_path):
    path, folder = served(tmp_path), tmp_path / "elsewhere"
    recorded(folder / "b.json")
    (folder / "a.json").write_text("not a trace")
    write_trace(folder / "c.json", REPLAYED)
    trace = opened(path, folder)
    assert ops(trace) == ["aten::mm", "aten::add"]
    assert [note.partition(" cannot be used as a capture: ")[0] for note in trace.quality.notes] == ["a.json", "c.json"]
    (folder / "b.json").unlink()
    with pytest.raises(UsageError, match="holds no trace of the capture"):
        opened(path, folder)


def test_a_trace_without_replays_needs_none(tmp_path):
    path = write_trace(tmp_path / "plain.json", captured([GRAPH]))
    recorded(tmp_path / "capture_traces" / "b.json")
    assert opened(path).quality.notes == []
    file = recorded(tmp_path / "capture.json")
    assert opened(path, file).quality.notes == ["capture.json was not read: no graph is replayed in this trace."]


def test_the_file_of_the_right_batch_size_is_read_first_and_no_more(tmp_path, monkeypatch):
    path = served(tmp_path, annotation("step[DECODE bs=30]", 9_000, 9_000))
    for batch in (8, 32, 64):
        recorded(tmp_path / "capture_traces" / f"bs_{batch}_rank0.json")
    read: list[str] = []

    def follow(name: str, *more: object) -> Trace:
        read.append(Path(name).name)
        return load(name)

    monkeypatch.setattr("tracetui.reading.load.load", follow)
    assert ops(opened(path)) == ["aten::mm", "aten::add"]
    assert read == [Path(path).name, "bs_32_rank0.json"]


def test_batch_sizes_stand_in_the_file_with_details_too(tmp_path, monkeypatch):
    path = served(tmp_path, annotation("step[DECODE bs=30]", 9_000, 9_000))
    details = []
    for name, batch in (("a.json", 8), ("b.json", 32)):
        recorded(tmp_path / "capture_traces" / name)
        details.append({"file": f"/somewhere/{name}", "batch_size": batch, "mode": "FULL"})
    (tmp_path / "capture_traces" / "execution_details.json").write_text(json.dumps(details))
    assert capture_counts(opened(path)).labels == ("b.json",)
    (tmp_path / "capture_traces" / "execution_details.json").write_text("[" * 100_000)
    assert capture_counts(opened(path)).labels == ("a.json",)


def test_no_more_files_are_read_than_allowed(tmp_path, monkeypatch):
    monkeypatch.setattr(capture_files, "MAX_FILES", 2)
    path = served(tmp_path)
    for name in "abc":
        recorded(tmp_path / "capture_traces" / f"{name}.json", GRAPH if name == "c" else OTHER)
    assert len(beside(opened(path, "none"))) == 3
    assert ops(opened(path)) == ["", ""]


def test_a_large_file_is_read_only_if_it_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(capture_files, "MAX_FILE_BYTES", 100)
    path = served(tmp_path)
    file = recorded(tmp_path / "capture_traces" / "all.json")
    trace = opened(path)
    assert ops(trace) == ["", ""]
    assert "it is larger than" in trace.quality.notes[0] and f"--capture {file}" in trace.quality.notes[0]
    assert ops(opened(path, file)) == ["aten::mm", "aten::add"]


def test_one_file_may_hold_the_captures_of_all_batch_sizes(tmp_path):
    path = served(tmp_path, annotation("step[DECODE bs=3]", 9_000, 9_000))
    events = [*captured([GRAPH], name="capture_8_FULL"), *captured([GRAPH[::-1]], 50_000, name="capture_4_FULL")]
    write_trace(tmp_path / "capture_traces" / "graph_capture_rank_0.json", events)
    trace = opened(path)
    assert ops(trace) == ["aten::mm", "aten::add"]
    assert graph_nodes(trace).recordings[0].batch.tolist() == [8, 4]


def test_the_commands_take_the_option(tmp_path, capsys):
    path, file = served(tmp_path), recorded(tmp_path / "elsewhere" / "capture.json")
    assert main(["show", "kernels", str(path), "--capture", str(file), "--by", "op", "--format", "csv"]) == 0
    assert "aten::mm" in capsys.readouterr().out


@pytest.mark.full
def test_a_decode_step_of_vllm_with_the_folder_of_its_server(tmp_path):
    folder = SHARED / "inference"
    if not folder.exists():
        pytest.skip("needs ../shared/traces, which is not there")
    path = tmp_path / "rank0.json.gz"
    shutil.copy(folder / "i01_mi300x_vllm_decode_full_graph.json.gz", path)
    (tmp_path / "capture_traces").mkdir()
    name = "graph_capture_rank_0.1773709742341309550.pt.trace.json.gz"
    shutil.copy(folder / "i01c_capture_bs32.json.gz", tmp_path / "capture_traces" / name)
    assert capture_counts(opened(path)).words == f"421 of 421 by {name}"


NODES = [7 << 32 | 4, 7 << 32 | 9]
NAMED = {
    str(NODES[0]): [{"name": "layers.0", "stream": 61}, {"name": "layers.0.attention.wq", "stream": 61}],
    str(NODES[1]): "layers.0.norm",
    "12": [{"stream": 1}],
}


def numbered(folder: Path, nodes: list[int], **fields: object) -> Path:
    """A trace whose replayed kernels have graph node ids."""
    events = [each for each in REPLAYED if each.kind != Kind.KERNEL]
    kernels_of = [each for each in REPLAYED if each.kind == Kind.KERNEL]
    given = [replace(each, args={"graph node id": node}) for each, node in zip(kernels_of, nodes, strict=True)]
    return write_trace(folder / "traces" / "step_1" / "000000.17.pt.trace.json", [*events, *given], **fields)


def modules(trace: Trace) -> list[str]:
    return [str(row["module"] or "") for row in kernels(trace).rows()]


@pytest.mark.parametrize("nodes", [NODES, [4, 9]])
def test_names_of_nodes_stand_in_a_file_one_folder_above_by_node_id(tmp_path, nodes):
    path = numbered(tmp_path, nodes)
    (tmp_path / "traces" / "kernel_annotations_rank0_fwd.json").write_text(json.dumps(NAMED))
    (tmp_path / "traces" / "kernel_annotations_rank1_fwd.json").write_text(json.dumps({str(NODES[0]): "other rank"}))
    trace = opened(path)
    assert modules(trace) == ["layers.0.attention.wq", "layers.0.norm"]
    assert ops(trace) == ["", ""]
    assert capture_counts(trace).words == "2 of 2 by kernel_annotations_rank0_fwd.json"
    assert modules(opened(path, "none")) == ["", ""]


def test_a_lower_half_that_several_graphs_share_names_nothing(tmp_path):
    both = {**NAMED, str(8 << 32 | 4): "layers.1.attention.wq"}
    path = numbered(tmp_path, [4, 9])
    (tmp_path / "traces" / "kernel_annotations_rank0_x.json").write_text(json.dumps(both))
    assert modules(opened(path)) == ["", "layers.0.norm"]


def test_a_module_of_the_capture_comes_before_a_name(tmp_path):
    path = numbered(tmp_path, NODES)
    names = tmp_path / "kernel_annotations_rank0_x.json"
    names.write_text(json.dumps(NAMED))
    file = recorded(tmp_path / "capture.json")
    trace = opened(path, names, file)
    assert modules(trace) == ["Linear_0", "layers.0.norm"]
    assert ops(trace) == ["aten::mm", "aten::add"]


@pytest.mark.parametrize(("head", "node", "name"), [(True, 5, "wq"), (True, 0, ""), (False, 5, "wq")])
def test_names_in_the_args_of_kernels_count_where_they_are_those_of_nodes(tmp_path, head, node, name):
    args = {"graph node id": node, "name": "wq"}
    events = [replace(each, args=args) if each.kind == Kind.KERNEL else each for each in REPLAYED]
    fields = {"cudaGraphInlineAnnotated": True} if head else {}
    trace = opened(write_trace(tmp_path / "trace.json", events, **fields))
    assert modules(trace) == [name] * 2
    assert capture_counts(trace).words == ("2 of 2 by names in this trace" if name else None)


def test_a_pickle_is_never_read_and_a_broken_file_is_named(tmp_path):
    path = numbered(tmp_path, NODES)
    (tmp_path / "traces" / "kernel_annotations_rank0_a.pkl").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    (tmp_path / "traces" / "kernel_annotations_rank0_b.json").write_text("[" * 100_000)
    (tmp_path / "traces" / "kernel_annotations_rank0_c.json").write_text(json.dumps(NAMED))
    trace = opened(path)
    assert modules(trace) == ["layers.0.attention.wq", "layers.0.norm"]
    assert [note.split(" ")[0] for note in trace.quality.notes] == [
        "kernel_annotations_rank0_a.pkl",
        "kernel_annotations_rank0_b.json",
    ]
    with pytest.raises(NotATrace, match="no JSON object"):
        opened(path, tmp_path / "traces" / "kernel_annotations_rank0_b.json")


@pytest.mark.parametrize(
    "name", ["capture_traces/a.json", "kernel_annotations_rank0_1.json", "capture_traces/execution_details.json"]
)
@pytest.mark.parametrize("kind", ["pipe", "device", "loop", "folder"])
@pytest.mark.full
def test_what_waits_or_never_ends_beside_a_trace_is_left_alone(tmp_path, name, kind):
    path = served(tmp_path)
    recorded(tmp_path / "capture_traces" / "b.json")
    place = tmp_path / name
    if kind == "pipe":
        os.mkfifo(place)
        # Somebody who has it open to write, and never does.
        held = os.open(place, os.O_RDWR)
    elif kind == "folder":
        place.mkdir()
    else:
        place.symlink_to("/dev/zero" if kind == "device" else place)
    try:
        trace = opened(path)
        assert ops(trace) == ["aten::mm", "aten::add"]
        assert trace.quality.notes == []
    finally:
        if kind == "pipe":
            os.close(held)


@pytest.mark.parametrize("size", ["1" + "0" * 30, "-5", "true", "1.5", '"3"', "null", "[[]]", "1e999", "9" * 5000])
@pytest.mark.full
def test_a_batch_size_that_is_none_says_nothing(tmp_path, size):
    path = served(tmp_path)
    recorded(tmp_path / "capture_traces" / "b.json")

    (tmp_path / "capture_traces" / "execution_details.json").write_text(f'[{{"file": "b.json", "batch_size": {size}}}]')
    trace = opened(path)
    assert ops(trace) == ["aten::mm", "aten::add"]
    assert trace.quality.notes == []


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 100_000, "null", "[1, [2, {}], null]", '{"b.json": {"file": {}}}', "\x00"]
)
def test_details_of_another_form_say_nothing(tmp_path, text):
    path = served(tmp_path)
    recorded(tmp_path / "capture_traces" / "b.json")
    (tmp_path / "capture_traces" / "execution_details.json").write_text(text)
    assert ops(opened(path)) == ["aten::mm", "aten::add"]


def test_names_of_files_beside_a_trace_cannot_steer_the_terminal(tmp_path, capsys):
    path = served(tmp_path)
    recorded(tmp_path / "capture_traces" / "b.json")
    for number, payload in enumerate(PAYLOADS.values()):
        name = "".join(payload.replace("/", "").split("\0"))[:40]
        with contextlib.suppress(OSError, UnicodeEncodeError):
            (tmp_path / "capture_traces" / f"a{number}{name}.json").write_text(payload[:30], errors="replace")
    assert main(["show", "kernels", str(path)]) == 0
    said = capsys.readouterr().err
    assert "cannot be used" in said and "OWNED" in said
    assert not steered(said.encode(), has_left=False)


BOTH = ["--steps-by", "train", "--device", "H100"]


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A trace without profiler steps, with four runs of `train` that launch a kernel each; the GPU is not described."""
    events: list[dict[str, object]] = []
    for number in range(4):
        at = 1000 * number
        place = {"ph": "X", "pid": 1, "tid": 1}
        shape = {"grid": [64, 1, 1], "block": [128, 1, 1], "registers per thread": 32, "shared memory": 0}
        args = {"correlation": number, "stream": 7, "device": 0, **shape}
        gpu = {"ph": "X", "pid": 0, "tid": 7, "args": args}
        events += [
            {**place, "cat": "user_annotation", "name": "train", "ts": at, "dur": 800 + number},
            {**place, "cat": "cpu_op", "name": "aten::mm", "ts": at + 10, "dur": 100},
            {**place, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at + 20, "dur": 10}
            | {"args": {"correlation": number}},
            {**gpu, "cat": "kernel", "name": "mine", "ts": at + 40, "dur": 50 + number},
        ]
    file = tmp_path / "t.json"
    file.write_text(json.dumps({"traceEvents": events}))
    return str(file)


def test_steps_and_device_are_in_the_trace_and_the_file_stays(path: str) -> None:
    trace = open_trace(path, OpenOptions("train", "H100"))
    assert steps(trace).number.tolist() == [1, 2, 3, 4]
    assert [device.name for device in trace.devices] == ["H100 SXM"]
    assert len(steps(load(path))) == 0 and not load(path).devices


@pytest.mark.parametrize("options", [OpenOptions("mm"), OpenOptions(device="Voodoo 2"), OpenOptions("train", "Voodoo")])
def test_what_a_trace_cannot_have_is_refused(path: str, options: OpenOptions) -> None:
    with pytest.raises(UsageError):
        open_trace(path, options)


def test_a_device_may_be_chosen_against_the_file(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = Path(path)
    whole = json.loads(file.read_text())
    file.write_text(json.dumps({"deviceProperties": [{"id": 0, "name": "NVIDIA \x1b[31mB200"}], **whole}))
    assert main(["show", "summary", path, "--device", "H100", "--format", "json"]) == 0
    out, err = capsys.readouterr()
    assert "H100 SXM (--device)" in out
    assert "--device: all GPUs are taken to be H100 SXM, though the file says NVIDIA" in err
    assert "\x1b" not in out + err
    assert main(["show", "summary", path, "--format", "json"]) == 0
    out, err = capsys.readouterr()
    assert "B200" in out and "--device" not in out + err


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main([*words, *BOTH]) == 0
    return capsys.readouterr().out


@pytest.mark.full
def test_every_command_that_opens_a_trace_takes_both(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = json.loads(printed(capsys, "show", "kernels", path, "--step", "3", "--format", "json"))["rows"]
    assert row["dur_us"] == 52 and row["occupancy_pct"] is not None
    assert "1 of 1 holds" in printed(capsys, "check", f"{path}#2", "dur_us == 801us")
    compared = json.loads(printed(capsys, "compare", path, "#1", "#4", "--format", "json"))
    assert (compared["a"]["numbers"], compared["b"]["numbers"]) == ([1], [4])
    for words in (["report", path, "--step", "3"], ["report", f"{path}#1", f"{path}#4"]):
        assert printed(capsys, *words, "-o", "-").startswith("<!doctype html>")


def test_a_part_is_cut_by_the_steps_that_were_chosen(path: str, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    assert main(["cut", path, "--steps", "2", "--steps-by", "train", "-o", str(out)]) == 0
    assert [event["dur"] for event in json.loads(out.read_text())["traceEvents"] if event["name"] == "train"] == [801]
