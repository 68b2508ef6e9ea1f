"""A user's function as a workload: `path/to/file.py:fn`, `package.module:fn`; in the child.

The function is one step and is called repeatedly with the given parameters. A function whose return annotation is
`Prepared` prepares a step instead, and a `Workload` or `Prepared` object is used directly. The result is not compared
with eager mode's, because a training step gives a different result each time.
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

from tracetui_workloads.api import BadRequest, Context, Prepared, Value, Workload, converted

CONTEXT_NAMES = ("ctx", "context")
"""Names of the parameter through which a function that returns a `Prepared` receives the context."""


def is_path(module_name: str) -> bool:
    """True where the text before the last colon is the path of a file, and not the name of a module."""
    return module_name.endswith(".py") or os.sep in module_name or "/" in module_name


def label(name: str) -> str:
    """The annotation around each step, for example `train.step`; the dot keeps it apart from names of operators."""
    module_name, _, attribute = name.rpartition(":")
    module = Path(module_name).stem if is_path(module_name) else module_name.rpartition(".")[2]
    return f"{module}.{attribute}"


def load(name: str) -> object:
    """Import the module and return its attribute, which may contain dots.

    Raises: BadRequest that names what is missing; any exception of the module.
    """
    module_name, _, attribute = name.rpartition(":")
    if not module_name or not attribute:
        raise BadRequest(f"{name} is not of the form path/to/file.py:function or package.module:function.")
    module = _load_file(Path(module_name)) if is_path(module_name) else _load_module(module_name)
    target: object = module
    for part in attribute.split("."):
        if not hasattr(target, part):
            own = _own_names(module)
            has = f"it has {', '.join(own)}" if own else "it defines no function"
            raise BadRequest(f"{module_name} has no {attribute}; {has}.")
        target = getattr(target, part)
    if not callable(target) and not isinstance(target, Workload | Prepared):
        raise BadRequest(f"{name} is a {type(target).__name__}, and neither a function nor a Workload.")
    if kind := unsuitable_kind(target):
        raise BadRequest(
            f"{name} is {kind}: calling it runs nothing of it, and a step must be an ordinary function. Wrap it in one."
        )
    return target


def unsuitable_kind(target: object) -> str:
    """The kind of a function whose call only creates an object; empty for one that runs when it is called."""
    own_call = inspect.getattr_static(type(target), "__call__", None)
    for function in (target, own_call):
        if inspect.iscoroutinefunction(function):
            return "a coroutine function (async def)"
        if inspect.isgeneratorfunction(function):
            return "a generator function (it has a yield)"
        if inspect.isasyncgenfunction(function):
            return "an asynchronous generator function"
    return ""


def arguments(function: Any, given: Mapping[str, Value]) -> dict[str, Value]:
    """The parameters converted to the types of the function's annotations and defaults.

    Raises: BadRequest that shows the signature where the function does not accept them.
    """
    signature, hints = _signature(function)
    accepted = {
        name: parameter
        for name, parameter in signature.parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        and not (name in CONTEXT_NAMES and is_factory(function))
    }
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.parameters.values())
    described = f"{getattr(function, '__name__', 'it')}{signature}"
    values = {}
    for name, value in given.items():
        if name not in accepted and not takes_any:
            raise BadRequest(f"There is no parameter {name} in {described}.")
        values[name] = converted(value, _kind(accepted.get(name), hints), name)
    positional_only = [name for name, each in signature.parameters.items() if each.kind is each.POSITIONAL_ONLY]
    missing = [name for name, each in accepted.items() if each.default is each.empty and name not in values]
    if missing or positional_only:
        raise BadRequest(f"{described} requires {', '.join(missing + positional_only)}: give -p NAME=VALUE for each.")
    return values


def prepare(function: Any, name: str, params: Mapping[str, Value], context: Context) -> Prepared:
    """The step that calls the function, or that the function itself prepares."""
    if is_factory(function):
        own = {each: context for each in CONTEXT_NAMES if each in inspect.signature(function).parameters}
        prepared = function(**own, **params)
        if not isinstance(prepared, Prepared):
            returned = type(prepared).__name__
            raise BadRequest(f"{name} is annotated to return a Prepared, and returned a {returned}.")
        return prepared
    step = context.compile(function)
    # Tensors and modules among the globals of the function's file are usually its weights and inputs.
    file_globals = dict(getattr(inspect.unwrap(function), "__globals__", {}))
    return Prepared(step=lambda: step(**params), label=name, operands=file_globals)


def is_factory(function: Any) -> bool:
    """True where the return annotation says that the function prepares a step."""
    try:
        returns = inspect.signature(function).return_annotation
    except (ValueError, TypeError):
        return False
    return returns is Prepared or (isinstance(returns, str) and returns.rpartition(".")[2] == "Prepared")


def _load_file(path: Path) -> types.ModuleType:
    """Import a file under its own name, so that code under `if __name__ == "__main__"` does not run."""
    if not path.is_file():
        raise BadRequest(f"{path} does not exist.")
    sys.path.insert(0, str(path.resolve().parent))
    name = path.stem
    if name in sys.modules or name in sys.stdlib_module_names:
        # A file called `random.py` must not replace the standard library's.
        name = f"{name}_of_user"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BadRequest(f"{path} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _load_module(name: str) -> types.ModuleType:
    sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # Only a missing module NAME is an error of the command; a missing import inside it is reported as missing.
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise BadRequest(f"There is no module {name} in the current folder or installed.") from error
        raise


def _own_names(module: types.ModuleType) -> list[str]:
    """The names that the module itself defines and that can be recorded."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (isinstance(value, Workload | Prepared) or getattr(value, "__module__", None) == module.__name__)
        and (callable(value) or isinstance(value, Workload | Prepared))
    ]


def _signature(function: Any) -> tuple[inspect.Signature, dict[str, Any]]:
    """The signature, and the annotations as types where they can be resolved."""
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
    """The type of a parameter: of its annotation, else of its default, else text."""
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
