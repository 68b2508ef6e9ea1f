"""Activities of one side that a kernel of the other side replaced: by fusing them, or by running in their place.

A generated kernel lists in its name the operators it was fused from, by their outer or their inner names: `relu`, and
not `clamp_min`, which launches the kernel of an eager `relu`. An activity of the other side that runs for one of these
operators, between the same two anchors or close by, went into it; several such kernels in one segment share the
activities in order. A kernel without such names, written by hand or by a library, takes what is left in its segment
when it is alone there, by its position only. It replaces one GEMM at most, and none that is known to have another
size.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence

import numpy as np

from tracetui.devices.formulas import Operands
from tracetui.frozen import frozen
from tracetui.kernel_names import Decoded, Family, decode, normalised
from tracetui.linking.graph_nodes import with_captured_texts
from tracetui.linking.groups import combinations
from tracetui.linking.links import calls_named, links, names_of
from tracetui.linking.replays import GRAPH_LAUNCH
from tracetui.model.intervals import Bool, Int64
from tracetui.model.results import kept
from tracetui.model.table import NULL
from tracetui.model.trace import GPU_WORK, Kind, Trace
from tracetui.operators.key_averages import Signature, signatures

# Classes of GPU activities: all that is compared is computed once for activities that are alike.
#
# Alike are activities of one name, launched by one operator with inputs of the same sizes, on grids of the same size
# (copies and fills: of as many bytes). A trace has millions of activities and some hundred such classes.
#
# The problem size is independent of the operator's name: `mm` and `addmm` of the same M, N and K have the same one. It
# rests on the sizes of the inputs only: strides and padding of convolutions and masks of attention are not compared.

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
    """The problem size of a GEMM, convolution or attention, as text to compare; empty for other operators."""
    rule = _RULES.get(op.rsplit("::", 1)[-1].removesuffix("_"))
    return rule(Operands(signature)) if rule else ""


def _multiplied(first: int) -> Callable[[Operands], str]:
    """Batch, M, N and K; M and N in either order, since a GEMM may be computed transposed."""

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
        return f"{sorted(query)} ? {sorted(key)} {way}" if query and key and len(query) == 4 else ""

    return rule


def _rules() -> dict[str, Callable[[Operands], str]]:
    rules = dict.fromkeys(_BASES, _multiplied(0)) | dict.fromkeys(_WITH_BIAS, _multiplied(1))
    rules |= dict.fromkeys(_CONVOLUTIONS, _convolved(0, "forward"))
    rules["convolution_backward"] = _convolved(1, "backward")
    rules |= dict.fromkeys(_ATTENTIONS, _attended(0, "forward"))
    rules |= {f"{name.removesuffix('_forward')}_backward": _attended(1, "backward") for name in _ATTENTIONS}
    return rules


_RULES = _rules()


INDUCTOR = "Inductor"
_GENERATED = re.compile(r"triton_[a-z]{3}_fused_")
"""Generated kernels may all be called `triton_`; then the operator around the launch has the full name."""


@frozen(eq=True, slots=True)
class ActivityClass:
    """Properties that alike activities share; an empty text where the trace does not hold one."""

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
    """Problem size of a GEMM, a convolution or attention, independent of the operator's name."""
    is_captured: bool = False
    """The operator is inferred from the capture of a graph."""

    @property
    def sizes(self) -> str:
        """Sizes that it works on, as far as known; a compiled call lists its result among the inputs."""
        return self.problem or self.dims

    @property
    def is_helper(self) -> bool:
        """True where it only prepares or finishes what another kernel of its operator computes."""
        return self.kind == Kind.MEMSET or "helper" in self.decoded.operation

    @property
    def is_generated(self) -> bool:
        """True where torch.compile generated it and its name lists the fused operators."""
        library = self.decoded.library or ""
        return library.startswith(INDUCTOR) and len(self.decoded.fused_ops) > 0

    @property
    def label(self) -> str:
        """The name by which tables distinguish it: generated kernels with their number."""
        return f"{self.plain} {self.decoded.index}" if self.decoded.index is not None else self.plain


@frozen
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


@kept
def activity_classes(trace: Trace) -> Classes:
    """The classes of the GPU activities of a trace, computed once."""
    slices = trace.slices
    rows = slices.of_kind(*GPU_WORK)
    owner = callers(trace, rows)
    inputs = signatures(trace, owner)
    # The id of the grid of each kernel, the bytes of every copy and fill; -1 for unknown.
    event, is_kernel = slices.event[rows], slices.kind[rows] == Kind.KERNEL
    moved = trace.work_args.number("bytes", event)
    size = np.where(is_kernel, trace.work_args.text("grid", event), np.where(moved == NULL, -1, moved))
    op_name, op_texts, inferred = with_captured_texts(trace, rows, names_of(trace, owner), trace.names, "op")
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
        plain, reading = decoded[name, kind]
        if reading.library == INDUCTOR and not reading.fused_ops and _GENERATED.match(op):
            plain, reading = ops[op], decode(op, kind)
        size_text = f"{size[index]} bytes" if size[index] >= 0 else ""
        if kind == Kind.KERNEL and size_text:
            # As read: files differ in how they space their lists.
            size_text = str(json.loads(trace.work_args.strings[int(size[index])]))
        dims, of_problem = (signature.text, problem(op, signature)) if signature else ("", "")
        is_captured = bool(captured[index])
        known.append(
            ActivityClass(name, kind, plain, ops[op], dims, size_text, signature, reading, of_problem, is_captured)
        )
    return Classes(rows, alike.member, known)


