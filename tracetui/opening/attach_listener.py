"""The socket on which processes ask for requests, for as long as somebody wants to attach.

Kineto sends to an abstract name or, where KINETO_IPC_SOCKET_DIR names a folder, to a file in it, and then nowhere else.
Anyone may send to an abstract name: what does not come from a process of the same user is ignored, as the system tells
whose a datagram is.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import socket
import stat
import struct
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType

from tracetui.errors import CannotRun
from tracetui.frozen import frozen
from tracetui.text import clean

# Processes of the user, as `/proc` describes them: what runs in them, their rank, and whether they can be asked.

SWITCH = "KINETO_USE_DAEMON"
"""The environment variable with which a process is started so that it asks for requests."""
SOCKET_FOLDER = "KINETO_IPC_SOCKET_DIR"
"""The environment variable that names a folder for the sockets; without it they have abstract names."""
TRACE_FOLDER = "KINETO_ONDEMAND_TRACE_DIR"
"""The environment variable that names the folder below which a process of torch 2.15 writes what it is asked for."""
DEFAULT_TRACE_FOLDER = "/tmp"
"""The folder where that variable is not set, whatever the user's folder of temporary files is."""

MAX_COMMAND_BYTES = 4096
"""Bytes of a command line that are read: it may hold megabytes."""
_RANK = re.compile(r"[0-9]{1,9}")
_PROC = Path("/proc")


@frozen(eq=True, slots=True)
class Job:
    """A process that runs PyTorch."""

    pid: int
    command: str
    """Its command line, harmless for a terminal."""
    rank: int | None = None
    """From its environment, as torchrun and others set it."""
    seconds: float = 0.0
    """Seconds since its start."""
    is_switched_on: bool = True
    """True where it was started so that it asks for requests."""
    is_elsewhere: bool = False
    """True where it sees other files, as in a container: what it writes is then not to be found here."""
    began: int = 0
    """Start of the process, in ticks since that of the machine, 0 where not known: its id may be another's by now."""
    trace_folder: str = DEFAULT_TRACE_FOLDER
    """The folder below which it may write, as its environment has it: what lies elsewhere Kineto puts into `/tmp`."""


def job_of(pid: int) -> Job | None:
    """A process by its id; None where it is gone or of somebody else."""
    folder = _PROC / str(pid)
    try:
        with folder.joinpath("cmdline").open("rb") as file:
            words = file.read(MAX_COMMAND_BYTES).decode("utf-8", "replace").rstrip("\0").split("\0")
        pairs = folder.joinpath("environ").read_bytes().decode("utf-8", "replace").split("\0")
        variables = {name: value for name, _, value in (pair.partition("=") for pair in pairs)}
        began = _began(folder)
        is_elsewhere = os.readlink(folder / "ns" / "mnt") != os.readlink(_PROC / "self" / "ns" / "mnt")
    except (OSError, ValueError):
        return None
    rank = variables.get("RANK", "")
    return Job(
        pid,
        clean(shlex.join(words)),
        int(rank) if _RANK.fullmatch(rank) else None,
        max(time.clock_gettime(time.CLOCK_BOOTTIME) - began / os.sysconf("SC_CLK_TCK"), 0.0),
        variables.get(SWITCH, "") not in ("", "0"),
        is_elsewhere,
        began,
        variables.get(TRACE_FOLDER) or DEFAULT_TRACE_FOLDER,
    )


def by_rank(jobs: Iterable[Job]) -> list[Job]:
    """Processes by rank and id, those without a rank first."""
    return sorted(jobs, key=lambda job: (-1 if job.rank is None else job.rank, job.pid))


def is_running(pid: int) -> bool:
    """True where there is such a process that has not ended."""
    try:
        status = (_PROC / str(pid) / "stat").read_text("utf-8", "replace")
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in ("Z", "X")


def still_runs(job: Job) -> bool:
    """True where a process has not ended: not where another one has its id by now."""
    try:
        return is_running(job.pid) and job.began in (0, _began(_PROC / str(job.pid)))
    except (OSError, ValueError):
        return False


