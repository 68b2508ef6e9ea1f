"""The Triton kernels in the interpreter and through the compiler, and how the fused MLP is refused without a GPU.

Triton must be told to interpret before it is imported, and then interprets everything: each run is a process of its
own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest
from tracetui_workloads import machine
from tracetui_workloads.api import Unavailable
from tracetui_workloads.programs.mlp import FUSED_MLP
from tracetui_workloads.recording import devices
from tracetui_workloads.recording.exceptions import Situation, failure_of

from tests.support.paths import ROOT
from tests.support.workloads import kernel_captures, kernel_compiles, kernel_results
from tests.support.workloads.children import QUICK, needs_torch
from tests.support.workloads.machines import GPU

LIMIT = 500.0
"""Seconds for all cases of a child, on a machine that has other things to do."""
NO_GPU = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}

needs_triton = pytest.mark.skipif(
    machine.inspect_machine().torch is None or not machine.triton_is_installed(), reason="needs torch and triton"
)


def run(*words, **environment):
    """A Python with these arguments, in the checkout."""
    return subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env={**os.environ, **QUICK, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )


def complaints(*words, **environment):
    """What a child with cases prints."""
    result = run("-m", *words, **environment)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def interpreted():
    """Complaints of every case in the interpreter."""
    return complaints("tests.support.workloads.kernel_results", "cpu", TRITON_INTERPRET="1")


def compiled_with(cache, *cases):
    """Complaints of compiling, with nothing compiled before."""
    return complaints("tests.support.workloads.kernel_compiles", *cases, TRITON_CACHE_DIR=str(cache))


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """Complaints of compiling for all GPUs but the one of the quick tier."""
    return compiled_with(tmp_path_factory.mktemp("triton"), *kernel_compiles.CASES.keys() - {kernel_compiles.SMOKE})


@pytest.fixture(scope="module")
def captured():
    """Complaints of torch.compile about the fused blocks."""
    return complaints("tests.support.workloads.kernel_captures")


@pytest.fixture(scope="module")
def computed():
    """Complaints of every case on this GPU."""
    return complaints("tests.support.workloads.kernel_results", "cuda")


@pytest.mark.full
@needs_triton
@pytest.mark.parametrize("case", kernel_results.CASES)
def test_a_kernel_computes_what_torch_does_in_float64(interpreted, case):
    assert interpreted[case] == ""


@pytest.mark.full
@needs_triton
@pytest.mark.skipif(not machine.inspect_machine().has_gpu, reason="needs a GPU")
@pytest.mark.parametrize("case", [*kernel_results.CASES, *kernel_results.ON_GPU_ALONE])
def test_a_kernel_computes_the_same_on_a_gpu(computed, case):
    assert computed[case] == ""


@pytest.mark.smoke
@pytest.mark.full
@needs_triton
def test_a_kernel_compiles_for_a_gpu(tmp_path):
    assert compiled_with(tmp_path, kernel_compiles.SMOKE) == {kernel_compiles.SMOKE: ""}


@pytest.mark.nightly
@needs_triton
@pytest.mark.parametrize("case", [case for case in kernel_compiles.CASES if case != kernel_compiles.SMOKE])
def test_a_kernel_compiles_for_gpus(compiled, case):
    assert compiled[case] == ""


@pytest.mark.full
@needs_triton
@pytest.mark.parametrize("impl", kernel_captures.PRODUCTS)
def test_torch_compile_takes_a_kernel_as_it_is(captured, impl):
    assert captured[impl] == ""


@pytest.mark.parametrize(
    ("here", "reason"),
    [
        (GPU, None),
        (replace(GPU, torch=None), "PyTorch is not installed"),
        (replace(GPU, driver=None), "needs a GPU, and none was found"),
        (replace(GPU, triton=False), "Triton is not installed"),
    ],
)
def test_what_the_fused_mlp_lacks(here, reason):
    assert machine.unavailable_reason(FUSED_MLP, here) == reason


def test_a_gpu_without_triton(monkeypatch):
    monkeypatch.setattr(devices, "triton_is_installed", lambda: False)
    with pytest.raises(ModuleNotFoundError) as raised:
        devices.require_needs(FUSED_MLP, devices.Target("cuda:0", "a GPU", (), lambda: None))
    failure = failure_of(raised.value, Situation("building", "/usr/bin/python3", FUSED_MLP.name))
    assert (failure.kind, failure.exit_code) == ("missing:triton", 3)
    assert str(failure).startswith("Triton is not installed in /usr/bin/python3. PyTorch's builds for GPUs include it")


def test_kernels_that_would_be_interpreted(monkeypatch):
    monkeypatch.setattr(devices, "triton_is_installed", lambda: True)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with pytest.raises(Unavailable, match="unset TRITON_INTERPRET"):
        devices.require_needs(FUSED_MLP, devices.Target("cuda:0", "a GPU", (), lambda: None))


@pytest.mark.full
@needs_torch
@pytest.mark.parametrize("device", ["auto", "cpu"])
def test_without_a_gpu_nothing_is_recorded(tmp_path, device):
    words = ["run", "fused_mlp", "--device", device, "-o", str(tmp_path / "x.json")]
    result = run("-m", "tracetui", *words, **NO_GPU)
    assert result.returncode == 3
    assert "fused_mlp needs a GPU, and this would run on cpu." in result.stderr
    assert result.stdout == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.full
def test_the_benchmark_refuses_without_a_gpu():
    result = run("-m", "tests.benchmarks.gpu_mlp", **NO_GPU)
    assert result.returncode == 3
    assert result.stderr.startswith("bench-gpu: ")
    assert "GPU" in result.stderr or "not installed" in result.stderr
    assert result.stdout == ""
