"""Checks the wheels of a release: that they hold what their names promise, and that they work where they are installed.

    python -m tests.support.wheel_check [--try] FILE...

It needs nothing but the standard library and, for `--try`, a package index.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

LIBRARIES = (
    "tracetui/reading/scanner/_scanner.so",
    "tracetui/model/_nesting.so",
    "tracetui/model/_arrow.so",
)
SAMPLE = Path(__file__).parents[2] / "sample_traces" / "mlp_train_cpu.json.gz"
ELF = {"x86_64": 62, "aarch64": 183}
"""Machines as a header of ELF has them, by their name in a platform tag."""
MACH = {"x86_64": 0x01000007, "arm64": 0x0100000C}
"""The same of Mach-O."""
_NEEDED = re.compile(rb"\0((?:lib|ld-)[\w+.-]*\.so[\w.]*)(?=\0)")
_GLIBC = re.compile(rb"GLIBC_(\d+)\.(\d+)")


def faults(wheel: Path) -> list[str]:
    """What a wheel lacks of what its name promises."""
    platforms = wheel.stem.split("-")[-1].split(".")
    with zipfile.ZipFile(wheel) as archive:
        held = [name for name in archive.namelist() if name.endswith((".so", ".dylib"))]
        if platforms == ["any"]:
            return [f"{name} is in a wheel for every platform" for name in held]
        found = [f"{name} is not there" for name in LIBRARIES if name not in held]
        for name in held:
            data = archive.read(name)
            found += [f"{name}: {fault}" for platform in platforms for fault in _library_faults(data, platform)]
    return found


def _library_faults(data: bytes, platform: str) -> list[str]:
    if platform.startswith("macosx_"):
        return _machine_fault(data, b"\xcf\xfa\xed\xfe", 4, MACH.get(platform.split("_", 3)[3]))
    match = re.fullmatch(r"(?:(many|musl)linux_?(\d+)(?:_(\d+))?|linux)_(\w+)", platform)
    if match is None:
        return [f"{platform} is not a platform that is known here"]
    libc, major, minor, machine = match.groups()
    found = _machine_fault(data, b"\x7fELF", 18, ELF.get(machine))
    if libc is None:
        return found
    # manylinux2014 is another name of 2.17.
    limit = (2, 17) if minor is None else (int(major), int(minor))
    needed = {name.decode() for name in _NEEDED.findall(data)}
    allowed = r"lib[cm]\.so\.6|ld-linux.*" if libc == "many" else r"libc\.(musl-\w+\.)?so(\.1)?"
    found += [f"needs {name}" for name in sorted(needed) if not re.fullmatch(allowed, name)]
    newest = max(((int(major), int(minor)) for major, minor in _GLIBC.findall(data)), default=(0, 0))
    if newest > (limit if libc == "many" else (0, 0)):
        found.append(f"needs glibc {newest[0]}.{newest[1]}")
    return found


def _machine_fault(data: bytes, magic: bytes, at: int, machine: int | None) -> list[str]:
    size = 2 if magic == b"\x7fELF" else 4
    is_right = data.startswith(magic) and int.from_bytes(data[at : at + size], "little") == machine
    return [] if is_right else ["is for another machine"]


def try_out(package: Path) -> None:
    """Install a wheel or a source package in a new environment, ask for the version and open a sample trace.

    Raises: CalledProcessError when one of it fails; AssertionError when it says something else than it should.
    """
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", f"{folder}/env"], check=True)
        python = f"{folder}/env/bin/python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", str(package.resolve())], check=True)
        said = _said(folder, python, "--version")
        way = "Events are read in Python, as" if package.name.endswith("-any.whl") else "Events are read by the C"
        assert way in said, said
        rows = _said(folder, python, "show", "ops", str(SAMPLE), "--format", "md")
        assert "aten::mm" in rows, rows
        print(said)


def _said(folder: str, python: str, *words: str) -> str:
    command = [python, "-m", "tracetui", *words]
    return subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True).stdout


def main(words: list[str]) -> int:
    """Check the files that are named; the exit code."""
    is_tried = "--try" in words
    packages = [Path(word) for word in words if word != "--try"]
    found = [f"{package} is not there" for package in packages if not package.exists()]
    for package in packages:
        if package.exists() and package.suffix == ".whl":
            found += [f"{package.name}: {fault}" for fault in faults(package)]
    if not packages:
        found = ["no file is named"]
    for fault in found:
        print(fault, file=sys.stderr)
    if found:
        return 1
    for package in packages:
        print(package.name)
        if is_tried:
            try_out(package)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
