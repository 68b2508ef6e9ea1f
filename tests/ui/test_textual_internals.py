"""The app runs without Textual's private names: all of them, and each one by itself."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

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
