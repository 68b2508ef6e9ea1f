"""Whether bytes are a Perfetto trace, by their content.

A trace is a sequence of frames, each the byte 0x0A, a length and a packet. That byte is a newline as well, with which
JSON may begin: what looks like JSON is Perfetto only where frames in a row hold whole packets.
"""

from __future__ import annotations

import re

from tracetui.reading.perfetto.packet_kinds import ENVELOPE_FIELDS, PACKET_KINDS

FRAME = 0x0A
MAX_PACKET = 1 << 28
"""Bytes that a packet is shorter than: protobuf's writers allow no longer message."""
MAX_VARINT = 10
"""Bytes of a varint."""
PROBED_FRAMES = 3
"""Frames that are looked at."""
PROBED_BYTES = 1 << 16
"""Bytes at the beginning of a file with which recognition is sure enough."""
MAX_FIELD = 1 << 29
_JSON = re.compile(rb'\s*[{\[][\s"{}\[\]\d]')
_WIRE_SIZES = {1: 8, 5: 4}


def is_perfetto(start: bytes, is_whole: bool) -> bool:
    """Whether a file that begins so is a Perfetto trace; `is_whole` where this is all of it."""
    if start[:1] != bytes([FRAME]) or not start.strip():
        return False
    complete, is_cut = frames_in_a_row(start)
    if is_cut is None:
        return False
    if _JSON.match(start):
        return complete >= PROBED_FRAMES or (is_whole and not is_cut)
    return complete > 0 or (is_cut and _begins_like_a_packet(start))


def _begins_like_a_packet(start: bytes) -> bool:
    """Whether the first field of the first packet is one that packets have."""
    _, body = read_varint(start, 1, len(start))
    tag, _ = read_varint(start, max(body, 1), len(start))
    return body > 0 and (tag >> 3 in PACKET_KINDS or tag >> 3 in ENVELOPE_FIELDS)


def frames_in_a_row(start: bytes, index: int = 0) -> tuple[int, bool | None]:
    """How many frames are whole from an index on, and whether the bytes end within the next; None where one is none.

    No more than `PROBED_FRAMES` are looked at.
    """
    complete = 0
    while index < len(start) and complete < PROBED_FRAMES:
        if start[index] != FRAME:
            return complete, None
        length, body = read_varint(start, index + 1, len(start))
        if body < 0:
            return complete, True if len(start) - index <= MAX_VARINT else None
        if length >= MAX_PACKET:
            return complete, None
        end = body + length
        walked = _is_packet(start, body, min(end, len(start)), is_cut=end > len(start))
        if not walked:
            return complete, None
        if end > len(start):
            return complete, True
        complete += 1
        index = end
    return complete, False


def _is_packet(start: bytes, index: int, end: int, is_cut: bool) -> bool:
    """Whether fields of known wire types fill a packet to its end, or as far as it was read."""
    while index < end:
        tag, index = read_varint(start, index, end)
        if index < 0:
            return is_cut
        wire = tag & 7
        if not 0 < tag >> 3 < MAX_FIELD or wire not in (0, 1, 2, 5):
            return False
        if wire == 0:
            _, index = read_varint(start, index, end)
            if index < 0:
                return is_cut
        elif wire == 2:
            length, index = read_varint(start, index, end)
            if index < 0:
                return is_cut
            if length >= MAX_PACKET:
                return False
            index += length
        else:
            index += _WIRE_SIZES[wire]
    return is_cut or index == end


def read_varint(data: bytes, index: int, end: int) -> tuple[int, int]:
    """The varint at an index and the index behind it, -1 where it does not end before `end` or is too long."""
    value = shift = 0
    for at in range(index, min(end, index + MAX_VARINT)):
        byte = data[at]
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at + 1
        shift += 7
    return 0, -1
