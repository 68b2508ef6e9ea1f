"""Tests pass wherever they are started: signals that whoever starts them has had ignored mean something again."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.support.paths import ROOT
from tests.support.signals import DEFAULTS

CHILD = "import signal, sys; print(int(signal.getsignal(int(sys.argv[1])) is not signal.SIG_IGN))"


@pytest.mark.parametrize("number", DEFAULTS)
def test_a_signal_is_not_ignored_here_or_in_a_child(number: signal.Signals) -> None:
    assert signal.getsignal(number) is not signal.SIG_IGN
    command = [sys.executable, "-c", CHILD, str(int(number))]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "1\n"


@pytest.mark.parametrize("workers", [pytest.param("0", marks=pytest.mark.full), "1"])
def test_a_run_that_was_started_with_signals_ignored_restores_them(workers: str) -> None:
    """`-n 1` has a worker between, which is a process of its own."""
    ignoring = "trap '' INT HUP QUIT TERM; exec \"$@\""
    tests = f"{__file__}::{test_a_signal_is_not_ignored_here_or_in_a_child.__name__}"
    pytest_command = [sys.executable, "-m", "pytest", "-q", "-n", workers, "-p", "no:cacheprovider", tests]
    result = subprocess.run(
        ["sh", "-c", ignoring, "sh", *pytest_command], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert f"{len(DEFAULTS)} passed" in result.stdout, result.stdout + result.stderr
