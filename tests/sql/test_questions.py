"""The questions of docs/sql.md are answered, of traces that have such rows."""

from __future__ import annotations

import re
from functools import cache

import pytest

from tests.support.app import training
from tests.support.build import kernel, make_trace
from tests.support.memory_events import copied, two_ops
from tests.support.paths import ROOT, SAMPLES
from tests.support.traces import loaded
from tracetui.model.trace import Trace
from tracetui.sql.database import Database

PAGE = (ROOT / "docs" / "sql.md").read_text()
QUESTIONS = re.findall(r"^(\w[^\n]*\?)\n\n```sql\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL)


@cache
def traces() -> tuple[Trace, ...]:
    """Traces of a GPU, with copies and with memory, and a recorded one with operators and shapes."""
    return training(), copied(), two_ops(), beside(), loaded(SAMPLES / "mlp_train_cpu.json.gz")


def beside() -> Trace:
    """Two kernels of which one starts while the other one runs."""
    return make_trace([kernel("gemm", 0, 9_000), kernel("relu", 5_000, 9_000, "stream 8")])


@cache
def databases(kind: str) -> list[Database]:
    """The databases that a question of a kind is asked of: each trace alone, or all together."""
    if kind == "several":
        return [Database(dict(zip("abcde", traces(), strict=True)))]
    if kind == "ranks":
        return [Database(dict(zip("01234", traces(), strict=True)), by_rank=True)]
    return [Database({"a": trace}) for trace in traces()]


def test_there_are_twenty() -> None:
    assert len(QUESTIONS) >= 20
    assert len(QUESTIONS) == PAGE.count("```sql")


@pytest.mark.parametrize(("question", "query"), QUESTIONS, ids=[question for question, _ in QUESTIONS])
@pytest.mark.full
def test_a_question_is_answered(question: str, query: str) -> None:
    kind = "several" if "a.kernels" in query else "ranks" if "select rank" in query else "one"
    answers = [database.query(query).table for database in databases(kind)]
    assert any(len(answer) for answer in answers), question
