"""Family and short name of slices, for lanes and tables, where `names` decodes the whole name; explanations of events
in three sentences, from the page `events.md`, of which docs/events.md is a copy.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import translate
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tracetui.frozen import frozen
from tracetui.kernel_names import MAX_SHORT_NAME, OPERAND_CONVERSION, Family, Purpose, decode
from tracetui.model.intervals import Bool, Int64
from tracetui.model.results import kept
from tracetui.model.table import Strings
from tracetui.model.trace import GPU_WORK, Kind, Trace

__all__ = [
    "MAX_SHORT_NAME",
    "Family",
    "Purpose",
    "families",
    "families_by_name",
    "family",
    "is_operand_conversion",
    "libraries",
    "purposes",
    "is_serving",
    "short_kernel",
]


_OF_SERVERS = frozenset({Purpose.KV_CACHE, Purpose.ROUTING, Purpose.SCHEDULING, Purpose.QUANTISATION, Purpose.ROPE})
"""Purposes of kernels that tell a server of a model."""
_BACKWARD = "autograd::engine::evaluate_function"
"""Beginning of the names of the nodes of a backward pass."""


def family(name: str, kind: Kind) -> Family:
    """The family of a slice, from its kind and, for kernels, its name."""
    return decode(name, kind).family


def families(trace: Trace, rows: Int64) -> Int64:
    """The `Family` of each slice as a number."""
    slices = trace.slices
    return families_by_name(trace, rows)[slices.name[rows], slices.kind[rows]].astype(np.int64)


def families_by_name(trace: Trace, rows: Int64) -> NDArray[np.uint8]:
    """The `Family` of each name and kind among some slices; shape (names, kinds), every name decoded once.

    What runs on no device has the family of its kind, whatever it is called.
    """
    occurs = np.zeros((len(trace.names), len(Kind)), bool)
    occurs[trace.slices.name[rows], trace.slices.kind[rows]] = True
    occurs &= np.isin(list(Kind), GPU_WORK)
    found = np.tile(np.array([family("", kind) for kind in Kind], np.uint8), (len(occurs), 1))
    for name, kind in zip(*(ids.tolist() for ids in np.nonzero(occurs)), strict=True):
        found[name, kind] = family(trace.names[name], Kind(kind))
    return found


def purposes(trace: Trace, rows: Int64, in_layers: bool = False) -> tuple[Int64, Strings]:
    """The purpose of each GPU activity in a model, as a number, and the texts of the numbers.

    Selections, sorts and softmaxes are sampling only in a trace without a backward pass, and outside of layers.
    """
    trains = in_layers or _has_backward_pass(trace)

    def purpose(name: str, kind: Kind) -> str:
        decoded = decode(name, kind)
        return str(Purpose[decoded.family.name] if trains and decoded.serving else decoded.purpose)

    return _by_name(trace, rows, purpose)


@kept
def _has_backward_pass(trace: Trace) -> bool:
    return any(name.startswith(_BACKWARD) for name in trace.names)


def libraries(trace: Trace, rows: Int64) -> tuple[Int64, Strings, Bool]:
    """The library that each GPU activity is from as a number, -1 for none, their texts, and where it is only likely."""
    ids, texts = _by_name(trace, rows, lambda name, kind: decode(name, kind).library or "")
    likely, _ = _by_name(trace, rows, lambda name, kind: "likely" if "library" in decode(name, kind).inferred else "")
    return ids, texts, (likely >= 0) & (ids >= 0)


def tensor_core_use(trace: Trace, rows: Int64) -> tuple[Int64, Strings, Bool]:
    """Use of Tensor Cores (AMD: Matrix Cores) by each GPU activity as a number, -1 where its name does not
    tell; the texts `yes` and `no`, and where it is only likely.
    """

    def use(name: str, kind: Kind) -> str:
        known = decode(name, kind).tensor_core
        return "" if known is None or kind != Kind.KERNEL else "yes" if known else "no"

    ids, texts = _by_name(trace, rows, use)
    likely, _ = _by_name(trace, rows, lambda name, kind: "~" if "tensor_core" in decode(name, kind).inferred else "")
    return ids, texts, (likely >= 0) & (ids >= 0)


@kept
def is_serving(trace: Trace) -> bool:
    """True where kernels run that only a model server has: writes to a KV cache, sampling, routing, quantisation."""
    ids, texts = purposes(trace, trace.slices.of_kind(Kind.KERNEL))
    return any(texts[number] in _OF_SERVERS for number in np.unique(ids).tolist())


def _by_name(trace: Trace, rows: Int64, say: Callable[[str, Kind], str]) -> tuple[Int64, Strings]:
    """The answer of `say` for the name and kind of each slice, every pair asked once; -1 for none."""
    texts = Strings()
    keys = trace.slices.name[rows].astype(np.int64) * len(Kind) + trace.slices.kind[rows]
    pairs, member = np.unique(keys, return_inverse=True)
    said = [say(trace.names[key // len(Kind)], Kind(key % len(Kind))) for key in pairs.tolist()]
    ids = np.array([texts.intern(text) if text else -1 for text in said], np.int64)
    return ids[member] if len(ids) else np.empty(0, np.int64), texts


def is_operand_conversion(name: str) -> bool:
    """True where a kernel converts the element type of an operand of a GEMM or convolution, as cuDNN does for TF32."""
    return decode(name).operation == OPERAND_CONVERSION


def short_kernel(name: str) -> str:
    """A kernel in at most 40 characters: `GEMM bf16 128x256x64 NN`, `add<bf16> vec4`."""
    return decode(name).short


PAGE = Path(__file__).with_name("events.md")
_ENTRY = re.compile(r"^### (.+)\n((?:`[^`\n]+` ?)+)\n\n(.+)$", re.MULTILINE)


@frozen(eq=True)
class Explanation:
    """An entry of the page."""

    title: str
    """The event in a few words: `A launch of a kernel`."""
    patterns: tuple[str, ...]
    """Names with `*` for any text, `family:` and `kind:`."""
    text: str
    """Its sentences."""


@cache
def explanations() -> tuple[Explanation, ...]:
    """All entries, in the order of the page, which is read when the first is asked for."""
    return tuple(
        Explanation(title, tuple(re.findall(r"`([^`]+)`", patterns)), text)
        for title, patterns, text in _ENTRY.findall(PAGE.read_text(encoding="utf-8"))
    )


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], Explanation], ...]:
    # `[` stands for itself, as names have it.
    return tuple(
        (re.compile("|".join(translate(each.replace("[", "[[]")) for each in entry.patterns), re.DOTALL), entry)
        for entry in explanations()
    )


def explanation(name: str, kind: Kind | None = None) -> Explanation | None:
    """The entry for a slice of a name and a kind; without a kind that of the name alone, None where there is none."""
    entry = next((entry for pattern, entry in _patterns() if pattern.match(name)), None)
    if entry is not None:
        return entry
    family = decode(name, Kind.KERNEL if kind is None else kind).family
    is_kernel = kind == Kind.KERNEL or (kind is None and family != Family.OTHER)
    labels = [f"family:{family.name.lower()}"] if is_kernel else []
    labels += [] if kind is None else [f"kind:{kind.name.lower()}"]
    return next((each for label in labels for each in explanations() if label in each.patterns), None)
