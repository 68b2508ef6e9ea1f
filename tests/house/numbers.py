"""The same numbers: a digest of every table that tracetui makes of the traces at hand, kept in `numbers.json`.

    python -m tests.house.numbers compare    what differs from the committed digests; exit code 1 if anything does
    python -m tests.house.numbers write      after a change of numbers on purpose, which the commit tells
    ... --only d03                           only what has this in `TRACE PANE`; `write` leaves the others alone
    ... write --detail FILE                  before a change: also a full record, outside the checkout
    ... compare --detail FILE                which grouping, part and column differs from that record

A digest has two halves: numbers (keys, units, values, order of rows and columns, doubtful cells, the slices behind
rows, kinds of errors) and words (prose columns, notes, headlines, messages), so that a new wording is told from a new
number. Headings and help are in neither. An error is a result: a pane that begins or ceases to fail is seen.

Covered: every pane by every grouping of the whole trace and of one step, as rows and by its first grouping of the
middle third of the time; the JSON of every pane as `show` prints it; findings as text; the names of `check`; chosen
steps; another device where there are several; captures; comparisons of pairs, steps, ranges and several sides; sets of
ranks. Left out, for the time it takes: what `SKIPPED` names, and parts of the files in `COPIES`.
Floats count to nine digits, so that the last bit of a sum, which processors may round otherwise, changes nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import os
import re
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path
from unittest import mock

import numpy as np

from tests.support.paths import ROOT, SAMPLES, SHARED
from tracetui.cli.main import build_parser
from tracetui.errors import TracetuiError
from tracetui.model.intervals import TimeRange
from tracetui.model.table import Column, Table, TextKind
from tracetui.model.trace import Trace
from tracetui.opening.trace_opening import AS_RECORDED, OpenOptions, open_trace
from tracetui.panes import PANES

RECORD = Path(__file__).with_name("numbers.json")
FOLDERS = ("", "inference", "puzzlers", "pftrace", "edge", "crashes", "pairs")
"""Of the shared traces; ranks are read as sets."""
NO_TRACES = ("expected.json", "findings.json", "names.json", "families.json")
COPIES = ("edge/", "pftrace/")
"""Folders whose files are mostly copies of others in another form: of them no step, range or chosen step is asked."""
JSON_ROWS = "50"
"""Rows that are printed as JSON: how cells are written is seen in them, and the digest of the table has them all."""
SKIPPED = {
    ("crashes/equal_times.json", "modules by function"): "takes minutes: a thousand slices within each other",
}
"""Tables that cost too much, and why."""
TRACE_LINES = ("text", "check", "compare steps", "chosen steps", "device", "capture")
"""Of a trace beside its panes."""
DUPLICATES = ("pairs/hta_control.json.gz",)
"""Files that stand a second time among the traces; as sides they are read."""
CAPTURES = {"inference/i01_mi300x_vllm_decode_full_graph.json.gz": "inference/i01c_capture_bs32.json.gz"}
"""Traces of replayed graphs, and the file with their capture."""
STEP_PANES = ("steps", "kernels", "serving")
"""Panes that are built again with the steps that are offered first, else `auto`, where there are no profiler steps."""
DEVICE, DEVICE_PANES = "H100", ("summary", "kernels", "occupancy", "roofline")
"""A device that is named, and the panes that are built again with it."""
PAIRS = (
    ("pairs/xdit_flux_16384_tokens.json.gz", "pairs/xdit_flux_1024_tokens.json.gz"),
    ("pairs/hta_control.json.gz", "pairs/hta_test.json.gz"),
    ("d05a_a100_megatron_tp8_rank0.json", "d05b_a100_megatron_tp8_rank1.json"),
    ("d03_v100_2rank_5steps_mem_occ_nccl.json.gz", "pftrace/d03_v100_2rank_5steps_mem_occ_nccl.pftrace.gz"),
    (
        "d03_v100_2rank_5steps_mem_occ_nccl.json.gz#@100ms+200ms",
        "d03_v100_2rank_5steps_mem_occ_nccl.json.gz#@500ms+200ms",
    ),
    ("inference/i07_assembled_vllm_async_decode.json.gz", "inference/i01_mi300x_vllm_decode_full_graph.json.gz"),
    (
        "inference/i05_cpu_transformers_generate_stack.json.gz",
        "inference/i06_cpu_transformers_generate_no_stack.json.gz",
    ),
    ("puzzlers/fusion_mwe_trace.json.gz#split_stack", "puzzlers/fusion_mwe_trace.json.gz#combined"),
    ("sample_traces/mlp_eager_cpu.json.gz", "sample_traces/mlp_compile_cpu.json.gz"),
    ("sample_traces/attention_naive_cpu.json.gz", "sample_traces/attention_flash_cpu.json.gz"),
    ("sample_traces/linear_eager_cpu.json.gz", "sample_traces/linear_compile_cpu.json.gz"),
    ("sample_traces/split_stack_eager_cpu.json.gz", "sample_traces/combined_eager_cpu.json.gz"),
    ("sample_traces/matmul_add_64_cold_eager_cpu.json.gz", "sample_traces/matmul_add_64_cold_compile_cpu.json.gz"),
    ("sample_traces/mlp_train_cpu.json.gz", "sample_traces/mlp_eager_cpu.json.gz"),
    (
        "sample_traces/split_stack_eager_cpu.json.gz",
        "sample_traces/combined_eager_cpu.json.gz",
        "sample_traces/combined_compile_cpu.json.gz",
    ),
)
"""What is compared; of two sides all tables are, also with views unfolded, of more the one of totals."""
RANK_FILES = (("d05a_a100_megatron_tp8_rank0.json", "d05b_a100_megatron_tp8_rank1.json"),)
"""Sets of ranks that no folder holds, beside those in `ranks/`."""
RANK_TABLES = ("ranks", "collectives", "matrix", "groups", "steps", "files")
HEADINGS = {"heading", "help"}
"""Keys of JSON that no digest is of."""
PROSE = {
    *("note", "headline", "doubts", "statement", "title", "about", "remark", "advice", "evidence", "effect", "hint"),
    *("shares", "value", "verdict", "why", "cause_note"),
}
"""Keys of JSON whose texts are sentences; a number below them is a number."""
OPENED_AT_ONCE = 4
"""Traces that are kept open, for comparisons."""

Digest = tuple[bytes, bytes, dict[str, str]]
"""Numbers, words, and by column what differs there."""


def _hash(*parts: bytes, size: int = 5) -> bytes:
    state = hashlib.blake2b(digest_size=size)
    for part in parts:
        state.update(len(part).to_bytes(8, "little") + part)
    return state.digest()


def _text(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _column_content(column: Column) -> bytes:
    """The cells as bytes that are the same wherever they were worked out."""
    values = np.asarray(column.values)
    if column.strings is not None:
        used, index = np.unique(values, return_inverse=True)
        names = [_hash(_text(column.strings[int(each)]), size=8) if each >= 0 else bytes(8) for each in used.tolist()]
        content = np.frombuffer(b"".join(names), np.int64)[index].tobytes()
    elif values.dtype.kind == "f":
        # 32 bits of the mantissa, rounded; adding 0 makes one zero of two.
        bits = np.where(np.isnan(values), np.nan, values.astype("<f8") + 0.0).view("<i8")
        content = ((bits + (1 << 19)) >> 20).tobytes()
    else:
        content = values.astype("<i8").tobytes()
    kind = "t" if column.strings is not None else values.dtype.kind
    doubtful = b"" if column.doubtful is None or not column.doubtful.any() else np.packbits(column.doubtful).tobytes()
    return _hash(_text(kind), content, doubtful)


def table_digest(table: Table) -> Digest:
    """Numbers and words of a table."""
    numbers, words, by_column = [], [], {}
    for column in table.columns:
        content = _column_content(column)
        is_prose = column.spec.text in (TextKind.PROSE, TextKind.REMARK) and column.strings is not None
        numbers += [_text(f"{column.name} {column.unit}"), b"" if is_prose else content]
        words.append(content if is_prose else b"")
        by_column[column.name] = content.hex()
    slices = b"" if table.slices is None else table.slices.astype("<i8").tobytes()
    numbers += [slices, len(table).to_bytes(8, "little"), *(_text(" ".join(each)) for each in table.doubts.values())]
    words += [_text(each) for each in (table.note, table.headline, *table.doubts)]
    by_column["(slices)"] = _hash(slices).hex()
    return _hash(*numbers), _hash(*words, size=3), by_column


def document_digest(text: str, messages: str, code: int) -> Digest:
    """Numbers and words of a JSON document that a command printed, with its messages and exit code."""
    numbers: list[str] = [f"exit code {code}"]
    words: list[str] = [messages]
    by_key: dict[str, list[str]] = defaultdict(list)

    def walk(value: object, key: str, is_prose: bool) -> None:
        if isinstance(value, dict):
            numbers.append("{" + " ".join(each for each in value if each not in HEADINGS))
            for name, each in value.items():
                if name not in HEADINGS:
                    walk(each, name, is_prose or name in PROSE)
        elif isinstance(value, list):
            numbers.append(f"[{len(value) if not is_prose else ''}")
            for each in value:
                walk(each, key, is_prose)
        else:
            said = f"{value:.9g}" if isinstance(value, float) else json.dumps(value)
            (words if is_prose and isinstance(value, str) else numbers).append(said)
            by_key[key].append(said)

    walk(json.loads(text) if text else None, "", False)
    content = {key: _hash(_text("\n".join(each))).hex() for key, each in by_key.items()}
    return _hash(_text("\n".join(numbers))), _hash(_text("\n".join(words)), size=3), content


def prose_digest(text: str, messages: str, code: int) -> Digest:
    """The numerals of a text that a command printed, and its words."""
    numerals = " ".join(re.findall(r"\d[\d.,]*", text))
    return _hash(_text(f"{code} {numerals}")), _hash(_text(text + messages), size=3), {}


def _error_digest(error: Exception) -> Digest:
    """A crash counts by its type alone: its sentence may name files of the code."""
    kind = type(error).__name__
    said = str(error) if isinstance(error, TracetuiError) else ""
    return _hash(_text(kind)), _hash(_text(said), size=3), {"(error)": f"{kind}: {said}"[:200]}


def _attempt(make: Callable[[], Digest]) -> Digest:
    try:
        return make()
    except Exception as error:
        return _error_digest(error)


def _file(name: str) -> Path:
    return SAMPLES.parent / name if name.startswith("sample_traces/") else SHARED / name


def _word(name: str) -> str:
    """A file for a command, relative to the checkout, where commands run: some print what they were given."""
    return os.path.relpath(_file(name), ROOT)


_kept: dict[tuple[str, OpenOptions], Trace] = {}


def opened(path: str, options: OpenOptions = AS_RECORDED, *_: object) -> Trace:
    """The trace, which is read once for all that is asked of it in turn."""
    key = (os.path.realpath(path), options._replace(uses_cache=False))
    if key not in _kept:
        while len(_kept) >= OPENED_AT_ONCE:
            del _kept[next(iter(_kept))]
        _kept[key] = open_trace(key[0], key[1])
    return _kept[key]


def forget_opened() -> None:
    """Let go of the traces that are open, with all that is known of them."""
    _kept.clear()


@cache
def _parser() -> argparse.ArgumentParser:
    # It takes ten milliseconds to make, and there are thousands of commands.
    return build_parser()


def command(words: Sequence[str], digest: Callable[[str, str, int], Digest] = document_digest) -> Digest:
    """What a command prints; traces and sets of ranks that were read stay open for the next one."""
    out, messages = io.StringIO(), io.StringIO()
    with (
        mock.patch("tracetui.cli.inputs.open_trace", opened),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(messages),
    ):
        options = _parser().parse_args([*words, "--no-cache"])
        code = options.run(options)
    return digest(out.getvalue(), messages.getvalue(), code)


def _parts(unit: str, trace: Trace) -> Iterator[tuple[str, int | TimeRange | None]]:
    """Everything, the second step (the first is often cut), the middle third of the time."""
    yield "whole", None
    if unit.startswith(COPIES):
        return
    if numbers := _step_numbers(trace):
        yield "step", numbers[min(1, len(numbers) - 1)]
    low, high = trace.window
    third = (high - low) // 3
    yield "range", TimeRange(low + third, high - third)


def _step_numbers(trace: Trace) -> list[int]:
    try:
        return PANES["steps"].build(trace, None, None)["step"].values.tolist()
    except Exception:
        return []


def _tables(unit: str, trace: Trace, pane: str) -> Iterator[tuple[str, Digest]]:
    for by in ("", *PANES[pane].groups):
        name = f"{pane} by {by}" if by else pane
        if (unit, name) not in SKIPPED:
            for label, part in _parts(unit, trace):
                if label == "range" and by not in ("", *PANES[pane].groups[:1]):
                    continue
                make = partial(lambda part, by: table_digest(PANES[pane].build(trace, part, by)), part, by or None)
                yield f"{by or 'rows'}, {label}", _attempt(make)


def trace_digests(unit: str, wanted: Callable[[str], bool]) -> Iterator[tuple[str, str, Digest]]:
    """All of one trace: the line of the record, which of its parts, and the digest."""
    if not any(map(wanted, (*PANES, *TRACE_LINES))):
        return
    path = _word(unit)
    try:
        trace = opened(path)
    except Exception as error:
        yield "open", "", _error_digest(error)
        return
    for pane in filter(wanted, PANES):
        for label, digest in _tables(unit, trace, pane):
            yield pane, label, digest
        yield pane, "json", _attempt(partial(command, ["show", pane, path, "--format", "json", "--limit", JSON_ROWS]))
    if wanted("text"):
        yield "text", "findings", _attempt(lambda: command(["show", "findings", path], prose_digest))
    if wanted("check"):
        yield "check", "names", _attempt(lambda: command(["check", "--names", path, "--format", "json"]))
    if wanted("compare steps") and len(numbers := _step_numbers(trace)) > 1:
        scopes = [f"#{numbers[0]}", f"#{numbers[-1]}"]
        yield "compare steps", "json", _attempt(lambda: command(["compare", path, *scopes, "--format", "json"]))
    if wanted("chosen steps") and not unit.startswith(COPIES):
        for source in _step_sources(trace):
            yield from _rebuilt("chosen steps", path, OpenOptions(steps_by=source), STEP_PANES, source)
    if wanted("device") and len(trace.devices) > 1:
        yield from _rebuilt("device", path, OpenOptions(device=DEVICE), DEVICE_PANES)
    if wanted("capture") and unit in CAPTURES:
        options = OpenOptions(captures=(_word(CAPTURES[unit]),))
        yield from _rebuilt("capture", path, options, tuple(PANES), every_grouping=True)


def _step_sources(trace: Trace) -> list[str]:
    try:
        table = PANES["steps"].build(trace, None, "source")
    except Exception:
        return []
    names = [str(row["steps_by"]) for row in table.rows()]
    return [] if any(each.startswith("ProfilerStep") for each in names) else names[:1] or ["auto"]


def _rebuilt(
    line: str, path: str, options: OpenOptions, panes: Sequence[str], name: str = "", every_grouping: bool = False
) -> Iterator[tuple[str, str, Digest]]:
    """Panes of a trace that was opened with something said about it."""
    try:
        trace = opened(path, options)
    except Exception as error:
        yield line, f"{name} open", _error_digest(error)
        return
    for pane in panes:
        for by in ("", *PANES[pane].groups) if every_grouping else ("",):
            make = partial(lambda pane, by: table_digest(PANES[pane].build(trace, None, by)), pane, by or None)
            yield line, f"{name} {pane} {by}", _attempt(make)


def pair_digests(unit: str, wanted: Callable[[str], bool]) -> Iterator[tuple[str, str, Digest]]:
    """A comparison of two sides or more."""
    if not wanted("compare"):
        return
    sides = [_word(side) for side in unit.split(" ")]
    yield "compare", "json", _attempt(lambda: command(["compare", *sides, "--format", "json"]))
    yield "compare", "text", _attempt(lambda: command(["compare", *sides], prose_digest))
    if len(sides) == 2:
        unfolded = ["compare", *sides, "--show", "ops", "--unfold", "--format", "json"]
        yield "compare", "unfolded", _attempt(lambda: command(unfolded))


def rank_digests(unit: str, wanted: Callable[[str], bool]) -> Iterator[tuple[str, str, Digest]]:
    """All tables of a set of ranks, which is read by this process alone."""
    paths = [_word(each) for each in unit.removeprefix("ranks of ").split(" ")]
    for name in filter(lambda each: wanted(f"ranks {each}"), RANK_TABLES):
        words = ["ranks", *paths, "--show", name, "--jobs", "1", "--format", "json"]
        yield f"ranks {name}", "json", _attempt(partial(command, words))
    if len(paths) == 1 and wanted("check"):
        yield "check", "names", _attempt(lambda: command(["check", "--names", *paths], prose_digest))


Make = Callable[[str, Callable[[str], bool]], Iterator[tuple[str, str, Digest]]]


def units() -> dict[str, Make]:
    """Everything that is at hand, by its name: traces, the sides of a pair, the files or the folder of a set."""
    found: dict[str, Make] = {}
    for path in [*SAMPLES.glob("*.json.gz"), *(path for each in FOLDERS for path in (SHARED / each).glob("*.*"))]:
        if re.search(r"\.(json|pfw|pftrace|gz)$", path.name) and path.name not in NO_TRACES:
            base = SAMPLES.parent if path.parent == SAMPLES else SHARED
            found[str(path.relative_to(base))] = trace_digests
    for name in DUPLICATES:
        found.pop(name, None)
    for pair in PAIRS:
        if all(_file(side.partition("#")[0]).exists() for side in pair):
            found[" ".join(pair)] = pair_digests
    for files in [*((f"ranks/{each.name}",) for each in SHARED.glob("ranks/*/")), *RANK_FILES]:
        if all(_file(each).exists() for each in files):
            found["ranks of " + " ".join(files)] = rank_digests
    return dict(sorted(found.items()))


def digests_of(unit: str, only: str) -> tuple[str, dict[str, str], dict[str, dict[str, str]]]:
    """A unit's lines for the record, and its parts in full."""
    os.chdir(ROOT)
    for name in ("COLUMNS", "TERM"):
        os.environ.pop(name, None)
    warnings.simplefilter("ignore")
    lines: dict[str, list[bytes]] = defaultdict(list)
    full: dict[str, dict[str, str]] = {}

    def wanted(line: str) -> bool:
        return only in f"{unit} {line}"

    for line, part, (numbers, words, by_column) in units()[unit](unit, wanted):
        lines[line] += [_text(part) + numbers, _text(part) + words]
        full[f"{line}: {part}"] = {"numbers": numbers.hex(), "words": words.hex(), **by_column}
    short = {line: f"{_hash(*parts[::2]).hex()} {_hash(*parts[1::2], size=3).hex()}" for line, parts in lines.items()}
    return unit, short, full


