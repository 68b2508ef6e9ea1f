"""The socket on which processes ask for requests, for as long as somebody wants to attach.

Kineto sends to an abstract name or, where KINETO_IPC_SOCKET_DIR names a folder, to a file in it, and then nowhere else.
Anyone may send to an abstract name: what does not come from a process of the same user is ignored, as the system tells
whose a datagram is.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
import struct
import threading
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from tracetui.errors import CannotRun
from tracetui.opening.datagrams import SERVER_NAME, Question, Registration, answer_to, read_datagram
from tracetui.opening.jobs import SOCKET_FOLDER, holder_of_socket

_ONE_AT_A_TIME = threading.Lock()
"""Held by a listener: of two in this process the second one waits until the first has closed."""
_MAX_BYTES = 65_536
_CREDENTIALS = struct.Struct("3i")
"""Process, user and group that sent a datagram."""


@dataclass(frozen=True, slots=True)
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
    named = os.environ.get(SOCKET_FOLDER, "")
    return Path(named) if named else None


def _why_not(name: str, error: OSError) -> str:
    """Why a socket could not be opened, and what to do."""
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
