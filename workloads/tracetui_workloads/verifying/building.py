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
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch

from tracetui_workloads.recording.exceptions import first_line
from tracetui_workloads.verifying.task import RecordedOp

MAX_TENSOR_BYTES = 1 << 30
"""Maximum size of a tensor, and of a result."""
MAX_INPUT_BYTES = 1 << 32
"""Maximum size of all inputs of an operator."""
MAX_TENSORS = 4096
"""Maximum tensors in a list."""
MAX_LITERAL = 4096
"""Maximum characters of a value."""
MAX_REASON = 160
"""Maximum characters of a sentence of torch."""

_TYPES = dict(
    re.findall(
        r"([^=,]+)=(\w+)",
        "float=float32,double=float64,c10::Half=float16,c10::BFloat16=bfloat16,bool=bool,long int=int64,long=int64,"
        "__int64=int64,int=int32,short int=int16,short=int16,signed char=int8,unsigned char=uint8,"
        "unsigned short=uint16,unsigned int=uint32,unsigned long=uint64,c10::complex<float>=complex64,"
        "c10::complex<double>=complex128,c10::Float8_e4m3fn=float8_e4m3fn,c10::Float8_e5m2=float8_e5m2",
    )
)
"""Names of torch's types by those that the profiler writes, which are the compiler's."""
_NUMBERED: dict[str, str] = dict(
    re.findall(
        r"(\d+)=(\w+)",
        "0=uint8,1=int8,2=int16,3=int32,4=int64,5=float16,6=float32,7=float64,9=complex64,10=complex128,11=bool,"
        "15=bfloat16,23=float8_e5m2,24=float8_e4m3fn,27=uint16,28=uint32,29=uint64",
    )
)
"""Names of torch's types by number, as values have them."""
_FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
_LISTS = {"List[int]": int, "List[float]": float, "List[bool]": bool, "List[number]": complex}
_WORD = re.compile(r"[a-z_]{1,24}")
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
"""Number below which the whole numbers in the inputs must be, by operator, from sizes and values; of others 1."""


class CannotBuild(Exception):
    """An operator cannot be built again; the message is the reason, without a full stop."""


class _OtherOverload(CannotBuild):
    """The inputs are those of another overload."""


