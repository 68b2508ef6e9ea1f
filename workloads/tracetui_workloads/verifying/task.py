"""The task of the child that builds operators again, and the request by which the launcher starts that child."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tracetui_workloads.recording.protocol import Options, Request

ALTERNATIVES = ("compile", "channels_last", "bf16", "sdpa")
"""Ways in which an operator can be run beside the recorded one."""
CHECK, TIME, SCRIPT = "check", "time", "script"
"""Kinds of tasks: build operators again and say which cannot be; time them; write a program for each."""


@dataclass(frozen=True, slots=True)
class RecordedOp:
    """A variant of an operator as a trace recorded it; all of it is text of others, and may be anything."""

    name: str
    dims: Any
    """Sizes of each input, lists of lists."""
    types: Any
    strides: Any
    values: Any
    """Inputs that are no tensors, as texts."""
    children: Sequence[str] = ()
    """Names of the `aten` operators that it called, in order."""
    kernels: Sequence[str] = ()
    """Names of the kernels that it and these launched, in order of their start."""
    times_us: Sequence[float] = ()
    """Recorded times of its calls, on the GPU where it has kernels."""


@dataclass(frozen=True, slots=True)
class Task:
    """Operators to be built again, and what for."""

    kind: str
    operators: Sequence[RecordedOp]
    list_types: Sequence[str] = ()
    """Types of tensors in the trace, the most frequent first: those of lists of tensors are not recorded."""
    alternatives: Sequence[str] = ()
    seconds: float = 10.0
    """Seconds of timing for each operator."""
    max_noise: float = 0.05
    """Share by which an operator may differ from itself before times are refused."""
    gpus: Sequence[str] = ()
    """Names of the GPUs that the trace was recorded on."""
    label: str = ""
    """Name of the trace, for the program."""


@contextmanager
def requested(task: Task, threads: int = 0, argv: Sequence[str] = ()) -> Iterator[Request]:
    """The request for a task, whose file is there while this lasts.

    Args:
        threads: CPU threads of torch, 0 for as many as a recording takes.
    """
    on_gpu = task.kind == TIME and any(each.kernels for each in task.operators)
    device = "auto" if on_gpu else "cpu"
    with tempfile.TemporaryDirectory(prefix="tracetui-verify-") as folder:
        path = Path(folder, "task.json")
        path.write_text(json.dumps(asdict(task)))
        out = os.path.join(folder, "none")
        options = Options(device=device, threads=threads)
        yield Request("the operator", out, options=options, argv=tuple(argv), bench=True, operators=str(path))


def read_task(path: str) -> Task:
    """The task of a request.

    Raises: OSError.
    """
    fields = json.loads(Path(path).read_text())
    fields["operators"] = [RecordedOp(**each) for each in fields["operators"]]
    return Task(**fields)
