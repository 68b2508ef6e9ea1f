"""The scanner beside the reading in Python, which is its oracle: the same columns of every file, whole or damaged."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.paths import SHARED
from tests.support.same_columns import both, needs_scanner
from tests.support.traces import given_traces
from tracetui.reading.decode import Ids
from tracetui.reading.scanner.scanned_events import block_scanner

pytestmark = needs_scanner

FOLDERS = ("d*.json*", "edge/*.json*", "puzzlers/*.json*", "inference/*.json*")


@pytest.mark.parametrize("name", given_traces(*FOLDERS, samples=True))
def test_a_real_file_has_the_same_columns(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scanned, oracle = both(str(SHARED / name), monkeypatch)
    assert scanned == oracle


NUMBERS: st.SearchStrategy[Any] = st.one_of(
    st.integers(-5, 5),
    st.integers(-(1 << 70), 1 << 70),
    st.floats(),
    st.floats(-1e16, 1e16).map(lambda number: round(number, 3)),
    st.integers(1_700_000_000_000_000, 1_700_000_000_000_999).map(lambda number: number + 0.25),
)
TEXTS = st.one_of(
    st.sampled_from(["aten::mm", "ProfilerStep#1", "[memory]", "", 'a"b', "a\\b", "C:\\new", "µ", "😀", "\ud800"]),
    st.text(max_size=8),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS), lambda inner: st.lists(inner, max_size=3), max_leaves=4
)
ARGUMENTS = st.dictionaries(
    st.sampled_from(
        ("correlation", "External id", "Input Dims", "Input dims", "Input type", "grid", "block", "Addr", "Bytes")
        + ("bytes", "Device Id", "Device Type", "Sequence number", "Fwd thread id", "registers per thread", "name")
        + ("shared memory", "est. achieved occupancy %", "Total Allocated", "Total Reserved", "stream", "kernel")
    ),
    st.one_of(st.integers(0, 9), VALUES),
    max_size=5,
)
EVENTS = st.fixed_dictionaries(
    {"ph": st.sampled_from("XXXXXXifstMCBEbeP"), "ts": st.one_of(st.integers(0, 99), NUMBERS)},
    optional={
        "name": st.one_of(TEXTS, TEXTS, VALUES),
        "cat": st.sampled_from(["cpu_op", "kernel", "cuda_runtime", "gpu_memcpy", "cpu_instant_event", "ac2g", None]),
        "pid": st.one_of(st.integers(0, 3), TEXTS, VALUES),
        "tid": st.one_of(st.integers(0, 3), TEXTS, VALUES),
        "dur": st.one_of(st.integers(0, 50), NUMBERS),
        "id": st.one_of(st.integers(0, 9), VALUES),
        "s": st.one_of(st.sampled_from("tpg"), VALUES),
        "bp": st.just("e"),
        "args": st.one_of(ARGUMENTS, ARGUMENTS, VALUES),
    },
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(EVENTS, min_size=1, max_size=8), st.sampled_from([None, 1]), st.booleans())
def test_generated_events_have_the_same_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, events: list[Any], indent: int | None, ascii_only: bool
) -> None:
    path = tmp_path / "generated.json"
    text = json.dumps({"traceEvents": events}, indent=indent, ensure_ascii=ascii_only)
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    scanned, oracle = both(str(path), monkeypatch)
    assert scanned == oracle


@pytest.fixture(scope="module")
def small_trace() -> bytes:
    """The bytes of a real trace of some hundred events."""
    path = SHARED / "d16_b300_tiny.json.gz"
    if not path.exists():
        pytest.skip("needs ../shared/traces/d16_b300_tiny.json.gz, which is not there")
    return gzip.decompress(path.read_bytes())


PIECES = (b"", b'"', b"\\", b"{", b"}", b"[", b"]", b",", b"-", b"e9", b"\xff", b"\x00", b"0")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.data())
def test_mutated_bytes_have_the_same_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_trace: bytes, data: st.DataObject
) -> None:
    mutated = bytearray(small_trace)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(mutated) - 1))
        mutated[at : at + data.draw(st.integers(0, 3))] = data.draw(st.sampled_from(PIECES))
    path = tmp_path / "mutated.json"
    path.write_bytes(bytes(mutated))
    scanned, oracle = both(str(path), monkeypatch)
    assert scanned == oracle


def block(more: str = "") -> bytes:
    """A block of one event, with more fields behind its own."""
    return ('[{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":1' + more + "}]").encode()


FIELDS = (
    *("01", "1.", ".5", "-", "1e", "1e999", "nul", "NaN", '"\x01"', '"\\q"', '"\\u12g4"', '"\\ud800"', '"no end'),
    "[" * 80 + "]" * 80,
)
"""Values that are damaged, or read in Python."""
ODD = (
    *(f',"x":{value}' for value in FIELDS),
    *(',"x"', ',"\\u006eame":"b"', ',"args":null', ',"ts":"1"', ',"name":null'),
    *(f',"args":{{"correlation":{value}}}' for value in ('"7"', "null", "18446744073709551616")),
)
ARRAYS = (b"", b"[", b"[]", b"[{}]", b"[1]", b'{"a":1}', block()[:-1], block() + b"x", block()[:-1] + b",]")


@pytest.mark.parametrize("odd", [*ARRAYS, *(block(more) for more in ODD), b'[{"ph":"X","ts":1,"dur":1}]'])
def test_what_is_damaged_or_odd_is_left_to_python(odd: bytes) -> None:
    made = block_scanner()
    assert made is not None
    assert made.scan(odd, 0) is None
    # The next block is read as if nothing had been.
    assert made.scan(block(), 0) is not None


def test_bytes_that_are_not_utf8_are_left_to_python() -> None:
    made = block_scanner()
    assert made is not None
    for wrong in (b"\xff", b"\xc3", b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\x80"):
        assert made.scan(b'[{"ph":"X","name":"%s","ts":1}]' % wrong, 0) is None
    assert made.scan('[{"ph":"X","name":"µ→😀","ts":1}]'.encode(), 0) is not None


def test_texts_of_a_block_that_was_given_up_are_forgotten() -> None:
    made, ids = block_scanner(), Ids()
    assert made is not None
    events = made.scan(b'[{"ph":"X","name":"first","ts":1}]', 0)
    assert events is not None
    assert events.names(ids).tolist() == [0]
    many = ",".join(f'{{"ph":"X","name":"given up {number}","ts":1}}' for number in range(2000))
    assert made.scan(f"[{many},]".encode(), 0) is None
    events = made.scan(b'[{"ph":"X","name":"second","ts":1},{"ph":"X","name":"first","ts":1}]', 0)
    assert events is not None
    assert events.names(ids).take(events.columns.slices("name")).tolist() == [1, 0]
    assert list(ids) == ["first", "second"]


@pytest.mark.parametrize(
    ("written", "nanoseconds"),
    [
        ("1695835021123456.789", 1695835021123456789),
        ("1695835021123456.0005", 1695835021123456000),
        ("1695835021123456.0015", 1695835021123456002),
        ("-12.0005", -12000),
        ("9000000000000.25", 9000000000000250),
        ("3e15", None),
        ("1e3", 1000000),
        ("0.0", 0),
    ],
)
def test_times_are_read_to_the_nanosecond(written: str, nanoseconds: int | None) -> None:
    made = block_scanner()
    assert made is not None
    # One time that float64 cannot tell makes all of the block be read from their digits.
    data = b'[{"ph":"i","name":"a","ts":%s},{"ph":"X","name":"a","ts":9000000000000.5}]' % written.encode()
    events = made.scan(data, 0)
    assert events is not None
    assert events.columns.others("time").tolist() == [-(1 << 63) if nanoseconds is None else nanoseconds]
