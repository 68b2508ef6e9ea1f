"""Files at URLs, read through fsspec in blocks: nothing is copied to disk, and a few blocks are in memory.

A connection that breaks off is taken up again where it stood. Errors are sentences with the public form of the URL and
a cause; what fsspec or a server says in them is never shown where a URL with its secrets may stand in it.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from queue import Empty, Queue
from threading import Event, Semaphore, Thread
from typing import Any, NamedTuple, TypeVar, cast

from tracetui.errors import NotFound
from tracetui.files import full_url, has_query, is_url, is_web_url, public_url, url_below

Result = TypeVar("Result")

BLOCK_BYTES = 1 << 22
"""Bytes of a request, once more than the beginning is wanted."""
FIRST_BYTES = 1 << 18
"""Bytes of the first request: what tells a trace from other files takes no more."""
MIN_BLOCK_BYTES = 1 << 16
"""Minimum bytes of a request, where larger ones broke off."""
BLOCKS_AHEAD = 1
"""Blocks that are fetched before they are asked for."""
RETRY_SECONDS = (0.2, 1.0, 3.0)
"""Seconds before each further attempt at a block."""
MAX_CONNECTIONS = 16
"""Maximum files that are asked for at the same time."""
ANSWER_SECONDS = 60.0
"""Seconds after which a server that says nothing of a file or a folder is given up."""
POLL_SECONDS = 0.2
"""Seconds of waiting for a block between two looks at whether that is still wanted."""
MAX_CAUSE_LETTERS = 200
"""Maximum letters of what a library says of an error."""
INSTALL = "pip install fsspec aiohttp"
"""The command that installs the extra `remote`, wherever tracetui itself was installed from."""
_IDENTITY_KEYS = (
    *("ETag", "etag", "generation", "md5Hash", "Content-MD5", "Digest", "blob_id", "version_id", "VersionId"),
    *("Last-Modified", "LastModified", "last_modified", "modified", "mtime", "updated", "created"),
)
"""Names that file systems give the values that change with the content of a file."""
_sizes: dict[str, int] = {}
"""Size of each file that was asked for."""
_FINAL_STATUS = range(400, 500)
_FINAL_ERRORS = (
    *(NotFound, FileNotFoundError, PermissionError, NotImplementedError, ImportError, ValueError, TypeError),
)
_REFUSED, _GONE = (401, 403, 407), (404, 410)
_BREAKS = {"_BrokenOff", "ClientPayloadError", "ServerDisconnectedError", "IncompleteRead", "IncompleteReadError"}
"""Names of the errors with which a connection breaks off, of libraries that may not be installed."""
_REFUSED_REDIRECTS = {
    "TooManyRedirects": "the server leads from one address to the next without end",
    "NonHttpUrlRedirectClientError": "the server leads to an address that is none of the web, which is not followed",
    "InvalidUrlRedirectClientError": "the server leads to something that is no address",
}
"""Sentences for the errors of redirects, by their names, as their library may not be installed."""
_ADDRESS = re.compile(r"\S*://\S*")
_SECRET = re.compile(r"(?i)\S*(key|token|secret|signature|password|credential)\S*[=:]\s*\S+")


class RemoteInfo(NamedTuple):
    """Facts about a file from its file system."""

    size: int | None
    """In bytes, None where the server does not tell."""
    version: str
    """A value that changes with the content, empty where the file system has nothing of the kind."""
    takes_ranges: bool
    """True if nothing says that the file can only be read from its start."""


class RemoteFile(io.RawIOBase):
    """A file at a URL as a raw file: a thread fetches its blocks, the next one while this one is used.

    Reading ends, as if the file had, once `cancelled` answers true.
    """

    def __init__(self, url: str) -> None:
        """Ask for the size of the file.

        Raises: NotFound.
        """
        super().__init__()
        self.url = url
        self._info = remote_info(url)
        self.size = self._info.size
        """Bytes of the file, None where the server does not tell."""
        self.cancelled: Callable[[], bool] = lambda: False
        """Asked while a block is waited for whether it is still wanted."""
        self._position = 0
        self._block = memoryview(b"")
        self._fetcher: _Fetcher | None = None

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """Tell whether the server gives ranges of the file."""
        return self.size is not None

    def tell(self) -> int:
        """Bytes before the next one."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Read on from another byte.

        Raises: OSError where the size of the file is not known.
        """
        if self.size is None and (offset, whence) != (0, io.SEEK_CUR):
            raise OSError("the server does not tell the size of the file")
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size or 0}[whence]
        if base + offset != self._position:
            self._stop()
            self._position = base + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer from its start; returns how much, 0 at the end.

        Raises: NotFound where the file cannot be read any more.
        """
        if not self._block:
            if self._fetcher is None:
                self._fetcher = _Fetcher(_Blocks(self.url, self._info, self._position))
            self._block = memoryview(self._fetcher.next(self.cancelled))
        count = min(len(self._block), len(buffer))
        memoryview(buffer)[:count] = self._block[:count]
        self._block = self._block[count:]
        self._position += count
        return count

    def close(self) -> None:
        """Let go of the file; nothing more is fetched."""
        self._stop()
        super().close()

    def _stop(self) -> None:
        if self._fetcher is not None:
            self._fetcher.stop()
        self._fetcher, self._block = None, memoryview(b"")


