"""Has `nsys` make an export of a report, below the cache, where it is kept until the report changes."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tracetui.errors import NotATrace, NotFound, OtherKind
from tracetui.files import is_url, user_cache_folder
from tracetui.text import clean

TIMEOUT_SECONDS = 1800.0
"""Seconds that one export may take."""
MAX_EXPORTS = 8
"""Maximum exports that are kept; the one that was not used for the longest goes first."""
_POLL_SECONDS = 0.1


def exported(path: str, cancelled: Callable[[], bool] = lambda: False) -> str:
    """The path of an export of a report, which is made where there is none of the report as it is now.

    Raises: OtherKind where `nsys` is not installed; NotATrace where it makes no export; NotFound for a report that
    cannot be read.
    """
    name = Path(path).name
    command = shlex.join(["nsys", "export", "--type", "sqlite", "-o", f"{Path(name).stem}.sqlite", name])
    what, advice = "an Nsight Systems report", f"run `{command}` where nsys is installed, and open what it writes"
    if is_url(path):
        raise OtherKind(name, what, advice)
    try:
        status = os.stat(path)
    except OSError as error:
        raise NotFound(f"{path} cannot be read: {error.strerror or error}.") from error
    full = os.path.realpath(path)
    about = f"{full}\0{status.st_size}\0{status.st_mtime_ns}".encode("utf-8", "surrogateescape")
    target = user_cache_folder() / "nsys" / f"{hashlib.blake2b(about, digest_size=16).hexdigest()}.sqlite"
    if target.is_file():
        with suppress(OSError):
            os.utime(target)
        return str(target)
    program = shutil.which("nsys")
    if program is None:
        raise OtherKind(name, what, advice)
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise NotATrace(f"{target.parent} cannot be made, for the export of {name}: {error.strerror}.") from error
    part = target.with_name(f"{target.stem}.{os.getpid()}.part.sqlite")
    try:
        _run(
            [program, "export", "--type", "sqlite", "--force-overwrite", "true", "-o", str(part), full], name, cancelled
        )
        if not part.is_file():
            raise NotATrace(f"nsys made no export of {name}: run `{command}` to see why.")
        os.replace(part, target)
    finally:
        with suppress(OSError):
            part.unlink()
    with suppress(OSError):
        files = sorted(target.parent.glob("*.sqlite"), key=lambda file: -file.stat().st_mtime)
        for file in files[MAX_EXPORTS:]:
            file.unlink()
    return str(target)


def _run(command: list[str], name: str, cancelled: Callable[[], bool]) -> None:
    """Run nsys to its end.

    Raises: NotATrace where it fails, takes too long, or nobody waits any more.
    """
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
        )
    except OSError as error:
        raise NotATrace(f"nsys cannot be started: {error.strerror or error}.") from error
    ends = time.monotonic() + TIMEOUT_SECONDS
    while True:
        try:
            _, errors = process.communicate(timeout=_POLL_SECONDS)
            break
        except subprocess.TimeoutExpired:
            if cancelled() or time.monotonic() > ends:
                process.kill()
                process.communicate()
                why = "was stopped" if cancelled() else f"took longer than {TIMEOUT_SECONDS:.0f} s"
                raise NotATrace(f"The export of {name} {why}.") from None
    if process.returncode:
        lines = errors.decode("utf-8", "replace").strip().splitlines()
        raise NotATrace(
            f"nsys cannot export {name}: {clean(lines[-1][:300]) if lines else f'exit {process.returncode}'}"
        )
