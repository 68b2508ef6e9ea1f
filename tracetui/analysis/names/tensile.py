"""Tensile (F11): the matrix products of hipBLASLt and rocBLAS, `Cijk_Alik_Bljk_BBS_BH_..._MT320x224x64_...`.

The library counts columns first: the tile's first number lies along the columns of the output that PyTorch sees.
"""

from __future__ import annotations

import re

from tracetui.analysis.names.decoded import Decoded
from tracetui.analysis.names.family import Family
from tracetui.analysis.names.text import Name

_LAYOUTS = {
    ("Alik", "Bljk"): "tn",
    ("Ailk", "Bljk"): "nn",
    ("Ailk", "Bjlk"): "nt",
    ("Alik", "Bjlk"): "tt",
}
_LETTERS = {"B": "bf16", "H": "f16", "S": "f32", "D": "f64", "C": "c64", "Z": "c128", "X": "tf32", "I": "i32"}
_EIGHT = {"F8": "f8e4m3", "B8": "f8e5m2", "F8N": "f8e4m3", "B8N": "f8e5m2", "I8": "i8"}
_TYPES = re.compile(r"(?P<a>I8|F8N?|B8N?|[BHSDCZX])(?P<b>F8N?|B8N?)?(?P<out>I|[BHSDCZ])(?P<acc>[SDIHX])?$")
_START = re.compile(r"Cijk_(?P<a>A\w+?)_(?P<b>B\w+?)_(?P<types>[A-Z]_[A-Z]{1,2}(?=_)|[A-Z][A-Z0-9]*)(?P<rest>_\w*)$")
_TILE = re.compile(r"_MT(\d+)x(\d+)x(\d+)")
_MATRIX = re.compile(r"_MI(\d+)x(\d+)x(\d+)(?:x(\d+))?")
_GROUP = re.compile(r"_WG(\d+)_(\d+)_(\d+)")
_WAVE = re.compile(r"_MIWT(\d+)_(\d+)")
_KEY = re.compile(r"_(ISA|GSU|SK|PGR|GRVWA)(n?\d\w*?)(?=_|$)")
_SPLITS = {"_GSUAMBSK": "split-K in one kernel", "_GSUAMB": "split-K through buffers"}


def tensile(name: Name) -> Decoded | None:
    """Decode a name that starts with `Cijk_`."""
    if not name.base.startswith("Cijk_"):
        return None
    if "PostGSU" in name.base or "_MT" not in name.base:
        return _reduction(name)
    found = _START.match(name.base)
    tile = _TILE.search(name.base)
    if found is None or tile is None:
        return None
    text = found["rest"]
    keys = dict(_KEY.findall(text))
    matrix, group = _MATRIX.search(text), _GROUP.search(text)
    a, b, acc, out, sure = _types(found["types"])
    size = [int(part) for part in group.groups()] if group else []
    likely = set() if sure else {"a", "b", "acc", "out"}
    return Decoded(
        family=Family.GEMM,
        sort="gemm",
        library="hipBLASLt (Tensile)" if "_UserArgs" in text else "rocBLAS (Tensile)",
        vendor="AMD",
        arch=f"gfx{keys['ISA']}" if "ISA" in keys else None,
        a=a,
        b=b,
        acc=acc,
        out=out,
        tile=tuple(map(int, tile.groups())),
        columns_first=True,
        threads=size[0] * size[1] * size[2] if size else None,
        instruction="x".join(part for part in matrix.groups()[:3]) if matrix and matrix[4] else _pair(matrix),
        layout=_LAYOUTS.get((found["a"], found["b"])),
        split_k=_split(text, keys),
        tensor_core=matrix is not None,
        flags=_flags(text, keys, size),
        unknown=() if (found["a"], found["b"]) in _LAYOUTS else (f"{found['a']}_{found['b']}",),
        inferred=frozenset(likely | {"library"}),
    )


def _pair(matrix: re.Match[str] | None) -> str | None:
    """MFMA sizes where the name gives rows, columns and blocks, and no depth."""
    return f"{matrix[1]}x{matrix[2]}" if matrix else None


def _split(text: str, keys: dict[str, str]) -> bool | None:
    """Whether the depth is split; with `GSUAMB` alone the number comes at run time."""
    if "GSU" in keys and keys["GSU"].isdecimal():
        return int(keys["GSU"]) > 1
    return None


def _flags(text: str, keys: dict[str, str], group: list[int]) -> tuple[str, ...]:
    flags = []
    if "_Bias" in text:
        flags.append("bias-capable")
    if keys.get("SK", "0").strip("n").isdecimal() and int(keys.get("SK", "0").strip("n")[:4]) > 0:
        flags.append("stream-k")
    if "GSU" not in keys:
        flags.extend([flag for key, flag in _SPLITS.items() if key in text][:1])
    if len(group) == 3 and group[2] > 1:
        flags.append(f"local split {group[2]}")
    wave = _WAVE.search(text)
    if wave:
        flags.append(f"wave tile {wave[1]}x{wave[2]}")
    return tuple(flags)


def _types(text: str) -> tuple[str | None, str | None, str | None, str | None, bool]:
    """A, B, accumulator and output of `BBS`, `B_BS`, `S_B`, `HBH`; the last says whether the grammar is known."""
    joined = text.replace("_", "")
    # A last B or BH says that beta is used: S_B is single precision, not single to bfloat16.
    if joined in ("SB", "DB", "CB", "ZB"):
        kind = _LETTERS[joined[0]]
        return kind, kind, kind, kind, True
    if joined in ("HB", "BB"):
        kind = _LETTERS[joined[0]]
        return kind, kind, None, kind, False
    if joined in ("HBH", "BBH"):
        kind = _LETTERS[joined[0]]
        return kind, kind, "f32", kind, False
    found = _TYPES.match(joined)
    if found is None:
        return None, None, None, None, False
    a = _EIGHT.get(found["a"]) or _LETTERS.get(found["a"])
    b = _EIGHT.get(found["b"] or "") or a
    out = _LETTERS.get(found["out"])
    acc = _LETTERS.get(found["acc"] or "")
    return a, b, acc, out, found["a"] in _LETTERS


def _reduction(name: Name) -> Decoded:
    """The kernel that adds up the parts of a split depth."""
    return Decoded(
        family=Family.GEMM,
        sort="gemm helper",
        library="hipBLASLt (Tensile)",
        vendor="AMD",
        op="split-K reduce",
        split_k=True,
        tensor_core=False,
        unknown=(name.base[:60],),
        inferred=frozenset({"op", "library"}),
    )
