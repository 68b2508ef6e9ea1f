"""Print the page that teaches an assistant the commands, their JSON, and how to cite what it says.

Put it where your assistant looks for instructions: `tracetui skill > SKILL.md`."""

from __future__ import annotations

import argparse
import sys
from importlib.resources import files

HELP = "print the page that teaches an assistant to use tracetui"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`tracetui skill` has no arguments."""


def run(options: argparse.Namespace) -> int:
    """Print the page."""
    sys.stdout.write((files("tracetui.agents") / "skill.md").read_text("utf-8"))
    return 0
