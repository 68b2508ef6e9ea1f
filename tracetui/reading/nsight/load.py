"""Opens an export of Nsight Systems: its tables become the columns that JSON traces are read into.

All times of a file are of one clock. Ids of processes and threads stand in one number: the process in bits 24 to 47,
the thread in the lowest 24, the machine above. A correlation id is unique within its process alone (R2.32).
"""

from __future__ import annotations

import os
import re
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracetui.errors import NoEvents, OtherKind, TraceError
from tracetui.model.intervals import Int64
from tracetui.model.recorded import MAX_AMOUNT, MAX_TIME_NS, NSIGHT, Loss, whole_number
from tracetui.model.table import NULL
from tracetui.model.trace import NO_ID, Quality, Trace
from tracetui.reading import torch
from tracetui.reading.chrome import assemble, counted, note_times, trace_of
from tracetui.reading.columns import NO_DUR, Collector, combined
from tracetui.reading.decode import NO_NAME, Ids
from tracetui.reading.load_progress import PER_EVENT
from tracetui.reading.nsight import tables
from tracetui.reading.nsight.database import Database, Rows, RowStore
from tracetui.reading.other_files import DATABASE
from tracetui.reading.source import Source
from tracetui.reading.spans import RANGE_PHASE

MAX_MOMENT_NS = MAX_TIME_NS // 2
"""A moment further from 0 is none: differences would not fit."""
ALWAYS_LOOKED_AT = 1 << 50
"""Bytes beyond what any budget allows without a look."""
WALL_CLOCK_NS = 10**18
"""Times above are of a wall clock, where the export shifted them (`--ts-normalize`)."""
MAX_NAMED = 12
"""Maximum tables named in a sentence."""

