"""Sentences about kernels: how many there are, what was fused, what stayed the same and what else changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracetui.comparing.change_rows import FASTER, FUSED_INTO, GONE, NEW, SLOWER, SPLIT_INTO
from tracetui.comparing.fairness import are_ranks, in_common
from tracetui.comparing.kernel_changes import kernel_changes
from tracetui.comparing.match import SAME_PLACE
from tracetui.comparing.noise import Change
from tracetui.comparing.op_names import is_generated
from tracetui.comparing.side import Side
from tracetui.comparing.totals_table import Total
from tracetui.comparing.traits import traits
from tracetui.comparing.words import WITHIN_NOISE, bare, in_brackets, joined, listed, per
from tracetui.kernel_names import Family, decode
from tracetui.linking.links import links
from tracetui.model.intervals import Int64
from tracetui.model.quantities import Scale, counted, rounded_percent, size, time_scale
from tracetui.model.trace import Kind

Row = Mapping[str, Any]

MIN_COMMON_PERCENT = 50.0
"""Percent of a side's GPU time with a match, below which the shares are mentioned."""
MIN_CHANGE_SHARE = 0.05
"""Minimum change of a row, as a share of the GPU time of the slower side, to be mentioned."""
MAX_NAMED_KERNELS = 3
"""Maximum kernels named per sentence."""
MAX_NAMED_OPS = 5
"""Maximum operators named of those that one kernel replaced."""
MAX_WORD_CHARACTERS = 40
"""Maximum characters of an identifier that is shown as it is; longer ones are mangled names."""
_OTHERS = (FASTER, SLOWER, GONE, NEW)
_GEMM, _COLLECTIVE = Family.GEMM.name.lower(), Family.COMMUNICATION.name.lower()
_SUMS = ("aten::addmm", "aten::baddbmm", "aten::addbmm")
"""Operators that a matrix product with an addition becomes."""


@dataclass(frozen=True)
class KernelStory:
    """Sentences about GPU activities."""

    sentences: tuple[str, ...]
    saved_bytes: float = 0.0
    """Bytes saved by the fusions that are mentioned."""
    named_ops: frozenset[str] = frozenset()
    """Operators whose activities are mentioned as gone or new."""


def kernel_story(a: Side, b: Side, totals: Mapping[str, Total]) -> KernelStory:
    """The explanation of the GPU time; empty where one side has none, or where nothing changed."""
    changes = kernel_changes(a, b)
    rows: list[Row] = [
        {**row, "place": index, "from": _kernels(a, changes.rows_a[index]), "into": _kernels(b, changes.rows_b[index])}
        for index, row in enumerate(changes.table.rows())
    ]
    if not any(row["calls_a"] for row in rows) or not any(row["calls_b"] for row in rows):
        return KernelStory(())
    shares = in_common(rows)
    telling = _telling(rows)
    fused = [row for row in telling if row["mark"] == FUSED_INTO or _is_split(row)][:MAX_NAMED_KERNELS]
    more = [row for row in telling if row["mark"] not in (FUSED_INTO, SPLIT_INTO) and _is_resized(row)][
        :MAX_NAMED_KERNELS
    ]
    dispatched, copies = _in_the_dispatcher(a, b)
    named = {row["place"] for row in (*fused, *more)}
    named |= {row["place"] for row in rows if row["mark"] == NEW and copies.issuperset(changes.rows_b[row["place"]])}
    others = _weighty([row for row in rows if row["place"] not in named], rows)
    if are_ranks(a, b):
        # Time in a collective says who waited, which is told of both sides.
        others = [row for row in others if row["family"] != _COLLECTIVE]
    sentences = [
        *_common_words(shares),
        *_counts(a, b, totals, fused, more, others),
        *_same_products(a, b, rows),
        *([dispatched] if dispatched else []),
    ]
    ops = {_owner(a, row) for each in others if each["mark"] == GONE for row in changes.rows_a[each["place"]].tolist()}
    ops |= {_owner(b, row) for each in others if each["mark"] == NEW for row in changes.rows_b[each["place"]].tolist()}
    saved = sum(row["saved_bytes"] or 0.0 for row in fused)
    return KernelStory(tuple(sentences), saved, frozenset(ops))


