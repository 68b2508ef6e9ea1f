"""`tracetui run WORKLOAD --compare`: which recordings are made, what is said of them, and when nothing is compared."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tracetui_workloads import registry
from tracetui_workloads.api import Contrast
from tracetui_workloads.recording import launcher
from tracetui_workloads.recording.launcher import BadRequest, Note, Outcome, plan, plan_variants, variants_of
from tracetui_workloads.recording.protocol import Failure, Options

from tests.support.workloads.traced import LINEAR, trace_file
from tracetui.cli import recording, variants
from tracetui.cli.main import build_parser, main
from tracetui.cli.recording import requests_of
from tracetui.cli.workloads import variants_as_words

UNAVAILABLE = Failure("unavailable", "fused_mlp needs a GPU, and this would run on cpu.")
CANCELLED = Failure("cancelled", "Cancelled while recording; nothing was written.")
DIGESTS = {"x": "aa", "w": "bb"}


def planned(name, words, given=None, out=None, **options):
    """The requests for the variants that are named between commas."""
    return plan_variants(name, words.split(","), given or {}, options, out)


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_all_stands_for_every_variant_that_is_offered(name):
    assert [each.variant for each in planned(name, "all")] == list(variants_of(name))


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Recordings that take no time: what was asked for, and by variant how it ends or which operands it has."""
    asked: list = []
    endings: dict = {}
    digests: dict = {}
    monkeypatch.chdir(tmp_path)

    def record_now(request, on_event, **_):
        asked.append(request)
        on_event(Note("info", "No GPU \x1b[31mhere"))
        ending = endings.get(request.variant)
        if isinstance(ending, Failure):
            return Outcome(None, ending, device="cpu")
        metadata = {
            "workload": request.workload,
            "variant": request.variant,
            "params": dict(request.params),
            "options": {"compile": request.options.compile, "backend": "inductor", "cold": False},
            "device": "cpu",
            "torch": "2.13.0",
            "operands": digests.get(request.variant, DIGESTS),
        }
        ops = [name for name in LINEAR if not request.options.compile or name != "aten::t" or ending == "keeps t"]
        ops += ["Torch-Compiled Region: 0/0"] * request.options.compile
        path = trace_file(tmp_path / f"{request.variant}.json", "fwd", ops, metadata)
        return Outcome(path, None, 12, metadata, "cpu", (), 0.1, too_late=ending == "too late")

    monkeypatch.setattr(launcher, "record_now", record_now)
    return asked, endings, digests


@pytest.mark.parametrize("name", [*registry.BUILT_IN, "train.py:step"])
def test_eager_and_compile_exist_for_everything(name):
    eager, compiled = planned(name, "eager,compile")
    assert (eager.options, compiled.options) == (Options(active=10), Options(compile=True, active=10))
    ending = "" if eager.ranks else ".json.gz"
    assert eager.out.endswith(f"_warm_eager{ending}" if eager.params else f"/warm_eager{ending}")
    assert compiled.out == eager.out.replace("eager", "compile")


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_every_variant_of_a_workload_can_be_recorded_beside_the_others(name):
    words = list(variants_of(name))
    requests = planned(name, ",".join(words))
    assert [request.variant for request in requests] == words
    assert len({request.out for request in requests}) == len(words)
    assert all(request.out.startswith(f"traces/{name}/") for request in requests), "all in one folder"


@pytest.mark.parametrize(
    ("name", "offered"),
    [
        ("linear", ["eager", "compile"]),
        ("sync", ["each", "once", "never"]),
        ("copies", ["pageable", "pinned", "overlapped"]),
        ("dataloader", ["no_workers", "workers", "pinned"]),
        ("conv", ["nchw", "compile", "input", "channels_last"]),
        ("train_step", ["foreach", "compile", "forloop", "fused", "amp", "zeros"]),
        ("graph_breaks", ["eager", "whole", "broken", "recompile", "automatic", "dynamic"]),
        ("train.py:step", ["eager", "compile"]),
    ],
)
def test_each_recording_is_offered_once_and_under_its_own_name(name, offered):
    assert list(variants_of(name)) == offered


def test_what_is_not_offered_is_understood():
    requests = planned("sync", "eager,once")
    assert [request.variant for request in requests] == ["eager", "once"]
    assert [request.params["read"] for request in requests] == ["each", "once"]


