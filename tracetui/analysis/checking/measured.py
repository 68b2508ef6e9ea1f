"""The measures of a side under names that do not depend on what a trace holds.

A sort of work that a trace with a GPU does not have took no time, and is 0; of a trace without a GPU nothing is known.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tracetui.analysis.checking.holdings import NO_SHAPES, lacks_calls, lacks_gpu, lacks_ops
from tracetui.analysis.comparing.sides.measures import Measure, measures, rests_on_launches, without_launches
from tracetui.analysis.comparing.sides.side import Side
from tracetui.analysis.idle.cause_words import WORDS
from tracetui.analysis.kernel_names import Family

OF_CPU = ("dur_us", "cpu_us")
"""What every trace with a thread says."""
OF_OPS = ("cpu_ops", "view_ops")
OF_CALLS = ("sync_us", "query_us", "occupancy_queries")
"""Of calls of the runtime that need not put work on the GPU."""
OF_SHAPES = ("moved_bytes", "flops", "moved_known_pct")
GPU_FAMILIES = tuple(each for each in Family if each <= Family.OTHER)


def measured(side: Side) -> dict[str, Measure]:
    """Everything that is measured of a side, by name; NaN throughout is what the trace does not hold."""

    def make() -> dict[str, Measure]:
        found = measures(side)
        every = found | {name: _known(side, each) for name, each in _unused(side).items() if name not in found}
        return {name: _honest(side, each) for name, each in every.items()}

    return side.trace.remember(("measured", side.scope), make)


def lacking(side: Side, name: str) -> str:
    """Why a measure is not known of a side, as a sentence."""
    if why := _absent(side, name):
        return why
    if gap := measured(side)[name].gap:
        return f"{gap[:1].upper()}{gap[1:]}."
    if name in OF_SHAPES:
        return NO_SHAPES
    return f"Nothing of it was recorded in the {side.sort}{'' if len(side) == 1 else 's'}."


def _absent(side: Side, name: str) -> str:
    """Why the trace can say nothing about a measure; empty where it can."""
    if name in OF_CPU:
        return ""
    if name in OF_OPS:
        return lacks_ops(side)
    return lacks_calls(side) if name in OF_CALLS else lacks_gpu(side)


def _honest(side: Side, measure: Measure) -> Measure:
    """The measure, with NaN for the 0 of something that was not recorded at all."""
    if not _absent(side, measure.name):
        return measure
    return Measure(measure.name, np.full(len(side), np.nan), measure.help, measure.unit)


def _known(side: Side, measure: Measure) -> Measure:
    """The 0 of what did not occur, and nothing for the parts of which the launches were not recorded."""
    lost = without_launches(side)
    if not lost.any() or not rests_on_launches(measure.name):
        return measure
    return replace(measure, values=np.where(lost, np.nan, measure.values), gap=measures(side)["launches"].gap)


def _unused(side: Side) -> dict[str, Measure]:
    """Families of work and causes of gaps, of each of which there was nothing."""
    nothing = np.zeros(len(side))
    found = {f"{each.name.lower()}_us": f"Sum of GPU durations: {each.name.lower()}." for each in GPU_FAMILIES}
    causes = {f"idle_{word.lower().replace(' ', '_')}_us": f"Gaps put down to: {word.lower()}." for word in WORDS}
    return {name: Measure(name, nothing, help, "us") for name, help in {**found, **causes}.items()}
