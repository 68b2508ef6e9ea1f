"""From words and values to requests: one recording by `plan`, or the variants of a workload by `plan_variants`.

Variants are recordings worth comparing. `eager` and `compile` exist for everything, a workload names further ones, a
function of one's own has the other functions of its file, and `NAME=VALUE` is a parameter or an option that differs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as changed
from pathlib import Path
from typing import Any

from workloads import registry
from workloads.api import BadRequest, Value, converted
from workloads.programs.user_function import label
from workloads.recording import trace_file
from workloads.recording.options import DEFAULTS, OPTIONS, Options
from workloads.recording.request import Request, file_name, tag

EVERYWHERE: Mapping[str, Mapping[str, Any]] = {"eager": {"compile": False}, "compile": {"compile": True}}
"""Variants of everything that can be recorded."""
COMPARED: Mapping[str, Any] = {**DEFAULTS, "active": 10}
"""The defaults for variants: of so many steps the quartiles tell noise from a difference."""
HOW_TO_COMPILE = ("mode", "backend")
"""Options that only what is compiled has."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One of several recordings that are made to be compared."""

    name: str
    """What it is called on the command line and in the name of its file."""
    workload: str
    """What is recorded, which may be another workload that computes the same."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Options and parameters that differ from what was asked for."""


def plan(
    name: str,
    given: Mapping[str, Value],
    options: Options,
    out: str | os.PathLike[str] | None = None,
    argv: Sequence[str] = (),
    table: bool = False,
    replace: bool = False,
) -> Request:
    """The request for a workload by name with some of its parameters.

    Without `out` the trace goes to `traces/NAME/TAG.json.gz`, for a folder into it as `NAME_TAG.json.gz`; such a name
    gets a number where it is taken, unless files are to be replaced.

    Raises: BadRequest for a workload, parameter or value that does not exist. Those of a user's function are known
    to the child alone, and fail there.
    """
    name, params, dtype = _settled(name, given, options)
    path = _path(_title(name), tag(params, options, dtype), out, replace, table)
    return Request(name, str(path), params, options, tuple(argv), table, replace=replace)


def variants_of(name: str) -> dict[str, Mapping[str, Any]]:
    """The variants that have a name, with what differs in each; `workload` is another one that computes the same.

    Raises: BadRequest for a workload that does not exist.
    """
    own = () if registry.is_function(name) else registry.find(name).variants
    return {**EVERYWHERE, **{word: changes for word, changes in own if word not in EVERYWHERE}}


def plan_variants(
    name: str,
    words: Sequence[str],
    given: Mapping[str, Value],
    options: Mapping[str, Any],
    out: str | os.PathLike[str] | None = None,
    argv: Sequence[str] = (),
    table: bool = False,
    replace: bool = False,
) -> list[Request]:
    """The requests for several variants of a workload, which share what was given; each file's name tells its variant.

    `options` has those of `Options` that are given, by name. Those that say how to compile are for the variants that
    compile.

    Raises: BadRequest for a variant that does not exist, fewer than two, the same twice, a variant that sets what was
    given, or a place that is a file.
    """
    variants = [_variant(name, word) for word in words]
    if len(variants) < 2:
        raise BadRequest(f"--compare wants two variants or more, separated by commas: {_offer(name)}.")
    _require_folder(out)
    requests = [_request(name, each, given, options, out, variants) for each in variants]
    _require_different(variants, requests)
    return [_settled_path(each, argv, table, replace) for each in requests]


def _settled_path(request: Request, argv: Sequence[str], table: bool, replace: bool) -> Request:
    """The request with a name that is free, and what all variants share."""
    out = request.out if replace else str(trace_file.free_path(Path(request.out), table))
    return changed(request, out=out, argv=tuple(argv), table=table, replace=replace)


def _variant(name: str, word: str) -> Variant:
    """The variant that a word means."""
    known = variants_of(name)
    if word in known:
        changes = dict(known[word])
        return Variant(word, str(changes.pop("workload", name)), changes)
    key, equals, text = word.partition("=")
    if equals and key:
        return _by_hand(name, word, key.replace("-", "_"), text)
    if registry.is_function(name) and all(part.isidentifier() for part in word.split(".")):
        return Variant(word, f"{name.rpartition(':')[0]}:{word}")
    raise BadRequest(f"{name} has no variant {word or 'without a name'}; there are {_offer(name)}.")


