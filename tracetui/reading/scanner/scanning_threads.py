"""How many threads scan a file."""

from __future__ import annotations

import os

MAX_THREADS = 8
"""Maximum threads that scan one file."""


def scanning_threads() -> int:
    """Threads that scan a file: as many as cores that this process may use, up to a limit."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MAX_THREADS)
