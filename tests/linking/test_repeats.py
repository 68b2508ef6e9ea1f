"""Repeating stretches of sequences: layers, their heads and tails, and what only looks like them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tests.support.slow_layers import slow_layers, slow_series
from tracetui.tables.repeats import repeats


def found(names: list[str], times: list[int] | None = None) -> list[tuple[int, int, int]]:
    """Number of repeats, first position and end of each repeating stretch."""
    ids = {name: number for number, name in enumerate(dict.fromkeys(names))}
    sequence = np.array([ids[name] for name in names], np.int64)
    of_each = None if times is None else np.array(times, np.int64)
    return [(each.count, *each.range) for each in repeats(sequence, of_each)]


LAYER = ["qkv", "rope", "attention", "gemm", "norm", "gemm", "act", "gemm", "norm"]


def test_layers_have_a_head_and_a_tail() -> None:
    assert found(["embedding", "norm", *LAYER * 12, "logits", "argmax"]) == [(12, 1, 1 + 12 * 9)]


def test_what_occurs_twice_is_no_layer() -> None:
    assert found(["embedding", *LAYER * 2, "logits"]) == []
    assert found(["embedding", *LAYER * 3, "logits"]) == [(3, 1, 28)]


def test_attention_that_alternates_halves_no_layer() -> None:
    full, window = ["full 1", "full 2", "full 3"], ["window 1", "window 2"]
    pairs = ["norm", "qkv", *full, "out", "router", "experts"], ["norm", "qkv", *window, "out", "router", "experts"]
    assert found(["embedding", *(pairs[0] + pairs[1]) * 12, "logits"]) == [(24, 1, 1 + 12 * 15)]


def test_halves_of_a_layer_that_are_alike_are_no_layers() -> None:
    norm = ["cast", "pow", "mean", "scale"]
    layer = [*norm, "qkv", "rope", "rope", "qkv", "attention", "out", *norm, "up", "act", "up"]
    names = ["embedding", "cos", *layer * 12, *norm]
    assert found(names) == [(12, 2, 2 + 12 * len(layer))]


def test_first_layers_of_another_make_are_layers() -> None:
    common = ["norm", "qkv", "attention", "out"]
    names = [*[*common, "up", "down"] * 3, *[*common, "route", "sort", "experts", "join", "sum"] * 20]
    assert found(["embedding", *names, "logits"]) == [(23, 1, 1 + 3 * 6 + 20 * 9)]
    # Further ones that share two names with the rest are no layers of the model.
    names = [*["norm", "qkv", "x", "y"] * 3, *LAYER[1:] * 20]
    assert [each[0] for each in found(["embedding", *names, "logits"])] == [20]


def test_forward_and_backward_pass_are_two_series() -> None:
    backward = [f"d {name}" for name in LAYER if name not in ("gemm", "norm")] + ["gemm"]
    names = ["embedding", *LAYER * 6, "loss", *backward * 6, "adam", "adam"]
    assert found(names) == [(6, 1, 55), (6, 56, 56 + 6 * 5)]


def test_micro_batches_consist_of_layers() -> None:
    backward = [f"d {name}" for name in LAYER]
    batch = ["load", "embedding", *LAYER * 8, "logits", "loss", *backward * 8, "scale"]
    passes = [[(8, 149 * index + 2, 149 * index + 74), (8, 149 * index + 76, 149 * index + 148)] for index in range(4)]
    assert found(batch * 4) == [each for both in passes for each in both]


TEXT = ["norm", "q", "k", "v", "scale", "softmax", "values", "gemm", "norm", "up", "gelu", "down"]


def test_two_encoders_are_two_series() -> None:
    project = ["project", "concatenate"]
    # What two encoders have in common would mark 36 layers of both.
    common = ["norm", "q", "k", "softmax", "out", "up", "down"], ["norm", "qkv", "rope", "flash", "out", "up", "down"]
    for short, long in (common, (TEXT[:6], LAYER), (TEXT, LAYER), (LAYER, [*LAYER[:7], *TEXT])):
        low, high = 1 + 12 * len(short), 1 + 12 * len(short) + 2
        names = ["embedding", *short * 12, *project, *long * 24, "logits"]
        assert found(names) == [(12, 1, low), (24, high, high + 24 * len(long))]


def test_a_detail_is_one_also_where_no_time_is_known() -> None:
    names = [*(f"k{index}" for index in range(200)), *["a", "b"] * 4]
    assert found(names, [0] * 208) == []
    assert found(names, [0] * 200 + [1] * 8) == [(4, 200, 208)]
    # A small series beside the layers is none of its own.
    assert found([*LAYER * 24, "loss", *["clip", "adam"] * 4]) == [(24, 0, 216)]


def test_a_short_series_with_many_names_does_not_stand_for_a_long_one() -> None:
    # The names of the vision encoder occur outside of it as well; those of the text encoder nowhere else.
    many = [f"text {index}" for index in range(30)]
    names = [*LAYER[:2], *LAYER * 24, "project", *many * 3, *LAYER[2:6], "logits"]
    assert found(names, [100] * 219 + [1] * 95) == [(24, 2, 218), (3, 219, 309)]
    names = ["embedding", *LAYER * 60, "project", *many[:10] * 3, *LAYER[2:6], "logits"]
    assert found(names, [100] * 542 + [1] * 34) == [(60, 1, 541)]


def test_names_of_a_series_that_also_occur_outside_of_it_mark_it() -> None:
    head, tail = ["norm", "gemm", "attention", "x"], ["y", "rope", "attention", "qkv", "act", "act", "y"]
    assert found([*head, *LAYER * 24, *tail]) == [(24, 4, 220)]
    # Two names that head and tail share with the layers mark a further repeat, but no others do.
    assert found([*LAYER[:2], *"abcd", *LAYER * 24, "attention", "act", "act"]) == [(24, 6, 222)]


def test_layers_that_compute_more_than_the_rest_do_not_stand_for_all() -> None:
    # The further names would mark three layers, which have less than half the time of all nine.
    assert found(["embedding", *LAYER * 6, *[*LAYER, *"stuvwxy"] * 3, "logits"]) == [(9, 1, 103)]


def test_a_long_layer_of_few_names_that_repeats_exactly_is_one() -> None:
    layer = ["first", *"abbabaabbaababbabaababbaabbabaab", "last"]
    assert found(["embedding", *layer * 5, "logits"]) == [(5, 1, 171)]


def test_forward_and_backward_pass_of_two_encoders_are_four_series() -> None:
    passes = [[name if name == "norm" else f"d {name}" for name in reversed(each)] for each in (LAYER, TEXT)]
    names = ["embedding", *TEXT * 6, "project", *LAYER * 8, "loss", *passes[0] * 8, "d project", *passes[1] * 6, "adam"]
    assert [each[0] for each in found(names)] == [6, 8, 8, 6]


def test_alternating_attention_beside_another_encoder_halves_no_layer() -> None:
    window = [*LAYER[:2], "window", *LAYER[3:]]
    for count in (10, 12):
        names = ["embedding", *TEXT * count, "project", *(LAYER + window) * 12, "logits"]
        assert [each[0] for each in found(names)] == [count, 24]


def test_passes_with_much_beside_their_layers_consist_of_layers() -> None:
    rest = [f"k{index}" for index in range(40)]
    one, two = [*LAYER * 12, *rest], [*LAYER * 12, "project", *TEXT * 6, *rest]
    assert found(one * 4) == [(12, 148 * index, 148 * index + 108) for index in range(4)]
    # Two series in each: these are passes even where something else runs before them.
    assert [each[0] for each in found(["load", *two * 4, "store"])] == [12, 6] * 4


DOUBLE = [*LAYER, *(f"{name} of text" for name in LAYER)]
SINGLE = [*LAYER[:3], *(f"single {index}" for index in range(6))]


def test_blocks_of_two_kinds_are_two_series_in_each_pass() -> None:
    head, passes = [f"k{index}" for index in range(60)], []
    # The last double block computes less, and single blocks differ a little.
    blocks = [*DOUBLE * 18, *DOUBLE[:12], *SINGLE * 30, *[*SINGLE, "cast", *SINGLE] * 4]
    for index in range(4):
        low = 2 + index * (60 + len(blocks)) + 60
        passes += [(19, low, low + 18 * 18 + 12), (38, low + 18 * 18 + 12, low + len(blocks))]
    assert found(["load", "text", *[*head, *blocks] * 4, "store"]) == passes
    # With more than half in common they are layers of one model.
    alike = [*LAYER, "route", "sort", "experts", "join", "sum"]
    assert found(["load", *[*LAYER, "up"] * 10, *alike * 20]) == [(30, 1, 1 + 100 + 280)]


@given(st.integers(3, 20), st.integers(3, 40), st.integers(5, 12), st.integers(5, 12), st.integers(0, 3))
@example(4, 3, 9, 7, 3)
def test_blocks_of_two_kinds_are_counted_each(doubles: int, singles: int, double: int, single: int, both: int) -> None:
    assume(both <= 0.4 * max(double, single) and max(2 * both + 1, both + 3) <= min(double, single))
    first = [*(f"both {index}" for index in range(both)), *(f"double {index}" for index in range(double - both))]
    second = [*first[:both], *(f"single {index}" for index in range(single - both))]
    size = doubles * double, singles * single
    assume(6 * min(size) >= sum(size))
    names = ["load", *first * doubles, *second * singles, "store"]
    assert found(names) == [(doubles, 1, 1 + size[0]), (singles, 1 + size[0], 1 + sum(size))]


def test_experts_within_a_layer_are_no_layers() -> None:
    layer = ["norm", "qkv", "attention", "out", "router", *["up", "act", "down"] * 8, "sum"]
    assert found(layer * 10) == [(10, 0, 300)]


def test_a_detail_that_repeats_is_no_layer() -> None:
    rest = [f"k{index}" for index in range(200)]
    assert found([*rest, *["a", "b"] * 4]) == []
    assert found([*rest[:10], *["a", "b"] * 4]) == [(4, 10, 18)]


def test_two_names_far_apart_mark_nothing() -> None:
    names: list[str] = []
    for index in range(4):
        names += ["a", "b", *(f"k{100 * index + each}" for each in range(40))]
    assert found(names) == []


def test_an_uneven_rhythm_is_no_layer() -> None:
    assert found(["a", "b", "c", "a", "b", "c", *"uvwxyz", *"uvwxy", "a", "b", "c"]) == []


def test_a_last_layer_that_computes_less_ends_early() -> None:
    assert found([*LAYER * 5, *LAYER[:7], "logits"]) == [(6, 0, 52)]


@given(st.lists(st.sampled_from("abcdef"), max_size=60))
def test_anything_has_repeats_that_lie_in_order_within_it(names: list[str]) -> None:
    end = 0
    for count, low, high in found(names):
        assert count >= 3
        assert end <= low < high <= len(names)
        end = high


@given(
    st.lists(st.sampled_from("abcdefgh"), min_size=2, max_size=8, unique=True),
    st.integers(3, 12),
    st.lists(st.sampled_from("stuv"), max_size=4, unique=True),
    st.lists(st.sampled_from("wxyz"), max_size=4, unique=True),
)
@pytest.mark.full
def test_a_plain_repetition_is_found_as_the_slow_definition_finds_it(
    layer: list[str], count: int, head: list[str], tail: list[str]
) -> None:
    names = [*head, *layer * count, *tail]
    slow = slow_layers(names)
    assert slow is not None
    assert found(names) == [(len(slow.starts), slow.starts[0], slow.end)]
    assert found(names) == [(count, len(head), len(head) + count * len(layer))]


@given(
    st.lists(st.sampled_from("abcdefgh"), min_size=4, max_size=8, unique=True),
    st.lists(st.sampled_from("efghijkl"), min_size=4, max_size=8, unique=True),
    st.tuples(st.integers(3, 12), st.integers(3, 12)),
    st.tuples(st.integers(1, 50), st.integers(1, 50)),
    st.lists(st.sampled_from("wxyz"), min_size=1, max_size=4, unique=True),
)
def test_two_series_are_found_as_the_slow_definition_finds_them(
    first: list[str], second: list[str], counts: tuple[int, int], times: tuple[int, int], between: list[str]
) -> None:
    common = len({*first} & {*second})
    assume(common < 0.7 * len({*first, *second}))
    series = [each * count for each, count in zip((first, second), counts, strict=True)]
    names = ["head", *series[0], *between, *series[1], "tail"]
    assume(all(10 * len(each) >= len(names) for each in series))
    of_each = [1, *[times[0]] * len(series[0]), *[1] * len(between), *[times[1]] * len(series[1]), 1]
    slow = [(len(each.starts), each.starts[0], each.end) for each in slow_series(names, of_each)]
    assert found(names, of_each) == slow
    assert [each[0] for each in slow] == [*counts]
