"""Interned strings: an event stores a small number, the text is kept once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence


class Strings(Sequence[str]):
    """A list of distinct texts in which the index of a text is its id.

    `intern` gives the id of a text and adds it when it is new; indexing goes back. Ids are never reused.
    """

    __slots__ = ("_ids", "_texts")

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._texts: list[str] = []
        self._ids: dict[str, int] = {}
        for text in texts:
            self.intern(text)

    def intern(self, text: str) -> int:
        """Return the id of `text`, adding it when it is new."""
        found = self._ids.get(text)
        if found is None:
            found = self._ids[text] = len(self._texts)
            self._texts.append(text)
        return found

    def find(self, text: str) -> int:
        """Return the id of `text`, or -1 when no event carries it."""
        return self._ids.get(text, -1)

    def __getitem__(self, key):  # type: ignore[no-untyped-def]
        return self._texts[key]

    def __len__(self) -> int:
        return len(self._texts)

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __contains__(self, text: object) -> bool:
        return text in self._ids
