"""Misuse: one sentence on standard error, alike in every command, and the exit code 2."""

from __future__ import annotations

import re

import pytest

from tests.support.paths import SAMPLES
from tests.support.processes import tracetui_process
from tracetui.cli.main import COMMANDS, main

EAGER = str(SAMPLES / "mlp_eager_cpu.json.gz")

MISUSE = [
    (["shwo", "ops", EAGER], "tracetui show"),
    (["help", "shwo"], "tracetui show"),
    (["help", "qqqq"], "tracetui --help"),
    (["show"], "PANE, TRACE are missing"),
    (["show", "ops"], "TRACE is missing"),
    (["show", "kernal", EAGER], "Did you mean kernels?"),
    (["show", "ops", EAGER, "--format", "jsn"], "Did you mean json?"),
    (["show", "ops", EAGER, "--format", "qq"], "There are table, json"),
    (["show", "ops", EAGER, "--format"], "--format needs a value"),
    (["show", "ops", EAGER, "--step", "two"], "--step takes a whole number, not 'two'"),
    (["show", "ops", EAGER, "--step", "9"], "2"),
    (["show", "ops", EAGER, "--limit", "-1"], "--limit must not be negative"),
    (["show", "ops", EAGER, "--limit", "x"], "--limit takes a whole number, not 'x'"),
    (["show", "ops", EAGER, "--step", "2", "--range", "1us+2us"], "exclude each other"),
    (["show", "ops", EAGER, "--by", "shap"], "Did you mean shape?"),
    (["show", "views", EAGER, "--by", "shape"], "cannot be grouped"),
    (["show", "ops", EAGER, "--sort", "clls"], "Did you mean calls?"),
    (["show", "ops", EAGER, "--columns", "clls"], "Did you mean calls?"),
    (["show", "ops", EAGER, "--where", "clls > 1"], "Did you mean calls?"),
    (["show", "ops", EAGER, "--plain=1"], "--plain takes no value"),
    (["show", "ops", EAGER, "--wher", "mm"], "Did you mean --where?"),
    (["show", "ops", EAGER, "more"], "more"),
    (["--color", "sometimes", "show", "ops", EAGER], "There are auto, always, never"),
    (["--color", "alway", "show", "ops", EAGER], "Did you mean always?"),
    (["show", "ops", EAGER, "--color"], "--color needs a value"),
    (["check", EAGER, "kernls == 5"], "kernels"),
    (["check", EAGER, "--base", "x"], "--baseline"),
    (["check", EAGER], "check"),
    (["compare", EAGER], "One side"),
    (["compare", EAGER, EAGER, "--show", "kernls"], "Did you mean kernels?"),
    (["cut", EAGER], "missing"),
    (["merge", "nowhere"], "missing"),
    (["ranks"], "FOLDER is missing"),
    (["ranks", "x", "--jobs", "0"], "--jobs must be 1 to"),
    (["run", "mpl", "--no-open"], "mlp"),
    (["demo", "mpl"], "mlp"),
    (["attach", "x"], "PID takes a whole number, not 'x'"),
    (["attach", "--seconds", "x"], "--seconds takes a number, not 'x'"),
    (["verify"], "TRACE is missing"),
    (["verify", EAGER, "aten::mn"], "Did you mean aten::mm"),
    (["verify", EAGER, "mm", "--vs", "compil"], "Did you mean compile?"),
    (["verify", EAGER, "--vs", "bf16"], "name it behind the trace"),
    (["verify", EAGER, "mm", "--noise=-1"], "must be above 0"),
    (["verify", EAGER, "mm", "--seconds=0"], "must be above 0"),
    (["verify", EAGER, "k3"], "There is no kernel 3"),
    (["perfetto", EAGER, "--port", "0"], "--port"),
    (["sql"], "missing"),
    (["mcp"], "missing"),
    (["history", "x", "--by", "tme"], "Did you mean time?"),
    (["skill", "--formt"], "--formt"),
    (["explain"], "NAME is missing"),
    (["explain", "no such thing"], "Nothing is known of 'no such thing'"),
    (["explain", EAGER, "--at", "kernels"], "names no event"),
    *((["show", "steps", EAGER, f"--peak={word}"], f"not '{word}'") for word in ("0", "-3", "nan", "inf", "fast")),
    (["show", "steps", EAGER, "--flops", "many"], "--flops takes a number above 0, not 'many'"),
    (["whatif", EAGER], "CHANGE is missing"),
    (["whatif", EAGER, "fuse(1:2)"], "fuse() is not offered"),
    (["whatif", EAGER, "overlap(nccl)"], "overlap() is not offered"),
    (["whatif", EAGER, "scal(mm, 1)"], "Did you mean scale?"),
    (["whatif", EAGER, "scale(mm)"], "a factor from 0 to 1000"),
    (["whatif", EAGER, "scale(mm, nan)"], "a factor from 0 to 1000"),
    (["whatif", EAGER, "scale([, 1)"], "no regular expression"),
    (["whatif", EAGER, "graph(7:3)"], "no range of kernels"),
    (["whatif", EAGER, "mm"], "'mm' is no change"),
    (["cache", "--format", "xml"], "There are text, json"),
    (["--print-completion", "tcsh"], "There are bash, zsh, fish"),
    (["--print-completion"], "needs a value"),
    (["open", EAGER, EAGER, "--step", "2"], "Two traces are compared"),
]


