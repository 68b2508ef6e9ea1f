"""Series of steps that a trace without `ProfilerStep` shows: by the names of annotations, functions and operators, or
by the iterations of a loop.

In order of preference: the annotations of inference servers, calls of known functions of theirs, the outermost module
within a generation loop, and on a CPU the look-ups of the largest embedding (R3.75). `steps` takes the first of them;
`--steps-by` can name each.

In a trace that names no steps, optimizers step, a module or operators repeat (R3.98). Each iteration lasts until the
next begins. They are taken for steps where three and more are alike, in the operators of all threads, and hold most of
the work of the trace; otherwise nothing is. Layers repeat too: what only repeats within one forward pass is no step,
nor is the recording of a graph.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import numpy as np

from tracetui.frozen import frozen
from tracetui.linking.autograd import BACKWARD
from tracetui.linking.frames import MODULE, function_of
from tracetui.linking.groups import group
from tracetui.linking.links import links, named_steps, op_rows
from tracetui.linking.replays import in_capture
from tracetui.linking.step_names import CAPTURE, FAMILIES
from tracetui.linking.trees import Axis, is_named, lane_numbers
from tracetui.model.intervals import Bool, Int64
from tracetui.model.results import kept
from tracetui.model.trace import Kind, Slices, Trace

MIN_LOOKUPS = 3
"""Minimum look-ups of an embedding that are taken for steps."""
MAX_COVERAGE_DIFFERENCE = 0.02
"""Maximum difference in coverage, as a share, of nested series that are taken as covering the same work."""

_FRAMES = (
    r"vllm\w*/(\S*/)?worker/\w*worker\w*\.py\(\d+\): execute_model",
    r"vllm\w*/(\S*/)?worker/\S*model_runner\w*\.py\(\d+\): execute_model",
    r"sglang/srt/model_executor/model_runner\.py\(\d+\): forward",
    r"sglang/srt/managers/scheduler\.py\(\d+\): run_batch",
    r"tensorrt_llm/_torch/pyexecutor/py_executor\.py\(\d+\): _forward_step",
    r"tensorrt_llm/_torch/pyexecutor/model_engine\.py\(\d+\): forward",
    r"atom/(\S*/)?model_runner\.py\(\d+\): forward",
    r"nanovllm/engine/model_runner\.py\(\d+\): run",
    r"text_generation_server/models/\w+\.py\(\d+\): generate_token",
    r"generate\.py\(\d+\): (decode_one_token|prefill)",
)
"""Functions of which each call is a step, the preferred ones first; line numbers differ by version."""
_LOOP = re.compile(r"(^|[/\\])transformers[/\\]generation[/\\]utils\.py\(\d+\): generate$")
"""The loop of `generate` in transformers."""
_LINE = re.compile(r"\(\d+\)")
_TRAINING = re.compile(rf"{BACKWARD.pattern}|^Optimizer\.(step|zero_grad)|_backward_kernel|_backward$")
"""Names of slices that only training has."""


@frozen
class StepSeries:
    """Steps that were found in one way; the arrays have one entry per step, in order of start."""

    name: str
    """Its name, as `--steps-by` takes it."""
    found_by: str
    """The rule and the name: `annotation step[`, `frame FILE: FUNCTION`, `repeating kernels`, and the like."""
    rows: Int64
    """The slice at which each step starts, on the lane of the step."""
    end: Int64
    """End of each step in ns."""
    words: str
    """Description of the steps, in a sentence without a full stop."""
    is_guess: bool = False
    """True where a step may begin elsewhere."""
    is_served: bool = True
    """True where they are those of an inference server, or found as such."""


def annotated_series(trace: Trace) -> list[StepSeries]:
    """The annotations of servers' steps, one series per family, by preference; not those of graph captures."""
    named, slices = named_steps(trace), trace.slices
    rows = named.row[~in_recording(trace, named.row)]
    family = np.array([named.parsed[name].family for name in slices.name[rows].tolist()], object)
    series = []
    for each in FAMILIES:
        mine = rows[family == each.name]
        mine = mine[outermost(trace.slices, mine)]
        if len(mine):
            words = f"steps are {each.pattern_words} annotations"
            series.append(StepSeries(each.name, f"annotation {each.name}", mine, slices.end[mine], words))
    return series


