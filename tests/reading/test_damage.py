"""Damage that fuzzing found: each input once made reading crash, or lose events without a word."""

from __future__ import annotations

import gzip
import json
import re
from functools import partial

import numpy as np
import orjson
import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.build import make_trace, op
from tracetui.health.summary import facts
from tracetui.memory.memory_table import memory
from tracetui.model.trace import Trace
from tracetui.reading import file_layout, json_repair, source
from tracetui.reading import load as loading
from tracetui.reading.blocks import BlockReader
from tracetui.reading.load import load

EVENT = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 5.5, "dur": 20}
SMALL = 64
HALVES = [r"\ud83d", r"\uD83D", r"\ude00", r"\uDFff"]
ODD = [*HALVES, "\\\\", r"\u0041", r"\"", r"\n", r"\/", "ud83d", "ude00", "u", "x", "🙂"]
"""What a string of JSON may hold next to halves of characters, and what looks like them."""
LETTERS_OF_ONE = r"\\ud83d\ude00"
"""A backslash, letters, and the second half of a character: no escape of the first half stands before it."""


@pytest.fixture
def read(tmp_path, monkeypatch):
    """A function from bytes, and the size of a block, to a trace."""

    def opened(data: bytes, block: int | None = None) -> Trace:
        if block is not None:
            monkeypatch.setattr(loading, "BlockReader", partial(BlockReader, block=block))
        path = tmp_path / "trace.json"
        path.write_bytes(data)
        return load(str(path))

    return opened


def test_a_line_longer_than_a_block_is_not_lost(read):
    lines = [json.dumps(EVENT | {"args": {"more": "x" * 200}}) for _ in range(5)]
    assert read("\n".join(lines).encode(), SMALL).events == 5


def test_a_gzip_file_with_a_wrong_checksum_gives_all_that_was_inflated(read):
    data = bytearray(gzip.compress(json.dumps([EVENT] * 9).encode()))
    data[-6] ^= 0xFF
    trace = read(bytes(data))
    assert trace.events == 9
    assert "damaged" in trace.quality.notes[0]


def test_a_key_that_is_not_utf8_in_an_event_that_is_read_twice(read):
    metadata = b'{"ph":"M","name":"process_name","p\xbfd":1,"pid":1,"args":{"name":"python"}}'
    trace = read(b"[" + metadata + b"," + json.dumps(EVENT).encode() + b"]")
    assert trace.events == 2
    assert trace.lanes[0].process.startswith("python")


def test_the_name_of_a_field_is_not_utf8_where_events_are_looked_for(read):
    first = b'{"n\xffme":"x","ph":"X","name":"first","pid":1,"tid":1,"ts":1,"dur":1},'
    for start in (b'\xff{"traceEvents":[', b'\xff{"deviceProperties":[{"n\xffme":"x"}],"traceEvents":['):
        trace = read(start + first + json.dumps(EVENT).encode() + b"]}")
        assert trace.events == 2
        assert list(trace.names) == ["first", EVENT["name"]]
        assert "unreadable" in trace.quality.examples[0][1]


def test_half_a_character_in_the_arguments_of_a_damaged_event(read):
    damaged = rb'{"ph":"X","cat":"cpu_op","name":"\ud800 a","pid":1,"tid":1,"ts":1,"dur":N/A,'
    damaged += rb'"args":{"Input type":["\udc00"]}}'
    trace = read(b"[" + damaged + b"," + json.dumps(EVENT).encode() + b"]")
    assert trace.events == 2
    "".join(trace.names).encode()


def test_what_looks_like_the_end_of_an_event_within_one_is_no_array(read):
    broken = b'{["ph": "X", "name": "void gemm<float>(int)", "t},{id": 7},\n  {: 20, "grid": [1, 2, 1], "block": [128, '
    data = b'{"traceEvents": [' + json.dumps(EVENT).encode() + b", " + broken + b"9" * 300
    assert read(data, SMALL).events == 1


def test_a_damaged_event_in_the_middle_of_a_file_is_counted(read):
    events = [json.dumps(EVENT).encode() for _ in range(40)]
    events[20] = events[20].replace(b'"tid": 1', b'"tid": \xb1')
    for block in (SMALL, 300, 1000, 1 << 20):
        trace = read(b"[" + b",".join(events) + b"]", block)
        assert (trace.events, trace.quality.dropped) == (39, 1)


def test_an_allocation_that_names_no_device(read):
    instants = [
        {"ph": "i", "name": "[memory]", "s": "t", "pid": 1, "tid": 1, "ts": 6, "args": {"Addr": 1, "Bytes": 64, **more}}
        for more in ({}, {"Device Type": 1, "Device Id": 0, "Total Allocated": 128, "Total Reserved": 256})
    ]
    table = memory(read(json.dumps([EVENT, *instants]).encode()), by="op")
    assert sorted(table["allocated"].values.tolist()) == [64, 64]


def test_shapes_are_found_without_the_file():
    trace = make_trace([op("aten::mm", 0, 10, args={"Input Dims": [[4, 8], [8, 2]]})])
    assert {fact.key: fact.value for fact in facts(trace)}["recorded_with"] == "record_shapes"


def test_a_name_too_long_to_be_one_is_clipped_with_a_sentence(read):
    trace = read(json.dumps([EVENT, EVENT | {"name": "n" * 10_000_000}, EVENT | {"name": None}]).encode())
    assert max(map(len, trace.names)) < 51_000
    assert "1 name of more than 50,000 characters was clipped." in trace.quality.notes
    assert [trace.name_of(row)[:3] for row in np.argsort(trace.slices.event).tolist()] == ["ate", "nnn", "[No"]


