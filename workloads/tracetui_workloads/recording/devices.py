"""The device of a recording, in the child; chosen once, and never replaced by another without a note to the user."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracetui_workloads.api import BadRequest, Unavailable, Workload
from tracetui_workloads.machine import compiler, gpu_driver, triton_is_installed
from tracetui_workloads.recording.exceptions import CPU_HINT, RecordingError
from tracetui_workloads.recording.protocol import Request

if TYPE_CHECKING:
    import torch
    from torch.distributed import ProcessGroup


CPU_BUILD_HINT = "this PyTorch is built for the CPU only; install a build for this GPU, see https://pytorch.org"


@dataclass(frozen=True, slots=True)
class Target:
    """The device that a workload runs on, and how to wait for it."""

    device: str
    """For example `cpu` or `cuda:0`."""
    name: str
    activities: tuple[torch.profiler.ProfilerActivity, ...]
    """The kinds of activity that the profiler can record on it."""
    synchronize: Callable[[], None]
    remark: str = ""
    """A sentence for the user about this choice; empty where there is none."""

    @property
    def kind(self) -> str:
        """The kind of device, for example `cuda`."""
        return self.device.partition(":")[0]

    @property
    def is_gpu(self) -> bool:
        """True where the profiler records kernels on it."""
        return self.kind in ("cuda", "xpu")


def choose(requested: str) -> Target:
    """The requested device, with a context created on it; `auto` is the accelerator where there is one.

    Raises: RecordingError where it does not exist, BadRequest where the text is not a device.
    """
    import torch

    try:
        device = torch.device(_accelerator() if requested == "auto" else requested)
    except RuntimeError:
        raise BadRequest(f"--device is auto, cpu, cuda or cuda:N, not {requested}.") from None
    if device.type == "cpu":
        remark = ""
        if requested == "auto":
            remark = "No GPU was found: recording on the CPU."
            if driver := gpu_driver():
                why = _unavailable_reason("cuda")
                remark = f"Recording on the CPU although a {driver.upper()} driver is installed: {why}."
        return _cpu(remark)
    if not _is_available(device.type):
        raise RecordingError(
            "device", f"There is no {device.type} device: {_unavailable_reason(device.type)}.", CPU_HINT
        )
    backend: Any = getattr(torch, device.type)
    number = device.index or 0
    if number >= backend.device_count():
        have = f"{backend.device_count()} {device.type} device{'s' * (backend.device_count() != 1)}"
        raise RecordingError("device", f"There is no {device}: this machine has {have}, numbered from 0.", CPU_HINT)
    name = f"{device.type}:{number}"
    if device.type != "mps":
        backend.set_device(number)
    torch.empty(1, device=name)
    backend.synchronize()
    profiler: Any = torch.profiler
    supported = profiler.supported_activities()
    remark = ""
    if device.type == "mps":
        remark = "The profiler records no kernels on this GPU: the trace shows CPU activity only."
    return Target(name, _name(device.type, number), tuple(supported), backend.synchronize, remark)


def choose_for_rank(requested: str, rank: int, ranks: int) -> Target:
    """The device of one of several ranks: the CPU that all share, or the GPU with the number of the rank.

    Raises: RecordingError and BadRequest as `choose` does; Unavailable where there are fewer GPUs than ranks, or of a
    kind for which no process group is made.
    """
    import torch

    kind = _accelerator() if requested == "auto" else requested
    if kind == "cpu":
        return choose(requested)
    if ":" in kind:
        raise BadRequest(f"Every rank has a GPU of its own, so --device is auto, cpu or cuda, not {requested}.")
    if kind == "cuda" and _is_available(kind):
        count = torch.cuda.device_count()
        if count < ranks:
            gpus = f"{count} GPU{'s' * (count != 1)}"
            raise Unavailable(f"{ranks} ranks need a GPU each, and this machine has {gpus}: add --device cpu.")
        return choose(f"cuda:{rank}")
    target = choose(requested)
    raise Unavailable(
        f"Ranks are recorded on the CPU or on NVIDIA and AMD GPUs, not on {target.device}: add --device cpu."
    )


def current() -> Target:
    """The accelerator that torch currently uses, with its index, or the CPU; nothing is changed."""
    import torch

    kind = _accelerator()
    if kind not in ("cuda", "xpu"):
        return _cpu("")
    backend: Any = getattr(torch, kind)
    profiler: Any = torch.profiler
    number = int(backend.current_device())
    return Target(f"{kind}:{number}", _name(kind, number), tuple(profiler.supported_activities()), backend.synchronize)


def require_needs(workload: Workload, target: Target) -> None:
    """Check that the device and software that a workload needs are available.

    Raises: Unavailable that names what is missing.
    """
    for need in workload.needs:
        word, _, least = need.partition(">=")
        if word == "gpu" and not target.is_gpu:
            raise Unavailable(f"{workload.name} needs a GPU, and this would run on {target.device}.")
        if word == "gpu" and least:
            import torch

            have = torch.cuda.get_device_capability(target.device)
            if have < tuple(map(int, least.split("."))):
                raise Unavailable(f"{workload.name} needs compute capability {least}; {target.name} has {have}.")
        if word == "triton" and not triton_is_installed():
            raise ModuleNotFoundError("No module named 'triton'", name="triton")
        if word == "triton" and os.environ.get("TRITON_INTERPRET", "0") != "0":
            # Triton's interpreter computes on the CPU, and the trace would show copies instead of the kernel.
            raise Unavailable(f"{workload.name} would be interpreted on the CPU: unset TRITON_INTERPRET.")
        if word == "compiler" and compiler() is None:
            raise Unavailable(f"{workload.name} needs a C++ compiler, and none was found.")
        if word not in ("gpu", "triton", "compiler"):
            raise Unavailable(f"{workload.name} needs {need}, which this recorder does not support.")


def describe(target: Target) -> dict[str, Any] | None:
    """Properties of the GPU for the metadata of a trace, or None on the CPU."""
    import torch

    if target.kind != "cuda":
        return None if target.kind == "cpu" else {"name": target.name}
    properties = torch.cuda.get_device_properties(target.device)
    return {
        "name": properties.name,
        "capability": f"{properties.major}.{properties.minor}",
        "multiprocessors": properties.multi_processor_count,
        "memory_bytes": properties.total_memory,
    }


def free_memory(target: Target | None) -> str:
    """The total and free memory of the GPU, in words for a message."""
    if target is None or target.kind != "cuda":
        return "the memory of the device is unknown"
    import torch

    try:
        free, total = torch.cuda.mem_get_info(target.device)
    except RuntimeError:
        # After some failures every call to the device fails.
        return "the device no longer reports its memory"
    return f"the GPU has {total / 2**30:,.1f} GiB, of which {free / 2**30:,.1f} GiB are free"


def driver_version() -> str | None:
    """The version of NVIDIA's driver, or None."""
    try:
        words = Path("/proc/driver/nvidia/version").read_text().split()
    except OSError:
        return None
    return next((word for word in words if word.count(".") >= 1 and word.replace(".", "").isdigit()), None)


