"""The summary of a rank: columns of about 30 bytes per collective, and a few sums (R5.2).

Everything about many ranks is computed from summaries alone: their traces are closed. Times are int64 ns on the rank's
own clock, with the base of its file. A summary travels between processes and lies in a cache as bytes that hold no
Python objects.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, field, fields, replace
from enum import IntEnum
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracetui.frozen import Parallel, frozen
from tracetui.model.intervals import covered_within
from tracetui.model.recorded import GroupRecord, RankHeader, shared_ranks
from tracetui.model.table import NULL

Int64 = NDArray[np.int64]
Bool = NDArray[np.bool_]

SUMMARY_VERSION = 6
"""Number of the layout; a summary of another one is not read."""

OPERATIONS = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "barrier",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "send",
    "recv",
    "send_recv",
    "collective",
)
"""Operations of collectives; `send_recv` has no known peer and `collective` no known operation."""
SYMMETRIC = frozenset(OPERATIONS[:5])
"""Operations that end on no rank before they have begun on every rank."""
FROM_ROOT = frozenset({"broadcast", "scatter"})
"""Operations that end on no rank before they have begun on one, the root."""
TO_ROOT = frozenset({"reduce", "gather"})
"""Operations that end on the root not before they have begun on every rank."""
POINT_TO_POINT = frozenset({"send", "recv"})
UNEVEN = frozenset({"all_gather", "all_to_all", "gather", "scatter"})
"""Operations whose sizes may differ between ranks."""


def is_one_of(operation: Int64, names: frozenset[str]) -> Bool:
    """Mask of the operations, indices in OPERATIONS, with one of some names."""
    mask: Bool = np.array([each in names for each in OPERATIONS], bool)[operation]
    return mask


PHASES = ("", "forward", "backward", "optimizer", "input")
"""Parts of a step that annotations name."""


class Flag(IntEnum):
    """Bits of `RankCollectives.flags`."""

    IN_GRAPH = 1
    """It belongs to a replay of a graph."""
    GUESS = 2
    """It is known by the name of its kernel alone."""
    CONTENDED = 4
    """Other communication of the rank ran during more than a fifth of it."""


@frozen(eq=True)
class CommGroup:
    """A process group: its name and its members, for names repeat between disjoint groups."""

    name: str
    members: tuple[int, ...] = ()
    """Global ranks, empty where they are not known."""
    size: int = 0
    """Number of members, 0 where it is not known."""
    description: str = ""
    first_member: int | None = None
    """The first of its ranks, where not all of them are known."""
    is_guess: bool = False
    """True where nothing names the group of the collectives in it."""

    def moved(self, offset: int) -> CommGroup:
        """The group with ranks counted over the replicas before its own."""
        first = None if self.first_member is None else self.first_member + offset
        return replace(self, members=tuple(rank + offset for rank in self.members), first_member=first)


@frozen
class RankSteps(Parallel):
    """Parallel columns, one entry per step: its period, and the idle time in it (R3.90, R3.30)."""

    number: Int64
    start: Int64
    end: Int64
    idle: Int64
    """Time in ns of the period in which a device ran nothing, summed over the devices; NULL without GPU activities."""

    @property
    def median(self) -> int:
        """Median period in ns of the steps that have one, NULL where none has."""
        periods = (self.end - self.start)[self.end > self.start]
        return int(np.median(periods)) if len(periods) else NULL

    @property
    def whole_idle(self) -> int:
        """Idle time in ns of all steps, NULL where it is not known."""
        return int(self.idle.sum()) if len(self) and (self.idle != NULL).all() else NULL


@frozen
class RankCollectives(Parallel):
    """Parallel columns, one entry per collective in order of start."""

    start: Int64
    dur: Int64
    operation: Int64
    """Index in OPERATIONS."""
    name: Int64
    """Index in `RankSummary.names` of what it is called."""
    token: Int64
    """Index likewise of its operation, elements and type, which all ranks have in common."""
    group: Int64
    """Index in `RankSummary.groups`."""
    seq: Int64
    """Sequence number within the group, NULL for none."""
    comms_id: Int64
    """Id that all ranks of one operation share, NULL for none."""
    lane: Int64
    peer: Int64
    """Global rank of the other side of a transfer between two ranks, -1 for none."""
    root: Int64
    """Rank within the group that is recorded of an operation with a root, -1 for none: the root where all agree."""
    bytes: Int64
    """Size in bytes as bandwidth counts it (R5.8), NULL where it is not recorded."""
    received: Int64
    """Elements that an all-to-all brings to this rank, NULL where they are not recorded, and of other operations."""
    step: Int64
    """Index in `RankSummary.steps`, -1 outside of all."""
    phase: Int64
    """Index in PHASES."""
    flags: Int64
    exposed: Int64
    """Time in ns during which nothing computed on the device."""
    stretch: Int64
    """Time in ns since the end of the symmetric collective before; the four parts below sum to it."""
    input: Int64
    host: Int64
    busy: Int64
    comm: Int64
    compile: Int64
    """The part of the stretch in which the rank compiled, whatever its device did; 0 without a log of torch.compile."""
    place: Int64
    """Index in `RankSummary.names` of what its host was in while the device was idle in the stretch, -1 for none."""


@frozen
class StretchNames:
    """Calls before a collective, by name: parallel columns, one entry per collective and name."""

    collective: Int64
    name: Int64
    """Index in `RankSummary.names`, -1 for all names beyond the heaviest."""
    calls: Int64
    time: Int64


@frozen
class BusyCurve:
    """Busy time and exposed communication up to some moments: parallel columns, ascending in time."""

    moment: Int64
    busy: Int64
    exposed: Int64

    def within(self, low: int, high: int) -> tuple[int, int]:
        """Busy time and exposed communication in ns between two moments."""
        if len(self.moment) == 0:
            return 0, 0
        origin = int(self.moment[0])
        at = np.array([low - origin, high - origin], np.float64)
        known = (self.moment - origin).astype(np.float64)
        busy = np.diff(np.interp(at, known, self.busy.astype(np.float64)))
        exposed = np.diff(np.interp(at, known, self.exposed.astype(np.float64)))
        return round(float(busy[0])), round(float(exposed[0]))


@frozen
class RankSummary:
    """The columns and sums of one rank."""

    header: RankHeader
    """As the whole file says it."""
    is_gpu: bool
    """True where communication is that of kernels on a device."""
    window: tuple[int, int]
    """First start and last end of all work, in ns on the rank's own clock."""
    names: tuple[str, ...]
    groups: tuple[CommGroup, ...]
    steps: RankSteps
    collectives: RankCollectives
    stretch_names: StretchNames
    curve: BusyCurve
    elements: int = NULL
    """Elements of the first inputs of products and attention, NULL where no shapes are recorded."""
    loss: str = ""
    """Reason why the numbers may cover only a part of the recording, as the end of a sentence; else empty."""
    truncated_at: int | None = None
    """Byte at which the file is cut off."""
    notes: tuple[str, ...] = field(default=())

    def to_bytes(self) -> bytes:
        """The summary as one compressed block: a JSON text and the columns, each behind its length."""
        rest = {name: getattr(self, name) for name in _PLAIN}
        rest |= {"header": asdict(self.header), "groups": [asdict(group) for group in self.groups]}
        blocks = [json.dumps({"version": SUMMARY_VERSION, **rest}).encode()]
        for part, kind in _PARTS.items():
            blocks += [_packed(getattr(getattr(self, part), column.name)).tobytes() for column in fields(kind)]
        content = b"".join(_LENGTH.pack(len(block)) + block for block in blocks)
        return _MAGIC + zlib.compress(content, _COMPRESSION)

    @classmethod
    def from_bytes(cls, data: bytes) -> RankSummary:
        """The summary that `to_bytes` wrote.

        Raises: ValueError for other bytes, or those of another version.
        """
        if not data.startswith(_MAGIC):
            raise ValueError("no summary of a rank")
        try:
            blocks = _blocks(zlib.decompress(data[len(_MAGIC) :]))
            text = json.loads(next(blocks))
            if text.get("version") != SUMMARY_VERSION:
                raise ValueError("a summary of another version")
            parts: dict[str, Any] = {
                part: kind(**{column.name: _unpacked(next(blocks)) for column in fields(kind)})
                for part, kind in _PARTS.items()
            }
            return cls._of_text(text, parts)
        except (KeyError, IndexError, TypeError, AttributeError, StopIteration, struct.error, zlib.error) as error:
            raise ValueError("no summary of a rank") from error

    @classmethod
    def _of_text(cls, text: dict[str, Any], parts: dict[str, Any]) -> RankSummary:
        header = text["header"]
        listed = [each | {"ranks": shared_ranks(tuple(each["ranks"]))} for each in header["groups"]]
        header["groups"] = tuple(GroupRecord(**each) for each in listed)
        groups = tuple(CommGroup(**each | {"members": shared_ranks(tuple(each["members"]))}) for each in text["groups"])
        plain = {name: text[name] for name in _PLAIN}
        plain |= {name: tuple(plain[name]) for name in ("window", "names", "notes")}
        return cls(header=RankHeader(**header), groups=groups, **parts, **plain)

    def of_rank(self, path: str, offset: int) -> RankSummary:
        """The summary with its path, and with ranks counted over the replicas before its own."""
        named = replace(self, header=replace(self.header, path=path))
        if offset == 0:
            return named
        groups = tuple(group.moved(offset) for group in self.groups)
        peer = np.where(self.collectives.peer >= 0, self.collectives.peer + offset, -1)
        return replace(named, groups=groups, collectives=replace(self.collectives, peer=peer))

    def compiling(self, span: tuple[Int64, Int64]) -> RankSummary:
        """The summary of a rank that compiled in some stretches on its own clock, which are disjoint and ascend."""
        own = self.collectives
        compiled = covered_within(*span, own.start - own.stretch, own.start)
        return replace(self, collectives=replace(own, compile=compiled))


