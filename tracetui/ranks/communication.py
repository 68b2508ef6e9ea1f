"""The collectives of one rank: which slices they are, and what is recorded of each (R5.2, R5.3).

What a version of torch records is decided by what is there, never by its number: args on the kernel, or of the operator
and the annotation around its launch, or nothing but the kernel's name.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracetui.frozen import frozen
from tracetui.idle.gpu_spans import communicates
from tracetui.kernel_names.decode import decode
from tracetui.linking.links import links
from tracetui.linking.trees import is_named
from tracetui.model.intervals import Bool, Int64
from tracetui.model.recorded import MAX_AMOUNT, MAX_RANKS, MAX_TIME_NS, RankHeader, whole_number
from tracetui.model.table import NULL
from tracetui.model.trace import Kind, Trace
from tracetui.ranks.rank_summary import FROM_ROOT, OPERATIONS, TO_ROOT, UNEVEN, CommGroup

_ON_CPU = re.compile(r"^(?:gloo|mpi|ucc|xccl):")
"""Annotations that last as long as their collective; those of NCCL last as long as its launch."""
_RECORDED = re.compile(r"^(?:nccl|rccl|gloo|mpi|ucc|xccl):")
_NCCL_KERNEL = re.compile(r"^(?:nccl|rccl)")
_GRAPH_LAUNCH = re.compile(r"GraphLaunch")
_PATTERNS = tuple(
    (re.compile(pattern), operation)
    for pattern, operation in (
        (r"all_?to_?all|dispatch|combine", "all_to_all"),
        (r"reduce_?scatter", "reduce_scatter"),
        (r"all_?gather", "all_gather"),
        (r"all_?reduce|cross_?device_?reduce|(?:one|two)_?shot", "all_reduce"),
        (r"barrier", "barrier"),
        (r"broadcast", "broadcast"),
        (r"scatter", "scatter"),
        (r"gather", "gather"),
        (r"^(?:\w+:)?_?reduce|reduce$", "reduce"),
        (r"send_?recv", "send_recv"),
        (r"^(?:\w+:)?i?send\b", "send"),
        (r"^(?:\w+:)?i?recv(?:_?any_?source)?\b", "recv"),
    )
)
_RECORD_KEYS = (
    "Collective name",
    "In msg nelems",
    "Out msg nelems",
    "Group size",
    "dtype",
    "Process Group Name",
    "Process Group Description",
    "Process Group Ranks",
    "Global rank start",
    "Global rank stride",
    "Src Rank",
    "Dst Rank",
    "Input Dims",
    "Input type",
)
_KEYS = (*_RECORD_KEYS, "Seq", "Comms Id", "Concrete Inputs", "graph node id")
_BYTES = {
    **dict.fromkeys(("double", "long", "longint", "int64", "float64", "complexfloat"), 8),
    **dict.fromkeys(("float", "int", "int32", "float32"), 4),
    **dict.fromkeys(("half", "bfloat16", "c10::half", "c10::bfloat16", "short", "float16"), 2),
    **dict.fromkeys(("byte", "char", "bool", "unsignedchar", "signedchar", "float8_e4m3fn", "float8_e5m2"), 1),
}
"""Bytes of an element by the type's name in small letters without blanks."""


@frozen
class Communication:
    """The collectives of a trace in order of start; all arrays and lists are parallel."""

    rows: Int64
    is_gpu: bool
    operation: Int64
    """Index in OPERATIONS."""
    names: list[str]
    tokens: list[str]
    group: Int64
    groups: tuple[CommGroup, ...]
    seq: Int64
    comms_id: Int64
    peer: Int64
    root: Int64
    bytes: Int64
    received: Int64
    in_graph: Bool
    is_guess: Bool


