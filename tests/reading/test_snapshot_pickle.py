"""The pickle of a memory snapshot is read as data: nothing is run, memory is bounded, all else ends in a sentence."""

from __future__ import annotations

import gzip
import io
import pickle
import pickletools
import random
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from tests.support.memory_snapshots import FakeAllocator, fragmented, frame, write
from tracetui.errors import NotATrace, TraceError
from tracetui.model.memory_snapshot import MemorySnapshot
from tracetui.reading import snapshot as reading
from tracetui.reading import snapshot_pickle
from tracetui.reading.snapshot import load_snapshot
from tracetui.reading.source import holds_snapshot

HEAD = b"\x80\x04}\x94(\x8c\x08segments\x94]\x94\x8c\x0ddevice_traces\x94]\x94"
"""The beginning of a snapshot that is recognised, within its dictionary."""


def read(data: bytes, folder: Path) -> MemorySnapshot:
    path = folder / "snapshot.pickle"
    path.write_bytes(data)
    return load_snapshot(str(path))


def stack_words(snapshot: MemorySnapshot, number: int) -> list[tuple[str | None, str | None, int]]:
    stacks = snapshot.stacks
    return [
        (snapshot.text(stacks.function[at]), snapshot.text(stacks.file[at]), int(stacks.line[at]))
        for at in stacks.of(number)
    ]


def assert_same(snapshot: MemorySnapshot, given: dict[str, Any]) -> None:
    """Compare the columns with the objects that were pickled."""
    events = [event for trace in given["device_traces"] for event in trace]
    assert snapshot.events.size.tolist() == [event["size"] for event in events]
    assert snapshot.events.address.tolist() == [event.get("addr", 0) for event in events]
    assert snapshot.events.time_us.tolist() == [event["time_us"] for event in events]
    for number, event in zip(snapshot.events.stack.tolist(), events, strict=True):
        assert stack_words(snapshot, number) == [(f["name"], f["filename"], f["line"]) for f in event["frames"]]
    blocks = [block for segment in given["segments"] for block in segment["blocks"]]
    assert snapshot.blocks.size.tolist() == [block["size"] for block in blocks]
    assert snapshot.blocks.address.tolist() == [block["address"] for block in blocks]
    assert snapshot.blocks.is_active.tolist() == [block["state"] != "inactive" for block in blocks]
    assert snapshot.segments.size.tolist() == [segment["total_size"] for segment in given["segments"]]


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_columns_are_what_was_pickled(protocol: int, tmp_path: Path) -> None:
    given = fragmented().snapshot()
    assert_same(load_snapshot(write(tmp_path / "s.pickle", given, protocol)), given)


def test_stacks_that_are_shared_or_long_or_empty(tmp_path: Path) -> None:
    fake = FakeAllocator()
    shared = [frame(line) for line in range(3)]
    deep = [frame(line % 40, name=f"f{line}") for line in range(2500)]
    for frames in ([], shared, list(shared), deep, shared[::-1], deep[:1000], deep[:1001]):
        fake.alloc(1024, frames)
    given = fake.snapshot()
    for event in given["device_traces"][0][1::2]:
        event["frames"] = given["device_traces"][0][0]["frames"] if event["frames"] == [] else event["frames"]
    assert_same(load_snapshot(write(tmp_path / "s.pickle", given)), given)


def test_pieces_decide_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = fragmented().snapshot()
    monkeypatch.setattr(snapshot_pickle, "CHUNK", 1)
    monkeypatch.setattr(snapshot_pickle, "AHEAD", 700)
    assert_same(load_snapshot(write(tmp_path / "s.pickle", given)), given)


def test_packed_files_and_a_pure_python_pickler_are_read_too(tmp_path: Path) -> None:
    given, packed = fragmented().snapshot(), tmp_path / "s.pickle.gz"
    packed.write_bytes(gzip.compress(pickle.dumps(given)))
    assert holds_snapshot(str(packed))
    assert_same(load_snapshot(str(packed)), given)
    out = io.BytesIO()
    pickle._Pickler(out, 4).dump(given)
    assert_same(read(out.getvalue(), tmp_path), given)
    assert_same(read(pickletools.optimize(pickle.dumps(given)), tmp_path), given)


