"""What tells that two recordings compute on the same numbers; needs torch, in this process."""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module
from types import SimpleNamespace

import pytest
from tracetui_workloads import registry
from tracetui_workloads.programs import mlp
from tracetui_workloads.recording import profiling
from tracetui_workloads.recording.launcher import plan_variants, record_now, variants_of
from tracetui_workloads.recording.profiling import DIGEST_LENGTH, MAX_HASHED_BYTES, digests
from tracetui_workloads.recording.recorder import RunContext, dtype_of

from tests.support.workloads.children import LIGHT_TORCH, all_of, asked, needs_torch, own_function
from tests.support.workloads.sizes import ATTENTION, SMALL

pytestmark = [pytest.mark.full, needs_torch]

SIZES: dict = {
    **SMALL,
    "fused_mlp": SMALL["mlp"],
    "attention": ATTENTION,
    "train_step": {"batch": 4, "width": 8, "layers": 1},
    "decode": {"layers": 1, "heads": 2, "dim": 16, "cached": 4},
    "sync": {"pieces": 2, "size": 8},
    "graph_breaks": {"size": 64},
    "conv": {"batch": 1, "channels": 4, "pixels": 4, "layers": 1},
    "dataloader": {"batch": 2, "width": 4, "read_ms": 0.0},
    "copies": {"pieces": 1, "size": 4},
    "ddp": {"batch": 2, "width": 4, "layers": 1},
}
LEFT_OUT = (
    *("eager", "compile"),
    *("naive", "geglu", "cudnn", "efficient", "foreach", "each", "whole", "nchw", "no_workers", "pageable", "pinned"),
    *("overlapped", "packed", "liger"),
)
"""Variants that do not run here, and those that are `eager` or `compile` by another name."""


@pytest.fixture(scope="module")
def torch():
    """Imported where it is needed: to collect the tests, nobody waits for it."""
    import torch

    return torch


def test_the_same_numbers_have_the_same_digest_and_others_another(torch):
    x = torch.arange(6.0)
    [told] = digests({"x": x}).values()
    assert digests({"x": x.clone()}) == {"x": told}
    other = x.clone()
    other[5] = 5.000001
    for each in (other, x.reshape(2, 3), x.double(), x.to(torch.bfloat16), x[:5], x.flip(0)):
        assert digests({"x": each})["x"] != told


@pytest.mark.parametrize("name", ["bfloat16", "float16", "float64", "int8", "bool", "complex64", "float8_e4m3fn"])
def test_every_data_type_has_one(torch, name):
    dtype = getattr(torch, name)
    assert digests({"x": torch.zeros(3, dtype=dtype)})["x"] != digests({"x": torch.ones(3, dtype=dtype)})["x"]


def test_how_it_lies_in_memory_makes_no_difference(torch):
    x = torch.arange(6.0).reshape(2, 3)
    assert digests({"x": x}) == digests({"x": x.t().contiguous().t()})
    z = torch.tensor([1 + 2j])
    assert digests({"x": z.conj()}) == digests({"x": torch.tensor([1 - 2j])})


def test_scalars_and_what_is_empty(torch):
    assert digests({"x": torch.tensor(3.0)})["x"] != digests({"x": torch.tensor([3.0])})["x"]
    assert digests({"x": torch.empty(0)})["x"] != digests({"x": torch.empty(0, 2)})["x"]


def test_a_module_is_its_weights_and_buffers(torch):
    norm = torch.nn.BatchNorm1d(2)
    before = digests({"norm": norm})
    norm(torch.arange(6.0).reshape(3, 2))
    assert digests({"norm": norm}) != before, "the running mean has changed"
    norm = torch.nn.BatchNorm1d(2)
    assert digests({"norm": norm}) == before
    with torch.no_grad():
        norm.weight[0] = 2
    assert digests({"norm": norm}) != before


def test_what_holds_no_numbers_here_is_left_out(torch):
    odd = {
        "sparse": torch.eye(3).to_sparse(),
        "meta": torch.empty(3, device="meta"),
        "number": 3,
        "module": torch.nn.ReLU(),
    }
    assert digests(odd) == {}
    assert list(digests({**odd, "x": torch.ones(1)})) == ["x"]


