"""Themes: the app's own dark and light, and two in the terminal's colours. Quiet: in the lanes the slices stand out.

The latter leave text and background as the terminal has them, so that they suit any palette, and terminals with 16
colours or none; what has the focus is shown in reverse video (`ansi.tcss`).
"""

from __future__ import annotations

from collections.abc import Mapping

from textual.theme import BUILTIN_THEMES, Theme

DARK = Theme(
    name="tracetui-dark",
    primary="#7fb2e5",
    secondary="#8fa3b8",
    accent="#e0a458",
    warning="#e0a458",
    error="#d9776c",
    success="#7fb2e5",
    foreground="#d8dee6",
    background="#101418",
    surface="#161b21",
    panel="#1d242c",
    dark=True,
)
LIGHT = Theme(
    name="tracetui-light",
    primary="#1f5f99",
    secondary="#5a6b7d",
    accent="#a65f00",
    warning="#a65f00",
    error="#b03a2e",
    success="#1f5f99",
    foreground="#1d242c",
    background="#ffffff",
    surface="#f4f6f8",
    panel="#e6e8ea",
    dark=False,
)
ANSI_DARK, ANSI_LIGHT = BUILTIN_THEMES["ansi-dark"], BUILTIN_THEMES["ansi-light"]

THEMES = (DARK, LIGHT)
"""Those that Textual does not have."""
OWN_COLOURS, TERMINALS_COLOURS = (DARK.name, LIGHT.name), (ANSI_DARK.name, ANSI_LIGHT.name)

VARIABLE = "TRACETUI_THEME"
"""Names the theme to start with: dark, light, ansi-dark or ansi-light."""
_CHOICES = {"dark": DARK.name, "light": LIGHT.name, "ansi-dark": ANSI_DARK.name, "ansi-light": ANSI_LIGHT.name}


def usable(is_plain: bool) -> tuple[str, ...]:
    """Names of the themes to go through; on a plain terminal, with 16 colours or none, those in its own colours."""
    return TERMINALS_COLOURS if is_plain else OWN_COLOURS + TERMINALS_COLOURS


def first_theme(environment: Mapping[str, str], is_plain: bool) -> str:
    """The theme to start with: that of `TRACETUI_THEME`, else one for the colours and background of the terminal."""
    names = usable(is_plain)
    wanted = _CHOICES.get(environment.get(VARIABLE, ""), "")
    if wanted in names:
        return wanted
    is_light = wanted == LIGHT.name or (not wanted and has_light_background(environment))
    return names[is_light]


def next_theme(current: str, is_plain: bool) -> str:
    """The theme after one."""
    names = usable(is_plain)
    return names[(names.index(current) + 1) % len(names)] if current in names else names[0]


def has_light_background(environment: Mapping[str, str]) -> bool:
    """Whether the terminal has a light background: COLORFGBG is `text;background`, in which 7 and 15 are white."""
    return environment.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15")
