"""A table as text: JSON, CSV, Markdown, plain columns, or a rich table for a terminal.

Numbers are the same in every form. JSON and CSV carry all columns and full names; what is read by eye leaves out
columns that hold nothing, shortens names, and on a narrow terminal drops columns and says which.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import orjson
from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.text import Text

from tracetui.drawing.format import ABSENT, cell, clean, short_kernel, shorten
from tracetui.model.table import DOUBTFUL, Cell, Column, Table
from tracetui.model.trace import Trace

DECIMALS = 3
"""Of every float that is written: a nanosecond, where the unit is a microsecond."""
NAME_WIDTH = 60
"""Characters of a name in a table."""
PROSE = ("title", "evidence", "advice", "effect", "hint")
"""Columns of whole sentences, which say little when they are cut."""
NARROWEST_NAME = 16
"""Characters to which names shrink before columns are dropped."""
GAP = "  "
"""Between two columns."""
LESS_TELLING = (
    "touches",
    "made_by",
    "since_start",
    "total_reserved",
    "unsized",
    "median_bytes",
    "fingerprint",
    "occupancy_mark",
    "blocks_per_sm",
    "tail_pct",
    "bound_occupancy_pct",
    "roofline_us",
    "peak_tflops",
    "peak_gbps",
    "waves",
    "flops",
    "bytes",
    "shared_bytes",
    "registers",
    "block",
    "grid",
    "correlation",
    "launch_start_us",
    "annotation",
    "thread",
    "device",
    "kind",
    "min_us",
    "median_us",
    "max_us",
    "kineto_occupancy_pct",
    "limiter",
    "stream",
    "family",
    "bound",
    "occupancy_pct",
)
"""Columns that a narrow terminal drops first, in this order; then the rightmost."""


def render(table: Table, trace: Trace, pane_name: str, form: str) -> str:
    """The table as `json`, `csv`, `md` or `table` (plain columns), with a line break at its end.

    Raises: KeyError for another form.
    """
    return _FORMS[form](table, trace, pane_name)


def facts(trace: Trace) -> dict[str, Any]:
    """What identifies a trace in an export: file, format, sizes, devices, and versions of what recorded it."""
    return {
        "file": clean(trace.label),
        "format": trace.format,
        "size_bytes": trace.size_bytes,
        "events": trace.events,
        "duration_us": round((trace.window[1] - trace.window[0]) / 1000, DECIMALS),
        "origin_us": round(trace.origin_us, DECIMALS),
        "devices": [clean(device.name) for device in trace.devices],
        "versions": versions(trace),
        "partial": trace.quality.partial or trace.quality.truncated_at is not None,
    }


def versions(trace: Trace) -> dict[str, str]:
    """Versions that the file names, as people write them: `{"CUDA": "13.0"}`."""
    scales = {"cuda": (1000, 10), "hip": (10_000_000, 100_000)}
    found = {}
    for title, kind, key in (
        ("CUDA", "cuda", "cuda_runtime_version"),
        ("CUDA driver", "cuda", "cuda_driver_version"),
        ("HIP", "hip", "hip_runtime_version"),
    ):
        number = trace.metadata.get(key)
        if isinstance(number, int):
            major, minor = scales[kind]
            found[title] = f"{number // major}.{number % major // minor}"
    recorder = trace.metadata.get("tracetui")
    if isinstance(recorder, Mapping) and isinstance(recorder.get("torch"), str):
        found["PyTorch"] = clean(recorder["torch"])
    return found


def rich_table(table: Table, trace: Trace, pane_name: str, width: int = 120) -> RenderableType:
    """The table for a terminal of `width` columns, with what was left out and the table's note below it."""
    if not len(table):
        return Text(_nothing(table))
    header, lines, remarks = _layout(table, pane_name, width)
    title = Text(f"{pane_name} · {clean(trace.label)}", style="dim")
    body = [Text(line, no_wrap=True, overflow="crop") for line in lines]
    return Group(title, Text(header, style="bold"), *body, *(Text(remark, style="dim") for remark in remarks))


def _json(table: Table, trace: Trace, pane_name: str) -> str:
    names = table.column_names
    values = [_values(column) for column in table.columns]
    document = {
        "trace": facts(trace),
        "pane": pane_name,
        "columns": [{"name": c.name, "unit": c.unit, "help": c.help} for c in table.columns],
        "rows": [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)],
    }
    if table.note:
        document["note"] = table.note
    if table.doubts:
        document["doubts"] = [{"doubt": words, "columns": list(names)} for words, names in table.doubts.items()]
    return orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE).decode()


def _csv(table: Table, trace: Trace, pane_name: str) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table.column_names)
    writer.writerows(zip(*map(_values, table.columns), strict=True))
    return out.getvalue()


def _markdown(table: Table, trace: Trace, pane_name: str) -> str:
    columns = _telling(table)
    cells = [[_literal(text) for text in _cells(column, pane_name)] for column in columns]
    lines = [
        " · ".join([f"**{pane_name}** of {_literal(clean(trace.label))}", *_origin(trace)]),
        "",
        _row(table.titled(column.name) for column in columns),
        _row("---" if column.is_text else "---:" for column in columns),
        *map(_row, zip(*cells, strict=True)),
    ]
    remarks = _remarks(table, columns, [])
    if remarks:
        lines += ["", *map(_literal_prose, remarks)]
    return "\n".join(lines) + "\n"


def _plain(table: Table, trace: Trace, pane_name: str) -> str:
    if not len(table):
        return _nothing(table) + "\n"
    header, lines, remarks = _layout(table, pane_name, None)
    return "\n".join([header, *lines, *([""] if remarks else []), *remarks]) + "\n"


