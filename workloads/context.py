"""What the recorder offers a `prepare` function: device, dtype, seed, and how to compile."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from workloads.api import Step
from workloads.request import DTYPES, Options

if TYPE_CHECKING:
    import torch


@dataclass(slots=True)
class RunContext:
    """A `Context` by the options of one recording."""

    device: str
    dtype: torch.dtype
    options: Options
    note: Callable[[str], None]
    has_compiled: bool = False
    """Whether the workload asked for anything to be compiled."""

    @property
    def seed(self) -> int:
        """The seed, with which torch was seeded before `prepare`."""
        return self.options.seed

    @property
    def compiled(self) -> bool:
        """Whether `--compile` was given."""
        return self.options.compile

    def compile(self, step: Step) -> Step:
        """The function compiled as the options say, or unchanged."""
        if not self.options.compile:
            return step
        import torch

        self.has_compiled = True
        settings: dict[str, Any] = {"backend": self.options.backend}
        if self.options.backend == "inductor":
            settings["mode"] = self.options.mode
        compiled: Any = torch.compile(step, **settings)
        return cast(Step, compiled)


def dtype_of(name: str) -> torch.dtype:
    """The data type with a name of `request.DTYPES`; torch's own choice without one."""
    import torch

    dtype: torch.dtype = getattr(torch, DTYPES[name]) if name else torch.get_default_dtype()
    return dtype


def prepare_environment() -> None:
    """Settings that torch reads when it is imported."""
    # The profiler's library reports its own comings and goings on standard error below this level.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    # Without it a trace does not name the kernels that torch.compile makes for the CPU.
    os.environ.setdefault("TORCHINDUCTOR_CPP_ENABLE_KERNEL_PROFILE", "1")
