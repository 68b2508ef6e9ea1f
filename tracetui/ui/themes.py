"""The app's own dark and light theme. Quiet colours: in the lanes the slices are what stands out."""

from __future__ import annotations

from textual.theme import Theme

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
    panel="#e7ebef",
    dark=False,
)
THEMES = (DARK, LIGHT)
