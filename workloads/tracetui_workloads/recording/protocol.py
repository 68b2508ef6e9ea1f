"""Failures of a recording with their exit codes, its request and options, and the events that the child sends.

kind                 code  what happened
usage                2     the workload, a parameter or the function does not exist or is invalid
missing:NAME         3     torch, triton, a C++ compiler or another module is not installed
device               3     the device does not exist, or torch has no code for it
unavailable          3     the workload has no implementation for this device
oom                  4     memory ran out, on the machine or on the GPU
killed               4     the system killed the child
crash                4     a signal ended the child, or it exited without an event that says why
compile              4     torch.compile failed
wrong-result         4     the result differs from eager mode's
no-kernels           4     the profiler recorded no GPU activity
incomplete           4     the trace lacks steps
destination          4     the trace could not be written
timeout              4     the recording took longer than allowed
rank                 4     another rank of the same recording failed
error                4     the workload raised another exception
cancelled            130   the recording was stopped on request

Events go through the pipe, one JSON object per line. The child writes and the parent reads; a line that is not an
event, for example one cut short by a kill, is skipped.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, cast

from tracetui_workloads.api import BadRequest, Param, Value

# The options of a recording, each declared once; the command line, the request and the form are derived from these.

DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
"""Names of data types: in `--dtype`, and in torch."""
WARM_CALLS = 3
"""Warm-up calls before the profiler is loaded, unless `--cold` is given."""

HOW_IT_RUNS, WHAT_IS_RECORDED = "how it runs", "what is recorded"


@dataclass(frozen=True, slots=True)
class Option(Param):
    """One option: `--name` on the command line, a field of the form, and one of `Options`."""

    group: str = HOW_IT_RUNS
    """The heading of the option in `--help`."""
    is_folded: bool = True
    """True where the form shows the option on request only."""
    suggestions: tuple[str, ...] = ()
    """Values that the form lists; others are accepted too."""
    is_shared: bool = False
    """True where a workload may have a parameter of this name, which gets values that are not choices of the option."""

    @property
    def flag(self) -> str:
        """The option on the command line, for example `--warm-seconds`."""
        return f"--{self.name.replace('_', '-')}"


def _option(default: Value, help: str, choices: tuple[str, ...] = (), **more: Any) -> Any:
    """A field of `Options` with its help and choices; `more` holds further fields of `Option`."""
    return field(default=default, metadata={"help": help, "choices": choices, **more})


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a recording. Each of them may change the measured times, so all are kept in the trace.

    Raises: BadRequest for options that do not exist or contradict each other.
    """

    compile: bool = _option(False, "run the workload through torch.compile", is_folded=False)
    device: str = _option(
        "auto",
        "a GPU if there is one; or cpu, cuda:1",
        is_folded=False,
        suggestions=("auto", "cpu", "cuda"),
    )
    dtype: str = _option("", "data type; the workload's by default", tuple(DTYPES), is_folded=False)
    cold: bool = _option(False, "skip the warm-up calls", is_folded=False)
    active: int = _option(3, "recorded steps; 10 for a comparison", minimum=1, is_folded=False, group=WHAT_IS_RECORDED)
    mode: str = _option(
        "default", "mode of torch.compile", ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
    )
    backend: str = _option("inductor", "backend of torch.compile", ("inductor", "aot_eager", "eager"), is_shared=True)
    wait: int = _option(1, "steps before the profiler starts", minimum=0, group=WHAT_IS_RECORDED)
    warmup: int = _option(1, "warm-up steps of the profiler, not recorded", minimum=0, group=WHAT_IS_RECORDED)
    warm_seconds: float = _option(0.0, "seconds of warm-up, so that GPU clocks rise", minimum=0)
    seed: int = _option(0, "seed of weights and inputs")
    shapes: str = _option(
        "auto", "input shapes; auto as the workload needs", ("auto", "on", "off"), group=WHAT_IS_RECORDED
    )
    stack: bool = _option(False, "record Python stacks; slows the run", group=WHAT_IS_RECORDED)
    memory: bool = _option(False, "record allocations", group=WHAT_IS_RECORDED)
    lines: bool = _option(False, "record which line of your own source ran", group=WHAT_IS_RECORDED)
    threads: int = _option(0, "CPU threads of torch; 0: OMP_NUM_THREADS, or the physical cores", minimum=0)
    time_seconds: float = _option(1.0, "seconds to time it without the profiler; 0: not at all", minimum=0)

    def __post_init__(self) -> None:
        for name, option in OPTIONS.items():
            value = getattr(self, name)
            # The default is always accepted.
            if option.choices and value not in option.choices and value != option.default:
                raise BadRequest(f"{option.flag} is one of {', '.join(map(str, option.choices))}, not {value}.")
            if option.minimum is not None and value < option.minimum:
                raise BadRequest(f"{option.flag} must be at least {option.minimum:g}, not {value}.")
        if not self.compile and (self.mode, self.backend) != (DEFAULTS["mode"], DEFAULTS["backend"]):
            raise BadRequest("--mode and --backend say how to compile; add --compile.")
        if self.mode != DEFAULTS["mode"] and self.backend != DEFAULTS["backend"]:
            raise BadRequest(f"--mode {self.mode} is a mode of the backend inductor, not of {self.backend}.")
        if self.cold and self.warm_seconds:
            raise BadRequest("--cold makes no warm-up calls, so --warm-seconds has no meaning with it.")

    @property
    def steps(self) -> int:
        """Steps of the whole schedule."""
        return self.wait + self.warmup + self.active


