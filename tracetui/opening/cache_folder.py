"""The folder with the cache of read traces: one file per trace, the least recently used go first.

Only the user may enter it. Everything is opened relative to the open folder and no link is followed, so that nobody
can put another file in between. A file that is being written has a lock and another name; one without its lock was
left by a process that was killed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import stat
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from tracetui.files import absolute_path, is_url, user_cache_folder
from tracetui.reading.remote_files import remote_version

SIZE_VARIABLE = "TRACETUI_CACHE_SIZE"
"""The variable of the environment with the maximum size of the cache, such as `20GB`; 0 for none at all."""
MAX_CACHE_BYTES = 10 << 30
"""Maximum size of the cache where the variable does not say another."""
MIN_FREE_BYTES = 10**9
"""Minimum space that is left on the disk."""
MAX_WRITING_SECONDS = 24 * 60 * 60.0
"""Seconds after which nobody is still writing a file, where the file system does not tell."""
_PART = ".part"
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class CacheKind(NamedTuple):
    """A kind of entries, each with a folder of its own in the cache."""

    folder: str
    """Name of the folder."""
    suffix: str
    """End of the names of its files."""
    max_bytes: int
    """Maximum size of all files, where the environment does not say less."""


TRACES = CacheKind("traces", ".trace", MAX_CACHE_BYTES)
SUMMARIES = CacheKind("ranks", ".summary", 2 << 30)
DIGESTS = CacheKind("history", ".digest", 256 << 20)


class CacheEntry(NamedTuple):
    """A file of the cache."""

    name: str
    bytes: int
    used: float
    """Time of the last reading or writing, in seconds since the epoch."""


def cache_path(kind: CacheKind = TRACES) -> Path:
    """The path of a folder of the cache, which may not exist."""
    return user_cache_folder() / kind.folder


def max_cache_bytes(kind: CacheKind = TRACES) -> int:
    """Maximum size of a folder: for traces what the variable of the environment says, for others at most that."""
    match = _SIZE.fullmatch(os.environ.get(SIZE_VARIABLE, "").strip())
    if match is None:
        return kind.max_bytes
    base = 1024 if match[3] else 1000
    size = int(float(match[1]) * base ** (1 + "kmgt".index(match[2].lower()) if match[2] else 0))
    return size if kind == TRACES else min(size, kind.max_bytes)


def misread_size() -> str:
    """A sentence about a size in the environment that is none; empty where there is none, or a size."""
    text = os.environ.get(SIZE_VARIABLE, "").strip()
    return f"{SIZE_VARIABLE}={text} is no size such as 20GB" if text and not _SIZE.fullmatch(text) else ""


def is_wanted() -> bool:
    """True where there is to be a cache."""
    return max_cache_bytes() > 0


class CacheFolder:
    """The open folder of the cache."""

    def __init__(self, folder: int, kind: CacheKind = TRACES) -> None:
        self._folder = folder
        self._kind = kind

    def open(self, name: str) -> int | None:
        """A file of the cache to read from; None where there is none that is the user's own."""
        try:
            file = os.open(name, _OPEN, dir_fd=self._folder)
        except OSError:
            return None
        if stat.S_ISREG(os.fstat(file).st_mode) and _is_own(os.fstat(file)):
            return file
        os.close(file)
        return None

    def touch(self, name: str) -> None:
        """Note that a file of the cache was used now."""
        with suppress(OSError):
            os.utime(name, dir_fd=self._folder, follow_symlinks=False)

    def remove(self, name: str) -> None:
        """Remove a file; who has it mapped keeps it."""
        with suppress(OSError):
            os.unlink(name, dir_fd=self._folder)

    def write(self, name: str, size: int, write: Callable[[int], None]) -> bool:
        """Put a file of about `size` bytes in place of what has the name: all of it, or nothing is changed.

        `write` writes to the open file, and what it raises is raised. Room is made for it first. The answer is whether
        it was written: not where it does not fit into the cache, or the disk.
        Raises: OSError.
        """
        if not self._make_room(size, {name}):
            return False
        written = self._write(name, write)
        self.shrink(max_cache_bytes(self._kind) - written, {name})
        return True

    def write_small(self, files: Mapping[str, bytes]) -> bool:
        """Put files in place of what has their names, each whole; room is made for all of them at once.

        The answer is whether they were written, as with `write`. Raises: OSError.
        """
        if not self._make_room(sum(map(len, files.values())), set(files)):
            return False
        for name, data in files.items():
            self._write(name, partial(_write_all, data))
        return True

    def _make_room(self, size: int, spared: Collection[str]) -> bool:
        """Remove what was used least recently until there is room for `size` bytes; whether there is.

        Raises: OSError.
        """
        self.remove_left_over()
        limit = max_cache_bytes(self._kind)
        if size > limit:
            return False
        self.shrink(limit - size, spared)
        status = os.fstatvfs(self._folder)
        return status.f_bavail * status.f_frsize >= size + MIN_FREE_BYTES

    def _write(self, name: str, write: Callable[[int], None]) -> int:
        """Write a file and give it its name; its size in bytes. Raises: OSError."""
        part, file = self._new_part(name)
        try:
            write(file)
            os.rename(part, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
            return os.fstat(file).st_size
        except BaseException:
            self.remove(part)
            raise
        finally:
            os.close(file)

    def _new_part(self, name: str) -> tuple[str, int]:
        """The name of a new, open file, and its descriptor; it is locked until it is closed, if only by a kill.

        Raises: OSError.
        """
        while True:
            part = f".{name}.{os.urandom(8).hex()}{_PART}"
            file = os.open(part, _NEW, 0o600, dir_fd=self._folder)
            # Between the two calls another process may have taken it for one that was left behind.
            if _is_locked(file) is not False and os.fstat(file).st_nlink:
                return part, file
            os.close(file)

    def entries(self) -> list[CacheEntry]:
        """The files of the cache, the least recently used first."""
        entries = []
        for name in self._names(self._kind.suffix):
            with suppress(OSError):
                status = os.stat(name, dir_fd=self._folder, follow_symlinks=False)
                entries.append(CacheEntry(name, status.st_size, status.st_mtime))
        return sorted(entries, key=lambda entry: (entry.used, entry.name))

    def shrink(self, limit: int, spared: Collection[str] = ()) -> None:
        """Remove files, the least recently used first, until all but the spared ones have at most `limit` bytes."""
        entries = [entry for entry in self.entries() if entry.name not in spared]
        total = sum(entry.bytes for entry in entries)
        for entry in entries:
            if total <= limit:
                return
            self.remove(entry.name)
            total -= entry.bytes

    def remove_left_over(self) -> None:
        """Remove what was written by processes that did not come to the end of it."""
        for name in self._names(_PART):
            file = self.open(name)
            if file is None:
                continue
            # Where there are no locks, what nobody has written to for a day is nobody's.
            is_old = time.time() - os.fstat(file).st_mtime > MAX_WRITING_SECONDS
            is_left = _is_locked(file)
            if is_left or (is_left is None and is_old):
                self.remove(name)
            os.close(file)

    def _names(self, suffix: str) -> list[str]:
        with suppress(OSError), os.scandir(self._folder) as files:
            return [entry.name for entry in files if entry.name.endswith(suffix)]
        return []


@contextmanager
def cache_folder(create: bool = False, kind: CacheKind = TRACES) -> Iterator[CacheFolder | None]:
    """A folder of the cache; None where there is none, it cannot be made, or others can write to it."""
    folder = _opened(create, cache_path(kind))
    try:
        yield None if folder is None else CacheFolder(folder, kind)
    finally:
        if folder is not None:
            os.close(folder)


def why_unusable(kind: CacheKind = TRACES) -> str:
    """A sentence about why nothing can be kept in a folder of the cache; empty where something can.

    The folder is made when it is not there yet.
    """
    path = cache_path(kind)
    folder = _opened(True, path)
    if folder is None:
        try:
            # What keeps it from being made or opened.
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC))
        except (OSError, RuntimeError) as error:
            return f"{path} cannot be made or opened: {getattr(error, 'strerror', None) or error}"
        return f"{path} is not yours alone: others own it or may write to it"
    try:
        if not os.access(".", os.W_OK | os.X_OK, dir_fd=folder):
            return f"{path} cannot be written to"
        status = os.fstatvfs(folder)
        if status.f_bavail * status.f_frsize < MIN_FREE_BYTES:
            return f"the disk of {path} has less than 1 GB left"
        return ""
    finally:
        os.close(folder)