def measure(only: str, jobs: int) -> tuple[dict[str, dict[str, str]], dict[str, dict[str, str]]]:
    """The record of everything whose `TRACE PANE` has `only` in it, and the same in full."""
    record: dict[str, dict[str, str]] = {}
    full: dict[str, dict[str, str]] = {}
    # What takes longest comes first, so that no process is left alone with it at the end.
    names = sorted(units(), key=lambda unit: -sum(map(_size, unit.removeprefix("ranks of ").split(" "))))
    with ProcessPoolExecutor(jobs) as pool:
        for unit, lines, parts in pool.map(digests_of, names, [only] * len(names)):
            if lines:
                record[unit] = lines
                full.update({f"{unit} · {part}": digest for part, digest in parts.items()})
    return dict(sorted(record.items())), full


def _size(name: str) -> int:
    path = _file(name.partition("#")[0])
    return path.stat().st_size if path.is_file() else 0


def read_record() -> dict[str, dict[str, str]]:
    """The committed record."""
    return json.loads(RECORD.read_text()) if RECORD.exists() else {}


def differences(before: dict[str, dict[str, str]], after: dict[str, dict[str, str]], only: str = "") -> list[str]:
    """A sentence for each line of the record that is not as before; of traces that are not at hand none."""
    sentences = []
    for unit, lines in after.items():
        old = {line: digest for line, digest in before.get(unit, {}).items() if only in f"{unit} {line}"}
        for line in sorted({*old, *lines}):
            if line not in lines or line not in old:
                sentences.append(f"{unit} {line}: {'is no longer made' if line in old else 'is new'}")
            elif old[line] != lines[line]:
                is_number = old[line].split()[0] != lines[line].split()[0]
                sentences.append(f"{unit} {line}: {'numbers differ' if is_number else 'only words differ'}")
    return sentences


