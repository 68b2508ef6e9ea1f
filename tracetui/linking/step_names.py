"""The names of steps: the framework's family, the kind of the step, and the number of its requests and tokens.

Names are those that vLLM, SGLang, ATOM, TensorRT-LLM and xDiT give to the annotation around each of their steps
(R3.75).
Builds append other fields to the numbers: a name with a known beginning and end is read as far as it is known.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tracetui.frozen import frozen

KINDS = ("prefill", "decode", "mixed", "verify", "draft", "idle", "dummy", "diffusion", "unknown")
"""Kinds of steps of a server; `verify` and `draft` are the two halves of speculative decoding."""
NOT_AVERAGED = ("idle", "dummy")
"""Kinds of steps that averages leave out: they serve no request."""


_PADDED = re.compile(r"\bbs=\d{1,15}/(\d{1,15})\b")
Facts = tuple[str | None, int | None, int | None, int | None]
"""Kind, requests, tokens, and tokens generated."""


@frozen(eq=True)
class StepName:
    """The contents of one name; None where it does not say."""

    family: str
    """Common part of the names of one framework's steps, as `--steps-by` takes it."""
    kind: str | None = None
    requests: int | None = None
    tokens: int | None = None
    """Tokens that go into the model."""
    generated: int | None = None
    """Tokens that come out of it for requests in generation, one each; None where there may be more."""
    context: int | None = None
    """Tokens in the KV cache of its requests, those of the step included, summed over the requests."""
    pairs: int | None = None
    """Pairs of a query and a key or value that causal attention computes, summed over the requests."""

    @property
    def facts(self) -> int:
        """The number of known values among kind, requests and tokens."""
        return sum(fact is not None for fact in (self.kind, self.requests, self.tokens))


@frozen(eq=True)
class StepFamily:
    """A family of names."""

    name: str
    pattern: re.Pattern[str]
    read: Callable[[re.Match[str]], Facts]
    """Kind, requests, tokens, and tokens generated, of a match."""
    pattern_words: str
    """Form of such names, for a sentence."""


def step_name(name: str) -> StepName | None:
    """Parse the name of an annotation around a step; None for a name that marks no step."""
    for family in FAMILIES:
        match = family.pattern.match(name)
        if match:
            return StepName(family.name, *family.read(match), *attended(name))
    return None


_ATTENDED = re.compile(r"(?:(?<=[\s(_\d])|\b)(sqsq|sqsk|sq|sk)=?(\d{1,15})(?!\d)")


def attended(name: str) -> tuple[int | None, int | None]:
    """Context and pairs of a name, None where it does not say.

    It has sums over its requests: new tokens (`sq`), tokens in the KV cache (`sk`), and their squares (`sqsq`, `sqsk`).

    The query at place i of the new ones sees all but the later of them: sk - sq + i keys.
    """
    sums = {"sq": 0, "sk": 0, "sqsq": 0, "sqsk": 0}
    seen = dict.fromkeys(sums, 0)
    for field, digits in _ATTENDED.findall(name):
        sums[field] += int(digits)
        seen[field] += 1
    if not seen["sk"] or not sums["sk"]:
        return None, None
    pairs = sums["sqsk"] - (sums["sqsq"] - sums["sq"]) // 2
    return sums["sk"], pairs if len(set(seen.values())) == 1 and pairs > 0 else None


def padded_batch(name: str) -> int | None:
    """The batch to which a step was padded, where its name says so: 128 of `decode[bs=117/128 tok=117]`."""
    match = _PADDED.search(name)
    return int(match[1]) if match and step_name(name) else None


def pattern_words(family: str) -> str:
    """The form of the names of a family, for a sentence; an unknown family as it is."""
    return next((each.pattern_words for each in FAMILIES if each.name == family), f"`{family}`")


def kind_of(context: int, generation: int) -> str:
    """The kind of a step by its requests in the prompt and in generation."""
    if context and generation:
        return "mixed"
    return "prefill" if context else "decode" if generation else "idle"


FORWARD = "gpu_model_runner: forward"
"""The part of vLLM's step that runs the model (`VLLM_CUSTOM_SCOPES_FOR_PROFILING`), a step where none is named."""
_DIGITS = r"(\d{1,15})(?!\d)"


def _number(pattern: str, text: str) -> int | None:
    match = re.search(pattern, text)
    return int(match[1]) if match else None


def _tokens(text: str | None) -> int | None:
    """The tokens in the brackets behind a count: `sq` where fields are named, else the first number."""
    if text is None:
        return None
    named = _number(rf"\bsq{_DIGITS}", text)
    return _number(_DIGITS, text) if named is None else named


def _generated(kind: str | None, requests: int | None, tokens: int | None) -> int | None:
    """Tokens that a step generates, by its kind, requests and input tokens: one for each request in a plain decode."""
    if kind == "decode":
        return requests if tokens in (None, requests) else None
    return 0 if kind in ("prefill", *NOT_AVERAGED) else None


def _context_and_generation(match: re.Match[str]) -> Facts:
    """vLLM: `execute_context_1(512)_generation_31(31)`, with the tokens of both in front where detailed."""
    context, generation = int(match["context"]), int(match["generation"])
    decoded = _tokens(match["in_generation"]) if generation else 0
    prompt = _tokens(match["in_context"]) if context else 0
    tokens = None if prompt is None or decoded is None else prompt + decoded
    generated = generation if decoded == generation else None
    total = int(match["total"]) if match["total"] else None
    return kind_of(context, generation), context + generation, total if tokens is None else tokens, generated


