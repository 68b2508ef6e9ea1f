"""The replay of a launch queue with the times of a variant, and what bound its time.

Each call starts after the one that it follows, each activity when its launch, its stream and its dependencies let it.
The order is that of the recording. One replay is exact, `anchored`: every activity keeps its own latency or gap, so
that without a change the recording comes back. In the other, `free`, all of them have the trace's medians, and waits
that nothing explains are gone. Together they are the ends of what a trace leaves open.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tracetui.frozen import frozen
from tracetui.linking.groups import distinct
from tracetui.model.trace import Float64
from tracetui.whatif.launch_queue import BEFORE_RECORDING_NS, NEVER, USUAL_RETURN_NS, LaunchQueue, Pairs

LATENCY_SLACK_NS = 2_000
"""An activity whose stream was free so shortly before its launch could start waited for its stream."""


@frozen
class Times:
    """The times that a replay adds up, in ns; a change replaces some of them."""

    cpu: Float64
    """CPU time before each call, since the one that it follows."""
    call: Float64
    """Duration of each call without waiting."""
    return_time: Float64
    """From the end that a call waited for to its own; nan for a call that does not wait."""
    queue_return: Float64
    """The same where the queue was full; nan where no launch waits for room."""
    latency: Float64
    """From each launch to the start; `NEVER` where only the stream holds an activity up."""
    gap: Float64
    """From the end of the stream's work, or of what an activity depends on, to its start."""
    gpu: Float64
    """Duration of each activity."""
    earliest: Float64
    """A time before which an activity does not start; `NEVER` for most."""


@frozen
class Replayed:
    """Start and end of calls and activities, in ns."""

    call_start: Float64
    call_end: Float64
    start: Float64
    end: Float64


def anchored(queue: LaunchQueue) -> Times:
    """Times with which the replay gives back the recording."""
    ready, launched = queue.ready, queue.call_start[queue.launch]
    usual = queue.usual_latency[queue.kind] if queue.is_on_gpu else np.empty(0)
    latency, gap = (queue.start - launched).astype(np.float64), queue.start - ready
    by_stream = (ready > NEVER) & (queue.is_lost | (ready > launched + usual - LATENCY_SLACK_NS))
    usual_gap = queue.usual_gap[queue.kind] if queue.is_on_gpu else np.empty(0)
    # What did not bind an activity has the usual time, or less where that would have held it up.
    gap = np.where(by_stream, gap, np.minimum(gap, usual_gap))
    latency = np.where(by_stream, np.minimum(latency, usual), latency)
    latency[queue.is_lost] = NEVER
    recorded_end = queue.end[queue.queued] if queue.is_on_gpu else np.empty(len(queue.call))
    queue_return = queue.call_end - recorded_end
    is_blocked = queue.call_base < queue.call_end - queue.call_start
    queue_return = np.where(is_blocked, queue_return, np.minimum(queue_return, 0.0))
    # The first call of all starts at its recorded time.
    since = np.where(queue.follows >= 0, queue.call_end[queue.follows], 0)
    # What waited for work that was not recorded starts when it did.
    late = queue.is_lost | (queue.start - queue.call_start[queue.launch] > BEFORE_RECORDING_NS)
    return Times(
        cpu=(queue.call_start - since).astype(np.float64),
        call=queue.call_base,
        return_time=queue.return_time,
        queue_return=np.where(queue.queued >= 0, queue_return, np.nan),
        latency=latency,
        gap=np.where(np.isfinite(gap), gap, 0.0),
        gpu=(queue.end - queue.start).astype(np.float64),
        earliest=np.where((queue.before < 0) & late, queue.start.astype(np.float64), NEVER),
    )


