"""Names of one's own are hidden, everywhere in the file; what everybody knows stays, and so do the numbers."""

from __future__ import annotations

import gzip
import io
import json
import re

import pytest

from tests.support.cells import cells_of
from tests.support.paths import SAMPLES, SHARED
from tests.support.processes import tracetui
from tests.support.traces import loaded
from tracetui.linking.steps import steps
from tracetui.model.trace import Kind
from tracetui.panes import PANES
from tracetui.reading.load import load
from tracetui.writing.anonymizing import PREFIX, Anonymizer
from tracetui.writing.cut import Cut
from tracetui.writing.selection import Wanted

EAGER = SAMPLES / "mlp_eager_cpu.json.gz"
SECRETS = "zebra|okapi|quokka|wombat|/home/me"
"""Words that stand for a user's own in what follows."""
FAST = ("d16_b300_tiny.json.gz", "d08_b200_cuda13_ep_moe.json", "d10_cudagraph_stack.json")
ALIKE = (
    "d03_v100_2rank_5steps_mem_occ_nccl.json.gz",
    "d04_a100_8rank_6steps_occ_nccl.json.gz",
    "d05b_a100_megatron_tp8_rank1.json",
    "d06_h100_stack_mem.json.gz",
    "d11_streams_4000_occ.json.gz",
    "d13_mtia_456k_events.json.gz",
)
"""Large ones whose kinds of names others have: NCCL d05a, memory d01, stacks d07 and d10, occupancy d08."""
SLOW = sorted({path.name for path in SHARED.glob("d*.json*")} - {*FAST, *ALIKE})


@pytest.fixture
def hider():
    return Anonymizer(b"salt")


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Kind.CPU_OP, "aten::addmm"),
        (Kind.CPU_OP, "aten::copy_"),
        (Kind.CPU_OP, "AddmmBackward0"),
        (Kind.CPU_OP, "autograd::engine::evaluate_function: NativeLayerNormBackward0"),
        (Kind.CPU_OP, "torch::autograd::AccumulateGrad"),
        (Kind.CPU_OP, "c10d::allreduce_"),
        (Kind.CPU_OP, "triton_poi_fused_add_gelu_2"),
        (Kind.ANNOTATION, "ProfilerStep#17"),
        (Kind.ANNOTATION, "Optimizer.step#AdamW.step"),
        (Kind.ANNOTATION, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"),
        (Kind.ANNOTATION, "nccl:all_reduce"),
        (Kind.RUNTIME, "cudaLaunchKernel"),
        (Kind.RUNTIME, "hipExtModuleLaunchKernel"),
        (Kind.MEMCPY, "Memcpy HtoD (Pinned -> Device)"),
        (Kind.KERNEL, "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
                      "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)"),
        (Kind.KERNEL, "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 2, 128, 1>"),
        (Kind.KERNEL, "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda("
                      "at::TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda(float)#1}>(int)"),
        (Kind.KERNEL, "ampere_sgemm_32x32_sliced1x4_nn"),
        (Kind.KERNEL, "nvjet_sm103_tst_64x8_64x16_1x4_h_bz_TNT"),
        (Kind.KERNEL, "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_64x64_16x6_nn_align4>"
                      "(cutlass_80_tensorop_s1688gemm_64x64_16x6_nn_align4::Params)"),
        (Kind.KERNEL, "ncclDevKernel_AllReduce_Sum_f16_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"),
        (Kind.KERNEL, "triton_per_fused__to_copy_add_native_layer_norm_7"),
    ],
)  # fmt: skip
def test_what_everybody_knows_stays(hider, kind, name):
    assert hider.name(name, kind) == name


