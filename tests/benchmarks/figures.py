"""The rows of the table of figures: what each is, what it should reach, and how it is read off what was measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isnan
from typing import Any

from tests.benchmarks.growth import exponent
from tests.benchmarks.runs import Runs, best, spread

Results = dict[str, Any]
"""What the benchmarks measured, by benchmark; one that did not run is absent."""
FLAT = 0.15
RUST = "pytorch-trace-tui"
ALL_SIZES = 4
MAX_POWER = 1.05


@dataclass(frozen=True)
class Reading:
    """What a figure came to."""

    text: str
    is_reached: bool | None
    """None where something that the goal asks for was not measured."""


@dataclass(frozen=True)
class Figure:
    """A row of the table."""

    title: str
    goal: str
    benchmark: str
    """Which benchmark measures it."""
    read: Callable[[Any], Reading | None]
    """From what that benchmark measured; None where it did not measure this."""


def reading(figure: Figure, results: Results) -> Reading | None:
    """What a figure came to, None where it was not measured."""
    measured = results.get(figure.benchmark)
    return None if measured is None else figure.read(measured)


def ratio_of_loading(size: str, key: str, limit: float) -> Callable[[Any], Reading | None]:
    """Seconds to usable divided by those of orjson."""

    def read(loading: Any) -> Reading | None:
        ours, theirs = side_of(loading, size, "tracetui"), side_of(loading, size, "orjson")
        if ours is None or theirs is None:
            return None
        ratio = best(ours, key) / best(theirs, key)
        return Reading(f"{ratio:.2f} ({best(ours, key):.2f} / {best(theirs, key):.2f} s)", ratio <= limit)

    return read


def side_of(loading: Any, size: str, name: str) -> Runs | None:
    """What was measured of one program at one size."""
    side: Runs | None = loading[size]["sides"].get(name)
    return side


def beside_rust(loading: Any) -> Reading | None:
    """How many times as fast as the Rust parser, by CPU time and on the clock."""
    ours, theirs = side_of(loading, "middle", "tracetui"), side_of(loading, "middle", RUST)
    if ours is None or theirs is None:
        return None
    cpu, wall = (best(theirs, key) / best(ours, key) for key in ("cpu", "wall"))
    return Reading(f"{cpu:.1f} times by CPU time, {wall:.1f} on the clock", min(cpu, wall) >= 2)


def memory(loading: Any) -> Reading | None:
    """Peak of orjson divided by that of tracetui, of the large trace."""
    ours, theirs = side_of(loading, "large", "tracetui"), side_of(loading, "large", "orjson")
    if ours is None or theirs is None:
        return None
    times = best(theirs, "peak") / best(ours, "peak")
    megabytes = f"{best(ours, 'peak') / 1e6:,.0f} / {best(theirs, 'peak') / 1e6:,.0f} MB"
    return Reading(f"1/{times:.1f} ({megabytes})", times >= 12)


def packing(measured: Any) -> Reading:
    """Wall time with gzip divided by that without."""
    packed, plain = best(measured["gzip"], "wall"), best(measured["plain"], "wall")
    return Reading(f"{packed / plain:.2f} ({packed:.2f} / {plain:.2f} s)", packed / plain <= 2.5)


def growing(measured: Any) -> Reading:
    """The powers of the size that grow the most."""
    powers = {name: exponent(measured["bytes"], seconds) for name, seconds in measured["seconds"].items()}
    powers["ranks"] = exponent(measured["ranks"], measured["rank_seconds"])
    most = sorted(((power, name) for name, power in powers.items() if power is not None), reverse=True)
    text = ", ".join(f"{name} {power:.2f}" for power, name in most[:4])
    return Reading(f"{text}, the other {len(most) - 4} less", most[0][0] <= MAX_POWER)


def flatness(value: Callable[[Runs], float], unit: str) -> Callable[[Any], Reading]:
    """How far a value per byte or event differs between sizes."""

    def read(measured: Any) -> Reading:
        sizes = measured["sizes"]
        values = [value(side) for side in sizes]
        apart = spread(values)
        parts = ", ".join(f"{size_words(side['bytes'])} {each:.3g}" for side, each in zip(sizes, values, strict=True))
        is_complete = len(sizes) == ALL_SIZES
        is_reached = False if apart > FLAT else (True if is_complete else None)
        rest = "" if is_complete else "; 4 GB not measured"
        return Reading(f"{apart:.0%} apart ({parts} {unit}{rest})", is_reached)

    return read


def size_words(size: int) -> str:
    """A file's size in words: `270 MB`, `1.18 GB`."""
    return f"{size / 1e9:.3g} GB" if size >= 1e9 else f"{size / 1e6:.3g} MB"


