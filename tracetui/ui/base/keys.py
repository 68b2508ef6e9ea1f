"""Every key of the app, declared once with its one meaning; `command` binds an action to one of them.

What a key does to the part with the focus may differ in detail (`.` is the next kernel in a list, the next slice on
the timeline); its meaning does not. The tables of `docs/screen.md` are these declarations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from textual.actions import parse
from textual.binding import Binding
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.dom import DOMNode
from textual.keys import Keys, _character_to_key
from textual.screen import Screen
from textual.widgets import Input

from tracetui.config import config
from tracetui.errors import nearest
from tracetui.frozen import frozen
from tracetui.text import clean

DISPLAY = {
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "left_curly_bracket": "{",
    "right_curly_bracket": "}",
    "full_stop": ".",
    "comma": ",",
    "colon": ":",
    "slash": "/",
    "question_mark": "?",
    "apostrophe": "'",
    "greater_than_sign": ">",
    "less_than_sign": "<",
    "plus": "+",
    "equals_sign": "=",
    "minus": "-",
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
    "escape": "esc",
    "pageup": "pgup",
    "pagedown": "pgdn",
    "ctrl+up": "ctrl+↑",
    "ctrl+down": "ctrl+↓",
    "ctrl+left": "ctrl+←",
    "ctrl+right": "ctrl+→",
}
"""The names that a person uses for keys that Textual has a long name for."""

_FUNCTION_KEY = re.compile(r"f\d+")

EVERYWHERE = "everywhere"
TRACE = "in a trace"
COMPARISON = "in a comparison"
BOTH = "in a trace and in a comparison"
TIMELINE = "for the timeline"
RANKS = "in a set of ranks"
LISTS = "in lists"
TRACES = "in the list of traces"
MEMORY = "in a memory snapshot"


@frozen(eq=True)
class Key:
    """A key, or several that mean the same."""

    names: str
    """Textual's names, separated by commas; the first is the one that key hints show."""
    meaning: str
    """Its effect, in the words of `docs/screen.md`."""
    where: str = EVERYWHERE
    """The part of the app in which it has that."""

    @property
    def shown(self) -> list[str]:
        """The keys as a person reads them."""
        return [shown_key(name) for name in self.names.split(",")]

    def __str__(self) -> str:
        return self.shown[0]


def shown_key(name: str) -> str:
    """A key as a person reads it."""
    return DISPLAY.get(name, name)


DOWN = Key("j,down", "down: the next row, link or field; on the timeline the slice on the row below")
UP = Key("k,up", "up: the row, link or field before; on the timeline the slice on the row above")
LEFT = Key(
    "h,left", "left: pan; in a list the columns that came before; in a tree close the row; in a form the value before"
)
RIGHT = Key(
    "l,right", "right: pan; in a list the columns that do not fit; in a tree open the row; in a form the next value"
)
FIRST = Key("home", "first row; on the timeline the first slice of the row; top of the details")
LAST = Key("end", "last row; on the timeline the last slice of the row; end of the details")
PAGE_DOWN = Key("ctrl+d,pagedown", "a page down")
PAGE_UP = Key("ctrl+u,pageup", "a page up")
ENTER = Key("enter", "go into what is under the cursor: a row, a link, a form; keep a range of time")
SPACE = Key(
    "space",
    "mark for a comparison: a trace, a step, a function, a module, a run, a range, a rank; in a form the next value",
)
ESCAPE = Key(
    "escape",
    "back one level: from a search or filter, what covers the list, the timeline, a list to pick from, a screen",
)
NEXT_PART = Key("tab", "next part: list, timeline, details; in a form the next field")
PREVIOUS_PART = Key("shift+tab", "part before; in a form the field before")
HELP = Key(
    "question_mark",
    "help: what the selected slice is, the keys of the part with the focus first, colours and marks, columns",
)
PALETTE = Key("ctrl+p", "all commands by name")
TRACE_LIST = Key("t", "list of traces")
THEME = Key("ctrl+t", "next theme: dark, light, the terminal's own colours")
PICTURE = Key("ctrl+s", "picture of the screen, as SVG")
REDRAW = Key("ctrl+l", "write the whole screen again, should another program have written on it")
SUSPEND = Key("ctrl+z", "suspend; `fg` in the shell comes back")
QUIT = Key("q", "quit; closes the help and lists to pick from")
QUIT_ANYWHERE = Key("ctrl+c", "quit, also while typing")

