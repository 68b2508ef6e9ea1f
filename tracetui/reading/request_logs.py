"""Requests to an inference server in its log or in OTLP JSON: lines of vLLM and SGLang, spans with `gen_ai` attributes.

Formats after the sources: vLLM 0.4 to 0.26 (`entrypoints/logger.py`, `v1/metrics/loggers.py`, `tracing/`), SGLang of
September 2025 to July 2026 (`req_time_stats.py`, `request_logger.py`). A line is read by itself and by the id in it, so
that lines of several processes may alternate. Text of a user stands in such lines too: what is looked for has a fixed
place in front of it or behind it. No line is held beyond `MAX_LINE`, and no request beyond `MAX_REQUESTS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from math import nan
from typing import Any

import orjson

from tracetui.errors import NotATrace
from tracetui.model.quantities import counted
from tracetui.model.recorded import FIRST_WALL_NS, MAX_TIME_NS, Request, RequestLog
from tracetui.reading.source import Source, open_source

MAX_LINE = 1 << 23
"""Bytes of a line; of a longer one the beginning and the end are read."""
MAX_DOCUMENT = 1 << 25
"""Bytes of JSON that is one document in several lines, or in a longer one."""
MAX_REQUESTS = 100_000
MAX_SECONDS = 10_000_000
_ENDS = 1 << 16
"""Bytes of a long line that are read of its beginning, and of its end."""
_CHUNK = 1 << 18

_IS_JSON = re.compile(rb"\s*(?:\{|\[\s*[{\]])")
_VLLM = re.compile(
    r"(?:^|[ )\]])(?:INFO|WARNING|DEBUG) (\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(?:\.\d+)? "
    r"\[?[\w./-]{1,200}:\d{1,7}\]? (.*)",
    re.DOTALL,
)
_VLLM_EVENT = re.compile(
    r"(Received|Added|Finished|Aborted) request(?:\(s\))? ([^\s:,()]{1,200}?)(?:[.:]?(?:\s|$)|, )"
    r"|Generated response ([^\s:,()]{1,200})(?: \((streaming delta|streaming complete)\))?: "
    r"|Sequence group ([^\s:,()]{1,200}) is preempted "
    r"|Request ([^\s:,()]{1,200}) details: "
)
_TOKEN_LIST = re.compile(r"[\[(]([\d, ]*)[\])]")
_REASON = re.compile(r"finish_reason: (\w{1,40})\s*$")
_LOAD = re.compile(r"Avg prompt throughput: |(?:Decode|Prefill) batch.{0,40}?, #")
_RUNNING = re.compile(r"(?:Running: |#running-req: )(\d{1,9})")
_WAITING = re.compile(r"(?:Waiting: |Pending: |#queue-req: )(\d{1,9})")
_LOAD_CHARS = 2000
_STATS = re.compile(r"Req ?Time ?Stats\(rid='?([^\s,()']{1,200})'?, ([^()]{0,1000})\): (.{0,2000})", re.DOTALL)
_LENGTH = re.compile(r"(input|cached_input|output)[ _]len=(\d{1,12})")
_SPENT = re.compile(r"(queue|forward)_duration=(-?[\d.]{1,30})ms")
_ENTRY = re.compile(r"(?:entry_time|start_time|start)=(\d{1,12}\.\d{1,9})")
_RETRACTED = re.compile(r"Retract requests\. #retracted_reqs: (\d{1,9})")
_META = "'meta_info': {"
_META_PART = re.compile(r"'(\w{1,60})': (?:'([^']{0,200})'|\{'type': '(\w{1,40})'|(-?[\d.eE+]{1,40})(?=[,}]))")
_STAGES = {
    "gen_ai.latency.time_in_queue": "queue",
    "gen_ai.latency.time_in_model_prefill": "prefill",
    "gen_ai.latency.time_to_first_token": "first_token",
    "gen_ai.latency.time_in_model_decode": "decode",
    "gen_ai.latency.e2e": "total",
}
_TOKENS = {
    "gen_ai.usage.prompt_tokens": "prompt",
    "gen_ai.usage.input_tokens": "prompt",
    "gen_ai.usage.completion_tokens": "output",
    "gen_ai.usage.output_tokens": "output",
    "gen_ai.usage.cached_tokens": "cached",
}
_NAME = "gen_ai.request.id"


def is_request_log(start: bytes) -> bool:
    """Tell whether a file begins as one with requests does."""
    if _IS_JSON.match(start):
        return any(word in start for word in (b'"resourceSpans"', b'"request.finished"', b'"request.received"'))
    reader = _Reader()
    for line in start.splitlines():
        reader.add(line, False)
    return bool(reader.requests) or reader.load[0] >= 0


def read_requests(path: str, cancelled: Callable[[], bool] = lambda: False) -> RequestLog:
    """The requests in a file.

    Raises: TraceError for one that cannot be read, or holds none.
    """
    reader = _Reader()
    with closing(open_source(path, cancelled, takes=lambda _: True)) as source:
        document = _json(source.peek(MAX_DOCUMENT)) if _IS_JSON.match(source.peek(1 << 10)) else None
        if document is not None:
            reader.value(document)
        else:
            for line, is_long in _lines(source):
                if cancelled():
                    break
                reader.add(line, is_long)
        label, damage = source.label, source.damage
    if not reader.requests and reader.load[0] < 0:
        raise NotATrace(
            f"{label} names no request: it is no log of vLLM (--enable-log-requests) or SGLang "
            "(--enable-request-time-stats-logging, --log-requests) and no OTLP JSON with gen_ai attributes, or cut off."
        )
    return reader.log(label, damage)


def _lines(source: Source) -> Iterator[tuple[bytes, bool]]:
    """The lines of a file, and whether a line is longer than `MAX_LINE`: then its ends."""
    buffer, pending, is_long = memoryview(bytearray(_CHUNK)), bytearray(), False
    while count := source.readinto(buffer):
        parts = bytes(buffer[:count]).split(b"\n")
        for part in parts[:-1]:
            yield bytes(pending + part), is_long
            pending.clear()
            is_long = False
        pending += parts[-1]
        if len(pending) > MAX_LINE:
            pending, is_long = pending[:_ENDS] + b" " + pending[-_ENDS:], True
    if pending:
        yield bytes(pending), is_long


def _json(text: bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def _number(value: Any) -> float:
    """A number from 0 on, also one as text; NaN for everything else."""
    if isinstance(value, str) and len(value) < 40:
        with suppress(ValueError):
            value = float(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e19
    return float(value) if is_number else nan


def _nanoseconds(value: Any) -> int | None:
    """A duration in seconds in ns; None for what is none, or cannot be true."""
    return round(number * 1e9) if (number := _number(value)) < MAX_SECONDS else None


def _count(value: Any) -> int | None:
    return int(number) if (number := _number(value)) < 1 << 50 else None


def _moment(value: Any) -> int | None:
    """A time of day in seconds, or in whole ns, as ns since 1970; None for times of other clocks."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    # A double holds such seconds to a quarter of a microsecond.
    number = value if isinstance(value, int) and value >= FIRST_WALL_NS else _number(value) * 1e6
    if isinstance(number, float):
        number = round(number) * 1000 if number < MAX_TIME_NS else 0
    return number if FIRST_WALL_NS <= number < MAX_TIME_NS else None