def test_what_is_given_is_given_to_all():
    requests = planned("mlp", "eager,fused,gateup", {"batch": "2"}, seed=7, active=9)
    assert [request.workload for request in requests] == ["mlp", "fused_mlp", "fused_mlp"]
    assert [request.params["batch"] for request in requests] == [2, 2, 2]
    assert [request.params.get("impl") for request in requests] == [None, "geglu", "gateup"]
    assert {(request.options.seed, request.options.active) for request in requests} == {(7, 9)}


def test_only_what_is_compiled_is_told_how():
    eager, compiled = planned("mlp", "eager,compile", mode="max-autotune")
    assert (eager.options.mode, compiled.options.mode) == ("default", "max-autotune")
    assert compiled.out.endswith("_compile-max-autotune.json.gz")


@pytest.mark.parametrize(
    ("name", "words", "given", "params", "options"),
    [
        ("mlp", "batch=8,batch=16", {}, [{"batch": 8}, {"batch": 16}], [{}, {}]),
        ("linear", "in-dim=8,in_dim=16", {}, [{"in_dim": 8}, {"in_dim": 16}], [{}, {}]),
        ("mlp", "dtype=fp32,cold=yes", {}, [{}, {}], [{"dtype": "fp32"}, {"cold": True}]),
        ("mlp", "mode=default,mode=max-autotune", {}, [{}, {}], [{"compile": True}] * 2),
        ("attention", "backend=math,backend=flash", {"impl": "sdpa"}, [{"backend": "math"}, {"backend": "flash"}], []),
        ("train.py:step", "n=3,seed=4", {}, [{"n": "3"}, {}], [{}, {"seed": 4}]),
    ],
)
def test_by_hand(name, words, given, params, options):
    requests = planned(name, words, given)
    for request, wanted in zip(requests, params, strict=True):
        assert wanted.items() <= dict(request.params).items()
    for request, more in zip(requests, options, strict=False):
        assert all(getattr(request.options, key) == value for key, value in more.items())
    assert len({request.out for request in requests}) == 2


def test_other_functions_of_the_same_file():
    requests = planned("a/train.py:step", "eager,faster,Model.forward")
    places = [request.workload.rpartition(":") for request in requests]
    assert places == [("a/train.py", ":", name) for name in ("step", "faster", "Model.forward")]
    assert [request.out for request in requests] == [
        "traces/train.step/warm_eager.json.gz",
        "traces/train.step/warm_eager_faster.json.gz",
        "traces/train.step/warm_eager_Model.forward.json.gz",
    ]


def test_one_recording_by_itself_is_no_variant_and_has_the_same_name():
    alone = plan("mlp", {}, Options(compile=True))
    assert (alone.variant, alone.out) == ("", planned("mlp", "eager,compile")[1].out)


def test_of_ranks_the_first_is_compared(tmp_path):
    request = planned("ddp", "eager,one_bucket", out=tmp_path)[1]
    assert request.ranks == 2 and request.out.endswith("_eager_one_bucket")
    ranks = [Outcome(tmp_path / "run" / f"rank{rank}.json.gz", None) for rank in (0, 1)]
    recorded = variants.RecordedVariant(request, Outcome(tmp_path / "run", None, ranks=ranks))
    assert recorded.path == tmp_path / "run" / "rank0.json.gz"
    assert recording.document(recorded.outcome)["ranks"] == [str(each.path) for each in ranks]


@pytest.mark.parametrize("out", ["new", "new/", "."])
def test_traces_go_into_a_folder(out):
    requests = planned("linear", "eager,compile", out=out)
    assert requests[0].out == str(Path(out, "linear_1024_32_64_bf16_warm_eager.json.gz"))