NEXT = Key(
    "full_stop",
    "next: kernel, in Gaps the gap; on the timeline slice of the row; in a comparison kernel of A; in the flame view "
    "match; in a memory snapshot the moment a cell later",
    BOTH,
)
PREVIOUS = Key("comma", "the one before", BOTH)
NEXT_STEP = Key("right_square_bracket", "next step; in a comparison of both sides", BOTH)
PREVIOUS_STEP = Key("left_square_bracket", "step before", BOTH)
FOLLOW = Key(
    "g",
    "follow the link: kernel → launch → operator → its forward operator; in a comparison into the slice's trace, of a "
    "rank into its trace",
    BOTH,
)
FOLLOW_BACK = Key("G", "the other way: forward operator → backward, launch → kernel; the match in its trace", BOTH)
BACK = Key("backspace", "back to where you were: undoes a jump, then leaves the screen", BOTH)
SEARCH = Key("slash", "search, as you type", BOTH)
COMMAND_LINE = Key(
    "colon",
    "command line: a pane by name, `:step 2`, `:kernel 17`, `:op addmm`, `:where dur > 100us`, `:sort total`; tab "
    "completes",
    BOTH,
)
NEXT_MATCH = Key("n", "next match; beside a median rank the next collective that the rank came late to", BOTH)
PREVIOUS_MATCH = Key("N", "match before, or collective before", BOTH)
MAXIMISE = Key("Z", "the part with the focus on the whole screen, and back", BOTH)
SPLIT_DOWN = Key("ctrl+down", "more lines for the timeline; the tabs can be dragged, too", BOTH)
SPLIT_UP = Key("ctrl+up", "fewer lines for the timeline", BOTH)
SPLIT_LEFT = Key("ctrl+left", "wider details", BOTH)
SPLIT_RIGHT = Key("ctrl+right", "narrower details", BOTH)
DETAILS = Key("i", "details in place of the list, where the screen is narrow", BOTH)
COMPARE = Key(
    "c", "compare: steps, runs of what is selected, another trace, two ranks", "in a trace and in lists of traces"
)
COPY_ROW = Key("y", "copy the row, as Markdown", BOTH)
COPY_VIEW = Key("Y", "copy the view string (below); in a comparison the command that opens it", BOTH)
EXPORT = Key("e", "export the list, as CSV and Markdown", BOTH)
TABS = Key(
    "1,2,3,4,5,6,7,8,9,M,H,R,C,S,L,K,T,s",
    "the tab with this key; in a trace 1 to 5 open a group of panes, and again the next pane in it",
    BOTH,
)

FIT = Key("f", "fit the selection, a kernel with its launch and operator; again: it alone, and back", TIMELINE)
FIT_ALL = Key("0", "fit the whole trace; in a comparison the steps", TIMELINE)
ZOOM_IN = Key("plus,equals_sign,w", "zoom in", TIMELINE)
ZOOM_OUT = Key("minus", "zoom out", TIMELINE)
PAN_LEFT = Key("a", "pan left; in the list of traces attach to a job that runs", TIMELINE)
PAN_RIGHT = Key("d", "pan right", TIMELINE)
NEXT_SAME = Key("greater_than_sign", "next slice of this name", TIMELINE)
PREVIOUS_SAME = Key("less_than_sign", "slice of this name before", TIMELINE)
FOLD = Key(
    "z", "fold the lane, or the quiet lanes; in the list of a comparison the rows in which nothing changed", TIMELINE
)
PIN = Key("p", "pin the lane at the top, or let go of it", TIMELINE)
MEASURE = Key("x", "set a measuring point", TIMELINE)

SORT = Key("o", "sort by the next column", LISTS)
REVERSE = Key("O", "reverse the order", LISTS)
GROUP = Key("b", "group the rows", LISTS)
FILTER = Key(
    "F",
    "keep only the rows that contain a text, or fit a condition: `dur > 100us & op ~ mm` ([filters](text.md#filters))",
    LISTS,
)

FLAME = Key("P", "flame view: modules, operators, kernels by time; in it GPU time, CPU time or idle time", TRACE)
ALL_STEPS = Key("A", "list all steps, or one", TRACE)
STEPS_BY = Key("B", "what counts as a step", TRACE)
MARK = Key("m", "mark what is selected", TRACE)
RANGE = Key("v", "begin a range of time at the selection; again, or enter: keep it", TRACE)
IN_RANGE = Key("W", "list only what ran in the range of time, or everything", TRACE)
CUT = Key("E", "write the range of time as a trace of its own", TRACE)
MARKS = Key("apostrophe", "list of marks", TRACE)
QUERIES = Key("u", "only the occupancy queries of the selected kernel; from a query back to its kernel", TRACE)
LESSON = Key("I", "lesson of the workload that was recorded, and what its trace was to show", TRACE)

