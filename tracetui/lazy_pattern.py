"""Regular expressions that are compiled when they are first used.

The names of kernels are read with some hundred of them, which take longer to compile than the screen takes to be
drawn. A trace needs a few.
"""

from __future__ import annotations

import re
from typing import Any, cast


class _LazyPattern:
    """Becomes a pattern, method by method, with the first one that is asked for."""

    def __init__(self, text: str, flags: int) -> None:
        self.pattern = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        # From now on the method is an attribute of its own, and found as fast as that of a pattern.
        method = self.__dict__[name] = getattr(re.compile(self.pattern, self._flags), name)
        return method


def lazy_pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """What `re.compile` returns, but for the moment at which a mistake in the text is found."""
    return cast("re.Pattern[str]", _LazyPattern(text, flags))