def tensor(dims: Any, strides: Any, dtype: Any, device: str, below: int = 1) -> Any:
    """A tensor of random numbers; whole ones are below a number, so that they can be indices."""
    result = torch.empty_strided(dims, strides, dtype=dtype, device=device)
    flat = result.as_strided((result.untyped_storage().nbytes() // result.element_size(),), (1,))
    if dtype in (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        flat.random_(0, 2 if dtype == torch.bool else below)
    else:
        flat.copy_(torch.rand(flat.shape, device=device))
    return result


def microseconds(call: Any, device: str) -> float:
    """The time of a call; on a GPU by its own clock, from when it is done with what was queued before."""
    if device == "cpu":
        began = perf_counter()
        call()
        return 1e6 * (perf_counter() - began)
    event: Any = torch.cuda.Event
    begin, end = event(enable_timing=True), event(enable_timing=True)
    begin.record()
    call()
    end.record()
    end.synchronize()
    return float(1e3 * begin.elapsed_time(end))


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor to be made."""

    dims: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    below: int = 1
    on_cpu: bool = False
    """True for a tensor of rank 0 beside others, which mostly is a number of the program."""

    @property
    def size(self) -> int:
        """Bytes of its storage."""
        count = 0 if 0 in self.dims else 1 + sum((n - 1) * s for n, s in zip(self.dims, self.strides, strict=True))
        return count * int(getattr(torch, self.dtype).itemsize)

    def new(self, device: str) -> Any:
        """The tensor on a device."""
        place = "cpu" if self.on_cpu and device != "meta" else device
        return tensor(self.dims, self.strides, getattr(torch, self.dtype), place, self.below)

    def __repr__(self) -> str:
        place = '"cpu"' if self.on_cpu else "device"
        return f"tensor({self.dims}, {self.strides}, torch.{self.dtype}, {place}, {self.below})"


@dataclass(frozen=True, slots=True)
class _TorchName:
    """A constant of torch, or the device as `device`, that a program writes by name."""

    name: str

    def new(self, device: str) -> Any:
        return torch.device(device) if self.name == "device" else getattr(torch, self.name)

    def __repr__(self) -> str:
        return "device" if self.name == "device" else f"torch.{self.name}"


@dataclass(frozen=True, slots=True)
class Plan:
    """An overload of an operator with its arguments, some of which are still to be made."""

    operator: Any
    args: Sequence[Any]
    named: Mapping[str, Any]
    notes: Sequence[str]

    def new(self, device: str) -> tuple[list[Any], dict[str, Any]]:
        """The arguments on a device, as new ones."""
        return [_new(each, device) for each in self.args], {k: _new(each, device) for k, each in self.named.items()}

    @property
    def tensors(self) -> list[TensorSpec]:
        """All tensors among the arguments, those in lists too."""
        flat = [each for value in self.args for each in (value if isinstance(value, list) else [value])]
        return [each for each in flat if isinstance(each, TensorSpec)]

    def script(self, recorded: RecordedOp, label: str, threads: int) -> str:
        """A program that times the operator as it was recorded, on the kind of device that it was recorded on.

        Names in it are torch's and values are literals: no text of the trace stands in it but in a quoted string.
        """
        times = sorted(recorded.times_us) or [0.0]
        about, device = f"recorded {times[len(times) // 2]:.1f} us, here", "cuda" if recorded.kernels else "cpu"
        lines = [
            "import statistics, torch",
            "from math import inf, nan",
            "from time import perf_counter",
            "from typing import Any",
            f"# {self.operator} of {label!a}",
            f"torch.set_num_threads({threads})",
            f"device = {device!r}",
            *(inspect.getsource(each).rstrip() for each in (tensor, microseconds)),
            "args = [",
            *(f"    {each!r}," for each in self.args),
            "]",
            f"named = {dict(self.named)!r}",
            "with torch.no_grad():",
            f"    times = [microseconds(lambda: torch.ops.{self.operator}(*args, **named), device) for _ in range(50)]",
            f"print({about!r}, round(statistics.median(times), 1), 'us')",
        ]
        return "\n".join(lines) + "\n"


def _new(value: Any, device: str) -> Any:
    if isinstance(value, list):
        return [_new(each, device) for each in value]
    return value.new(device) if isinstance(value, TensorSpec | _TorchName) else value


def build(op: RecordedOp, list_types: Sequence[str], device: str, must_run: bool) -> Plan:
    """The overload and arguments of a recorded operator, tried on `meta`; and on the device if it must run.

    Raises: CannotBuild.
    """
    reasons: list[str] = []
    for plan in _plans(op, list_types, reasons):
        try:
            _require_sizes(plan, must_run)
            if must_run:
                args, named = plan.new(device)
                with torch.no_grad():
                    plan.operator(*args, **named)
            return plan
        except CannotBuild as why:
            reasons.append(str(why))
        except Exception as error:
            # The overload refused its arguments, in any way that torch has.
            reasons.append(f"{type(error).__name__}: {first_line(error)[:MAX_REASON]}")
    raise CannotBuild(reasons[0] if reasons else "no overload of this torch takes such inputs")


def _require_sizes(plan: Plan, may_fail: bool) -> None:
    """Check sizes of inputs, and of the result as `meta` computes it; operators may have no code for that."""
    sizes = [each.size for each in plan.tensors]
    for size, what in ((max(sizes, default=0), "a tensor"), (_result_size(plan, may_fail), "its result")):
        if size > MAX_TENSOR_BYTES:
            raise CannotBuild(f"{what} of {size / 2**30:,.1f} GiB is above 1 GiB")
    if sum(sizes) > MAX_INPUT_BYTES:
        raise CannotBuild(f"its inputs are {sum(sizes) / 2**30:,.1f} GiB, above 4 GiB")


def _result_size(plan: Plan, may_fail: bool) -> int:
    try:
        args, named = plan.new("meta")
        with torch.no_grad():
            result = plan.operator(*args, **named)
    except Exception:
        if may_fail:
            return 0
        raise
    results = result if isinstance(result, tuple | list) else (result,)
    return max((each.numel() * each.itemsize for each in results if isinstance(each, torch.Tensor)), default=0)


def _plans(op: RecordedOp, list_types: Sequence[str], reasons: list[str]) -> Iterator[Plan]:
    """Overloads that may have been called, the likeliest first; `reasons` gets those against others.

    Raises: CannotBuild where nothing can be said of any.
    """
    namespace, _, name = op.name.partition("::")
    packet = getattr(torch.ops.aten, name, None) if re.fullmatch(r"\w{1,200}", name) else None
    if namespace != "aten":
        raise CannotBuild("no operator of aten")
    if not isinstance(packet, torch._ops.OpOverloadPacket):
        raise CannotBuild("no such operator in this torch")
    inputs = [each if isinstance(each, list) else None for each in (op.dims, op.types, op.strides, op.values)]
    dims, types, strides, values = inputs
    if dims is None or types is None or len(types) != len(dims):
        raise CannotBuild("its shapes were not recorded (record_shapes=True)")
    notes = []
    if values is None or len(values) != len(dims):
        values = [""] * len(dims)
        notes.append("the values of its inputs are not recorded: defaults are taken")
    if strides is None or len(strides) != len(dims):
        strides = [[]] * len(dims)
    guesses = [*types, *list_types] if "TensorList" in types else ["float"]
    guesses = list(dict.fromkeys(each for each in [*guesses, "float"] if isinstance(each, str) and each in _TYPES))
    listed: Any = packet
    overloads = [getattr(packet, each) for each in listed.overloads()]
    for overload in sorted(overloads, key=lambda each: abs(len(each._schema.arguments) - len(dims))):
        schema = overload._schema.arguments
        if len(schema) < len(dims) or any(each.name in ("filename", "path") for each in schema):
            continue
        for guess in guesses if any("List[Tensor]" in str(each.type) for each in schema) else guesses[:1]:
            reader = _Inputs(name, dims, types, strides, values, guess)
            try:
                args = {each.name: reader.argument(index, each) for index, each in enumerate(schema[: len(dims)])}
                # Without it what makes tensors would take memory also where they are to be made on `meta`.
                args |= {each.name: _TorchName("device") for each in schema[len(dims) :] if "Device" in str(each.type)}
                if missing := [each.name for each in schema[len(dims) :] if not each.has_default_value()]:
                    raise _OtherOverload(missing[0])
            except _OtherOverload:
                continue
            except CannotBuild as why:
                reasons.append(str(why))
                continue
            except (IndexError, KeyError, TypeError, ValueError, OverflowError) as error:
                reasons.append(f"its inputs are not understood ({type(error).__name__})")
                continue
            by_name = {each.name for each in schema if each.kwarg_only}
            named = {each: value for each, value in args.items() if each in by_name}
            reader.notes += [
                *notes,
                *["its work depends on values, which are not recorded"] * bool(_VALUES_MATTER.fullmatch(name)),
            ]
            yield Plan(overload, [args[each] for each in args if each not in by_name], named, reader.notes)


@dataclass
class _Inputs:
    """The recorded inputs of a call, read as arguments of one overload."""

    name: str
    dims: list[Any]
    types: list[Any]
    strides: list[Any]
    values: list[Any]
    guess: str

    def __post_init__(self) -> None:
        self.notes: list[str] = []

    def argument(self, index: int, parameter: Any) -> Any:
        """The argument of a parameter, or its default.

        Raises: CannotBuild.
        """
        want, kind, text = str(parameter.type), self.types[index], self.values[index]
        is_optional = want.startswith("Optional[")
        want = want.removeprefix("Optional[").removesuffix("]") if is_optional else want
        if want == "Tensor" and kind:
            if kind in ("Scalar", "ScalarList", "TensorList"):
                raise _OtherOverload
            return self._tensor(self.dims[index], self.strides[index], kind)
        if want in ("List[Tensor]", "List[Optional[Tensor]]") and kind == "TensorList":
            return self._list(self.dims[index], self.strides[index])
        if want == "List[Optional[Tensor]]":
            return self._indices()
        if kind == "TensorList" or (isinstance(kind, str) and kind in _TYPES):
            raise _OtherOverload
        if want == "Device":
            return _TorchName("device")
        if isinstance(text, str) and text not in ("", "None"):
            return self._value(parameter.name, want, text)
        if parameter.has_default_value():
            return parameter.default_value
        if is_optional:
            return None
        raise CannotBuild(f"the value of {parameter.name} is not recorded")

    def _tensor(self, dims: Any, strides: Any, kind: Any) -> TensorSpec:
        if kind not in _TYPES:
            raise CannotBuild(f"the type {str(kind)[:40]!r} is not known")
        sizes = _whole(dims)
        steps = _whole(strides) if isinstance(strides, list) and len(strides) == len(sizes) else _contiguous(sizes)
        beside = any(isinstance(each, list) and each for each in self.dims)
        return TensorSpec(sizes, steps, _TYPES[kind], self._limit(), not sizes and beside)

    def _limit(self) -> int:
        limit = next((each for names, each in _INDEX_LIMITS if re.fullmatch(names, self.name)), None)
        try:
            return max(int(limit(self.dims, self.values)), 1) if limit else 1
        except (IndexError, ValueError, TypeError):
            return 1

    def _list(self, dims: Any, strides: Any) -> list[TensorSpec]:
        if not isinstance(dims, list) or not dims or len(dims) > MAX_TENSORS:
            raise CannotBuild(f"a list of tensors without shapes, or of more than {MAX_TENSORS:,}")
        self.notes.append(f"the type of a list of tensors is not recorded: taken for {_TYPES[self.guess]}")
        given = strides if isinstance(strides, list) and len(strides) == len(dims) else [[]] * len(dims)
        return [self._tensor(each, steps, self.guess) for each, steps in zip(dims, given, strict=True)]

    def _indices(self) -> list[TensorSpec]:
        """The indices of `index_put_`, one for the first dimension, as its values have it."""
        own, put = self.dims[0], self.dims[2] if len(self.dims) > 2 else None
        if not own or not put or put[len(put) - len(own) + 1 :] != own[1:]:
            raise CannotBuild("its indices are not recorded")
        sizes = _whole(put[: len(put) - len(own) + 1])
        self.notes.append("its indices are not recorded: one for the first dimension is taken")
        return [TensorSpec(sizes, _contiguous(sizes), "int64", _whole(own)[0])]

    def _value(self, name: str, want: str, text: str) -> Any:
        if want == "str":
            word = text.strip("'\"")
            if not _WORD.fullmatch(word):
                raise CannotBuild(f"the value of {name} is no plain word")
            return word
        value = _literal(text)
        if name == "memory_format" and isinstance(value, int) and 0 <= value < len(_FORMATS):
            return _TorchName(_FORMATS[value])
        if name in ("dtype", "out_dtype"):
            if str(value) not in _NUMBERED:
                raise CannotBuild(f"the type of number {text[:20]!r} is not known")
            return _TorchName(_NUMBERED[str(value)])
        if name == "layout":
            return _TorchName("strided")
        if want == "bool" and isinstance(value, int) and value in (0, 1):
            return bool(value)
        if want == "int" and isinstance(value, int):
            return int(value)
        if want in ("float", "number") and isinstance(value, int | float | complex):
            return value
        if want in _LISTS and isinstance(value, list | tuple) and len(value) <= MAX_TENSORS:
            kinds = (int, float, complex) if _LISTS[want] is complex else (_LISTS[want], int)
            if all(isinstance(each, kinds) for each in value):
                return list(value)
        raise _OtherOverload


def _whole(values: Any) -> tuple[int, ...]:
    """Sizes or strides.

    Raises: CannotBuild for what is none.
    """
    if isinstance(values, list) and len(values) <= 64 and all(type(n) is int and 0 <= n < 1 << 62 for n in values):
        return tuple(values)
    raise CannotBuild("sizes or strides are no whole numbers")


def _contiguous(dims: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(max(math.prod(max(n, 1) for n in dims[index + 1 :]), 1) for index in range(len(dims)))


def _literal(text: str) -> Any:
    """A value that was recorded as text: a number, or a list of some.

    Raises: CannotBuild for anything else.
    """
    try:
        if len(text) <= MAX_LITERAL:
            words = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
            return words[text] if text in words else ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        pass
    raise CannotBuild(f"the value {text[:40]!r} is not understood")


def elements(dims: Any) -> int:
    """Elements of all inputs together, as far as their sizes are readable."""
    if isinstance(dims, list) and dims and all(type(each) is int for each in dims):
        return math.prod(max(each, 0) for each in dims)
    return sum(map(elements, dims)) if isinstance(dims, list) else 0
