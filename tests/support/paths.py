"""Where the files are that tests read."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
"""The checkout."""

IMPORT_PATH = os.pathsep.join([str(ROOT), str(ROOT / "workloads")])
"""PYTHONPATH of a process that imports both packages from the checkout."""

SHARED = ROOT.parent / "shared" / "traces"
"""Real traces of other people, beside the checkout and never in it."""

SAMPLES = ROOT / "sample_traces"
"""The traces that come with the project."""

FIXTURES = ROOT / "tests" / "support" / "fixtures"
"""What other programs said of the same traces, recorded once."""
