"""Figures of the source code: files, lines and functions by folder, functions used once, places, and words."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

CODE = ("tracetui", "workloads/tracetui_workloads")
TOOLS = ("benchmarks", "fuzz", "load", "mutants", "house")
"""Folders of `tests/` that hold no tests of the code."""
MAX_SHORT_LINES = 5
"""Lines of a body that is short, without its docstring."""
MIN_PANES_OF_A_TABLE = 5
"""Panes that a literal names by their names, for it to be a table of panes."""
QUESTIONS = ("What", "Which", "How", "Where", "Whether", "Why")
"""Words with which no docstring is to begin."""

_DEF = re.compile(r"^ *(?:async )?def \w", re.MULTILINE)

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Source(NamedTuple):
    """A file, read once."""

    path: str
    """Below the checkout, with `/`."""
    text: str
    nodes: list[ast.AST]
    """All nodes of its syntax tree."""
    functions: list[Function]
    """All that is defined with `def`, methods and inner functions too."""


def read_sources(root: Path, *folders: str) -> list[Source]:
    """Every Python file below folders of a checkout, in order."""
    sources = []
    for path, text in _texts(root, folders):
        nodes = list(ast.walk(ast.parse(text)))
        sources.append(Source(path, text, nodes, [node for node in nodes if isinstance(node, Function)]))
    return sources


def _texts(root: Path, folders: Iterable[str]) -> Iterator[tuple[str, str]]:
    for path in sorted(path for folder in folders for path in (root / folder).rglob("*.py")):
        yield path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")


def folder_of(path: str) -> str:
    """The folder that a file counts in: two levels below the package, one below `tests`."""
    *folders, _ = path.split("/")
    if folders[0] == "tests":
        return "tests tools" if folders[1:2] and folders[1] in TOOLS else "/".join(folders[:2])
    return "/".join(folders[: 2 + len(next(each for each in CODE if path.startswith(each)).split("/"))])


def folder_figures(root: Path, *folders: str) -> dict[str, dict[str, int]]:
    """Files, lines and lines with `def` of each folder below some of a checkout, by its path."""
    figures: dict[str, Counter[str]] = defaultdict(Counter)
    for path, text in _texts(root, folders):
        functions = len(_DEF.findall(text))
        figures[folder_of(path)].update(files=1, lines=len(text.splitlines()), functions=functions)
    return {folder: dict(figures[folder]) for folder in sorted(figures)}


def summed(figures: Iterable[dict[str, int]]) -> dict[str, int]:
    """The sums over folders."""
    total: Counter[str] = Counter()
    for counts in figures:
        total.update(counts)
    return dict(total)


def body_lines(function: Function) -> int:
    """Lines of a body without its docstring."""
    body = function.body[ast.get_docstring(function, clean=False) is not None :]
    return 0 if not body else (body[-1].end_lineno or 0) - body[0].lineno + 1


def code_figures(sources: list[Source], panes: list[str]) -> dict[str, int]:
    """Figures over all code of the product.

    * `used_once`: functions of modules whose name stands once as a name or an attribute, in all code, or for a private
      one in its file; imports are no use. `used_once_and_short`: of these the ones with a short body
    * `one_line_functions`: bodies of one line or none beside the docstring, of methods and inner functions too
    * `trace_parameters`: parameters annotated `Trace`
    * `pane_tables`: literals that name panes one by one: dicts, lists and calls
    * `remembered`: calls of `.remember`; `remembered_names`: places that name such a result by its text elsewhere
    * `question_docstrings`: docstrings that begin with a question word
    """
    once = list(used_once(sources))
    functions = [function for source in sources for function in source.functions]
    keys, strings = _remembered(sources)
    return {
        "used_once": len(once),
        "used_once_and_short": sum(body_lines(function) <= MAX_SHORT_LINES for _, function in once),
        "one_line_functions": sum(body_lines(each) <= 1 for each in functions),
        "trace_parameters": sum(
            isinstance(each.annotation, ast.Name) and each.annotation.id == "Trace"
            for function in functions
            for each in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
        ),
        "pane_tables": sum(_is_pane_table(node, set(panes)) for source in sources for node in source.nodes),
        "remembered": sum(keys.values()),
        "remembered_names": sum(max(0, count - keys[text]) for text, count in strings.items() if text in keys),
        "question_docstrings": sum(
            text.split(maxsplit=1)[0] in QUESTIONS for source in sources for text in docstrings(source)
        ),
    }


def docstrings(source: Source) -> list[str]:
    """Docstrings of the module, of classes and of functions."""
    documented = ast.Module | ast.ClassDef | Function
    texts = (ast.get_docstring(node) for node in source.nodes if isinstance(node, documented))
    return [text for text in texts if text]


def word_counts(
    sources: list[Source], words: dict[str, int], names: dict[str, int]
) -> tuple[Counter[str], Counter[str]]:
    """How often words stand as a part of a name, in a docstring or as a file; and `names` as a whole name."""
    by_form = {snake(word): word for word in words}
    forms = "|".join(map(re.escape, sorted(by_form, key=len, reverse=True)))
    pattern = re.compile(rf"(?<![a-z0-9])(?:{forms})(?![a-z0-9])")
    in_words: Counter[str] = Counter()
    as_names: Counter[str] = Counter()
    for source in sources:
        identifiers = list(_identifiers(source))
        as_names.update(each for each in identifiers if each in names)
        text = "\n".join([source.path.rsplit("/", 1)[-1][:-3], *map(snake, identifiers), *docstrings(source)]).lower()
        in_words.update(by_form[form] for form in pattern.findall(text))
    return in_words, as_names


def snake(name: str) -> str:
    """A name in small letters with `_` between its parts."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _identifiers(source: Source) -> Iterator[str]:
    for node in source.nodes:
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, Function | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.alias):
            yield from (node.asname or node.name).split(".")


