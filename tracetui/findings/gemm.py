"""Rules about GEMMs: misaligned operands, few rows for their weights, loops of small ones, fp32 on CUDA cores.

First the operator calls of kernels with the shapes of their inputs, for all rules that look at shapes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache

import numpy as np

from tracetui.devices.descriptions import AMD, Generation, gpu_generation
from tracetui.devices.formulas import size_of
from tracetui.devices.kernel_work import kernel_work
from tracetui.devices.roofline import CACHE, MEMORY, roofline
from tracetui.findings.idle_time import idle_cost, kernel_time, launching_parts
from tracetui.findings.scope import Finding, Scope, Severity, longest
from tracetui.frozen import frozen
from tracetui.kernel_names import Decoded, Family, decode
from tracetui.kernel_names.slice_names import short_kernel
from tracetui.linking.groups import combinations, group
from tracetui.linking.links import links, names_of
from tracetui.linking.trees import is_named
from tracetui.model.intervals import Bool, Int64
from tracetui.model.quantities import counted, duration, rate, rounded_percent, size
from tracetui.model.trace import Kind, Trace
from tracetui.operators.key_averages import Signature, signatures

Shape = tuple[int, ...]

FIRST_OPERANDS = {"aten::mm": 0, "aten::bmm": 0, "aten::matmul": 0, "aten::addmm": 1, "aten::baddbmm": 1}
FIRST_OPERANDS |= {"aten::linear": 0, "aten::_scaled_mm": 0, "aten::_int_mm": 0}
"""Operators that are GEMMs and the index of their left operand; the right one follows."""
MAX_SIZE = 1 << 40
"""Maximum size of a dimension of a plausible tensor."""
TRANSPOSED_RIGHT = ("aten::linear",)
"""Operators whose right operand is [columns, depth]."""


@frozen
class Calls:
    """The operator calls that launched some kernels; parallel arrays, one entry per kernel."""

    kernel: Int64
    """Rows of the kernels."""
    op: Int64
    """Row of the operator, -1 where it is not known."""
    name: Int64
    """Id of its name, -1 likewise."""
    signature: Int64
    """Index in `known`, -1 where no shapes were recorded."""
    known: list[Signature]

    def take(self, keep: np.ndarray[tuple[int], np.dtype[np.generic]]) -> Calls:
        """The calls of some of the kernels, by mask or index."""
        return Calls(self.kernel[keep], self.op[keep], self.name[keep], self.signature[keep], self.known)


def calls_of(scope: Scope, kernels: Int64) -> Calls:
    """The operator calls of kernels that no graph replayed."""
    trace = scope.trace
    op = np.where(links(trace).launched_together(kernels) > 1, -1, links(trace).owner[kernels]).astype(np.int64)
    inputs = signatures(trace, op)
    return Calls(kernels, op, names_of(trace, op), np.where(op >= 0, inputs.id, -1), inputs.known)


@frozen(eq=True, slots=True)
class Gemm:
    """Sizes of a GEMM: `batch` times [rows, depth] x [depth, columns]."""

    batch: int
    rows: int
    depth: int
    columns: int
    element: str
    """Type of the elements as recorded, empty where it was not."""

    @property
    def text(self) -> str:
        """The sizes in words: `[16, 5185, 64] x [16, 64, 5185]`."""
        batch = [self.batch] if self.batch > 1 else []
        return f"{[*batch, self.rows, self.depth]} x {[*batch, self.depth, self.columns]}"


def gemm_of(name: str, signature: Signature) -> Gemm | None:
    """The GEMM that a call computes; None for any other operator and for shapes that do not fit."""
    first = FIRST_OPERANDS.get(name)
    if first is None or len(signature.dims) < first + 2:
        return None
    left, right = shape_of(signature.dims[first]), shape_of(signature.dims[first + 1])
    if left is None or right is None or len(left) < 2 or len(right) < 2:
        return None
    if name in TRANSPOSED_RIGHT:
        right = (*right[:-2], right[-1], right[-2])
    if left[-1] != right[-2] or not math.prod(left) * right[-1]:
        return None
    rows, batch = (left[-2], math.prod(left[:-2])) if len(right) > 2 else (math.prod(left[:-1]), 1)
    element = signature.types[first] if len(signature.types) > first else ""
    return Gemm(batch, rows, left[-1], right[-1], element)


@frozen
class Gemms:
    """The GEMMs of some calls."""

    known: list[Gemm | None]
    """The GEMM of each distinct operator and signature."""
    index: Int64
    """Index in `known` of each call."""

    def where(self, wanted: Callable[[Gemm], bool]) -> Bool:
        """Mask of the calls whose GEMM satisfies `wanted`."""
        mask: Bool = np.array([each is not None and wanted(each) for each in self.known], bool)[self.index]
        return mask

    def of(self, call: int) -> Gemm | None:
        """The GEMM of a call by its position."""
        return self.known[int(self.index[call])]

    def used(self, calls: Bool | None = None) -> list[Gemm]:
        """The distinct GEMMs of all calls or of some of them."""
        index = np.unique(self.index if calls is None else self.index[calls])
        return [gemm for number in index.tolist() if (gemm := self.known[number]) is not None]


def gemms_of(names: Sequence[str], calls: Calls) -> Gemms:
    """The GEMM of each call, computed once per operator and signature; `names` are those of the trace."""
    pairs = combinations(calls.name, calls.signature)
    different = zip(calls.name[pairs.first].tolist(), calls.signature[pairs.first].tolist(), strict=True)
    known = [gemm_of(names[name], calls.known[sig]) if name >= 0 and sig >= 0 else None for name, sig in different]
    return Gemms(known, pairs.member)


def shape_of(dims: Iterable[object]) -> Shape | None:
    """Sizes of a tensor; None for a list of tensors, and for what are no sizes."""
    given = tuple(dims)
    sizes = tuple(size for size in given if type(size) is int and 0 <= size < MAX_SIZE)
    return sizes if len(sizes) == len(given) else None


MIN_ALIGNED_ELEMENTS = 4
"""Minimum alignment in elements; a kernel for less loads one or two elements at a time."""
EVEN_ELEMENTS = 8
"""Sizes are to be padded to a multiple of so many elements."""
MAX_NAMED_SIZES = 3
"""Maximum odd sizes named per sentence."""
MIN_NAMED_SHARE = 0.1
"""Minimum share of the time of the first named size."""


def misaligned_products(scope: Scope) -> Iterator[Finding]:
    """Matrix kernels for misaligned operands, because a size is odd."""
    trace = scope.trace
    rows = scope.computing_named(is_misaligned)
    if len(rows) == 0:
        return
    example = longest(trace, rows)
    sizes = _odd_sizes(scope, rows)
    named = f", for sizes that are no multiple of {EVEN_ELEMENTS}: {', '.join(f'{each:,}' for each in sizes)}"
    yield from scope.with_cost(
        "misaligned-gemm",
        scope.gpu_cost(rows),
        "GEMMs of misaligned operands",
        f"{kernel_time(scope, rows)}{named if sizes else ''}; the longest, {short_kernel(trace.name_of(example))}",
        f"A size that is no multiple of {EVEN_ELEMENTS} makes the library load single elements and often take a kernel "
        "of an older generation. Pad it (sequence length, vocabulary, hidden size) to a multiple of 8, better of 64.",
        example,
        action=f"pad {sizes[0]:,} to a multiple of {EVEN_ELEMENTS}" if sizes else "pad odd sizes to a multiple of 8",
    )


def is_misaligned(name: str) -> bool:
    """True for kernels of Tensor Cores that load one or two elements at a time."""
    decoded = decode(name)
    small = decoded.align is not None and decoded.align < MIN_ALIGNED_ELEMENTS
    # A double is as long as four halves: loading one at a time is how its kernels work.
    return small and decoded.tensor_core is True and decoded.a != "f64"


def _odd_sizes(scope: Scope, rows: Int64) -> list[int]:
    """Sizes of the GEMMs that are no multiple of 8, those that took most time first; none without shapes."""
    spent: dict[int, float] = {}
    gemms = gemms_of(scope.trace.names, calls_of(scope, rows))
    time = np.bincount(gemms.index, scope.trace.slices.dur[rows], len(gemms.known))
    for gemm, dur in zip(gemms.known, time.tolist(), strict=True):
        for each in {gemm.rows, gemm.depth, gemm.columns} if gemm else ():
            if each % EVEN_ELEMENTS and each > 1:
                spent[each] = spent.get(each, 0.0) + dur
    ranked = sorted(spent, key=lambda each: (-spent[each], each))
    return [each for each in ranked[:MAX_NAMED_SIZES] if spent[each] >= MIN_NAMED_SHARE * spent[ranked[0]]]


MAX_FEW_ROWS = 15
"""Maximum rows of a GEMM that reads its weights for few vectors."""
MIN_BANDWIDTH_SHARE = 0.5
"""Minimum share of the bandwidth at which a GEMM is held up by reading its weights."""
MIN_FEW_ROWS_NS = 5_000
"""Minimum duration of such a GEMM; a shorter one is held up by its launch."""


def small_batch_products(scope: Scope) -> Iterator[Finding]:
    """GEMMs of so few rows that reading the weights takes all their time (decoding, gathered experts)."""
    trace, work, rooflines = scope.trace, kernel_work(scope.trace), roofline(scope.trace)
    at = work.at(scope.computing)
    # Main kernels of calls that reach half of the bandwidth of their device, or come from its cache.
    near = (rooflines.bound[at] == MEMORY) & (np.nan_to_num(rooflines.share[at]) >= MIN_BANDWIDTH_SHARE)
    near |= rooflines.bound[at] == CACHE
    near &= trace.slices.dur[scope.computing] >= MIN_FEW_ROWS_NS
    calls = calls_of(scope, scope.computing[near])
    calls = calls.take(
        gemms_of(trace.names, calls).where(
            lambda gemm: gemm.rows <= MAX_FEW_ROWS and min(gemm.columns, gemm.depth) > EVEN_ELEMENTS * gemm.rows
        )
    )
    rows = calls.kernel
    if len(rows) == 0:
        return
    longest_call = int(np.argmax(trace.slices.dur[rows]))
    gemm, span = gemms_of(trace.names, calls).of(longest_call), int(trace.slices.dur[rows[longest_call]])
    assert gemm is not None
    weights = gemm.batch * gemm.depth * gemm.columns * (size_of(gemm.element) or 0)
    moved = f", {size(weights)} of weights at {rate(weights, span)}" if weights else ""
    few_rows = "one row" if gemm.rows == 1 else f"{gemm.rows} rows"
    at = work.at(rows)
    known = ~np.isnan(rooflines.share[at])
    least, total = float(rooflines.roofline_ns[at][known].sum()), float(work.span[at][known].sum())
    reached = (
        f"{rounded_percent(min(100 * least / total, 100))} of the bandwidth" if total else "out of the GPU's cache"
    )
    yield from scope.with_cost(
        "small-batch-products",
        scope.gpu_cost(rows),
        "GEMMs read their weights for few rows",
        f"{kernel_time(scope, rows)}; the longest, {trace.name_of(int(calls.op[longest_call]))} of {few_rows}, "
        f"{gemm.text}, {duration(span)}{moved}, {reached}",
        "The time is that of reading the weights once, however few rows there are: batch more requests, use a grouped "
        "GEMM over tokens sorted by expert where weights are chosen per token, or quantise the weights.",
        int(rows[longest_call]),
        action="multiply more rows at once (batch requests, grouped GEMM)",
    )


MIN_LOOP_CALLS = 8
"""Minimum equal GEMMs in a row that are a loop."""
MAX_LOOP_GEMM_NS = 50_000
"""Maximum median duration of the GEMMs of a loop that one batched GEMM would shorten."""


def batchable_products(scope: Scope) -> Iterator[Finding]:
    """The same small GEMM many times in a row, which one batched GEMM could replace."""
    trace, dur, loops = scope.trace, scope.trace.slices.dur, batchable(scope)
    rows, index, example = loops.rows, loops.index, loops.example
    if len(rows) == 0:
        return
    # One batched GEMM takes at least as long as the longest of its loop.
    kept, spent = float(dur[rows[group(index).largest(dur[rows])]].sum()), float(dur[rows].sum())
    gemm = gemms_of(trace.names, example).of(0)
    yield from scope.with_cost(
        "batchable-products",
        int(scope.gpu_cost(rows) * (1 - kept / max(spent, 1))),
        "A loop of small GEMMs could be one batched GEMM",
        f"{kernel_time(scope, rows)}, in {counted(int(index[-1]) + 1, 'loop')} of up to "
        f"{int(np.bincount(index).max()):,} equal GEMMs; the longest loop, {trace.name_of(int(example.op[0]))} "
        f"of {gemm.text if gemm else ''}",
        "Stack the operands and multiply once: torch.bmm, torch.baddbmm or torch.einsum, or vmap over the loop.",
        int(example.kernel[0]),
        action="multiply them as one batch (torch.bmm)",
    )


@frozen
class Batchable:
    """Kernels of loops of small GEMMs; parallel arrays."""

    rows: Int64
    """In order of start."""
    index: Int64
    """Number of the loop of each."""
    example: Calls
    """The first call of the longest loop; none without loops."""


def batchable(scope: Scope) -> Batchable:
    """The kernels of loops of small GEMMs that one batched GEMM could replace."""

    def find() -> Batchable:
        calls = calls_of(scope, scope.computing)
        calls = calls.take(np.append(True, calls.op[1:] != calls.op[:-1]) if len(calls.op) else np.empty(0, bool))
        loops = _loops(scope, calls)
        if len(loops) == 0:
            none = np.empty(0, np.int64)
            return Batchable(none, none, calls.take(none))
        first, last = loops.T
        index = np.repeat(np.arange(len(loops)), last - first)
        at = np.arange(len(index)) - np.repeat(np.cumsum(last - first) - (last - first), last - first) + first[index]
        return Batchable(calls.kernel[at], index, calls.take(first[[int(np.argmax(last - first))]]))

    return scope.trace.keep(("batchable GEMMs", scope.step), find)


def _loops(scope: Scope, calls: Calls) -> Int64:
    """First and last index (exclusive) of each run of equal, independent GEMMs of one caller on one stream."""
    trace = scope.trace
    if len(calls.kernel) == 0:
        return np.empty((0, 2), np.int64)
    # What called the outermost operator around each: a frame, an annotation or -1.
    caller = calls.op.copy()
    while (climbing := (caller >= 0) & (trace.slices.kind[caller] == Kind.CPU_OP)).any():
        caller[climbing] = trace.slices.parent[caller[climbing]]
    same = np.ones(len(calls.kernel) - 1, bool)
    for values in (calls.name, calls.signature, caller, trace.slices.lane[calls.kernel]):
        same &= values[1:] == values[:-1]
    edges = np.concatenate([[0], np.flatnonzero(~same) + 1, [len(calls.kernel)]]).astype(np.int64)
    first, last = edges[:-1], edges[1:]
    run = np.repeat(np.arange(len(first)), last - first)
    # The result cannot be an operand of the next GEMM where its sizes are others.
    independent = gemms_of(trace.names, calls).where(
        lambda gemm: (gemm.rows, gemm.columns) not in ((gemm.rows, gemm.depth), (gemm.depth, gemm.columns))
    )
    kept = independent[first] & (last - first >= MIN_LOOP_CALLS)
    kept &= group(run).median(trace.slices.dur[calls.kernel]) <= MAX_LOOP_GEMM_NS
    return np.stack([first[kept], last[kept]], axis=1)


# GEMMs and convolutions in fp32 that leave the Tensor Cores (Matrix Cores on AMD) unused.

_OPERATIONS = ("gemm", "convolution")
_WITHOUT_GAIN = ("few columns", "depth 1", "depthwise")
"""Forms of GEMMs that move too much for what they compute to gain from Tensor Cores."""
_GROUPED = re.compile(r"depthwise|dwconv|grouped_direct", re.IGNORECASE)
_LOW_PRECISION = re.compile(r"tf32|tensor", re.IGNORECASE)
_FP32 = re.compile(r"(?:^|_)fp32(?:_|$)")
_LIBRARIES = ("cuBLAS", "cuDNN")
_HALF = ("f16", "bf16")
_REDUCED = ("tf32", "f16", "bf16", "f8", "e4m3", "e5m2")
MAX_PRECISION_GAIN = 7 / 8
"""Share of the time of fp32 GEMMs that a lower precision can save at most: Tensor Cores are up to 8 times as fast."""
_ALLOW = "allow TF32"
_MATMUL_FLAG = "torch.set_float32_matmul_precision('high')"


def fp32_math(scope: Scope) -> Iterator[Finding]:
    """GEMMs and convolutions compute fp32 on CUDA cores although the device has Tensor Cores."""
    trace, device = scope.trace, gpu_generation(scope.trace)
    rows = fp32_rows(scope)
    if len(rows) == 0 or not device.has_fp16_tensor_cores:
        return
    convolutions = is_named(trace, rows, is_convolution)
    what = "GEMMs and convolutions" if convolutions.any() else "GEMMs"
    what = "convolutions" if convolutions.all() else what
    cost = scope.gpu_cost(rows)
    after_launches = idle_cost(scope, launching_parts(scope)) > cost
    later = "The GPU waits longer for late launches than for these kernels: treat those first. "
    action, advice = _precision_advice(scope, device, rows)
    slow = "do not use Tensor Cores" + (" (TF32 off)" if action == _ALLOW else "")
    slow = "run at a fraction of the rate of Matrix Cores for bf16" if device.vendor == AMD else slow
    yield from scope.with_cost(
        "fp32-math",
        int(MAX_PRECISION_GAIN * cost),
        f"fp32 {what} {slow}",
        f"{kernel_time(scope, rows)}; the longest, {short_kernel(trace.name_of(longest(trace, rows)))}; "
        + _on_units(scope, device, rows),
        (later if after_launches else "") + advice,
        longest(trace, rows),
        action=action,
        at_most=Severity.MINOR if after_launches else Severity.MAJOR,
    )


def fp32_rows(scope: Scope) -> Int64:
    """GEMMs and convolutions in fp32 on CUDA cores; on AMD those on Matrix Cores too, where fp32 is slow as well."""
    is_amd = gpu_generation(scope.trace).vendor == AMD
    return scope.computing_named(_is_fp32_on_amd if is_amd else is_fp32_gemm)


@cache
def is_fp32_gemm(name: str) -> bool:
    """True for GEMMs and convolutions in fp32 that no Tensor Core computes."""
    decoded = decode(name)
    if not _gains(name, decoded) or _LOW_PRECISION.search(name):
        return False
    # Names of libraries say where Tensor Cores compute; of other names nothing is known.
    plain = decoded.tensor_core is False or (decoded.library or "").startswith(_LIBRARIES)
    return decoded.a == "f32" and plain and not decoded.tensor_core


@cache
def _is_fp32_on_amd(name: str) -> bool:
    decoded = decode(name)
    return _gains(name, decoded) and (decoded.a == "f32" or bool(_FP32.search(name)))


def _gains(name: str, decoded: Decoded) -> bool:
    """True for GEMMs and convolutions that compute enough to gain from Tensor Cores."""
    is_gemm = decoded.family == Family.GEMM and decoded.operation in _OPERATIONS
    return is_gemm and decoded.op not in _WITHOUT_GAIN and not _GROUPED.search(name)


def _on_tensor_cores(name: str) -> bool:
    decoded = decode(name)
    return bool(decoded.tensor_core) and decoded.operation in _OPERATIONS


def is_convolution(name: str) -> bool:
    """True for kernels that compute a convolution, and not for those that prepare it."""
    return decode(name).operation == "convolution"


def _decoded(trace: Trace, rows: Int64) -> list[Decoded]:
    """The different names among some kernels, decoded."""
    return [decode(trace.names[number]) for number in np.unique(trace.slices.name[rows]).tolist()]


def _on_units(scope: Scope, device: Generation, rows: Int64) -> str:
    """A clause on the other GEMMs and convolutions that run on Tensor Cores, and on their types."""
    others = np.setdiff1d(scope.computing_named(_on_tensor_cores), rows)
    units = "Matrix Cores" if device.vendor == AMD else "Tensor Cores"
    if len(others) == 0:
        return f"no GEMM runs on {units} in a lower precision"
    types = sorted({each.a for each in _decoded(scope.trace, others) if each.a in _REDUCED and each.a})
    words = f" in {' and '.join(types)}" if types else ""
    return f"others take {duration(int(scope.trace.slices.dur[others].sum()))} on {units}{words}"


def _precision_advice(scope: Scope, device: Generation, rows: Int64) -> tuple[str, str]:
    """The action, and the advice, by what the device can compute and what is allowed already."""
    low = "bf16" if device.has_bf16 else "fp16"
    autocast = f"run them under torch.autocast with {low}"
    others = _decoded(scope.trace, scope.computing_named(_on_tensor_cores))
    if any(each.a in _HALF for each in others):
        left_out = "see which layers autocast leaves in fp32"
        return (
            left_out,
            f"Other GEMMs compute in half precision already: {left_out} (disabled regions, own kernels).",
        )
    if device.vendor == AMD:
        return autocast, f"Matrix Cores compute lower precisions: {autocast}."
    if not device.has_tf32:
        scaled = ", with a GradScaler" if scope.program.has_backward else ""
        return autocast, f"Tensor Cores compute them in lower precision: {autocast}{scaled}."
    kinds = {each.operation for each in _decoded(scope.trace, rows)}
    in_tf32 = {each.operation for each in others if each.a == "tf32"}
    parts = [_tf32_advice(kind, kind in in_tf32) for kind in _OPERATIONS if kind in kinds]
    action = _ALLOW if any(_MATMUL_FLAG in part for part in parts) else autocast
    return action, f"{' '.join(parts)} Or {autocast}, which is faster than TF32."


def _tf32_advice(kind: str, is_allowed: bool) -> str:
    """A sentence on why GEMMs or convolutions do not use TF32, and what lets them."""
    if is_allowed:
        others = "convolutions" if kind == "convolution" else "GEMMs"
        return (
            f"TF32 is allowed for other {others}: the library took CUDA cores for the sizes of these, so pad them to a "
            "multiple of 8."
        )
    if kind == "convolution":
        return "torch.backends.cudnn.allow_tf32 is on by default for convolutions: see what turns it off."
    return f"{_MATMUL_FLAG} lets GEMMs round to TF32."