@pytest.mark.parametrize(
    ("kind", "name", "shown"),
    [
        (Kind.CPU_OP, "zebra::okapi", "A"),
        (Kind.CPU_OP, "QuokkaFunctionBackward", "A"),
        (Kind.CPU_OP, "autograd::engine::evaluate_function: QuokkaBackward", "autograd::engine::evaluate_function: A"),
        (Kind.CPU_OP, "triton_poi_fused_add_zebra_2", "A"),
        (Kind.ANNOTATION, "wombat step 3", "A"),
        (Kind.ANNOTATION, "ProfilerStep#3 of wombat", "A"),
        (Kind.ANNOTATION, "aten::add the zebra", "A"),
        (Kind.ANNOTATION, "Optimizer.step#Quokka.step", "Optimizer.step#A.step"),
        (Kind.GPU_ANNOTATION, "nccl:zebra", "nccl:A"),
        (Kind.PYTHON, "/home/me/zebra.py(12): okapi", "A.py(0): A"),
        (Kind.PYTHON, "nn.Module: Wombat_3", "nn.Module: A"),
        (Kind.PYTHON, "<built-in method wombat of Zebra object at 0x7f00>", "<built-in A>"),
        (Kind.RUNTIME, "zebra launch", "A"),
        (Kind.KERNEL, "_zebra_fwd_kernel", "A"),
        (Kind.KERNEL, "_ZN5zebra5okapiEv", "A"),
        (Kind.KERNEL, "void zebra::okapi<float, 4>(float const*, int)", "void A::A<float, 4>(float const*, int)"),
        (
            Kind.KERNEL,
            "void at::native::vectorized_elementwise_kernel<4, zebra::Gate<float>, at::detail::Array<char*, 2> >(int)",
            "void at::native::vectorized_elementwise_kernel<4, A::A<float>, at::detail::Array<char*, 2> >(int)",
        ),
        (Kind.KERNEL, "void okapi<at::Tensor>(std::set<zebra>::iterator)", "void A<at::Tensor>(std::set<A>::iterator)"),
        (Kind.OTHER, "anything", "A"),
    ],
)  # fmt: skip
def test_what_is_ones_own_is_hidden(hider, kind, name, shown):
    assert re.sub(PREFIX + "[a-z]{12}", "A", hider.name(name, kind)) == shown


def test_a_stand_in_belongs_to_the_name_and_to_the_secret():
    one, same, other = Anonymizer(b"a"), Anonymizer(b"a"), Anonymizer(b"b")
    assert one.stand_in("zebra") == same.stand_in("zebra") != one.stand_in("okapi")
    assert one.stand_in("zebra") != other.stand_in("zebra")
    assert one.stand_in("") == ""
    assert len({one.stand_in(f"name {number}") for number in range(20_000)}) == 20_000


OWN = {
    "schemaVersion": 1,
    "with_stack": 1,
    "deviceProperties": [{"id": 0, "name": "NVIDIA H100", "numSms": 132, "uuid": "zebra"}],
    "distributedInfo": {"backend": "nccl", "rank": 3, "pg_config": [{"pg_desc": "okapi"}]},
    "tracetui": {"argv": ["run", "/home/me/zebra.py:okapi"]},
    "host_name": "wombat",
    "zebra": 1,
    "displayTimeUnit": "ms",
    "baseTimeNanoseconds": 17,
    "traceName": "/home/me/trace.json",
    "stackFrames": {"1": {"name": "okapi"}},
}


def own_events():
    """One event of every sort, each with something of its own in every place for a text."""
    place = {"pid": 1, "tid": 1, "ts": 1.25}
    return [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "dur": 9.5, **place, "sf": 1, "stack": ["zebra"], "args": {
            "External id": 3, "Input Dims": [[2, 2], []], "Input type": ["float", "zebra"], "Call stack": "okapi.py(1)",
            "Concrete Inputs": ["0.5", "[1, 1]", "okapi"], "kernel_file": "/home/me/zebra.py", "zebra": "okapi",
            "wombat": 1, "Module Hierarchy": "quokka", "Backend": "zebra"}},
        {"ph": "X", "cat": "user_annotation,zebra", "name": "okapi", "dur": 1, **place, "zebra": "quokka"},
        {"ph": "X", "cat": "python_function", "name": "/home/me/zebra.py(3): okapi", "dur": 1, **place},
        {"ph": "X", "cat": "cuda_runtime", "name": "hipLaunchKernel", "dur": 1, **place,
         "args": {"kernel": "zebra_kernel", "correlation": 5}},
        {"ph": "X", "cat": "kernel", "name": "void zebra(okapi)", "dur": 1, "pid": 0, "tid": "stream 7", "ts": 9,
         "args": {"correlation": 5, "stream": 7, "occupancy": {"limitingFactors": "WARPS|REGS"}, "dtype": "zebra"}},
        {"ph": "i", "s": "t", "name": "wombat", "cat": "zebra", **place, "args": {"data": "okapi"}},
        {"ph": "C", "name": "wombat", **place, "args": {"zebra": 1, "okapi": "quokka"}},
        {"ph": "b", "cat": "c", "id": "zebra", "name": "okapi", "scope": "quokka", **place, "id2": {"local": "wombat"}},
        {"ph": "e", "cat": "c", "id": "zebra", "name": "okapi", "scope": "quokka", **place, "id2": {"local": "wombat"}},
        {"ph": "s", "cat": "ac2g", "name": "ac2g", "id": 5, **place},
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "zebra serve"}},
        {"ph": "M", "name": "process_labels", "pid": 1, "args": {"labels": "okapi", "more": "wombat"}},
        {"ph": "M", "name": "process_sort_index", "pid": 1, "args": {"sort_index": 4, "more": "wombat"}},
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "thread 7 (zebra)"}},
        {"ph": "M", "name": "quokka", "pid": 1, "args": {"name": "okapi"}},
        {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": "zebra", "tid": "okapi", "ts": 2, "dur": 1,
         "args": "zebra"},
    ]  # fmt: skip


