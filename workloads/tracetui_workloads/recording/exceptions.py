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

NO_COMPILER = "torch.compile needs a C++ compiler, and none works here."
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


class RecordingError(Exception):
    """A recording cannot be made, or its trace would be worthless: a kind of failure, a sentence, and a hint."""

    def __init__(self, kind: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.kind, self.hint = kind, hint


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
    """True for one of several ranks."""


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
    if isinstance(error, RecordingError):
        return Failure(error.kind, str(error), error.hint)
    if isinstance(error, SystemExit):
        code = "" if error.code is None else repr(error.code)[:80]
        return Failure("error", f"The function called sys.exit({code}) while {stage_phrase(situation.stage)}.")
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
        message = f"PyTorch cannot be imported in {situation.python}: {first_line(error)}"
        return Failure("missing:torch", message, TORCH_HINT)
    return None


_OUT_OF_MEMORY = re.compile(r"can't allocate memory|not enough memory|out of memory|STATUS_ALLOC_FAILED", re.IGNORECASE)
_REQUESTED_MEMORY = re.compile(r"tried to allocate ([\d.]+) (bytes|[KMGT]iB)", re.IGNORECASE)


def _out_of_memory(error: BaseException, situation: Situation) -> Failure | None:
    for each in _causes(error):
        by_type = isinstance(each, MemoryError) or type(each).__name__ == "OutOfMemoryError"
        if by_type or (isinstance(each, RuntimeError) and _OUT_OF_MEMORY.search(str(each))):
            is_on_host = isinstance(each, MemoryError) or "CPUAllocator" in str(each)
            if situation.on_gpu and not is_on_host:
                where, memory = "the GPU", situation.free_memory
                others = " nvidia-smi shows whether another process holds the memory."
            else:
                size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
                where, memory, others = "this machine", f"this machine has {size / 2**30:,.1f} GiB", ""
            requested = f"{where} could not provide the requested memory"
            if match := _REQUESTED_MEMORY.search(str(each)):
                number, unit = match.groups()
                in_units = f"{int(number) / 2**30:,.1f} GiB" if unit == "bytes" else f"{number} {unit}"
                requested = f"it requested {in_units}"
            options = " or ".join(f"--{name.replace('_', '-')}" for name in situation.growing)
            hint = f"Try a smaller {options}." if options else "Try smaller inputs."
            message = f"Not enough memory while {stage_phrase(situation.stage)}: {requested}; {memory}."
            return Failure("oom", message, hint + others)
    return None


_LOST = re.compile(
    r"Connection (closed|reset|refused)|Broken pipe|pair closure|remote process exited|timed out|failed to recv",
    re.IGNORECASE,
)
"""Messages of gloo, NCCL and the store when another rank is gone."""


def _lost_rank(error: BaseException, situation: Situation) -> Failure | None:
    if not situation.is_rank:
        return None
    for each in _causes(error):
        by_type = type(each).__name__.startswith("Dist") and isinstance(each, RuntimeError)
        if by_type or (type(each) is RuntimeError and _LOST.search(str(each))):
            message = f"Lost the connection to another rank while {stage_phrase(situation.stage)}: {first_line(each)}"
            return Failure("rank", message)
    return None


_COMPILERS = ("torch._dynamo", "torch._inductor", "torch._functorch", "torch.fx")
"""Modules whose exceptions mean that compiling failed."""
_DEVICE = re.compile(
    r"no kernel image is available|\b(CUDA|HIP|XPU|cuDNN|CUBLAS)\w* error|not compiled with CUDA|Found no NVIDIA driver"
    r"|no NVIDIA GPU|invalid device ordinal|NVIDIA driver on your system is too old",
    re.IGNORECASE,
)


def _of_torch(error: BaseException, situation: Situation) -> Failure | None:
    """A missing compiler or backend, a failure of torch.compile, or an error of the device."""
    causes = list(_causes(error))
    for each in causes:
        if type(each).__name__ in {"TritonMissing", "GPUTooOldForTriton"} or "0 active drivers" in str(each):
            return Failure("missing:triton", f"Triton cannot run here: {first_line(each)}", TRITON_HINT)
    if any(type(each).__name__ == "InvalidCxxCompiler" for each in causes):
        return Failure("missing:compiler", NO_COMPILER, COMPILER_HINT)
    if re.search(r"No (viable backend|available kernel)", str(error)):
        return Failure("unavailable", f"{situation.workload} cannot run this way on this device: {first_line(error)}")
    if any(type(each).__module__.startswith(_COMPILERS) for each in causes):
        hint = "Run without --compile, or with --backend aot_eager to see whether the backend is the cause."
        return Failure("compile", f"torch.compile failed: {first_line(error)}", hint)
    if type(error).__name__ == "AcceleratorError" or _DEVICE.search(str(error)):
        return Failure("device", f"Device error: {first_line(error)}", CPU_HINT)
    return None


def _operating_system(error: BaseException, situation: Situation) -> Failure | None:
    if isinstance(error, FileNotFoundError) and not error.filename:
        try:
            os.getcwd()
        except FileNotFoundError:
            message = f"The current folder was deleted, which was noticed while {stage_phrase(situation.stage)}."
            return Failure("error", message, "Run it from a folder that is not deleted meanwhile.")
    if isinstance(error, OSError) and situation.stage == "writing trace":
        where = f" in {os.path.dirname(error.filename)}" if isinstance(error.filename, str) else ""
        message = f"The trace cannot be written{where}: {error.strerror or error}."
        return Failure("destination", message, DESTINATION_HINT)
    return None


def _other(error: BaseException, situation: Situation) -> Failure:
    location = f" ({place})" if (place := _location(error)) else ""
    message = f"{situation.workload} raised {type(error).__name__} while {stage_phrase(situation.stage)}"
    text = first_line(error, with_type=False)
    return Failure("error", f"{message}: {text}{location}" if text else f"{message}{location}.")


Rule = Callable[[BaseException, Situation], Failure | None]

_RULES: tuple[Rule, ...] = (
    _expected,
    _missing_module,
    _out_of_memory,
    _lost_rank,
    _of_torch,
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


def first_line(error: BaseException, with_type: bool = True) -> str:
    """The first line of an exception's message that is not blank, at most 300 characters."""
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    if with_type and not line:
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
