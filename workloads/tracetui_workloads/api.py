"""The interface of a workload: a name, parameters, a function that prepares one step, and expectations of its trace.

Only the standard library is imported here. `prepare` is a string, and the function it names imports torch, so that
workloads can be listed where torch is missing; only the child process calls it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

Value = int | float | str | bool
"""The value of a parameter."""

Step = TypeVar("Step", bound=Callable[..., Any])

Metric = Literal[
    "kernels_per_forward",
    "kernels_in_order",
    "kernel_named",
    "kernels_per_call",
    "occupancy_queries_per_call",
    "span_us",
    "gpu_busy_pct",
    "matching_calls_per_step",
    "ops_per_step",
    "ops_in_order",
    "op_named",
    "calls_per_step",
    "matching_ops_per_step",
    "share_of_steps_pct",
    "slowest_to_fastest_step",
    "first_to_shortest_dead_window",
    "ranks",
    "late_rank_named",
]
"""Measures of a trace that an expectation can name:

`kernels_per_forward`            kernels, copies and fills launched inside the workload's label, per step
`kernels_in_order`               the operators that launched them, in the order in which they ran; a kernel that no
                                 operator launched stands under its own name
`kernel_named`                   whether a kernel has a name that matches a pattern
`kernels_per_call`               kernels, copies and fills launched by each call of the operator in `Expect.of`
`occupancy_queries_per_call`     occupancy queries made by each call of the operator in `Expect.of`
`span_us`                        from the start of the first of a forward's kernels to the end of the last, in us
`gpu_busy_pct`                   share of the recorded steps in which a device ran anything, in percent
`matching_calls_per_step`        runtime calls per step whose names match the pattern in `Expect.of`
`ops_per_step`                   CPU operators per step
`ops_in_order`                   the CPU operators of a step whose names match the pattern in `Expect.of`, in order
`op_named`                       whether a CPU operator has a name that matches a pattern
`calls_per_step`                 calls per step of the operator in `Expect.of`
`matching_ops_per_step`          CPU operators per step whose names match the pattern in `Expect.of`
`share_of_steps_pct`             share of the steps that operators and annotations matching `Expect.of` take, in percent
`slowest_to_fastest_step`        longest step divided by the shortest
`first_to_shortest_dead_window`  time from the start of the first forward to its first operator, divided by the
                                 shortest such time of the later ones
