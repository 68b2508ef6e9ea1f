"""From the name in a request to something that can be prepared; in the child."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

from workloads import registry, user_function
from workloads.api import BadRequest, Context, Prepared, Value, Workload
from workloads.request import Request


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
