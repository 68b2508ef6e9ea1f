"""Ids by which a writer says that events of several tracks belong together: numbers, texts, interned texts."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracetui.model.intervals import Bool, Int64
from tracetui.reading.gathered import Gathered, combined
from tracetui.reading.perfetto.interned import Interned
from tracetui.reading.perfetto.schemas import EventField, InternedField
from tracetui.reading.perfetto.texts import TextNumbers
from tracetui.reading.perfetto.wire import Fields, MessageBytes

_TEXT, _INTERNED = 1, 2
"""Kinds of ids; a number is 0."""


class CorrelatedEvents:
    """The events of a file that have such an id."""

    def __init__(self) -> None:
        self.events = Gathered("time", "event", "state", "track", "kind", "value")
        """`value` is the number, the number of the text, or that of the interned text, by `kind`: 0, 1 or 2."""
        self._texts: dict[str, int] = {}
        self._numbers = TextNumbers(lambda raw: self._text(raw.decode("utf-8", "replace")))

    def _text(self, text: str) -> int:
        return self._texts.setdefault(text, len(self._texts))

    def add(self, data: MessageBytes, columns: dict[str, Int64], fields: Fields, track: Int64, wanted: Bool) -> None:
        """Take in the wanted ones of a block."""
        start, end = fields.span(EventField.CORRELATION_TEXT)
        for kind, given in enumerate(
            (fields.has(EventField.CORRELATION), start >= 0, fields.has(EventField.CORRELATION_IID))
        ):
            rows = np.flatnonzero(given & wanted)
            if not len(rows):
                continue
            if kind == _TEXT:
                value = self._numbers.of(data, start[rows], end[rows]).astype(np.int64)
            else:
                value = fields.number(EventField.CORRELATION_IID if kind else EventField.CORRELATION)[rows]
            self.events.add(
                time=columns["time"][rows],
                event=columns["event"][rows],
                state=columns["state"][rows],
                track=track[rows],
                kind=np.full(len(rows), kind),
                value=value,
            )

    def identify(self, columns: dict[str, Any], interned: Interned) -> dict[str, Any]:
        """The columns of events with `id`, equal for those that belong together; without those whose text is lost."""
        kind, value = columns["kind"].copy(), columns["value"].copy()
        rows = np.flatnonzero(kind == _INTERNED)
        if len(rows):
            use = columns["state"][rows], columns["event"][rows]
            found = interned.find(InternedField.CORRELATIONS, *use, value[rows])
            texts = [self._text(str(text)) for text in interned.values(InternedField.CORRELATIONS)]
            value[rows] = np.array([*texts, -1], np.int64)[found]
            kind[rows[found >= 0]] = _TEXT
        known = kind != _INTERNED
        return {name: each[known] for name, each in columns.items()} | {"id": combined(kind[known], value[known])}
