"""The Triton kernels beside torch in float64, in a process of its own: prints a JSON object of cases and complaints.

`TRITON_INTERPRET=1 python -m tests.support.workloads.kernel_results cpu` uses Triton's interpreter, `... cuda` a GPU.
The variable must be set before triton is imported, and changes every kernel of the process.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from unittest.mock import patch

ELEMENTWISE = {
    f"geglu {dtype} {'x'.join(map(str, shape))}": (dtype, shape)
    for dtype in ("float32", "float16", "bfloat16")
    for shape in ((7, 33), (4, 1000), (2, 3, 1024))
}
"""Less than a block, blocks with a rest, and whole blocks."""

TOLERANCES = {"float32": (1e-5, 1e-6), "float16": (1e-3, 1e-3), "bfloat16": (8e-3, 1e-3)}
"""Relative and absolute. bfloat16 allows a unit in the last place: the interpreter cuts off where a GPU rounds."""
GATE_TOLERANCE = {**TOLERANCES, "float32": (1e-3, 1e-3)}
"""Of the gradient of gate, where large terms cancel."""

PRODUCTS = {
    f"gateup {dtype} {'x'.join(map(str, sizes))}": (dtype, sizes)
    for dtype in ("float32", "float16")
    for sizes in ((64, 64, 64), (50, 70, 90), (1, 17, 33), (100, 96, 200))
}
"""Rows, depth, columns."""
PRODUCT_TOLERANCES = {"float32": (1e-4, 1e-5), "float16": (2e-3, 1e-3), "bfloat16": (1.6e-2, 1e-2)}


def geglu_case(device: str, dtype: str, shape: tuple[int, ...]) -> None:
    """Output and both gradients."""
    import torch
    from torch.nn import functional
    from tracetui_workloads.programs.geglu_kernels import geglu, geglu_packed

    made = [torch.randn(shape, device=device) * scale for scale in (3.0, 1.0, 1.0)]
    gate, up, slope = (each.to(getattr(torch, dtype)) for each in made)
    gate64, up64 = gate.double().requires_grad_(), up.double().requires_grad_()
    wanted = functional.gelu(gate64, approximate="tanh") * up64
    wanted.backward(slope.double())
    gate.requires_grad_()
    up.requires_grad_()
    found = geglu(gate, up)
    found.backward(slope)
    close(found, wanted, TOLERANCES[dtype])
    close(up.grad, up64.grad, TOLERANCES[dtype])
    with torch.no_grad():
        close(geglu_packed(torch.cat([gate, up], dim=-1)), wanted, TOLERANCES[dtype])
    close(gate.grad, gate64.grad, GATE_TOLERANCE[dtype])


def gateup_case(device: str, dtype: str, sizes: tuple[int, int, int]) -> None:
    """Output, for tiles that do not divide the sizes."""
    import torch
    from torch.nn import functional
    from tracetui_workloads.programs.geglu_kernels import Tiles, gateup

    rows, depth, columns = sizes
    kind = getattr(torch, dtype)
    x = torch.randn(rows, depth, device=device).to(kind)
    gate, up = ((torch.randn(columns, depth, device=device) / depth**0.5).to(kind) for _ in range(2))
    wanted = functional.gelu(x.double() @ gate.double().T, approximate="tanh") * (x.double() @ up.double().T)
    close(gateup(x, gate, up, Tiles(32, 32, 32, 4, 2, group=2)), wanted, PRODUCT_TOLERANCES[dtype])
    if all(count * x.element_size() % 16 == 0 for count in (depth, columns)):
        persistent = Tiles(32, 32, 32, 4, 2, group=2, is_persistent=True)
        close(gateup(x, gate, up, persistent), wanted, PRODUCT_TOLERANCES[dtype])


def views_case(device: str) -> None:
    """Tensors that are no block of memory, with a gradient that is expanded from one number."""
    import torch
    from torch.nn import functional
    from tracetui_workloads.programs.geglu_kernels import Tiles, gateup, geglu, geglu_packed

    whole = torch.randn(6, 40, device=device, requires_grad=True)
    with torch.no_grad():
        packed = whole.detach().T.contiguous().T
        gate, up = packed.chunk(2, dim=1)
        close(geglu_packed(packed), functional.gelu(gate, approximate="tanh") * up, (1e-4, 1e-4))

    geglu(*whole.chunk(2, dim=1)).sum().backward()
    found, whole.grad = whole.grad, None
    gate, up = whole.chunk(2, dim=1)
    (functional.gelu(gate, approximate="tanh") * up).sum().backward()
    close(found, whole.grad, (1e-3, 1e-3))

    x, weights = torch.randn(16, 2, 3, device=device).permute(1, 2, 0), torch.randn(2, 16, 20, device=device).mT
    wanted = functional.gelu(x @ weights[0].T, approximate="tanh") * (x @ weights[1].T)
    close(gateup(x, weights[0], weights[1], Tiles(16, 16, 16, 4, 2)), wanted, (1e-4, 1e-4))


def modules_case(device: str) -> None:
    """Both blocks with the weights of the plain one."""
    import torch
    from torch.nn import functional
    from tracetui_workloads.programs.geglu_kernels import GateUpMlp, GegluMlp, PackedGegluMlp, Tiles

    sizes = ((16, 40), (16, 40), (40, 16))
    gate, up, down = (torch.nn.Linear(*each, bias=False, device=device) for each in sizes)
    x = torch.randn(2, 5, 16, device=device)
    wanted = down(functional.gelu(gate(x), approximate="tanh") * up(x))
    close(GegluMlp(gate, up, down)(x), wanted, (1e-4, 1e-4))
    with torch.no_grad():
        close(PackedGegluMlp(gate, up, down)(x), wanted, (1e-4, 1e-4))
        close(GateUpMlp(gate, up, down, Tiles(16, 16, 16, 4, 2))(x), wanted, (1e-4, 1e-4))


def refusals_case(device: str) -> None:
    """What does not fit, and gradients that nobody wrote."""
    import torch
    from tracetui_workloads.programs.geglu_kernels import Tiles, gateup, geglu

    a, b = torch.ones(16, 16, device=device), torch.ones(16, 8, device=device)
    for call in (partial(geglu, a, b), partial(geglu, a, a.half()), partial(gateup, a, a, b)):
        refuses(ValueError, call)
    out = gateup(a, a.clone().requires_grad_(), a, Tiles(16, 16, 16, 4, 2))
    refuses(NotImplementedError, out.sum().backward)
    a.requires_grad_()
    (once,) = torch.autograd.grad(geglu(a, a * 2).sum(), a, create_graph=True)
    refuses(RuntimeError, once.sum().backward)


def tiles_case(device: str) -> None:
    """The fastest is chosen among those that fit."""
    import torch
    from tracetui_workloads.programs.geglu_kernels import Tiles, fastest_tiles
    from triton.runtime.errors import OutOfResources

    a = torch.ones(16, 16, device=device)
    small, medium, large = (Tiles(size, size, 16, 4, 2) for size in (16, 32, 64))
    times = {small: 2.0, medium: 1.0}

    def timer(call: Any) -> float:
        call()
        tiles = call.args[-1]
        if tiles not in times:
            raise OutOfResources(2, 1, "shared memory")
        return times[tiles]

    assert fastest_tiles(a, a, a, (small, large, medium), timer) == medium
    refuses(OutOfResources, partial(fastest_tiles, a, a, a, (large,), timer))


def workload_case(device: str, impl: str) -> None:
    """The workload is right, and calls the operators that it says it calls."""
    import torch
    from torch.autograd.profiler import profile
    from tracetui_workloads.programs import geglu_kernels
    from tracetui_workloads.programs.mlp import FUSED_MLP, prepare_fused_mlp
    from tracetui_workloads.recording.protocol import Options
    from tracetui_workloads.recording.recorder import RunContext

    context = RunContext(device, torch.float32, Options(), note=lambda _: None)
    with patch.object(geglu_kernels, "fastest_tiles", lambda *_: geglu_kernels.Tiles(16, 16, 16, 4, 2)):
        prepared = prepare_fused_mlp(context, impl, batch=2, seq=4, dim=16, hidden=32)
    assert prepared.check
    prepared.check()
    with profile() as recorded:
        prepared.step()
    names = [event.name for event in recorded.function_events]
    assert {"geglu": "GegluFunction", "packed": "GegluPackedFunction", "gateup": "GateUpFunction"}[impl] in names, names
    metadata = {"device": device, "params": {"impl": impl}}
    expects = [each for each in FUSED_MLP.expects if each.metric == "calls_per_step" and each.applies(metadata)]
    assert len(expects) == 2
    for expect in expects:
        assert names.count(expect.of) == expect.want, names


def refuses(kind: type[Exception], call: Any) -> None:
    """Fail unless a call raises that."""
    try:
        call()
    except kind:
        return
    raise AssertionError(f"{call} raised no {kind.__name__}")


def close(found: Any, wanted: Any, tolerance: tuple[float, float]) -> None:
    """Fail unless both are nearly the same, in float64."""
    import torch

    relative, absolute = tolerance
    torch.testing.assert_close(found.double(), wanted.double(), rtol=relative, atol=absolute)


CASES: dict[str, Callable[[str], None]] = {
    **{name: partial(geglu_case, dtype=dtype, shape=shape) for name, (dtype, shape) in ELEMENTWISE.items()},
    **{name: partial(gateup_case, dtype=dtype, sizes=sizes) for name, (dtype, sizes) in PRODUCTS.items()},
    "views": views_case,
    "modules": modules_case,
    "refusals": refusals_case,
    "tiles": tiles_case,
    **{f"workload {impl}": partial(workload_case, impl=impl) for impl in ("geglu", "packed", "gateup")},
}
ON_GPU_ALONE: dict[str, Callable[[str], None]] = {
    f"gateup bfloat16 {'x'.join(map(str, sizes))}": partial(gateup_case, dtype="bfloat16", sizes=sizes)
    for sizes in sorted({sizes for _, sizes in PRODUCTS.values()})
}
"""The interpreter multiplies bfloat16 as if its bits were integers."""


def complaints_of(cases: Mapping[str, Callable[[], None]]) -> dict[str, str]:
    """What each case raises, in words; an empty text is nothing."""
    found = {}
    for name, case in cases.items():
        try:
            case()
            found[name] = ""
        except Exception as error:
            # Whatever a kernel raises is told of its own case.
            found[name] = f"{type(error).__name__}: {error}"[:2000]
    return found


def seeded(case: Callable[[str], None], device: str) -> None:
    """Run a case with numbers of its own."""
    import torch

    torch.manual_seed(0)
    case(device)


if __name__ == "__main__":
    wanted = CASES if sys.argv[1] == "cpu" else {**CASES, **ON_GPU_ALONE}
    print(json.dumps(complaints_of({name: partial(seeded, case, sys.argv[1]) for name, case in wanted.items()})))
