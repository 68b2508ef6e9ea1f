"""The library that inflates gzip and deflated zip: zlib-ng where it is installed, else the zlib of Python.

Both stop at the same byte of a damaged stream and say the same, as one is a fork of the other.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Protocol, Self

GZIP, RAW = 31, -15
"""What `wbits` is of a gzip member, and of a deflated stream without anything around it."""


class Inflater(Protocol):
    """Inflates one stream."""

    @property
    def eof(self) -> bool:
        """Whether the stream has ended."""
        ...

    @property
    def unconsumed_tail(self) -> bytes:
        """What was not inflated, as there was no room."""
        ...

    @property
    def unused_data(self) -> bytes:
        """What stands behind the stream."""
        ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        """Inflate some bytes to at most `max_length`."""
        ...

    def copy(self) -> Self:
        """Another that goes on from here."""
        ...


@dataclass(frozen=True)
class InflateLibrary:
    """What inflates."""

    name: str
    """`zlib-ng` or `zlib`."""
    why_not_fast: str
    """Why it is the slower one, empty where it is not."""
    error: type[Exception]
    """Raised for damage."""
    inflater: Callable[[int], Inflater]
    """From `wbits` to what inflates one stream."""
    crc32: Callable[[bytes, int], int]
    """The checksum of some bytes, going on from another."""


@cache
def inflate_library() -> InflateLibrary:
    """The faster one of those that are installed."""
    try:
        # 2 ms of import that plain traces do not pay.
        from zlib_ng import zlib_ng
    except ImportError as error:
        reason = "is not installed (the extra `fast`)" if error.name == "zlib_ng" else "cannot be loaded"
        return python_zlib(f"zlib-ng {reason}")
    return InflateLibrary("zlib-ng", "", zlib_ng.error, zlib_ng.decompressobj, zlib_ng.crc32)


def python_zlib(why_not_fast: str = "") -> InflateLibrary:
    """The one that every Python has."""
    return InflateLibrary("zlib", why_not_fast, zlib.error, zlib.decompressobj, zlib.crc32)