@pytest.mark.parametrize(
    ("name", "words", "given", "options", "told"),
    [
        (
            "mlp",
            "eager,nope",
            {},
            {},
            "mlp has no variant nope; there are eager, compile, fused, gateup and NAME=VALUE",
        ),
        ("mlp", "eager", {}, {}, "at least two variants"),
        ("mlp", "eager,eager", {}, {}, "needs different recordings, and eager is given twice"),
        ("attention", "eager,naive", {}, {}, "eager and naive are the same"),
        ("mlp", "batch=8,batch=08", {}, {}, "batch=8 and batch=08"),
        ("mlp", "eager,compile", {}, {"compile": True}, "eager sets compile, which is also given"),
        ("attention", "naive,flash", {"impl": "sdpa"}, {}, "naive sets impl"),
        ("mlp", "eager,cold=true", {}, {"cold": True}, "sets cold"),
        ("mlp", "batch=8,batch=x", {}, {}, "batch must be a whole number"),
        ("mlp", "batch=8,=x", {}, {}, "no variant =x"),
        ("mlp", "batch=8,odd=1", {}, {}, "neither a parameter nor an option odd"),
        ("mlp", "dtype=bf16,dtype=int8", {}, {}, "bf16, fp16, fp32"),
        ("mlp", "batch=8,batch=9", {}, {"mode": "max-autotune"}, "add --compile"),
        ("fused_mlp", "geglu,unfused", {"impl": "gateup"}, {}, "sets impl"),
        ("nope", "eager,compile", {}, {}, "There is no workload nope"),
        ("train.py:step", "eager,not a name", {}, {}, "another function of the same file"),
    ],
)
def test_what_cannot_be_compared_is_refused(name, words, given, options, told):
    with pytest.raises(BadRequest, match=told.replace("=", "[=]")):
        planned(name, words, given, **options)


@pytest.mark.parametrize("out", ["x.json", "x.json.gz"])
def test_several_traces_are_no_file(out, tmp_path):
    with pytest.raises(BadRequest, match="name a folder"):
        planned("mlp", "eager,compile", out=out)
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(BadRequest, match="name a folder"):
        planned("mlp", "eager,compile", out=file)


def test_standard_output_is_the_paths_and_nothing_else(machine, capsys, tmp_path):
    assert main(["run", "linear", "--compare", "eager, compile"]) == 0
    output = capsys.readouterr()
    assert output.out.splitlines() == [str(tmp_path / "eager.json"), str(tmp_path / "compile.json")]
    lines = output.err.splitlines()
    assert lines[0] == "tracetui: No GPU \N{REPLACEMENT CHARACTER}[31mhere", "once, not for each variant"
    assert lines[1].startswith("tracetui: recorded linear eager on cpu")
    assert lines[2].startswith("tracetui: recorded linear compile on cpu")
    assert lines[3] == "tracetui: The weights and inputs are the same in all variants: w, x."
    assert lines[4] == f"tracetui compare {tmp_path / 'eager.json'} {tmp_path / 'compile.json'}"
    assert any("gone: view op t (" in line for line in lines[5:]), lines[5:]


