"""The rule about optimizers that update one parameter after another."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.support.build import Event, annotation, kernel, launch, make_trace, op
from tests.support.findings import MS, ids, one
from tests.support.paths import SAMPLES
from tests.support.traces import loaded
from tracetui.findings.scope import Scope
from tracetui.findings.training import is_optimizer_loop, loop_of, optimizer_loop_idle
from tracetui.model.trace import Trace

ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, A>(int)"
FOREACH = "void at::native::multi_tensor_apply_kernel<at::native::TensorListMetadata<2>, F, float>(T)"
SGD = ("aten::mul_", "aten::add_", "aten::add_")
ADAM = ("aten::lerp_", "aten::mul_", "aten::addcmul_", "aten::sqrt", "aten::div", "aten::add_", "aten::addcdiv_")


def optimizer_step(ops: Sequence[str], parameters: int, late: int = 20_000, name: str = ADD) -> Trace:
    """A product of 1 ms, then for each parameter one kernel of each op; the GPU waits for each launch."""
    events: list[Event] = [
        op("aten::mm", 0, 20_000),
        launch(5_000, 5_000, 1),
        kernel("sgemm", 10_000, MS, correlation=1),
    ]
    clock, number = MS + 20_000, 2
    begin = clock
    for _ in range(parameters):
        for each in ops:
            events += [op(each, clock, late), launch(clock + 5_000, 5_000, number)]
            events.append(kernel(name, clock + late - 10_000, 5_000, correlation=number))
            clock, number = clock + late, number + 1
    return make_trace([*events, annotation("Optimizer.step#SGD.step", begin, clock - begin)])


@pytest.mark.parametrize(("ops", "sets"), [(SGD, 3), (ADAM, 7)])
def test_a_set_of_kernels_for_each_parameter_is_a_loop(ops, sets):
    trace = optimizer_step(ops, 20)
    finding = one(trace, "optimizer-loop")
    assert f"{20 * sets} kernels inside Optimizer.step#SGD.step" in finding.evidence
    scope = Scope(trace, None)
    assert is_optimizer_loop(scope) and loop_of(scope).sets == sets
    idle = optimizer_loop_idle(scope)
    assert finding.cost is not None and idle == (20 * sets) * 15_000 - 15_000 + 10_000
    assert finding.cost == idle + 20 * sets * 5_000


def test_few_parameters_are_no_loop():
    assert "optimizer-loop" not in ids(optimizer_step(SGD, 3))


def test_kernels_for_many_parameters_are_no_loop():
    trace = optimizer_step(["aten::_foreach_add_", "aten::_foreach_mul_"], 20, name=FOREACH)
    assert "optimizer-loop" not in ids(trace)
    assert optimizer_loop_idle(Scope(trace, None)) == 0


def test_the_same_ops_outside_of_an_optimizer_are_no_loop():
    trace = optimizer_step(SGD, 20)
    scope = Scope(make_trace([op("aten::add_", 0, 10), kernel(ADD, 20, 100)]), None)
    assert is_optimizer_loop(Scope(trace, None)) and not is_optimizer_loop(scope)


def test_the_sample_on_a_cpu_has_no_loop_on_a_gpu():
    assert "optimizer-loop" not in ids(loaded(SAMPLES / "mlp_eager_cpu.json.gz"))
