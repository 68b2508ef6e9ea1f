"""Fuzz `nesting.c` under AddressSanitizer and UndefinedBehaviorSanitizer: `python -m tests.fuzz.nesting --minutes 2`.

Needs a C compiler with both sanitizers.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fuzz.scanner import build, start

SOURCE = Path(__file__).with_name("nesting_fuzz.c")


def fuzz(seconds: float, seed: int) -> subprocess.CompletedProcess[str]:
    """Run the fuzzer for some seconds of CPU time."""
    with tempfile.TemporaryDirectory(prefix="tracetui-fuzz-") as name:
        return subprocess.run([str(build(Path(name), SOURCE)), str(seconds), str(seed)], capture_output=True, text=True)


def main() -> int:
    """Fuzz, and print what was found."""
    return start(fuzz, __doc__, minutes=2)


if __name__ == "__main__":
    sys.exit(main())
