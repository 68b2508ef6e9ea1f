"""`tracetui run` and `tracetui workloads`: what goes to which stream, and the exit codes of interface.md."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import pytest
from tracetui_workloads.recording import launcher
from tracetui_workloads.recording.launcher import DeviceChosen, LogLine, Note, Outcome, Progress, Stage
from tracetui_workloads.recording.protocol import OPTIONS, Options

from tests.support.paths import ROOT
from tests.support.waiting import PROCESS_SECONDS
from tests.support.workloads.children import COMMAND, ENVIRONMENT, needs_torch
from tracetui.cli import recording
from tracetui.cli.main import build_parser, main
from tracetui.cli.streams import RecordingProgress, stage_index


def tracetui(*words, folder):
    """Run a command with pipes for a terminal, in a folder."""
    return subprocess.run(
        [*COMMAND, *map(str, words)],
        cwd=folder,
        text=True,
        capture_output=True,
        timeout=PROCESS_SECONDS,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
    )


@pytest.fixture
def launched(monkeypatch, tmp_path):
    """The requests that would be recorded, with the outcome to answer with."""
    asked = []

    def record_now(request, on_event, **more):
        asked.append((request, more))
        on_event(DeviceChosen("cpu", "x", "2.13"))
        on_event(Note("info", "No GPU \x1b[31mhere"))
        path = tmp_path / "x.json"
        return Outcome(path, launched_failure[0], 12, {"workload": request.workload}, "cpu", ("note",), 1.5)

    launched_failure = [None]
    monkeypatch.setattr(launcher, "record_now", record_now)
    asked_and_failure = (asked, launched_failure)
    return asked_and_failure


def test_the_names_in_the_help_are_those_of_the_recorder():
    parsed = build_parser().parse_args(["run", "mlp"])
    assert parsed.timeout == launcher.TIMEOUT
    assert recording.requests_of(parsed)[0].options == Options()
    assert recording.given_options(parsed) == {}


@pytest.mark.parametrize("option", OPTIONS.values(), ids=OPTIONS)
def test_every_option_is_taken_from_the_command_line_in_its_type(option):
    default = option.default
    value = option.choices[-1] if option.choices else "cuda:1" if isinstance(default, str) else type(default)(7)
    words = [f"--{option.name.replace('_', '-')}", *([] if default is False else [str(value)])]
    parsed = build_parser().parse_args(["run", "mlp", *words])
    given = recording.given_options(parsed)
    assert given == {option.name: value} and type(given[option.name]) is type(default)


def test_standard_output_is_the_path_and_nothing_else(launched, capsys, tmp_path):
    assert main(["run", "mlp", "--batch", "2"]) == 0
    output = capsys.readouterr()
    assert output.out == f"{tmp_path / 'x.json'}\n"
    assert output.err.splitlines() == [
        "tracetui: No GPU \N{REPLACEMENT CHARACTER}[31mhere",
        "tracetui: recorded mlp on cpu in 1.500 s, 12 B",
    ]


@pytest.mark.parametrize(
    ("words", "params", "options"),
    [
        (["mlp", "--batch", "2", "--seq=4"], {"batch": 2, "seq": 4}, {}),
        (["linear", "--in-dim", "2", "--out_dim", "3"], {"in_dim": 2, "out_dim": 3}, {}),
        (["--compile", "linear", "-p", "batch=2"], {"batch": 2}, {"compile": True}),
        (["mlp", "--compile", "--backend", "eager"], {}, {"compile": True, "backend": "eager"}),
        (["mlp", "--compile", "--mode", "max-autotune"], {}, {"compile": True, "mode": "max-autotune"}),
        (["attention", "--impl", "sdpa", "--backend", "flash"], {"impl": "sdpa", "backend": "flash"}, {}),
        (
            ["attention", "-p", "impl=sdpa", "-p", "backend=math", "--compile", "--backend", "aot_eager"],
            {"impl": "sdpa", "backend": "math"},
            {"compile": True, "backend": "aot_eager"},
        ),
        (
            ["mlp", "--cold", "--wait", "0", "--warmup", "2", "--active", "5"],
            {},
            {"cold": True, "wait": 0, "warmup": 2, "active": 5},
        ),
        (
            ["mlp", "--shapes", "off", "--stack", "--memory", "--device", "cuda:1", "--dtype", "fp16", "--seed", "7"],
            {},
            {"shapes": "off", "stack": True, "memory": True, "device": "cuda:1", "dtype": "fp16", "seed": 7},
        ),
        (["mlp", "--warm-seconds", "0.5"], {}, {"warm_seconds": 0.5}),
    ],
)
def test_what_is_asked_for(launched, words, params, options):
    assert main(["run", *words, "-o", "x.json"]) == 0
    asked = launched[0][0][0]
    assert asked.options == Options(**options)
    assert {name: asked.params[name] for name in params} == params
    assert asked.out == "x.json"


def test_a_file_that_exists_is_not_recorded_over(launched, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("mine.json", "train.py"):
        (tmp_path / name).write_text("mine")
    (tmp_path / "link.json").symlink_to("elsewhere.json")
    for words in (
        ["mlp", "-o", "mine.json"],
        ["mlp", "-o", "link.json"],
        ["train.py:step", "-o", "train.py", "--force"],
    ):
        assert main(["run", *words]) == 2
        err = capsys.readouterr().err
        assert ("the program itself" if "--force" in words else "exists already") in err
    assert launched[0] == []
    assert main(["run", "mlp", "-o", "mine.json", "--force"]) == 0
    assert main(["run", "mlp", "-o", "no/such/folder/new.json"]) == 0
    assert [(asked.out, asked.replace) for asked, _ in launched[0]] == [
        ("mine.json", True),
        ("no/such/folder/new.json", False),
    ]


def test_names_that_are_chosen_here_are_numbered(launched, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = launched[0]
    for words in ([], [], ["--table"], ["--force"]):
        assert main(["run", "linear", *words]) == 0
        path = tmp_path / asked[-1][0].out
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        if len(asked) == 2:
            path.with_name(f"{path.name.removesuffix('.json.gz')[:-1]}3.txt").touch()
    stem = "traces/linear/1024_32_64_bf16_warm_eager"
    assert [request.out for request, _ in asked] == [f"{stem}{number}.json.gz" for number in ("", "-2", "-4", "")]
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "linear_1024_32_64_bf16_warm_eager.json.gz").symlink_to("nothing")
    assert main(["run", "linear", "-o", "folder"]) == 0
    assert asked[-1][0].out == "folder/linear_1024_32_64_bf16_warm_eager-2.json.gz"


def test_torchs_own_table_on_request(launched):
    for words, wanted in (([], False), (["--table"], True)):
        assert main(["run", "mlp", *words]) == 0
        assert launched[0][-1][0].table is wanted


def test_a_function_gets_its_parameters_as_text(launched):
    assert main(["run", "train.py:step", "-p", "n=3", "--name", "x=y", "--no-open"]) == 0
    assert launched[0][0][0].params == {"n": "3", "name": "x=y"}


def test_how_the_child_is_run(launched):
    assert main(["run", "mlp", "--python", "python9", "--timeout", "0"]) == 0
    assert launched[0][0][1] == {"python": "python9", "timeout": None}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nope"], "There are matmul_add, linear"),
        (["mlp", "--bach", "3"], "it has batch, seq, dim, hidden"),
        (["mlp", "--batch", "many"], "whole number"),
        (["mlp", "--batch"], "--NAME VALUE"),
        (["mlp", "odd"], "odd"),
        (["mlp", "-p", "batch"], "NAME=VALUE"),
        (["mlp", "--mode", "max-autotune"], "--compile"),
        (["mlp", "--backend", "flash"], "no parameter backend"),
        (["mlp", "--active", "0"], "--active"),
        (["attention", "--impl", "odd"], "naive, inplace, sdpa"),
        (["train.py"], "path/to/file.py:function"),
    ],
)
def test_a_mistake_in_the_command_starts_nothing(launched, capsys, words, told):
    assert main(["run", *words]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert told in output.err
    assert launched[0] == []


def test_what_argparse_knows_is_refused_by_it(capsys):
    for words in (["--mode", "nope"], ["--dtype", "int8"], ["--seed", "x"]):
        assert main(["run", "mlp", *words]) == 2
    assert main(["workloads", "--nonsense"]) == 2
    assert "--nonsense" in capsys.readouterr().err


@pytest.mark.parametrize(("kind", "code"), [("usage", 2), ("missing:torch", 3), ("oom", 4), ("cancelled", 130)])
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_the_exit_code_of_a_failure(launched, capsys, kind, code, form):
    launched[1][0] = launcher.Failure(kind, "Something \x07odd.", "Do this.", "Traceback\nof it")
    assert main(["run", "mlp", *form]) == code
    output = capsys.readouterr()
    assert "tracetui: Something \N{REPLACEMENT CHARACTER}odd. Do this.\n" in output.err
    assert "Traceback" not in output.err
    if form:
        assert json.loads(output.out)["failure"]["kind"] == kind
    else:
        assert output.out == ""


def test_details_on_request_and_after_a_crash(launched, capsys):
    for kind, words in (("error", ["--details"]), ("crash", [])):
        launched[1][0] = launcher.Failure(kind, "Odd.", "", "Fatal\nof it")
        main(["run", "mlp", *words])
        assert "  Fatal\n  of it\n" in capsys.readouterr().err


def test_the_outcome_for_a_script(launched, capsys, tmp_path):
    assert main(["run", "mlp", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["path"] == str(tmp_path / "x.json")
    assert (document["failure"], document["recording"], document["device"]) == (None, {"workload": "mlp"}, "cpu")


def test_a_trace_is_opened_at_a_terminal(launched, monkeypatch, tmp_path):
    from tracetui.ui import app

    opened = []
    monkeypatch.setattr(recording, "require_terminal", lambda: None)

    def run(paths, step=None, at=None):
        opened.append(paths)
        return 0

    monkeypatch.setattr(app, "run", run)
    for words in ([], ["--no-open"], ["--json"]):
        assert main(["run", "mlp", *words]) == 0
    assert opened == [[str(tmp_path / "x.json")]]


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


def test_the_bar_shows_stages_and_keeps_remarks(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "200")
    stream = Terminal()
    with RecordingProgress("[bold]mlp", stream) as bar:
        for event in (Stage("recording", 5), Progress("recording", 2, 5), Note("info", "[red]odd\x1b[0m")):
            bar.hear(event)
        bar.hear(LogLine("[dim]compiling"))
        assert bar._bar
        bar._bar.refresh()
    told = stream.getvalue()
    for words in ("[bold]mlp: recording 2/5", "tracetui: [red]odd\N{REPLACEMENT CHARACTER}[0m", "[dim]compiling"):
        assert words in told


def test_without_a_terminal_there_is_no_bar():
    stream = io.StringIO()
    with RecordingProgress("mlp", stream) as bar:
        bar.hear(Stage("recording", 5))
        bar.hear(Note("info", "odd"))
    assert stream.getvalue() == "tracetui: odd\n"


def test_without_a_terminal_lines_name_what_is_timed_and_not_all_that_is_built(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("tracetui.cli.streams.time.monotonic", lambda: now[0])
    stream = io.StringIO()
    with RecordingProgress("verify", stream, in_lines=True) as bar:
        for event in (Stage("building aten::mm"), Stage("building aten::add"), Stage("timing aten::mm\x1b[0m")):
            bar.hear(event)
        bar.hear(Progress("timing", 1, 61))
        now[0] += 3.5
        bar.hear(Progress("timing", 20, 61))
    assert stream.getvalue().replace("\N{REPLACEMENT CHARACTER}[0m", "").splitlines() == [
        "verify: building aten::mm",
        "verify: timing aten::mm",
        "verify: timing aten::mm 20/61",
    ]


def test_stages_never_go_back():
    positions = [stage_index(stage) for stage in launcher.STAGES]
    assert positions == sorted(positions)
    assert stage_index("compiling") == stage_index("compiling aten::mm, compile") == stage_index("first call")


def test_the_list(capsys):
    assert main(["workloads"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[0] == "matmul_add"
    assert main(["run"]) == 0
    assert capsys.readouterr().out.splitlines() == lines


def test_the_list_for_a_script(capsys):
    assert main(["workloads", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["workloads"]}
    assert rows["mlp"]["parameters"][0]["name"] == "batch"
    assert rows["mlp"]["lesson"].startswith("Five kernels per forward")
    assert rows["mlp"]["runs_here"] == (rows["mlp"]["reason"] is None)


def test_one_workload_with_its_lesson(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    assert main(["workloads", "split-stack"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("--num-inputs 16" in line for line in lines)
    lesson = lines[lines.index("lesson:") + 1 : lines.index("sources:") - 1]
    assert "With sixteen tensors the GPU runs 36 kernels" in " ".join(" ".join(lesson).split())
    assert max(map(len, lesson)) <= 60
    assert main(["workloads", "nope"]) == 2


def test_without_torch_the_list_says_so(tmp_path):
    script = (
        "import importlib.util, sys\nfind = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *more: None if name == 'torch' else find(name, *more)\n"
        "from tracetui.cli.main import main\nsys.exit(main(['workloads']))"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=PROCESS_SECONDS
    )
    assert result.returncode == 0
    assert all("PyTorch is not installed" in line for line in result.stdout.splitlines())


@pytest.mark.full
@needs_torch
def test_a_recording_from_the_command_line(tmp_path):
    words = ["run", "mlp", "--batch", 1, "--seq", 4, "--dim", 8, "--hidden", 8, "--device", "cpu"]
    result = tracetui(*words, folder=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "traces/mlp/1_4_8_8_bf16_warm_eager.json.gz\n"
    shown = tracetui("show", "summary", result.stdout.strip(), "--format", "json", folder=tmp_path)
    assert json.loads(shown.stdout)["pane"] == "summary"
