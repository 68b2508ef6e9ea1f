"""The layers pane: a step's kernels folded into the sequence that repeats, head and tail apart (R3.80, R3.81).

A layer here is a position: the n-th repeat of a sequence of kernels within a step. What it is called in the program is
not in its kernels; `layer_modules` has it where frames or a capture tell. Times run from the start of a part to the
start of the next, so that the parts of a step add up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from tracetui.frozen import Parallel, frozen
from tracetui.kernel_names.slice_names import Family, Purpose, families, short_kernel
from tracetui.linking.graph_nodes import graph_nodes
from tracetui.linking.groups import combinations, distinct
from tracetui.linking.links import links, no_gpu
from tracetui.linking.placement import chosen, step_index
from tracetui.linking.step_kinds import KIND_HELP, averaged_steps, step_kinds
from tracetui.linking.step_sources import no_steps
from tracetui.linking.steps import steps
from tracetui.linking.trees import lane_numbers
from tracetui.model import columns as col
from tracetui.model.intervals import Int64, Part, TimeRange, covered_within, union
from tracetui.model.pane import Grouping, Pane
from tracetui.model.quantities import duration, rounded_percent
from tracetui.model.results import kept
from tracetui.model.table import Column, ColumnSpec, Table, micros, numbers, texts
from tracetui.model.trace import Float64, Kind, Trace
from tracetui.tables.repeats import (
    MIN_COVERED_SHARE,
    MIN_REPEATS,
    Repeat,
    common_module,
    common_op,
    layer_modules,
    layer_purposes,
    layers_of_modules,
    repeats,
)

HEAD, LAYER, BETWEEN, TAIL = range(4)
PART_NAMES = ("head", "layer", "between", "tail")
"""Kinds of rows: before the first layer, a layer, between two series of layers, after the last."""
MIN_ODD_RATIO = 1.25
"""Minimum time of an odd layer relative to the median of all layers."""
MAX_NAMED_LAYERS = 3
"""Maximum odd layers named per row."""
MAX_PERIOD = 8
"""Maximum layers after which kinds of layers come again, for these to alternate."""
MIN_ALIKE_SHARE = 0.9
"""Minimum share of the layers that are of the kind most usual at their place in the period, for kinds to alternate."""
MAX_VARIANTS = 4
"""Maximum sequences of one series of layers that are listed kernel by kernel, the most frequent ones."""

MODULE_HELP = "The module around its launches, or around their capture in a graph, where that tells layers apart."
MODULES_HELP = "The module of each layer, with # for its number."

_SHARES = (
    (col.PRODUCTS_PCT, Purpose.GEMM),
    (col.ATTENTION_PCT, Purpose.ATTENTION),
    (col.COMM_PCT, Purpose.COMMUNICATION),
    (col.NORM_PCT, Purpose.NORM),
    (col.REST_PCT, None),
)
"""The purposes of which a layer has a share of the time of its kernels; None for all others together."""

NO_LAYERS = (
    f"No layers were found: no sequence of kernels could be told that repeats {MIN_REPEATS} times or more within a "
    f"step and holds {rounded_percent(100 * MIN_COVERED_SHARE)} of its kernels or of their time."
)
NO_LAYERS_IN_RANGE = "Nothing in this range of time belongs to a step in which layers were found."
ABOUT_LAYERS = "A layer is the n-th repeat of a sequence of kernels within a step"
NO_NAMES = "; its name in the program is not known."


@frozen
class LayerParts(Parallel):
    """Parallel arrays, one entry per part of a step on a device, in order of step, device and time."""

    step: Int64
    """Index in `steps(trace)`."""
    shape: Int64
    """Number of the shape of the step: steps of one kind with as many layers of as many kernels share it."""
    part: Int64
    """`HEAD`, `LAYER`, `BETWEEN` or `TAIL`."""
    series: Int64
    """Number of the series of layers in the step, from 1; of other parts, that of the series behind it."""
    layer: Int64
    """Number of the layer in its series from 1, 0 for what is none."""
    first: Int64
    """Index in `kernels` of its first kernel."""
    count: Int64
    """Number of its kernels."""
    start: Int64
    """Start in ns."""
    end: Int64
    """Start of the next part, or end of the last kernel."""
    busy: Int64
    """Time between the two in which the device ran something."""
    since: Int64
    """Time from the first kernel of its step on its device to its start."""
    kernels: Int64
    """Kernels of the steps as rows of `Trace.slices`, by launch; not one entry per part."""

    @property
    def dur(self) -> Int64:
        """Duration in ns."""
        return self.end - self.start


def layers(trace: Trace, step: Part | None = None, by: str | None = None) -> Table:
    """One row per part of the steps of one shape; by `layer`, `purpose` or `kernel` one per layer, purpose, kernel.

    A range of time holds the parts that lie in it at least in part, as whole ones (R3.58).
    """
    parts = layer_parts(trace)
    if isinstance(step, TimeRange):
        kept = np.flatnonzero(step.touched(parts.start, parts.end))
    else:
        kept = np.flatnonzero(np.isin(parts.step, chosen(trace, step)))
    table = {None: _by_part, "layer": _by_layer, "purpose": _by_purpose, "kernel": _by_kernel}[by](trace, parts, kept)
    modules = (name for rows in _series(parts, kept) for name in _modules(trace, parts, rows).values())
    is_named = any(name is not None for name in modules)
    sentences = [_note(trace, len(kept) > 0, isinstance(step, TimeRange), is_named)]
    compared = [rows for rows in _series(parts, kept) if len(distinct(parts.layer[rows])) > 1] if by is None else []
    if compared and not any(_odd(parts, rows) for rows in compared):
        sentences.append(
            f"No layer is odd: the time of each is within a factor of {MIN_ODD_RATIO:g} of the median of all."
        )
    return Table(table.columns, table.slices, " ".join([*sentences, *_alternations(trace, parts, kept)]))


PANE = Pane(
    "layers",
    "Layers",
    key="L",
    help="One row is a part of a step: what repeats, and what is before and behind it.",
    table=layers,
    columns=(
        "kind part layers kernels steps median_us pct gpu_idle_us gpu_busy_us p95_us max_us odd module runs "
        "variants min_us series from_start_us"
    ),
    groupings=(
        Grouping(
            "layer",
            columns=(
                "layer module kind series median_us to_median gpu_idle_us gpu_busy_us products_pct attention_pct "
                "comm_pct norm_pct rest_pct kernels p95_us max_us min_us steps runs from_start_us"
            ),
        ),
        Grouping("purpose", "purpose median_us pct kernels kind series layers p95_us max_us min_us runs"),
        Grouping("kernel", "index short_name median_us pct op kind variant series family p95_us max_us min_us calls"),
    ),
    has_own_order=True,
    bars="median_us",
    is_in_time_order=False,
    keeps_order=True,
)


@kept
def layer_parts(trace: Trace) -> LayerParts:
    """The parts of all complete steps in whose kernels something repeats."""
    rows, step, device = _ordered_kernels(trace)
    names, kinds = trace.slices.name[rows].astype(np.int64), step_kinds(trace).kind
    key = step * (int(device.max(initial=0)) + 1) + device
    known: dict[bytes, list[Repeat]] = {}
    shapes: dict[tuple[object, ...], int] = {}
    found = []
    for low, high in pairwise(np.flatnonzero(np.diff(key, prepend=-1, append=-1)).tolist()):
        sequence = names[low:high]
        digest = sequence.tobytes()
        if digest not in known:
            by_kernels = repeats(sequence, trace.slices.dur[rows[low:high]])
            known[digest] = layers_of_modules(trace, rows[low:high], by_kernels) or by_kernels
        sections = known[digest]
        if sections:
            index = int(step[low])
            shape = (kinds[index], *((each.count, int(np.median(each.lengths))) for each in sections))
            number = shapes.setdefault(shape, len(shapes))
            found.append(_parts(sections, high - low, low, (index, number, int(device[low]))))
    table = np.concatenate(found, axis=1) if found else np.empty((8, 0), np.int64)
    return _timed(trace, rows, table)


def _note(trace: Trace, any_layers: bool, is_range: bool, is_named: bool) -> str:
    """The reason for no layers, or what a layer is."""
    if len(links(trace).gpu) == 0:
        return no_gpu(trace)
    if len(steps(trace)) == 0:
        return f"Layers are looked for within steps. {no_steps(trace)}"
    if any_layers:
        return ABOUT_LAYERS + ("." if is_named else NO_NAMES)
    return NO_LAYERS_IN_RANGE if is_range and len(layer_parts(trace)) else NO_LAYERS


def _ordered_kernels(trace: Trace) -> tuple[Int64, Int64, Int64]:
    """Kernels of complete steps by step, device and launch, those of one launch by start; their steps and devices."""
    slices, joined = trace.slices, links(trace)
    rows = joined.gpu[(slices.kind[joined.gpu] == Kind.KERNEL) & (joined.launch[joined.gpu] >= 0)]
    step = step_index(trace, rows)
    whole = np.append(averaged_steps(trace), False)
    rows, step = rows[whole[step]], step[whole[step]]
    device = lane_numbers(trace).process[slices.lane[rows]]
    order = np.lexsort((slices.start[rows], slices.start[joined.launch[rows]], device, step))
    return rows[order], step[order], device[order]


def _parts(sections: list[Repeat], length: int, low: int, of: tuple[int, int, int]) -> Int64:
    """Step, shape, device, part, series, layer, first kernel and kernels of the parts of one step, as rows."""
    found: list[tuple[int, int, int, int, int]] = []
    end = 0
    for series, section in enumerate(sections, 1):
        begin = int(section.bounds[0])
        if begin > end:
            found.append((HEAD if end == 0 else BETWEEN, series, 0, end, begin - end))
        for layer, (first, last) in enumerate(pairwise(section.bounds.tolist()), 1):
            found.append((LAYER, series, layer, first, last - first))
        end = int(section.bounds[-1])
    if length > end:
        found.append((TAIL, len(sections) + 1, 0, end, length - end))
    table = np.array(found, np.int64).T
    table[3] += low
    return np.vstack([np.repeat(np.array(of, np.int64)[:, None], len(found), axis=1), table])


def _timed(trace: Trace, rows: Int64, table: Int64) -> LayerParts:
    """The parts with their times: each lasts until the next one of its step and device starts."""
    slices = trace.slices
    step, shape, device, part, series, layer, first, count = table
    if table.shape[1] == 0:
        return LayerParts(step, shape, part, series, layer, first, count, first, first, first, first, rows)
    # Kernels of one part may start before those of an earlier one, on another stream.
    start = np.minimum.reduceat(slices.start[rows], first)
    ended = np.maximum.reduceat(slices.end[rows], first)
    if int(first[-1] + count[-1]) < len(rows):
        mine = rows[first[-1] : first[-1] + count[-1]]
        start[-1], ended[-1] = slices.start[mine].min(), slices.end[mine].max()
    end, since = np.empty_like(start), np.empty_like(start)
    fresh = np.flatnonzero(np.diff(step, prepend=-1) | np.diff(device, prepend=-1))
    for low, high in pairwise([*fresh.tolist(), len(step)]):
        start[low:high] = np.minimum.accumulate(start[low:high][::-1])[::-1]
        end[low : high - 1], end[high - 1] = start[low + 1 : high], ended[low:high].max()
        since[low:high] = start[low:high] - start[low]
    return LayerParts(
        step, shape, part, series, layer, first, count, start, end, _busy(trace, device, start, end), since, rows
    )


def _busy(trace: Trace, device: Int64, start: Int64, end: Int64) -> Int64:
    """Time in ns of each window in which its device ran something."""
    slices, gpu = trace.slices, links(trace).gpu
    process = lane_numbers(trace).process[slices.lane[gpu]]
    busy = np.zeros(len(start), np.int64)
    for number in distinct(device).tolist():
        mine, windows = gpu[process == number], device == number
        busy[windows] = covered_within(*union(slices.start[mine], slices.end[mine]), start[windows], end[windows])
    return busy


@frozen
class _Samples:
    """Parts in groups, in the order of the groups' first members."""

    rows: list[Int64]
    """Indices of the parts of each group."""

    @classmethod
    def of(cls, kept: Int64, *keys: Int64) -> _Samples:
        """The kept parts with equal keys; `keys` have one entry per kept part."""
        if len(kept) == 0:
            return cls([])
        together = combinations(*keys)
        order = np.argsort(together.member, kind="stable")
        bounds = np.searchsorted(together.member[order], np.arange(len(together) + 1))
        groups = [kept[order[low:high]] for low, high in pairwise(bounds.tolist())]
        return cls(groups)

    def median(self, values: Int64) -> Float64:
        """The median of the values of each group."""
        return np.array([np.median(values[rows]) for rows in self.rows], np.float64)

    def first(self, values: Int64) -> list[int]:
        """The value of the first member of each group."""
        return [int(values[rows[0]]) for rows in self.rows]


