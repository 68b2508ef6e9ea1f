"""Showing a trace with other steps: the runs of something in it, which the user chose."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from textual.app import App
from textual.message import Message

from tracetui.drawing.timeline.raster import Picture
from tracetui.errors import UsageError
from tracetui.linking.frames import module_paths
from tracetui.linking.links import links
from tracetui.linking.replays import replays
from tracetui.linking.step_sources import with_steps
from tracetui.ui.base.messages import Loaded
from tracetui.ui.trace.trace_screen import StepsAsked


@dataclass
class StepsReady(Message):
    """A trace has other steps, or the error that says why not."""

    read: Loaded | UsageError
    asked: StepsAsked


def prepare_steps(app: App[Any], message: StepsAsked) -> None:
    """Give a trace other steps in a thread, and post `StepsReady`."""
    # Without a description, textual writes out what is called: every column of the trace.
    app.run_worker(partial(_prepare, app, message), thread=True, group="steps", exclusive=True, description="steps")


def _prepare(app: App[Any], message: StepsAsked) -> None:
    read: Loaded | UsageError
    try:
        trace = with_steps(message.trace, message.name)
    except UsageError as error:
        read = error
    else:
        # The first view asks for these.
        links(trace)
        module_paths(trace)
        replays(trace)
        read = Loaded(message.path, trace, Picture(trace))
    app.post_message(StepsReady(read, message))
