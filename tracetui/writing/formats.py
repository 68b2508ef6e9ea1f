"""Writing in the format in which a trace was read: JSON stays JSON, protobuf stays protobuf, and files are named so."""

from __future__ import annotations

import re

from tracetui.errors import UsageError
from tracetui.model.trace import Trace
from tracetui.reading.nsight.database import RowStore
from tracetui.reading.perfetto.store import PacketStore
from tracetui.writing.anonymizing import Anonymizer
from tracetui.writing.cut import Cut
from tracetui.writing.packets import PacketCut, PacketRepair
from tracetui.writing.repair import Repair
from tracetui.writing.selection import Wanted

_PACKING = re.compile(r"\.(gz|zst|zstd)$")
_PROTOBUF = (".pftrace", ".perfetto-trace", ".pb")
_JSON = ".json"


def is_protobuf(trace: Trace) -> bool:
    """True for a trace that was read from Perfetto's protobuf format."""
    return isinstance(trace.of_file.store, PacketStore)


def require_writable_format(trace: Trace) -> None:
    """Check that a trace can be written in the format in which it was read.

    Raises: UsageError for a database.
    """
    if isinstance(trace.of_file.store, RowStore):
        raise UsageError(
            f"{trace.label} is an export of Nsight Systems, and none can be written: "
            "`nsys export` makes one of a part of the report."
        )


def suffix_of(trace: Trace) -> str:
    """The suffix of files in the format of a trace."""
    return _PROTOBUF[0] if is_protobuf(trace) else _JSON


def require_fitting_name(path: str, trace: Trace) -> None:
    """Check that the name of a file fits the format of the trace, in which it is written.

    Raises: UsageError where it has the suffix of another format.
    """
    require_writable_format(trace)
    name = _PACKING.sub("", path.casefold())
    if is_protobuf(trace) and name.endswith(_JSON):
        raise UsageError(
            f"{trace.label} is protobuf and is written as that: name the file {path[: len(name) - 5]}.pftrace."
        )
    if not is_protobuf(trace) and name.endswith(_PROTOBUF):
        suffix = next(each for each in _PROTOBUF if name.endswith(each))
        raise UsageError(
            f"{trace.label} is JSON and is written as that: name the file {path[: len(name) - len(suffix)]}.json."
        )


def part_of(
    trace: Trace, wanted: Wanted, anonymizer: Anonymizer | None = None, with_layers: bool = False
) -> Cut | PacketCut:
    """A part of a trace, to be written in its format.

    Raises: UsageError when there is no such step, nothing is left, or the names in a protobuf file are to be replaced,
    or lanes added to it.
    """
    trace = trace.of_file
    require_writable_format(trace)
    if not is_protobuf(trace):
        return Cut(trace, wanted, anonymizer, with_layers)
    if with_layers:
        raise UsageError(
            f"Lanes cannot be added to {trace.label}, which is protobuf: --with-layers is for JSON traces."
        )
    if anonymizer is not None:
        raise UsageError(
            f"Names cannot be replaced in {trace.label}, which is protobuf: --hash-names is for JSON traces."
        )
    return PacketCut(trace, wanted)


def repair_of(trace: Trace) -> Repair | PacketRepair:
    """A trace to be written anew in its format.

    Raises: UsageError for a format that cannot be written.
    """
    trace = trace.of_file
    require_writable_format(trace)
    return PacketRepair(trace) if is_protobuf(trace) else Repair(trace)