def _series(parts: LayerParts, kept: Int64) -> list[Int64]:
    """The layers among some parts, by shape of the step and series."""
    kept = kept[parts.part[kept] == LAYER]
    return _Samples.of(kept, parts.shape[kept], parts.series[kept]).rows


def _by_part(trace: Trace, parts: LayerParts, kept: Int64) -> Table:
    """Head, layers and tail of each shape of step, in the order of a step."""
    groups = _Samples.of(kept, *(each[kept] for each in (parts.shape, parts.series, parts.part == LAYER, parts.part)))
    part, dur = groups.first(parts.part), parts.dur
    is_layer = np.array(part, np.int64) == LAYER
    names = [PART_NAMES[each] for each in part]
    number = [int(parts.layer[rows].max()) for rows in groups.rows]
    sums = np.array([dur[rows].sum() for rows in groups.rows], np.float64)
    shape = np.array(groups.first(parts.shape), np.int64)
    whole = np.bincount(shape, sums)[shape] if len(shape) else sums
    modules = [
        common_module(_modules(trace, parts, rows).values()) if each else None
        for rows, each in zip(groups.rows, is_layer, strict=True)
    ]
    return Table(
        (
            _kind(trace, parts, groups),
            texts(col.PART, names),
            numbers(col.SERIES, groups.first(parts.series)),
            numbers(col.LAYERS, np.where(is_layer, np.array(number, np.float64), np.nan)),
            _named(trace, col.MODULE.but(help=MODULES_HELP), modules),
            *_counts(parts, groups),
            *_times(parts, groups),
            numbers(
                col.PCT.but(help="Share of the time of these steps, from first kernel to last."), 100 * sums / whole
            ),
            numbers(
                col.VARIANTS,
                [
                    float(len(_sequences(trace, parts, rows))) if each else np.nan
                    for rows, each in zip(groups.rows, is_layer, strict=True)
                ],
            ),
            texts(
                col.ODD, [_odd(parts, rows) if each else None for rows, each in zip(groups.rows, is_layer, strict=True)]
            ),
        ),
        _longest(parts, groups),
    )


