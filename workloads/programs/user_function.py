"""A function of one's own as a workload: `path/to/file.py:fn`, `package.module:fn`; in the child.

The function is one step, called again and again with the given parameters. A function whose return annotation is
`Prepared` prepares a step instead, and a `Workload` or `Prepared` object is used as such; nothing else is guessed.
What it computes is not compared with eager: a training step gives another result each time.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workloads.api import BadRequest, Context, Prepared, Value, Workload, converted

CONTEXT = ("ctx", "context")
"""Names under which a function that returns a `Prepared` receives the context."""


def is_path(place: str) -> bool:
    """Whether what stands before the last colon is a file rather than a module."""
    return place.endswith(".py") or os.sep in place or "/" in place


def as_workload(name: str) -> Workload:
    """The description of a function that has none of its own."""
    return Workload(name, "your own function", "workloads.programs.user_function:prepare", dtype="")


def label(name: str) -> str:
    """The annotation around each step, for example `train.step`: with a dot, so that it is no operator's name."""
    place, _, attribute = name.rpartition(":")
    module = Path(place).stem if is_path(place) else place.rpartition(".")[2]
    return f"{module}.{attribute}"


def load(name: str) -> object:
    """Import the module and find the attribute in it, dots allowed.

    Raises: BadRequest that names what is missing; whatever the module raises.
    """
    place, _, attribute = name.rpartition(":")
    if not place or not attribute:
        raise BadRequest(f"{name} is not of the form path/to/file.py:function or package.module:function.")
    module = _load_file(Path(place)) if is_path(place) else _load_module(place)
    found: object = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            own = _own_names(module)
            has = f"it has {', '.join(own)}" if own else "it defines no function"
            raise BadRequest(f"{place} has no {attribute}; {has}.")
        found = getattr(found, part)
    if not callable(found) and not isinstance(found, Workload | Prepared):
        raise BadRequest(f"{name} is a {type(found).__name__}, and neither a function nor a Workload.")
    return found


def arguments(function: Any, given: Mapping[str, Value]) -> dict[str, Value]:
    """The parameters as the function's annotations and defaults want them.

    Raises: BadRequest that shows the signature when they do not fit.
    """
    signature, hints = _signature(function)
    accepted = {
        name: parameter
        for name, parameter in signature.parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        and not (name in CONTEXT and is_factory(function))
    }
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.parameters.values())
    shown = f"{getattr(function, '__name__', 'it')}{signature}"
    values = {}
    for name, value in given.items():
        if name not in accepted and not takes_any:
            raise BadRequest(f"There is no parameter {name} in {shown}.")
        values[name] = converted(value, _kind(accepted.get(name), hints), name)
    positional_only = [name for name, each in signature.parameters.items() if each.kind is each.POSITIONAL_ONLY]
    missing = [name for name, each in accepted.items() if each.default is each.empty and name not in values]
    if missing or positional_only:
        raise BadRequest(f"{shown} wants {', '.join(missing + positional_only)}; give -p NAME=VALUE for each.")
    return values


def prepare(function: Any, name: str, params: Mapping[str, Value], context: Context) -> Prepared:
    """Make a step of the function, or let it make one."""
    if is_factory(function):
        own = {each: context for each in CONTEXT if each in inspect.signature(function).parameters}
        prepared = function(**own, **params)
        if not isinstance(prepared, Prepared):
            raise BadRequest(f"{name} says that it returns a Prepared, and returned a {type(prepared).__name__}.")
        return prepared
    step = context.compile(function)
    # What its module holds: tensors and modules among it are its weights and inputs, as a rule.
    held = dict(getattr(inspect.unwrap(function), "__globals__", {}))
    return Prepared(step=lambda: step(**params), label=name, operands=held)


def is_factory(function: Any) -> bool:
    """Whether the return annotation says that it prepares a step."""
    try:
        returns = inspect.signature(function).return_annotation
    except (ValueError, TypeError):
        return False
    return returns is Prepared or (isinstance(returns, str) and returns.rpartition(".")[2] == "Prepared")


def _load_file(path: Path) -> types.ModuleType:
    """Import a file under its own name, so that what it guards with `__main__` does not run."""
    if not path.is_file():
        raise BadRequest(f"{path} does not exist.")
    sys.path.insert(0, str(path.resolve().parent))
    name = path.stem
    if name in sys.modules or name in sys.stdlib_module_names:
        # A file called `random.py` must not take the place of the real one.
        name = f"{name}_of_user"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BadRequest(f"{path} is no Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _load_module(name: str) -> types.ModuleType:
    sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # Only the module itself is a mistake in the command; what it imports in vain is told as missing.
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise BadRequest(f"There is no module {name}, neither here nor installed.") from error
        raise


def _own_names(module: types.ModuleType) -> list[str]:
    """What the module itself defines and could be run."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (isinstance(value, Workload | Prepared) or getattr(value, "__module__", None) == module.__name__)
        and (callable(value) or isinstance(value, Workload | Prepared))
    ]


def _signature(function: Any) -> tuple[inspect.Signature, dict[str, Any]]:
    """The signature, and the annotations as types where they can be understood."""
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        raise BadRequest(f"The signature of {function!r} cannot be read; wrap it in a function.") from None
    try:
        hints = typing.get_type_hints(function)
    except (NameError, TypeError, AttributeError):
        hints = {}
    return signature, hints


def _kind(parameter: inspect.Parameter | None, hints: Mapping[str, Any]) -> type:
    """The type that a parameter's text is turned into: by annotation, else by default, else text."""
    if parameter is None:
        return str
    hint = hints.get(parameter.name)
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        hint = next((each for each in typing.get_args(hint) if each is not types.NoneType), None)
    if isinstance(hint, type):
        return hint
    if hint is None and parameter.default not in (parameter.empty, None):
        return type(parameter.default)
    return str
