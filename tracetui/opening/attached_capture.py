"""A trace of one or several processes that run: asked for, waited for, and put where it is wanted.

Kineto cannot be told to stop. What is given up before a process has asked is forgotten; afterwards the folder into
which it would write is removed, so that it writes nothing, and the process goes on as it does without anybody.
"""

from __future__ import annotations

import math
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import TracebackType

from tracetui.errors import CannotRun, UsageError
from tracetui.frozen import frozen
from tracetui.opening.attach_listener import POLL_SECONDS, TRACE_FOLDER, Call, Job, Listener, Question, still_runs

# What is asked of a process: for how long, with what, and where Kineto is to write it.

MAX_SECONDS = 600.0
"""Seconds beyond which a trace would be too large to be of use."""
WARMUP_SECONDS = 1
"""Seconds in which the recorder runs before the trace begins; Kineto alone would take five."""


@frozen(eq=True, slots=True)
class TraceRequest:
    """A trace of some seconds, or of some iterations where `iterations` is not 0."""

    seconds: float = 2.0
    iterations: int = 0
    """Calls of an optimizer's `step`, which is what PyTorch counts in a process that imported `torch.profiler`."""
    shapes: bool = False
    stack: bool = False
    memory: bool = False

    def __post_init__(self) -> None:
        """Raises: UsageError for a length that makes no trace."""
        if self.iterations < 0 or (not self.iterations and not 0 < self.seconds <= MAX_SECONDS):
            raise UsageError(f"A trace takes more than 0 and at most {MAX_SECONDS:g} seconds, or 1 iteration or more.")
        if math.isnan(self.seconds):
            raise UsageError("The seconds of a trace are a number.")

    def configuration(self, path: Path) -> str:
        """The lines that Kineto reads; it puts `_` and its process id before the suffix of the path.

        Options are given under their names of torch 2.1 and later, and under the ones before.
        """
        if self.iterations:
            length = [
                "PROFILE_START_ITERATION=0",
                "PROFILE_START_ITERATION_ROUNDUP=1",
                "ACTIVITIES_WARMUP_ITERATIONS=1",
                f"ACTIVITIES_ITERATIONS={self.iterations}",
                # Where no iterations are counted, newer versions take a trace of this length in their place: of half a
                # second unless told. Of 0 they take none, as older ones do.
                "ACTIVITIES_DURATION_MSECS=0",
            ]
        else:
            length = [
                "PROFILE_START_TIME=0",
                f"ACTIVITIES_WARMUP_PERIOD_SECS={WARMUP_SECONDS}",
                f"ACTIVITIES_DURATION_MSECS={max(round(1000 * self.seconds), 1)}",
            ]
        options = {
            "PROFILE_REPORT_INPUT_SHAPES": self.shapes,
            "PROFILE_WITH_STACK": self.stack,
            "PROFILE_PROFILE_MEMORY": self.memory,
        }
        return "\n".join(
            [
                f"ACTIVITIES_LOG_FILE={path}",
                *length,
                *(f"{name}={'true' if is_on else 'false'}" for name, is_on in options.items()),
                "",
            ]
        )

    @property
    def words(self) -> str:
        """For example `2 s` or `3 iterations`."""
        if self.iterations:
            return f"{self.iterations} iteration{'' if self.iterations == 1 else 's'}"
        return f"{self.seconds:g} s"


LONE_QUESTIONS = 3
"""Questions of a process that is free again and has written nothing, after which it did not take the request."""
REFUSAL_SECONDS = 5.0
"""Seconds within which a process may take the request: on a busy machine it starts late."""
STACK_SECONDS = 15.0
"""Seconds that a process must have run before its Python stack is asked for: while it starts, that can end it."""
TURN_SECONDS = 0.25
"""Seconds to wait for a process that asks, between two looks at what was written."""
NO_ALLOCATIONS = (
    "it has no allocations, although they were asked for: no torch up to 2.15 records them on request, "
    "`tracetui.record` in the code of the job does"
)
_ALLOCATION = b'"[memory]"'
"""The name of an allocation in a trace."""
_BLOCK = 1 << 20
_TAIL_BYTES = 64


