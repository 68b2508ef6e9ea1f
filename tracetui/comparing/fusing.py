"""Which activities of one side a kernel of the other side replaced: what was fused, and what runs in its place.

A generated kernel lists in its name the operators it was fused from, by their outer or their inner names: `relu`, and
not `clamp_min`, which launches the kernel of an eager `relu`. An activity of the other side that runs for one of these
operators, between the same two anchors or close by, went into it; several such kernels in one segment share the
activities in order. A kernel without such names, written by hand or by a library, takes what is left in its segment
when it is alone there, by its position only. It replaces one matrix product at most, and none that is known to have
another size.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tracetui.comparing.classes import ActivityClass
from tracetui.kernel_names import Family
from tracetui.linking.groups import combinations
from tracetui.linking.links import calls_named, links, names_of
from tracetui.linking.replays import GRAPH_LAUNCH
from tracetui.model.intervals import Bool, Int64
from tracetui.model.trace import Kind, Trace

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


def fused_names(ops: Iterable[str]) -> frozenset[str]:
    """Base names of the operators in a generated kernel's name, without those that launch no kernel.

    `add_relu` and the like are spelled as operators of quantised tensors, and are two fused operators.
    """
    apart = (part for op in ops for part in ((op.removesuffix(_RELU), "relu") if op.endswith(_RELU) else (op,)))
    return frozenset(map(base_op, apart)) - _NO_WORK


def op_names(trace: Trace, rows: Int64) -> tuple[Int64, list[frozenset[str]]]:
    """For each GPU activity the number of a set of base names, and the sets; empty where no operator is known."""
    trace_links = links(trace)
    replayed = np.isin(trace_links.launch[rows], calls_named(trace, GRAPH_LAUNCH))
    at = np.where(replayed, -1, trace_links.owner[rows]).astype(np.int64)
    levels = []
    for _ in range(_MAX_ENCLOSING_OPS):
        levels.append(names_of(trace, at))
        at = _op_above(trace, at)
    if len(rows) == 0:
        return np.empty(0, np.int64), []
    alike = combinations(*levels)
    sets = []
    for index in alike.first.tolist():
        names = [trace.names[level[index]] for level in levels if level[index] >= 0]
        sets.append(frozenset(base_op(name) for name in names if "::" in name and "evaluate_function" not in name))
    return alike.member, sets


def _op_above(trace: Trace, rows: Int64) -> Int64:
    """The operator around each operator, -1 for none."""
    slices = trace.slices
    above = np.where(rows >= 0, slices.parent[rows], -1).astype(np.int64)
    while len(between := np.flatnonzero((above >= 0) & (slices.kind[above] != Kind.CPU_OP))):
        above[between] = slices.parent[above[between]]
    return above


MAX_ANCHORS_CROSSED = 3
"""Maximum anchors across which torch.compile may have moved an activity."""
MAX_REPLACED_ACTIVITIES = 32
"""Maximum activities that a kernel replaces by its position alone."""
_APART = (Family.GEMM, Family.ATTENTION)
"""Families that are not fused into kernels that only move and add elements."""
_DEVICE_COPY = "Memcpy DtoD"
_OWN = "aten::"
"""Prefix of PyTorch's own operators."""


@dataclass(frozen=True, eq=False)
class Unmatched:
    """Activities of one part without partner; one entry per activity, in order of launch."""

    index: Int64
    """Index in the part."""
    segment: Int64
    """Number of the anchor before it."""
    number: Int64
    """Index in `known` of its class and operators."""
    known: Sequence[Member]

    def taken(self, mask: Bool) -> Unmatched:
        """The activities of a mask."""
        return Unmatched(self.index[mask], self.segment[mask], self.number[mask], self.known)


@dataclass(frozen=True, slots=True)
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
        fused = fused_names(work.decoded.fused_ops) if work.is_generated else frozenset()
        members.append(Member(work, sets[names[first]], fused))
    return Unmatched(index, stretch[index], alike.member if alike else index, members)


def fused_into(given: Unmatched, others: Unmatched) -> Int64:
    """For each activity that is not generated, the generated kernel of the other side that replaced it; or -1."""
    return _into(given, others, generated=False)


def refused_into(given: Unmatched, others: Unmatched) -> Int64:
    """For each generated kernel, that of the other side which includes all its operators; -1 for none."""
    return _into(given, others, generated=True)


def _into(given: Unmatched, others: Unmatched, generated: bool) -> Int64:
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
    """Whether a generated kernel lists an activity's operators; where `sized`, whether both are equally large."""
    if not host.fused or not member.ops | member.fused or member.work.decoded.family == Family.COMMUNICATION:
        return False
    family = member.work.decoded.family
    if family in _APART and not member.work.is_helper and family != host.work.decoded.family:
        return False
    if sized and not 0 < member.elements == host.elements:
        return False
    return member.fused <= host.fused if member.fused else bool(member.ops & host.fused)


def _dealt(stretch: Int64, hosts: Int64, host_stretch: Int64) -> Int64:
    """For each segment in order one of the hosts in the nearest segment that has some, assigned in order."""
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
            if _is_one_product(host, members, often.tolist()) and all(_may_replace(host, each) for each in members):
                into[replaced] = hosts[index]
    return into


def _works(some: Unmatched) -> Int64:
    """Activities that compute or move data within the device: neither fills nor copies to and from the host."""
    wanted = [each.work.kind == Kind.KERNEL or each.work.name.startswith(_DEVICE_COPY) for each in some.known]
    return np.flatnonzero(np.array(wanted, bool)[some.number]) if wanted else some.index[:0]


def _is_one_product(host: Member, members: Sequence[Member], often: Sequence[int]) -> bool:
    """Whether at most one matrix product would be replaced: the position does not tell which of two it is."""
    if host.work.decoded.family != Family.GEMM:
        return True
    products = (each.work.decoded.family == Family.GEMM and not each.work.is_helper for each in members)
    return sum(count for count, is_product in zip(often, products, strict=True) if is_product) < 2


def _may_replace(host: Member, member: Member) -> bool:
    """Whether nothing known about the two rules a replacement out."""
    families = host.work.decoded.family, member.work.decoded.family
    if Family.COMMUNICATION in families:
        return False
    # A generated kernel says itself what it does.
    if (host.fused and (member.ops or member.fused)) or (member.fused and host.ops):
        return False
    if families[1] in _APART and not member.work.is_helper:
        sizes = {host.work.problem, member.work.problem} - {""}
        return families[0] == Family.ATTENTION or (families[0] == Family.GEMM == families[1] and len(sizes) < 2)
    # What PyTorch itself multiplies it does not add or move on the way; attention it does.
    return families[0] != Family.GEMM or host.work.is_helper or not host.work.op.startswith(_OWN)
