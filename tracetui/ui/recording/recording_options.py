"""How a recording is made, as fields of a form: what is asked each time, what is folded away, and the command for it.

`--device cuda:1`, `--python`, `--timeout` and where the trace goes are left to the command line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tracetui_workloads.api import Param, Value, Workload
from tracetui_workloads.recording.launcher import OPTIONS, Options, Request, plan, plan_variants

COMPARE = Param("compare", "", "record variants, as in eager,compile")
"""The field that asks for variants; empty for one recording."""

MORE = Param("more", False, "compiler, schedule, seed, stacks, memory")
"""The field that unfolds the others."""

_FIELDS = {name: replace(option, choices=option.choices or option.suggestions) for name, option in OPTIONS.items()}
FOLDED = tuple(option for option in _FIELDS.values() if option.is_folded)
"""Options that are rarely changed."""


def common(workload: Workload) -> tuple[Param, ...]:
    """Options that are asked each time; the data type only where it makes a difference."""
    fields = {**_FIELDS, "dtype": replace(_FIELDS["dtype"], default=workload.dtype)}
    return tuple(each for each in fields.values() if not each.is_folded and (each.name != "dtype" or workload.dtype))


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
    options = {*OPTIONS, COMPARE.name}
    words = ["tracetui", "run", name]
    for key, value in changed.items():
        words += [_option(key)] if value == "yes" else [f"{_option(key)}={value}"]
    for key, value in given.items():
        # What has the name of an option would be taken for it.
        words += ["-p", f"{key}={value}"] if key in options else [f"{_option(key)}={value}"]
    return words


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
