"""A pane is declared once, in the file that the list of panes names."""

from __future__ import annotations

import ast
from importlib import import_module

import pytest

from tests.support.paths import ROOT
from tracetui.model.pane import Pane
from tracetui.panes import PANE_FILES, PANES

PACKAGE = ROOT / "tracetui"
MAX_NAMES = len(PANE_FILES) // 2
"""Maximum names of panes in one literal: with more it is a second list of them."""
LANGUAGE = PACKAGE / "checking"
"""Some names of lists in the language of `check` are those of panes: what they mean there is its own."""


def test_every_file_of_the_list_declares_its_pane() -> None:
    # The list is imported by name, which neither mypy nor import-linter sees.
    for name, module in PANE_FILES.items():
        declared = import_module(f"tracetui.{module}").PANE
        assert isinstance(declared, Pane) and declared.name == name
        assert PANES[name].table is declared.table and declared.table.__module__ == f"tracetui.{module}"


def test_every_pane_is_declared_in_one_place() -> None:
    declared, lists = [], []
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text()
        if "Pane(" not in text and sum(f'"{name}"' in text for name in PANE_FILES) <= MAX_NAMES:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Pane":
                declared.append(ast.literal_eval(node.args[0]))
            elif LANGUAGE not in path.parents and isinstance(node, ast.Dict | ast.Tuple | ast.List | ast.Set):
                held = node.keys if isinstance(node, ast.Dict) else node.elts
                names = {each.value for each in held if isinstance(each, ast.Constant)} & set(PANE_FILES)
                if len(names) > MAX_NAMES:
                    lists.append(str(path.relative_to(PACKAGE)))
    assert sorted(declared) == sorted(PANE_FILES)
    assert lists == ["panes.py"]


def test_groupings_of_a_pane_differ() -> None:
    for pane in PANES.values():
        assert len(set(pane.groups)) == len(pane.groups), pane.name


def test_a_pane_that_is_none_is_no_key() -> None:
    assert "kernel" not in PANES
    with pytest.raises(KeyError):
        PANES["kernel"]
