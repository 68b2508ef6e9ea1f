"""Which modules are mutated, and which tests are to notice it: short ones, for they run once for every mutant."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutated:
    """A module whose mutants its own tests are to notice."""

    path: str
    """From the root of the checkout."""
    tests: tuple[str, ...]
    """Files of tests or tests in them, those that notice most first."""
    indifferent: tuple[str, ...] = ()
    """What stands in lines that decide how fast or by which of two equal ways a result is reached: not mutated."""


WRITERS = (
    "test_brackets_everywhere_between_events",
    "test_two_traces_written_one_behind_the_other_are_both_read",
    "test_the_key_of_the_events_twice_in_one_object",
    "test_arrays_of_events_within_an_array",
    "test_what_stands_between_two_traces_costs_itself_only",
    "test_what_follows_behind_a_trace_is_told",
    "test_an_object_around_the_object_of_the_events_is_nothing_odd",
    "test_events_are_found_where_their_key_is_misspelt_or_the_beginning_is_missing",
)
"""Tests of files with several writers that start no command."""
IDLE, MATCHING = "tests/idle", "tests/comparing/matching"
MODULES = {
    "blocks": Mutated(
        "tracetui/reading/blocks.py",
        (
            "tests/reading/test_block_offsets.py",
            *(f"tests/reading/test_writers.py::{test}" for test in WRITERS),
            "tests/reading/test_blocks.py",
        ),
        (
            # Whether the buffer grows here or in `_loosely`.
            "and _LOOSE_SEPARATOR.search(",
            # When what was read is moved out of the buffer.
            "low = behind - 1",
            "if behind - 1 > low:",
            "behind, low = 1, 0",
            # By which way the last two blocks are read.
            "if rest is not None or ",
            # From where on threads scan ahead.
            "pause, alone = ",
            "pause -= 1",
            "if pause < 0 and ",
            "2 * len(self._window.data)",
            "threads = self._threads if ",
            # Which of two ends of a block is taken: the next block begins behind it.
            "or parsed.events or parsed.dropped:",
            # No event ends at the bracket or in front of it.
            "_LOOSE_SEPARATOR.finditer(",
        ),
    ),
    "intervals": Mutated(
        "tracetui/model/intervals.py", ("tests/model/test_interval_hazards.py", "tests/model/test_intervals.py")
    ),
    "idle_parts": Mutated(
        "tracetui/idle/idle_parts.py",
        (
            f"{IDLE}/test_gap_thresholds.py",
            f"{IDLE}/test_gaps.py",
            f"{IDLE}/test_gap_splits.py::test_small_traces_split_as_moment_by_moment",
        ),
    ),
    "idleness": Mutated(
        "tracetui/idle/idleness.py",
        (
            f"{IDLE}/test_gap_thresholds.py",
            f"{IDLE}/test_gaps.py",
            f"{IDLE}/test_gap_splits.py::test_small_traces_split_as_moment_by_moment",
        ),
    ),
    "verdict": Mutated("tracetui/idle/verdict.py", (f"{IDLE}/test_verdict_thresholds.py", f"{IDLE}/test_verdict.py")),
    "key_averages": Mutated("tracetui/operators/key_averages.py", ("tests/operators/test_averages.py",)),
    "layout": Mutated("tracetui/drawing/timeline/layout.py", ("tests/drawing/test_layout.py",)),
    "match": Mutated(
        "tracetui/comparing/match.py",
        (f"{MATCHING}/test_passes.py", f"{MATCHING}/test_fusing.py", f"{MATCHING}/test_matching.py"),
    ),
    "occupancy": Mutated("tracetui/tables/occupancy.py", ("tests/tables/test_occupancy.py",)),
    "residency": Mutated(
        "tracetui/devices/residency.py",
        (
            "tests/devices/test_block_limits.py",
            "tests/devices/test_residency.py::test_advice_is_true",
        ),
    ),
}
"""By name, the modules without input or output on whose arithmetic much rests."""
