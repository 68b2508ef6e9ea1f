"""Reading a trace from the cache where it has been read before, and keeping what was read for the next time.

A trace is kept if it is a whole file on disk of JSON events, large enough that reading it takes a moment. Beside its
columns go the results of analyses that every view asks for, as far as somebody has asked. Nothing here fails: what
cannot be kept is read again, and what was kept and is not right is removed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from importlib import import_module
from threading import Lock
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from tracetui.errors import AnalysisFailed
from tracetui.files import is_url
from tracetui.model.intervals import TimeRange
from tracetui.model.recorded import Arguments, Loss
from tracetui.model.results import kept_of, of_file_results, result_classes
from tracetui.model.trace import (
    ALL_DEVICES,
    Counter,
    Device,
    EventStore,
    Flows,
    Instants,
    Lane,
    LaneKind,
    Quality,
    Slices,
    Trace,
)
from tracetui.opening.cache_file import (
    Array,
    CacheDamaged,
    Classes,
    Encoder,
    NotStorable,
    Tree,
    WritingStopped,
    by_name,
    decode,
    map_cache_file,
    read_cache_header,
    write_cache_file,
)
from tracetui.opening.cache_folder import (
    TraceIdentity,
    cache_folder,
    entry_name,
    identity_of,
    is_read_by,
    is_wanted,
    reading_version,
)
from tracetui.reading.json_repair import Found, Oddity
from tracetui.reading.load_progress import LoadProgress, collector_off
from tracetui.reading.store import Container, Store, StoreParts


def kept_results(trace: Trace) -> dict[Any, Any]:
    """The results that are known by now and declared `on_disk`, of a trace that is shown as it was recorded."""
    if not is_as_recorded(trace):
        return {}
    # Another thread may add to them meanwhile.
    known = list(trace.cache.items())
    return {
        key: result
        for key, result in known
        if (function := kept_of(key))
        and function.on_disk
        # Not of a range of time that the user has drawn.
        and not (isinstance(key, tuple) and any(isinstance(part, TimeRange) for part in key))
        and not isinstance(result, AnalysisFailed)
    }


def is_as_recorded(trace: Trace) -> bool:
    """True where a trace is what the file says and nothing else."""
    return (
        trace.chosen_steps is None
        and not trace.graph_recordings
        and not trace.graph_scopes
        and trace.snapshot is None
        and trace.compile_log is None
        and trace.request_log is None
        and all(device.id != ALL_DEVICES for device in trace.devices)
    )


MIN_TRACE_BYTES = 20 * 10**6
"""Minimum size of a trace that is kept, unpacked; a smaller one is read in the blink of an eye."""
_CLASSES = (
    *(Arguments, Container, Counter, Device, Flows, Found, Instants, Lane, LaneKind, Loss, Oddity, Quality, Slices),
    StoreParts,
)
"""Classes of what a trace is made of; those of results are what their functions return."""
_OWN = {"store", "cache"}
"""Fields of a trace that are not stored as they are."""


class KeptTrace(NamedTuple):
    """A trace in the cache."""

    path: str | None
    """Path of the trace, None for a damaged entry."""
    bytes: int
    """Size of its entry in the cache."""
    used: float
    """Time of the last opening, in seconds since the epoch."""
    is_current: bool
    """True where it is shown again: not where the file has changed or gone, or another release has read it.

    Of a URL only the release is compared.
    """


@dataclass(eq=False)
class _Reading:
    """A trace as it was read, ready to be written."""

    identity: TraceIdentity
    tree: Tree
    arrays: list[Array]
    kept: set[Any]
    """Keys of the results that the cache has already, and of those that cannot be stored."""
    results: dict[Any, Any]
    """The results that came from the cache."""
    is_kept: bool
    """True where the cache has the trace already."""


_readings: WeakKeyDictionary[EventStore, _Reading] = WeakKeyDictionary()
"""Encoded traces by their store of events, which a trace shares with those that are made from it."""
_lock = Lock()


def read_trace(
    path: str,
    progress: Callable[[LoadProgress], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Trace:
    """Read a trace as `load` does, or take it from the cache; `keep_trace` puts it there.

    Raises: NotFound, NotATrace, NoEvents.
    """
    identity = identity_of(path) if is_wanted() and reading_version() else None
    if identity is None:
        return read_file(path, progress, cancelled)
    with collector_off():
        trace = _kept_trace(path, identity)
    if trace is not None:
        if progress is not None:
            progress(LoadProgress(trace.size_bytes, trace.size_bytes, trace.events, "opening"))
        return trace
    trace = read_file(path, progress, cancelled)
    if (
        not trace.quality.partial
        and isinstance(trace.store, Store)
        and trace.store.size >= MIN_TRACE_BYTES
        and identity_of(path) == identity
    ):
        _keep_reading(trace, identity)
    return trace


def read_file(
    path: str, progress: Callable[[LoadProgress], None] | None, cancelled: Callable[[], bool] | None
) -> Trace:
    """Read a trace from its file, as `load` does."""
    # A trace from the cache does not wait for the import of what reads files.
    from tracetui.reading.load import load

    return load(path, progress, cancelled)


def keep_trace(trace: Trace, stopped: Callable[[], bool] = lambda: False) -> bool:
    """Write a trace that was read to the cache, with the results that are known by now; whether that was done.

    `stopped` is asked after every megabyte whether to give up.
    """
    reading = _readings.get(trace.store)
    if reading is None or (reading.is_kept and reading.kept.issuperset(kept_results(trace))):
        return False
    try:
        results = kept_results(trace)
        classes = stored_classes()
        encoder = Encoder(classes, reading.arrays)
        header = {
            "reading": reading_version(),
            "identity": list(reading.identity),
            "trace": reading.tree,
            "known": encoder.tree(list(results)),
            "makers": sorted({function.function.__module__ for key in results if (function := kept_of(key))}),
            "results": encoder.tree(_storable(results, classes)),
        }
        size = sum(array.nbytes for array in encoder.arrays)
        name = entry_name(reading.identity.path)
        with cache_folder(create=True) as folder:
            if folder is None or identity_of(reading.identity.path) != reading.identity:
                return False
            done = folder.write(name, size, lambda file: write_cache_file(file, header, encoder.arrays, stopped))
    except (NotStorable, OSError, ValueError, RecursionError, WritingStopped):
        # A full disk, a folder that nobody may write to, a value that JSON cannot hold: the trace is read again.
        return False
    if done:
        reading.is_kept, reading.kept = True, set(results)
    return done


def add_results(trace: Trace) -> None:
    """Add to an opened trace the results that came with it from the cache, if it is shown as it was recorded."""
    reading = _readings.get(trace.store)
    if reading is not None and is_as_recorded(trace):
        for key, result in reading.results.items():
            trace.cache.setdefault(key, result)


def kept_entries() -> list[KeptTrace]:
    """The entries of the cache, the last used first."""
    entries = []
    with cache_folder() as folder:
        for entry in folder.entries() if folder is not None else ():
            file = folder.open(entry.name) if folder is not None else None
            if file is None:
                continue
            try:
                header = read_cache_header(file)
                path = str(header["identity"][0])
                # A list does not wait for servers: what a URL leads to is asked when it is opened.
                is_current = header["reading"] == reading_version() and (
                    is_url(path) or header["identity"] == list(identity_of(path) or ())
                )
            except (CacheDamaged, OSError, TypeError, KeyError, IndexError):
                path, is_current = None, False
            finally:
                os.close(file)
            entries.append(KeptTrace(path, entry.bytes, entry.used, is_current))
    return entries[::-1]


def clear_cache(paths: Sequence[str] = ()) -> tuple[int, int]:
    """Remove what the cache has of some traces, or all of it; returns how many files that were, and their bytes."""
    names = {entry_name(path) for path in paths}
    with cache_folder() as folder:
        if folder is None:
            return 0, 0
        gone = [entry for entry in folder.entries() if not names or entry.name in names]
        for entry in gone:
            folder.remove(entry.name)
        folder.remove_left_over()
    return len(gone), sum(entry.bytes for entry in gone)


def _keep_reading(trace: Trace, identity: TraceIdentity) -> None:
    """Encode a trace as it was read, before anything is added to it that is not of the file."""
    if not isinstance(trace.store, Store):
        return
    encoder = Encoder(by_name(_CLASSES))
    parts = {field.name: getattr(trace, field.name) for field in fields(Trace) if field.name not in _OWN}
    try:
        tree = encoder.tree({**parts, "store": trace.store.parts()})
    except (NotStorable, ValueError, RecursionError):
        return
    with _lock:
        _readings[trace.store] = _Reading(identity, tree, encoder.arrays, set(), {}, False)


def _storable(results: dict[Any, Any], classes: Classes) -> dict[Any, Any]:
    """The results that can be stored."""
    stored = {}
    for key, result in results.items():
        with suppress(NotStorable):
            Encoder(classes).tree(result)
            stored[key] = result
    return stored


def _kept_trace(path: str, identity: TraceIdentity) -> Trace | None:
    """The trace as the cache has it; None where it has none of the file as it is now."""
    name = entry_name(path)
    with cache_folder() as folder:
        file = None if folder is None else folder.open(name)
        if folder is None or file is None:
            return None
        try:
            trace = _mapped(file, path, identity)
        except OSError:
            # There is no memory to map it, or the disk gives nothing: that says nothing about the file.
            return None
        finally:
            os.close(file)
        if trace is None:
            folder.remove(name)
        else:
            folder.touch(name)
    return trace


def _mapped(file: int, path: str, identity: TraceIdentity) -> Trace | None:
    """The trace in a cache file; None where it is of another reading, or damaged.

    Raises: OSError.
    """
    try:
        content = map_cache_file(file)
        header, arrays = content.header, content.arrays
        if header["reading"] != reading_version() or header["identity"] != list(identity):
            return None
        # Import the modules that made results, which then say of which classes these are.
        # Raises: ValueError for a module that has no part in a reading; ImportError.
        for name in header["makers"]:
            if not is_read_by(name):
                raise ValueError(f"{name} makes no results that are kept")
            import_module(name)
        classes = stored_classes()
        parts: dict[str, Any] = decode(header["trace"], arrays, classes)
        store = Store.of_parts(parts.pop("store"), identity.path)
        results: dict[Any, Any] = decode(header["results"], arrays, classes)
        known = set(decode(header["known"], arrays, classes))
        trace = Trace(**parts, store=store, cache=of_file_results(results))
    except (CacheDamaged, ValueError, TypeError, KeyError, IndexError, AttributeError, ImportError, RecursionError):
        return None
    if identity_of(path) != identity:
        return None
    with _lock:
        _readings[store] = _Reading(identity, header["trace"], arrays, known, results, True)
    return trace


def stored_classes() -> Classes:
    """The classes of what is in a cache file, by name: those of traces, and of the results of imported modules."""
    return by_name((*_CLASSES, *result_classes()))
