"""Which workloads there are, whether they run here, and what their parameters accept; no torch."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass, replace

import pytest
from tracetui_workloads import machine, registry
from tracetui_workloads.api import BadRequest, Expect, Param, Workload
from tracetui_workloads.recording.launcher import Options, plan, variants_of
from tracetui_workloads.recording.protocol import DEFAULTS

from tests.support.workloads.machines import CPU_ONLY, GPU

BUILT_IN = [registry.built_in(name) for name in registry.BUILT_IN]
PLAIN = Workload("plain", "needs nothing", "nowhere:prepare")


@dataclass
class Distribution:
    """Where an entry point comes from."""

    name: str


class Point:
    """An entry point."""

    def __init__(self, name, loaded, dist="mypackage"):
        self.name, self.value, self.dist = name, "mypackage:thing", Distribution(dist) if dist else None
        self._loaded = loaded

    def load(self):
        """What it stands for, or its failure."""
        if isinstance(self._loaded, BaseException):
            raise self._loaded
        return self._loaded


@pytest.fixture
def register(monkeypatch):
    """A function that registers entry points."""
    return lambda *points: monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: list(points))


def names():
    """The list as names."""
    return [row.name for row in registry.entries()]


def test_names_are_what_a_shell_and_a_file_can_hold():
    for workload in BUILT_IN:
        assert workload.name.isidentifier()
        assert all(param.name.isidentifier() for param in workload.params)
    assert [workload.name for workload in BUILT_IN] == list(registry.BUILT_IN)


@pytest.mark.parametrize("workload", BUILT_IN, ids=lambda workload: workload.name)
def test_a_workload_teaches_something_and_says_what_is_expected(workload):
    assert workload.lesson
    assert workload.see
    for device in ("cpu", "cuda:0"):
        metadata = {"device": device, "torch": "2.13.0+cu130", "params": workload.values({}), "options": {}}
        assert any(expect.applies(metadata) for expect in workload.expects), device
    for expect in (*workload.expects, *workload.contrasts):
        assert expect.why
        assert bool(expect.of) == (expect.metric in ABOUT_SOMETHING)
        assert isinstance(expect.want, str) == expect.metric.endswith(("named", "in_order"))


ABOUT_SOMETHING = {
    "calls_per_step",
    "kernels_per_call",
    "matching_calls_per_step",
    "matching_ops_per_step",
    "occupancy_queries_per_call",
    "ops_in_order",
    "share_of_steps_pct",
}
"""Metrics of an operator or of names that match a pattern."""


def recordings():
    """Every variant of every workload on either device, as the metadata of its recording."""
    for name in registry.BUILT_IN:
        for variant, changes in variants_of(name).items():
            workload = registry.built_in(str(changes.get("workload", name)))
            own = {param.name for param in workload.params}
            options = {key: value for key, value in changes.items() if key not in {*own, "workload"}}
            params = workload.values({key: value for key, value in changes.items() if key in own})
            for device in ("cpu", "cuda:0"):
                metadata = {"device": device, "torch": "2.13.0", "params": params, "options": {**DEFAULTS, **options}}
                yield pytest.param(workload, metadata, id=f"{name}-{variant}-{device}")


@pytest.mark.parametrize(("workload", "metadata"), recordings())
def test_every_variant_promises_something_or_says_why_it_cannot_run(workload, metadata):
    refused = workload.refusal(metadata) or ("gpu" in workload.needs and metadata["device"] == "cpu")
    promised = [each for each in workload.expects if each.applies(metadata)]
    assert refused or promised
    assert refused or any(each.asks for each in promised), "nothing to guess"


@pytest.mark.parametrize(("workload", "metadata"), recordings())
def test_nobody_is_asked_for_a_number_that_has_to_be_counted(workload, metadata):
    asked = [each for each in workload.expects if each.asks and each.applies(metadata)]
    assert all(each.metric != "ops_per_step" for each in asked)


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_contrasts_are_of_variants_that_exist(name):
    known = variants_of(name)
    for contrast in registry.built_in(name).contrasts:
        assert {contrast.a, contrast.b} <= known.keys()


@pytest.mark.parametrize("workload", BUILT_IN, ids=lambda workload: workload.name)
def test_variants_are_options_and_parameters_that_exist(workload):
    for name, differs in workload.variants:
        recorded = registry.built_in(differs.get("workload", workload.name))
        params = {param.name for param in recorded.params}
        assert name
        recorded.values({key: value for key, value in differs.items() if key in params})
        Options(**{key: value for key, value in differs.items() if key not in {*params, "workload"}})


@pytest.mark.parametrize(
    ("when", "holds"),
    [
        ("any", True),
        ("", True),
        ("cpu", False),
        ("cuda eager", True),
        ("cuda compile", False),
        ("cold", False),
        ("warm", True),
        ("torch=2.13", True),
        ("torch=2.1", False),
        ("size=64", True),
        ("size=6", False),
        ("backend=inductor", True),
        ("absent=1", False),
    ],
)
def test_when_something_is_expected(when, holds):
    options = {"compile": False, "cold": False, "backend": "inductor"}
    metadata = {"device": "cuda:0", "torch": "2.13.0+cu130", "params": {"size": 64}, "options": options}
    assert Expect("x", "ops_per_step", 1, when).applies(metadata) is holds


def test_a_name_may_be_short_when_only_one_begins_so(register):
    register()
    assert registry.find("split").name == "split_stack"
    assert registry.find("matmul-add").name == "matmul_add"
    with pytest.raises(BadRequest, match="m matches matmul_add and mlp: give the full name"):
        registry.find("m")
    with pytest.raises(BadRequest, match="Did you mean attention"):
        registry.find("atention")
    with pytest.raises(BadRequest):
        registry.find("")


def test_what_other_packages_register(register):
    register(Point("one", PLAIN), Point("two", [replace(PLAIN, name="a"), replace(PLAIN, name="b")]))
    assert names()[-3:] == ["plain", "a", "b"]
    assert registry.find("plain") is PLAIN


def test_a_package_that_cannot_be_loaded_is_a_row_that_says_why(register):
    register(
        Point("odd", RuntimeError("no \x1b[31m luck")),
        Point("wrong", 3),
        Point("many", [PLAIN, 3], dist=None),
        Point("leaves", SystemExit(7)),
    )
    rows = {row.name: row for row in registry.entries()}
    assert rows["leaves"].reason.startswith("broken: SystemExit: 7")
    assert rows["odd"].reason.startswith("broken: RuntimeError: no")
    assert rows["wrong"].workload is None
    assert "is not a Workload" in rows["many"].reason
    with pytest.raises(BadRequest, match="broken"):
        registry.find("odd")


def test_a_name_that_is_taken_stays_reachable(register):
    register(Point("one", replace(PLAIN, name="mlp")))
    assert names()[-1] == "mypackage:mlp"
    assert registry.find("mlp").summary != "needs nothing"
    assert registry.find("mypackage:mlp").summary == "needs nothing"
    assert not registry.is_function("mypackage:mlp")
    assert plan("mypackage:mlp", {}, Options()).workload == "mypackage:mlp"


def test_what_means_a_function_of_ones_own(register):
    register()
    assert registry.is_function("train.py:step")
    assert registry.is_function("a/b:step")
    assert registry.is_function("package.module:step")
    assert not registry.is_function("mlp")


@pytest.mark.parametrize(
    ("needs", "here", "reason"),
    [
        ((), CPU_ONLY, None),
        ((), replace(CPU_ONLY, torch=None), "PyTorch is not installed"),
        (("gpu",), CPU_ONLY, "none was found"),
        (("gpu",), replace(CPU_ONLY, driver="cuda"), "PyTorch 2.13.0+cpu is built for the CPU only"),
        (("gpu",), replace(GPU, torch_gpu="rocm"), "built for rocm"),
        (("gpu",), GPU, None),
        (("gpu>=9.0", "triton"), GPU, None),
        (("triton",), CPU_ONLY, "Triton is not installed"),
        (("compiler",), replace(CPU_ONLY, compiler=None), "no C++ compiler"),
        (("2 ranks",), GPU, "needs 2 ranks"),
    ],
)
def test_why_a_workload_cannot_run_here(needs, here, reason):
    found = machine.unavailable_reason(replace(PLAIN, needs=needs), here)
    assert found is None if reason is None else reason in str(found)


@pytest.mark.full
def test_looking_at_this_machine_says_what_torch_says():
    torch = pytest.importorskip("torch")
    here = machine.inspect_machine()
    assert here.torch == torch.__version__
    assert (here.torch_gpu == "cuda") == (torch.version.cuda is not None)
    assert here.has_gpu >= torch.cuda.is_available()


@pytest.mark.parametrize(
    ("param", "given", "wanted"),
    [
        (Param("n", 1), "3", 3),
        (Param("n", 1), 3, 3),
        (Param("x", 1.0), "1e3", 1000.0),
        (Param("s", "a"), "b", "b"),
        (Param("f", False), "yes", True),
        (Param("f", True), False, False),
        (Param("n", 1), "1.5", None),
        (Param("n", 1, minimum=1), "0", None),
        (Param("s", "a", choices=("a", "b")), "c", None),
        (Param("f", True), "perhaps", None),
    ],
)
def test_what_a_parameter_accepts(param, given, wanted):
    if wanted is None:
        with pytest.raises(BadRequest, match=param.name):
            param.read(given)
    else:
        value = param.read(given)
        assert (value, type(value)) == (wanted, type(wanted))


def test_parameters_have_defaults_and_no_strangers():
    linear = registry.find("linear")
    assert linear.values({"in-dim": "8"}) == {"batch": 1024, "in_dim": 8, "out_dim": 64}
    with pytest.raises(BadRequest, match="has no parameter size; it has batch, in_dim, out_dim"):
        linear.values({"size": 3})


@pytest.mark.parametrize(
    ("out", "path"),
    [
        (None, "traces/linear/1024_32_64_bf16_warm_eager.json.gz"),
        ("x.json", "x.json"),
        ("folder/", "folder/linear_1024_32_64_bf16_warm_eager.json.gz"),
        (".", "linear_1024_32_64_bf16_warm_eager.json.gz"),
    ],
)
def test_where_a_recording_goes(out, path):
    assert plan("linear", {}, Options(), out).out == path


def test_where_that_of_a_function_goes():
    assert plan("a/train.py:step", {"n": "3"}, Options()).out == "traces/train.step/3_warm_eager.json.gz"
