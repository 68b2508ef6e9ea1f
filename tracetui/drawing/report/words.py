"""Text of a trace as HTML: cleaned of what steers a screen, and escaped, so that it is read and never obeyed."""

from __future__ import annotations

import re
from html import escape

from tracetui.drawing.format import MOMENTS
from tracetui.model.table import Column
from tracetui.safe_text import clean

_ENDS = (("_us", ""), ("_pct", "%"), ("_bytes", ""))
_WRITTEN = {"gbps": "GB/s", "tflops": "TFLOP/s", "gpu": "GPU", "cpu": "CPU", "pct": "share", "api": "call"}
_WHOLE = {"flops": "operations", "intensity": "FLOP per byte", "short_name": "kernel", "at_peak": "at the peak"}


def text(words: str) -> str:
    """Words as they stand between tags or in a quoted attribute."""
    return escape(clean(words), quote=True)


def title(column: Column) -> tuple[str, str]:
    """What a column is called above a table, and its unit: `launch_delay_us` is `launch delay`, `µs`."""
    name, unit = column.name, "%" if column.unit == "%" else ""
    for end, of in _ENDS:
        if name.endswith(end):
            name, unit = name[: -len(end)], of
            break
    unit = "µs" if column.name in MOMENTS else unit
    words = _WHOLE.get(name) or " ".join(_WRITTEN.get(word, word) for word in name.split("_"))
    return words, unit


def anchor(words: str) -> str:
    """A heading as the name of its place in the page."""
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-") or "section"