def _list_length(message: str, key: str) -> int | None:
    """The length of the list of tokens behind the last mention of a key, which no text of a user follows."""
    at = message.rfind(key)
    listed = _TOKEN_LIST.match(message, at + len(key)) if at >= 0 else None
    return None if listed is None else listed[1].count(",") + 1 if listed[1].strip() else 0


class _Reader:
    """Takes in lines and objects, and gathers what they say of each request."""

    def __init__(self) -> None:
        self.requests: dict[str, Request] = {}
        """The last request by its id, in order of their first mention."""
        self.ended: list[Request] = []
        """Earlier requests of ids that came again."""
        self.load = -1, -1
        """Largest number of requests that ran, and that waited, as lines about batches say; -1 without such a line."""
        self._lines = self._events = 0
        """Lines that are not empty, and those of them that were read as events."""
        self._load_lines = self._retracted = self._left_out = self._long = self._bad_json = 0
        self._begins: dict[str, datetime] = {}
        self._spans: dict[str, tuple[int, Any]] = {}
        """Of each request the end of the span that is kept (ns since 1970, 0 where it is not known), and its id."""
        self._doubled: dict[str, int] = {}
        """Spans that came beside the first one of a request."""
        self._producers: dict[str, None] = {}
        self._has_seconds = self._has_preemptions = self._has_lists = False

    def add(self, line: bytes, is_long: bool) -> None:
        """Take in a line."""
        self._long += is_long
        self._lines += bool(line.strip())
        if _IS_JSON.match(line) and not is_long:
            document = _json(line)
            self._bad_json += document is None
            self._events += self.value(document)
        else:
            self._events += self.line(line.decode("utf-8", "replace"), is_long)

    def value(self, document: Any) -> bool:
        """Take in a document of JSON; False where nothing in it is of a request."""
        is_event = False
        for each in document if isinstance(document, list) else [document]:
            if not isinstance(each, dict):
                continue
            if each.get("event") == "request.finished":
                out = each.get("out")
                meta = out.get("meta_info") if isinstance(out, dict) else None
                is_event |= self._finished(each.get("rid"), meta if isinstance(meta, dict) else {})
            elif each.get("event") == "request.received" and isinstance(name := each.get("rid"), str):
                self._request(name, "SGLang")
                is_event = True
            for resource in _objects(each, "resourceSpans"):
                for scope in _objects(resource, "scopeSpans"):
                    for span in _objects(scope, "spans"):
                        is_event |= self._span(span)
        return is_event

    def line(self, text: str, is_long: bool = False) -> bool:
        """Take in a line of a log; False where it is not understood."""
        if "Finish: obj=" in text:
            at = text.rfind(_META)
            parts = _META_PART.findall(text[at + len(_META) :]) if at >= 0 else []
            meta = {key: word or kind or number for key, word, kind, number in reversed(parts)}
            return self._finished(meta.get("id"), meta)
        if header := _VLLM.search(text):
            return self._vllm(header, is_long)
        if "Receive: obj=" in text:
            return True
        if stats := _STATS.search(text):
            self._sglang(*stats.groups())
            return True
        if load := _LOAD.search(text):
            return self._load(text[load.start() :], "SGLang")
        if retracted := _RETRACTED.search(text):
            self._retracted += int(retracted[1])
            return True
        return False

    def _load(self, text: str, producer: str) -> bool:
        running, waiting = _RUNNING.search(text, 0, _LOAD_CHARS), _WAITING.search(text, 0, _LOAD_CHARS)
        if not running or not waiting:
            return False
        self._producers[producer] = None
        self._load_lines += 1
        self.load = max(self.load[0], int(running[1])), max(self.load[1], int(waiting[1]))
        return True

    def _request(self, name: str, producer: str, is_new: bool = False) -> Request | None:
        """The request with an id; None where there are too many."""
        name = name[:200]
        known = self.requests.get(name)
        if known is not None and not is_new:
            return known
        if len(self.requests) + len(self.ended) >= MAX_REQUESTS:
            self._left_out += 1
            return None
        if known is not None:
            self.ended.append(known)
        self._producers[producer] = None
        request = self.requests[name] = Request(name)
        return request

    def _vllm(self, header: re.Match[str], is_long: bool) -> bool:
        *date, message = header.groups()
        event = _VLLM_EVENT.match(message)
        if event is None:
            return bool(_LOAD.search(message)) and self._load(message, "vLLM")
        what, named, answered, streaming, preempted, detailed = event.groups()
        name = named or answered or preempted or detailed
        try:
            month, day, hour, minute, second = map(int, date)
            # The year is not there; this one has all days.
            now = datetime(2000, month, day, hour, minute, second, tzinfo=UTC)
        except ValueError:
            return False
        # Details stand in front of the line that says that it was received.
        is_first = what == "Received" or detailed is not None or (what == "Added" and name not in self._begins)
        known = self.requests.get(name)
        request = self._request(name, "vLLM", is_first and known is not None and known.reason is not None)
        if request is None:
            return True
        if is_first:
            self._begins.setdefault(name, now) if request is known else self._begins.update({name: now})
        # Of a long line the middle is not there.
        tokens = None if is_long else _list_length(message, "prompt_token_ids: " if is_first else "output_token_ids: ")
        self._has_lists |= tokens is not None
        if is_first:
            request.prompt = request.prompt if tokens is None else tokens
        elif preempted:
            self._has_preemptions = True
            request.preempted = (request.preempted or 0) + 1
        elif what != "Added":
            if tokens is not None:
                # Each part of an answer, and each of several answers, lists its own.
                request.output = (request.output or 0) + tokens
            if request.reason is None:
                self._answered(request, now, message, "abort" if what == "Aborted" else streaming)
        return True

    def _answered(self, request: Request, now: datetime, message: str, kind: str | None) -> None:
        """Take in the time of a part of an answer of vLLM, or of an end."""
        begin = self._begins.get(request.name)
        took = int((now - begin).total_seconds()) * 10**9 if begin is not None and begin <= now else None
        self._has_seconds |= took is not None
        if kind == "streaming delta":
            request.first_token = took if request.first_token is None else request.first_token
            return
        request.total = took
        reason = _REASON.search(message)
        request.reason = reason[1] if reason else "abort" if kind == "abort" else "finished"

    def _sglang(self, name: str, about: str, spent: str) -> None:
        request = self._request(name, "SGLang")
        if request is None:
            return
        lengths = {key: int(number) for key, number in _LENGTH.findall(about)}
        kind = about.rpartition("type=")[2].lower()
        times = {key: _nanoseconds(number) for key, number in _SPENT.findall(spent)}
        queue, forward = (None if (time := times.get(key)) is None else time // 1000 for key in ("queue", "forward"))
        # A server that decodes what another one has prefilled waits once more.
        request.queue = queue if request.queue is None else request.queue
        request.prompt = lengths.get("input", request.prompt)
        request.cached = lengths.get("cached_input", request.cached)
        entry = _ENTRY.search(spent)
        if request.arrival is None and entry and kind != "decode":
            request.arrival = _moment(entry[1])
        if kind == "prefill":
            request.prefill = forward
            return
        request.output = lengths.get("output", request.output)
        request.reason = request.reason or "finished"
        if kind == "decode":
            request.decode = forward
        elif request.total is None and queue is not None and forward is not None:
            request.total = queue + forward

    def _finished(self, name: Any, meta: dict[str, Any]) -> bool:
        """Take in what SGLang says at the end of a request; False where it is not said of which."""
        if not isinstance(name, str) or not name:
            return False
        if (request := self._request(name, "SGLang")) is None:
            return True
        received, ended = _moment(meta.get("request_received_ts")), _moment(meta.get("request_finished_ts"))
        entered = _moment(meta.get("forward_entry_time"))
        done = _moment(meta.get("prefill_finished_time", meta.get("prefill_finished_ts")))
        request.arrival = received or request.arrival
        total = _nanoseconds(meta.get("e2e_latency"))
        request.total = request.total if total is None else total
        queue = _nanoseconds(meta.get("queue_time"))
        request.queue = request.queue if queue is None else queue
        if received and done and done >= received:
            request.first_token = done - received
        if entered and done and done >= entered:
            request.prefill = done - entered
        if done and ended and ended >= done:
            request.decode = ended - done
        for key, column in (
            ("prompt_tokens", "prompt"),
            ("completion_tokens", "output"),
            ("cached_tokens", "cached"),
            ("total_retractions", "preempted"),
        ):
            if (number := _count(meta.get(key))) is not None:
                setattr(request, column, number)
        reason = meta.get("finish_reason")
        reason = reason.get("type") if isinstance(reason, dict) else reason
        request.reason = reason[:40] if isinstance(reason, str) else request.reason or "finished"
        return True

    def _span(self, span: dict[str, Any]) -> bool:
        """Take in a span of OpenTelemetry; False where it is not one of a request.

        Of several spans of a request the one that ends last is kept; of those, the last in the file.
        """
        attributes: dict[str, Any] = {}
        for each in _objects(span, "attributes")[:1000]:
            value = each.get("value")
            if isinstance(key := each.get("key"), str) and isinstance(value, dict) and len(value) == 1:
                attributes[key] = next(iter(value.values()))
        if not any(key in attributes for key in _STAGES):
            return False
        name = attributes.get(_NAME)
        if not isinstance(name, str) or not name:
            name = f"span {span.get('spanId')}"
        if (request := self._request(name, "OpenTelemetry")) is None:
            return True
        start, end = (_moment(span.get(key)) for key in ("startTimeUnixNano", "endTimeUnixNano"))
        before, own = self._spans.get(request.name), (end or 0, span.get("spanId"))
        if before is not None:
            # An exporter that gets no answer sends a span again.
            if own != before or own[1] is None:
                self._doubled[request.name] = self._doubled.get(request.name, 0) + 1
            if own[0] < before[0]:
                return True
        self._spans[request.name] = own
        times = {column: _nanoseconds(attributes.get(key)) for key, column in _STAGES.items()}
        if times["total"] is None and start is not None and end is not None and end >= start:
            times["total"] = end - start
        tokens: dict[str, int | None] = dict.fromkeys(_TOKENS.values())
        for key, column in _TOKENS.items():
            tokens[column] = _count(attributes.get(key)) if key in attributes else tokens[column]
        for column, value in {"arrival": start, **times, **tokens}.items():
            if value is not None or before is not None:
                setattr(request, column, value)
        reason = attributes.get("gen_ai.response.finish_reason")
        request.reason = reason[:40] if isinstance(reason, str) else "finished"
        return True

    def log(self, label: str, damage: str | None) -> RequestLog:
        """Everything that was taken in."""
        notes = []
        if self._lines:
            lost = self._lines - self._events
            notes.append(
                f"{self._events:,} of {counted(self._lines, 'line')} were read as events, {lost:,} not understood."
                if lost
                else f"All of {counted(self._lines, 'line')} were read as events."
            )
        if self._doubled:
            several, spans = len(self._doubled), sum(self._doubled.values())
            notes.append(
                f"{counted(several + spans, 'span')} have the ids of {counted(several, 'request')}: of those of one id "
                "the span that ends last is kept."
            )
        if self._has_lists:
            notes.append("Tokens are counted in lists of vLLM, which --max-log-len cuts.")
        if self._load_lines:
            running, waiting = self.load
            lines = counted(self._load_lines, "line")
            notes.append(f"At most {running:,} ran and {waiting:,} waited at once, by {lines} about batches.")
        if self._retracted:
            notes.append(f"{counted(self._retracted, 'retraction')} of requests in all, whose ids the log lacks.")
        if self._has_preemptions:
            notes.append("vLLM logs some preemptions of many: there may be more.")
        if self._left_out:
            notes.append(f"More than {MAX_REQUESTS:,} requests are there: {self._left_out:,} mentions are left out.")
        if self._long:
            notes.append(f"Of {counted(self._long, 'line')} longer than {MAX_LINE >> 20} MiB only the ends were read.")
        if self._bad_json:
            notes.append(f"{counted(self._bad_json, 'line')} of JSON cannot be read, cut off or mixed up.")
        if damage:
            notes.append(f"The file is damaged: {damage}.")
        requests = (*self.ended, *self.requests.values())
        return RequestLog(label, ", ".join(self._producers), requests, tuple(notes), self._has_seconds)


def _objects(parent: dict[str, Any], key: str) -> list[dict[str, Any]]:
    listed = parent.get(key)
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
