"""Sources of steps: the profiler's own, annotations, functions, modules and graph replays that repeat (R3.54).

`steps` takes the profiler's own by itself, the steps that servers name, and iterations that cover the trace. Every
other source is listed with its coverage, and chosen by name.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from tracetui.errors import UsageError
from tracetui.frozen import frozen
from tracetui.linking.frames import MODULE, function_of, is_own
from tracetui.linking.groups import distinct, group
from tracetui.linking.links import STEP_NAME, links, profiler_steps
from tracetui.linking.replays import graph_name, replays
from tracetui.linking.step_names import CAPTURE, step_name
from tracetui.linking.step_series import StepSeries, in_recording, on_busiest_thread, outermost
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
from tracetui.linking.trees import forest, is_named
from tracetui.model.intervals import Int64, covered
from tracetui.model.quantities import counted, duration
from tracetui.model.results import kept
from tracetui.model.table import Strings
from tracetui.model.trace import ChosenSteps, Kind, Trace

# Annotations that could serve as steps in a trace without steps: they repeat at top level with similar durations
# (R3.5).
#
# They are only listed. Names that differ only in numbers count as one name, with `#` for each number.

MIN_REPEATS = 3
"""Minimum occurrences of a marker."""
MAX_DURATION_RATIO = 2.0
"""Maximum ratio of the upper to the lower quartile of a marker's durations."""

_NUMBER = re.compile(r"\d+")
LIBRARY = re.compile(
    r"^(nccl|gloo|hccl|mpi|c10d|ucc)[:_]|^enumerate\(|^Optimizer\.|^TorchDynamo|CompiledFxGraph|^Torch-Compiled"
)
"""Annotations that libraries write inside a step."""


@frozen
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
    """Possible markers of steps, the one that covers most time first; none where steps are no guess."""
    known = steps(trace)
    is_sure = len(known) > 0 and (known.is_served or not known.is_guess)
    if len(trace.slices.of_kind(Kind.ANNOTATION)) == 0 or is_sure:
        return []
    markers = []
    for name, rows in _repeated_annotations(trace).items():
        dur = trace.slices.dur[rows]
        low, high = np.percentile(dur, [25, 75])
        if len(rows) >= MIN_REPEATS and high <= MAX_DURATION_RATIO * low:
            markers.append(Marker(name, rows, int(dur.sum())))
    return sorted(markers, key=lambda marker: -marker.total)


def _repeated_annotations(trace: Trace) -> dict[str, Int64]:
    """Annotations by name that repeat on one thread and lie within none of the others; in order of start."""
    slices = trace.slices
    rows = slices.of_kind(Kind.ANNOTATION)
    used, index = np.unique(slices.name[rows], return_inverse=True)
    texts = Strings()
    codes = np.array([texts.intern(skeleton(trace.names[number])) for number in used.tolist()], np.int64)
    own = np.array([not (LIBRARY.search(text) or CAPTURE.match(text.replace("#", "0"))) for text in texts], bool)
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


PROFILER_STEPS = "ProfilerStep#"
"""Name of the steps that the profiler recorded."""
MIN_RUNS = 2
"""Minimum runs of a source that is listed."""
MIN_COVERED = 0.01
"""Minimum share of the time, or of the GPU activities, of a source that is listed."""
MAX_NAMED_SOURCES = 4
"""Maximum sources named per sentence."""
MAX_LISTED_SOURCES = 12
"""Maximum sources listed with their coverage."""
LOW_COVERAGE = 50.0
"""Percent of the GPU activities below which the coverage of the steps is reported."""
AUTO, NONE, FRAME = "auto", "none", "frame:"
"""Values of `--steps-by` beside names: the steps without a choice, no steps, and calls of a function."""
_RUNS_OF = {"function": "calls", "module": "calls", "graph": "replays"}
_FRONT_END = re.compile(r"\.async_llm\.")
"""Pattern of the file that vLLM's front end writes beside those of its ranks."""
_REPEATING = {"graphs": graph_series, "kernels": kernel_series}
_LAUNCH = re.compile(r"Launch\w*Kernel|Memcpy\w*Async|Memset\w*Async")

_HIDDEN = ("<", "__")
"""Prefixes of functions that never stand for steps: `<module>`, `<lambda>`, `__call__`."""


