"""Traces and shortcuts that several tests of the checks need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.support.build import Event, annotation, kernel, launch, make_trace, op, step
from tracetui.checking.evaluate import Evaluator
from tracetui.checking.report import CheckOutcome, Leaf, assertion, checked
from tracetui.comparing.side import side
from tracetui.model import columns as col
from tracetui.model.table import Table, micros, numbers, texts
from tracetui.model.trace import Trace
from tracetui.panes import PANES

US = 1_000
STEP_US = 1_000
"""From the start of one step to that of the next."""


def work(*durations: int, gemm: int = 100) -> Trace:
    """A step for each duration in us: an op that launches a gemm, and two small kernels after it."""
    events: list[Event] = []
    for number, took in enumerate(durations, 1):
        at = number * STEP_US * US
        events += [step(number, at, took * US), op("aten::mm", at, 20 * US), op("aten::t", at + 30 * US, 5 * US)]
        for place, (name, dur) in enumerate((("sgemm_128x64", gemm), ("triton_add", 10), ("triton_mul", 30))):
            key = number * 10 + place
            events.append(launch(at + (2 + place) * US, US, key))
            events.append(kernel(name, at + (10 + 150 * place) * US, dur * US, correlation=key))
    return make_trace(events)


def cpu_only(steps: int = 3) -> Trace:
    """Steps without a GPU."""
    events: list[Event] = []
    for number in range(1, steps + 1):
        events += [step(number, number * 100 * US, 50 * US), op("aten::mm", number * 100 * US, 20 * US)]
    return make_trace(events)


def uneven() -> Trace:
    """Three steps, of which the second has the longest kernel, of a name of its own."""
    events: list[Event] = []
    for number, dur in enumerate((40, 90, 60), 1):
        at = number * 1000 * US
        events += [step(number, at, 900 * US), op("aten::mm", at, 20 * US), launch(at + US, US, number)]
        events.append(
            kernel("my_kernel" if number == 2 else "other_kernel", at + 10 * US, dur * US, correlation=number)
        )
    return make_trace(events)


def counted(*items: int, wait: int = 0) -> Trace:
    """Steps that each call `aten::item` so often, beside one `aten::mm` that launches one kernel."""
    events: list[Event] = []
    correlation = 0
    for number, calls in enumerate(items):
        begin = 1_000_000 * number
        events.append(step(number + 1, begin, 900_000 + wait * number))
        events.append(annotation("part", begin + 1_000, 800_000))
        for call in range(calls + 1):
            correlation += 1
            moment = begin + 10_000 + 20_000 * call
            events.append(op("aten::item" if call else "aten::mm", moment, 10_000))
            events.append(launch(moment + 1_000, 1_000, correlation))
            events.append(kernel("read" if call else "gemm", moment + 5_000, 1_000, correlation=correlation))
    return make_trace(events)


def outcome(trace: Trace, text: str, scope: str = "", baseline: Trace | None = None) -> CheckOutcome:
    """What becomes of one assertion."""
    beside = side(baseline) if baseline is not None else None
    return checked([assertion(text)], Evaluator(side(trace, scope), beside))[0]


def status(trace: Trace, text: str, scope: str = "", baseline: Trace | None = None) -> str:
    """The same in a word."""
    return outcome(trace, text, scope, baseline).status.value


def leaf(trace: Trace, text: str) -> Leaf:
    """The only comparison of an assertion."""
    (one,) = outcome(trace, text).leaves
    return one


def pane(trace: Trace, name: str) -> list[dict[str, Any]]:
    """The rows of a pane."""
    return list(PANES[name].build(trace).rows())


def kernel_table(names: Sequence[str | None]) -> Table:
    """Four kernels and a copy as a list, with the names as given."""
    return Table(
        (
            texts(col.KIND, ["kernel", "kernel", "kernel", "memcpy", "kernel"]),
            texts(col.SHORT_NAME, names),
            texts(col.OP, ["aten::mm", "aten::relu", "aten::softmax", "aten::to", "aten::addmm"]),
            texts(col.FAMILY, ["gemm", "pointwise", "reduction", "copy", "gemm"]),
            micros(col.DUR_US, np.array([250_000, 5_000, 120_000, 90_000, 1_500_000])),
            micros(col.GAP_BEFORE_US, np.array([0, 6_000, 1_000, 0, 10_000]), null=np.arange(5) == 0),
            numbers(col.OCCUPANCY_PCT, [12.5, 100.0, 25.0, np.nan, 24.9]),
            micros(col.LAUNCH_START_US, np.arange(5)),
            micros(col.LAUNCH_DELAY_US, np.arange(5) * 1000),
        )
    )