def _common_words(shares: tuple[float, float]) -> Iterator[str]:
    """The sentence that little of the GPU time has a match: these may be two programs."""
    if min(shares) < MIN_COMMON_PERCENT:
        first, second = map(rounded_percent, shares)
        yield f"Of A's GPU time {first} has a match in B, of B's {second} has one in A."


def _telling(rows: Sequence[Row]) -> list[Row]:
    """Rows with enough of the GPU time of either side to matter."""
    least = [MIN_CHANGE_SHARE * sum(row[name] for row in rows) for name in ("a_us", "b_us")]
    return [row for row in rows if row["a_us"] > least[0] or row["b_us"] > least[1]]


def _weighty(left: Sequence[Row], rows: Sequence[Row]) -> list[Row]:
    """Rows of `left` that changed by enough to matter."""
    least = MIN_CHANGE_SHARE * max(sum(row["a_us"] or 0 for row in rows), sum(row["b_us"] or 0 for row in rows))
    return [row for row in left if row["mark"] in _OTHERS and abs(row["saves_us"] or 0) > least]


def _kernels(side: Side, rows: Int64) -> str:
    """Names of kernels: identifiers as they are, others decoded."""
    used, first = np.unique(side.trace.slices.name[rows], return_index=True)
    names = [side.trace.names[name] for name in used[np.argsort(first)].tolist()]
    return joined(list(dict.fromkeys(map(_spelled, names))))


def _spelled(name: str) -> str:
    return (
        name if is_generated(name) or (name.isidentifier() and len(name) <= MAX_WORD_CHARACTERS) else decode(name).short
    )


def _counts(
    a: Side, b: Side, totals: Mapping[str, Total], fused: Sequence[Row], more: Sequence[Row], others: Sequence[Row]
) -> Iterator[str]:
    """The number of kernels, with what was fused, what is called less often, and what else changed."""
    names = ["kernels", "copies"]
    before, after = (sum(getattr(totals[name].difference, side).median for name in names) for side in "ab")
    copies = totals["copies"].difference
    what = "Kernels and copies" if copies.a.median or copies.b.median else "Kernels"
    lead = f"{what}{per(a, b)} {before:,g} → {after:,g}" if before != after else ""
    fewer = sum(row["calls_a"] - row["calls_b"] for row in more)
    larger = not fused and fewer > (before - after) / 2 > 0
    reasons = [list(map(_fusion, fused)), _rates(more), _changed(others)]
    for each in (each for each in reasons if each):
        if lead:
            colon = ";" if each is reasons[2] else ", fewer and larger:" if larger else ":"
            yield f"{lead}{colon} {'; '.join(each)}."
            lead = ""
        else:
            yield f"{'GPU activity ' if each is reasons[2] else ''}{'; '.join(each)}."
    if lead:
        yield f"{lead}."


def _fusion(row: Row) -> str:
    """What became what: `gelu and mul became K (149 → 89.4 µs, 101 MB less memory traffic)`.

    A kernel that is matched only by its position `runs where` others ran.
    """
    times = row["a_us"], row["b_us"]
    ops = _ops(row) if row["mark"] == FUSED_INTO else [row["from"]]
    aside = [f"{row['calls_a']:,} → {counted(row['calls_b'], 'kernel')}"]
    if row["mark"] == FUSED_INTO and row["calls_a"] == len(ops) and row["calls_b"] == 1:
        aside = []
    aside += [time_scale(times).change(*times), WITHIN_NOISE if row["change"] == Change.WITHIN_NOISE.value else ""]
    saved = row["saved_bytes"]
    aside.append(f"{size(saved)} less memory traffic" if saved is not None and saved > 0 else "")
    subject = joined(ops) if 0 < len(ops) <= MAX_NAMED_OPS else listed(ops, MAX_NAMED_OPS) or row["from"]
    verb = "runs where" if row["how"] == SAME_PLACE else "became"
    if row["how"] == SAME_PLACE:
        return f"{row['into']} {verb} {subject} ran{in_brackets(*aside)}"
    return f"{subject} {verb} {row['into']}{in_brackets(*aside)}"


