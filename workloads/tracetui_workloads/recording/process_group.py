"""The process group of the ranks of a recording, in the child: joining it, and deciding together.

Whatever depends on a clock must be decided by all ranks together: where one calls the step once more than another, both
wait for ever.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tracetui_workloads.api import Unavailable
from tracetui_workloads.recording.devices import Target
from tracetui_workloads.recording.request import Request

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

BACKENDS = {"cpu": "gloo", "cuda": "nccl"}
"""The backend of the workload's collectives, by kind of device."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """The processes that record together; a process without a rank is alone and decides by itself."""

    rank: int = 0
    count: int = 1
    group: ProcessGroup | None = None
    """The group in which decisions are made, on the CPU; None for a process that is alone."""

    def largest(self, number: float) -> float:
        """The largest of the numbers that all ranks give; each must ask, in the same order."""
        return self._reduced(number, "MAX")

    def total(self, number: float) -> float:
        """The sum of the numbers that all ranks give; each must ask, in the same order."""
        return self._reduced(number, "SUM")

    def any(self, wish: bool) -> bool:
        """Whether one of the ranks wishes it; each must ask, in the same order."""
        return bool(self.largest(float(wish)))

    def _reduced(self, number: float, how: str) -> float:
        if self.group is None:
            return number
        import torch
        import torch.distributed as dist

        value = torch.tensor([number], dtype=torch.float64)
        operation: Any = getattr(dist.ReduceOp, how)
        dist.all_reduce(value, operation, group=self.group)
        return float(value)


def set_rank_environment() -> None:
    """Have ranks talk on the loopback interface only, unless the environment says otherwise; before torch is imported.

    Otherwise the name of the machine is looked up, which may have no address.
    """
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo" if sys.platform == "linux" else "lo0")


def join(request: Request, target: Target) -> Ranks:
    """Join the process group of a request, whose other ranks may come later; a request without ranks stays alone.

    Raises: Unavailable where torch was built without process groups.
    """
    if not request.ranks:
        return Ranks()
    import torch
    import torch.distributed as dist

    if not dist.is_available():
        raise Unavailable(f"PyTorch {torch.__version__} was built without torch.distributed, which ranks need.")
    more: dict[str, Any] = {"device_id": torch.device(target.device)} if target.is_gpu else {}
    address = f"file://{request.rendezvous}"
    backend = BACKENDS[target.kind]
    dist.init_process_group(backend, init_method=address, rank=request.rank, world_size=request.ranks, **more)
    deciding: Any = dist.new_group(backend="gloo") if target.is_gpu else dist.group.WORLD
    return Ranks(request.rank, request.ranks, deciding)
