"""Requests of servers: what each line and span says of which request, and the steps that served it."""

from __future__ import annotations

import json
import random
import re
from statistics import quantiles

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracetui
from tests.support.paths import ROOT
from tracetui.cli.main import main
from tracetui.errors import TraceError
from tracetui.model.recorded import Request
from tracetui.panes import PANES
from tracetui.reading import request_logs
from tracetui.reading.request_logs import is_request_log, read_requests

EPOCH = 1_790_000_000_000_000_000


def vllm(at, message, process="(APIServer pid=1) ", level="INFO"):
    """A line of vLLM at a second of a day."""
    return f"{process}{level} 05-14 06:27:{at:02} [logger.py:92] {message}\n"


def stats(name, queue, forward, entry, kind="unified", more=""):
    """A line of SGLang's time stats."""
    return (
        f"[2026-09-30 08:54:56 TP0] ReqTimeStats(rid={name}, input_len=1000, cached_input_len=900, output_len=50, "
        f"attempts=0, type={kind}): {more}queue_duration={queue:.2f}ms, forward_duration={forward:.2f}ms, "
        f"entry_time={entry:.3f}\n"
    )


def finish(name, text="x", **meta):
    """A line of SGLang at the end of a request."""
    meta = {"id": name, "finish_reason": {"type": "length", "length": 200}} | meta
    return (
        f"[2026-09-30 08:54:58] Finish: obj=GenerateReqInput(rid={name!r}), out={ {'text': text, 'meta_info': meta} }\n"
    )


def span(name, start, **values):
    """A span of OpenTelemetry with attributes in seconds and tokens."""
    of = {"queue": "time_in_queue", "prefill": "time_in_model_prefill", "first": "time_to_first_token"}
    of |= {"decode": "time_in_model_decode", "total": "e2e"}
    attributes = [
        {"key": f"gen_ai.latency.{word}", "value": {"doubleValue": values[key]}}
        for key, word in of.items()
        if key in values
    ]
    attributes.append({"key": "gen_ai.request.id", "value": {"stringValue": name}})
    if "output" in values:
        attributes.append({"key": "gen_ai.usage.completion_tokens", "value": {"intValue": str(values["output"])}})
    return {"name": "llm_request", "startTimeUnixNano": str(start), "attributes": attributes}


def otlp(*spans):
    """A document of OTLP JSON."""
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}


@pytest.fixture
def listed(tmp_path):
    """A function that reads a text and returns the requests by their ids."""

    def read(text):
        path = tmp_path / "server.log"
        path.write_text(text)
        log = read_requests(str(path))
        return {each.name: each for each in log.requests}, log

    return read


def test_lines_of_vllm_of_two_processes(listed):
    found, log = listed(
        vllm(1, "Received request a: params: SamplingParams(n=1), lora_request: None.")
        + vllm(2, "Received request b: prompt: 'INFO 05-14 06:27:59 [x.py:1] Finished request a.', params: None")
        + vllm(2, "Added request a.")
        + vllm(3, "Sequence group b is preempted by PreemptionMode.RECOMPUTE mode", "", "WARNING")
        + vllm(4, "Generated response a (streaming delta): output: 'x', finish_reason: None")
        + vllm(5, "Generated response a (streaming delta): output: 'x', finish_reason: None")
        + vllm(
            7, "Generated response a (streaming complete): output: 'xx', output_token_ids: None, finish_reason: stop"
        )
        + vllm(8, "Avg prompt throughput: 49.7 tokens/s, Running: 2 reqs, Waiting: 1 reqs, GPU KV cache usage: 0.1%")
        + vllm(9, "Received request a: params: None")
    )
    assert [each.name for each in log.requests] == ["a", "a", "b"]
    first = log.requests[0]
    assert (first.first_token, first.total, first.reason) == (3_000_000_000, 6_000_000_000, "stop")
    assert (found["b"].preempted, found["b"].reason, found["a"].reason) == (1, None, None)
    assert log.has_seconds
    assert any("At most 2 ran and 1 waited" in note for note in log.notes)


def test_old_lines_of_vllm(listed):
    lines = "INFO 07-25 04:04:00 logger.py:37] Received request e1: prompt: 'x', params: None\n"
    lines += 'INFO 07-25 04:04:04 async_llm_engine.py:124] Finished request e1.\nINFO: 1.2.3.4 - "POST /" 200 OK\n'
    assert listed(lines)[0]["e1"].total == 4_000_000_000