OPTIONS: Mapping[str, Option] = {
    each.name: Option(each.name, cast(Value, each.default), **each.metadata) for each in fields(Options)
}
"""Every option by name."""
DEFAULTS: Mapping[str, Any] = {name: option.default for name, option in OPTIONS.items()}
"""The default of every option."""


# The request for a recording: a workload, its parameters and options; passed to the child as JSON.
#
# Errors that can be found without torch are raised before a process is started.


@dataclass(frozen=True, slots=True)
class Request:
    """One requested recording."""

    workload: str
    """A registered name, or `path/to/file.py:fn` or `package.module:fn`."""
    out: str
    """The path of the trace; compressed if it ends in `.gz`."""
    params: Mapping[str, Value] = field(default_factory=dict)
    """Parameters; as text for a user's function, whose signature determines their types."""
    options: Options = field(default_factory=Options)
    argv: tuple[str, ...] = ()
    """The command line of the request, which is kept in the trace."""
    table: bool = False
    """Write torch's own table of sums beside the trace."""
    variant: str = ""
    """The name of the variant where several are recorded to be compared; empty for a single recording."""
    replace: bool = False
    """Replace an existing file; otherwise the trace gets the next free number."""

    bench: bool = False
    """Only time the step without the profiler, and write no trace."""
    session: str = ""
    """A name that requests share which are timed in turns; empty for one that is timed alone."""
    ranks: int = 0
    """Number of processes that record together, each a rank; `out` is then a folder. 0 for one without a rank."""
    rank: int = 0
    """The rank of one of these processes, from 0 on; its `out` is a file."""
    operators: str = ""
    """The file that names the operators to be built again, in place of a workload; see `verifying`."""
    rendezvous: str = ""
    """The file, in a folder of its own, through which the ranks find each other; empty for the request of them all."""

    def as_json(self) -> str:
        """The request as text for the child's command line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Request:
        """The request that `as_json` wrote."""
        fields: dict[str, Any] = json.loads(text)
        fields["options"] = Options(**fields["options"])
        fields["argv"] = tuple(fields["argv"])
        return cls(**fields)


def tag(params: Mapping[str, Value], options: Options, dtype: str) -> str:
    """The part of a file name that tells recordings of a workload apart, for example `64_bf16_cold_eager`."""
    how = "eager"
    if options.compile:
        kind = options.backend if options.backend != "inductor" else options.mode
        how = "compile" if kind == "default" else f"compile-{kind}"
    # A parameter that is 0 or auto carries no information.
    values = [value for value in params.values() if value and value != "auto"]
    words = [*values, dtype, "cold" if options.cold else "warm", how]
    return "_".join(file_name(str(word)) for word in words if word)


def file_name(word: str) -> str:
    """A word with characters that are unsuitable in file names replaced."""
    return "".join(letter if letter.isalnum() or letter in "-.+" else "_" for letter in word).strip("._")


# Failures of a recording: a kind, a sentence, a hint, and the exit code of `tracetui run`.

_EXIT_CODES = {"usage": 2, "missing": 3, "device": 3, "unavailable": 3, "cancelled": 130}
DEFAULT_EXIT_CODE = 4
"""Exit code of all other kinds."""

LOST_PIPE = 113
"""Exit code of a child whose workload closed the pipe of events."""

MAX_LOG_LINES = 20
"""Maximum lines of the child's output that are shown after a crash."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason why there is no trace."""

    kind: str
    message: str
    """One sentence: what happened and in which stage."""
    hint: str = ""
    """One sentence: what to do; empty where nothing is known."""
    details: str = ""
    """The traceback, or the last lines of the child's output."""
    stage: str = ""
    """The stage in which the failure happened."""

    @property
    def exit_code(self) -> int:
        """The exit code of `tracetui run`."""
        return _EXIT_CODES.get(self.kind.partition(":")[0], DEFAULT_EXIT_CODE)

    @property
    def ends_all(self) -> bool:
        """True where no other variant is recorded after it: it would fail alike, or must not be started."""
        return self.kind in ("usage", "missing:torch", "missing:python", "destination", "cancelled")

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


