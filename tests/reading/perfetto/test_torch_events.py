"""What torch's encoder writes: slices, waits, overhead, what ran on GPUs, links, arguments, and files cut off."""

from __future__ import annotations

import gzip
import io
import sys
import zipfile

import numpy as np
import pytest
import zstandard

from tests.support.perfetto import writer as w
from tests.support.perfetto.torch_encoder import BASE, PID, TID, Slice, Stage, torch_file
from tracetui.cli.main import main
from tracetui.errors import NoEvents
from tracetui.linking.links import links
from tracetui.model.table import NULL
from tracetui.model.trace import GRAPH_NODES, Kind, LaneKind, Trace
from tracetui.panes import PANES
from tracetui.reading.load import load
from tracetui.reading.perfetto.packets import PacketReader
from tracetui.reading.source import open_source
from tracetui.ui.opening.trace_files import candidates, traces_among

LAUNCH = Slice("cudaLaunchKernel", 120, 140, "cuda_runtime", {"cbid": 211, "correlation": 9}, submits=(1,))
KERNEL = Stage("Kernel", 200, 50, "gemm", id=1, extra={"correlation": "9", "stream id": "7"}, grid=(8, 2, 1))
OPS = [
    Slice("outer", 100, 400, args={"Input Dims": [[4, 8], [], []], "Input type": ["float", "Scalar", ""]}),
    Slice("inner", 110, 150, args={"External id": 5, "Sequence number": 3, "Fwd thread id": 0}),
]
WHOLE = torch_file([OPS, [LAUNCH]], [KERNEL])


@pytest.fixture
def opened(tmp_path):
    """Opens bytes as a trace."""

    def open_bytes(data: bytes, name: str = "trace.pftrace") -> Trace:
        path = tmp_path / name
        path.write_bytes(data)
        return load(str(path))

    return open_bytes


def row_of(trace: Trace, name: str) -> int:
    """The only slice of a name."""
    (row,) = np.flatnonzero(trace.slices.name == trace.names.find(name)).tolist()
    return row


def test_slices_of_a_thread_nest_and_own_what_they_launched(opened) -> None:
    trace = opened(WHOLE)
    outer, inner, call, kernel = (row_of(trace, name) for name in ("outer", "inner", "cudaLaunchKernel", "gemm"))
    assert trace.slices.parent[[inner, call]].tolist() == [outer, inner]
    assert trace.slices.start[[outer, kernel]].tolist() == [0, 100]
    assert trace.slices.dur[[outer, inner, call, kernel]].tolist() == [300, 40, 20, 50]
    assert links(trace).launch[kernel] == call and int(links(trace).owner[kernel]) == inner
    lane, stream = (trace.lanes[int(trace.slices.lane[row])] for row in (outer, kernel))
    assert (lane.pid, lane.tid, lane.process) == (str(PID), str(TID), f"python {PID}")
    assert (stream.pid, stream.tid, stream.kind, stream.name) == ("0", "7", LaneKind.GPU, "stream 7")
    assert trace.origin_ns == BASE + 100 and trace.origin_us == 0.1
    assert trace.format == "PyTorch profiler, Perfetto"


@pytest.mark.parametrize(
    ("packed", "name"),
    [
        (WHOLE, "trace.json"),
        (gzip.compress(WHOLE), "trace"),
        (gzip.compress(WHOLE), "trace.pftrace"),
        (WHOLE, "trace.pftrace.gz"),
        (zstandard.ZstdCompressor().compress(WHOLE), "trace.pftrace.zst"),
    ],
    ids=["plain as json", "gzip without a suffix", "gzip as plain", "plain as gzip", "zstd"],
)
def test_the_format_is_known_by_the_content(opened, packed: bytes, name: str) -> None:
    trace = opened(packed, name)
    assert PANES["kernels"].build(trace)["name"].cell(0) == "gemm"
    assert trace.event_of(row_of(trace, "inner"))["args"]["External id"] == 5