def test_time_stats_of_sglang_of_both_forms(listed):
    found, _ = listed(
        stats("u", 1.5, 100, 1790000000.5)
        + "Req Time Stats(rid=o, input len=38, output len=484, type=unified): queue_duration=2.00ms, "
        "forward_duration=1759654443392.38ms, start_time=123.4\n"
        + stats("p", 3, 40, 1790000001, "prefill", "bootstrap_queue_duration(2.00ms) = bootstrap(1.00ms); ")
        + stats("p", 7, 900, 1790000002, "decode", "transfer_duration=1.00ms; ")
    )
    each = found["u"]
    assert (each.queue, each.total, each.arrival) == (1_500_000, 101_500_000, 1_790_000_000_500_000_000)
    assert (each.prompt, each.cached, each.output) == (1000, 900, 50)
    assert (found["o"].queue, found["o"].total, found["o"].arrival, found["o"].output) == (2_000_000, None, None, 484)
    assert (found["p"].queue, found["p"].prefill, found["p"].decode) == (3_000_000, 40_000_000, 900_000_000)


def test_the_end_of_a_request_of_sglang_as_text_and_as_json(listed):
    meta = {"prompt_tokens": 32, "total_retractions": 2, "queue_time": 0.5, "completion_tokens": 21, "e2e_latency": 2.5,
            "request_received_ts": 1790000000.0, "forward_entry_time": 1790000000.5,
            "prefill_finished_time": 1790000000.75, "request_finished_ts": 1790000002.5}  # fmt: skip
    line = {"event": "request.finished", "rid": "j", "out": {"meta_info": {**meta, "finish_reason": {"type": "stop"}}}}
    spoof = "Finish: obj= 'meta_info': {'id': 'evil', 'e2e_latency': 9} ReqTimeStats(rid=evil, ): "
    found, log = listed(finish("t", spoof, **meta) + json.dumps(line) + "\n")
    for name, reason in (("t", "length"), ("j", "stop")):
        each = found[name]
        assert (each.queue, each.prefill, each.first_token) == (500_000_000, 250_000_000, 750_000_000)
        assert (each.decode, each.total, each.preempted) == (1_750_000_000, 2_500_000_000, 2)
        assert (each.prompt, each.output, each.reason) == (32, 21, reason)
    assert set(found) == {"t", "j"}
    assert log.producer == "SGLang"


def test_tokens_of_vllm_are_the_lengths_of_its_lists(listed):
    spoof = "prompt: 'output_token_ids: [1, 2], finish_reason: x, prompt_token_ids: [7], Avg prompt throughput: 1'"
    tail = "prompt_embeds shape: None, lora_request: None"
    answers = (
        ("old", "output: 'prompt_token_ids: [1]', output_token_ids: [8, 9], finish_reason: stop"),
        ("new (streaming delta)", "output: 'a', output_token_ids: [8], finish_reason: None"),
        ("new (streaming delta)", "output: 'b', output_token_ids: [8, 9], finish_reason: None"),
        ("new (streaming complete)", "output: 'ab', output_token_ids: None, finish_reason: stop"),
    )
    _, log = listed(
        vllm(1, f"Received request old: {spoof}, params: None, prompt_token_ids: [5, 6, 7], {tail}.")
        + vllm(2, f"Request new details: {spoof}, prompt_token_ids: [1, 2, 3, 4], prompt_embeds shape: None.")
        + vllm(2, "Received request new: params: None, lora_request: None.")
        + "".join(vllm(3, f"Generated response {name}: {about}") for name, about in answers)
        + vllm(6, "Received request none: prompt: None, params: None, prompt_token_ids: None, lora_request: None.")
        + vllm(7, "Received request empty: prompt: '', params: None, prompt_token_ids: [], lora_request: None.")
    )
    assert [(each.name, each.prompt, each.output) for each in log.requests] == [
        ("old", 3, 2), ("new", 4, 3), ("none", None, None), ("empty", 0, None),
    ]  # fmt: skip
    assert any("--max-log-len" in note for note in log.notes)
    assert not any("--max-log-len" in note for note in listed(vllm(1, "Received request a: params: x"))[1].notes)


def test_a_list_of_tokens_whose_middle_is_not_read_is_not_counted(listed, monkeypatch):
    monkeypatch.setattr(request_logs, "MAX_LINE", 1 << 18)
    ids = ", ".join(["1"] * 200_000)
    found, _ = listed(vllm(1, f"Received request a: prompt: None, params: None, prompt_token_ids: [{ids}]."))
    assert found["a"].prompt is None