def within_limit(measured: Any) -> Reading | None:
    """Whether the largest trace opened within a limit."""
    limited = measured.get("limited")
    if limited is None:
        return None
    if "failure" in limited:
        return Reading(f"does not open: {limited['failure']}", False)
    return Reading(f"opens within {limited['limit'] / 1e9:.1f} GB", True)


def opening_again(measured: Any) -> Reading:
    """Seconds to the first picture from the cache."""
    lanes, seconds = earliest(measured["again"])
    _, small = earliest(measured["small"])
    return Reading(f"{seconds:.2f} s, lanes after {lanes:.2f} s (10 MB: {small:.2f} s)", seconds <= 0.5)


def first_opening(measured: Any) -> Reading:
    """Seconds to the first picture without a cache, divided by those to usable."""
    lanes, seconds = earliest(measured["first"])
    usable = min(measured["usable"])
    text = f"{seconds / usable:.2f} ({seconds:.2f} / {usable:.2f} s), lanes after {lanes:.2f} s"
    return Reading(text, seconds / usable <= 1.2)


def earliest(rounds: list[list[float]]) -> tuple[float, float]:
    """The least of all rounds: seconds to the lanes, and to the list of kernels."""
    return min(each[0] for each in rounds), min(each[1] for each in rounds)


def key(action: str, middle_ms: float, late_ms: float, kilobytes: float) -> Callable[[Any], Reading | None]:
    """Milliseconds and bytes from a key to what it painted: the first byte, and the last."""

    def read(measured: Any) -> Reading | None:
        figures = measured[action]
        if not figures["answers"]:
            return None
        first, late = figures["first_p50"], figures["first_p99"]
        is_reached = first <= middle_ms and late <= late_ms and figures["bytes"] <= kilobytes * 1000
        times = f"{first:.0f} / {late:.0f} ms, last byte {figures['p50']:.0f} / {figures['p99']:.0f} ms"
        if not isnan(figures["cpu"]):
            times += f" ({figures['cpu']:.0f} ms of CPU time)"
        return Reading(f"{times}, {figures['bytes'] / 1000:.1f} KB", is_reached)

    return read


def held(measured: Any) -> Reading:
    """How long the app goes on painting when a held key is let go."""
    behind = max(measured["held"])
    return Reading(f"{behind:.0f} ms", behind <= 60)


def until_idle_again(measured: Any) -> Reading:
    """CPU time from the first picture until nothing is left to do, of a trace that was opened before; and memory."""
    seconds, memory = min(each[2] for each in measured["again"]), min(each[3] for each in measured["again"])
    return Reading(f"{seconds:.1f} s, {memory / 1e9:.2f} GB", seconds <= 0.8 and memory <= 0.9e9)


def until_idle(measured: Any) -> Reading:
    """CPU time from the first picture until nothing is left to do, with the first keys."""
    seconds = measured["until idle"]
    return Reading(f"{seconds:.1f} s", seconds <= 0.8)


def idle(measured: Any) -> Reading:
    """What the app writes and computes while nothing is pressed."""
    figures = measured["idle"]
    text = f"{figures['bytes']} bytes, {figures['cpu']:.1%} CPU"
    return Reading(text, figures["bytes"] == 0 and figures["cpu"] < 0.01)


def pane(name: str) -> Callable[[Any], Reading]:
    """Seconds until a pane of a loaded trace is there."""

    def read(measured: Any) -> Reading:
        seconds = best(measured[name], "wall")
        return Reading(f"{seconds:.2f} s", seconds <= 0.5)

    return read


def seconds_of_ranks(name: str, limit: float) -> Callable[[Any], Reading]:
    """Seconds of the command on the set of many ranks."""

    def read(measured: Any) -> Reading:
        seconds = best(measured[name], "wall")
        return Reading(f"{seconds:.1f} s", seconds <= limit)

    return read


