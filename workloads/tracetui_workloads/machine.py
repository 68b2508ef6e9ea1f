"""The software of this machine, without importing torch: PyTorch's build, GPU driver, Triton, C++ compiler.

Takes a few milliseconds and creates no GPU context. Only the child can tell whether the driver works with PyTorch.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
from dataclasses import dataclass
from glob import glob
from importlib.util import find_spec
from pathlib import Path

from tracetui_workloads.api import Workload

_DRIVERS = (
    ("cuda", "libcuda.so.1", ("/dev/nvidia[0-9]*", "/dev/dxg")),
    ("rocm", "libamdhip64.so", ("/dev/kfd",)),
    ("xpu", "libze_loader.so.1", ("/dev/dri/renderD*",)),
)
"""Kind of GPU, its driver's library, and patterns of device files of which one must exist."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The software of a machine that workloads need."""

    torch: str | None
    """The version of PyTorch, or None."""
    torch_gpu: str | None
    """The kind of GPU that PyTorch is built for, or None for the CPU alone."""
    driver: str | None
    """The kind of GPU whose driver is installed, or None."""
    triton: bool
    compiler: str | None
    """The C++ compiler that torch.compile would use, or None."""

    @property
    def has_gpu(self) -> bool:
        """True where PyTorch is likely to find a GPU: the driver is of the kind that PyTorch is built for."""
        return self.driver is not None and self.driver == self.torch_gpu


def inspect_machine() -> Machine:
    """The software of this machine and of this Python."""
    torch, torch_gpu = _torch()
    return Machine(torch, torch_gpu, gpu_driver(), triton_is_installed(), compiler())


def unavailable_reason(workload: Workload, machine: Machine) -> str | None:
    """The reason why a workload cannot run on a machine, in words; None where it can."""
    if machine.torch is None:
        return "PyTorch is not installed"
    for need in workload.needs:
        word = need.partition(">=")[0]
        if word == "gpu" and not machine.has_gpu:
            if machine.driver is None:
                return "needs a GPU, and none was found"
            built = f"built for {machine.torch_gpu}" if machine.torch_gpu else "built for the CPU only"
            return f"needs a GPU; a {machine.driver} driver is installed, but PyTorch {machine.torch} is {built}"
        if word == "triton" and not machine.triton:
            return "Triton is not installed"
        if word == "compiler" and machine.compiler is None:
            return "no C++ compiler was found"
        if word not in ("gpu", "triton", "compiler"):
            return f"needs {need}, which this version does not support"
    return None


def gpu_driver() -> str | None:
    """The kind of GPU whose driver and device files exist, or None."""
    for kind, library, devices in _DRIVERS:
        if any(glob(pattern) for pattern in devices) and _loads(library):
            return kind
    return None


def triton_is_installed() -> bool:
    return find_spec("triton") is not None


def compiler() -> str | None:
    """The C++ compiler that torch.compile would use, or None."""
    return shutil.which(os.environ.get("CXX", "g++"))


def physical_cores(system: Path = Path("/sys")) -> int:
    """Physical cores that this process may use: those of its CPUs, and no more than its quota; at least 1."""
    cpus = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    cores = {_core_of(cpu, system) for cpu in cpus}
    return max(1, min(len(cores), _cpu_quota(system)))


def _core_of(cpu: int, system: Path) -> tuple[str, str]:
    """Package and core of a CPU; the CPU itself where the system does not tell."""
    topology = system / "devices" / "system" / "cpu" / f"cpu{cpu}" / "topology"
    try:
        return (topology / "physical_package_id").read_text().strip(), (topology / "core_id").read_text().strip()
    except OSError:
        return "", f"cpu{cpu}"


def _cpu_quota(system: Path) -> int:
    """Whole CPUs that a container may use; very many where there is no limit."""
    try:
        quota, period = (system / "fs" / "cgroup" / "cpu.max").read_text().split()[:2]
        return max(1, int(quota) // int(period))
    except (OSError, ValueError, ZeroDivisionError):
        return 1 << 20


def _torch() -> tuple[str | None, str | None]:
    """PyTorch's version and the kind of GPU it is built for, from its `version.py`: importing torch takes a second."""
    spec = find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        return None, None
    try:
        text = Path(spec.submodule_search_locations[0], "version.py").read_text()
    except OSError:
        return "of unknown version", None
    values = dict(re.findall(r"^(\w+)(?::[^=]+)? = '([^']+)'$", text, re.MULTILINE))
    builds = {"cuda": "cuda", "hip": "rocm", "xpu": "xpu"}
    gpu = next((kind for key, kind in builds.items() if key in values), None)
    return values.get("__version__", "of unknown version"), gpu


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True
