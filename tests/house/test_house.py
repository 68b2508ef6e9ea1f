"""The figures count what they say, and budgets fall and never rise by themselves."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.house.__main__ import BUDGET, Budgets, as_toml, excesses, flat, lowered
from tests.house.source import code_figures, docstrings, folder_figures, read_sources, short_functions, word_counts

CODE = '''
"""What the file is."""

class LeadIn:
    """A class."""

    def _twice(self, trace: Trace) -> int:
        """Where it is used."""
        return once(trace) + self._twice(trace)

def once(trace: Trace, *, other: Trace) -> int:
    total = trace.remember("a name", make)
    return total

def _long(x):
    a = 1
    b = 2
    c = 3
    d = 4
    e = 5
    return a

LISTED = ("a name", _long)
PANES = {"ops": 1, "kernels": 2, "steps": 3, "gaps": 4, "views": 5}
'''


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for path, text in {
        "tracetui/analysis/idle/deep/a.py": CODE,
        "tracetui/b.py": "from tracetui.a import once\n",
        "tests/ui/test_a.py": "def test_a():\n    pass\n",
        "tests/fuzz/b.py": "x = 1\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def test_folders_are_counted_two_levels_deep_and_tools_of_tests_apart(root: Path) -> None:
    assert folder_figures(root, "tracetui", "tests") == {
        "tests tools": {"files": 1, "lines": 1, "functions": 0},
        "tests/ui": {"files": 1, "lines": 2, "functions": 1},
        "tracetui": {"files": 1, "lines": 1, "functions": 0},
        "tracetui/analysis/idle": {"files": 1, "lines": len(CODE.splitlines()), "functions": 3},
    }


def test_what_is_counted_in_code(root: Path) -> None:
    assert code_figures(read_sources(root, "tracetui"), ["ops", "kernels", "steps", "gaps", "views"]) == {
        "used_once": 2,
        "used_once_and_short": 1,
        "one_line_functions": 1,
        "trace_parameters": 3,
        "pane_tables": 1,
        "remembered": 1,
        "remembered_names": 1,
        "question_docstrings": 2,
    }


def test_short_functions_are_named_with_what_they_count_as(root: Path) -> None:
    lines = short_functions(read_sources(root, "tracetui"), "tracetui/analysis")
    assert [line.partition(" ")[2] for line in lines] == ["once: used once", "_twice: one line"]
    assert not short_functions(read_sources(root, "tracetui"), "tracetui/b.py")


def test_words_are_found_in_names_and_docstrings_and_names_as_a_whole(root: Path) -> None:
    words, names = word_counts(read_sources(root, "tracetui"), {"lead_in": 0, "used": 0, "ce": 0}, {"once": 0})
    assert dict(words) == {"lead_in": 1, "used": 1}
    assert names["once"] == 3
    assert "A class." in [text for source in read_sources(root, "tracetui") for text in docstrings(source)]


BUDGETS: Budgets = {
    "sums": {"code": {"lines": 100}},
    "folders": {"tracetui/a": {"lines": 60}, "tracetui/gone": {"lines": 40}},
    "words": {"told": 5},
    "runs": {"key .": {"files": 67}},
}
FIGURES: Budgets = {
    "sums": {"code": {"lines": 99}},
    "folders": {"tracetui/a": {"lines": 70}, "tracetui/new": {"lines": 29}},
    "words": {"told": 4},
}


def test_what_is_above_its_budget_is_told() -> None:
    first, second = excesses(FIGURES, BUDGETS)
    assert "tracetui/a" in first and "70" in first and "60" in first
    assert "tracetui/new" in second and "no budget" in second


def test_writing_lowers_and_never_raises() -> None:
    written = lowered(FIGURES, BUDGETS)
    assert written["folders"] == {"tracetui/a": {"lines": 60}, "tracetui/new": {"lines": 29}}
    assert written["words"] == {"told": 4} and written["sums"] == {"code": {"lines": 99}}
    assert written["runs"] == BUDGETS["runs"], "what was not measured stays"
    assert lowered({**FIGURES, "runs": {}}, BUDGETS)["runs"] == BUDGETS["runs"]


def test_folders_follow_files_that_move_only_while_the_sum_does_not_rise() -> None:
    assert lowered(FIGURES, BUDGETS, moved=True)["folders"]["tracetui/a"] == {"lines": 70}
    grown = {**FIGURES, "sums": {"code": {"lines": 101}}}
    assert lowered(grown, BUDGETS, moved=True)["folders"]["tracetui/a"] == {"lines": 60}


def test_the_file_is_read_as_it_was_written() -> None:
    budgets = tomllib.loads(BUDGET.read_text())
    assert as_toml(budgets) == BUDGET.read_text()
    assert dict(flat(tomllib.loads(as_toml(BUDGETS)))) == dict(flat(BUDGETS))
