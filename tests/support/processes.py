"""Commands and scripts in processes of their own, and ports for their servers."""

from __future__ import annotations

import io
import json
import socket
import subprocess
import sys
from unittest import mock

from tests.support.paths import ROOT
from tests.support.waiting import PROCESS_SECONDS
from tracetui.cli.main import main


def loaded_after(statement: str) -> set[str]:
    """Top-level modules that are loaded once a statement has run."""
    script = f"{statement}\nimport sys, json; print(json.dumps(sorted({{m.split('.')[0] for m in sys.modules}})))"
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True, timeout=PROCESS_SECONDS
    )
    return set(json.loads(result.stdout.splitlines()[-1]))


COMMAND = [sys.executable, "-m", "tracetui"]


def tracetui_process(*words: object, **more) -> subprocess.CompletedProcess:
    """Run a command in a process of its own, with pipes for a terminal."""
    more = {"stdin": subprocess.DEVNULL, **more} if "input" not in more else more
    return subprocess.run(
        [*COMMAND, *map(str, words)],
        cwd=ROOT,
        text=not isinstance(more.get("input"), bytes),
        capture_output=True,
        timeout=PROCESS_SECONDS,
        **more,
    )


def tracetui(*words: object) -> subprocess.CompletedProcess[str]:
    """Run a command in this process, where everything is imported: codes and streams are those of a process."""
    out, err, none = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(3))
    with mock.patch.multiple(sys, stdin=none, stdout=out, stderr=err):
        try:
            code = main(list(map(str, words)))
        except SystemExit as end:
            code = int(end.code or 0)
        texts = []
        for stream in (out, err):
            stream.flush()
            texts.append(stream.buffer.getvalue().decode())
    return subprocess.CompletedProcess(list(map(str, words)), code, *texts)


def free_port() -> int:
    """A port that nobody listens to."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
