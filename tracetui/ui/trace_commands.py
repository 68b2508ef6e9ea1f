"""The commands of a trace view, each declared once; what they do is `TraceView.action_...`."""

from __future__ import annotations

from textual.binding import BindingType

from tracetui.ui.commands import command
from tracetui.ui.pane_list import TAB_KEYS

TRACE_COMMANDS: list[BindingType] = [
    command("full_stop", "kernel(1)", "Next kernel", "In time order, over all streams.", "kernel"),
    command("comma", "kernel(-1)", "Previous kernel", "In time order, over all streams.", "kernel"),
    command("left_square_bracket", "step(-1)", "Previous step", "Shows and lists that step.", "step"),
    command("right_square_bracket", "step(1)", "Next step", "Shows and lists that step.", "step"),
    command("0", "fit_trace", "Fit the trace", "The whole of it in the lanes."),
    command("A", "all_steps", "List all steps, or one", "The panes list every step, or the selection's."),
    command("f,g", "follow(1)", "Follow the link", "Kernel → launch → op → its forward op (f in lists).", "follow"),
    command("r,G", "follow(-1)", "Follow it back", "Forward op → backward op, launch → kernel.", "follow"),
    command("slash", "search", "Search", "Names in the lanes, or rows of the list.", "search", before_typing=True),
    command("F", "filter", "Filter the list", "Keeps rows that contain what you type.", "filter", before_typing=True),
    command("n", "hit(1)", "Next match", "Of the last search."),
    command("N", "hit(-1)", "Previous match", "Of the last search."),
    command("escape", "clear", "Clear search and filter"),
    command("backspace", "back", "Back to where you were", "Undoes the last jump."),
    command("m", "mark", "Mark this place", "Or remove the mark of what is selected."),
    command("apostrophe", "marks", "List of marks"),
    *(
        command(key, f"tab('{name}')", f"Pane {name}", f"Opens the tab {name.title()}.")
        for name, key in TAB_KEYS.items()
    ),
    command("i", "details", "Details of the selection", "Where the screen is narrow: in place of the list."),
    command("y", "copy_row", "Copy the row", "As Markdown: to the clipboard and a file."),
    command("Y", "copy_view", "Copy a view string", "What --at opens: step, pane, selection, window."),
    command("e", "export", "Export the pane", "The listed rows, to a CSV file and as Markdown."),
    command("tab", "app.focus_next", "Next part of the screen", "Lanes, list, details."),
    command("shift+tab", "app.focus_previous", "Previous part of the screen", "Lanes, list, details."),
]
"""In the order of the help."""
