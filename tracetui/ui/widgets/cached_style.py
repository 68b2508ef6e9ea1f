"""Widgets whose text colour and background are worked out once, and not for every line that they draw.

Textual walks up to the screen and adds colours for `rich_style`, which takes as long as drawing several lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.style import Style

from tracetui.ui.base.textual_internals import style_versions

if TYPE_CHECKING:
    from textual.widget import Widget
else:
    # Textual takes the style sheet of a widget from the first of its bases that is a node.
    Widget = object


class CachedStyle(Widget):
    """Mixin for widgets that draw their own lines; it comes before the widget's class."""

    _cached_style: tuple[tuple[int, ...], Style] = ((), Style())

    @property
    def rich_style(self) -> Style:
        """Text colour and background, as in `Widget`; kept until the styles of the widget or those above change."""
        versions = style_versions(self)
        if versions is None:
            return super().rich_style
        if self._cached_style[0] != versions:
            self._cached_style = versions, super().rich_style
        return self._cached_style[1]
