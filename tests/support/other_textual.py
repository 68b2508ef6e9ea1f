"""The app in a Textual that has other private names, or without any: `python -m tests.support.other_textual NAME...`.

Every word of the names is another one in the source of Textual, which is changed while it is imported. Each name has a
process of its own, as have several between which stands `|`; a line says what became of them.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import sys
import traceback
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from tempfile import mkdtemp
from typing import Any


class _Renaming(SourceFileLoader):
    """Reads source in which some words are others."""

    words: re.Pattern[str]

    def get_code(self, fullname: str) -> Any:
        """Compile the changed source; there is no cache of it."""
        path = self.get_filename(fullname)
        source = self.words.sub(r"\g<0>_of_another_version", Path(path).read_text())
        return compile(source, path, "exec", dont_inherit=True)


class _Finder:
    """Finds the modules of Textual and rich in which a word stands."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The module, to be read with other words."""
        if name.partition(".")[0] not in ("textual", "rich"):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.origin is None or not _Renaming.words.search(Path(spec.origin).read_text()):
            return spec
        return importlib.util.spec_from_file_location(
            name,
            spec.origin,
            loader=_Renaming(name, spec.origin),
            submodule_search_locations=spec.submodule_search_locations,
        )


async def walk(folder: Path) -> None:
    """Open two traces, step, sort, switch panes, compare, and quit."""
    from tests.support.app import Shown, burst, keys, opened, settle
    from tests.support.compared_app import Compared, compared
    from tests.support.comparing import tutorial
    from tests.support.comparing.recording import write
    from tests.support.waiting import until
    from tracetui.opening.trace_opening import SideName, open_trace

    paths = [
        write(tutorial.mlp_events(events), folder / f"{name}.json")
        for name, events in (("eager", tutorial.EAGER), ("compiled", tutorial.COMPILED))
    ]
    shown = Shown(open_trace(str(paths[0])))
    async with shown.run_test(size=(120, 40)) as pilot:
        await opened(shown, pilot)
        before = shown.view.panes.pane, shown.view.step
        await keys(pilot, "left_square_bracket", "2", "o", "j", "full_stop", "ctrl+p", "pagedown", "escape")
        assert shown.view.panes.pane != before[0] and shown.view.step != before[1]
        burst(shown, "q")
        await until(pilot, lambda: shown.return_code is not None, "the app does not quit")
    assert (shown.return_code, shown.crash) == (0, "")
    both = Compared(*(SideName(str(path)) for path in paths))
    async with both.run_test(size=(120, 40)) as pilot:
        await compared(both, pilot)
        await keys(pilot, "j", "o", "2", "right_square_bracket", "question_mark", "escape")
        await settle(pilot)
        burst(both, "q")
        await until(pilot, lambda: both.return_code is not None, "the app does not quit")
    assert (both.return_code, both.crash) == (0, "")


def _run(joined: str) -> None:
    """Run the app without one name or several, all of which have to be noticed."""
    names = joined.split("|")
    words = {re.findall(r"\w+", name.partition("(")[0].split(".")[-1])[-1] for name in names}
    _Renaming.words = re.compile(rf"(?<!textual\.)(?<!drivers\.)\b(?:{'|'.join(words)})\b")
    sys.meta_path.insert(0, _Finder())
    from tracetui.ui.base import textual_internals

    known = [each for names in textual_internals.NAMES.values() for each in names]
    missing = set(textual_internals.missing_names())
    assert missing.issuperset(names), f"not noticed; missing are {missing}"
    off = [part for part in textual_internals.NAMES if not textual_internals.works(part)]
    assert off, known
    asyncio.run(walk(Path(mkdtemp())))
    print("without", *off, flush=True)


def main(names: list[str]) -> int:
    """Run the app once for each name, two at a time."""
    import numpy  # noqa: F401 - every process needs it

    failed, running = 0, 0
    for name in names:
        if running == 2:
            failed, running = failed + (os.wait()[1] != 0), running - 1
        if os.fork() == 0:
            try:
                _run(name)
            except BaseException:
                print(name, traceback.format_exc(), flush=True)
                os._exit(1)
            os._exit(0)
        running += 1
    for _ in range(running):
        failed += os.wait()[1] != 0
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
