"""Arguments of events that whole tables need, kept as columns; every other argument stays in the file."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracetui.frozen import Parallel, frozen
from tracetui.model.native import insertion_index
from tracetui.model.table import NULL, Strings

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]

OP_NUMBERS = ("Sequence number", "Fwd thread id")
OP_TEXTS = ("Input Dims", "Input type")
"""Arguments of operators and annotations; `Input dims` of torch 1.8 and 1.9 has the later name."""
WORK_NUMBERS = ("registers per thread", "shared memory", "est. achieved occupancy %", "bytes")
WORK_TEXTS = ("grid", "block")
"""Arguments of kernels, copies and fills, and of launches that have them (ROCm)."""
MEMORY_NUMBERS = ("Addr", "Bytes", "Total Allocated", "Total Reserved", "Device Type", "Device Id")
"""Arguments of the allocator's instants."""

_FEW = 32
"""So many times fewer events than there are entries are looked up without touching all of these."""


@frozen
class Arguments(Parallel):
    """Some arguments of some events, one entry per event; names are those of the file."""

    event: Int32 = field(default_factory=lambda: np.empty(0, np.int32))
    """Number of the event in the file, ascending."""
    numbers: Mapping[str, Int64] = field(default_factory=dict)
    """Whole numbers by name, NULL where the event has none."""
    texts: Mapping[str, Int32] = field(default_factory=dict)
    """Ids in `strings` by name, -1 where the event has no such argument."""
    strings: Sequence[str] = ()
    """The different values, as JSON."""

    def number(self, name: str, events: NDArray[np.integer]) -> Int64:
        """The number that each event gives under a name, NULL for none."""
        return self._looked_up([self.numbers.get(name)], events, NULL)[0]

    def all_numbers(self, events: NDArray[np.integer]) -> dict[str, Int64]:
        """The numbers that each event gives, by name, NULL for none."""
        return dict(zip(self.numbers, self._looked_up(list(self.numbers.values()), events, NULL), strict=True))

    def text(self, name: str, events: NDArray[np.integer]) -> Int64:
        """The id in `strings` of the text that each event gives under a name, -1 for none."""
        return self._looked_up([self.texts.get(name)], events, -1)[0]

    def _looked_up(
        self, columns: Sequence[NDArray[np.integer] | None], events: NDArray[np.integer], absent: int
    ) -> list[Int64]:
        if all(values is None for values in columns) or len(self.event) == 0:
            return [np.full(len(events), absent, np.int64) for _ in columns]
        if len(events) * _FEW < len(self.event):
            index = np.searchsorted(self.event, events.astype(self.event.dtype))
        else:
            # The events of a lane mostly ascend, and looking up ascending ones takes columns as wide as this.
            index = insertion_index(self.event.astype(np.int64), events.astype(np.int64))
        np.minimum(index, len(self.event) - 1, out=index)
        has_any = self.event[index] == events
        return [
            np.full(len(events), absent, np.int64)
            if values is None
            else np.where(has_any, values[index], absent).astype(np.int64)
            for values in columns
        ]


# Launches that were captured into graphs, each with the operator, line and module that made it.
#
# A recording stands for one trace file that holds captures; of the file itself nothing else is kept.


@frozen
class GraphRecording:
    """The launches of captured graphs in order, a graph behind the other; ids are those in `texts`, -1 for none."""

    label: str
    """Name of the file; empty where it is the trace itself."""
    texts: Strings
    bounds: Int64
    """`bounds[i]:bounds[i + 1]` are the launches of graph `i`."""
    kind: NDArray[np.uint8]
    """The `Kind` of GPU activity that each launch becomes."""
    kernel: Int32
    """Name of the kernel; CUDA does not record it."""
    op: Int32
    """The innermost operator around the launch."""
    line: Int32
    """The innermost Python frame of the user's code."""
    module: Int32
    """Path of the module."""
    shapes: Int32
    """Input shapes of the operator."""
    types: Int32
    """Input types of the operator."""
    values: Int32
    """Values of the operator's arguments."""
    op_call: Int32
    """Number of the call of an operator in its graph: launches of one call share it, -1 for none."""
    stack: Int64
    """Index in `stacks`."""
    stacks: tuple[tuple[int, ...], ...]
    """Ids of the names of everything around a launch, outermost first."""
    call: Int64
    """Row of each launch in the trace that was recorded; a row of this trace only if `label` is empty."""
    batch: Int64
    """Batch size of each graph, -1 where it is not known."""

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def text(self, number: int) -> str:
        """A text by its id, empty for none."""
        return str(self.texts[number]) if number >= 0 else ""


