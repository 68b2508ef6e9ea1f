"""What a workload is: a name, parameters, a function that prepares one step, and what its trace should show.

Only the standard library is imported here. `prepare` is a string and torch is imported inside the function it
names, so that workloads can be listed where torch is missing; both happen in the recording child alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

Value = int | float | str | bool
"""What a parameter can be."""

Step = TypeVar("Step", bound=Callable[..., Any])

Metric = Literal[
    "kernels_per_forward",
    "kernel_named",
    "ops_per_step",
    "op_named",
    "calls_per_step",
    "gpu_busy_pct",
    "slowest_to_fastest_step",
]
"""What can be looked up in a trace:

`kernels_per_forward`      kernels, copies and fills that were launched inside the workload's label, per step
`kernel_named`             whether a kernel has a name that matches a pattern
`ops_per_step`             CPU operators per step
`op_named`                 whether a CPU operator has a name that matches a pattern
`calls_per_step`           calls per step of the operator in `Expect.of`
`gpu_busy_pct`             share of the recorded steps in which a device ran anything, in percent
`slowest_to_fastest_step`  longest step divided by the shortest
"""


class BadRequest(ValueError):
    """What was asked for cannot be understood: no such workload, parameter, value or function."""


class Unavailable(Exception):
    """The workload was understood but cannot run on this device; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter of a workload: `--name` on the command line, a field in a form."""

    name: str
    default: Value
    help: str = ""
    choices: tuple[Value, ...] = ()
    minimum: float | None = None
    grows_memory: bool = False
    """Whether a larger value needs more memory; such parameters are named when memory runs out."""

    def read(self, given: Value) -> Value:
        """The given value, or the text of one, as the type of the default.

        Raises: BadRequest that says what is accepted.
        """
        value = converted(given, type(self.default), self.name)
        if self.choices and value not in self.choices:
            raise BadRequest(f"{self.name} is one of {', '.join(map(str, self.choices))}, not {value}.")
        if self.minimum is not None and not isinstance(value, str) and value < self.minimum:
            raise BadRequest(f"{self.name} must be at least {self.minimum:g}, not {value}.")
        return value


@dataclass(frozen=True, slots=True)
class Expect:
    """One thing to guess before looking, and to check in the recorded trace."""

    text: str
    """What is asked, for example `GPU kernels per forward`."""
    metric: Metric
    want: int | tuple[float, float] | str
    """A number, an inclusive range, or a pattern for a metric that ends in `named`; `^$` wants no match."""
    when: str = "cuda"
    """Words that must all hold, see `applies`."""
    why: str = ""
    """Told after the guess."""
    of: str = ""
    """The operator whose calls are counted."""

    def applies(self, about: Mapping[str, Any]) -> bool:
        """Whether this holds for a recording, by what the recording says of itself (its `tracetui` entry).

        `any` always holds; `cpu` and `cuda` name the kind of device; `eager` and `compile`, `cold` and `warm` say how
        it ran; `torch=2.13` is the version, and any other `name=value` a parameter.
        """
        return all(_holds(word, about) for word in self.when.split())


@dataclass(slots=True)
class Prepared:
    """A workload on its device, ready to be called."""

    step: Callable[[], object]
    """One iteration; must not synchronise; the value is ignored."""
    label: str
    """The annotation around each iteration, no suffix of an operator's name."""
    flops: float | None = None
    """Algorithmic floating-point operations of one step."""
    bytes: float | None = None
    """Memory traffic of one step that no implementation can avoid."""
    check: Callable[[], None] | None = None
    """Called once outside the profiler, before a trace is written; raises AssertionError for a wrong result."""
    close: Callable[[], None] | None = None
    """Called after the last step."""
    operands: Mapping[str, Any] = field(default_factory=dict)
    """Weights and inputs by name, tensors or modules, anything else counts for nothing: what recordings that are
    compared must have in common."""


