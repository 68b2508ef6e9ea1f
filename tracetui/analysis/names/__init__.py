"""Names of kernels decoded: what a kernel is, from its name alone, for sixteen families of names.

`decode` answers with a `Decoded`; what is likely and not certain is marked, what is not understood stays visible.
"""

from tracetui.analysis.names.decode import decode
from tracetui.analysis.names.decoded import SHORTEST, Decoded, Family
from tracetui.analysis.names.text import normalised

__all__ = ["SHORTEST", "Decoded", "Family", "decode", "normalised"]
