"""What commands print as JSON is what `docs/schema` says, and a change of that is in the changelog."""

from __future__ import annotations

import ast
import copy
import json
import re
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from tracetui_workloads.recording import launcher
from tracetui_workloads.recording.launcher import Outcome
from tracetui_workloads.recording.protocol import Failure

from tests.support.memory_snapshots import fragmented, write
from tests.support.paths import ROOT, SAMPLES
from tests.support.rank_files import write_ranks
from tests.support.schemas import DOCUMENTS, FOLDER, digest_of, schema_of, text_of
from tests.support.workloads.traced import LINEAR, pretend
from tracetui.cli import attach, recording
from tracetui.cli.main import main
from tracetui.demo import catalogue
from tracetui.drawing.text.envelope import json_text
from tracetui.opening.attach_listener import Job
from tracetui.panes import PANES
from tracetui.reading.load import load
from tracetui.snapshots.snapshot_tables import PANES as SNAPSHOT_PANES

CPU, OTHER = (str(SAMPLES / f"mlp_{name}_cpu.json.gz") for name in ("eager", "compile"))
REAL = (
    "d10_cudagraph_stack.json",
    pytest.param("d06_h100_stack_mem.json.gz", marks=pytest.mark.full),
    pytest.param("inference/i07_assembled_vllm_async_decode.json.gz", marks=pytest.mark.full),
)
pytestmark = pytest.mark.usefixtures("files_read_once")
EVENT = b'{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 2}'
Capture = pytest.CaptureFixture[str]


@cache
def validator(name: str) -> Draft202012Validator:
    schema = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def valid(text: str, name: str) -> dict[str, Any]:
    """The document, which has the schema of a name."""
    document: dict[str, Any] = json.loads(text)
    assert document["schema"].split("/")[:2] == ["tracetui", name]
    validator(name).validate(document)
    return document