class State(Enum):
    """The state of the trace of a process; the value is what a person reads."""

    WAITING = "waiting until it asks"
    ASKED = "recording"
    DONE = "done"
    FAILED = "failed"


@dataclass(slots=True)
class Target:
    """A process, and how far its trace is."""

    job: Job
    state: State = State.WAITING
    why: str = ""
    """The error, empty where there is none."""
    folder: Path | None = None
    """The folder in which it was asked to write."""
    file: Path | None = None
    """The file that it wrote."""
    lacks: str = ""
    """A part of the request that is not in the file."""
    asked_at: float = 0.0
    lone_questions: int = 0
    sizes: dict[Path, int] = field(default_factory=dict)
    """Sizes of its files at the last look, to tell a finished one where no name does."""

    @property
    def is_over(self) -> bool:
        """True where nothing more will happen."""
        return self.state in (State.DONE, State.FAILED)


class Capture:
    """One request to some processes; the caller hands in what they say, and looks now and then."""

    def __init__(
        self,
        jobs: list[Job],
        request: TraceRequest,
        folder_of: Callable[[Job], Path],
        timeout: float,
        clock: Callable[[], float] = time.monotonic,
        runs: Callable[[Job], bool] = still_runs,
    ) -> None:
        self.request = request
        self._folder_of, self._clock, self._runs = folder_of, clock, runs
        self._began, self._timeout = clock(), timeout
        self.targets: Mapping[int, Target] = {job.pid: Target(job) for job in jobs}
        """By process id, in the order in which they were named."""
        for target in self.targets.values():
            if target.job.is_elsewhere:
                _fail(target, "it sees other files, as in a container: attach from inside of it")

    @property
    def is_over(self) -> bool:
        """True where nothing more will happen to any of them."""
        return all(target.is_over for target in self.targets.values())

    @property
    def words(self) -> str:
        """The number of processes in each state, in words."""
        states = [target.state.value for target in self.targets.values()]
        counted = [f"{states.count(state)} {state}" if len(states) > 1 else state for state in dict.fromkeys(states)]
        return ", ".join(counted)

    def turn(self, listener: Listener) -> None:
        """Answer a process that asks, or wait a moment for one, and see what has been written."""
        call = listener.receive(TURN_SECONDS)
        if call is not None:
            self.hear(call)
        self.look()

    def hear(self, call: Call) -> None:
        """Answer a process: with the request where it is one that was chosen and has not had it yet."""
        target = self.targets.get(call.pid)
        # One that asks under the id of a process that has ended was not chosen.
        is_chosen = target is not None and not target.is_over and self._runs(target.job)
        if target is None or not isinstance(call.message, Question) or not is_chosen:
            call.answer()
            return
        if target.state is State.ASKED:
            call.answer()
            # The trace is on its way while it is not free; free again, without a file, it has not taken the request.
            target.lone_questions = target.lone_questions + 1 if call.message.is_free else 0
            return
        if not call.message.is_free or self._is_too_young(target):
            call.answer()
            return
        try:
            target.folder = self._folder_of(target.job) / str(call.pid)
            target.folder.mkdir(mode=0o700, exist_ok=True)
        except CannotRun as error:
            call.answer()
            _fail(target, str(error))
            return
        if call.answer(self.request.configuration(target.folder / "trace.json")):
            target.state, target.asked_at = State.ASKED, self._clock()

    def look(self) -> None:
        """See which processes have written their trace, have ended, or have had time enough."""
        for target in self.targets.values():
            if target.is_over:
                continue
            # Asked before the folder is read: what it wrote last is there when it has ended.
            is_alive = self._runs(target.job)
            finished = None if target.folder is None else _finished_file(target.folder, target.sizes)
            if finished is not None:
                target.state, target.file = State.DONE, finished
                if self.request.memory and not _has_allocations(finished):
                    target.lacks = NO_ALLOCATIONS
            elif not is_alive:
                _fail(target, "it has ended")
            elif target.lone_questions >= LONE_QUESTIONS and self._clock() >= target.asked_at + REFUSAL_SECONDS:
                _fail(target, self._refused())
            elif self._clock() > self._began + self._timeout:
                _fail(target, self._too_late(target))

    def _is_too_young(self, target: Target) -> bool:
        """True where a process must run on before its stack is asked for; its next question is some seconds away."""
        return self.request.stack and target.job.seconds + self._clock() - self._began < STACK_SECONDS

    def _refused(self) -> str:
        if self.request.iterations:
            return (
                "it counts no iterations: PyTorch counts calls of an optimizer's step in a program that imports "
                "torch.profiler. Ask for seconds instead"
            )
        return "it did not take the request, perhaps because a profiler of its own is running"

    def _too_late(self, target: Target) -> str:
        if target.state is State.WAITING:
            return f"it has not asked for {self._timeout:g} s: was it started with KINETO_USE_DAEMON=1?"
        return f"it has written nothing for {self._timeout:g} s"


