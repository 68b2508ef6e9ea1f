"""The app runs without Textual's private names: all of them, and each one by itself."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from textual.events import Key

from tracetui.ui.base import differ_switch, textual_internals

NAMES = sorted({name.partition(" ")[2] for names in textual_internals.NAMES.values() for name in names})


def walked(*names: str) -> list[str]:
    """The app in a Textual without names: what became of each."""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.support.other_textual", *names],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout.splitlines()


def test_this_textual_has_all_names() -> None:
    assert textual_internals.missing_names() == ()


@pytest.mark.smoke
@pytest.mark.full
def test_without_any_of_them() -> None:
    (line,) = walked("|".join(NAMES))
    assert line == " ".join(["without", *textual_internals.NAMES])


@pytest.mark.nightly
def test_without_each_of_them() -> None:
    assert len(walked(*NAMES)) == len(NAMES)


def test_without_the_differ_only_writing_is_textuals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(differ_switch.VARIABLE, "1")
    parts = [part for part in textual_internals.NAMES if not textual_internals.works.__wrapped__(part)]
    assert parts == ["frames", "rows"]


@pytest.mark.full
def test_a_crash_is_reported_without_the_differ() -> None:
    code = "from tracetui.ui.base.textual_internals import HookedApp; print(*vars(HookedApp))"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, differ_switch.VARIABLE: "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    there = set(run.stdout.split())
    assert "_handle_exception" in there and "_display" not in there


@pytest.mark.parametrize(
    "name",
    ["textual.app App._display(self, renderable)", "textual.app App._lost", "textual.lost App", "textual.app Lost"],
)
def test_a_name_that_is_not_there_or_has_other_parameters(name: str) -> None:
    assert not textual_internals._is_there(name)


def parsed(text: str) -> list[tuple[str, str | None]]:
    """The keys of what a terminal sends in one read, with their characters."""
    parser = textual_internals.EscapeParser()
    keys = [*parser.feed(text), *parser.feed("")]
    return [(key.key, key.character) for key in keys if isinstance(key, Key)]


@pytest.mark.parametrize("text", ["\x1b3", "\x1b0", "\x1b34", "\x1b-", "\x1bq", "\x1b.."])
def test_escape_and_a_key_in_one_read_are_these_two(text: str) -> None:
    (key, _), *others = parsed(text)
    assert key == "escape" and "".join(str(character) for _, character in others) == text[1:]


@pytest.mark.parametrize(("text", "key"), [("\x1b[A", "up"), ("\x1bOP", "f1"), ("\x1bb", "ctrl+left"), ("£", "£")])
def test_sequences_and_signs_of_a_keyboard_stay(text: str, key: str) -> None:
    assert [key for key, _ in parsed(text)] in ([key], ["pound_sign"])


def test_alt_stays_where_it_means_something(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(textual_internals.EscapeParser, "keeps_alt", True)
    assert [key for key, _ in parsed("\x1bq")] == ["alt+q"]
    assert [key for key, _ in parsed("\x1b3")] == ["escape", "3"]
