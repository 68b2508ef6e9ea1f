"""The options of a recording, each declared once; the command line, the request and the form are derived from these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, cast

from tracetui_workloads.api import BadRequest, Param, Value

DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
"""Names of data types: in `--dtype`, and in torch."""
WARM_CALLS = 3
"""Warm-up calls before the profiler is loaded, unless `--cold` is given."""

HOW_IT_RUNS, WHAT_IS_RECORDED = "how it runs", "what is recorded"


@dataclass(frozen=True, slots=True)
class Option(Param):
    """One option: `--name` on the command line, a field of the form, and one of `Options`."""

    group: str = HOW_IT_RUNS
    """The heading of the option in `--help`."""
    is_folded: bool = True
    """Whether the form shows the option on request only."""
    suggestions: tuple[str, ...] = ()
    """Values that the form offers; others are accepted too."""
    is_shared: bool = False
    """Whether a workload may have a parameter of this name, which gets values that are not choices of the option."""


def _option(default: Value, help: str, choices: tuple[str, ...] = (), **more: Any) -> Any:
    """A field of `Options` with its help and choices; `more` holds further fields of `Option`."""
    return field(default=default, metadata={"help": help, "choices": choices, **more})


@dataclass(frozen=True, slots=True)
class Options:
    """How a workload is run and recorded; every option may change the measured times, so all are kept in the trace.

    Raises: BadRequest for options that do not exist or contradict each other.
    """

    compile: bool = _option(False, "run the workload through torch.compile", is_folded=False)
    device: str = _option(
        "auto",
        "a GPU if there is one; or cpu, cuda:1",
        is_folded=False,
        suggestions=("auto", "cpu", "cuda"),
    )
    dtype: str = _option("", "data type; the workload's by default", tuple(DTYPES), is_folded=False)
    cold: bool = _option(False, "skip the warm-up calls", is_folded=False)
    active: int = _option(3, "recorded steps; 10 for a comparison", minimum=1, is_folded=False, group=WHAT_IS_RECORDED)
    mode: str = _option(
        "default", "mode of torch.compile", ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
    )
    backend: str = _option("inductor", "backend of torch.compile", ("inductor", "aot_eager", "eager"), is_shared=True)
    wait: int = _option(1, "steps before the profiler starts", minimum=0, group=WHAT_IS_RECORDED)
    warmup: int = _option(1, "warm-up steps of the profiler, not recorded", minimum=0, group=WHAT_IS_RECORDED)
    warm_seconds: float = _option(0.0, "seconds of warm-up, so that GPU clocks rise", minimum=0)
    seed: int = _option(0, "seed of weights and inputs")
    shapes: str = _option(
        "auto", "input shapes; auto as the workload needs", ("auto", "on", "off"), group=WHAT_IS_RECORDED
    )
    stack: bool = _option(False, "record Python stacks; slows the run", group=WHAT_IS_RECORDED)
    memory: bool = _option(False, "record allocations", group=WHAT_IS_RECORDED)
    threads: int = _option(0, "CPU threads of torch; 0: OMP_NUM_THREADS, or the physical cores", minimum=0)
    time_seconds: float = _option(1.0, "seconds to time it without the profiler; 0: not at all", minimum=0)

    def __post_init__(self) -> None:
        for option in OPTIONS.values():
            _require_possible(option, getattr(self, option.name))
        if not self.compile and (self.mode, self.backend) != (DEFAULTS["mode"], DEFAULTS["backend"]):
            raise BadRequest("--mode and --backend say how to compile; add --compile.")
        if self.mode != DEFAULTS["mode"] and self.backend != DEFAULTS["backend"]:
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


OPTIONS: Mapping[str, Option] = {
    each.name: Option(each.name, cast(Value, each.default), **each.metadata) for each in fields(Options)
}
"""Every option by name."""
DEFAULTS: Mapping[str, Any] = {name: option.default for name, option in OPTIONS.items()}
"""The default of every option."""


def _require_possible(option: Option, value: Any) -> None:
    """Raises: BadRequest for a value that an option does not accept; its default is always accepted."""
    words = f"--{option.name.replace('_', '-')}"
    if option.choices and value not in option.choices and value != option.default:
        raise BadRequest(f"{words} is one of {', '.join(map(str, option.choices))}, not {value}.")
    if option.minimum is not None and value < option.minimum:
        raise BadRequest(f"{words} must be at least {option.minimum:g}, not {value}.")
