"""Names of Inductor split by the dispatcher's vocabulary: against every way there is, and back from sets of ops."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracetui.kernel_names.generated import modules, operators, segments

FUSIONS = [
    ("add", "native_layer_norm", "tanh_backward"),
    ("_softmax", "_to_copy", "add", "div"),
    ("_log_softmax", "nll_loss_backward", "nll_loss_forward"),
    ("_native_batch_norm_legit_functional", "add", "convolution", "relu", "threshold_backward"),
    ("_native_batch_norm_legit_functional", "convolution", "max_pool2d_with_indices", "relu"),
    ("_unsafe_view", "clone", "mul", "silu", "split"),
    ("_scaled_dot_product_efficient_attention", "clone", "permute", "view"),
    ("add", "embedding", "mean", "mul", "pow", "rsqrt"),
    ("addmm", "gelu", "gelu_backward", "view"),
    ("bernoulli", "native_dropout", "native_dropout_backward"),
    ("cat", "cos", "mul", "neg", "sin", "slice", "stack", "unsqueeze"),
    ("_foreach_add", "_foreach_mul"),
    ("arange", "embedding", "embedding_dense_backward", "index_put", "new_zeros"),
    ("_scaled_mm", "abs", "amax", "clamp", "reciprocal"),
]


def every_way(text: str, known: frozenset[str], last: str = "") -> list[tuple[str, ...]]:
    """All ways to split a text into known words in ascending order, tried one by one."""
    if not text:
        return [()]
    found: list[tuple[str, ...]] = []
    for end in [place for place, letter in enumerate(text) if letter == "_"] + [len(text)]:
        word = text[:end]
        if word in known and word > last:
            if end == len(text):
                found.append((word,))
            elif rest := text[end + 1 :]:
                found.extend((word, *others) for others in every_way(rest, known, word))
    return found


@pytest.mark.parametrize("ops", FUSIONS, ids="_".join)
def test_fusions_split_in_one_way(ops):
    assert tuple(sorted(ops)) == ops
    assert segments("_".join(ops)) == (ops, True)
    shortest = min(len(way) for way in every_way("_".join(ops), operators()))
    assert [way for way in every_way("_".join(ops), operators()) if len(way) == shortest] == [ops]


@given(st.sets(st.sampled_from(sorted(operators())), min_size=1, max_size=6))
@settings(deadline=None)
def test_a_set_of_operators_comes_back_or_a_shorter_one_reads_the_same(ops):
    text = "_".join(sorted(ops))
    found, unique = segments(text)
    assert "_".join(found) == text
    assert list(found) == sorted(set(found))
    assert len(found) <= len(ops)
    ways = [way for way in every_way(text, operators()) if len(way) == len(found)]
    assert found in ways
    assert unique == (len(ways) == 1)


def test_two_ways_of_equal_length_are_marked():
    more = frozenset({"zq", "zq_zr", "zr_zs", "zs"})
    assert segments("zq_zr_zs", more) in [(("zq", "zr_zs"), False), (("zq_zr", "zs"), False)]


def test_without_the_order_a_name_would_be_ambiguous():
    known = frozenset({"mul", "add", "mul_add"})
    assert every_way("mul_add", known) == [("mul_add",)]


def test_classes_of_modules_are_a_second_vocabulary():
    assert "Linear" not in operators()
    assert segments("Linear_layer_norm")[0] == ("Linear", "layer_norm")
    assert len(modules()) > 100


@pytest.mark.parametrize("text", ["nothing_known_here", "add__", "_", "add_add", "x" * 5000, "add_" * 5000])
def test_what_is_no_list_of_operators(text):
    begin = time.process_time()
    assert segments(text) == ((), False)
    assert time.process_time() - begin < 10


def test_the_vocabulary_is_that_of_the_dispatcher():
    torch = pytest.importorskip("torch")
    known = {name.split("::")[1].split(".")[0] for name in torch._C._dispatch_get_all_op_names()}
    assert len(known - operators()) < 0.02 * len(known)
