"""What of one trace could be compared, as it is told where only one side was named."""

from __future__ import annotations

from tests.support.build import annotation, make_trace, op, python
from tests.support.comparing.played import compiled, eager, played
from tests.support.comparing.recording import write
from tests.support.paths import SAMPLES
from tests.support.traces import loaded
from tracetui.cli.main import main
from tracetui.comparing.side import repeated_scopes, step_scopes


def test_what_runs_again_and_is_within_nothing_that_does():
    events = [annotation("outer", 1000 * n, 900) for n in (0, 1, 2)]
    events += [annotation("inner", 1000 * n + 100 * m, 50) for n in (0, 1, 2) for m in (1, 2)]
    events += [annotation("inner", 5000, 50), annotation("once", 6000, 50)]
    events += [op("aten::mm", 7000 + n, 1) for n in (0, 2)]
    assert repeated_scopes(make_trace(events)) == [("outer", 3)]


def test_functions_of_the_program_by_their_time():
    events = [python("train.py(3): main", 0, 9000)]
    events += [python("train.py(12): short", 100 * n, 10) for n in (1, 2)]
    events += [python("train.py(20): long", 1000 * n, 800) for n in (1, 2)]
    events += [python("torch/nn/modules/module.py(5): call", 4000 + 100 * n, 90) for n in (1, 2)]
    events += [python("train.py(30): _own", 5000 + 100 * n, 90) for n in (1, 2)]
    events += [python("train.py(31): within", 5010 + 100 * n, 50) for n in (1, 2)]
    events += [python("<built-in method mm>", 6000 + 100 * n, 90) for n in (1, 2)]
    found = repeated_scopes(make_trace(events))
    assert found == [("long", 2), ("within", 2), ("short", 2)]


def test_nothing_to_offer():
    assert repeated_scopes(make_trace([op("aten::mm", 0, 10)])) == []
    assert step_scopes(make_trace([op("aten::mm", 0, 10)])) == []


def told(capsys, *words: object) -> str:
    assert main(["compare", *map(str, words)]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert len(output.err.splitlines()) == 1
    return output.err


def test_a_trace_with_steps(capsys):
    path = SAMPLES / "mlp_eager_cpu.json.gz"
    text = told(capsys, path)
    assert f"its steps, as in `{path} '#2' '#3'`" in text
    assert "mlp_fwd (3)" in text
    assert "quote it" in text


def test_a_trace_without_steps(capsys, tmp_path):
    path = write(played(eager(), compiled(), steps=False), tmp_path / "a b.json")
    text = told(capsys, path)
    assert "its steps" not in text
    assert f"f (2), as in `'{path}' '#f[1]' '#f[2]'`" in text
    assert main(["compare", str(path), "#f[1]", "#f[2]"]) == 0


def test_a_scope_alone_and_no_file(capsys, tmp_path):
    assert "without a trace" in told(capsys, "#3")
    assert main(["compare", str(tmp_path / "absent.json")]) == 1
    assert "absent.json" in capsys.readouterr().err


def test_the_puzzle(shared_trace):
    found = repeated_scopes(loaded(shared_trace("puzzlers/fusion_mwe_trace.json.gz")))
    assert found[:2] == [("unfused", 2), ("fused", 2)]
