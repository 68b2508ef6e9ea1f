"""Classes of GPU activities: what is compared is computed once for all activities that are alike.

Alike are activities of one name, launched by one operator with inputs of the same sizes, on grids of the same size
(copies and fills: of as many bytes). A trace has millions of activities and some hundred such classes.

The problem size is independent of the operator's name: `mm` and `addmm` of the same M, N and K have the same one. It
rests on the sizes of the inputs only: strides and padding of convolutions and masks of attention are not compared.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tracetui.devices.operands import Operands, Shape
from tracetui.kernel_names import Decoded, decode, normalised
from tracetui.linking.graph_nodes import with_captured
from tracetui.linking.groups import combinations
from tracetui.linking.links import calls_named, links, names_of
from tracetui.linking.replays import GRAPH_LAUNCH
from tracetui.model.intervals import Int64
from tracetui.model.table import NULL
from tracetui.model.trace import GPU_WORK, Kind, Trace
from tracetui.operators.signatures import Signature, signatures

_BASES = ("mm", "bmm", "_scaled_mm", "_int_mm", "mv", "dot")
_WITH_BIAS = ("addmm", "_addmm_activation", "baddbmm", "addmv")
_CONVOLUTIONS = (
    "convolution",
    "_convolution",
    "cudnn_convolution",
    "cudnn_convolution_relu",
    "miopen_convolution",
    "miopen_depthwise_convolution",
    "_conv_depthwise2d",
    "_slow_conv2d_forward",
)
_ATTENTIONS = (
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_flash_attention_forward",
    "_efficient_attention_forward",
    "_cudnn_attention_forward",
)


def problem(op: str, signature: Signature) -> str:
    """The problem size of a matrix product, convolution or attention, as text to compare; empty for other operators."""
    rule = _RULES.get(op.rsplit("::", 1)[-1].removesuffix("_"))
    return rule(Operands(signature)) if rule else ""


def _product(first: int) -> Callable[[Operands], str]:
    """Batch, M, N and K; M and N in either order, since a product may be computed transposed."""

    def rule(inputs: Operands) -> str:
        left, right = inputs.shape(first), inputs.shape(first + 1)
        if not left or not right or left[-1] != right[-2 if len(right) > 1 else 0]:
            return ""
        rows, columns = left[-2] if len(left) > 1 else 1, right[-1] if len(right) > 1 else 1
        small, large = sorted((rows, columns))
        batch = left[0] if len(left) > 2 else 1
        return f"{batch} x {large} x {small} x {left[-1]}"

    return rule


def _convolved(first: int, way: str) -> Callable[[Operands], str]:
    """Sizes of input and weight."""

    def rule(inputs: Operands) -> str:
        given, weight = inputs.shape(first), inputs.shape(first + 1)
        return f"{given} * {weight} {way}" if given and weight and len(given) == len(weight) else ""

    return rule


def _attended(first: int, way: str) -> Callable[[Operands], str]:
    """Sizes of query and key, independent of whether heads or lengths come first."""

    def rule(inputs: Operands) -> str:
        query, key = inputs.shape(first), inputs.shape(first + 1)
        return f"{_sorted(query)} ? {_sorted(key)} {way}" if query and key and len(query) == 4 else ""

    return rule


def _sorted(shape: Shape) -> list[int]:
    return sorted(shape)


def _table() -> dict[str, Callable[[Operands], str]]:
    rules = dict.fromkeys(_BASES, _product(0)) | dict.fromkeys(_WITH_BIAS, _product(1))
    rules |= dict.fromkeys(_CONVOLUTIONS, _convolved(0, "forward"))
    rules["convolution_backward"] = _convolved(1, "backward")
    rules |= dict.fromkeys(_ATTENTIONS, _attended(0, "forward"))
    rules |= {f"{name.removesuffix('_forward')}_backward": _attended(1, "backward") for name in _ATTENTIONS}
    return rules


_RULES = _table()


INDUCTOR = "Inductor"
_GENERATED = re.compile(r"triton_[a-z]{3}_fused_")
"""Generated kernels may all be called `triton_`; then the operator around the launch has the full name."""


@dataclass(frozen=True, slots=True)
class ActivityClass:
    """What alike activities share; an empty text stands for what the trace does not hold."""

    name: str
    """Name as recorded."""
    kind: Kind
    plain: str
    """Name normalised for comparison between traces."""
    op: str
    """The operator that launched it, normalised; of a node of a replayed graph the one that captured it, empty where
    that is not known.
    """
    dims: str
    """Sizes of the operator's inputs."""
    size: str
    """The grid of a kernel, the bytes of a copy or a fill."""
    signature: Signature | None
    decoded: Decoded
    problem: str
    """Problem size of a product, a convolution or attention, independent of the operator's name."""
    is_captured: bool = False
    """Whether the operator is inferred from the capture of a graph."""

    @property
    def sizes(self) -> str:
        """Sizes that it works on, as far as known; a compiled call lists its result among the inputs."""
        return self.problem or self.dims

    @property
    def is_helper(self) -> bool:
        """Whether it only prepares or finishes what another kernel of its operator computes."""
        return self.kind == Kind.MEMSET or "helper" in self.decoded.operation

    @property
    def is_generated(self) -> bool:
        """Whether torch.compile generated it and its name lists the fused operators."""
        library = self.decoded.library or ""
        return library.startswith(INDUCTOR) and len(self.decoded.fused_ops) > 0

    @property
    def shown(self) -> str:
        """The name by which tables distinguish it: generated kernels with their number."""
        return f"{self.plain} {self.decoded.index}" if self.decoded.index is not None else self.plain