def _rates(rows: Sequence[Row]) -> list[str]:
    """Kernels whose number of calls changed: `layer_norm 16 → 1 calls (96.0 → 43.0 µs)`."""
    scale = time_scale(row[name] for row in rows for name in ("a_us", "b_us"))
    return [
        f"{_name(row)} {row['calls_a']} → {row['calls_b']} calls ({scale.change(row['a_us'], row['b_us'])})"
        for row in rows
    ]


def _is_split(row: Row) -> bool:
    """Whether one kernel became several, matched by more than its position."""
    return bool(row["mark"] == SPLIT_INTO and row["how"] != SAME_PLACE)


def _is_resized(row: Row) -> bool:
    return bool(row["calls_a"] and row["calls_b"] and row["calls_a"] != row["calls_b"])


def _same_products(a: Side, b: Side, rows: Sequence[Row]) -> Iterator[str]:
    """The sentence that torch.compile leaves matrix products to the library (R3.52)."""
    if traits(a).compiled == traits(b).compiled:
        return
    same = [row for row in rows if row["family"] == _GEMM and row["name_a"] and row["name_a"] == row["name_b"]]
    count = sum(min(row["calls_a"], row["calls_b"]) for row in same)
    if count == 0:
        return
    library = "hipBLASLt" if any("Cijk_" in row["name_a"] for row in same) else "cuBLAS"
    what = "The GEMM is the same kernel" if count == 1 else f"{count:,} GEMMs are the same kernels"
    yield f"{what}, as expected: the compiler calls {library} for {'it' if count == 1 else 'them'}."


def _in_the_dispatcher(a: Side, b: Side) -> tuple[str, frozenset[int]]:
    """A product and a sum that became one operator, which copies the addend and runs the same product.

    With the slices of these copies.
    """
    changes = kernel_changes(a, b)
    before = {_owner(a, row) for rows in changes.rows_a for row in rows.tolist()}
    names = {a.trace.name_of(row) for rows in changes.rows_a for row in rows.tolist()}
    after: dict[int, list[int]] = {}
    for row in np.concatenate([np.empty(0, np.int64), *changes.rows_b]).tolist():
        after.setdefault(links(b.trace).owner_of(row), []).append(row)
    said, copy_rows = "", list[int]()
    for owner, rows in after.items():
        name = b.trace.name_of(owner) if owner >= 0 else ""
        if name not in _SUMS or name in before:
            continue
        copies = [row for row in rows if b.trace.slices.kind[row] == Kind.MEMCPY]
        if copies and any(b.trace.name_of(row) in names and _is_product(b, row) for row in rows):
            us = float(b.trace.slices.dur[copies[0]]) / 1000
            copy = in_brackets(_plain(b.trace.name_of(copies[0])), time_scale((us,)).one(us))
            said = said or f"{bare(name)} copies first{copy}, then runs the same GEMM: fused in the dispatcher only."
            copy_rows += copies
    return said, frozenset(copy_rows)


def _owner(side: Side, row: int) -> str:
    owner = links(side.trace).owner_of(row)
    return side.trace.name_of(owner) if owner >= 0 else ""


def _is_product(side: Side, row: int) -> bool:
    return decode(side.trace.name_of(row), Kind.KERNEL).family is Family.GEMM


def _changed(others: Sequence[Row]) -> list[str]:
    """Other changes by mark: `gone: cat (13.0 µs)`."""
    scale = time_scale(row[name] for row in others for name in ("a_us", "b_us"))
    said = []
    for mark in _OTHERS:
        some = [_change(row, scale) for row in others if row["mark"] == mark]
        said += [f"{mark}: {listed(some, MAX_NAMED_KERNELS)}"] if some else []
    return said


def _change(row: Row, scale: Scale) -> str:
    if row["mark"] in (GONE, NEW):
        return f"{_name(row)} ({scale.one(row['a_us'] or row['b_us'])})"
    return f"{_name(row)} ({scale.change(row['a_us'], row['b_us'])})"


def _name(row: Row) -> str:
    return _plain(str(row["short_name"] or row["name_a"] or row["name_b"]))


def _plain(name: str) -> str:
    """`Memcpy DtoD` of `Memcpy DtoD (Device -> Device)`."""
    return name.partition(" (")[0] if name.startswith("Memcpy ") else name


def _ops(row: Row) -> list[str]:
    """The operators of a row without their namespace."""
    return [bare(op) for op in str(row["op"]).split(", ")] if row["op"] else []
