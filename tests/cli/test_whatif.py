"""`tracetui whatif`: the same figures as text and JSON, one line for each part, and refusals with an exit code."""

from __future__ import annotations

import json

from tests.support.paths import SAMPLES
from tracetui.cli.main import main
from tracetui.model.quantities import duration

TRACE = str(SAMPLES / "mlp_eager_cpu.json.gz")
CHANGES = ["cpu(aten::gelu, 0)", "scale(aten::mm, 0.5)"]


def test_text_and_json_agree(capsys):
    assert main(["whatif", TRACE, *CHANGES, "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert main(["whatif", TRACE, *CHANGES]) == 0
    text = capsys.readouterr().out
    assert document["schema"].startswith("tracetui/whatif/") and document["limited_by"] == "CPU"
    first, second = document["changes"]
    assert document["noise_pct"] == 7 and "what to shorten next" in text
    assert second["low_us"] == document["low_us"] < first["low_us"] < document["recorded_us"]
    assert abs(1 - document["low_us"] / document["recorded_us"] - document["saves_high_pct"] / 100) < 1e-9
    for time in (document["low_us"], document["recorded_us"], first["alone_low_us"]):
        assert duration(1_000 * time) in text
    assert max(map(len, text.splitlines())) <= 100


def test_a_refusal_is_a_sentence_and_the_exit_code_1(capsys):
    assert main(["whatif", TRACE, "cpu(no_such_op, 0)"]) == 1
    output = capsys.readouterr()
    assert output.out == "" and "no_such_op" in output.err and output.err.count("\n") == 1


def test_escapes_in_a_change_are_not_printed(capsys):
    assert main(["whatif", TRACE, "cpu(aten::gelu|\x1b]0;x, 0)"]) == 0
    assert "\x1b" not in capsys.readouterr().out
