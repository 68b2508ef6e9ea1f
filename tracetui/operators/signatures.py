"""Signatures of operator calls: shapes and types of their inputs, as recorded with `record_shapes=True`.

A trace has millions of calls and at most a few thousand distinct signatures: what depends on shapes is computed once
per signature.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracetui.linking.groups import combinations
from tracetui.model.intervals import Int64
from tracetui.model.trace import Trace

Dims = tuple[Any, ...]


def has_shapes(trace: Trace) -> bool:
    """Whether any operator has the shapes of its inputs."""
    dims = trace.op_args.texts.get("Input Dims")
    return dims is not None and bool((dims >= 0).any())


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, eq=False)
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
    """The signature that two texts of JSON hold; an empty one of the types says nothing about these."""
    kinds = _frozen(json.loads(types)) if types else ()
    return Signature(tuple(map(_dims, _frozen(json.loads(dims)))), tuple(map(str, kinds)))


def _frozen(value: Any) -> tuple[Any, ...]:
    """A list as a tuple, nested lists included; empty for anything else."""
    if not isinstance(value, list):
        return ()
    return tuple(_frozen(item) if isinstance(item, list) else item for item in value)


def _dims(value: Any) -> Dims:
    return value if isinstance(value, tuple) else ()
