"""The ops pane against torch itself: recorded here on the CPU, and from the file rule by rule where a GPU is needed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.support.newest_torch import NoNewerTorch, newest_torch
from tests.support.paths import IMPORT_PATH, ROOT, SAMPLES
from tests.support.slow_key_averages import slow_key_averages
from tests.support.traces import loaded
from tracetui.model.table import Table
from tracetui.operators.ops import torch_time
from tracetui.panes import PANES
from tracetui.reading.load import load
from tracetui.reading.load_progress import collector_off

QUICK = (
    "mlp_training",
    "loader",
    "loader_worker",
    "split_stack",
    "combined",
    "nested",
    "threads",
    "across",
    "stacks",
    "stacks_nested",
    "memory",
    "loose_memory",
    "collective",
)
PYTHON_EXPORT = "exported_twice"
"""Program whose recording is written by torch's exporter in Python too."""
WITH_FRAMES = ("stacks", "stacks_nested")
WITH_SHAPES = ("mlp_training", "loader", "split_stack", "combined", "nested", "collective", "compiled")
TIMES = ("self_cpu", "cpu_total", "self_device", "device_total")
ON_DEVICE = {"kernel", "memcpy", "memset", "GPU annotation", "wait"}


def record(folder: Path, *names: str, python: str = "") -> Path:
    """Record programs of `tests/support/programs.py` in a process of their own, with the torch of an interpreter."""
    if not python and find_spec("torch") is None:
        pytest.skip("needs torch to record a trace and its table")
    command = [python or sys.executable, "-W", "ignore", "-m", "tests.support.programs", str(folder), *names]
    environment = os.environ | {"PYTHONPATH": IMPORT_PATH}
    subprocess.run(command, check=True, cwd=ROOT, env=environment, capture_output=True, timeout=600)
    return folder


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the traces of all quick programs and torch's tables of them."""
    return record(tmp_path_factory.mktemp("recorded"), *QUICK)


def nanoseconds(value: Any) -> int:
    """A cell in whole ns; torch prints 0 for what it has not."""
    return 0 if value is None else round(1000 * value)


def our_rows(table: Table) -> list[tuple[Any, ...]]:
    return [
        (row["name"], "annotation" in str(row["kind"]), row["calls"], *(nanoseconds(row[f"{key}_us"]) for key in TIMES))
        for row in table.rows()
    ]


def torch_rows(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["name"], row["annotation"], row["calls"], *(row[key] for key in TIMES)) for row in rows]


def check_events(folder: Path, name: str, version: str = "") -> None:
    """Row by row, in torch's order, and the line below; the trace names the version where one is given."""
    tables = json.loads((folder / f"{name}.table.json").read_text())
    trace = load(str(folder / f"{name}.json"))
    if version:
        trace = replace(trace, metadata={**trace.metadata, "tracetui": {"torch": version}})
    by = "frame" if name in WITH_FRAMES and not version else "event"
    table = PANES["ops"].build(trace, by=by)
    assert our_rows(table) == torch_rows(tables["event"])
    total = torch_time(sum(row["self_cpu"] for row in tables["event"]))
    assert f"Self CPU time total: {total}." in table.note
    (line,) = tables["lines"]
    assert amount(total) == pytest.approx(amount(line.removeprefix("Self CPU time total: ")), abs=0.0011)


def amount(text: str) -> float:
    """The number of a printed duration; both sides use the same unit."""
    match = re.fullmatch(r"(-?\d+\.\d{3})(us|ms|s)", text)
    assert match is not None
    return float(match[1])


def check_shapes(folder: Path, name: str) -> None:
    """The same rows grouped by input shapes, in whatever order."""
    tables = json.loads((folder / f"{name}.table.json").read_text())
    table = PANES["ops"].build(load(str(folder / f"{name}.json")), by="shape")
    ours = [(row["input_shapes"], *rest) for row, rest in zip(table.rows(), our_rows(table), strict=True)]
    theirs = [(row["shapes"], *rest) for row, rest in zip(tables["shape"], torch_rows(tables["shape"]), strict=True)]
    assert sorted(ours) == sorted(theirs)


