"""Summaries of ranks in the user's cache, each under the digest of its file's content, with an index of paths.

A file whose identity is that in the index is not read at all; another one is read for its digest, which may be known
of a copy. What is damaged, or was written by another release, is removed.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tracetui.opening.cache_folder import SUMMARIES, CacheEntry, CacheFolder, cache_folder, max_cache_bytes
from tracetui.opening.identity import TraceIdentity, identities_of, reading_version
from tracetui.ranks.rank_summary import SUMMARY_VERSION, RankSummary
from tracetui.reading.remote_files import remote_version
from tracetui.urls import absolute_path, is_url

INDEX = "index.paths"
"""Name of the file that says which content the paths have; it counts as no summary."""
MAX_INDEXED_PATHS = 20_000
"""Maximum paths in the index, those that were read last."""
MAX_INDEX_BYTES = 64 << 20
"""Maximum size of an index that is read."""
_HEAD = struct.Struct("<8s16s16s")
_MAGIC = b"ttsumm1\n"


class KeptSummary(NamedTuple):
    """A summary as it is written to the cache."""

    identity: TraceIdentity
    digest: str
    """Of the file's content, in hexadecimal."""
    data: bytes


def is_cache_used() -> bool:
    """Whether summaries are kept: not where the user wants no cache, or nothing tells which release reads."""
    return max_cache_bytes(SUMMARIES) > 0 and bool(reading_version())


def content_digest(path: str) -> str:
    """The digest of a file's content; of a URL that of its version, so that it need not be read twice.

    Raises: OSError.
    """
    if is_url(path):
        return hashlib.blake2b(f"{path} {remote_version(path)}".encode(), digest_size=16).hexdigest()
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def known_summaries(paths: Sequence[str]) -> dict[str, RankSummary]:
    """The summaries of those files that are as they were when they were read."""
    known: dict[str, RankSummary] = {}
    with cache_folder(kind=SUMMARIES) as folder:
        index = _index(folder)
        asked = paths if folder is not None and index else ()
        for path, identity in zip(asked, identities_of(asked), strict=True):
            entry = None if identity is None else index.get(identity.path)
            if identity is None or entry is None or entry[:-1] != list(identity[1:]):
                continue
            found = _summary(folder, entry[-1])
            if found is not None:
                known[path] = found[1]
    return known


def stored_summary(digest: str) -> bytes | None:
    """What the cache has of a content, None for nothing."""
    with cache_folder(kind=SUMMARIES) as folder:
        found = _summary(folder, digest)
    return None if found is None else found[0]


def keep_summaries(read: Sequence[KeptSummary]) -> bool:
    """Write summaries of files that have been read to the cache, and their paths to the index; whether it was done."""
    files = {each.digest + SUMMARIES.suffix: _packed(each.data) for each in read}
    try:
        with cache_folder(create=True, kind=SUMMARIES) as folder:
            if folder is None or not folder.write_small(files):
                return False
            index = _index(folder)
            for each in read:
                index.pop(each.identity.path, None)
                index[each.identity.path] = [*each.identity[1:], each.digest]
            return folder.write_small({INDEX: _index_text(index, folder.entries())})
    except OSError:
        # A full disk, a folder that nobody may write to: the files are read again.
        return False


def clear_summaries(paths: Sequence[str] = ()) -> tuple[int, int]:
    """Remove the summaries of some traces, or all; returns how many that were, and their bytes."""
    with cache_folder(kind=SUMMARIES) as folder:
        if folder is None:
            return 0, 0
        index = _index(folder)
        wanted = {absolute_path(path) for path in paths}
        names = {str(entry[-1]) + SUMMARIES.suffix for path, entry in index.items() if path in wanted}
        gone = [entry for entry in folder.entries() if not paths or entry.name in names]
        for each in gone:
            folder.remove(each.name)
        if not paths:
            folder.remove(INDEX)
        folder.remove_left_over()
    return len(gone), sum(each.bytes for each in gone)


def summaries_kept() -> tuple[int, int]:
    """How many summaries the cache has, and their bytes."""
    with cache_folder(kind=SUMMARIES) as folder:
        entries = [] if folder is None else folder.entries()
    return len(entries), sum(each.bytes for each in entries)


def _summary(folder: CacheFolder | None, digest: object) -> tuple[bytes, RankSummary] | None:
    """The summary of a content, as bytes and read; one that cannot be used is removed."""
    if folder is None or not isinstance(digest, str):
        return None
    name = os.path.basename(digest) + SUMMARIES.suffix
    packed = _content(folder, name)
    if packed is None:
        return None
    with suppress(ValueError):
        data = _unpacked(packed)
        summary = RankSummary.from_bytes(data)
        folder.touch(name)
        return data, summary
    folder.remove(name)
    return None


def _content(folder: CacheFolder, name: str, limit: int | None = None) -> bytes | None:
    """What a file of the cache holds; None where there is none, or the disk gives nothing."""
    number = folder.open(name)
    if number is None:
        return None
    with os.fdopen(number, "rb") as file, suppress(OSError):
        return file.read() if limit is None or os.fstat(number).st_size <= limit else None
    return None


def _version() -> bytes:
    return hashlib.blake2b(f"{SUMMARY_VERSION} {reading_version()}".encode(), digest_size=16).digest()


def _packed(data: bytes) -> bytes:
    return _HEAD.pack(_MAGIC, _version(), hashlib.blake2b(data, digest_size=16).digest()) + data


def _unpacked(packed: bytes) -> bytes:
    """The data that were packed.

    Raises: ValueError for others, damaged ones and those of another release.
    """
    data = packed[_HEAD.size :]
    if packed[: _HEAD.size] != _HEAD.pack(_MAGIC, _version(), hashlib.blake2b(data, digest_size=16).digest()):
        raise ValueError("it is not what was written, or of another release")
    return data


def _index(folder: CacheFolder | None) -> dict[str, list[object]]:
    """Identity and digest by path; empty where there is none that can be used."""
    packed = None if folder is None else _content(folder, INDEX, MAX_INDEX_BYTES)
    if packed is None:
        return {}
    try:
        found = json.loads(_unpacked(packed))
    except ValueError:
        return {}
    return {path: entry for path, entry in found.items() if isinstance(entry, list) and entry}


def _index_text(index: Mapping[str, list[object]], entries: Iterable[CacheEntry]) -> bytes:
    """The index without contents that are gone."""
    there = {entry.name for entry in entries}
    kept = [(path, entry) for path, entry in index.items() if f"{entry[-1]}{SUMMARIES.suffix}" in there]
    return _packed(json.dumps(dict(kept[-MAX_INDEXED_PATHS:]), separators=(",", ":")).encode())
