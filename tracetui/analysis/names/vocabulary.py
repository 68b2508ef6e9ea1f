"""Which operators an Inductor kernel stems from: its name split by the words of PyTorch's dispatcher.

Inductor joins the sorted, unique names of operators with `_`, which they hold themselves. The order, strictly
ascending, is what makes the way back unique. `operators.txt` has the base names of torch 2.13's operators:

    names = {n.split("::")[1].split(".")[0] for n in torch._C._dispatch_get_all_op_names()}
    names |= set(map(str, torch._ops._higher_order_ops))  # after importing torch._inductor.lowering

and `modules.txt` the classes of torch.nn, which kernels of torch 2.0 are named after.
"""

from __future__ import annotations

from collections.abc import Set
from functools import cache
from pathlib import Path
from typing import NamedTuple

MOST_WORDS = 400
"""Words of a name that are split; longer ones are no names of Inductor."""

_LONGEST_NAME = 16
"""Words of one operator that are tried."""


class _Path(NamedTuple):
    """The best way to the end of one operator: how many operators, how many such ways, and from where."""

    size: int
    ways: int
    previous: tuple[int, str] | None


@cache
def operators() -> frozenset[str]:
    """The base names of PyTorch's operators."""
    return _read("operators.txt")


@cache
def modules() -> frozenset[str]:
    """The class names of torch.nn."""
    return _read("modules.txt")


def _read(file: str) -> frozenset[str]:
    return frozenset((Path(__file__).parent / file).read_text(encoding="utf-8").split())


def segments(text: str, more: Set[str] = frozenset()) -> tuple[tuple[str, ...], bool]:
    """Split `_to_copy_addmm_mean` into operators, and say whether that is the only way with so few of them.

    `more` are names of custom operators. Empty where the text is no list of known operators.
    """
    found = _split(text, operators(), more)
    if not found[0]:
        found = _split(text, operators() | modules(), more)
    return found


def _split(text: str, known: Set[str], more: Set[str]) -> tuple[tuple[str, ...], bool]:
    """The fewest operators in strictly ascending order that make up the text, by dynamic programming."""
    ends = [place for place, letter in enumerate(text) if letter == "_"] + [len(text)]
    if len(ends) > MOST_WORDS:
        return (), False
    best: dict[int, dict[str, _Path]] = {0: {"": _Path(0, 1, None)}}
    for begin in [0, *(end + 1 for end in ends[:-1])]:
        paths = best.get(begin)
        if not paths:
            continue
        for end in [end for end in ends if end > begin][:_LONGEST_NAME]:
            word = text[begin:end]
            if word in known or word in more:
                _extend(best.setdefault(end + 1, {}), begin, word, paths)
    return _shortest(best, len(text) + 1)


def _extend(here: dict[str, _Path], begin: int, word: str, paths: dict[str, _Path]) -> None:
    """Add one operator to the ways that led to its beginning, where it stays in order."""
    for last, path in paths.items():
        if last >= word:
            continue
        known = here.get(word)
        if known is None or path.size + 1 < known.size:
            here[word] = _Path(path.size + 1, path.ways, (begin, last))
        elif path.size + 1 == known.size:
            here[word] = known._replace(ways=known.ways + path.ways)


def _shortest(best: dict[int, dict[str, _Path]], end: int) -> tuple[tuple[str, ...], bool]:
    paths = best.get(end)
    if not paths:
        return (), False
    word = min(paths, key=lambda last: paths[last].size)
    unique = sum(path.ways for path in paths.values() if path.size == paths[word].size) == 1
    found: list[str] = []
    place: int = end
    while word:
        found.append(word)
        step = best[place][word].previous
        if step is None:
            break
        place, word = step
    return tuple(reversed(found)), unique