@pytest.mark.parametrize(("words", "said"), MISUSE, ids=str)
def test_misuse_is_one_sentence_with_the_exit_code_2(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    output = capsys.readouterr()
    first, *below = output.err.splitlines()
    assert output.out == "" and said in first
    # A caret may stand below, under what is meant.
    assert all(line.startswith("  ") for line in below)
    sentence = first.removeprefix("tracetui: ")
    assert sentence != first and "usage:" not in first
    assert re.match(r"[A-Z`'/0-9-]|[\w.]+ (is|names)\b|\w+ \w+", sentence) and sentence.endswith((".", "?"))


def test_every_command_is_misused() -> None:
    assert {words[0] for words, _ in MISUSE} >= set(COMMANDS) - {"repair", "report", "workloads", "config", "bisect"}


def test_options_of_all_commands_stand_before_and_behind_the_name(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--quiet", "show", "ops", EAGER, "--limit", "1"], ["show", "ops", "--quiet", EAGER, "--limit", "1"]):
        assert main(words) == 0
        assert capsys.readouterr().err == ""
    assert main(["show", "ops", EAGER, "--limit", "1"]) == 0
    assert "--limit shows more" in capsys.readouterr().err


def test_errors_and_what_makes_the_exit_code_1_are_printed_in_silence(tmp_path, capsys) -> None:
    path = tmp_path / "cut.json.gz"
    path.write_bytes((SAMPLES / "mlp_eager_cpu.json.gz").read_bytes()[:-2000])
    assert main(["--quiet", "show", "steps", str(path)]) == 1
    assert "cut off" in capsys.readouterr().err
    assert main(["--quiet", "show", "ops", str(tmp_path / "absent.json")]) == 1
    assert "absent.json" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "variables", "file", "coloured"),
    [
        ([], {}, "", False),
        (["--color", "always"], {"NO_COLOR": "1"}, "never", True),
        (["--color=never"], {"FORCE_COLOR": "1"}, "always", False),
        ([], {"NO_COLOR": "1", "FORCE_COLOR": "1"}, "always", False),
        ([], {"FORCE_COLOR": "1"}, "never", True),
        ([], {}, "always", True),
        (["--color", "auto"], {"FORCE_COLOR": "1"}, "always", False),
    ],
)
def test_colours_are_those_of_the_option_the_environment_the_settings(
    option, variables, file, coloured, tmp_path, monkeypatch, capsys
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f'color = "{file}"' if file else "")
    for name, value in {"TERM": "xterm-256color", "TRACETUI_CONFIG": str(config), **variables}.items():
        monkeypatch.setenv(name, value)
    assert main([*option, "show", "overview", EAGER]) == 0
    assert ("\x1b[" in capsys.readouterr().out) == coloured


def test_help_and_the_version_in_short(capsys: pytest.CaptureFixture[str]) -> None:
    texts = {}
    for words in (["help"], ["--help"], ["help", "show"], ["show", "--help"], ["-V"], ["--version"]):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 0
        texts[" ".join(words)] = capsys.readouterr().out
    assert texts["help"] == texts["--help"] and texts["help show"] == texts["show --help"]
    assert texts["-V"] == texts["--version"]


def test_settings_that_are_wrong_fail_no_command_and_are_said_once(tmp_path, monkeypatch, capsys) -> None:
    file = tmp_path / "config.toml"
    file.write_text('theme = "drak"\npane = "x"\n[columns]\nops = ["calls", "nothing"]\n')
    monkeypatch.setenv("TRACETUI_CONFIG", str(file))
    assert main(["show", "ops", EAGER, "--format", "csv"]) == 0
    output = capsys.readouterr()
    assert "line 1: theme" in output.err and "And 2 more" in output.err and output.out.startswith("name,")
    assert main(["config"]) == 2
    output = capsys.readouterr()
    assert [line.partition(": ")[0] for line in output.err.splitlines()] == ["tracetui"] * 3
    assert 'theme = "auto"  # default' in output.out


def test_columns_of_the_settings_are_read_by_eye_alone(tmp_path, monkeypatch, capsys) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[columns]\nops = ["calls", "name"]\n"ops by shape" = ["input_shapes"]\n')
    monkeypatch.setenv("TRACETUI_CONFIG", str(file))

    def first_line(*words: str) -> list[str]:
        assert main(["show", "ops", EAGER, *words]) == 0
        return capsys.readouterr().out.splitlines()[0].replace(",", " ").split()

    assert first_line() == ["calls", "op"]
    assert first_line("--columns", "name") == ["op"]
    assert first_line("--by", "shape") == ["shapes"]
    assert len(first_line("--by", "module")) > 4 and len(first_line("--format", "csv")) > 4


@pytest.mark.full
def test_an_error_of_the_parser_reaches_the_shell() -> None:
    result = tracetui_process("show", "kernal", EAGER)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "tracetui: There is no pane 'kernal'. Did you mean kernels?\n"
