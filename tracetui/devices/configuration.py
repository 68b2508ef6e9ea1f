"""Launch configuration of kernels: grid, block, registers and shared memory, as recorded.

The values are in the args of the kernel; ROCm records grid and block with the launch instead. A value that is no number
or list of numbers counts as missing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracetui.linking.groups import combinations
from tracetui.linking.links import links
from tracetui.model import columns as col
from tracetui.model.intervals import Int64
from tracetui.model.strings import Strings
from tracetui.model.table import Column, coded, numbers
from tracetui.model.trace import Kind, Trace

THREAD_GRIDS = ("hipExtModuleLaunchKernel",)
"""Launch calls whose grid counts threads and not blocks (R2.7)."""

Dims = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Configuration:
    """One entry per row that was asked for."""

    grid: Int64
    """Blocks in each direction, as index in `shapes`; -1 for none."""
    block: Int64
    """Threads in each direction, likewise."""
    shapes: list[Dims]
    """The distinct grids and blocks, one to three numbers each."""
    registers: Int64
    """Registers per thread, NULL for none."""
    shared: Int64
    """Bytes of shared memory per block, static and dynamic, NULL for none."""
    occupancy: Int64
    """The profiler's estimate in percent, NULL for none."""

    def columns(self) -> tuple[Column, ...]:
        """Columns grid, block, registers, shared_bytes and kineto_occupancy_pct."""
        sizes = Strings("x".join(map(str, shape)) for shape in self.shapes)
        return (
            coded(col.GRID, self.grid, sizes),
            coded(col.BLOCK, self.block, sizes),
            numbers(col.REGISTERS, self.registers),
            numbers(col.SHARED_BYTES, self.shared),
            numbers(col.KINETO_OCCUPANCY_PCT, self.occupancy),
        )


def configuration(trace: Trace, rows: Int64) -> Configuration:
    """The launch configuration of GPU activities; a row of -1 has none."""
    given, event = trace.work_args, np.where(rows >= 0, trace.slices.event[rows], -1)
    shapes = _Shapes(*trace.remember("parsed shapes", lambda: _parsed(given.strings)))
    grid, block = shapes.ids_of(given.text("grid", event)), shapes.ids_of(given.text("block", event))
    _take_from_launches(trace, rows, grid, block, shapes)
    return Configuration(
        grid,
        block,
        shapes.known,
        given.number("registers per thread", event),
        given.number("shared memory", event),
        given.number("est. achieved occupancy %", event),
    )


def _parsed(texts: Sequence[str]) -> tuple[list[Dims], Int64]:
    """The distinct grids and blocks among texts, and the number of each text's, -1 for none and for the last entry."""
    ids: dict[Dims, int] = {}
    parsed = [_dims(text) for text in texts]
    of_text = [-1 if dims is None else ids.setdefault(dims, len(ids)) for dims in parsed]
    return list(ids), np.array([*of_text, -1], np.int64)


class _Shapes:
    """The distinct grids and blocks of a trace by number, to which those of some rows are added."""

    def __init__(self, known: list[Dims], of_text: Int64) -> None:
        self.known = list(known)
        self._of_text = of_text
        self._ids = {dims: number for number, dims in enumerate(known)}

    def ids_of(self, texts: Int64) -> Int64:
        """The number of each text, -1 for anything but a list of one to three integers."""
        return self._of_text[texts]

    def id_of(self, dims: Dims) -> int:
        """The number of a shape."""
        if dims not in self._ids:
            self._ids[dims] = len(self.known)
            self.known.append(dims)
        return self._ids[dims]


def _dims(text: str) -> Dims | None:
    value = json.loads(text)
    if not isinstance(value, list) or not 1 <= len(value) <= 3:
        return None
    parts = [as_number(part) for part in value]
    # What is no number is not smaller than anything.
    return tuple(map(int, parts)) if all(abs(part) < 1 << 62 for part in parts) else None


def _take_from_launches(trace: Trace, rows: Int64, grid: Int64, block: Int64, shapes: _Shapes) -> None:
    """Fill in grid and block of kernels that lack them from their launches, and convert grids of threads to blocks."""
    launch = np.where(rows >= 0, links(trace).launch[rows], -1)
    launched = (launch >= 0) & (trace.slices.kind[rows] == Kind.KERNEL)
    for sizes, name in ((grid, "grid"), (block, "block")):
        bare = np.flatnonzero(launched & (sizes < 0))
        sizes[bare] = shapes.ids_of(trace.work_args.text(name, trace.slices.event[launch[bare]]))
    calls = [trace.names.find(name) for name in THREAD_GRIDS]
    counted = np.flatnonzero(launched & (grid >= 0) & (block >= 0) & np.isin(trace.slices.name[launch], calls))
    pairs = combinations(grid[counted], block[counted])
    blocks = [
        shapes.id_of(_quotient(shapes.known[a], shapes.known[b]))
        for a, b in zip(grid[counted[pairs.first]].tolist(), block[counted[pairs.first]].tolist(), strict=True)
    ]
    grid[counted] = np.array(blocks, np.int64)[pairs.member] if len(counted) else grid[counted]


def _quotient(threads: Dims, block: Dims) -> Dims:
    """Number of blocks for a number of threads."""
    return tuple(-(-count // max(size, 1)) for count, size in zip(threads, block, strict=False))


def as_number(value: Any) -> float:
    """A value from the args of an event as a number; NaN for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return math.nan
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return math.nan
    return number if math.isfinite(number) else math.nan
