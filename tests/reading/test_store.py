"""The arguments of an event come back from wherever the trace came from."""

from __future__ import annotations

import gzip
import io
import json
import sys
import zipfile

import numpy as np
import pytest
import zstandard

from tracetui.errors import NotFound, TraceError
from tracetui.reading import decode
from tracetui.reading.load import load

EVENTS = [
    {
        "ph": "X",
        "cat": "cpu_op",
        "name": f"op{n}",
        "pid": 1,
        "tid": 1,
        "ts": n * 10,
        "dur": 5,
        "args": {"n": n, "l": [n]},
    }
    for n in range(5000)
]
TEXT = json.dumps({"traceEvents": EVENTS}).encode()


def two_members(data: bytes) -> bytes:
    """A gzip file of two members."""
    return gzip.compress(data[:1000]) + gzip.compress(data[1000:])


def zipped(data: bytes) -> bytes:
    """A zip archive of one file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("trace.json", data)
    return buffer.getvalue()


WRAPPINGS = {
    "plain": lambda data: data,
    "gzip": gzip.compress,
    "gzip in two members": two_members,
    "gzip with padding": lambda data: gzip.compress(data) + b"\0" * 100,
    "zstd": zstandard.compress,
    "zip": zipped,
    "utf-16": lambda data: data.decode().encode("utf-16"),
    "byte order mark": lambda data: b"\xef\xbb\xbf" + data,
}


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
@pytest.mark.full
def test_any_wrapping_under_any_suffix(tmp_path, wrapping, suffix):
    path = tmp_path / f"t{suffix}"
    path.write_bytes(WRAPPINGS[wrapping](TEXT))
    trace = load(str(path))
    assert len(trace.slices) == trace.events == 5000
    assert trace.event_of(4321) == EVENTS[4321]
    rows = np.array([4999, 0, 17])
    assert trace.args_of(rows, ["n", "l", "nothing"]) == [[4999, 0, 17], [[4999], [0], [17]], [None] * 3]
    assert not trace.quality.notes


def test_standard_input(monkeypatch, tmp_path):
    path = tmp_path / "t.json"
    path.write_bytes(gzip.compress(TEXT))
    with open(path) as file:
        monkeypatch.setattr(sys, "stdin", file)
        trace = load("-")
    assert trace.path is None
    assert trace.event_of(7) == EVENTS[7]


def test_a_file_that_changed_is_not_read_again(tmp_path):
    path = tmp_path / "t.json"
    path.write_bytes(TEXT)
    trace = load(str(path))
    path.write_bytes(TEXT + b" ")
    with pytest.raises(TraceError, match="has changed"):
        trace.event_of(0)


def test_an_end_lends_its_arguments_to_the_slice(tmp_path):
    path = tmp_path / "t.json"
    begin = {"ph": "B", "name": "work", "pid": 1, "tid": 1, "ts": 1, "args": {"a": 1}}
    end = {"ph": "E", "pid": 1, "tid": 1, "ts": 5, "args": {"b": 2}}
    path.write_text(json.dumps([begin, end]))
    trace = load(str(path))
    assert trace.event_of(0)["args"] == {"a": 1, "b": 2}


@pytest.mark.parametrize("name", ["missing.json", "."])
def test_what_cannot_be_read_is_said(tmp_path, name):
    with pytest.raises(NotFound):
        load(str(tmp_path / name))


BLOCKS = [
    b'[{"name": "a", "ts": 1, "args": {"x": 1}}, 7, {"name": "b\xff"}, {"big": 1e999, "deep": [[1, {"k": null}]]}]',
    b'[{"a": 1}, {"a": [1, 2}, {"b": 2}]',
    b"[]",
]


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("is_tolerant", [False, True])
def test_an_event_read_alone_is_the_one_of_its_block(block, is_tolerant):
    try:
        objects = decode.decode_objects(block, is_tolerant)
    except TraceError:
        with pytest.raises(TraceError):
            decode.EventReader(block, is_tolerant)
        return
    reader = decode.EventReader(block, is_tolerant)
    assert [reader.event(row) for row in range(len(objects))] == objects
    assert reader.event(len(objects)) == {}
