"""An operator built again from recorded shapes, strides, types and values, and a program that does the same.

All that was recorded is text of others: a name is looked up among torch's operators and nowhere else, values are read
as literals within bounds, types from a list of those that the profiler writes. Nothing is evaluated.
"""

from __future__ import annotations

import ast
import inspect
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import torch

from tracetui_workloads.recording.exceptions import first_line
from tracetui_workloads.verifying.task import RecordedOp

MAX_BYTES = 1 << 32
"""Maximum size of all inputs of an operator, and of all its results."""
MAX_CHECKED_BYTES = 1 << 22
"""Maximum size of all inputs of an operator that is run where it is only checked."""
MAX_TENSORS = MAX_LITERAL = 4096
"""Maximum tensors in a list, and characters of a value."""
CLEARED_BYTES = {"cpu": 64 << 20, "cuda": 256 << 20}
"""Bytes that are written to clear the caches, by kind of device: more than their L2 holds."""
AHEAD_CYCLES = 1_000_000
"""Cycles that a GPU waits before a timed call, while the CPU launches it."""

_TYPES: dict[str, str] = dict(
    re.findall(
        r"([^=,]+)=(\w+)",
        "float=float32,double=float64,c10::Half=float16,c10::BFloat16=bfloat16,bool=bool,long int=int64,long=int64,"
        "__int64=int64,int=int32,short int=int16,short=int16,signed char=int8,unsigned char=uint8,"
        "unsigned short=uint16,unsigned int=uint32,unsigned long=uint64,c10::complex<float>=complex64,"
        "c10::complex<double>=complex128,c10::Float8_e4m3fn=float8_e4m3fn,c10::Float8_e5m2=float8_e5m2",
    )
)
"""Names of torch's types by those that the profiler writes, which are the compiler's."""
_WHOLE = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
_CODES = ("dtype", "out_dtype", "layout", "memory_format")
"""Parameters whose values are numbers of torch's own."""
_VALUES_MATTER = re.compile(
    "nonzero|masked_select|_unique2|repeat_interleave|bincount|item|_local_scalar_dense|is_nonzero|equal"
)
"""Operators whose work depends on the numbers in their inputs."""
_INDEX_LIMITS: Sequence[tuple[str, Callable[[Any, Any], int]]] = (
    ("embedding", lambda dims, values: dims[0][0]),
    (r"gather|index_(select|copy_)|(index|scatter)_add_?|scatter_?", lambda dims, values: dims[0][int(values[1])]),
    (r"nll_loss(_forward|_nd)?|cross_entropy_loss", lambda dims, values: dims[0][min(1, len(dims[0]) - 1)]),
    ("nll_loss_backward", lambda dims, values: dims[1][1]),
    ("embedding_dense_backward", lambda dims, values: int(values[2])),
)
_DEVICE = torch.device("meta")
"""Stands for the device that an operator is built on."""


class CannotBuild(Exception):
    """An operator cannot be built again: the reason without a full stop, none where only this overload cannot."""