def _new_and_cached(match: re.Match[str]) -> Facts:
    """vLLM of 2025: a request seen before may still be in its prefill."""
    new, cached = int(match["new"]), int(match["cached"])
    kind = None if not new and cached else "mixed" if new and cached else "prefill" if new else "idle"
    return kind, new + cached, None, None if cached else 0


_MODES = {
    "EXTEND": "prefill",
    "PREFILL": "prefill",
    "SPLIT_PREFILL": "prefill",
    "CONTEXT": "prefill",
    "DECODE": "decode",
    "GENERATION": "decode",
    "MIXED": "mixed",
    "IDLE": "idle",
    "DUMMY_FIRST": "dummy",
}


def _kind_of_mode(mode: str) -> str | None:
    mode = mode.upper()
    if mode in _MODES:
        return _MODES[mode]
    if mode.startswith("DRAFT"):
        return "draft"
    if mode.startswith("DUMMY"):
        return "dummy"
    return "verify" if "VERIFY" in mode.split("_") else None


def _bracketed_mode(match: re.Match[str]) -> Facts:
    """SGLang: `step[EXTEND bs=15 toks=15360]`; builds append more fields."""
    text = match["inside"]
    mode = re.match(r"\w+", text)
    kind = _kind_of_mode(mode[0]) if mode else None
    requests = _number(rf"\bbs={_DIGITS}", text)
    context, generation = _number(rf"\bctx[=_]{_DIGITS}", text), _number(rf"\bgen[=_]{_DIGITS}", text)
    if kind is None and context is not None and generation is not None:
        kind, requests = kind_of(context, generation), context + generation
    tokens = _number(rf"\btok(?:en)?s?={_DIGITS}", text)
    if tokens is None:
        parts = [_number(rf"\b{each}_sq={_DIGITS}", text) for each in "cg"]
        tokens = sum(part or 0 for part in parts) if any(part is not None for part in parts) else None
    if tokens is None and kind == "decode":
        tokens = requests
    generated = _number(rf"\bg={_DIGITS}", text) if kind == "mixed" else _generated(kind, requests, tokens)
    return kind, requests, tokens, generated


def _atom(match: re.Match[str]) -> Facts:
    """ATOM: `decode[bs=117/128 tok=117 d=117]`, requests by the padded batch."""
    mode = "dummy" if match["dummy"] else match["mode"]
    text = match["inside"]
    requests, tokens = _number(rf"\bbs={_DIGITS}", text), _number(rf"\btok(?:en)?s?={_DIGITS}", text)
    return mode, requests, tokens, _generated(mode, requests, tokens)


def _executor(match: re.Match[str]) -> Facts:
    """TensorRT-LLM: `[Executor] _forward_step 12: 1 ctx reqs, 3 gen reqs`."""
    context, generation = int(match["context"]), int(match["generation"])
    return kind_of(context, generation), context + generation, None, generation


FAMILIES = (
    StepFamily(
        "execute_context",
        re.compile(
            r"^execute_(?:(?P<total>\d{1,15})_)?context_(?P<context>\d{1,15})(?:\((?P<in_context>.*?)\))?"
            r"_generation_(?P<generation>\d{1,15})(?:\((?P<in_generation>.*)\))?$"
        ),
        _context_and_generation,
        "`execute_context_..`",
    ),
    StepFamily(
        "step[",
        re.compile(r"^step\[(?P<inside>[A-Za-z].*)\]$"),
        _bracketed_mode,
        "`step[..]`",
    ),
    StepFamily(
        "prefill[/decode[",
        re.compile(
            r"^(?P<dummy>dummy_)?(?P<mode>prefill|decode|mixed|verify|draft)\[(?P<inside>(?:\d+/\d+ )?bs=.*)\]$"
        ),
        _atom,
        "`prefill[..]` and `decode[..]`",
    ),
    StepFamily(
        "execute_new",
        re.compile(r"^execute_new_(?P<new>\d{1,15})_cached_(?P<cached>\d{1,15})$"),
        _new_and_cached,
        "`execute_new_.._cached_..`",
    ),
    StepFamily(
        "_forward_step",
        re.compile(
            r"^(?:\[Executor\] )?_forward_step \d+: (?P<context>\d{1,15}) ctx reqs?, (?P<generation>\d{1,15}) gen reqs?"
        ),
        _executor,
        "`_forward_step`",
    ),
    StepFamily(
        "execute_diffusion",
        re.compile(r"^execute_diffusion_(?P<batch>\d{1,15})(?:_.*)?$"),
        lambda match: ("diffusion", int(match["batch"]), None, None),
        "`execute_diffusion_..`",
    ),
    StepFamily(
        "scheduler.run_batch",
        re.compile(r"^scheduler\.run_batch$"),
        lambda match: (None, None, None, None),
        "`scheduler.run_batch`",
    ),
    StepFamily(
        FORWARD,
        re.compile(r"^gpu_model_runner: forward$"),
        lambda match: (None, None, None, None),
        "`gpu_model_runner: forward`",
    ),
)
"""The families, the most detailed first: of several that cover the same work the first is taken."""

CAPTURE = re.compile(r"^(capture_\d+_\w+|capture_graph_bs_\d+.*|CUDAGraphNode\.record \(dynamo_timed\))$")
"""Annotations around the recording of a graph: their launches do not run, so that they are no steps."""