`ranks`                          ranks that left a trace; this and the next are looked up in the traces of all ranks
`late_rank_named`                whether a rank is late, and the cause, as in `rank 1: input`, matches a pattern
"""
MORE = float("inf")
"""The upper end of a range that has none."""


class BadRequest(ValueError):
    """The request is invalid: the workload, parameter, value or function does not exist."""


class Unavailable(Exception):
    """The workload exists but cannot run on this device; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter of a workload: `--name` on the command line, a field in a form."""

    name: str
    default: Value
    help: str = ""
    choices: tuple[Value, ...] = ()
    minimum: float | None = None
    grows_memory: bool = False
    """True where a larger value needs more memory: these parameters are named when memory runs out."""

    def read(self, given: Value) -> Value:
        """The given value, or the text of one, converted to the type of the default.

        Raises: BadRequest that says which values are accepted.
        """
        value = converted(given, type(self.default), self.name)
        if self.choices and value not in self.choices:
            raise BadRequest(f"{self.name} is one of {', '.join(map(str, self.choices))}, not {value}.")
        if self.minimum is not None and not isinstance(value, str) and value < self.minimum:
            raise BadRequest(f"{self.name} must be at least {self.minimum:g}, not {value}.")
        return value


@dataclass(frozen=True, slots=True)
class Expect:
    """One expectation of the recorded trace: the user guesses it before looking, and `--verify` checks it."""

    text: str
    """The question, for example `GPU kernels per forward`."""
    metric: Metric
    want: int | tuple[float, float] | str
    """A number, an inclusive range, or a pattern for a metric that ends in `named`; `^$` expects no match. For an order
    a pattern per name, with spaces between them; `aten::` is left out of names."""
    when: str = "cuda"
    """Conditions that must all hold, see `applies`."""
    why: str = ""
    """The explanation, shown after the guess."""
    of: str = ""
    """The operator, or the pattern of the names, that the metric is about."""
    asks: str = ""
    """The question to guess, where a person can find the answer by thinking; empty where it is only checked."""

    def applies(self, metadata: Mapping[str, Any]) -> bool:
        """True where the expectation applies to a recording, given its metadata (the entry `tracetui` of the trace).

        `any` always applies; `cpu` and `cuda` are kinds of device; `eager` and `compile`, `cold` and `warm` are options
        of the recording, and `inductor` means compiled by it; `torch=2.13` is the version, `capability=8.0` that of the
        GPU, and any other `name=value` a parameter.
        """
        return applies(self.when, metadata)


@dataclass(frozen=True, slots=True)
class Contrast:
    """One expectation of two recorded variants: how many times as large a number of A is as that of B."""

    text: str
    """The two numbers, for example `operators of eager by those of combined`."""
    a: str
    b: str
    """Names of the variants."""
    metric: Metric
    """A metric whose result is a number for each step."""
    want: int | tuple[float, float]
    """A number or an inclusive range."""
    when: str = "cuda"
    """Conditions that must hold for both recordings, see `Expect.applies`."""
    why: str = ""
    """The explanation."""
    of: str = ""
    """The operator, or the pattern of the names, that the metric is about."""

    def applies(self, metadata: Mapping[str, Any]) -> bool:
        """True where the conditions hold for one of the recordings."""
        return applies(self.when, metadata)


def applies(when: str, metadata: Mapping[str, Any]) -> bool:
    """True where all conditions hold for a recording, see `Expect.applies`."""
    return all(_holds(word, metadata) for word in when.split())


@dataclass(slots=True)
class Prepared:
    """A workload whose tensors are on the device, ready to be called."""

    step: Callable[[], object]
    """One iteration; it must not synchronise, and its result is ignored."""
    label: str
    """The annotation around each iteration; it must not be a suffix of an operator's name."""
    flops: float | None = None
    """Algorithmic floating-point operations of one step."""
    bytes: float | None = None
    """Bytes of memory traffic of one step that no implementation can avoid."""
    check: Callable[[], None] | None = None
    """Called once outside the profiler before the trace is written; raises AssertionError for a wrong result."""
    close: Callable[[], None] | None = None
    """Called after the last step."""
    operands: Mapping[str, Any] = field(default_factory=dict)
    """Weights and inputs by name, as tensors or modules; other values are ignored. Recordings that are compared must
    have the same ones."""


