"""What can stand for steps: the profiler's own, annotations, functions, modules and graph replays that repeat (R3.54).

Nothing but `ProfilerStep#N` is taken by itself. Everything else is offered with what it covers, and chosen by name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tracetui.analysis import columns as col
from tracetui.analysis.common.groups import group
from tracetui.analysis.common.lanes import is_named
from tracetui.analysis.common.stretches import Axis
from tracetui.analysis.linking.frames import MODULE, function_of, is_own
from tracetui.analysis.linking.links import links
from tracetui.analysis.linking.markers import LIBRARY, common_name, markers, skeleton
from tracetui.analysis.linking.replays import graph_name, replays
from tracetui.analysis.linking.steps import STEP_NAME, steps
from tracetui.errors import UsageError
from tracetui.model.intervals import Int64
from tracetui.model.strings import Strings
from tracetui.model.table import Table, micros, numbers, texts
from tracetui.model.trace import ChosenSteps, Kind, Trace

PROFILER_STEPS = "ProfilerStep#"
"""Name of the steps that the profiler recorded."""
MIN_RUNS = 2
"""Minimum runs of a source that is offered."""
MIN_COVERED = 0.01
"""Minimum share of the time, or of the GPU activities, of a source that is offered."""
MAX_NAMED_SOURCES = 4
"""Maximum sources named per sentence."""

_HIDDEN = ("<", "__")
"""Prefixes of functions that never stand for steps: `<module>`, `<lambda>`, `__call__`."""


@dataclass(frozen=True, eq=False)
class StepSource:
    """Something that repeats on one thread, each run of which can be a step."""

    name: str
    """Its name, as `--steps-by` takes it."""
    found_by: str
    """How it was found: `profiler step`, `annotation`, `function`, `module` or `graph`."""
    rows: Int64
    """Its slices, in order of start."""
    end: Int64
    """End of each step in ns: that of the slice, of a replay the launch of the next one."""
    activities: int
    """GPU activities launched in all of its runs."""
    where: str = ""
    """File and line of a function."""
    is_likely: bool = False
    """Whether it repeats at top level with similar durations (R3.5)."""
    is_certain: bool = True
    """Whether the runs say where a step ends."""

    def covered(self, trace: Trace) -> int:
        """Time in ns from the start to the end of each run, all runs together."""
        return int((self.end - trace.slices.start[self.rows]).sum())


def step_sources(trace: Trace) -> list[StepSource]:
    """Everything offered as steps, the profiler's own first, then what is likely, then what covers most time."""
    return trace.remember("step sources", lambda: _offered(trace))


def with_steps(trace: Trace, name: str) -> Trace:
    """The trace with the runs of a name as its steps, numbered from 1; cached results are dropped.

    Raises: UsageError for a name that nothing in the trace has.
    """
    source = next((each for each in step_sources(trace) if each.name == name), None) or _named(trace, name)
    if source is None:
        known = ", ".join(repr(each.name) for each in step_sources(trace)) or "nothing"
        raise UsageError(f"{name!r} cannot mark the steps of this trace; what repeats: {known}.")
    if source.found_by == "profiler step":
        return replace(trace, chosen_steps=None, cache={})
    return replace(trace, chosen_steps=ChosenSteps(source.rows, source.end, name), cache={})


def no_steps(trace: Trace) -> str:
    """The sentence in place of steps: what could stand for them, or how to record them."""
    names = [f"{each.name!r} ({len(each.rows):,} runs)" for each in step_sources(trace)]
    if not names:
        return "This trace has no steps. Call prof.step() at the end of each iteration to record them."
    more = f" and {len(names) - MAX_NAMED_SOURCES:,} more" if len(names) > MAX_NAMED_SOURCES else ""
    return f"The profiler recorded no steps. --steps-by can name {', '.join(names[:MAX_NAMED_SOURCES])}{more}."


