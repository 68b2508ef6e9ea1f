"""Whether two readings of a file are the same, column by column, whatever numbers its texts were given."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np
import pytest

from tracetui.errors import TraceError
from tracetui.model.recorded import Arguments
from tracetui.model.trace import Trace
from tracetui.reading import blocks
from tracetui.reading import load as loading
from tracetui.reading.blocks import BLOCK, BlockReader
from tracetui.reading.load import load
from tracetui.reading.scanner.scanned_events import block_scanner
from tracetui.reading.scanner.scanner import why_pure

needs_scanner = pytest.mark.skipif(bool(why_pure()), reason=f"there is no scanner: {why_pure()}")


@contextlib.contextmanager
def reading(monkeypatch: pytest.MonkeyPatch, scanned: bool, block: int = BLOCK, threads: int = 1) -> Iterator[None]:
    """Files are read with the scanner, or without; in blocks of a size, and with threads however short a file is."""
    with monkeypatch.context() as patch:
        patch.setattr(loading, "block_scanner", block_scanner if scanned else lambda: None)
        patch.setattr(loading, "BlockReader", partial(BlockReader, block=block, threads=threads))
        patch.setattr(blocks, "MIN_CHUNKS", 0)
        yield


def both(path: str, monkeypatch: pytest.MonkeyPatch, block: int = BLOCK, threads: int = 1) -> tuple[Any, Any]:
    """What a file says when it is scanned and when it is read in Python: columns, or the sentence of an error."""
    readings = []
    for scanned in (True, False):
        with reading(monkeypatch, scanned, block, threads):
            try:
                readings.append(columns_of(load(path)))
            except TraceError as error:
                readings.append({"error": str(error)})
    return readings[0], readings[1]


def columns_of(trace: Trace) -> dict[str, Any]:
    """Everything of a trace as lists and texts."""
    columns: dict[str, Any] = {"names": list(trace.names), "categories": list(trace.categories)}
    for part in ("slices", "flows", "instants"):
        table = getattr(trace, part)
        for field in fields(table):
            value = getattr(table, field.name)
            if isinstance(value, np.ndarray):
                columns[f"{part}.{field.name}"] = value.tolist()
    for part in ("op_args", "work_args", "memory_args"):
        columns |= {f"{part}.{name}": values for name, values in _arguments(getattr(trace, part)).items()}
    columns["counters"] = [(repr(each.name), each.time.tolist()) for each in trace.counters]
    for name in ("lanes", "quality", "metadata", "origin_us", "window", "events", "format"):
        columns[name] = repr(getattr(trace, name))
    return columns


def _arguments(table: Arguments) -> dict[str, Any]:
    strings = [*table.strings, None]
    columns: dict[str, Any] = {"event": table.event.tolist()}
    columns |= {name: values.tolist() for name, values in table.numbers.items()}
    return columns | {name: [strings[number] for number in values.tolist()] for name, values in table.texts.items()}
