"""The task of the child that builds operators again, and the request by which the launcher starts that child."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tracetui_workloads.recording.protocol import Options, Request

CHECK, TIME, SCRIPT = "check", "time", "script"
"""Kinds of tasks: build operators again and say which cannot be; time them; write a program for each."""
ALTERNATIVES = ("compile", "channels_last", "bf16", "sdpa")
"""Ways in which an operator can be run beside the recorded one."""


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
    max_noise: float = 0.05
    """Share by which an operator may differ from itself before times are refused."""
    seconds: float = 5.0
    """Time for each function, after which no further round of all begins."""
    gpus: Sequence[str] = ()
    """Names of the GPUs that the trace was recorded on."""
    label: str = ""
    """Name of the trace, for the program."""


@contextmanager
def requested(kind: str, operators: Iterable[Mapping[str, Any]], threads: int = 0, **more: Any) -> Iterator[Request]:
    """The request for a task, whose file is there while this lasts.

    Args:
        operators: the fields of each `RecordedOp`.
        threads: CPU threads of torch as they were recorded, 0 where that is not known.
        more: further fields of `Task`.
    """
    task = Task(kind, [RecordedOp(**each) for each in operators], **more)
    device = "auto" if kind == TIME and (task.gpus or any(each.kernels for each in task.operators)) else "cpu"
    # Another machine may have more CPUs than there are here.
    options = Options(device=device, threads=threads if 0 < threads <= (os.cpu_count() or 1) else 0)
    with tempfile.TemporaryDirectory(prefix="tracetui-verify-") as folder:
        path = Path(folder, "task.json")
        path.write_text(json.dumps(asdict(task)))
        yield Request("the operator", str(path.with_name("none")), options=options, bench=True, operators=str(path))
