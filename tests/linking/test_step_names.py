"""Names of servers' steps, of many versions: kind, requests and tokens; None is what a name does not say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetui.linking.step_names import CAPTURE, KINDS, step_name

Facts = tuple[str, str | None, int | None, int | None]

NAMES: dict[str, Facts] = {
    # vLLM
    "execute_new_4_cached_0": ("execute_new", "prefill", 4, None),
    "execute_new_1_cached_31": ("execute_new", "mixed", 32, None),
    "execute_new_0_cached_32": ("execute_new", None, 32, None),
    "execute_new_0_cached_0": ("execute_new", "idle", 0, None),
    "execute_context_2(512)_generation_0(0)": ("execute_context", "prefill", 2, 512),
    "execute_context_0(0)_generation_32(32)": ("execute_context", "decode", 32, 32),
    "execute_context_1(1024)_generation_31(31)": ("execute_context", "mixed", 32, 1055),
    "execute_context_0(0)_generation_0(0)": ("execute_context", "idle", 0, 0),
    "execute_context_1(1024, 7)_generation_31(31;kv=5)": ("execute_context", "mixed", 32, 1055),
    "execute_context_3()_generation_0()": ("execute_context", "prefill", 3, None),
    "execute_context_0_generation_8": ("execute_context", "decode", 8, None),
    "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)": (
        "execute_context",
        "decode",
        32,
        32,
    ),
    "execute_1039_context_2(sq1023sk2046sqsq9sqsk8)_generation_16(sq16sk100sqsq16sqsk100)": (
        "execute_context",
        "mixed",
        18,
        1039,
    ),
    # A verifying step of vLLM has several new tokens per request.
    "execute_context_0(0)_generation_8(32)": ("execute_context", "decode", 8, 32),
    # SGLang
    "step[DECODE bs=32]": ("step[", "decode", 32, 32),
    "step[EXTEND bs=15 toks=15360]": ("step[", "prefill", 15, 15360),
    "step[MIXED bs=2]": ("step[", "mixed", 2, None),
    "step[MIXED bs=5 c=1 g=4 c_sq=100 g_sq=4]": ("step[", "mixed", 5, 104),
    "step[IDLE bs=0]": ("step[", "idle", 0, None),
    "step[TARGET_VERIFY bs=4]": ("step[", "verify", 4, None),
    "step[VERIFY bs=4 toks=16]": ("step[", "verify", 4, 16),
    "step[DRAFT bs=4]": ("step[", "draft", 4, None),
    "step[DRAFT_EXTEND bs=4]": ("step[", "draft", 4, None),
    "step[DRAFT_EXTEND_V2 bs=4 toks=16]": ("step[", "draft", 4, 16),
    "step[DECODE bs=64 g_sq=128 g_sk=9 g_sqsq=4 g_sqsk=3]": ("step[", "decode", 64, 128),
    "step[EXTEND bs=2 toks=77 c_sq=77 c_sk=99 c_sqsq=1 c_sqsk=1]": ("step[", "prefill", 2, 77),
    "step[SPLIT_PREFILL bs=1 toks=9]": ("step[", "prefill", 1, 9),
    "step[DUMMY_FIRST bs=1]": ("step[", "dummy", 1, None),
    "step[PREBUILT bs=3]": ("step[", None, 3, None),
    "step[decode bs=3]": ("step[", "decode", 3, 3),
    "step[DECODE]": ("step[", "decode", None, None),
    "step[iter 7 ctx=1 gen=3]": ("step[", "mixed", 4, None),
    "scheduler.run_batch": ("scheduler.run_batch", None, None, None),
    # ATOM
    "prefill[bs=2 tok=14721 ctx=[7000,7721]]": ("prefill[/decode[", "prefill", 2, 14721),
    "decode[bs=117/128 tok=117 d=117]": ("prefill[/decode[", "decode", 117, 117),
    "dummy_decode[bs=1 tok=1]": ("prefill[/decode[", "dummy", 1, 1),
    "draft[1/3 bs=8]": ("prefill[/decode[", "draft", 8, None),
    # TensorRT-LLM
    "[Executor] _forward_step 12: 1 ctx reqs, 3 gen reqs": ("_forward_step", "mixed", 4, None),
    "_forward_step 12: 0 ctx reqs, 3 gen reqs": ("_forward_step", "decode", 3, None),
    # xDiT
    "execute_diffusion_1_1024x768": ("execute_diffusion", "diffusion", 1, None),
}


@pytest.mark.parametrize(("name", "facts"), NAMES.items(), ids=list(NAMES))
def test_a_name_says_what_it_says_and_no_more(name: str, facts: Facts) -> None:
    said = step_name(name)
    assert said is not None
    assert (said.family, said.kind, said.requests, said.tokens) == facts


@pytest.mark.parametrize(
    "name",
    [
        "ProfilerStep#3",
        "step[3]",
        "step 3",
        "my step[DECODE bs=3]",
        "steps[DECODE bs=3]",
        "execute_model",
        "execute_context_switch",
        "execute_context_1(5)",
        "prefill",
        "decode[0]",
        "gpu_model_runner: preprocess",
        "scheduler.recv_requests",
        "model_inference",
        "Optimizer.step#AdamW.step",
        "",
    ],
)
def test_other_names_mark_no_step(name: str) -> None:
    assert step_name(name) is None


@pytest.mark.parametrize(
    "name",
    [
        "capture_32_FULL",
        "capture_8192_PIECEWISE",
        "capture_32_DECODE",
        "capture_graph_bs_32",
        "CUDAGraphNode.record (dynamo_timed)",
    ],
)
def test_the_recording_of_a_graph_is_known_by_its_annotation(name: str) -> None:
    assert CAPTURE.match(name) and step_name(name) is None


@given(st.text(max_size=60) | st.sampled_from(list(NAMES)).flatmap(lambda name: st.text(max_size=8).map(name.__add__)))
def test_no_name_fails_and_every_kind_is_one_of_the_list(name: str) -> None:
    said = step_name(name)
    assert said is None or said.kind is None or said.kind in KINDS


def test_endless_numbers_are_no_numbers() -> None:
    said = step_name(f"step[DECODE bs={'9' * 400}]")
    assert said is not None and said.requests is None
    assert step_name(f"execute_new_{'9' * 400}_cached_0") is None
