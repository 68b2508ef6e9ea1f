"""What can stand for steps: the profiler's own, annotations, functions, modules and graph replays that repeat (R3.54).

`steps` takes the profiler's own by itself, and what servers name. Everything else is offered with what it covers, and
chosen by name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from tracetui.errors import UsageError
from tracetui.linking.frames import MODULE, function_of, is_own
from tracetui.linking.groups import distinct, group
from tracetui.linking.lanes import is_named
from tracetui.linking.links import STEP_NAME, links, profiler_steps
from tracetui.linking.replays import graph_name, replays
from tracetui.linking.step_names import step_name
from tracetui.linking.step_series import StepSeries, in_recording
from tracetui.linking.steps import (
    NAMES_NONE,
    PROFILER_STEP,
    candidate_series,
    found_series,
    graph_series,
    kernel_series,
    launched_in,
    steps,
)
from tracetui.linking.trees import Axis, forest
from tracetui.model import columns as col
from tracetui.model.intervals import Int64, covered
from tracetui.model.kept import kept
from tracetui.model.quantities import counted, duration
from tracetui.model.table import Strings, Table, micros, numbers, texts
from tracetui.model.trace import ChosenSteps, Kind, Trace

# Annotations that could serve as steps in a trace without steps: they repeat at top level with similar durations
# (R3.5).
#
# They are only offered. Names that differ only in numbers count as one name, with `#` for each number.

MIN_REPEATS = 3
"""Minimum occurrences of a marker."""
MAX_DURATION_RATIO = 2.0
"""Maximum ratio of the upper to the lower quartile of a marker's durations."""

_NUMBER = re.compile(r"\d+")
LIBRARY = re.compile(
    r"^(nccl|gloo|hccl|mpi|c10d|ucc)[:_]|^enumerate\(|^Optimizer\.|^TorchDynamo|CompiledFxGraph|^Torch-Compiled"
)
"""Annotations that libraries write inside a step."""


@dataclass(frozen=True, eq=False)
class Marker:
    """An annotation that repeats."""

    name: str
    """Its name, with `#` for numbers that differ."""
    rows: Int64
    """Its slices, in order of start."""
    total: int
    """Sum of their durations in ns."""


@kept
def step_markers(trace: Trace) -> list[Marker]:
    """Possible markers of steps, the one that covers most time first; none where the profiler recorded steps."""
    if len(trace.slices.of_kind(Kind.ANNOTATION)) == 0 or len(steps(trace)):
        return []
    candidates = [
        marker for name, rows in _repeated_annotations(trace).items() if (marker := _marker(trace, name, rows))
    ]
    return sorted(candidates, key=lambda marker: -marker.total)


def _repeated_annotations(trace: Trace) -> dict[str, Int64]:
    """Annotations by name that repeat on one thread and lie within none of the others; in order of start."""
    slices = trace.slices
    rows = slices.of_kind(Kind.ANNOTATION)
    used, index = np.unique(slices.name[rows], return_inverse=True)
    texts = Strings()
    codes = np.array([texts.intern(skeleton(trace.names[number])) for number in used.tolist()], np.int64)
    own = np.array([not LIBRARY.search(text) for text in texts], bool)
    code = codes[index]
    threads = group(code * len(trace.lanes) + slices.lane[rows])
    often = own[code] & (threads.calls[threads.member] >= MIN_REPEATS)
    rows, member = rows[often], threads.member[often]
    top = forest(trace, rows) < 0
    rows, member = rows[top], member[top]
    order = np.argsort(member, kind="stable")
    largest: dict[str, Int64] = {}
    for mine in np.split(rows[order], np.flatnonzero(np.diff(member[order])) + 1):
        name = common_name(trace, mine)
        if len(mine) > len(largest.get(name, ())):
            largest[name] = mine
    return largest


def skeleton(name: str) -> str:
    """A name with `#` in place of each number."""
    return _NUMBER.sub("#", name)


def common_name(trace: Trace, rows: Int64) -> str:
    """The name that slices share, with `#` for the numbers in which they differ."""
    same = len(rows) == 0 or bool((trace.slices.name[rows] == trace.slices.name[rows[0]]).all())
    name = trace.name_of(int(rows[0])) if len(rows) else ""
    return name if same else skeleton(name)


