"""Writing a file that is either all there or not there at all."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

_DESCRIPTORS = ("/dev/fd", "/proc/self/fd")
"""Folders whose entries are files that this process has open already."""
_LINKS = 40
"""So many links lead from one to the next; more are a circle."""


def write_whole(path: Path, text: str, replace: bool = True) -> None:
    """Write text to a file in UTF-8; whoever looks sees the old file or the new one, and never a part.

    Without `replace` a file that is there stays. What is no file, such as `/dev/null`, is written to as it is, and
    `/dev/stdout` is written on where it stands.
    Raises: FileExistsError for a file that stays; OSError when it cannot be written, and then nothing is left behind.
    """
    number = open_already(path)
    if number is not None:
        sys.stdout.flush()
        with open(os.dup(number), "w", encoding="utf-8", errors="replace", newline="\n") as file:
            file.write(text)
        return
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file() and not path.is_dir():
        path.write_text(text, encoding="utf-8", errors="replace", newline="\n")
        return
    part = path.with_name(f".{path.name[:100]}.{os.getpid()}.part")
    try:
        with part.open("w", encoding="utf-8", errors="replace", newline="\n") as file:
            file.write(text)
        if not replace and path.exists():
            raise FileExistsError(path)
        os.replace(part, path)
    finally:
        with suppress(OSError):
            part.unlink()


def open_already(path: Path) -> int | None:
    """The descriptor that `/dev/stdout`, `/dev/fd/3` and links to such stand for; None for every other path.

    Such a name leads on to the file behind the descriptor, which must be neither replaced nor begun anew.
    """
    folders = {os.path.realpath(folder) for folder in _DESCRIPTORS}
    place = os.path.abspath(path)
    for _ in range(_LINKS):
        folder, name = os.path.split(place)
        if name.isascii() and name.isdigit() and os.path.realpath(folder) in folders:
            return int(name)
        if not os.path.islink(place):
            return None
        place = os.path.join(folder, os.readlink(place))
    return None
