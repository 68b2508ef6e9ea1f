"""A recording that takes no time: a small trace written by hand in the place of one by the profiler."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tracetui_workloads.recording import launcher
from tracetui_workloads.recording.launcher import Outcome, Request

STEP = 1000
"""Microseconds of a step."""


def trace_file(path: Path, label: str, ops: list[str], metadata: dict[str, Any], rank: int | None = None) -> Path:
    """Three steps on one thread with the given operators inside the label; of a rank of two where one is given."""
    events = []
    for number in range(3):
        at = number * STEP
        events += [event(f"ProfilerStep#{number + 2}", "user_annotation", at, 900)]
        events += [event(label, "user_annotation", at + 1, 890)]
        events += [event(name, "cpu_op", at + 10 + 10 * place, 5) for place, name in enumerate(ops)]
    more = {} if rank is None else {"distributedInfo": {"backend": "gloo", "rank": rank, "world_size": 2}}
    path.write_text(json.dumps({"schemaVersion": 1, **more, "traceEvents": events, "tracetui": metadata}))
    return path


def event(name: str, category: str, start: float, duration: float) -> dict[str, Any]:
    """A complete event."""
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": 1e6 + start, "dur": duration}


def pretend(monkeypatch: Any, folder: Path, ops: list[str], **told: Any) -> list[Request]:
    """Let `tracetui run` find such a trace at once; returns what was asked for."""
    asked: list[Request] = []

    def record_now(request: Request, *_: Any, **__: Any) -> Outcome:
        asked.append(request)
        metadata = {
            "workload": request.workload,
            "label": "fwd",
            "params": dict(request.params),
            "options": {"compile": request.options.compile, "backend": request.options.backend, "cold": False},
            "device": "cpu",
            "torch": "2.13.0",
            **told,
        }
        path = trace_file(folder / "x.json", "fwd", ops, metadata)
        return Outcome(path, None, 12, metadata, metadata["device"], (), 0.1)

    monkeypatch.setattr(launcher, "record_now", record_now)
    return asked


LINEAR = ["aten::linear", "aten::t", "aten::transpose", "aten::as_strided", "aten::addmm"] + ["aten::expand"] * 5
"""The operators of an eager linear layer in torch 2.13, by number if not by name."""
