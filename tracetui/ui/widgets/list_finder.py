"""Searching and filtering a list: what is typed, which rows match, and going from match to match."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.events import Key
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input

from tracetui.checking.row_filter import completed, completions, ends_in_word, is_condition, kept_rows, texts_meant
from tracetui.checking.values import ExpressionError
from tracetui.drawing.format import shorten
from tracetui.model.quantities import count
from tracetui.text import clean
from tracetui.ui.base import keys
from tracetui.ui.base.keys import command
from tracetui.ui.widgets.bar import Bar, BarPart, HintsBar
from tracetui.ui.widgets.tabbed_list import TabbedList

# The line at the bottom in which a search or a filter is typed, the line below it, and where a search stands.

MAX_SHOWN_TEXTS, MAX_TEXT_CELLS = 12, 40
"""Maximum texts that are listed below a pattern, and cells of each."""


@dataclass
class Search:
    """A search text, its hits, and which hit is current."""

    text: str = ""
    in_lanes: bool = False
    """True where slices of all lanes are searched, False for rows of the list."""
    hits: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """Slices in order of time, or indices in the list, ascending."""
    index: int = -1
    cursor: int = 0
    """Index of the list's cursor when it began."""

    def go(self, index: int) -> int | None:
        """Make a hit current, going round at the ends, and return it; None without hits."""
        if len(self.hits) == 0:
            return None
        self.index = index % len(self.hits)
        return int(self.hits[self.index])

    @property
    def words(self) -> str:
        """For example `3/118`."""
        return f"{count(self.index + 1)}/{count(len(self.hits))}" if len(self.hits) else "no match"


class TypedText(Input):
    """An input for which enter and escape are the end: keys of the same burst are meant for what comes after it."""

    def __init__(self) -> None:
        super().__init__(compact=True, select_on_focus=False)
        self.cursor_blink = False
        self.complete: Callable[[str], str] | None = None
        """Completes the text when tab is pressed; None where tab is not for this line."""
        self.earlier: Sequence[str] = ()
        """Texts that up and down bring back, the last one at the end."""
        self._back = 0
        self._ended = self._is_closed = False
        self._early: list[Key] = []

    def begin(self) -> None:
        """Take keys again, those first that came early."""
        self._ended = self._is_closed = False
        self._back = 0
        self._pass_on()

    def close(self) -> None:
        """Give the keys that came early, and those that are still on their way here, to what has the focus now."""
        self._is_closed = True
        self._pass_on()

    def on_key(self, event: Key) -> None:
        """Note the key that ends it and keep what follows: a binding is carried out later than a letter is typed."""
        if self._ended:
            # An escape right behind enter is one of them: it clears what enter accepts.
            self._early.append(Key(event.key, event.character))
            if self._is_closed:
                self._pass_on()
        elif event.key == "tab" and self.complete is not None:
            self._take(self.complete(self.value))
        elif event.key in ("up", "down") and self.earlier:
            self._back = min(max(self._back + (1 if event.key == "up" else -1), 0), len(self.earlier))
            self._take(self.earlier[-self._back] if self._back else "")
        else:
            self._ended = event.key in ("enter", "escape")
            return
        event.prevent_default()
        event.stop()

    def _take(self, text: str) -> None:
        self.value = text
        self.cursor_position = len(text)

    def _pass_on(self) -> None:
        for key in self._early:
            self.app.post_message(key)
        self._early.clear()


