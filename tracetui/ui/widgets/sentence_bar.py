"""A sentence across the screen, in full: as many lines as it needs."""

from __future__ import annotations

from rich.segment import Segment
from textual.reactive import reactive
from textual.strip import Strip

from tracetui.drawing.text_wrapping import wrapped
from tracetui.safe_text import clean
from tracetui.ui.widgets.bar import Bar

MAX_LINES = 3
"""Maximum lines of a sentence, however narrow the terminal is."""


class SentenceBar(Bar):
    """A bar that wraps one sentence."""

    sentence: reactive[str] = reactive("")
    """What it says."""

    @property
    def text(self) -> str:
        """The sentence."""
        return self.sentence

    def watch_sentence(self) -> None:
        """Take as many lines as the sentence needs."""
        self._fit()

    def on_resize(self) -> None:
        """Wrap it again."""
        self._fit()

    def render_line(self, y: int) -> Strip:
        """One line of the sentence."""
        lines, style = self._lines(), self.get_component_rich_style("bar--strong")
        return Strip([Segment(lines[y] if y < len(lines) else "", style)]).adjust_cell_length(
            self.size.width, self.rich_style
        )

    def _fit(self) -> None:
        height = len(self._lines())
        if self.styles.height is None or self.styles.height.value != height:
            self.styles.height = height

    def _lines(self) -> list[str]:
        # Before the first layout the sentence counts as one line.
        return wrapped(clean(self.sentence), self.size.width)[:MAX_LINES] if self.size.width else [""]