@pytest.mark.full
@pytest.mark.parametrize("name", QUICK)
def test_rows_are_those_that_torch_prints(recorded: Path, name: str) -> None:
    check_events(recorded, name)


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name in QUICK if name in WITH_SHAPES])
def test_rows_by_input_shapes_are_those_that_torch_prints(recorded: Path, name: str) -> None:
    check_shapes(recorded, name)


@pytest.mark.full
def test_programs_show_what_they_are_here_for(recorded: Path) -> None:
    def rows(name: str) -> dict[str, dict[str, Any]]:
        tables = json.loads((recorded / f"{name}.table.json").read_text())
        return {row["name"]: row for row in tables["event"]}

    assert rows("nested")["a"]["calls"] == 2  # of six
    assert rows("nested")["b"]["calls"] == 6
    assert rows("loose_memory")["[memory]"]["calls"] > 0
    (collective,) = [row for name, row in rows("collective").items() if name.startswith("gloo:")]
    assert collective["annotation"]
    assert (collective["self_cpu"], collective["cpu_total"] > 0) == (0, True)
    assert any("DataLoader" in name for name in rows("loader_worker"))
    assert any(name.startswith("tests/support/programs.py") for name in rows("stacks"))
    unfinished = json.loads((recorded / "across.json").read_text())["traceEvents"]
    assert [event["name"] for event in unfinished if event.get("args", {}).get("finished") is False] == ["across"]
    shapes = json.loads((recorded / "mlp_training.table.json").read_text())["shape"]
    assert len(shapes) > len(rows("mlp_training"))


@pytest.mark.full
def test_a_list_of_tensors_has_no_shape_in_the_key(recorded: Path) -> None:
    rows = PANES["ops"].build(load(str(recorded / "split_stack.json")), by="shape").rows()
    assert {row["input_shapes"] for row in rows if row["name"] == "aten::stack"} == {"[[], []]"}


@pytest.mark.full
def test_without_recorded_shapes_there_are_none_to_group_by(recorded: Path) -> None:
    table = PANES["ops"].build(load(str(recorded / "threads.json")), by="shape")
    assert table["input_shapes"].nulls().all()
    assert "record_shapes=True" in table.note


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.txt")), ids=lambda path: path.stem)
def test_samples_read_as_the_tables_printed_beside_them(path: Path) -> None:
    *lines, total = path.read_text().splitlines()
    printed = [re.split(r"  +", line.strip()) for line in lines if not line.startswith("---")][1:]
    table = PANES["ops"].build(load(str(path.with_suffix(".json.gz"))), by="event")
    ours = [(name, torch_time(own), torch_time(cpu), calls) for name, _, calls, own, cpu, *_ in our_rows(table)]
    assert sorted(ours) == sorted((name, own, cpu, int(calls)) for name, _, own, _, cpu, _, calls in printed)
    assert f"{total}." in table.note


@pytest.mark.full
def test_rows_of_a_compiled_function_are_those_that_torch_prints(tmp_path: Path) -> None:
    record(tmp_path, "compiled")
    check_events(tmp_path, "compiled")
    check_shapes(tmp_path, "compiled")


# One of each kind: ids of operators that are trusted and that are not, NCCL, ROCm, frames, graphs. The slow script
# makes an object of every event: of the two largest kinds, d03 and d06, others show the same, the frames d07 and d10.
SHARED_TRACES = (
    ("d04_a100_8rank_6steps_occ_nccl.json.gz", "event"),
    ("d05a_a100_megatron_tp8_rank0.json", "event"),
    ("d05a_a100_megatron_tp8_rank0.json", "shape"),
    ("d07_mi300x_8rank_3steps_stack.json.gz", "event"),
    pytest.param("d07_mi300x_8rank_3steps_stack.json.gz", "frame", marks=pytest.mark.full),
    ("d08_b200_cuda13_ep_moe.json", "event"),
    ("d08_b200_cuda13_ep_moe.json", "shape"),
    ("d10_cudagraph_stack.json", "event"),
    ("d10_cudagraph_stack.json", "frame"),
    ("d16_b300_tiny.json.gz", "event"),
    ("d16_b300_tiny.json.gz", "shape"),
)