def is_others(kind: CacheKind = TRACES) -> bool:
    """True where there is something in the place of the folder that is not used, as it is not the user's alone."""
    with suppress(OSError, RuntimeError):
        status = os.lstat(cache_path(kind))
        return not (stat.S_ISDIR(status.st_mode) and _is_own(status))
    return False


def entry_name(path: str) -> str:
    """The name of the cache file of a trace."""
    return hashlib.blake2b(os.fsencode(absolute_path(path)), digest_size=16).hexdigest() + TRACES.suffix


def _write_all(data: bytes, file: int) -> None:
    """Write all of the data. Raises: OSError."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def _opened(create: bool, path: Path) -> int | None:
    try:
        if create:
            path.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                path.mkdir(mode=0o700)
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (OSError, RuntimeError):
        # Without a home, or where nothing may be written, there is no cache.
        return None
    if _is_own(os.fstat(folder)):
        return folder
    os.close(folder)
    return None


def _is_locked(file: int) -> bool | None:
    """Lock an open file for as long as it is open: whether nobody else has, None where the file system has no locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _is_own(status: os.stat_result) -> bool:
    """True where something is the user's, and nobody else may write to it."""
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


# Which file a reading is of, and which release read it: what must be the same for the reading to be shown again.

END_BYTES = 1 << 16
"""Bytes at the beginning and at the end of a trace that are compared."""
_READING = (
    *("__init__.py", "panes.py", "model", "reading", "opening", "kernel_names", "linking", "operators", "memory"),
    *("devices", "idle", "serving", "tables", "health", "findings", "overview", "drawing/timeline"),
)
"""The code on which a reading rests, and what is kept with it; the first file has the version."""
_SOURCES = (".py", ".c")


class TraceIdentity(NamedTuple):
    """The identity of a file: differs from that of every other file, and of the same file before a change."""

    path: str
    bytes: int
    modified_ns: int
    changed_ns: int
    """Time of the last change of the file, its name or its rights; unlike `modified_ns` no program can set it."""
    inode: int
    ends: str
    """A digest of the first and last bytes of the file; of a URL, of its size and of what the server says beside it."""


def identity_of(path: str) -> TraceIdentity | None:
    """The identity of a file; None for standard input, pipes, what cannot be read, and URLs of unknown version."""
    if path == "-":
        return None
    if is_url(path):
        version = remote_version(path)
        digest = hashlib.blake2b(version.encode(), digest_size=16).hexdigest()
        return TraceIdentity(path, 0, 0, 0, 0, digest) if version else None
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


def is_read_by(module: str) -> bool:
    """True where a module of the package is among the code on which a reading rests."""
    return f"{module.removeprefix('tracetui.').replace('.', '/')}.py".startswith(_READING)


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
