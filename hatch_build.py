"""Compiles the libraries in C for a wheel, where there is a C compiler; without one the wheel is pure Python.

`python hatch_build.py` compiles them in place, for a checkout in which a `.c` or `.h` file has changed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parent / "tracetui"
LIBRARIES = {
    PACKAGE / "reading" / "scanner" / "_scanner.so": PACKAGE / "reading" / "scanner" / "scanner.c",
    PACKAGE / "model" / "_nesting.so": PACKAGE / "model" / "nesting.c",
    PACKAGE / "model" / "_arrow.so": PACKAGE / "model" / "arrow.c",
}
"""The libraries, and the file that each is compiled of."""
FLAGS = ("-O2", "-std=c11", "-Wall", "-Wextra", "-fPIC", "-shared", "-fvisibility=default")


def compiler() -> str | None:
    """The C compiler, None where there is none or `TRACETUI_PURE` asks for none."""
    if os.environ.get("TRACETUI_PURE", "") not in ("", "0"):
        return None
    return os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def compile_libraries() -> str:
    """Compile all libraries; returns why that failed, or nothing."""
    return next(filter(None, (compile_library(source, library) for library, source in LIBRARIES.items())), "")


def compile_library(source: Path, library: Path) -> str:
    """Compile one library; returns why that failed, or nothing."""
    program = compiler()
    if program is None:
        return "no C compiler"
    # What is loaded in a running process must not be written over.
    made = library.with_name(f"{library.name}.{os.getpid()}")
    # As `native_library` reads them.
    checksum = zlib.crc32(b"".join(path.read_bytes() for path in (source, *sorted(source.parent.glob("*.h")))))
    command = [*program.split(), *FLAGS, f"-DSOURCE_CHECKSUM={checksum}u", "-o", str(made), str(source), "-lm"]
    try:
        subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
        made.replace(library)
    except subprocess.CalledProcessError as error:
        return f"{program}: {error.stderr}"
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    finally:
        made.unlink(missing_ok=True)
    return ""


def platform_tag() -> str:
    """The platform of a wheel, by default this machine with its own C library."""
    import platform
    import sysconfig

    # Python may be built for two machines in one, and the compiler compiles for the one it runs on.
    here = sysconfig.get_platform().replace("universal2", platform.machine())
    return os.environ.get("TRACETUI_PLATFORM") or here.replace("-", "_").replace(".", "_")


try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:
    # Called by hand, outside a build.
    BuildHookInterface = object  # type: ignore[assignment,misc]


class ScannerBuildHook(BuildHookInterface):  # type: ignore[type-arg,misc]
    """Adds the libraries to a wheel and names the platform that they are for."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile them before the wheel is made; a library of an earlier build is never taken in."""
        failure = compile_libraries()
        if failure:
            for library in LIBRARIES:
                library.unlink(missing_ok=True)
            self.app.display_warning(f"Without libraries in C ({failure.strip()}): traces are read in Python, slower.")
            return
        build_data["artifacts"] += [str(library.relative_to(Path(self.root))) for library in LIBRARIES]
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform_tag()}"


if __name__ == "__main__":
    FAILURE = compile_libraries()
    print(FAILURE or "\n".join(f"compiled {library}" for library in LIBRARIES))
    sys.exit(1 if FAILURE else 0)