def free(queue: LaunchQueue) -> Times:
    """Times with which only what the model explains remains."""
    times = anchored(queue)
    if not queue.is_on_gpu:
        return times
    launches = np.bincount(queue.launch, minlength=len(queue.call)) > 0
    waited = ~launches & (times.return_time < queue.call_end - queue.call_start)
    usual = float(np.median(times.return_time[waited])) if waited.any() else USUAL_RETURN_NS
    return replace(
        times,
        return_time=np.where(~launches & ~np.isnan(times.return_time), usual, times.return_time),
        queue_return=np.where(np.isnan(times.queue_return), np.nan, 0.0),
        latency=np.where(queue.is_lost, NEVER, queue.usual_latency[queue.kind]),
        gap=queue.usual_gap[queue.kind],
    )


def recorded(queue: LaunchQueue) -> Replayed:
    """The times as they were recorded."""
    columns = (queue.call_start, queue.call_end, queue.start, queue.end)
    return Replayed(*(column.astype(np.float64) for column in columns))


def replay(queue: LaunchQueue, times: Times) -> Replayed:
    """Replay the queue.

    Each time rests on earlier ones, so that this is a loop: 2.5 µs for a call with its activity.
    """
    follows, cpu, call = queue.follows.tolist(), times.cpu.tolist(), times.call.tolist()
    room = np.where(np.isnan(times.queue_return), -1, queue.queued).tolist()
    queue_return, return_time = times.queue_return.tolist(), times.return_time.tolist()
    waits = _by_waiting(_in_force(queue, times))
    depends = _by_waiting(queue.dependencies)
    bounds, before = queue.first.tolist(), queue.before.tolist()
    latency, gap, gpu, earliest = (
        times.latency.tolist(),
        times.gap.tolist(),
        times.gpu.tolist(),
        times.earliest.tolist(),
    )
    call_start, call_end = [0.0] * len(follows), [0.0] * len(follows)
    start, end = [0.0] * len(before), [0.0] * len(before)
    for number, previous in enumerate(follows):
        begin = cpu[number] if previous < 0 else call_end[previous] + cpu[number]
        finish = begin + call[number]
        if room[number] >= 0:
            finish = max(finish, end[room[number]] + queue_return[number])
        for index in range(bounds[number], bounds[number + 1]):
            at = max(begin + latency[index], earliest[index])
            if before[index] >= 0:
                at = max(at, end[before[index]] + gap[index])
            for other in depends.get(index, ()):
                at = max(at, end[other] + gap[index])
            start[index], end[index] = at, at + gpu[index]
        for index in waits.get(number, ()):
            finish = max(finish, end[index] + return_time[number])
        call_start[number], call_end[number] = begin, finish
    return Replayed(*map(np.array, (call_start, call_end, start, end)))


def _in_force(queue: LaunchQueue, times: Times) -> Pairs:
    """The waits of calls that wait still."""
    waiting = ~np.isnan(times.return_time[queue.waits.waiting])
    return Pairs(queue.waits.waiting[waiting], queue.waits.activity[waiting])


def _by_waiting(pairs: Pairs) -> dict[int, list[int]]:
    result: dict[int, list[int]] = {}
    for waiting, activity in zip(pairs.waiting.tolist(), pairs.activity.tolist(), strict=True):
        result.setdefault(waiting, []).append(activity)
    return result


# The time that counts: that of a step, or of the capture.


@frozen(eq=True)
class Span:
    """The time of a step, or of the capture where no two steps can be compared; in ns."""

    time: float
    spread: float | None
    """Half of the range in which the middle three fifths of the steps lie, as a share of the median; None for one."""
    parts: int
    """Steps whose time is known; 0 for the capture."""
    begin: float
    """Start of the first of them, or of the capture's first launch."""
    end: float


