"""What went into a kernel of the other side: by the operators it names, and by its place alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.support.comparing.recording import Call, Work
from tests.support.comparing.small import F32, fused, pairs, pointwise, product, together, trace
from tests.support.comparing.tutorial import COMPILED, FUSED, attention, mlp, split_stack
from tracetui.comparing.fusing import base_op
from tracetui.comparing.match import MATCH_KINDS
from tracetui.model.trace import Trace


class TestFusing:
    def test_the_mlp(self) -> None:
        found = together(mlp(), mlp(COMPILED))
        assert found.partner.tolist() == [0, 1, 2, 2, 3]
        assert [MATCH_KINDS[how] for how in found.how] == ["same name", "same name", "fused", "fused", "same name"]
        assert found.of_b(int(found.rows_b[2])).tolist() == found.rows_a[2:4].tolist()
        assert found.of_a(int(found.rows_a[3])).tolist() == found.rows_b[2:3].tolist()

    def test_the_other_way_round_it_is_split(self) -> None:
        found = together(mlp(COMPILED), mlp())
        assert found.partner_b.tolist() == [0, 1, 2, 2, 3]
        assert [MATCH_KINDS[how] for how in found.how] == ["same name", "same name", "split", "same name"]
        assert found.of_a(int(found.rows_a[2])).tolist() == found.rows_b[2:4].tolist()

    def test_without_shapes_and_kernels_written_by_hand(self) -> None:
        without = together(mlp(shapes=False), mlp(COMPILED, shapes=False))
        assert [MATCH_KINDS[how] for how in without.how[2:4]] == ["fused", "fused"]
        by_hand = together(mlp(), mlp(FUSED))
        assert [MATCH_KINDS[how] for how in by_hand.how[2:4]] == ["same place", "same place"]

    def test_what_repeats_is_dealt_out_in_order(self) -> None:
        found = together(split_stack(), split_stack(COMPILED))
        assert found.partner[:32].tolist() == [number for number in range(16) for _ in range(2)]

    def test_each_goes_to_the_kernel_between_the_same_products(self) -> None:
        def layer(number: int, *inner: Call) -> list[Call]:
            return [product(64, 64 + number, 64), *inner]

        def model(*inner: Sequence[Call]) -> Trace:
            return trace(*(call for number, each in enumerate(inner) for call in layer(number, *each)))

        eager = [pointwise("add"), pointwise("relu")]
        before = model(eager, [pointwise("add")], eager)
        after = model([fused("triton_poi_fused_add_relu_0")], [], [fused("triton_poi_fused_add_relu_0")])
        found = together(before, after)
        assert found.partner.tolist()[1:3] == [1, 1]
        assert found.partner.tolist()[6:8] == [4, 4]

    def test_a_model_of_many_layers(self) -> None:
        """The sum at the end of a layer and the norm at the start of the next are one kernel."""
        layers, tokens, norm = 12, [512, 64], "triton_per_fused_add_native_layer_norm"

        def products(*names: str) -> list[Call]:
            sizes = {"in": 192, "out": 64, "up": 256, "down": 65}
            return [product(512, sizes[name], 64, "gemm") for name in names]

        attention = Call("aten::_flash_attention_forward", [[8, 64, 4, 16]] * 3, work=(Work("flash_fwd", 9_000),))
        add, norms, gelu = pointwise("add", tokens), pointwise("native_layer_norm", tokens), pointwise("gelu", tokens)
        into, out, up, down = products("in", "out", "up", "down")
        eager = [norms, into, attention, out, add, norms, up, gelu, down, add] * layers
        both, alone = fused(f"{norm}_1", tokens), fused("triton_poi_fused_gelu_2", tokens)
        block = [into, attention, out, both, up, alone, down, both]
        found = together(trace(*eager), trace(fused("triton_per_fused_native_layer_norm_0", tokens), *block * layers))
        per_layer = [0, 1, 2, 3, 4, 4, 5, 6, 7, 8]
        assert found.partner.tolist() == [8 * layer + place for layer in range(layers) for place in per_layer]

    def test_names_of_outer_operators_and_variants_count(self) -> None:
        clamp = pointwise("clamp_min")
        relu = Call("aten::relu", [[64, 64]], [F32], inside=(clamp,))
        softmax = Call("aten::softmax", [[64, 64]], [F32], inside=(pointwise("_softmax"),))
        found = together(trace(relu, softmax, pointwise("add_")), trace(fused("triton_per_fused_add__softmax_relu_0")))
        assert found.partner.tolist() == [0, 0, 0]

    def test_a_product_does_not_go_into_what_follows_it(self) -> None:
        before = trace(product(64, 32, 16, "gemm_x", bias=True), pointwise("gelu"))
        after = trace(fused("triton_poi_fused_addmm_gelu_0"))
        assert pairs(before, after)[0] == ("gemm_x", "", "")
        template = trace(fused("triton_tem_fused_addmm_gelu_0"))
        assert [how for _, _, how in pairs(before, template)] == ["fused", "fused"]

    def test_a_kernel_that_names_others_takes_nothing(self) -> None:
        assert pairs(trace(pointwise("exp")), trace(fused("triton_poi_fused_add_mul_0"))) == [
            ("exp_kernel", "", ""),
            ("", "triton_poi_fused_add_mul_0", ""),
        ]

    def test_two_operators_that_read_as_one(self) -> None:
        """The letters of `add` and `relu` make an operator of quantised tensors too."""
        before = trace(pointwise("add"), pointwise("relu"))
        assert together(before, trace(fused("triton_poi_fused_add_relu_0"))).partner.tolist() == [0, 0]

    def test_far_away_is_another_one(self) -> None:
        between = [product(64, 64 + number, 64) for number in range(6)]
        before = trace(pointwise("gelu"), *between)
        after = trace(*between, fused("triton_poi_fused_gelu_0"))
        assert pairs(before, after)[0] == ("gelu_kernel", "", "")

    def test_two_generations_of_the_compiler(self) -> None:
        before = trace(fused("triton_poi_fused_add_0"), fused("triton_poi_fused_mul_1"))
        after = trace(fused("triton_poi_fused_add_mul_0"))
        assert together(before, after).partner.tolist() == [0, 0]

    def test_which_side_is_first_does_not_matter(self) -> None:
        """A sum may have become the generated sum, or that one a part of another kernel: the plain one comes first."""
        one = trace(fused("triton_poi_fused_add_1"))
        other = trace(fused("triton_poi_fused_add_gelu_0"), pointwise("add"))
        assert together(one, other).partner.tolist() == together(other, one).partner_b.tolist() == [1]

    def test_nameless_kernels_are_named_by_their_operator(self) -> None:
        call = fused("triton_poi_fused_add_gelu_0")
        nameless = replace(call, work=(replace(call.work[0], name="triton_"),))
        assert together(trace(pointwise("add"), pointwise("gelu")), trace(nameless)).partner.tolist() == [0, 0]

    def test_attention_in_one_kernel(self) -> None:
        found = together(attention("naive"), attention("flash"))
        assert found.partner.tolist() == [0] * 6
        assert {MATCH_KINDS[how] for how in found.how} == {"same place"}

    def test_a_product_of_pytorch_is_no_sum(self) -> None:
        assert [how for _, _, how in pairs(trace(pointwise("add")), trace(product(64, 8, 16)))] == ["", ""]
        assert [how for _, _, how in pairs(trace(product(64, 8, 16)), trace(pointwise("add")))] == ["", ""]

    def test_a_product_written_by_hand_may_add_too(self) -> None:
        by_hand = Call("my::gemm_add", work=(Work("my_gemm_kernel", 5_000),))
        assert [how for _, _, how in pairs(trace(pointwise("add")), trace(by_hand))] == ["same place"]

    def test_communication_is_never_taken_in(self) -> None:
        reduce = Call("nccl:all_reduce", work=(Work("ncclDevKernel_AllReduce_Sum_f32", 5_000),))
        assert pairs(trace(reduce), trace(Call("my::op", work=(Work("my_kernel", 5_000),))))[0][1] == ""

    @pytest.mark.parametrize(
        ("name", "loose"),
        [
            ("aten::add_", "add"),
            ("aten::_softmax", "softmax"),
            ("native_layer_norm", "layer_norm"),
            ("aten::cudnn_batch_norm_backward", "batch_norm_backward"),
            ("_native_batch_norm_legit_functional", "batch_norm"),
            ("aten::_to_copy", "to_copy"),
            ("aten::native_layer_norm_backward", "layer_norm_backward"),
        ],
    )
    def test_names_of_variants(self, name: str, loose: str) -> None:
        assert base_op(name) == loose