class PrivateFolders:
    """Folders of the user alone for what processes write; they go with the context, with whatever is in them.

    Each is below the folder in which a process may write, and is made once such a process asks.
    """

    def __init__(self) -> None:
        self._folders: dict[str, Path] = {}
        self._cleanup = ExitStack()

    def __enter__(self) -> PrivateFolders:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cleanup.close()

    def of(self, job: Job) -> Path:
        """The one for a process, made where there is none yet.

        Raises: CannotRun where the process may write nowhere, or nothing can be made there.
        """
        below = job.trace_folder
        if below not in self._folders:
            # Kineto compares paths as they are written, and takes none with two dots in it.
            if not os.path.isabs(below) or ".." in below or os.path.normpath(below) != (below.rstrip("/") or "/"):
                raise CannotRun(f"its {TRACE_FOLDER}={below} is no absolute path, or has .., // or /./ in it")
            try:
                folder = tempfile.mkdtemp(prefix="tracetui-attach-", dir=below)
            except OSError as error:
                raise CannotRun(f"no folder can be made in {below}, where it would write: {error.strerror}") from None
            self._cleanup.callback(shutil.rmtree, folder, ignore_errors=True)
            self._folders[below] = Path(folder)
        return self._folders[below]


def least_timeout(request: TraceRequest) -> float:
    """Seconds after which a process that can be asked has surely written a trace of this length."""
    length = 60.0 if request.iterations else request.seconds
    waiting = STACK_SECONDS if request.stack else 0.0
    return 60.0 + 4 * POLL_SECONDS + WARMUP_SECONDS + waiting + 3 * length


def _fail(target: Target, why: str) -> None:
    target.state, target.why = State.FAILED, why


def _finished_file(folder: Path, sizes: dict[Path, int]) -> Path | None:
    """The trace that Kineto has finished, None while there is none.

    Newer versions write to another name and rename; of older ones a file is finished when it ends as one and has not
    grown since the last look.
    """
    with suppress(OSError):
        for path in sorted(folder.iterdir()):
            status = path.lstat()
            size = status.st_size
            # What leads elsewhere, or waits for a writer, is no trace of Kineto's.
            if not stat.S_ISREG(status.st_mode):
                continue
            if not path.name.endswith(".tmp") and sizes.get(path) == size and _ends_as_trace(path, size):
                return path
            sizes[path] = size
    return None


def _has_allocations(path: Path) -> bool:
    """True where an allocation is among the events of a file."""
    before = b""
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            if _ALLOCATION in before + block:
                return True
            before = block[-len(_ALLOCATION) :]
    return False


def _ends_as_trace(path: Path, size: int) -> bool:
    with path.open("rb") as file:
        file.seek(max(size - _TAIL_BYTES, 0), os.SEEK_SET)
        return file.read().rstrip().endswith((b"}", b"]"))
