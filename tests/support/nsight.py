"""Exports of Nsight Systems made by hand: tables and columns of several versions, with what rows are given.

`export(path, kernels=[Kernel(0, 10)])` writes the tables that have rows, and the strings that these use.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MACHINE = 1 << 48
OLD, NEW = 2020, 2026
"""Versions: the old one has no globalPid at kernels, no enums, no graph ids, and names what waits by another column."""


def pid_of(process: int) -> int:
    """The global id of a process."""
    return MACHINE | process << 24


def tid_of(process: int, thread: int | None = None) -> int:
    """The global id of a thread, by default the first of its process."""
    return pid_of(process) | (process if thread is None else thread)


@dataclass
class Export:
    """The rows of an export, by table; each row by column."""

    version: int = NEW
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    strings: dict[str, int] = field(default_factory=dict)

    def text(self, value: str) -> int:
        """The id of a text."""
        return self.strings.setdefault(value, len(self.strings) + 1)

    def add(self, table: str, **row: Any) -> Export:
        """Add a row to a table."""
        self.rows.setdefault(table, []).append(row)
        return self

    def _activity(self, start: int, end: int, correlation: int) -> dict[str, Any]:
        """What a kernel, a copy and a fill have in common."""
        row = {"start": start, "end": end, "deviceId": 0, "streamId": 7, "correlationId": correlation}
        return row | ({"globalPid": pid_of(100)} if self.version == NEW else {})

    def kernel(self, start: int, end: int, name: str = "void gemm<float>(float*)", **more: Any) -> Export:
        """Add a kernel."""
        row = self._activity(start, end, 1) | {
            "contextId": 1,
            "demangledName": self.text(name),
            "shortName": self.text(name.split("(")[0]),
            "registersPerThread": 32,
            "staticSharedMemory": 1024,
            "dynamicSharedMemory": 512,
            "gridX": 8,
            "gridY": 2,
            "gridZ": 1,
            "blockX": 128,
            "blockY": 1,
            "blockZ": 1,
        }
        if self.version == NEW:
            row |= {"graphNodeId": None, "localMemoryPerThread": 0}
        return self.add("CUPTI_ACTIVITY_KIND_KERNEL", **{**row, **more})

    def copy(self, start: int, end: int, size: int = 4096, kind: int = 1, **more: Any) -> Export:
        """Add a copy, by default from pageable memory to the device."""
        row = {"contextId": 1, "bytes": size, "copyKind": kind, "srcKind": 0, "dstKind": 2}
        row |= self._activity(start, end, 2)
        return self.add("CUPTI_ACTIVITY_KIND_MEMCPY", **{**row, **more})

    def fill(self, start: int, end: int, size: int = 64, **more: Any) -> Export:
        """Add a fill."""
        row = {"bytes": size, "memKind": 2} | self._activity(start, end, 3)
        return self.add("CUPTI_ACTIVITY_KIND_MEMSET", **{**row, **more})

    def call(self, start: int, end: int, name: str = "cudaLaunchKernel_v7000", **more: Any) -> Export:
        """Add a call of CUDA."""
        row = {"start": start, "end": end, "globalTid": tid_of(100), "correlationId": 1, "nameId": self.text(name)}
        return self.add("CUPTI_ACTIVITY_KIND_RUNTIME", **{**row, "returnValue": 0, **more})

    def range(self, start: int, end: int | None, text: str | None = None, **more: Any) -> Export:
        """Add an NVTX event, by default a range of a thread."""
        row = {"start": start, "end": end, "eventType": 59, "text": text, "globalTid": tid_of(100), "textId": None}
        return self.add("NVTX_EVENTS", **{**row, "domainId": 0, **more})

    def write(self, path: Path) -> str:
        """Write the file; returns its path."""
        path.unlink(missing_ok=True)
        connection = sqlite3.connect(path)
        tables: Mapping[str, Iterable[dict[str, Any]]] = {
            "StringIds": [{"id": number, "value": text} for text, number in self.strings.items()],
            **self.rows,
        }
        columns = {table: list(dict.fromkeys(name for row in rows for name in row)) for table, rows in tables.items()}
        columns["StringIds"] = ["id", "value"]
        for table, names in columns.items():
            key = {"id": "id INTEGER PRIMARY KEY"} if table == "StringIds" else {}
            declared = ", ".join(key.get(name, f'"{name}"') for name in names)
            connection.execute(f'CREATE TABLE "{table}" ({declared})')
        for table, rows in tables.items():
            insert_rows(connection, table, columns[table], ([row.get(name) for name in columns[table]] for row in rows))
        connection.commit()
        connection.close()
        return str(path)


def insert_rows(
    connection: sqlite3.Connection, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]
) -> None:
    """Put rows into a table."""
    names = ", ".join(f'"{name}"' for name in columns)
    connection.executemany(f'INSERT INTO "{table}" ({names}) VALUES ({", ".join("?" * len(columns))})', rows)


def training(steps: int = 4, version: int = NEW) -> Export:
    """Iterations with a copy, two kernels and a fill each, that a program marks `iter N`."""
    made = Export(version)
    for step in range(steps):
        at, number = 10_000 * step, 10 * step
        made.range(at, at + 9_000, f"iter {step}")
        made.call(at + 100, at + 200, "cudaMemcpyAsync_v3020", correlationId=number + 1)
        made.call(at + 300, at + 400, correlationId=number + 2)
        made.call(at + 500, at + 600, correlationId=number + 3)
        made.call(at + 700, at + 800, "cudaMemsetAsync_v3020", correlationId=number + 4)
        made.copy(at + 1_000, at + 2_000, correlationId=number + 1)
        made.kernel(at + 2_000, at + 5_000, correlationId=number + 2)
        made.kernel(at + 5_000, at + 7_001, "void add(float*)", correlationId=number + 3)
        made.fill(at + 7_100, at + 7_200, correlationId=number + 4)
    made.add("PROCESSES", globalPid=pid_of(100), pid=100, name="python3")
    made.add("ThreadNames", nameId=made.text("pt_main_thread"), priority=0, globalTid=tid_of(100))
    made.add(
        "TARGET_INFO_GPU",
        id=0,
        name="NVIDIA H100 80GB HBM3",
        totalMemory=85_000_000_000,
        computeMajor=9,
        computeMinor=0,
        smCount=132,
        threadsPerWarp=32,
        maxWarpsPerSm=64,
        maxThreadsPerBlock=1024,
        maxRegistersPerBlock=65536,
        maxRegistersPerSm=65536,
        maxShmemPerBlock=49152,
        maxShmemPerBlockOptin=232448,
        maxShmemPerSm=233472,
    )
    return made
