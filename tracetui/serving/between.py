"""What the CPU did between two steps of a server: scheduling, graph launches, sampling, output, waits (R3.84).

Read from the names of what began between the two steps on the steps' thread: what encloses both, such as the server's
loop, says nothing. Every moment counts once, for the first activity in `Activity` that any open slice shows.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from tracetui.idle.clock import clock_skew
from tracetui.idle.step_times import between_windows
from tracetui.idle.waits import SYNC_NAME
from tracetui.linking.frames import function_of
from tracetui.linking.lanes import is_named
from tracetui.linking.links import links
from tracetui.linking.regions import busy_stretches
from tracetui.linking.replays import GRAPH_LAUNCH
from tracetui.linking.steps import steps
from tracetui.model.intervals import Bool, Int64, covered_within, union
from tracetui.model.trace import Kind, Trace


class Activity(IntEnum):
    """What the CPU did between two steps, by precedence."""

    GRAPH_LAUNCHES = 0
    GPU_WAITS = 1
    """Calls and operators that return when the GPU has finished something."""
    SAMPLING = 2
    OUTPUT = 3
    """Detokenising, and whatever else becomes of the tokens of a step."""
    SCHEDULING = 4
    """Receiving requests and choosing those of the next step."""
    MESSAGES = 5
    """Waiting for, or exchanging, messages with other processes and threads."""
    OTHER = 6
    """Anything else that was recorded."""
    NOTHING = 7
    """Nothing was recorded: Python without stacks, or anything else."""


ACTIVITY_NAMES = (
    "graph launches",
    "GPU waits",
    "sampling",
    "output",
    "scheduling",
    "messages",
    "other",
    "not recorded",
)
"""Name of each `Activity` in tables."""

_BLOCKING = re.compile(SYNC_NAME.pattern + r"|^(cu|cuda|hip)Memcpy(?!.*Async)")
_READS = re.compile(r"^aten::(item|_local_scalar_dense|is_nonzero|nonzero)$")
_SAMPLING = re.compile(
    r"(?i)(?<![a-z])(sampl(e|er|ing)(?![a-z])|logits_process|apply_penalt|^aten::(multinomial|argmax)$)"
)
_OUTPUT = re.compile(
    r"(?i)detoken|(process|update|stream|handle|make|post_?process)_?(batch_|from_|model_)?(outputs?|results?)(?![a-z])"
    r"|output_processor|batch_decode"
)
_SCHEDULING = re.compile(
    r"(?i)(?<![a-z])schedule(?![a-z])|get_(next|new)_(prefill_)?batch|recv_requests|process_input_requests"
    r"|update_running_batch|prepare_for_(decode|extend)|add_requests?(?![a-z])"
)
_MESSAGES = re.compile(
    r"(?i)(?<![a-z])(acquire_(read|write)|(de|en)queue|recv(_\w+)?|send(_\w+)?|e?poll(_wait)?|select|sched_yield|get_nowait|put)$"
)
_PROGRAM = (Kind.ANNOTATION, Kind.PYTHON)
_BY_NAME = (
    (Activity.SAMPLING, (*_PROGRAM, Kind.CPU_OP), _SAMPLING),
    (Activity.OUTPUT, _PROGRAM, _OUTPUT),
    (Activity.SCHEDULING, _PROGRAM, _SCHEDULING),
    (Activity.MESSAGES, _PROGRAM, _MESSAGES),
)
"""Activities that names show: of which kinds of slices, and how they are called."""
_SCOPE = "scheduler."
"""Before the names of SGLang's annotations around parts of its loop."""
_BUILT_IN = re.compile(r"^<built-in \w+ (\w+)")


@dataclass(frozen=True, eq=False)
class Between:
    """What lies between neighbouring steps: arrays of later steps by `Activity`, times in ns."""

    step: Int64
    """Index in `steps(trace)` of the later of the two steps."""
    time: Int64
    exposed: Int64
    """The part in which no device ran anything; 0 in a trace without GPU activities."""


def between(trace: Trace) -> Between:
    """What the CPU did before each step that follows another one."""
    return trace.remember("between steps", lambda: _find(trace))


def _find(trace: Trace) -> Between:
    index, low, high = between_windows(trace)
    lane = steps(trace).lane[index]
    time, exposed = np.zeros((2, len(index), len(Activity)), np.int64)
    for number in np.unique(lane).tolist():
        mine = np.flatnonzero(lane == number)
        time[mine], exposed[mine] = _of_thread(trace, number, low[mine], high[mine])
    return Between(index, time, exposed)


def _of_thread(trace: Trace, lane: int, low: Int64, high: Int64) -> tuple[Int64, Int64]:
    """Time and exposed time of each activity in windows of one thread, which ascend and do not overlap."""
    slices = trace.slices
    first, last = trace.lanes[lane].first, trace.lanes[lane].last
    rows = np.arange(first, last)
    window = np.searchsorted(low, slices.start[rows], side="right") - 1
    inside = (window >= 0) & (slices.start[rows] < high[np.maximum(window, 0)])
    rows, window = rows[inside], window[inside]
    start, end = slices.start[rows], np.minimum(slices.end[rows], high[window])
    skew, busy = clock_skew(trace), busy_stretches(trace)
    shown = np.zeros(len(rows), bool)
    time = np.zeros((len(low), len(Activity)), np.int64)
    exposed = np.zeros_like(time)
    before = np.zeros((2, len(low)), np.int64)
    for activity, mask in (*_activities(trace, rows), (Activity.OTHER, np.ones(len(rows), bool))):
        shown |= mask
        begins, ends = union(start[shown], end[shown])
        covered = covered_within(begins, ends, low, high)
        home = np.searchsorted(low, begins, side="right") - 1
        hidden = np.bincount(home, covered_within(*busy, begins + skew, ends + skew), len(low)).astype(np.int64)
        after = np.array([covered, covered - hidden])
        time[:, activity], exposed[:, activity] = after - before
        before = after
    whole = np.array([high - low, high - low - covered_within(*busy, low + skew, high + skew)])
    time[:, Activity.NOTHING], exposed[:, Activity.NOTHING] = whole - before
    if len(links(trace).gpu) == 0:
        exposed[:] = 0
    return time, exposed


def _activities(trace: Trace, rows: Int64) -> list[tuple[Activity, Bool]]:
    """Which of the slices show each activity that names show, by precedence."""
    kind = trace.slices.kind[rows]
    calls = kind == Kind.RUNTIME
    waits = (calls & is_named(trace, rows, _BLOCKING.search)) | (
        (kind == Kind.CPU_OP) & is_named(trace, rows, _READS.search)
    )
    by_name = [
        (activity, np.isin(kind, kinds) & is_named(trace, rows, _says(pattern)))
        for activity, kinds, pattern in _BY_NAME
    ]
    return [
        (Activity.GRAPH_LAUNCHES, calls & is_named(trace, rows, GRAPH_LAUNCH.search)),
        (Activity.GPU_WAITS, waits),
        *by_name,
    ]


def _says(pattern: re.Pattern[str]) -> Callable[[str], object]:
    return lambda name: pattern.search(_said(name))


def _said(name: str) -> str:
    """The part of a name that says what is done: of a frame its function, of an annotation what follows its scope."""
    built_in = _BUILT_IN.match(name)
    if built_in:
        return built_in[1]
    return function_of(name).removeprefix(_SCOPE)
