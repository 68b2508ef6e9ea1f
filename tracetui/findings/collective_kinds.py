"""What collectives are, in words: by what is around their launch, and by their kernels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tracetui.kernel_names.decode import decode
from tracetui.kernel_names.slice_names import short_kernel
from tracetui.linking.groups import combinations
from tracetui.linking.links import links, names_of
from tracetui.model.intervals import Int64
from tracetui.model.trace import Kind, Trace

_KINDS = (
    (re.compile(r"all_?reduce|cross_?device_?reduce|(one|two)_shot"), "all-reduce"),
    (re.compile(r"reduce_?scatter"), "reduce-scatter"),
    (re.compile(r"all_?gather"), "all-gather"),
    (re.compile(r"all_?to_?all"), "all-to-all"),
    (re.compile(r"broadcast"), "broadcast"),
    (re.compile(r"dispatch"), "expert dispatch"),
    (re.compile(r"combine"), "expert combine"),
    (re.compile(r"send_?recv|^nccl:(send|recv)"), "send/recv"),
    (re.compile(r"^(nccl:)?_?reduce"), "reduce"),
)
"""Patterns of annotations, or else of kernels, and what they are called in a sentence."""
_COMMUNICATES = re.compile(r"^(nccl|rccl|gloo|c10d|_?c10d\w*|ucc|mpi|xccl)::?|all_?reduce|all_?gather|all_?to_?all")
_GENERIC = re.compile(r"DevKernel_Generic")
UNNAMED = "unnamed collective"
"""Collective of which the trace tells no kind."""
_TENSOR_PARALLEL = re.compile(r"(?i)tensor|(^|[^a-z])tp([^a-z]|$)")
_EXPERT_PARALLEL = re.compile(r"(?i)expert|(^|[^a-z])ep([^a-z]|$)")
_PIPELINE_PARALLEL = re.compile(r"(?i)pipe|(^|[^a-z])pp([^a-z]|$)")
MAX_READ_COLLECTIVES = 10_000
"""Maximum collectives whose arguments are read from the file, the first ones."""
_UNNAMED_GROUPS = ("", "default_pg", "undefined", "None")


@dataclass(frozen=True, eq=False)
class Kinds:
    """Kernels by the kind of their collective, that with most time first."""

    names: list[str]
    member: Int64
    """Index in `names` of each kernel."""


def kinds_of(trace: Trace, rows: Int64) -> Kinds:
    """What each of the kernels is, by the annotation or operator around its launch, or by its own name."""
    around = [names_of(trace, ids[rows]) for ids in (links(trace).annotation, links(trace).owner)]
    different = combinations(*around, trace.slices.name[rows])
    words = []
    for index in different.first.tolist():
        told = [trace.names[int(ids[index])] for ids in around if ids[index] >= 0]
        words.append(_kind(told, trace.name_of(int(rows[index]))))
    names = list(dict.fromkeys(words))
    member = np.array([names.index(word) for word in words], np.int64)[different.member]
    spent = np.bincount(member, trace.slices.dur[rows], len(names))
    order = np.argsort(-spent, kind="stable")
    rank = np.empty(len(names), np.int64)
    rank[order] = np.arange(len(names))
    return Kinds([names[index] for index in order.tolist()], rank[member])


def _kind(around: Sequence[str], kernel: str) -> str:
    """The kind of a collective in words: of what is around its launch, of its kernel, or the kernel's short name."""
    decoded = decode(kernel, Kind.KERNEL).op or ""
    for text in (*filter(_COMMUNICATES.search, around), decoded, kernel):
        snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text).lower()
        name = next((name for pattern, name in _KINDS if pattern.search(snake)), None)
        if name is not None:
            return name
    return UNNAMED if _GENERIC.search(kernel) else short_kernel(kernel)


def form_of(trace: Trace, rows: Int64) -> str:
    """The form of parallelism that the recorded process groups name, where they name the same for all."""
    (given,) = trace.args_of(rows[:MAX_READ_COLLECTIVES], ["Process Group Description"])
    texts = {str(text) for text in given} - set(_UNNAMED_GROUPS)
    if len(texts) == 0 or any(str(text) in _UNNAMED_GROUPS for text in given):
        return ""
    forms = (
        ("tensor-parallel", _TENSOR_PARALLEL),
        ("expert-parallel", _EXPERT_PARALLEL),
        ("pipeline-parallel", _PIPELINE_PARALLEL),
    )
    return next((name for name, pattern in forms if all(pattern.search(text) for text in texts)), "")
