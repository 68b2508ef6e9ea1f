"""Logs of torch.compile open as traces of their phases, damaged ones as far as they go."""

from __future__ import annotations

import gzip
import json
import random
import re
import tracemalloc
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tests.support.compile_logs import EPOCH_US, artifact, compilation, distinct, entry, phase, resized
from tracetui.errors import NoEvents, TraceError
from tracetui.model.recorded import COMPILE_FACTS
from tracetui.model.trace import Trace
from tracetui.reading import torch_log
from tracetui.reading.file_layout import read_rank_header
from tracetui.reading.load import RawEvents, load
from tracetui.reading.torch_log import TorchLogReader
from tracetui.ui.opening.trace_files import looks_like_trace


def opened(folder: Path, log: str | bytes) -> Trace:
    path = folder / "a.log"
    path.write_bytes(log.encode() if isinstance(log, str) else log)
    return load(str(path))


def lanes(trace: Trace) -> list[str]:
    return [lane.tid for lane in trace.lanes]


def instants(trace: Trace) -> list[tuple[str, str]]:
    return [
        (trace.names[name], trace.lanes[lane].tid)
        for name, lane, category in zip(trace.instants.name, trace.instants.lane, trace.instants.category, strict=True)
        if trace.categories[category] == COMPILE_FACTS
    ]


def test_a_thread_for_each_compilation_with_its_phases(tmp_path):
    trace = opened(tmp_path, resized(3))
    assert lanes(trace) == ["0/0", "0/1", "0/2"]
    assert [lane.name for lane in trace.lanes][:1] == ["0/0 f (train.py:7)"]
    assert [trace.name_of(row) for row in range(2)] == ["dynamo", "inductor_compile"]
    assert trace.slices.dur.tolist() == [1_000_000, 500_000] * 3
    assert trace.origin_ns == 1000 * (EPOCH_US + 1000)
    assert trace.format == "torch.compile log"
    assert not trace.quality.notes


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_every_way_in_takes_a_log(pack, tmp_path):
    path = tmp_path / "dedicated_log_torch_trace_x.log"
    path.write_bytes(pack(resized(2).encode()))
    assert len(load(str(path)).slices) == 4
    assert looks_like_trace(path)
    assert read_rank_header(str(path)) is not None
    assert sum(map(len, RawEvents(str(path)))) == load(str(path)).events


def test_times_of_lines_are_moved_to_the_clock_of_the_phases(tmp_path):
    # Lines have neither the year nor the zone: they lie 23 years and some hours away.
    trace = opened(tmp_path, entry({"dynamo_start": {"stack": []}}, key="0/0") + resized(1))
    assert trace.window == (0, 1_000_000)
    assert abs(trace.instants.time).max() <= 1_000_000


def test_a_log_without_phases_has_a_slice_from_the_start_to_the_metrics(tmp_path):
    log = entry({"dynamo_start": {"stack": []}}, key="0/0", at_us=500)
    log += entry({"compilation_metrics": {"co_name": "f"}}, key="0/0", at_us=2500)
    trace = opened(tmp_path, log)
    assert trace.slices.dur.tolist() == [2_000_000]
    assert instants(trace) == [("dynamo_start", "0/0"), ("compilation_metrics", "0/0")]


def test_an_id_that_begins_again_after_a_reset_is_another_compilation(tmp_path):
    log = compilation("0/0", 0, 100) + compilation("0/0", 1000, 100) + compilation("0/0", 2000, 100, pid=8)
    assert lanes(opened(tmp_path, log)) == ["0/0", "0/0 (2)", "0/0"]


def test_the_backward_pass_belongs_to_the_same_compilation(tmp_path):
    log = compilation("0/0", 0, 100)
    log += phase("entire_backward_compile", "B", 300, "0/0") + phase("entire_backward_compile", "E", 900, "0/0")
    trace = opened(tmp_path, log)
    assert lanes(trace) == ["0/0"]
    assert trace.slices.dur.tolist() == [100_000, 50_000, 600_000]


def test_two_processes_that_write_at_once_are_told_apart_where_their_lines_do_not_mix(tmp_path):
    one, two = resized(2).splitlines(True), resized(2).replace(" 7 torch", " 9 torch").splitlines(True)
    heads = [index for index, line in enumerate(one) if line.startswith("V")] + [len(one)]
    log = "".join("".join(part[first:last]) for first, last in pairwise(heads) for part in (one, two))
    trace = opened(tmp_path, log)
    assert [(lane.pid, lane.tid) for lane in trace.lanes] == [("7", "0/0"), ("7", "0/1"), ("9", "0/0"), ("9", "0/1")]
    assert not trace.quality.notes


