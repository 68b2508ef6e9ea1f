"""A trace in memory: parallel columns, one row per slice, and the lanes and devices of the file.

All times are int64 nanoseconds from the first timed event of the file. Rows of `Slices` are sorted by
(lane, start, longest first, file order), and lanes are in the order in which a person reads them, so a
lane is one contiguous stretch of rows. Nothing here knows a file format: the bytes of an event come back
through the `EventStore` that the importer left behind.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from tracetui.frozen import Parallel, frozen
from tracetui.model.intervals import is_among
from tracetui.model.recorded import Arguments, GraphRecording, GraphScopes, Loss, RequestLog
from tracetui.model.table import Strings

if TYPE_CHECKING:
    from tracetui.model.memory_snapshot import MemorySnapshot

# Stopping an analysis that runs in a thread and whose result nobody waits for any more.
#
# A thread cannot be stopped from outside. Analyses are made of others, each of which goes through `Trace.keep`: there
# a thread asks whether to go on, and there it may be made to wait.


class Interrupted(Exception):
    """The result of an analysis is not wanted any more; nothing of it was kept."""


class _Thread(threading.local):
    goes_on: Callable[[], bool] | None = None


_thread = _Thread()


@contextmanager
def interruptible(goes_on: Callable[[], bool]) -> Iterator[None]:
    """Make analyses of this thread within it end with `Interrupted` once the function returns False.

    The function is called before every part of an analysis, and may wait.
    """
    before, _thread.goes_on = _thread.goes_on, goes_on
    try:
        yield
    finally:
        _thread.goes_on = before


Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
Float64 = NDArray[np.float64]
Bool = NDArray[np.bool_]

NO_ID = -(1 << 63)
"""Stands in `correlation` and `external` where an event has no such id; 0 and -1 are real values there."""


class Kind(IntEnum):
    """The kind of a slice, decided by its category (R2.5)."""

    OTHER = 0
    """A slice of a producer or a category that has no special meaning here."""
    CPU_OP = 1
    ANNOTATION = 2
    RUNTIME = 3
    """A CUDA or HIP runtime or driver call."""
    PYTHON = 4
    KERNEL = 5
    MEMCPY = 6
    MEMSET = 7
    GPU_ANNOTATION = 8
    SYNC = 9
    OVERHEAD = 10
    """The profiler's own cost."""
    BOOKKEEPING = 11
    """The profiler's own span over the capture; never work (R2.2)."""
    GRAPH_EVENT = 12
    """A node of a CUDA graph that records an event: an end of dependencies, no GPU activity (R2.13)."""
    GRAPH_HOST = 13
    """A node of a CUDA graph that calls a function on the host; no GPU activity."""
    LINE = 14
    """A line of source that ran, of recordings that hold them (R2.15)."""


GPU_WORK = (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET)
"""The kinds that occupy a device."""
GRAPH_NODES = (Kind.GRAPH_EVENT, Kind.GRAPH_HOST)
"""The kinds that stand on a stream's lane and occupy nothing: in no count of kernels, no busy time and no gap."""


class LaneKind(IntEnum):
    """The kind of a lane, decided by the slices on it and never by its process id (R2.3)."""

    CPU = 0
    """A thread: slices nest."""
    GPU = 1
    """A stream: slices run side by side and are packed in rows."""
    GPU_ANNOTATION = 2
    """The annotations that launched the work of a stream, at the time at which it ran."""
    SYNC = 3
    """Waits on a stream."""
    OVERHEAD = 4
    """The profiler's own cost."""
    ASYNC = 5
    """Begin and end events that belong to no thread."""
    BOOKKEEPING = 6
    """The profiler's span over the capture; hidden at first."""


@frozen(eq=True, slots=True)
class Lane:
    """One lane of the timeline: a thread, a stream, or a family of asynchronous spans."""

    pid: str
    tid: str
    kind: LaneKind
    name: str
    """The thread's or the stream's own name, never empty."""
    process: str
    """The process's name and labels, for example `python 4242 (CPU)` or `GPU 0`."""
    first: int
    """Row of the lane's first slice."""
    last: int
    """Row after the lane's last slice."""
    rows: int
    """Height in rows: 1 more than the deepest slice's row; 0 for a lane with instants only."""


