"""Events without the call stacks in them; everything else of an event stays the bytes that it was."""

from __future__ import annotations

import re

import msgspec

ARGUMENTS = ("Call stack", "Module Hierarchy")
"""Arguments that tell where in a program an operator was called."""
FIELDS = ("sf", "stack", "esf", "estack")
"""Fields of an event that hold its stack or the number of it."""

_TOLD = re.compile(b"|".join(b'"%s"' % name.encode() for name in (*ARGUMENTS, *FIELDS)))
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


def without_stack(event: bytes) -> bytes:
    """The same event without its call stacks."""
    if not _TOLD.search(event):
        return event
    try:
        fields = _fields.decode(event)
        args = _fields.decode(fields["args"]) if "args" in fields else {}
    except msgspec.MsgspecError:
        # Arguments that are no object hold no stack that is known here.
        return event
    except UnicodeDecodeError:
        return without_stack(event.decode(errors="replace").encode())
    left = {name: value for name, value in args.items() if name not in ARGUMENTS}
    kept = {name: value for name, value in fields.items() if name not in FIELDS}
    if len(left) < len(args):
        kept["args"] = msgspec.Raw(msgspec.json.encode(left))
    elif len(kept) == len(fields):
        return event
    return msgspec.json.encode(kept)
