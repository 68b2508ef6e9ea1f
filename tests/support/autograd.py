"""Operators of a forward pass, and the nodes that autograd runs for them on its own thread."""

from __future__ import annotations

from typing import Any

from tests.support.build import Event, op
from tracetui.linking.autograd import ENGINE

MAIN, OTHER, ENGINE_THREAD = ("1", "10"), ("1", "11"), ("1", "20")


def forward(name: str, start: int, dur: int, sequence: int, **more: Any) -> Event:
    return op(name, start, dur, args={"Sequence number": sequence, "Fwd thread id": 0}, **{"lane": MAIN, **more})


def backward(name: str, start: int, dur: int, sequence: int, thread: int = 1, **more: Any) -> list[Event]:
    args = {"Sequence number": sequence, "Fwd thread id": thread}
    lane = more.get("lane", ENGINE_THREAD)
    outer = op(f"{ENGINE}: {name}", start, dur, args=args, lane=lane)
    return [outer, op(name, start + 1, dur - 2, args=args, lane=lane)]