@kept
def frame_series(trace: Trace) -> list[StepSeries]:
    """Calls of the functions that servers run once per step, and of the model within a generation loop."""
    python = trace.slices.of_kind(Kind.PYTHON)
    series = [each for pattern in _FRAMES if (each := _function_series(trace, python, pattern))]
    return [*series, *_generation_loop_series(trace, python)]


def lookup_series(trace: Trace) -> list[StepSeries]:
    """Steps on a CPU from one look-up of the largest embedding to the next; none in a trace of training."""
    if len(links(trace).gpu) or is_training(trace):
        return []
    slices, rows = trace.slices, op_rows(trace)
    rows = rows[is_named(trace, rows, lambda name: name == "aten::embedding")]
    rows = rows[np.argsort(slices.start[rows], kind="stable")]
    tables = np.array([table or 0 for table, _ in lookups(trace, rows)], np.int64)
    rows = rows[(tables == tables.max(initial=0)) & (tables > 0)]
    rows = on_busiest_thread(trace.slices, rows)
    if len(rows) < MIN_LOOKUPS:
        return []
    end = np.append(slices.start[rows][1:], slices.end[op_rows(trace)].max())
    words = "~ guessed: steps begin where the largest `aten::embedding` is read"
    return [StepSeries("aten::embedding", "op aten::embedding", rows, end, words, is_guess=True)]


def lookups(trace: Trace, rows: Int64) -> Iterator[tuple[int | None, tuple[int, ...] | None]]:
    """The rows of the table and the shape of the index of each `aten::embedding`; None where they were not recorded."""
    dims = trace.op_args.text("Input Dims", trace.slices.event[rows])
    known = {number: _table_and_index(trace.op_args.strings[number]) for number in set(dims.tolist()) if number >= 0}
    return (known.get(number, (None, None)) for number in dims.tolist())


@kept
def is_training(trace: Trace) -> bool:
    """True where some name is that of a backward pass or an optimizer."""
    return any(_TRAINING.search(name) for name in trace.names)


def in_recording(trace: Trace, rows: Int64) -> Bool:
    """Mask of the slices that begin while a graph is captured: their launches do not run."""
    marks = trace.slices.of_kind(Kind.ANNOTATION)
    marks = marks[is_named(trace, marks, CAPTURE.match)]
    slices, process = trace.slices, lane_numbers(trace).process
    mask = in_capture(trace, rows)
    for mark in marks.tolist():
        start = slices.start[rows]
        within = (slices.start[mark] <= start) & (start < slices.end[mark])
        mask |= within & (process[slices.lane[rows]] == process[slices.lane[mark]])
    return mask


def outermost(slices: Slices, rows: Int64, key: Int64 | None = None) -> Int64:
    """Positions of the rows that lie in no other of their thread, or of their key if given; in order of start."""
    if len(rows) == 0:
        return np.empty(0, np.int64)
    lane = slices.lane[rows] if key is None else group(key).member
    axis = Axis.around(slices.start[rows], slices.end[rows])
    start, end = axis.position(lane, slices.start[rows]), axis.position(lane, slices.end[rows])
    order = np.lexsort((-end, start))
    reach = np.maximum.accumulate(end[order])
    outer = np.ones(len(rows), bool)
    outer[1:] = start[order][1:] >= reach[:-1]
    position = order[outer]
    return np.asarray(position[np.argsort(slices.start[rows[position]], kind="stable")], np.int64)


def on_busiest_thread(slices: Slices, rows: Int64) -> Int64:
    """Those of the rows that are on the lane with most of them."""
    if len(rows) == 0:
        return rows
    lanes, calls = np.unique(slices.lane[rows], return_counts=True)
    return np.compress(slices.lane[rows] == lanes[np.argmax(calls)], rows)


