"""A Dask cluster that runs already, as the executor that reads the ranks of a run.

Nothing of the cluster is started, changed or ended: what was submitted is cancelled, and the connection closed. A file
whose worker dies is begun once more and no further, whatever number of attempts the scheduler allows.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tracetui.errors import ClusterUnusable, TraceError
from tracetui.files import absolute_path, is_url
from tracetui.frozen import frozen
from tracetui.opening.cache_folder import TraceIdentity, identity_of
from tracetui.opening.rank_reading import FileReading, SummaryWork, file_bytes

MAX_SENT_BYTES = 64 << 20
"""Maximum size of a file that is sent to workers which do not see it."""
MAX_NAMED_WORKERS = 3
"""Maximum workers that are named in a sentence."""
CONNECT_SECONDS = 10
"""Seconds after which a scheduler that does not answer is given up."""
_ADDRESS = re.compile(r"(\w+://)?\S+:\d+(/\S*)?")
INSTALL = "pip install distributed"
"""Command that installs the extra `cluster`, wherever tracetui itself was installed from."""


class WorkerFacts(NamedTuple):
    """Facts that a worker reports of itself."""

    version: str | None
    """Version of tracetui, None where it is not installed."""
    reading: str
    """Digest of the code that reads traces."""


@contextmanager
def dask_work(address: str, work: SummaryWork, tell: Callable[[str], None]) -> Iterator[SummaryWork]:
    """`work` as the workers of a cluster do it; `tell` hears a sentence where files have to be sent to them.

    Raises: ClusterUnusable without `distributed`, a scheduler, or workers of the same version.
    """
    client = _client(address)
    try:
        threads = _checked_threads(client, address)
        pool = partial(_pool, client, tell)
        yield work._replace(jobs=threads, new_pool=pool, is_elsewhere=True)
    finally:
        with suppress(Exception):
            client.close(timeout=CONNECT_SECONDS)


def _client(address: str) -> Any:
    try:
        # Only a cluster needs it, and it may not be installed.
        from distributed import Client
    except ImportError:
        raise ClusterUnusable(f"--dask needs the package distributed: {INSTALL}.") from None
    if not _ADDRESS.fullmatch(address):
        raise ClusterUnusable(f"{address} is no address of a Dask scheduler: write it as tcp://HOST:PORT.")
    try:
        return Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        reason = str(error).partition("\n")[0].rstrip(".") or type(error).__name__
        raise ClusterUnusable(f"There is no Dask scheduler to be reached at {address}: {reason}.") from None


def _checked_threads(client: Any, address: str) -> int:
    """The number of files that the cluster reads at a time.

    Raises: ClusterUnusable where there are no workers, or one has another version.
    """
    workers: Mapping[str, int] = client.nthreads()
    if not workers:
        raise ClusterUnusable(f"The Dask scheduler at {address} has no workers: start some and ask again.")
    answers = client.run(_facts_function(), on_error="return")
    here = WorkerFacts(*_facts_function()())
    trouble = {worker: difference for worker, facts in answers.items() if (difference := _difference(facts, here))}
    if trouble:
        raise ClusterUnusable(f"{_listed(trouble)}. All need tracetui {here.version}, as it is here.")
    return sum(workers.values())


def _facts_function() -> Callable[[], tuple[str | None, str]]:
    def facts() -> tuple[str | None, str]:
        # Sent as code, for a worker without tracetui has no such function.
        import sys

        try:
            from tracetui.opening.cache_folder import reading_version
        except ImportError:
            return None, ""
        # Not imported by name: beside its version the package has what records, which reading does without.
        return sys.modules["tracetui"].__version__, reading_version()

    return facts


def _difference(facts: object, here: WorkerFacts) -> str:
    """The part that a worker lacks, empty for none."""
    if not isinstance(facts, tuple):
        return f"does not answer ({type(facts).__name__})"
    version, reading = facts
    if version is None:
        return "has no tracetui"
    if version != here.version:
        return f"has tracetui {version}"
    return "" if reading == here.reading else f"has other code of tracetui {version}"


def _listed(trouble: Mapping[str, str]) -> str:
    sentences = [f"worker {worker} {reason}" for worker, reason in list(trouble.items())[:MAX_NAMED_WORKERS]]
    more = len(trouble) - len(sentences)
    text = "; ".join(sentences) + (f"; and {more} more" if more else "")
    return text[:1].upper() + text[1:]


@contextmanager
def _pool(client: Any, tell: Callable[[str], None], workers: int) -> Iterator[Executor]:
    pool = ClusterPool(client, tell)
    try:
        yield pool
    finally:
        pool.shutdown(wait=False)


class ClusterPool(Executor):
    """The cluster as an executor of calls whose one argument is a path; what its workers do not see is sent there."""

    def __init__(self, client: Any, tell: Callable[[str], None]) -> None:
        self._client, self._tell = client, tell
        self._executor = client.get_executor(pure=True)
        self._begun: list[str] = []
        """Names of the events that tell which calls began."""
        self._are_seen: bool | None = None
        """True where the workers see the files of this machine; None before one was looked for."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Have a worker call `fn(path)`.

        Raises: ClusterUnusable where the connection to the scheduler is lost.
        """
        (path,) = args
        if self._client.status != "running":
            raise ClusterUnusable("The connection to the Dask scheduler is lost: nothing more can be read there.")
        place, event = absolute_path(path), f"tracetui-{uuid.uuid4().hex}"
        self._begun.append(event)
        answer: Future[Any] = Future()
        if is_url(place) or self._workers_see(place):
            sent = None
            call = self._executor.submit(OnceBegun(fn, event), place)
        else:
            try:
                sent = _SentFile.of(place)
            except (OSError, TraceError) as error:
                answer.set_exception(error if isinstance(error, TraceError) else TraceError(f"{error.strerror}."))
                return answer
            with warnings.catch_warnings():
                # Which advises against what is meant here: to send data with a call.
                warnings.filterwarnings("ignore", "Sending large graph")
                call = self._executor.submit(OnceBegun(_SentCall(fn, os.path.basename(place)), event), sent.data)
        call.add_done_callback(partial(_pass_on, answer, sent))
        return answer

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Cancel what was submitted, and leave nothing with the scheduler."""
        with suppress(Exception):
            self._executor.shutdown(wait=wait)
        names, self._begun = self._begun, []
        if self._client.status == "running":
            # Installed, for there is a client.
            from distributed import Event

            with suppress(Exception):
                for name in names:
                    Event(name, client=self._client).clear()

    def _workers_see(self, path: str) -> bool:
        if self._are_seen is None:
            size = file_bytes(path)
            answers = self._client.run(file_bytes, path, on_error="return")
            blind = {worker: f"does not see {path}" for worker, remote_size in answers.items() if remote_size != size}
            self._are_seen = not blind
            if blind:
                self._tell(f"{_listed(blind)}: files are sent to the cluster.")
        return self._are_seen