@frozen(eq=True)
class _Record:
    """The args that are recorded of one collective."""

    name: str
    operation: str
    elements: int | None
    out_elements: int | None
    type_name: str
    group_name: str | None
    description: str
    size: int | None
    ranks: str
    first_rank: int | None
    stride: int | None
    source: int | None
    target: int | None

    @property
    def token(self) -> str:
        """Operation, elements and type in words, which all ranks of the collective have in common."""
        size = "" if self.elements is None or self.operation in UNEVEN else f"{self.elements:,}"
        return " ".join(filter(None, (self.operation, size, self.type_name)))

    @property
    def peer(self) -> int:
        """Global rank of the other side of a transfer between two ranks, -1 for none."""
        rank = {"send": self.target, "recv": self.source}.get(self.operation)
        return -1 if rank is None or rank < 0 else rank

    @property
    def received(self) -> int:
        """Elements that an all-to-all brings, NULL where they are not recorded, and of other operations."""
        return NULL if self.operation != "all_to_all" or self.out_elements is None else self.out_elements

    def bytes(self, group_size: int) -> int:
        """The size that bandwidth is counted of (R5.8), NULL where it is not known."""
        each = _BYTES.get(self.type_name.replace(" ", "").lower())
        if each is None or self.elements is None:
            return NULL
        if self.operation != "all_gather":
            return self.elements * each
        whole = self.out_elements if self.out_elements is not None else self.elements * group_size
        return whole * each if whole else NULL


def communication(trace: Trace, header: RankHeader) -> Communication:
    """The collectives of a trace: kernels that communicate, or where there are none the annotations of gloo and MPI."""
    rows, is_gpu = _rows(trace)
    args = dict(zip(_KEYS, _args(trace, rows, is_gpu), strict=True))
    names = [trace.name_of(row) for row in rows.tolist()]
    # The annotation of the launch of each kernel that names a collective, else nothing.
    if is_gpu:
        marks = links(trace).annotation[rows]
        texts = [trace.name_of(row) if row >= 0 else "" for row in marks.tolist()]
        around = [text if _RECORDED.match(text) else "" for text in texts]
    else:
        around = names
    seen: dict[tuple[Any, ...], _Record] = {}
    records = []
    for name, text, *own in zip(names, around, *(args[key] for key in _RECORD_KEYS), strict=True):
        key = (name, text, *map(repr, own))
        if key not in seen:
            seen[key] = _record(name, text, dict(zip(_RECORD_KEYS, own, strict=True)))
        records.append(seen[key])
    is_lost = _name_lost(trace.slices.lane[rows], names, records) if is_gpu else np.zeros(len(rows), bool)
    groups, group = _grouped(records, header)
    # In torch 2.2 and 2.3 the sequence number is the second of the operator's inputs alone.
    seq = _recorded_or_input(args["Seq"], args["Concrete Inputs"], 1, none=NULL, limit=MAX_TIME_NS)
    known = np.array([each is not None for each in args["Collective name"]], bool)
    if is_gpu:
        launch = links(trace).launch[rows].astype(np.int64)
        mask = np.array([isinstance(node, int) and node > 0 for node in args["graph node id"]], bool)
        mask[launch >= 0] |= is_named(trace, launch[launch >= 0], _GRAPH_LAUNCH.search)
        in_graph = mask
    else:
        in_graph = np.zeros(len(rows), bool)
    size = [groups[index].size for index in group.tolist()]
    return Communication(
        rows=rows,
        is_gpu=is_gpu,
        operation=np.array([OPERATIONS.index(record.operation) for record in records], np.int64),
        names=[record.name for record in records],
        tokens=[record.token for record in records],
        group=group,
        groups=groups,
        # What is recorded while a graph is captured is copied to every replay.
        seq=np.where(in_graph, NULL, seq),
        comms_id=np.where(in_graph, NULL, np.array([_signed_id(each) for each in args["Comms Id"]], np.int64)),
        peer=np.array([record.peer for record in records], np.int64),
        root=_roots(trace, rows, records),
        bytes=np.array([record.bytes(each) for record, each in zip(records, size, strict=True)], np.int64),
        received=np.array([record.received for record in records], np.int64),
        in_graph=in_graph,
        # Kernels of serving engines: no library's, and without a record.
        is_guess=is_lost | (~known & ~is_named(trace, rows, _NCCL_KERNEL.search)) if is_gpu else is_lost,
    )


