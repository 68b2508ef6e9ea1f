"""Operators that were built again, beside what the trace recorded of them: a document, and lines for a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, NotRequired, TypedDict, cast

import numpy as np

from tracetui.drawing.format import shorten
from tracetui.linking.links import links, op_rows
from tracetui.model.quantities import counted, duration, percent
from tracetui.model.trace import Trace
from tracetui.operators.costs import self_times
from tracetui.tables.call_variants import CallVariant
from tracetui.text import aligned, clean

MAX_SHAPES = 60
"""Characters of the shapes of a variant in a line."""
MAX_NAMES = 12
"""Operators named for a reason."""


class TimedWay(TypedDict):
    """A way to run an operator with its time here, or the reason why it has none; ratios are to the first."""

    name: str
    why: str | None
    median_us: NotRequired[float]
    low_us: NotRequired[float]
    high_us: NotRequired[float]
    ratio: NotRequired[float]
    ratio_low: NotRequired[float]
    ratio_high: NotRequired[float]
    verdict: NotRequired[str]


class VerifiedOp(TypedDict):
    """A variant of an operator: recorded times, the reason why it cannot be built again or null, and times here.

    `children` and `kernels` say what differs when it is recorded again, or `same`; null where that was not looked at.
    """

    op: str
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
    against_recorded: NotRequired[str]
    times: NotRequired[list[TimedWay]]


class VerifyMachine(TypedDict):
    """The machine on which operators were built again."""

    name: str
    torch: str
    threads: int


class VerifyDocument(TypedDict):
    """Variants of operators, the longest first; shares are those of the own time of all operators, and of all GPU time.

    Of what cannot be built again `left_out` has the reasons. All three are null where one operator is timed.
    """

    trace: str
    machine: VerifyMachine
    rebuilt_cpu_pct: float | None
    rebuilt_gpu_pct: float | None
    left_out: list[LeftOut] | None
    operators: list[VerifiedOp]


class LeftOut(TypedDict):
    """A reason why operators cannot be built again, with their names and shares of the time."""

    why: str
    names: list[str]
    cpu_pct: float | None
    gpu_pct: float | None


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
    document: VerifyDocument = {
        "trace": trace.label,
        "machine": answers["machine"],
        "rebuilt_cpu_pct": None,
        "rebuilt_gpu_pct": None,
        "left_out": None,
        "operators": rows,
    }
    if not is_timed:
        cpu = float(np.maximum(self_times(trace)[op_rows(trace)], 0).sum()) / 1000
        gpu = float(trace.slices.dur[links(trace).gpu].sum()) / 1000
        reasons = sorted({row["why"] for row in rows if row["why"] is not None})
        left_out = [_left_out([row for row in rows if row["why"] == why], why, cpu, gpu) for why in reasons]
        built = _left_out([row for row in rows if row["why"] is None], "", cpu, gpu)
        document["rebuilt_cpu_pct"], document["rebuilt_gpu_pct"] = built["cpu_pct"], built["gpu_pct"]
        document["left_out"] = sorted(left_out, key=lambda each: (-(each["gpu_pct"] or 0), -(each["cpu_pct"] or 0)))
    return document


def _left_out(rows: Sequence[VerifiedOp], why: str, cpu: float, gpu: float) -> LeftOut:
    return {
        "why": why,
        "names": list(dict.fromkeys(row["op"] for row in rows)),
        "cpu_pct": 100 * sum(row["self_cpu_us"] for row in rows) / cpu if cpu else None,
        "gpu_pct": 100 * sum(row["gpu_us"] for row in rows) / gpu if gpu else None,
    }


def coverage_lines(document: VerifyDocument, limit: int) -> list[str]:
    """A line for each variant; then the share of the time, and the names of what cannot be built again, by reason."""
    rows = document["operators"]
    lines = [("operator", "calls", "self CPU", "GPU", "built again", "children", "shapes")]
    for row in rows[:limit]:
        cpu, gpu = duration(1000 * row["self_cpu_us"]), duration(1000 * row["gpu_us"])
        children = {None: "–", "same": "same"}.get(row["children"], "others")
        built, shapes = "yes" if row["why"] is None else "no", row["input_shapes"][:MAX_SHAPES]
        lines.append((shorten(row["op"], MAX_SHAPES), f"{row['calls']:,}", cpu, gpu, built, children, shapes))
    if document["rebuilt_gpu_pct"] is None:
        lines = [(*line[:3], *line[4:]) for line in lines]
    count = sum(row["why"] is None for row in rows)
    shares = _shares(document["rebuilt_cpu_pct"], document["rebuilt_gpu_pct"])
    text = [f"{count:,} of {counted(len(rows), 'variant')} can be built again: {shares}."]
    for each in (document["left_out"] or ())[:limit]:
        names, more = each["names"][:MAX_NAMES], len(each["names"]) - MAX_NAMES
        listed = ", ".join([*(shorten(name, MAX_SHAPES) for name in names), *([f"{more:,} more"] if more > 0 else [])])
        text.append(clean(f"Not built: {listed} ({_shares(each['cpu_pct'], each['gpu_pct'])}): {each['why']}."))
    return [*aligned(lines), *text]


def _shares(cpu: float | None, gpu: float | None) -> str:
    shares = ((cpu, "own CPU"), (gpu, "GPU"))
    return ", ".join(f"{percent(share)} of the {where} time" for share, where in shares if share is not None)


def verified_lines(row: VerifiedOp, machine: VerifyMachine) -> list[str]:
    """The times of an operator: recorded, least, here, and of alternatives; or the reason why there are none."""
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
        interval = f"{duration(1000 * way['low_us'])} to {duration(1000 * way['high_us'])}"
        versus = ""
        if "ratio" in way:
            ratios = f"{way['ratio']:.2f} times as long ({way['ratio_low']:.2f} to {way['ratio_high']:.2f})"
            versus = f"{way['verdict']}: {ratios}"
        cells.append((f"  {way['name']}", duration(1000 * way["median_us"]), interval, versus))
    lines += aligned(cells)
    if row.get("refused"):
        lines.append(f"  {row['refused']} No times are given; `tracetui verify --noise PERCENT` allows more.")
    elif "noise" in row:
        where = f"noise {percent(100 * row['noise'])}, {machine['name']}, {counted(machine['threads'], 'thread')}"
        lines.append(clean(f"  Against the recorded time: {row.get('against_recorded', 'cannot tell')} ({where})."))
    for key in ("children", "kernels"):
        if (difference := row[key]) is not None:  # type: ignore[literal-required]
            lines.append(clean(f"  Recorded again, {key}: {difference}."))
    return lines + [clean(f"  Note: {note}.") for note in row["notes"]]
