"""What is said of two sides."""

from __future__ import annotations

from tests.support.paths import SAMPLES
from tests.support.traces import loaded
from tracetui.comparing.side import side
from tracetui.comparing.statement import statement
from tracetui.model.trace import Trace


def said(a: Trace, b: Trace, scope_a: str = "", scope_b: str = "") -> str:
    """The sentences, a line each."""
    return "\n".join(statement(side(a, scope_a), side(b, scope_b)))


def first(text: str) -> str:
    return text.splitlines()[0]


def sample(name: str) -> Trace:
    return loaded(SAMPLES / f"{name}_cpu.json.gz")
