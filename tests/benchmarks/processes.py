"""Running one measurement in a process of its own, and what the machine has room for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tracetui.cli.main import HUGE_PAGES

Figures = dict[str, Any]
KIBIBYTE = 1 if sys.platform == "darwin" else 1024
"""Bytes in the unit in which the system gives the peak of a process."""


class MeasurementError(Exception):
    """A measurement that could not be made, with the reason."""


def measured_child(what: str, trace: Path, *words: str) -> Figures:
    """One measurement of `tests.benchmarks.child`, which never sees a cache of traces.

    Raises: MeasurementError when it fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tests.benchmarks.child", what, str(trace), *words]
        # Memory as the command has it.
        return printed_figures(command, {"XDG_CACHE_HOME": folder, HUGE_PAGES: "0"})


def printed_figures(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Figures:
    """The JSON object on the last line that a command printed.

    Raises: MeasurementError when the command fails or prints none.
    """
    ending = subprocess.run(command, env={**os.environ, **(environment or {})}, capture_output=True, text=True)
    lines = ending.stdout.splitlines()
    if ending.returncode != 0 or not lines:
        raise MeasurementError(failure_of(ending.returncode, ending.stderr))
    figures: Figures = json.loads(lines[-1])
    return figures


def timed_command(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Figures:
    """What a whole process took, from its start to its end, and the numbers that it printed as `events`.

    Raises: MeasurementError when the command fails.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=output, stderr=errors, env={**os.environ, **(environment or {})})
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        if process.returncode != 0:
            raise MeasurementError(failure_of(process.returncode, errors.read().decode(errors="replace")))
        return {
            "wall": wall,
            "cpu": usage.ru_utime + usage.ru_stime,
            "peak": usage.ru_maxrss * KIBIBYTE,
            "printed": [int(word) for word in output.read().split() if word.isdigit()],
        }


def failure_of(exit_code: int, errors: str) -> str:
    """Why a process failed: the signal that ended it, the last line of its errors, or its exit code."""
    if exit_code < 0:
        return f"ended by signal {-exit_code}"
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    return lines[-1][:300] if lines else f"ended with {exit_code}"


def available_memory() -> int | None:
    """Bytes that processes can still take; None where the system does not say."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None
