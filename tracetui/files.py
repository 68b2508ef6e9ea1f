"""Writing a file that is either all there or not there at all, names that are not taken yet, the folder of caches."""

from __future__ import annotations

import errno
import os
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import IO

_DESCRIPTORS = ("/dev/fd", "/proc/self/fd")
"""Folders whose entries are files that this process has open already."""
_MAX_LINKS = 40
"""Maximum links from one to the next; more are a circle."""
_MAX_NAME = 100
"""Maximum bytes of a file's name in the name of its partial file, which adds to it."""


def user_cache_folder() -> Path:
    """The user's folder for what can be made again, whether it is there or not."""
    # Some milliseconds of import that most commands do without.
    from platformdirs import user_cache_path

    return user_cache_path("tracetui", appauthor=False)


def write_whole(path: Path, text: str, replace: bool = True) -> None:
    """Write text to a file in UTF-8, as `whole_file` does.

    Raises: FileExistsError for a file that stays; OSError when it cannot be written, and then nothing is left behind.
    """
    with whole_file(path, replace) as file:
        file.write(text.encode("utf-8", "replace"))


@contextmanager
def whole_file(path: Path, replace: bool = True) -> Iterator[IO[bytes]]:
    """A file to write to; readers see the old one or, once the block has ended well, the new one.

    A file that is replaced passes its permissions on. A link to a file stays and leads to the new one; a link to
    nothing is not followed, but replaced itself. Without `replace` a file or link that exists stays. A device or a
    pipe, such as `/dev/null`, is written to as it is, and `/dev/stdout` continues where it stands.
    Raises: FileExistsError for a file that stays; OSError when it cannot be written, and then nothing is left behind.
    """
    number = open_already(path)
    if number is not None:
        sys.stdout.flush()
        with open(os.dup(number), "wb") as file:
            yield file
        return
    target = Path(os.path.realpath(path)) if path.exists() else path
    if target.exists() and not target.is_file() and not target.is_dir():
        with target.open("wb") as file:
            yield file
        return
    # Beside the file, for only within one file system is a rename a single act.
    begins = os.fsencode(target.name)[:_MAX_NAME].decode("utf-8", "ignore")
    part = target.with_name(f".{begins}.{secrets.token_hex(4)}.part")
    try:
        with part.open("xb") as file:
            if replace:
                _copy_permissions(target, file.fileno())
            yield file
        _put_in_place(part, target, replace)
    finally:
        with suppress(OSError):
            part.unlink()


def _copy_permissions(target: Path, file: int) -> None:
    """Give an open file the permissions of the file that it will replace, before anything is written to it."""
    with suppress(OSError):
        os.fchmod(file, stat.S_IMODE(target.stat().st_mode))


def _put_in_place(part: Path, target: Path, replace: bool) -> None:
    """Rename a complete file.

    Raises: FileExistsError where another file has the name by now and is not to be replaced.
    """
    if not replace:
        try:
            # Unlike a rename this fails where the name is taken, also when it was taken just now.
            os.link(part, target)
            return
        except FileExistsError:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
        except OSError:
            # A file system without hard links.
            if os.path.lexists(target):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
    os.replace(part, target)


def numbered(path: Path) -> Iterator[Path]:
    """The path itself, then `name-2.json.gz`, `name-3.json.gz` and so on."""
    yield path
    # Not `with_suffix`: a name may hold points, and a trace has two suffixes.
    suffix = "".join(Path(path.name.lstrip(".")).suffixes[-2:]) if path.name.endswith((".gz", ".zst")) else path.suffix
    stem = path.name.removesuffix(suffix)
    for number in count(2):
        yield path.with_name(f"{stem}-{number}{suffix}")


def write_numbered(path: Path, text: str) -> Path:
    """Write text to a file of this name, or with the next number that is free; returns its path.

    Raises: OSError when it cannot be written.
    """
    for free in numbered(path):
        if os.path.lexists(free):
            continue
        try:
            write_whole(free, text, replace=False)
        except FileExistsError:
            continue
        return free
    raise AssertionError("there is always another number")


def open_already(path: Path) -> int | None:
    """The descriptor that `/dev/stdout`, `/dev/fd/3` and links to such stand for; None for every other path.

    Such a name leads on to the file behind the descriptor, which must be neither replaced nor begun anew.
    """
    folders = {os.path.realpath(folder) for folder in _DESCRIPTORS}
    try:
        followed = os.path.abspath(path)
    except OSError:
        # The current folder is gone, and nothing can be opened in it.
        return None
    for _ in range(_MAX_LINKS):
        folder, name = os.path.split(followed)
        if name.isascii() and name.isdigit() and os.path.realpath(folder) in folders:
            return int(name)
        if not os.path.islink(followed):
            return None
        followed = os.path.join(folder, os.readlink(followed))
    return None