def torch_jobs() -> list[Job]:
    """The user's processes that have PyTorch loaded, whether they can be asked or not; the oldest first."""
    jobs = [job for pid in _own_processes() if _has_torch(pid) and (job := job_of(pid)) is not None]
    return sorted(jobs, key=lambda job: -job.seconds)


def holder_of_socket(path: str) -> Job | None:
    """The process of the user that has a socket of this name open, an abstract name beginning with `@`."""
    try:
        lines = (_PROC / "net" / "unix").read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    # An abstract name may end in the NUL that belongs to it, which is written as another `@`.
    inodes = {
        f"socket:[{words[6]}]" for line in lines if len(words := line.split()) > 7 and words[7].rstrip("@") == path
    }
    for pid in _own_processes():
        try:
            opened = {os.readlink(each) for each in (_PROC / str(pid) / "fd").iterdir()}
        except OSError:
            continue
        if opened & inodes:
            return job_of(pid)
    return None


def _own_processes() -> Iterator[int]:
    """The ids of the user's processes but this one."""
    for folder in _PROC.iterdir():
        try:
            if folder.name.isdecimal() and folder.stat().st_uid == os.getuid() and int(folder.name) != os.getpid():
                yield int(folder.name)
        except OSError:
            continue


def _has_torch(pid: int) -> bool:
    try:
        return b"libtorch" in (_PROC / str(pid) / "maps").read_bytes()
    except OSError:
        return False


def _began(folder: Path) -> int:
    return int(folder.joinpath("stat").read_text("utf-8", "replace").rpartition(")")[2].split()[19])


# The datagrams between Kineto, the recorder inside a PyTorch process, and the program that asks it for traces.
#
# A process that was started with KINETO_USE_DAEMON=1 sends one about every five seconds and takes its answer for the
# configuration of a trace; an empty one means that none is wanted. It waits 50 ms for the answer and looks for it
# again with the next question. The structures are those of libkineto's `ipcfabric`, in the machine's byte order: a
# size, a type of 32 bytes, then the content. Nothing here opens a socket.

SERVER_NAME = "dynolog"
"""The name under which Kineto looks for the program that it asks."""
POLL_SECONDS = 5.0
"""Seconds between two questions of a process."""

_HEADER = struct.Struct("=Q32s")
_CONTENT = struct.Struct("=iiq")
"""Of a registration: GPU, process id, job id. Of a question: kinds of recordings, number of process ids, job id."""
_ACTIVITIES = 2
"""The bit of the kinds of recordings that stands for traces: it is missing while one is being taken."""
_MAX_ANCESTORS = 1024


@frozen(eq=True, slots=True)
class Registration:
    """A process with a GPU says that it is there."""

    pid: int
    """The process id as the process itself knows it, which another namespace numbers differently."""


@frozen(eq=True, slots=True)
class Question:
    """A process asks whether a trace of it is wanted."""

    pid: int
    """As in a registration."""
    is_free: bool
    """True where it could take one: false while it is taking a trace already."""


def read_datagram(data: bytes) -> Registration | Question | None:
    """The message of a process; None for bytes that are no such datagram."""
    if len(data) < _HEADER.size + _CONTENT.size:
        return None
    size, padded = _HEADER.unpack_from(data)
    content = data[_HEADER.size :]
    if size != len(content):
        return None
    first, second, _ = _CONTENT.unpack_from(content)
    match padded.partition(b"\0")[0]:
        case b"ctxt":
            return Registration(second)
        case b"req" if 0 < second <= _MAX_ANCESTORS and size == _CONTENT.size + 4 * second:
            # Its own process id stands before those of its ancestors.
            (pid,) = struct.unpack_from("=i", content, _CONTENT.size)
            return Question(pid, bool(first & _ACTIVITIES))
    return None


def answer_to(message: Registration | Question, configuration: str = "") -> bytes:
    """The datagram that answers: for a registration how many processes there are, else a configuration or nothing."""
    if isinstance(message, Registration):
        return _HEADER.pack(4, b"ctxt") + struct.pack("=i", 1)
    content = configuration.encode()
    return _HEADER.pack(len(content), b"req") + content


