"""Reading damage takes work in proportion to its length, whatever it is made of: counted in characters, not seconds."""

from __future__ import annotations

import json

import pytest

from tracetui.reading import json_repair


class Work:
    """Counts the characters that are gone over while a damaged text is read."""

    def __init__(self, monkeypatch) -> None:
        self.done = 0
        self._decoder, self._name_ends = json_repair._decoder, json_repair._NAME_ENDS
        self._next_event, self._mend_with = json_repair._next_event, json_repair._mend_with
        monkeypatch.setattr(json_repair, "_decoder", self)
        monkeypatch.setattr(json_repair, "_NAME_ENDS", self)
        monkeypatch.setattr(json_repair, "_next_event", self.next_event)
        monkeypatch.setattr(json_repair, "_mend_with", self.mend_with)

    def raw_decode(self, text, place=0):
        """As the decoder's; one that goes too deep goes over what is left at most."""
        end = len(text)
        try:
            item, end = self._decoder.raw_decode(text, place)
            return item, end
        except json.JSONDecodeError as error:
            end = error.pos
            assert error.lineno == 1, "the lines before it were counted"
            raise
        finally:
            self.done += end - place

    def search(self, text, place):
        """As of the pattern for ends of names."""
        found = self._name_ends.search(text, place)
        self.done += (found.end() if found else len(text)) - place
        return found

    def next_event(self, text, place):
        """As the function."""
        found = self._next_event(text, place)
        self.done += (len(text) if found is None else found) - place
        return found

    def mend_with(self, change, piece, decoder):
        """As the function."""
        self.done += len(piece)
        return self._mend_with(change, piece, decoder)


@pytest.mark.parametrize(
    "filler",
    [
        b'{"ph":"X","name":"n","args":\n',
        b'[{"ph":',
        b'[{"ph":"' + b"x" * 500 + b'","a":',
        b'{"name":"',
        b'{"name":"x","z":',
        b'{"ph":bad\n',
        b'{"tts":1,"dur":nan},',
        b'{"ph":"X","dur":nan},\n',
        b'{"ph":"X","args":' + b'{"a":' * 1200 + b"1" + b"}" * 1201 + b",\n",
    ],
    ids=lambda filler: repr(filler[:30]),
)
@pytest.mark.full
def test_the_work_on_damage_grows_with_its_length(monkeypatch, filler):
    """Not with its square, and not with how deep it is nested."""
    data = b"[" + filler * (120_000 // len(filler))
    work = Work(monkeypatch)
    json_repair.parse(data)
    assert len(data) / 2 < work.done < 60 * len(data)
