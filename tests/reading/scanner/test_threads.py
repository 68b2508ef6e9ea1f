"""Chunks that threads scan beside the reading block by block in Python: the same columns, wherever a file is cut."""

from __future__ import annotations

import gzip
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.paths import SHARED
from tests.support.same_columns import both, needs_scanner, reading
from tracetui.errors import NotFound
from tracetui.reading import scan_ahead, source
from tracetui.reading.load import load
from tracetui.reading.load_progress import LoadProgress
from tracetui.reading.scan_ahead import ChunkReader
from tracetui.reading.scanner.scanner import Scanner, scanning_threads
from tracetui.reading.source import Source

pytestmark = needs_scanner

RELAXED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
LONG = "x" * 300
"""A name that is longer than a block."""


def event(number: int, **fields: Any) -> dict[str, Any]:
    """A slice with a launch's arguments, or as the fields say."""
    plain = {
        "ph": "X",
        "cat": "cpu_op",
        "name": f"op {number % 7}",
        "pid": 1,
        "tid": number % 3,
        "ts": number,
        "dur": 1,
    }
    return plain | {"args": {"External id": number, "Input Dims": [[number % 5]]}} | fields


ODD: tuple[dict[str, Any], ...] = (
    {},
    {"ts": "7"},
    {"ts": None},
    {"dur": -3},
    {"name": None},
    {"name": LONG},
    {"name": 'a},\n{"ph":"X"'},
    {"args": {"deep": [{"a": 1}, {"ph": "X"}, {"c": {}}]}},
    {"args": [1]},
    {"ph": "s", "id": 5},
    {"ph": "f", "id": "0x5"},
    {"ph": "f", "id": -5},
    {"ph": "i", "s": "g", "name": "[memory]", "args": {"Addr": 5, "Bytes": 7}},
    {"ph": "C", "args": {"a": 1.5}},
    {"ph": "M", "name": "process_name", "args": {"name": "p"}},
    {"ph": "B"},
    {"ph": "E"},
    {"ph": "b", "id": 3},
    {"ph": "V"},
    {"ph": "v"},
    {"ph": ""},
    {"ts": 9000000000000.25},
)
GAPS = st.sampled_from([",", ",\n  ", "\n,\n  ", " , "])
TAILS = st.sampled_from(["", "]", "]}", '\n]\n, "key": 1\n}\n', ",]}", "]}]", '{"ph"', "]}{"])


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """The text of a trace of some dozen events, a few of them odd, with gaps that change, perhaps damaged."""
    count = draw(st.integers(5, 60))
    odd = draw(st.dictionaries(st.integers(0, count - 1), st.sampled_from(ODD), max_size=4))
    gap, other = draw(GAPS), draw(GAPS)
    change = draw(st.integers(0, count))
    texts = [json.dumps(event(number, **odd.get(number, {})), ensure_ascii=False) for number in range(count)]
    joined = "".join(text + (gap if number < change else other) for number, text in enumerate(texts[:-1])) + texts[-1]
    data = bytearray(('{"schemaVersion": 1, "traceEvents": [\n  ' + joined + draw(TAILS)).encode())
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        at = draw(st.integers(0, len(data) - 1))
        data[at : at + draw(st.integers(0, 2))] = draw(
            st.sampled_from([b"", b'"', b"}", b"{", b"]", b",", b"\\", b"\xff"])
        )
    return bytes(data)


@RELAXED
@given(files(), st.sampled_from([64, 150, 400, 1000]), st.sampled_from([1, 2, 3]))
def test_chunks_have_the_columns_of_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, block: int, threads: int
) -> None:
    path = tmp_path / "generated.json"
    path.write_bytes(data)
    scanned, oracle = both(str(path), monkeypatch, block, threads)
    assert scanned == oracle


