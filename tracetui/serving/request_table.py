"""The requests pane: what each request to a server waited for and got, and the steps that served it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tracetui.linking.placement import step_index
from tracetui.linking.steps import Steps, steps
from tracetui.model import columns as col
from tracetui.model.intervals import Bool, Int64, Part, in_runs
from tracetui.model.pane import Pane
from tracetui.model.quantities import counted, duration
from tracetui.model.recorded import FIRST_WALL_NS, Request, RequestLog
from tracetui.model.results import kept
from tracetui.model.table import NULL, Column, ColumnSpec, Table, micros, numbers, texts
from tracetui.model.trace import Float64, Trace
from tracetui.serving.server_steps import known

NO_REQUESTS = (
    "A trace alone knows steps, and no request: not when one came, how long it queued, when its first token left, nor "
    "whether it was preempted. --requests FILE reads a log of vLLM or SGLang, or OTLP JSON, of the same server."
)
_ID = re.compile(r"[\w.-]{6,200}")


class _Served(NamedTuple):
    """The steps of each request."""

    steps: Int64
    """Number of steps, NULL where they are not known."""
    first: Int64
    """Index of the first step and of the last one in `steps`, -1 for none."""
    last: Int64
    words: str
    """How they were found, or why not, as a sentence."""
    lacks: tuple[str, str] = ("", "")
    """Why a request has no steps, as a sentence: where their number is not known, and where it is 0; empty where the
    words say it of all."""


def requests(trace: Trace, step: Part | None = None, by: str | None = None) -> Table:
    """One row per request in the order of the file, always of the whole file."""
    log = trace.request_log or RequestLog("", "", (), ())
    listed = log.requests
    served, all_steps = _served(trace), steps(trace)
    output = _integers(listed, "output").astype(np.float64)
    decode = _times(listed, "decode")
    each_token = np.where(output > 1, decode / np.maximum(output - 1, 1), np.nan)
    arrival = _integers(listed, "arrival")
    first_token, total = _times(listed, "first_token"), _times(listed, "total")

    def numbered(spec: ColumnSpec, index: Int64) -> Column:
        return numbers(spec, np.where(index >= 0, np.append(all_steps.number, NULL)[index], NULL))

    return Table(
        (
            texts(col.REQUEST, [each.name for each in listed]),
            micros(
                col.START_US.but(help="Its arrival, from the first event of the trace."),
                arrival - trace.origin_ns,
                null=(arrival == NULL) | (trace.origin_ns < FIRST_WALL_NS),
            ),
            micros(col.QUEUE_US, _times(listed, "queue")),
            micros(col.PREFILL_US, _times(listed, "prefill")),
            micros(col.FIRST_TOKEN_US, first_token, doubtful=~np.isnan(first_token) & log.has_seconds),
            micros(col.DECODE_US, decode),
            micros(col.TOKEN_US.but(help="Time of its decode by its tokens after the first one."), each_token),
            micros(col.E2E_US, total, doubtful=~np.isnan(total) & log.has_seconds),
            numbers(col.PROMPT_TOKENS, _integers(listed, "prompt")),
            numbers(col.CACHED_TOKENS, _integers(listed, "cached")),
            numbers(col.OUTPUT_TOKENS, _integers(listed, "output")),
            numbers(col.PREEMPTED, _integers(listed, "preempted")),
            texts(col.FINISHED_BY, [each.reason for each in listed]),
            numbers(col.STEPS.but(help="Number of steps that served it."), served.steps),
            numbered(col.FIRST_STEP, served.first),
            numbered(col.LAST_STEP, served.last),
        ),
        np.append(all_steps.row, -1)[served.first],
        _sentence(log, each_token, served) if trace.request_log is not None else NO_REQUESTS,
    )


PANE = Pane(
    "requests",
    "Requests",
    help="One row is a request to an inference server: its queue, its first token, its steps.",
    table=requests,
    columns=(
        "request first_token_us token_us e2e_us queue_us prefill_us decode_us output_tokens prompt_tokens preempted "
        "steps first_step last_step finished_by start_us cached_tokens"
    ),
    bars="first_token_us e2e_us",
    is_offered=lambda trace: trace.request_log is not None,
    of_step=False,
    of_range=False,
)


def _integers(listed: Sequence[Request], name: str) -> Int64:
    return np.array([NULL if (value := getattr(each, name)) is None else value for each in listed], np.int64)


def _times(listed: Sequence[Request], name: str) -> Float64:
    """Durations in ns, NaN where they are not known."""
    return known(_integers(listed, name))


def _sentence(log: RequestLog, each_token: Float64, served: _Served) -> str:
    """Percentiles of what is known, what was served when, and what the file does not say."""
    listed = log.requests
    parts, unknown = [f"{counted(len(listed), 'request')} in {log.label} ({log.producer})."], list[str]()
    for words, values in (
        ("Time to first token", _times(listed, "first_token")),
        ("per output token", each_token),
        ("queue", _times(listed, "queue")),
    ):
        given = values[~np.isnan(values)]
        if len(given):
            figures = (f"p{rank} {duration(float(np.percentile(given, rank)))}" for rank in (50, 90, 99))
            of = "" if len(given) == len(listed) else f" (of {len(given):,})"
            parts.append(f"{words[0].upper()}{words[1:]}{of}: {', '.join(figures)}.")
        else:
            unknown.append(f"{words[0].lower()}{words[1:]}")
    if unknown:
        parts.append(f"The file does not tell: {', '.join(unknown)}.")
    if going := sum(each.reason is None for each in listed):
        parts.append(
            f"{counted(going, 'request')} has no end in the file."
            if going == 1
            else f"{going:,} requests have no end in the file."
        )
    if log.has_seconds:
        parts.append("Its times are whole seconds: a duration may be one second off.")
    return " ".join((*parts, *log.notes, served.words))


def reason_of_no_steps(trace: Trace, row: int) -> str:
    """The reason why no step is known to have served a request, as a sentence; empty for one with steps."""
    served = _served(trace)
    if served.steps[row] > 0:
        return ""
    return served.lacks[int(served.steps[row] == 0)] or served.words


@kept
def _served(trace: Trace) -> _Served:
    """The steps that served each request: by its id in annotations, or by the time of day."""
    listed = () if trace.request_log is None else trace.request_log.requests
    all_steps, nothing = steps(trace), np.full(len(listed), -1, np.int64)
    unknown = np.full(len(listed), NULL, np.int64)
    if not listed:
        return _Served(unknown, nothing, nothing, "")
    if not len(all_steps):
        return _Served(unknown, nothing, nothing, "The trace has no steps that could be joined with them.")
    if (named := _by_annotations(trace, listed)) is not None:
        return named
    arrival, queue = _integers(listed, "arrival"), _integers(listed, "queue")
    total = _integers(listed, "total")
    timed = (arrival != NULL) & (total != NULL)
    if not timed.any() or trace.origin_ns < FIRST_WALL_NS:
        lacks = "the trace has" if timed.any() else "the file has"
        return _Served(
            unknown, nothing, nothing, f"They are not joined with steps: {lacks} no time of day with a zone."
        )
    low = arrival + np.where(queue == NULL, 0, queue) - trace.origin_ns
    return _by_time(all_steps, np.where(timed, low, 0), np.where(timed, arrival + total - trace.origin_ns, 0), timed)


def _by_annotations(trace: Trace, listed: Sequence[Request]) -> _Served | None:
    """The steps with an annotation that names a request; None where none does."""
    number = {each.name: index for index, each in enumerate(listed)}
    mentions = [
        (name, number[word])
        for name, text in enumerate(trace.names)
        for word in _ID.findall(text[:4096])
        if word in number
    ]
    if not mentions:
        return None
    names, owners = np.array(mentions, np.int64).T
    rows = np.flatnonzero(np.isin(trace.slices.name, names))
    index = step_index(trace, rows)
    order = np.argsort(names, kind="stable")
    names, owners = names[order], owners[order]
    low = np.searchsorted(names, trace.slices.name[rows], side="left")
    high = np.searchsorted(names, trace.slices.name[rows], side="right")
    times = high - low
    pairs = np.unique(np.stack([owners[in_runs(low, times)], np.repeat(index, times)]), axis=1)
    owner, served = pairs[:, pairs[1] >= 0]
    count = np.bincount(owner, minlength=len(listed))
    first, last = np.full(len(listed), -1, np.int64), np.full(len(listed), -1, np.int64)
    # In order of the steps of each request.
    first[owner[::-1]], last[owner] = served[::-1], served
    words = f"{counted(int((count > 0).sum()), 'request')} joined with steps by ids in names."
    return _Served(count, first, last, words, ("", "No annotation of a step has the id of this request in its name."))


def _by_time(all_steps: Steps, low: Int64, high: Int64, timed: Bool) -> _Served:
    """The steps that ran between two times of each request."""
    by_end = np.argsort(all_steps.end, kind="stable")
    ended = np.searchsorted(all_steps.end[by_end], low, side="right")
    begun = np.searchsorted(all_steps.start, high, side="left")
    has = timed & (begun > ended) & (high > low)
    count = np.where(timed, np.where(has, begun - ended, 0), NULL)
    first = np.where(has, by_end[np.minimum(ended, len(all_steps) - 1)], -1)
    last = np.where(has, begun - 1, -1)
    if not has.any():
        words = "None of them was served while the trace was recorded: its times are of another run, host or zone."
    else:
        words = f"{counted(int(has.sum()), 'request')} joined with the steps that ran meanwhile, by the time of day."
    no_times = "The file does not say when this request came and how long it took."
    no_steps = "No step of the trace ran between the queue of this request and its end." if has.any() else ""
    return _Served(count, first, last, words, (no_times, no_steps))
