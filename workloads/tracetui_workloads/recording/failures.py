"""Failures of a recording: a kind, a sentence, a hint, and the exit code of `tracetui run`.

kind                 code  what happened
usage                2     the workload, a parameter or the function does not exist or is invalid
missing:NAME         3     torch, triton, a C++ compiler or another module is not installed
device               3     the device does not exist, or torch has no code for it
unavailable          3     the workload has no implementation for this device
oom                  4     memory ran out, on the machine or on the GPU
killed               4     the system killed the child
crash                4     a signal ended the child, or it exited without an event that says why
compile              4     torch.compile failed
wrong-result         4     the result differs from eager mode's
no-kernels           4     the profiler recorded no GPU activity
incomplete           4     the trace lacks steps
destination          4     the trace could not be written
timeout              4     the recording took longer than allowed
rank                 4     another rank of the same recording failed
error                4     the workload raised another exception
cancelled            130   the recording was stopped on request
"""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass, replace

_EXIT_CODES = {"usage": 2, "missing": 3, "device": 3, "unavailable": 3, "cancelled": 130}
DEFAULT_EXIT_CODE = 4
"""Exit code of all other kinds."""

LOST_PIPE = 113
"""Exit code of a child whose workload closed the pipe of events."""

MAX_LOG_LINES = 20
"""Maximum lines of the child's output that are shown after a crash."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason why there is no trace."""

    kind: str
    message: str
    """One sentence: what happened and in which stage."""
    hint: str = ""
    """One sentence: what to do; empty where nothing is known."""
    details: str = ""
    """The traceback, or the last lines of the child's output."""
    stage: str = ""
    """The stage in which the failure happened."""

    @property
    def exit_code(self) -> int:
        """The exit code of `tracetui run`."""
        return _EXIT_CODES.get(self.kind.partition(":")[0], DEFAULT_EXIT_CODE)

    @property
    def is_shared(self) -> bool:
        """Whether another variant of the workload would fail in the same way, or must not be started."""
        return self.kind in ("usage", "missing:torch", "missing:python", "destination", "cancelled")

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


def cancelled(stage: str, details: str = "") -> Failure:
    """The failure of a recording that was cancelled; `details` are the traceback of where it was."""
    message = f"Cancelled while {stage_phrase(stage)}; nothing was written."
    return Failure("cancelled", message, details=details, stage=stage)


def timed_out(seconds: float, stage: str, log: str) -> Failure:
    """The failure of a recording that exceeded its time limit."""
    message = f"Stopped after {seconds:g} s, while {stage_phrase(stage)}."
    return Failure("timeout", message, "Allow more with --timeout.", last_lines(log), stage)


def of_rank(failure: Failure, rank: int, ranks: int) -> Failure:
    """The failure of a recording by several ranks; it names the rank where the others would not fail likewise."""
    is_of_all = failure.exit_code != DEFAULT_EXIT_CODE or failure.kind == "destination"
    return failure if is_of_all else replace(failure, message=f"Rank {rank} of {ranks}: {failure.message}")


def ranks_timed_out(seconds: float, stopped: Mapping[int, Failure], log: str) -> Failure:
    """The failure of ranks that exceeded their time limit, by that of each, which say where it was.

    The details are the tracebacks of ranks that could still tell: one that waits for others mostly cannot.
    """
    stages = {rank: stage_phrase(each.stage) for rank, each in stopped.items()}
    where = f"rank {', rank '.join(f'{rank} while {stage}' for rank, stage in stages.items())}"
    told = [f"rank {rank}:\n{each.details}" for rank, each in stopped.items() if each.details]
    is_same = len(set(stages.values())) == 1
    message = f"Stopped after {seconds:g} s{', while ' + next(iter(stages.values())) if is_same else ': ' + where}."
    hint = "Allow more with --timeout; --details shows where a rank was."
    return Failure("timeout", message, hint, "\n".join(told) or last_lines(log), next(iter(stopped.values())).stage)


def given_up(stage: str) -> Failure:
    """The failure of a rank that was killed because another one had failed."""
    return Failure("rank", f"Stopped while {stage_phrase(stage)}, because another rank failed.", stage=stage)


def no_python(python: str, reason: str) -> Failure:
    """The failure where the interpreter for the child cannot be started."""
    return Failure("usage", f"{python} cannot be started: {reason}.", "Choose a Python with --python.")


def not_started(python: str, code: int, log: str) -> Failure:
    """The failure where the interpreter started and the recorder in it did not."""
    tail = last_lines(log)
    reason = tail.splitlines()[-1] if tail else f"exit code {code}"
    message = f"{python} cannot run the recorder: {reason}."
    return Failure("missing:python", message, "It must be Python 3.11 or later; choose one with --python.", tail)


def failure_of_exit_code(code: int, stage: str, log: str) -> Failure:
    """The failure of a child that ended without a failure event, by its exit code; negative for a signal."""
    tail = last_lines(log)
    if code == -signal.SIGKILL:
        return Failure(
            "killed",
            f"The system killed the recording while {stage_phrase(stage)}, most likely because memory ran out.",
            "Try smaller inputs; `dmesg` says whether it was the out-of-memory killer.",
            tail,
            stage,
        )
    if code < 0:
        name = signal_name(-code)
        message = f"The recording crashed while {stage_phrase(stage)}: {name}."
        return Failure("crash", message, "Its last output shows where.", fatal_error(log) or tail, stage)
    if code == 130:
        return cancelled(stage)
    if code == LOST_PIPE:
        message = f"The workload closed files of the recorder while {stage_phrase(stage)}."
        hint = "A workload may close only files that it opened itself; os.closerange closes all."
        return Failure("crash", message, hint, tail, stage)
    message = f"The recording ended while {stage_phrase(stage)}, with exit code {code} and no error message."
    return Failure("crash", message, "Its last output may show why.", tail, stage)


def stage_phrase(stage: str) -> str:
    """A stage as the phrase that follows "while" in a sentence."""
    return "making the first call" if stage == "first call" else stage


def signal_name(number: int) -> str:
    """The name of a signal, for example `SIGSEGV`."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def last_lines(log: str, count: int = MAX_LOG_LINES) -> str:
    """The last lines of a log, without blank lines and escape sequences."""
    lines = [line for line in (plain(line) for line in log.splitlines()) if line.strip()]
    return "\n".join(lines[-count:])


def fatal_error(log: str) -> str:
    """The first lines of the stack that Python prints at a fatal signal, innermost call first; empty without one."""
    at = log.rfind("Fatal Python error")
    lines = [plain(line) for line in log[at:].splitlines() if line.strip()] if at >= 0 else []
    return "\n".join(lines[:MAX_LOG_LINES])


_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b.")


def plain(text: str) -> str:
    """One line of text without escape sequences and control characters."""
    return "".join(letter for letter in _ESCAPES.sub("", text).replace("\t", "    ") if letter.isprintable())
