"""Operators that were built again, beside what the trace recorded of them: a document, and lines for a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict, cast

from tracetui.model.quantities import counted, duration, percent
from tracetui.model.trace import Trace
from tracetui.tables.call_variants import ATEN, CallVariant
from tracetui.text import aligned, clean

MAX_SHAPES = 60
"""Characters of the shapes of a variant in a line."""
SAME = "same"


class TimedWay(TypedDict):
    """A way to run an operator with its time here, or the reason why it has none; ratios are to the first."""

    name: str
    why: str | None
    median_us: NotRequired[float]
    low_us: NotRequired[float | None]
    high_us: NotRequired[float | None]
    ratio: NotRequired[float]
    ratio_low: NotRequired[float]
    ratio_high: NotRequired[float]
    verdict: NotRequired[str]


class VerifiedOp(TypedDict):
    """A variant of an operator: recorded times, whether it can be built again, and times here.

    `children` and `kernels` say what differs when it is recorded again, `same`, or null where that was not looked at.
    """

    op: str
    input_shapes: str
    calls: int
    self_cpu_us: float
    gpu_us: float
    why: str | None
    notes: list[str]
    overload: NotRequired[str]
    children: NotRequired[str | None]
    kernels: NotRequired[str | None]
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
    """Variants of operators, the longest first; shares are those of the time of `aten` operators."""

    trace: str
    machine: VerifyMachine
    rebuilt_cpu_pct: float | None
    rebuilt_gpu_pct: float | None
    other_ops_cpu_pct: float | None
    operators: list[VerifiedOp]


def verify_document(
    trace: Trace, variants: Sequence[CallVariant], answers: Mapping[str, Any], is_timed: bool
) -> VerifyDocument:
    """The answers of the child beside the variants that it was asked about; others were not tried."""
    asked = [each for each in variants if each.name.startswith(ATEN)]
    rows = []
    for variant, answer in zip(asked, answers["operators"], strict=False):
        row: dict[str, Any] = {
            "op": variant.name,
            "input_shapes": variant.shapes,
            "calls": len(variant.rows),
            "self_cpu_us": variant.self_cpu_us,
            "gpu_us": variant.gpu_us,
            "why": answer["why"],
            "notes": answer["notes"],
        }
        row |= {key: answer[key] or SAME if key in answer else None for key in ("children", "kernels")}
        if is_timed:
            times = sorted(variant.recorded(trace)["times_us"])
            row |= {"recorded_us": times[len(times) // 2], "roofline_us": variant.roofline_us(trace)}
            kept = ("overload", "refused", "noise", "against_recorded", "times")
            row |= {key: answer[key] for key in kept if key in answer}
        rows.append(cast(VerifiedOp, row))
    built = [variant for variant, row in zip(asked, rows, strict=False) if row["why"] is None]
    everything = sum(each.self_cpu_us for each in variants)
    cpu, gpu = (sum(getattr(each, key) for each in asked) for key in ("self_cpu_us", "gpu_us"))
    return {
        "trace": trace.label,
        "machine": answers["machine"],
        "rebuilt_cpu_pct": _share(sum(each.self_cpu_us for each in built), cpu),
        "rebuilt_gpu_pct": _share(sum(each.gpu_us for each in built), gpu),
        "other_ops_cpu_pct": _share(everything - cpu, everything),
        "operators": rows,
    }


def _share(part: float, whole: float) -> float | None:
    return 100 * part / whole if whole else None


def coverage_lines(document: VerifyDocument, limit: int | None = None) -> list[str]:
    """A line for each variant, those that cannot be built named with the reason; then the shares of the time."""
    rows = document["operators"][:limit]
    lines = [("operator", "calls", "self CPU", "GPU", "built again", "children", "shapes")]
    for row in rows:
        cpu, gpu = duration(1000 * row["self_cpu_us"]), duration(1000 * row["gpu_us"])
        children = {None: "–", SAME: SAME}.get(row.get("children"), "others")
        built = "yes" if row["why"] is None else "no"
        lines.append((row["op"], f"{row['calls']:,}", cpu, gpu, built, children, row["input_shapes"][:MAX_SHAPES]))
    reasons = {f"{row['op']}: {row['why']}." for row in rows if row["why"] is not None}
    shares = [
        f"{percent(share)} of the {where} time"
        for share, where in ((document["rebuilt_cpu_pct"], "own CPU"), (document["rebuilt_gpu_pct"], "GPU"))
        if share is not None
    ]
    count = sum(row["why"] is None for row in document["operators"])
    variants = counted(len(document["operators"]), "variant")
    sentence = f"{count:,} of {variants} of aten operators can be built again"
    others = document["other_ops_cpu_pct"]
    apart = f" Other operators, {percent(others)} of the own CPU time of all, are not tried." if others else ""
    return [*aligned(lines), *sorted(map(clean, reasons)), f"{', '.join([sentence, *shares])}.{apart}"]


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
        low, high = way["low_us"], way["high_us"]
        interval = "" if low is None or high is None else f"{duration(1000 * low)} to {duration(1000 * high)}"
        versus = ""
        if "ratio" in way:
            ratios = f"{way['ratio']:.2f} times as long ({way['ratio_low']:.2f} to {way['ratio_high']:.2f})"
            versus = f"{way['verdict']}: {ratios}"
        cells.append((f"  {way['name']}", duration(1000 * way["median_us"]), interval, versus))
    lines += aligned(cells)
    if row.get("refused"):
        lines.append(f"  {row['refused']} No times are given; `tracetui verify --noise PERCENT` allows more.")
    elif "against_recorded" in row:
        noise = f"noise {percent(100 * row['noise'])}"
        threads = counted(machine["threads"], "thread")
        lines.append(f"  Against the recorded time: {row['against_recorded']} ({noise}, {machine['name']}, {threads}).")
    for key in ("children", "kernels"):
        if (difference := row.get(key)) is not None:
            lines.append(clean(f"  Recorded again, {key}: {difference}."))
    return lines + [clean(f"  Note: {note}.") for note in row["notes"]]