NEXT_STEP_ONE = Key("right_curly_bracket", "next step of one side", COMPARISON)
PREVIOUS_STEP_ONE = Key("left_curly_bracket", "step before of one side", COMPARISON)
STATEMENT = Key(
    "V", "all sentences: about what changed, or about a set of ranks", "in a comparison and in a set of ranks"
)
SWAP = Key("X", "swap A and B", COMPARISON)

LANES = Key("D", "lanes of the marked ranks, or of the first, on one axis", RANKS)

DEVICE = Key("U", "next device of a memory snapshot", MEMORY)

RECORD = Key("r", "record a new trace", TRACES)

# Keys that the user chose in the settings. They are put in place here, before anything is bound: hints, help, palette,
# tabs and sentences have no others.

FIXED = ("escape", "quit_anywhere")
"""What keeps its key: fields, lists and forms look for it while something is typed."""
_KINDS = {name.lower(): each for name, each in tuple(globals().items()) if isinstance(each, Key)}
_NAMED_KEYS = {each.value for each in Keys if not each.value.startswith("<")} | {
    f"f{number}" for number in range(1, 25)
}
_NAMES_OF_DISPLAYED = {shown: name for name, shown in DISPLAY.items()}


def key_name(text: str) -> str:
    """Textual's name of a key that a person names, as `?`, `ctrl+x` or `f5`; empty where it is none."""
    *modifiers, last = text.split("+") if len(text) > 1 else [text]
    if not set(modifiers) <= {"ctrl", "alt", "shift"}:
        return ""
    if text in _NAMES_OF_DISPLAYED or text in DISPLAY:
        return _NAMES_OF_DISPLAYED.get(text, text)
    if len(last) == 1 and last.isprintable():
        return "+".join([*modifiers, _character_to_key(last)])
    return text if last in _NAMED_KEYS else ""


def chosen_keys(
    declared: Mapping[str, tuple[str, ...]], wanted: Mapping[str, Sequence[str]]
) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """Names of keys by the id of what they do, those that are wanted in place of others; and why not, by id.

    A key means one thing, wherever it works; of two that share one, the one that was changed keeps what is declared.
    """
    names, refused = dict(declared), dict[str, str]()
    for each, texts in wanted.items():
        odd = next((text for text in texts if not key_name(text)), None)
        if each not in declared:
            refused[each] = f"no key does that. {nearest(each, declared, '`tracetui config` lists them.')}"
        elif each in FIXED and set(map(key_name, texts)) != set(declared[each]):
            refused[each] = f"{shown_key(declared[each][0])} keeps its meaning, also while something is typed."
        elif odd is not None:
            refused[each] = f"there is no key {odd!r:.40}. {nearest(odd, _NAMED_KEYS)}".rstrip()
        else:
            names[each] = tuple(dict.fromkeys(map(key_name, texts)))
    while clash := _first_clash(names):
        key, *both = clash
        loser = next(each for each in reversed(both) if names[each] != declared[each])
        other = both[0] if loser == both[1] else both[1]
        refused[loser] = f"{shown_key(key)} is the key of {other}, too: give each a key of its own."
        names[loser] = declared[loser]
    return names, refused


def _first_clash(names: Mapping[str, Sequence[str]]) -> tuple[str, str, str] | None:
    """A key that has two meanings, and these."""
    owners: dict[str, str] = {}
    for each, keys in names.items():
        for key in keys:
            if owners.setdefault(key, each) != each:
                return key, owners[key], each
    return None


KEY_NAMES, REFUSED = chosen_keys(
    {each: tuple(key.names.split(",")) for each, key in _KINDS.items() if each != "tabs"}
    | {f"tab_{name}": (name,) for name in TABS.names.split(",")},
    config().keys,
)
"""The names of the keys in force, by the id that the settings have for what they do, and why others are not."""


def key_problems() -> list[str]:
    """A sentence for each key of the settings that is wrong."""
    return [clean(f"{config().place('keys', each)}: {why}") for each, why in REFUSED.items()]


def tab_key(name: str) -> Key:
    """The key that opens what is declared with the key `name`."""
    return Key(",".join(KEY_NAMES[f"tab_{name}"]), TABS.meaning, TABS.where)


