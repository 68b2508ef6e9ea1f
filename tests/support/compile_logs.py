"""Writes logs of torch.compile line by line, as `TORCH_TRACE` does."""

from __future__ import annotations

import hashlib
import json
from typing import Any

EPOCH_US = 1_700_000_000_000_000


def entry(
    about: dict[str, Any], payload: str | None = None, key: str = "", *, at_us: int = 0, pid: int = 7, **more: Any
) -> str:
    """One entry with its payload; `key` is a compile id such as `0/1`."""
    if key:
        frame, version = key.split("/")
        more |= {"frame_id": int(frame), "frame_compile_id": int(version), "attempt": 0}
    if payload is not None:
        more["has_payload"] = hashlib.md5(payload.encode()).hexdigest()
    seconds, micros = divmod(at_us, 1_000_000)
    head = f"V1114 22:{13 + seconds // 60:02}:{seconds % 60:02}.{micros:06} {pid} torch/_dynamo/utils.py:1] "
    lines = [] if payload is None else [f"\t{line}" for line in payload.split("\n")]
    return "\n".join([head + json.dumps(about | more), *lines]) + "\n"


def phase(name: str, letter: str, at_us: int, key: str = "", pid: int = 7) -> str:
    """The begin or the end of a phase."""
    event = {"name": name, "ph": letter, "ts": EPOCH_US + at_us, "cat": "dynamo_timed", "pid": 0, "tid": 0}
    text = json.dumps(event | {"args": {"compile_id": key or "None"}}, indent=0)
    return entry({"chromium_event": {}}, text, key, at_us=at_us, pid=pid)


def artifact(name: str, text: str, key: str, at_us: int, pid: int = 7) -> str:
    """An artifact with its text."""
    return entry({"artifact": {"name": name, "encoding": "string"}}, text, key, at_us=at_us, pid=pid)


def compilation(
    key: str, start_us: int, dur_us: int, reason: str = "", pid: int = 7, more: str = "", **metrics: Any
) -> str:
    """A compilation of `f` in `train.py`: half of it dynamo's own, the rest the code generator's."""
    stack = [{"line": 1, "name": "<module>", "filename": 0}, {"line": 7, "name": "f", "filename": 0}]
    about = {"co_name": "f", "co_filename": "/home/me/train.py", "co_firstlineno": 7, "is_forward": True} | metrics
    return "".join(
        (
            entry({"str": ["/home/me/train.py", 0]}, pid=pid, at_us=start_us),
            phase("dynamo", "B", start_us, key, pid),
            artifact("recompile_reasons", reason, key, start_us, pid) if reason else "",
            entry({"dynamo_start": {"stack": stack}}, key=key, at_us=start_us + 1, pid=pid),
            phase("inductor_compile", "B", start_us + dur_us // 2, key, pid),
            more,
            phase("inductor_compile", "E", start_us + dur_us, key, pid),
            phase("dynamo", "E", start_us + dur_us, key, pid),
            entry({"compilation_metrics": about}, key=key, at_us=start_us + dur_us, pid=pid),
        )
    )


def resized(count: int, dur_us: int = 1000, start_us: int = 1000) -> str:
    """`f` compiled again for each size of `x`, from 3 on."""
    return "".join(
        compilation(
            f"0/{number}",
            start_us + 2 * dur_us * number,
            dur_us,
            "\n".join(
                f"0/{old}: tensor 'x' size mismatch at index 0. expected {3 + old}, actual {3 + number}"
                for old in reversed(range(number))
            ),
        )
        for number in range(count)
    )


def distinct(facts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The compilations of a log, those that are equal but for their id, to the microsecond, once.

    Facts go by the id in front of an entry, and two public logs have one compilation under three of them.
    """
    seen: dict[str, dict[str, Any]] = {}
    for number, each in enumerate(facts):
        seen.setdefault(str(each | {"id": ""} if each["dynamo_us"] else number), each)
    return list(seen.values())
