"""What each layer loads, and what `tracetui --help` loads; every case in a fresh interpreter."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from tests.support.paths import ROOT
from tests.support.processes import loaded_after

HELP_LIMIT = 160
"""So many modules at most are loaded for `tracetui --help`; 112 of them took 60 ms of CPU time."""

SCREEN_LIMIT = 219
"""So many modules of tracetui at most are loaded for the screen of a trace; there are 211."""
SCREEN_RATIO = 2.6
"""CPU time of importing that screen at most, relative to importing numpy and what a Textual app of one word needs; 2.0
was measured.
"""

LOWER = [
    "tracetui",
    "tracetui.errors",
    "tracetui.model.trace",
    "tracetui.model.table",
    "tracetui.reading.load",
    "tracetui.panes",
    "tracetui.drawing.text.export",
    "tracetui.drawing.format",
    "tracetui.drawing.timeline.raster",
    "tracetui.cli.main",
]


def test_below_the_screen_neither_textual_nor_torch_is_loaded():
    assert not loaded_after(f"import {', '.join(LOWER)}") & {"textual", "torch"}


def test_the_screen_does_not_load_torch():
    assert "torch" not in loaded_after("import tracetui.ui.app")


def test_recording_in_a_program_of_ones_own_is_offered_without_torch():
    assert not loaded_after("from tracetui import record; assert callable(record)") & {"torch", "textual", "numpy"}


def test_help_loads_nothing_heavy_and_little():
    # Each module is a part of a millisecond; what is loaded says on every machine the same, seconds do not.
    script = (
        "import sys; bare = set(sys.modules)\nfrom tracetui.cli.main import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "print(*(set(sys.modules) - bare))"
    )
    said = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(said.stdout.splitlines()[-1].split())
    assert not loaded & {"textual", "numpy", "torch", "rich", "orjson", "msgspec"}
    assert 10 < len(loaded) < HELP_LIMIT


def test_the_app_loads_rules_and_comparisons_when_they_are_needed():
    script = "import sys, tracetui.ui.app; print(*sys.modules)"
    said = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(said.stdout.split())
    assert {"tracetui.ui.trace.trace_view", "tracetui.panes"} <= loaded
    # What computes a pane is loaded with its declaration.
    late = (
        *("findings.rules", "findings.idle", "findings.step_rules", "comparing.kernel_changes", "comparing.op_changes"),
        *("checking.lists", "ui.compare."),
    )
    assert [name for name in sorted(loaded) if name.removeprefix("tracetui.").startswith(late)] == []


SCREEN = "import tracetui.ui.app, tracetui.ui.trace.trace_screen"


def test_the_screen_loads_few_modules() -> None:
    script = f"{SCREEN}\nimport sys; print(sum(name.startswith('tracetui.') for name in sys.modules))"
    said = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert 100 < int(said.stdout) < SCREEN_LIMIT


def cpu_seconds(script: str) -> float:
    """CPU time of the quickest of several fresh interpreters that run a script."""

    def once() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return min(once() for _ in range(5))


@pytest.mark.full
def test_the_screen_loads_in_little_more_than_textual_and_numpy() -> None:
    word = "import numpy\nfrom textual.app import App\nfrom textual.widgets import Static"
    # With its bytecode, as it is installed.
    cpu_seconds(SCREEN)
    assert cpu_seconds(SCREEN) < SCREEN_RATIO * cpu_seconds(word)
