"""Preparing a workload in the child: finding what a request names, and the context that `prepare` receives."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from tracetui_workloads import registry
from tracetui_workloads.api import BadRequest, Context, Prepared, Step, Value, Workload
from tracetui_workloads.programs import user_function
from tracetui_workloads.recording.options import DTYPES, Options
from tracetui_workloads.recording.request import Request

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class ResolvedWorkload:
    """A workload with its parameters, ready to be prepared."""

    workload: Workload
    params: dict[str, Value]
    prepare: Callable[[Context], Prepared]


def resolve(request: Request) -> ResolvedWorkload:
    """Find the workload or function that a request names.

    Raises: BadRequest where it does not exist or does not accept the parameters.
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
        return ResolvedWorkload(workload, {}, lambda _: target)
    params = user_function.arguments(target, request.params)
    label = user_function.label(request.workload)
    return ResolvedWorkload(workload, params, partial(user_function.prepare, target, label, params))


def _registered(workload: Workload, request: Request) -> ResolvedWorkload:
    params = workload.values(request.params)
    module, _, name = workload.prepare.partition(":")
    function: Any = getattr(import_module(module), name, None)
    if not callable(function):
        raise BadRequest(f"{workload.prepare}, which prepares {workload.name}, does not exist.")
    return ResolvedWorkload(workload, params, lambda context: function(context, **params))


@dataclass(slots=True)
class RunContext:
    """The `Context` of one recording, from its options."""

    device: str
    dtype: torch.dtype
    options: Options
    note: Callable[[str], None]
    rank: int = 0
    """The number of this process among the ranks of the recording."""
    ranks: int = 1
    """How many processes run the workload together."""
    has_compiled: bool = False
    """Whether the workload called `compile` with `--compile` given."""

    @property
    def seed(self) -> int:
        """The seed, with which torch was seeded before `prepare`."""
        return self.options.seed

    @property
    def compiled(self) -> bool:
        """Whether `--compile` was given."""
        return self.options.compile

    def compile(self, step: Step) -> Step:
        """The function compiled according to the options, or unchanged without `--compile`."""
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
    """The data type with a name of `options.DTYPES`; torch's default for an empty name."""
    import torch

    dtype: torch.dtype = getattr(torch, DTYPES[name]) if name else torch.get_default_dtype()
    return dtype


def prepare_environment() -> None:
    """Set environment variables that torch reads when it is imported."""
    # At lower levels the profiler's library logs its start and stop to standard error.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    # Without it a trace does not name the kernels that torch.compile generates for the CPU.
    os.environ.setdefault("TORCHINDUCTOR_CPP_ENABLE_KERNEL_PROFILE", "1")
