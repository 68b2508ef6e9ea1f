"""Processes that behave as Kineto does inside a job, in a folder of sockets of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.support import attached_job

Start = Callable[..., subprocess.Popen]


@contextmanager
def socket_folder() -> Iterator[str]:
    """A folder for sockets, whose paths may not be long."""
    with tempfile.TemporaryDirectory(prefix="att") as made:
        yield made


@contextmanager
def jobs_in(folder: str) -> Iterator[Start]:
    """A function that starts a process of some behaviour and returns it once it is there; all end with the context."""
    started = []

    def begin(behaviour: str = "writes", rank: int | None = None) -> subprocess.Popen:
        variables = {**os.environ, "KINETO_USE_DAEMON": "1"} | ({} if rank is None else {"RANK": str(rank)})
        command = [sys.executable, attached_job.__file__, folder, behaviour]
        job = subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True)
        started.append(job)
        assert job.stdout is not None and job.stdout.readline() == "ready\n"
        return job

    try:
        yield begin
    finally:
        for job in started:
            job.kill()
            job.wait()
            if job.stdout is not None:
                job.stdout.close()