class Context(Protocol):
    """What a `prepare` function may ask of the recorder."""

    @property
    def device(self) -> str:
        """The device to put tensors on, for example `cpu` or `cuda:0`."""

    @property
    def dtype(self) -> Any:
        """The `torch.dtype` that was asked for, or the workload's default."""

    @property
    def seed(self) -> int:
        """The seed, with which torch was seeded before `prepare`."""

    @property
    def compiled(self) -> bool:
        """Whether `--compile` was given."""

    def compile(self, step: Step) -> Step:
        """The function compiled as the options say, or unchanged."""

    def note(self, text: str) -> None:
        """Tell the user a sentence."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A program worth profiling, as it is listed, chosen and configured without torch."""

    name: str
    summary: str
    prepare: str
    """`package.module:function`, called as `function(context, **params)` in the child; returns a `Prepared`."""
    params: tuple[Param, ...] = ()
    needs: tuple[str, ...] = ()
    """`gpu`, `gpu>=9.0` (compute capability), `triton`, `compiler` (C++)."""
    studies: Literal["overhead", "throughput"] = "throughput"
    """Whether shapes are recorded by default: they cost time per operator, which a study of overhead would see."""
    dtype: str = "bf16"
    """The default data type, one of `options.DTYPES`; empty where it makes no difference."""
    lesson: str = ""
    """What the trace teaches, to be shown after the guess."""
    expects: tuple[Expect, ...] = ()
    see: tuple[str, ...] = ()
    """Where the lesson comes from."""
    variants: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    """Recordings worth comparing: a name and the options or parameters that differ. `workload` among them names another
    workload that computes the same; `eager` and `compile` exist for all."""

    def values(self, given: Mapping[str, Value]) -> dict[str, Value]:
        """Every parameter with its given or default value.

        Raises: BadRequest for an unknown parameter or a bad value.
        """
        known = {param.name: param for param in self.params}
        wanted = {name.replace("-", "_"): value for name, value in given.items()}
        for name in wanted.keys() - known.keys():
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise BadRequest(f"{self.name} has no parameter {name}; {has}.")
        return {name: param.read(wanted.get(name, param.default)) for name, param in known.items()}

    @property
    def growing(self) -> tuple[str, ...]:
        """The parameters that scale the memory it needs."""
        return tuple(param.name for param in self.params if param.grows_memory)


TRUE, FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def converted(given: Value, kind: type, name: str) -> Value:
    """A value, or the text of one, as a bool, int, float or str.

    Raises: BadRequest when the text does not read as that type.
    """
    if kind is bool:
        text = str(given).strip().casefold()
        if text not in TRUE + FALSE:
            raise BadRequest(f"{name} is true or false, not {given}.")
        return text in TRUE
    if kind not in (int, float, str):
        raise BadRequest(f"{name} wants a {kind.__name__}, which cannot be given as text.")
    try:
        value: Value = kind(given)
    except ValueError:
        raise BadRequest(f"{name} wants a {_WORDS[kind]}, not {given}.") from None
    return value


_WORDS = {int: "whole number", float: "number", str: "text"}


def _holds(word: str, about: Mapping[str, Any]) -> bool:
    """Whether one word of `Expect.when` is true of a recording."""
    options, params = about.get("options") or {}, about.get("params") or {}
    name, is_pair, value = word.partition("=")
    if not is_pair:
        return {
            "any": True,
            "cpu": str(about.get("device")).startswith("cpu"),
            "cuda": str(about.get("device")).startswith("cuda"),
            "eager": not options.get("compile"),
            "compile": bool(options.get("compile")),
            "cold": bool(options.get("cold")),
            "warm": not options.get("cold"),
        }[word]
    if name == "torch":
        return f"{about.get('torch')}.".startswith(f"{value}.")
    if name in ("mode", "backend") and name not in params:
        return str(options.get(name)) == value
    return str(params.get(name)) == value
