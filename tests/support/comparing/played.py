"""Recordings whose parts differ: each part plays calls of its own, as a step around an annotation `f`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tests.support.build import Event, annotation, make_trace, step
from tests.support.comparing.recording import Call, Player, Work
from tracetui.comparing.side import side
from tracetui.comparing.statement import statement
from tracetui.model.trace import NO_ID, Kind, Trace


def played(*programs: Sequence[Call], steps: bool = True, waits: int = 5_000) -> list[Event]:
    """The events of one part per program, `waits` ns apart; without steps only the annotations."""
    player = Player(0.0, 0, shapes=True)
    events: list[Event] = []
    for number, calls in enumerate(programs, 1):
        begin = player.now
        player.now += 2_000
        inner = [event for call in calls for event in player.play(call)]
        # A part lasts until the GPU has nothing left to do.
        end = max(player.now, player.free) + 1_000
        player.now = end + waits
        events += [annotation("f", begin + 1_000, end - begin - 1_000), *inner]
        events += [step(number, begin, end - begin + 1_000)] if steps else []
    return events


def eager(pairs: int = 4) -> list[Call]:
    """Pairs of a gelu and a product with a factor, one kernel each."""
    each = [
        Call("aten::gelu", work=(Work("gelu_kernel", 20_000),)),
        Call("aten::mul", work=(Work("mul_kernel", 30_000),)),
    ]
    return each * pairs


def compiled(pairs: int = 4) -> list[Call]:
    """The same with one kernel that the compiler wrote for each pair."""
    name = "triton_poi_fused_gelu_mul_0"
    inner = [Call(name, own=2_000, work=(Work(name, 25_000, call="cuLaunchKernel"),))] * pairs
    return [Call("Torch-Compiled Region: 0/0", own=9_000, inside=tuple(inner))]


def without_launches(events: Sequence[Event], call: str) -> list[Event]:
    """The events without the records of one sort of launch calls, and the work with ids that lead nowhere."""
    lost = {event.correlation for event in events if event.name == call and event.kind == Kind.RUNTIME}
    kept = [event for event in events if not (event.kind == Kind.RUNTIME and event.correlation in lost)]
    return [replace(event, correlation=NO_ID) if event.correlation in lost else event for event in kept]


def trace_of(*programs: Sequence[Call], steps: bool = True) -> Trace:
    """The same as a trace."""
    return make_trace(played(*programs, steps=steps))


def said(a: Trace, b: Trace, scope_a: str = "", scope_b: str = "") -> list[str]:
    """The sentences about two sides."""
    return list(statement(side(a, scope_a), side(b, scope_b)))