def test_of_several_spans_of_a_request_the_one_that_ends_last_is_kept(listed):
    late = span("a", EPOCH + 5, total=2.0, output=7) | {"endTimeUnixNano": str(EPOCH + 2 * 10**9), "spanId": "2"}
    early = span("a", EPOCH, queue=0.5, total=1.0) | {"endTimeUnixNano": str(EPOCH + 10**9), "spanId": "1"}
    for spans in ((late, early), (early, late), (late, late, early)):
        found, log = listed("\n".join(json.dumps(otlp(each)) for each in (*spans, span("b", EPOCH, total=1.0))))
        each = found["a"]
        assert (each.arrival, each.queue, each.total, each.output) == (EPOCH + 5, None, 2 * 10**9, 7)
        assert "2 spans have the ids of 1 request: of those of one id the span that ends last is kept." in log.notes
    # Sent twice, it is one span.
    assert not any("span" in note for note in listed(json.dumps(otlp(late, late)))[1].notes)


def test_lines_that_are_read_as_events_are_counted(listed):
    lines = (
        vllm(1, "Received request a: params: x") + "\n" + vllm(2, "Starting \x1b[31m") + "Traceback:\n" + '{"x": 1}\n'
    )
    assert listed(lines)[1].notes[0] == "1 of 4 lines were read as events, 3 not understood."
    lines = stats("s", 1, 2, 1790000000) + finish("t") + json.dumps(otlp(span("x", EPOCH, total=1.0))) + "\n"
    assert listed(lines)[1].notes[0] == "All of 3 lines were read as events."
    # One document has no lines of its own.
    assert listed(json.dumps(otlp(span("x", EPOCH, total=1.0)), indent=1))[1].notes == ()


@pytest.mark.parametrize("form", ["lines", "pretty", "one", "list"])
def test_spans_of_opentelemetry(listed, form):
    documents = [
        otlp(span(f"r{n}", EPOCH + n, queue=0.1, first=0.3, decode=1.0, total=1.3, output=11)) for n in range(3)
    ]
    documents[1]["resourceSpans"][0]["scopeSpans"][0]["spans"].append({"name": "worker", "attributes": []})
    if form == "lines":
        text = "\n".join(map(json.dumps, documents))
    elif form == "list":
        text = json.dumps(documents)
    else:
        whole = {"resourceSpans": [each for one in documents for each in one["resourceSpans"]]}
        text = json.dumps(whole, indent=2 if form == "pretty" else None)
    found, log = listed(text)
    assert [*found] == ["r0", "r1", "r2"]
    assert (found["r1"].arrival, found["r1"].first_token, found["r1"].output) == (EPOCH + 1, 300_000_000, 11)
    assert log.producer == "OpenTelemetry"


def test_odd_values_are_none(listed):
    bad = span("x", EPOCH, queue=-1.0, first=1e300, total="2.5", decode=True)
    bad["attributes"] += [{"key": 3}, {"key": "gen_ai.usage.prompt_tokens", "value": {"intValue": []}}, 7]
    bad["endTimeUnixNano"] = {"a": 1}
    each = listed(json.dumps(otlp(bad, "x", {"attributes": "y"})))[0]["x"]
    assert (each.queue, each.first_token, each.decode, each.prompt) == (None, None, None, None)
    assert each.total == 2_500_000_000


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello\n",
        '{"a": 1}',
        '{"resourceSpans": [',
        "[" * 5000,
        '{"resourceSpans":' * 3000,
        "\0" * 100,
        '{"event": "x"}',
    ],
)
def test_what_holds_no_request_ends_in_a_sentence(listed, text):
    with pytest.raises(TraceError) as caught:
        listed(text)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


def test_long_lines_keep_their_ends(listed, monkeypatch):
    monkeypatch.setattr(request_logs, "MAX_LINE", 1 << 20)
    found, log = listed(finish("long", "x" * (3 << 20), e2e_latency=1.5) + stats("s", 1, 2, 1790000000))
    assert found["long"].total == 1_500_000_000
    assert found["s"].queue == 1_000_000
    assert any("only the ends" in note for note in log.notes)


def test_no_more_requests_than_a_limit_are_held(listed, monkeypatch):
    monkeypatch.setattr(request_logs, "MAX_REQUESTS", 5)
    found, log = listed("".join(stats(f"r{n}", 1, 2, 1790000000) for n in range(9)))
    assert len(found) == 5
    assert any("4 mentions are left out" in note for note in log.notes)


