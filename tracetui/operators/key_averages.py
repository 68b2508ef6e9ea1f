"""Slices grouped and summed as torch's `key_averages()` does (3(d).10, 3(d).12)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np

from tracetui.frozen import frozen
from tracetui.linking.groups import Groups, combinations, group
from tracetui.model.intervals import Bool, Int64, is_among
from tracetui.model.table import Strings
from tracetui.model.trace import GPU_WORK, Kind, Slices, Trace
from tracetui.operators.costs import Costs, is_overlapped

KIND_WORDS = Strings(
    (
        "op",
        "annotation",
        "runtime",
        "overhead",
        "slice",
        "frame",
        "kernel",
        "memcpy",
        "memset",
        "GPU annotation",
        "wait",
        "allocation",
    )
)
"""Kinds of rows; slices of unknown category count in traces that torch did not write.

Torch's key does not distinguish most of these: of several kinds under one name the first of these words counts.
"""

_WORDS = {
    Kind.CPU_OP: "op",
    Kind.ANNOTATION: "annotation",
    Kind.RUNTIME: "runtime",
    Kind.OVERHEAD: "overhead",
    Kind.OTHER: "slice",
    Kind.PYTHON: "frame",
    Kind.KERNEL: "kernel",
    Kind.MEMCPY: "memcpy",
    Kind.MEMSET: "memset",
    Kind.GPU_ANNOTATION: "GPU annotation",
    Kind.SYNC: "wait",
    Kind.BOOKKEEPING: "slice",
}
_ANNOTATIONS = (Kind.ANNOTATION, Kind.GPU_ANNOTATION)
_ON_DEVICE = (*GPU_WORK, Kind.GPU_ANNOTATION, Kind.SYNC)


@frozen
class Averages:
    """Sums by key; parallel arrays, times in ns."""

    name: Int64
    """Id among the texts of the costs."""
    kind: Int64
    """Id in `KIND_WORDS`, the first of those of the slices."""
    calls: Int64
    self_cpu: Int64
    cpu: Int64
    self_device: Int64
    device: Int64
    kernels: Int64
    first: Int64
    """Start of the first slice in ns."""
    length: Int64
    """Duration of that slice in ns; the longest where several began together."""
    longest: Int64
    """Row of the longest slice, -1 for none."""
    overlapped: Int64
    """Number of slices with a self time below 0, which the sums contain: their children overlap."""

    @property
    def is_doubtful(self) -> Bool:
        """Mask of the sums of self time that contain an overlapped slice, or are below 0."""
        return np.asarray((self.overlapped > 0) | (self.self_cpu < 0))

    def in_order(self) -> Int64:
        """Indices in the order of torch's table: by first slice, the longer first."""
        return np.lexsort((-self.length, self.first))

    def with_instants(self, trace: Trace, moments: Mapping[str, Int64]) -> Averages:
        """Add a row for each name of an allocator event, which takes no time."""
        result = self
        for name, moment in moments.items():
            values = {
                "name": trace.names.find(name),
                "kind": KIND_WORDS.find("allocation"),
                "calls": len(moment),
                "first": int(moment[0]),
                "longest": -1,
            }
            columns = {c.name: np.append(getattr(result, c.name), values.get(c.name, 0)) for c in fields(result)}
            result = replace(result, **columns)
        return result


def grouped(slices: Slices, cost: Costs, shape: Int64 | None = None) -> Groups:
    """The slices by torch's key: name, device or not, annotation or not, and the id of their shapes if given."""
    kind = slices.kind[cost.row]
    key = cost.name * 4
    key += is_among(kind, _ON_DEVICE) * np.int64(2)
    key += is_among(kind, _ANNOTATIONS)
    if shape is not None:
        key = key * (int(shape.max(initial=0)) + 2) + shape
    return group(key)


