"""Traces with allocations and with copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tests.support.build import Event, kernel, launch, make_trace, op, step
from tracetui.model.recorded import MEMORY_NUMBERS, Arguments
from tracetui.model.table import NULL, Strings
from tracetui.model.trace import Instants, Kind, Trace


class Moment(NamedTuple):
    """An event of an allocator on the first lane."""

    time: int
    bytes: int
    address: int | None = None
    total: int | None = None
    device: tuple[int, int] = (1, 0)
    name: str = "[memory]"
    lane: int = 0


def with_memory(slices: Sequence[Event], moments: Sequence[Moment], **fields: Any) -> Trace:
    """A trace of slices and events of the allocator, in which reserved is twice the total."""
    bare = make_trace(slices)
    names = Strings([*bare.names, *dict.fromkeys(moment.name for moment in moments)])
    event = np.arange(len(slices), len(slices) + len(moments), dtype=np.int32)
    columns: dict[str, list[int | None]] = {
        "Addr": [moment.address for moment in moments],
        "Bytes": [moment.bytes for moment in moments],
        "Total Allocated": [moment.total for moment in moments],
        "Total Reserved": [None if moment.total is None else 2 * moment.total for moment in moments],
        "Device Type": [moment.device[0] for moment in moments],
        "Device Id": [moment.device[1] for moment in moments],
    }
    assert tuple(columns) == MEMORY_NUMBERS
    given = {name: np.array([NULL if value is None else value for value in values]) for name, values in columns.items()}
    instants = Instants(
        np.array([moment.time for moment in moments], np.int64),
        np.array([names.find(moment.name) for moment in moments], np.int32),
        np.zeros(len(moments), np.int16),
        np.array([moment.lane for moment in moments], np.int32),
        np.zeros(len(moments), np.uint8),
        event,
    )
    return make_trace(slices, instants=instants, names=names, memory_args=Arguments(event, given), **fields)


def two_ops() -> Trace:
    """A convolution and a relu in two steps; what the first allocated outlives the first step."""
    return with_memory(
        [
            step(1, 0, 1_000),
            step(2, 1_000, 1_000),
            op("aten::conv2d", 100, 400),
            op("aten::empty", 150, 50),
            op("aten::relu", 600, 200),
            op("aten::relu", 1_200, 200),
        ],
        [
            Moment(160, 1_000, 7, 5_000),
            Moment(300, 300, 8, 5_300),
            Moment(450, -300, 8, 5_000),
            Moment(650, 2_000, 8, 7_000),
            Moment(900, -2_000, 8, 5_000),
            Moment(1_250, 500, 9, 5_500),
            Moment(1_900, -1_000, 7, 4_500),
        ],
    )


def copied() -> Trace:
    def copy(name: str, start: int, dur: int, size: int | None, **more: Any) -> Event:
        args = {} if size is None else {"bytes": size}
        kind = Kind.MEMSET if "Memset" in name else Kind.MEMCPY
        return Event(name, start, dur, kind, ("0", "stream 7"), args=args, **more)

    return make_trace(
        [
            launch(0, 5, 1, "cudaMemcpyAsync"),
            copy("Memcpy HtoD (Pageable -> Device)", 10, 1_000, 4_000, correlation=1),
            copy("Memcpy HtoD (Pageable -> Device)", 2_000, 1_000, 12_000),
            copy("Memcpy DtoD (Device -> Device)", 4_000, 500, None),
            copy("Memset (Device)", 5_000, 0, 64),
            kernel("k", 6_000, 100),
        ]
    )