def used_once(sources: list[Source]) -> Iterator[tuple[Source, Function]]:
    """Functions of modules that are used once; `code_figures` says what counts as a use."""
    everywhere: Counter[str] = Counter()
    by_file: dict[str, Counter[str]] = {}
    for source in sources:
        used = Counter(
            node.id if isinstance(node, ast.Name) else node.attr
            for node in source.nodes
            if isinstance(node, ast.Name | ast.Attribute)
        )
        by_file[source.path] = used
        everywhere.update(used)
    for source in sources:
        module = source.nodes[0]
        assert isinstance(module, ast.Module)
        for function in (each for each in module.body if isinstance(each, Function)):
            is_private = function.name.startswith("_")
            used = by_file[source.path] if is_private else everywhere
            if used[function.name] == 1:
                yield source, function


def short_functions(sources: list[Source], path: str) -> list[str]:
    """A line for each function below a path that is used once and short, or has a body of one line."""
    once = {id(function) for _, function in used_once(sources)}
    lines = []
    for source in sources:
        for function in source.functions if source.path.startswith(path) else ():
            length = body_lines(function)
            marks = ["used once"] * (id(function) in once and length <= MAX_SHORT_LINES) + ["one line"] * (length <= 1)
            if marks:
                lines.append(f"{source.path}:{function.lineno} {function.name}: {', '.join(marks)}")
    return lines


def _is_pane_table(node: ast.AST, panes: set[str]) -> bool:
    if isinstance(node, ast.Dict):
        items: list[ast.AST | None] = list(node.keys)
    elif isinstance(node, ast.List | ast.Tuple | ast.Set | ast.Call):
        items = list(node.args if isinstance(node, ast.Call) else node.elts)
    else:
        return False
    firsts = [item.args[0] if isinstance(item, ast.Call) and item.args else item for item in items]
    # A key may be a pane and a grouping.
    firsts = [item.elts[0] if isinstance(item, ast.Tuple) and item.elts else item for item in firsts]
    return len({each.value for each in firsts if isinstance(each, ast.Constant)} & panes) >= MIN_PANES_OF_A_TABLE


def _remembered(sources: list[Source]) -> tuple[Counter[str], Counter[str]]:
    """Texts that `.remember` is called with, and how often each text stands anywhere."""
    keys: Counter[str] = Counter()
    strings: Counter[str] = Counter()
    for source in sources:
        for node in source.nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                strings[node.value] += 1
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "remember":
                first = node.args[0] if node.args else None
                first = first.elts[0] if isinstance(first, ast.Tuple) and first.elts else first
                keys[str(first.value) if isinstance(first, ast.Constant) else "(computed)"] += 1
    return keys, strings