def serving_trace(path, steps, base=EPOCH):
    """Write a trace with steps of a server, given their starts and lengths in us."""
    events = [
        {"ph": "X", "cat": "user_annotation", "name": name, "pid": 1, "tid": 1, "ts": start, "dur": length}
        for name, start, length in steps
    ]
    path.write_text(json.dumps({"schemaVersion": 1, "baseTimeNanoseconds": base, "traceEvents": events}))
    return str(path)


def decode_steps(count):
    """Decode steps of 800 us, one in a millisecond."""
    return [("execute_context_0(0)_generation_2(2)", 1000 * n, 800) for n in range(count)]


def test_steps_are_joined_by_the_time_of_day(tmp_path):
    path = serving_trace(tmp_path / "t.json", decode_steps(100))
    rng = random.Random(3)
    spans, truth = [], {}
    for n in range(40):
        start, queue, total = rng.randrange(-20_000, 120_000), rng.randrange(0, 5000), rng.randrange(5000, 40_000)
        spans.append(span(f"r{n}", EPOCH + start * 1000, queue=queue / 1e6, total=total / 1e6))
        low, high = start + queue, start + total
        truth[f"r{n}"] = [k for k in range(100) if 1000 * k < high and 1000 * k + 800 > low]
    (tmp_path / "spans.json").write_text(json.dumps(otlp(*spans)))
    trace = tracetui.load(path, requests=tmp_path / "spans.json")
    table = trace.requests
    numbers = trace.steps["step"].values
    for row in range(len(table)):
        steps = truth[str(table["request"].cell(row))]
        assert table["steps"].cell(row) == len(steps)
        assert table["first_step"].cell(row) == (numbers[steps[0]] if steps else None)
        assert table["last_step"].cell(row) == (numbers[steps[-1]] if steps else None)


def test_steps_are_joined_by_ids_in_annotations_before_the_time_of_day(tmp_path):
    steps = decode_steps(10)
    steps += [("batch req-aaaa,req-bbbb", 1010, 50), ("batch req-aaaa", 4010, 50), ("batch req-aaaa", 4100, 50)]
    path = serving_trace(tmp_path / "t.json", steps)
    (tmp_path / "spans.json").write_text(
        json.dumps(otlp(span("req-aaaa", 5, total=1.0), span("req-bbbb", 5, total=1.0)))
    )
    table = tracetui.load(path, requests=tmp_path / "spans.json", cache=False).requests
    assert table["steps"].values.tolist() == [2, 1]
    assert "by ids in names" in table.note


def test_what_cannot_be_joined_is_told(tmp_path):
    path = serving_trace(tmp_path / "t.json", decode_steps(3), 0)
    (tmp_path / "spans.json").write_text(json.dumps(otlp(span("a1", EPOCH, total=1.0))))
    table = tracetui.load(path, requests=tmp_path / "spans.json", cache=False).requests
    assert "the trace has no time of day" in table.note
    assert table["steps"].cell(0) is None
    other = serving_trace(tmp_path / "u.json", decode_steps(3), EPOCH + 10**15)
    assert (
        "another run, host or zone" in tracetui.load(other, requests=tmp_path / "spans.json", cache=False).requests.note
    )


def test_percentiles_are_in_a_sentence(tmp_path):
    path = serving_trace(tmp_path / "t.json", decode_steps(3))
    first = [0.001 * n for n in range(1, 102)]
    (tmp_path / "s.json").write_text(json.dumps(otlp(*(span(f"r{n}", EPOCH, first=t) for n, t in enumerate(first)))))
    note = tracetui.load(path, requests=tmp_path / "s.json", cache=False).requests.note
    p50, p90, p99 = (quantiles(first, n=100, method="inclusive")[rank - 1] * 1000 for rank in (50, 90, 99))
    assert f"Time to first token: p50 {p50:.2f} ms, p90 {p90:.2f} ms, p99 {p99:.2f} ms." in note