_PARTS: dict[str, type] = {
    "steps": RankSteps,
    "collectives": RankCollectives,
    "stretch_names": StretchNames,
    "curve": BusyCurve,
}
_PLAIN = ("is_gpu", "window", "names", "elements", "loss", "truncated_at", "notes")

_MAGIC = b"ttrank1\n"
_LENGTH = struct.Struct("<I")
_COMPRESSION = 6


def _packed(values: Int64) -> NDArray[np.generic]:
    """The values in as few bytes as hold them: differences where they ascend, with the first in front."""
    steps = np.diff(values, prepend=values[:1]) if len(values) and (values != NULL).all() else values
    if len(steps) and len(values) and steps is not values:
        steps[0] = values[0]
    for kind in (np.int8, np.int16, np.int32):
        bounds = np.iinfo(kind)
        if len(steps) < 2 or (steps[1:].min() >= bounds.min and steps[1:].max() <= bounds.max):
            head = np.frombuffer(np.int64(1 if steps is not values else 0).tobytes(), np.uint8)
            first = np.frombuffer(steps[:1].astype("<i8").tobytes(), np.uint8)
            rest = np.frombuffer(steps[1:].astype(np.dtype(kind).newbyteorder("<")).tobytes(), np.uint8)
            return np.concatenate([np.array([np.dtype(kind).itemsize], np.uint8), head[:1], first, rest])
    return np.concatenate([np.array([8, 0], np.uint8), np.frombuffer(values.astype("<i8").tobytes(), np.uint8)])