@frozen
class StepSource:
    """Something that repeats on one thread, each run of which can be a step."""

    name: str
    """Its name, as `--steps-by` takes it."""
    found_by: str
    """Its kind: `profiler step`, `annotation`, `function`, `module`, `graph`, or what repeats."""
    rows: Int64
    """Its slices, in order of start."""
    end: Int64
    """End of each step in ns: that of the slice, of a replay the launch of the next one."""
    activities: int
    """GPU activities launched in all of its runs."""
    where: str = ""
    """File and line of a function."""
    is_likely: bool = False
    """True where it repeats at top level with similar durations (R3.5)."""
    is_certain: bool = True
    """True where the runs say where a step ends."""
    rule: str = ""
    """`found_by` of the rule that finds it by itself, empty where none does."""
    words: str = ""
    """Description of its steps, in a sentence without a full stop; empty where no rule finds it."""
    is_served: bool = False
    """True where the rule is one for inference servers."""

    @property
    def way(self) -> str:
        """Its kind and its name."""
        return self.rule or (self.found_by if self.found_by == PROFILER_STEP else f"{self.found_by} {self.name}")

    def covered(self, trace: Trace) -> int:
        """Time in ns in which at least one run had begun and not ended."""
        return covered(trace.slices.start[self.rows], self.end)


@kept
def step_sources(trace: Trace) -> list[StepSource]:
    """All sources of steps: the profiler's own, those that rules find, likely ones, then those that cover most time.

    The steps of the profiler are among them while others are chosen.
    """
    low, high = trace.window
    likely = {marker.name for marker in step_markers(trace)}
    least = MIN_COVERED * (high - low), MIN_COVERED * max(len(links(trace).gpu), 1)
    recorded = profiler_steps(trace).row
    profiler = [_source(trace, PROFILER_STEPS, PROFILER_STEP, recorded)] if len(recorded) else []
    # Of the series that rules find, the one that is taken without a choice comes first.
    first = None if len(recorded) else found_series(trace)
    series = sorted(candidate_series(trace), key=lambda each: first is None or each.name != first.name)
    known = [_of_series(trace, each) for each in series]
    taken = {each.rows.tobytes() for each in known}
    others = [
        replace(each, is_likely=each.found_by == "annotation" and each.name in likely)
        for each in (*_repeated_names(trace), *_graph_sources(trace))
        if (each.covered(trace) >= least[0] or each.activities >= least[1]) and each.rows.tobytes() not in taken
    ]
    others.sort(key=lambda each: (not each.is_likely, -each.covered(trace), len(each.rows)))
    return [*profiler, *known, *others]


def with_steps(trace: Trace, name: str) -> Trace:
    """The trace with the runs of a name as its steps, numbered from 1; cached results are dropped.

    A name is that of a source, of a slice, or of a slice without its numbers; the beginning of annotations' names;
    `frame:` and a function; `graphs` or `kernels` that repeat; `auto` for the steps without a choice; or `none`.
    Raises: UsageError for a name that nothing in the trace has.
    """
    if name == AUTO:
        return replace(trace, chosen_steps=None, cache={})
    if name == NONE:
        nothing = np.empty(0, np.int64)
        return replace(trace, chosen_steps=ChosenSteps(nothing, nothing, NONE), cache={})
    # The sources are those of the trace, whatever was chosen before.
    plain = trace if trace.chosen_steps is None else replace(trace, chosen_steps=None, cache={})
    source = _source_named(plain, name)
    if source is None:
        raise UsageError(f"{name!r} cannot mark the steps of this trace; {_sources_in_words(plain)}")
    if source.found_by == PROFILER_STEP:
        return replace(trace, chosen_steps=None, cache={})
    words = source.words or f"steps are {_RUNS_OF.get(source.found_by, 'runs')} of `{source.name}`"
    chosen = ChosenSteps(
        source.rows, source.end, name, f"{source.way} (chosen)", words, not source.is_certain, source.is_served
    )
    return replace(trace, chosen_steps=chosen, cache={})


def no_steps(trace: Trace) -> str:
    """The sentence in place of steps: the sources that could stand for them, or how to record them."""
    if trace.steps_by == NONE:
        return "Steps are turned off (--steps-by none): --steps-by auto finds them again."
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
        is_nsight = trace.format.startswith("Nsight")
        how = "Push an NVTX range at the start and pop it at the end" if is_nsight else "Call prof.step() at the end"
        return (
            f"This trace has no steps. {how} of each iteration to record them. Looked for: "
            "annotations and functions of inference servers, graphs, kernels and loops that repeat."
        )
    more = f" and {len(names) - MAX_NAMED_SOURCES:,} more" if len(names) > MAX_NAMED_SOURCES else ""
    return f"The profiler recorded no steps. --steps-by can name {', '.join(names[:MAX_NAMED_SOURCES])}{more}."