def tensor(
    dims: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype, device: str, below: int
) -> torch.Tensor:
    """A tensor of random numbers; whole ones are below a number, so that they can be indices."""
    result = torch.empty_strided(dims, strides, dtype=dtype, device=device)
    flat = result.as_strided((result.untyped_storage().nbytes() // result.element_size(),), (1,))
    _ = flat.random_(0, below) if below else flat.copy_(torch.rand(flat.shape, device=device))
    return result


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor to be made."""

    dims: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    below: int
    """A number above those in it, 0 for a floating type."""
    on_cpu: bool = False
    """True for a tensor of rank 0 beside others, which mostly is a number of the program."""

    @property
    def size(self) -> int:
        """Bytes of its storage."""
        count = 0 if 0 in self.dims else 1 + sum((n - 1) * s for n, s in zip(self.dims, self.strides, strict=True))
        return count * self.dtype.itemsize

    def new(self, device: str) -> torch.Tensor:
        """The tensor on a device."""
        place = "cpu" if self.on_cpu and device != "meta" else device
        return tensor(self.dims, self.strides, self.dtype, place, self.below)

    def __repr__(self) -> str:
        place = '"cpu"' if self.on_cpu else "device"
        return f"tensor({self.dims}, {self.strides}, {self.dtype}, {place}, {self.below})"


@dataclass(frozen=True, slots=True)
class Plan:
    """An overload of an operator with its arguments by name, some of which are still to be made."""

    operator: Any
    args: Mapping[str, Any]
    notes: Sequence[str]

    def call(self, device: str) -> partial[Any]:
        """A call of the operator with new arguments on a device."""
        return partial(self.operator, **{name: _new(each, device) for name, each in self.args.items()})

    @property
    def tensors(self) -> list[TensorSpec]:
        """All tensors among the arguments, those in lists too."""
        flat = [each for value in self.args.values() for each in (value if isinstance(value, list) else [value])]
        return [each for each in flat if isinstance(each, TensorSpec)]

    def is_run(self, op: RecordedOp, is_timed: bool) -> bool:
        """True where it is run; on a CPU an operator of a GPU calls others, if it is there at all."""
        return is_timed or (not op.kernels and sum(each.size for each in self.tensors) <= MAX_CHECKED_BYTES)

    def program(self, op: RecordedOp, label: str, threads: int) -> str:
        """A program that times the operator on the kind of device that it was recorded on.

        Names in it are torch's and values are literals: no text of the trace stands in it but in a quoted string.
        """
        device = "cuda" if op.kernels else "cpu"
        begin, end = ["begin = perf_counter()"], ["times.append(1e6 * (perf_counter() - begin))"]
        if op.kernels:
            event = "torch.cuda.Event(enable_timing=True)"
            begin = [f"torch.cuda._sleep({AHEAD_CYCLES})", f"begin, end = {event}, {event}", "begin.record()"]
            end = ["end.record()", "end.synchronize()", "times.append(1e3 * begin.elapsed_time(end))"]
        recorded = f"recorded {median(op.times_us or [0.0]):.1f} us, here"
        lines = [
            f"# {self.operator} of {label!a}, built again with random numbers, caches cleared before each call.",
            "import statistics, torch",
            "from math import inf, nan",
            "from time import perf_counter",
            f"torch.set_num_threads({threads}), torch.set_grad_enabled(False)",
            f"device, times = torch.device({device!r}), []",
            f"cleared = torch.empty({CLEARED_BYTES[device]}, dtype=torch.uint8, device=device)",
            f"def tensor({', '.join(inspect.signature(tensor).parameters)}):",
            inspect.getsource(tensor).rpartition('"""\n')[2].rstrip(),
            "for _ in range(50):",
            "    args = {",
            *(f"        {name!r}: {each!r}," for name, each in self.args.items()),
            "    }",
            *(f"    {each}" for each in ("cleared.zero_()", *begin)),
            f"    torch.ops.{self.operator}(**args)",
            *(f"    {each}" for each in end),
            f"print({recorded!r}, round(statistics.median(times), 1), 'us')",
        ]
        return "\n".join(lines).replace(repr(_DEVICE), "device") + "\n"


def _new(value: Any, device: str) -> Any:
    if isinstance(value, list):
        return [_new(each, device) for each in value]
    if isinstance(value, torch.device):
        return torch.device(device)
    return value.new(device) if isinstance(value, TensorSpec) else value


def build(op: RecordedOp, list_types: Sequence[str], device: str, is_timed: bool) -> Plan:
    """The overload and arguments of a recorded operator that work on `meta`, and on the device where it is run.

    Raises: CannotBuild.
    """
    reasons: list[str] = []
    for plan in _plans(op, list_types, reasons):
        try:
            _require_memory(sum(each.size for each in plan.tensors))
            results: Any = ()
            # Operators may have no code for `meta`.
            with suppress(Exception) if plan.is_run(op, is_timed) else nullcontext():
                results = plan.call("meta")()
            results = results if isinstance(results, tuple | list) else (results,)
            _require_memory(sum(each.numel() * each.itemsize for each in results if isinstance(each, torch.Tensor)))
            if plan.is_run(op, is_timed):
                plan.call(device)()
            return plan
        except CannotBuild as why:
            reasons.append(str(why))
        except Exception as error:
            # The overload refused its arguments, in any way that torch has.
            reasons.append(f"{type(error).__name__}: {first_line(error)[:160]}")
    raise CannotBuild(next(filter(None, reasons), "no overload of this torch takes such inputs"))


def _require_memory(size: int) -> None:
    if size > MAX_BYTES:
        raise CannotBuild(f"its inputs, or results, of {size / 2**30:,.1f} GiB are above 4 GiB")


def _plans(op: RecordedOp, list_types: Sequence[str], reasons: list[str]) -> Iterator[Plan]:
    """Overloads that may have been called, the likeliest first; `reasons` gets those against others.

    Raises: CannotBuild where nothing can be said of any.
    """
    namespace, _, name = op.name.partition("::")
    packet: Any = getattr(torch.ops.aten, name, None) if re.fullmatch(r"\w{1,200}", name) else None
    if namespace != "aten" or not isinstance(packet, torch._ops.OpOverloadPacket):
        raise CannotBuild("no such operator in this torch")
    dims, types, strides, values = op.dims, op.types, op.strides, op.values
    if not isinstance(dims, list) or not isinstance(types, list) or len(types) != len(dims):
        raise CannotBuild("its shapes were not recorded (record_shapes=True)")
    notes = ["its work depends on values, which are not recorded"] if _VALUES_MATTER.fullmatch(name) else []
    if not isinstance(values, list) or len(values) != len(dims):
        values = [""] * len(dims)
        notes.append("the values of its inputs are not recorded: defaults are taken")
    if not isinstance(strides, list) or len(strides) != len(dims):
        strides = [None] * len(dims)
    guesses = [each for each in (*types, *list_types, "float") if isinstance(each, str) and each in _TYPES]
    listed: Any = packet
    overloads = [getattr(packet, each) for each in listed.overloads()]
    for overload in sorted(overloads, key=lambda each: abs(len(each._schema.arguments) - len(dims))):
        schema = overload._schema.arguments
        rest = schema[len(dims) :]
        if len(schema) < len(dims) or any(each.name in ("filename", "path") for each in schema):
            continue
        has_list = "TensorList" in types and any("[Tensor]" in str(each.type) for each in schema)
        for guess in dict.fromkeys(guesses) if has_list else guesses[:1]:
            reader = _Inputs(name, dims, types, strides, values, guess)
            try:
                args = {each.name: reader.argument(index, each) for index, each in enumerate(schema[: len(dims)])}
            except CannotBuild as why:
                reasons.append(str(why))
                continue
            except (IndexError, KeyError, TypeError, ValueError, OverflowError) as error:
                reasons.append(f"its inputs are not understood ({type(error).__name__})")
                continue
            if all(each.has_default_value() for each in rest):
                # Without it what makes tensors would take memory also where they are to be made on `meta`.
                args |= {each.name: _DEVICE for each in rest if "Device" in str(each.type)}
                listed = [f"tensors in its lists are taken for {_TYPES[guess]}"] if has_list else []
                yield Plan(overload, args, [*notes, *listed])


@dataclass
class _Inputs:
    """The recorded inputs of a call, read as arguments of one overload."""

    name: str
    dims: list[Any]
    types: list[Any]
    strides: list[Any]
    values: list[Any]
    guess: str
    """The type of tensors in lists."""

    def argument(self, index: int, parameter: Any) -> Any:
        """The argument of a parameter, or its default.

        Raises: CannotBuild.
        """
        want, kind, text = str(parameter.type), self.types[index], self.values[index]
        is_optional = want.startswith("Optional[")
        want = want.removeprefix("Optional[").removesuffix("]") if is_optional else want
        dims, strides = self.dims[index], self.strides[index]
        if want == "Tensor" and kind and kind not in ("Scalar", "ScalarList", "TensorList"):
            return self._tensor(dims, strides, kind)
        if want.endswith(("Tensor]", "Tensor]]")):
            if kind != "TensorList" or not isinstance(dims, list) or not 0 < len(dims) <= MAX_TENSORS:
                raise CannotBuild("the tensors of a list, as of indices, are not recorded")
            given = strides if isinstance(strides, list) and len(strides) == len(dims) else [None] * len(dims)
            return [self._tensor(each, steps, self.guess) for each, steps in zip(dims, given, strict=True)]
        if kind == "TensorList" or kind in _TYPES or (want == "Tensor" and kind):
            raise CannotBuild
        if want == "Device":
            return _DEVICE
        if isinstance(text, str) and text not in ("", "None"):
            return _value(parameter.name, want, text)
        if is_optional and not parameter.has_default_value():
            return None
        if not parameter.has_default_value():
            raise CannotBuild(f"the value of {parameter.name} is not recorded")
        return parameter.default_value

    def _tensor(self, dims: Any, strides: Any, kind: Any) -> TensorSpec:
        if kind not in _TYPES:
            raise CannotBuild(f"the type {str(kind)[:40]!r} is not known")
        sizes, dtype = _whole(dims), getattr(torch, _TYPES[kind])
        steps = _whole(strides) if isinstance(strides, list) and len(strides) == len(sizes) else _contiguous(sizes)
        below = 2 if dtype == torch.bool else self._index_limit() if dtype in _WHOLE else 0
        beside = any(isinstance(each, list) and each for each in self.dims)
        return TensorSpec(sizes, steps, dtype, below, not sizes and beside)

    def _index_limit(self) -> int:
        """The number below which whole numbers must be to be indices of what they index; 1 where that is not known."""
        limit = next((each for names, each in _INDEX_LIMITS if re.fullmatch(names, self.name)), lambda dims, values: 1)
        with suppress(IndexError, ValueError, TypeError):
            return max(int(limit(self.dims, self.values)), 1)
        return 1


def _value(name: str, want: str, text: str) -> Any:
    """A recorded value: a plain word, a number, or a list of some; torch says whether it fits.

    Raises: CannotBuild.
    """
    if want == "str" and re.fullmatch(r"[a-z_]{1,24}", word := text.strip("'\"")):
        return word
    value: Any = None
    with suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        if want != "str" and len(text) <= MAX_LITERAL:
            words = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
            value = words[text] if text in words else ast.literal_eval(text)
    listed = value if isinstance(value, list | tuple) else [value]
    if not all(isinstance(each, int | float | complex) for each in listed):
        raise CannotBuild(f"the value {text[:40]!r} of {name} is not understood")
    if name in _CODES and not (type(value) is int and 0 <= value < 46):
        # Torch fails on some of these by ending the process.
        raise CannotBuild(f"the {name} of number {text[:20]!r} is not known")
    return list(value) if isinstance(value, tuple) else value


def _whole(values: Any) -> tuple[int, ...]:
    """Sizes or strides.

    Raises: CannotBuild for what is none.
    """
    if isinstance(values, list) and len(values) <= 64 and all(type(n) is int and 0 <= n < 1 << 62 for n in values):
        return tuple(values)
    raise CannotBuild("sizes or strides are no whole numbers")


def _contiguous(dims: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(max(math.prod(max(n, 1) for n in dims[index + 1 :]), 1) for index in range(len(dims)))
