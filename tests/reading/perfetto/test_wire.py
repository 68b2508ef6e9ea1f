"""Messages read as columns hold what they hold read one by one; nothing is read beyond the end of a message."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.perfetto import writer as w
from tracetui.reading.perfetto import wire
from tracetui.reading.perfetto.wire import MessageBytes, Schema, frame_packets, read_fields

SCHEMA = Schema(numbers=(1, 2), spans=(3,), repeated=(4,), lists=(5, 3000))
whole = st.integers(0, 2**64 - 1)
short_text = st.binary(max_size=12)
field = st.one_of(
    st.builds(w.number, st.sampled_from([1, 2, 3, 5, 7, 3000, 5000]), whole),
    st.builds(w.fixed, st.sampled_from([1, 2, 5, 7]), whole),
    st.builds(
        lambda number, value: w.tag(number, 5) + value, st.sampled_from([2, 7]), st.binary(min_size=4, max_size=4)
    ),
    st.builds(w.data, st.sampled_from([1, 3, 4, 7, 5000]), short_text, st.integers(0, 5)),
    st.builds(w.packed, st.sampled_from([5, 3000]), st.lists(whole, max_size=5)),
)
message = st.builds(b"".join, st.lists(field, max_size=8))


def laid_out(messages: list[bytes]) -> tuple[MessageBytes, np.ndarray, np.ndarray]:
    """Messages one behind the other, with the spans that they stand at."""
    ends = np.cumsum([len(each) for each in messages], dtype=np.int64)
    starts = ends - np.array([len(each) for each in messages], np.int64)
    return MessageBytes(b"".join(messages)), starts, ends


def one_by_one(data: MessageBytes, start: int, end: int) -> dict:
    """What a schema asks for, by the plainest reading of one message."""
    got: dict = {"damaged": False, 4: [], 5: [], 3000: []}
    try:
        for number, kind, value, behind in wire.fields_of(data.raw, start, end):
            if kind == wire.SPAN and number == 4:
                got[4].append(data.text(value, behind))
            elif kind == wire.SPAN and number == 3:
                got[3] = data.text(value, behind)
            elif kind != wire.SPAN and number in (1, 2):
                got[number] = value
            elif number in (5, 3000) and kind != wire.SPAN:
                got[number].append(value)
            elif number in (5, 3000):
                while value < behind:
                    each, value = wire.varint(data.raw, value)
                    got[number] += [each] if value <= behind else []
    except wire.DamagedMessage:
        got["damaged"] = True
    return got


def check(messages: list[bytes], copies: int) -> None:
    """Read copies of the messages, few of them or as columns, and compare."""
    data, start, end = laid_out(messages * copies)
    fields = read_fields(data, start, end, SCHEMA)
    spans = fields.repeated(4)
    lists = {number: fields.values(number) for number in (5, 3000)}
    for row in range(len(start)):
        expected = one_by_one(data, int(start[row]), int(end[row]))
        assert bool(fields.damaged[row]) == expected["damaged"]
        if expected["damaged"]:
            continue
        for number in (1, 2):
            assert bool(fields.has(number)[row]) == (number in expected)
            assert int(fields.unsigned(number)[row]) == expected.get(number, 0)
        first, last = (int(side[row]) for side in fields.span(3))
        assert (None if first < 0 else data.text(first, last)) == expected.get(3)
        which = np.flatnonzero(spans.row == row)
        assert [data.text(int(spans.start[at]), int(spans.end[at])) for at in which] == expected[4]
        for number, (rows, values) in lists.items():
            assert sorted(values[rows == row].view(np.uint64).tolist()) == sorted(expected[number])


@given(st.lists(message, max_size=6))
def test_messages_as_columns_are_those_read_one_by_one(messages: list[bytes]) -> None:
    check(messages, 1)
    check(messages, wire.FEW // max(len(messages), 1) + 2)


@given(st.lists(st.binary(max_size=24), min_size=1, max_size=6))
def test_any_bytes_are_read_the_same_both_ways(messages: list[bytes]) -> None:
    check(messages, wire.FEW // len(messages) + 2)


@given(st.lists(st.tuples(whole, st.integers(0, 10)), min_size=1, max_size=20))
def test_varints_need_not_be_minimal(numbers: list[tuple[int, int]]) -> None:
    data, start, end = laid_out([w.varint(value, size) for value, size in numbers])
    value, behind = data.varints(start)
    assert value.tolist() == [each for each, _ in numbers]
    assert behind.tolist() == end.tolist()


def test_a_varint_of_eleven_bytes_has_no_end() -> None:
    data = MessageBytes(b"\x80" * 10 + b"\x01" + b"\x80" * 9 + b"\x01")
    assert data.varints(np.array([0, 11]))[1].tolist() == [wire.BEYOND, 21]


@pytest.mark.parametrize("copies", [1, 200])
def test_a_length_beyond_its_message_damages_that_message_alone(copies: int) -> None:
    good, bad = w.data(3, "abc"), w.tag(3, 2) + w.varint(4) + b"abc"
    data, start, end = laid_out([good, bad, good] * copies)
    fields = read_fields(data, start, end, SCHEMA)
    assert fields.damaged.tolist() == [False, True, False] * copies
    assert (fields.span(3)[0] >= 0).tolist() == [True, False, True] * copies


def test_one_message_of_many_fields_among_many_short_ones() -> None:
    long = b"".join(w.data(4, str(number)) for number in range(5000))
    data, start, end = laid_out([w.number(1, 7)] * 200 + [long])
    found = read_fields(data, start, end, SCHEMA).repeated(4)
    assert found.row.tolist() == [200] * 5000
    assert [data.text(int(a), int(b)) for a, b in zip(found.start, found.end, strict=True)][-1] == b"4999"


def test_packets_are_found_as_far_as_they_are_whole() -> None:
    packets = [w.packet(w.data(60, "x" * size), size=4) for size in (3, 200, 70_000)]
    raw = b"".join(packets)
    for cut in (len(raw), len(raw) - 1, len(packets[0]) + 2, len(packets[0]) + 1, 1, 0):
        frames = frame_packets(raw[:cut] + bytes(wire.PADDING), 0, cut)
        ends = np.cumsum([len(each) for each in packets])
        kept = int((ends <= cut).sum())
        assert frames.end.tolist() == ends[:kept].tolist()
        assert frames.behind == ([0, *ends.tolist()][kept])
        assert not frames.is_damaged


@given(st.lists(st.tuples(st.sampled_from([1, 100, 127, 128, 200, 16_383, 16_384, 40_000]), st.integers(0, 10))))
def test_lengths_of_packets_may_be_padded(shapes: list[tuple[int, int]]) -> None:
    contents = [bytes([number % 256]) * size for number, (size, _) in enumerate(shapes)]
    raw = b"".join(w.data(1, content, pad) for content, (_, pad) in zip(contents, shapes, strict=True))
    frames = frame_packets(raw + bytes(wire.PADDING), 0, len(raw))
    assert [raw[a:b] for a, b in zip(frames.start.tolist(), frames.end.tolist(), strict=True)] == contents
    assert frames.behind == len(raw) and not frames.is_damaged


def test_what_is_no_packet_is_where_reading_stops() -> None:
    raw = w.packet(time=5) + b"\x12\x00" + w.packet(time=6)
    frames = frame_packets(raw + bytes(wire.PADDING), 0, len(raw))
    assert frames.is_damaged and frames.behind == len(w.packet(time=5)) and len(frames.start) == 1
