"""nvjet (F5): the matrix products that cuBLAS generates on Hopper and Blackwell.

The library counts columns first: the tile's first number lies along the columns of the output that PyTorch sees.
"""

from __future__ import annotations

import re

from tracetui.analysis.names.decoded import Decoded
from tracetui.analysis.names.family import Family
from tracetui.analysis.names.text import Name

_NAME = re.compile(
    r"nvjet(?:_sm(?P<sm>\d+[af]?))?_(?P<types>[a-z]{3}|[a-z]{5})(?P<tf32>_tf32)?_(?P<m>\d+)x(?P<n>\d+)"
    r"_(?P<k>\d+)x(?P<stages>\d+)(?:_(?P<cm>\d+)x(?P<cn>\d+))?(?P<rest>(?:_\w+)*)$"
)
_TYPES = {"h": "f16", "t": "bf16", "s": "f32", "q": "f8", "o": "f4", "d": "f64"}
_LAYOUT = re.compile(r"[TN][TN][TN]$")
_FLAGS = {
    "2cta": "2-CTA",
    "h": "horizontal raster",
    "v": "vertical raster",
    "coopA": "cooperative along A",
    "coopB": "cooperative along B",
    "Avec32UE8M0": "MX block scales of A",
    "Bvec32UE8M0": "MX block scales of B",
    "Avec16UE4M3": "NVFP4 block scales of A",
    "Bvec16UE4M3": "NVFP4 block scales of B",
}
_GUESSED_FLAGS = {"2cta", "h", "v", "coopA", "coopB"}
_EPILOGUE = {"bias": "bias", "badd": "bias"}


def nvjet(name: Name) -> Decoded | None:
    """Decode `nvjet_tst_144x128_64x6_2x1_v_bz_bias_TNN`; None for what does not follow the grammar."""
    found = _NAME.match(name.base)
    if found is None:
        return None
    words = [word for word in found["rest"].split("_") if word]
    layout = words.pop() if words and _LAYOUT.match(words[-1]) else None
    types = [_TYPES.get(letter) for letter in found["types"]]
    a, b, acc, out = (types[0], types[0], types[1], types[2]) if len(types) == 3 else (*types[:2], types[3], types[4])
    if found["tf32"]:
        a = b = "tf32"
    likely = {"flags"} if _GUESSED_FLAGS & set(words) else set()
    if len(types) == 5:
        likely |= {"a", "b", "acc", "out"}
    unknown = [word for word in words if word not in _FLAGS and word not in _EPILOGUE and word != "splitK"]
    if None in types:
        unknown.insert(0, found["types"])
    if layout:
        unknown.append(f"{layout[2]} (third letter of {layout})")
    return Decoded(
        family=Family.GEMM,
        sort="gemm",
        library="cuBLAS nvjet",
        vendor="NVIDIA",
        arch=f"sm{found['sm']}" if found["sm"] else None,
        a=a,
        b=b,
        acc=acc,
        out=out,
        tile=(int(found["m"]), int(found["n"]), int(found["k"])),
        columns_first=True,
        stages=int(found["stages"]),
        cluster=(int(found["cm"]), int(found["cn"])) if found["cm"] else (),
        layout=layout[:2].lower() if layout else None,
        split_k="splitK" in words,
        epilogue=tuple(dict.fromkeys(_EPILOGUE[word] for word in words if word in _EPILOGUE)),
        tensor_core=True,
        flags=tuple(_FLAGS[word] for word in words if word in _FLAGS),
        unknown=tuple(unknown),
        inferred=frozenset(likely),
    )
