"""Amounts of work that differ, what of them is said, and the ratio per token beside that of the times."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.build import Event, kernel, launch, make_trace, op, step
from tests.support.comparing.recording import Call, Work, record
from tests.support.comparing.small import F32, product
from tests.support.comparing.small import trace as small
from tests.support.comparing.statements import first, said
from tests.support.serving import decode, served
from tracetui.comparing.fairness import unfair
from tracetui.comparing.side import side
from tracetui.comparing.work_sizes import same_work, size_changes, type_change
from tracetui.model.trace import Trace


def attended(batch: int, queries: int, keys: int, dur: int = 100_000) -> Trace:
    """Attention of 8 heads, and a product of as many rows."""
    shapes = [[batch, 8, queries, 64], [batch, 8, keys, 64], [batch, 8, keys, 64]]
    attention = Call("aten::scaled_dot_product_attention", shapes, [F32] * 3, work=(Work("flash_fwd", dur),))
    return small(product(batch * queries, 512, 512), attention)


def changes(a: Trace, b: Trace) -> list[tuple[str, float, float]]:
    return [(each.name, each.before, each.after) for each in size_changes(side(a), side(b))]


def test_tokens_batch_and_context_come_from_the_shapes_of_attention():
    assert changes(attended(1, 1024, 1024), attended(1, 4096, 4096)) == [("tokens", 1024, 4096)]
    assert changes(attended(2, 64, 64), attended(8, 64, 64)) == [("tokens", 128, 512), ("batch", 2, 8)]
    assert changes(attended(4, 1, 512), attended(4, 1, 2048)) == [("context", 512, 2048)]
    assert changes(attended(4, 1, 512), attended(4, 1, 512)) == []


def test_a_time_of_more_tokens_is_told_per_token_too():
    text = said(attended(1, 1024, 1024), attended(1, 4096, 4096, 200_000))
    assert first(text).startswith("Different amounts of work, as recorded: 1,024 → 4,096 tokens.")
    assert "GPU time per step 150 → 250 µs: 1.67 times as much, per token 58 % less" in text
    assert "as fast" not in said(attended(1, 4096, 4096, 200_000), attended(1, 1024, 1024, 10_000))


def test_rows_of_products_with_the_same_weights_are_compared():
    one, other = small(product(64, 8, 16)), small(product(256, 8, 16))
    assert changes(one, other) == [("rows", 64, 256)]
    # Other weights are another program, and operators without shapes tell nothing.
    assert changes(one, small(product(256, 8, 32))) == []
    assert changes(one, small(product(256, 8, 16), shapes=False)) == []
    # The same sizes in another proportion are the same work.
    assert changes(one, small(product(64, 8, 16), *[product(512, 8, 16)] * 3)) == []


def test_an_expert_with_other_rows_is_no_other_work():
    dense = product(4096, 64, 64)
    assert changes(small(dense, product(37, 64, 32)), small(dense, product(41, 64, 32))) == []


def test_twice_as_many_calls_of_half_the_size_are_told_by_no_token():
    text = said(small(product(256, 8, 16)), small(*[product(128, 8, 16)] * 2))
    assert "per row" not in text and "256 → 128 rows" in text


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ("volta_sgemm_128x64_nn", None),
        ("ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_nt", ("f32", "f16")),
    ],
)
def test_types_come_from_the_names_of_products(after, expected):
    pair = (small(product(64, 8, 16, name)) for name in ("ampere_sgemm_128x64_nn", after))
    assert type_change(*map(side, pair)) == expected


def clocked(*durations: int) -> Trace:
    """A step of products of kernels of their own."""
    events: list[Event] = [step(1, 0, 90_000_000)]
    for place, dur in enumerate(durations, 1):
        start = place * 1_000_000
        events += [op("aten::mm", start, 30_000), launch(start + 5_000, 2_000, place)]
        events.append(kernel(f"ampere_sgemm_{32 * place}x64_nn", start + 40_000, dur, correlation=place))
    return make_trace(events)


def test_one_factor_of_all_products_may_be_a_clock():
    before = [100_003, 205_007, 310_001, 411_011, 503_017]
    slower = clocked(*(round(1.1 * each) for each in before))
    assert any("clocks of the GPU may differ: 5" in each for each in unfair(side(clocked(*before)), side(slower)))
    mixed = clocked(*before[:3], *(2 * each for each in before[3:]))
    assert not unfair(side(clocked(*before)), side(mixed))
    assert not unfair(side(clocked(*before)), side(clocked(*(each + 31 for each in before))))


def test_a_sum_of_a_split_k_is_no_product_that_stayed_the_same():
    reduce = "void splitKreduce_kernel<32, 16, int, float, float, float, float, true, false, false>(int)"
    eager = [product(64, 8, 16, "ampere_sgemm_128x64_nn"), *[product(64, 8, 16, reduce)] * 5]
    region = Call("Torch-Compiled Region: 0/0", own=5_000)
    other = [region, product(64, 8, 16, "ampere_sgemm_32x32_nn"), *[product(64, 8, 16, reduce)] * 5]
    before, after, kept = (make_trace(record("f", each)) for each in (eager, other, [region, *eager]))
    assert "same kernel" not in said(before, after)
    assert "The GEMM is the same kernel" in said(before, kept)


def decoding(requests: int, context: int = 0, busy: int = 60) -> Trace:
    """Three decodes, whose names say how long the contexts are where there is one."""
    steps = [decode(index, busy=busy, requests=requests) for index in range(3)]
    if context:
        sizes = f"(sq{requests}sk{context}sqsq{requests}sqsk{context})"
        name = f"execute_{requests}_context_0(sq0sk0sqsq0sqsk0)_generation_{requests}{sizes}"
        steps = [replace(each, name=name) for each in steps]
    return served(steps)


def test_two_servers_that_did_the_same_work_are_told_so():
    assert same_work(side(decoding(4)), side(decoding(4, busy=40))) == "4 requests, 4 tokens"
    text = said(decoding(4, 4000), decoding(4, 4040))
    assert "Both sides did the same work per step: 4 requests, 4 tokens, context 1,000." in text
    # What only one side says is not known to be the same, and neither is that of an unnamed program.
    assert same_work(side(decoding(4)), side(decoding(4, 4000))) == ""
    assert same_work(side(attended(4, 1, 512)), side(attended(4, 1, 512))) == ""


def test_servers_of_other_requests_and_contexts_are_compared_by_their_work():
    assert changes(decoding(4, 4000), decoding(8, 16000)) == [
        ("tokens", 4, 8),
        ("context", 1000, 2000),
        ("requests", 4, 8),
    ]
    text = said(decoding(4), decoding(8, busy=90))
    assert "Different amounts of work" in text and "same work" not in text
    assert "GPU time by the work of a step: per token" in text and "per request" in text
