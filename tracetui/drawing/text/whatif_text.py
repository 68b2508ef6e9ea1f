"""The predicted time of a step with changes, as lines of text and as JSON."""

from __future__ import annotations

from typing import TypedDict

from tracetui.drawing.text.envelope import json_text
from tracetui.model.quantities import duration, percent
from tracetui.model.trace import Trace
from tracetui.text import clean
from tracetui.whatif.prediction import NOISE, NOISE_PCT, Interval, Predicted, Prediction

MIN_SHOWN_PCT = 0.05
"""Least difference that one decimal shows."""


class ChangeDocument(TypedDict):
    """A change, alone and with those before it, in us; and how many pairs of recordings its kind covered."""

    change: str
    kind: str
    matched: str
    status: str
    pairs: int
    covered: int
    programs: int
    alone_low_us: float
    alone_high_us: float
    low_us: float
    high_us: float


class LimitsDocument(TypedDict):
    """Shares of the longest chain of launches and activities with all changes."""

    cpu_pct: float
    gpu_pct: float
    waits_pct: float


class WhatIfDocument(TypedDict):
    """The time of a step with all changes, `low_us` to `high_us`; two recordings may differ by `noise_pct`."""

    trace: str
    scope: str
    steps: int
    recorded_us: float
    identity_pct: float
    spread_pct: float | None
    noise_pct: int
    changes: list[ChangeDocument]
    low_us: float
    high_us: float
    saves_low_pct: float
    saves_high_pct: float
    limited_by: str
    limits: LimitsDocument
    remarks: list[str]


def _shares(prediction: Prediction) -> dict[str, float]:
    """Percent of the longest chain by what it is made of, the largest first."""
    limits = prediction.limits
    total = max(limits.total, 1.0)
    shares = {"CPU": limits.cpu, "GPU": limits.gpu, "waits": limits.waits}
    return {name: 100 * time / total for name, time in sorted(shares.items(), key=lambda each: -each[1])}


def as_json(trace: Trace, prediction: Prediction) -> str:
    """The prediction as a document."""
    span, shares = prediction.span, _shares(prediction)
    low, high = prediction.saves
    document: WhatIfDocument = {
        "trace": clean(trace.label),
        "scope": clean(prediction.scope),
        "steps": span.parts,
        "recorded_us": span.time / 1e3,
        "identity_pct": 100 * prediction.identity_error,
        "spread_pct": None if span.spread is None else 100 * span.spread,
        "noise_pct": NOISE_PCT,
        "changes": [_change(each) for each in prediction.changes],
        "low_us": prediction.interval.low / 1e3,
        "high_us": prediction.interval.high / 1e3,
        "saves_low_pct": 100 * low,
        "saves_high_pct": 100 * high,
        "limited_by": next(iter(shares)),
        "limits": {"cpu_pct": shares["CPU"], "gpu_pct": shares["GPU"], "waits_pct": shares["waits"]},
        "remarks": list(prediction.remarks),
    }
    return json_text("whatif", document, indented=True)


def _change(predicted: Predicted) -> ChangeDocument:
    change = predicted.change
    reliability = change.reliability
    return {
        "change": clean(change.asked.text),
        "kind": change.asked.kind,
        "matched": change.matched,
        "status": reliability.status,
        "pairs": reliability.pairs,
        "covered": reliability.covered,
        "programs": reliability.programs,
        "alone_low_us": predicted.alone.low / 1e3,
        "alone_high_us": predicted.alone.high / 1e3,
        "low_us": predicted.together.low / 1e3,
        "high_us": predicted.together.high / 1e3,
    }


def as_lines(prediction: Prediction) -> list[str]:
    """The prediction for a person, no line wider than 100 cells."""
    span, interval = prediction.span, prediction.interval
    apart = "" if span.spread is None else f", its steps differ by ±{percent(100 * span.spread)}"
    off = round(100 * prediction.identity_error, 2)
    replayed = f"{off:+.2f} % off the recording" if off else "exactly the recording"
    lines = [
        f"Scope     {clean(prediction.scope)}",
        f"Recorded  {duration(span.time)}{apart}",
        f"Replayed  without a change {replayed}",
        "",
    ]
    for number, each in enumerate(prediction.changes):
        change, is_bound = each.change, each.change.asked.kind == "drop"
        lines.append(f"{clean(change.asked.text)}   {change.matched}   {change.reliability.words}")
        lines.append(f"  alone  {_times(each.alone, span.time, is_bound)}")
        if number:
            is_bound = any(other.change.asked.kind == "drop" for other in prediction.changes[: number + 1])
            lines.append(f"  with those above  {_times(each.together, span.time, is_bound)}")
    noisy = Interval(interval.low * (1 - NOISE), interval.high * (1 + NOISE))
    shares = ", ".join(f"{name} {percent(share)}" for name, share in _shares(prediction).items())
    return [
        *lines,
        "",
        f"Then      {_both(interval)} in place of {duration(span.time)}",
        f"Noise     two recordings of one program differ by up to {NOISE_PCT} %: with it {_both(noisy)}",
        f"Limits    {shares}",
        "          of the chain of calls, GPU work and waits that ends last: what to shorten next",
        *prediction.remarks,
    ]


def _times(interval: Interval, recorded: float, is_bound: bool) -> str:
    low, high = (100 * (1 - time / recorded) for time in (interval.high, interval.low))
    if is_bound:
        return f"saves at most {percent(max(high, 0.0))}: {duration(interval.low)} at least"
    if max(abs(low), abs(high)) < MIN_SHOWN_PCT:
        return f"{_both(interval)}, saves nothing"
    if high < 0:
        return f"{_both(interval)}, takes {_range(-high, -low)} more"
    return f"{_both(interval)}, saves {_range(low, high)}" if low >= 0 else f"{_both(interval)}, {_range(-high, -low)}"


def _both(interval: Interval) -> str:
    low, high = duration(interval.low), duration(interval.high)
    return low if low == high else f"{low} to {high}"


def _range(low: float, high: float) -> str:
    ends = [f"{end:.1f}" for end in (low, high)]
    return f"{ends[0]} %" if ends[0] == ends[1] else f"{ends[0]} to {ends[1]} %"
