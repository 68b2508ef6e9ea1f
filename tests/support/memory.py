"""How much memory a process holds."""

from __future__ import annotations

import re
from pathlib import Path


def resident(pid: int) -> int:
    """Bytes of a process that are in memory, without what it shares with others; 0 when it is gone.

    Raises: OSError where the system does not tell.
    """
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(1024 * int(number) for number in re.findall(r"^Private_\w+: +(\d+) kB", text, re.MULTILINE))
