"""Try the mutants of one module, in a copy of the checkout: `python -m tests.mutants.worker NAME SAMPLE SEED`.

Prints a line of JSON. The module is changed on disk, so that this is nothing to start in a checkout. Each mutant is
tried in a fork of this process, which has imported all that tests need but the project itself: that takes a second
less than a process of its own, which is more than the tests take.
"""

from __future__ import annotations

import ast
import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import hypothesis.strategies
import msgspec
import numpy
import orjson
import pytest
import pytest_asyncio.plugin
import rich.console
from cosmic_ray.commands import init
from cosmic_ray.mutating import use_mutation
from cosmic_ray.plugins import OPERATOR_PROVIDERS, get_operator
from cosmic_ray.work_db import WorkDB

from tests.mutants.modules import MODULES, Mutated
from tests.mutants.operators import USED, Provider

IMPORTED = (hypothesis.strategies, msgspec, numpy, orjson, pytest_asyncio.plugin, rich.console)
"""What is imported once for all mutants."""
SLOWER = 5
"""A mutant whose tests take so many times as long as without it runs for ever, and is noticed."""
LEAST_SECONDS = 20.0
OPTIONS = (
    *("-q", "-x", "-o", "addopts=", "-p", "pytest_asyncio.plugin", "-p", "_hypothesis_pytestplugin"),
    *("-p", "no:cacheprovider", "--hypothesis-profile=mutants", "-W", "ignore::pytest.PytestAssertRewriteWarning"),
)

Position = tuple[int, int]


def main() -> int:
    """Try the mutants and print what became of them."""
    name, sample, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    module = MODULES[name]
    # What it started is to end with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    began = time.monotonic()
    if not passes(module.tests, 600):
        print(f"{name}: the tests fail without any change", file=sys.stderr)
        return 1
    limit = max(SLOWER * (time.monotonic() - began), LEAST_SECONDS)
    # A file that is changed twice in a second must not be taken for what was compiled between.
    sys.dont_write_bytecode = True
    mutants = every_mutant(module)
    chosen = random.Random(f"{name} {seed}").sample(mutants, sample) if 0 < sample < len(mutants) else mutants
    survivors = []
    for number, mutant in enumerate(chosen, 1):
        operator = get_operator(mutant.operator_name)()
        with use_mutation(mutant.module_path, operator, mutant.occurrence) as (before, after):
            survived = passes(module.tests, limit)
        if survived:
            survivors.append((mutant.start_pos[0], *changed_lines(before, after)))
        print(f"{name}: {number} of {len(chosen)}", *(survivors[-1] if survived else ["noticed"]), file=sys.stderr)
    print(json.dumps({"mutants": len(mutants), "tried": len(chosen), "survivors": sorted(survivors)}))
    return 0


def passes(tests: Sequence[str], limit: float) -> bool:
    """Whether all of some tests pass within so many seconds, in a process of their own."""
    child = os.fork()
    if child == 0:
        os.setsid()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        os._exit(int(pytest.main([*OPTIONS, *tests])))
    try:
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                child = 0
                return os.waitstatus_to_exitcode(status) == 0
            time.sleep(0.02)
        return False
    finally:
        if child:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)


def every_mutant(module: Mutated) -> list[Any]:
    """The mutations of a module by Cosmic Ray: by the operators in use, and not where no result rests on it."""
    OPERATOR_PROVIDERS["tracetui"] = Provider()
    database = WorkDB("mutants.sqlite", WorkDB.Mode.create)
    init([module.path], database, {})
    text = Path(module.path).read_text()
    unread = list(unread_parts(text))
    read = {
        number
        for node in ast.walk(ast.parse(text))
        if not module.functions or getattr(node, "name", None) in module.functions
        for number in range(getattr(node, "lineno", 1), (getattr(node, "end_lineno", 0) or 0) + 1)
    }
    left_out = {
        number
        for number, line in enumerate(text.splitlines(), 1)
        if number not in read or any(part in line for part in module.indifferent)
    }
    mutations = [item.mutations[0] for item in database.work_items]
    database.close()
    kept = [
        mutation
        for mutation in mutations
        if mutation.operator_name in USED
        and mutation.start_pos[0] not in left_out
        and not any(low <= tuple(mutation.start_pos) < high for low, high in unread)
    ]
    return sorted(kept, key=lambda mutation: (mutation.start_pos, mutation.operator_name, mutation.occurrence))


def unread_parts(text: str) -> Iterator[tuple[Position, Position]]:
    """Where annotations, decorators of classes and `strict` of `zip` begin and end, on which no result rests."""
    for node in ast.walk(ast.parse(text)):
        decorators = node.decorator_list if isinstance(node, ast.ClassDef) else []
        strict = node.value if isinstance(node, ast.keyword) and node.arg == "strict" else None
        for part in (getattr(node, "annotation", None), getattr(node, "returns", None), strict, *decorators):
            if isinstance(part, ast.expr):
                yield (part.lineno, part.col_offset), (part.end_lineno or 0, part.end_col_offset or 0)


def changed_lines(before: str, after: str) -> tuple[str, str]:
    """The first line that differs, before and after."""
    pairs = zip(before.splitlines(), after.splitlines(), strict=False)
    return next(((old.strip(), new.strip()) for old, new in pairs if old != new), ("", ""))


if __name__ == "__main__":
    sys.exit(main())
