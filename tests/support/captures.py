"""Captures of graphs, as a file with the capture has them, and what is recorded of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.build import Event, annotation, launch, make_trace, op, python
from tracetui.linking.graph_recordings import recorded_graphs
from tracetui.model.recorded import GraphRecording
from tracetui.model.trace import Trace


@dataclass(frozen=True)
class CapturedLaunch:
    """A call within an operator, a line and a module, while a graph is captured."""

    op: str
    kernel: str | None
    """Name of the kernel; None where it is not recorded."""
    module: str = ""
    line: str = "model.py(10): forward"
    call: str = "hipLaunchKernel"
    op_args: Mapping[str, object] | None = None
    """What was recorded of the operator's inputs."""


def captured(
    graphs: Sequence[Sequence[CapturedLaunch]], at: int = 0, name: str = "", warm_up: Sequence[CapturedLaunch] = ()
) -> list[Event]:
    """The events of captures, one behind the other, of 1000 ns for each launch; all in an annotation if it has a name.

    What warms up launches before the first capture begins.
    """
    events, begin = _launches(warm_up, at), at
    at += 1000 * len(warm_up)
    for launches in graphs:
        events.append(Event("hipStreamBeginCapture", at, 10, launch(0, 0, 0).kind, correlation=at + 1))
        events += _launches(launches, at + 100)
        at += 1000 * (len(launches) + 1)
        events.append(Event("hipStreamEndCapture", at - 20, 10, launch(0, 0, 0).kind, correlation=at + 2))
    return [*events, annotation(name, begin, at - begin)] if name else events


def _launches(launches: Sequence[CapturedLaunch], at: int) -> list[Event]:
    events = []
    for index, each in enumerate(launches):
        start = at + 1000 * index
        if each.module:
            events.append(python(f"nn.Module: {each.module}", start, 900))
        events.append(python(each.line, start + 10, 800))
        events.append(op(each.op, start + 20, 700, args=each.op_args))
        args = {} if each.kernel is None else {"kernel": each.kernel}
        events.append(launch(start + 30, 600, start + 30, each.call, args=args))
    return events


def recording(
    graphs: Sequence[Sequence[CapturedLaunch]], label: str = "capture.json", name: str = ""
) -> GraphRecording:
    """The recording of a file with captures."""
    return recorded_graphs(make_trace(captured(graphs, name=name)), label)


def write_trace(path: Path, events: Sequence[Event], **more: object) -> Path:
    """Write events as a trace of the profiler, times in us."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"schemaVersion": 1, **more, "traceEvents": [_written(each) for each in events]}))
    return path


def _written(event: Event) -> dict[str, object]:
    trace: Trace = make_trace([event])
    args = {**(event.args or {}), **({"correlation": event.correlation} if event.correlation > 0 else {})}
    return {
        "ph": "X",
        "cat": trace.category_of(0),
        "name": event.name,
        "pid": int(event.lane[0]),
        "tid": event.lane[1] if not event.lane[1].isdecimal() else int(event.lane[1]),
        "ts": event.start / 1000,
        "dur": event.dur / 1000,
        "args": args,
    }
