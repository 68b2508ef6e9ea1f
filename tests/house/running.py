"""What runs of our own code: for a key that is pressed in the app, and for a table on the command line.

All is of the trace d03, read without a cache, on a headless screen of 200x50. `functions` are the different ones of
`tracetui/` and the workloads that are called, with lambdas and comprehensions, and `files` where they stand. `calls`
counts each call, and each resumption of a generator. Module code, which runs when a file is imported, is not counted:
everything is done once with a small trace before.

* `key .`, `key ]`, `key 7`: next kernel, next step, tab Findings: from the key until no thread is at work, each pressed
  once before (`[` between two of `]`, `8` between two of `7`), so that what is computed once is there. Threads of the
  app are counted too.
* `show kernels` (200 rows), `show findings`: the command, from its options to its printed text, with the file read.
* `steps table`: the pane alone, without its text; nothing of the trace was known before.

Calls of keys are not among the figures: what a timer does between two of them differs from run to run.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import CodeType, FrameType

from tests.house.numbers import command, forget_opened, opened, prose_digest
from tests.support.paths import ROOT, SAMPLES, SHARED

TRACE = SHARED / "d03_v100_2rank_5steps_mem_occ_nccl.json.gz"
SMALL = SAMPLES / "mlp_train_cpu.json.gz"
OURS = (str(ROOT / "tracetui") + os.sep, str(ROOT / "workloads") + os.sep)


class Calls:
    """Calls of our own code while it is on."""

    def __init__(self) -> None:
        self.codes: Counter[CodeType] = Counter()
        self.is_on = False

    def note(self, frame: FrameType, event: str, _: object) -> None:
        """What Python tells of every call."""
        if self.is_on and event == "call" and frame.f_code.co_filename.startswith(OURS):
            self.codes[frame.f_code] += 1

    def figures(self, *, has_calls: bool = False) -> dict[str, int]:
        """Files and functions, and calls where they are asked for."""
        codes = [code for code in self.codes if code.co_name != "<module>"]
        return {
            "files": len({code.co_filename for code in codes}),
            "functions": len(codes),
            **({"calls": sum(self.codes[code] for code in codes)} if has_calls else {}),
        }


@contextmanager
def counted() -> Iterator[Calls]:
    """Calls of this thread, and of threads that begin within."""
    calls = Calls()
    threading.setprofile(calls.note)
    sys.setprofile(calls.note)
    try:
        yield calls
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def _of(run: Callable[[], object]) -> dict[str, int]:
    with counted() as calls:
        calls.is_on = True
        run()
        calls.is_on = False
    return calls.figures(has_calls=True)


def command_figures(trace: Path = TRACE) -> dict[str, dict[str, int]]:
    """The two commands and the table of steps, each of a trace of which nothing is known yet."""
    from tracetui.panes import PANES

    asked: dict[str, Callable[[str], object]] = {
        "show kernels": lambda path: command(["show", "kernels", path, "--limit", "200"], prose_digest),
        "show findings": lambda path: command(["show", "findings", path], prose_digest),
        "steps table": lambda path: PANES["steps"].build(opened(path), None, None),
    }
    figures = {}
    for name, ask in asked.items():
        ask(str(SMALL))
        forget_opened()
        opened(str(trace))
        figures[name] = _of(partial(ask, str(trace)))
    forget_opened()
    return figures


async def key_figures(trace: Path = TRACE) -> dict[str, dict[str, int]]:
    """The keys, pressed in the app that shows the trace."""
    # The app takes half a second to import, which the figures of commands do not need.
    from tests.support.app import opened as until_shown
    from tests.support.app import settle
    from tracetui.ui.app import TraceApp

    figures: dict[str, dict[str, int]] = {}
    with counted() as calls:
        app = TraceApp([str(trace)])
        async with app.run_test(size=(200, 50)) as pilot:
            await until_shown(app, pilot)

            async def press(key: str) -> dict[str, int]:
                calls.codes.clear()
                calls.is_on = True
                await pilot.press(key)
                await settle(pilot)
                calls.is_on = False
                return calls.figures()

            for key, back in ((".", ""), ("]", "["), ("7", "8")):
                await press(key)
                if back:
                    await press(back)
                figures[f"key {key}"] = await press(key)
    return figures


def running_figures() -> dict[str, dict[str, int]]:
    """All of them; empty where the trace is not at hand."""
    if not TRACE.exists():
        return {}
    os.environ["TRACETUI_CACHE_SIZE"] = "0"
    warnings.simplefilter("ignore")
    return {**command_figures(), **asyncio.run(key_figures())}