def test_each_is_compared_with_the_one_before_it(machine, capsys):
    assert main(["run", "linear", "--json", "--compare", "eager,compile,batch=2"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["variant"] for row in found["variants"]] == ["eager", "compile", "batch=2"]
    assert [(row["a"], row["b"]) for row in found["comparisons"]] == [("eager", "compile"), ("compile", "batch=2")]
    assert all(row["statement"] for row in found["comparisons"])
    assert found["operands"] == {"same": ["w", "x"], "different": []}
    assert [request.variant for request in machine[0]] == ["eager", "compile", "batch=2"]


def test_three_stand_in_one_table_against_the_first(machine, capsys, tmp_path):
    assert main(["run", "linear", "--compare", "eager,compile,batch=2"]) == 0
    output = capsys.readouterr()
    assert len(output.out.splitlines()) == 3
    assert "A  eager.json: 3 steps" in output.err
    assert "* B: CPU time per step the same: 900 µs." in output.err
    assert re.search(r"^cpu_ops +10 +10 = +10 =$", output.err, re.MULTILINE)
    assert f"tracetui compare {tmp_path / 'eager.json'} {tmp_path / 'batch=2.json'}" in output.err


@pytest.mark.parametrize(
    ("digests", "told"),
    [
        ({"x": "cc", "w": "bb"}, "x. The same: w."),
        ({"x": "cc", "w": "dd"}, "w, x."),
        ({"x": "aa"}, "w. The same: x."),
    ],
)
def test_other_numbers_are_said(machine, capsys, digests, told):
    machine[2]["compile"] = digests
    assert main(["run", "linear", "--compare", "eager,compile"]) == 0
    errors = capsys.readouterr().err
    assert f"tracetui: Weights or inputs that are not the same in all variants: {told}\n" in errors


def test_where_nothing_is_known_of_the_numbers_that_is_said(machine, capsys):
    machine[2].update({"eager": {}, "compile": {}})
    assert main(["run", "train.py:step", "--compare", "eager,compile"]) == 0
    assert "is not known: none has a name" in capsys.readouterr().err


def test_of_many_weights_a_few_are_named():
    names = [f"w{number}" for number in range(10)]
    assert variants.in_words(names) == "w0, w1, w2, w3, w4, w5 and 4 more"
    assert variants.in_words(names[:2]) == "w0, w1"


def test_what_cannot_run_here_does_not_keep_the_others_from_it(machine, capsys):
    machine[1]["fused"] = UNAVAILABLE
    assert main(["run", "mlp", "--compare", "eager,fused,compile"]) == 0
    output = capsys.readouterr()
    assert len(output.out.splitlines()) == 2
    assert "tracetui: fused: fused_mlp needs a GPU, and this would run on cpu.\n" in output.err
    assert "eager.json" in output.err.splitlines()[-2] or "compile.json" in output.err


@pytest.mark.parametrize(("words", "steps"), [([], 10), (["--active", "3"], 3), (["--active", "40"], 40)])
def test_more_steps_than_of_one_recording(machine, words, steps):
    assert main(["run", "linear", "--compare", "eager,compile", *words]) == 0
    assert {request.options.active for request in machine[0]} == {steps}


def test_steps_may_differ_where_they_are_not_given(machine, capsys):
    assert main(["run", "linear", "--compare", "active=3,active=4"]) == 0
    assert main(["run", "linear", "--compare", "active=3,active=4", "--active", "3"]) == 2
    assert "sets active" in capsys.readouterr().err


@pytest.mark.parametrize("form", [[], ["--json"]])
@pytest.mark.parametrize(
    ("failed", "code", "told"),
    [
        ({"eager": UNAVAILABLE}, 3, "Only compile was recorded: there is nothing to compare."),
        ({"eager": UNAVAILABLE, "compile": UNAVAILABLE}, 3, "No variant was recorded"),
        ({"eager": Failure("oom", "Not enough."), "compile": UNAVAILABLE}, 4, "No variant was recorded"),
        ({"eager": Failure("usage", "step(n) wants n.")}, 2, "eager: step(n) wants n."),
        ({"compile": CANCELLED}, 130, "Cancelled while recording"),
        ({"eager": Failure("missing:torch", "No torch.")}, 3, "No variant was recorded"),
    ],
)
def test_with_fewer_than_two_there_is_nothing_to_compare(machine, capsys, failed, code, told, form):
    machine[1].update(failed)
    assert main(["run", "linear", "--compare", "eager,compile", *form]) == code
    output = capsys.readouterr()
    assert told in output.err
    assert "in all variants" not in output.err
    if form:
        found = json.loads(output.out)
        assert found["comparisons"] == []
        assert found["operands"] == {"same": [], "different": []}
    asked = [request.variant for request in machine[0]]
    if len(asked) < 2:
        assert failed["eager"].kind in ("usage", "missing:torch"), "what the others share is tried once"
    if code not in (2, 130):
        assert all(str(failure) in output.err for variant, failure in failed.items() if variant in asked)


def test_what_failed_is_an_exit_code_also_when_the_others_are_compared(machine, capsys):
    machine[1]["naive"] = Failure("oom", "Not enough.", "", "Traceback\nof it")
    assert main(["run", "attention", "--compare", "naive,inplace,math", "--details"]) == 4
    errors = capsys.readouterr().err
    assert "naive: Not enough.\n" in errors
    assert "  Traceback\n" in errors
    assert "tracetui compare " in errors


def test_ctrl_c_when_a_trace_is_in_its_place_already_starts_no_other(machine, capsys, tmp_path):
    machine[1]["eager"] = "too late"
    assert main(["run", "linear", "--compare", "eager,compile"]) == 130
    assert [request.variant for request in machine[0]] == ["eager"]
    assert capsys.readouterr().out == f"{tmp_path / 'eager.json'}\n"


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_every_variant_is_verified(machine, capsys, form):
    machine[1]["compile"] = "keeps t"
    assert main(["run", "linear", "--compare", "eager,compile", "--verify", *form]) == 1
    output = capsys.readouterr().out
    if form:
        found = [row["verification"] for row in json.loads(output)["variants"]]
        assert [each["holds"] for each in found] == [True, False]
    else:
        assert output.count("separate additions per step") == 2
        assert "FAILS  " not in output.split("compile.json")[0]


def test_what_promises_nothing_is_not_recorded_to_be_verified(machine, capsys):
    assert main(["run", "train.py:step", "--compare", "eager,compile", "--verify"]) == 2
    assert machine[0] == []


def test_each_variant_is_guessed_at_and_all_are_opened(machine, monkeypatch, tmp_path, capsys):
    opened: list = []
    asked: list = []

    def compare_all(paths):
        opened.append(paths)
        return 0

    monkeypatch.setattr(recording, "require_terminal", lambda: None)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)

    def answer(prompt):
        asked.append(prompt.strip())
        return "the epilogue"

    monkeypatch.setattr("builtins.input", answer)
    monkeypatch.setattr("tracetui.ui.app.compare_all", compare_all)
    for words in ([], ["--no-open"], ["--json"], ["--verify"]):
        main(["run", "linear", "--compare", "eager,compile", *words])
    assert opened == [[str(tmp_path / "eager.json"), str(tmp_path / "compile.json")]] and asked == []
    capsys.readouterr()
    for words in ([], ["--no-open"]):
        main(["run", "linear", "--compare", "eager,compile", "--guess", *words])
        assert asked == ["eager: Which operator adds the bias?", "compile: Which operator adds the bias?"]
        asked.clear()
        output = capsys.readouterr().out
        assert output.count("the epilogue") == 2
    assert len(opened) == 2
    assert output.count("One kernel per forward") == 1, "the lesson stands once, below the last answer"