def test_a_pipe_is_read_like_a_file(monkeypatch, tmp_path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(gzip.compress(WHOLE))
    with open(path, "rb") as file:
        monkeypatch.setattr(sys, "stdin", file)
        trace = load("-")
    assert trace.event_of(row_of(trace, "gemm"))["args"]["grid"] == [8, 2, 1]


@pytest.mark.parametrize("submits", [(1,), ()])
def test_a_kernel_without_a_correlation_belongs_to_the_call_that_submitted_it(opened, submits: tuple[int, ...]) -> None:
    call = Slice("cudaLaunchKernel", 120, 140, "cuda_runtime", {"cbid": 211, "correlation": 9}, submits=submits)
    trace = opened(torch_file([OPS, [call]], [Stage("Kernel", 200, 50, "gemm", id=1)]))
    assert links(trace).launch[row_of(trace, "gemm")] == (row_of(trace, call.name) if submits else -1)


def test_a_call_without_a_correlation_has_its_own_kernels(opened) -> None:
    calls = [Slice("cudaLaunchKernel", at, at + 5, "cuda_runtime", submits=(at,)) for at in (120, 130)]
    trace = opened(torch_file([OPS, calls], [Stage("Kernel", at + 100, 5, f"k{at}", id=at) for at in (120, 130)]))
    launches = [int(links(trace).launch[row_of(trace, f"k{at}")]) for at in (120, 130)]
    assert trace.slices.start[launches].tolist() == [20, 30]


def test_waits_stand_on_the_lane_of_their_stream(opened) -> None:
    wait = {"cuda_sync_kind": "Stream Sync", "stream": 7, "device": 1, "correlation": 4, "context": 1}
    trace = opened(torch_file([OPS, [Slice("Stream Sync", 200, 300, "", wait)]]))
    row = row_of(trace, "Stream Sync")
    lane = trace.lanes[int(trace.slices.lane[row])]
    assert trace.slices.kind[row] == Kind.SYNC and trace.slices.correlation[row] == 4
    assert (lane.pid, lane.tid, lane.kind) == ("1", "7", LaneKind.SYNC)


def test_overhead_stands_on_a_lane_of_its_own(opened) -> None:
    trace = opened(torch_file([OPS, [Slice("Activity Buffer Request", 50, 60, "", track=5)]]))
    row = row_of(trace, "Activity Buffer Request")
    lane = trace.lanes[int(trace.slices.lane[row])]
    assert trace.slices.kind[row] == Kind.OVERHEAD and (lane.pid, lane.kind) == ("-1", LaneKind.OVERHEAD)


def test_a_call_whose_thread_is_cut_to_32_bits_stands_on_that_thread(opened) -> None:
    long = 0x7F00_1234_5678
    tracks = w.packet(w.thread(8, PID, long, "pthread", parent=1)) + w.packet(
        w.thread(9, PID, long & 0xFFFFFFFF, parent=1)
    )
    ops = [Slice("op", 100, 400, track=8)]
    call = Slice("cudaLaunchKernel", 120, 140, "cuda_runtime", {"correlation": 9}, track=9)
    trace = opened(tracks + torch_file([ops, [call]], [KERNEL]))
    assert links(trace).owner[row_of(trace, "gemm")] == row_of(trace, "op")
    assert [lane.tid for lane in trace.lanes if lane.kind == LaneKind.CPU] == [str(long)]


def test_threads_whose_lower_bits_differ_stay_apart(opened) -> None:
    tracks = w.packet(w.thread(8, PID, 0x7F00_1234_5678)) + w.packet(w.thread(9, PID, 0x1234_5679))
    trace = opened(tracks + torch_file([[Slice("a", 100, 400, track=8)], [Slice("b", 120, 140, track=9)]]))
    assert len([lane for lane in trace.lanes if lane.kind == LaneKind.CPU]) == 2


def test_only_the_encoder_of_torch_has_its_losses(opened) -> None:
    assert opened(WHOLE).quality.format_losses
    events = [
        w.packet(w.event(kind, 2, w.data(22, "cpu_op"), name="op"), time=BASE + time, sequence=1, flags=w.NEEDS_STATE)
        for kind, time in ((w.BEGIN, 100), (w.END, 200))
    ]
    head = w.packet(w.snapshot({6: BASE, 1: BASE}), time=BASE, sequence=1, flags=w.CLEARED)
    trace = opened(head + w.packet(w.thread(2, PID, TID)) + b"".join(events))
    assert trace.is_torch and not trace.quality.format_losses


def test_a_trace_in_a_zip_is_found_by_its_name(opened) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("README", "notes")
        archive.writestr("rank0.pftrace", WHOLE)
    assert row_of(opened(packed.getvalue(), "trace.zip"), "gemm") >= 0


def test_annotations_and_nodes_of_graphs_are_no_gpu_activity(opened) -> None:
    stages = [
        KERNEL,
        Stage("Annotation", 199, 52, "outer"),
        Stage("EventRecord", 260, 0, id=2, waits=(1,)),
        Stage("HostNode", 270, 20, id=3, waits=(2,), extra={"host fn": "log_step"}),
    ]
    trace = opened(torch_file([OPS, [LAUNCH]], stages))
    assert len(links(trace).gpu) == 1 and PANES["kernels"].build(trace)["name"].cell(0) == "gemm"
    nodes = trace.slices.of_kind(*GRAPH_NODES)
    assert [trace.name_of(row) for row in nodes.tolist()] == ["EventRecord", "HostNode: log_step"]
    kinds = {trace.lanes[lane].kind for lane in trace.slices.lane[nodes].tolist()}
    assert kinds == {LaneKind.GPU}
    starts, ends = (trace.flows.time[trace.flows.phase == phase].tolist() for phase in (0, 2))
    assert (starts, ends) == ([150, 160], [160, 170])


def test_events_of_a_track_that_nothing_describes_break_no_pane(opened) -> None:
    call = Slice("cudaLaunchKernel", 120, 140, "cuda_runtime", {"correlation": 9}, track=77)
    trace = opened(torch_file([[Slice("op", 100, 400, track=77)], [call]], [KERNEL]))
    assert trace.lanes[int(trace.slices.lane[row_of(trace, "op")])].kind == LaneKind.ASYNC
    tables = {name: pane.build(trace) for name, pane in PANES.items()}
    assert tables["kernels"]["name"].cell(0) == "gemm" and len(tables["launches"]) == 1


def test_lanes_of_two_gpus_may_share_a_number(opened) -> None:
    stages = [Stage("Kernel", 200, 5, f"k{gpu}", gpu=gpu) for gpu in (0, 1)]
    trace = opened(torch_file([OPS], stages))
    lanes = [trace.lanes[int(trace.slices.lane[row_of(trace, f"k{gpu}")])] for gpu in (0, 1)]
    assert [(lane.pid, lane.tid) for lane in lanes] == [("0", "7"), ("1", "7")]


def test_a_lane_has_the_name_that_it_was_given(opened) -> None:
    trace = opened(torch_file([OPS], [Stage("Kernel", 200, 5, "k", lane="[1001] DP")]))
    lane = trace.lanes[int(trace.slices.lane[row_of(trace, "k")])]
    assert (lane.tid, lane.name) == ("1001", "DP")


def test_arguments_of_kernels_and_operators_are_columns(opened) -> None:
    bare = Stage("Kernel", 300, 5, "bare")
    copy = Stage("Memcpy", 320, 5, extra={"bytes": "1024"})
    kernel = Stage("Kernel", 200, 50, "gemm", grid=(8, 2, 1), figures={"registers_per_thread": 40})
    full = Stage("Kernel", 260, 9, "full", grid=(8, 2, 1), figures={"shared_mem_dynamic": 2048})
    trace = opened(torch_file([OPS], [kernel, full, bare, copy]))
    event = trace.slices.event[[row_of(trace, name) for name in ("gemm", "full", "bare", "Memcpy")]]
    given = trace.work_args
    assert given.number("registers per thread", event).tolist() == [40, NULL, NULL, NULL]
    # What is 0 is left out of a launch; without a launch nothing is known.
    assert given.number("shared memory", event).tolist() == [0, 2048, NULL, NULL]
    assert given.number("bytes", event).tolist() == [NULL, NULL, NULL, 1024]
    grids = [given.strings[number] if number >= 0 else None for number in given.text("grid", event).tolist()]
    assert grids == ["[8, 2, 1]", "[8, 2, 1]", None, None]
    rows = [row_of(trace, name) for name in ("outer", "inner")]
    assert trace.op_args.number("Sequence number", trace.slices.event[rows]).tolist() == [NULL, 3]
    (shapes, _) = trace.op_args.text("Input Dims", trace.slices.event[rows]).tolist()
    assert trace.op_args.strings[shapes] == "[[4, 8], [], []]"


def test_nested_arguments_are_read_from_the_file_again(opened) -> None:
    args = {"Input Dims": [[4, 8], [], [[2]]], "flag": True, "ratio": 0.5, "map": {"a": [1, -2]}, "text": "é"}
    trace = opened(torch_file([[Slice("op", 100, 200, args=args)]]))
    row = row_of(trace, "op")
    assert trace.event_of(row)["args"] == args
    assert trace.args_of(np.array([row, row]), ["flag", "absent"]) == [[True, True], [None, None]]


@pytest.mark.parametrize("block", [64, 1000, 1 << 20])
def test_blocks_of_any_size_hold_the_same_packets(tmp_path, block: int) -> None:
    path = tmp_path / "trace"
    path.write_bytes(WHOLE)
    source = open_source(str(path))
    blocks = list(PacketReader(source, block=block))
    source.close()
    assert b"".join(each.data.text(0, each.frames.behind) for each in blocks) == WHOLE
    assert sum(len(each.frames.start) for each in blocks) == 13


@pytest.mark.full
def test_what_stands_before_a_tear_is_read(opened, capsys) -> None:
    for cut in range(len(WHOLE) - 1, len(WHOLE) // 3, -7):
        try:
            trace = opened(WHOLE[:cut])
        except NoEvents as error:
            assert "cut off" in str(error) or "no event" in str(error)
            continue
        whole = [end for end in packet_ends(WHOLE) if end <= cut]
        assert trace.events == len(whole)
        assert (trace.quality.truncated_at is None) == (cut in whole)
    path = str(opened(WHOLE[:-1]).path)
    assert main(["show", "summary", path]) == 1
    assert f"The file is cut off at byte {len(WHOLE) - 1:,}" in capsys.readouterr().err


def packet_ends(data: bytes) -> list[int]:
    """Where the packets of a file end."""
    ends, at = [], 0
    while at < len(data):
        length = shift = 0
        at += 1
        while True:
            byte = data[at]
            at += 1
            length |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        at += length
        ends.append(at)
    return ends


def test_begins_without_ends_are_unfinished_slices(opened) -> None:
    events = [Slice(f"op{number}", 100 + number, 200 + number) for number in range(4)]
    data = torch_file([events])
    cut = packet_ends(data)[-3]
    trace = opened(data[:cut])
    assert trace.quality.unfinished == 2 and len(trace.slices) == 4
    assert [int(trace.slices.dur[row_of(trace, f"op{number}")]) for number in range(4)] == [100, 100, 0, 0]


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress], ids=["gzip", "zstd"])
@pytest.mark.full
def test_a_packed_file_that_is_cut_off_is_read_as_far_as_it_goes(tmp_path, capsys, pack) -> None:
    many = torch_file([[Slice(f"op{number}", 100 + number, 200 + 2 * number) for number in range(5000)]])
    path = tmp_path / "trace.pftrace"
    path.write_bytes(pack(many)[:-2000])
    trace = load(str(path))
    assert trace.quality.damage and len(trace.slices) == 5000 and trace.quality.unfinished
    assert main(["show", "summary", str(path)]) == 1
    assert "The file is cut off: the" in capsys.readouterr().err