ALL_DEVICES = -1
"""Id of a device that stands for all devices of a trace."""


@frozen(eq=True, slots=True)
class Device:
    """A device as the trace describes it; a number that the file does not give is None."""

    id: int
    name: str
    properties: Mapping[str, Any] = field(default_factory=dict)
    """The entry of `deviceProperties` as it stands in the file."""
    overrides: tuple[str, ...] = ()
    """Names of the devices in the file that this one replaces because the user said so."""


@frozen
class Slices(Parallel):
    """Parallel columns, one entry per slice; every array has the same length."""

    start: Int64
    dur: Int64
    """Duration in ns, never negative; unfinished and impossible ones are counted in `Quality`."""
    name: Int32
    """Id in `Trace.names`."""
    category: NDArray[np.int16]
    """Id in `Trace.categories`."""
    kind: NDArray[np.uint8]
    """A `Kind`."""
    lane: Int32
    """Index in `Trace.lanes`."""
    parent: Int32
    """Row of the innermost slice of the lane that contains this one, -1 for none and on packed lanes."""
    depth: NDArray[np.int16]
    """Number of ancestors."""
    row: NDArray[np.int16]
    """Row within the lane on which the slice is drawn; differs from depth where slices overlap."""
    self_time: Int64
    """Duration less the time covered by children, in ns."""
    correlation: Int64
    """The profiler's id that joins a runtime call to GPU work, or NO_ID."""
    external: Int64
    """`External id` as written, or NO_ID; not to be trusted on GPU work before it is checked (R3.7)."""
    event: Int32
    """Index of the event in the file, counted from 0; the key to `EventStore`."""

    @cached_property
    def end(self) -> Int64:
        """`start + dur`."""
        return self.start + self.dur

    def of_kind(self, *kinds: Kind) -> Int64:
        """Rows of the given kinds, ascending; those of one kind are kept, and read only."""
        if len(kinds) != 1:
            return np.flatnonzero(is_among(self.kind, kinds))
        known = self._rows_of_kinds.get(kinds[0])
        if known is None:
            known = np.flatnonzero(self.kind == kinds[0])
            known.flags.writeable = False
            self._rows_of_kinds[kinds[0]] = known
        return known

    @cached_property
    def _rows_of_kinds(self) -> dict[Kind, Int64]:
        """The rows of each kind that was asked for."""
        return {}

    @property
    def nbytes(self) -> int:
        """Memory held by the columns."""
        return sum(getattr(self, column.name).nbytes for column in fields(self))


@frozen
class Instants(Parallel):
    """Moments without a duration (ph i, I, R, and the like), sorted by (lane, time)."""

    time: Int64
    name: Int32
    category: NDArray[np.int16]
    lane: Int32
    scope: NDArray[np.uint8]
    """0 thread, 1 process, 2 global."""
    event: Int32


@frozen
class Flows(Parallel):
    """Ends of arrows between slices (ph s, t, f), in file order; a source of links of last resort (R2.10)."""

    time: Int64
    lane: Int32
    phase: NDArray[np.uint8]
    """0 start, 1 step, 2 end."""
    key: Int32
    """Id of (category, name); arrows join within it."""
    id: Int64
    """The arrow's id; textual ids are numbered below zero."""
    event: Int32 = field(default_factory=lambda: np.empty(0, np.int32))
    """Index of the event of each end in the file; empty in a trace that was made in memory."""