def hidden(tmp_path, document):
    """The text and the document that is left of one."""
    path = tmp_path / "own.json"
    path.write_text(json.dumps(document))
    sink = io.BytesIO()
    Cut(load(str(path)), Wanted(), Anonymizer(b"salt")).write(sink)
    return sink.getvalue().decode(), json.loads(sink.getvalue())


def test_nothing_of_ones_own_is_left_anywhere(tmp_path):
    text, document = hidden(tmp_path, {**OWN, "traceEvents": own_events()})
    assert not re.search(SECRETS, text, re.IGNORECASE)
    assert len(document["traceEvents"]) == len(own_events())
    assert {key: value for key, value in document.items() if key != "traceEvents"} == {
        "schemaVersion": 1,
        "with_stack": 1,
        "baseTimeNanoseconds": 17,
        "displayTimeUnit": "ms",
        "deviceProperties": [{"id": 0, "name": "NVIDIA H100", "numSms": 132}],
        "distributedInfo": {"backend": "nccl", "rank": 3},
    }


def test_numbers_shapes_and_types_stay(tmp_path):
    _, document = hidden(tmp_path, {"traceEvents": own_events()})
    event = document["traceEvents"][0]
    stand_in = Anonymizer(b"salt").stand_in
    assert event == {
        "ph": "X",
        "cat": "cpu_op",
        "name": "aten::mm",
        "pid": 1,
        "tid": 1,
        "ts": 1.25,
        "dur": 9.5,
        "args": {
            "External id": 3,
            "Input Dims": [[2, 2], []],
            "Input type": ["float", stand_in("zebra")],
            "Concrete Inputs": ["0.5", "[1, 1]", stand_in("okapi")],
        },
    }
    kernel = document["traceEvents"][4]
    assert kernel["args"]["occupancy"] == {"limitingFactors": "WARPS|REGS"}
    assert kernel["tid"] == "stream 7"
    begin, end = document["traceEvents"][7:9]
    assert begin["id"] == end["id"] and begin["id2"] == end["id2"]


def test_no_event_is_lost_where_its_fields_are_odd(tmp_path):
    odd = [{"ph": "X", "name": None, "pid": None, "ts": "5", "dur": "1"}, {"ph": "X", "name": 7, "ts": 6, "dur": 1}]
    _, document = hidden(tmp_path, odd + [3, None])
    assert [event.get("ts") for event in document] == ["5", 6]


COLUMNS = {"kernels": ("kind", "dur_us", "stream", "grid", "registers", "launch_delay_us", "gap_before_us"),
           "launches": ("dur_us", "delay_us", "queue_depth", "kernels"), "gaps": ("dur_us", "cpu_late_us"),
           "steps": ("dur_us", "kernels", "gpu_busy_us", "cpu_ops", "sync_us")}  # fmt: skip


@pytest.mark.parametrize("name", [*FAST, *(pytest.param(name, marks=pytest.mark.full) for name in SLOW)])
def test_the_numbers_of_real_traces_stay(name, shared_trace, tmp_path):
    whole = loaded(shared_trace(name))
    path = tmp_path / "hidden.json"
    with path.open("wb") as sink:
        kept = Cut(whole, Wanted(), Anonymizer(b"salt")).write(sink)
    assert kept.events == whole.events
    part = load(str(path))
    assert len(part.slices) == len(whole.slices)
    for pane, columns in COLUMNS.items() if whole.is_torch else ():
        ours, theirs = (PANES[pane].build(trace, step=None, by=None) for trace in (part, whole))
        for column in columns:
            assert cells_of(ours[column], 0) == cells_of(theirs[column], 0), (pane, column)
    assert steps(part).number.tolist() == steps(whole).number.tolist()
    text = path.read_text()
    assert not re.search(r"\.py\([1-9]|/home/|site-packages|nn\.Module: (?!anon_)", text)


def test_a_secret_of_ones_own_makes_two_files_alike_and_another_none(tmp_path):
    texts = []
    for number, words in enumerate((["--salt", "s"], ["--salt", "s"], [], [])):
        out = tmp_path / f"{number}.json.gz"
        assert tracetui("cut", EAGER, "--hash-names", "-o", out, *words).returncode == 0
        texts.append(gzip.decompress(out.read_bytes()))
    assert texts[0] == texts[1]
    assert len(set(texts)) == 3
    assert all(b"mlp_fwd" not in text and b"aten::mm" in text and b"argv" not in text for text in texts)
