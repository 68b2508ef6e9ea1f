"""The tables of a memory snapshot as text: JSON, CSV, Markdown, plain columns, lines to be heard, or for a terminal."""

from __future__ import annotations

from typing import TypedDict

from rich.console import Group, RenderableType
from rich.text import Text

from tracetui.drawing.text import export
from tracetui.drawing.text.envelope import json_text
from tracetui.drawing.text.readable_table import remarks, telling
from tracetui.model.memory_snapshot import MemorySnapshot
from tracetui.model.quantities import size
from tracetui.model.table import ColumnSpec, Table
from tracetui.snapshots.history import DeviceHistory
from tracetui.text import clean

_UNITS = tuple(
    ColumnSpec(name, name, unit=unit)
    for name, unit in (
        ("size_bytes", "bytes"),
        ("at_us", "us"),
        ("active_bytes", "bytes"),
        ("pending_bytes", "bytes"),
        ("reserved_bytes", "bytes"),
    )
)
"""Units of the fields beside the rows."""


class SnapshotFacts(TypedDict):
    """The identity of a snapshot."""

    file: str
    format: str
    size_bytes: int
    devices: int
    events: int
    allocator_settings: str


class SnapshotDocument(export.TableDocument):
    """A pane of a memory snapshot at a moment: `event` events have happened, and the bytes are those of then."""

    snapshot: SnapshotFacts
    pane: str
    by: str | None
    device: int
    event: int
    at_us: int | None
    active_bytes: int
    pending_bytes: int
    reserved_bytes: int


class SnapshotsDocument(export.TableDocument):
    """Holders of the peaks of two memory snapshots, as JSON."""

    a: SnapshotFacts
    b: SnapshotFacts


def snapshot_facts(snapshot: MemorySnapshot) -> SnapshotFacts:
    """The identity of a snapshot in an export."""
    return {
        "file": clean(snapshot.label),
        "format": "memory snapshot",
        "size_bytes": snapshot.size_bytes,
        "devices": snapshot.device_count,
        "events": len(snapshot.events),
        "allocator_settings": clean(snapshot.settings),
    }


def title(snapshot: MemorySnapshot, words: str) -> str:
    """A pane and its file in a line."""
    return f"{words} of {clean(snapshot.label)} ({size(snapshot.size_bytes)})"


def as_json(history: DeviceHistory, table: Table, pane: str, by: str | None, moment: int) -> str:
    """The rows with what they are about: device, moment, and the heights of the curves there."""
    document: SnapshotDocument = {
        "snapshot": snapshot_facts(history.snapshot),
        "pane": pane,
        "by": by,
        "device": history.device,
        "event": moment,
        "at_us": history.at_us(moment),
        "active_bytes": int(history.active[moment]),
        "pending_bytes": int(history.pending[moment]),
        "reserved_bytes": int(history.reserved[moment]),
        **export.table_document(table),
    }
    return json_text("snapshot", document, [*(column.spec for column in table.columns), *_UNITS])


def difference_json(a: MemorySnapshot, b: MemorySnapshot, table: Table) -> str:
    """Differences between two snapshots."""
    document: SnapshotsDocument = {
        "a": snapshot_facts(a),
        "b": snapshot_facts(b),
        **export.table_document(table),
    }
    return json_text("compare-snapshots", document, [*(column.spec for column in table.columns), _UNITS[0]])


def as_markdown(snapshot: MemorySnapshot, table: Table, words: str, is_chosen: bool = False) -> str:
    """The same as Markdown, under a line that says what it is."""
    columns = list(table.columns) if is_chosen else telling(table)
    parts = [f"**{export.sentence(title(snapshot, words))}**", export.sentence(clean(table.headline))]
    parts += ["\n".join(export.lines(table, columns)) if len(table) else "No rows."]
    parts += [export.sentence(clean(text)) for text in remarks(table, columns)]
    return "\n\n".join(filter(None, parts)) + "\n"


def as_plain(snapshot: MemorySnapshot, table: Table, words: str, width: int | None, is_chosen: bool = False) -> str:
    """The same in plain columns."""
    return f"{title(snapshot, words)}\n{export.plain_rows(table, 'memory', width, is_chosen)}"


def as_blocks(snapshot: MemorySnapshot, table: Table, words: str) -> str:
    """One `name: value` per line, to be heard."""
    headline = f"headline: {clean(table.headline)}" if table.headline else ""
    lines = (title(snapshot, words), headline, *export.blocks(table), clean(table.note))
    return "\n".join(filter(None, lines)) + "\n"


def as_rich(snapshot: MemorySnapshot, table: Table, words: str, width: int) -> RenderableType:
    """The same for a terminal of `width` columns."""
    return Group(Text(title(snapshot, words), style="dim"), export.rich_rows(table, "memory", width))
