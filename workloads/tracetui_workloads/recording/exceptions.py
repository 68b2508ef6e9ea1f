"""Exceptions in the child turned into failures: one rule per cause, and the first rule that matches decides.

torch is not imported here: its exceptions are recognised by type name and message, which also works across versions.
"""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tracetui_workloads.api import BadRequest, Unavailable
from tracetui_workloads.recording.protocol import Failure, cancelled, plain, stage_phrase

COMPILER_HINT = "Install g++, or use --backend aot_eager, which needs no compiler."
TRITON_HINT = "Run without --compile, or with --backend aot_eager."
TRITON_INSTALL_HINT = "PyTorch's builds for GPUs include it, see https://pytorch.org."
CPU_HINT = "Record on the CPU with --device cpu."
TORCH_HINT = "Install it (`pip install torch`), or choose a Python that has it with --python."
DESTINATION_HINT = "Choose another path with -o."
MAX_TRACEBACK_LENGTH = 16_000
"""Maximum characters of a traceback that are kept."""


class Cancel(BaseException):
    """Raised in the child by the first SIGINT or SIGTERM."""


class MissingCompiler(Exception):
    """torch.compile needs a C++ compiler, and there is none."""


class NoDevice(Exception):
    """The requested device does not exist."""


class WrongResult(Exception):
    """The workload's check failed: its result differs from eager mode's."""


class NoKernels(Exception):
    """A recording on a GPU has no GPU activity."""


class NotCompiled(Exception):
    """A recording with --compile has no compiled region."""


class Incomplete(Exception):
    """A trace is cut off, or has fewer steps than were recorded."""


class NotWritten(Exception):
    """The trace could not be written to its destination."""


@dataclass(frozen=True, slots=True)
class Situation:
    """The state of the recording that failed, for messages."""

    stage: str
    python: str
    workload: str = ""
    growing: tuple[str, ...] = ()
    """The parameters that increase memory use."""
    on_gpu: bool = False
    free_memory: str = ""
    """The total and free memory of the device, in words."""
    is_rank: bool = False
    """Whether the process is one of several ranks."""


def failure_of(error: BaseException, situation: Situation) -> Failure:
    """The failure that describes an exception."""
    try:
        failure = next(filter(None, (rule(error, situation) for rule in _RULES)), None) or _other(error, situation)
    except BaseException:
        # `str` of an exception can be code of the user, and raise.
        message = f"{situation.workload} raised {type(error).__name__} while {stage_phrase(situation.stage)}."
        failure = Failure("error", message)
    details = "".join(traceback.format_exception(error))[-MAX_TRACEBACK_LENGTH:]
    return Failure(failure.kind, plain(failure.message), failure.hint, details, situation.stage)


def _expected(error: BaseException, situation: Situation) -> Failure | None:
    if isinstance(error, Cancel | KeyboardInterrupt):
        return cancelled(situation.stage)
    if isinstance(error, BadRequest):
        return Failure("usage", str(error))
    if isinstance(error, Unavailable):
        return Failure("unavailable", str(error))
    if isinstance(error, NoDevice):
        return Failure("device", str(error), CPU_HINT)
    return None


def _recorder_checks(error: BaseException, situation: Situation) -> Failure | None:
    if isinstance(error, WrongResult):
        message = f"The result of {situation.workload} differs from eager mode's: {_first_line(error)}"
        return Failure("wrong-result", message, "No trace was written, because its times would be meaningless.")
    if isinstance(error, Incomplete):
        return Failure("incomplete", str(error))
    if isinstance(error, NotWritten):
        return Failure("destination", str(error), DESTINATION_HINT)
    if isinstance(error, NotCompiled):
        return Failure("compile", str(error), "TORCH_LOGS=dynamo in the environment shows why.")
    if isinstance(error, NoKernels):
        hint = (
            "Close other profilers (nsys, ncu, DCGM), allow counters in a container, or check that libcupti is there; "
            "your own function must put its tensors on the GPU, or be recorded with --device cpu."
        )
        return Failure("no-kernels", str(error), hint)
    return None