def cancelled(stage: str, details: str = "") -> Failure:
    """The failure of a recording that was cancelled; `details` are the traceback of where it was."""
    message = f"Cancelled while {stage_phrase(stage)}; nothing was written."
    return Failure("cancelled", message, details=details, stage=stage)


def of_rank(failure: Failure, rank: int, ranks: int) -> Failure:
    """The failure of a recording by several ranks; it names the rank where the others would not fail likewise."""
    is_of_all = failure.exit_code != DEFAULT_EXIT_CODE or failure.kind == "destination"
    return failure if is_of_all else replace(failure, message=f"Rank {rank} of {ranks}: {failure.message}")


def ranks_timed_out(seconds: float, stopped: Mapping[int, Failure], log: str) -> Failure:
    """The failure of ranks that exceeded their time limit, from that of each, which says where it was.

    The details are the tracebacks of ranks that could still report: one that waits for others mostly cannot.
    """
    stages = {rank: stage_phrase(each.stage) for rank, each in stopped.items()}
    if len(set(stages.values())) == 1:
        message = f"Stopped after {seconds:g} s, while {next(iter(stages.values()))}."
    else:
        where = ", ".join(f"rank {rank} while {stage}" for rank, stage in stages.items())
        message = f"Stopped after {seconds:g} s: {where}."
    details = "\n".join(f"rank {rank}:\n{each.details}" for rank, each in stopped.items() if each.details)
    hint = "Allow more with --timeout; --details shows where a rank was."
    return Failure("timeout", message, hint, details or last_lines(log), next(iter(stopped.values())).stage)


def failure_of_exit_code(code: int, stage: str, log: str) -> Failure:
    """The failure of a child that ended without a failure event, by its exit code; negative for a signal."""
    tail = last_lines(log)
    if code == -signal.SIGKILL:
        return Failure(
            "killed",
            f"The system killed the recording while {stage_phrase(stage)}, most likely because memory ran out.",
            "Try smaller inputs; `dmesg` says whether it was the out-of-memory killer.",
            tail,
            stage,
        )
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        message = f"The recording crashed while {stage_phrase(stage)}: {name}."
        # Python prints the stack at a fatal signal, innermost call first.
        start = log.rfind("Fatal Python error")
        stack = [plain(line) for line in log[start:].splitlines() if line.strip()] if start >= 0 else []
        details = "\n".join(stack[:MAX_LOG_LINES]) or tail
        return Failure("crash", message, "Its last output shows where.", details, stage)
    if code == 130:
        return cancelled(stage)
    if code == LOST_PIPE:
        message = f"The workload closed files of the recorder while {stage_phrase(stage)}."
        hint = "A workload may close only files that it opened itself; os.closerange closes all."
        return Failure("crash", message, hint, tail, stage)
    message = f"The recording ended while {stage_phrase(stage)}, with exit code {code} and no error message."
    return Failure("crash", message, "Its last output may show why.", tail, stage)


def stage_phrase(stage: str) -> str:
    """A stage as the phrase that follows "while" in a sentence."""
    return "making the first call" if stage == "first call" else stage


def last_lines(log: str, count: int = MAX_LOG_LINES) -> str:
    """The last lines of a log, without blank lines and escape sequences."""
    lines = [line for line in (plain(line) for line in log.splitlines()) if line.strip()]
    return "\n".join(lines[-count:])


_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b.")