def _by_layer(trace: Trace, parts: LayerParts, kept: Int64) -> Table:
    """Every layer by its number, over all steps of a shape."""
    kept = kept[parts.part[kept] == LAYER]
    groups = _Samples.of(kept, *(each[kept] for each in (parts.shape, parts.series, parts.layer)))
    median = groups.median(parts.dur)
    key = np.array([groups.first(parts.shape), groups.first(parts.series)], np.int64)
    usual = np.ones(len(median))
    modules: list[str | None] = [None] * len(median)
    series = combinations(*key) if len(median) else None
    for number in range(len(series) if series else 0):
        members = np.flatnonzero(series.member == number) if series else np.empty(0, np.int64)
        together = np.concatenate([groups.rows[each] for each in members.tolist()])
        usual[members] = np.median(parts.dur[together])
        named = _modules(trace, parts, together)
        for member in members.tolist():
            modules[member] = named[int(parts.layer[groups.rows[member][0]])]
    return Table(
        (
            numbers(col.LAYER, groups.first(parts.layer)),
            _named(trace, col.MODULE.but(help=MODULE_HELP), modules),
            _kind(trace, parts, groups),
            numbers(col.SERIES, groups.first(parts.series)),
            *_counts(parts, groups),
            *_times(parts, groups),
            *_shares(_purpose_work(trace, parts), groups),
            numbers(col.TO_MEDIAN, np.where(usual > 0, median / np.maximum(usual, 1), np.nan)),
        ),
        _longest(parts, groups),
    )


