"""Packets in packets: unpacked as far as they can be read, and no further than any writer packs."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import pytest
import zstandard

from tracetui.reading.perfetto import packets
from tracetui.reading.perfetto.packets import MAX_UNPACKED, ZLIB_PACKETS, ZSTD_PACKETS, PacketUnpacker

TEXT = bytes(range(256)) * 400
PACK: dict[int, Callable[[bytes], bytes]] = {
    ZLIB_PACKETS: zlib.compress,
    ZSTD_PACKETS: zstandard.ZstdCompressor().compress,
}
both = pytest.mark.parametrize("field", [ZLIB_PACKETS, ZSTD_PACKETS])


@both
def test_what_was_packed_comes_back(field):
    unpacker = PacketUnpacker()
    assert unpacker.unpack(field, PACK[field](TEXT)) == TEXT
    assert (unpacker.damaged, unpacker.bomb) == (0, "")


@both
def test_a_stream_that_is_cut_off_gives_its_beginning(field):
    unpacker = PacketUnpacker()
    out = unpacker.unpack(field, PACK[field](TEXT)[:-10])
    assert TEXT.startswith(out)
    assert unpacker.damaged == 1


@both
@pytest.mark.parametrize("packed", [b"", b"x", b"\x78\x9c\xff\xff\xff", b"\x28\xb5\x2f\xfd\xff\xff"])
def test_what_is_no_stream_gives_nothing(field, packed):
    unpacker = PacketUnpacker()
    assert unpacker.unpack(field, packed) == b""
    assert unpacker.damaged == 1


@both
def test_a_bomb_is_refused_and_no_other_is_tried(field):
    unpacker = PacketUnpacker()
    assert unpacker.unpack(field, PACK[field](bytes(MAX_UNPACKED + 1))) == b""
    assert f"unpacks to more than {MAX_UNPACKED:,}" in unpacker.bomb
    assert unpacker.unpack(field, PACK[field](TEXT)) == b""
    assert unpacker.damaged == 2


@both
def test_many_small_bombs_are_one(field, monkeypatch):
    monkeypatch.setattr(packets, "HARMLESS", 1 << 22)
    unpacker, packed = PacketUnpacker(), PACK[field](bytes(1 << 19))
    for _ in range(20):
        unpacker.unpack(field, packed)
    assert unpacker.bomb


def test_many_large_packets_of_a_real_ratio_are_none(monkeypatch):
    monkeypatch.setattr(packets, "HARMLESS", 1 << 16)
    unpacker, packed = PacketUnpacker(), zlib.compress(TEXT)
    for _ in range(20):
        assert unpacker.unpack(ZLIB_PACKETS, packed) == TEXT
    assert not unpacker.bomb
