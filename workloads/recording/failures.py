"""What can go wrong in a recording: a kind, a sentence, a hint, and the exit code of `tracetui run`.

kind                 code  what happened
usage                2     the workload, a parameter or the function cannot be understood
missing:NAME         3     torch, triton, a C++ compiler or another module is not there
device               3     the device is absent, or torch has no code for it
unavailable          3     the workload has no implementation for this device
oom                  4     memory ran out, on the machine or on the GPU
killed               4     the system killed the child
crash                4     the child died of a signal, or left without a word
compile              4     torch.compile failed
wrong-result         4     the result differs from eager
no-kernels           4     the GPU ran nothing that the profiler saw
incomplete           4     the trace lacks steps
destination          4     the trace could not be written
timeout              4     it took longer than allowed
error                4     the workload raised something else
cancelled            130   someone asked it to stop
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass

_CODES = {"usage": 2, "missing": 3, "device": 3, "unavailable": 3, "cancelled": 130}
FAILED = 4

LOST_PIPE = 113
"""Exit code of a child whose workload closed the pipe on which it says how it goes."""

LOG_LINES = 20
"""Lines of the child's output that are shown after a crash."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no trace."""

    kind: str
    message: str
    """One sentence, what happened and where."""
    hint: str = ""
    """One sentence, what to do; empty where nothing is known."""
    details: str = ""
    """The traceback or the last lines of the log, for who wants to read on."""
    stage: str = ""
    """The stage in which it happened."""

    @property
    def exit_code(self) -> int:
        """The exit code of `tracetui run`."""
        return _CODES.get(self.kind.partition(":")[0], FAILED)

    @property
    def is_shared(self) -> bool:
        """Whether another variant of the workload would fail in the same way, or was not to be begun."""
        return self.kind in ("usage", "missing:torch", "missing:python", "destination", "cancelled")

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


def cancelled(stage: str) -> Failure:
    """The user asked for it."""
    return Failure("cancelled", f"Cancelled while {doing(stage)}; nothing was written.", stage=stage)


def timed_out(seconds: float, stage: str, log: str) -> Failure:
    """The time allowed is over."""
    message = f"Stopped after {seconds:g} s, while {doing(stage)}."
    return Failure("timeout", message, "Allow more with --timeout.", last_lines(log), stage)


def no_python(python: str, reason: str) -> Failure:
    """The interpreter for the child cannot be started."""
    return Failure("usage", f"{python} cannot be started: {reason}.", "Name a Python with --python.")


def not_started(python: str, code: int, log: str) -> Failure:
    """The interpreter started and the recorder in it did not."""
    tail = last_lines(log)
    words = tail.splitlines()[-1] if tail else f"exit code {code}"
    message = f"{python} cannot run the recorder: {words}."
    return Failure("missing:python", message, "It must be Python 3.11 or later; name one with --python.", tail)


def of_exit(code: int, stage: str, log: str) -> Failure:
    """A child that ended without saying why, by its return code; negative is a signal."""
    tail = last_lines(log)
    if code == -signal.SIGKILL:
        return Failure(
            "killed",
            f"The system killed the recording while {doing(stage)}, most likely because memory ran out.",
            "Try smaller inputs; `dmesg` says whether it was the out-of-memory killer.",
            tail,
            stage,
        )
    if code < 0:
        name = signal_name(-code)
        message = f"The recording crashed while {doing(stage)}: {name}."
        return Failure("crash", message, "Its last output says where.", fatal_error(log) or tail, stage)
    if code == 130:
        return cancelled(stage)
    if code == LOST_PIPE:
        message = f"The workload closed files of the recorder while {doing(stage)}."
        hint = "It may close only what it has opened, which os.closerange does not ask."
        return Failure("crash", message, hint, tail, stage)
    message = f"The recording ended while {doing(stage)}, with exit code {code} and no word of why."
    return Failure("crash", message, "Its last output may say more.", tail, stage)


def doing(stage: str) -> str:
    """A stage as the end of a sentence that says while."""
    return "making the first call" if stage == "first call" else stage


def signal_name(number: int) -> str:
    """The name of a signal, for example `SIGSEGV`."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def last_lines(log: str, count: int = LOG_LINES) -> str:
    """The last lines of a log, without empty ones and without what steers a terminal."""
    lines = [line for line in (plain(line) for line in log.splitlines()) if line.strip()]
    return "\n".join(lines[-count:])


def fatal_error(log: str) -> str:
    """The first lines of the stack that Python prints when a signal kills it, innermost call first; empty without."""
    at = log.rfind("Fatal Python error")
    lines = [plain(line) for line in log[at:].splitlines() if line.strip()] if at >= 0 else []
    return "\n".join(lines[:LOG_LINES])


_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b.")


def plain(text: str) -> str:
    """One line of text without escape sequences and control characters."""
    return "".join(letter for letter in _ESCAPES.sub("", text).replace("\t", "    ") if letter.isprintable())