class Context(Protocol):
    """The recording that a `prepare` function prepares a step for."""

    @property
    def device(self) -> str:
        """The device for tensors, for example `cpu` or `cuda:0`."""

    @property
    def dtype(self) -> Any:
        """The `torch.dtype` of `--dtype`, or the workload's default."""

    @property
    def seed(self) -> int:
        """The seed; torch was seeded with it before `prepare`."""

    @property
    def compiled(self) -> bool:
        """True with `--compile`."""

    @property
    def rank(self) -> int:
        """The number of this process among those of `Workload.ranks`, from 0 on."""

    @property
    def ranks(self) -> int:
        """Number of processes that run the workload, 1 for most. Their process group is there before `prepare`."""

    def compile(self, step: Step) -> Step:
        """The function compiled according to the options, or unchanged without `--compile`."""

    def note(self, text: str) -> None:
        """Show the user a sentence."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The description of a program to profile, with which it is listed, chosen and configured without torch."""

    name: str
    summary: str
    prepare: str
    """`package.module:function`, called as `function(context, **params)` in the child; returns a `Prepared`."""
    params: tuple[Param, ...] = ()
    ranks: str = ""
    """The parameter that says in how many processes, each a rank of one process group, the workload runs. Every rank
    leaves a trace, all in one folder. Empty for one process without a group."""
    needs: tuple[str, ...] = ()
    """Requirements: `gpu`, `gpu>=9.0` (compute capability), `triton`, `compiler` (C++)."""
    studies: Literal["overhead", "throughput"] = "throughput"
    """The subject; shapes are recorded by default for throughput only, because they take time per operator."""
    dtype: str = "bf16"
    """The default data type, one of `options.DTYPES`; empty where it makes no difference."""
    lesson: str = ""
    """The lesson of the trace, shown after the guess, and to whoever asks for it."""
    expects: tuple[Expect, ...] = ()
    contrasts: tuple[Contrast, ...] = ()
    """Expectations that `--compare --verify` checks of two variants."""
    refuses: tuple[tuple[str, str], ...] = ()
    """Recordings that cannot be made: conditions as of `Expect.when`, and a sentence that says why."""
    see: tuple[str, ...] = ()
    """Sources of the lesson, as addresses."""
    variants: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    """Recordings worth comparing: a name, and the options or parameters that differ. The key `workload` names another
    workload that computes the same; `eager` and `compile` exist for all workloads, and a name for the same recording as
    one of these is offered in its place."""

    def values(self, given: Mapping[str, Value]) -> dict[str, Value]:
        """Every parameter with its given or default value.

        Raises: BadRequest for an unknown parameter or a bad value.
        """
        known = {param.name: param for param in self.params}
        normalized = {name.replace("-", "_"): value for name, value in given.items()}
        for name in normalized.keys() - known.keys():
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise BadRequest(f"{self.name} has no parameter {name}; {has}.")
        return {name: param.read(normalized.get(name, param.default)) for name, param in known.items()}

    def refusal(self, metadata: Mapping[str, Any]) -> str:
        """The reason why a recording with this metadata (device, options, params) cannot be made; else empty."""
        return next((reason for when, reason in self.refuses if applies(when, metadata)), "")

    @property
    def growing(self) -> tuple[str, ...]:
        """The parameters that increase memory use."""
        return tuple(param.name for param in self.params if param.grows_memory)


TRUE, FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
"""Texts that stand for true and for false."""


def converted(given: Value, kind: type, name: str) -> Value:
    """A value, or the text of one, as a bool, int, float or str.

    Raises: BadRequest where the text is not a value of that type.
    """
    if kind is bool:
        text = str(given).strip().casefold()
        if text not in TRUE + FALSE:
            raise BadRequest(f"{name} is true or false, not {given}.")
        return text in TRUE
    if kind not in (int, float, str):
        raise BadRequest(f"{name} has the type {kind.__name__}, which cannot be given as text.")
    try:
        value: Value = kind(given)
    except ValueError:
        raise BadRequest(f"{name} must be a {_TYPE_NAMES[kind]}, not {given}.") from None
    return value


_TYPE_NAMES = {int: "whole number", float: "number", str: "text"}


def _holds(word: str, metadata: Mapping[str, Any]) -> bool:
    """True where one condition of `Expect.when` holds for a recording."""
    options, params = metadata.get("options") or {}, metadata.get("params") or {}
    name, is_pair, value = word.partition("=")
    if not is_pair:
        return {
            "any": True,
            "cpu": str(metadata.get("device")).startswith("cpu"),
            "cuda": str(metadata.get("device")).startswith("cuda"),
            "eager": not options.get("compile"),
            "compile": bool(options.get("compile")),
            "cold": bool(options.get("cold")),
            "warm": not options.get("cold"),
            "inductor": bool(options.get("compile")) and options.get("backend") == "inductor",
        }[word]
    if name == "torch":
        return f"{metadata.get('torch')}.".startswith(f"{value}.")
    if name == "capability":
        return str((metadata.get("gpu") or {}).get("capability")) == value
    if name in ("mode", "backend") and name not in params:
        return str(options.get(name)) == value
    return str(params.get(name)) == value
