"""What is said of two sides."""

from __future__ import annotations

from tests.support.paths import SAMPLES
from tracetui.comparing.side import side
from tracetui.comparing.statement import statement
from tracetui.model.trace import Trace
from tracetui.reading.load import load


def said(a: Trace, b: Trace, scope_a: str = "", scope_b: str = "") -> str:
    """The sentences, a line each."""
    return "\n".join(statement(side(a, scope_a), side(b, scope_b)))


def first(text: str) -> str:
    return text.splitlines()[0]


def sample(name: str) -> Trace:
    return load(str(SAMPLES / f"{name}_cpu.json.gz"))