def _name_lost(lane: NDArray[np.integer], names: Sequence[str], records: list[_Record]) -> Bool:
    """Give the kernels of all-to-alls whose launch lies before the recording a record; the mask of these.

    They are called as those of transfers between two ranks are: what all others of their stream do, they do.
    """
    is_lost = np.zeros(len(records), bool)
    pairs = np.array(["SendRecv" in name for name in names], bool)
    for each in np.unique(lane[pairs]).tolist():
        mine = np.flatnonzero(pairs & (lane == each)).tolist()
        others = [records[index] for index in mine if records[index].operation != "send_recv"]
        if {record.operation for record in others} == {"all_to_all"} and len(
            {record.group_name for record in others}
        ) == 1:
            is_lost[[index for index in mine if records[index].operation == "send_recv"]] = True
            for index in np.flatnonzero(is_lost & (lane == each)).tolist():
                records[index] = replace(others[0], elements=None, out_elements=None, type_name="")
    return is_lost


def _rows(trace: Trace) -> tuple[Int64, bool]:
    slices = trace.slices
    kernels = slices.of_kind(Kind.KERNEL)
    rows = kernels[communicates(trace)[kernels]]
    is_gpu = len(rows) > 0
    if not is_gpu:
        marks = slices.of_kind(Kind.ANNOTATION)
        rows = marks[is_named(trace, marks, _ON_CPU.search)]
    return rows[np.argsort(slices.start[rows], kind="stable")], is_gpu


def _args(trace: Trace, rows: Int64, is_gpu: bool) -> list[list[Any]]:
    """The values of `_KEYS`; what a kernel does not say is taken from the operator and annotation of its launch."""
    values = trace.args_of(rows, _KEYS)
    if not is_gpu:
        return values
    for source in (links(trace).annotation[rows], links(trace).owner[rows]):
        bare = np.array([each is None for each in values[0]], bool) & (source >= 0)
        index = np.flatnonzero(bare)
        if len(index) == 0:
            continue
        more = trace.args_of(source[index].astype(np.int64), _KEYS)
        for column, own in zip(values, more, strict=True):
            for row, value in zip(index.tolist(), own, strict=True):
                column[row] = value if column[row] is None else column[row]
    return values