def _blocks(content: bytes) -> Iterator[bytes]:
    """The blocks that are written one after the other, each behind its length.

    Raises: struct.error, IndexError for one that is cut off.
    """
    index = 0
    while index < len(content):
        (length,) = _LENGTH.unpack_from(content, index)
        index += _LENGTH.size + length
        if index > len(content):
            raise IndexError("a block is cut off")
        yield content[index - length : index]


def _unpacked(data: bytes) -> Int64:
    size, is_step = data[0], bool(data[1])
    first = np.frombuffer(data[2:10], "<i8")
    rest = np.frombuffer(data[10:], f"<i{size}")
    values = np.empty(len(first) + len(rest), np.int64)
    values[: len(first)], values[len(first) :] = first, rest
    return np.cumsum(values, dtype=np.int64) if is_step else values


# Names of process groups: by their description, their name and their ranks (R5.1).

_UNNAMED = ("", "undefined", "default_pg", "None")
_SHORT = {
    "TENSOR_MODEL_PARALLEL_GROUP": "TP",
    "PIPELINE_MODEL_PARALLEL_GROUP": "PP",
    "DATA_PARALLEL_GROUP": "DP",
    "EXPERT_MODEL_PARALLEL_GROUP": "EP",
    "CONTEXT_PARALLEL_GROUP": "CP",
    "mesh_tp": "TP",
    "mesh_pp": "PP",
    "mesh_dp": "DP",
    "mesh_ep": "EP",
    "mesh_cp": "CP",
}


def group_words(group: CommGroup) -> str:
    """A group in words: `TP 0-7`, `all 8 ranks`, `group 3 (0-56:8)`."""
    members = member_words(group.members) if group.members else f"{group.size} ranks" if group.size else ""
    named = _SHORT.get(group.description) or (group.description if group.description not in _UNNAMED else "")
    if named:
        return f"{named} {members}".strip()
    if group.description == "default_pg" or not group.name:
        return f"all {group.size} ranks" if group.size else "no group recorded"
    return f"group {group.name} ({members})" if members else f"group {group.name}"


def member_words(members: Sequence[int]) -> str:
    """Ranks in words: `0-7`, `0-56:8` for every eighth, else each."""
    if len(members) < 3:
        return ",".join(map(str, members))
    strides = {after - before for before, after in pairwise(members)}
    if len(strides) == 1:
        stride = strides.pop()
        return f"{members[0]}-{members[-1]}" + ("" if stride == 1 else f":{stride}")
    return ",".join(map(str, members[:8])) + (",…" if len(members) > 8 else "")


def layout_words(groups: Sequence[CommGroup]) -> str:
    """The parallel layout as groups tell it: `TP 8 × DP 8`; groups without a name by size and stride, `8 × 1`."""
    sizes: dict[str, int] = {}
    for group in groups:
        if group.is_guess or group.size < 2 or group.description == "default_pg":
            continue
        named = _SHORT.get(group.description)
        if named is None and len(group.members) > 1 and group.description in _UNNAMED:
            named = ""
            label = f"{group.size} × {group.members[1] - group.members[0]}"
            sizes.setdefault(label, 0)
        elif named is not None:
            sizes[named] = max(sizes.get(named, 0), group.size)
    return " × ".join(f"{name} {size}" if size else name for name, size in sizes.items())
