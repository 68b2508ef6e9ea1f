"""What must hold of any bytes that are opened as a trace.

Opening ends with a trace or with a `TraceError`, never with another exception. Of valid JSON no event is lost, and
where the blocks are cut decides nothing. What `tracetui repair` writes is valid JSON with the same slices. Every pane
of what was opened can be made and printed.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from tracetui.drawing.text import export, snapshot_text
from tracetui.errors import TraceError, UsageError
from tracetui.model.trace import Trace
from tracetui.opening.capture_files import joined
from tracetui.panes import PANES
from tracetui.reading import load as loading
from tracetui.reading.blocks import BlockReader
from tracetui.reading.nsight.database import RowStore
from tracetui.reading.perfetto import load as loading_packets
from tracetui.reading.perfetto.packets import PacketReader
from tracetui.reading.request_logs import is_request_log, read_requests
from tracetui.reading.snapshot import load_snapshot
from tracetui.snapshots.history import history_of
from tracetui.snapshots.snapshot_tables import PANES as SNAPSHOT_PANES
from tracetui.snapshots.snapshot_tables import pane_table
from tracetui.writing.formats import is_protobuf, part_of, repair_of
from tracetui.writing.selection import Wanted

SMALL = 64
"""Bytes of a block, so that a short input is cut in many places."""

CONTROL = re.compile("[\\x00-\\x09\\x0b-\\x1f]")
"""Control characters but for the end of a line."""


class Broken(AssertionError):
    """A property does not hold."""


@contextlib.contextmanager
def opened(data: bytes, block: int | None = None) -> Iterator[Trace | None]:
    """The trace in some bytes while their file is there, None where they are refused; blocks may be made small."""
    handle, path = tempfile.mkstemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    try:
        with open(handle, "wb") as file:
            file.write(data)
        yield _read(path, block)
    finally:
        Path(path).unlink()


def _read(path: str, block: int | None) -> Trace | None:
    try:
        if block is None:
            return loading.load(path)
        with (
            mock.patch.object(loading, "BlockReader", partial(BlockReader, block=block)),
            mock.patch.object(loading_packets, "PacketReader", partial(PacketReader, block=block)),
        ):
            return loading.load(path)
    except TraceError as error:
        if not str(error) or "\n" in str(error):
            raise Broken(f"no sentence: {str(error)!r}") from error
        return None


def check_opening(data: bytes) -> None:
    """Open the bytes in one block and in many, and compare with what a plain reading finds.

    Raises: Broken.
    """
    with opened(data) as whole, opened(data, SMALL) as pieces:
        check_readings(data, whole, pieces)
        if whole is not None:
            check_repaired(whole)


def check_repaired(trace: Trace) -> None:
    """Written anew it is plain JSON, or protobuf as it was; it needs no repair and has the same slices.

    Raises: Broken.
    """
    if isinstance(trace.store, RowStore):
        # No export is written.
        return
    written = io.BytesIO()
    repair_of(trace).write(written)
    data = written.getvalue()
    if is_protobuf(trace):
        check_packets_again(trace, data)
        return
    json.loads(data.decode())
    with opened(data) as again:
        if again is None:
            raise Broken("what was repaired does not open")
        compare(trace, again)
        if again.quality.dropped > trace.quality.dropped or again.quality.repaired or again.quality.truncated_at:
            raise Broken(f"what was repaired needs repair: {again.quality}")


def check_packets_again(trace: Trace, data: bytes) -> None:
    """What was written of a protobuf file opens as the file did, where every packet of that could be read.

    Raises: Broken.
    """
    with opened(data) as again:
        if trace.quality.unreadable or trace.quality.is_part:
            # Packets on which others rest may have been among those that are left out.
            return
        if again is None:
            raise Broken("what was repaired does not open")
        compare(trace, again)
        if again.quality.dropped > trace.quality.dropped or again.quality.truncated_at is not None:
            raise Broken(f"what was repaired needs repair: {again.quality}")


def check_packets(data: bytes) -> None:
    """Open a protobuf file in one block and in many, read its arguments, write it anew, and cut it.

    Raises: Broken.
    """
    with opened(data) as whole, opened(data, SMALL) as pieces:
        if whole is None:
            return
        if is_protobuf(whole) and pieces is not None and not whole.quality.unreadable:
            compare(whole, pieces)
        for row in range(len(whole.slices)):
            whole.event_of(row)
        check_repaired(whole)
        if is_protobuf(whole):
            check_cut(whole)


def check_exports(data: bytes) -> None:
    """Open an export of Nsight Systems, read its arguments, and make every pane of it.

    Raises: Broken.
    """
    with opened(data) as trace:
        if trace is None:
            return
        for row in range(len(trace.slices)):
            with contextlib.suppress(TraceError):
                trace.event_of(row)
        for pane in PANES.values():
            if pane.build(trace).failures:
                raise Broken(pane.name)


def check_logs(data: bytes) -> None:
    """Open a log of torch.compile, read its arguments, join it with itself, and make every pane of it.

    Raises: Broken.
    """
    with opened(data) as trace, opened(data, SMALL) as pieces:
        if trace is None:
            return
        if pieces is not None:
            compare(trace, pieces)
        both = joined(trace, trace)
        for row in range(len(both.slices)):
            both.event_of(row)
        for each in (trace, both):
            for pane in PANES.values():
                if pane.build(each).failures:
                    raise Broken(pane.name)


def check_requests(data: bytes) -> None:
    """Read requests of a server, or be told why not; their pane can be made beside a trace, and printed.

    Raises: Broken.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "server.log"
        path.write_bytes(data)
        is_request_log(data)
        try:
            log = read_requests(str(path))
        except TraceError as error:
            if not str(error) or "\n" in str(error):
                raise Broken(f"no sentence: {str(error)!r}") from error
            return
    with opened(SERVED) as trace:
        assert trace is not None
        both = replace(trace, request_log=log, cache={})
        table = PANES["requests"].build(both)
        text = export.render(table, both, "requests", "table") + export.render(table, both, "requests", "json")
        if table.failures or len(table) != len(log.requests) or CONTROL.search(text):
            raise Broken(f"{len(table)} rows of {len(log.requests)} requests: {table.failures}")


