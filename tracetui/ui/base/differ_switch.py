"""The switch between screens written as differences of cells and as Textual does; imports nothing of Textual."""

from __future__ import annotations

import os

VARIABLE = "TRACETUI_NO_DIFFER"
"""Switches the differences off where it is set and not 0."""
FIRST_KNOWN, FIRST_UNKNOWN = (8, 2), (9,)
"""Versions of Textual whose inner parts are known, the second one excluded."""


def why_off() -> str:
    """The reason why Textual writes the screen, to end a sentence; empty where differences of cells are written."""
    # It takes longer to import than `--help` takes to print.
    from importlib.metadata import PackageNotFoundError, version

    if os.environ.get(VARIABLE, "0") not in ("", "0"):
        return f"{VARIABLE} is set"
    try:
        textual = version("textual")
    except PackageNotFoundError:
        return "the version of Textual is not known"
    parts = tuple(int(part) if part.isdecimal() else 0 for part in textual.split(".")[:2])
    if not FIRST_KNOWN <= parts < FIRST_UNKNOWN:
        return f"Textual {textual} is not one of the versions that are known"
    return ""
