"""What is written when nothing happens: nothing. And over SSH fewer pictures a second."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from tests.support.paths import ROOT, SAMPLES
from tests.support.terminal.raw import Raw

EAGER = str(SAMPLES / "mlp_eager_cpu.json.gz")
SSH = {"SSH_CONNECTION": "10.0.0.1 50000 10.0.0.2 22"}
IDLE = 5.0
"""Seconds in which nobody presses a key."""
MOST = 0.01
"""Share of a processor that is used at most meanwhile."""


@pytest.mark.full
def test_nothing_is_written_while_nothing_happens():
    """Here and over SSH, both at once: most of it is waiting."""
    command = (sys.executable, "-m", "tracetui", EAGER, "--at", "ops")
    apps = [Raw(*command), Raw(*command, SSH_CONNECTION=SSH["SSH_CONNECTION"])]
    try:
        for raw in apps:
            raw.wait_for("Kernels", "aten::linear")
        for raw in apps:
            raw.wait_until_quiet(IDLE)
        before = [(raw.length, seconds_used(raw)) for raw in apps]
        time.sleep(IDLE)
        for raw, (length, used) in zip(apps, before, strict=True):
            assert raw.length == length
            # The system counts in hundredths of a second.
            assert seconds_used(raw) - used <= MOST * IDLE
    finally:
        for raw in apps:
            raw.close()


def seconds_used(raw):
    """Processor time of the app so far."""
    with open(f"/proc/{raw.process.pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


@pytest.mark.parametrize(("environment", "most"), [({}, 120), (SSH, 30), ({**SSH, "TEXTUAL_FPS": "10"}, 10)])
def test_pictures_a_second(environment, most):
    program = "import tracetui.ui, textual.constants; print(textual.constants.MAX_FPS)"
    result = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", **environment},
    )
    assert int(result.stdout) == most