def test_the_only_file_beside_a_trace_is_read_and_of_two_none(tmp_path, capsys):
    path = serving_trace(tmp_path / "t.json", decode_steps(3))
    assert len(tracetui.load(path, cache=False).requests) == 0
    assert "A trace alone knows" in PANES["requests"].build(tracetui.load(path, cache=False)).note
    (tmp_path / "other.log").write_text("nothing of a server\n")
    (tmp_path / "a.log").write_text(stats("u", 1.5, 100, 1790000000.5))
    assert len(tracetui.load(path, cache=False).requests) == 1
    assert len(tracetui.load(path, cache=False, requests="none").requests) == 0
    (tmp_path / "b.log").write_text(stats("v", 1.5, 100, 1790000000.5))
    assert main(["show", "requests", path, "--no-cache"]) == 0
    assert "a.log and b.log beside the trace" in capsys.readouterr().err
    assert main(["show", "requests", path, "--no-cache", "--requests", str(tmp_path / "b.log"), "--format", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("v,")
    assert main(["show", "requests", path, "--requests", str(tmp_path / "other.log")]) == 1


def test_escapes_of_a_log_stay_data(tmp_path, capsys):
    path = serving_trace(tmp_path / "t.json", decode_steps(3))
    (tmp_path / "s.log").write_text(stats("\x1b[2Jx", 1.5, 100, 1790000000.5) + vllm(1, "Received request \x07b: x"))
    assert main(["show", "requests", path, "--no-cache", "--requests", str(tmp_path / "s.log")]) == 0
    out = capsys.readouterr()
    assert not any(letter in out.out + out.err for letter in "\x1b\x07")


LINES_OF_EVENTS = (
    r"Request \S+ details:", "Received request", "Added request", "streaming delta", "streaming complete",
    r"Generated response \S+:", "Finished request", "Aborted request", "is preempted", "Avg prompt", "Receive: obj=",
    "Prefill batch", "Decode batch", "Retract requests", r"ReqTimeStats\(", r"Req Time Stats\(", "Finish: obj=",
    "request.received", "request.finished", "resourceSpans",
)  # fmt: skip
"""Patterns of the events that are read."""


def test_each_line_of_the_documentation_is_read_as_an_event(listed):
    section = (ROOT / "docs/text.md").read_text().partition("### Requests")[2].partition("\n## ")[0]
    lines = "".join(re.findall(r"```text\n(.*?)```", section, re.DOTALL)).splitlines(keepends=True)
    for line in lines:
        assert is_request_log(line.encode()) or "Receive:" in line or "Retract" in line, line
    for pattern in LINES_OF_EVENTS:
        assert any(re.search(pattern, line) for line in lines), pattern
    found, log = listed("".join(lines))
    assert log.notes[0] == f"All of {len(lines)} lines were read as events."
    assert log.producer == "vLLM, SGLang, OpenTelemetry"
    assert any("At most 3 ran and 2 waited" in note for note in log.notes)
    assert (found["chatcmpl-1"].prompt, found["chatcmpl-1"].output, found["chatcmpl-1"].first_token) == (2, 1, 10**9)
    assert [found[name].reason for name in ("cmpl-2", "cmpl-3", "cmpl-4", "cmpl-5", "r3", "cmpl-6")] == [
        "length", "finished", "abort", None, "stop", "finished",
    ]  # fmt: skip
    for field in Request.__slots__:
        assert any(getattr(each, field) is not None for each in log.requests), field


WHOLE = (
    vllm(1, "Received request a: params: x") + vllm(2, "Generated response a: output: 'x', finish_reason: stop")
    + stats("u", 1.5, 100, 1790000000.5) + finish("t", e2e_latency=1.5, queue_time=0.1)
    + json.dumps(otlp(span("x", EPOCH, queue=0.1, first=0.3, decode=1.0, total=1.3, output=11))) + "\n"
).encode()  # fmt: skip


@given(
    st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.binary(max_size=3)), max_size=5),
    st.integers(0, len(WHOLE)),
    st.integers(0, len(WHOLE)),
)
def test_damaged_logs_are_read_or_refused(tmp_path_factory, changes, low, high):
    data = bytearray(WHOLE)
    for at, new in changes:
        data[at : at + 1] = new
    path = tmp_path_factory.mktemp("log") / "x.log"
    path.write_bytes(data[min(low, high) :] if low % 2 else data[: max(low, high)])
    is_request_log(bytes(data))
    try:
        log = read_requests(str(path))
    except TraceError as error:
        assert "\n" not in str(error)
        return
    for each in log.requests:
        values = [each.arrival, each.queue, each.prefill, each.first_token, each.decode, each.total, each.output]
        assert all(value is None or 0 <= value < 1 << 62 for value in values)


def test_what_a_line_repeats_takes_no_time_that_grows_with_its_square(listed):
    text = (
        "Decode batch, #" * 60_000 + "ReqTimeStats(rid=a, " * 60_000 + "INFO 05-14 06:27:01 [x.py:1] Received request ,"
    )
    with pytest.raises(TraceError):
        listed(text * 2)
