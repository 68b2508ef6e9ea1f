"""`make schemas`: JSON Schema of every document that a command prints, in `docs/schema`, from the declarations.

Documents are declared as `TypedDict` beside their writers; the columns of their rows are those of the tables, which are
built of a trace without events and of small simulated ones. A schema takes no field that is not declared, and where
rows have every column, no row without one.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypedDict, get_type_hints

import msgspec

from tests.support.build import make_trace
from tests.support.checks import uneven, work
from tests.support.memory_snapshots import fragmented, write
from tests.support.paths import ROOT, SAMPLES
from tests.support.rank_files import write_ranks
from tests.support.traces import loaded
from tracetui.checking.namespace import names
from tracetui.cli import attach, recording, settings, variants, workloads, writing
from tracetui.comparing.side import side
from tracetui.comparing.statement import SIDE_NAMES, Comparison, Several
from tracetui.demo import catalogue
from tracetui.drawing.text import (
    check_text,
    comparison_text,
    export,
    rank_text,
    snapshot_text,
    verify_text,
    whatif_text,
)
from tracetui.drawing.text.envelope import SCHEMA_VERSION
from tracetui.model.columns import COLUMNS
from tracetui.model.table import Cell, ColumnSpec, Table
from tracetui.model.trace import Trace
from tracetui.opening.rank_folder import open_rank_set
from tracetui.panes import PANES
from tracetui.ranks.rank_tables import TABLES
from tracetui.reading.load import load
from tracetui.reading.snapshot import load_snapshot
from tracetui.snapshots.history import history_of
from tracetui.snapshots.snapshot_tables import PANES as SNAPSHOT_PANES
from tracetui.snapshots.snapshot_tables import difference, pane_table

FOLDER = ROOT / "docs" / "schema"
Schema = dict[str, Any]
Types = dict[str, set[str]]
"""By the name of a column the types that its cells have, beside null."""


# Documents whose writers make rows by names.


class SettingDocument(TypedDict):
    """A setting in force, and where it stands: a line of the file, `default`, an option or a variable."""

    table: str
    name: str
    value: str | list[str]
    source: str


class ConfigDocument(TypedDict):
    """The settings in force, and what is wrong in the file."""

    file: str | None
    settings: list[SettingDocument]
    problems: list[str]


class SqlColumn(TypedDict):
    """A column of the answer; unit and help are empty where the query computes it."""

    name: str
    unit: str
    help: str


class SqlDocument(TypedDict):
    """The answer of a query; `left_out` is null where not all rows were counted."""

    query: str
    columns: list[SqlColumn]
    rows: list[dict[str, Cell]]
    is_cut: bool
    left_out: int | None


class RunDocument(TypedDict):
    """A run of a series: its trace, when it began, and the commit of the program."""

    file: str
    began: str
    is_time_of_file: bool
    commit: str | None
    is_dirty: bool
    steps: int
    view: str | None


class LevelDocument(TypedDict):
    """Runs between which a measure did not change."""

    first_run: int
    median: float
    noise: float | None


class MovedDocument(TypedDict):
    """A kernel or an operator that changed with a measure."""

    measure: str
    before: float
    after: float


class ShiftDocument(TypedDict):
    """A change of a measure at a run."""

    file: str
    view: str | None
    run: int
    before: float
    after: float
    ratio: float | None
    noise: float | None
    runs_before: int
    runs_since: int
    previous_file: str
    moved: list[MovedDocument]
    sentence: str


class MeasureDocument(TypedDict):
    """A measure over the runs of a series; null in a run that does not hold it."""

    measure: str
    unit: str
    medians: list[float | None]
    levels: list[LevelDocument]
    changes: list[ShiftDocument]
    last_run: str


class SeriesDocument(TypedDict):
    """Runs of one program on one device."""

    title: str
    program: str
    device: str
    stepped: str
    world_size: int
    rank: int
    runs: list[RunDocument]
    measures: list[MeasureDocument]


class HistoryDocument(TypedDict):
    """The traces of a folder as series of runs."""

    folder: str
    series: list[SeriesDocument]
    left_out: list[str]


DOCUMENTS: dict[str, Any] = {
    "attach": attach.AttachedTraces,
    "attach-list": attach.ProcessesDocument,
    "cache": settings.CacheDocument,
    # msgspec knows no union of two objects: `check` below has the other.
    "check": TypedDict(  # type: ignore[operator]
        "CheckDocument",
        get_type_hints(check_text.CheckDocument, include_extras=True) | {"trace": check_text.CheckedSide},
    ),
    "check-names": export.PaneDocument,
    "compare": comparison_text.ComparisonDocument,
    "compare-several": comparison_text.SeveralDocument,
    "compare-snapshots": snapshot_text.SnapshotsDocument,
    "config": ConfigDocument,
    "history": HistoryDocument,
    "ranks": rank_text.RanksDocument,
    "repair": writing.RepairDocument,
    "run": recording.RecordingDocument,
    "run-bench": variants.BenchDocument,
    "run-compare": variants.VariantsDocument,
    "show": export.PaneDocument,
    "snapshot": snapshot_text.SnapshotDocument,
    "sql": SqlDocument,
    "whatif": whatif_text.WhatIfDocument,
    "verify": verify_text.VerifyDocument,
    "workloads": workloads.WorkloadsDocument,
}
"""The declaration of each document by the name of its schema."""

SOMETIMES: dict[tuple[str, str | None], Types] = {
    ("kernels", None): {"annotated_stream": {"number"}, "graph_mark": {"string"}, "original_stream": {"number"}},
    ("roofline", None): {
        name: {"number"} for name in ("compute_model_pct", "dram_model_pct", "dram_pct", "sm_active_pct")
    },
    ("counters", "step"): {"step": {"number"}},
    ("counters", "kernel"): {"calls": {"number"}, "kernel": {"string"}, "measured": {"number"}},
    **{
        ("flame", by): {name: {"number"} for name in ("cpu_us", "own_cpu_us", "gpu_us", "own_gpu_us")}
        for by in (None, "op", "frame")
    },
}
"""Columns that only some traces have, by pane and grouping."""


@cache
def example_traces() -> tuple[Trace, ...]:
    """A trace without events, small ones of a GPU, and one without."""
    with tempfile.TemporaryDirectory() as folder:
        shown = [load(str(catalogue.write(name, Path(folder)))) for name in ("mlp", "combined")]
    return (make_trace([]), uneven(), work(500, 510), *shown, loaded(SAMPLES / "mlp_train_cpu.json.gz"))


def types_of(tables: Iterable[Table]) -> tuple[Types, set[str]]:
    """The types of the columns of tables that stand for one, and the names of those that all of them have."""
    types: Types = {}
    always: set[str] | None = None
    for table in tables:
        for column in table.columns:
            kind = "boolean" if column.values.dtype.kind == "b" else "number"
            types.setdefault(column.name, set()).add("string" if column.is_text else kind)
        found = set(table.column_names)
        always = found if always is None else always & found
    if {"value", "number"} <= types.keys():
        types["value"].add("number")
    return types, always or set()


def table_of(types: Types, always: set[str], more: Schema | None = None) -> Schema:
    """`columns` and `rows` of a table; a row has every column, unless some were chosen."""
    known = sorted(types)
    properties: Schema = {name: {"$ref": f"#/$defs/column.{name}"} for name in known} | (more or {})
    every = {"properties": {"rows": {"items": {"required": sorted(always | (more or {}).keys())}}}}
    return {
        "properties": {
            "columns": {"items": {"properties": {"name": {"enum": known}}}},
            "rows": {"items": {"properties": properties, "additionalProperties": False}},
        },
        "if": {"properties": {"columns": {"minItems": max(len(always), 1)}}},
        "then": every,
    }


def columns_of(all_types: Iterable[Types], specs: dict[str, ColumnSpec]) -> Schema:
    """A definition of each column: its types, unit and meaning."""
    merged: Types = {}
    for types in all_types:
        for name, kinds in types.items():
            merged.setdefault(name, set()).update(kinds)
    return {
        f"column.{name}": {"type": [*sorted(kinds), "null"], "description": specs[name].help}
        | ({"unit": specs[name].unit} if specs[name].unit else {})
        for name, kinds in sorted(merged.items())
    }


def show_parts() -> Iterator[tuple[str, str | None, Types, set[str]]]:
    """Every pane in every grouping, with the types of its columns and those that are always there."""
    for pane in PANES.values():
        for by in (None, *pane.groups):
            types, always = types_of(pane.build(trace, by=by) for trace in example_traces())
            sometimes = SOMETIMES.get((pane.name, by), {})
            for name, kinds in sometimes.items():
                types.setdefault(name, set()).update(kinds)
            yield pane.name, by, types, always - sometimes.keys()


def show() -> Schema:
    """By pane and grouping the columns of the rows."""
    parts = list(show_parts())
    cases = [
        {
            "if": {"properties": {"pane": {"const": pane}, "by": {"const": by}}},
            "then": table_of(types, always),
        }
        for pane, by, types, always in parts
    ]
    return {
        "properties": {"pane": {"enum": list(PANES)}},
        "allOf": cases,
        "$defs": columns_of((types for _, _, types, _ in parts), COLUMNS),
    }


def check_names() -> Schema:
    """The names that expressions can use."""
    tables = [names(side(trace)) for trace in example_traces()[1:]]
    types, always = types_of(tables)
    specs = {column.name: column.spec for table in tables for column in table.columns}
    return {
        "properties": {"pane": {"const": "names"}, "by": {"type": "null"}},
        "allOf": [table_of(types, always)],
        "$defs": columns_of([types], specs),
    }


def check() -> Schema:
    """What is checked is the folder of a set of ranks, where it is no trace."""
    folder = closed(msgspec.json.schema(check_text.FolderFacts))
    return {"either": {"trace": folder["$defs"]["FolderFacts"]}}


def ranks() -> Schema:
    """By table the columns of the rows; rows of ranks have lists as `causes` and `late_steps`."""
    with tempfile.TemporaryDirectory() as folder:
        opened = open_rank_set([str(write_ranks(Path(folder) / "run", world=5))])
        found = {name: [make(opened)] for name, make in TABLES.items()}
    lists: Schema = {
        "causes": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"cause": {"type": "string"}, "us": {"type": "number"}},
                "required": ["cause", "us"],
                "additionalProperties": False,
            },
        },
        "late_steps": {"type": "array", "items": {"type": "integer"}},
    }
    parts = {name: types_of(tables) for name, tables in found.items()}
    return {
        "properties": {"show": {"enum": list(TABLES)}},
        "allOf": [
            {
                "if": {"properties": {"show": {"const": name}}},
                "then": table_of(types, always, lists if name == "ranks" else None),
            }
            for name, (types, always) in parts.items()
        ],
        "$defs": columns_of((types for types, _ in parts.values()), COLUMNS),
    }


def compare() -> Schema:
    """The tables of a comparison."""
    *_, a, b = example_traces()[:3]
    compared = Comparison(side(a), side(b))
    parts = {name: types_of([getattr(compared, name)]) for name in comparison_text.TABLES}
    return {
        "allOf": [{"properties": {name: table_of(*part) for name, part in parts.items()}}],
        "$defs": columns_of((types for types, _ in parts.values()), COLUMNS),
    }


def compare_several() -> Schema:
    """The table of measures, which has four columns for each side after the first."""
    shown = Several(tuple(map(side, example_traces()[1:4]))).totals
    types, _ = types_of([shown])
    others = {f"{mark.lower()}" for mark in SIDE_NAMES[1:]}
    endings = {"": "number", "_ratio": "number", "_change": "string", "_remark": "string"}
    own = {name: kinds for name, kinds in types.items() if name.partition("_")[0] not in others}
    sides = {f"{mark}{ending}": {"type": [kind, "null"]} for mark in sorted(others) for ending, kind in endings.items()}
    properties = {name: {"$ref": f"#/$defs/column.{name}"} for name in sorted(own)} | sides
    rows = {"items": {"properties": properties, "required": sorted(own), "additionalProperties": False}}
    return {
        "allOf": [{"properties": {"totals": {"properties": {"rows": rows}}}}],
        "$defs": columns_of([own], COLUMNS),
    }


def snapshot_tables() -> dict[str, Table]:
    """The panes of an example, each of which has all of its columns, and its comparison with itself."""
    with tempfile.TemporaryDirectory() as folder:
        read = load_snapshot(write(Path(folder) / "snapshot.pickle", fragmented().snapshot()))
    history = history_of(read, 0)
    return {name: pane_table(history, name) for name in SNAPSHOT_PANES} | {"compare": difference(history, history)}


def snapshot() -> Schema:
    """By pane the columns of the rows."""
    tables = snapshot_tables()
    parts = {name: types_of([tables[name]]) for name in SNAPSHOT_PANES}
    specs = {column.name: column.spec for each in tables.values() for column in each.columns}
    return {
        "properties": {"pane": {"enum": list(SNAPSHOT_PANES)}},
        "allOf": [
            {"if": {"properties": {"pane": {"const": name}}}, "then": table_of(types, always)}
            for name, (types, always) in parts.items()
        ],
        "$defs": columns_of((types for types, _ in parts.values()), specs),
    }


def compare_snapshots() -> Schema:
    """The holders of two peaks."""
    table = snapshot_tables()["compare"]
    types, always = types_of([table])
    specs = {column.name: column.spec for column in table.columns}
    return {"allOf": [table_of(types, always)], "$defs": columns_of([types], specs)}


MORE = {
    "check": check,
    "show": show,
    "check-names": check_names,
    "ranks": ranks,
    "compare": compare,
    "compare-several": compare_several,
    "compare-snapshots": compare_snapshots,
    "snapshot": snapshot,
}
"""What is known of the rows of a document."""


def closed(node: Any) -> Any:
    """A schema whose objects take no fields but those that they declare."""
    if isinstance(node, list):
        return [closed(each) for each in node]
    if not isinstance(node, dict):
        return node
    made = {key: closed(value) for key, value in node.items() if not (key == "title" and isinstance(value, str))}
    if node.get("type") == "object" and isinstance(node.get("properties"), dict):
        made.setdefault("additionalProperties", False)
    return made


def schema_of(name: str) -> Schema:
    """The schema of a document: its declaration, what stands around it, and its rows."""
    declared = closed(msgspec.json.schema(DOCUMENTS[name]))
    definitions = declared["$defs"]
    body = definitions.pop(declared["$ref"].rpartition("/")[2])
    around = {
        "schema": {"const": f"tracetui/{name}/{SCHEMA_VERSION}"},
        "tool": {
            "type": "object",
            "properties": {"name": {"const": "tracetui"}, "version": {"type": "string"}},
            "required": ["name", "version"],
            "additionalProperties": False,
        },
        "units": {"type": "object", "additionalProperties": {"type": "string"}},
    }
    more = MORE[name]() if name in MORE else {}
    definitions |= more.get("$defs", {})
    special = {
        key: {"allOf": [value, more["properties"][key]]} if key in more.get("properties", {}) else value
        for key, value in body["properties"].items()
    }
    for key, value in more.get("either", {}).items():
        special[key] = {"anyOf": [special[key], value]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"tracetui/{name}/{SCHEMA_VERSION}",
        "description": body.get("description", ""),
        "type": "object",
        "properties": around | special,
        "required": [*around, *body["required"]],
        "additionalProperties": False,
        **({"allOf": more["allOf"]} if "allOf" in more else {}),
        **({"$defs": definitions} if definitions else {}),
    }


def text_of(schema: Schema) -> str:
    """A schema as its file has it."""
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def digest_of(schema: Schema) -> str:
    """Eight hexadecimal digits of what a schema takes, whatever is said of it in words."""

    def bare(node: Any) -> Any:
        if isinstance(node, dict):
            # A column may be called `description`, but its value is no text then.
            return {
                key: bare(value)
                for key, value in sorted(node.items())
                if not (key in ("description", "unit") and isinstance(value, str))
            }
        return [bare(each) for each in node] if isinstance(node, list) else node

    return hashlib.sha256(json.dumps(bare(schema)).encode()).hexdigest()[:8]


def main() -> None:
    """Write every schema, and print its digest as CHANGELOG.md has it."""
    for path in FOLDER.glob("*.json"):
        path.unlink()
    for name in sorted(DOCUMENTS):
        schema = schema_of(name)
        (FOLDER / f"{name}.json").write_text(text_of(schema), encoding="utf-8")
        print(f"`{name}` {digest_of(schema)}")


if __name__ == "__main__":
    main()
