"""What to record: a workload, its parameters and options; passed to the child as JSON.

Everything that can be refused without torch is refused here, before a process is started.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from workloads.api import BadRequest, Value

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
"""Modes of torch.compile."""
BACKENDS = ("inductor", "aot_eager", "eager")
"""Backends of torch.compile."""
DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
"""Names of data types, as a person gives them and as torch has them."""
SHAPES = ("auto", "on", "off")

WARM_CALLS = 3
"""Calls before the profiler is loaded, unless the recording is a cold one."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a workload is run and recorded; every one of them may change the numbers, so all are in the trace.

    Raises: BadRequest for options that do not exist or contradict each other.
    """

    device: str = "auto"
    """`auto`, `cpu`, `cuda`, `cuda:1`, ..."""
    dtype: str = ""
    """A key of `DTYPES`; empty for the workload's own."""
    seed: int = 0
    compile: bool = False
    mode: str = "default"
    """One of `MODES`."""
    backend: str = "inductor"
    """One of `BACKENDS`."""
    cold: bool = False
    """No call before the schedule begins."""
    wait: int = 1
    warmup: int = 1
    active: int = 3
    """The profiler's schedule, in steps."""
    warm_seconds: float = 0.0
    """Warm up for at least so long, for clocks to rise."""
    shapes: str = "auto"
    """One of `SHAPES`; `auto` asks the workload."""
    stack: bool = False
    memory: bool = False

    def __post_init__(self) -> None:
        _one_of("--mode", self.mode, MODES)
        _one_of("--backend", self.backend, BACKENDS)
        _one_of("--shapes", self.shapes, SHAPES)
        if self.dtype:
            _one_of("--dtype", self.dtype, tuple(DTYPES))
        if self.active < 1 or self.wait < 0 or self.warmup < 0:
            raise BadRequest("--active must be at least 1, --wait and --warmup at least 0.")
        if not self.compile and (self.mode, self.backend) != ("default", "inductor"):
            raise BadRequest("--mode and --backend say how to compile; add --compile.")
        if self.mode != "default" and self.backend != "inductor":
            raise BadRequest(f"--mode {self.mode} is a mode of the backend inductor, not of {self.backend}.")
        if self.cold and self.warm_seconds:
            raise BadRequest("--cold makes no warm-up calls, so --warm-seconds has no meaning with it.")

    @property
    def warm_calls(self) -> int:
        """Calls before the schedule begins."""
        return 0 if self.cold else WARM_CALLS

    @property
    def steps(self) -> int:
        """Steps of the whole schedule."""
        return self.wait + self.warmup + self.active


@dataclass(frozen=True, slots=True)
class Request:
    """One recording to be made."""

    workload: str
    """A registered name, or `path/to/file.py:fn` or `package.module:fn`."""
    out: str
    """Where the trace goes; compressed when it ends in `.gz`."""
    params: Mapping[str, Value] = field(default_factory=dict)
    """Parameters; texts where the function's signature must say what they are."""
    options: Options = field(default_factory=Options)
    argv: tuple[str, ...] = ()
    """The command line that asked for it, to be kept in the trace."""
    table: bool = False
    """Whether torch's own table of sums is written beside the trace."""
    variant: str = ""
    """Which of several recordings it is that are made to be compared; empty for one by itself."""

    def as_json(self) -> str:
        """The request as text for the child's command line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Request:
        """The request that `as_json` wrote."""
        fields: dict[str, Any] = json.loads(text)
        fields["options"] = Options(**fields["options"])
        fields["argv"] = tuple(fields["argv"])
        return cls(**fields)


def tag(params: Mapping[str, Value], options: Options, dtype: str) -> str:
    """What distinguishes a recording from others of its workload, for example `64_bf16_cold_eager`."""
    how = "eager"
    if options.compile:
        kind = options.backend if options.backend != "inductor" else options.mode
        how = "compile" if kind == "default" else f"compile-{kind}"
    # What is 0 or auto says nothing.
    told = [value for value in params.values() if value and value != "auto"]
    words = [*told, dtype, "cold" if options.cold else "warm", how]
    return "_".join(file_name(str(word)) for word in words if word)


def file_name(word: str) -> str:
    """A word without what a file's name should not hold."""
    return "".join(letter if letter.isalnum() or letter in "-.+" else "_" for letter in word).strip("._")


def _one_of(option: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise BadRequest(f"{option} is one of {', '.join(choices)}, not {value}.")
