"""Requests from the user's choices: `plan` makes one request, `plan_variants` one per variant of a workload.

Variants are recordings worth comparing. `eager` and `compile` exist for everything, a workload defines further ones
or has a name of its own for one of these, a user's function has the other functions of its file, and `NAME=VALUE` is
a parameter or an option that differs. Errors that can be found without torch are raised here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as changed
from itertools import combinations
from pathlib import Path
from typing import Any

from tracetui_workloads import registry
from tracetui_workloads.api import BadRequest, Value, Workload, converted
from tracetui_workloads.programs.user_function import label
from tracetui_workloads.recording import trace_file
from tracetui_workloads.recording.protocol import DEFAULTS, OPTIONS, Options, Request, file_name, tag

COMMON_VARIANTS: Mapping[str, Mapping[str, Any]] = {"eager": {"compile": False}, "compile": {"compile": True}}
"""Variants that every workload and function has."""
VARIANT_DEFAULTS: Mapping[str, Any] = {**DEFAULTS, "active": 10}
"""Default options of variants: with ten steps the quartiles separate a difference from noise."""
COMPILE_OPTIONS = ("mode", "backend")
"""Options that apply to compiled variants only."""
ALL_VARIANTS = "all"
"""The word for all variants that are listed."""
TRACE_SUFFIXES = (".json", ".gz")
"""Endings of the name of a trace."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One of several recordings that are made to be compared."""

    name: str
    """The variant's name on the command line and in the name of its file."""
    workload: str
    """The workload that is recorded, which may be another one that computes the same."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Options and parameters that differ from those given."""


def plan(
    name: str,
    given: Mapping[str, Value],
    options: Options,
    out: str | os.PathLike[str] | None = None,
    argv: Sequence[str] = (),
    table: bool = False,
    replace: bool = False,
) -> Request:
    """The request for a workload by name, with some of its parameters.

    Without `out` the trace goes to `traces/NAME/TAG.json.gz`; where `out` is a folder, to `NAME_TAG.json.gz` in it.
    Such a name gets a number where the file exists, unless `replace` is set. Of a workload with ranks it is that of a
    folder, and lacks the ending.

    Raises: BadRequest for a workload, parameter or value that does not exist, and for a file where several ranks
    record. Parameters of a user's function are checked in the child.
    """
    request, dtype = _resolved(name, given, options, argv=tuple(argv), table=table, replace=replace)
    if request.ranks and out is not None:
        path = Path(out)
        if path.is_file() or path.suffix in TRACE_SUFFIXES:
            raise BadRequest(
                f"{path} is one file, and {request.workload} leaves one for each rank: name a folder with -o."
            )
        if trace_file.holds_ranks_only(path) and any(path.iterdir()):
            if not replace:
                raise BadRequest(
                    f"{path} holds the traces of ranks already: name another folder, or --force replaces it."
                )
            return changed(request, out=str(path))
    if out is not None and is_file_path(out):
        return changed(request, out=str(Path(out)))
    path = _path_in(out, name, tag(request.params, options, dtype), request.ranks)
    return changed(request, out=str(path if replace else trace_file.free_path(path, table)))


def variants_of(name: str) -> dict[str, Mapping[str, Any]]:
    """The variants to list, each another recording, with its changes; the key `workload` is another workload.

    Where the workload has a name of its own for the recording of `eager` or `compile`, that is listed in its place, and
    neither where it is refused on every device; `--compare` understands both all the same.
    Raises: BadRequest for a workload that does not exist.
    """
    known = _known_variants(name)
    if registry.is_function(name):
        return known
    workload = registry.find(name)
    own = {word: changes for word, changes in known.items() if word not in COMMON_VARIANTS}
    common: dict[str, Mapping[str, Any]] = {}
    for word in COMMON_VARIANTS:
        values = _recorded_values(workload, known[word])
        same = [other for other, changes in own.items() if _recorded_values(workload, changes) == values]
        if not workload.refusal({"options": known[word]}):
            common.update({each: known[each] for each in same or [word]})
    return {**common, **own}


def _known_variants(name: str) -> dict[str, Mapping[str, Any]]:
    """Every name of a variant with its changes, also two names of the same recording.

    Raises: BadRequest for a workload that does not exist.
    """
    own = () if registry.is_function(name) else registry.find(name).variants
    return {**COMMON_VARIANTS, **{word: changes for word, changes in own if word not in COMMON_VARIANTS}}