class SearchLine(Vertical):
    """One line: a label, the typed text, and the number of hits; below it a remark about the text."""

    BINDINGS: ClassVar[list[BindingType]] = [
        command(keys.ESCAPE, "give_up", "Close and clear", "", "clear"),
    ]
    DEFAULT_CSS = """
    SearchLine {
        height: auto;
        display: none;
        background: $panel;
        &.-open { display: block; }
        Horizontal { height: 1; }
        Input { height: 1; width: 1fr; border: none; padding: 0; background: $panel; }
        Input:focus { border: none; }
        .label { width: auto; }
        .found { width: 26; }
        .below { display: none; }
        &.-helped .below { display: block; }
    }
    """

    @dataclass
    class Typed(Message):
        """The text changed, or was accepted with enter, or given up with escape."""

        purpose: str
        """`search`, `filter`, `command` or `sql`."""
        text: str
        accepted: bool = False
        given_up: bool = False

    purpose = "search"
    is_open = False
    """True while something is being typed."""

    def __init__(self) -> None:
        super().__init__()
        self._label, self._count, self.below = Bar(classes="label"), Bar(classes="found"), Bar(classes="below")

    def compose(self) -> ComposeResult:
        """Label, input and count, and the line below them."""
        with Horizontal():
            yield self._label
            yield TypedText()
            yield self._count
        yield self.below

    def open(
        self,
        purpose: str,
        where: str,
        text: str = "",
        complete: Callable[[str], str] | None = None,
        recall: Sequence[str] = (),
    ) -> None:
        """Show the line in place of the key hints and type into it.

        `where` says what is searched, `recall` has texts that were typed before.
        """
        self.purpose = purpose
        sign = {"search": f"{where} /", "command": ":", "sql": "sql "}.get(purpose, "filter ")
        self._label.styles.width = len(sign) + 2
        self._label.parts, self._count.parts, self.below.parts = (BarPart(sign, "key"),), (), ()
        self.set_class(purpose != "search", "-helped")
        line = self.query_one(TypedText)
        line.complete, line.earlier = complete, recall
        line.begin()
        with self.prevent(Input.Changed):
            line.value = text
        # The next letter replaces what was there.
        line.action_select_all()
        self.is_open = True
        self.add_class("-open")
        self.screen.add_class("-searching")
        # `focus()` waits for a turn of the loop, in which keys typed in one burst would go elsewhere.
        self.screen.set_focus(line)

    def close(self) -> None:
        """Hide the line; whoever closes it has moved the focus."""
        self.is_open = False
        self.remove_class("-open")
        self.screen.remove_class("-searching")
        self.query_one(TypedText).close()

    def show_count(self, words: str) -> None:
        """Show the number of hits."""
        self._count.parts = (BarPart(words, "dim"),)

    def resume(self) -> None:
        """Take keys again after enter: what was typed cannot be used yet."""
        self.query_one(TypedText).begin()

    def show_names(self, names: Sequence[str]) -> None:
        """Show below the text the names that its last word can become."""
        first, others = "  ".join(names[:1]), "  ".join(names[1:])
        more = (BarPart(f"  {others}", "dim"),) if others else ()
        self.below.parts = (BarPart("tab ", "dim"), BarPart(first, "key"), *more) if names else ()

    def show_words(self, words: str) -> None:
        """Show words about the text below it."""
        self.below.parts = (BarPart(words, "dim"),)

    def show_texts(self, texts: Sequence[str]) -> None:
        """Show below the text what its pattern matches."""
        listed = ", ".join(shorten(clean(text), MAX_TEXT_CELLS) for text in texts[:MAX_SHOWN_TEXTS])
        more = f" and {len(texts) - MAX_SHOWN_TEXTS:,} more" if len(texts) > MAX_SHOWN_TEXTS else ""
        self.below.parts = (BarPart("matches ", "dim"), BarPart(listed), BarPart(more, "dim"))

    def show_mistake(self, sentence: str, at: int) -> None:
        """Show below the text what is wrong with it, with a caret under the position (characters before it)."""
        line = self.query_one(TypedText)
        column = self._label.outer_size.width - 1 + cell_len(line.value[:at]) - line.scroll_offset.x
        width, room = self.size.width - 2, column - 1 - cell_len(sentence)
        if column >= 0 and column + 4 + cell_len(sentence.partition(". ")[0]) <= width:
            sentence = f"{' ' * column}^ {sentence}"
        elif room >= 0 and column < width:
            sentence = f"{' ' * room}{sentence} ^"
        # Else not even the beginning of the sentence has room beside a caret.
        self.below.parts = (BarPart(sentence, "warn"),)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Search as it is typed."""
        event.stop()
        if self.is_open:
            self.post_message(self.Typed(self.purpose, event.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter: stay where the search stands."""
        event.stop()
        self.post_message(self.Typed(self.purpose, event.value, accepted=True))

    def action_give_up(self) -> None:
        """Escape: drop it."""
        self.post_message(self.Typed(self.purpose, "", given_up=True))


