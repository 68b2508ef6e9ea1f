"""The request for a recording: a workload, its parameters and options; passed to the child as JSON.

Errors that can be found without torch are raised before a process is started.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tracetui_workloads.api import Value
from tracetui_workloads.recording.options import Options


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
    """Whether torch's own table of sums is written beside the trace."""
    variant: str = ""
    """The name of the variant where several are recorded to be compared; empty for a single recording."""
    replace: bool = False
    """Whether an existing file is replaced; otherwise the trace gets the next free number."""

    bench: bool = False
    """Whether the step is only timed without the profiler, and no trace is written."""
    session: str = ""
    """What requests share that are timed in turns; empty for one that is timed alone."""
    ranks: int = 0
    """How many processes record together, each a rank; `out` is then a folder. 0 for one process that has no rank."""
    rank: int = 0
    """The rank of one of these processes, from 0 on; its `out` is a file."""
    rendezvous: str = ""
    """The file, in a folder of its own, through which the ranks find each other; empty for the request of them all."""

    @property
    def is_of_all_ranks(self) -> bool:
        """Whether it asks for all ranks, of which each gets a request of its own."""
        return self.ranks > 0 and not self.rendezvous

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