@frozen
class GraphScopes:
    """Names that a program gave to nodes of graphs while it captured them, such as the module behind each."""

    label: str
    """Name of the file; empty where it is the trace itself."""
    names: Mapping[int, str]
    """The innermost name of each node, by graph node id."""


# Losses by the format of a file, whatever was recorded.


class Loss(Enum):
    """One thing that a format leaves out or changes."""

    MEMORY_EVENTS = auto()
    """Events of the allocator."""
    DEVICE_PROPERTIES = auto()
    """Names and properties of devices."""
    HEADER = auto()
    """Rank, world size, versions and options of the profiler."""
    FORWARD_ARROWS = auto()
    """Arrows from operators of the forward pass to those of the backward pass."""
    COPY_DIRECTIONS = auto()
    """Direction of copies and the kind of memory on each side."""
    STATIC_SHARED_MEMORY = auto()
    """The part of a kernel's shared memory that is known when it is compiled."""
    OCCUPANCY_ESTIMATES = auto()
    """The profiler's own estimate of a kernel's occupancy, and the operator's id on GPU activity."""
    FREQUENT_CALLS = auto()
    """Frequent runtime calls that launch nothing, and most driver calls."""
    STREAM_OVERLAPS = auto()
    """Activities of one stream that overlap: each is cut where the next begins."""
    ANNOTATION_TIMES = auto()
    """Annotations of the GPU as they were recorded: they are made anew, a nanosecond wider at each end."""
    GPU_PROCESSES = auto()
    """Processes of GPU activity: those given are of the program that wrote the file."""
    OPERATORS = auto()
    """Operators and their shapes, modules and Python frames."""


TORCH_PFTRACE = frozenset(Loss) - {Loss.OPERATORS}
"""Losses by torch's encoder of Perfetto files."""
NSIGHT = frozenset({Loss.MEMORY_EVENTS, Loss.HEADER, Loss.OCCUPANCY_ESTIMATES, Loss.OPERATORS})
"""Losses by Nsight Systems, which knows neither PyTorch nor its operators."""


# Names of processes in a file of several ranks: `rank 3 · node1 · python 4711`.

_NAME = re.compile(r"rank (\d{1,9}) · ")


def rank_process_name(rank: int, host: str | None, pid: str, name: str, label: str) -> str:
    """The name of a process by its rank, the rank's host, and its id, name and label in the rank's own file."""
    own = label if label and label != "CPU" else f"{name} {pid}".strip() if name != pid else pid
    return " · ".join(filter(None, (f"rank {rank}", host, own)))


def rank_of_process(name: str) -> int | None:
    """The rank that the name of a process says, None for other names."""
    match = _NAME.match(name)
    return int(match[1]) if match else None


# Whole numbers out of a file, with bounds: a number beyond them is damage, and would overflow in sums.

MAX_AMOUNT = 1 << 53
"""Maximum bytes, registers or threads of a valid number; a float holds all up to it exactly."""
MAX_TIME_NS = 1 << 62
"""Maximum nanoseconds of a valid time."""


def whole_number(value: object, limit: int = MAX_AMOUNT) -> int | None:
    """The value if it is a whole number between `-limit` and `limit`, None for anything else."""
    if isinstance(value, int) and not isinstance(value, bool) and -limit <= value <= limit:
        return value
    return None


def number_name(value: float) -> str:
    """The name of a number that is not finite."""
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


# The rank that recorded a trace, from the keys around its events, as plain values.

HEADER_KEYS = ("distributedInfo", "host_name", "baseTimeNanoseconds", "traceName")
"""Keys beside the events that tell which rank of which run recorded a file."""
MAX_RANKS = 1 << 20
"""Maximum ranks of a run or a group: all ranks that may be missing are listed."""


@frozen(eq=True)
class GroupRecord:
    """A process group as `distributedInfo` lists it."""

    name: str
    description: str
    size: int
    ranks: tuple[int, ...]
    """Global ranks of its members, empty where the file does not list them."""