def _by_purpose(trace: Trace, parts: LayerParts, kept: Int64) -> Table:
    """The purposes of the kernels of a layer, the largest first, over all layers and steps of a shape."""
    work = _purpose_work(trace, parts)
    cells = [
        (rows, index, work.time[rows, index])
        for rows in _series(parts, kept)
        for index in np.argsort(-work.time[rows].sum(axis=0), kind="stable").tolist()
        if work.kernels[rows, index].any()
    ]
    groups = _Samples([rows for rows, _, _ in cells])
    dur = [time for _, _, time in cells]
    # A layer may lack kernels of a purpose that others have: the row leads to the one that spends most time on it.
    most = [(int(rows[np.argmax(time)]), index) for rows, index, time in cells]
    return Table(
        (
            _marked(
                texts(col.PURPOSE, [work.names[index] for _, index, _ in cells]),
                [index in work.guessed for _, index, _ in cells],
            ),
            _kind(trace, parts, groups),
            numbers(col.SERIES, groups.first(parts.series)),
            numbers(col.LAYERS, [int(parts.layer[rows].max()) for rows in groups.rows]),
            numbers(
                col.KERNELS.but(help="Kernels for it in a layer, at the median."),
                [int(np.percentile(work.kernels[rows, i], 50, method="inverted_cdf")) for rows, i, _ in cells],
            ),
            numbers(col.RUNS.but(help="Layers that it is over, of all steps together."), [len(each) for each in dur]),
            *_percentiles(
                [
                    (col.MEDIAN_US.but(help="Median sum of the durations of its kernels in a layer."), 50),
                    (col.P95_US, 95),
                    (col.MIN_US, 0),
                    (col.MAX_US, 100),
                ],
                dur,
            ),
            numbers(
                col.PCT.but(help="Share of the time of all kernels of these layers."),
                [100 * float(time.sum()) / max(float(work.time[rows].sum()), 1.0) for rows, _, time in cells],
            ),
        ),
        np.array([work.longest(trace, parts, part, index) for part, index in most], np.int64),
    )