def test_what_a_workload_promises_of_two_variants_is_verified(machine, monkeypatch, capsys):
    contrast = Contrast("operators, one by the other", "eager", "compile", "ops_per_step", (1, 2), "cpu", "fewer")
    broken = replace(contrast, want=(3, 4))
    linear = registry.built_in("linear")
    for expected, code in ((contrast, 0), (broken, 1)):
        workload = replace(linear, expects=linear.expects[1:2], contrasts=(expected,))
        monkeypatch.setattr(registry, "built_in", lambda _, workload=workload: workload)
        assert main(["run", "linear", "--compare", "compile,eager", "--verify"]) == code
        line = next(line for line in capsys.readouterr().out.splitlines() if "one by the other" in line)
        assert line.startswith("FAILS" if code else "holds")
        assert main(["run", "linear", "--compare", "compile,eager", "--verify", "--json"]) == code
        [pair] = json.loads(capsys.readouterr().out)["contrasts"]
        assert (pair["a"], pair["b"], pair["verification"]["holds"]) == ("eager", "compile", not code)


def test_which_of_how_many_is_on_the_bar(machine, monkeypatch):
    from tracetui.cli import streams

    titles = []

    class Bar(streams.RecordingProgress):
        def __init__(self, title, **more):
            titles.append(title)
            super().__init__(title, **more)

    monkeypatch.setattr(streams, "RecordingProgress", Bar)
    assert main(["run", "mlp", "--compare", "eager,compile"]) == 0
    assert main(["run", "mlp", "--no-open"]) == 0
    assert titles == ["mlp eager 1/2", "mlp compile 2/2", "mlp"]


def test_the_variants_of_a_workload_are_listed(capsys):
    assert main(["workloads", "mlp"]) == 0
    assert "  compile  mlp --compile\n  fused    fused_mlp\n" in capsys.readouterr().out
    assert main(["workloads", "attention", "--json"]) == 0
    [row] = json.loads(capsys.readouterr().out)["workloads"]
    assert row["variants"]["flash"] == "attention -p impl=sdpa -p backend=flash"
    assert list(row["variants"])[:2] == ["naive", "compile"]


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_the_words_of_a_variant_ask_for_it(name):
    parser = build_parser()
    for variant, words in variants_as_words(name).items():
        parsed, rest = parser.parse_known_args(["run", *words.split()])
        parsed.parameters = rest
        [request] = requests_of(parsed)
        options = {"compile": request.options.compile, "mode": request.options.mode, "cold": request.options.cold}
        known = {"compile": False, "mode": "default", "cold": False, **variants_of(name)[variant]}
        assert options == {key: known[key] for key in options}, variant
        for key, value in variants_of(name)[variant].items():
            if key in request.params:
                assert request.params[key] == value, variant
