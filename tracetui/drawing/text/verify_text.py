"""Operators that were built again, beside what the trace recorded of them: a document, and lines for a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, NotRequired, TypedDict, cast

from tracetui.drawing.format import shorten
from tracetui.model.quantities import counted, duration, percent
from tracetui.model.trace import Trace
from tracetui.tables.call_variants import CallVariant, view_of
from tracetui.text import aligned, clean

MAX_SHAPES = 60
"""Characters of the shapes of a variant in a line."""
MAX_NAMES = 12
"""Operators named for a reason."""


class TimedWay(TypedDict):
    """A way to run an operator with its time here, or the reason why it has none.

    Of the time and its ratio to the first way: the median, and the interval of the median.
    """

    name: str
    why: str | None
    interval_us: NotRequired[list[float]]
    ratio: NotRequired[list[float]]
    verdict: NotRequired[str]


class VerifiedOp(TypedDict):
    """A variant of an operator: recorded times, the reason why it cannot be built again or null, and times here.

    `view` chooses the variant: `tracetui verify TRACE VIEW`. `children` and `kernels` say what differs when it is
    recorded again, or `same`; null where that was not looked at, or there were no kernels.
    """

    op: str
    view: str
    input_shapes: str
    calls: int
    self_cpu_us: float
    gpu_us: float
    why: str | None
    notes: list[str]
    children: str | None
    kernels: str | None
    recorded_us: NotRequired[float]
    roofline_us: NotRequired[float | None]
    refused: NotRequired[str | None]
    noise: NotRequired[float]
    times: NotRequired[list[TimedWay]]


class VerifyMachine(TypedDict):
    """The machine on which operators were built again."""

    name: str
    torch: str
    threads: int


class VerifyDocument(TypedDict):
    """Variants of operators, the longest first; shares are those of the own time of all operators, and of all GPU time.

    They are null where one operator is timed.
    """

    trace: str
    machine: VerifyMachine
    rebuilt_cpu_pct: float | None
    rebuilt_gpu_pct: float | None
    operators: list[VerifiedOp]


def verify_document(
    trace: Trace, variants: Sequence[CallVariant], answers: Mapping[str, Any], is_timed: bool
) -> VerifyDocument:
    """The answers of the child, about variants that have no reason of their own, beside what was recorded of all."""
    others = iter(answers["operators"])
    rows: list[VerifiedOp] = []
    for variant in variants:
        answer = {"why": variant.why, "notes": []} if variant.why else next(others)
        row = {
            "op": variant.name,
            "view": view_of(trace, variant),
            "input_shapes": variant.shapes,
            "calls": len(variant.rows),
            "self_cpu_us": variant.self_cpu_us,
            "gpu_us": variant.gpu_us,
            "children": None,
            "kernels": None,
            **answer,
        }
        if is_timed:
            recorded = median(variant.recorded(trace)["times_us"])
            row |= {"recorded_us": recorded, "roofline_us": variant.roofline_us(trace)}
        rows.append(cast(VerifiedOp, row))
    whole = _sums(rows)
    built = [None, None] if is_timed else _shares([row for row in rows if row["why"] is None], whole)
    return {
        "trace": trace.label,
        "machine": answers["machine"],
        "rebuilt_cpu_pct": built[0],
        "rebuilt_gpu_pct": built[1],
        "operators": rows,
    }


def _sums(rows: Sequence[VerifiedOp]) -> tuple[float, float]:
    return sum(row["self_cpu_us"] for row in rows), sum(row["gpu_us"] for row in rows)


def _shares(rows: Sequence[VerifiedOp], whole: tuple[float, float]) -> list[float | None]:
    """Shares in percent of the own CPU time and of the GPU time; None where there is none."""
    return [100 * part / of if of else None for part, of in zip(_sums(rows), whole, strict=True)]


def coverage_lines(document: VerifyDocument, limit: int) -> list[str]:
    """A line for each variant; then the share of the time, and the names of what cannot be built again, by reason."""
    rows = document["operators"]
    whole, has_gpu = _sums(rows), document["rebuilt_gpu_pct"] is not None
    lines = [("view", "operator", "calls", "self CPU", *["GPU"] * has_gpu, "built again", "children", "shapes")]
    for row in rows[:limit]:
        times = [duration(1000 * time) for time in (row["self_cpu_us"], row["gpu_us"])][: 1 + has_gpu]
        children = {None: "–", "same": "same"}.get(row["children"], "others")
        built, shapes = "yes" if row["why"] is None else "no", row["input_shapes"][:MAX_SHAPES]
        name = shorten(row["op"], MAX_SHAPES)
        lines.append((row["view"], name, f"{row['calls']:,}", *times, built, children, shapes))
    by_reason: dict[str, list[VerifiedOp]] = {}
    for row in rows:
        by_reason.setdefault(row["why"] or "", []).append(row)
    built_rows = by_reason.pop("", [])
    text = [f"{len(built_rows):,} of {counted(len(rows), 'variant')} can be built again: {_of(built_rows, whole)}."]
    for why, alike in list(by_reason.items())[:limit]:
        names = list(dict.fromkeys(shorten(row["op"], MAX_SHAPES) for row in alike))
        more = [f"{len(names) - MAX_NAMES:,} more"] if len(names) > MAX_NAMES else []
        text.append(f"Not built: {', '.join([*names[:MAX_NAMES], *more])} ({_of(alike, whole)}): {why}.")
    return [*aligned(lines), *map(clean, text)]


def _of(rows: Sequence[VerifiedOp], whole: tuple[float, float]) -> str:
    shares = zip(_shares(rows, whole), ("own CPU", "GPU"), strict=True)
    return ", ".join(f"{percent(share)} of the {where} time" for share, where in shares if share is not None)


def verified_lines(row: VerifiedOp, machine: VerifyMachine, allows: str) -> list[str]:
    """The times of an operator: recorded, least, here, and of alternatives; or the reason why there are none.

    `allows` says what to do where the machine is too noisy.
    """
    lines = [clean(f"{row['op']}  {row['input_shapes'][:MAX_SHAPES]}  {counted(row['calls'], 'call')}")]
    if row["why"] is not None:
        return [*lines, clean(f"  It cannot be built again: {row['why']}.")]
    recorded = row.get("recorded_us", 0.0)
    cells = [("  recorded", duration(1000 * recorded), "", "")]
    if (least := row.get("roofline_us")) is not None:
        cells.append(("  roofline", duration(1000 * least), "", f"{percent(100 * least / max(recorded, 1e-9))} of it"))
    for way in row.get("times", ()):
        if way["why"] is not None:
            cells.append((f"  {way['name']}", "–", "", f"{way['why']}."))
            continue
        middle, low, high = way["interval_us"]
        versus = f"{middle / recorded:.2f} times the recorded time" if recorded else ""
        if "ratio" in way:
            versus = "{}: {:.2f} times as long ({:.2f} to {:.2f})".format(way["verdict"], *way["ratio"])
        interval = f"{duration(1000 * low)} to {duration(1000 * high)}"
        cells.append((f"  {way['name']}", duration(1000 * middle), interval, versus))
    lines += aligned(cells)
    if row.get("refused"):
        lines.append(f"  {row['refused']} No times are given; {allows}.")
    elif "noise" in row:
        where = f"{machine['name']}, {counted(machine['threads'], 'thread')}"
        lines.append(clean(f"  The operator differs from itself by {percent(100 * row['noise'])} here ({where})."))
    for what, difference in (("operators", row["children"]), ("kernels", row["kernels"])):
        if difference is not None:
            lines.append(clean(f"  Recorded again, {what}: {difference}."))
    return lines + [clean(f"  Note: {note}.") for note in row["notes"]]
