"""What the processes of a file are called that holds several ranks: `rank 3 · node1 · python 4711`."""

from __future__ import annotations

import re

_NAME = re.compile(r"rank (\d{1,9}) · ")


def rank_process_name(rank: int, host: str | None, pid: str, name: str, label: str) -> str:
    """The name of a process by its rank, the rank's host, and its id, name and label in the rank's own file."""
    own = label if label and label != "CPU" else f"{name} {pid}".strip() if name != pid else pid
    return " · ".join(filter(None, (f"rank {rank}", host, own)))


def rank_of_process(name: str) -> int | None:
    """The rank that the name of a process says, None for other names."""
    match = _NAME.match(name)
    return int(match[1]) if match else None
