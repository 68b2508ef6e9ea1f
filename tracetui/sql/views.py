"""The views of a trace: every pane, and beside them slices, links, samples of counters, and args.

A view is a table whose columns are lent to duckdb: numbers are read where they are, texts through their ids.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tracetui.errors import Unanswerable
from tracetui.linking.autograd import autograd
from tracetui.linking.chains import graph_dependencies
from tracetui.linking.links import links
from tracetui.linking.placement import step_column
from tracetui.linking.trees import lane_numbers
from tracetui.model import columns as col
from tracetui.model.intervals import Int64
from tracetui.model.results import kept
from tracetui.model.table import NULL, Column, ColumnSpec, Strings, Table, TextKind, coded, numbers
from tracetui.model.trace import Kind, Trace
from tracetui.panes import PANE_FILES, PANES

EVENT = col.EVENT.but(help="Number of the event in the file; `--at e1234` opens the app there.")
ARGS = "args"
"""The view that is of the keys which a query names."""
MAX_ARGS = 10_000_000
"""Maximum number of events, times keys, that are looked up for the view of args."""
SAMPLED = 400
"""Events that are looked at for the keys that there are: some of every name, up to so many."""


def build_view(trace: Trace, name: str, keys: Sequence[str] = ()) -> Table:
    """The table behind a view, of the whole trace; its columns of int64 in us hold nanoseconds.

    `keys` are those of `args`. Raises: AnalysisFailed, Unanswerable.
    """
    if name == ARGS:
        return args_table(trace, keys)
    if name in _RAW:
        return _RAW[name](trace)
    table = PANES[name].build(trace)
    if table.slices is None or EVENT.name in table or len(trace.slices) == 0:
        return table
    return replace(table, columns=(*table.columns, _events(trace, EVENT, table.slices)))


def _events(trace: Trace, spec: ColumnSpec, rows: np.ndarray[Any, Any]) -> Column:
    if len(trace.slices) == 0:
        return numbers(spec, np.empty(0, np.int64))
    return numbers(spec, np.where(rows >= 0, trace.slices.event[rows].astype(np.int64), NULL))


# Tables that are no panes.


def slices_table(trace: Trace) -> Table:
    """Every slice, by lane and start."""
    slices, lanes, all_rows = trace.slices, trace.lanes, np.arange(len(trace.slices))
    kinds, lane = lane_numbers(trace), slices.lane
    return Table(
        (
            Column(EVENT, slices.event),
            Column(col.NAME, slices.name, trace.names),
            Column(col.CATEGORY, slices.category, trace.categories),
            Column(col.KIND, slices.kind, [kind.name.lower() for kind in Kind]),
            Column(col.START_US, slices.start),
            Column(col.DUR_US, slices.dur),
            Column(col.SELF_US, slices.self_time),
            step_column(trace, all_rows, "Number of the step."),
            _text_column("process", "Name of the process or device.", lane, [each.process for each in lanes]),
            _text_column("thread", "Name of the thread or stream.", lane, [each.name for each in lanes]),
            numbers(col.DEVICE, kinds.device[lane]),
            numbers(col.STREAM, kinds.stream[lane]),
            Column(col.DEPTH.but(help="Slices around it on its lane."), slices.depth),
            _events(trace, col.PARENT_EVENT, slices.parent),
            Column(col.CORRELATION, slices.correlation),
            Column(col.EXTERNAL_ID, slices.external),
        ),
        all_rows,
    )


def _text_column(name: str, help: str, ids: np.ndarray[Any, Any], strings: Sequence[str]) -> Column:
    return Column(ColumnSpec(name, name, help, text=TextKind.NAME), ids, strings)


def links_table(trace: Trace) -> Table:
    """Causes: the launch of an activity, the op and the annotation of a launch or an activity, the forward op of a
    backward one, and the nodes of graphs that a node waited for."""
    all_links, waited = links(trace), graph_dependencies(trace)
    of_rows = {"launch": all_links.launch, "op": all_links.owner, "annotation": all_links.annotation}
    pairs: dict[str, tuple[Int64, Int64]] = {}
    for kind, causes in (of_rows | {"forward": autograd(trace).forward}).items():
        rows = np.flatnonzero(causes >= 0)
        pairs[kind] = rows, causes[rows].astype(np.int64)
    pairs["dependency"] = waited.after, waited.before
    effects = np.concatenate([effect for effect, _ in pairs.values()])
    causes_of = np.concatenate([cause for _, cause in pairs.values()])
    kinds = np.repeat(np.arange(len(pairs)), [len(effect) for effect, _ in pairs.values()])
    link = coded(col.LINK, kinds, list(pairs))
    return Table((_events(trace, EVENT, effects), link, _events(trace, col.CAUSE_EVENT, causes_of)), effects)


def samples_table(trace: Trace) -> Table:
    """Every sample of every counter."""
    counters = trace.counters
    lengths = [len(counter.time) for counter in counters]
    of = np.repeat(np.arange(len(counters)), lengths)
    none = np.empty(0, np.int64)
    events = [each.event if len(each.event) else np.full(len(each.time), NULL) for each in counters]
    return Table(
        (
            numbers(EVENT, np.concatenate([none, *events])),
            _text_column("counter", "Name of the counter.", of, [each.name for each in counters]),
            _text_column("series", "Its series, where it has several.", of, [each.series for each in counters]),
            _text_column("process", "Name of the process.", of, [each.process for each in counters]),
            Column(col.TIME_US, np.concatenate([none, *(each.time for each in counters)])),
            numbers(col.SAMPLE, np.concatenate([none.astype(float), *(each.value for each in counters)])),
            _text_column("unit", "Unit of the sample.", of, [each.unit for each in counters]),
        )
    )


@kept
def keys_of_args(trace: Trace) -> list[str]:
    """The keys in the args of some events of every name, sorted."""
    _, first = np.unique(trace.slices.name, return_index=True)
    spread = np.linspace(0, len(first) - 1, min(len(first), SAMPLED)).astype(int)
    found: set[str] = set()
    for event in trace.slices.event[first[spread]].tolist():
        args = trace.store.event(event).get("args")
        found.update(map(str, args) if isinstance(args, dict) else ())
    return sorted(found)


def args_table(trace: Trace, keys: Sequence[str]) -> Table:
    """The values of some keys in the args of all slices, as text, without those that lack the key.

    Raises: Unanswerable for too many.
    """
    events = np.sort(trace.slices.event).astype(np.int64)
    if len(events) * len(keys) > MAX_ARGS:
        raise Unanswerable(
            f"The args of {len(events):,} events under {len(keys)} keys are too many: "
            "name the keys that you want, as in `where key = 'grid'`."
        )
    strings, found = Strings(), [np.empty((0, 3), np.int64)]
    for number, values in enumerate(trace.store.args(events, keys) if len(keys) else []):
        ids = np.array([-1 if each is None else strings.intern(_text(each)) for each in values], np.int64)
        mine = np.flatnonzero(ids >= 0)
        found.append(np.stack([events[mine], np.full(len(mine), number), ids[mine]], axis=1))
    event, key, value = np.concatenate(found).T
    named = replace(col.VALUE, help="As text; lists as JSON.", text=TextKind.NAME)
    return Table(
        (numbers(EVENT, event), _text_column("key", "As recorded.", key, list(keys)), Column(named, value, strings))
    )


def _text(value: object) -> str:
    # It is loaded already: every JSON file is read with it.
    import orjson

    return value if isinstance(value, str) else orjson.dumps(value, default=str).decode()


_RAW: dict[str, Callable[[Trace], Table]] = {
    "slices": slices_table,
    "links": links_table,
    "samples": samples_table,
}
VIEWS = {
    "slices": "One row is a slice of any lane.",
    "links": "One row is an event and one that caused it.",
    "samples": "One row is a sample of a counter.",
    ARGS: "One row is a key in the args of an event; a query names the keys: where key = 'grid'.",
    **dict.fromkeys(PANE_FILES, ""),
}
"""The names of all views, with a sentence on those that are no panes."""


# Lending.


def lend(connection: Any, name: str, table: Table) -> str:
    """Lend the columns of a table to a connection, under names that begin with `name`; returns the SELECT of a view."""
    lent: dict[str, Any] = {}
    selected: dict[str, str] = {}
    lists: dict[int, Sequence[str]] = {}
    for index, column in enumerate(table.columns):
        # Of two columns of one name the first is meant.
        if column.name in selected:
            continue
        lent[f"c{index}"] = column.values
        selected[column.name] = f"c{index}"
        if column.strings is not None:
            lists[id(column.strings)] = column.strings
            # A list in one row: a join with a table of texts would not keep the order of the rows.
            selected[column.name] = f'(select t{id(column.strings)} from "{name}_texts")[c{index}::integer + 1]'
        elif column.values.dtype.kind == "i":
            whole = f"nullif(c{index}, {NULL})" if column.nulls().any() else f"c{index}"
            selected[column.name] = f"{whole} / 1e3" if column.unit == "us" else whole
    connection.register(name, lent)
    _lend_texts(connection, f"{name}_texts", lists)
    columns = ", ".join(f'{expression} as "{column}"' for column, expression in selected.items())
    return f'select {columns} from "{name}"'


def _lend_texts(connection: Any, name: str, lists: Mapping[int, Sequence[str]]) -> None:
    """Make a table of one row, with a column for each list of texts."""
    for number, strings in lists.items():
        valid = [text if text.isascii() else text.encode("utf-8", "replace").decode() for text in strings]
        # With one text more, which nothing refers to, an empty list is one of texts too.
        connection.register(f"_texts{number}", {"t": np.array([*valid, ""], object)})
    if lists:
        columns = ", ".join(f"(select list(t::varchar) from _texts{number}) as t{number}" for number in lists)
        connection.execute(f'create or replace table "{name}" as select {columns}')
    for number in lists:
        connection.unregister(f"_texts{number}")
