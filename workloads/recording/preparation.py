"""What the recorder offers a `prepare` function: device, dtype, seed, and how to compile.

From the name in a request to something that can be prepared; in the child.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from workloads import registry
from workloads.api import BadRequest, Context, Prepared, Step, Value, Workload
from workloads.programs import user_function
from workloads.recording.options import DTYPES, Options
from workloads.recording.request import Request

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Found:
    """A workload with its parameters, ready to be prepared."""

    workload: Workload
    params: dict[str, Value]
    prepare: Callable[[Context], Prepared]


def resolve(request: Request) -> Found:
    """Find what a request names.

    Raises: BadRequest where it names nothing, or gives parameters that do not fit.
    """
    if not registry.is_function(request.workload):
        return _registered(registry.find(request.workload), request)
    target = user_function.load(request.workload)
    if isinstance(target, Workload):
        return _registered(target, request)
    if request.options.dtype and not user_function.is_factory(target):
        raise BadRequest(f"{request.workload} makes its own tensors, which --dtype cannot change.")
    workload = user_function.as_workload(request.workload)
    if isinstance(target, Prepared):
        if request.params:
            raise BadRequest(f"{request.workload} is prepared already and takes no parameters.")
        return Found(workload, {}, lambda _: target)
    params = user_function.arguments(target, request.params)
    label = user_function.label(request.workload)
    return Found(workload, params, partial(user_function.prepare, target, label, params))


def _registered(workload: Workload, request: Request) -> Found:
    params = workload.values(request.params)
    module, _, name = workload.prepare.partition(":")
    function: Any = getattr(import_module(module), name, None)
    if not callable(function):
        raise BadRequest(f"{workload.prepare}, which prepares {workload.name}, does not exist.")
    return Found(workload, params, lambda context: function(context, **params))


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
    """The data type with a name of `options.DTYPES`; torch's own choice without one."""
    import torch

    dtype: torch.dtype = getattr(torch, DTYPES[name]) if name else torch.get_default_dtype()
    return dtype


def prepare_environment() -> None:
    """Settings that torch reads when it is imported."""
    # The profiler's library reports its own comings and goings on standard error below this level.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    # Without it a trace does not name the kernels that torch.compile makes for the CPU.
    os.environ.setdefault("TORCHINDUCTOR_CPP_ENABLE_KERNEL_PROFILE", "1")