def source_table(trace: Trace) -> Table:
    """One row per source, in the order of `step_sources`."""
    every, slices = step_sources(trace), trace.slices
    low, high = trace.window
    runs = np.array([len(each.rows) for each in every], np.int64)
    activities = np.array([each.activities for each in every], np.int64)
    launched = len(links(trace).launched)
    lasted = [float(np.median(each.end - slices.start[each.rows])) for each in every]
    nothing = np.full(len(every), np.nan)
    return Table(
        (
            texts(col.STEPS_BY, [each.name for each in every]),
            texts(col.FOUND_BY, [each.found_by if each.is_certain else f"{each.found_by} ~" for each in every]),
            numbers(col.RUNS, runs),
            numbers(col.TIME_PCT, [100 * each.covered(trace) / max(high - low, 1) for each in every]),
            numbers(col.ACTIVITIES_PCT, 100 * activities / launched if launched else nothing),
            numbers(col.PER_RUN, activities / runs if launched else nothing),
            micros(col.MEDIAN_US.but(help="Median time from the start of a run to its end."), np.array(lasted)),
            texts(col.WHERE, [each.where or None for each in every]),
        ),
        np.array([each.rows[0] for each in every], np.int64),
        "" if every else no_steps(trace),
    )


def _offered(trace: Trace) -> list[StepSource]:
    low, high = trace.window
    likely = {marker.name for marker in markers(trace)}
    least = MIN_COVERED * (high - low), MIN_COVERED * max(len(links(trace).launched), 1)
    found = [
        replace(each, is_likely=each.found_by == "annotation" and each.name in likely)
        for each in (*_repeated(trace), *_graphs(trace))
        if each.covered(trace) >= least[0] or each.activities >= least[1]
    ]
    found.sort(key=lambda each: (not each.is_likely, -each.covered(trace), len(each.rows)))
    return [*_recorded(trace), *found]


def _recorded(trace: Trace) -> list[StepSource]:
    """The steps of the profiler, also while others are chosen."""
    rows = steps(trace).row if trace.chosen_steps is None else steps(replace(trace, chosen_steps=None, cache={})).row
    return [_source(trace, PROFILER_STEPS, "profiler step", rows)] if len(rows) else []


def _repeated(trace: Trace) -> list[StepSource]:
    """Annotations, functions and modules by name, each on the thread on which it runs most often."""
    slices = trace.slices
    rows = slices.of_kind(Kind.ANNOTATION, Kind.PYTHON)
    is_frame = slices.kind[rows] == Kind.PYTHON
    keys = Strings()
    codes = {
        frame: np.array([keys.intern(_key(name, frame)) for name in trace.names] or [0], np.int64)
        for frame in (False, True)
    }
    nothing = keys.intern("")
    code = np.where(is_frame, codes[True][slices.name[rows]], codes[False][slices.name[rows]])
    rows, code = rows[code != nothing], code[code != nothing]
    rows, code = _outermost(trace, rows, code * len(trace.lanes) + slices.lane[rows])
    threads = group(code)
    order = np.argsort(threads.member, kind="stable")
    bounds = np.searchsorted(threads.member[order], np.arange(len(threads) + 1))
    best: dict[int, int] = {}
    for index in np.flatnonzero(threads.calls >= MIN_RUNS).tolist():
        name = int(threads.key[index]) // len(trace.lanes)
        if name not in best or threads.calls[index] > threads.calls[best[name]]:
            best[name] = index
    runs = [rows[order[bounds[index] : bounds[index + 1]]] for index in best.values()]
    return _distinct([_described(trace, each) for each in runs])


def _key(name: str, is_frame: bool) -> str:
    """What the runs of one source share; empty for what is never one."""
    if not is_frame:
        return "" if LIBRARY.search(name) or STEP_NAME.fullmatch(name) else f"annotation {skeleton(name)}"
    hidden = function_of(name).startswith(_HIDDEN) and not name.startswith(MODULE)
    return "" if hidden or not is_own(name) else f"frame {name}"


