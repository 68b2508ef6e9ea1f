"""The release: its workflow can run as it is written, and its check of wheels notices what is wrong with one."""

from __future__ import annotations

import re
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from hatch_build import LIBRARIES as BUILT
from tests.support import wheel_check
from tests.support.paths import ROOT
from tests.support.pins import project
from tests.support.wheel_check import ELF, LIBRARIES, MACH, faults, main

WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"


@pytest.fixture(scope="module")
def workflow() -> dict[Any, Any]:
    yaml = pytest.importorskip("yaml", reason="needs pyyaml: the extra `dev`")
    return yaml.safe_load(WORKFLOW.read_text())


def steps_of(workflow: dict[Any, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def test_every_job_waits_for_jobs_that_there_are(workflow):
    for job in workflow["jobs"].values():
        assert set(job.get("needs", [])) <= set(workflow["jobs"])


def test_every_script_can_be_read_by_a_shell(workflow):
    scripts = [re.sub(r"\$\{\{.*?\}\}", "x", step["run"]) for step in steps_of(workflow) if "run" in step]
    assert len(scripts) > 5
    for script in scripts:
        subprocess.run(["bash", "-n", "-c", script], check=True)


def test_every_module_that_is_run_is_there(workflow):
    named = {name for step in steps_of(workflow) for name in re.findall(r"-m (tests[\w.]+)", step.get("run", ""))}
    assert named == {wheel_check.__name__}
    assert wheel_check.SAMPLE.exists()


def test_every_python_of_the_classifiers_is_tried_everywhere(workflow):
    wanted = [each.rpartition(" ")[2] for each in project()["classifiers"] if re.search(r":: 3\.\d+$", each)]
    for name in ("try", "try-musl"):
        assert workflow["jobs"][name]["strategy"]["matrix"]["python"] == wanted
    oldest = {step["with"]["python-version"] for step in steps_of(workflow) if "setup-python" in step.get("uses", "")}
    assert oldest == {wanted[0], "${{ matrix.python }}"}
    assert f"/cp{wanted[0].replace('.', '')}-" in WORKFLOW.read_text()


def test_every_platform_that_is_built_is_tried(workflow):
    jobs = workflow["jobs"]
    built = {each["platform"] for name in ("linux", "macos") for each in jobs[name]["strategy"]["matrix"]["include"]}
    endings = [each["platform"] for each in jobs["try"]["strategy"]["matrix"]["include"]]
    endings += [f"musllinux_1_2_{each['arch']}" for each in jobs["try-musl"]["strategy"]["matrix"]["include"]]
    assert {platform for platform in built for ending in endings if platform.endswith(ending)} == built
    assert len(built) == len(endings) == 6


def test_only_a_tag_is_published_and_only_by_that_job(workflow):
    publish = workflow["jobs"]["publish"]
    assert publish["if"] == "github.event_name == 'push' && startsWith(github.ref, 'refs/tags/v')"
    assert {"try", "try-musl"} <= set(publish["needs"])
    assert publish["permissions"] == {"id-token": "write"}
    assert workflow["permissions"] == {"contents": "read"}
    assert not [name for name, job in workflow["jobs"].items() if name != "publish" and "permissions" in job]
    assert "secrets." not in WORKFLOW.read_text()


def test_the_check_knows_every_library_that_is_built():
    assert sorted(LIBRARIES) == sorted(path.relative_to(ROOT).as_posix() for path in BUILT)


def elf(machine: str, *texts: bytes) -> bytes:
    """What a library of ELF has of the things that the check looks at."""
    return b"\x7fELF".ljust(18, b"\0") + ELF[machine].to_bytes(2, "little") + b"\0" * 8 + b"\0".join((*texts, b""))


GLIBC = (b"", b"libm.so.6", b"libc.so.6", b"GLIBC_2.2.5", b"GLIBC_2.17")
MUSL = (b"", b"libc.musl-x86_64.so.1")
MACHO = b"\xcf\xfa\xed\xfe" + MACH["arm64"].to_bytes(4, "little") + bytes(100)


def wheel(folder: Path, platform: str, *libraries: bytes) -> Path:
    path = folder / f"tracetui-0.1.0-py3-none-{platform}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tracetui/__init__.py", "")
        for name, data in zip(LIBRARIES, libraries, strict=False):
            archive.writestr(name, data)
    return path


@pytest.mark.parametrize(
    ("platform", "library"),
    [
        ("manylinux_2_17_x86_64.manylinux2014_x86_64", elf("x86_64", *GLIBC)),
        ("manylinux_2_17_aarch64", elf("aarch64", b"", b"libc.so.6", b"ld-linux-aarch64.so.1", b"GLIBC_2.17")),
        ("musllinux_1_2_x86_64", elf("x86_64", *MUSL)),
        ("macosx_11_0_arm64", MACHO),
        ("linux_x86_64", elf("x86_64", *GLIBC, b"GLIBC_2.36")),
    ],
)
def test_a_wheel_that_keeps_its_promise(tmp_path, platform, library):
    assert main([str(wheel(tmp_path, platform, *[library] * len(LIBRARIES)))]) == 0


@pytest.mark.parametrize(
    ("platform", "library", "said"),
    [
        ("manylinux_2_17_x86_64", elf("x86_64", *GLIBC, b"GLIBC_2.29"), "needs glibc 2.29"),
        ("manylinux2014_x86_64", elf("x86_64", *GLIBC, b"GLIBC_2.18"), "needs glibc 2.18"),
        ("manylinux_2_17_x86_64", elf("x86_64", *GLIBC, b"libgomp.so.1"), "needs libgomp.so.1"),
        ("manylinux_2_17_x86_64", elf("aarch64", *GLIBC), "is for another machine"),
        ("musllinux_1_2_x86_64", elf("x86_64", *GLIBC), "needs libc.so.6"),
        ("manylinux_2_17_x86_64", elf("x86_64", *MUSL), "needs libc.musl-x86_64.so.1"),
        ("macosx_10_13_x86_64", MACHO, "is for another machine"),
        ("win_amd64", MACHO, "win_amd64 is not a platform"),
        ("any", MACHO, "in a wheel for every platform"),
    ],
)
def test_a_wheel_that_does_not(tmp_path, capsys, platform, library, said):
    assert main([str(wheel(tmp_path, platform, library, library))]) == 1
    assert said in capsys.readouterr().err


def test_a_wheel_without_one_of_the_libraries(tmp_path):
    path = wheel(tmp_path, "manylinux_2_17_x86_64", *[elf("x86_64", *GLIBC)] * (len(LIBRARIES) - 1))
    assert faults(path) == [f"{LIBRARIES[-1]} is not there"]


def test_no_wheel_is_no_success(tmp_path):
    assert main([str(tmp_path / "*.whl")]) == 1
    assert main([]) == 1
