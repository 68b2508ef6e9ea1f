"""Which file a reading is of, and which release read it: what must be the same for the reading to be shown again."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from tracetui.reading.remote_files import each_result, remote_version
from tracetui.urls import is_url

END_BYTES = 1 << 16
"""Bytes at the beginning and at the end of a trace that are compared."""
_READING = (
    *(
        "__init__.py",
        "model",
        "reading",
        "opening",
        "kernel_names",
        "linking",
        "operators",
        "memory",
        "devices",
        "idle",
    ),
    *("serving", "tables", "health", "findings", "drawing/timeline"),
)
"""The code on which a reading rests, and what is kept with it; the first file has the version."""
_SOURCES = (".py", ".c")


class TraceIdentity(NamedTuple):
    """What tells a file from every other and from what it was before."""

    path: str
    bytes: int
    modified_ns: int
    changed_ns: int
    """When the file, its name or its rights changed; unlike `modified_ns` no program can set it."""
    inode: int
    ends: str
    """A digest of the first and last bytes of the file; of a URL, of its size and of what the server says beside it."""


def identity_of(path: str) -> TraceIdentity | None:
    """The identity of a file; None for standard input, pipes, what cannot be read, and URLs of unknown version."""
    if path == "-":
        return None
    if is_url(path):
        return _remote_identity(path)
    try:
        # Without O_NONBLOCK a pipe that has no writer would be waited for.
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            return None
        ends = os.pread(file, END_BYTES, 0) + os.pread(file, END_BYTES, max(status.st_size - END_BYTES, 0))
        digest = hashlib.blake2b(ends, digest_size=16).hexdigest()
        place = os.path.abspath(path)
        return TraceIdentity(place, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, digest)
    except OSError:
        return None
    finally:
        os.close(file)


def identities_of(paths: Sequence[str]) -> Iterator[TraceIdentity | None]:
    """The identity of each file; URLs are asked for at the same time."""
    return each_result(identity_of, paths)


def _remote_identity(url: str) -> TraceIdentity | None:
    version = remote_version(url)
    if not version:
        return None
    digest = hashlib.blake2b(version.encode(), digest_size=16).hexdigest()
    return TraceIdentity(url, 0, 0, 0, 0, digest)


@cache
def reading_version() -> str:
    """A digest of the code that reads, so that no other release shows what this one read; empty without its sources."""
    package = os.path.dirname(os.path.dirname(__file__))
    sources = [os.path.join(package, name) for name in _READING if name.endswith(_SOURCES)]
    for name in _READING:
        for folder, _, files in os.walk(os.path.join(package, name)):
            sources += [os.path.join(folder, file) for file in files if file.endswith(_SOURCES)]
    digest = hashlib.blake2b(digest_size=16)
    try:
        for source in sorted(sources):
            with open(source, "rb", buffering=0) as file:
                digest.update(os.fsencode(source[len(package) :]) + b"\0" + file.read())
    except OSError:
        return ""
    return digest.hexdigest()
