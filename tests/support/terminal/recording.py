"""The way from a list of traces to a recording, by keys."""

from __future__ import annotations

from tests.support.terminal.raw import Raw


def open_form(raw: Raw) -> int:
    """Choose a workload from the list of an app that was started in a folder; returns where its form begins."""
    since = raw.wait_for("Which trace?")
    raw.send("r")
    since = raw.wait_for("linear", "runs here", since=since)
    raw.send("\r")
    return raw.wait_for("tracetui run", since=since)


def begin(raw: Raw) -> None:
    """Record it, and wait until that is under way."""
    since = open_form(raw)
    raw.send("\r")
    raw.wait_for("importing torch", since=since)