_ONE_AT_A_TIME = threading.Lock()
"""Held by a listener: of two in this process the second one waits until the first has closed."""
_MAX_BYTES = 65_536
_CREDENTIALS = struct.Struct("3i")
"""Process, user and group that sent a datagram."""


@frozen(eq=True, slots=True)
class Call:
    """A datagram of one of the user's processes."""

    pid: int
    """Whose it is, as this process numbers it; 0 where the process cannot be seen from here."""
    message: Registration | Question
    _answers_by: socket.socket
    _sender: bytes | str

    def answer(self, configuration: str = "") -> bool:
        """Send the answer; whether it could be sent, which it cannot where the process has ended."""
        try:
            self._answers_by.sendto(answer_to(self.message, configuration), self._sender)
        except OSError:
            return False
        return True


class Listener:
    """One socket, open from entering to leaving the context: the abstract one, or the one in a folder."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._cleanup = ExitStack()
        self._socket: socket.socket | None = None

    def __enter__(self) -> Listener:
        """Raises: CannotRun where this is no Linux, or another program answers already."""
        if not hasattr(socket, "SO_PASSCRED"):
            raise CannotRun("Attaching needs Linux: Kineto asks for requests nowhere else.")
        with ExitStack() as cleanup:
            cleanup.enter_context(_ONE_AT_A_TIME)
            self._socket = self._open(cleanup)
            self._cleanup = cleanup.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cleanup.close()

    def receive(self, seconds: float) -> Call | None:
        """The next datagram of a process of the user; None where none comes within some seconds, or one that is not."""
        assert self._socket is not None, "only within the context"
        self._socket.settimeout(max(seconds, 0.001))
        try:
            data, extra, _, sender = self._socket.recvmsg(_MAX_BYTES, socket.CMSG_SPACE(_CREDENTIALS.size))
        except OSError:
            return None
        for level, kind, content in extra:
            if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS and len(content) >= _CREDENTIALS.size:
                pid, user, _ = _CREDENTIALS.unpack_from(content)
                message = read_datagram(data) if user == os.getuid() else None
                if message is not None and sender:
                    return Call(pid, message, self._socket, sender)
        return None

    def _open(self, cleanup: ExitStack) -> socket.socket:
        """The socket, and what closes it again.

        Raises: CannotRun where another program has it, or the folder cannot be written.
        """
        path = None if self._folder is None else self._folder / SERVER_NAME
        opened = cleanup.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        # The kernel adds to every datagram who sent it.
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        try:
            if path is None:
                opened.bind(f"\0{SERVER_NAME}\0")
                return opened
            _remove_stale(path)
            opened.bind(str(path))
        except OSError as error:
            raise CannotRun(_why_not(f"@{SERVER_NAME}" if path is None else str(path), error)) from None
        cleanup.callback(_remove, path)
        os.chmod(path, 0o600)
        return opened


def socket_folder() -> Path | None:
    """The folder that this process's environment names for the sockets."""
    folder = os.environ.get(SOCKET_FOLDER, "")
    return Path(folder) if folder else None


def _why_not(name: str, error: OSError) -> str:
    """The error of a socket that could not be opened, with what to do."""
    if error.errno != errno.EADDRINUSE:
        return f"The socket {name} cannot be opened: {error.strerror}."
    with suppress(OSError):
        if not name.startswith("@") and not stat.S_ISSOCK(os.lstat(name).st_mode):
            return f"The socket {name} cannot be opened: something else has that name. Name another {SOCKET_FOLDER}."
    holder = holder_of_socket(name)
    whose = f"process {holder.pid} (`{holder.command}`)" if holder is not None else "a process of somebody else"
    return (
        f"Another program answers the processes that can be attached to: {whose} has the socket {name}. End it, or "
        f"start both the job and this command with {SOCKET_FOLDER} set to a folder of their own."
    )


def _remove_stale(path: Path) -> None:
    """Remove the file of a socket of the user's that nobody listens to any more; nothing else in that place."""
    with suppress(OSError):
        status = path.lstat()
        if not stat.S_ISSOCK(status.st_mode) or status.st_uid != os.getuid():
            return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
