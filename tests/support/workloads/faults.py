"""Recordings with a fault in them: `tracetui run` in a session of its own, and afterwards a look at what is left.

Every process that came of a run is found by a word in its environment, whatever session or group it went to.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.paths import IMPORT_PATH
from tests.support.workloads.children import LIGHT_TORCH, QUICK

MARK = "TRACETUI_FAULT"
"""The variable by which the processes of one run are told from all others."""
COMMAND = (sys.executable, "-m", "tracetui", "run")
AT_ONCE = 2
"""Runs at the same time."""
LIMIT = 300.0
"""Seconds after which a run hangs; on a loaded machine torch alone takes long, and a run that passes never waits so."""


@dataclass
class Ended:
    """A run that is over, and what it left."""

    code: int
    stdout: str
    stderr: str
    seconds: float
    files: dict[str, bytes]
    """What lies in the folder of the trace, by path in it."""
    left: list[str]
    """Processes that are still there, by their command lines; they are killed afterwards."""

    @property
    def sentence(self) -> str:
        """The last line on standard error, without the name of the program."""
        lines = [line for line in self.stderr.splitlines() if line.startswith("tracetui: ")]
        return lines[-1].removeprefix("tracetui: ") if lines else ""

    def left_nothing(self) -> None:
        """Neither a process nor a file that is not a trace.

        Raises: AssertionError.
        """
        assert self.left == [], self
        assert not [name for name in self.files if "part" in name], self.files.keys()

    def failed(self, code: int, words: str) -> None:
        """It left nothing, no trace either, and said why in one sentence that steers no terminal.

        Raises: AssertionError.
        """
        self.left_nothing()
        assert self.code == code, self
        assert words in self.sentence, self
        assert self.files == {}, self.files.keys()
        self.spoke_cleanly()

    def spoke_cleanly(self) -> None:
        """Nothing that it printed steers a terminal, and no traceback was thrown at the user.

        Raises: AssertionError.
        """
        assert all(letter.isprintable() or letter == "\n" for letter in self.stdout + self.stderr), self
        assert "Traceback" not in self.stderr, self.stderr


@dataclass
class Run:
    """A command that records, and what became of it."""

    words: Sequence[str]
    folder: Path
    """Everything of this run: the command runs in `here`, and its trace goes to `out`."""
    environment: Mapping[str, str] = field(default_factory=dict)
    shell: str = ""
    """What a shell does before, for example a limit."""

    def __post_init__(self) -> None:
        for folder in (self.here, self.out):
            folder.mkdir(parents=True, exist_ok=True)
        self._mark = secrets.token_hex(8)
        environment = {**os.environ, **QUICK, "PYTHONPATH": IMPORT_PATH, **self.environment, MARK: self._mark}
        command: list[str] = [*COMMAND, *self.words]
        if self.shell:
            command = ["sh", "-c", f'{self.shell}\nexec "$@"', "sh", *command]
        self._started = time.monotonic()
        with self._log("stdout").open("wb") as stdout, self._log("stderr").open("wb") as stderr:
            # Into files: a pipe would be held open by whatever is left.
            self.process = subprocess.Popen(
                command,
                cwd=self.here,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )

    @property
    def here(self) -> Path:
        """The folder that the command runs in."""
        return self.folder / "here"

    @property
    def out(self) -> Path:
        """The folder that its trace goes to."""
        return self.folder / "out"

    def processes(self) -> dict[int, str]:
        """Its processes that live, with their command lines."""
        return {pid: words for pid in _pids() if (words := _command_line(pid, self._mark)) is not None}

    def wait_for(self, is_so: Callable[[], Any]) -> None:
        """Wait until something is so.

        Raises: AssertionError when it does not come to be, or the run ends before.
        """
        until = time.monotonic() + LIMIT
        while not is_so():
            assert self.process.poll() is None, self.ended()
            assert time.monotonic() < until, "it did not happen"
            # A look at all processes is not for nothing.
            time.sleep(0.03)

    def kill(self) -> None:
        """Kill the command alone, with no time for anything."""
        self.process.kill()
        self.process.wait()

    def ended(self, patience: float = 0.0) -> Ended:
        """Wait for the end, and for so many seconds until no process is left."""
        try:
            code = self.process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            code = -999
        seconds = time.monotonic() - self._started
        until = time.monotonic() + patience
        while (left := self.processes()) and time.monotonic() < until:
            time.sleep(0.02)
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        stdout, stderr = (self._log(name).read_bytes().decode(errors="replace") for name in ("stdout", "stderr"))
        return Ended(code, stdout, stderr, seconds, contents(self.out), list(left.values()))

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"


def own(folder: Path, source: str, *words: str, out: str = "../out/x.json", step: str = "step", **more: Any) -> Run:
    """A run of a function of one's own, in a folder of its own."""
    (folder / "here").mkdir(parents=True, exist_ok=True)
    (folder / "here" / "own.py").write_text(source)
    return Run((f"own.py:{step}", "--no-open", "--device", "cpu", "-o", out, *words), folder, **more)


def light(folder: Path, source: str, *words: str, **more: Any) -> Run:
    """The same with a torch that takes no time: where the fault is the function's, and torch has no part in it."""
    return own(folder, source, "--time-seconds", "0", *words, environment=LIGHT_TORCH, **more)


def all_of(runs: Mapping[str, Callable[[], Ended]]) -> dict[str, Ended]:
    """Several runs by name, a few at a time."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        ended = {name: pool.submit(run) for name, run in runs.items()}
        return {name: future.result() for name, future in ended.items()}


def contents(folder: Path) -> dict[str, bytes]:
    """The files below a folder, by path in it; without what Python keeps of a module, which it does or not."""
    if not folder.is_dir():
        return {}
    paths = [path for path in folder.rglob("*") if path.is_file() and path.parent.name != "__pycache__"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _command_line(pid: int, mark: str) -> str | None:
    """The command line of a process that lives and has the mark in its environment, None of any other."""
    try:
        if f"{MARK}={mark}".encode() not in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            return None
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX":
            return None
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return None
    return f"{pid}: {words[:200]}"