def test_what_is_mixed_up_or_no_entry_is_left_out_and_counted(tmp_path):
    good = resized(1)
    begin = phase("gc", "B", 1500, "0/0").splitlines(True)
    mixed = "".join(begin[:3]) + "print of the program\n" + "".join(begin[3:])
    broken = "V1114 22:13:01.000000 7 torch/a.py:1] {broken\n"
    trace = opened(tmp_path, good + mixed + broken + artifact("recompile_reasons", "0/0: x", "0/1", 9))
    # A line in the middle of a payload does no harm: the begin is whole, and open.
    assert len(trace.slices) == 3
    note = trace.quality.notes[0]
    assert note == "1 line of the log is no entry of torch.compile; 1 entry is no valid JSON: left out."
    torn = "".join(begin[:3]) + broken + "".join(begin[3:])
    assert "1 entry has a text that does not match its checksum" in opened(tmp_path, good + torn).quality.notes[0]


def test_a_log_that_is_cut_off_anywhere_opens_to_there_and_says_so(tmp_path):
    log, rng = resized(3).encode(), random.Random(1)
    ends = {match.start() - less for match in re.finditer(rb"^V|\Z", log, re.MULTILINE) for less in (0, 1)}
    whole = opened(tmp_path, log)
    for end in rng.sample(range(600, len(log)), 60):
        trace = opened(tmp_path, log[:end])
        assert len(trace.slices) <= len(whole.slices)
        assert trace.quality.is_part == (end not in ends)
    # The end of the last line may lack.
    assert not opened(tmp_path, log[:-1]).quality.is_part


def test_a_long_line_and_a_long_payload_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(torch_log, "MAX_PAYLOAD_BYTES", 5000)
    log = resized(1) + artifact("recompile_reasons", "x" * 9000, "0/1", 1) + "y" * 600_000 + "\n"
    trace = opened(tmp_path, log + artifact("recompile_reasons", "z\n" * 4000, "0/1", 1))
    assert "3 entries are longer than" in trace.quality.notes[0]
    assert ("recompile", "0/1") not in instants(trace)


def test_escapes_and_odd_values_stay_data(tmp_path):
    log = compilation("0/0", 0, 10, "\x1b]0;pwned\x07 0/0: \x1b[2J", co_name=["\x1b[31m"], co_firstlineno={"a": 1})
    log += entry({"dynamo_start": {"stack": [{"filename": {}, "line": None}, 3]}}, key="1/0", at_us=5)
    log += entry({"chromium_event": {}}, '{"name": 3, "ph": {}, "ts": 1e300}', "1/0")
    log += entry({"str": [1, "x"]}) + entry({"compilation_metrics": {"fail_reason": 3}}, key="1/0")
    trace = opened(tmp_path, log)
    assert "0/0" in lanes(trace)


@pytest.mark.full
def test_memory_does_not_grow_with_the_log():
    class Endless:
        """Hands out a log of 60 MB of graphs, of which nothing is listed_here."""

        def __init__(self) -> None:
            self.data = artifact("before_pre_grad_graph", ("g" * 1000 + "\n") * 60, "0/0", 1).encode()
            self.left = 1000

        def readinto(self, buffer: memoryview) -> int:
            if self.left == 0:
                return 0
            self.left -= 1
            count = min(len(self.data), len(buffer))
            buffer[:count] = self.data[:count]
            return count

    tracemalloc.start()
    try:
        reader, out = TorchLogReader(Endless()), memoryview(bytearray(1 << 16))
        while reader.readinto(out):
            pass
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_a_log_of_no_compilation_has_nothing_to_show(tmp_path):
    with pytest.raises(NoEvents, match=r"no compilation\.$"):
        opened(tmp_path, entry({"str": ["a.py", 0]}))
    with pytest.raises(NoEvents, match=r"no compilation\. Its entries are of something else: 2 guard_added."):
        opened(tmp_path, 2 * entry({"guard_added": {}}))


def test_the_public_logs_have_the_compilations_that_they_should(shared_trace):
    folder = shared_trace("beside")
    expected = json.loads((folder / "expected.json").read_text())
    for name, facts in expected.items():
        if not name.startswith("compile/"):
            continue
        path = folder / name
        if not facts["compile_ids"]:
            with pytest.raises(TraceError):
                load(str(path))
            continue
        trace = load(str(path))
        listed_here = [lane for name, lane in instants(trace) if name == "compilation_metrics"]
        assert sorted(each.split(" ")[0] for each in listed_here) == sorted(
            each["id"] for each in distinct(facts["compilations"])
        )
        assert np.unique(listed_here).size == len(listed_here)
        assert not trace.quality.is_part
        assert trace.quality.unmatched_ends == 0