@frozen
class _PurposeWork:
    """Kernels of each part by their purpose: arrays of parts by purposes."""

    names: list[str]
    """The purposes that occur."""
    of_kernel: Int64
    """Index in `names` of each entry of `LayerParts.kernels`."""
    kernels: Int64
    """Number of kernels."""
    time: Int64
    """Sum of their durations in ns."""
    guessed: list[int]
    """Indices in `names` of those that the capture of a graph tells of some kernel."""

    def longest(self, trace: Trace, parts: LayerParts, part: int, index: int) -> int:
        """The longest kernel of a purpose in a part that has one."""
        low = int(parts.first[part])
        mine = low + np.flatnonzero(self.of_kernel[low : low + int(parts.count[part])] == index)
        rows = parts.kernels[mine]
        return int(rows[np.argmax(trace.slices.dur[rows])])


def _purpose_work(trace: Trace, parts: LayerParts) -> _PurposeWork:
    """The kernels of all parts by purpose."""
    ids, names, inferred = layer_purposes(trace, parts.kernels)
    used, of_kernel = np.unique(ids, return_inverse=True)
    shape = (len(parts), len(used))
    kernels, time = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    dur = trace.slices.dur[parts.kernels]
    for index, (low, count) in enumerate(zip(parts.first.tolist(), parts.count.tolist(), strict=True)):
        np.add.at(kernels[index], of_kernel[low : low + count], 1)
        np.add.at(time[index], of_kernel[low : low + count], dur[low : low + count])
    guessed = distinct(of_kernel[inferred]).tolist()
    return _PurposeWork([names[number] for number in used.tolist()], of_kernel, kernels, time, guessed)


def _shares(work: _PurposeWork, groups: _Samples) -> list[Column]:
    """Share of the time of the kernels of each group that is for a purpose."""
    time = np.zeros((len(groups.rows), len(work.names)))
    for index, rows in enumerate(groups.rows):
        time[index] = work.time[rows].sum(axis=0)
    whole = np.maximum(time.sum(axis=1), 1)
    named = [purpose for _, purpose in _SHARES]
    columns = np.array([named.index(each if each in named else None) for each in map(Purpose, work.names)], np.int64)
    guessed = {*columns[work.guessed].tolist(), *([named.index(None)] if work.guessed else [])}
    return [
        _marked(
            numbers(
                spec.but(help=f"Share of the time of its kernels: {purpose or 'all others'}."),
                100 * time[:, columns == index].sum(axis=1) / whole,
            ),
            [index in guessed] * len(whole),
        )
        for index, (spec, purpose) in enumerate(_SHARES)
    ]


def _marked(column: Column, doubtful: list[bool]) -> Column:
    """A column of which some rows rest on the capture of a graph."""
    return replace(column, doubtful=np.array(doubtful)) if any(doubtful) else column