_FORMS: dict[str, Callable[[Table, Trace, str], str]] = {
    "json": _json,
    "csv": _csv,
    "md": _markdown,
    "table": _plain,
}


def _values(column: Column) -> list[Cell]:
    """The column as plain Python objects, None for null, floats rounded."""
    if column.strings is not None:
        used = {int(i): clean(column.strings[int(i)]) for i in np.unique(column.values) if int(i) >= 0}
        return [used.get(i) for i in column.values.tolist()]
    values: list[Cell] = column.values.tolist()
    if column.values.dtype.kind == "f":
        floats = np.asarray(column.values, np.float64)
        values = np.round(floats, DECIMALS).tolist()
        unknown = ~np.isfinite(floats)
    else:
        unknown = column.nulls()
    for row in np.flatnonzero(unknown).tolist():
        values[row] = None
    return values


def _cells(column: Column, pane_name: str) -> list[str]:
    """The column as texts to read, names shortened."""
    if column.strings is None:
        return [cell(column, column.cell(row)) for row in range(len(column))]
    kernels = column.name == "kernel" or (pane_name == "kernels" and column.name == "name")
    shown = {-1: ABSENT}
    for i in np.unique(column.values).tolist():
        if i >= 0:
            text = column.strings[i]
            text = clean(short_kernel(text) if kernels else text)
            shown[i] = text if column.name in PROSE else shorten(text, NAME_WIDTH)
    return [shown[i] for i in column.values.tolist()]


def _telling(table: Table) -> list[Column]:
    """The columns without those that hold nothing, and without long names beside short ones."""
    columns = [column for column in table.columns if not len(table) or not column.nulls().all()]
    if any(column.name == "short_name" for column in columns):
        columns = [column for column in columns if column.name != "name"]
    return columns


def _layout(table: Table, pane_name: str, width: int | None) -> tuple[str, list[str], list[str]]:
    """Header, lines and remarks of aligned columns, within a width where there is one."""
    columns = _telling(table)
    cells = {column.name: _cells(column, pane_name) for column in columns}
    widths = {name: max(map(cell_len, [table.titled(name), *texts])) for name, texts in cells.items()}
    dropped = [] if width is None else _drop(columns, widths, width)
    kept = [column for column in columns if column not in dropped]
    if width is not None:
        _squeeze(kept, widths, width)
    padded = []
    for column in kept:
        room = widths[column.name]
        texts = [table.titled(column.name), *(shorten(text, room) for text in cells[column.name])]
        padded.append([_pad(text, room, column.is_text) for text in texts])
    header, *lines = [GAP.join(row).rstrip() for row in zip(*padded, strict=True)]
    return header, lines, _remarks(table, columns, dropped)


def _drop(columns: Sequence[Column], widths: Mapping[str, int], width: int) -> list[Column]:
    """The columns that a terminal has no room for even when every name is as short as may be."""
    least = {
        column.name: min(widths[column.name], max(NARROWEST_NAME, len(column.name)))
        if column.is_text
        else widths[column.name]
        for column in columns
    }
    kept, dropped = list(columns), []
    while len(kept) > 2 and _total(least[column.name] for column in kept) > width:
        # The first column says what a row is.
        worst = next((column for name in LESS_TELLING for column in kept[1:] if column.name == name), kept[-1])
        kept.remove(worst)
        dropped.append(worst)
    return dropped


def _squeeze(columns: Sequence[Column], widths: dict[str, int], width: int) -> None:
    """Narrow the widest names, one character at a time, until the columns fit."""
    names = [column.name for column in columns if column.is_text]
    while names and _total(widths[column.name] for column in columns) > width:
        widest = max(names, key=widths.__getitem__)
        if widths[widest] <= len(widest):
            break
        widths[widest] -= 1


def _total(widths: Iterable[int]) -> int:
    parts = list(widths)
    return sum(parts) + len(GAP) * (len(parts) - 1)


def _remarks(table: Table, shown: Sequence[Column], dropped: Sequence[Column]) -> list[str]:
    """What a reader must know below a table: columns that are not there, and the table's own note."""
    seen = {column.name for column in [*shown, *dropped]} | {"name"}
    empty = [column.name for column in table.columns if column.name not in seen]
    remarks = []
    if dropped:
        names = ", ".join(column.name for column in dropped)
        remarks.append(f"Not shown for want of width: {names}.")
    if empty:
        remarks.append(f"Without a value in this trace: {', '.join(empty)}.")
    if table.note:
        remarks.append(clean(table.note))
    if table.doubts:
        doubts = (f"{words}: {', '.join(names) or 'all'}" for words, names in table.doubts.items())
        remarks.append(f"{DOUBTFUL} Doubtful, as health says: {'; '.join(doubts)}.")
    return remarks


def _origin(trace: Trace) -> list[str]:
    """Devices, versions and units in words."""
    counts = Counter(clean(device.name) for device in trace.devices)
    devices = [name if number == 1 else f"{name} x{number}" for name, number in counts.items()]
    named = [f"{title} {number}" for title, number in versions(trace).items()]
    return [*devices, *named, "columns ending in `_us` are microseconds, in `_pct` percent"]


def _nothing(table: Table) -> str:
    return " ".join(["No rows.", *([clean(table.note)] if table.note else [])])


def _row(texts: Iterable[str]) -> str:
    return "| " + " | ".join(texts) + " |"


def _literal(text: str) -> str:
    """Text as a Markdown code span where it would otherwise be read as markup."""
    if not any(letter in text for letter in "|<>*_[]`\\&~"):
        return text
    text = text.replace("`", "'").replace("|", "\\|")
    return f"`{text}`"


def _literal_prose(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "\\<")


def _pad(text: str, width: int, left: bool) -> str:
    space = " " * (width - cell_len(text))
    return text + space if left else space + text