@pytest.fixture
def printed(capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A function that runs a command and gives its valid document."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def run(name: str, *words: str) -> dict[str, Any]:
        code = main(list(words))
        output = capsys.readouterr()
        assert code in (0, 1, 3), output.err
        return valid(output.out, name)

    return run


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_a_schema_is_as_the_declarations_are(name: str) -> None:
    made = text_of(schema_of(name))
    assert (FOLDER / f"{name}.json").read_text(encoding="utf-8") == made, "run `make schemas`"


def test_every_document_that_is_written_has_a_schema() -> None:
    written = set()
    sources = [source for path in (ROOT / "tracetui").rglob("*.py") if "json_text(" in (source := path.read_text())]
    for source in sources:
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "json_text":
                written |= {each.value for each in ast.walk(node.args[0]) if isinstance(each, ast.Constant)}
    # Answers to assistants hold what has room of a document, and `check-names` is the pane of that name.
    names = {str(each) for each in written} - {"names"}
    assert names == set(DOCUMENTS) == {path.stem for path in FOLDER.glob("*.json")}


def test_a_change_of_a_schema_is_in_the_changelog() -> None:
    told = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    missing = []
    for name in sorted(DOCUMENTS):
        digest = digest_of(json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")))
        if not re.search(rf"`{name}` {digest}\b", told):
            missing.append(f"`{name}` {digest}")
    assert missing == [], "say in CHANGELOG.md what changed; where a field is lost, raise SCHEMA_VERSION too"


def test_words_do_not_change_the_digest_of_a_schema() -> None:
    schema = schema_of("repair")
    more = copy.deepcopy(schema)
    more["description"] = "Other words."
    assert digest_of(more) == digest_of(schema)
    more["properties"]["events"] = {"type": "string"}
    assert digest_of(more) != digest_of(schema)


# What commands print


@pytest.fixture(scope="module")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(catalogue.write("mlp", tmp_path_factory.mktemp("demo")))


def panes(path: str) -> Iterator[tuple[str, str | None]]:
    """Every pane of a trace, as it is and in every grouping but by lines that are not known."""
    trace = load(path)
    for pane in PANES.values():
        for by in (None, *pane.groups):
            if by != "line" or by in pane.offered(trace):
                yield pane.name, by


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_every_pane_in_every_grouping(device: str, gpu: str, printed: Any) -> None:
    path = gpu if device == "gpu" else CPU
    for pane, by in panes(path):
        words = ["show", pane, path, "--limit", "40", "--format", "json"]
        found = printed("show", *words, *(["--by", by] if by else []))
        assert (found["pane"], found["by"]) == (pane, by)
        names = [column["name"] for column in found["columns"]]
        assert all(list(row) == names for row in found["rows"])
        units = {each["name"]: each["unit"] for each in found["columns"] if each["unit"]}
        assert found["units"].items() >= units.items()


@pytest.mark.parametrize("name", REAL)
def test_panes_of_real_traces(name: str, shared_trace: Any, printed: Any) -> None:
    path = str(shared_trace(name))
    for pane, by in panes(path):
        printed("show", "show", pane, path, "--limit", "40", "--format", "json", *(["--by", by] if by else []))


def test_memory_snapshots(tmp_path: Path, printed: Any) -> None:
    path = write(tmp_path / "snapshot.pickle", fragmented().snapshot())
    for pane in SNAPSHOT_PANES:
        found = printed("snapshot", "show", pane, path, "--format", "json")
        assert found["units"].items() >= {"active_bytes": "bytes", "at_us": "us"}.items()
    printed("compare-snapshots", "compare", path, path, "--format", "json")
    printed("check", "check", path, "ooms == 1", "--format", "json")


def test_chosen_columns_and_no_rows(gpu: str, printed: Any) -> None:
    few = printed("show", "show", "kernels", gpu, "--columns", "dur_us,name", "--limit", "1", "--format", "json")
    assert list(few["rows"][0]) == ["dur_us", "name"] and few["units"]["dur_us"] == "us"
    assert printed("show", "show", "kernels", gpu, "--where", "dur > 9s", "--format", "json")["rows"] == []


def test_checks(gpu: str, printed: Any, tmp_path: Path) -> None:
    asked = ["max(kernels.dur_us) < 1ns and findings == 0", "verdict == 'x'", "kernels > 0", "not_slower(dur_us)"]
    found = printed("check", "check", gpu, *asked, "--baseline", gpu, "--format", "json")
    assert [each["status"] for each in found["checks"]] == ["fails", "fails", "holds", "holds"]
    assert printed("check", "check", CPU, "kernels == 5", "--format", "json")["checks"][0]["status"] == "missing"
    printed("check-names", "check", "--names", gpu, "--format", "json")
    folder = str(write_ranks(tmp_path / "run", world=5))
    ranks = printed("check", "check", folder, "max(ranks.wait_caused_us) < 1ns", "--format", "json")
    assert ranks["trace"] == {"folder": "run"} or "folder" in ranks["trace"]


def test_comparisons_and_ranks(gpu: str, printed: Any, tmp_path: Path) -> None:
    assert printed("compare", "compare", CPU, OTHER, "--format", "json").keys() >= {"totals", "kernels", "ops"}
    printed("compare", "compare", f"{gpu}#3", f"{gpu}#4", "--format", "json")
    printed("compare-several", "compare", CPU, OTHER, gpu, CPU, "--format", "json")
    folder = str(write_ranks(tmp_path / "run", world=5))
    for name in ("ranks", "collectives", "matrix", "groups", "steps", "files"):
        printed("ranks", "ranks", folder, "--show", name, "--format", "json")


def test_lists_and_files(gpu: str, printed: Any, tmp_path: Path) -> None:
    for words in (["cache", "--format", "json"], ["config", "--format", "json"], ["workloads", "--json"]):
        printed(words[0], *words)
    (tmp_path / "cut.json").write_bytes(b'{"traceEvents": [%s, {"ph": "X", "name"' % EVENT)
    printed("repair", "repair", str(tmp_path / "cut.json"), "-o", str(tmp_path / "whole.json"), "--format", "json")
    (tmp_path / "runs").mkdir()
    for name in ("a", "b"):
        shutil.copy(gpu, tmp_path / "runs" / f"{name}.json.gz")
    history = printed("history", "history", str(tmp_path / "runs"), "--format", "json")
    assert history["series"][0]["measures"]


def test_the_answer_of_a_query(printed: Any) -> None:
    pytest.importorskip("duckdb")
    printed("sql", "sql", CPU, "select name, self_cpu_us, calls > 1 many, null x from ops", "--format", "json")


def test_recordings(printed: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture) -> None:
    pretend(monkeypatch, tmp_path, LINEAR)
    assert printed("run", "run", "linear", "--verify", "--json")["verification"]["lines"]
    assert printed("run", "run", "linear", "--json")["failure"] is None
    out = f"{tmp_path}/out/"
    both = printed("run-compare", "run", "linear", "--compare", "eager,compile", "--verify", "--json", "-o", out)
    assert len(both["variants"]) == 2 and both["comparisons"]
    failed = Outcome(None, Failure("unavailable", "No.", "Do.", "At.", "in"))
    valid(json_text("run", recording.document(failed)), "run")
    times = {"unprofiled": {"median_us": 1.0}, "load": None}
    monkeypatch.setattr(launcher, "time_now", lambda requests, *_, **__: [Outcome(None, None, 0, times), failed])
    printed("run-bench", "run", "linear", "--bench", "--compare", "eager,compile", "--json")


def test_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    valid(json_text("attach-list", attach.document([Job(1, "train.py", None, 2.0), Job(2, "x", 3)])), "attach-list")


# Schemas refuse what is not declared.


@pytest.mark.parametrize(("name", "words"), [("show", ["show", "steps"]), ("check", ["check"]), ("cache", ["cache"])])
def test_a_schema_is_strict(name: str, words: list[str], printed: Any) -> None:
    trace = [] if name == "cache" else [CPU]
    asked = ["max(ops.self_cpu_us) < 1us"] if name == "check" else []
    document = printed(name, *words, *trace, *asked, "--format", "json")
    # These have a field for each name.
    by_name = (document["units"], document.get("counts"))
    places = [
        document,
        *[each for each in document.values() if isinstance(each, dict) and each not in by_name],
    ]
    lists = [each[0] for each in document.values() if isinstance(each, list) and each and isinstance(each[0], dict)]
    for place in (*places, *lists):
        optional = ("headline", "note", "doubts", "versions")
        for key in [key for key in place if key not in optional]:
            kept = place.pop(key)
            assert not validator(name).is_valid(document), key
            place[key] = [{"of": "another type"}]
            assert not validator(name).is_valid(document), key
            place[key] = kept
        place["no_such_field"] = 1
        assert not validator(name).is_valid(document), place
        del place["no_such_field"]
    validator(name).validate(document)