def _accelerator() -> str:
    """The kind of accelerator that torch can use, or `cpu`."""
    return next((kind for kind in ("cuda", "xpu", "mps") if _is_available(kind)), "cpu")


def _is_available(kind: str) -> bool:
    import torch

    backend: Any = torch.backends.mps if kind == "mps" else getattr(torch, kind, None)
    return bool(backend is not None and hasattr(backend, "is_available") and backend.is_available())


def _cpu(remark: str) -> Target:
    import platform

    from torch.profiler import ProfilerActivity

    name = platform.processor() or platform.machine()
    return Target("cpu", name, (ProfilerActivity.CPU,), lambda: None, remark)


def _unavailable_reason(kind: str) -> str:
    """The reason why torch does not have a kind of device, in words."""
    import torch

    if kind == "cuda" and torch.version.cuda is None and torch.version.hip is None:
        return CPU_BUILD_HINT if gpu_driver() else "there is no GPU driver, and this PyTorch is built for the CPU only"
    if kind == "cuda":
        cuda: Any = torch.cuda
        try:
            cuda.init()
        except (RuntimeError, AssertionError) as error:
            return next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")
    return f"PyTorch {torch.__version__} found none"


def _name(kind: str, number: int) -> str:
    import torch

    backend: Any = getattr(torch, kind)
    return str(backend.get_device_name(number)) if hasattr(backend, "get_device_name") else kind


# The process group of the ranks of a recording, in the child: joining it, and deciding together.
#
# Whatever depends on a clock must be decided by all ranks together: where one calls the step once more than another,
# both wait for ever.

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
        """True where one of the ranks wishes it; each must ask, in the same order."""
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
