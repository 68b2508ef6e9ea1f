"""An assistant's side of the tools: calls over the protocol, and traces as files of known content."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mcp import Client
from mcp.types import TextContent

from tracetui.agents.server import server
from tracetui.agents.tools import Tools

Call = tuple[str, dict[str, Any]]
"""The name of a tool and its arguments."""


async def asked(tools: Tools, *calls: Call) -> list[str]:
    """The texts that a client gets for calls, one after the other, errors included."""
    async with Client(server(tools)) as client:
        results = [await client.call_tool(name, arguments) for name, arguments in calls]
    return [text_of(result.content) for result in results]


def text_of(content: Sequence[Any]) -> str:
    """The one text of an answer."""
    (block,) = content
    assert isinstance(block, TextContent)
    return block.text


def rows(text: str) -> list[dict[str, Any]]:
    """The rows of an answer."""
    found: list[dict[str, Any]] = json.loads(text)["rows"]
    return found


def slice_event(name: str, category: str, start: float, dur: float, tid: int = 1, **args: Any) -> dict[str, Any]:
    """An event of a JSON trace, times in microseconds."""
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": tid, "ts": start, "dur": dur, "args": args}


def write_gpu_trace(path: Path, durations: Sequence[float], gap_us: float = 5, names: Sequence[str] = ()) -> Path:
    """A step whose kernels have these durations, on one stream with gaps of the same length between them."""
    events = [slice_event("ProfilerStep#1", "user_annotation", 0, 100_000)]
    end = 50.0
    for number, dur in enumerate(durations):
        name = names[number] if names else f"kernel_{number}"
        launch = {"correlation": number + 1}
        events.append(slice_event("cudaLaunchKernel", "cuda_runtime", 10 + number, 0.5, **launch))
        args = {"correlation": number + 1, "stream": 7, "device": 0}
        events.append(slice_event(name, "kernel", end, dur, tid=7, **args) | {"pid": 0})
        end += dur + gap_us
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path
