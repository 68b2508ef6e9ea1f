"""How a recording is made, as fields of a form: what is asked each time, what is folded away, and the command for it.

`--device cuda:1`, `--python`, `--timeout` and where the trace goes are left to the command line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workloads.api import Param, Value, Workload
from workloads.recording.launcher import BACKENDS, DTYPES, MODES, SHAPES, Options, Request, plan, plan_variants

DEFAULTS = Options()
COMPARE = Param("compare", "", "record several, as in eager,compile")
"""The field that asks for variants; empty for one recording."""

MORE = Param("more", False, "compiler, schedule, seed, stacks, memory")
"""The field that unfolds the others."""

_COMMON = (
    Param("compile", DEFAULTS.compile, "through torch.compile"),
    Param("device", DEFAULTS.device, "the GPU where there is one", choices=("auto", "cpu", "cuda")),
    Param("cold", DEFAULTS.cold, "no calls before the schedule begins"),
    Param("active", DEFAULTS.active, "steps that are recorded; to compare 10", minimum=1),
)

FOLDED = (
    Param("mode", DEFAULTS.mode, "of torch.compile", choices=MODES),
    Param("backend", DEFAULTS.backend, "of torch.compile", choices=BACKENDS),
    Param("wait", DEFAULTS.wait, "steps before the profiler starts", minimum=0),
    Param("warmup", DEFAULTS.warmup, "steps it throws away", minimum=0),
    Param("warm_seconds", DEFAULTS.warm_seconds, "warm up for so long, for clocks to rise", minimum=0),
    Param("seed", DEFAULTS.seed, "of weights and inputs"),
    Param("shapes", DEFAULTS.shapes, "input shapes; auto asks the workload", choices=SHAPES),
    Param("stack", DEFAULTS.stack, "Python stacks; changes the times"),
    Param("memory", DEFAULTS.memory, "allocations"),
)
"""Options that are rarely changed."""


def common(workload: Workload) -> tuple[Param, ...]:
    """Options that are asked each time; the data type only where it makes a difference."""
    dtype = (Param("dtype", workload.dtype, "data type", choices=tuple(DTYPES)),) if workload.dtype else ()
    return (*_COMMON[:2], *dtype, *_COMMON[2:])


def requests(name: str, workload: Workload, given: Mapping[str, Value], changed: Mapping[str, Value]) -> list[Request]:
    """What a form asks for: one recording, or one for each variant; parameters and options that differ, as texts.

    Raises: BadRequest for a bad value, or for options that contradict each other.
    """
    words = command_line(name, given, changed)
    options = {key: value for key, value in changed.items() if key != COMPARE.name}
    compared = [word.strip() for word in str(changed.get(COMPARE.name, "")).split(",") if word.strip()]
    if compared:
        return plan_variants(name, compared, given, values_of(workload, options), argv=words)
    return [plan(name, given, options_of(workload, options), argv=words)]


def options_of(workload: Workload, changed: Mapping[str, Value]) -> Options:
    """The options by those that differ from their defaults.

    Raises: BadRequest for a bad value, or for options that contradict each other.
    """
    return Options(**values_of(workload, changed))


def values_of(workload: Workload, changed: Mapping[str, Value]) -> dict[str, Any]:
    """The options that differ from their defaults, each in its type.

    Raises: BadRequest for a bad value.
    """
    fields = {param.name: param for param in (*common(workload), *FOLDED)}
    return {name: fields[name].read(value) for name, value in changed.items()}


def command_line(name: str, given: Mapping[str, Value], changed: Mapping[str, Value]) -> list[str]:
    """The same recording as a command, of parameters and options that differ from their defaults, as texts."""
    options = {param.name for param in (*_COMMON, *FOLDED)} | {"dtype", COMPARE.name}
    words = ["tracetui", "run", name]
    for key, value in changed.items():
        words += [_option(key)] if value == "yes" else [f"{_option(key)}={value}"]
    for key, value in given.items():
        # What has the name of an option would be taken for it.
        words += ["-p", f"{key}={value}"] if key in options else [f"{_option(key)}={value}"]
    return words


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
