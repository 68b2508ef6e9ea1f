"""Every rule that the code and the documents cite is written in `docs/semantics.md`, and none is written twice."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.paths import ROOT

SEMANTICS = (ROOT / "docs" / "semantics.md").read_text()
SOURCES = sorted(path for folder in ("tracetui", "tests", "workloads") for path in (ROOT / folder).rglob("*.py"))
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])

RULE = re.compile(r"\bR\d\.\d+[ab]?\b|(?<![\w.])3\([a-z]\)(?:\.\d+)?")
"""`R3.50`, a section `3(d)`, or a rule `3(d).5` of one."""
FAMILY = re.compile(r"\bF(?:1[0-6]|[1-9])\b")
"""A family of kernel names."""
SECTION = re.compile(r"\bsections? (\d(?:\.\d)?)\b")
OLD_FORMS = re.compile(r"\brules? \d|\bsemantics \d")
"""Citations that name a number and not the id of a rule."""
FORMS = (RULE, SECTION, FAMILY, OLD_FORMS)

DEFINITIONS = (
    re.compile(r"^ *\* \*\*(R\d\.\d+[ab]?|3\([a-z]\)\.\d+)\*\*", re.MULTILINE),
    re.compile(r"^## (3\([a-z]\)) ", re.MULTILINE),
    re.compile(r"^\| (F\d+) \|", re.MULTILINE),
    re.compile(r"^##? (\d(?:\.\d)?) ", re.MULTILINE),
)
DEFINED = Counter(name for form in DEFINITIONS for name in form.findall(SEMANTICS))


def prose(source: str) -> Iterator[str]:
    """The docstrings (of attributes too) and comments of a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value
    # Looking for the comments takes longer than all else, so that a line of one has to cite something.
    if any(form.search(line) for line in source.splitlines() if "#" in line for form in FORMS):
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                yield token.string


def cited(text: str) -> set[str]:
    """The ids that a text cites."""
    return {*RULE.findall(text), *SECTION.findall(text)}


def citations_of(path: Path) -> set[str]:
    """The ids that the prose of a module cites."""
    source = path.read_text()
    if path == Path(__file__) or not any(form.search(source) for form in FORMS[:3]):
        return set()
    return {name for text in prose(source) for name in {*cited(text), *FAMILY.findall(text)}}


@cache
def cited_in_modules() -> dict[str, set[str]]:
    """The ids that each module cites."""
    return {str(path.relative_to(ROOT)): names for path in SOURCES if (names := citations_of(path))}


def test_no_rule_is_written_twice():
    assert [name for name, count in DEFINED.items() if count > 1] == []


def test_the_code_cites_rules():
    """Otherwise the patterns above find nothing, and the tests below pass for that reason."""
    assert len(cited_in_modules()) > 40
    assert {"R1.8", "R3.3", "3(d)", "3(d).5", "F14", "1.3"} <= set().union(*cited_in_modules().values())


def test_what_a_module_cites_is_written_down():
    unknown = {path: names - set(DEFINED) for path, names in cited_in_modules().items()}
    assert {path: names for path, names in unknown.items() if names} == {}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_what_a_document_cites_is_written_down(path):
    assert set(RULE.findall(path.read_text())) - set(DEFINED) == set()


def test_rules_are_cited_by_their_ids():
    found = {
        f"{path.relative_to(ROOT)}: {text.strip().splitlines()[0]}"
        for path in SOURCES
        if path != Path(__file__) and OLD_FORMS.search(path.read_text())
        for text in prose(path.read_text())
        if OLD_FORMS.search(text)
    }
    assert found == set()