def _system_exit(error: BaseException, situation: Situation) -> Failure | None:
    if isinstance(error, SystemExit):
        return Failure(
            "error", f"The function called sys.exit({_shown(error.code)}) while {stage_phrase(situation.stage)}."
        )
    return None


def _missing_module(error: BaseException, situation: Situation) -> Failure | None:
    if isinstance(error, ModuleNotFoundError) and error.name:
        name = error.name.partition(".")[0]
        if name == "torch":
            return Failure("missing:torch", f"PyTorch is not installed in {situation.python}.", TORCH_HINT)
        if name == "triton":
            return Failure("missing:triton", f"Triton is not installed in {situation.python}.", TRITON_INSTALL_HINT)
        return Failure(f"missing:{name}", f"The module {name} is not installed in {situation.python}.")
    if isinstance(error, ImportError) and situation.stage == "importing torch":
        message = f"PyTorch cannot be imported in {situation.python}: {_first_line(error)}"
        return Failure("missing:torch", message, TORCH_HINT)
    return None


_OUT_OF_MEMORY = re.compile(r"can't allocate memory|not enough memory|out of memory|STATUS_ALLOC_FAILED", re.IGNORECASE)
_WANTED = re.compile(r"tried to allocate ([\d.]+) (bytes|[KMGT]iB)", re.IGNORECASE)


def _out_of_memory(error: BaseException, situation: Situation) -> Failure | None:
    for each in _causes(error):
        by_type = isinstance(each, MemoryError) or type(each).__name__ == "OutOfMemoryError"
        if by_type or (isinstance(each, RuntimeError) and _OUT_OF_MEMORY.search(str(each))):
            where = "the GPU" if situation.on_gpu and not _on_host(each) else "this machine"
            has = situation.free_memory if where == "the GPU" else f"this machine has {_gib(_machine_memory())}"
            message = f"Not enough memory while {stage_phrase(situation.stage)}: {_wanted(str(each), where)}; {has}."
            options = " or ".join(f"--{name.replace('_', '-')}" for name in situation.growing)
            hint = f"Try a smaller {options}." if options else "Try smaller inputs."
            others = " nvidia-smi shows whether another process holds the memory." if where == "the GPU" else ""
            return Failure("oom", message, hint + others)
    return None


_LOST = re.compile(
    r"Connection (closed|reset|refused)|Broken pipe|pair closure|remote process exited|timed out|failed to recv",
    re.IGNORECASE,
)
"""What gloo, NCCL and the store say when another rank is gone."""


def _lost_rank(error: BaseException, situation: Situation) -> Failure | None:
    if not situation.is_rank:
        return None
    for each in _causes(error):
        by_type = type(each).__name__.startswith("Dist") and isinstance(each, RuntimeError)
        if by_type or (type(each) is RuntimeError and _LOST.search(str(each))):
            message = f"Lost the connection to another rank while {stage_phrase(situation.stage)}: {_first_line(each)}"
            return Failure("rank", message)
    return None


def _no_triton(error: BaseException, situation: Situation) -> Failure | None:
    for each in _causes(error):
        if type(each).__name__ in {"TritonMissing", "GPUTooOldForTriton"} or "0 active drivers" in str(each):
            return Failure("missing:triton", f"Triton cannot run here: {_first_line(each)}", TRITON_HINT)
    return None


def _no_compiler(error: BaseException, _: Situation) -> Failure | None:
    if any(type(each).__name__ in {"MissingCompiler", "InvalidCxxCompiler"} for each in _causes(error)):
        return Failure("missing:compiler", "torch.compile needs a C++ compiler, and none works here.", COMPILER_HINT)
    return None


def _no_backend(error: BaseException, situation: Situation) -> Failure | None:
    if re.search(r"No (viable backend|available kernel)", str(error)):
        return Failure("unavailable", f"{situation.workload} cannot run this way on this device: {_first_line(error)}")
    return None


