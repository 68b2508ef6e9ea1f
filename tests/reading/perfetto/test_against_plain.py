"""What the importer collects of files as torch writes them, beside a plain reader of the same files."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.support.paths import SHARED
from tests.support.perfetto.torch_encoder import BASE, STAGES, Slice, Stage, torch_file
from tests.support.perfetto.torch_reader import read_torch
from tracetui.model.trace import NO_ID, Quality
from tracetui.reading.columns import Collector
from tracetui.reading.load import load
from tracetui.reading.perfetto.packet_collector import PacketCollector
from tracetui.reading.perfetto.packets import PacketReader
from tracetui.reading.source import open_source

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
scalars = st.one_of(st.integers(-(2**63), 2**63 - 1), st.booleans(), names, st.floats(allow_nan=False))
values = st.recursive(scalars, lambda inner: st.lists(inner, min_size=1, max_size=3), max_leaves=5)
args = st.dictionaries(names | st.sampled_from(["correlation", "External id"]), values, max_size=4)
slices = st.builds(
    lambda name, start, length, args, track: Slice(name, start, start + length, args=args, track=track),
    names,
    st.integers(0, 10**12),
    st.integers(0, 10**9),
    args,
    st.sampled_from([2, 9]),
)
stages = st.builds(
    Stage,
    st.sampled_from(sorted(STAGES.keys() - {"HostNode"})),
    st.integers(0, 10**12),
    st.integers(0, 10**9),
    name=names,
    gpu=st.integers(0, 3),
    id=st.integers(1, 100),
    extra=st.dictionaries(st.sampled_from(["bytes", "correlation", "x"]), st.integers(0, 10**12).map(str), max_size=3),
)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(slices, max_size=8), min_size=1, max_size=3), st.lists(stages, max_size=8))
@pytest.mark.full
def test_what_was_written_is_what_is_collected(tmp_path_factory, groups: list, stages: list) -> None:
    path = tmp_path_factory.mktemp("made") / "trace"
    path.write_bytes(torch_file(groups, stages))
    compare(path, block=512)
    compare(path, block=1 << 20)


@settings(max_examples=30, deadline=None)
@given(st.lists(slices, min_size=1, max_size=12), st.lists(slices, min_size=1, max_size=12))
@pytest.mark.full
def test_every_slice_comes_back_with_its_times_and_arguments(tmp_path_factory, first: list, second: list) -> None:
    path = tmp_path_factory.mktemp("made") / "trace"
    path.write_bytes(torch_file([first, second]))
    trace = load(str(path))
    # What outlasts nearly everything, or starts days away from it, is clipped or left out, whatever the format.
    assume(not trace.quality.clipped and not trace.quality.dropped)
    origin = trace.origin_ns - BASE
    given = sorted(
        (trace.names[int(name)].rstrip(), int(start) + origin, int(dur))
        for name, start, dur in zip(trace.slices.name, trace.slices.start, trace.slices.dur, strict=True)
    )
    assert given == sorted((each.name.rstrip(), each.start, each.end - each.start) for each in first + second)
    wanted = sorted(repr(sorted(each.args.items())) for each in first + second)
    events = sorted(repr(sorted(trace.event_of(row)["args"].items())) for row in range(len(trace.slices)))
    assert events == wanted


def collected(path: Path, block: int = 1 << 20) -> PacketCollector:
    """The columns of a file before anything is paired."""
    packets = PacketCollector(Collector(Quality()))
    source = open_source(str(path))
    for each in PacketReader(source, block=block):
        packets.add(each)
    source.close()
    return packets


def compare(path: Path, block: int = 1 << 20) -> None:
    """The columns of a file beside those of the plain reader."""
    raw = path.read_bytes()
    plain = read_torch(gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw)
    packets = collected(path, block)
    events = packets.track_events
    assert packets.collector.events == plain.packets
    begins = events.sides.take("begins", "?")
    time, track = events.sides.take("time", "i8"), events.sides.take("track", "i8")
    uuids = np.array([*packets.tracks.uuids, 0])
    sides = list(zip(time.tolist(), uuids[track].tolist(), strict=True))
    assert [side for side, begin in zip(sides, begins, strict=True) if not begin] == plain.ends
    assert [side for side, begin in zip(sides, begins, strict=True) if begin] == [each[:2] for each in plain.begins]
    assert events.begins.take("name_iid", "i8").tolist() == [each[2] for each in plain.begins]
    assert events.begins.take("category_iid", "i8").tolist() == [each[3] for each in plain.begins]
    for name, key in (("correlation", b"correlation"), ("external", b"External id")):
        wanted = dict.fromkeys(range(len(plain.begins)), NO_ID)
        number = plain.names.get(key, -2)
        signed = {index: value - (value >> 63 << 64) for index, found, value in plain.annotations if found == number}
        assert events.begins.take(name, "i8").tolist() == list((wanted | signed).values())
    assert events.submissions.take("id", "i8").tolist() == [value for _, value in plain.submissions]
    stages = packets.stages.stages
    columns = ("time", "dur", "gpu", "queue_iid", "stage_iid", "name_iid", "kernel_iid", "id")
    assert list(zip(*(stages.take(name, "i8").tolist() for name in columns), strict=True)) == plain.stages
    number = plain.names.get(b"correlation", -2)
    texts = {index: int(text) for index, found, text in plain.extra if found == number}
    assert stages.take("correlation", "i8").tolist() == [texts.get(row, NO_ID) for row in range(len(plain.stages))]
    samples = packets.gpu_counters.samples
    of_samples = [
        samples.take(name, dtype).tolist() for name, dtype in (("time", "i8"), ("counter", "i8"), ("value", "f8"))
    ]
    assert list(zip(*of_samples, strict=True)) == plain.samples


TWINS = sorted((SHARED / "pftrace").glob("*.pftrace.gz"))
BY_SIZE = [pytest.param(path, id=path.name, marks=[pytest.mark.full] * (path.stat().st_size > 10**6)) for path in TWINS]


@pytest.mark.skipif(not TWINS, reason="needs ../shared/traces/pftrace, which is not there")
@pytest.mark.parametrize("path", BY_SIZE)
def test_real_twins_are_collected_as_the_plain_reader_reads_them(path: Path) -> None:
    compare(path)


@pytest.mark.full
def test_memory_holds_a_block_and_the_columns(tmp_path: Path) -> None:
    """Peaks of Python and numpy while files of three sizes are read in blocks of 64 KiB."""
    peaks = []
    for count in (2_000, 10_000, 18_000):
        group = [Slice(f"op{at % 50}", at, at + 5, args={"External id": at, "text": "x" * 200}) for at in range(count)]
        path = tmp_path / f"{count}.pftrace"
        path.write_bytes(torch_file([group]))
        collected(path, block=1 << 16)
        tracemalloc.start()
        packets = collected(path, block=1 << 16)
        peaks.append((packets.collector.events, tracemalloc.get_traced_memory()[1], path.stat().st_size))
        tracemalloc.stop()
    (small, least, _), _, (large, most, size) = peaks
    per_packet = (most - least) / (large - small)
    # Columns that grow in place have room for a quarter more than is in them.
    assert per_packet < 130
    assert most - per_packet * large < 60 * (1 << 16)
    assert size / large > per_packet
