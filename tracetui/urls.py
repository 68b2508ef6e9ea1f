"""Paths that are URLs, and what of them may be shown.

A URL may hold a password (`https://user:password@host/`) or a signature in its query. The rest of the program only has
its public form, without these; what was cut off is known to this module alone, for the process that it was given to.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from itertools import count

CUT_QUERY = "?..."
"""What stands for the query of a URL in its public form."""
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(://|::)")
_WEB = ("http://", "https://")
"""Schemes whose URLs have a query."""
_full_urls: dict[str, str] = {}
"""The URLs that hold more than their public form, by that."""


def is_url(path: str) -> bool:
    """Whether a path is a URL, and no file or folder of this machine."""
    return _URL.match(path) is not None


def is_web_url(path: str) -> bool:
    """Whether a path is a URL of the web, where nothing tells a folder from a file but the slash at its end."""
    return path.lower().startswith(_WEB)


def is_of_one_process(path: str) -> bool:
    """Whether no other process has the file at a URL."""
    return path.startswith("memory:")


def has_query(url: str) -> bool:
    """Whether the query of a URL was cut off."""
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
    """What this process knows of some URLs beyond their public form, to be given to processes that read them."""
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