def _record(kernel: str, around: str, args: dict[str, Any]) -> _Record:
    given = args["Collective name"]
    given = given if isinstance(given, str) and given else ""
    # `wait` and the like are recorded by the operator beside the launch.
    operation = next((each for text in (given, around) if (each := _operation(text)) != "collective"), "")
    if not operation:
        decoded = decode(kernel, Kind.KERNEL).op or kernel
        operation = _operation(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", decoded))
    elements, type_name = whole_number(args["In msg nelems"]), args["dtype"]
    if elements is None:
        types = args["Input type"] if isinstance(args["Input type"], list) else []
        type_name = next((each for each in types if isinstance(each, str) and each), "")
        elements = _elements(args["Input Dims"])
    name = args["Process Group Name"]
    return _Record(
        name=around or given or kernel,
        operation=operation,
        elements=elements,
        out_elements=whole_number(args["Out msg nelems"]),
        type_name=type_name if isinstance(type_name, str) else "",
        group_name=str(name) if isinstance(name, str | int) and str(name) else None,
        description=str(args["Process Group Description"] or ""),
        size=whole_number(args["Group size"]),
        ranks=str(args["Process Group Ranks"] or ""),
        first_rank=whole_number(args["Global rank start"]),
        stride=whole_number(args["Global rank stride"]),
        source=whole_number(args["Src Rank"]),
        target=whole_number(args["Dst Rank"]),
    )


def _operation(text: str) -> str:
    words = text.lower()
    return next((operation for pattern, operation in _PATTERNS if pattern.search(words)), "collective")


def _elements(value: object) -> int | None:
    """Elements of the first tensor in `Input Dims`, None where no shape is recorded."""
    shape = value
    while isinstance(shape, list) and shape and isinstance(shape[0], list):
        shape = shape[0]
    if not isinstance(shape, list) or not isinstance(value, list) or not value:
        return None
    if not all(isinstance(each, int) for each in shape):
        return None
    return math.prod(shape)


def _grouped(records: Sequence[_Record], header: RankHeader) -> tuple[tuple[CommGroup, ...], Int64]:
    """The groups of the collectives, and the index of each."""
    groups: dict[CommGroup, int] = {}
    known: dict[_Record, int] = {}
    for record in records:
        if record not in known:
            known[record] = groups.setdefault(_group(record, header), len(groups))
    return tuple(groups), np.array([known[record] for record in records], np.int64)


def _group(record: _Record, header: RankHeader) -> CommGroup:
    by_name = {group.name: group for group in header.groups}
    if record.group_name is None:
        # One group needs no name; of several none can be told from the others.
        if len(header.groups) == 1:
            only = header.groups[0]
            return CommGroup(only.name, only.ranks, only.size, only.description)
        world = min(header.world_size or 0, MAX_RANKS)
        size = record.size or (0 if header.groups else world)
        return CommGroup("", tuple(range(world)) if size == world else (), size, is_guess=True)
    listed = by_name.get(record.group_name)
    members = _members(record.ranks) or (listed.ranks if listed else ()) or _evenly_spaced(record)
    size = len(members) or record.size or (listed.size if listed else 0)
    if not members and size == header.world_size and 0 < size <= MAX_RANKS:
        members = tuple(range(size))
    description = record.description or (listed.description if listed else "")
    # What is listed of a long group tells it from others of its name.
    first = None if members else next(iter(_listed(record.ranks)), record.first_rank)
    return CommGroup(record.group_name, members, size, description, first_member=first)


def _members(text: str) -> tuple[int, ...]:
    """The ranks of a text such as `[0, 1, 2]`, none where it is cut."""
    if not text.startswith("[") or "..." in text:
        return ()
    try:
        ranks = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    return tuple(ranks) if all(whole_number(rank, MAX_RANKS) is not None for rank in ranks) else ()


def _listed(text: str) -> tuple[int, ...]:
    """The ranks of a text that may be cut."""
    return tuple(map(int, re.findall(r"\d{1,9}(?=[,\]])", text)))


def _evenly_spaced(record: _Record) -> tuple[int, ...]:
    """The members by the first one, their distance and their number, where what is listed of them agrees."""
    first, stride, size = record.first_rank, record.stride, record.size
    if first is None or stride is None or size is None or stride < 1 or first < 0 or size > MAX_RANKS:
        return ()
    members = tuple(range(first, first + stride * size, stride))
    listed = _listed(record.ranks)
    return members if members[: len(listed)] == listed else ()


def _recorded_or_input(
    values: Sequence[object], inputs: Sequence[object], index: int, none: int, limit: int = MAX_AMOUNT
) -> Int64:
    """The numbers that are recorded, else those of an operator's input at an index; `none` for neither."""
    numbers = []
    for value, given in zip(values, inputs, strict=True):
        number = whole_number(value, limit)
        if number is None:
            # Recorded as text of an operator's input.
            text = given[index] if isinstance(given, list) and len(given) > index else None
            is_number = isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 18
            number = int(str(text)) if is_number else None
        numbers.append(none if number is None or number < 0 else number)
    return np.array(numbers, np.int64)


def _signed_id(value: object) -> int:
    """A `Comms Id` as a signed number; NULL for none, and for 0."""
    if not isinstance(value, int) or isinstance(value, bool) or value == 0:
        return NULL
    return ((value + (1 << 63)) % (1 << 64)) - (1 << 63)


def _roots(trace: Trace, rows: Int64, records: Sequence[_Record]) -> Int64:
    """The rank that the operator of each collective with a root records, -1 for none; kernels do not have it."""
    root = np.full(len(rows), -1, np.int64)
    owner = links(trace).owner[rows].astype(np.int64)
    rooted = np.array([record.operation in FROM_ROOT | TO_ROOT for record in records], bool)
    index = np.flatnonzero(rooted & (owner >= 0))
    if len(index):
        # In torch 2.2 and 2.3 the rank is the fourth of the operator's inputs alone.
        recorded, inputs = trace.args_of(owner[index], ("Rank", "Concrete Inputs"))
        root[index] = _recorded_or_input(recorded, inputs, 3, none=-1)
    return root
