"""A headless Chromium that starts anew for every page and reaches nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support.waiting import POLL_SECONDS

NAMES = ("chromium", "chromium-browser", "google-chrome")
SECONDS = POLL_SECONDS
_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--enable-logging=stderr",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)


def executable() -> str | None:
    """The browser on PATH, None where there is none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


_OWN = "not an origin"
"""Stands where the browser itself, and no page, began a request."""


@dataclass(frozen=True)
class Visit:
    """What came of opening a page."""

    dom: str
    """The document after its scripts ran."""
    console: list[str]
    """Lines of the console, violations of the policy among them."""
    requested: list[str]
    """Addresses that were asked for, other than files of this machine."""


class Chromium:
    """Opens pages; everything that it leaves behind is in one folder."""

    def __init__(self, program: str, folder: Path) -> None:
        self._program = program
        self._folder = folder
        self._visits = 0

    def open(self, page: Path) -> Visit:
        """Load a file and say what came of it."""
        log = self._folder / "net.json"
        done = self._run(page, "--dump-dom", "--virtual-time-budget=5000", f"--log-net-log={log}")
        console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
        return Visit(done.stdout, console, _requested(log))

    def timeline_index(self, page: Path, width: int, height: int, dark: bool = False) -> bytes:
        """A screenshot as PNG."""
        path = self._folder / "shot.png"
        scheme = ["--blink-settings=preferredColorScheme=0"] if dark else []
        self._run(page, f"--screenshot={path}", f"--window-size={width},{height}", *scheme)
        return path.read_bytes()

    def _run(self, page: Path, *more: str) -> subprocess.CompletedProcess[str]:
        self._visits += 1
        profile = self._folder / f"profile{self._visits}"
        command = [self._program, *_OPTIONS, f"--user-data-dir={profile}", *more, page.as_uri()]
        return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)


def _requested(log: Path) -> list[str]:
    """The addresses in Chromium's record of its network that a page asked for; the browser has business of its own."""
    try:
        events = json.loads(log.read_text())["events"]
    except json.JSONDecodeError:
        # It is cut where the browser ended before it was written to the end.
        events = json.loads(log.read_text().rstrip().rstrip(",") + "]}")["events"]
    asked = [event.get("params", {}) for event in events]
    pages = {str(params["url"]) for params in asked if params.get("initiator", _OWN) != _OWN and "url" in params}
    return sorted(url for url in pages if not url.startswith(("file:", "chrome", "devtools:", "data:")))