def test_a_damaged_packet_is_left_out_and_counted(opened) -> None:
    broken = w.packet(w.data(53, w.tag(2, 0) + b"\xff" * 12), time=BASE, sequence=1)
    trace = opened(WHOLE + broken + torch_file([[Slice("later", 900, 950)]]))
    assert trace.quality.dropped == 1 and trace.quality.unreadable == 1
    assert row_of(trace, "later") >= 0


def test_two_files_in_one_are_one_trace(opened) -> None:
    other = torch_file([[Slice("later", 900, 950)]], [Stage("Kernel", 960, 5, "other", id=1)])
    trace = opened(WHOLE + other)
    names = {trace.names[number] for number in trace.slices.name.tolist()}
    assert names == {"outer", "inner", "cudaLaunchKernel", "gemm", "later", "other"}


def test_counters_of_a_gpu_have_their_names(opened) -> None:
    specs = [
        w.message(1, w.number(1, number), w.data(2, name)) for number, name in ((0, "Power (W)"), (1, "SM Active (%)"))
    ]
    described = w.message(47, w.number(1, 1), w.number(3, 2), w.message(2, *specs))
    samples = [
        w.packet(
            w.message(
                52,
                w.number(4, 1),
                w.message(2, w.number(1, 0), w.number(2, 300 + at)),
                w.message(2, w.number(1, 1), w.double(3, at / 2)),
            ),
            time=BASE + at,
            sequence=1,
            flags=w.NEEDS_STATE,
        )
        for at in (100, 200)
    ]
    trace = opened(WHOLE + w.packet(w.interned(described), sequence=1) + b"".join(samples))
    found = {(each.name, each.gpu, each.unit): (each.time.tolist(), each.value.tolist()) for each in trace.counters}
    assert found == {
        ("Power (W)", 2, "W"): ([0, 100], [400.0, 500.0]),
        ("SM Active (%)", 2, "%"): ([0, 100], [50.0, 100.0]),
    }


