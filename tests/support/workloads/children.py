"""Recordings for tests: small, on one thread, with what they leave behind looked for."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tracetui_workloads.recording.launcher import Event, Hello, Options, Outcome, Request, record
from tracetui_workloads.recording.protocol import DEFAULTS

from tests.support.paths import IMPORT_PATH

QUICK = {"OMP_NUM_THREADS": "1"}

LIGHT_TORCH = {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent / "light"), IMPORT_PATH])}
"""An environment with a torch that takes no time, for a recording of which no numbers are needed."""

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="recording needs torch")
"""Unlike `importorskip`, it imports nothing into the process of the tests."""

AT_ONCE = 2
"""Recordings that run at the same time."""


@dataclass
class Story:
    """A recording that is over: what was said and what became of it."""

    outcome: Outcome
    events: list[Event] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """Why it failed."""
        assert self.outcome.failure, self.outcome
        return self.outcome.failure.kind

    @property
    def has_begun(self) -> bool:
        """Whether the child came to say anything."""
        return any(isinstance(event, Hello) for event in self.events)

    @property
    def pid(self) -> int:
        """The child's process."""
        return next(event.pid for event in self.events if isinstance(event, Hello))


async def followed(request: Request, *, environment: Mapping[str, str] | None = None, **more: Any) -> Story:
    """Make a recording and keep what was said; without times unless it asks for more than is usual."""
    events: list[Event] = []
    if request.options.time_seconds == DEFAULTS["time_seconds"]:
        request = replace(request, options=replace(request.options, time_seconds=0))
    outcome = await record(request, events.append, environment={**QUICK, **(environment or {})}, **more)
    return Story(outcome, events)


async def all_of(requests: Mapping[str, Request], environments: Mapping[str, Mapping[str, str]]) -> dict[str, Story]:
    """Make several recordings, a few at a time."""
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(name: str) -> Story:
        async with turn:
            return await followed(requests[name], environment=environments.get(name))

    stories = await asyncio.gather(*map(one, requests))
    return dict(zip(requests, stories, strict=True))


def events_of(path: Path) -> list[dict[str, Any]]:
    """The events of a trace."""
    return content_of(path)["traceEvents"]


def content_of(path: Path) -> dict[str, Any]:
    """A trace as it stands in the file."""
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)


def ops_per_step(path: Path, active: int = 3) -> dict[str, float]:
    """CPU operators per step, by name."""
    names = [event["name"] for event in events_of(path) if event.get("cat") == "cpu_op"]
    return {name: names.count(name) / active for name in names}


def is_gone(group: int) -> bool:
    """Whether no process of a group is left; one that is dead and that nobody has waited for does not count."""
    if not Path("/proc/self/stat").exists():
        try:
            os.killpg(group, 0)
        except (ProcessLookupError, PermissionError):
            return True
        return False
    return not any(_group_and_state(path) == (group, True) for path in Path("/proc").glob("[0-9]*/stat"))


def _group_and_state(path: Path) -> tuple[int, bool]:
    """The group of a process, and whether it lives."""
    try:
        state, _, group = path.read_text().rpartition(")")[2].split()[:3]
    except OSError:
        return 0, False
    return int(group), state not in "ZX"


def own_function(path: Path, source: str, name: str = "step") -> str:
    """A file with a function of one's own, as `tracetui run` takes it."""
    path.write_text(source)
    return f"{path}:{name}"


def asked(workload: str, out: Path, **options: Any) -> Request:
    """A request without parameters."""
    return Request(workload, str(out), options=Options(**options))


COMMAND = [sys.executable, "-m", "tracetui"]


ENVIRONMENT = {**os.environ, **QUICK, "PYTHONPATH": IMPORT_PATH}