class ListFinder:
    """The search of one list; nothing in it runs unless a key asks for it."""

    def __init__(self, panes: TabbedList, line: SearchLine, hints: HintsBar) -> None:
        self.panes, self.line, self.hints = panes, line, hints
        self.search = Search()
        self._settled = ""
        """The last condition that was whole: the filter while the next one is typed."""

    def open(self, purpose: str) -> None:
        """Start to type a search or a filter of the list."""
        if purpose == "search":
            self.search = self._new_search()
        if purpose == "filter":
            table, known = self.panes.table, self.panes.arrangement.filter
            self._settled = known if table is not None and is_condition(table, known) else ""
            self.line.open(purpose, "list", self.panes.arrangement.filter, self._completed)
            self._suggest(self.panes.arrangement.filter)
        else:
            self.line.open(purpose, "lanes" if self.search.in_lanes else "list")

    def typed(self, message: SearchLine.Typed) -> None:
        """Search or filter by what has been typed so far."""
        if message.given_up:
            if message.purpose == "search":
                self._return()
            self._close()
            self.clear(message.purpose)
        elif message.purpose == "filter":
            if not self._filter(message.text, message.accepted) and message.accepted:
                self.line.resume()
                return
        elif not message.accepted:
            self._look_for(message.text)
        if message.accepted:
            self._close()
            self._report(message)

    def next(self, direction: int) -> None:
        """Go to the next or previous match, going round at the ends."""
        self._show(self.search.go(self._index_beside(direction)), jump=True)
        self.hints.notice(
            f"{self.search.text}   {self.search.words}   {keys.NEXT_MATCH} {keys.PREVIOUS_MATCH} next and previous, "
            "esc clears"
        )

    def clear(self, purpose: str | None = None) -> None:
        """Drop the search, the filter, or both."""
        if purpose != "filter":
            self.search = Search()
        if purpose != "search" and self.panes.arrangement.filter:
            self.panes.arrange_by(replace(self.panes.arrangement, filter=""))

    def leave(self) -> None:
        """Drop search and filter; where there are none, close the group that is open."""
        if self.search.text or self.panes.arrangement.filter:
            self.clear()
        else:
            self.panes.close_group()

    def _new_search(self) -> Search:
        return Search(cursor=self.panes.view.cursor)

    def _index_beside(self, direction: int) -> int:
        """The index, among the hits, of the next or previous one from the cursor."""
        self.search.hits = self.panes.matches(self.search.text)
        return int(np.searchsorted(self.search.hits, self.panes.view.cursor + (direction > 0))) - (direction < 0)

    def _searched(self) -> Widget:
        """The widget that was searched: the keys go to it again."""
        return self.panes.view

    def _close(self) -> None:
        # At once: the next key of a burst is meant for what was searched, not for the line.
        self.line.screen.set_focus(self._searched())
        self.line.close()
        self.hints.show_hints()

    def _filter(self, text: str, accepted: bool) -> bool:
        """List what a filter keeps; False for a condition that is not understood, or not yet."""
        table = self.panes.table
        if table is None:
            return True
        self._suggest(text)
        may_go_on = not accepted and (bool(completions(table, text)) or ends_in_word(table, text))
        try:
            is_unfinished = not kept_rows(table, text).any() and may_go_on
        except ExpressionError as mistake:
            self._list_settled()
            if accepted or not completions(table, text):
                self.line.show_mistake(str(mistake), mistake.at)
            return False
        if is_unfinished:
            self._list_settled()
            return True
        if not ends_in_word(table, text) or accepted:
            self._settled = text if is_condition(table, text) else ""
        self.keep_rows(text)
        rows = len(self.panes.view.order)
        self.line.show_count(f"{rows:,} row{'' if rows == 1 else 's'} ")
        return True

    def _list_settled(self) -> None:
        """List what the last whole condition keeps while the next one is unfinished or wrong."""
        self.keep_rows(self._settled)
        self.line.show_count("")

    def keep_rows(self, text: str) -> None:
        """List only the rows that a filter keeps."""
        if self.panes.arrangement.filter != text:
            self.panes.arrange_by(replace(self.panes.arrangement, filter=text))
            self._filtered()

    def _completed(self, text: str) -> str:
        return text if self.panes.table is None else completed(self.panes.table, text)

    def _suggest(self, text: str) -> None:
        """Show what the last word can become, or what the pattern at the end matches."""
        table = self.panes.table
        names = completions(table, text) if table is not None else []
        if table is not None and not names and (texts := texts_meant(table, text)):
            self.line.show_texts(texts)
            return
        visible = set(self.panes.view.shown_columns)
        self.line.show_names(sorted(names, key=lambda name: name not in visible))

    def _filtered(self) -> None:
        """The row under the cursor may be another one."""
        self.panes.view.announce_row()

    def _look_for(self, text: str) -> None:
        search = self.search
        search.text = text
        index = self._hits_of(text)
        if len(search.hits):
            self._show(search.go(index), jump=False)
        else:
            self._return()
        self.line.show_count(search.words if text else "")

    def _hits_of(self, text: str) -> int:
        """Look a text up, and return the index of the hit that comes first."""
        self.search.hits = self.panes.matches(text)
        return int(np.searchsorted(self.search.hits, self.panes.view.cursor))

    def _return(self) -> None:
        """Go back to where the search began."""
        self.panes.view.put_cursor(self.search.cursor)
        self.panes.view.announce_row()

    def _show(self, hit: int | None, jump: bool) -> None:
        """Go to a hit; a jump can be undone where the view keeps jumps."""
        if hit is not None:
            self.panes.view.put_cursor(hit)
            self.panes.view.announce_row()

    def _report(self, message: SearchLine.Typed) -> None:
        if message.purpose == "search" and message.text:
            more = (
                f"   {keys.NEXT_MATCH} {keys.PREVIOUS_MATCH} next and previous, esc clears"
                if len(self.search.hits)
                else ""
            )
            self.hints.notice(f"{message.text}   {self.search.words}{more}")