def _marker(trace: Trace, name: str, rows: Int64) -> Marker | None:
    dur = trace.slices.dur[rows]
    low, high = np.percentile(dur, [25, 75])
    if len(rows) < MIN_REPEATS or high > MAX_DURATION_RATIO * low:
        return None
    return Marker(name, rows, int(dur.sum()))


PROFILER_STEPS = "ProfilerStep#"
"""Name of the steps that the profiler recorded."""
MIN_RUNS = 2
"""Minimum runs of a source that is offered."""
MIN_COVERED = 0.01
"""Minimum share of the time, or of the GPU activities, of a source that is offered."""
MAX_NAMED_SOURCES = 4
"""Maximum sources named per sentence."""
MAX_LISTED_SOURCES = 12
"""Maximum sources listed with what they cover."""
LOW_COVERAGE = 50.0
"""Percent of the GPU activities below which it is said how little the steps cover."""
AUTO, NONE, FRAME = "auto", "none", "frame:"
"""What `--steps-by` takes beside names: what is found without a choice, no steps, and calls of a function."""
_RUNS_OF = {"function": "calls", "module": "calls", "graph": "replays"}
_FRONT_END = re.compile(r"\.async_llm\.")
"""In the name of the file that vLLM's front end writes beside those of its ranks."""
_REPEATING = {"graphs": graph_series, "kernels": kernel_series}
_LAUNCH = re.compile(r"Launch\w*Kernel|Memcpy\w*Async|Memset\w*Async")

_HIDDEN = ("<", "__")
"""Prefixes of functions that never stand for steps: `<module>`, `<lambda>`, `__call__`."""


@dataclass(frozen=True, eq=False)
class StepSource:
    """Something that repeats on one thread, each run of which can be a step."""

    name: str
    """Its name, as `--steps-by` takes it."""
    found_by: str
    """How it was found: `profiler step`, `annotation`, `function`, `module`, `graph`, or what repeats."""
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
    rule: str = ""
    """How the rule that finds it by itself calls it, empty where none does."""
    words: str = ""
    """What its steps are, in a sentence without a full stop, likewise."""

    @property
    def way(self) -> str:
        """How it was found, with its name."""
        return self.rule or (self.found_by if self.found_by == PROFILER_STEP else f"{self.found_by} {self.name}")

    def covered(self, trace: Trace) -> int:
        """Time in ns in which at least one run had begun and not ended."""
        return covered(trace.slices.start[self.rows], self.end)


@kept
def step_sources(trace: Trace) -> list[StepSource]:
    """Everything offered as steps, the profiler's own first, then what is likely, then what covers most time."""
    low, high = trace.window
    likely = {marker.name for marker in step_markers(trace)}
    least = MIN_COVERED * (high - low), MIN_COVERED * max(len(links(trace).gpu), 1)
    known = _known(trace)
    taken = {each.rows.tobytes() for each in known}
    found = [
        replace(each, is_likely=each.found_by == "annotation" and each.name in likely)
        for each in (*_repeated(trace), *_graphs(trace))
        if (each.covered(trace) >= least[0] or each.activities >= least[1]) and each.rows.tobytes() not in taken
    ]
    found.sort(key=lambda each: (not each.is_likely, -each.covered(trace), len(each.rows)))
    return [*_recorded(trace), *known, *found]


def with_steps(trace: Trace, name: str) -> Trace:
    """The trace with the runs of a name as its steps, numbered from 1; cached results are dropped.

    A name is that of a source, of a slice, or of a slice without its numbers; the beginning of annotations' names;
    `frame:` and a function; `graphs` or `kernels` that repeat; `auto` for what is found without a choice; or `none`.
    Raises: UsageError for a name that nothing in the trace has.
    """
    if name == AUTO:
        return replace(trace, chosen_steps=None, cache={})
    if name == NONE:
        nothing = np.empty(0, np.int64)
        return replace(trace, chosen_steps=ChosenSteps(nothing, nothing, NONE), cache={})
    # The choice is one among what the trace holds, whatever was chosen before.
    plain = trace if trace.chosen_steps is None else replace(trace, chosen_steps=None, cache={})
    source = _source_named(plain, name)
    if source is None:
        raise UsageError(f"{name!r} cannot mark the steps of this trace; {_listed(plain)}")
    if source.found_by == PROFILER_STEP:
        return replace(trace, chosen_steps=None, cache={})
    words = source.words or f"steps are {_RUNS_OF.get(source.found_by, 'runs')} of `{source.name}`"
    chosen = ChosenSteps(
        source.rows, source.end, name, f"{source.way} (chosen)", words, not source.is_certain, bool(source.rule)
    )
    return replace(trace, chosen_steps=chosen, cache={})


