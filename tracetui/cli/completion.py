"""Shell completion, printed by `tracetui --print-completion SHELL`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

SHELLS = ("bash", "zsh", "tcsh")

FILES = {"bash": "_shtab_compgen_files", "zsh": "_files", "tcsh": "f"}
"""What completes a path, in the words of shtab, which is only imported when it is asked."""


class PrintCompletion(argparse.Action):
    """Prints a completion script and exits."""

    def __init__(self, option_strings: Sequence[str], dest: str, **_: Any) -> None:
        super().__init__(
            option_strings,
            argparse.SUPPRESS,
            choices=SHELLS,
            help='print a completion script for your shell, for example: eval "$(tracetui --print-completion bash)"',
        )

    def __call__(self, parser: argparse.ArgumentParser, *values: Any) -> None:
        """Print the script for the shell that was named."""
        # Only this option needs it.
        import shtab

        print(shtab.complete(parser, shell=values[1]))
        parser.exit()
