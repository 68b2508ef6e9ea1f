"""A trace whose every text tries to steer the terminal, and how to tell whether one did."""

from __future__ import annotations

import json
import re
from itertools import cycle
from pathlib import Path

PAYLOADS = {
    "title": "\x1b]0;OWNED\x07",
    "title ended otherwise": "\x1b]2;OWNED\x1b\\",
    "colour": "\x1b[31;5mOWNED",
    "clear": "\x1b[2J\x1b[H\x1b[?1049l",
    "report": "\x1b[6n\x1b[c\x1bP$q\x1b\\",
    "eight bit": "\x9b31mOWNED\x9d0;OWNED\x9c",
    "bell and back": "OWNED\x07\x08\x08\r\n\t\v\f\x7f",
    "bidi": "\u202eDENWO\u2066\u2069\u200f",
    "no width": "O\u200bW\u200dN\ufeffE\u00adD\u2028",
    "private and unassigned": "\ue000\U000e0001\ufff9\ud800",
    "markup": "[red]OWNED[/red][link=http://x]x[/link][@click=app.quit]q[/]",
    "wide": "漢字カーネル👩‍👩‍👧한글",
    "marks": "z\u0301\u0302\u0303\u0304\u0305\u0306" * 8,
    "endless": "n" * 10_000,
}
"""What a text may hold, by what it is meant to do."""

_FORBIDDEN = re.compile(
    "\x1b\\](?!52;|22;)|\x1b\\[31;5m|(?<!\\dH)\x1b\\[6n|\x1b\\[c|\x1bP|[\x07\x08\x7f\x80-\x9f]"
    "|[\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\u00ad\ue000-\uf8ff\ufff9]|\U000e0001"
)
"""What the app itself never writes; where the cursor is it asks behind a move of the cursor alone."""
_COPIED = re.compile(rb"\x1b\](?:52;c;[A-Za-z0-9+/=]*|22;\w+)\x07")
_OF_THE_SCREEN = "\x1b[?1049l"


def hostile_file(folder: Path) -> Path:
    """Write the trace and return its path, the name of which is no better."""
    path = folder / "\x1b]0;OWNED\x07\u202ea\r.json"
    # A lone surrogate is not UTF-8, but it is JSON.
    path.write_text(json.dumps(hostile_document()))
    return path


def hostile_document() -> dict[str, object]:
    """Two steps of ops, launches and kernels, with payloads wherever a text can be."""
    texts = cycle(PAYLOADS.values())
    events: list[dict[str, object]] = []
    for thread in (1, 2):
        for kind in ("thread_name", "process_name", "process_labels"):
            key = "labels" if kind == "process_labels" else "name"
            events.append({"ph": "M", "name": kind, "pid": 1, "tid": thread, "args": {key: next(texts)}})
    for number, start in enumerate((0, 20_000)):
        events.append(_slice(f"ProfilerStep#{number + 1}", "user_annotation", start, 19_000))
        for place in range(2 * len(PAYLOADS)):
            events += _call(texts, start + 600 * place, 100 * number + place)
    return {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": next(texts), "numSms": 4, "computeMajor": 9, "computeMinor": 0}],
        "distributedInfo": {"backend": next(texts), "rank": 0, "world_size": 2, "pg_config": next(texts)},
        next(texts): next(texts),
        "traceName": next(texts),
        "traceEvents": events,
    }


def _call(texts: cycle[str], at: int, number: int) -> list[dict[str, object]]:
    """An op with its launch and its kernel, frames around it, and what else has a name."""
    shape = {
        "Input Dims": [[2, 2]],
        "Input type": [next(texts)],
        "Concrete Inputs": [next(texts)],
        "External id": number,
    }
    launch = {"correlation": number, "External id": number, "cbid": next(texts)}
    ran = {**launch, "stream": 7, "device": 0, "grid": [1, 1, 1], "block": [32, 1, 1], next(texts): next(texts)}
    group = {"Process Group Name": next(texts), "Collective name": next(texts)}
    return [
        _slice(f"mod.py(3): {next(texts)}", "python_function", at, 500),
        _slice(f"nn.Module: {next(texts)}", "python_function", at + 5, 480),
        _slice(next(texts), "user_annotation", at + 10, 450),
        _slice(f"aten::{next(texts)}", "cpu_op", at + 20, 400, shape),
        _slice(next(texts), "cuda_runtime", at + 30, 100, launch),
        _slice(next(texts), next(texts) if number % 5 == 0 else "kernel", at + 200, 300, {**ran, **group}, ("0", "7")),
        {"ph": "i", "name": next(texts), "pid": 1, "tid": 1, "ts": at, "s": "t", "cat": next(texts)},
        {"ph": "C", "name": next(texts), "pid": 1, "ts": at, "args": {next(texts): number}},
        {"ph": "s", "id": next(texts), "pid": 1, "tid": 1, "ts": at + 30, "cat": "ac2g", "name": next(texts)},
    ]


def _slice(
    name: str, category: str, start: int, dur: int, args: object = None, lane: tuple[str, str] = ("1", "1")
) -> dict[str, object]:
    pid, tid = lane
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "pid": pid,
        "tid": tid,
        "ts": start,
        "dur": dur,
        "args": args or {},
    }


def steered(written: bytes, has_left: bool = True) -> list[str]:
    """What was written that only a payload holds, each with what stands around it; nothing is as it should be.

    `has_left`: whether the app has given the screen back, which it does with a sequence that is a payload, too.
    """
    text = _COPIED.sub(b"", written).decode("utf-8", "replace")
    found = [text[max(match.start() - 60, 0) : match.end() + 30] for match in _FORBIDDEN.finditer(text)]
    if text.count(_OF_THE_SCREEN) != has_left:
        found.append(f"{text.count(_OF_THE_SCREEN)} times {_OF_THE_SCREEN!r}")
    return found
