"""A torch that computes nothing and is there at once, for tests of what surrounds a recording.

The import of the real one is most of what a recording costs. Where a test looks at processes, signals, files and what
is said of them, and its workload needs no numbers, this stands in for it; what torch itself does to a recording is
tested with the real one.
"""

from __future__ import annotations

from types import SimpleNamespace

from . import profiler

__version__ = "2.13.0+light"
version = SimpleNamespace(cuda=None, hip=None)
backends = SimpleNamespace(mps=None)
bfloat16, float16, float32 = "bfloat16", "float16", "float32"
strided = "strided"


class Tensor:
    """Numbers that nobody looks at."""

    layout = "none"

    def __add__(self, other: object) -> Tensor:
        """The same again."""
        profiler.note("aten::add")
        return self


class nn:
    """The types by which weights are known; nothing is one."""

    class Module:
        """A layer."""

    class Parameter:
        """A weight."""


class device:
    """The name of a device; only the CPU is there."""

    type = "cpu"

    def __init__(self, name: str) -> None:
        if name != "cpu":
            raise RuntimeError(name)


def ones(*_: int) -> Tensor:
    """A tensor."""
    return Tensor()


def manual_seed(seed: int) -> None:
    """Nothing is random here."""


def set_num_threads(count: int) -> None:
    """Set how many threads are used: there is only one."""


def get_num_threads() -> int:
    """One."""
    return 1


def get_default_dtype() -> str:
    """The name of a type."""
    return float32
