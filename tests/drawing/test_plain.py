"""The form for screen readers: everything in words, one value per line."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys

import pytest

from tests.support.build import kernel, make_trace, op
from tests.support.paths import ROOT, SAMPLES
from tracetui.cli.main import main
from tracetui.drawing.text.export import plain_text
from tracetui.panes import PANES

EAGER = str(SAMPLES / "mlp_eager_cpu.json.gz")
DRAWN = re.compile("[\u2500-\u259f\u2800-\u28ff\x1b…]")
"""Boxes, blocks, braille, escapes and the sign of something cut off."""


def printed(capsys, *words):
    """What a command prints."""
    assert main([*words]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("pane", PANES)
@pytest.mark.full
def test_a_pane_is_lines_of_names_and_values(capsys, pane):
    lines = printed(capsys, "show", pane, EAGER, "--plain").splitlines()
    # An overview is of the median step where no other is asked for.
    step = ", step 2" if pane == "overview" else ""
    assert lines[0] == f"{pane}{step} of mlp_eager_cpu.json.gz"
    assert not DRAWN.search("\n".join(lines))
    body = [line for line in lines[1:] if line and not re.fullmatch(r"row \d+", line)]
    prose = [line for line in body if not re.match(r"[\w× %/,<>()]+( \(doubtful\))?: \S", line)]
    # Only the pane's own remarks are sentences.
    assert all(line.endswith(".") for line in prose)


def test_it_has_the_rows_and_columns_of_json(capsys):
    text = printed(capsys, "show", "ops", EAGER, "--plain")
    document = json.loads(printed(capsys, "show", "ops", EAGER, "--format", "json"))
    name_of = {column["heading"]: column["name"] for column in document["columns"]}
    blocks = text.split("\n\n")[1:]
    assert len(blocks) - ("without a value" in text) == len(document["rows"])
    for number, (block, row) in enumerate(zip(blocks, document["rows"], strict=False), start=1):
        head, *lines = block.splitlines()
        assert head == f"row {number}"
        said = dict(line.split(": ", 1) for line in lines)
        said = {name_of[heading]: words for heading, words in said.items()}
        assert said["name"] == row["name"]
        assert said["calls"].replace(",", "") == str(row["calls"])
        times = {key: value for key, value in row.items() if key.endswith("_us") and value is not None}
        assert times
        for key, value in times.items():
            number, unit = said[key].split()
            scale = {"ns": 1e-3, "µs": 1, "ms": 1e3, "s": 1e6}[unit]
            assert float(number.replace(",", "")) * scale == pytest.approx(value, rel=0.005, abs=0.06)


def test_a_long_name_is_whole():
    name = "void cutlass::Kernel<" + "very_long_parameter, " * 40 + "end>(Params)"
    trace = make_trace([op("aten::mm", 0, 10_000), kernel(name, 12_000, 5_000)])
    assert f"\nrecorded name: {name}\n" in plain_text(PANES["kernels"].build(trace), trace, "kernels")


def test_what_is_not_known_is_said():
    trace = make_trace([op("aten::mm", 0, 10_000), kernel("a", 12_000, 5_000, correlation=3), kernel("b", 20_000, 9)])
    text = plain_text(PANES["kernels"].build(trace), trace, "kernels")
    assert "correlation: 3" in text
    assert "correlation: not known" in text
    assert "–" not in text


def test_a_row_less_says_so(capsys):
    text = printed(capsys, "show", "ops", EAGER, "--plain", "--limit", "2", "--sort", "name:asc")
    assert "\nprinted: 2\n" in text
    assert "row 2" in text
    assert "row 3" not in text


def test_a_pane_without_rows_says_why(capsys):
    text = printed(capsys, "show", "kernels", EAGER, "--plain")
    assert "rows: 0" in text
    assert "There is no GPU activity in this trace." in text


def test_two_forms_are_one_too_many(capsys):
    assert main(["show", "ops", EAGER, "--plain", "--format", "json"]) == 2
    assert "leave one out" in capsys.readouterr().err


@pytest.mark.parametrize(("kind", "is_plain"), [("dumb", True), ("xterm-256color", False)])
@pytest.mark.full
def test_a_terminal_that_can_only_print_gets_it(kind, is_plain):
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": kind, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tracetui", "show", "views", EAGER]
    subprocess.run(command, stdout=theirs, stderr=theirs, stdin=subprocess.DEVNULL, env=environment, check=True)
    text = os.read(ours, 1 << 16).decode()
    os.close(theirs)
    os.close(ours)
    assert ("row 1" in text) == is_plain
    assert ("\x1b" in text) != is_plain