def no_steps(trace: Trace) -> str:
    """The sentence in place of steps: what could stand for them, or how to record them."""
    if trace.steps_by == NONE:
        return "No steps are wanted: --steps-by none. --steps-by auto finds them again."
    if _FRONT_END.search(trace.label) and len(links(trace).gpu) == 0:
        return (
            "This is the recording of the server's front end, which runs no steps: those are in the files of its ranks."
        )
    if is_graph_recording(trace):
        return (
            "This is the recording of a CUDA graph: what it launched was captured and did not run, so it has no steps."
        )
    names = [f"{each.name!r} ({counted(len(each.rows), 'run')})" for each in step_sources(trace)]
    if not names:
        return (
            "This trace has no steps. Call prof.step() at the end of each iteration to record them. Looked for: "
            "annotations and functions of inference servers, graphs and kernels that repeat."
        )
    more = f" and {len(names) - MAX_NAMED_SOURCES:,} more" if len(names) > MAX_NAMED_SOURCES else ""
    return f"The profiler recorded no steps. --steps-by can name {', '.join(names[:MAX_NAMED_SOURCES])}{more}."


def steps_sentence(trace: Trace) -> str:
    """How the steps were found, and how little they cover; empty for the steps of the profiler."""
    every = steps(trace)
    if not every.words:
        return ""
    covers = low_coverage(trace)
    words = f"{every.words}; they cover only {covers}" if covers else every.words
    return f"{words[0].upper()}{words[1:]}."


def steps_label(trace: Trace) -> str:
    """What counts as a step, in a few words; empty for the steps of the profiler."""
    every = steps(trace)
    if trace.chosen_steps is None and not every.words:
        return ""
    found = every.words.removeprefix("steps are ").split(NAMES_NONE)[0].replace("`", "")
    return trace.steps_by + (" ~" if every.is_guess else "") if trace.steps_by else found


def low_coverage(trace: Trace) -> str:
    """How much of the GPU activities the steps launched, where that is less than half; else empty.

    It is a sign that something else should count as a step.
    """
    share = coverage(trace) if steps(trace).words else None
    return f"{share:.0f} % of the GPU activities" if share is not None and share < LOW_COVERAGE else ""


def coverage(trace: Trace) -> float | None:
    """Percent of the GPU activities that the steps launched; None without GPU activities."""
    total = len(links(trace).gpu)
    every = steps(trace)
    return 100 * launched_in(trace, every.start, every.end) / total if total else None


def is_graph_recording(trace: Trace) -> bool:
    """Whether a trace is the recording of CUDA graphs, none of which is replayed."""
    if len(replays(trace)) or len(steps(trace)):
        return False
    calls = trace.slices.of_kind(Kind.RUNTIME)
    calls = calls[is_named(trace, calls, _LAUNCH.search)]
    recorded = int(in_recording(trace, calls).sum())
    return recorded > 0 and 2 * recorded >= len(calls)


def source_table(trace: Trace) -> Table:
    """One row per source, in the order of `step_sources`."""
    every, slices = step_sources(trace), trace.slices
    low, high = trace.window
    runs = np.array([len(each.rows) for each in every], np.int64)
    activities = np.array([each.activities for each in every], np.int64)
    launched = len(links(trace).gpu)
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


def _listed(trace: Trace) -> str:
    """What can be named, with runs, share of the GPU activities and median duration."""
    total = len(links(trace).gpu)
    lines = []
    for each in step_sources(trace)[:MAX_LISTED_SOURCES]:
        lasted = duration(float(np.median(each.end - trace.slices.start[each.rows])))
        covers = f", {100 * each.activities / total:.0f} % of the GPU activities" if total else ""
        lines.append(f"{each.name!r} ({counted(len(each.rows), 'run')}{covers}, median {lasted})")
    more = len(step_sources(trace)) - MAX_LISTED_SOURCES
    last = f" and {more:,} more (show steps --by source)" if more > 0 else ""
    words = "; ".join(lines) + last if lines else "nothing repeats"
    return f"what repeats: {words}. Also: {AUTO}, {NONE}."