@frozen(eq=True)
class OnceBegun:
    """A call that ends at once where it was begun before: the worker that did so has died."""

    function: Callable[[Any], Any]
    event: str
    """Name of the event that is set where the call has begun."""

    def __call__(self, argument: Any) -> Any:
        """Call the function.

        Raises: BrokenExecutor for a call that was begun before.
        """
        from distributed import Event

        begun = Event(self.event)
        if begun.is_set():
            raise BrokenExecutor("the worker that began to read this has died")
        begun.set()
        return self.function(argument)


class _SentFile(NamedTuple):
    """A file as it is sent to workers."""

    data: bytes
    identity: TraceIdentity | None
    digest: str

    @classmethod
    def of(cls, path: str) -> _SentFile:
        """The content of a file.

        Raises: TraceError for one that is too large to be sent, OSError.
        """
        if (size := file_bytes(path)) > MAX_SENT_BYTES:
            raise TraceError(
                f"the workers of the cluster do not see it, and {size >> 20} MiB are too much to be sent "
                f"(at most {MAX_SENT_BYTES >> 20}): put it where they see it."
            )
        before = identity_of(path)
        data = Path(path).read_bytes()
        digest = hashlib.blake2b(data, digest_size=16).hexdigest()
        return cls(data, before if identity_of(path) == before else None, digest)


@frozen(eq=True)
class _SentCall:
    """A call of a function of a path with the content of a file, which lies in a temporary folder meanwhile."""

    function: Callable[[str], FileReading]
    name: str

    def __call__(self, data: bytes) -> FileReading:
        with tempfile.TemporaryDirectory(prefix="tracetui-") as folder:
            path = Path(folder, self.name)
            path.write_bytes(data)
            function: Any = self.function
            # What a cache would have of the temporary file is of no use to anybody.
            return FileReading(replace(function, uses_cache=False)(str(path)).data)


def _pass_on(answer: Future[Any], sent: _SentFile | None, done: Future[Any]) -> None:
    """Give what a worker answered to the future of the caller; what the cluster lost is a broken executor."""
    if done.cancelled():
        answer.set_exception(BrokenExecutor("the cluster has cancelled it"))
        return
    error = done.exception()
    if error is None:
        reading = done.result()
        if sent is not None and isinstance(reading, FileReading):
            reading = reading._replace(identity=sent.identity, digest=sent.digest)
        answer.set_result(reading)
    elif isinstance(error, (TraceError, MemoryError, BrokenExecutor)):
        answer.set_exception(error)
    elif type(error).__name__ in {"KilledWorker", "CommClosedError", "FutureCancelledError", "CancelledError"}:
        answer.set_exception(BrokenExecutor(str(error)))
    else:
        answer.set_exception(TraceError(f"The worker failed: {type(error).__name__}: {error}."))
