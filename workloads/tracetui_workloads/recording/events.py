"""The events that the child sends to its parent through the pipe: one JSON object per line.

The child writes and the parent reads; a line that is not an event, for example one cut short by a kill, is skipped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from tracetui_workloads.recording.failures import Failure

STARTING = "starting Python"
"""The stage before the first event of the child."""

STAGES = (
    STARTING,
    "importing torch",
    "preparing device",
    "connecting ranks",
    "building",
    "first call",
    "warming up",
    "checking the result",
    "timing",
    "loading profiler",
    "recording",
    "writing trace",
)
"""Stages in the order of a warm recording; `compiling` replaces `first call`, and some stages may be left out."""


@dataclass(frozen=True, slots=True)
class Hello:
    """The child process has started."""

    pid: int
    python: str


@dataclass(frozen=True, slots=True)
class DeviceChosen:
    """The device of the recording."""

    device: str
    """For example `cpu` or `cuda:0`."""
    name: str
    torch: str
    activities: Sequence[str] = ()
    """The kinds of activity that the profiler will record, for example `CPU`, `CUDA`."""
    threads: int = 0
    """CPU threads that torch uses."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage has started; `total` is its number of parts, 0 where unknown."""

    name: str
    total: int = 0


@dataclass(frozen=True, slots=True)
class StageDone:
    """A stage has ended."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Progress:
    """How many parts of a stage are done."""

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
    """The child is alive; `seconds` is the time it has spent in this stage."""

    stage: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Result:
    """The trace was written to its destination."""

    path: str
    bytes: int
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The metadata of the recording, which the trace has under the key `tracetui`."""


@dataclass(frozen=True, slots=True)
class Failed:
    """No trace was written."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class LogLine:
    """The last line that the child, torch or the workload printed, as plain text; created by the parent."""

    text: str


Event = Hello | DeviceChosen | Stage | StageDone | Progress | Note | Heartbeat | Result | Failed | LogLine

_EVENT_TYPES: dict[str, type[Event]] = {
    "hello": Hello,
    "device": DeviceChosen,
    "stage": Stage,
    "stage_done": StageDone,
    "progress": Progress,
    "note": Note,
    "alive": Heartbeat,
    "result": Result,
    "error": Failed,
}
_EVENT_NAMES = {kind: name for name, kind in _EVENT_TYPES.items()}


_FIELD_TYPES: dict[str, type | tuple[type, ...]] = {
    "str": str,
    "int": int,
    "float": (float, int),
    "Failure": Failure,
    "Sequence[str]": list,
    "Mapping[str, Any]": dict,
}
"""Accepted types of an event's field, by the text of its annotation."""
encode = json.JSONEncoder(default=str).encode
"""A value as JSON; bound at import, because a workload may replace `json.dumps`."""


def as_line(event: Event) -> bytes:
    """An event as one line of JSON."""
    return encode({"ev": _EVENT_NAMES[type(event)], **asdict(event)}).encode() + b"\n"


def from_line(line: bytes) -> Event | None:
    """The event of a line, or None where the line is not an event."""
    try:
        values = json.loads(line)
        kind = _EVENT_TYPES[values.pop("ev")]
        event = Failed(Failure(**values["failure"])) if kind is Failed else kind(**values)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    parts = (event, event.failure) if isinstance(event, Failed) else (event,)
    return event if all(map(_has_valid_fields, parts)) else None


def _has_valid_fields(event: Any) -> bool:
    """Whether the fields of an event have the right types: a workload can also write to the pipe."""
    return all(
        isinstance(getattr(event, each.name), _FIELD_TYPES.get(str(each.type), object)) for each in fields(event)
    )