def span(queue: LaunchQueue, replayed: Replayed) -> Span:
    """The median time of the steps, each from the end of the one before it on its thread to its own, and their spread.

    The end of a step is that of its GPU activities; without these that of its slice.
    """
    part, end = queue.part, replayed.end if queue.is_on_gpu else replayed.call_end
    last = np.full(len(queue.step_lane) + 1, NEVER)
    np.maximum.at(last, part, end)
    last = last[:-1]
    ran = last > NEVER
    times, edges = [], []
    for lane in distinct(queue.step_lane[ran]).tolist():
        ends = last[ran & (queue.step_lane == lane)]
        if not queue.is_on_gpu:
            ends = np.append(queue.step_start[queue.step_lane == lane].min(initial=0), ends)
        times += np.diff(ends).tolist()
        edges += ends.tolist()
    if len(times) > 1 or (times and not queue.is_on_gpu):
        ranked = np.sort(times)
        middle, fifth = float(np.median(ranked)), len(ranked) // 5
        if middle > 0:
            spread = float(ranked[-1 - fifth] - ranked[fifth]) / 2 / middle
            return Span(middle, spread if len(times) > 1 else None, len(times), min(edges), max(edges))
    launching = np.bincount(queue.launch, minlength=len(queue.call)) > 0 if queue.is_on_gpu else slice(None)
    first = replayed.call_start[launching].min()
    reach = max(replayed.call_end.max(), replayed.end.max(initial=NEVER))
    return Span(float(reach - first), None, 0, float(first), float(reach))


# What bound the time: the way back from the last end, along what each start and end was waiting for.


@frozen(eq=True)
class Limits:
    """Time in ns on the longest chain of a replay: the CPU, the GPU, and waits between the two."""

    cpu: float
    gpu: float
    waits: float

    @property
    def total(self) -> float:
        """Length of the chain."""
        return self.cpu + self.gpu + self.waits


def limits(queue: LaunchQueue, times: Times, replayed: Replayed) -> Limits:
    """Parts of the longest chain within the steps; latency, gaps and returns from waits are waits."""
    waits, depends = _by_waiting(_in_force(queue, times)), _by_waiting(queue.dependencies)
    cpu = gpu = wait = 0.0
    whole = span(queue, replayed)
    call = int(np.where(replayed.call_end <= whole.end, replayed.call_end, NEVER).argmax())
    activity = int(np.where(replayed.end <= whole.end, replayed.end, NEVER).argmax()) if queue.is_on_gpu else -1
    if activity >= 0 and replayed.end[activity] < replayed.call_end[call]:
        activity = -1
    # At the end of an activity, or else of a call.
    while (replayed.end[activity] if activity >= 0 else replayed.call_end[call]) > whole.begin:
        if activity >= 0:
            gpu += times.gpu[activity]
            behind = [each for each in (*depends.get(activity, ()), int(queue.before[activity])) if each >= 0]
            latest, launch = _latest(replayed, behind), int(queue.launch[activity])
            by_launch = replayed.call_start[launch] + times.latency[activity]
            by_stream = replayed.end[latest] + times.gap[activity] if latest >= 0 else NEVER
            if max(by_launch, by_stream) < times.earliest[activity]:
                break
            if by_stream >= by_launch:
                wait += times.gap[activity]
                activity = latest
                continue
            wait += times.latency[activity]
            call, activity = launch, -1
        else:
            waited, room = _latest(replayed, waits.get(call, [])), int(queue.queued[call])
            by_wait = replayed.end[waited] + times.return_time[call] if waited >= 0 else NEVER
            by_room = replayed.end[room] + times.queue_return[call] if room >= 0 else np.nan
            if np.fmax(by_wait, by_room) > replayed.call_start[call] + times.call[call]:
                is_full = by_room > by_wait
                wait += times.queue_return[call] if is_full else times.return_time[call]
                activity = room if is_full else waited
                continue
            cpu += times.call[call]
        previous = int(queue.follows[call])
        if previous < 0:
            break
        cpu += times.cpu[call]
        call = previous
    return Limits(max(cpu, 0.0), gpu, max(wait, 0.0))


def _latest(replayed: Replayed, activities: list[int]) -> int:
    """The one that ended last, -1 for none."""
    return max(activities, key=lambda each: float(replayed.end[each]), default=-1)