@dataclass(frozen=True, eq=False)
class Classes:
    """The classes of all GPU activities of a trace."""

    rows: Int64
    """Slices, ascending."""
    number: Int64
    """Index in `known` of the class of each."""
    known: list[ActivityClass]

    def of(self, rows: Int64) -> Int64:
        """Indices in `known` of the classes of GPU activities."""
        return self.number[np.searchsorted(self.rows, rows)]


def classes(trace: Trace) -> Classes:
    """The classes of the GPU activities of a trace, computed once."""
    return trace.remember("classes of work", lambda: _make(trace))


def _make(trace: Trace) -> Classes:
    slices = trace.slices
    rows = slices.of_kind(*GPU_WORK)
    owner = callers(trace, rows)
    inputs = signatures(trace, owner)
    size = _sizes(trace, rows)
    op_name, op_texts, inferred = with_captured(trace, rows, names_of(trace, owner), trace.names, "op")
    captured = np.zeros(len(rows), bool) if inferred is None else inferred
    alike = combinations(slices.name[rows], slices.kind[rows], op_name, captured.astype(np.int64), inputs.id, size)
    decoded: dict[tuple[str, Kind], tuple[str, Decoded]] = {}
    ops: dict[str, str] = {"": ""}
    known = []
    for index in alike.first.tolist():
        name, kind = trace.name_of(rows[index]), Kind(slices.kind[rows[index]])
        op = op_texts[int(op_name[index])] if op_name[index] >= 0 else ""
        signature = inputs.of(index)
        if (name, kind) not in decoded:
            decoded[name, kind] = normalised(name), decode(name, kind)
        if op not in ops:
            ops[op] = normalised(op)
        plain, said = decoded[name, kind]
        if said.library == INDUCTOR and not said.fused_ops and _GENERATED.match(op):
            plain, said = ops[op], decode(op, kind)
        dims, grid = signature.text if signature else "", _size_text(trace, kind, int(size[index]))
        size_of_problem = problem(op, signature) if signature else ""
        known.append(
            ActivityClass(
                name, kind, plain, ops[op], dims, grid, signature, said, size_of_problem, bool(captured[index])
            )
        )
    return Classes(rows, alike.member, known)


def callers(trace: Trace, rows: Int64) -> Int64:
    """The operator of each activity, -1 for none; a node of a replayed graph has none, whatever replays it."""
    trace_links = links(trace)
    replayed = np.isin(trace_links.launch[rows], calls_named(trace, GRAPH_LAUNCH))
    return np.where(replayed, -1, trace_links.owner[rows]).astype(np.int64)


def _sizes(trace: Trace, rows: Int64) -> Int64:
    """The id of the grid of each kernel, the bytes of every copy and fill; -1 for unknown."""
    event = trace.slices.event[rows]
    moved = trace.work_args.number("bytes", event)
    is_kernel = trace.slices.kind[rows] == Kind.KERNEL
    return np.where(is_kernel, trace.work_args.text("grid", event), np.where(moved == NULL, -1, moved))


def _size_text(trace: Trace, kind: Kind, size: int) -> str:
    if size < 0:
        return ""
    # As read: files differ in how they space their lists.
    return str(json.loads(trace.work_args.strings[size])) if kind == Kind.KERNEL else f"{size} bytes"
