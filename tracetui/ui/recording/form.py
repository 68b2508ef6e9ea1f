"""A form: fields declared as `Param`, one on each line, of which enter takes what they say; escape gives up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from rich.segment import Segment
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.events import Click
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input
from tracetui_workloads.api import Param

from tracetui.text import clean
from tracetui.ui.base import keys
from tracetui.ui.base.keys import command
from tracetui.ui.base.overlay import Overlay, OverlayResult
from tracetui.ui.widgets.bar import Bar, BarPart, HintsBar

MIN_FIELD_CELLS = 20
"""Cells of a field; one with longer values takes more."""
YES_NO = ("no", "yes")


class ChoiceField(Widget, can_focus=True):
    """One of a few values, on one line."""

    BINDINGS: ClassVar[list[BindingType]] = [
        command(keys.RIGHT, "turn(1)", "Next value", "", "value"),
        command(keys.SPACE, "turn(1)", "Next value"),
        command(keys.LEFT, "turn(-1)", "Previous value", "", "value"),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"choice--value"}
    DEFAULT_CSS = """
    ChoiceField {
        height: 1;
        .choice--value { background: $panel; color: $foreground; }
        &:focus .choice--value { background: $primary; color: $background; text-style: bold; }
    }
    """

    value: reactive[str] = reactive("")

    class Changed(Message):
        """Another value was taken."""

        def __init__(self, choice: ChoiceField) -> None:
            super().__init__()
            self.choice = choice

        @property
        def control(self) -> ChoiceField:
            """The field, for `@on` selectors."""
            return self.choice

    def __init__(self, values: Sequence[str], value: str, *, id: str) -> None:
        super().__init__(id=id)
        self.values = tuple(values)
        self.set_reactive(ChoiceField.value, value)

    def action_turn(self, by: int) -> None:
        """Take the next value, going round at the ends."""
        self.value = self.values[(self.values.index(self.value) + by) % len(self.values)]
        self.post_message(self.Changed(self))

    def on_click(self, event: Click) -> None:
        """A click takes the next one, too."""
        event.stop()
        self.action_turn(1)

    def render_line(self, y: int) -> Strip:
        """The value between arrows."""
        style = self.get_component_rich_style("choice--value")
        return Strip([Segment(f"‹ {self.value} ›", style)]).adjust_cell_length(self.size.width, self.rich_style)


def form_commands(accept: Binding, give_up: Binding) -> list[BindingType]:
    """The commands of a form, in the order of its key hints."""
    return [
        accept,
        command(keys.NEXT_PART, "field(1)", "Next field", "", "field"),
        command(keys.DOWN, "field(1)", "Next field"),
        command(keys.PREVIOUS_PART, "field(-1)", "Previous field", "", "field"),
        command(keys.UP, "field(-1)", "Previous field"),
        give_up,
    ]


def default_text(param: Param) -> str:
    """The default as text."""
    return YES_NO[param.default] if isinstance(param.default, bool) else str(param.default)


class Form(Overlay[OverlayResult]):
    """Base of forms: a title, the fields, a line about all of them, what is wrong with a value, and the key hints."""

    DEFAULT_CSS = """
    Form {
        #fields { height: 1fr; overflow-y: auto; padding: 1 1; }
        #fields Horizontal { height: 1; }
        #fields .folded { display: none; }
        .about { width: 1fr; }
        Input { width: 20; height: 1; border: none; padding: 0; background: $panel; }
        Input:focus { border: none; }
        #title, #hints { background: $panel; }
    }
    """
    NAME_CELLS: ClassVar[int] = 16
    """Cells for the names of the fields."""
    LINE_ID: ClassVar[str] = "about"
    """The id of the line about all fields."""

    def __init__(self, title: tuple[BarPart, ...], fields: Mapping[str, Param], folded: Sequence[Param] = ()) -> None:
        """`fields` by the end of their ids; those that are `folded` are not shown at first."""
        super().__init__()
        self._title, self._fields, self._folded = title, fields, folded
        self._hints = HintsBar()

    def compose(self) -> ComposeResult:
        """A line for each field; a list of values where they are known, else a line to type in."""
        yield Bar(id="title")
        with Vertical(id="fields"):
            for key, param in self._fields.items():
                with Horizontal(classes="folded" if param in self._folded else ""):
                    name = Bar(classes="name", id=f"name-{key}")
                    name.styles.width = self.NAME_CELLS
                    yield name
                    values = YES_NO if isinstance(param.default, bool) else tuple(map(str, param.choices))
                    if values:
                        choice = ChoiceField(values, default_text(param), id=f"field-{key}")
                        choice.styles.width = max(MIN_FIELD_CELLS, max(map(len, values)) + len("‹  › "))
                        yield choice.add_class("field")
                    else:
                        line = Input(default_text(param), compact=True, id=f"field-{key}")
                        line.cursor_blink = False
                        yield line.add_class("field")
                    yield Bar(classes="about", id=f"about-{key}")
        yield Bar(id=self.LINE_ID)
        yield Bar(id="trouble")
        yield self._hints

    def on_mount(self) -> None:
        """Fill in the words."""
        self.query_one("#title", Bar).parts = self._title
        for key, param in self._fields.items():
            self.query_one(f"#name-{key}", Bar).parts = (BarPart(clean(param.name)),)
            self.query_one(f"#about-{key}", Bar).parts = (BarPart(clean(param.help), "dim"),)
        self.query(".field").first().focus()

    def on_descendant_focus(self) -> None:
        """The keys are those of the field."""
        self._hints.show_hints()

    def action_accept(self) -> None:
        """Do what the form is for, or show why a value is refused."""
        raise NotImplementedError

    @on(Input.Submitted)
    def _accept_typed(self) -> None:
        self.action_accept()

    def action_field(self, by: int) -> None:
        """Go to another field."""
        if by > 0:
            self.focus_next(".field")
        else:
            self.focus_previous(".field")

    def text_of(self, key: str) -> str:
        """The text of a field."""
        field = self.query_one(f"#field-{key}")
        return field.value.strip() if isinstance(field, Input | ChoiceField) else ""

    def show_line(self, *parts: BarPart) -> None:
        """Show the line about all fields."""
        self.query_one(f"#{self.LINE_ID}", Bar).parts = parts

    def show_trouble(self, sentence: str) -> None:
        """Show what is wrong with a value; nothing for an empty sentence."""
        self.query_one("#trouble", Bar).parts = (BarPart(clean(sentence), "warn"),)
