"""Finds and calls the library that the sources in C are compiled to.

It is called through ctypes, so that one build serves every Python; the GIL is free during a call. Where the library
is absent, was compiled of another source, or `TRACETUI_PURE` is set, events are read in Python.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

from tracetui.model.native_library import PURE, is_pure, native_library

NAME = "_scanner.so"
"""File of the library, beside this one."""
SOURCE = "scanner.c"
"""File that it is compiled of, with the headers beside it."""


@cache
def scanner_library() -> ctypes.CDLL | None:
    """The library, None where events are read in Python."""
    return None if why_pure() else _loaded()


@cache
def why_pure() -> str:
    """Why the library is not used, empty where it is."""
    if is_pure():
        return f"{PURE} is set"
    path = _path()
    if not path.exists():
        return "tracetui was installed without a C compiler"
    return "" if _loaded() is not None else f"{path.name} cannot be loaded, or is not of the sources beside it"


def _path() -> Path:
    return Path(__file__).with_name(NAME)


@cache
def _loaded() -> ctypes.CDLL | None:
    library = native_library(_path(), _path().with_name(SOURCE))
    if library is None:
        return None
    library.tracetui_scanner.restype = ctypes.c_void_p
    library.tracetui_scanner.argtypes = [ctypes.c_uint64]
    library.tracetui_free.restype = None
    library.tracetui_free.argtypes = [ctypes.c_void_p]
    library.tracetui_scan.restype = ctypes.c_int32
    library.tracetui_scan.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64, ctypes.c_void_p]
    library.tracetui_scan_all.restype = ctypes.c_int64
    library.tracetui_scan_all.argtypes = [
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_int64,
        ctypes.c_void_p,
    ]
    library.tracetui_count.restype = ctypes.c_int64
    library.tracetui_count.argtypes = [ctypes.c_void_p, ctypes.c_int32]
    library.tracetui_texts.restype = ctypes.c_void_p
    library.tracetui_texts.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p]
    return library
