"""From an exception, a return code or a log to what a person is told; no process and no torch."""

from __future__ import annotations

import signal

import pytest
from tracetui_workloads.api import BadRequest, Unavailable
from tracetui_workloads.recording import protocol
from tracetui_workloads.recording.exceptions import Cancel, RecordingError, Situation, failure_of

ON_GPU = Situation(
    "recording", "python", "mlp", ("batch", "head_dim"), True, "the GPU has 80.0 GiB, of which 1.0 are free"
)
ON_CPU = Situation("compiling", "python", "mlp")


def made(name, module="somewhere", base=RuntimeError):
    """A type of exception as torch has it, by name."""
    return type(name, (base,), {"__module__": module})


def from_(error, cause):
    """An exception raised from another."""
    error.__cause__ = cause
    return error


OUT_OF_MEMORY = made("OutOfMemoryError", "torch")
INDUCTOR = made("InductorError", "torch._inductor.exc")
TRITON_MISSING = made("TritonMissing", "torch._inductor.exc")
BAD_COMPILER = made("InvalidCxxCompiler", "torch._inductor.exc")
ACCELERATOR = made("AcceleratorError", "torch")

CASES = [
    (Cancel(), "cancelled", 130),
    (KeyboardInterrupt(), "cancelled", 130),
    (BadRequest("no such parameter"), "usage", 2),
    (Unavailable("no such backend"), "unavailable", 3),
    (RecordingError("device", "There is no cuda device."), "device", 3),
    (RecordingError("wrong-result", "Tensor-likes are not close!"), "wrong-result", 4),
    (RecordingError("no-kernels", "nothing ran"), "no-kernels", 4),
    (RecordingError("incomplete", "2 of 3 steps"), "incomplete", 4),
    (RecordingError("destination", "no file"), "destination", 4),
    (SystemExit(3), "error", 4),
    (ValueError("odd"), "error", 4),
    (ModuleNotFoundError("No module named 'torch'", name="torch"), "missing:torch", 3),
    (ModuleNotFoundError("No module named 'torch.x'", name="torch.x"), "missing:torch", 3),
    (ModuleNotFoundError("No module named 'triton'", name="triton"), "missing:triton", 3),
    (OUT_OF_MEMORY("CUDA out of memory. Tried to allocate 20.00 GiB."), "oom", 4),
    (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 2147483648 bytes."), "oom", 4),
    (MemoryError(), "oom", 4),
    (from_(INDUCTOR("compiling failed"), OUT_OF_MEMORY("CUDA out of memory.")), "oom", 4),
    (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), "oom", 4),
    (RuntimeError("0 active drivers ([]). There should only be one."), "missing:triton", 3),
    (from_(INDUCTOR("x"), TRITON_MISSING("Cannot find a working triton installation.")), "missing:triton", 3),
    (from_(INDUCTOR("x"), BAD_COMPILER("No working C++ compiler found")), "missing:compiler", 3),
    (INDUCTOR("LoweringException: odd\nand more"), "compile", 4),
    (from_(made("Mine")("odd"), made("Unsupported", "torch._dynamo.exc")("graph break")), "compile", 4),
    (RuntimeError("No viable backend for scaled_dot_product_attention was found."), "unavailable", 3),
    (RuntimeError("No available kernel. Aborting execution."), "unavailable", 3),
    (ACCELERATOR("an illegal memory access was encountered"), "device", 3),
    (RuntimeError("CUDA error: no kernel image is available for execution on the device"), "device", 3),
    (AssertionError("Torch not compiled with CUDA enabled"), "device", 3),
]


@pytest.mark.parametrize(("error", "kind", "code"), CASES)
def test_the_kind_and_code_of_an_exception(error, kind, code):
    failure = failure_of(error, ON_GPU)
    assert (failure.kind, failure.exit_code) == (kind, code)
    assert failure.message
    assert failure.stage == "recording"


def test_every_kind_has_its_row_in_the_table():
    table = protocol.__doc__.split("\n\n")[1]
    rows = {line.split()[0].partition(":")[0]: line.split()[1] for line in table.splitlines()[1:]}
    for error, kind, code in CASES:
        assert rows[kind.partition(":")[0]] == str(code), error


