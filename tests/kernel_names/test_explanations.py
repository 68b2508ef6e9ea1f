"""Explanations of events: the page, which entry a name has, and that what is common has one."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

from tests.support.paths import ROOT, SHARED
from tracetui.cli.main import main
from tracetui.errors import TracetuiError
from tracetui.kernel_names import Family
from tracetui.kernel_names.slice_names import PAGE, explanation, explanations
from tracetui.model.trace import Kind
from tracetui.reading.load import load

MAX_CHARACTERS = 420
COMMON = 100


def title(name: str, kind: Kind | None = None) -> str:
    entry = explanation(name, kind)
    return "" if entry is None else entry.title


def test_the_page_in_the_documents_is_the_packaged_one():
    # `cp tracetui/kernel_names/events.md docs/events.md` where it is not.
    assert (ROOT / "docs" / "events.md").read_bytes() == PAGE.read_bytes()


def test_each_entry_of_the_page_is_read_and_has_three_sentences():
    entries = explanations()
    assert len(entries) == len(re.findall("^### ", PAGE.read_text("utf-8"), re.MULTILINE)) > 80
    assert len({entry.title for entry in entries}) == len(entries)
    for entry in entries:
        sentences = re.split(r"(?<=[.!?:]) (?=[A-Z`])", entry.text.replace("`. ", "`. "))
        assert 2 <= len(re.findall(r"[.!?](?: |$)", entry.text)) <= 3, sentences
        assert len(entry.text) <= MAX_CHARACTERS, entry.title


def test_no_pattern_stands_twice():
    patterns = Counter(pattern for entry in explanations() for pattern in entry.patterns)
    assert [pattern for pattern, count in patterns.items() if count > 1] == []


def test_all_kinds_and_families_have_an_entry():
    for kind in Kind:
        assert explanation("a name that nothing has", kind) is not None, kind
    labels = {pattern for entry in explanations() for pattern in entry.patterns}
    assert {f"kind:{kind.name.lower()}" for kind in Kind} <= labels
    assert {f"family:{family.name.lower()}" for family in Family if family <= Family.OTHER} <= labels


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("cudaMemcpyAsync", Kind.RUNTIME, "An asynchronous copy"),
        ("cuMemcpyHtoDAsync_v2", Kind.RUNTIME, "An asynchronous copy"),
        ("cudaMemcpy", Kind.RUNTIME, "A blocking copy"),
        ("cudaGraphLaunch", Kind.RUNTIME, "A launch of a graph"),
        ("cudaGraphInstantiate", Kind.RUNTIME, "Building a graph"),
        ("cudaFree", Kind.RUNTIME, "Freeing on the device"),
        ("cudaFreeHost", Kind.RUNTIME, "Pinned memory"),
        ("cudaMallocHost", Kind.RUNTIME, "Pinned memory"),
        ("cudaMalloc", Kind.RUNTIME, "Allocation on the device"),
        ("cudaStreamWaitEvent", Kind.RUNTIME, "A stream that waits for an event"),
        ("cudaSomethingNew", Kind.RUNTIME, "A runtime call"),
        ("aten::add_", Kind.CPU_OP, "Elementwise work"),
        ("aten::addmm", Kind.CPU_OP, "A matrix product"),
        ("aten::expand", Kind.CPU_OP, "A view"),
        ("aten::max_pool2d", Kind.CPU_OP, "Pooling and interpolation"),
        ("aten::normal_", Kind.CPU_OP, "Values are made"),
        ("aten::layer_norm", Kind.CPU_OP, "A normalisation or a softmax"),
        ("aten::_local_scalar_dense", Kind.CPU_OP, "A value read by the CPU"),
        ("aten::resolve_conj", Kind.CPU_OP, "A view"),
        (
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)",
            Kind.KERNEL,
            "A collective kernel",
        ),
        ("ampere_sgemm_128x64_nn", Kind.KERNEL, "A kernel that multiplies matrices"),
        ("ampere_sgemm_128x64_nn", None, "A kernel that multiplies matrices"),
        ("triton_poi_fused_add_0", Kind.KERNEL, "A generated kernel's launcher"),
        ("Memcpy DtoH (Device -> Pageable)", Kind.MEMCPY, "A copy to the host"),
        ("Activity Buffer Request", Kind.OVERHEAD, "A request for a buffer"),
        ("Context Sync", Kind.SYNC, "A recorded wait for the device"),
        ("ProfilerStep#7", Kind.ANNOTATION, "A step"),
        ("step[DECODE bs=4]", Kind.ANNOTATION, "A step of an inference server"),
        ("torch/nn/modules/module.py(1915): __getattr__", Kind.PYTHON, "A function of Python"),
        ("ResourceFetcher::requestResource", Kind.OTHER, "An event of another program"),
        ("something", None, ""),
    ],
)
def test_the_entry_of_a_name(name: str, kind: Kind | None, words: str):
    assert title(name, kind) == words


def test_a_long_name_is_matched_at_once():
    assert title("*" * 100_000, Kind.CPU_OP) == "An operator"
    assert title("aten::" + "norm" * 20_000 + "x", Kind.CPU_OP) == "A normalisation or a softmax"


def test_the_command_explains_names_without_escapes(capsys: pytest.CaptureFixture[str]):
    assert main(["explain", "aten::item\x1b[31m"]) == 2
    assert "\x1b" not in capsys.readouterr().err
    assert main(["explain", "ProfilerStep#3\x1b]0;x\x07"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out and "A step\n" in out


@pytest.mark.nightly
@pytest.mark.skipif(not SHARED.exists(), reason="needs the given traces")
def test_the_most_common_names_of_all_given_traces_have_an_entry_of_their_own():
    calls: Counter[tuple[str, Kind]] = Counter()
    for path in sorted(SHARED.rglob("*")):
        if not path.is_file() or not path.name.endswith((".json", ".json.gz", ".pftrace")):
            continue
        try:
            trace = load(str(path))
        except TracetuiError:
            continue
        kinds = trace.slices.kind.astype(np.int64)
        used, count = np.unique(trace.slices.name.astype(np.int64) * len(Kind) + kinds, return_counts=True)
        for code, number in zip(used.tolist(), count.tolist(), strict=True):
            calls[trace.names[code // len(Kind)], Kind(code % len(Kind))] += number
    assert len(calls) > 5_000
    common = [each for each, _ in calls.most_common() if each[1] != Kind.OTHER][:COMMON]
    for name, kind in common:
        entry = explanation(name, kind)
        assert entry is not None and not any(each.startswith("kind:") for each in entry.patterns), (name, kind)