SERVED = json.dumps(
    [{"ph": "X", "cat": "user_annotation", "name": "step[DECODE bs=2]", "pid": 1, "tid": 1, "ts": ts, "dur": 5}
     for ts in (1790000000000000.0, 1790000000500000.0)]
).encode()  # fmt: skip
"""A trace with steps of a server, by the time of day."""


def check_cut(trace: Trace) -> None:
    """A part of a protobuf file opens, and has no slice that the file has not.

    Raises: Broken.
    """
    written = io.BytesIO()
    try:
        part_of(trace, Wanted(window=(None, (trace.window[0] + trace.window[1]) / 2))).write(written)
    except UsageError:
        return
    with opened(written.getvalue()) as part:
        if part is not None and len(part.slices) > len(trace.slices):
            raise Broken(f"{len(part.slices)} slices in a part of {len(trace.slices)}")


def check_readings(data: bytes, whole: Trace | None, pieces: Trace | None) -> None:
    """Nothing is lost of what a plain reading finds, and both readings agree.

    Raises: Broken.
    """
    expected = plain_events(data)
    if expected is None:
        return
    if whole is None or pieces is None:
        raise Broken(f"refused, though {expected} events are plain JSON")
    if whole.events != expected:
        raise Broken(f"{whole.events} events of {expected}")
    compare(whole, pieces)


def compare(one: Trace, other: Trace) -> None:
    """Two readings of the same bytes have the same slices.

    Raises: Broken.
    """
    if one.events != other.events:
        raise Broken(f"{one.events} events in one block, {other.events} in many")
    for column in ("start", "dur", "kind", "parent", "self_time", "correlation"):
        if not np.array_equal(getattr(one.slices, column), getattr(other.slices, column)):
            raise Broken(f"where blocks are cut decides {column}")


def plain_events(data: bytes) -> int | None:
    """How many timed events a strict reader sees; None where it sees no trace, or none worth comparing."""
    whole = _decoded(data)
    events = whole.get("traceEvents") if isinstance(whole, dict) else whole
    if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
        return None
    timed = [event for event in events if event.get("ph") == "X" and _is_plain_time(event)]
    return len(events) if timed else None


def _decoded(data: bytes) -> Any:
    """The value of JSON text, or the list of the values in its lines; None for anything else."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    for parts in ([text], text.splitlines()):
        with contextlib.suppress(ValueError, RecursionError):
            values = [json.loads(part) for part in parts]
            if len(parts) == 1:
                return values[0]
            return values if all(isinstance(value, dict) and "ph" in value for value in values) else None
    return None


def _is_plain_time(event: dict[str, Any]) -> bool:
    times = event.get("ts"), event.get("dur", 0)
    return all(isinstance(time, int | float) and abs(time) < 1e12 for time in times)


def check_panes(data: bytes) -> None:
    """Make every pane of what can be opened, grouped in every way, and print it in every form.

    Raises: Broken.
    """
    with opened(data) as trace:
        if trace is not None:
            check_every_pane(trace)


def check_snapshots(data: bytes) -> None:
    """Read a memory snapshot, or be told why not; what is held adds up to the curve, and every table can be made.

    Raises: Broken.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "snapshot.pickle"
        path.write_bytes(data)
        try:
            snapshot = load_snapshot(str(path))
        except TraceError as error:
            if not str(error).endswith("."):
                raise Broken(f"no sentence: {error}") from error
            return
    for device in range(min(snapshot.device_count, 4)):
        found = history_of(snapshot, device)
        for name in SNAPSHOT_PANES:
            table = pane_table(found, name)
            if (
                name in ("peak", "live")
                and table["bytes"].values.sum() != found.active[SNAPSHOT_PANES[name].moment(found)]
            ):
                raise Broken(f"{name} does not add up to the curve")
            text = snapshot_text.as_plain(snapshot, table, name, 100) + export.csv_rows(table)
            if CONTROL.search(text):
                raise Broken(f"{name} prints control characters")


def check_every_pane(trace: Trace) -> None:
    """Make and print every pane.

    Raises: Broken.
    """
    for pane in PANES.values():
        for by in (None, *pane.groups):
            try:
                table = pane.build(trace, by=by)
            except UsageError as error:
                raise Broken(f"{pane.name} by {by}: {error}") from error
            if table.failures:
                raise Broken(f"{pane.name} by {by}: {table.failures}")
            for form in ("json", "csv", "md", "table"):
                text = export.render(table, trace, pane.name, form)
                if form == "table" and CONTROL.search(text):
                    raise Broken(f"{pane.name} prints control characters")
