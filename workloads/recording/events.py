"""What the recording child says on its pipe, one JSON object in a line, and how it is read back.

The child writes and the parent reads; a line that is no event, cut short by a kill, is passed over.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from workloads.recording.failures import Failure

STARTING = "starting Python"
"""The stage before the child says anything."""

STAGES = (
    STARTING,
    "importing torch",
    "preparing device",
    "building",
    "first call",
    "warming up",
    "checking the result",
    "loading profiler",
    "recording",
    "writing trace",
)
"""Stages in the order of a warm recording; `compiling` takes the place of `first call`, and some may be left out."""


@dataclass(frozen=True, slots=True)
class Hello:
    """The child runs."""

    pid: int
    python: str


@dataclass(frozen=True, slots=True)
class Device:
    """What it will run on."""

    device: str
    """For example `cpu` or `cuda:0`."""
    name: str
    torch: str
    activities: Sequence[str] = ()
    """What the profiler will record, for example `CPU`, `CUDA`."""
    threads: int = 0
    """CPU threads that torch uses."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage begins; `total` is its number of parts, 0 where that is unknown."""

    name: str
    total: int = 0


@dataclass(frozen=True, slots=True)
class StageDone:
    """A stage ended."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Progress:
    """Parts of a stage that are done."""

    stage: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence for the user: `info` or `warning`."""

    level: str
    text: str


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The child lives, and has been in this stage for so long."""

    stage: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Result:
    """The trace is written and in its place."""

    path: str
    bytes: int
    about: Mapping[str, Any] = field(default_factory=dict)
    """What the trace says of itself under `tracetui`."""


@dataclass(frozen=True, slots=True)
class Failed:
    """No trace was written."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class LogLine:
    """The last line of what the child, torch or the workload printed, as plain text; made by the parent."""

    text: str


Event = Hello | Device | Stage | StageDone | Progress | Note | Heartbeat | Result | Failed | LogLine

_SPOKEN: dict[str, type[Event]] = {
    "hello": Hello,
    "device": Device,
    "stage": Stage,
    "stage_done": StageDone,
    "progress": Progress,
    "note": Note,
    "alive": Heartbeat,
    "result": Result,
    "error": Failed,
}
_NAMES = {kind: name for name, kind in _SPOKEN.items()}


_SORTS: dict[str, type | tuple[type, ...]] = {
    "str": str,
    "int": int,
    "float": (float, int),
    "Failure": Failure,
    "Sequence[str]": list,
    "Mapping[str, Any]": dict,
}
"""What the fields of an event hold, by how they are annotated."""
encode = json.JSONEncoder(default=str).encode
"""JSON of a value; taken now: a workload may put something of its own in the place of `json.dumps`."""


def as_line(event: Event) -> bytes:
    """An event as a line for the pipe."""
    return encode({"ev": _NAMES[type(event)], **asdict(event)}).encode() + b"\n"


def from_line(line: bytes) -> Event | None:
    """The event in a line, or None where there is none."""
    try:
        told = json.loads(line)
        kind = _SPOKEN[told.pop("ev")]
        event = Failed(Failure(**told["failure"])) if kind is Failed else kind(**told)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    parts = (event, event.failure) if isinstance(event, Failed) else (event,)
    return event if all(map(_is_whole, parts)) else None


def _is_whole(event: Any) -> bool:
    """Whether its fields are what they should be: a workload, too, can write to the pipe."""
    return all(isinstance(getattr(event, each.name), _SORTS.get(str(each.type), object)) for each in fields(event))
