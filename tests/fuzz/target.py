"""The process that libFuzzer drives: `python -m tests.fuzz.target opening|panes|packets|exports [libFuzzer flags] CORPUS...`.

To merge a corpus it starts itself again by its own name, for which `SELF` names a script.
"""

from __future__ import annotations

import os
import sys

import atheris

with atheris.instrument_imports(include=["tracetui"]):
    from tests.fuzz import properties

SELF = "TRACETUI_FUZZ_TARGET"
"""A variable with the path of a script that starts this process for the same target."""

if __name__ == "__main__":
    name = sys.argv.pop(1)
    sys.argv[0] = os.environ.get(SELF, sys.argv[0])
    atheris.Setup(sys.argv, getattr(properties, f"check_{name}"))
    atheris.Fuzz()
