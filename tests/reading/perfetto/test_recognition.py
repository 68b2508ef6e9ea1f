"""Perfetto or JSON: both may begin with a newline."""

from __future__ import annotations

import pytest

from tests.support.perfetto import writer
from tests.support.perfetto.writer import packet
from tracetui.reading.perfetto.recognition import is_perfetto

CLOCK = packet(writer.snapshot({6: 1, 1: 2}), time=1, sequence=1)
EVENT = packet(writer.event(writer.BEGIN, 7, name="x" * 9), time=5)


def test_a_file_of_one_packet_is_perfetto():
    assert is_perfetto(CLOCK, is_whole=True)


def test_padded_lengths_are_lengths():
    assert is_perfetto(packet(writer.event(1, 7), size=4) * 3, is_whole=True)


@pytest.mark.parametrize("size", range(3, len(CLOCK)))
def test_a_first_packet_that_is_cut_off_is_still_perfetto(size):
    assert is_perfetto(CLOCK[:size], is_whole=True)


@pytest.mark.parametrize(
    "text",
    ['\n{"traceEvents": []}', "\n[\n]", '\n\n  [{"ph": "X"}]', "[1]", '{"a": 1}', '\n{ "a"\n:1}', "\n [[]]", "\n{}"],
)
def test_json_behind_blanks_is_json(text):
    assert not is_perfetto(text.encode(), is_whole=True)


@pytest.mark.parametrize("data", [b"", b"\n", b"\n\n\n", b"\nhello, this is a text\n" * 9, b"PK\3\4", b"\n\xff" * 20])
def test_other_bytes_are_not_perfetto(data):
    assert not is_perfetto(data, is_whole=True)


@pytest.mark.parametrize("length", [ord("{"), ord("[")])
@pytest.mark.parametrize("inner", [writer.data(1, b"y" * 200), writer.data(4, b"z" * 200)])
def test_packets_whose_length_and_first_tag_read_like_json(length, inner):
    # The field 1 has the tag of a newline, 4 that of a quote.
    field = inner[0] >> 3
    body = writer.data(field, b"y" * (length - 2))
    data = writer.data(writer.TRACE_PACKET, body)
    assert data[1] == length
    assert data[2:3] in b'\n"'
    assert is_perfetto(data * 3, is_whole=False)
    assert is_perfetto(data, is_whole=True)
    assert not is_perfetto(data[:-1], is_whole=False), "JSON by its first signs, and no packet is whole"


@pytest.mark.parametrize("wire", [3, 4, 6, 7])
def test_wire_types_that_no_writer_uses_are_none(wire):
    assert not is_perfetto(writer.data(1, bytes([8 << 3 | wire, 1])) * 3, is_whole=True)


def test_a_field_of_number_0_is_none():
    assert not is_perfetto(writer.data(1, b"\x00\x01") * 3, is_whole=True)


def test_a_first_packet_longer_than_any_is_none():
    assert not is_perfetto(b"\n" + writer.varint(1 << 28) + CLOCK, is_whole=False)


def test_a_long_first_packet_is_looked_at_as_far_as_it_was_read():
    long = packet(writer.data(50, b"\x00" * 100_000))
    assert is_perfetto(long[:4096], is_whole=False)


def test_a_field_beyond_its_packet_is_damage():
    assert not is_perfetto(writer.data(1, writer.tag(8, 2) + b"\x7f") * 3, is_whole=True)