def _by_kernel(trace: Trace, parts: LayerParts, kept: Int64) -> Table:
    """Every kernel of a layer by its position, over all layers and steps of a shape that run the same sequence."""
    rows: list[Int64] = []
    labels: list[tuple[int, int, int, int, float]] = []
    for members in _series(parts, kept):
        for variant, same in enumerate(_sequences(trace, parts, members)[:MAX_VARIANTS], 1):
            length = int(parts.count[same[0]])
            whole = float(parts.dur[same].sum())
            grid = parts.kernels[parts.first[same][:, None] + np.arange(length)]
            for position in range(length):
                rows.append(grid[:, position])
                labels.append((int(same[0]), variant, position + 1, len(same), whole))
    slices = trace.slices
    dur = [slices.dur[each].astype(np.float64) for each in rows]
    example = np.array([each[np.argmax(slices.dur[each])] for each in rows], np.int64)
    part = np.array([label[0] for label in labels], np.int64)
    kinds, family = step_kinds(trace).kind, families(trace, example)
    return Table(
        (
            numbers(col.INDEX.but(help="Position in the layer."), [label[2] for label in labels]),
            texts(col.KIND.but(help=KIND_HELP), [kinds[index] for index in parts.step[part].tolist()]),
            numbers(col.SERIES, parts.series[part]),
            numbers(col.VARIANT, [label[1] for label in labels]),
            texts(col.SHORT_NAME, [short_kernel(trace.name_of(row)) for row in example.tolist()]),
            texts(col.FAMILY, [Family(each).name.lower() for each in family.tolist()]),
            _named(
                trace,
                col.OP.but(help="The operator that launched it in all of these layers."),
                [common_op(trace, each) for each in rows],
            ),
            numbers(col.CALLS.but(help="Layers that ran it, of all steps."), [label[3] for label in labels]),
            *_percentiles([(col.MEDIAN_US, 50), (col.P95_US, 95), (col.MIN_US, 0), (col.MAX_US, 100)], dur),
            numbers(
                col.PCT.but(help="Share of the time of these layers."),
                [100 * float(each.sum()) / max(label[4], 1.0) for each, label in zip(dur, labels, strict=True)],
            ),
            texts(col.KERNEL_NAME, [trace.name_of(row) for row in example.tolist()]),
        ),
        example,
    )


def _modules(trace: Trace, parts: LayerParts, members: Int64) -> dict[int, str | None]:
    """The module of each layer of one series, by its number."""
    layers = distinct(parts.layer[members]).tolist()
    kernels = [
        np.concatenate(
            [
                parts.kernels[parts.first[each] : parts.first[each] + parts.count[each]]
                for each in members[parts.layer[members] == layer].tolist()
            ]
        )
        for layer in layers
    ]
    return dict(zip(layers, layer_modules(trace, kernels), strict=True))


def _named(trace: Trace, spec: ColumnSpec, names: Sequence[str | None]) -> Column:
    """A column of names of the program, marked where the capture of a graph may tell them."""
    column = texts(spec, names)
    return replace(column, doubtful=~column.nulls()) if len(graph_nodes(trace)) else column


def _sequences(trace: Trace, parts: LayerParts, members: Int64) -> list[Int64]:
    """Layers that ran the same kernels in the same order, the most frequent first."""
    found: dict[bytes, list[int]] = {}
    name = trace.slices.name[parts.kernels]
    for index in members.tolist():
        low = int(parts.first[index])
        found.setdefault(name[low : low + int(parts.count[index])].tobytes(), []).append(index)
    return sorted((np.array(each, np.int64) for each in found.values()), key=len, reverse=True)


def _alternations(trace: Trace, parts: LayerParts, kept: Int64) -> Iterator[str]:
    """A sentence on each series whose layers are of two kinds and more in turn (R3.81)."""
    kept = kept[parts.part[kept] == LAYER]
    for rows in _series(parts, kept):
        sequences = _sequences(trace, parts, rows)
        layers = distinct(parts.layer[rows])
        kind = np.full(int(layers[-1]) + 1, -1, np.int64)
        for number, same in reversed(list(enumerate(sequences))):
            kind[parts.layer[same]] = number
        period = _period(kind[layers])
        # Kinds of which there is one layer, as the first one often is, do not come again.
        kinds = [each for each in range(len(sequences)) if (kind[layers] == each).sum() > 1] if period else []
        if len(kinds) < 2:
            continue
        words = []
        for each in kinds[:MAX_NAMED_LAYERS]:
            mine, same = layers[kind[layers] == each].tolist(), rows[kind[parts.layer[rows]] == each]
            some = f"{', '.join(map(str, mine[:MAX_NAMED_LAYERS]))}{' …' if len(mine) > MAX_NAMED_LAYERS else ''}"
            words.append(
                f"{some} of {int(parts.count[same[0]])} kernels, {duration(float(np.median(parts.dur[same])))}"
            )
        of = f" of series {int(parts.series[rows[0]])}" if int(parts.series[kept].max()) > 1 else ""
        kind_of_step = step_kinds(trace).kind[int(parts.step[rows[0]])]
        of += f" of a {kind_of_step}" if kind_of_step and len(distinct(parts.shape[kept])) > 1 else ""
        yield f"The layers{of} alternate in kind: {'; '.join(words)}. Times of odd ones are by the median of all."