def callers(trace: Trace, rows: Int64) -> Int64:
    """The operator of each activity, -1 for none; a node of a replayed graph has none, whatever replays it."""
    trace_links = links(trace)
    replayed = np.isin(trace_links.launch[rows], calls_named(trace, GRAPH_LAUNCH))
    return np.where(replayed, -1, trace_links.owner[rows]).astype(np.int64)


_RELU = "_relu"
_NO_WORK = frozenset({"view", "unsafe_view", "t", "transpose", "permute", "expand", "reshape", "slice", "select"})
_MAX_ENCLOSING_OPS = 4
"""Maximum nested operators whose names are considered."""
_BEFORE = re.compile(r"^_*(?:native_|cudnn_|miopen_)?")
_AFTER = re.compile(r"(?:_legit)?(?:_no_training|_functional)?_?$")


def base_op(name: str) -> str:
    """An operator's name without namespace and without the affixes of its variants: `add_` is `add`."""
    base = name.rsplit("::", 1)[-1]
    backward = "_backward" if base.endswith("_backward") else ""
    return _AFTER.sub("", _BEFORE.sub("", base.removesuffix("_backward"))) + backward


def op_names(trace: Trace, rows: Int64) -> tuple[Int64, list[frozenset[str]]]:
    """For each GPU activity the number of a set of base names, and the sets; empty where no operator is known."""
    if len(rows) == 0:
        return np.empty(0, np.int64), []
    slices, op, levels = trace.slices, callers(trace, rows), []
    for _ in range(_MAX_ENCLOSING_OPS):
        levels.append(names_of(trace, op))
        op = np.where(op >= 0, slices.parent[op], -1).astype(np.int64)
        while len(others := np.flatnonzero((op >= 0) & (slices.kind[op] != Kind.CPU_OP))):
            op[others] = slices.parent[op[others]]
    alike = combinations(*levels)
    sets = []
    for index in alike.first.tolist():
        names = [trace.names[level[index]] for level in levels if level[index] >= 0]
        sets.append(frozenset(base_op(name) for name in names if "::" in name and "evaluate_function" not in name))
    return alike.member, sets


MAX_ANCHORS_CROSSED = 3
"""Maximum anchors across which torch.compile may have moved an activity."""
MAX_REPLACED_ACTIVITIES = 32
"""Maximum activities that a kernel replaces by its position alone."""
_APART = (Family.GEMM, Family.ATTENTION)
"""Families that are not fused into kernels that only move and add elements."""
_DEVICE_COPY = "Memcpy DtoD"
_OWN = "aten::"
"""Prefix of PyTorch's own operators."""


@frozen
class Unmatched:
    """Activities of one part without partner; one entry per activity, in order of launch."""

    index: Int64
    """Index in the part."""
    segment: Int64
    """Number of the anchor before it."""
    number: Int64
    """Index in `known` of its class and operators."""
    known: Sequence[Member]


@frozen(eq=True, slots=True)
class Member:
    """A class of activities with the operators around it."""

    work: ActivityClass
    ops: frozenset[str]
    """Base names of the operators that it runs for."""
    fused: frozenset[str]
    """Base names of the operators that a generated kernel was fused from."""

    @property
    def elements(self) -> int:
        """Elements of the largest input; 0 where the sizes are unknown."""
        dims = self.work.signature.dims if self.work.signature else ()
        return max((int(np.prod(shape)) for shape in dims if shape and all(type(s) is int for s in shape)), default=0)


def unmatched(
    trace: Trace, rows: Int64, known: Sequence[ActivityClass], number: Int64, free: Bool, stretch: Int64
) -> Unmatched:
    """The activities of a part that are `free`, with their classes, operators and segments."""
    index = np.flatnonzero(free)
    names, sets = op_names(trace, rows[index])
    alike = combinations(number[index], names) if len(index) else None
    members = []
    for first in alike.first.tolist() if alike else ():
        work = known[number[index[first]]]
        fused = set[str]()
        for op in work.decoded.fused_ops if work.is_generated else ():
            # `add_relu` and the like are spelled as operators of quantised tensors, and are two fused operators.
            fused |= {base_op(op.removesuffix(_RELU)), "relu"} if op.endswith(_RELU) else {base_op(op)}
        members.append(Member(work, sets[names[first]], frozenset(fused - _NO_WORK)))
    return Unmatched(index, stretch[index], alike.member if alike else index, members)