@pytest.mark.full
@pytest.mark.parametrize(("name", "by"), SHARED_TRACES)
def test_rows_of_real_traces_are_those_of_the_rules(shared_trace, name: str, by: str) -> None:
    path = shared_trace(name)
    with collector_off():
        expected = slow_key_averages(path, frames=by == "frame", by_shape=by == "shape")
    table = PANES["ops"].build(load(str(path)), by=by)
    ours = {}
    for row, values in zip(table.rows(), our_rows(table), strict=True):
        if row["kind"] != "allocation":
            key = (row["name"], row["kind"] in ON_DEVICE, values[1], row.get("input_shapes", ""))
            ours[key] = values[2:]
    if by == "shape":
        assert ours == {key: row for key, row in expected.rows.items() if not key[1]}
    else:
        assert list(ours.items()) == list(expected.rows.items())
    assert f"Self CPU time total: {torch_time(expected.self_cpu)}." in table.note
    assert f"Self CUDA time total: {torch_time(expected.self_device)}." in table.note


@pytest.mark.parametrize("name", ["d05a_a100_megatron_tp8_rank0.json", "d08_b200_cuda13_ep_moe.json"])
def test_the_plain_pane_has_the_same_rows_without_the_device(shared_trace, name: str) -> None:
    trace = loaded(shared_trace(name))
    plain, every = PANES["ops"].build(trace), PANES["ops"].build(trace, by="event")
    kinds = [row["kind"] for row in every.rows()]
    on_threads = [
        row for row, kind in zip(our_rows(every), kinds, strict=True) if kind not in {*ON_DEVICE, "allocation"}
    ]
    assert sorted(our_rows(plain)) == sorted(on_threads)
    assert plain.note == every.note


@pytest.fixture(scope="module")
def newest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A folder with the same of the newest torch that installs here, and its version."""
    with ExitStack() as stack:
        try:
            torch = stack.enter_context(newest_torch())
        except NoNewerTorch as reason:
            pytest.skip(str(reason))
        folder = record(tmp_path_factory.mktemp("newest"), *QUICK, PYTHON_EXPORT, python=torch.python)
        yield folder, torch.version


@pytest.mark.nightly
def test_rows_are_those_that_the_newest_torch_prints(newest: tuple[Path, str]) -> None:
    folder, version = newest
    for name in QUICK:
        check_events(folder, name, version)
    for name in set(QUICK) & set(WITH_SHAPES):
        check_shapes(folder, name)


@pytest.mark.nightly
def test_both_exporters_of_the_newest_torch_write_the_same(newest: tuple[Path, str]) -> None:
    """`export_chrome_trace(use_python_export=True)` beside Kineto's own, of one recording."""
    of_kineto, of_python = (load(str(newest[0] / f"{PYTHON_EXPORT}{kind}.json")) for kind in ("", ".python"))
    assert our_rows(PANES["ops"].build(of_kineto, by="event")) == our_rows(PANES["ops"].build(of_python, by="event"))
    both = [list(PANES["memory"].build(trace).rows()) for trace in (of_kineto, of_python)]
    assert [row["bytes"] for row in both[0]] == [row["bytes"] for row in both[1]] != []
    for trace in (of_kineto, of_python):
        found = {row["check"]: row["count"] for row in PANES["health"].build(trace).rows()}
        assert not any(found.get(check) for check in ("unknown categories", "skipped phases", "dropped events"))
