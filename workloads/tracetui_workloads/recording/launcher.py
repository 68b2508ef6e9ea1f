"""The parent process of a recording: it starts the child, receives its events, cancels it, and returns the outcome.

`record` is a coroutine for the app, `record_now` a blocking call for the command line. Neither leaves a process or a
partial file behind. torch is never imported here.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from dataclasses import replace as changed
from pathlib import Path
from typing import Any

from tracetui_workloads import registry
from tracetui_workloads.api import BadRequest, Value, Workload, converted
from tracetui_workloads.programs.user_function import label
from tracetui_workloads.recording import trace_file
from tracetui_workloads.recording.processes import (
    STOP_GRACE_S,
    Listener,
    Outcome,
    kill_all,
    record_process,
    record_ranks,
)
from tracetui_workloads.recording.protocol import (
    DEFAULTS,
    OPTIONS,
    STAGES,
    DeviceChosen,
    Event,
    Failed,
    Failure,
    Heartbeat,
    Hello,
    LogLine,
    Note,
    Options,
    Progress,
    Request,
    Result,
    Stage,
    StageDone,
    encode,
    file_name,
    tag,
)

# Requests from the user's choices: `plan` makes one request, `plan_variants` one per variant of a workload.
#
# Variants are recordings worth comparing. `eager` and `compile` exist for everything, a workload defines further ones
# or has a name of its own for one of these, a user's function has the other functions of its file, and `NAME=VALUE` is
# a parameter or an option that differs.

COMMON_VARIANTS: Mapping[str, Mapping[str, Any]] = {"eager": {"compile": False}, "compile": {"compile": True}}
"""Variants that every workload and function has."""
VARIANT_DEFAULTS: Mapping[str, Any] = {**DEFAULTS, "active": 10}
"""Default options of variants: with ten steps the quartiles separate a difference from noise."""
COMPILE_OPTIONS = ("mode", "backend")
"""Options that apply to compiled variants only."""
EVERY = "all"
"""Stands for all variants that are offered."""


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
    name, params, dtype = _resolved(name, given, options)
    ranks = _rank_count(name, params)
    if ranks and out is not None and _is_old_folder_of_ranks(name, Path(out), replace):
        path = Path(out)
    else:
        path = _path(_title(name), tag(params, options, dtype), out, ranks, replace, table)
    return Request(name, str(path), params, options, tuple(argv), table, replace=replace, ranks=ranks)


def variants_of(name: str) -> dict[str, Mapping[str, Any]]:
    """The variants to offer, each another recording, with its changes; the key `workload` is another workload.

    Where the workload has a name of its own for what `eager` or `compile` records, that is offered in its place, and
    neither where it is refused on every device; `--compare` understands both all the same.
    Raises: BadRequest for a workload that does not exist.
    """
    known = _known_variants(name)
    if registry.is_function(name):
        return known
    workload = registry.find(name)
    own = {word: changes for word, changes in known.items() if word not in COMMON_VARIANTS}
    offered: dict[str, Mapping[str, Any]] = {}
    for word in COMMON_VARIANTS:
        values = _recorded_values(workload, known[word])
        same = [other for other, changes in own.items() if _recorded_values(workload, changes) == values]
        if not workload.refusal({"options": known[word]}):
            offered.update({each: known[each] for each in same or [word]})
    return {**offered, **own}


def _known_variants(name: str) -> dict[str, Mapping[str, Any]]:
    """Every name of a variant with its changes, also two names of the same recording.

    Raises: BadRequest for a workload that does not exist.
    """
    own = () if registry.is_function(name) else registry.find(name).variants
    return {**COMMON_VARIANTS, **{word: changes for word, changes in own if word not in COMMON_VARIANTS}}


def _recorded_values(workload: Workload, changes: Mapping[str, Any]) -> tuple[str, dict[str, Any], dict[str, Value]]:
    """What a variant records, where nothing else is given: the workload, its options and its parameters."""
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

    The word `all` alone stands for those that are offered. `options` holds the given fields of `Options` by name.
    `mode` and `backend` apply to the variants that compile.

    Raises: BadRequest for a variant that does not exist, fewer than two variants, two equal ones, a variant that sets
    an option or parameter that is also given, or an `out` that is a file.
    """
    variants = [_variant(name, word) for word in (variants_of(name) if list(words) == [EVERY] else words)]
    if len(variants) < 2:
        raise BadRequest(f"--compare needs at least two variants, separated by commas: {_variant_list(name)}.")
    _require_folder(out)
    requests = [_request(name, each, given, options, out, variants) for each in variants]
    _require_different(variants, requests)
    return [_with_free_path(each, argv, table, replace) for each in requests]


