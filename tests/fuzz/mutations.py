"""Damage real traces at random and look what is left: `python -m tests.fuzz.mutations --count 1000 [--seed 0]`.

A damaged file opens, or is refused in a sentence of this tool; an event that was left whole is in the trace, or the
file says that something is missing. What breaks this is written to `mutation-SEED.json`, and its seed makes it anew.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
import traceback
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import zstandard

from tests.fuzz.properties import Broken, check_every_pane, opened
from tests.support.paths import SHARED
from tracetui.model.trace import Trace

SAMPLES = Path(__file__).parents[2] / "sample_traces"
MAX_LOST = 22
"""Intact events that may be lost even where the file says that something is missing."""
EXCERPT = 250
"""Events kept of a trace, from its beginning and from its end: short files show the same."""
SIGNS = b'[]{},:"\\\n\0 0a'
VALUES = (
    b"NaN", b"-Infinity", b"N/A", b"null", b"[]", b"{}", b'"x"', b"1e30", b"1e999", b"-8e15", b"8e15", b"1.0",
    b"9" * 400, b"true", b'"D:\\new\\bench.py"', b"9223372036854775808", b"-1", b'"N/A"', b"2.9e15", b"[[1]]",
)  # fmt: skip


@dataclass(frozen=True)
class Part:
    """Some bytes of a damaged file, and where in the original they stand; None for new ones."""

    data: bytes
    start: int | None = None


@dataclass
class Original:
    """A trace that is whole, and where its events stand."""

    name: str
    data: bytes
    spans: list[tuple[int, int]]
    """Begin and end of every event."""
    keys: list[tuple[str, int] | None]
    """Name and time in ns of each that is a slice."""
    events: int = 0


@dataclass
class Damaged:
    """A file after some changes."""

    parts: list[Part]
    changes: list[str] = field(default_factory=list)

    @property
    def data(self) -> bytes:
        """The bytes of the file."""
        return b"".join(part.data for part in self.parts)

    def replace(self, start: int, end: int, new: Sequence[Part]) -> None:
        """Put something in the stead of a stretch."""
        kept: list[Part] = []
        passed, is_put = 0, False
        for part in self.parts:
            low, high = max(start - passed, 0), max(end - passed, 0)
            if low < len(part.data) or (low == len(part.data) and not is_put and part is self.parts[-1]):
                kept.append(_slice(part, 0, low))
                if not is_put:
                    kept += new
                    is_put = True
                kept.append(_slice(part, min(high, len(part.data)), len(part.data)))
            else:
                kept.append(part)
            passed += len(part.data)
        self.parts = [part for part in kept if part.data]

    def stretch(self, start: int, end: int) -> list[Part]:
        """The parts of a stretch."""
        found: list[Part] = []
        passed = 0
        for part in self.parts:
            found.append(_slice(part, max(start - passed, 0), max(end - passed, 0)))
            passed += len(part.data)
        return [part for part in found if part.data]

    def intact(self, original: Original) -> Counter[tuple[str, int]]:
        """The slices of which every byte is left, one next to the other."""
        left: Counter[tuple[str, int]] = Counter()
        runs: list[tuple[int, int]] = []
        joins = False
        for part in self.parts:
            if part.start is not None and joins and runs[-1][1] == part.start:
                runs[-1] = runs[-1][0], part.start + len(part.data)
            elif part.start is not None:
                runs.append((part.start, part.start + len(part.data)))
            joins = part.start is not None
        for low, high in runs:
            for (start, end), key in zip(original.spans, original.keys, strict=True):
                if low <= start and end <= high and key is not None:
                    left[key] += 1
        return left


def _slice(part: Part, low: int, high: int) -> Part:
    low, high = min(low, len(part.data)), min(high, len(part.data))
    return Part(part.data[low:high], None if part.start is None else part.start + low)


def spans_of(data: bytes) -> list[tuple[int, int]]:
    """Begin and end of every event, found by reading one value after the other."""
    text = data.decode("latin-1")
    decoder = json.JSONDecoder(strict=False)
    key = text.find('"traceEvents"')
    index = text.index("[", max(key, 0)) + 1
    found: list[tuple[int, int]] = []
    while True:
        while text[index] in ", \t\r\n":
            index += 1
        if text[index] == "]":
            return found
        _, end = decoder.raw_decode(text, index)
        found.append((index, end))
        index = end


def excerpt(data: bytes) -> bytes:
    """The beginning and the end of a trace, as the bytes that they are."""
    spans = spans_of(data)
    if len(spans) <= 2 * EXCERPT:
        return data
    return data[: spans[EXCERPT - 1][1]] + data[spans[EXCERPT - 1][1] : spans[EXCERPT][0]] + data[spans[-EXCERPT][0] :]


def read_original(path: Path) -> Original | None:
    """A trace to damage, None for one that is not plain."""
    data = path.read_bytes()
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    try:
        data = excerpt(data)
        spans = spans_of(data)
    except (ValueError, IndexError):
        return None
    with opened(data) as trace:
        if trace is None or trace.events != len(spans) or trace.quality.dropped:
            return None
        return Original(path.name, data, spans, _keys(trace), trace.events)


def _keys(trace: Trace) -> list[tuple[str, int] | None]:
    keys: list[tuple[str, int] | None] = [None] * trace.events
    base = _origin(trace)
    for row, event in enumerate(trace.slices.event.tolist()):
        keys[event] = trace.name_of(row), int(trace.slices.start[row]) + base
    return keys


def _origin(trace: Trace) -> int:
    base = trace.metadata.get("baseTimeNanoseconds")
    return trace.origin_ns - (base if isinstance(base, int) else 0)


def damage(original: Original, random: Random) -> Damaged:
    """One to three changes."""
    damaged = Damaged([Part(original.data, 0)])
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        change = random.choice(CHANGES)
        damaged.changes.append(change.__name__.strip("_"))
        change(damaged, original, random)
    return damaged


def _flip_bit(damaged: Damaged, _: Original, random: Random) -> None:
    at = random.randrange(len(damaged.data))
    damaged.replace(at, at + 1, [Part(bytes([damaged.data[at] ^ 1 << random.randrange(8)]))])


def _change_byte(damaged: Damaged, _: Original, random: Random) -> None:
    at = random.randrange(len(damaged.data))
    damaged.replace(at, at + 1, [Part(bytes([random.choice(SIGNS)]))])


def _change_sign(damaged: Damaged, _: Original, random: Random) -> None:
    """Change a byte that has a meaning in JSON."""
    data, at = damaged.data, random.randrange(len(damaged.data))
    places = [index for index in range(at, min(at + 400, len(data))) if data[index] in b'[]{},:"']
    if places:
        at = random.choice(places)
        damaged.replace(at, at + 1, [Part(bytes([random.choice(SIGNS)]))])


def _delete(damaged: Damaged, _: Original, random: Random) -> None:
    at = random.randrange(len(damaged.data))
    damaged.replace(at, at + random.choice((1, 1, 2, 5, 50, 2000, 1 << 16)), [])


def _insert(damaged: Damaged, _: Original, random: Random) -> None:
    at = random.randrange(len(damaged.data))
    new = bytes(random.choice(SIGNS) for _ in range(random.choice((1, 1, 2, 8, 100))))
    damaged.replace(at, at, [Part(new)])


def _repeat(damaged: Damaged, _: Original, random: Random) -> None:
    at = random.randrange(len(damaged.data))
    end = at + random.choice((1, 3, 100, 5000))
    damaged.replace(at, at, damaged.stretch(at, end))


def _cut_end(damaged: Damaged, _: Original, random: Random) -> None:
    damaged.replace(random.randrange(1, len(damaged.data)), len(damaged.data), [])


def _cut_beginning(damaged: Damaged, _: Original, random: Random) -> None:
    damaged.replace(0, random.randrange(1, len(damaged.data)), [])


def _between_events(damaged: Damaged, original: Original, random: Random) -> None:
    """Put something in the stead of a separator, or beside it."""
    number = random.randrange(len(original.spans) - 1)
    low, high = original.spans[number][1], original.spans[number + 1][0]
    new = random.choice(
        (b"]", b"[", b"", b"}", b"{", b'"', b",,", b"][", b"]\n[", b"]}", b"null,", b"0,", b"{},", b":", b"\0")
    )
    start = random.choice((low, low, high))
    # Where the file has been changed before, this is some other stretch.
    damaged.replace(start, high if random.random() < 0.7 else start, [Part(new)])


def _twice(damaged: Damaged, _: Original, random: Random) -> None:
    between = random.choice((b"", b"\n", b",", b"\0\0", b"]", b"garbage\n"))
    damaged.parts = [*damaged.parts, Part(between), *damaged.parts]


def _interleave(damaged: Damaged, _: Original, random: Random) -> None:
    """Another writer puts its end over this one."""
    at = random.randrange(len(damaged.data))
    damaged.parts = [*damaged.parts, *damaged.stretch(at, len(damaged.data))]


def _value(damaged: Damaged, original: Original, random: Random) -> None:
    """Put an odd value in the stead of one behind a colon."""
    data = damaged.data
    at = data.find(b":", random.randrange(len(data)))
    if at < 0:
        return
    end = at + 1
    while end < len(data) and data[end] not in b',}]"\n':
        end += 1
    damaged.replace(at + 1, end, [Part(random.choice(VALUES))])


CHANGES: tuple[Callable[[Damaged, Original, Random], None], ...] = (
    _flip_bit, _change_byte, _change_sign, _change_sign, _delete, _insert, _repeat, _cut_end, _cut_beginning,
    _between_events, _between_events, _twice, _interleave, _value, _value,
)  # fmt: skip


def check(original: Original, damaged: Damaged, random: Random) -> int:
    """Open a damaged file; returns how many intact events are missing.

    Raises: Broken where that is not told, or where they are many.
    """
    data = damaged.data
    block = random.choice((None, None, 4096, 1 << 16))
    with opened(data, block) as trace:
        left = damaged.intact(original)
        if trace is None:
            if left.total() > MAX_LOST:
                raise Broken(f"refused, with {left.total()} intact events")
            return left.total()
        base = _origin(trace)
        rows = range(len(trace.slices))
        found = Counter((trace.name_of(row), int(trace.slices.start[row]) + base) for row in rows)
        lost = (left - found).total()
        if lost and not trace.quality.notes:
            raise Broken(f"{lost} intact events are lost without a word")
        if lost > MAX_LOST:
            raise Broken(f"{lost} intact events are lost: {trace.quality.notes}")
        if random.random() < 0.1:
            check_every_pane(trace)
        return lost


def check_packed(original: Original, random: Random) -> None:
    """Damage the packed file.

    Raises: Broken where events are missing and that is not told.
    """
    pack = random.choice((gzip.compress, zlib.compress, zstandard.compress))
    data = bytearray(pack(original.data))
    for _ in range(random.choice((1, 1, 3))):
        kind = random.randrange(4)
        at = random.randrange(len(data))
        if kind == 0:
            data[at] ^= 1 << random.randrange(8)
        elif kind == 1:
            del data[at:]
        elif kind == 2:
            data[at:at] = random.randbytes(random.choice((1, 10, 1000)))
        else:
            data += random.choice((bytes(data), b"garbage", b"\0" * 600))
        if not data:
            return
    with opened(bytes(data)) as trace:
        if trace is not None and trace.events < original.events and not trace.quality.notes:
            raise Broken(f"{trace.events} of {original.events} events, without a word")


def originals() -> list[Original]:
    """The traces that are at hand."""
    paths = (
        sorted(SAMPLES.glob("*.json.gz"))[::4]
        + sorted(SHARED.glob("d*.json*"))
        + sorted(SHARED.glob("puzzlers/*.json*"))
    )
    return [original for path in paths if (original := read_original(path)) is not None]


def main() -> int:
    """Damage, look, and print what breaks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="the first one; each file has the next")
    parser.add_argument("--keep", type=Path, default=Path(), help="folder for what breaks")
    options = parser.parse_args()
    traces = originals()
    broken, lost, begun = 0, 0, time.monotonic()
    for seed in range(options.seed, options.seed + options.count):
        random = Random(seed)
        original = random.choice(traces)
        damaged = damage(original, random)
        try:
            if random.random() < 0.15:
                damaged.changes = ["packed"]
                check_packed(original, random)
            else:
                lost += check(original, damaged, random)
        except Exception as error:
            broken += 1
            print(f"seed {seed}: {original.name}, {', '.join(damaged.changes)}: {error!r}", flush=True)
            if not isinstance(error, Broken):
                traceback.print_exc(limit=-3)
            (options.keep / f"mutation-{seed}.json").write_bytes(damaged.data)
    seconds = time.monotonic() - begun
    print(
        f"{options.count} damaged files of {len(traces)} traces in {seconds:.0f} s: {broken} break a promise, "
        f"{lost} intact events lost in all"
    )
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