def _recorded_values(workload: Workload, changes: Mapping[str, Any]) -> tuple[str, dict[str, Any], dict[str, Value]]:
    """The workload, options and parameters that a variant records where nothing else is given."""
    recorded = registry.find(str(changes.get("workload", workload.name)))
    own = {param.name for param in recorded.params}
    options = {key: value for key, value in changes.items() if key not in {*own, "workload"}}
    params = recorded.values({key: value for key, value in changes.items() if key in own})
    return recorded.name, {**VARIANT_DEFAULTS, **options}, params


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
    """The requests for several variants of a workload with shared parameters; each file's name contains its variant.

    The word `all` alone stands for those that are listed. `options` holds the given fields of `Options` by name.
    `mode` and `backend` apply to the variants that compile.

    Raises: BadRequest for a variant that does not exist, fewer than two variants, two equal ones, a variant that sets
    an option or parameter that is also given, or an `out` that is a file.
    """
    variants = [_variant(name, word) for word in (variants_of(name) if list(words) == [ALL_VARIANTS] else words)]
    if len(variants) < 2:
        raise BadRequest(f"--compare needs at least two variants, separated by commas: {_variant_list(name)}.")
    if out is not None and (os.path.isfile(out) or Path(out).suffix in TRACE_SUFFIXES):
        raise BadRequest(f"{os.fspath(out)} is one file, and --compare writes several: name a folder with -o.")
    shared = {"argv": tuple(argv), "table": table, "replace": replace}
    requests = [_request(name, each, given, options, out, variants, shared) for each in variants]
    for one, other in combinations(requests, 2):
        is_same = (one.workload, one.params, one.options) == (other.workload, other.params, other.options)
        # Equal variants also have the same path, which gets its number only afterwards.
        if is_same or one.out == other.out:
            is_twice = one.variant == other.variant
            pair = f"{one.variant} is given twice" if is_twice else f"{one.variant} and {other.variant} are the same"
            raise BadRequest(f"--compare needs different recordings, and {pair}.")
    if replace:
        return requests
    return [changed(each, out=str(trace_file.free_path(Path(each.out), table))) for each in requests]


def _variant(name: str, word: str) -> Variant:
    """The variant that a word of `--compare` names."""
    known = _known_variants(name)
    if word in known:
        changes = dict(known[word])
        return Variant(word, str(changes.pop("workload", name)), changes)
    key, equals, text = word.partition("=")
    if equals and key:
        return _variant_with_value(name, word, key.replace("-", "_"), text)
    if registry.is_function(name) and all(part.isidentifier() for part in word.split(".")):
        return Variant(word, f"{name.rpartition(':')[0]}:{word}")
    raise BadRequest(f"{name} has no variant {word or 'without a name'}; there are {_variant_list(name)}.")


def _variant_with_value(name: str, word: str, key: str, text: str) -> Variant:
    """The variant `NAME=VALUE`; the parameter where an option has the same name, as attention's `backend`.

    Raises: BadRequest where neither has the name.
    """
    is_function = registry.is_function(name)
    params = {} if is_function else {each.name: each for each in registry.find(name).params}
    if key in params:
        return Variant(word, name, {key: params[key].read(text)})
    if key in OPTIONS:
        changes = {key: converted(text, type(DEFAULTS[key]), key)}
        return Variant(word, name, {"compile": True, **changes} if key in COMPILE_OPTIONS else changes)
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
    shared: Mapping[str, Any],
) -> Request:
    """The request for one variant; `shared` are fields that all variants have in common.

    Raises: BadRequest where the variant sets an option or parameter that is also given.
    """
    if registry.is_function(variant.workload):
        own = {key: value for key, value in variant.changes.items() if key not in OPTIONS}
    else:
        known = {each.name for each in registry.find(variant.workload).params}
        own = {key: value for key, value in variant.changes.items() if key in known}
    others = {key: value for key, value in variant.changes.items() if key not in own}
    twice = [key for key in own if key in given] + [key for key in others if key in options]
    if twice:
        raise BadRequest(f"The variant {variant.name} sets {twice[0]}, which is also given: leave one of them out.")
    values = {**VARIANT_DEFAULTS, **options, **others}
    if not values["compile"] and any(each.changes.get("compile") for each in variants):
        values |= {key: DEFAULTS[key] for key in COMPILE_OPTIONS}
    chosen = Options(**values)
    request, dtype = _resolved(variant.workload, {**given, **own}, chosen, variant=variant.name, **shared)
    # The tag of a single recording, and the variant's name where the tag lacks it.
    words, name_word = tag(request.params, chosen, dtype), file_name(variant.name)
    if name_word not in COMMON_VARIANTS and name_word not in words.split("_"):
        words = f"{words}_{name_word}"
    return changed(request, out=str(_path_in(out, name, words, request.ranks)))


def _resolved(name: str, given: Mapping[str, Value], options: Options, **more: Any) -> tuple[Request, str]:
    """The request with its full name, all parameters and ranks, still without a path; and the data type.

    A function of a user has neither a data type of its own nor ranks.
    """
    if registry.is_function(name):
        return Request(name, "", dict(given), options, **more), options.dtype
    workload = registry.find(name)
    params = workload.values(given)
    ranks = int(params[workload.ranks]) if workload.ranks else 0
    full_name = name if ":" in name else workload.name
    return Request(full_name, "", params, options, ranks=ranks, **more), options.dtype or workload.dtype


def is_file_path(out: str | os.PathLike[str]) -> bool:
    """True where `-o` names the file or folder that is written, and not the folder for it."""
    return not (os.path.isdir(out) or os.fspath(out).endswith(os.sep))


def _path_in(out: str | os.PathLike[str] | None, name: str, words: str, ranks: int) -> Path:
    """The path in a folder, `traces` where none is given, of a trace or of the folder for those of ranks."""
    if registry.is_function(name):
        title = label(name)
    else:
        title = name if ":" in name else registry.find(name).name
    suffix = "" if ranks else ".json.gz"
    if out is None:
        return Path("traces") / file_name(title) / f"{words}{suffix}"
    return Path(out) / f"{file_name(title)}_{words}{suffix}"


def _variant_list(name: str) -> str:
    """The names of all variants, for a message."""
    more = "another function of the same file" if registry.is_function(name) else ""
    return ", ".join(filter(None, [*variants_of(name), more])) + " and NAME=VALUE"