@frozen
class Counter:
    """One series of a counter (ph C): values that hold until the next sample."""

    process: str
    name: str
    series: str
    time: Int64
    value: Float64
    unit: str = ""
    """`bytes`, `%`, `MHz` and the like, or nothing where the file does not say."""
    pid: str = ""
    """The process's id, as in `Lane`."""
    event: Int32 = field(default_factory=lambda: np.empty(0, np.int32))
    """Index of the event of each sample in the file; empty where it was computed from something else."""
    gpu: int = -1
    """Number of the GPU whose hardware it measures, -1 for a counter of a program."""
    is_derived: bool = False
    """True where the profiler computed the values from something else, so that they are no measurement."""


@dataclass(slots=True)
class Quality:
    """Counts of all that the importer could not read plainly."""

    truncated_at: int | None = None
    """Byte offset where the file stops in the middle of something."""
    partial: bool = False
    """The user stopped the loading."""
    damage: str = ""
    """The damage of the gzip, zstd or zip around the events, so that something may be missing."""
    stray_brackets: int = 0
    """Closing brackets between events; the events behind them are read too."""
    further_arrays: int = 0
    """Arrays of events behind the first one: a key that stands twice, or several writers."""
    dropped: int = 0
    """Events that could not be read or placed in time."""
    unreadable: int = 0
    """Pieces of the file among them that could not be read."""
    empty: int = 0
    """Elements of the array of events that are no events, such as `{}`."""
    repaired: int = 0
    """Events that needed a lenient reading."""
    damaged_keys: int = 0
    """Places among the keys around the events, such as the devices, that could not be read."""
    replaced: int = 0
    """Bytes that are no UTF-8, and halves of characters, for which a sign was put."""
    repeated: int = 0
    """Events, and objects among the keys around them, in which a key stands twice; the last one counts."""
    unfinished: int = 0
    """Slices without a duration, or begun and never ended."""
    negative: int = 0
    """Durations below zero, shown as 0."""
    clipped: int = 0
    """Durations so long that they cannot be true, cut at the end of the lane (R1.5)."""
    overlong: tuple[int, ...] = ()
    """Event numbers of GPU activities that ran past later ones of their stream, cut where the next one starts (R1.5),
    the longest first."""
    longest_overlong: tuple[int, int] = (0, 0)
    """Duration in the file, in ns, of the longest of them, and the number of later ones that started within it."""
    unmatched_ends: int = 0
    overlaps: int = 0
    """Slices that start inside another slice of a nesting lane and outlast it."""
    skipped_phases: dict[str, int] = field(default_factory=dict)
    """Phases that have no picture here, by letter."""
    packets: int = 0
    """Packets of a protobuf file; 0 for every other format."""
    not_shown: dict[str, int] = field(default_factory=dict)
    """Packets that are not shown, by the name of their kind."""
    losses: int = 0
    """Places at which the writer of a protobuf file says that it lost packets."""
    lost_names: int = 0
    """Events whose name stood in a packet that is not in the file."""
    format_losses: frozenset[Loss] = frozenset()
    """Losses by the format of the file."""
    notes: list[str] = field(default_factory=list)
    """Sentences for the user, most important first."""
    examples: list[tuple[int, str]] = field(default_factory=list)
    """The first offenders: byte offset, defect, and the beginning of the event.

    At most EXAMPLES; a defect is one of the words below, with a colon after it.
    """

    @property
    def is_part(self) -> bool:
        """True where the file, or the archive around it, ends too early or is damaged."""
        return self.truncated_at is not None or bool(self.damage)

    @property
    def loss(self) -> str:
        """The reason why numbers may be those of a part of the recording, to end a sentence; empty for a whole file."""
        if self.truncated_at is not None:
            return f"is cut off at byte {self.truncated_at:,}"
        if self.damage:
            return f"is damaged: {self.damage}"
        if self.partial:
            return "was not read to its end"
        if self.unreadable:
            pieces = "a piece" if self.unreadable == 1 else f"{self.unreadable:,} pieces"
            return f"is damaged: {pieces} of it could not be read"
        return ""