@frozen(eq=True)
class RankHeader:
    """Rank, groups, host and times from the head and the tail of a file; None where these lack them."""

    path: str
    size_bytes: int
    rank: int | None = None
    world_size: int | None = None
    backend: str = ""
    groups: tuple[GroupRecord, ...] = ()
    host: str | None = None
    base_ns: int | None = None
    trace_name: str = ""
    begin_ns: int | None = None
    """Time of the first timed event in ns, with the base where there is one."""
    is_whole: bool | None = None
    """True where the file ends as a trace does; None where its end was not read."""


def header_fields(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a header from the keys around the events; malformed values count as absent."""
    info = metadata.get("distributedInfo")
    info = info if isinstance(info, Mapping) else {}
    host, name = metadata.get("host_name"), metadata.get("traceName")
    return {
        "rank": _whole(info.get("rank"), MAX_RANKS),
        "world_size": _whole(info.get("world_size"), MAX_RANKS) or None,
        "backend": str(info.get("backend", "")),
        "groups": _groups(info.get("pg_config")),
        "host": host if isinstance(host, str) and host else None,
        "base_ns": _whole(metadata.get("baseTimeNanoseconds"), MAX_TIME_NS),
        "trace_name": name if isinstance(name, str) else "",
    }


def _groups(config: object) -> tuple[GroupRecord, ...]:
    groups = []
    for entry in config if isinstance(config, list) else ():
        if isinstance(entry, Mapping):
            listed = entry.get("ranks")
            members = _members(listed) if isinstance(listed, list) else ()
            size = _whole(entry.get("pg_size"), MAX_RANKS) or len(members)
            groups.append(GroupRecord(str(entry.get("pg_name", "")), str(entry.get("pg_desc", "")), size, members))
    return tuple(groups)


def _members(listed: list[Any]) -> tuple[int, ...]:
    # A group of a thousand ranks stands in a thousand files.
    if {*map(type, listed)} == {int} and min(listed) >= 0 and max(listed) <= MAX_RANKS:
        return shared_ranks(tuple(listed))
    return tuple(rank for each in listed if (rank := _whole(each, MAX_RANKS)) is not None)


@lru_cache(maxsize=4096)
def shared_ranks(members: tuple[int, ...]) -> tuple[int, ...]:
    """Equal members of a group as one object, so that they are in memory once, not once for each rank."""
    return members


def _whole(value: object, limit: int) -> int | None:
    """A number from 0 to a limit, None for anything else."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    number = whole_number(value, limit)
    return number if number is not None and number >= 0 else None


COMPILE_PHASES = "dynamo_timed"
"""Category of the phases in logs of torch.compile, as torch writes it."""
WHOLE_COMPILATION = "torch.compile"
"""Name of the slice of a compilation whose phases such a log lacks."""
COMPILE_FACTS = "torch_compile"
"""Category of the instants with what such a log says of a compilation beside its phases."""


# Requests to an inference server, as its log or its traces of OpenTelemetry tell them.


FIRST_WALL_NS = 10**18
"""Times from here on, in 2001, are those of a day; clocks that count from elsewhere have smaller ones."""


@dataclass(slots=True)
class Request:
    """Facts of a request; durations in ns, None for what the file does not say."""

    name: str
    """The id that the server gave it."""
    arrival: int | None = None
    """Time of its arrival in ns since 1970."""
    queue: int | None = None
    prefill: int | None = None
    first_token: int | None = None
    """From its arrival to its first token."""
    decode: int | None = None
    total: int | None = None
    """From its arrival to its end."""
    prompt: int | None = None
    cached: int | None = None
    """Tokens of the prompt that were in the cache."""
    output: int | None = None
    preempted: int | None = None
    """How often it had to give its memory to others."""
    reason: str | None = None
    """The reason of its end."""


@frozen
class RequestLog:
    """The requests in a file."""

    label: str
    """Name of the file."""
    producer: str
    """`vLLM`, `SGLang` or `OpenTelemetry`, several with commas between."""
    requests: tuple[Request, ...]
    notes: tuple[str, ...]
    """Sentences about the load of the server, and about what could not be read."""
    has_seconds: bool = False
    """True where durations come from times in whole seconds."""
