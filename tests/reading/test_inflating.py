"""zlib-ng in the stead of zlib: the same bytes, and the same words of damage."""

from __future__ import annotations

import builtins
import gzip
import json
import os
import sys
import zlib
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.same_columns import needs_scanner
from tracetui.cli.main import reading_paths
from tracetui.reading import unpacking
from tracetui.reading.unpacking import GzipReader, InflateLibrary, inflate_library, python_zlib

RANDOM = Random(7)
TEXT = json.dumps([{"name": f"aten::mm {RANDOM.getrandbits(30):x}", "ts": 10 * row} for row in range(1500)]).encode()
STREAMS = [gzip.compress(TEXT, level, mtime=0) for level in (0, 1, 6, 9)]
STREAMS.append(zlib.compressobj(6, zlib.DEFLATED, unpacking.GZIP, 9, zlib.Z_FIXED).compress(TEXT))
"""Stored, deflated in three ways, and cut off with the codes that stand in no stream."""
needs_zlib_ng = pytest.mark.skipif(inflate_library().name != "zlib-ng", reason="needs zlib-ng: the extra `fast`")


class Packed:
    """Some packed bytes, counted."""

    def __init__(self, data: bytes) -> None:
        self.consumed = 0
        self._data = data

    def readinto(self, buffer: memoryview) -> int:
        part = self._data[self.consumed : self.consumed + len(buffer)]
        buffer[: len(part)] = part
        self.consumed += len(part)
        return len(part)


def inflated(packed: bytes, library: InflateLibrary, size: int = 5000) -> tuple[bytes, str | None, str]:
    """What a library makes of a file, and what is said of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unpacking, "inflate_library", lambda: library)
        reader, text = GzipReader(Packed(packed)), bytearray()
        buffer = memoryview(bytearray(size))
        while count := reader.readinto(buffer):
            text += buffer[:count]
        return bytes(text), reader.damage, reader.remark


@pytest.fixture
def without_zlib_ng(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    inflate_library.cache_clear()
    monkeypatch.setitem(sys.modules, "zlib_ng", None)
    yield
    inflate_library.cache_clear()


@needs_zlib_ng
@pytest.mark.parametrize("packed", STREAMS[:4], ids=["stored", "fast", "usual", "best"])
def test_the_same_text(packed: bytes) -> None:
    more = packed + bytes(100) + gzip.compress(b"more") + b"garbage"
    told = inflated(more, inflate_library())
    assert told == inflated(more, python_zlib())
    assert told[:2] == (TEXT + b"more", None)
    assert "garbage" not in told[2] and "stands something else" in told[2]


@needs_zlib_ng
@pytest.mark.parametrize(
    ("at", "what", "said"),
    [
        (-6, b"?", "incorrect data check"),
        (-1, b"?", "incorrect length check"),
        (2, b"?", "unknown compression method"),
        (3, b"\xff", "unknown header flags set"),
        (10, b"\xff", "invalid block type"),
    ],
)
def test_the_same_words_of_damage(at: int, what: bytes, said: str) -> None:
    packed = bytearray(STREAMS[2])
    packed[at] = what[0]
    _, damage, _ = told = inflated(bytes(packed), inflate_library())
    assert told == inflated(bytes(packed), python_zlib())
    assert damage is not None and said in damage


@needs_zlib_ng
@given(st.sampled_from(STREAMS), st.integers(0, 1 << 30), st.sampled_from([977, 5000, 1 << 20]))
def test_the_same_of_what_is_damaged_anyhow(packed: bytes, seed: int, size: int) -> None:
    random, damaged = Random(seed), bytearray(packed)
    for _ in range(random.randint(1, 3)):
        at = random.randrange(random.choice([150, len(damaged)]))
        damaged[at : at + random.randint(0, 9)] = random.randbytes(random.randint(0, 9))
    said = inflated(bytes(damaged), inflate_library(), size)
    assert said == inflated(bytes(damaged), python_zlib(), size)


@needs_zlib_ng
def test_the_version_says_that_zlib_ng_is_in_use() -> None:
    assert reading_paths().splitlines()[-1] == "gzip is inflated by zlib-ng."


@pytest.mark.usefixtures("without_zlib_ng")
def test_the_version_says_why_zlib_is_in_use() -> None:
    assert inflated(STREAMS[1], inflate_library()) == (TEXT, None, "")
    assert reading_paths().splitlines()[-1] == (
        "gzip is inflated by zlib, as zlib-ng is not installed (the extra `fast`)."
    )


def test_a_library_that_cannot_be_loaded_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where it was built for another system."""
    real = builtins.__import__

    def broken(name: str, *rest, **more):
        if name == "zlib_ng":
            raise ImportError("zlib_ng.so: wrong ELF class", name="zlib_ng.zlib_ng")
        return real(name, *rest, **more)

    inflate_library.cache_clear()
    monkeypatch.setattr(builtins, "__import__", broken)
    try:
        assert inflate_library().why_not_fast == "zlib-ng cannot be loaded"
    finally:
        inflate_library.cache_clear()


@needs_scanner
@pytest.mark.parametrize(
    ("cores", "said"),
    [
        (1, "in one thread, as this process may use one core."),
        (3, "in up to 3 threads: one for each core, at most 8."),
        (64, "in up to 8 threads: one for each core, at most 8."),
    ],
)
def test_the_version_says_how_many_threads_read(monkeypatch: pytest.MonkeyPatch, cores: int, said: str) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)), raising=False)
    assert reading_paths().splitlines()[0] == f"Events are read by the C scanner {said}"
