"""The commands of the view of two traces, each declared once; what they do is `CompareView.action_...`."""

from __future__ import annotations

from textual.binding import BindingType

from tracetui.ui.base.commands import command
from tracetui.ui.compare.compare_list import CHANGE_KEYS

COMPARE_COMMANDS: list[BindingType] = [
    command("full_stop", "kernel(1)", "Next kernel of A", "In time order; its partner is lit in B.", "kernel"),
    command("comma", "kernel(-1)", "Previous kernel of A", "In time order; its partner is lit in B.", "kernel"),
    command("left_square_bracket", "step(-1)", "Previous step in both", "Or the run before.", "step"),
    command("right_square_bracket", "step(1)", "Next step in both", "Or the run after.", "step"),
    command("left_curly_bracket", "step_one(-1)", "Previous step in one", "In B; in A while its lanes have the keys."),
    command("right_curly_bracket", "step_one(1)", "Next step in one", "In B; in A while its lanes have the keys."),
    command("f", "fit_selection", "Fit what is lit", "The instances of the change, in both timelines.", "fit"),
    command("0", "fit_parts", "Fit the steps", "The whole of both."),
    command("o,g", "open_slice(0)", "Open in its trace", "The selected slice, with all panes (o in lists).", "open"),
    command("O", "open_slice(1)", "Open the partner in its trace", "That of the other side."),
    command("v", "statement", "All that is said", "Every sentence, in place of the timelines.", "all"),
    command("i", "details", "Details of the change", "Where the screen is narrow: in place of the list.", "details"),
    command("slash", "search", "Search", "Rows of the list.", "search", before_typing=True),
    command("F", "filter", "Filter the list", "Keeps rows that contain what you type.", "filter", before_typing=True),
    command("n", "hit(1)", "Next match", "Of the last search."),
    command("N", "hit(-1)", "Previous match", "Of the last search."),
    command("escape", "clear", "Clear search and filter"),
    command("X", "swap", "Swap A and B", "What was after is before."),
    *(
        command(key, f"tab('{name}')", f"Tab {name}", f"Opens the tab {name.title()}.")
        for name, key in CHANGE_KEYS.items()
    ),
    command("y", "copy_row", "Copy the row", "As Markdown: to the clipboard and a file."),
    command("Y", "copy_command", "Copy the command", "What opens this comparison again."),
    command("e", "export", "Export the table", "The listed rows, to a CSV file and as Markdown."),
    command("tab", "app.focus_next", "Next part of the screen", "Timelines, list, details.", "parts"),
    command("shift+tab", "app.focus_previous", "Previous part of the screen", "Timelines, list, details."),
]
"""In the order of the help."""
