"""A file is cut into the same events whatever its layout and the size of the blocks."""

from __future__ import annotations

import json
from contextlib import closing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.blocks import decoded_blocks, objects_of
from tracetui.reading import blocks, json_repair
from tracetui.reading.blocks import BlockReader
from tracetui.reading.source import open_source

TRAPS = [{"a": [{"b": 1}, {"c": 2}]}, {"text": '},{"name":"x"'}, {"list": [[], [1, 2], "]"]}, {}]
EVENT = st.builds(
    lambda name, ts, trap: {"ph": "X", "name": name, "ts": ts, "dur": 1, "args": trap},
    st.text(max_size=12),
    st.integers(0, 1000),
    st.sampled_from(TRAPS),
)
LAYOUTS = [
    {"separators": (",", ":")},
    {"separators": (", ", ": ")},
    {"indent": 2},
    {"indent": "\t"},
]


def read(path, block=blocks.BLOCK):
    """Names and times of all events, and what was found beside them."""
    with closing(open_source(str(path))) as source:
        reader = BlockReader(source, block)
        return [
            (event.name, event.ts) for piece in decoded_blocks(reader) for event in objects_of(piece)
        ], reader.layout


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(EVENT, min_size=1, max_size=30),
    st.sampled_from(LAYOUTS),
    st.sampled_from(["object", "array", "metadata last"]),
    st.sampled_from([64, 200, 1 << 20]),
)
def test_events_do_not_depend_on_layout_or_block_size(tmp_path, events, layout, form, block):
    content = {
        "object": {"schemaVersion": 1, "note": "[]{}", "traceEvents": events},
        "array": events,
        "metadata last": {"traceEvents": events, "list": [{"a": 1}, {"b": [2]}], "traceName": "x"},
    }[form]
    path = tmp_path / "t.json"
    path.write_text(json.dumps(content, **layout))
    found, layout = read(path, block)
    assert found == [(event["name"], event["ts"]) for event in events]
    assert layout.truncated_at is None
    assert (layout.dropped, layout.repaired) == (0, 0)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(EVENT, min_size=1, max_size=12), st.sampled_from(LAYOUTS), st.sampled_from([64, 1 << 20]), st.data())
def test_a_file_cut_anywhere_gives_every_whole_event(tmp_path, events, layout, block, data):
    text = json.dumps({"traceEvents": events}, ensure_ascii=True, **layout).encode()
    start = text.index(b"[") + 1
    cut = data.draw(st.integers(start, len(text)))
    path = tmp_path / "t.json"
    path.write_bytes(text[:cut])
    whole = [json.dumps(event) for event in events]
    found, layout = read(path, block)
    decoder = json.JSONDecoder()
    expected, place = [], start
    while True:
        rest = text[:cut].decode()[place:]
        stripped = rest.lstrip(" \n\t,")
        try:
            event, end = decoder.raw_decode(stripped)
        except ValueError:
            break
        expected.append((event["name"], event["ts"]))
        place += len(rest) - len(stripped) + end
    assert found == expected
    assert len(whole) >= len(found)
    if len(found) < len(events):
        assert layout.truncated_at is not None


def test_an_event_larger_than_a_block(tmp_path):
    path = tmp_path / "t.json"
    big = {"ph": "X", "name": "big", "ts": 1, "args": {"list": [{"n": n} for n in range(5000)]}}
    path.write_text(json.dumps([big, {"ph": "X", "name": "small", "ts": 2}]))
    found, layout = read(path, block=256)
    assert found == [("big", 1), ("small", 2)]
    assert layout.dropped == 0


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(EVENT, min_size=2, max_size=30),
    st.sampled_from(["[\n", "[", ""]),
    st.sampled_from(["\n", "\r\n", "\n\n", ",\n", ""]),
    st.sampled_from(["]", "\n]", "\n", ""]),
    st.sampled_from([64, 200, 1 << 20]),
)
@pytest.mark.full
def test_events_on_lines_of_their_own_do_not_depend_on_block_size(tmp_path, events, begin, between, end, block):
    path = tmp_path / "t.json"
    path.write_text(begin + between.join(map(json.dumps, events)) + (end if begin else "\n"), newline="")
    found, layout = read(path, block)
    assert found == [(event["name"], event["ts"]) for event in events]
    assert (layout.dropped, layout.repaired) == (0, 0)


@pytest.mark.parametrize("begin", ["[\n", ""])
def test_lines_without_commas_are_cut_into_blocks(tmp_path, begin):
    path = tmp_path / "t.json"
    event = {"ph": "X", "name": "a}{", "ts": 1, "args": {"deep": [{"b": {}}]}}
    path.write_text(begin + "\n".join(json.dumps(event | {"dur": number}) for number in range(2_000)))
    with closing(open_source(str(path))) as source:
        lengths = [len(block.data) for block in BlockReader(source, 1 << 12)]
    assert len(lengths) > 20 and max(lengths) < 3 * (1 << 12)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**25), 10**25)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["}", "{", "\ud800", "\x01", '"', "\\", "e5", "]", "\u00e9", "1" * 25]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.lists(st.dictionaries(st.sampled_from(["name", "ts", "args", "x"]), VALUES, min_size=1), min_size=1, max_size=6),
    st.booleans(),
)
@pytest.mark.full
def test_whole_lines_are_read_as_one_by_one(events, ascii_only):
    text = "\n".join(json.dumps(event, ensure_ascii=ascii_only) for event in events)
    block = text.encode("utf-8", "replace")
    one_by_one = [piece.item for piece in json_repair.pieces(block) if isinstance(piece, json_repair.Piece)]
    assert repr(json_repair.parse(block).events) == repr([item for item in one_by_one if isinstance(item, dict)])


def test_a_line_that_ends_within_an_event_is_no_place_to_cut(tmp_path):
    path = tmp_path / "t.json"
    event = '{"ph":"X","name":"a","ts":1,"dur":2,"args":{"deep":[{"b":1}\n, {"c":2}]}}'
    path.write_text("[" + event + '{"ph":"X","name":"b","ts":2,"dur":2}' * 40 + "]")
    found, layout = read(path, 200)
    assert [name for name, _ in found] == ["a", *["b"] * 40]
    assert layout.dropped == 0
