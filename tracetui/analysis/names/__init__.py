"""Decoding kernel names: what a kernel does, from its name alone, for sixteen families of names.

`decode` returns a `Decoded`; facts that are likely but not certain are marked, and unrecognised parts are kept.
"""

from tracetui.analysis.names.decode import decode
from tracetui.analysis.names.decoded import MAX_SHORT_NAME, Decoded, Family
from tracetui.analysis.names.text import normalised

__all__ = ["MAX_SHORT_NAME", "Decoded", "Family", "decode", "normalised"]