def steps_sentence(trace: Trace) -> str:
    """A sentence about how the steps were found, and their low coverage; empty for the steps of the profiler."""
    words, covers = steps(trace).words, low_coverage(trace)
    if not words:
        return ""
    if covers:
        words += f"; they launch only {covers}"
    return f"{words[0].upper()}{words[1:]}."


def steps_label(trace: Trace) -> str:
    """The source of the steps in a few words; empty for the steps of the profiler."""
    all_steps = steps(trace)
    if trace.chosen_steps is None and not all_steps.words:
        return ""
    if trace.steps_by:
        return trace.steps_by + (" ~" if all_steps.is_guess else "")
    if all_steps.is_guess:
        return f"~ guessed: {all_steps.found_by.removeprefix('repeating ').removeprefix('op ')}"
    return all_steps.words.removeprefix("steps are ").split(NAMES_NONE)[0].replace("`", "")


def low_coverage(trace: Trace) -> str:
    """The share of the GPU activities that the steps launched, in words, where it is less than half; else empty.

    Low coverage is a sign that something else should count as a step.
    """
    share = coverage(trace) if steps(trace).words else None
    return f"{share:.0f} % of the GPU activities" if share is not None and share < LOW_COVERAGE else ""


def coverage(trace: Trace) -> float | None:
    """Percent of the GPU activities that the steps launched; None without GPU activities."""
    total = len(links(trace).gpu)
    all_steps = steps(trace)
    return 100 * launched_in(trace, all_steps.start, all_steps.end) / total if total else None


def is_graph_recording(trace: Trace) -> bool:
    """True for the recording of CUDA graphs, none of which is replayed."""
    if len(replays(trace)) or len(steps(trace)):
        return False
    calls = trace.slices.of_kind(Kind.RUNTIME)
    calls = calls[is_named(trace, calls, _LAUNCH.search)]
    recorded = int(in_recording(trace, calls).sum())
    return recorded > 0 and 2 * recorded >= len(calls)


def _sources_in_words(trace: Trace) -> str:
    """The sources in a sentence, with runs, share of the GPU activities and median duration."""
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
    sources = step_sources(trace)
    exact = next((each for each in sources if each.name == name), None)
    if exact is not None:
        return exact
    if name in _REPEATING:
        wanted = _REPEATING[name](trace, True)
        return replace(_of_series(trace, wanted[0]), rule="") if wanted else None
    if name.startswith(FRAME):
        function = name.removeprefix(FRAME)
        return next((each for each in sources if each.way.endswith(f": {function}")), None) or _runs_named(
            trace, function, (Kind.PYTHON,)
        )
    known = next((each for each in sources if name and each.rule and each.name.startswith(name)), None)
    source = _runs_named(trace, name) or known or _similar_names(trace, name)
    if source is None or source.rule:
        return source
    # Where all of its names are those of one server's steps, the rule is the one that finds such names.
    names = [step_name(trace.names[number]) for number in distinct(trace.slices.name[source.rows]).tolist()]
    families = {each.family if each else "" for each in names}
    if len(families) != 1 or "" in families:
        return source
    return replace(source, rule=f"annotation {families.pop()}", is_served=True)


def _similar_names(trace: Trace, name: str) -> StepSource | None:
    """Annotations on one thread whose names equal the name but for numbers, or begin with it."""
    rows = trace.slices.of_kind(Kind.ANNOTATION)
    if not name:
        return None
    for alike in (lambda text: skeleton(text) == skeleton(name), lambda text: text.startswith(name)):
        mine = rows[is_named(trace, rows, alike)]
        if len(mine):
            return _runs_on_one_thread(trace, mine, name)
    return None


def _runs_on_one_thread(trace: Trace, rows: Int64, name: str) -> StepSource:
    """The outermost of some slices on the thread that has most of them, under a name."""
    rows = on_busiest_thread(trace.slices, rows)
    rows = rows[outermost(trace.slices, rows)]
    return replace(_source_of_runs(trace, rows), name=name)