class Runs:
    """What runs when it is unpickled by the usual means."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return exec, ("raise SystemExit('it ran')",)


@pytest.mark.parametrize("place", ["segments", "device_traces", "more"])
def test_a_class_is_named_and_not_run(place: str, tmp_path: Path) -> None:
    given = fragmented().snapshot()
    given[place] = [Runs()] if place != "more" else Runs()
    with pytest.raises(NotATrace, match="nothing of it was run"):
        load_snapshot(write(tmp_path / "s.pickle", given))


HOSTILE = {
    "a class by name": HEAD + b"cposix\nsystem\n.",
    "an old instance": HEAD + b"(iposix\nsystem\n.",
    "a persistent object": HEAD + b"\x8c\x01a\x94Q.",
    "an extension": HEAD + b"\x82\x01.",
    "nested lists": HEAD + b"(" + b"](" * 500_000,
    "lists without end": HEAD + b"]" * 500_000,
    "nested dictionaries": HEAD + b"}\x94(\x8c\x01a\x94" * 100_000,
    "a cycle": b"\x80\x04}\x94(\x8c\x08segments\x94h\x00\x8c\x0ddevice_traces\x94h\x00u.",
    "a list in itself": b"\x80\x04}\x94(\x8c\x08segments\x94]\x94(h\x02h\x02e\x8c\x0ddevice_traces\x94h\x02u.",
    "a memo of billions": HEAD + b"r\xff\xff\xff\xff.",
    "a text of gigabytes": HEAD + b"X\xff\xff\xff\x7f.",
    "a long number": HEAD + b"\x8b\x00\x00\x00\x7f" + b"\xff" * 64,
    "a number of 255 bytes": HEAD + b"\x8a\xff" + b"\x01" * 255 + b".",
    "duplicates": HEAD + b"2" * 100_000 + b".",
    "marks": HEAD + b"(" * 100_000,
    "nothing on the stack": HEAD + b"u" * 20,
    "what is not there": HEAD + b"h\x77.",
    "keys that are lists": HEAD + b"]\x94K\x01u.",
    "cut off": pickle.dumps(fragmented().snapshot())[:-40],
    "an event twice": pickle.dumps((lambda e: {"segments": [], "device_traces": [[e, e], [e]]})({"action": "oom"})),
    "a size of exabytes": pickle.dumps(
        {"segments": [], "device_traces": [[{"action": "alloc", "size": 1 << 60, "addr": 0}]]}
    ),
    "a device of billions": pickle.dumps(
        {"segments": [{"device": 1 << 40, "total_size": 1, "blocks": []}], "device_traces": []}
    ),
    "events of no device": pickle.dumps({"segments": [], "device_traces": [], "x": [{"action": "oom", "size": 1}]}),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.full
def test_hostile_files_end_in_a_sentence(name: str, tmp_path: Path) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(NotATrace, match="snapshot"):
            read(HOSTILE[name], tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


def test_any_byte_may_be_wrong(tmp_path: Path) -> None:
    """Of each file what can be read is read, or a sentence says why not; nothing else is raised."""
    data, rng = pickle.dumps(fragmented().snapshot()), random.Random(4)
    for _ in range(300):
        changed = bytearray(data)
        for _ in range(rng.randrange(1, 4)):
            changed[rng.randrange(60, len(changed))] = rng.randrange(256)
        try:
            read(bytes(changed), tmp_path)
        except TraceError as error:
            assert str(error).endswith(".")


@pytest.mark.full
def test_an_event_takes_the_bytes_of_its_columns(tmp_path: Path) -> None:
    """Three times the columns and no more, whatever the objects of Python would take."""
    fake = FakeAllocator()
    frames = [frame(line) for line in range(30)]
    address = fake.alloc(1 << 20, frames)
    assert address is not None
    trace = [dict(event, frames=list(frames)) for event in fake.events[1:]] * 20_000
    given = {**fake.snapshot(), "device_traces": [[dict(event, time_us=at) for at, event in enumerate(trace)]]}
    path = write(tmp_path / "s.pickle", given)
    del given, trace
    load_snapshot(path)
    tracemalloc.start()
    try:
        events = load_snapshot(path).events
        columns = (
            sum(each.nbytes for each in (events.action, events.address, events.size, events.stream, events.time_us))
            + 3 * events.stack.nbytes
        )
        beside = 3 * snapshot_pickle.CHUNK
        assert tracemalloc.get_traced_memory()[1] < 3 * columns + beside
    finally:
        tracemalloc.stop()


def test_a_trace_is_no_snapshot_and_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(NotATrace, match="no memory snapshot"):
        read(b'{"traceEvents": []}', tmp_path)
    assert not holds_snapshot(str(tmp_path / "absent.pickle"))
    assert reading.MAX_BYTES < 1 << 62