def _with_free_path(request: Request, argv: Sequence[str], table: bool, replace: bool) -> Request:
    """The request with a path that does not exist, and the fields that all variants share."""
    out = request.out if replace else str(trace_file.free_path(Path(request.out), table))
    return changed(request, out=out, argv=tuple(argv), table=table, replace=replace)


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
) -> Request:
    """The request for one variant.

    Raises: BadRequest where the variant sets an option or parameter that is also given.
    """
    own = _parameters_among(variant)
    others = {key: value for key, value in variant.changes.items() if key not in own}
    twice = [key for key in own if key in given] + [key for key in others if key in options]
    if twice:
        raise BadRequest(f"The variant {variant.name} sets {twice[0]}, which is also given: leave one of them out.")
    values = {**VARIANT_DEFAULTS, **options, **others}
    if not values["compile"] and any(each.changes.get("compile") for each in variants):
        values |= {key: DEFAULTS[key] for key in COMPILE_OPTIONS}
    resolved = Options(**values)
    workload, params, dtype = _resolved(variant.workload, {**given, **own}, resolved)
    folder = None if out is None else os.path.join(out, "")
    # `_require_different` recognises equal variants by their path, so a number is added only afterwards.
    words, ranks = _variant_tag(variant, params, resolved, dtype), _rank_count(workload, params)
    path = _path(_title(name), words, folder, ranks, replace=True, table=False)
    return Request(workload, str(path), params, resolved, variant=variant.name, ranks=ranks)


def _parameters_among(variant: Variant) -> dict[str, Value]:
    """The changes of a variant that are parameters."""
    if registry.is_function(variant.workload):
        return {key: value for key, value in variant.changes.items() if key not in OPTIONS}
    known = {each.name for each in registry.find(variant.workload).params}
    return {key: value for key, value in variant.changes.items() if key in known}


def _variant_tag(variant: Variant, params: Mapping[str, Value], options: Options, dtype: str) -> str:
    """The tag as for a single recording, and the variant's name where the tag lacks it."""
    words, name = tag(params, options, dtype), file_name(variant.name)
    return words if name in COMMON_VARIANTS or name in words.split("_") else f"{words}_{name}"


def _require_folder(out: str | os.PathLike[str] | None) -> None:
    if out is not None and (os.path.isfile(out) or _is_file_name(out)):
        raise BadRequest(f"{os.fspath(out)} is one file, and --compare writes several: name a folder with -o.")


def _require_different(variants: Sequence[Variant], requests: Sequence[Request]) -> None:
    """Check that no two variants are the same recording or have the same path.

    Raises: BadRequest.
    """
    for index, one in enumerate(requests):
        for other in requests[:index]:
            same = (one.workload, one.params, one.options) == (other.workload, other.params, other.options)
            if same or one.out == other.out:
                pair = f"{one.variant} is given twice"
                if one.variant != other.variant:
                    pair = f"{other.variant} and {one.variant} are the same"
                raise BadRequest(f"--compare needs different recordings, and {pair}.")


def _resolved(name: str, given: Mapping[str, Value], options: Options) -> tuple[str, dict[str, Value], str]:
    """The full name, all parameters and the data type of a workload or function."""
    if registry.is_function(name):
        return name, dict(given), options.dtype
    workload = registry.find(name)
    return name if ":" in name else workload.name, workload.values(given), options.dtype or workload.dtype


def _rank_count(name: str, params: Mapping[str, Value]) -> int:
    """How many ranks record together; 0 for one process without a rank, as for every function of a user."""
    return 0 if registry.is_function(name) else registry.find(name).rank_count(params)


def _title(name: str) -> str:
    """The name that traces of a workload or function have in their file names."""
    if registry.is_function(name):
        return label(name)
    return name if ":" in name else registry.find(name).name


def is_file_path(out: str | os.PathLike[str]) -> bool:
    """Whether `-o` names what is written, and not the folder for it."""
    return not (os.path.isdir(out) or os.fspath(out).endswith(os.sep))


def _is_old_folder_of_ranks(name: str, out: Path, replace: bool) -> bool:
    """Whether `-o` names the folder of an earlier recording by ranks, which is to be replaced.

    Raises: BadRequest for a file, and for such a folder that is not to be replaced.
    """
    if out.is_file() or _is_file_name(out):
        raise BadRequest(f"{out} is one file, and {name} leaves one for each rank: name a folder with -o.")
    is_old = trace_file.holds_ranks_only(out) and any(out.iterdir())
    if is_old and not replace:
        raise BadRequest(f"{out} holds the traces of ranks already: name another folder, or --force replaces it.")
    return is_old


def _is_file_name(out: str | os.PathLike[str]) -> bool:
    """Whether `-o` ends as the name of a trace does."""
    return Path(out).suffix in (".json", ".gz")


def _path(title: str, words: str, out: str | os.PathLike[str] | None, ranks: int, replace: bool, table: bool) -> Path:
    """The path of a trace, or of a folder for those of ranks; a name chosen here gets a number where it exists."""
    if out is not None and is_file_path(out):
        return Path(out)
    suffix = "" if ranks else ".json.gz"
    if out is None:
        path = Path("traces") / file_name(title) / f"{words}{suffix}"
    else:
        path = Path(out) / f"{file_name(title)}_{words}{suffix}"
    return path if replace else trace_file.free_path(path, table)


def _variant_list(name: str) -> str:
    """The names of all variants, for a message."""
    more = "another function of the same file" if registry.is_function(name) else ""
    return ", ".join(filter(None, [*variants_of(name), more])) + " and NAME=VALUE"


