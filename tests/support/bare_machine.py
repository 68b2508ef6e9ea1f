"""An environment like that of a machine with a GPU that is lent: Python and torch, and little else.

Packages that such a machine lacks cannot be imported in it, `python` is not on the path, and nothing outside can be
reached. msgspec, orjson and zstandard are carried there as wheels.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

ABSENT = ("textual", "platformdirs", "liger_kernel", "zlib_ng", "isal", "pyte", "syrupy", "matplotlib")
_HOOK = """\
import socket, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {absent!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

def unreachable(*_, **__):
    raise OSError("Network is unreachable")

sys.meta_path.insert(0, Absent())
socket.getaddrinfo = unreachable
"""


def bare_environment(folder: Path, known: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables of a process on such a machine; `folder` is for what makes it so."""
    hooks, programs = folder / "hooks", folder / "bin"
    hooks.mkdir(parents=True)
    programs.mkdir()
    (hooks / "sitecustomize.py").write_text(_HOOK.format(absent=set(ABSENT)))
    # A link would not find the packages of a virtual environment.
    (programs / "python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (programs / "python3").chmod(0o700)
    for program in (*Path("/usr/bin").iterdir(), *Path("/bin").iterdir()):
        if not program.name.startswith(("python", "pip")) and not (programs / program.name).is_symlink():
            (programs / program.name).symlink_to(program)
    kept = {name: value for name, value in known.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV", "PATH")}
    return {**kept, "PATH": str(programs), "PYTHONPATH": str(hooks), "HOME": str(folder), "PYTHONUNBUFFERED": "1"}