def fused_into(given: Unmatched, others: Unmatched, generated: bool) -> Int64:
    """For each activity the generated kernel of the other side that replaced it; -1 for none.

    With `generated` only for generated kernels, which one with all their operators replaced; else only for others.
    """
    into = np.full(len(given.index), -1, np.int64)
    for sized in (True, False):
        for number, member in enumerate(given.known):
            if bool(member.fused) != generated:
                continue
            taking = np.array([_takes(other, member, sized) for other in others.known], bool)
            mine = np.flatnonzero((given.number == number) & (into < 0))
            hosts = np.flatnonzero(taking[others.number]) if len(taking) else mine[:0]
            if len(mine) and len(hosts):
                into[mine] = _dealt(given.segment[mine], hosts, others.segment[hosts])
    return into


def _takes(host: Member, member: Member, sized: bool) -> bool:
    """True where a generated kernel lists an activity's operators and, with `sized`, both are equally large."""
    if not host.fused or not member.ops | member.fused or member.work.decoded.family == Family.COMMUNICATION:
        return False
    family = member.work.decoded.family
    if family in _APART and not member.work.is_helper and family != host.work.decoded.family:
        return False
    if sized and not 0 < member.elements == host.elements:
        return False
    return member.fused <= host.fused if member.fused else bool(member.ops & host.fused)


def _dealt(stretch: Int64, hosts: Int64, host_stretch: Int64) -> Int64:
    """For each segment in order one of the hosts in the nearest segment that has some, in order."""
    used, first, count = np.unique(host_stretch, return_index=True, return_counts=True)
    later = np.minimum(np.searchsorted(used, stretch), len(used) - 1)
    sooner = np.maximum(later - 1, 0)
    target = np.where(np.abs(used[later] - stretch) <= np.abs(used[sooner] - stretch), later, sooner)
    near = np.abs(used[target] - stretch) <= MAX_ANCHORS_CROSSED
    into = np.full(len(stretch), -1, np.int64)
    for number in np.unique(target[near]).tolist():
        mine = np.flatnonzero(near & (target == number))
        into[mine] = hosts[first[number] + np.arange(len(mine)) * int(count[number]) // len(mine)]
    return into


def in_place_of(given: Unmatched, others: Unmatched) -> Int64:
    """For each activity the only one of the other side in its segment that could replace it; -1 for none."""
    into = np.full(len(given.index), -1, np.int64)
    mine, hosts = _works(given), _works(others)
    alone, first, count = np.unique(others.segment[hosts], return_index=True, return_counts=True)
    for stretch, index in zip(alone[count == 1].tolist(), first[count == 1].tolist(), strict=True):
        low, high = np.searchsorted(given.segment[mine], [stretch, stretch + 1]).tolist()
        replaced, host = mine[low:high], others.known[others.number[hosts[index]]]
        if 0 < len(replaced) <= MAX_REPLACED_ACTIVITIES:
            numbers, often = np.unique(given.number[replaced], return_counts=True)
            members = [given.known[number] for number in numbers.tolist()]
            if _is_one_gemm(host, members, often.tolist()) and all(_may_replace(host, each) for each in members):
                into[replaced] = hosts[index]
    return into


def _works(some: Unmatched) -> Int64:
    """Activities that compute or move data within the device: neither fills nor copies to and from the host."""
    wanted = [each.work.kind == Kind.KERNEL or each.work.name.startswith(_DEVICE_COPY) for each in some.known]
    return np.flatnonzero(np.array(wanted, bool)[some.number]) if wanted else some.index[:0]


def _is_one_gemm(host: Member, members: Sequence[Member], often: Sequence[int]) -> bool:
    """True where at most one GEMM would be replaced: the position does not tell which of two it is."""
    if host.work.decoded.family != Family.GEMM:
        return True
    is_gemm = (each.work.decoded.family == Family.GEMM and not each.work.is_helper for each in members)
    return sum(count for count, is_one in zip(often, is_gemm, strict=True) if is_one) < 2


def _may_replace(host: Member, member: Member) -> bool:
    """True where nothing known about the two rules a replacement out."""
    families = host.work.decoded.family, member.work.decoded.family
    if Family.COMMUNICATION in families:
        return False
    # A generated kernel says itself what it does.
    if (host.fused and (member.ops or member.fused)) or (member.fused and host.ops):
        return False
    if families[1] in _APART and not member.work.is_helper:
        sizes = {host.work.problem, member.work.problem} - {""}
        return families[0] == Family.ATTENTION or (families[0] == Family.GEMM == families[1] and len(sizes) < 2)
    # PyTorch's own GEMMs do not add or move on the way; attention does.
    return families[0] != Family.GEMM or host.work.is_helper or not host.work.op.startswith(_OWN)
