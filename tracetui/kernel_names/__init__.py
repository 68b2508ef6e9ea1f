"""Decoded kernel names: what a kernel is, from its name alone, by families of names and by words.

`decode` returns a `Decoded`; what is likely and not certain is marked, and what is not understood stays visible.
"""

from tracetui.kernel_names.decode import decode
from tracetui.kernel_names.decoded import (
    LAYOUT_CONVERSION,
    MAX_SHORT_NAME,
    OPERAND_CONVERSION,
    Decoded,
    Family,
    Purpose,
)
from tracetui.kernel_names.text import normalised

__all__ = [
    "LAYOUT_CONVERSION",
    "MAX_SHORT_NAME",
    "OPERAND_CONVERSION",
    "Decoded",
    "Family",
    "Purpose",
    "decode",
    "normalised",
]
