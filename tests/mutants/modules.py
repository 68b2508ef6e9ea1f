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
    functions: tuple[str, ...] = ()
    """Functions and classes that are mutated, the whole module where none is named."""


WRITERS = (
    "test_brackets_everywhere_between_events",
    "test_two_traces_written_one_behind_the_other_are_both_read",
    "test_the_key_of_the_events_twice_in_one_object",
    "test_what_stands_between_two_traces_costs_itself_only",
    "test_what_follows_behind_a_trace_is_told",
    "test_an_object_around_the_object_of_the_events_is_nothing_odd",
    "test_events_are_found_where_their_key_is_misspelt_or_the_beginning_is_missing",
)
"""Tests of files with several writers that start no command."""
LAYERS = (
    "test_parts_of_a_step_add_up_to_its_gpu_span",
    "test_one_step_and_one_layer",
    "test_kernels_of_a_layer_are_listed_by_position",
    "test_an_odd_layer_is_named_and_an_even_one_is_not",
    "test_alternating_attention_makes_two_variants_of_one_layer",
    "test_steps_of_different_depth_are_not_mixed",
    "test_two_encoders_of_a_step_are_two_series",
    "test_nodes_of_a_graph_are_folded_in_the_order_in_which_they_ran",
    "test_what_has_no_layers_says_so",
    "test_a_range_without_layers_says_so_where_the_trace_has_some",
    "test_layers_have_the_modules_around_their_launches_or_their_capture",
)
"""Tests of layers that read no recorded trace."""
SERVING = (
    "test_decodes_in_a_row",
    "test_drafts_and_the_check_of_them_are_one_iteration",
    "test_a_prefill_ends_an_iteration_and_decodes_check_where_nothing_else_does",
    "test_decodes_of_several_tokens_say_what_is_not_recorded",
    "test_idle_time_is_not_told_of_a_gpu_far_behind",
    "test_without_a_gpu_periods_run_from_start_to_start",
    "test_the_heading_of_a_share_says_of_what_it_is",
    "test_what_the_cpu_did_between_steps",
    "test_purposes_of_kernels_alone_and_side_by_side",
    "test_batches_one_by_one_and_by_powers_of_two",
    "test_a_batch_that_is_not_known_is_null",
    "test_padded_batches_are_those_of_the_names",
    "test_traces_without_servers_have_no_rows",
    "test_one_step_alone",
)
"""Tests of servers that read no recorded trace."""
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
            f"{IDLE}/test_part_borders.py",
            f"{IDLE}/test_gap_thresholds.py",
            f"{IDLE}/test_idle_parts.py",
            f"{IDLE}/test_gaps.py",
            f"{IDLE}/test_gap_splits.py::test_small_traces_split_as_moment_by_moment",
        ),
    ),
    "idleness": Mutated(
        "tracetui/idle/waits.py",
        (
            f"{IDLE}/test_gap_thresholds.py",
            f"{IDLE}/test_gaps.py",
            f"{IDLE}/test_gap_splits.py::test_small_traces_split_as_moment_by_moment",
        ),
        functions=("Idleness", "device_order", "idleness", "_along", "unrecorded_holes", "_identical", "_decile"),
    ),
    "scope_times": Mutated("tracetui/idle/scope_times.py", (f"{IDLE}/test_scope_times.py",)),
    "graph_alignment": Mutated(
        "tracetui/linking/graph_recordings.py",
        ("tests/linking/test_graph_alignment.py", "tests/linking/test_graph_nodes.py"),
        functions=("align", "_merged_streams", "_shared_names", "_common_subsequence", "_backtracked", "_alignment"),
    ),
    "graph_nodes": Mutated(
        "tracetui/linking/graph_nodes.py",
        ("tests/linking/test_graph_alignment.py", "tests/linking/test_graph_nodes.py"),
        functions=("GraphNodes", "graph_nodes", "with_captured_texts", "op_names", "_captured_nodes", "_KnownGraphs"),
    ),
    "layers": Mutated(
        "tracetui/tables/layers.py",
        ("tests/tables/test_layer_rows.py", *(f"tests/tables/test_layers.py::{test}" for test in LAYERS)),
    ),
    "serving_table": Mutated(
        "tracetui/serving/serving_table.py",
        ("tests/serving/test_serving_rows.py", *(f"tests/serving/test_serving.py::{test}" for test in SERVING)),
    ),
    "communication": Mutated("tracetui/ranks/communication.py", ("tests/ranks/test_recorded_collectives.py",)),
    "pairing": Mutated(
        "tracetui/reading/perfetto/other_events.py",
        ("tests/reading/perfetto/test_grouped_writers.py", "tests/reading/perfetto/test_pairing.py"),
        functions=("pair_events", "_by_position", "_go_back", "_are_grouped"),
    ),
    "spans": Mutated(
        "tracetui/reading/spans.py",
        (
            "tests/reading/test_begins_and_ends.py",
            "tests/reading/test_spans.py",
            "tests/reading/test_chrome.py::test_asynchronous_spans_get_a_lane_of_their_own_and_are_packed",
        ),
        functions=("Spans", "_lane_ends", "pair", "_pair_orderly", "_walk"),
    ),
    "verdict": Mutated("tracetui/idle/verdict.py", (f"{IDLE}/test_verdict_thresholds.py", f"{IDLE}/test_verdict.py")),
    "key_averages": Mutated("tracetui/operators/key_averages.py", ("tests/operators/test_key_averages.py",)),
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