_MARK, _PUSH_POP, _START_END, _DOMAIN = (34,), (59, 70), (60, 71), 75
"""Types of tables.NVTX events: as the program made them, and as other tools hand them in."""
_DIRECTIONS = (
    *("", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"),
    *("HtoD", "DtoH", "DtoD"),
)
"""Directions of copies by `copyKind`; those of managed memory are the last three."""
_MEMORY_KINDS = dict(enumerate(("Pageable", "Pinned", "Device", "Array", "Managed", "Device", "Managed", "Unknown")))
_WAITS = {1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync"}
_VERSION = re.compile(r"_v\d{4,}$")
"""The version of the API behind the name of a call."""
_DRIVER = re.compile(r"cu[A-Z]")
_OPERATOR = re.compile(
    r"(?P<name>.+?)(?:, seq = (?P<seq>\d{1,18}))?(?:, op_id = (?P<op>\d{1,18}))?"
    r"(?:, sizes = (?P<sizes>\[[\[\], \d]*\]))?(?:, input_op_ids = .*)?",
    re.DOTALL,
)
"""A range of `torch.autograd.profiler.emit_nvtx`: an operator, or what a program calls by `record_function`."""
_IS_OPERATOR = re.compile(r"\w::|Backward\d*$")
_UNIT = re.compile(r"\s*\[(?:Throughput )?([^\[\]\s]{1,8})\]$")
_METRIC_NAMES = {"SMs Active": "SM Active"}
_PROPERTIES = {
    "totalMemory": "totalGlobalMem",
    "computeMajor": "computeMajor",
    "computeMinor": "computeMinor",
    "maxThreadsPerBlock": "maxThreadsPerBlock",
    "maxRegistersPerBlock": "regsPerBlock",
    "maxRegistersPerSm": "regsPerMultiprocessor",
    "threadsPerWarp": "warpSize",
    "maxShmemPerBlock": "sharedMemPerBlock",
    "maxShmemPerBlockOptin": "sharedMemPerBlockOptin",
    "maxShmemPerSm": "sharedMemPerMultiprocessor",
    "smCount": "numSms",
}
"""Properties of a device in `deviceProperties` by the columns of an export."""
_ON_DEVICE = ("start", "end", "deviceId", "streamId")
_ON_THREAD = ("start", "end", "globalTid")
_GRID = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")
_LAUNCH = ("registersPerThread", "staticSharedMemory", "dynamicSharedMemory")


def load_nsight(source: Source, tell: Callable[[str, int], None], cancelled: Callable[[], bool]) -> Trace:
    """Read an export; `tell` hears the stage and the number of events so far.

    Raises: NoEvents, NotATrace, TraceError.
    """
    file = None if source.rereadable else _unpacked(source, cancelled)
    path = str(source.path if file is None else file.name)
    # Rows may be a few bytes each, so that the memory is looked at however small the file is.
    source.count_unpacked(ALWAYS_LOOKED_AT)
    database = Database(path, source.label, tables.TABLES, cancelled, source.budget.check)
    try:
        if not any(table in database for table in tables.EVENT_TABLES):
            raise OtherKind(source.label, DATABASE.name, DATABASE.advice)
        quality = Quality(format_losses=NSIGHT, damage=source.damage or "")
        collector = Collector(quality, source.label)
        importer = _Importer(database, collector)
        for read in importer.steps():
            read()
            tell("reading", collector.events)
            collector.check_keys()
            source.budget.check(PER_EVENT * collector.events)
            if cancelled():
                break
        quality.partial = cancelled()
        importer.note(source)
        metadata = importer.metadata()
    finally:
        database.close()
    parts = assemble(collector, quality, {}, lambda stage: tell(stage, collector.events))
    note_times(quality)
    if len(parts.slices) + len(parts.instants) + len(parts.counters) == 0:
        raise NoEvents(f"{source.label} holds no event: nothing to show.")
    store = RowStore(path, source.label, importer.stretches, database.is_short, file)
    form = f"Nsight Systems {importer.version}".strip() + ", SQLite"
    return replace(
        trace_of(source, collector, parts, store, form),
        size_bytes=source.size or os.path.getsize(path),
        devices=torch.devices_of(metadata),
        metadata={key: value for key, value in metadata.items() if key != "deviceProperties"},
        origin_ns=parts.origin + importer.base(parts.origin),
    )


def _unpacked(source: Source, cancelled: Callable[[], bool]) -> IO[bytes]:
    """A copy of what is packed, or comes through a pipe or from a server, that is deleted with the trace."""
    buffer = memoryview(bytearray(1 << 20))
    try:
        # It goes with the store of the trace.
        file = tempfile.NamedTemporaryFile(prefix="tracetui-", suffix=".sqlite")  # noqa: SIM115
        while not cancelled() and (count := source.readinto(buffer)):
            file.write(buffer[:count])
        file.flush()
    except OSError as error:
        raise TraceError(
            f"{source.label} cannot be unpacked to a temporary file: {error.strerror or error}."
        ) from error
    return file


class _Range(NamedTuple):
    """Name, and arguments, in the text of an NVTX range."""

    name: str
    is_operator: bool = False
    sequence: int = NULL
    sizes: str = ""


def _range_of(text: str, domain: str) -> _Range:
    match = _OPERATOR.fullmatch(text)
    if match is None or not (match["seq"] or match["op"] or match["sizes"]):
        return _Range(f"{domain}:{text}" if domain else text)
    sequence = NULL if match["seq"] is None else int(match["seq"])
    return _Range(match["name"], bool(_IS_OPERATOR.search(match["name"])), sequence, match["sizes"] or "")


class _Importer:
    """Fills a collector, table by table."""

    def __init__(self, database: Database, collector: Collector) -> None:
        self._database, self._collector = database, collector
        self.stretches: list[tuple[str, int, Int64]] = []
        """Tables whose rows are events: the number of the first, and the number of each row in its table."""
        self._strings: dict[int, str] = {}
        self._processes: dict[int, str] = {}
        """Ids as they are shown, by what stands above a thread in a global id."""
        self._names: dict[int, str] = {}
        self._gpus: dict[tuple[int, int], int] = {}
        """Number of the GPU by process and number of the device in it, where processes count differently."""
        self._users = Ids()
        """Numbers of the processes that use a device."""
        self._lanes: dict[tuple[int, int], int] = {}
        """The process that first used a stream of a device."""
        self._session: dict[str, Any] = {}
        """Wall-clock start of the recording, in columns of several tables."""
        self._gpu_of_device: dict[int, int] = {}
        self._knows_processes = all(
            database.has_column(table, "globalPid")
            for table in (tables.KERNELS, tables.COPIES, tables.FILLS, tables.GRAPHS)
            if table in database
        )
        self.version = next(
            (
                str(row.get("value"))
                for row in database.records(tables.EXPORT)
                if row.get("name") == "EXPORT_PRODUCT_VERSION"
            ),
            "",
        )

    def steps(self) -> Iterable[Callable[[], None]]:
        """The tables to read, in the order in which events are numbered."""
        yield self._describe
        yield from (self._kernels, self._graphs, self._copies, self._fills, self._calls, self._waits, self._nvtx)
        for each in tables.CALL_TABLES:
            yield partial(self._thread_calls, each)
        yield from (self._metrics, self._memory)

    # What things are called.

    def _describe(self) -> None:
        rows = self._database.numbers(tables.STRINGS, ("id",))
        texts = self._database.values(tables.STRINGS, "value", rows.rowid)
        self._strings = {
            key: text.decode("utf-8", "replace")
            for key, text in zip(rows.columns["id"].tolist(), texts, strict=True)
            if isinstance(text, bytes)
        }
        naming = self._collector.naming
        for row in self._database.records(tables.PROCESSES):
            if (number := whole_number(row.get("globalPid"), 1 << 62)) is not None and row.get("name"):
                self._names[number >> 24] = str(row["name"])
        for row in self._database.records(tables.THREADS):
            name = self._strings.get(row.get("nameId", NULL))
            if (number := whole_number(row.get("globalTid"), 1 << 62)) is not None and name:
                naming.read(self._process(number), number & 0xFFFFFF, "thread_name", {"name": name})
        by_device: dict[int, set[int]] = defaultdict(set)
        given = {}
        for row in self._database.records(tables.CUDA_DEVICES):
            gpu, device, pid = (whole_number(row.get(name)) for name in ("gpuId", "cudaId", "pid"))
            if gpu is not None and device is not None and pid is not None:
                by_device[device].add(gpu)
                given[pid, device] = gpu
        self._gpu_of_device = {device: min(gpus) for device, gpus in by_device.items()}
        if any(len(gpus) > 1 for gpus in by_device.values()):
            self._gpus, self._gpu_of_device = given, {}

    def _process(self, global_id: int) -> str:
        """The id of a process as it is shown; one that several machines have is told apart."""
        identity = global_id >> 24
        if identity not in self._processes:
            pid = str(identity & 0xFFFFFF) if global_id != NULL else "0"
            if pid in self._processes.values():
                pid = f"{pid} on machine {identity >> 24}"
            self._processes[identity] = pid
            self._collector.naming.read(pid, 0, "process_name", {"name": self._names.get(identity)})
        return self._processes[identity]

    def _text_numbers(self, ids: Int64, change: Callable[[str], str] = str) -> Int64:
        """Numbers of names by their ids among the strings of the file."""
        return _once(lambda each: self._collector.names[change(self._strings.get(each, NO_NAME))], ids)

    def _keyed(self, make: Callable[..., tuple[str, str, Any, Any]], *columns: NDArray[Any]) -> Int64:
        """The collector's keys of rows."""
        return _once(lambda *values: self._collector.keys[make(*values)], *columns)

    # Slices.

    def _read(self, table: str, required: tuple[str, ...], *optional: str) -> tuple[Rows, Int64]:
        """Rows of a table whose times can be true, and the number of each as an event."""
        rows = self._database.numbers(table, required, optional)
        kept = np.ones(len(rows), bool)
        for name in {"start", "end", "timestamp"} & set(rows.columns):
            time = rows.columns[name]
            kept &= ((time >= -MAX_MOMENT_NS) & (time <= MAX_MOMENT_NS)) | (time == NULL)
        if not kept.all():
            self._collector.quality.dropped += int(np.count_nonzero(~kept))
            rows = rows.where(kept)
        first = self._collector.events
        self._collector.events += len(rows)
        if len(rows):
            self.stretches.append((table, first, rows.rowid))
        return rows, np.arange(first, first + len(rows), dtype=np.int64)

    def _add(self, rows: Rows, event: Int64, name: Int64, key: Int64, correlation: Int64 | None = None) -> None:
        start, end = rows.columns["start"], rows.columns["end"]
        bad = (end < start) & (end != NULL)
        self._collector.quality.negative += int(np.count_nonzero(bad))
        no_id = np.full(len(rows), NO_ID, np.int64)
        self._collector.slices.add(
            start=start,
            dur=np.where(end == NULL, NO_DUR, np.where(bad, 0, end - np.where(end == NULL, 0, start))),
            name=name.astype(np.int32),
            key=key.astype(np.int32),
            correlation=no_id if correlation is None else correlation,
            external=no_id,
            event=event.astype(np.int32),
        )

    def _add_on_device(self, rows: Rows, event: Int64, name: Int64, category: str) -> None:
        columns = rows.columns
        owner = columns["globalPid"]

        def key(device: int, stream: int, process: int) -> tuple[str, str, Any, Any]:
            gpu = self._gpus.get(((process >> 24) & 0xFFFFFF, device), device)
            # The same stream of another process is another stream.
            first = self._lanes.setdefault((gpu, stream), process >> 24)
            is_first = first == process >> 24 or not self._knows_processes
            return "X", category, gpu, stream if is_first else f"stream {stream} of {self._process(process)}"

        keys = self._keyed(key, columns["deviceId"], columns["streamId"], owner)
        self._add(rows, event, name, keys, self._correlations(columns["correlationId"], owner))

    def _correlations(self, given: Int64, owner: Int64) -> Int64:
        """Correlation ids that are those of one process alone (R2.32)."""
        identity, inverse = np.unique(owner >> 24, return_inverse=True)
        # Those of the first process stay as they are.
        users = [self._users[each] if self._knows_processes else 0 for each in identity.tolist()]
        index = np.array(users, np.int64)[inverse]
        return np.where((given > 0) & (given < 1 << 32), given + (index << 32), NO_ID)

    def _kernels(self) -> None:
        full = "demangledName" if self._database.has_column(tables.KERNELS, "demangledName") else "shortName"
        rows, event = self._read(tables.KERNELS, _ON_DEVICE, "correlationId", "globalPid", full, *_LAUNCH, *_GRID)
        columns = rows.columns
        self._add_on_device(rows, event, self._text_numbers(columns[full]), "kernel")
        registers, static, dynamic = (_amounts(columns[each]) for each in _LAUNCH)
        shared = np.where((static == NULL) & (dynamic == NULL), NULL, np.maximum(static, 0) + np.maximum(dynamic, 0))
        sizes = [self._sizes(*(columns[f"{of}{axis}"] for axis in "XYZ")) for of in ("grid", "block")]
        self._keep_work(event, {"registers per thread": registers, "shared memory": shared}, *sizes)

    def _sizes(self, *axes: Int64) -> Int64:
        """Numbers of the texts of sizes such as `[64, 1, 1]`, -1 where one is missing."""
        number = self._collector.arguments.work.text_number
        return _once(lambda *size: number(b"" if min(size) < 0 else b"[%d, %d, %d]" % size), *axes)

    def _keep_work(
        self, event: Int64, numbers: dict[str, Int64], grid: Int64 | None = None, block: Int64 | None = None
    ) -> None:
        absent, none = np.full(len(event), NULL, np.int64), np.full(len(event), -1, np.int64)
        names = ("registers per thread", "shared memory", "est. achieved occupancy %", "bytes")
        part = {name: numbers.get(name, absent) for name in names}
        part |= {"grid": none if grid is None else grid, "block": none if block is None else block}
        self._collector.arguments.work.keep({"event": event.astype(np.int32)} | part)

    def _graphs(self) -> None:
        """Launches of graphs that were recorded as a whole, each one kernel (R2.35)."""
        rows, event = self._read(tables.GRAPHS, _ON_DEVICE, "correlationId", "globalPid", "graphId")
        names = self._collector.names
        name = _once(lambda graph: names[f"CUDA graph {'?' if graph == NULL else graph}"], rows.columns["graphId"])
        self._add_on_device(rows, event, name, "kernel")
        if len(rows):
            launches = "1 launch of a CUDA graph is" if len(rows) == 1 else f"{len(rows):,} launches of CUDA graphs are"
            self._collector.quality.notes.append(
                f"{launches} recorded as a whole and shown as one kernel each: "
                "`nsys profile --cuda-graph-trace=node` records the kernels in them."
            )

    def _copies(self) -> None:
        kinds = ("copyKind", "srcKind", "dstKind")
        rows, event = self._read(tables.COPIES, _ON_DEVICE, "correlationId", "globalPid", "bytes", *kinds)
        memory = self._memory_kinds()

        def number(copy: int, source: int, target: int) -> int:
            name = f"Memcpy {_DIRECTIONS[copy]}" if 0 < copy < len(_DIRECTIONS) else "Memcpy"
            ends = [memory.get(each, "Unknown") for each in (source, target)]
            return self._collector.names[name if ends == ["Unknown"] * 2 else f"{name} ({ends[0]} -> {ends[1]})"]

        self._add_on_device(rows, event, _once(number, *(rows.columns[kind] for kind in kinds)), "gpu_memcpy")
        self._keep_work(event, {"bytes": _amounts(rows.columns["bytes"])})

    def _fills(self) -> None:
        rows, event = self._read(tables.FILLS, _ON_DEVICE, "correlationId", "globalPid", "bytes", "memKind")
        memory, names = self._memory_kinds(), self._collector.names
        name = _once(lambda kind: names[f"Memset ({memory.get(kind, 'Unknown')})"], rows.columns["memKind"])
        self._add_on_device(rows, event, name, "gpu_memset")
        self._keep_work(event, {"bytes": _amounts(rows.columns["bytes"])})

    def _memory_kinds(self) -> dict[int, str]:
        given = {
            row.get("id"): str(row.get("label") or "Unknown").split()[0]
            for row in self._database.records(tables.MEMORY_KINDS)
        }
        return _MEMORY_KINDS | {key: label for key, label in given.items() if type(key) is int}

    def _calls(self) -> None:
        rows, event = self._read(tables.CALLS, (*_ON_THREAD, "nameId"), "correlationId")
        drives = _once(lambda each: bool(_DRIVER.match(self._strings.get(each, ""))), rows.columns["nameId"])
        name = self._text_numbers(rows.columns["nameId"], lambda text: _VERSION.sub("", text))
        thread = rows.columns["globalTid"]
        key = self._keyed(
            lambda tid, is_driver: self._on_thread("cuda_driver" if is_driver else "cuda_runtime", tid), thread, drives
        )
        self._add(rows, event, name, key, self._correlations(rows.columns["correlationId"], thread))

    def _on_thread(self, category: str, global_tid: int) -> tuple[str, str, Any, Any]:
        return "X", category, self._process(global_tid), global_tid & 0xFFFFFF if global_tid != NULL else 0

    def _waits(self) -> None:
        rows, event = self._read(
            tables.WAITS, _ON_DEVICE, "correlationId", "globalPid", "syncType", "deprecatedSyncType"
        )
        kind = np.where(rows.columns["syncType"] == NULL, rows.columns["deprecatedSyncType"], rows.columns["syncType"])
        name = _once(lambda each: self._collector.names[_WAITS.get(each, "Sync")], kind)
        self._add_on_device(rows, event, name, "cuda_sync")

    def _thread_calls(self, each: tables.CallTable) -> None:
        rows, event = self._read(each.table, (*_ON_THREAD, each.name))
        key = self._keyed(lambda tid: self._on_thread(each.category, tid), rows.columns["globalTid"])
        self._add(rows, event, self._text_numbers(rows.columns[each.name]), key)

    # tables.NVTX: ranges of threads nest, those that are started and ended anywhere overlap, marks are moments (R2.34).

    def _nvtx(self) -> None:
        rows, event = self._read(tables.NVTX, ("start",), "end", "globalTid", "eventType", "textId", "domainId")
        if not len(rows):
            return
        columns = rows.columns
        kind = columns["eventType"]
        kind = np.where(kind == NULL, np.where(columns["end"] == NULL, _MARK[0], _PUSH_POP[0]), kind)
        text, texts = self._nvtx_texts(rows)
        domain, domains = self._domains(kind, columns, text, texts)
        _, first, inverse = np.unique(combined(text, domain), return_index=True, return_inverse=True)
        ranges = [
            _range_of(texts[each], domains.get(of, ""))
            for each, of in zip(text[first].tolist(), domain[first].tolist(), strict=True)
        ]
        name = np.array([self._collector.names[each.name] for each in ranges], np.int64)[inverse]
        is_operator = np.array([each.is_operator for each in ranges], bool)[inverse]
        thread = columns["globalTid"]

        def key(tid: int, is_op: bool) -> tuple[str, str, Any, Any]:
            return self._on_thread("cpu_op" if is_op else "user_annotation", tid)

        pushed = np.isin(kind, _PUSH_POP)
        self._add(
            rows.where(pushed), event[pushed], name[pushed], self._keyed(key, thread[pushed], is_operator[pushed])
        )
        started = np.isin(kind, _START_END)
        keys = self._keyed(
            lambda owner: (RANGE_PHASE, "user_annotation", self._process(owner << 24), "NVTX ranges"),
            thread[started] >> 24,
        )
        self._add(rows.where(started), event[started], name[started], keys)
        marked = np.isin(kind, _MARK)
        keys = self._keyed(lambda tid: ("i", "user_annotation", *self._on_thread("", tid)[2:]), thread[marked])
        self._collector.instants.add(
            time=columns["start"][marked],
            name=name[marked],
            key=keys,
            scope=np.zeros(len(keys), np.uint8),
            event=event[marked],
        )
        self._keep_operators(event, pushed & is_operator, ranges, inverse)

    def _nvtx_texts(self, rows: Rows) -> tuple[Int64, list[str]]:
        """The number of the text of each range, and the texts."""
        numbers = Ids()
        absent = numbers[None]
        given = self._database.values(tables.NVTX, "text", rows.rowid)
        own = np.fromiter(map(numbers.__getitem__, given), np.int64, len(given))
        registered = _once(lambda each: numbers[self._strings.get(each)], rows.columns["textId"])
        values = [
            each.decode("utf-8", "replace") if isinstance(each, bytes) else str(each or NO_NAME) for each in numbers
        ]
        return np.where(own == absent, registered, own), values

    def _domains(
        self, kind: Int64, columns: dict[str, Int64], text: Int64, texts: list[str]
    ) -> tuple[Int64, dict[int, str]]:
        """The domain of each range as a number, and the names of those that have one."""
        domain = combined(columns["globalTid"] >> 24, columns["domainId"])
        named = np.flatnonzero(kind == _DOMAIN)
        return domain, {int(domain[row]): texts[text[row]] for row in named.tolist()}

    def _keep_operators(self, event: Int64, mask: NDArray[np.bool_], ranges: list[_Range], inverse: Int64) -> None:
        if not mask.any():
            return
        table, which = self._collector.arguments.ops, inverse[mask]
        sizes = np.array([table.text_number(each.sizes.encode()) for each in ranges], np.int64)[which]
        absent = np.full(len(which), NULL, np.int64)
        table.keep(
            {
                "event": event[mask].astype(np.int32),
                "Sequence number": np.array([each.sequence for each in ranges], np.int64)[which],
                "Fwd thread id": absent,
                "Input Dims": sizes,
                "Input type": np.full(len(which), -1, np.int64),
            }
        )
        self._collector.quality.format_losses = NSIGHT - {Loss.OPERATORS} | {Loss.FORWARD_ARROWS}

    # Counters.

    def _metrics(self) -> None:
        rows, event = self._read(tables.METRICS, ("timestamp", "metricId"), "typeId")
        if not len(rows):
            return
        names = {}
        for row in self._database.records(tables.METRIC_NAMES):
            metric, name = row.get("metricId", row.get("id")), row.get("metricName", row.get("name"))
            names[row.get("typeId", NULL), metric] = names[NULL, metric] = str(name)
        given = self._database.values(tables.METRICS, "value", rows.rowid)
        value = np.array([each if type(each) in (int, float) else np.nan for each in given], np.float64)
        kind, metric = rows.columns["typeId"], rows.columns["metricId"]
        for mine in _groups(combined(kind, metric)):
            of, number = int(kind[mine[0]]), int(metric[mine[0]])
            name = names.get((of, number)) or names.get((NULL, number)) or f"metric {number}"
            unit = _UNIT.search(name)
            base = _UNIT.sub("", name)
            self._collector.counters.extend(
                f"GPU {of & 0xFF if of != NULL else 0} Counters",
                _METRIC_NAMES.get(base, base) + (f" ({unit[1]})" if unit else ""),
                rows.columns["timestamp"][mine],
                value[mine],
                event[mine],
            )

    def _memory(self) -> None:
        """A counter of the memory that CUDA has allocated: the sum of allocations less frees."""
        rows, event = self._read(
            tables.MEMORY, ("start", "bytes", "memoryOperationType"), "globalPid", "deviceId", "memKind"
        )
        columns = rows.columns
        if not len(rows):
            return
        kinds = self._memory_kinds()
        size = np.where(columns["memoryOperationType"] == 0, 1, -1) * np.maximum(_amounts(columns["bytes"]), 0)
        for mine in _groups(combined(columns["globalPid"] >> 24, columns["deviceId"], columns["memKind"])):
            mine = mine[np.argsort(columns["start"][mine], kind="stable")]
            owner, device, kind = (int(columns[each][mine[0]]) for each in ("globalPid", "deviceId", "memKind"))
            self._collector.counters.extend(
                self._process(owner),
                f"CUDA memory, {kinds.get(kind, 'Unknown').lower()}, GPU {device if device != NULL else '?'}",
                columns["start"][mine],
                np.cumsum(size[mine].astype(np.float64)),
                event[mine],
                "bytes",
            )

    # What the file says about itself.

    def base(self, origin: int) -> int:
        """The time by which the wall clock is ahead of the file's, whose origin this is; 0 where nothing tells."""
        wall = whole_number(self._session.get("utcEpochNs"), MAX_MOMENT_NS)
        if wall is None or origin > WALL_CLOCK_NS:
            return 0
        # Of older versions the analysis says it.
        began = (whole_number(self._session.get(name), MAX_MOMENT_NS) for name in ("systemClockNs", "startTime"))
        return wall - next((each for each in began if each is not None), 0)

    def metadata(self) -> dict[str, Any]:
        """Devices and the name of the machine, under the names of a JSON trace."""
        for table in (tables.ANALYSIS, tables.SESSION):
            self._session |= next(iter(self._database.records(table)), {})
        devices = []
        by_gpu = {gpu: device for device, gpu in self._gpu_of_device.items()}
        for row in self._database.records(tables.GPUS):
            entry = {key: row[name] for name, key in _PROPERTIES.items() if whole_number(row.get(name))}
            warps, lanes = whole_number(row.get("maxWarpsPerSm")), whole_number(row.get("threadsPerWarp"))
            if warps and lanes:
                entry["maxThreadsPerMultiprocessor"] = warps * lanes
            gpu = whole_number(row.get("id"))
            devices.append({"id": by_gpu.get(gpu, gpu) if gpu is not None else None, "name": row.get("name"), **entry})
        machine = {row.get("name"): row.get("value") for row in self._database.records(tables.MACHINE)}
        given = {"host_name": machine.get("Hostname"), "driver_version": machine.get("NvDriverVersion")}
        return {"deviceProperties": devices} | {key: value for key, value in given.items() if isinstance(value, str)}

    def note(self, source: Source) -> None:
        """Put what could not be read, and what is not shown, into the quality of the trace."""
        quality, database = self._collector.quality, self._database
        quality.dropped += database.wrong
        if quality.partial:
            quality.notes.append("Loading was stopped: this is the part that had been read.")
            return
        quality.damage = quality.damage or database.damage
        notes = [f"The file is damaged: {quality.damage}; everything before that is shown."] if quality.damage else []
        if count := database.wrong:
            have, are = ("has", "is") if count == 1 else ("have", "are")
            notes.append(f"{counted(count, 'value')} {have} another type than an export writes and {are} left out.")
        if database.lacks:
            notes.append(f"Tables that lack a column were not read: {', '.join(database.lacks[:MAX_NAMED])}.")
        if others := database.others(tables.TABLES):
            more = f" and {len(others) - MAX_NAMED:,} more" if len(others) > MAX_NAMED else ""
            notes.append(f"Not shown, though the file holds it: {', '.join(others[:MAX_NAMED])}{more}.")
        troubles = [row for row in database.records(tables.DIAGNOSTICS) if row.get("severity") in (2, 3, 4)]
        if troubles:
            first = str(troubles[0].get("text"))[:200]
            notes.append(
                f"Nsight Systems reported {counted(len(troubles), 'problem')} while it recorded, the first: {first}"
            )
        quality.notes = [*notes, *filter(None, [source.remark]), *quality.notes]


def _once(make: Callable[..., int], *columns: NDArray[Any]) -> Int64:
    """A number for each row, made once for each combination of values."""
    if not len(columns[0]):
        return np.empty(0, np.int64)
    member = combined(*columns) if len(columns) > 1 else columns[0]
    _, first, inverse = np.unique(member, return_index=True, return_inverse=True)
    values = zip(*(column[first].tolist() for column in columns), strict=True)
    return np.array([make(*each) for each in values], np.int64)[inverse]


def _amounts(values: Int64) -> Int64:
    """Numbers that are added up, NULL for those that cannot be true."""
    return np.where((values >= 0) & (values <= MAX_AMOUNT), values, NULL)


def _groups(member: Int64) -> list[Int64]:
    """The rows of each group, in the order of the file."""
    order = np.argsort(member, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(member[order])) + 1)