__all__ = [
    "OPTIONS",
    "STAGES",
    "BadRequest",
    "DeviceChosen",
    "Event",
    "Failed",
    "Failure",
    "Heartbeat",
    "Hello",
    "LogLine",
    "Note",
    "Options",
    "Outcome",
    "Progress",
    "Request",
    "Result",
    "Stage",
    "StageDone",
    "is_file_path",
    "keep_times",
    "kill_all",
    "plan",
    "plan_variants",
    "record",
    "record_now",
    "time_now",
    "time_variants",
    "variants_of",
]

TIMEOUT = 900.0
"""Seconds after which a recording is stopped."""


async def record(
    request: Request,
    on_event: Listener | None = None,
    cancel: asyncio.Event | None = None,
    *,
    python: str = sys.executable,
    timeout: float | None = TIMEOUT,
    grace_s: float = STOP_GRACE_S,
    environment: Mapping[str, str] | None = None,
    ring: Sequence[int] = (),
) -> Outcome:
    """Make one recording in a new child process, or in one for each rank; setting `cancel` stops it."""
    run = record_ranks if request.is_of_all_ranks else record_process
    return await run(
        request,
        on_event,
        cancel,
        python=python,
        timeout=timeout,
        grace_s=grace_s,
        environment=environment,
        ring=ring,
    )


async def time_variants(
    requests: Sequence[Request],
    on_event: Listener | None = None,
    cancel: asyncio.Event | None = None,
    *,
    python: str = sys.executable,
    timeout: float | None = TIMEOUT,
    environment: Mapping[str, str] | None = None,
) -> list[Outcome]:
    """Time steps without the profiler, several in turns; the metadata of an outcome has `unprofiled` and `load`.

    No trace is written. All processes are there at once, and one of them measures at a time.
    """
    session = trace_file.new_token() if len(requests) > 1 else ""
    requests = [replace(each, bench=True, session=session) for each in requests]
    more: dict[str, Any] = {"python": python, "timeout": timeout, "environment": environment}
    if len(requests) == 1:
        return [await record(requests[0], on_event, cancel, **more)]
    cancel = cancel or asyncio.Event()
    pipes = [os.pipe() for _ in requests]
    # The first process has the first turn.
    os.write(pipes[0][1], b".")
    rings = [(pipes[index][0], pipes[(index + 1) % len(pipes)][1]) for index in range(len(pipes))]
    return await asyncio.gather(
        *(record(each, on_event, cancel, ring=ring, **more) for each, ring in zip(requests, rings, strict=True))
    )


def time_now(requests: Sequence[Request], on_event: Listener | None = None, **more: Any) -> list[Outcome]:
    """Time steps and wait for it, as `time_variants`; ctrl+c cancels all of them. Main thread only."""
    return asyncio.run(_until_interrupted(lambda cancel: time_variants(requests, on_event, cancel, **more)))


def keep_times(outcome: Outcome, timed: Outcome) -> Outcome:
    """The recording with times that were measured in turns, also in its traces; unchanged where there are none.

    Raises: OSError where a trace cannot be written again.
    """
    if outcome.ranks and len(outcome.ranks) == len(timed.ranks):
        ranks = [keep_times(mine, other) for mine, other in zip(outcome.ranks, timed.ranks, strict=True)]
        return replace(outcome, ranks=ranks, metadata=ranks[0].metadata)
    times, old = timed.metadata.get("unprofiled"), outcome.metadata.get("unprofiled")
    if outcome.path is None or not isinstance(times, Mapping) or not isinstance(old, Mapping):
        return outcome
    metadata = {**outcome.metadata, "unprofiled": {**times, "profiled_us": old.get("profiled_us")}}
    trace_file.replace_text(outcome.path, encode(dict(outcome.metadata)).encode(), encode(metadata).encode())
    return replace(outcome, metadata=metadata)


def record_now(
    request: Request,
    on_event: Listener | None = None,
    *,
    python: str = sys.executable,
    timeout: float | None = TIMEOUT,
    environment: Mapping[str, str] | None = None,
) -> Outcome:
    """Make one recording and wait for it; ctrl+c, ctrl+\\ and a closed terminal cancel it. Main thread only."""

    async def alone(cancel: asyncio.Event) -> list[Outcome]:
        return [await record(request, on_event, cancel, python=python, timeout=timeout, environment=environment)]

    return asyncio.run(_until_interrupted(alone))[0]


async def _until_interrupted(run: Callable[[asyncio.Event], Awaitable[list[Outcome]]]) -> list[Outcome]:
    """Run something that signals cancel; the outcomes name the signal."""
    cancel = asyncio.Event()
    signals_received: list[int] = []

    def stop(number: int) -> None:
        signals_received.append(number)
        cancel.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        # A signal that is ignored, as under nohup, stays ignored.
        if signal.getsignal(number) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, stop, number)
    outcomes = await run(cancel)
    return [
        replace(each, stopped_by=signals_received[0]) if signals_received and each.is_cancelled else each
        for each in outcomes
    ]
