"""Writing a file that is either all there or not there at all."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

_DESCRIPTORS = ("/dev/fd", "/proc/self/fd")
"""Folders whose entries are files that this process has open already."""
_LINKS = 40
"""So many links lead from one to the next; more are a circle."""
_LONGEST = 100
"""Bytes of a file's name that its partial file's begins with: what comes on top must not make it too long."""


def write_whole(path: Path, text: str, replace: bool = True) -> None:
    """Write text to a file in UTF-8, as `whole_file` does.

    Raises: FileExistsError for a file that stays; OSError when it cannot be written, and then nothing is left behind.
    """
    with whole_file(path, replace) as file:
        file.write(text.encode("utf-8", "replace"))


@contextmanager
def whole_file(path: Path, replace: bool = True) -> Iterator[IO[bytes]]:
    """A file to write to; whoever looks sees the old one or, once the block has ended well, the new one.

    Without `replace` a file that is there stays. What is no file, such as `/dev/null`, is written to as it is, and
    `/dev/stdout` is written on where it stands.
    Raises: FileExistsError for a file that stays; OSError when it cannot be written, and then nothing is left behind.
    """
    number = open_already(path)
    if number is not None:
        sys.stdout.flush()
        with open(os.dup(number), "wb") as file:
            yield file
        return
    # A link stays one and leads to what is new.
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file() and not target.is_dir():
        with target.open("wb") as file:
            yield file
        return
    # Beside the file, for only within one file system is a rename a single act.
    begins = os.fsencode(target.name)[:_LONGEST].decode("utf-8", "ignore")
    part = target.with_name(f".{begins}.{secrets.token_hex(4)}.part")
    try:
        with part.open("xb") as file:
            yield file
        if not replace and target.exists():
            raise FileExistsError(target)
        os.replace(part, target)
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
