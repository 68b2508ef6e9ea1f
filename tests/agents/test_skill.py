"""The page for assistants: its commands are understood, and what it names exists."""

from __future__ import annotations

import re
import shlex
from importlib.resources import files

import pytest

from tests.support.paths import SAMPLES
from tracetui.agents.tools import Tools
from tracetui.agents.trace_folder import TraceFolder
from tracetui.cli.main import COMMANDS, build_parser, main
from tracetui.demo.catalogue import write
from tracetui.model.viewpoint import read_view_string
from tracetui.panes import PANES
from tracetui.reading.load import load

PAGE = (files("tracetui.agents") / "skill.md").read_text("utf-8")
CODE = re.findall(r"`([^`\n]+)`", PAGE)
COMMAND_LINES = re.findall(r"^    tracetui (.+)$", PAGE, re.MULTILINE)
COLUMNS = [(row[0], row[1].split()) for row in re.findall(r"^\| `([a-z ]+)` \| ((?:`\w+` ?)+)\|$", PAGE, re.MULTILINE)]


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    """A trace of a simulated GPU."""
    return load(str(write("mlp", tmp_path_factory.mktemp("demo"))))


def test_the_command_prints_the_page(capsys):
    assert main(["skill"]) == 0
    assert capsys.readouterr().out == PAGE
    assert len(PAGE.encode()) < 8192


@pytest.mark.parametrize("line", COMMAND_LINES)
def test_its_commands_are_understood(line):
    _, unknown = build_parser().parse_known_args(shlex.split(line))
    assert not unknown


def test_its_tables_name_commands_and_tools():
    rows = re.findall(r"^\|[^|]+\?? \| `(\w+)`([^|]*)\| `([^`]+)`", PAGE, re.MULTILINE)
    tools = Tools(TraceFolder(str(SAMPLES))).all
    assert {tool for tool, _, _ in rows} == set(tools)
    for _, panes, command in rows:
        assert command == "ls" or command.split()[0] in COMMANDS
        for name, by in re.findall(r"(\w+)(?: by (\w+))?", panes.partition(" with ")[0].replace("then ", "")):
            assert name in PANES and (not by or by in PANES[name].groups)


@pytest.mark.parametrize(("pane", "columns"), COLUMNS)
def test_its_columns_exist(pane, columns, simulated):
    name, _, by = pane.partition(" by ")
    table = PANES[name].build(simulated, by=by or None)
    assert [each for each in columns if each.strip("`") not in table] == []


def test_it_has_columns_of_panes():
    assert {pane for pane, _ in COLUMNS} >= {"steps", "kernels", "kernels by name", "ops", "gaps", "findings"}


def test_its_view_strings_are_understood():
    views = [each for each in CODE if re.fullmatch(r"(s\d+/.*|g\d+|@.*|range=.*)", each)]
    assert len(views) >= 3
    for view in views:
        read_view_string(view)
