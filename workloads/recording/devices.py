"""The device of a recording, in the child: chosen once, never exchanged for another without a word."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workloads.api import BadRequest, Unavailable, Workload
from workloads.machine import compiler, gpu_driver, triton_is_installed
from workloads.recording.exceptions import NoDevice

if TYPE_CHECKING:
    import torch

CPU_BUILD_HINT = "this PyTorch is built for the CPU only; install one for this GPU, see https://pytorch.org"


@dataclass(frozen=True, slots=True)
class Target:
    """Where a workload runs and how to wait for it."""

    device: str
    """For example `cpu` or `cuda:0`."""
    name: str
    activities: tuple[torch.profiler.ProfilerActivity, ...]
    """What the profiler can record of it."""
    synchronize: Callable[[], None]
    remark: str = ""
    """What the user must know about this choice."""

    @property
    def kind(self) -> str:
        """The device without its number."""
        return self.device.partition(":")[0]

    @property
    def is_gpu(self) -> bool:
        """Whether the profiler sees kernels on it."""
        return self.kind in ("cuda", "xpu")


def choose(wanted: str) -> Target:
    """The device that was asked for, with a context on it; `auto` is the accelerator where there is one.

    Raises: NoDevice when it is absent, BadRequest when the text names none.
    """
    import torch

    try:
        device = torch.device(_accelerator() if wanted == "auto" else wanted)
    except RuntimeError:
        raise BadRequest(f"--device is auto, cpu, cuda or cuda:N, not {wanted}.") from None
    if device.type == "cpu":
        return _cpu(_remark() if wanted == "auto" else "")
    if not _is_available(device.type):
        raise NoDevice(f"There is no {device.type} device: {_reason(device.type)}.")
    backend: Any = getattr(torch, device.type)
    number = device.index or 0
    if number >= backend.device_count():
        raise NoDevice(f"There is no {device}: this machine has {backend.device_count()} of them, counted from 0.")
    name = f"{device.type}:{number}"
    if device.type != "mps":
        backend.set_device(number)
    torch.empty(1, device=name)
    backend.synchronize()
    profiler: Any = torch.profiler
    supported = profiler.supported_activities()
    remark = ""
    if device.type == "mps":
        remark = "The profiler records no kernels on this GPU: the trace holds what the CPU did."
    return Target(name, _name(device.type, number), tuple(supported), backend.synchronize, remark)


def current() -> Target:
    """The accelerator that torch has, with the number that is set on it, or the CPU; nothing is set here."""
    import torch

    kind = _accelerator()
    if kind not in ("cuda", "xpu"):
        return _cpu("")
    backend: Any = getattr(torch, kind)
    profiler: Any = torch.profiler
    number = int(backend.current_device())
    return Target(f"{kind}:{number}", _name(kind, number), tuple(profiler.supported_activities()), backend.synchronize)


def require(workload: Workload, target: Target) -> None:
    """Check what the workload needs.

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
            # It would compute on the CPU and copy, and the trace would show that as the kernel.
            raise Unavailable(f"{workload.name} would be interpreted on the CPU: unset TRITON_INTERPRET.")
        if word == "compiler" and compiler() is None:
            raise Unavailable(f"{workload.name} needs a C++ compiler, and none is there.")
        if word not in ("gpu", "triton", "compiler"):
            raise Unavailable(f"{workload.name} needs {need}, which this recorder does not know.")


def describe(target: Target) -> dict[str, Any] | None:
    """The GPU in facts, or None on the CPU."""
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
    """The GPU's memory in words, for a message."""
    if target is None or target.kind != "cuda":
        return "how much the device has is not known"
    import torch

    try:
        free, total = torch.cuda.mem_get_info(target.device)
    except RuntimeError:
        # After some failures the device answers nothing any more.
        return "how much the device has it does not say"
    return f"the GPU has {total / 2**30:,.1f} GiB, of which {free / 2**30:,.1f} GiB are free"


def driver_version() -> str | None:
    """The version of NVIDIA's kernel driver, or None."""
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


def _remark() -> str:
    """Why the CPU was chosen."""
    driver = gpu_driver()
    if driver is None:
        return "No GPU here: recording on the CPU."
    return f"Recording on the CPU although a {driver.upper()} driver is here: {_reason('cuda')}."


def _reason(kind: str) -> str:
    """Why torch has no such device."""
    import torch

    if kind == "cuda" and torch.version.cuda is None and torch.version.hip is None:
        return CPU_BUILD_HINT if gpu_driver() else "no GPU driver is here, and this PyTorch is built for the CPU only"
    if kind == "cuda":
        cuda: Any = torch.cuda
        try:
            cuda.init()
        except (RuntimeError, AssertionError) as error:
            return next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")
    return f"PyTorch {torch.__version__} finds none"


def _name(kind: str, number: int) -> str:
    import torch

    backend: Any = getattr(torch, kind)
    return str(backend.get_device_name(number)) if hasattr(backend, "get_device_name") else kind