for _each, _key in _KINDS.items():
    _names = KEY_NAMES.get(_each) or [each for tab in TABS.names.split(",") for each in KEY_NAMES[f"tab_{tab}"]]
    globals()[_each.upper()] = replace(_key, names=",".join(_names))

DECLARED = tuple(globals()[each.upper()] for each in _KINDS)
"""All of them, in the order of the documents."""


TASKS: tuple[tuple[str, tuple[tuple[Key, ...], ...]], ...] = (
    ("moving", ((DOWN, UP), (LEFT, RIGHT), (FIRST, LAST), (PAGE_DOWN, PAGE_UP), (NEXT_PART, PREVIOUS_PART), (ENTER,))),
    ("going back", ((ESCAPE, BACK),)),
    ("what holds it back", ((TABS,), (NEXT_STEP, PREVIOUS_STEP), (ALL_STEPS,), (LESSON,))),
    ("kernels", ((NEXT, PREVIOUS), (FOLLOW, FOLLOW_BACK), (QUERIES,), (FIT, FIT_ALL), (ZOOM_IN, ZOOM_OUT))),
    ("lists", ((SEARCH, NEXT_MATCH, PREVIOUS_MATCH), (FILTER,), (SORT, REVERSE), (GROUP,), (COMMAND_LINE,))),
    ("comparing", ((RANGE, IN_RANGE, CUT), (SPACE, COMPARE), (STATEMENT,), (SWAP,))),
    ("copying out", ((COPY_ROW, COPY_VIEW), (EXPORT,), (PICTURE,))),
    ("app", ((HELP, PALETTE), (TRACE_LIST,), (QUIT,))),
)
"""What one wants to do, in the order of the help, and the keys for it: those of one line mean nearly the same."""
_LINES = [(task, line) for task, lines in TASKS for line in lines]
LINE_OF_KEY = {key.names: index for index, (_, line) in enumerate(_LINES) for key in line}
"""The line of the help in which a key stands, by its names."""
TASK_OF_LINE = [task for task, _ in _LINES]


KEYS_BY_NAME = {name: key for key in DECLARED for name in key.names.split(",")}
"""The declaration of each key, by Textual's name of the key."""


def where_it_works(name: str, character: str | None, parts: Sequence[str] = ()) -> str:
    """A sentence that says where a key does something, or that it does nothing anywhere.

    `parts` are the parts of the screen that have a use for the key.
    """
    key = KEYS_BY_NAME.get(name)
    if key is not None:
        what = f"{shown_key(name)} ({key.meaning.partition(':')[0].partition(';')[0]})"
        if key.where != EVERYWHERE:
            return f"{what} works {key.where}."
        return (
            f"{what} works in {' and '.join(f'the {part}' for part in parts)}." if parts else f"{what} has no use here."
        )
    word = name.upper() if _FUNCTION_KEY.fullmatch(name) else character
    return f"{word} does nothing: {HELP} lists the keys." if word is not None and word.isprintable() else ""


# What a person can do, declared once: a command is a Textual binding with a title, a help sentence, a hint.
#
# The key hint line, the help and the palette are all generated from the `BINDINGS` of the widgets that are on screen,
# so a command cannot be in one and missing from another. Whether a command can be used right now is asked of its
# widget's `check_action`.


def command(key: Key, action: str, title: str, help: str = "", hint: str = "", before_typing: bool = False) -> Binding:
    """Declare a user command.

    Args:
        key: One of the keys that `keys` declares.
        hint: words for the key hint line; neighbours with the same words share them, as in `[ ] step`.
        before_typing: whether text follows the key, perhaps in the same burst: the command is then carried out
            before the next key is looked at.
    """
    group = Binding.Group(hint) if hint else None
    return Binding(
        key.names, action, title, show=bool(hint), tooltip=help, id=action, group=group, priority=before_typing
    )


