"""Kernels, copies or operators of a name, and what is known of them: `kernel("gemm").total_us`, `op("aten::t").calls`.

Calls and sums are of one part, the median over the parts, as everything that is measured; the others are of all calls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tracetui.analysis.checking.lists import OP_HELP, lacks_gpu, lacks_ops, op_sums
from tracetui.analysis.checking.operations import matcher
from tracetui.analysis.checking.units import MICROS, THINGS, Unit
from tracetui.analysis.checking.values import MOST, Number, Offender, Offenders, number
from tracetui.analysis.common.lanes import is_named
from tracetui.analysis.comparing.sides.side import STEP, Side
from tracetui.analysis.kernel_names import short_kernel
from tracetui.analysis.linking.links import links, no_gpu
from tracetui.model.intervals import Bool, Int64
from tracetui.model.trace import Float64, Kind

WORK_FIELDS = ("calls", "total_us", "mean_us", "min_us", "median_us", "max_us")
"""What is known of kernels and copies, as in `show kernels --by name`."""
_OVER_CALLS: dict[str, Callable[[Int64], float]] = {
    "mean_us": lambda dur: float(dur.mean()) / 1000,
    "min_us": lambda dur: float(dur.min()) / 1000,
    "median_us": lambda dur: float(np.median(dur)) / 1000,
    "max_us": lambda dur: float(dur.max()) / 1000,
}


def kernel(side: Side, pattern: str, field: str) -> Number:
    """A number about the kernels whose recorded or short name is as a pattern says; `field` is of `WORK_FIELDS`."""
    return _work(side, pattern, field, (Kind.KERNEL,), "kernel")


def copy(side: Side, pattern: str, field: str) -> Number:
    """The same about copies and fills."""
    return _work(side, pattern, field, (Kind.MEMCPY, Kind.MEMSET), "copy or fill")


def op(side: Side, pattern: str, field: str) -> Number:
    """A number about the operators of a name, which a pattern matches as a whole; `field` is in `OP_HELP`."""
    unit = MICROS if field.endswith("_us") else THINGS
    if why := lacks_ops(side):
        return number(None, unit, why)
    found, fits = op_sums(side), matcher(pattern, whole=True)
    mine = [place for place, name in enumerate(found.name.tolist()) if fits(found.texts[name])]
    if unit is MICROS and not mine:
        return number(None, unit, f"No operator is named {pattern!r}.")
    sample = found.sums[field][mine].sum(axis=0)
    if "device" in field or field == "kernels":
        return _median(sample if len(links(side.trace).gpu) else sample * np.nan, unit, no_gpu(side.trace))
    return _median(sample, unit)


def _work(side: Side, pattern: str, field: str, kinds: tuple[Kind, ...], noun: str) -> Number:
    unit = MICROS if field.endswith("_us") else THINGS
    if why := lacks_gpu(side):
        return number(None, unit, why)
    fits = matcher(pattern)
    rows, part = side.work()
    held = np.isin(side.trace.slices.kind[rows], kinds)
    held &= is_named(side.trace, rows, lambda name: fits(name) or fits(short_kernel(name)))
    part, dur = part[held], side.trace.slices.dur[rows[held]]
    if field == "calls":
        return _median(np.bincount(part, minlength=len(side)).astype(np.float64), unit)
    if len(dur) == 0:
        return number(None, unit, f"No {noun} has a name with {pattern!r}.")
    if field == "total_us":
        return _median(np.bincount(part, dur, len(side)) / 1000, unit)
    over, total = _OVER_CALLS[field], _OVER_CALLS[field](dur)
    order = np.argsort(part, kind="stable")
    pieces = np.split(dur[order], np.flatnonzero(np.diff(part[order])) + 1)
    found = number(total, unit, sample=np.array([over(piece) for piece in pieces]))
    if field not in ("min_us", "max_us"):
        return found
    return replace(found, offenders=_named(side, rows[held], part, dur == round(1000 * total)))


def _named(side: Side, rows: Int64, part: Int64, chosen: Bool) -> Offenders:
    """Some of the kernels or copies of a side, to be told."""
    places = np.flatnonzero(chosen)

    def told(place: int) -> Offender:
        step = int(side.number[part[place]]) if side.sort == STEP else None
        return Offender("kernels", short_kernel(side.trace.name_of(int(rows[place]))), step)

    return Offenders(tuple(map(told, places[:MOST].tolist())), len(places))


def _median(sample: Float64, unit: Unit, why: str = "") -> Number:
    return number(float(np.median(sample)) if len(sample) else None, unit, why, sample)


FIELDS = {"kernel": WORK_FIELDS, "copy": WORK_FIELDS, "op": tuple(OP_HELP)}
"""What may stand behind `kernel("...").` and its like."""
SELECTIONS: dict[str, Callable[[Side, str, str], Number]] = {"kernel": kernel, "copy": copy, "op": op}
"""How each is looked up."""
