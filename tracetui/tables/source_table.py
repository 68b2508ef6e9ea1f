"""The source pane: the user's own files, line by line, with the time of the GPU and the CPU that each line costs.

Without recorded lines a row is a function, with the line of its `def`. The sum over all rows is the step: a row without
a file has what has no line. Text is shown only of files that are as they were when they were recorded, by their digest;
so that a trace cannot have any other file read.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracetui.errors import UsageError, nearest
from tracetui.files import is_url
from tracetui.frozen import frozen
from tracetui.idle.waits import idleness
from tracetui.linking.frames import function_of
from tracetui.linking.lines import function_lines, has_lines, has_records, line_ids, pieces, place_of, recorded_lines
from tracetui.linking.links import links
from tracetui.linking.placement import chosen, ops_within, step_at, time_within, within
from tracetui.linking.steps import steps
from tracetui.memory.allocator import allocation_causes, allocator
from tracetui.model import columns as col
from tracetui.model.intervals import Bool, Int64, Part, TimeRange, union
from tracetui.model.pane import Pane
from tracetui.model.results import kept
from tracetui.model.table import NULL, Column, ColumnSpec, Table, micros, numbers, texts
from tracetui.model.trace import Kind, Trace

NO_LINES = "There are no lines and no Python frames in this trace"
BY_FUNCTION = "By function: this trace does not say which line ran (`tracetui run --lines` records it)."
BY_COMPILED = "By line for kernels of compiled code, whose lines Inductor recorded; by function for all else."
NO_PLACE = "(no line)"
"""Stands for the file of what no line caused."""
MAX_SOURCE_BYTES = 4 << 20
"""Files beyond this size are not read."""
MAX_LINES = 100_000
"""Lines of a file beyond which no text is shown."""


@frozen
class _Places:
    """Files and numbers of lines, and the place of every slice."""

    file: tuple[str, ...]
    number: Int64
    name: tuple[str, ...]
    """The text of the line, or of the function."""
    is_line: Bool
    """Mask of the places that are lines."""
    place: Int64
    """Index of the place of every slice, the last one for none."""
    is_backward: Bool


NOWHERE = _Places(("",), np.array([NULL]), ("",), np.zeros(1, bool), np.empty(0, np.int64), np.empty(0, bool))
"""The places of a trace that has none."""


def source(trace: Trace, step: Part | None = None, by: str | None = None) -> Table:
    """Every line between the first and the last that ran, of the files with most time first; numbers of a line that
    did not run are null.
    """
    if not PANE.is_offered(trace):
        one, two = np.zeros(1), np.zeros((2, 1))
        return _table(trace, NOWHERE, _Sums(two, two, one, one, one, one, np.array([-1])), False)
    places = _places(trace)
    count = len(places.number)
    on_gpu, on_cpu, idle = np.zeros((2, count)), np.zeros((2, count)), np.zeros(count)
    kernels, operators = np.zeros(count), np.zeros(count)
    first = np.full(count, -1, np.int64)
    gpu, ops = within(trace, links(trace).gpu, step), ops_within(trace, step)
    if len(trace.slices):
        place, side = places.place, places.is_backward.astype(np.int64)
        np.add.at(on_gpu, (side[gpu], place[gpu]), time_within(trace, gpu, step))
        np.add.at(kernels, place[gpu], 1)
        np.add.at(operators, place[ops], 1)
        for lane, low, high in _windows(trace, step):
            cut = pieces(trace, lane, low, high)
            none = cut.row < 0
            where, half = np.where(none, count - 1, place[cut.row]), np.where(none, 0, side[cut.row])
            np.add.at(on_cpu, (half, where), cut.end - cut.start)
        gaps = idleness(trace)
        after = np.isin(gaps.after, within(trace, gaps.after, step))
        length = gaps.end - gaps.start
        if isinstance(step, TimeRange):
            length, after = step.covered(gaps.start, gaps.end), step.touched(gaps.start, gaps.end)
        np.add.at(idle, place[gaps.after[after]], length[after])
        rows = np.concatenate([gpu, ops])
        some = rows[np.argsort(trace.slices.start[rows], kind="stable")][::-1]
        first[place[some]] = some
    allocated, has_memory = _allocated(trace, places, step)
    return _table(trace, places, _Sums(on_gpu, on_cpu, idle, kernels, operators, allocated, first), has_memory)


PANE = Pane(
    "source",
    "Source",
    key="s",
    help="One row is a line of your own source, or a function where the trace has no lines.",
    table=source,
    columns=(
        "line_number text function share_pct forward_gpu_us backward_gpu_us forward_cpu_us backward_cpu_us kernels "
        "cpu_ops idle_us allocated file"
    ),
    bars="forward_gpu_us forward_cpu_us",
    is_in_time_order=False,
    keeps_order=True,
    is_offered=lambda trace: has_lines(trace) or len(trace.slices.of_kind(Kind.PYTHON)) > 0,
)


def of_file(table: Table, file: str) -> Table:
    """The rows of a file, by its name or the end of it.

    Raises: UsageError for a file of which nothing ran.
    """
    names = list(table["file"].strings or ())
    wanted = [number for number, name in enumerate(names) if name == file or name.endswith(f"/{file}")]
    if not wanted:
        offer = nearest(file, names, "Leave the file out to see all.")
        raise UsageError(f"Nothing of {file} ran here. {offer}")
    return table.take(np.flatnonzero(np.isin(table["file"].values, wanted)))


def index_of_line(trace: Trace, table: Table, order: Int64, row: int) -> int:
    """The index in `order` of the row for the line of a slice, -1 for none."""
    places = _places(trace)
    place = int(places.place[row])
    name, column = places.name[place], table["line" if places.is_line[place] else "function"]
    strings = list(column.strings or ())
    here = np.flatnonzero(column.values[order] == strings.index(name)) if name in strings else np.empty(0, np.int64)
    return int(here[0]) if len(here) else -1


@kept
def _places(trace: Trace) -> _Places:
    """The places of a trace by file and number, those without either last."""
    if len(trace.slices) == 0:
        return NOWHERE
    ids, texts = line_ids(trace)
    known = [(*place_of(text), text, True) for text in texts]
    lines = recorded_lines(trace)
    if not has_records(trace):
        # Lines of compiled kernels; what else ran is of its function.
        lines = function_lines(trace)
        names, function = np.unique(trace.slices.name[lines.record], return_inverse=True)
        ids = np.where((ids < 0) & (lines.record >= 0), len(known) + function, ids)
        known += [(*_place_of_function(trace.names[number]), False) for number in names.tolist()]
    order = sorted(range(len(known)), key=lambda index: known[index])
    rank = np.empty(len(known) + 1, np.int64)
    rank[order] = np.arange(len(known))
    rank[len(known)] = len(known)
    known = [known[index] for index in order]
    return _Places(
        (*(file for file, *_ in known), ""),
        np.array([*(line for _, line, *_ in known), NULL], np.int64),
        (*(text for *_, text, _ in known), ""),
        np.array([*(is_line for *_, is_line in known), has_records(trace)], np.bool_),
        rank[ids],
        lines.is_backward,
    )


def _place_of_function(name: str) -> tuple[str, int, str]:
    """File, line of the `def` and name of a Python frame."""
    file, _, rest = name.removesuffix(f": {function_of(name)}").rpartition("(")
    line = rest.removesuffix(")")
    return (file, int(line), name) if line.isdecimal() and len(line) < 10 else (name, 0, name)


def _windows(trace: Trace, step: Part | None) -> list[tuple[int, Int64, Int64]]:
    """The threads whose time counts, each with the stretches of it: those of the steps, or of the range."""
    slices = trace.slices
    if len(steps(trace)) and not isinstance(step, TimeRange):
        every, picked = steps(trace), chosen(trace, step)
        lanes = every.lane[picked]
        return [
            (lane, *union(every.start[picked[lanes == lane]], every.end[picked[lanes == lane]]))
            for lane in np.unique(lanes).tolist()
        ]
    marked = slices.of_kind(Kind.LINE) if has_records(trace) else slices.of_kind(Kind.PYTHON)
    windows = []
    for lane in np.unique(slices.lane[marked]).tolist():
        rows = marked[slices.lane[marked] == lane]
        low, high = int(slices.start[rows].min()), int(slices.end[rows].max())
        if isinstance(step, TimeRange):
            low, high = max(low, step.start), min(high, step.end)
        if high > low:
            windows.append((lane, np.array([low], np.int64), np.array([high], np.int64)))
    return windows


def _allocated(trace: Trace, places: _Places, step: Part | None) -> tuple[NDArray[np.float64], bool]:
    """Bytes allocated by place, and true where allocations were recorded."""
    result, events = np.zeros(len(places.number)), allocator(trace)
    taken = (events.bytes > 0) & ~events.failed
    if isinstance(step, TimeRange):
        taken &= step.touched(events.time, events.time)
    elif step is not None:
        taken &= np.isin(step_at(trace, events.time, events.lane), chosen(trace, step))
    made_by = allocation_causes(trace).made_by[taken]
    place = np.where(made_by >= 0, places.place[made_by], len(result) - 1) if len(places.place) else made_by
    np.add.at(result, place, events.bytes[taken])
    return result, len(events) > 0


@frozen
class _Sums:
    """Costs by place; a row of two is the forward and the backward pass."""

    gpu: NDArray[np.float64]
    cpu: NDArray[np.float64]
    idle: NDArray[np.float64]
    kernels: NDArray[np.float64]
    ops: NDArray[np.float64]
    allocated: NDArray[np.float64]
    first: Int64
    """The first GPU activity or operator, -1 for none."""

    @property
    def time(self) -> NDArray[np.float64]:
        """Time on the GPU, on the CPU where there is none."""
        total: NDArray[np.float64] = (self.gpu if self.gpu.any() else self.cpu).sum(axis=0)
        return total

    @property
    def ran(self) -> Bool:
        """Mask of the places of which something ran."""
        counted = self.gpu.sum(axis=0) + self.cpu.sum(axis=0) + self.idle + self.kernels + self.ops + self.allocated
        return np.asarray(counted > 0, np.bool_)


def _table(trace: Trace, places: _Places, sums: _Sums, has_memory: bool) -> Table:
    ran, time = sums.ran, sums.time
    spent: dict[str, float] = {}
    for number in np.flatnonzero(ran).tolist():
        file = places.file[number]
        # What has no file comes last.
        spent[file] = spent.get(file, 0.0) + float(time[number]) if number < len(ran) - 1 else -1.0
    rows: list[tuple[str, int, int, str | None]] = []
    changed: list[str] = []
    for file in sorted(spent, key=lambda name: -spent[name]):
        mine = [index for index, each in enumerate(places.file) if each == file]
        is_lines = bool(file) and bool(places.is_line[mine].all())
        lines = source_lines(trace, file) if is_lines else None
        if lines is None:
            rows += [(file, int(places.number[index]), index, None) for index in mine if ran[index]]
            changed += [file] if is_lines else []
            continue
        # A kernel that was fused from several lines has a row of its own at the first.
        at: dict[int, list[int]] = {}
        for one in mine:
            if ran[one]:
                at.setdefault(int(places.number[one]), []).append(one)
        rows += [
            (file, number, one, lines[number - 1] if number <= len(lines) else None)
            for number in range(min(at), max(at) + 1)
            for one in at.get(number, [-1])
        ]
    index = np.array([each[2] for each in rows], np.int64)
    known: Bool = np.where(index >= 0, ran[index], False).astype(np.bool_)
    null: Bool = ~known
    unknown: Bool = np.ones(len(index), np.bool_)

    def counts(column: ColumnSpec, values: NDArray[np.float64], absent: Bool = null) -> Column:
        return numbers(column, np.where(absent, NULL, values[index]).astype(np.int64))

    names = [(places.name[each] or None) if each >= 0 else None for each in index.tolist()]
    by_line = places.is_line[index]
    has_gpu = len(links(trace).gpu) > 0
    no_gpu = null if has_gpu else unknown
    return Table(
        (
            numbers(col.LINE_NUMBER, np.array([number or NULL for _, number, _, _ in rows], np.int64)),
            texts(col.TEXT, [text for *_, text in rows]),
            texts(col.FUNCTION, [None if line else name for line, name in zip(by_line, names, strict=True)]),
            numbers(
                col.SHARE_PCT.but(help="Share of the GPU time, without a GPU of the time of the steps."),
                np.where(null, np.nan, 100 * time[index] / max(float(time.sum()), 1.0)),
            ),
            *(
                micros(column, side[index], null=absent)
                for column, side, absent in (
                    (col.FORWARD_GPU_US.but(help="GPU time of what it launched, forward."), sums.gpu[0], no_gpu),
                    (col.BACKWARD_GPU_US.but(help="GPU time of its backward pass."), sums.gpu[1], no_gpu),
                    (col.FORWARD_CPU_US, sums.cpu[0], null),
                    (col.BACKWARD_CPU_US, sums.cpu[1], null),
                )
            ),
            counts(col.KERNELS, sums.kernels, no_gpu),
            counts(col.CPU_OPS.but(help="Operators that it called, those of its backward pass included."), sums.ops),
            micros(col.IDLE_US.but(help="Gaps of the GPU that ended with its work."), sums.idle[index], null=no_gpu),
            counts(
                col.ALLOCATED.but(help="Bytes that it allocated."),
                sums.allocated,
                null if has_memory else unknown,
            ),
            texts(col.FILE.but(help="The file of the line."), [file or NO_PLACE for file, *_ in rows]),
            texts(col.LINE, [name if line else None for line, name in zip(by_line, names, strict=True)]),
        ),
        np.where(known, sums.first[index], -1),
        _note(trace, changed),
    )


def _note(trace: Trace, changed: list[str]) -> str:
    if not has_records(trace):
        if has_lines(trace):
            return BY_COMPILED
        if PANE.is_offered(trace):
            return BY_FUNCTION
        way = "record with `tracetui run FILE.py:FUNCTION --lines`, or `tracetui.record(..., lines=True)`"
        return f"{NO_LINES}: {trace.to_record(way)}."
    words = []
    cost = _recorded(trace).get("cost_pct")
    if isinstance(cost, int | float) and not isinstance(cost, bool):
        words.append(f"Recording the lines took about {cost:.1f} % of the steps.")
    if changed:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        words.append(f"Without text: {changed[0]}{more}, which changed since the recording or cannot be read here.")
    return " ".join(words)


def _recorded(trace: Trace) -> Mapping[str, Any]:
    """The metadata of the recording about its lines, empty for none."""
    lines = trace.own_metadata.get("lines")
    return lines if isinstance(lines, dict) else {}


def source_lines(trace: Trace, file: str) -> list[str] | None:
    """The text of a file as it was recorded, from where it was or beside the trace; None where it is not there."""
    files = _recorded(trace).get("files")
    entry = files.get(file) if isinstance(files, dict) else None
    if not isinstance(entry, dict):
        return None
    folders = ["", *([os.path.dirname(os.path.abspath(trace.path))] if trace.path and not is_url(trace.path) else [])]
    recorded_at = entry.get("path")
    tried = [*([recorded_at] if isinstance(recorded_at, str) else []), *(os.path.join(each, file) for each in folders)]
    for path in tried:
        text = _text_of(path, entry.get("sha256"))
        if text is not None:
            return text
    return None


def _text_of(path: str, digest: object) -> list[str] | None:
    """The lines of a file with a digest; None for any other file."""
    try:
        # Of a pipe or a device nothing is read.
        if not os.path.isfile(path) or os.path.getsize(path) > MAX_SOURCE_BYTES:
            return None
        with open(path, "rb") as file:
            content = file.read(MAX_SOURCE_BYTES)
    except (OSError, ValueError):
        return None
    if hashlib.sha256(content).hexdigest() != digest:
        return None
    # Only line feeds end the lines of Python.
    text = content.decode("utf-8", errors="replace").replace("\r\n", "\n").replace("\r", "\n")
    lines = [line.expandtabs(4) for line in text.split("\n")]
    return lines if len(lines) <= MAX_LINES else None