def test_memory_that_ran_out_names_what_to_make_smaller():
    failure = failure_of(OUT_OF_MEMORY("CUDA out of memory. Tried to allocate 20.00 GiB."), ON_GPU)
    assert "it requested 20.00 GiB; the GPU has 80.0 GiB, of which 1.0 are free" in failure.message
    assert "a smaller --batch or --head-dim" in failure.hint
    assert "nvidia-smi" in failure.hint


def test_memory_of_the_machine_is_not_the_gpus():
    error = RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 2147483648 bytes.")
    failure = failure_of(error, ON_GPU)
    assert "it requested 2.0 GiB; this machine has" in failure.message
    assert "nvidia-smi" not in failure.hint


def test_only_the_first_line_of_a_compilers_novel_is_told():
    failure = failure_of(INDUCTOR("LoweringException: odd\n" + "and more\n" * 50), ON_CPU)
    assert failure.message == "torch.compile failed: LoweringException: odd"
    assert "and more" in failure.details


def test_an_import_that_fails_is_torchs_only_while_torch_is_imported():
    error = ImportError("libcudart.so.12: cannot open shared object file")
    assert failure_of(error, Situation("importing torch", "python")).kind == "missing:torch"
    assert failure_of(error, Situation("building", "python")).kind == "error"


def test_a_disk_that_is_full_is_so_only_while_the_trace_is_written():
    error = OSError(28, "No space left on device")
    assert failure_of(error, Situation("writing trace", "python")).kind == "destination"
    assert failure_of(error, Situation("first call", "python")).kind == "error"


def test_words_do_not_steer_the_terminal():
    failure = failure_of(ValueError("\x1b]0;title\x07\x1b[31mred\x1b[0m"), ON_CPU)
    assert failure.message.endswith(": red")


def test_a_chain_that_bites_its_tail():
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    assert failure_of(first, ON_CPU).kind == "error"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (-signal.SIGKILL, "killed"),
        (-signal.SIGSEGV, "crash"),
        (-signal.SIGABRT, "crash"),
        (-200, "crash"),
        (1, "crash"),
        (0, "crash"),
        (130, "cancelled"),
    ],
)
def test_a_return_code_without_a_word(code, kind):
    assert protocol.failure_of_exit_code(code, "compiling", "some\n\nlast words").kind == kind


def test_the_end_of_a_log():
    log = "\n".join(f"line {number}\x1b[0m\x07" for number in range(100)) + "\n\n"
    assert protocol.last_lines(log).splitlines()[0] == "line 80"
    assert protocol.last_lines(log).splitlines()[-1] == "line 99"


def test_a_crash_is_shown_from_where_it_says_fatal():
    log = "words\nFatal Python error: Segmentation fault\n\n" + "frame\n" * 100
    lines = protocol.failure_of_exit_code(-signal.SIGSEGV, "compiling", log).details.splitlines()
    assert lines[0] == "Fatal Python error: Segmentation fault"
    assert len(lines) == protocol.MAX_LOG_LINES
    assert protocol.failure_of_exit_code(-signal.SIGSEGV, "compiling", "words").details == "words"


AS_RANK = Situation("recording", "python", "ddp", is_rank=True)
BACKEND = made("DistBackendError", "torch.distributed")


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("[gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:2917"),
        RuntimeError("[gloo/transport/tcp/buffer.cc:72] Read error: Connection reset by peer"),
        from_(ValueError("odd"), RuntimeError("writev [127.0.0.1]: Broken pipe")),
        BACKEND("NCCL error: remote process exited"),
    ],
)
def test_a_rank_whose_connection_is_lost_is_not_the_cause(error):
    assert failure_of(error, AS_RANK).kind == "rank"
    assert failure_of(error, ON_CPU).kind != "rank", "a process without a rank has no connection of ours"


def test_other_errors_of_a_rank_are_its_own():
    assert failure_of(RuntimeError("mat1 and mat2 shapes cannot be multiplied"), AS_RANK).kind == "error"
    assert failure_of(made("OutOfMemoryError", "torch")("CUDA out of memory"), AS_RANK).kind == "oom"