def _period(kinds: Int64) -> int:
    """Layers after which kinds of layers come again; 0 where all are of one kind, or nothing comes again."""
    for period in range(1, min(MAX_PERIOD, len(kinds) // MIN_REPEATS) + 1):
        places = [np.bincount(kinds[place::period]) for place in range(period)]
        if sum(int(each.max()) for each in places) >= MIN_ALIKE_SHARE * len(kinds):
            return period if len({int(each.argmax()) for each in places}) > 1 else 0
    return 0


def _kind(trace: Trace, parts: LayerParts, groups: _Samples) -> Column:
    kinds = step_kinds(trace).kind
    return texts(col.KIND.but(help=KIND_HELP), [kinds[index] for index in groups.first(parts.step)])


def _counts(parts: LayerParts, groups: _Samples) -> tuple[Column, ...]:
    """Kernels of a part, and the steps and parts that the row is made of."""
    return (
        numbers(
            col.KERNELS.but(help="Kernels in it, at the median."),
            [int(np.percentile(parts.count[rows], 50, method="inverted_cdf")) for rows in groups.rows],
        ),
        numbers(col.STEPS, [len(distinct(parts.step[rows])) for rows in groups.rows]),
        numbers(col.RUNS.but(help="How often it ran, in all steps together."), [len(rows) for rows in groups.rows]),
    )


def _times(parts: LayerParts, groups: _Samples) -> tuple[Column, ...]:
    dur = [parts.dur[rows] for rows in groups.rows]
    # Of each group its first layer, or what is none.
    first = _Samples([rows[parts.layer[rows] == parts.layer[rows].min()] for rows in groups.rows])
    specs = [
        (col.MEDIAN_US.but(help="Median time from its start to the start of what follows it."), 50),
        (col.P95_US, 95),
        (col.MIN_US, 0),
        (col.MAX_US, 100),
    ]
    return (
        *_percentiles(specs, dur),
        micros(col.GPU_BUSY_US.but(help="Median time in which the device ran something."), groups.median(parts.busy)),
        micros(
            col.GPU_IDLE_US.but(help="Median time in which it ran nothing."),
            groups.median(np.asarray(parts.dur - parts.busy)),
        ),
        micros(col.FROM_START_US, first.median(parts.since)),
    )


def _percentiles(specs: list[tuple[ColumnSpec, int]], samples: Sequence[Int64 | Float64]) -> list[Column]:
    return [
        micros(spec, np.array([np.percentile(each, percent) for each in samples], np.float64))
        for spec, percent in specs
    ]


def _longest(parts: LayerParts, groups: _Samples) -> Int64:
    """The first kernel of the longest part of each group."""
    longest = np.array([rows[np.argmax(parts.dur[rows])] for rows in groups.rows], np.int64)
    return parts.kernels[parts.first[longest]] if len(longest) else longest


def _odd(parts: LayerParts, rows: Int64) -> str | None:
    """The layers of a series that take far longer or shorter than the others, by number, the oddest first."""
    usual = float(np.median(parts.dur[rows]))
    found = []
    for layer in distinct(parts.layer[rows]).tolist():
        ratio = float(np.median(parts.dur[rows[parts.layer[rows] == layer]])) / max(usual, 1.0)
        if ratio >= MIN_ODD_RATIO or ratio <= 1 / MIN_ODD_RATIO:
            found.append((max(ratio, 1 / max(ratio, 1e-9)), layer, ratio))
    found.sort(key=lambda each: (-each[0], each[1]))
    more = f" and {len(found) - MAX_NAMED_LAYERS} more" if len(found) > MAX_NAMED_LAYERS else ""
    return ", ".join(f"{layer} ({ratio:.2g}×)" for _, layer, ratio in found[:MAX_NAMED_LAYERS]) + more or None
