"""An interpreter with the newest torch that installs here, in an environment of its own.

`TRACETUI_NEWEST_TORCH` names one that exists. Otherwise the newest build that is newer than the pinned one is
installed, from PyTorch's index of CPU builds and what pip is configured to look in. Of what it requires, what cannot be
had is left out: whether torch can be imported decides.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlparse

from packaging.requirements import Requirement
from packaging.version import Version

from tests.support.pins import written

VARIABLE = "TRACETUI_NEWEST_TORCH"
CPU_BUILDS = "https://download.pytorch.org/whl/cpu"
PIP = (
    "-m",
    "pip",
    "install",
    "--quiet",
    "--no-compile",
    "--retries",
    "0",
    "--timeout",
    "20",
    "--index-url",
    CPU_BUILDS,
)
MIN_FREE_BYTES = 12 << 30
"""Minimum free bytes of a disk on which a build is installed: one for CUDA has 5 GB."""
MAX_INSTALL_SECONDS = 600
"""Maximum seconds of one call of pip."""
_REQUIRED = "import importlib.metadata, json; print(json.dumps(importlib.metadata.requires('torch') or []))"
_VERSION = "import torch; print(torch.__version__)"


class NoNewerTorch(Exception):
    """There is no newer torch here; the message says why."""


@dataclass(frozen=True)
class NewestTorch:
    """An interpreter, and the version of its torch."""

    python: str
    version: str


@contextmanager
def newest_torch() -> Iterator[NewestTorch]:
    """The interpreter, for as long as it is needed.

    Raises: NoNewerTorch.
    """
    if os.environ.get(VARIABLE):
        yield named_torch()
        return
    _check_pip()
    with TemporaryDirectory(prefix="newest-torch-") as folder:
        if shutil.disk_usage(folder).free < MIN_FREE_BYTES:
            raise NoNewerTorch("too little room on the disk for another torch")
        yield _installed(Path(folder))


def named_torch() -> NewestTorch:
    """The interpreter that the variable names; nothing is installed.

    Raises: NoNewerTorch.
    """
    given = os.environ.get(VARIABLE)
    if not given:
        raise NoNewerTorch(f"{VARIABLE} names no interpreter with a newer torch")
    return _newer(given)


def _check_pip() -> None:
    """Look what would be installed before anything is; a build that has to be fetched must be one for the CPU."""
    pinned = written()["torch"]
    look = (*PIP, "--dry-run", "--ignore-installed", "--no-deps", "--report", "-", f"torch>{pinned}")
    answer = _run(sys.executable, *look)
    if answer.returncode:
        raise NoNewerTorch(f"no torch newer than {pinned} is to be had: {answer.stderr.strip()[-200:]}")
    (found,) = json.loads(answer.stdout)["install"]
    if urlparse(found["download_info"]["url"]).scheme != "file" and "+cpu" not in found["metadata"]["version"]:
        raise NoNewerTorch(f"torch {found['metadata']['version']} is no build for the CPU alone")


def _installed(folder: Path) -> NewestTorch:
    """Install it, and of its requirements those that there are."""
    python, wanted_torch = str(folder / "bin" / "python"), f"torch>{written()['torch']}"
    for command in ((sys.executable, "-m", "venv", str(folder)), (python, *PIP, "--no-deps", wanted_torch)):
        answer = _run(*command)
        if answer.returncode:
            raise NoNewerTorch(f"it does not install: {answer.stderr.strip()[-200:]}")
    required = [Requirement(each) for each in json.loads(_run(python, "-c", _REQUIRED).stdout)]
    here = [each for each in required if each.marker is None or each.marker.evaluate({"extra": ""})]
    wanted = [str(each).split(";")[0].strip() for each in here]
    together = _run(python, *PIP, *wanted, "numpy")
    if together.returncode:
        for each in (*wanted, "numpy"):
            _run(python, *PIP, each)
    return _newer(python)


def _newer(python: str) -> NewestTorch:
    answer = _run(python, "-c", _VERSION)
    if answer.returncode:
        raise NoNewerTorch(f"its torch cannot be imported: {answer.stderr.strip()[-200:]}")
    version = answer.stdout.split()[-1]
    if Version(version).release <= Version(written()["torch"]).release:
        raise NoNewerTorch(f"the newest torch here is {version}, which the other tests have")
    return NewestTorch(python, version)


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=MAX_INSTALL_SECONDS, check=False)