def _of_series(trace: Trace, series: StepSeries) -> StepSource:
    return StepSource(
        series.name,
        series.found_by if series.is_guess else series.found_by.split(" ")[0],
        series.rows,
        series.end,
        launched_in(trace, trace.slices.start[series.rows], series.end),
        is_likely=True,
        is_certain=not series.is_guess,
        rule=series.found_by,
        words=series.words,
        is_served=series.is_served,
    )


def _repeated_names(trace: Trace) -> list[StepSource]:
    """Annotations, functions and modules by name, each on the thread on which it runs most often."""
    slices = trace.slices
    rows = slices.of_kind(Kind.ANNOTATION, Kind.PYTHON)
    is_frame = slices.kind[rows] == Kind.PYTHON
    keys = Strings()
    codes = {
        frame: np.array([keys.intern(_source_key(name, frame)) for name in trace.names] or [0], np.int64)
        for frame in (False, True)
    }
    no_source = keys.intern("")
    code = np.where(is_frame, codes[True][slices.name[rows]], codes[False][slices.name[rows]])
    rows, code = rows[code != no_source], code[code != no_source]
    code = code * len(trace.lanes) + slices.lane[rows]
    outer = outermost(trace.slices, rows, code)
    rows, threads = rows[outer], group(code[outer])
    order = np.argsort(threads.member, kind="stable")
    bounds = np.searchsorted(threads.member[order], np.arange(len(threads) + 1))
    best: dict[int, int] = {}
    for index in np.flatnonzero(threads.calls >= MIN_RUNS).tolist():
        name = int(threads.key[index]) // len(trace.lanes)
        if name not in best or threads.calls[index] > threads.calls[best[name]]:
            best[name] = index
    runs = [rows[order[bounds[index] : bounds[index + 1]]] for index in best.values()]
    return _with_distinct_names([_source_of_runs(trace, each) for each in runs])


def _source_key(name: str, is_frame: bool) -> str:
    """A key that the runs of one source share; empty for a name that is never a source."""
    if not is_frame:
        is_known = LIBRARY.search(name) or CAPTURE.match(name) or STEP_NAME.fullmatch(name) or step_name(name)
        return "" if is_known else f"annotation {skeleton(name)}"
    hidden = function_of(name).startswith(_HIDDEN) and not name.startswith(MODULE)
    return "" if hidden or not is_own(name) else f"frame {name}"


def _source_of_runs(trace: Trace, rows: Int64) -> StepSource:
    name = trace.name_of(int(rows[0]))
    if trace.slices.kind[rows[0]] == Kind.ANNOTATION:
        return _source(trace, common_name(trace, rows), "annotation", rows)
    if name.startswith(MODULE):
        return _source(trace, name.removeprefix(MODULE), "module", rows)
    function = function_of(name)
    return _source(trace, function, "function", rows, name.removesuffix(f": {function}"))


def _with_distinct_names(sources: list[StepSource]) -> list[StepSource]:
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


def _graph_sources(trace: Trace) -> list[StepSource]:
    """Graphs that one thread replayed more than once: a step lasts from one launch to the next, the last one as long
    as the others do.
    """
    graph_replays, slices = replays(trace), trace.slices
    sources = []
    for number in np.flatnonzero(np.bincount(graph_replays.graph) >= MIN_RUNS).tolist() if len(graph_replays) else ():
        rows = on_busiest_thread(trace.slices, graph_replays.launch[graph_replays.graph == number])
        if len(rows) < MIN_RUNS:
            continue
        start = slices.start[rows]
        last = max(start[-1] + int(np.median(np.diff(start))), slices.end[rows[-1]])
        end = np.append(start[1:], min(last, trace.window[1]))
        activities = launched_in(trace, start, end)
        sources.append(StepSource(graph_name(number), "graph", rows, end, activities, is_certain=False))
    return sources


def _runs_named(
    trace: Trace, name: str, kinds: tuple[Kind, ...] = (Kind.ANNOTATION, Kind.PYTHON, Kind.CPU_OP)
) -> StepSource | None:
    """The runs of an annotation, else of a function or module, else of an operator of a name, on one thread."""
    for kind in kinds:
        rows = trace.slices.of_kind(kind)
        rows = rows[is_named(trace, rows, lambda text: name in (text, function_of(text), text.removeprefix(MODULE)))]
        if len(rows):
            return _runs_on_one_thread(trace, rows, name)
    return None