def partners(slices: Slices, outer: Int64, inner: Int64) -> Int64:
    """The position in `inner` of the only slice that each outer one encloses on its lane, -1 for none or many.

    Both are in order of start, and those of one lane do not overlap.
    """
    index = np.full(len(outer), -1, np.int64)
    for lane in np.unique(slices.lane[outer]).tolist():
        mine, theirs = np.flatnonzero(slices.lane[outer] == lane), np.flatnonzero(slices.lane[inner] == lane)
        first = np.searchsorted(slices.start[inner[theirs]], slices.start[outer[mine]], side="left")
        last = np.searchsorted(slices.end[inner[theirs]], slices.end[outer[mine]], side="right")
        single = last - first == 1
        index[mine[single]] = theirs[first[single]]
    return index


def _function_series(trace: Trace, python: Int64, pattern: str) -> StepSeries | None:
    wanted = re.compile(rf"(^|[/\\]){pattern}$")
    rows = python[is_named(trace, python, lambda name: wanted.search(name.replace("\\", "/")))]
    rows = rows[~in_recording(trace, rows)]
    rows = rows[outermost(trace.slices, rows)]
    if len(rows) == 0:
        return None
    name = trace.name_of(int(rows[0]))
    called = dict.fromkeys(function_of(trace.names[number]) for number in trace.slices.name[rows].tolist())
    words = f"steps are calls of {' and '.join(f'`{each}`' for each in called)}"
    return StepSeries(name, f"frame {_LINE.sub('', name)}", rows, trace.slices.end[rows], words)


def _generation_loop_series(trace: Trace, python: Int64) -> list[StepSeries]:
    """Calls of the module in which a generation loop spends most time, outside of other modules."""
    slices = trace.slices
    loops = python[is_named(trace, python, _LOOP.search)]
    loops = loops[outermost(trace.slices, loops)]
    if len(loops) == 0:
        return []
    modules = python[is_named(trace, python, lambda name: name.startswith(MODULE))]
    in_loop = np.zeros(len(modules), bool)
    for lane in np.unique(slices.lane[loops]).tolist():
        mine = loops[slices.lane[loops] == lane]
        index = np.searchsorted(slices.start[mine], slices.start[modules], side="right") - 1
        within = (index >= 0) & (slices.start[modules] < slices.end[mine][np.maximum(index, 0)])
        in_loop |= within & (slices.lane[modules] == lane)
    calls = modules[in_loop]
    calls = calls[outermost(trace.slices, calls)]
    if len(calls) == 0:
        return []
    time = np.bincount(slices.name[calls], slices.dur[calls])
    rows = calls[slices.name[calls] == int(time.argmax())]
    name = trace.name_of(int(rows[0]))
    words = f"steps are calls of `{name.removeprefix(MODULE)}` in a generation loop"
    return [StepSeries(name.removeprefix(MODULE), f"module {name}", rows, slices.end[rows], words)]


def _table_and_index(text: str) -> tuple[int | None, tuple[int, ...] | None]:
    try:
        dims = json.loads(text)
        table, index = dims[0], dims[1]
        if len(table) != 2:
            return None, None
        return int(table[0]), tuple(int(each) for each in index)
    except (ValueError, TypeError, IndexError, KeyError):
        return None, None


MIN_ITERATIONS = 3
"""Minimum iterations that are taken for steps."""
MIN_COMMON_SHARE = 0.8
"""Minimum share of the operators that an iteration has in common with the usual one, of the larger of both."""
MIN_COVERED_SHARE = 0.8
"""Minimum share of the time of GPU activities, without a GPU of operators, that the iterations hold together."""
MAX_OPTIMIZERS = 4
"""Maximum calls of optimizers per iteration."""
MAX_PERIODS = 16
"""Maximum periods of operators that are tried."""
MIN_ONCE = 3
"""Minimum names that occur once in the operators of a forward pass: those before and behind its layers."""