def test_progress_is_told(tmp_path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(WHOLE)
    stages = io.StringIO()
    load(str(path), lambda progress: print(progress.stage, file=stages))
    assert stages.getvalue().split() == ["reading", "pairing", "pairing", "sorting", "nesting"]


def test_a_folder_lists_files_that_hold_packets(tmp_path) -> None:
    for name, data in (
        ("a.pftrace", WHOLE),
        ("b.pftrace.gz", gzip.compress(WHOLE)),
        ("c.pftrace", b"no packets"),
        ("d.txt", WHOLE),
    ):
        (tmp_path / name).write_bytes(data)
    assert sorted(file.path.name for file in traces_among(candidates(tmp_path).paths)) == ["a.pftrace", "b.pftrace.gz"]


@pytest.mark.parametrize(("stage", "says"), [("Memcpy", True), ("Memset", False)])
def test_time_in_copies_of_pageable_memory_is_not_known_where_there_are_copies(tmp_path, capsys, stage, says) -> None:
    copy = Slice("cudaMemcpyAsync", 150, 180, "cuda_runtime", {"correlation": 10})
    work = [KERNEL, Stage(stage, 600, 20, extra={"correlation": "10", "bytes": "4096"})]
    path = tmp_path / "trace.pftrace"
    path.write_bytes(torch_file([OPS, [LAUNCH, copy]], work))
    code = main(["check", str(path), "idle_pageable_copy_us == 0"])
    assert ("does not say which copies" in capsys.readouterr().out) == says
    assert (code != 0) == says
