"""What to record: a workload, its parameters and options; passed to the child as JSON.

Everything that can be refused without torch is refused here, before a process is started.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from workloads.api import Value
from workloads.recording.options import Options


@dataclass(frozen=True, slots=True)
class Request:
    """One recording to be made."""

    workload: str
    """A registered name, or `path/to/file.py:fn` or `package.module:fn`."""
    out: str
    """Where the trace goes; compressed when it ends in `.gz`."""
    params: Mapping[str, Value] = field(default_factory=dict)
    """Parameters; texts where the function's signature must say what they are."""
    options: Options = field(default_factory=Options)
    argv: tuple[str, ...] = ()
    """The command line that asked for it, to be kept in the trace."""
    table: bool = False
    """Whether torch's own table of sums is written beside the trace."""
    variant: str = ""
    """Which of several recordings it is that are made to be compared; empty for one by itself."""
    replace: bool = False
    """Whether a file that exists is replaced; otherwise the trace gets the next number that is free."""

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
    """What distinguishes a recording from others of its workload, for example `64_bf16_cold_eager`."""
    how = "eager"
    if options.compile:
        kind = options.backend if options.backend != "inductor" else options.mode
        how = "compile" if kind == "default" else f"compile-{kind}"
    # What is 0 or auto says nothing.
    told = [value for value in params.values() if value and value != "auto"]
    words = [*told, dtype, "cold" if options.cold else "warm", how]
    return "_".join(file_name(str(word)) for word in words if word)


def file_name(word: str) -> str:
    """A word without what a file's name should not hold."""
    return "".join(letter if letter.isalnum() or letter in "-.+" else "_" for letter in word).strip("._")