_STEP, _ZERO_GRAD = re.compile(r"^Optimizer\.step\b"), re.compile(r"^Optimizer\.zero_grad\b")
_ONCE_PER_PASS = re.compile(
    r"^enumerate\(DataLoader\)#|^(cuda|hip)DeviceSynchronize$|^aten::(embedding|argmax|multinomial)$"
)
"""Names of what an iteration without a backward pass may do, and a layer does not: loading data, waiting, tokens."""


@kept
def loop_series(trace: Trace) -> list[StepSeries]:
    """The iterations of a loop that cover the trace, in one way; none where no such way is sure enough."""
    rows = trace.slices.of_kind(Kind.ANNOTATION, Kind.CPU_OP)
    for pattern in (_STEP, _ZERO_GRAD):
        marks = on_busiest_thread(trace.slices, rows[is_named(trace, rows, pattern.search)])
        if len(marks):
            # Whatever else repeats between two steps of an optimizer are micro-batches or layers.
            return _by_optimizer(trace, marks[outermost(trace.slices, marks)], pattern is _STEP)
    return _by_module(trace) or _by_operators(trace)


def _by_optimizer(trace: Trace, marks: Int64, is_last: bool) -> list[StepSeries]:
    """Iterations that end with a step of an optimizer, or begin where it sets gradients to zero."""
    slices = trace.slices
    name = trace.name_of(int(marks[0]))
    for each in range(1, min(MAX_OPTIMIZERS, len(marks) // MIN_ITERATIONS) + 1):
        rows, end = marks[::each], trace.window[1]
        if is_last:
            ends = slices.end[marks[each - 1 :: each]]
            own = slices.of_kind(Kind.ANNOTATION, Kind.CPU_OP, Kind.RUNTIME)
            own = own[slices.lane[own] == slices.lane[marks[0]]]
            own = own[np.argsort(slices.start[own], kind="stable")]
            rows = own[np.append(0, np.searchsorted(slices.start[own], ends[:-1]))]
            end = int(ends[-1])
        series = _series(trace, "optimizer", rows, end, f"`{name}` repeats")
        if series:
            return series
    return []


def _by_module(trace: Trace) -> list[StepSeries]:
    """Iterations from one forward pass to the next, of the module that takes most time within no other module."""
    python = trace.slices.of_kind(Kind.PYTHON)
    modules = on_busiest_thread(trace.slices, python[is_named(trace, python, lambda name: name.startswith(MODULE))])
    modules = modules[outermost(trace.slices, modules)]
    time = np.bincount(trace.slices.name[modules], trace.slices.dur[modules])
    if len(modules) < MIN_ITERATIONS or time.max() <= 0:
        return []
    rows = modules[trace.slices.name[modules] == int(time.argmax())]
    name = trace.name_of(int(rows[0])).removeprefix(MODULE)
    return _series(trace, "modules", rows, trace.window[1], f"the forward pass of `{name}` repeats")


def _by_operators(trace: Trace) -> list[StepSeries]:
    """Iterations of equal operators, from the first to the last one of the thread that launches a forward pass."""
    slices, rows = trace.slices, op_rows(trace)
    rows = rows[outermost(slices, rows)]
    rows = on_busiest_thread(slices, rows[~is_named(trace, rows, BACKWARD.search)])
    sequence = slices.name[rows].astype(np.int64)
    period = _period(sequence)
    if period is None:
        return []
    starts = rows[::period][: len(rows) // period]
    trains = is_training(trace)
    marked = slices.of_kind(Kind.ANNOTATION, Kind.CPU_OP, Kind.RUNTIME)
    marked = marked[is_named(trace, marked, (BACKWARD if trains else _ONCE_PER_PASS).search)]
    index = np.searchsorted(slices.start[starts], slices.start[marked], side="right") - 1
    is_in_each = len(np.unique(index[index >= 0])) == len(starts)
    if not is_in_each and (trains or not _is_pass(sequence[:period])):
        return []
    what = f"{period:,} operators repeat" if period > 1 else f"`{trace.name_of(int(rows[0]))}` repeats"
    return _series(trace, "operators", starts, trace.window[1], what)


def _period(sequence: Int64) -> int | None:
    """The smallest number of elements after which a sequence repeats, from beginning to end, three times at least."""
    if len(sequence) < MIN_ITERATIONS:
        return None
    names, counts = np.unique(sequence, return_counts=True)
    counts[counts < MIN_ITERATIONS] = len(sequence)
    at = np.flatnonzero(sequence == names[counts.argmin()])
    for period in (at[1:] - at[0])[:MAX_PERIODS].tolist():
        if period * MIN_ITERATIONS <= len(sequence) and (sequence[period:] == sequence[:-period]).all():
            return int(period)
    return None


def _is_pass(sequence: Int64) -> bool:
    """True for the operators of a forward pass: most of them in layers, which repeat, and some around these."""
    _, counts = np.unique(sequence, return_counts=True)
    return bool(counts[counts >= MIN_ITERATIONS].sum() * 2 >= len(sequence) and (counts == 1).sum() >= MIN_ONCE)


def _series(trace: Trace, name: str, rows: Int64, end: int, what: str) -> list[StepSeries]:
    """Iterations from one slice of a thread to the next, without odd ones at the ends, if they cover the trace."""
    slices = trace.slices
    ends = np.append(slices.start[rows][1:], end)
    if in_recording(trace, rows).any() or (ends <= slices.start[rows]).any():
        return []
    alike = np.flatnonzero(_are_alike(trace, rows, ends))
    if len(alike) < MIN_ITERATIONS or alike[-1] - alike[0] + 1 != len(alike):
        return []
    rows, ends = rows[alike], ends[alike]
    if _covered_share(trace, rows, int(ends[-1])) < MIN_COVERED_SHARE:
        return []
    words = f"~ guessed: {what} {len(rows):,} times; a step may begin elsewhere"
    return [StepSeries(name, f"repeating {name}", rows, ends, words, is_guess=True, is_served=False)]


def _are_alike(trace: Trace, rows: Int64, ends: Int64) -> Bool:
    """Mask of the iterations that have most operators in common with the one of median size, on all threads."""
    slices, process = trace.slices, lane_numbers(trace).process
    ops = op_rows(trace)
    ops = ops[process[slices.lane[ops]] == process[slices.lane[rows[0]]]]
    index = np.searchsorted(slices.start[rows], slices.start[ops], side="right") - 1
    inside = (index >= 0) & (slices.start[ops] < ends[index])
    key, counts = np.unique(index[inside] * len(trace.names) + slices.name[ops[inside]], return_counts=True)
    iteration, name = np.divmod(key, len(trace.names))
    size = np.bincount(iteration, counts, len(rows))
    usual = int(np.argsort(size, kind="stable")[len(rows) // 2])
    expected = np.zeros(len(trace.names), np.int64)
    expected[name[iteration == usual]] = counts[iteration == usual]
    common = np.bincount(iteration, np.minimum(counts, expected[name]), len(rows))
    return np.asarray((size > 0) & (common >= MIN_COMMON_SHARE * np.maximum(size, size[usual])), bool)


def _covered_share(trace: Trace, rows: Int64, end: int) -> float:
    """The share of GPU time that was launched in the iterations; without a GPU, of the operators of their thread and of
    backward passes in the time of all operators.
    """
    slices, joined = trace.slices, links(trace)
    low = int(slices.start[rows[0]])
    if len(joined.gpu):
        launch = joined.launch[joined.gpu].astype(np.int64)
        begin, time, own = slices.start[launch], slices.dur[joined.gpu], launch >= 0
    else:
        ops = op_rows(trace)
        ops = ops[outermost(slices, ops, slices.lane[ops].astype(np.int64))]
        begin, time = slices.start[ops], slices.dur[ops]
        own = (slices.lane[ops] == slices.lane[rows[0]]) | is_named(trace, ops, BACKWARD.search)
    inside = own & (low <= begin) & (begin < end)
    return float(time[inside].sum()) / max(int(time.sum()), 1)
