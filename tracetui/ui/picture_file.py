"""The screen as an SVG file that needs nothing but itself: no font, picture or address from elsewhere."""

from __future__ import annotations

import re

MONOSPACE = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono'"
"""Fonts that may be there already; `monospace` follows them wherever they stand."""

_FETCHED = re.compile(r"@font-face\s*\{[^}]*\}\s*|<!--.*?-->\s*", re.DOTALL)


def self_contained(svg: str) -> str:
    """An SVG as Textual exports it, with fonts of the reader's own in place of those that would be fetched."""
    # What follows the styles is the screen: its words are left alone, whatever they are.
    head, end, screen = svg.partition("</style>")
    return _FETCHED.sub("", head).replace("Fira Code", MONOSPACE) + end + screen