def plain(text: str) -> str:
    """One line of text without escape sequences and control characters."""
    return "".join(letter for letter in _ESCAPES.sub("", text).replace("\t", "    ") if letter.isprintable())


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a recording: a trace or a failure."""

    path: Path | None
    """The path of the trace, or of the folder with those of all ranks; None where there is none."""
    failure: Failure | None
    bytes: int = 0
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The metadata of the recording, which the trace has under the key `tracetui`."""
    device: str = ""
    """The device, for example `cpu`; empty where the recording ended before it was chosen."""
    notes: Sequence[str] = ()
    seconds: float = 0.0
    log: str = ""
    """The end of the child's output."""
    too_late: bool = False
    """True where the recording was cancelled after the trace had been written."""
    stopped_by: int = 0
    """The signal that cancelled the recording, 0 for none."""
    ranks: Sequence[Outcome] = ()
    """The outcome of each rank, in order; empty for one process without a rank."""

    @property
    def traces(self) -> Sequence[Path]:
        """The traces: one, or that of each rank, in order; none after a failure."""
        return [each.path for each in self.ranks or (self,) if each.path is not None]

    @property
    def is_cancelled(self) -> bool:
        """True where the recording was cancelled, also where that was too late."""
        return self.too_late or (self.failure is not None and self.failure.kind == "cancelled")

    @property
    def exit_code(self) -> int:
        """The exit code of `tracetui run`; after a signal 128 plus its number, as in shells."""
        if self.failure and self.failure.kind == "cancelled" and self.stopped_by:
            return 128 + self.stopped_by
        return self.failure.exit_code if self.failure else 0


STARTING = "starting Python"
"""The stage before the first event of the child."""

STAGES = (
    STARTING,
    "importing torch",
    "preparing device",
    "connecting ranks",
    "building",
    "first call",
    "warming up",
    "checking the result",
    "timing",
    "loading profiler",
    "recording",
    "writing trace",
)
"""Stages in the order of a warm recording; `compiling` replaces `first call`, and some stages may be left out."""


@dataclass(frozen=True, slots=True)
class Hello:
    """The child process has started."""

    pid: int
    python: str


@dataclass(frozen=True, slots=True)
class DeviceChosen:
    """The device of the recording."""

    device: str
    """For example `cpu` or `cuda:0`."""
    name: str
    torch: str
    activities: Sequence[str] = ()
    """The kinds of activity that the profiler will record, for example `CPU`, `CUDA`."""
    threads: int = 0
    """CPU threads that torch uses."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage has started; `total` is its number of parts, 0 where unknown."""

    name: str
    total: int = 0


@dataclass(frozen=True, slots=True)
class StageDone:
    """A stage has ended."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Progress:
    """The number of parts of a stage that are done."""

    stage: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence for the user: `info` or `warning`."""

    level: str
    text: str


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The child is alive; `seconds` is the time it has spent in this stage."""

    stage: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Result:
    """The trace was written to its destination."""

    path: str
    bytes: int
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The metadata of the recording, which the trace has under the key `tracetui`."""


@dataclass(frozen=True, slots=True)
class Failed:
    """No trace was written."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class LogLine:
    """The last line that the child, torch or the workload printed, as plain text; created by the parent."""

    text: str


Event = Hello | DeviceChosen | Stage | StageDone | Progress | Note | Heartbeat | Result | Failed | LogLine

_EVENT_TYPES: dict[str, type[Event]] = {
    "hello": Hello,
    "device": DeviceChosen,
    "stage": Stage,
    "stage_done": StageDone,
    "progress": Progress,
    "note": Note,
    "alive": Heartbeat,
    "result": Result,
    "error": Failed,
}
_EVENT_NAMES = {kind: name for name, kind in _EVENT_TYPES.items()}


_FIELD_TYPES: dict[str, type | tuple[type, ...]] = {
    "str": str,
    "int": int,
    "float": (float, int),
    "Failure": Failure,
    "Sequence[str]": list,
    "Mapping[str, Any]": dict,
}
"""Accepted types of an event's field, by the text of its annotation."""
encode = json.JSONEncoder(default=str).encode
"""A value as JSON; bound at import, because a workload may replace `json.dumps`."""


def as_line(event: Event) -> bytes:
    """An event as one line of JSON."""
    return encode({"ev": _EVENT_NAMES[type(event)], **asdict(event)}).encode() + b"\n"


def from_line(line: bytes) -> Event | None:
    """The event of a line, or None where the line is not an event."""
    try:
        values = json.loads(line)
        kind = _EVENT_TYPES[values.pop("ev")]
        event = Failed(Failure(**values["failure"])) if kind is Failed else kind(**values)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    # A workload can also write to the pipe: the types of all fields are checked.
    for part in (event, event.failure) if isinstance(event, Failed) else (event,):
        if not all(
            isinstance(getattr(part, each.name), _FIELD_TYPES.get(str(each.type), object)) for each in fields(part)
        ):
            return None
    return event
