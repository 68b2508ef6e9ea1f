"""What each layer loads, and what `tracetui --help` loads; every case in a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys

from tests.support.paths import ROOT
from tests.support.processes import loaded_after

HELP_LIMIT = 180
"""So many modules at most are loaded for `tracetui --help`; 112 of them took 60 ms of CPU time."""

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
