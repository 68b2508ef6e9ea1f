"""A thread that unwraps a trace beside its reader: the same bytes and sentences as without it, and it ends."""

from __future__ import annotations

import gzip
import io
import json
import os
import threading
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tracetui.errors import NoEvents, NotATrace, NotFound
from tracetui.reading import source
from tracetui.reading.load import load
from tracetui.reading.source import MAX_AHEAD, ReadAhead, Unwrapped, open_source
from tracetui.reading.store import MAX_WAITING, BlockLocation, MemoryBlocks

SMALL = 1 << 12
"""Bytes of a chunk in these tests, so that short texts have many."""
RANDOM = Random(4)
TEXT = json.dumps(
    [
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": f"op {RANDOM.getrandbits(40):x}",
            "pid": 1,
            "tid": 1,
            "ts": 9 * row,
            "dur": 5,
        }
        for row in range(3000)
    ]
).encode()
PLAIN = Unwrapped(0, None, "")


def zipped(text: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("trace.json", text)
    return packed.getvalue()


PACKERS: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "zstd": zstandard.compress, "zip": zipped}
PACKED = {name: pack(TEXT) for name, pack in PACKERS.items()}


@pytest.fixture(scope="module", autouse=True)
def small_chunks() -> Iterator[None]:
    """Every trace that is read ahead has many chunks, and is read ahead from its beginning."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "CHUNK", SMALL)
        patch.setattr(source, "PEEKED", SMALL)
        patch.setattr(source, "ALONE", 0)
        yield


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("tracetui")] == []


def given_by(path: Path, is_ahead: bool, size: int = SMALL) -> tuple[bytes, str | None, str, int]:
    """All that a source gives, and what it says of it at its end."""
    opened, text = open_source(str(path)), bytearray()
    try:
        opened.peek(100)
        if is_ahead:
            opened.read_ahead()
        buffer = memoryview(bytearray(size))
        while count := opened.readinto(buffer):
            text += buffer[:count]
        return bytes(text), opened.damage, opened.remark, opened.consumed
    finally:
        opened.close()


def both_ways(path: Path) -> tuple[bytes, str | None, str, int]:
    alone, ahead = given_by(path, is_ahead=False), given_by(path, is_ahead=True, size=1000)
    assert ahead == alone
    return ahead


@pytest.mark.parametrize("wrapping", PACKED)
def test_the_same_bytes(tmp_path: Path, wrapping: str) -> None:
    path = tmp_path / "packed"
    path.write_bytes(PACKED[wrapping])
    assert both_ways(path) == (TEXT, None, "", len(PACKED[wrapping])) or wrapping == "zip"
    assert both_ways(path)[0] == TEXT


@pytest.mark.parametrize("wrapping", PACKED)
def test_the_same_bytes_before_a_cut_or_damage(tmp_path: Path, wrapping: str) -> None:
    path, packed = tmp_path / "packed", PACKED[wrapping]
    if wrapping != "zip":
        path.write_bytes(packed[: len(packed) // 2])
        text, damage, _, _ = both_ways(path)
        assert text == TEXT[: len(text)] and 0 < len(text) < len(TEXT)
        assert damage == f"the {wrapping} stream stops before its end"
    middle = len(packed) // 2
    # Other bytes in a block of zstd are other text and no damage, a missing part is.
    behind = middle + (90 if wrapping == "zstd" else 64)
    path.write_bytes(packed[:middle] + b"\xff" * 64 + packed[behind:])
    text, damage, _, _ = both_ways(path)
    assert len(text) > 0 and text != TEXT
    assert damage is not None and "damaged" in damage


@pytest.mark.parametrize("wrapping", ["gzip", "zstd"])
def test_the_same_of_several_streams_and_of_what_stands_behind(tmp_path: Path, wrapping: str) -> None:
    path, packed = tmp_path / "packed", PACKED[wrapping]
    path.write_bytes(packed + PACKERS[wrapping](b"[]") + b"something else")
    text, damage, remark, _ = both_ways(path)
    assert (text, damage) == (TEXT + b"[]", None)
    assert f"from byte {path.stat().st_size - 14:,} of the packed file on, stands something else" in remark


@given(st.sampled_from(sorted(PACKED)), st.data())
def test_the_same_whatever_is_changed(
    tmp_path_factory: pytest.TempPathFactory, wrapping: str, data: st.DataObject
) -> None:
    packed = bytearray(PACKED[wrapping])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(4, len(packed) - 1))
        packed[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))
    path = tmp_path_factory.mktemp("changed") / "packed"
    path.write_bytes(packed)
    try:
        given_by(path, is_ahead=False)
    except NotATrace:
        return
    both_ways(path)


def test_the_same_sentence_of_what_inflates_too_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "HARMLESS", 1 << 16)
    path = tmp_path / "packed"
    path.write_bytes(gzip.compress(b"[" + b" " * (1 << 24)))
    text, damage, _, _ = both_ways(path)
    assert len(text) < 1 << 24
    assert damage is not None and "200 times as much, as no trace does" in damage


def test_what_is_plain_needs_no_thread(tmp_path: Path) -> None:
    path = tmp_path / "plain"
    path.write_bytes(TEXT)
    opened = open_source(str(path))
    opened.read_ahead()
    assert opened.readinto(memoryview(bytearray(SMALL)))
    assert opened.readinto(memoryview(bytearray(SMALL)))
    assert threading.active_count() == 1 or not any("tracetui" in each.name for each in threading.enumerate())
    opened.close()


def test_a_short_trace_needs_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the tests above, which lower the length from which on a thread is worth its while."""
    monkeypatch.setattr(source, "ALONE", len(TEXT))
    monkeypatch.setattr(source, "ReadAhead", None)
    path = tmp_path / "packed"
    path.write_bytes(PACKED["gzip"])
    assert load(str(path)).events == 3000


