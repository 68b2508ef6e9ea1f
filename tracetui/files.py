"""Writing a file that is either all there or not there at all, names that are not taken yet, the folder of caches."""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import IO

NO_FILE = "none"
"""The word of the user for no file, where one beside a trace would be read."""
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
    part = target.with_name(f".{begins}.{os.urandom(4).hex()}.part")
    try:
        with part.open("xb") as file:
            if replace:
                # Give an open file the permissions of the file that it will replace, before anything is written to it.
                with suppress(OSError):
                    os.fchmod(file.fileno(), stat.S_IMODE(target.stat().st_mode))
            yield file
        _put_in_place(part, target, replace)
    finally:
        with suppress(OSError):
            part.unlink()


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


# Paths that are URLs, and what of them may be shown.
#
# A URL may hold a password (`https://user:password@host/`) or a signature in its query. The rest of the program only
# has its public form, without these; what was cut off is known to this module alone, for the process that it was given
# to.

CUT_QUERY = "?..."
"""Stands for the query of a URL in its public form."""
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(://|::)")
_WEB = ("http://", "https://")
"""Schemes whose URLs have a query."""
_full_urls: dict[str, str] = {}
"""The URLs that hold more than their public form, by that."""


def is_url(path: str) -> bool:
    """True where a path is a URL, and no file or folder of this machine."""
    return _URL.match(path) is not None


def is_web_url(path: str) -> bool:
    """True where a path is a URL of the web, where nothing tells a folder from a file but the slash at its end."""
    return path.lower().startswith(_WEB)


def is_of_one_process(path: str) -> bool:
    """True where no other process has the file at a URL."""
    return path.startswith("memory:")


def has_query(url: str) -> bool:
    """True where the query of a URL was cut off."""
    return is_web_url(url) and "?" in url


def public_url(path: str) -> str:
    """A URL without user, password and query, by which this process finds them again; another path as it is.

    A scope behind the URL stays: `https://host/trace.json#3`.
    """
    if not is_url(path):
        return path
    url, sign, scope = path.partition("#")
    public = _without_user(url)
    if is_web_url(url):
        public, question, query = public.partition("?")
        if question and CUT_QUERY in f"?{query}":
            return path
        public += CUT_QUERY if question else ""
    if public == url:
        return path
    for number in count(2):
        known = _full_urls.setdefault(public, url)
        if known == url:
            break
        public = f"{public.partition(CUT_QUERY)[0]}{CUT_QUERY}{number}"
    return public + sign + scope


def full_url(url: str) -> str:
    """The URL as it was given to this process."""
    return _full_urls.get(url, url)


def url_below(url: str, rest: str) -> str:
    """The public form of what lies below a URL, with the user and the password of that."""
    public = url.rstrip("/") + rest
    full = full_url(url)
    if full != url and not has_query(url):
        _full_urls.setdefault(public, full.rstrip("/") + rest)
    return public


def url_secrets(urls: Iterable[str]) -> dict[str, str]:
    """The secrets of some URLs beyond their public form, to be given to processes that read them."""
    return {url: _full_urls[url] for url in urls if url in _full_urls}


def add_url_secrets(known: Mapping[str, str]) -> None:
    """Take over what another process knows."""
    _full_urls.update(known)


def absolute_path(path: str) -> str:
    """A path from the root on; a URL as it is."""
    return path if is_url(path) else os.path.abspath(path)


def url_name(url: str) -> str:
    """The name of the file or folder at a URL."""
    path = url.partition("?")[0] if is_web_url(url) else url
    return path.rstrip("/").rpartition("/")[2] or url


def _without_user(url: str) -> str:
    scheme, sign, rest = url.partition("://")
    host, slash, below = rest.partition("/")
    user, at, name = host.rpartition("@")
    # Elsewhere what stands before the sign may be the name of a container, and a secret only behind a colon.
    return f"{scheme}{sign}{name}{slash}{below}" if at and (is_web_url(url) or ":" in user) else url
