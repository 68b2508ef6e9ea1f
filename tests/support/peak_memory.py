"""The memory that opening a file takes, read in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_MEASURE = """
import sys
from tracetui.errors import TracetuiError
from tracetui.reading.load import load
def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
{first}
before = peak()
try:
    load(sys.argv[1])
except TracetuiError:
    pass
print((peak() - before) * 1024)
"""


def peak_of_loading(path: Path, first: str) -> int:
    """Bytes by which the peak rises while a file is opened, or refused; the statement `first` runs before."""
    command = [sys.executable, "-c", _MEASURE.format(first=first), str(path)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