def test_no_more_than_a_few_chunks_are_read_ahead() -> None:
    reads = 0

    def read(buffer: memoryview) -> int:
        nonlocal reads
        reads += 1
        buffer[:] = bytes([reads]) * len(buffer)
        return len(buffer)

    ahead = ReadAhead(read, lambda: PLAIN)
    buffer = memoryview(bytearray(10))
    assert ahead.readinto(buffer) == 10 and bytes(buffer) == b"\1" * 10
    # What is asked for a second time comes of the same chunk.
    assert ahead.readinto(memoryview(bytearray(SMALL))) == SMALL - 10
    ahead.close()
    assert reads <= MAX_AHEAD


def test_what_is_known_of_the_wrapping_is_told_with_the_chunk_it_is_known_from() -> None:
    """Not when the thread knows it, which is earlier by a chunk or four."""
    done = 0

    def read(buffer: memoryview) -> int:
        nonlocal done
        done += 1
        return len(buffer) if done < 4 else 0

    ahead = ReadAhead(read, lambda: Unwrapped(done, "damaged" if done > 3 else None, ""))
    buffer = memoryview(bytearray(SMALL))
    told = []
    while ahead.readinto(buffer):
        told.append((ahead.state.consumed, ahead.state.damage))
    told.append((ahead.state.consumed, ahead.state.damage))
    ahead.close()
    assert told == [(1, None), (2, None), (3, None), (4, "damaged")]


def test_nothing_is_read_behind_the_end() -> None:
    """A terminal would wait for more to be typed."""
    reads: list[int] = []

    def read(buffer: memoryview) -> int:
        reads.append(len(buffer))
        return 5 if len(reads) == 1 else 0

    ahead = ReadAhead(read, lambda: PLAIN)
    buffer = memoryview(bytearray(SMALL))
    assert [ahead.readinto(buffer) for _ in range(2 * MAX_AHEAD)] == [5] + [0] * (2 * MAX_AHEAD - 1)
    ahead.close()
    assert len(reads) == 2


def test_an_error_of_the_disk_is_raised_where_the_reader_is() -> None:
    def read(buffer: memoryview) -> int:
        raise NotFound("packed cannot be read: Input/output error.")

    ahead = ReadAhead(read, lambda: PLAIN)
    with pytest.raises(NotFound, match="Input/output error"):
        ahead.readinto(memoryview(bytearray(SMALL)))
    ahead.close()


def test_a_load_that_is_stopped_ends_the_thread(tmp_path: Path) -> None:
    path = tmp_path / "packed"
    path.write_bytes(PACKED["gzip"])
    asked = 0

    def cancelled() -> bool:
        nonlocal asked
        asked += 1
        return asked > 10

    with pytest.raises(NoEvents, match="was stopped"):
        load(str(path), cancelled=cancelled)


def test_a_load_that_fails_ends_the_thread(tmp_path: Path) -> None:
    path = tmp_path / "packed"
    path.write_bytes(gzip.compress(b"no trace " * 100_000))
    with pytest.raises(NotATrace):
        load(str(path))


def test_closing_does_not_wait_for_a_pipe_that_gives_nothing(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = os.open(path, os.O_RDWR)
    packed = PACKED["gzip"]
    try:
        os.write(writer, packed[: len(packed) // 2])
        opened = open_source(str(path))
        opened.peek(100)
        opened.read_ahead()
        assert opened.readinto(memoryview(bytearray(SMALL)))
        assert opened.readinto(memoryview(bytearray(SMALL)))
        opened.close()
    finally:
        os.close(writer)


def test_blocks_that_a_thread_compresses_are_all_kept() -> None:
    blocks = MemoryBlocks()
    locations = [BlockLocation(row, 1000 + row, is_tolerant=False) for row in range(5 * MAX_WAITING)]
    for row, location in enumerate(locations):
        blocks.add(location, partial(bytes.__mul__, bytes([row]), location.length))
    blocks.finish()
    assert [blocks.read(row, each) for row, each in enumerate(locations)] == [
        bytes([row]) * each.length for row, each in enumerate(locations)
    ]
