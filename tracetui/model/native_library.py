"""Loads a library that was compiled of a C file beside it; reading and nesting in Python serve where there is none.

Libraries are called through ctypes, so that one build serves every Python; the GIL is free during a call.
"""

from __future__ import annotations

import ctypes
import os
import zlib
from pathlib import Path

PURE = "TRACETUI_PURE"
"""Variable of the environment that keeps libraries from being used, set to anything but 0 or nothing."""


def is_pure() -> bool:
    """Whether the user asks for Python alone."""
    return os.environ.get(PURE, "") not in ("", "0")


def native_library(path: Path, source: Path) -> ctypes.CDLL | None:
    """The library at a path; None where it is absent, cannot be loaded, or was compiled of another source.

    The headers beside the source belong to it.
    """
    try:
        library = ctypes.CDLL(str(path))
        library.tracetui_source.restype = ctypes.c_uint32
        sources = (source, *sorted(source.parent.glob("*.h")))
        is_current: bool = library.tracetui_source() == zlib.crc32(b"".join(path.read_bytes() for path in sources))
    except (OSError, AttributeError):
        return None
    return library if is_current else None
