"""Series of steps that the names of annotations, functions and operators show in a trace without `ProfilerStep`.

In order of preference: the annotations of inference servers, calls of known functions of theirs, the outermost module
within a generation loop, and on a CPU the look-ups of the largest embedding (R3.75). `steps` takes the first of them;
`--steps-by` can name each.
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