def _by_hand(name: str, word: str, key: str, text: str) -> Variant:
    """A parameter or an option with a value; a parameter where both have the name, as in attention's `backend`."""
    is_function = registry.is_function(name)
    params = {} if is_function else {each.name: each for each in registry.find(name).params}
    if key in params:
        return Variant(word, name, {key: params[key].read(text)})
    if key in OPTIONS:
        changes = {key: converted(text, type(DEFAULTS[key]), key)}
        return Variant(word, name, {"compile": True, **changes} if key in HOW_TO_COMPILE else changes)
    if is_function:
        return Variant(word, name, {key: text})
    known = ", ".join([*params, *OPTIONS])
    raise BadRequest(f"{name} has neither a parameter nor an option {key}; there are {known}.")


def _request(
    name: str,
    variant: Variant,
    given: Mapping[str, Value],
    options: Mapping[str, Any],
    out: str | os.PathLike[str] | None,
    variants: Sequence[Variant],
) -> Request:
    """What records one of the variants."""
    own = _parameters_among(variant)
    others = {key: value for key, value in variant.changes.items() if key not in own}
    twice = [key for key in own if key in given] + [key for key in others if key in options]
    if twice:
        raise BadRequest(f"The variant {variant.name} sets {twice[0]}, which is also given: leave one of them out.")
    values = {**COMPARED, **options, **others}
    if not values["compile"] and any(each.changes.get("compile") for each in variants):
        values |= {key: DEFAULTS[key] for key in HOW_TO_COMPILE}
    settled = Options(**values)
    workload, params, dtype = _settled(variant.workload, {**given, **own}, settled)
    folder = None if out is None else os.path.join(out, "")
    # Two variants of one name are told by that, so that numbers are added later.
    path = _path(_title(name), _tag(variant, params, settled, dtype), folder, replace=True, table=False)
    return Request(workload, str(path), params, settled, variant=variant.name)


def _parameters_among(variant: Variant) -> dict[str, Value]:
    """Those of a variant's changes that are parameters."""
    if registry.is_function(variant.workload):
        return {key: value for key, value in variant.changes.items() if key not in OPTIONS}
    known = {each.name for each in registry.find(variant.workload).params}
    return {key: value for key, value in variant.changes.items() if key in known}


def _tag(variant: Variant, params: Mapping[str, Value], options: Options, dtype: str) -> str:
    """As for a single recording, and the variant where that does not tell it."""
    words, name = tag(params, options, dtype), file_name(variant.name)
    return words if name in EVERYWHERE or name in words.split("_") else f"{words}_{name}"


def _require_folder(out: str | os.PathLike[str] | None) -> None:
    if out is not None and (os.path.isfile(out) or Path(out).suffix in (".json", ".gz")):
        raise BadRequest(f"{os.fspath(out)} is one file, and --compare writes several: name a folder with -o.")


def _require_different(variants: Sequence[Variant], requests: Sequence[Request]) -> None:
    """Refuse what would be recorded twice, or written to the same file.

    Raises: BadRequest.
    """
    for place, one in enumerate(requests):
        for other in requests[:place]:
            same = (one.workload, one.params, one.options) == (other.workload, other.params, other.options)
            if same or one.out == other.out:
                twice = one.variant if one.variant == other.variant else f"{other.variant} and {one.variant}"
                raise BadRequest(f"--compare wants different recordings, and {twice} would be the same one twice.")


def _settled(name: str, given: Mapping[str, Value], options: Options) -> tuple[str, dict[str, Value], str]:
    """The whole name, every parameter and the data type of what a name means."""
    if registry.is_function(name):
        return name, dict(given), options.dtype
    workload = registry.find(name)
    return name if ":" in name else workload.name, workload.values(given), options.dtype or workload.dtype


def _title(name: str) -> str:
    """What its files are called by."""
    if registry.is_function(name):
        return label(name)
    return name if ":" in name else registry.find(name).name


def is_file_path(out: str | os.PathLike[str]) -> bool:
    """Whether `-o` names a file, and not a folder for files."""
    return not (os.path.isdir(out) or os.fspath(out).endswith(os.sep))


def _path(title: str, words: str, out: str | os.PathLike[str] | None, replace: bool, table: bool) -> Path:
    """Where a trace goes; a name that is made here gets a number where it is taken."""
    if out is not None and is_file_path(out):
        return Path(out)
    if out is None:
        path = Path("traces") / file_name(title) / f"{words}.json.gz"
    else:
        path = Path(out) / f"{file_name(title)}_{words}.json.gz"
    return path if replace else trace_file.free_path(path, table)


def _offer(name: str) -> str:
    """Every variant by name, in words."""
    more = "another function of the same file" if registry.is_function(name) else ""
    return ", ".join(filter(None, [*variants_of(name), more])) + " and NAME=VALUE"