UNREADABLE, MENDED, UNTIMED = "unreadable", "mended", "no time"
NEGATIVE, ENDLESS = "negative duration", "no end"
REPLACED, REPEATED, DAMAGED_KEYS = "not UTF-8", "key twice", "damaged metadata"
EXAMPLES = 20
"""Maximum offenders that are kept."""
BEGINNING = 60
"""Characters kept of an offender."""


class EventStore(Protocol):
    """Gives back the bytes of events after loading: from the file, or from compressed blocks in memory."""

    def event(self, index: int) -> dict[str, Any]:
        """One event in full.

        Raises: TraceError when the file has changed since it was read.
        """
        ...

    def args(self, indices: Int64, keys: Sequence[str]) -> list[list[Any]]:
        """The values of `args[key]` of many events, a list per key; None where an event lacks the key."""
        ...


class NoEventStore:
    """The store of a trace that was made in memory: events without args."""

    def event(self, index: int) -> dict[str, Any]:
        """An empty event."""
        return {}

    def args(self, indices: Int64, keys: Sequence[str]) -> list[list[Any]]:
        """None for every key and event."""
        return [[None] * len(indices) for _ in keys]


Result = TypeVar("Result")

MAX_KEPT = 200
"""Maximum results about a step, a grouping or another trace that are kept; all about the whole trace are.

Going to another step asks for some 15. Without a bound, every step that was ever looked at and every pair of steps
that was ever compared would stay for as long as the trace.
"""
_MISSING = object()


@frozen
class ChosenSteps:
    """The steps that the user chose; the arrays have one entry per step, in order of start."""

    rows: Int64
    """The slice of each step, which says where it starts and on which lane."""
    end: Int64
    """End of each step in ns."""
    name: str
    """The name by which they were chosen."""
    found_by: str = ""
    """Their source, for the column of this name."""
    words: str = ""
    """Description of them, in a sentence without a full stop."""
    is_guess: bool = False
    """True where a step may begin elsewhere."""
    is_served: bool = False
    """True for the steps of an inference server, of which some may be idle."""


def is_simulated(metadata: Mapping[str, Any]) -> bool:
    """True where the keys around the events say that a simulation wrote them, as those of `tracetui demo` do."""
    about = metadata.get("tracetui")
    return isinstance(about, Mapping) and about.get("simulated") is True


WITH_NVTX = "record within torch.autograd.profiler.emit_nvtx(record_shapes=True)"
"""The way to have operators with their shapes in an export of Nsight Systems."""


