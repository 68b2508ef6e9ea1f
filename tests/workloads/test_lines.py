"""The line that ran: operators of six programs against lists by hand, and sums over lines against the step."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.support.paths import IMPORT_PATH
from tests.support.workloads.children import needs_torch
from tests.support.workloads.lined import __file__ as package
from tracetui import load
from tracetui.linking.autograd import ENGINE
from tracetui.linking.lines import line_texts, place_of, recorded_lines
from tracetui.linking.links import op_rows
from tracetui.linking.placement import within
from tracetui.linking.steps import steps
from tracetui.linking.trees import forest, nearest
from tracetui.model.trace import Kind, Trace
from tracetui.panes import PANES

pytestmark = [pytest.mark.full, needs_torch]

PROGRAMS = ("loops", "comprehensions", "decorators", "generators", "modules", "exceptions")
_COUNTED = re.compile(r"(\w+)(?: x(\d+))?")
Listed = Counter[tuple[str, int, str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The recordings of all programs, made by one process."""
    made = tmp_path_factory.mktemp("lines")
    words = [sys.executable, "-m", "tests.support.workloads.line_recording", str(made), *PROGRAMS]
    subprocess.run(words, check=True, env={**os.environ, "PYTHONPATH": IMPORT_PATH}, timeout=300)
    return made


@pytest.fixture(params=PROGRAMS)
def program(request, folder) -> tuple[str, Trace]:
    return request.param, load(folder / f"{request.param}.json", steps_by="step")


def listed_by_hand(name: str) -> tuple[Listed, Listed]:
    """Operators and nodes of a program by file and line, from its comments."""
    operators, nodes = Listed(), Listed()
    folder = Path(package).parent
    for path in (folder / f"{name}.py", *sorted((folder / "nested").glob("*.py") if name == "modules" else ())):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            forward, _, backward = line.partition("#:")[2].partition(";")
            for counted, words in ((operators, forward), (nodes, backward)):
                for word, times in _COUNTED.findall(words):
                    counted[str(path.relative_to(folder)), number, word] += int(times or 1)
    return operators, nodes


def recorded(trace: Trace) -> tuple[Listed, Listed]:
    """Operators that a line calls itself, and nodes of the backward pass, by file and line."""
    ids, texts = line_texts(trace)
    ops = within(trace, op_rows(trace), 1)
    rows = np.union1d(op_rows(trace), trace.slices.of_kind(Kind.LINE))
    above = nearest(forest(trace, rows), np.ones(len(rows), bool))
    operators, nodes = Listed(), Listed()
    for row in ops.tolist():
        name, record = trace.name_of(row), int(recorded_lines(trace).record[row])
        place = place_of(texts[ids[trace.slices.name[record]]]) if record >= 0 else ("", 0)
        around = int(above[np.searchsorted(rows, row)])
        if name.startswith(ENGINE):
            word = name.removeprefix(f"{ENGINE}: ").removesuffix("Backward0").removeprefix("torch::autograd::")
            nodes[*place, word] += 1
        elif around < 0 or trace.slices.kind[rows[around]] == Kind.LINE:
            operators[*place, name.removeprefix("aten::")] += 1
    return operators, nodes


def test_each_operator_has_the_line_that_the_list_has(program):
    name, trace = program
    operators, nodes = listed_by_hand(name)
    assert sum(operators.values()) > 10
    got = recorded(trace)
    assert got[0] == operators
    assert got[1] == nodes


def test_sums_over_lines_are_the_step_to_the_nanosecond(program):
    _, trace = program
    table, whole = PANES["source"].build(trace, 1), steps(trace)
    spent = np.nansum([table["forward_cpu_us"].values, table["backward_cpu_us"].values]) * 1000
    assert round(spent) == int(whole.end[0] - whole.start[0])
    counted = table["cpu_ops"].values.astype(np.int64)
    assert counted[counted > 0].sum() == len(within(trace, op_rows(trace), 1))