@pytest.fixture
def short_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads read a packed file from its beginning, however short it is."""
    monkeypatch.setattr(source, "LONG", 0)
    monkeypatch.setattr(source, "PEEKED", 500)


@pytest.mark.usefixtures("short_is_long")
@RELAXED
@given(files(), st.sampled_from([gzip.compress, zstandard.compress]), st.sampled_from([64, 400, 1000]), st.data())
def test_chunks_of_a_packed_file_have_the_columns_of_blocks(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: bytes,
    pack: Callable[[bytes], bytes],
    block: int,
    data: st.DataObject,
) -> None:
    """Whole ones, and those that are cut off or damaged."""
    packed = bytearray(pack(text))
    if data.draw(st.booleans()):
        at = data.draw(st.integers(4, len(packed) - 1))
        packed[at : at + data.draw(st.integers(0, 100))] = data.draw(st.binary(max_size=9))
    path = tmp_path / "packed"
    path.write_bytes(packed)
    # Without and with a thread that inflates for all.
    monkeypatch.setattr(source, "ALONE", data.draw(st.sampled_from([0, 1 << 23])))
    scanned, oracle = both(str(path), monkeypatch, block, data.draw(st.sampled_from([1, 3])))
    assert scanned == oracle


@pytest.mark.usefixtures("short_is_long")
@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
def test_threads_that_scan_a_packed_file_inflate_it_too(
    long_trace: str, monkeypatch: pytest.MonkeyPatch, pack: Callable[[bytes], bytes]
) -> None:
    path = Path(long_trace).with_name("packed")
    path.write_bytes(pack(Path(long_trace).read_bytes()))
    seen = set[str]()
    with reading(monkeypatch, True, 1000, 3):
        trace = load(str(path), progress=lambda _: seen.update(each.name for each in threading.enumerate()))
    assert trace.events == 3000
    assert [trace.store.event(number)["args"]["External id"] for number in (0, 2999)] == [0, 2999]
    assert len([name for name in seen if name.startswith("tracetui-scan")]) == 3
    assert not [name for name in seen if name.startswith("tracetui-unwrap")]
    assert not scanning()


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_an_odd_event_among_plain_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, odd: dict[str, Any]) -> None:
    path = tmp_path / "odd.json"
    events = [event(number, **(odd if number in (40, 41, 90) else {})) for number in range(120)]
    for separators in ((",", ":"), (", ", ": ")):
        path.write_text(json.dumps({"traceEvents": events}, separators=separators))
        scanned, oracle = both(str(path), monkeypatch, 600, 2)
        assert scanned == oracle


@pytest.mark.parametrize(
    "name", ["d16_b300_tiny.json.gz", pytest.param("d15_chrome_all_phases.json.gz", marks=[pytest.mark.full])]
)
@pytest.mark.parametrize("threads", [1, 3])
def test_a_real_file_in_small_chunks(name: str, threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = SHARED / name
    if not source.exists():
        pytest.skip(f"needs ../shared/traces/{name}, which is not there")
    path = tmp_path / "plain.json"
    path.write_bytes(gzip.decompress(source.read_bytes()))
    for block in (2048, 8192):
        scanned, oracle = both(str(path), monkeypatch, block, threads)
        assert scanned == oracle


@pytest.fixture
def long_trace(tmp_path: Path) -> str:
    """The path of a trace of many small chunks."""
    path = tmp_path / "long.json"
    path.write_text(json.dumps({"traceEvents": [event(number) for number in range(3000)]}))
    return str(path)


def scanning() -> list[str]:
    """Names of the threads that scan."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("tracetui-scan")]


def test_no_thread_outlives_the_load(long_trace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = set[str]()
    with reading(monkeypatch, True, 1000, 3):
        trace = load(long_trace, progress=lambda _: seen.update(scanning()))
    assert len(trace.slices) == 3000
    assert len(seen) == 3
    assert not scanning()


def test_a_cancelled_load_keeps_what_was_read_and_ends_its_threads(
    long_trace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[LoadProgress] = []
    with reading(monkeypatch, True, 1000, 3):
        trace = load(long_trace, progress=told.append, cancelled=lambda: len(told) >= 4)
    assert trace.quality.partial
    assert 0 < len(trace.slices) < 3000
    assert sorted(trace.slices.event.tolist()) == list(range(len(trace.slices)))
    assert not scanning()


def test_progress_goes_up_to_the_size(long_trace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[LoadProgress] = []
    with reading(monkeypatch, True, 1000, 2):
        load(long_trace, progress=told.append)
    done = [each.bytes_done for each in told]
    assert done == sorted(done)
    assert done[-1] == Path(long_trace).stat().st_size
    assert [each.events for each in told] == sorted(each.events for each in told)


def test_an_error_of_the_disk_in_a_thread_is_raised(long_trace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Source.readinto

    def failing(self: Source, buffer: memoryview, is_beside: bool = False) -> int:
        if self.consumed > 100_000:
            raise NotFound("long.json cannot be read: it is on fire.")
        return whole(self, buffer, is_beside)

    monkeypatch.setattr(Source, "readinto", failing)
    with reading(monkeypatch, True, 1000, 3), pytest.raises(NotFound, match="on fire"):
        load(long_trace)
    assert not scanning()


def test_a_crash_in_a_thread_is_raised(long_trace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(range(9))
    whole = Scanner.scan_all

    def failing(*given: Any) -> int:
        if next(answers, None) is None:
            raise RuntimeError("no room")
        return whole(*given)

    monkeypatch.setattr(Scanner, "scan_all", failing)
    with reading(monkeypatch, True, 1000, 3), pytest.raises(RuntimeError, match="no room"):
        load(long_trace)
    assert not scanning()


def test_a_bounded_number_of_chunks_is_read_ahead(long_trace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    whole = ChunkReader.read

    def counted(self: ChunkReader, buffer: bytearray) -> Any:
        read.append(id(buffer))
        return whole(self, buffer)

    monkeypatch.setattr(ChunkReader, "read", counted)
    with reading(monkeypatch, True, 1000, 3):
        load(long_trace)
    assert len(read) > 50
    assert len(set(read)) <= 3 + scan_ahead.EXTRA_BUFFERS


def test_threads_are_as_many_as_cores_that_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(3)), raising=False)
    assert scanning_threads() == 3
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    assert scanning_threads() == 8