def _source_named(trace: Trace, name: str) -> StepSource | None:
    """The source of a name, the first of the ways in which `--steps-by` can name one."""
    every = step_sources(trace)
    exact = next((each for each in every if each.name == name), None)
    if exact is not None:
        return exact
    if name in _REPEATING:
        wanted = _REPEATING[name](trace, True)
        return replace(_of_series(trace, wanted[0]), rule="") if wanted else None
    if name.startswith(FRAME):
        function = name.removeprefix(FRAME)
        return next((each for each in every if each.way.endswith(f": {function}")), None) or _named(
            trace, function, (Kind.PYTHON,)
        )
    known = next((each for each in every if name and each.rule and each.name.startswith(name)), None)
    source = _named(trace, name) or known or _alike(trace, name)
    return None if source is None else _as_served(trace, source)


def _as_served(trace: Trace, source: StepSource) -> StepSource:
    """The source with the rule that finds its names, where all of them are names of a server's steps."""
    said = [step_name(trace.names[number]) for number in distinct(trace.slices.name[source.rows]).tolist()]
    families = {each.family if each else "" for each in said}
    if source.rule or len(families) != 1 or "" in families:
        return source
    return replace(source, rule=f"annotation {families.pop()}")


def _alike(trace: Trace, name: str) -> StepSource | None:
    """Annotations whose names without their numbers, or with anything behind, are as asked; on one thread."""
    rows = trace.slices.of_kind(Kind.ANNOTATION)
    if not name:
        return None
    for alike in (lambda text: skeleton(text) == skeleton(name), lambda text: text.startswith(name)):
        mine = rows[is_named(trace, rows, alike)]
        if len(mine):
            return _on_one_thread(trace, mine, name)
    return None


def _on_one_thread(trace: Trace, rows: Int64, name: str) -> StepSource:
    """The outermost of some slices on the thread that has most of them, under a name."""
    lanes, calls = np.unique(trace.slices.lane[rows], return_counts=True)
    rows = rows[trace.slices.lane[rows] == lanes[np.argmax(calls)]]
    rows, _ = _outermost(trace, rows, np.zeros(len(rows), np.int64))
    return replace(_described(trace, rows), name=name)


def _known(trace: Trace) -> list[StepSource]:
    """The series that rules find, the one that they take first."""
    taken = None if len(profiler_steps(trace).row) else found_series(trace)
    every = candidate_series(trace)
    return [
        _of_series(trace, each) for each in sorted(every, key=lambda each: taken is None or each.name != taken.name)
    ]


def _of_series(trace: Trace, series: StepSeries) -> StepSource:
    return StepSource(
        series.name,
        series.found_by if series.is_guess else series.found_by.split(" ")[0],
        series.rows,
        series.end,
        launched_in(trace, series.start(trace), series.end),
        is_likely=True,
        is_certain=not series.is_guess,
        rule=series.found_by,
        words=series.words,
    )


def _recorded(trace: Trace) -> list[StepSource]:
    """The steps of the profiler, also while others are chosen."""
    rows = profiler_steps(trace).row
    return [_source(trace, PROFILER_STEPS, PROFILER_STEP, rows)] if len(rows) else []


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
        is_known = LIBRARY.search(name) or STEP_NAME.fullmatch(name) or step_name(name)
        return "" if is_known else f"annotation {skeleton(name)}"
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
    return StepSource(name, found_by, rows, end, launched_in(trace, trace.slices.start[rows], end), where)


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
        activities = launched_in(trace, start, end)
        sources.append(StepSource(graph_name(number), "graph", rows, end, activities, is_certain=False))
    return sources


def _named(
    trace: Trace, name: str, kinds: tuple[Kind, ...] = (Kind.ANNOTATION, Kind.PYTHON, Kind.CPU_OP)
) -> StepSource | None:
    """The runs of an annotation, else of a function or module, else of an operator of a name, on one thread."""
    for kind in kinds:
        rows = trace.slices.of_kind(kind)
        rows = rows[is_named(trace, rows, lambda text: name in (text, function_of(text), text.removeprefix(MODULE)))]
        if len(rows):
            return _on_one_thread(trace, rows, name)
    return None