class _Fetcher:
    """Fetches blocks in a thread of its own, which nobody waits for: a server may keep it for minutes."""

    def __init__(self, blocks: _Blocks) -> None:
        self._blocks = blocks
        self._fetched: Queue[bytes | BaseException] = Queue()
        self._wanted = Semaphore(0)
        self._calls = 0
        Thread(target=self._work, name="tracetui-fetch", daemon=True).start()

    def next(self, cancelled: Callable[[], bool]) -> bytes:
        """The next block, empty at the end and where it is not wanted any more; raises what went wrong."""
        self._calls += 1
        # Who asks once may want the beginning alone.
        for _ in range(1 + BLOCKS_AHEAD if self._calls == 2 else 1):
            self._wanted.release()
        while True:
            try:
                block = self._fetched.get(timeout=POLL_SECONDS)
            except Empty:
                if cancelled():
                    return b""
                continue
            if not block or isinstance(block, BaseException):
                # Who asks again is told the same.
                self._fetched.put(block)
            if isinstance(block, BaseException):
                raise block
            return block

    def stop(self) -> None:
        """Fetch no more."""
        self._blocks.stopped.set()
        self._wanted.release()

    def _work(self) -> None:
        try:
            while self._wanted.acquire() and not self._blocks.stopped.is_set():
                block = self._blocks.next()
                self._fetched.put(block)
                if not block:
                    return
        except BaseException as error:
            self._fetched.put(error)
        finally:
            self._blocks.close()