_COMPILERS = ("torch._dynamo", "torch._inductor", "torch._functorch", "torch.fx")


def _compiling(error: BaseException, _: Situation) -> Failure | None:
    if any(type(each).__module__.startswith(_COMPILERS) for each in _causes(error)):
        hint = "Run without --compile, or with --backend aot_eager to see whether the backend is the cause."
        return Failure("compile", f"torch.compile failed: {_first_line(error)}", hint)
    return None


_DEVICE = re.compile(
    r"no kernel image is available|\b(CUDA|HIP|XPU|cuDNN|CUBLAS)\w* error|not compiled with CUDA|Found no NVIDIA driver"
    r"|no NVIDIA GPU|invalid device ordinal|NVIDIA driver on your system is too old",
    re.IGNORECASE,
)


def _device(error: BaseException, _: Situation) -> Failure | None:
    if type(error).__name__ == "AcceleratorError" or _DEVICE.search(str(error)):
        return Failure("device", f"Device error: {_first_line(error)}", CPU_HINT)
    return None


def _operating_system(error: BaseException, situation: Situation) -> Failure | None:
    if isinstance(error, FileNotFoundError) and not error.filename and not _has_folder():
        message = f"The current folder was deleted, which was noticed while {stage_phrase(situation.stage)}."
        return Failure("error", message, "Run it from a folder that is not deleted meanwhile.")
    if isinstance(error, OSError) and situation.stage == "writing trace":
        where = f" in {os.path.dirname(error.filename)}" if isinstance(error.filename, str) else ""
        message = f"The trace cannot be written{where}: {error.strerror or error}."
        return Failure("destination", message, DESTINATION_HINT)
    return None


def _has_folder() -> bool:
    """Whether the current folder still exists."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def _other(error: BaseException, situation: Situation) -> Failure:
    location = f" ({_location(error)})" if _location(error) else ""
    message = f"{situation.workload} raised {type(error).__name__} while {stage_phrase(situation.stage)}"
    text = _first_line(error, named=False)
    return Failure("error", f"{message}: {text}{location}" if text else f"{message}{location}.")


Rule = Callable[[BaseException, Situation], Failure | None]

_RULES: tuple[Rule, ...] = (
    _expected,
    _recorder_checks,
    _system_exit,
    _missing_module,
    _out_of_memory,
    _lost_rank,
    _no_triton,
    _no_compiler,
    _no_backend,
    _compiling,
    _device,
    _operating_system,
)
"""Rules in order of priority: running out of memory while compiling is out of memory, and no compiler error."""


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The exception and the exceptions it was raised from."""
    seen: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in seen:
        yield link
        seen.append(link)
        link = link.__cause__


def _first_line(error: BaseException, named: bool = True) -> str:
    """The first line of an exception's message that is not blank, at most 300 characters."""
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    if named and not line:
        line = type(error).__name__
    return line[:300]


def _location(error: BaseException) -> str:
    """The innermost line of the traceback that is neither torch's nor this package's, for example `train.py:12`."""
    own = os.path.dirname(os.path.dirname(__file__)) + os.sep
    locations = [
        f"{os.path.basename(frame.filename)}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(own) and f"{os.sep}torch{os.sep}" not in frame.filename
        if os.path.exists(frame.filename)
    ]
    return locations[-1] if locations else ""


def _shown(code: object) -> str:
    return "" if code is None else repr(code)[:80]


def _on_host(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or "CPUAllocator" in str(error)


def _wanted(text: str, where: str) -> str:
    """How much memory was requested, in words."""
    match = _WANTED.search(text)
    if match is None:
        return f"{where} could not provide the requested memory"
    amount, unit = match.groups()
    return f"it requested {_gib(int(amount)) if unit == 'bytes' else f'{amount} {unit}'}"


def _machine_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _gib(number: float) -> str:
    return f"{number / 2**30:,.1f} GiB"
