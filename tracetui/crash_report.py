"""The report of a defect of this program: a sentence for the terminal, and a file with the whole traceback.

Values of variables are in neither: they are data of a trace. The error's own words are in both, made harmless.
"""

from __future__ import annotations

import platform
import sys
import traceback
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from types import TracebackType

from tracetui.files import user_cache_folder, write_whole
from tracetui.text import clean

KEPT = 20
"""Reports that are kept; older ones are removed."""
LONGEST = 120
"""Characters of an error's words that are shown."""
LONGEST_LINE = 2000
"""Characters of a line of the file."""

_PACKAGE = Path(__file__).parent


def reports_folder() -> Path:
    """The folder of reports."""
    return user_cache_folder() / "crashes"


def crash_message(error: BaseException) -> str:
    """Two sentences about an error that nobody expected; its traceback is written to a file, which they name."""
    # A thread needs addresses for its stack.
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "start new thread" in str(error)):
        return "tracetui: There is not enough memory for this."
    return f"tracetui {_own_version()} failed with {described(error)}.\n{where_reported(error)}"


def described(error: BaseException) -> str:
    """The class of an error, its words and the place in this package where it came up."""
    said = _shorten(" ".join(clean(str(error)).split()), LONGEST)
    return type(error).__name__ + (f": {said}" if said else "") + f" ({place_of(error.__traceback__)})"


def where_reported(error: BaseException) -> str:
    """Advice on an error that nobody expected, with the file that has its traceback.

    An error that comes up again, from whatever asks for the same thing, is in the file that was written the first time.
    """
    place = described(error)
    path = _written.get(place)
    try:
        if path is None or not path.exists():
            path = _written[place] = write_report(report(error))
    except OSError as trouble:
        return f"Its traceback could not be written to {reports_folder()}: {trouble.strerror}."
    return f"This is a defect of tracetui; please report it. The traceback is in {clean(str(path))}"


_written: dict[str, Path] = {}
"""The files that this process has written, by what they are about."""


def _shorten(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def report(error: BaseException) -> str:
    """Versions and the traceback, no values of variables, nothing that steers a terminal."""
    lines = "".join(traceback.format_exception(error)).splitlines()
    head = [
        f"tracetui {_own_version()}, Python {platform.python_version()}, {platform.platform()}",
        ", ".join(f"{name} {_version(name)}" for name in ("textual", "rich", "numpy")),
        "",
    ]
    return "\n".join(_shorten(clean(line), LONGEST_LINE) for line in [*head, *lines]) + "\n"


def write_report(text: str) -> Path:
    """Write a report and return its path.

    Raises: OSError when it cannot be written.
    """
    folder = reports_folder()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{datetime.now():%Y%m%d-%H%M%S-%f}.txt"
    write_whole(path, text)
    for old in sorted(folder.glob("*.txt"))[:-KEPT]:
        with suppress(OSError):
            old.unlink()
    return path


def place_of(trace: TracebackType | None) -> str:
    """File, line and function in which it failed: the last ones of this package, where there are any."""
    frames = traceback.extract_tb(trace)
    own = [frame for frame in frames if _PACKAGE in Path(frame.filename).parents]
    if not frames:
        return "at an unknown place"
    frame = (own or frames)[-1]
    name = Path(frame.filename)
    where = name.relative_to(_PACKAGE.parent) if own else name.name
    return f"{clean(str(where))}, line {frame.lineno}, in {frame.name}"


def _own_version() -> str:
    # The package itself leads to what records, of which drawing must know nothing.
    return str(getattr(sys.modules["tracetui"], "__version__", "of unknown version"))


def _version(name: str) -> str:
    # What was never loaded cannot be the reason.
    if name not in sys.modules:
        return "not loaded"
    # It takes as long to load as a tenth of the app, which it is loaded with otherwise.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"
