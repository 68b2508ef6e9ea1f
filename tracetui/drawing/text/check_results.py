"""What the results of a check look like, whatever their form: by that an earlier one is known again."""

from __future__ import annotations

import os
import re
from typing import BinaryIO

HEAD, TAIL = 4096, 512
"""Bytes at the beginning and the end of a file that are looked at."""
_BEGINNINGS = re.compile(
    rb"""<\?xml\ [^>]*>\s*<testsuites\ name="tracetui\ check"   # JUnit
    |\{"passes":(true|false),"counts":                          # JSON
    |\*\*\d+\ of\ \d+\ holds?\b                                 # Markdown
    |\{"trace":.*"pane":"names"                               # names as JSON
    |\*\*names\*\*\ of\                                         # names as Markdown
    |dur_us\ +\S+\ us\ +Duration\ of                            # names as text
    """,
    re.VERBOSE,
)
_LINE = re.compile(rb"^(ok|FAIL|missing|cannot tell) ", re.MULTILINE)
_LAST = re.compile(rb"(^|\n)\d+ of \d+ holds?(: [^\n]*)?\n\Z")


def is_result(file: BinaryIO) -> bool:
    """Whether a file holds what a check has written, or nothing."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    head = file.read(HEAD)
    file.seek(max(size - TAIL, 0))
    tail = file.read(TAIL)
    return size == 0 or bool(_BEGINNINGS.match(head)) or bool(_LINE.search(head) and _LAST.search(tail))
