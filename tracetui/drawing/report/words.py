"""Text of a trace as HTML: cleaned of what steers a screen, and escaped, so that it is read and never obeyed."""

from __future__ import annotations

import re
from html import escape

from tracetui.safe_text import clean


def text(words: str) -> str:
    """Words as they stand between tags or in a quoted attribute."""
    return escape(clean(words), quote=True)


def anchor(words: str) -> str:
    """A heading as the name of its place in the page."""
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-") or "section"
