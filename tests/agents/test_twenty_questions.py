"""Twenty questions about traces, answered through the tools alone, within a budget of bytes.

What is right comes from elsewhere: the table that torch printed of the same recording, the events of the file as plain
dictionaries, the figures by which a simulated trace was made, or the facts beside the given traces.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.agents import asked, write_gpu_trace
from tests.support.paths import SAMPLES, SHARED
from tracetui.agents.tools import Tools
from tracetui.agents.trace_folder import TraceFolder
from tracetui.demo.catalogue import write

BUDGET = 45_000
"""Bytes of all answers together: some 12,000 tokens."""
MADE, SAMPLE, GIVEN = "made", "sample", "given"
Answers = list[dict[str, Any]]
"""The answers to the calls of a question."""


@dataclass(frozen=True)
class Question:
    """A question, the calls that answer it, what is read from their answers, and what is right."""

    words: str
    where: str
    """MADE, SAMPLE or GIVEN."""
    calls: tuple[tuple[str, dict[str, Any]], ...]
    said: Callable[[Answers], object]
    right: Callable[[], object]


@cache
def events(path: Path) -> list[dict[str, Any]]:
    """The events of a trace as plain dictionaries."""
    opened: list[dict[str, Any]] = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    return opened


def slices(name: str, pattern: str) -> list[dict[str, Any]]:
    """The slices of a sample trace whose names match."""
    return [each for each in events(SAMPLES / name) if each.get("ph") == "X" and re.fullmatch(pattern, each["name"])]


def torch_says(name: str, op: str) -> list[str]:
    """The cells of the line of an operator in the table that torch printed of a sample trace."""
    lines = (SAMPLES / name).read_text().splitlines()
    return next(re.split(r"\s{2,}", line.strip()) for line in lines if line.strip().startswith(f"{op}  "))


def facts(trace: str) -> dict[str, Any]:
    """The facts beside the given traces that a plain script counted."""
    known: dict[str, Any] = json.loads((SHARED / "expected.json").read_text())[trace]["facts"]
    return known


def truth(folder: str) -> dict[str, Any]:
    """What was done to the ranks of a given run."""
    known: dict[str, Any] = json.loads((SHARED / "ranks" / folder / "truth.json").read_text())
    return known


def judged(trace: str) -> dict[str, Any]:
    """What a person who knows such traces found in a given one."""
    known: dict[str, Any] = json.loads((SHARED / "findings.json").read_text())["traces"][trace]
    return known


def first(column: str) -> Callable[[Answers], object]:
    """The value of a column in the first row of the last answer."""
    return lambda answers: answers[-1]["rows"][0][column]


def pane(trace: str, name: str, **more: Any) -> tuple[str, dict[str, Any]]:
    """A call of the tool `pane`."""
    return "pane", {"trace": trace, "name": name, **more}


EAGER, COMPILED = "mlp_eager_cpu.json.gz", "mlp_compile_cpu.json.gz"
D01, D03, D04 = (
    "d01_v100_torch1.9_6steps_mem_occ.json.gz",
    "d03_v100_2rank_5steps_mem_occ_nccl.json.gz",
    "d04_a100_8rank_6steps_occ_nccl.json.gz",
)
TRAIN, DEMO = "mlp_train_cpu.json.gz", "mlp_simulated.json.gz"
G2, MANY, FEW = "g2_step_8ranks_2hosts_missing", "xdit_flux_16384_tokens.json.gz", "xdit_flux_1024_tokens.json.gz"
D16, D21 = "d16_b300_tiny.json.gz", "d21_a100_nccl_3steps.json.gz"

QUESTIONS = [
    Question(
        "Which operator takes most CPU time of its own, and how much, in ms?",
        SAMPLE,
        (pane(EAGER, "ops", sort="self_cpu_us", columns="name,self_cpu_us", limit=1),),
        lambda answers: [answers[0]["rows"][0]["name"], round(answers[0]["rows"][0]["self_cpu_us"] / 1000, 3)],
        lambda: ["aten::mm", float(torch_says("mlp_eager_cpu.txt", "aten::mm")[2].removesuffix("ms"))],
    ),
    Question(
        "How often is aten::linear called?",
        SAMPLE,
        (pane(EAGER, "ops", where="name == aten::linear", columns="name,calls"),),
        first("calls"),
        lambda: int(torch_says("mlp_eager_cpu.txt", "aten::linear")[-1]),
    ),
    Question(
        "Which steps were recorded?",
        SAMPLE,
        (("overview", {"trace": EAGER}),),
        lambda answers: answers[0]["steps"]["numbers"],
        lambda: [int(slices(EAGER, r"ProfilerStep#\d+")[place]["name"].partition("#")[2]) for place in (0, -1)],
    ),
    Question(
        "How long does step 3 take, in us?",
        SAMPLE,
        (pane(EAGER, "steps", where="step == 3", columns="step,dur_us"),),
        first("dur_us"),
        lambda: slices(EAGER, "ProfilerStep#3")[0]["dur"],
    ),
    Question(
        "How long do the kernels of a recording without a GPU take?",
        SAMPLE,
        (pane(EAGER, "kernels", by="name"),),
        lambda answers: [answers[0]["rows"], "no GPU activity" in answers[0]["note"]],
        lambda: [[each for each in events(SAMPLES / EAGER) if each.get("cat") == "kernel"], True],
    ),
    Question(
        "What did the compiler put in place of gelu and the product?",
        SAMPLE,
        (("compare", {"a": EAGER, "b": COMPILED, "show": "ops", "where": "graph_0_cpp", "limit": 3}),),
        lambda answers: {row["name"] for row in answers[0]["rows"] if row["calls_a"] == 0},
        lambda: {each["name"] for each in slices(COMPILED, "graph_0_cpp.*")},
    ),
    Question(
        "How many operators does a step of naive attention call?",
        SAMPLE,
        (pane("attention_naive_cpu.json.gz", "steps", columns="step,cpu_ops", limit=1),),
        first("cpu_ops"),
        lambda: len([each for each in slices("attention_naive_cpu.json.gz", ".*") if each["cat"] == "cpu_op"]) / 3,
    ),
    Question(
        "How long does the optimizer run in all steps, in us?",
        SAMPLE,
        (("sql", {"trace": TRAIN, "query": "select cpu_total_us us from ops where name like 'Optimizer.step#%'"}),),
        lambda answers: round(answers[0]["rows"][0]["us"], 1),
        lambda: round(sum(each["dur"] for each in slices(TRAIN, "Optimizer.step#AdamW.step")), 1),
    ),
    Question(
        "How long is the longest gap, and which event ends it?",
        MADE,
        (pane("gpu.json", "gaps", columns="dur_us", limit=1),),
        lambda answers: [answers[0]["rows"][0]["dur_us"], answers[0]["rows"][0]["view"].rpartition("/")[2]],
        # A step, then a launch and a kernel by turns.
        lambda: [500, "g4"],
    ),
    Question(
        "How many kernels take more than 15 us, and how long together?",
        MADE,
        (("sql", {"trace": "gpu.json", "query": "select count(*) n, sum(dur_us) us from kernels where dur_us > 15"}),),
        lambda answers: [answers[0]["rows"][0][key] for key in ("n", "us")],
        lambda: [2, 30 + 20],
    ),
    Question(
        "What runs while kernel 2 of the step does, and when?",
        MADE,
        (("at", {"trace": "gpu.json", "view": "s1/k2"}),),
        lambda answers: [answers[0]["selected"][key] for key in ("name", "start_us", "dur_us")],
        lambda: ["kernel_1", 50 + 10 + 500, 30],
    ),
    Question(
        "How many kernels does a step of the simulated MLP run, and was that measured?",
        MADE,
        (pane(DEMO, "steps", columns="step,kernels", limit=1),),
        lambda answers: [answers[0]["rows"][0]["kernels"], "simulated" in answers[0]],
        lambda: [5, True],
    ),
    Question(
        "Which kernel takes most time in all, how often did it run, and how long?",
        GIVEN,
        (pane(D01, "kernels", by="name", columns="name,calls,total_us", limit=1),),
        lambda answers: [answers[0]["rows"][0][key] for key in ("calls", "total_us")],
        lambda: [facts(D01)["top3_kernels"][0][key] for key in ("count", "us")],
    ),
    Question(
        "How many occupancy queries were made?",
        GIVEN,
        (pane(D03, "summary", where="key == occupancy_queries"),),
        lambda answers: int(answers[0]["rows"][0]["value"]),
        lambda: facts(D03)["occupancy_total"],
    ),
    Question(
        "How many kernels did step 1010 launch?",
        GIVEN,
        (pane(D04, "steps", where="step == 1010", columns="step,kernels"),),
        first("kernels"),
        lambda: next(each["kernels_by_launch"] for each in facts(D04)["steps"] if each["name"] == "ProfilerStep#1010"),
    ),
    Question(
        "On which GPU was it recorded?",
        GIVEN,
        (("overview", {"trace": D16}),),
        lambda answers: answers[0]["recorded_on"][0].partition(" x")[0],
        lambda: json.loads(gzip.decompress((SHARED / D16).read_bytes()))["deviceProperties"][0]["name"],
    ),
    Question(
        "What are the major findings?",
        GIVEN,
        (("findings", {"trace": D21}),),
        lambda answers: {row["id"] for row in answers[0]["rows"] if row["severity"] == "major"},
        lambda: {each["id"] for each in judged(D21)["must"] if each["weight"] == "major"},
    ),
    Question(
        "Which rank is late, and by what?",
        GIVEN,
        (("ranks", {"folder": "ranks/g1_input_4ranks", "limit": 1}),),
        lambda answers: [answers[0]["rows"][0][key] for key in ("rank", "cause")],
        lambda: [truth("g1_input_4ranks")[key] for key in ("culprit", "cause")],
    ),
    Question(
        "Which ranks are missing, and in which step was one late?",
        GIVEN,
        (("ranks", {"folder": "ranks/g2_step_8ranks_2hosts_missing", "limit": 1}),),
        lambda answers: [answers[0]["missing_ranks"], answers[0]["rows"][0]["late_steps"]],
        # There it is counted from 0, and the first step that was recorded is 2.
        lambda: [truth(G2)["missing"], f"step {2 + truth(G2)['culprit_steps'][0]}"],
    ),
    Question(
        "Is the run with fewer tokens a speed-up?",
        GIVEN,
        (("compare", {"a": f"pairs/{MANY}", "b": f"pairs/{FEW}", "limit": 3}),),
        lambda answers: [each for each in answers[0]["statement"] if "no speed-up" in each],
        # So the file beside the traces has it: a sixteenth of the work.
        lambda: ["Different amounts of work, as recorded: 16,384 → 1,024 tokens. A difference in time is no speed-up."],
    ),
]
asked_bytes: Counter[str] = Counter()
"""Bytes of the answers to each question that was asked."""


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tools]:
    """Tools over the folders of the questions; traces that were read stay for the next one."""
    made = tmp_path_factory.mktemp("made")
    write_gpu_trace(made / "gpu.json", [10, 30, 20], 500)
    write("mlp", made).rename(made / DEMO)
    return {where: Tools(TraceFolder(str(path))) for where, path in ((MADE, made), (SAMPLE, SAMPLES), (GIVEN, SHARED))
            if path.exists()}  # fmt: skip


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.words)
@pytest.mark.full
async def test_the_answer_is_right(question: Question, tools: dict[str, Tools]) -> None:
    if question.where not in tools:
        pytest.skip("needs ../shared/traces, which is not there")
    texts = await asked(tools[question.where], *question.calls)
    asked_bytes[question.words] = sum(len(text.encode()) for text in texts)
    assert question.said([json.loads(text) for text in texts]) == question.right()


def test_there_are_twenty_and_their_answers_are_within_the_budget() -> None:
    assert len({question.words for question in QUESTIONS}) == len(QUESTIONS) == 20
    assert asked_bytes.total() <= BUDGET, asked_bytes.most_common()
