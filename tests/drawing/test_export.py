"""A table as JSON, CSV, Markdown and columns."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from tests.support.build import kernel, make_trace, op
from tracetui.drawing.text.export import parts, render, rich_table, versions
from tracetui.model import columns as col
from tracetui.model.table import NULL, Table, micros, missing, numbers, texts
from tracetui.model.trace import Device

TABLE = Table(
    (
        numbers("index", [1, 2], help="Place in the step."),
        texts(col.KERNEL_NAME, ["void gemm<float>(int)", "a|b\x1b[31m"]),
        micros("dur_us", np.array([48_900, 1_203_400]), "How long it ran."),
        micros("gap_us", np.array([1, 0]), null=np.array([False, True])),
        numbers("correlation", np.array([7, NULL])),
        missing("tflops", 2, "", "Needs the sizes of the operands."),
    ),
    note="Two kernels.",
)


@pytest.fixture
def trace():
    return make_trace(
        [op("aten::mm", 0, 1_000_000), kernel("gemm", 2000, 500)],
        devices=[Device(0, "NVIDIA H100"), Device(1, "NVIDIA H100")],
        metadata={"cuda_runtime_version": 13000, "tracetui": {"torch": "2.13.0"}},
    )


@pytest.mark.parametrize("form", ["json", "csv", "md", "table"])
@pytest.mark.parametrize("rows", [1, 2, 3, 7])
def test_parts_of_a_long_list_are_the_whole(trace, monkeypatch, form, rows):
    monkeypatch.setattr("tracetui.drawing.text.export.PART_ROWS", rows)
    table = replace(TABLE.take(np.array([0, 1, 1, 0, 1])), headline='Said: "rows":[] of `x`.')
    pieces = list(parts(table, trace, "kernels", form))
    assert "".join(pieces) == render(table, trace, "kernels", form)
    assert len(pieces) > 1 or form in ("md", "table") or rows >= len(table)


def test_json_is_one_object_with_nulls(trace):
    document = json.loads(render(TABLE, trace, "kernels", "json"))
    assert document["pane"] == "kernels"
    assert document["trace"]["file"] == "made.json"
    assert document["trace"]["devices"] == ["NVIDIA H100", "NVIDIA H100"]
    assert document["trace"]["versions"] == {"CUDA": "13.0", "PyTorch": "2.13.0"}
    assert document["columns"][2] == {
        "name": "dur_us",
        "heading": "dur_us",
        "unit": "us",
        "help": "How long it ran.",
    }
    assert document["rows"][0] == {
        "index": 1,
        "name": "void gemm<float>(int)",
        "dur_us": 48.9,
        "gap_us": 0.001,
        "correlation": 7,
        "tflops": None,
    }
    assert document["rows"][1]["gap_us"] is None
    assert document["rows"][1]["correlation"] is None
    assert document["note"] == "Two kernels."


def test_floats_have_three_decimals(trace):
    table = Table((numbers("share_pct", [100 / 3, np.inf], "%"),))
    rows = json.loads(render(table, trace, "ops", "json"))["rows"]
    assert rows == [{"share_pct": 33.333}, {"share_pct": None}]


@pytest.mark.parametrize("name", ["=1+1", "+1", "-2+3", "@SUM(A1)", '=HYPERLINK("http://x","y")'])
def test_a_text_in_csv_is_no_formula_and_a_number_stays_one(trace, name):
    table = Table((texts("name", [name, "a=b"], ""), numbers("difference", [-1.5, 2.0], "us", "")))
    rows = list(csv.reader(io.StringIO(render(table, trace, "kernels", "csv"))))
    assert rows[1:] == [[f"'{name}", "-1.5"], ["a=b", "2.0"]]
    assert name in render(table, trace, "kernels", "json").replace("\\", "")


def test_csv_has_the_same_header_and_nothing_for_null(trace):
    rows = list(csv.DictReader(io.StringIO(render(TABLE, trace, "kernels", "csv"))))
    assert list(rows[0]) == TABLE.column_names
    assert rows[0]["dur_us"] == "48.9"
    assert rows[1]["gap_us"] == ""
    assert rows[1]["tflops"] == ""


@pytest.mark.parametrize("form", ["json", "csv", "md", "table"])
def test_an_empty_table_is_printed(trace, form):
    empty = Table((numbers("index", np.empty(0, np.int64)), texts("name", [])), note="Nothing ran on a GPU.")
    text = render(empty, trace, "kernels", form)
    assert ("No rows." if form in ("table", "md") else "index") in text
    assert form == "csv" or "Nothing ran on a GPU." in text


@pytest.mark.parametrize("form", ["table", "md"])
def test_a_headline_stands_above_the_rows(trace, form):
    lines = render(replace(TABLE, headline="Two\x1b kernels\nof_no @weight."), trace, "kernels", form).splitlines()
    index = next(number for number, line in enumerate(lines) if "Two" in line)
    assert index < next(number for number, line in enumerate(lines) if "index" in line)
    assert "\x1b" not in lines[index] and lines[index].endswith("weight.")
    assert not any("Two kernels of" in line for line in render(TABLE, trace, "kernels", form).splitlines())


def test_json_has_the_headline_where_there_is_one(trace):
    document = json.loads(render(replace(TABLE, headline="Two kernels."), trace, "kernels", "json"))
    assert document["headline"] == "Two kernels."
    assert "headline" not in json.loads(render(TABLE, trace, "kernels", "json"))


def test_an_empty_table_has_its_headline_too(trace):
    empty = Table((numbers("index", np.empty(0, np.int64)),), headline="Nothing to save.")
    assert render(empty, trace, "findings", "table") == "No rows. Nothing to save.\n"
    assert "Nothing to save." in render(empty, trace, "findings", "md")


def test_markdown_says_where_it_comes_from_and_escapes(trace):
    lines = render(TABLE, trace, "ops", "md").splitlines()
    assert lines[0].startswith("**ops** of `made.json` · NVIDIA H100 x2 · CUDA 13.0 · PyTorch 2.13.0")
    assert lines[2] == "| index | recorded name | dur_us | gap_us | correlation |"
    assert lines[3] == "| ---: | --- | ---: | ---: | ---: |"
    assert lines[4] == "| 1 | `gemm<f32>` | 48.9 µs | 1 ns | 7 |"
    assert lines[5] == "| 2 | `a\\|b�` | 1.20 ms | – | – |"
    assert "Without a value in these rows: tflops." in lines


def test_plain_columns_are_aligned(trace):
    lines = render(TABLE, trace, "kernels", "table").splitlines()
    assert lines[0].split() == ["index", "recorded", "name", "dur_us", "gap_us", "correlation"]
    assert lines[1].index(" 48.9 µs") + len(" 48.9 µs") == lines[2].index("1.20 ms") + len("1.20 ms")


def test_kernel_names_are_short_for_the_eye(trace):
    assert "gemm<f32>" in render(TABLE, trace, "kernels", "table")
    assert "void gemm<float>(int)" in render(TABLE, trace, "kernels", "json")


def test_a_short_name_replaces_the_name_for_the_eye(trace):
    table = Table((texts(col.KERNEL_NAME, ["void f<int>()"]), texts(col.SHORT_NAME, ["f<i32>"])))
    assert "void" not in render(table, trace, "kernels", "table")
    assert "void" in render(table, trace, "kernels", "json")


def printed(trace, width):
    stream = io.StringIO()
    Console(width=width, file=stream, force_terminal=False).print(rich_table(TABLE, trace, "kernels", width))
    output = stream.getvalue()
    assert max(map(len, output.splitlines())) <= width
    return output


def test_a_wide_terminal_shows_all(trace):
    output = printed(trace, 100)
    assert "correlation" in output and "1.20 ms" in output
    assert "Not shown" not in output


def test_a_narrow_terminal_drops_columns_and_says_so(trace):
    output = printed(trace, 44)
    assert "Not shown for want of width: correlation." in output
    assert "dur_us" in output
    assert printed(trace, 44) == output


def headings(trace, pane, by, table, width):
    """The line above the rows, on a terminal of a width."""
    stream = io.StringIO()
    Console(width=width, file=stream).print(rich_table(table, trace, pane, width, by))
    return stream.getvalue().splitlines()[1].split()


def column(spec, value=12_345.0):
    return micros(spec, np.full(2, value * 1000)) if spec.unit == "us" else numbers(spec, np.full(2, int(value)))


def test_a_narrow_terminal_has_the_columns_that_are_read_first(trace):
    table = Table(
        (texts(col.KIND, ["decode"] * 2), *map(column, (col.STEPS, col.P95_US, col.P99_US, col.GPU_BUSY_US)))
        + (column(col.MEDIAN_US), column(col.GPU_PERIOD_US))
    )
    # Batches have another order than kinds of steps, by whose order the period comes first.
    assert headings(trace, "serving", "batch", table, 40) == ["kind", "steps", "p95", "median"]
    assert headings(trace, "serving", None, table, 40) == ["kind", "steps", "median", "period"]


def test_of_steps_what_is_zero_in_all_goes_before_the_kind(trace):
    table = Table(
        (numbers(col.STEP, [1, 2]), column(col.KERNELS, 0), column(col.DUR_US), column(col.LAUNCHES, 0))
        + (texts(col.KIND, ["prefill", "decode"]),)
    )
    assert headings(trace, "steps", None, table, 27) == ["step", "duration", "kind"]


def test_layers_of_different_steps_are_told_apart_on_a_narrow_terminal(trace):
    names = (col.P95_US, col.MAX_US, col.MEDIAN_US, col.STEPS, col.RUNS)
    table = Table((texts(col.KIND, ["decode"] * 2), texts(col.PART, ["head"] * 2), *map(column, names)))
    assert headings(trace, "layers", None, table, 32) == ["kind", "part", "median", "steps"]


def test_markup_in_a_name_stays_text(trace):
    table = Table((texts("name", ["[bold]x[/bold] [/]"]),))
    stream = io.StringIO()
    Console(width=80, file=stream).print(rich_table(table, trace, "ops", 80))
    assert "[bold]x[/bold] [/]" in stream.getvalue()


@pytest.mark.parametrize(
    ("key", "number", "expected"),
    [
        ("cuda_runtime_version", 12040, {"CUDA": "12.4"}),
        ("cuda_driver_version", 12090, {"CUDA driver": "12.9"}),
        ("hip_runtime_version", 60443483, {"HIP": "6.4"}),
        ("cuda_runtime_version", "odd", {}),
    ],
)
def test_versions(key, number, expected):
    assert versions(make_trace([op("a", 0, 1)], metadata={key: number})) == expected