class _Blocks:
    """The blocks of a file, one after the other; a request that fails is made again, for less."""

    def __init__(self, url: str, info: RemoteInfo, position: int) -> None:
        self.url, self.info, self.position = url, info, position
        self.stopped = Event()
        """Set once no more blocks are wanted."""
        self._system, self._path = file_system(url)
        self._file: Any = None
        self._is_stream = info.size is None or not info.takes_ranges
        self._max_bytes = BLOCK_BYTES
        self._is_first = True

    def next(self) -> bytes:
        """The next block, empty at the end.

        Raises: NotFound.
        """
        for pause in (*RETRY_SECONDS, None):
            try:
                data = self._stream() if self._is_stream else self._range()
            except Exception as error:
                self.close()
                # So fsspec says that the server sends all of a file, whatever is asked for.
                if isinstance(error, ValueError) and "range requests" in str(error):
                    self._is_stream = True
                    return self.next()
                if pause is None or not _may_pass(error):
                    raise NotFound(self._trouble(error, pause is None)) from None
                if self.stopped.wait(pause):
                    return b""
                self._require_same()
                self._max_bytes = max(self._max_bytes // 4, MIN_BLOCK_BYTES)
                continue
            self.position += len(data)
            self._is_first = False
            return data
        raise AssertionError("the last attempt returns or raises")

    def close(self) -> None:
        """End the request that runs."""
        file, self._file = self._file, None
        with suppress(Exception):
            if file is not None:
                file.close()

    def _range(self) -> bytes:
        """A block by its place in the file."""
        wanted = min(FIRST_BYTES if self._is_first else BLOCK_BYTES, self._max_bytes)
        end = min(self.position + wanted, self.info.size or 0)
        if end <= self.position:
            return b""
        if is_web_url(self.url):
            if self._file is None:
                # Given the size, it does not ask for that again.
                self._file = self._open(block_size=BLOCK_BYTES, cache_type="none", size=self.info.size)
            self._file.seek(self.position)
            data = self._file.read(end - self.position)
        else:
            data = self._system.cat_file(self._path, start=self.position, end=end)
        if not data:
            raise _BrokenOff
        return bytes(data)

    def _stream(self) -> bytes:
        """A block of what the server sends from the start of the file on."""
        if self._file is None:
            self._file = self._open(block_size=0)
            left = self.position
            while left and not self.stopped.is_set():
                passed = len(self._file.read(min(left, BLOCK_BYTES)))
                if not passed:
                    raise _BrokenOff
                left -= passed
        data = bytes(self._file.read(BLOCK_BYTES))
        if not data and self.info.size is not None and self.position < self.info.size:
            raise _BrokenOff
        return data

    def _open(self, **how: Any) -> Any:
        if is_web_url(self.url):
            # A server that packs what it sends has neither size nor ranges of that.
            how["headers"] = {**getattr(self._system, "kwargs", {}).get("headers", {}), "Accept-Encoding": "identity"}
        return self._system.open(self._path, "rb", **how)

    def _require_same(self) -> None:
        """Raises: NotFound where the file is another one by now."""
        try:
            now = remote_info(self.url)
        except NotFound:
            # The next attempt says why.
            return
        if now[:2] != self.info[:2]:
            raise NotFound(f"{self.url} was changed while it was read: read it again.")

    def _trouble(self, error: BaseException, was_tried: bool) -> str:
        of = "" if self.info.size is None else f" of {self.info.size:,}"
        at = f"broke off at byte {self.position:,}{of}" if self.position else "cannot be read"
        tries = f" It was tried {len(RETRY_SECONDS) + 1} times." if was_tried else ""
        return f"{self.url} {at}: {_cause(error)}.{tries}"


class _BrokenOff(Exception):
    """The server gave less than it had said."""


def file_system(url: str) -> tuple[Any, str]:
    """The file system of a URL as fsspec has it, and the path there.

    Raises: NotFound without fsspec, and where fsspec lacks what the URL needs.
    """
    full = full_url(url)
    if "::" in full.partition("://")[0]:
        raise NotFound(f"{url} names one file system within another: name the file itself.")
    try:
        # Only a URL needs it, and it may not be installed.
        import fsspec
    except ImportError:
        raise NotFound(f"{url} is a URL, and reading it needs fsspec: {INSTALL}.") from None
    try:
        system, path = fsspec.core.url_to_fs(full)
    except ImportError as error:
        how = f" {INSTALL} installs it." if is_web_url(url) else ""
        raise NotFound(f"{url} needs a package that is not installed: {_words(error)}.{how}") from None
    except Exception as error:
        raise NotFound(f"{url} cannot be read: {_cause(error)}.") from None
    return system, str(path)


def remote_info(url: str) -> RemoteInfo:
    """Facts about a file, asked of its file system now.

    Raises: NotFound.
    """
    system, path = file_system(url)
    try:
        system.invalidate_cache(path)
        info = _in_time(lambda: system.info(path))
    except Exception as error:
        raise NotFound(f"{url} cannot be read: {_cause(error)}.") from None
    if info.get("type") == "directory":
        raise NotFound(f"{url} is a folder; name a trace in it.")
    version = ", ".join(f"{key} {info[key]}" for key in _IDENTITY_KEYS if info.get(key))
    size = info.get("size")
    if isinstance(size, int):
        _sizes[url] = size
    return RemoteInfo(size if isinstance(size, int) else None, version, info.get("partial", True) is not False)


def remote_version(url: str) -> str:
    """Size and what changes with the content of a file, for caches; empty where nothing tells, or a query was cut."""
    if has_query(url):
        return ""
    try:
        info = remote_info(url)
    except NotFound:
        return ""
    return f"{info.size} {info.version}" if info.version else ""


def is_remote_folder(url: str) -> bool:
    """Tell whether a URL is that of a folder: of the web, where it ends with a slash.

    Raises: NotFound.
    """
    if is_web_url(url):
        return url.endswith("/")
    system, path = file_system(url)
    try:
        return bool(_in_time(lambda: system.isdir(path)))
    except Exception as error:
        raise NotFound(f"{url} cannot be read: {_cause(error)}.") from None


def walk_remote(url: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Each folder below a URL, as `os.walk` has them: its name, the names of folders in it, and the URLs of its files.

    Raises: NotFound.
    """
    system, root = file_system(url)
    root = root.rstrip("/")
    folders = [root]
    while folders:
        folder = folders.pop()
        try:
            # Of the web, a folder is what ends with a slash.
            listing = _in_time(partial(system.ls, folder + "/" if is_web_url(url) else folder, detail=True))
        except Exception as error:
            raise NotFound(f"{url} cannot be searched: {_cause(error)}.") from None
        names: dict[str, list[str]] = {"directory": [], "file": []}
        for each in listing:
            name = str(each["name"]).rstrip("/")
            # A page may lead anywhere.
            if name.startswith(f"{folder}/"):
                names["directory" if each["type"] == "directory" else "file"].append(name)
        yield folder[len(root) :], names["directory"], [url_below(url, name[len(root) :]) for name in names["file"]]
        folders += names["directory"]


def matching_urls(url: str) -> list[str]:
    """The URLs that a pattern matches.

    Raises: NotFound.
    """
    system, path = file_system(url)
    try:
        names = _in_time(lambda: system.glob(path))
        return sorted(public_url(str(system.unstrip_protocol(name))) for name in names)
    except Exception as error:
        raise NotFound(f"{url} cannot be searched: {_cause(error)}.") from None


def known_bytes(url: str) -> int:
    """The size of a file as it was told last, 0 where it was not."""
    return _sizes.get(url, 0)


def each_result(function: Callable[[str], Result], paths: Sequence[str]) -> Iterator[Result]:
    """The result of a function for each path; of URLs several at the same time, for each waits for its server."""
    if not any(map(is_url, paths)):
        yield from map(function, paths)
        return
    # Some milliseconds of import that files of this machine do without.
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(MAX_CONNECTIONS, "tracetui-urls")
    try:
        yield from pool.map(function, paths)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _in_time(ask: Callable[[], Result]) -> Result:
    """The answer of a server, asked in a thread that nobody waits for once it takes too long.

    Raises: TimeoutError, and what `ask` raises.
    """
    answers: Queue[tuple[Result | None, BaseException | None]] = Queue()

    def work() -> None:
        try:
            answers.put((ask(), None))
        except BaseException as error:
            answers.put((None, error))

    Thread(target=work, name="tracetui-ask", daemon=True).start()
    try:
        answer, error = answers.get(timeout=ANSWER_SECONDS)
    except Empty:
        raise TimeoutError from None
    if error is not None:
        raise error
    return cast(Result, answer)


def _may_pass(error: Exception) -> bool:
    """Tell whether the next attempt may succeed."""
    if _refused_redirect(error) or any(
        status in _FINAL_STATUS and status not in (408, 429) for status in _statuses(error)
    ):
        return False
    return not isinstance(error, _FINAL_ERRORS)


def _refused_redirect(error: BaseException) -> str:
    """The redirect that nobody follows, as the end of a sentence; empty for another error."""
    return next((reason for each in _chain(error) if (reason := _REFUSED_REDIRECTS.get(type(each).__name__))), "")


def _statuses(error: BaseException) -> list[int]:
    """The answers of a server that an error and its causes have."""
    return [status for each in _chain(error) if isinstance(status := getattr(each, "status", None), int)]


def _chain(error: BaseException) -> Iterator[BaseException]:
    each: BaseException | None = error
    while each is not None:
        yield each
        each = each.__cause__


def _cause(error: BaseException) -> str:
    """The reason of a failure, in words without an address."""
    if astray := _refused_redirect(error):
        return astray
    for status in _statuses(error):
        if status in _REFUSED:
            return f"there is no permission (HTTP {status})"
        if status in _GONE:
            return f"there is nothing at this address (HTTP {status})"
        return f"the server answered with HTTP {status}"
    first = list(_chain(error))[-1]
    if any(type(each).__name__ in _BREAKS for each in _chain(error)):
        return "the connection broke off"
    if isinstance(first, TimeoutError) or "Timeout" in type(first).__name__:
        return "the server did not answer in time"
    if isinstance(first, FileNotFoundError):
        return "there is nothing at this address"
    if isinstance(first, PermissionError):
        return "there is no permission"
    if isinstance(first, ConnectionError) or "Connector" in type(first).__name__:
        return f"there is no connection to the server ({_words(first)})"
    return _words(first)


def _words(error: BaseException) -> str:
    """The message of a library's error, without addresses and what looks like a secret."""
    text = " ".join(str(error).split()) or type(error).__name__
    return _SECRET.sub("...", _ADDRESS.sub("...", text))[:MAX_CAUSE_LETTERS].rstrip(".")