def _details(before: dict[str, dict[str, str]], after: dict[str, dict[str, str]]) -> Iterator[str]:
    for part in sorted(after):
        old, new = before.get(part), after[part]
        if old != new:
            columns = [each for each in {**(old or {}), **new} if (old or {}).get(each) != new.get(each)]
            yield f"    {part}: {', '.join(columns) if old else 'is new'}"


def main(words: Sequence[str] | None = None) -> int:
    """Write or compare the record; exit code 1 where something differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("write", "compare"))
    parser.add_argument("--only", default="", metavar="SUBSTRING", help="of `TRACE PANE`")
    parser.add_argument("--detail", metavar="FILE", type=Path, help="a full record, to be written or compared with")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="processes (default: 2)")
    options = parser.parse_args(words)
    detail = options.detail.resolve() if options.detail else None
    record, full = measure(options.only, options.jobs)
    before = read_record()
    sentences = differences(before, record, options.only)
    print(*(each for each in sentences if options.what == "compare" or not each.endswith("is new")), sep="\n")
    print(f"{len(full):,} tables of {len(record)} traces and sets: {len(sentences)} lines differ")
    if options.what == "compare":
        if detail is not None:
            print("\n".join(_details(json.loads(detail.read_text()), full)))
        return 1 if sentences else 0
    for unit, lines in record.items():
        kept = {line: digest for line, digest in before.get(unit, {}).items() if options.only not in f"{unit} {line}"}
        before[unit] = dict(sorted({**kept, **lines}.items()))
    RECORD.write_text(json.dumps(dict(sorted(before.items())), indent=0) + "\n")
    if detail is not None:
        detail.write_text(json.dumps(full, indent=0))
    return 0


if __name__ == "__main__":
    sys.exit(main())