def memory_of_ranks(measured: Any) -> Reading:
    """The largest process of the command on the set of many ranks."""
    peak = max(best(measured[name], "peak") for name in ("first", "again"))
    return Reading(f"{peak / 1e6:.0f} MB", peak <= 400e6)


def ranks_beside_hta(measured: Any) -> Reading:
    """The table of a few ranks beside what HTA takes to load them."""
    theirs = measured["hta"]
    ours = best(measured["few"], "wall")
    if theirs is None:
        return Reading(f"{ours:.2f} s, HTA not measured: {measured['missing']}", None)
    return Reading(f"1/{theirs['wall'] / ours:.1f} ({ours:.2f} / {theirs['wall']:.2f} s)", None)


FIGURES = (
    Figure(
        "1.18 GB to usable, CPU / `orjson.loads` without garbage collector",
        "≤ 0.20",
        "loading",
        ratio_of_loading("large", "cpu", 0.20),
    ),
    Figure("the same, on the clock", "≤ 0.12", "loading", ratio_of_loading("large", "wall", 0.12)),
    Figure("270 MB to usable, CPU / `orjson.loads`", "≤ 0.35", "loading", ratio_of_loading("middle", "cpu", 0.35)),
    Figure("the same, on the clock", "≤ 0.25", "loading", ratio_of_loading("middle", "wall", 0.25)),
    Figure("270 MB, as fast as the Rust parser, which keeps GPU events only", "≥ 2 times", "loading", beside_rust),
    Figure("peak memory of 1.18 GB / orjson's", "≤ 1/12", "loading", memory),
    Figure("270 MB with gzip / plain, on the clock", "≤ 2.5", "gzip", packing),
    Figure(
        "CPU time per byte of 10 MB, 100 MB, 1 GB, 4 GB",
        "within 15 %",
        "sizes",
        flatness(lambda side: best(side, "cpu") / side["bytes"] * 1e9, "ns"),
    ),
    Figure(
        "peak memory per event of the same",
        "within 15 %",
        "sizes",
        flatness(lambda side: best(side, "peak") / side["events"], "bytes"),
    ),
    Figure("growth of the CPU time of panes and commands with the trace", "none above size^1.05", "growth", growing),
    Figure("4 GB with 2 GB for data beyond the columns", "opens", "sizes", within_limit),
    Figure("1.18 GB opened again, to the first picture", "≤ 0.5 s", "opening", opening_again),
    Figure("1.18 GB opened first, to the first picture / usable", "≤ 1.2", "opening", first_opening),
    Figure("next kernel, p50 / p99 and bytes", "8 / 16 ms, 2 KB", "keys", key("next kernel", 8, 16, 2)),
    Figure("next step", "16 / 40 ms, 6 KB", "keys", key("next step", 16, 40, 6)),
    Figure("pan", "16 / 30 ms, 5 KB", "keys", key("pan", 16, 30, 5)),
    Figure("zoom", "16 / 30 ms, 5 KB", "keys", key("zoom", 16, 30, 5)),
    Figure("switch pane", "16 / 30 ms, 5 KB", "keys", key("switch pane", 16, 30, 5)),
    Figure("the first 8 keys after a first open", "20 / 40 ms, 6 KB", "keys", key("right after opening", 20, 40, 6)),
    Figure("behind a key held at 30 Hz", "≤ 60 ms", "keys", held),
    Figure("CPU from the first picture until idle", "≤ 0.8 s", "keys", until_idle),
    Figure("the same, opened again, and the memory by then", "≤ 0.8 s, 0.9 GB", "opening", until_idle_again),
    Figure("idle", "0 bytes, < 1 % CPU", "keys", idle),
    Figure("Ops of 1.18 GB", "≤ 0.5 s", "panes", pane("ops")),
    Figure("Summary of 1.18 GB", "≤ 0.5 s", "panes", pane("summary")),
    Figure("table of 512 ranks, the first time", "≤ 60 s", "ranks", seconds_of_ranks("first", 60.0)),
    Figure("the same again", "≤ 2 s", "ranks", seconds_of_ranks("again", 2.0)),
    Figure("memory of its largest process", "≤ 400 MB", "ranks", memory_of_ranks),
    Figure("table of 8 ranks / HTA's loader for them, on the clock", "–", "ranks", ranks_beside_hta),
)