def test_of_very_much_every_so_many_th_number_is_looked_at(torch):
    x = torch.arange(1000, dtype=torch.int64)
    sampled = digests({"x": x, "y": x}, max_bytes=4000)
    assert sampled["x"] == sampled["y"] != digests({"x": x})["x"]
    for place, is_seen in ((4, True), (5, False)):
        changed = x.clone()
        changed[place] = -1
        assert (digests({"x": changed, "y": x}, max_bytes=4000)["x"] != sampled["x"]) is is_seen


def test_no_more_is_hashed_than_a_moment_allows(torch, monkeypatch):
    """Counted and not timed, for a busy machine takes longer."""
    hashed = []

    class Counter:
        def update(self, data):
            hashed.append(len(data))

        def hexdigest(self):
            return "0" * DIGEST_LENGTH

    monkeypatch.setattr(profiling, "hashlib", SimpleNamespace(sha256=Counter))
    digests({"x": torch.zeros(2 * MAX_HASHED_BYTES, dtype=torch.uint8)})
    assert MAX_HASHED_BYTES <= sum(hashed) < MAX_HASHED_BYTES + 100


def prepared(request):
    """What a workload prepares for a request, in this process."""
    import torch

    workload = registry.find(request.workload)
    options = request.options
    context = RunContext("cpu", dtype_of(options.dtype or workload.dtype), options, lambda _: None)
    module, _, name = workload.prepare.partition(":")
    torch.manual_seed(options.seed)
    return getattr(import_module(module), name)(context, **request.params)


@pytest.fixture
def process_group(torch, monkeypatch):
    """A process group of this process alone, for workloads of several ranks."""
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo" if sys.platform == "linux" else "lo0")
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("process_group")
@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_variants_of_a_workload_compute_on_the_same_numbers(torch, name, monkeypatch):
    monkeypatch.setattr(mlp, "fused", lambda *_: lambda x: x)
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    words = ["eager", "compile", *(word for word in variants_of(name) if word not in LEFT_OUT)]
    requests = plan_variants(name, words, SIZES[name], {})
    told = {request.variant: digests(prepared(request).operands) for request in requests}
    assert len(told) >= 2
    assert all(told["eager"]), "something is known by name"
    assert all(each == told["eager"] for each in told.values()), told
    other, _ = plan_variants(name, ["seed=1", "eager"], SIZES[name], {})
    assert digests(prepared(other).operands) != told["eager"], "another seed has other numbers"


def test_the_tensors_of_a_file_of_ones_own_follow_the_seed(torch, tmp_path):
    """And the digest is taken before the first call: a step that trains changes nothing of what is told."""
    source = (
        "import torch\nmodel = torch.nn.Linear(4, 4)\nx = torch.randn(2, 4)\nw = torch.ones(3)\n"
        "def step():\n    w.add_(1)\n    return model(x)"
    )
    name = own_function(tmp_path / "own.py", source)
    seeds = {"first": 0, "again": 0, "other": 7}
    requests = {key: asked(name, tmp_path / f"{key}.json", seed=seed, device="cpu") for key, seed in seeds.items()}
    found = [story.outcome.metadata["operands"] for story in asyncio.run(all_of(requests, {})).values()]
    assert set(found[0]) == {"model", "x", "w"}
    assert found[0] == found[1]
    assert found[2]["x"] != found[0]["x"]
    assert found[2]["model"] != found[0]["model"]
    assert found[2]["w"] == found[0]["w"] == digests({"w": torch.ones(3)})["w"]


def test_a_step_prepared_by_hand_may_say_nothing(tmp_path):
    source = (
        "import torch\nfrom tracetui_workloads.api import Prepared\n"
        "def step(ctx) -> Prepared:\n    x = torch.ones(3)\n    return Prepared(lambda: x + 1, label='plus')"
    )
    request = asked(own_function(tmp_path / "own.py", source), tmp_path / "x.json", device="cpu")
    assert record_now(request, environment=LIGHT_TORCH).metadata["operands"] == {}