@frozen(eq=True)
class Command:
    """A declared command and the widget that carries it out."""

    node: DOMNode
    binding: Binding

    @property
    def keys(self) -> list[str]:
        """Its keys as a person reads them."""
        return [shown_key(name) for name in self.binding.key.split(",")]

    @property
    def line(self) -> int:
        """Its line in the help; the last for a key that no task is named for."""
        key = KEYS_BY_NAME.get(self.binding.key.partition(",")[0])
        return LINE_OF_KEY.get(key.names, len(TASK_OF_LINE)) if key else len(TASK_OF_LINE)

    @property
    def use(self) -> tuple[bool, int]:
        """Its place in the palette: what moves a cursor or goes back comes last, all else as in the help."""
        return self.line < len(TASK_OF_LINE) and TASK_OF_LINE[self.line] in ("moving", "going back"), self.line

    @property
    def title(self) -> str:
        """Its title and keys, as the palette lists it."""
        return f"{self.binding.description}  ({' '.join(self.keys)})"

    @property
    def available(self) -> bool:
        """True while it can be used."""
        _, name, parameters = parse(self.binding.action)
        return bool(self.node.check_action(name, parameters))

    async def run(self) -> None:
        """Carry it out, unless another screen has come up since it was picked."""
        app = self.node.app
        if self.node in (app, *app.screen.walk_children(with_self=True)):
            await app.run_action(self.binding.action, default_namespace=self.node)


def commands_of(node: DOMNode) -> list[Command]:
    """The commands that a widget, screen or app of this package declares, in order."""
    return [Command(node, binding) for binding in _declared(type(node))]


def commands_in_focus(screen: Screen[Any]) -> Iterator[tuple[DOMNode, list[Command]]]:
    """The commands of the keys right now: from the focused widget up to the app."""
    start: DOMNode = screen.focused or screen
    for node in start.ancestors_with_self:
        commands = commands_of(node)
        if commands:
            yield node, commands


def reason_against(screen: Screen[Any], name: str, character: str | None) -> str:
    """A sentence about a key that does nothing on a screen right now, and where it does; empty for one that works."""
    if isinstance(screen.focused, Input):
        # What is typed is for the line, as the keys that end it are.
        return ""
    start: DOMNode = screen.focused or screen
    reasons = []
    for node in start.ancestors_with_self:
        for each in _commands_by_key(type(node)).get(name, ()):
            _, action, parameters = parse(each.action)
            if node.check_action(action, parameters):
                return ""
            explain = getattr(node, "reason", None)
            reasons.append(explain(action) if explain is not None else "")
    if reasons:
        return next(filter(None, reasons), "")
    here = next((keys for node in screen.walk_children() if (keys := getattr(node, "tab_keys", ()))), ())
    if here and name in TABS.names.split(","):
        return f"{shown_key(name)} is no tab here: the tabs are {', '.join(here)}."
    nodes = [node for node in screen.walk_children() if name in _commands_by_key(type(node))]
    parts = dict.fromkeys(str(getattr(node, "HELP_WHERE", "")) for node in nodes if hasattr(node, "HELP_WHERE"))
    return where_it_works(name, character, list(parts))


@cache
def _commands_by_key(kind: type[DOMNode]) -> dict[str, list[Binding]]:
    """The commands that a class declares, by key."""
    commands: dict[str, list[Binding]] = {}
    for binding in _declared(kind):
        for name in binding.key.split(","):
            commands.setdefault(name, []).append(binding)
    return commands


def _declared(kind: type[DOMNode]) -> Iterator[Binding]:
    """The bindings that a class of this package declares, in order."""
    for base in kind.__mro__:
        if base.__module__.startswith("tracetui"):
            yield from (each for each in base.__dict__.get("BINDINGS", ()) if isinstance(each, Binding))


def all_commands(screen: Screen[Any]) -> Iterator[Command]:
    """Every command of a screen and its app, each title once; what moves a cursor comes last."""
    seen: set[str] = set()
    nodes = [node for node, _ in commands_in_focus(screen)][::-1]
    nodes += [node for node in screen.walk_children() if node not in nodes]
    for node in nodes:
        for each in commands_of(node):
            if each.binding.description not in seen:
                seen.add(each.binding.description)
                yield each


class CommandProvider(Provider):
    """The palette's entries: every command that is available, with its key."""

    async def discover(self) -> Hits:
        """All of them, before anything is typed."""
        for each in self._commands():
            yield DiscoveryHit(each.title, each.run, help=each.binding.tooltip)

    async def search(self, query: str) -> Hits:
        """Those whose title matches."""
        matcher = self.matcher(query)
        for each in self._commands():
            score = matcher.match(each.title)
            if score > 0:
                yield Hit(score, matcher.highlight(each.title), each.run, help=each.binding.tooltip)

    def _commands(self) -> list[Command]:
        commands = sorted(all_commands(self.screen), key=lambda each: each.use)
        for node in self.screen.walk_children():
            commands += [Command(node, binding) for binding in getattr(type(node), "WITHOUT_KEY", ())]
        return [each for each in commands if each.available and each.binding.action != "command_palette"]
