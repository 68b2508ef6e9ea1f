"""Patterns that are compiled late are right from the beginning."""

from __future__ import annotations

import importlib
import pkgutil
import re

import pytest

import tracetui.kernel_names
from tracetui.text import _LazyPattern, lazy_pattern

MODULES = sorted(module.name for module in pkgutil.iter_modules(tracetui.kernel_names.__path__))


def patterns_in(value):
    """All patterns in a value of a module, however deep."""
    if isinstance(value, _LazyPattern):
        yield value
    elif isinstance(value, dict):
        yield from patterns_in([*value, *value.values()])
    elif isinstance(value, list | tuple | set | frozenset):
        for each in value:
            yield from patterns_in(each)


@pytest.mark.parametrize("module", MODULES)
def test_every_pattern_can_be_compiled(module):
    loaded = importlib.import_module(f"tracetui.kernel_names.{module}")
    for pattern in patterns_in(list(vars(loaded).values())):
        assert pattern.search.__self__ == re.compile(pattern.pattern, pattern._flags)


def test_patterns_are_found_where_they_are():
    modules = (importlib.import_module(f"tracetui.kernel_names.{module}") for module in MODULES)
    assert sum(len(list(patterns_in(list(vars(module).values())))) for module in modules) > 200


def test_a_late_pattern_does_what_the_pattern_does():
    late, known = lazy_pattern(r"(\w)b", re.IGNORECASE), re.compile(r"(\w)b", re.IGNORECASE)
    text = "AB cb d"
    assert (late.pattern, late.groups, late.flags) == (known.pattern, known.groups, known.flags)
    assert late.findall(text) == known.findall(text) == ["A", "c"]
    assert late.sub("-", text) == known.sub("-", text)
    with pytest.raises(AttributeError):
        getattr(late, "nothing_of_the_kind")  # noqa: B009
    with pytest.raises(re.error):
        lazy_pattern("(").search("")