def averages(slices: Slices, cost: Costs, names: Groups) -> Averages:
    """Sums over the slices of each group."""
    start, dur = slices.start[cost.row], cost.cpu + cost.device
    word_of_kind = np.zeros(max(Kind) + 1, np.int64)
    for kind, text in _WORDS.items():
        word_of_kind[kind] = KIND_WORDS.find(text)
    word = np.full(len(names), len(KIND_WORDS))
    np.minimum.at(word, names.member, word_of_kind[slices.kind[cost.row]])
    first = start[names.smallest(start)]
    at_first = np.flatnonzero(start == first[names.member])
    length = np.zeros(len(names), np.int64)
    np.maximum.at(length, names.member[at_first], dur[at_first])
    self_cpu, cpu, self_device, device, kernels, overlapped = (
        names.sum(values).astype(np.int64)
        for values in (
            cost.self_cpu,
            cost.cpu,
            cost.self_device,
            cost.device,
            cost.kernels,
            is_overlapped(cost.self_cpu),
        )
    )
    return Averages(
        name=cost.name[some_member(names)],
        kind=word,
        calls=names.calls,
        self_cpu=self_cpu,
        cpu=cpu,
        self_device=self_device,
        device=device,
        kernels=kernels,
        first=first,
        length=length,
        longest=cost.row[names.largest(dur)],
        overlapped=overlapped,
    )


def some_member(names: Groups) -> Int64:
    """One row of each group."""
    member = np.zeros(len(names), np.int64)
    member[names.member] = np.arange(len(names.member))
    return member


# Signatures of operator calls: shapes and types of their inputs, as recorded with `record_shapes=True`.
#
# A trace has millions of calls and at most a few thousand distinct signatures; results that depend on shapes are
# computed once per signature.

Dims = tuple[Any, ...]


def has_shapes(trace: Trace) -> bool:
    """True where some operator has the shapes of its inputs."""
    dims = trace.op_args.texts.get("Input Dims")
    return dims is not None and bool((dims >= 0).any())


@frozen(eq=True, slots=True)
class Signature:
    """The inputs of a call; one entry per input, scalars included."""

    dims: tuple[Dims, ...]
    """Sizes of each input: whole numbers; empty for scalars and tensors of rank 0; tuples for a list of tensors."""
    types: tuple[str, ...]
    """Types as the profiler writes them (`float`, `c10::BFloat16`, `Scalar`, `TensorList`, empty); may be shorter."""

    @property
    def text(self) -> str:
        """The sizes as `key_averages()` prints them: `[[64, 128], [], [128]]`."""
        return json.dumps(self.dims)


@frozen
class Signatures:
    """Signatures of some slices."""

    id: Int64
    """Index in `known` of each slice that was asked for, -1 where none was recorded."""
    known: list[Signature]

    def of(self, index: int) -> Signature | None:
        """The signature of one of the slices, by its index among them."""
        number = int(self.id[index])
        return self.known[number] if number >= 0 else None


def signatures(trace: Trace, rows: Int64) -> Signatures:
    """The signatures of operators; a row of -1 has none."""
    event = np.where(rows >= 0, trace.slices.event[rows], -1)
    given = trace.op_args
    dims, types = given.text("Input Dims", event), given.text("Input type", event)
    pairs = combinations(dims, types)
    known: list[Signature] = []
    ids = []
    for dims_id, types_id in zip(dims[pairs.first].tolist(), types[pairs.first].tolist(), strict=True):
        ids.append(len(known) if dims_id >= 0 else -1)
        if dims_id >= 0:
            known.append(signature_of(given.strings[dims_id], given.strings[types_id] if types_id >= 0 else ""))
    return Signatures(np.array(ids or [-1], np.int64)[pairs.member], known)


def signature_of(dims: str, types: str) -> Signature:
    """The signature of two texts of JSON; that of the types may be empty."""
    kinds = _frozen(json.loads(types)) if types else ()
    sizes = (each if isinstance(each, tuple) else () for each in _frozen(json.loads(dims)))
    return Signature(tuple(sizes), tuple(map(str, kinds)))


def _frozen(value: Any) -> tuple[Any, ...]:
    """A list as a tuple, nested lists included; empty for anything else."""
    if not isinstance(value, list):
        return ()
    return tuple(_frozen(item) if isinstance(item, list) else item for item in value)