def _outermost(trace: Trace, rows: Int64, key: Int64) -> tuple[Int64, Int64]:
    """The rows that lie in no other of their key, in order of start, and their keys: recursive calls count once."""
    slices, member = trace.slices, group(key).member
    axis = Axis.around(slices.start[rows], slices.end[rows])
    start, end = axis.position(member, slices.start[rows]), axis.position(member, slices.end[rows])
    order = np.lexsort((-end, start))
    reach = np.maximum.accumulate(end[order])
    outer = np.ones(len(rows), bool)
    outer[1:] = start[order][1:] >= reach[:-1]
    kept = order[outer]
    kept = kept[np.argsort(slices.start[rows[kept]], kind="stable")]
    return rows[kept], key[kept]


def _described(trace: Trace, rows: Int64) -> StepSource:
    name = trace.name_of(int(rows[0]))
    if trace.slices.kind[rows[0]] == Kind.ANNOTATION:
        return _source(trace, common_name(trace, rows), "annotation", rows)
    if name.startswith(MODULE):
        return _source(trace, name.removeprefix(MODULE), "module", rows)
    function = function_of(name)
    return _source(trace, function, "function", rows, name.removesuffix(f": {function}"))


def _distinct(sources: list[StepSource]) -> list[StepSource]:
    """The sources with names that tell them apart: functions of one name have their file and line before it."""
    often: dict[str, int] = {}
    for each in sources:
        often[each.name] = often.get(each.name, 0) + 1
    return [
        replace(each, name=f"{each.where}: {each.name}") if often[each.name] > 1 and each.where else each
        for each in sources
    ]


def _source(trace: Trace, name: str, found_by: str, rows: Int64, where: str = "") -> StepSource:
    end = trace.slices.end[rows]
    return StepSource(name, found_by, rows, end, _launched_within(trace, trace.slices.start[rows], end), where)


def _launched_within(trace: Trace, start: Int64, end: Int64) -> int:
    """GPU activities launched in windows that do not overlap, on any thread, as steps count them (R3.3)."""

    def make() -> Int64:
        joined = links(trace)
        return np.sort(np.repeat(trace.slices.start[joined.launches], joined.counts))

    moments = trace.remember("launches of activities", make)
    return int((np.searchsorted(moments, end) - np.searchsorted(moments, start)).sum())


def _graphs(trace: Trace) -> list[StepSource]:
    """Graphs that one thread replayed more than once: a step lasts from one launch to the next, the last one as long
    as the others do.
    """
    every, slices = replays(trace), trace.slices
    sources = []
    for number in np.flatnonzero(np.bincount(every.graph) >= MIN_RUNS).tolist() if len(every) else ():
        rows = every.launch[every.graph == number]
        lanes, calls = np.unique(slices.lane[rows], return_counts=True)
        rows = rows[slices.lane[rows] == lanes[np.argmax(calls)]]
        if len(rows) < MIN_RUNS:
            continue
        start = slices.start[rows]
        last = max(start[-1] + int(np.median(np.diff(start))), slices.end[rows[-1]])
        end = np.append(start[1:], min(last, trace.window[1]))
        activities = _launched_within(trace, start, end)
        sources.append(StepSource(graph_name(number), "graph", rows, end, activities, is_certain=False))
    return sources


def _named(trace: Trace, name: str) -> StepSource | None:
    """The runs of an annotation, else of a function or module, else of an operator of a name, on one thread."""
    for kind in (Kind.ANNOTATION, Kind.PYTHON, Kind.CPU_OP):
        rows = trace.slices.of_kind(kind)
        rows = rows[is_named(trace, rows, lambda text: name in (text, function_of(text), text.removeprefix(MODULE)))]
        if len(rows):
            lanes, calls = np.unique(trace.slices.lane[rows], return_counts=True)
            rows = rows[trace.slices.lane[rows] == lanes[np.argmax(calls)]]
            rows, _ = _outermost(trace, rows, np.zeros(len(rows), np.int64))
            return replace(_described(trace, rows), name=name)
    return None
