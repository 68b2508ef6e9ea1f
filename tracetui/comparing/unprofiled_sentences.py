"""The sentence about the times of two recordings without the profiler."""

from __future__ import annotations

from collections.abc import Iterator

from tracetui.comparing.side import STEP, Side
from tracetui.linking.unprofiled import TimeRatio, UnprofiledTime, time_ratio, unprofiled_time
from tracetui.model.quantities import time_scale


def unprofiled_sentences(a: Side, b: Side) -> Iterator[str]:
    """What the recorder measured beside both traces; nothing where it did not, or where parts are no steps.

    Nothing is claimed where the intervals of the medians overlap.
    """
    times = unprofiled_time(a.trace), unprofiled_time(b.trace)
    if a.trace is b.trace or (a.part_kind, b.part_kind) != (STEP, STEP) or times[0] is None or times[1] is None:
        return
    before, after = times[0], times[1]
    scale = time_scale((before.median_us, after.median_us))
    change = f"Without the profiler {scale.change(before.median_us, after.median_us)} per step"
    ratio = time_ratio(before, after)
    if ratio is None:
        yield f"{change}: cannot tell, too few samples for an interval."
    elif not ratio.is_certain:
        yield f"{change}: cannot tell, the intervals of the medians overlap."
    else:
        yield f"{change}: {_factor(ratio)}{_how_timed(before, after)}."


def _factor(ratio: TimeRatio) -> str:
    """`2.61 times as fast (2.55 to 2.68)`, or as long."""
    if ratio.median < 1:
        return f"{1 / ratio.median:.2f} times as fast ({1 / ratio.high:.2f} to {1 / ratio.low:.2f})"
    return f"{ratio.median:.2f} times as long ({ratio.low:.2f} to {ratio.high:.2f})"


def _how_timed(a: UnprofiledTime, b: UnprofiledTime) -> str:
    """A reservation where the machine may have changed between the two."""
    return "" if a.session and a.session == b.session else "; timed one after the other, not in turns"