def test_no_name_and_a_name_that_reads_like_it_stay_apart(read):
    names = ["[No name]", None, "aten::add", "aten::sub"]
    trace = read(json.dumps([EVENT | {"name": name} for name in names]).encode())
    found = [trace.name_of(row).strip() for row in np.argsort(trace.slices.event).tolist()]
    assert found == ["[No name]", "[No name]", "aten::add", "aten::sub"]


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
@pytest.mark.full
def test_a_bomb_is_cut_off_with_a_sentence(read, monkeypatch, compress):
    monkeypatch.setattr(source, "HARMLESS", 1 << 22)
    data = compress(json.dumps([EVENT]).encode()[:-1] + b"," + b" " * (1 << 26) + json.dumps(EVENT).encode() + b"]")
    trace = read(data)
    assert trace.events == 1
    assert "as no trace does" in trace.quality.notes[0]


@pytest.mark.parametrize("filler", [b" ", b"\n", b"\n \n", b"} ", b'{"name" ', b'{"name":', b"[", b"\\"], ids=repr)
@pytest.mark.full
def test_reading_damage_takes_time_in_proportion_to_its_length(read, filler):
    """With a pattern that looks back over what it has seen, this would not end."""
    data = b"[" + json.dumps(EVENT).encode() + b', {"name": ' + filler * (1_500_000 // len(filler))
    assert read(data).events == 1


def test_what_follows_a_mended_last_event_is_kept(read):
    damaged = json.dumps(EVENT).replace("20}", "nan}")
    data = f'{{"traceEvents": [{damaged}], "deviceProperties": [{{"id": 0, "name": "H100"}}], "more": [[1]]}}'
    trace = read(data.encode())
    assert [device.name for device in trace.devices] == ["H100"]
    assert trace.metadata["more"] == [[1]]


def test_a_number_out_of_range_in_an_argument(read):
    metadata = b'{"ph":"M","name":"process_name","pid":1,"args":{"name":"python","more":1e999}}'
    wide = json.dumps(EVENT).encode()[:-1] + b',"args":{"Ev Idx":1e999}}'
    trace = read(b"[" + metadata + b"," + wide + b"]")
    assert trace.lanes[0].process.startswith("python")
    assert trace.event_of(0)["args"] == {"Ev Idx": float("inf")}


@example(LETTERS_OF_ONE)
@given(st.lists(st.sampled_from(ODD)).map("".join))
def test_half_a_character_becomes_a_sign_whatever_stands_before_it(inside):
    text = f'"{inside}"'
    found = orjson.loads(json_repair.readable(text.encode()).encode())
    assert found == re.sub("[\ud800-\udfff]", "\ufffd", json.loads(text))


@example(LETTERS_OF_ONE)
@given(st.lists(st.sampled_from([*ODD, r"\q", r"\u12", "\\"])).map("".join))
def test_no_half_of_a_character_comes_out_of_a_damaged_event(inside):
    block = f'[{{"name":"{inside}","ph":"X","dur":nan,"args":{{"a":"{inside}"}}}},{{"ph":"X"}}]'.encode()
    for event in json_repair.parse(block).events:
        orjson.dumps(event)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        (r"C:\\x", r"C:\x"),
        (r"C:\x", r"C:\x"),
        (r"\\\q", r"\\q"),
        (r'a\\"b', r"a\"b"),
        (r"a\"b", 'a"b'),
        ('a"b', 'a"b'),
    ],
)
def test_backslashes_of_a_damaged_event_stay_what_they_are(read, written, name):
    damaged = f'{{"ph":"X","name":"{written}","cat":"cpu_op","pid":1,"tid":1,"ts":1,"dur":nan}}'
    trace = read(f"[{damaged},{json.dumps(EVENT)}]".encode())
    assert trace.events == 2
    assert name in list(trace.names)


def test_damaged_events_that_begin_with_another_key_are_all_kept(read):
    damaged = json.dumps({"tts": 1} | EVENT | {"args": {"a": [{"b": 1}]}}).replace('"dur": 20', '"dur": nan')
    trace = read(f"[{','.join([damaged] * 30)}]".encode())
    assert (trace.events, trace.quality.repaired, trace.quality.dropped) == (30, 30, 0)


def test_a_category_that_is_null(read):
    trace = read(json.dumps([EVENT | {"cat": None, "ph": phase, "id": 1} for phase in "Xisbe"]).encode())
    assert (len(trace.slices), len(trace.instants), len(trace.flows)) == (2, 1, 1)
    assert list(trace.categories) == [""]


def test_a_negative_duration_is_counted_once_where_another_event_is_odd(read):
    trace = read(json.dumps([EVENT | {"dur": -2}, EVENT | {"args": {"correlation": "odd"}}]).encode())
    assert trace.quality.negative == 1


def test_a_number_of_more_digits_than_python_takes(read):
    trace = read(f'[{json.dumps(EVENT)[:-1]},"args":{{"more":{"9" * 5000}}}}}]'.encode())
    assert trace.event_of(0)["args"] == {"more": float("inf")}


def test_a_header_of_damaged_keys_is_gone_over_once(read, monkeypatch):
    lengths = []

    def readable(data: bytes) -> json_repair.Text:
        lengths.append(len(data))
        return json_repair.readable(data)

    monkeypatch.setattr(file_layout, "readable", readable)
    header = b"{" + b'"a":x,' * 1000 + b'"b":{"c":"\\ud800"},'
    trace = read(header + b'"traceEvents":[' + json.dumps(EVENT).encode() + b"]}")
    assert trace.metadata == {"b": {"c": "\ufffd"}}
    assert sum(lengths) < 2 * len(header)
