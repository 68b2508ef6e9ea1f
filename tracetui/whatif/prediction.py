"""The answer to `what if`: the time of a step with the changes as an interval, what limits it then, and how far to rely
on it.

The ends of the interval are those of four replays: anchored and free, with the low and the high bound of the change.
What two recordings of one program differ by is no part of it, and reported beside it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracetui.errors import Unanswerable, UsageError
from tracetui.frozen import frozen
from tracetui.linking.steps import steps
from tracetui.model.quantities import counted
from tracetui.model.recorded import header_fields
from tracetui.model.trace import Trace
from tracetui.whatif.changes import MAX_CHANGES, Asked, Change, change, read_change
from tracetui.whatif.launch_queue import LaunchQueue, launch_queue
from tracetui.whatif.replay import Limits, Span, Times, anchored, free, limits, recorded, replay, span

NOISE_PCT = 7
NOISE = NOISE_PCT / 100
"""Share by which two recordings of one program differed, fixed before the pairs of docs/whatif.md were made."""
MAX_IDENTITY_ERROR = 0.03
MAX_SPREAD = 0.10


@frozen(eq=True)
class Interval:
    """Bounds of a time in ns."""

    low: float
    high: float

    def covers(self, time: float, noise: float = NOISE) -> bool:
        """True for a time within, or beside it by no more than noise."""
        return self.low * (1 - noise) <= time <= self.high * (1 + noise)


@frozen
class Predicted:
    """A change, its own effect, and that together with those before it."""

    change: Change
    alone: Interval
    together: Interval


@frozen
class Prediction:
    """The time of a step, or of the capture, with changes."""

    span: Span
    """As recorded."""
    identity_error: float
    """Deviation of the free replay without a change from the recording, as a share."""
    changes: tuple[Predicted, ...]
    limits: Limits
    """Parts of the anchored replay with all changes at their low bound."""
    scope: str
    remarks: tuple[str, ...]

    @property
    def interval(self) -> Interval:
        """The time with all changes."""
        return self.changes[-1].together

    @property
    def saves(self) -> tuple[float, float]:
        """Least and most that is saved, as shares; negative where it takes longer."""
        return 1 - self.interval.high / self.span.time, 1 - self.interval.low / self.span.time


def predict(trace: Trace, texts: Sequence[str]) -> Prediction:
    """The time of a step with changes such as `scale(softmax, 0.5)`, all together and each on its own.

    Raises: UsageError for a change that is not understood; Unanswerable where the replay does not hold.
    """
    if not 1 <= len(texts) <= MAX_CHANGES:
        raise UsageError(f"Ask for 1 to {MAX_CHANGES} changes: there are {len(texts)}.")
    asked = [read_change(text) for text in texts]
    queue = launch_queue(trace)
    measured = span(queue, recorded(queue))
    if measured.time <= 0:
        raise Unanswerable("The steps of this trace take no time: there is nothing to replay.")
    exact, loose = anchored(queue), free(queue)
    error = span(queue, replay(queue, loose)).time / measured.time - 1
    _require_known_waits(error, measured)
    changes = [change(trace, queue, each) for each in asked]
    predicted = []
    for index, each in enumerate(changes):
        alone = _interval(queue, (exact, loose), [each])
        together = _interval(queue, (exact, loose), changes[: index + 1]) if index else alone
        predicted.append(Predicted(each, alone, together))
    times = _changed(exact, changes, low=True)
    return Prediction(
        measured,
        error,
        tuple(predicted),
        limits(queue, times, replay(queue, times)),
        _scope(trace, queue, measured),
        tuple(_remarks(trace, queue, asked)),
    )


def _require_known_waits(error: float, measured: Span) -> None:
    """Raises: Unanswerable where a replay without a change is off, or the steps differ by themselves."""
    if abs(error) > MAX_IDENTITY_ERROR:
        raise Unanswerable(
            f"A replay without a change is {100 * error:+.1f} % off, and at most {100 * MAX_IDENTITY_ERROR:.0f} % are "
            "taken: something waited for what the trace does not record."
        )
    if measured.spread is not None and measured.spread > MAX_SPREAD:
        raise Unanswerable(
            f"The steps differ by ±{100 * measured.spread:.0f} % by themselves, and at most {100 * MAX_SPREAD:.0f} % "
            "are taken: record more steps after a warm-up, or choose others with --steps-by."
        )


def _interval(queue: LaunchQueue, starts: Sequence[Times], changes: Sequence[Change]) -> Interval:
    """The ends of the replays of both bounds of some changes, with anchored and with free times."""
    ends = [span(queue, replay(queue, _changed(start, changes, low))).time for start in starts for low in (True, False)]
    return Interval(min(ends), max(ends))


def _changed(times: Times, changes: Sequence[Change], low: bool) -> Times:
    """The times after all changes, applied in their order."""
    for each in changes:
        times = each.apply(times, low)
    return times


def _scope(trace: Trace, queue: LaunchQueue, measured: Span) -> str:
    what = "from the end of one's GPU work to that of the next" if queue.is_on_gpu else "on the CPU"
    if measured.parts == 0:
        return "the capture, from its first launch to the last end" if queue.is_on_gpu else "the capture, on the CPU"
    words = steps(trace).words
    by = f" ({words})" if words else ""
    return f"a step, the median of {counted(measured.parts, 'step')} {what}{by}"


def _remarks(trace: Trace, queue: LaunchQueue, asked: Sequence[Asked]) -> list[str]:
    remarks = []
    ranks = header_fields(trace.metadata)["world_size"] or 1
    if ranks > 1:
        others = "other rank is" if ranks == 2 else f"other {ranks - 1} ranks are"
        remarks.append(f"The {others} taken to change alike: communication keeps its time.")
    if any(each.kind == "drop" for each in asked):
        remarks.append("drop: whether the program can do without is not known; it saves at most that.")
    if not queue.is_on_gpu and any(each.kind == "scale" for each in asked):
        remarks.append("scale: without GPU activities it is about operators on the CPU, as cpu.")
    return remarks
