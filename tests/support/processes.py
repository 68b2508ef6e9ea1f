"""Commands and scripts in processes of their own, and ports for their servers."""

from __future__ import annotations

import json
import socket
import subprocess
import sys

from tests.support.paths import ROOT
from tests.support.waiting import PROCESS_SECONDS


def loaded_after(statement: str) -> set[str]:
    """Top-level modules that are loaded once a statement has run."""
    script = f"{statement}\nimport sys, json; print(json.dumps(sorted({{m.split('.')[0] for m in sys.modules}})))"
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True, timeout=PROCESS_SECONDS
    )
    return set(json.loads(result.stdout.splitlines()[-1]))


COMMAND = [sys.executable, "-m", "tracetui"]


def tracetui(*words: object, **more) -> subprocess.CompletedProcess:
    """Run a command with pipes for a terminal."""
    more = {"stdin": subprocess.DEVNULL, **more} if "input" not in more else more
    return subprocess.run(
        [*COMMAND, *map(str, words)],
        cwd=ROOT,
        text=not isinstance(more.get("input"), bytes),
        capture_output=True,
        timeout=PROCESS_SECONDS,
        **more,
    )


def free_port() -> int:
    """A port that nobody listens to."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