@frozen
class Trace:
    """Everything that was read from one file."""

    label: str
    """The file's name, for titles; of a simulated trace it says so."""
    path: str | None
    """Path or URL of the file, None for standard input."""
    format: str
    """Producer, layout and compression: `PyTorch profiler, object, gzip`."""
    size_bytes: int
    """Size on disk, or the bytes that came in through a pipe."""
    events: int
    """Elements of the array of events, metadata and invalid ones included, by which `event` of a slice counts."""
    is_torch: bool
    """True where a category of the PyTorch profiler occurs."""
    names: Strings
    categories: Strings
    slices: Slices
    lanes: tuple[Lane, ...]
    instants: Instants
    flows: Flows
    counters: tuple[Counter, ...]
    devices: tuple[Device, ...]
    """As the file describes them, or the one that the user chose where it describes none."""
    metadata: Mapping[str, Any]
    """Top-level keys of the file other than the events and the device properties."""
    origin_us: float
    """The file's own timestamp of time 0, in microseconds."""
    origin_ns: int
    """The same in whole nanoseconds, with the file's base time added where it has one."""
    window: tuple[int, int]
    """First start and last end of all work, in ns."""
    quality: Quality
    chosen_steps: ChosenSteps | None = None
    """The steps that the user chose; None for the steps of the profiler."""
    peak_tflops: float | None = None
    """Peak rate of a device in TFLOP/s that the user gave for shares of it; None for those of its model."""
    step_flops: float | None = None
    """Operations of a step that the user gave; None for those that shapes tell."""
    graph_recordings: tuple[GraphRecording, ...] = ()
    """Captures in other files of the graphs that are replayed here."""
    graph_scopes: tuple[GraphScopes, ...] = ()
    """Names in other files of the nodes of these graphs."""
    snapshot: MemorySnapshot | None = None
    """A memory snapshot of the same run, in another file; its curves are among the counters."""
    request_log: RequestLog | None = None
    """Requests to the server that it is of, from another file."""
    compile_log: Trace | None = None
    """The log of torch.compile that belongs to it, as a trace of its own; some of its lanes are here too."""
    without_log: Trace | None = None
    """The same trace without the lanes of the log."""
    op_args: Arguments = field(default_factory=Arguments)
    """Shapes, types and sequence numbers of operators."""
    work_args: Arguments = field(default_factory=Arguments)
    """Grid, block, registers, bytes and the like of GPU work; of launches too where they say it."""
    memory_args: Arguments = field(default_factory=Arguments)
    """Bytes, address, totals and device of the allocator's instants."""
    store: EventStore = field(default_factory=NoEventStore)
    cache: dict[Any, Any] = field(default_factory=dict, repr=False)
    """Results of analyses, by a name or by a tuple of a name and arguments; see `keep` and `tracetui.model.results`."""

    @property
    def event_count(self) -> int:
        """Events in the file, without elements of their array such as `{}`."""
        return self.of_file.events - self.quality.empty

    @property
    def of_file(self) -> Trace:
        """The trace with what its own file has, without the lanes of a log."""
        return self.without_log or self

    @property
    def is_simulated(self) -> bool:
        """True where the metadata say that nothing was recorded."""
        return is_simulated(self.metadata)

    @property
    def own_metadata(self) -> Mapping[str, Any]:
        """The facts that our own recorder wrote into the metadata; empty for recordings by others."""
        own = self.metadata.get("tracetui")
        return own if isinstance(own, Mapping) else {}

    def to_record(self, way: str, nsight: str = "Nsight Systems records none, torch.profiler does") -> str:
        """The way to record what is missing with torch.profiler, or that of Nsight Systems for an export."""
        return nsight if self.format.startswith("Nsight Systems") else way

    def name_of(self, row: int) -> str:
        """The text of a slice's name."""
        return str(self.names[int(self.slices.name[row])])

    def category_of(self, row: int) -> str:
        """The text of a slice's category."""
        return str(self.categories[int(self.slices.category[row])])

    def event_of(self, row: int) -> dict[str, Any]:
        """The whole event behind a slice, as it stands in the file."""
        return self.store.event(int(self.slices.event[row]))

    def args_of(self, rows: Int64, keys: Sequence[str]) -> list[list[Any]]:
        """The values of `args[key]` of the given slices, a list per key; None where a slice lacks the key."""
        return self.store.args(self.slices.event[rows].astype(np.int64), keys)

    @property
    def steps_by(self) -> str:
        """Name of the steps that the user chose; empty for the steps of the profiler."""
        return "" if self.chosen_steps is None else self.chosen_steps.name

    def keep(self, key: Any, make: Callable[[], Result]) -> Result:
        """Return the result stored under `key`, making and storing it the first time.

        Of the keys that are tuples, those that were not asked for the longest go when there are too many.
        Raises: Interrupted when the result of a thread is not wanted any more.
        """
        cache = self.cache
        result: Any = cache.get(key, _MISSING)
        if result is _MISSING:
            if _thread.goes_on is not None and not _thread.goes_on():
                raise Interrupted
            result = cache[key] = make()
            for old in [each for each in list(cache) if isinstance(each, tuple)][:-MAX_KEPT]:
                cache.pop(old, None)
        elif isinstance(key, tuple):
            # To the end of the order; another thread may have taken it away meanwhile.
            cache.pop(key, None)
            cache[key] = result
        typed: Result = result
        return typed

    def drop(self, other: Trace) -> None:
        """Drop results that concern another trace too, when that one is closed."""
        for key in list(self.cache):
            if isinstance(key, tuple) and any(part is other for part in key):
                self.cache.pop(key, None)
