"""What a trace is packed in, whole and damaged: what stands before the damage is read, and the sentences are true."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random

import pytest
import zstandard

from tracetui.errors import TraceError
from tracetui.model.trace import Trace
from tracetui.reading import source, unpacking
from tracetui.reading.load import load
from tracetui.reading.unpacking import python_zlib

RANDOM = Random(1)
EVENTS = [
    {"ph": "X", "cat": "cpu_op", "name": f"{RANDOM.getrandbits(64):x}", "pid": 1, "tid": 1, "ts": 10 * n, "dur": 5}
    for n in range(20_000)
]
WHOLE = json.dumps(EVENTS).encode()
Read = Callable[[bytes], Trace]


@pytest.fixture(params=["alone", "beside"])
def read(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Read:
    """A function from the bytes of a file to its trace, unwrapped by the reader or by a thread beside it."""
    if request.param == "beside":
        monkeypatch.setattr(source, "ALONE", 0)
    else:
        # The other is inflated by zlib-ng where that is installed.
        monkeypatch.setattr(unpacking, "inflate_library", python_zlib)

    def opened(data: bytes) -> Trace:
        path = tmp_path / "packed"
        path.write_bytes(data)
        return load(str(path))

    return opened


@cache
def archived(method: int) -> bytes:
    """A zip archive of the whole trace."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        archive.writestr("trace.json", WHOLE)
    return packed.getvalue()


def zipped(method: int, *changes: tuple[bytes, int, int]) -> bytes:
    """A zip archive; behind the last of a signature, bytes at an offset are changed."""
    data = bytearray(archived(method))
    for signature, offset, value in changes:
        data[data.rindex(signature) + offset] = value
    return bytes(data)


LOCAL, CENTRAL = b"PK\3\4", b"PK\1\2"
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.full
def test_every_method_of_zip_is_read(read: Read, method: int) -> None:
    assert read(zipped(method)).events == len(EVENTS)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.full
def test_a_damaged_member_of_a_zip_is_told(read: Read, method: int) -> None:
    data = bytearray(zipped(method))
    middle = len(data) // 2
    data[middle : middle + 64] = b"\xff" * 64
    try:
        trace = read(bytes(data))
    except TraceError as error:
        assert "trace.json in the zip archive is damaged" in str(error)
        assert "empty" not in str(error)
        assert method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    else:
        assert trace.events > 5000
        assert "trace.json in the zip archive is damaged" in trace.quality.notes[0]
        assert trace.quality.is_part


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (((LOCAL, 6, 1), (CENTRAL, 8, 1)), "encrypted zip archive"),
        (((LOCAL, 8, 77), (CENTRAL, 10, 77)), "compression method is not supported"),
        (((LOCAL, 4, 99), (CENTRAL, 6, 99)), "zip file version 9.9"),
        (((CENTRAL, 0, 0),), "damaged zip archive"),
    ],
)
@pytest.mark.parametrize("method", METHODS)
def test_a_zip_that_cannot_be_read_is_refused_in_a_sentence(
    read: Read, method: int, changes: tuple[tuple[bytes, int, int], ...], said: str
) -> None:
    with pytest.raises(TraceError, match=said):
        read(zipped(method, *changes))


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
def test_a_stream_that_is_cut_gives_what_was_whole(read: Read, pack: Callable[[bytes], bytes]) -> None:
    data = pack(WHOLE)
    trace = read(data[: len(data) * 3 // 4])
    assert 8_000 < trace.events < len(EVENTS)
    assert trace.quality.truncated_at is not None and "cut off" in trace.quality.notes[0]
    assert "stops before its end" in trace.quality.damage


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
@pytest.mark.parametrize("length", [6, 10, 15])
@pytest.mark.full
def test_a_few_bytes_of_a_stream_are_not_called_empty(read: Read, pack: Callable[[bytes], bytes], length: int) -> None:
    with pytest.raises(TraceError, match=r"holds nothing that can be read: the .* stream stops before its end"):
        read(pack(WHOLE)[:length])


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
@pytest.mark.full
def test_what_stands_behind_a_stream_cuts_nothing_off(read: Read, pack: Callable[[bytes], bytes]) -> None:
    data = pack(WHOLE)
    trace = read(data + b"garbage")
    assert trace.events == len(EVENTS)
    assert (trace.quality.damage, trace.quality.truncated_at) == ("", None)
    assert f"from byte {len(data):,} of the packed file on, stands something else" in trace.quality.notes[0]


def test_zeros_behind_a_gzip_stream_are_nothing(read: Read) -> None:
    assert read(gzip.compress(WHOLE) + bytes(1000)).quality.notes == []


def test_a_window_beyond_what_is_unpacked_here_is_told(read: Read) -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=28, write_content_size=0)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    with pytest.raises(TraceError, match="unpack it with `zstd -d --long=31` first"):
        read(packer.compress(WHOLE) + packer.flush())


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty: the program"),
        (b" \n ", "is empty but for blanks"),
        (gzip.compress(b"", mtime=0), "its gzip content is empty"),
        (b"[]", "holds no event"),
        (b"[{}]", "holds no event"),
        (b"[null, {}]", "holds no event"),
        (b'[{"ph": "M", "name": "x"}]', "holds 1 metadata event and none that is timed"),
        (b'[{"ph": "X", "name": "x"}]', r"no timed event \(1 event in all\)"),
        (b'[{"ph": "X"}, {"ph": "X"}]', r"no timed event \(2 events in all\)"),
    ],
)
def test_a_file_without_events_is_told_apart(read: Read, data: bytes, said: str) -> None:
    with pytest.raises(TraceError, match=said):
        read(data)


@pytest.mark.parametrize("pack", [bz2.compress, lzma.compress], ids=["bz2", "xz"])
def test_what_is_packed_otherwise_is_refused(read: Read, pack: Callable[[bytes], bytes]) -> None:
    with pytest.raises(TraceError, match="is not a trace: it starts with"):
        read(pack(WHOLE[:10_000]))
