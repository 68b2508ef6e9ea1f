"""The fused blocks through Dynamo, as on a machine with a GPU: prints a JSON object of cases and complaints.

Dynamo takes a Triton kernel for one only where Triton has a device; here it is told so. It captures on the CPU, and
nothing is run.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from tests.support.workloads.kernel_results import complaints_of

KERNEL = "triton_kernel_wrapper_mutation"
PRODUCTS = {"geglu": 3, "gateup": 1}
"""Products that are left to PyTorch, by the kernel."""


class Captured(Exception):
    """Raised instead of running what was captured."""


def capture(impl: str) -> None:
    """The whole forward is one graph, with the kernel in it as it is."""
    import torch
    from torch import nn
    from tracetui_workloads.programs.geglu_kernels import GateUpMlp, GegluMlp

    gate, up, down = nn.Linear(16, 32, bias=False), nn.Linear(16, 32, bias=False), nn.Linear(32, 16, bias=False)
    block = GegluMlp(gate, up, down) if impl == "geglu" else GateUpMlp(gate, up, down)
    called: list[str] = []

    def backend(graph: Any, _: Any) -> Any:
        called.extend(getattr(node.target, "__name__", str(node.target)) for node in graph.graph.nodes)

        def run(*_: Any) -> Any:
            raise Captured

        return run

    try:
        with torch.no_grad():
            torch.compile(block, backend=backend, fullgraph=True)(torch.ones(2, 4, 16))
    except Captured:
        pass
    assert called.count(KERNEL) == 1, called
    assert called.count("linear") == PRODUCTS[impl], called


if __name__ == "__main__":
    from torch.utils import _triton

    vars(_triton)["has_triton"] = lambda: True
    print(json.dumps(complaints_of({impl: partial(capture, impl) for impl in PRODUCTS})))
