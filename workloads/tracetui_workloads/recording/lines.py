"""The line of source that ran, as a slice of the trace: functions of the user's own files get a record around each
statement, in the process that records.

The rewritten code takes the place of the code of functions that exist already, so that modules, classes and files stay
as they are; `LineRecorder.restore` puts the old code back. A function has both bodies: Dynamo reads
`is_dynamo_compiling()` as a constant and sees the old one only, so that compiled code has the line of its call.

A record is a slice of the category `cpu_op`, which `trace_file.pack` turns into CATEGORY. The line is that on which the
statement begins. Headers of loops and conditions, and expressions that run later (lambdas, generators), have records
of their own; no record stays open while a generator or a coroutine waits.
"""

from __future__ import annotations

import ast
import copy
import gc
import hashlib
import os
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

# Imported by name: a workload may replace `time.perf_counter`.
from time import perf_counter
from types import CodeType, FrameType, FunctionType
from typing import Any

import torch
from torch._C._profiler import _RecordFunctionFast as Record

PREFIX = "line: "
"""Begins the name of a record; the file and the number of the line follow."""
CATEGORY = "source_line"
"""The category of these slices in the trace that is kept."""
MAX_COST = 0.05
"""Share of the time of a step above which the records are said to change it."""
MAX_SOURCE_BYTES = 4 << 20
"""Files beyond this size are left as they are."""
_COMPILED = {"jit", "njit", "script", "script_if_tracing", "vectorize", "guvectorize", "stencil", "kernel"}
"""Decorators whose function is not run as Python; it is left as it is."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_ON, _DYNAMO, _LINE, _ENTER, _LEAVE, _EACH, _WITHIN = (
    f"__tracetui_{word}__" for word in ("on", "dynamo", "line", "enter", "leave", "each", "within")
)
_IS_ON = [False]
"""Its one entry is true while lines are recorded; functions look at it when they are called."""


def _enter(name: str) -> Any:
    # A new record each time: torch fails when one is entered twice, as a function that calls itself would.
    record = Record(name)
    record.__enter__()
    # Where the expression raises, the record ends with its last reference.
    return record


def _leave(record: Any, value: Any) -> Any:
    record.__exit__(None, None, None)
    return value


class _Each:
    """An iterator whose steps are recorded; it keeps no item, which the program may want to free."""

    def __init__(self, name: str, items: Any) -> None:
        self._name = name
        with Record(name):
            self._items = iter(items)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        with Record(self._name):
            return next(self._items)


class _Within:
    """A context manager whose entry and exit are recorded."""

    def __init__(self, name: str, manager: Any) -> None:
        self._name, self._manager = name, manager

    def __enter__(self) -> Any:
        with Record(self._name):
            return self._manager.__enter__()

    def __exit__(self, *error: Any) -> Any:
        with Record(self._name):
            return self._manager.__exit__(*error)


_HELPERS = {
    _ON: _IS_ON,
    _DYNAMO: torch.compiler.is_dynamo_compiling,
    _LINE: Record,
    _ENTER: _enter,
    _LEAVE: _leave,
    _EACH: _Each,
    _WITHIN: _Within,
}
"""What rewritten functions look up among the globals of their module."""


def _suspends(node: ast.AST) -> bool:
    """True where a generator or a coroutine may wait within the node itself, not in a function inside it."""
    if isinstance(node, ast.Yield | ast.YieldFrom | ast.Await) or (
        isinstance(node, ast.comprehension) and node.is_async
    ):
        return True
    if isinstance(node, (ast.Lambda, *_FUNCTIONS, ast.ClassDef)):
        return False
    return any(_suspends(child) for child in ast.iter_child_nodes(node))


def _runs_nothing(node: ast.AST | None) -> bool:
    """True where no operator can come of the node: `x = y`, `return x`, `x is None`."""
    if isinstance(node, ast.Assign):
        return all(isinstance(each, ast.Name) for each in node.targets) and _runs_nothing(node.value)
    if isinstance(node, ast.Return | ast.Expr):
        return _runs_nothing(node.value)
    if isinstance(node, ast.Compare):
        operands = (node.left, *node.comparators)
        return all(isinstance(each, ast.Is | ast.IsNot) for each in node.ops) and all(map(_runs_nothing, operands))
    plain = (ast.Pass, ast.Break, ast.Continue, ast.Constant, ast.Name, ast.Global, ast.Nonlocal)
    return node is None or isinstance(node, plain)


class _Deferred(ast.NodeTransformer):
    """Gives lambdas and generator expressions, which run later and perhaps elsewhere, records of their own."""

    def __init__(self, lines: _Rewriter) -> None:
        self._lines = lines

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        self.generic_visit(node)
        node.body = self._lines.recorded(node.body)
        return node

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> Any:
        self.generic_visit(node)
        node.elt = self._lines.recorded(node.elt)
        for part in node.generators:
            part.ifs = [self._lines.truth(each) for each in part.ifs]
        return node


class _Rewriter(ast.NodeTransformer):
    """Rewrites the functions of a module; what runs when modules and classes are made stays as it is."""

    def __init__(self, name: str) -> None:
        self._name = name

    def visit_FunctionDef(self, node: Any) -> Any:
        targets = [each.func if isinstance(each, ast.Call) else each for each in node.decorator_list]
        if _COMPILED & {getattr(each, "attr", getattr(each, "id", "")) for each in targets}:
            return node
        start = 1 if ast.get_docstring(node, clean=False) is not None else 0
        # Names must be declared before both bodies.
        declared = [each for each in node.body if isinstance(each, ast.Global | ast.Nonlocal)]
        body = [each for each in node.body[start:] if each not in declared]
        if not body:
            return node
        original = copy.deepcopy(body)
        compiles = ast.Call(ast.Name(_DYNAMO, ast.Load()), [], [])
        is_on = ast.Subscript(ast.Name(_ON, ast.Load()), ast.Constant(0), ast.Load())
        old = ast.BoolOp(ast.Or(), [compiles, ast.UnaryOp(ast.Not(), is_on)])
        node.body = [*node.body[:start], *declared, _placed(ast.If(old, original, self._block(body)), body[0])]
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def recorded(self, node: Any) -> Any:
        """An expression with a record around it."""
        node = _Deferred(self).visit(node) if not isinstance(node, ast.Lambda | ast.GeneratorExp) else node
        if _suspends(node) or _runs_nothing(node):
            return node
        return _placed(self._call(_LEAVE, self._call(_ENTER, self._text(node)), node), node)

    def truth(self, node: Any) -> Any:
        """A condition with a record around it that holds its conversion too, which waits for a device."""
        if _suspends(node) or _runs_nothing(node):
            return node
        return self.recorded(_placed(ast.UnaryOp(ast.Not(), ast.UnaryOp(ast.Not(), node)), node))

    def _block(self, statements: list[Any]) -> list[Any]:
        return [self._statement(each) for each in statements]

    def _statement(self, node: Any) -> Any:
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            return self.visit(node)
        if not hasattr(node, "body") and not hasattr(node, "cases"):
            return self._simple(node)
        if isinstance(node, ast.If | ast.While):
            node.test = self.truth(node.test)
        elif isinstance(node, ast.Match):
            node.subject = self.recorded(node.subject)
        elif isinstance(node, ast.For) and not _suspends(node.iter):
            counts = isinstance(node.iter, ast.Call) and getattr(node.iter.func, "id", "") == "range"
            items = self.recorded(node.iter)
            node.iter = items if counts else _placed(self._call(_EACH, self._text(node), items), node.iter)
        elif isinstance(node, ast.With):
            for item in node.items:
                if not _suspends(item.context_expr):
                    manager = self._call(_WITHIN, self._text(node), self.recorded(item.context_expr))
                    item.context_expr = _placed(manager, item.context_expr)
        for part in (node, *getattr(node, "handlers", []), *getattr(node, "cases", [])):
            if getattr(part, "guard", None) is not None:
                part.guard = self.truth(part.guard)
            for field in ("body", "orelse", "finalbody"):
                if getattr(part, field, None):
                    setattr(part, field, self._block(getattr(part, field)))
        return node

    def _simple(self, node: Any) -> Any:
        """A statement that holds no other."""
        if _runs_nothing(node):
            return node
        node = _Deferred(self).visit(node)
        if not _suspends(node):
            return _placed(ast.With([ast.withitem(self._call(_LINE, self._text(node)))], [node]), node)
        # Of `x = yield value` and `x = await call()` the value is recorded, the waiting is not.
        waits = getattr(node, "value", None)
        if isinstance(waits, ast.Yield | ast.YieldFrom | ast.Await) and waits.value is not None:
            waits.value = self.recorded(waits.value)
        return node

    def _text(self, node: Any) -> ast.Constant:
        return ast.Constant(f"{PREFIX}{self._name}:{node.lineno}")

    def _call(self, helper: str, *arguments: ast.expr) -> ast.Call:
        return ast.Call(ast.Name(helper, ast.Load()), list(arguments), [])


def _placed(new: Any, old: ast.AST) -> Any:
    """A new node with the place of an old one, for tracebacks."""
    for child in ast.walk(new):
        if "lineno" in child._attributes and not hasattr(child, "lineno"):
            ast.copy_location(child, old)
    return new


def rewritten(source: bytes, path: str, name: str) -> dict[tuple[str, int], tuple[CodeType, CodeType]]:
    """The old and the new code of the functions of a file, by qualified name and first line.

    Raises: SyntaxError, ValueError, RecursionError for a source that cannot be compiled.
    """
    tree = ast.parse(source, path)
    pairs: dict[tuple[str, int], list[CodeType]] = {}
    for old in _codes(compile(copy.deepcopy(tree), path, "exec", dont_inherit=True)):
        pairs.setdefault((old.co_qualname, old.co_firstlineno), []).append(old)
    changed = compile(ast.fix_missing_locations(_Rewriter(name).visit(tree)), path, "exec", dont_inherit=True)
    result = {}
    for new in _codes(changed):
        olds = pairs.get((new.co_qualname, new.co_firstlineno), [])
        # Two lambdas of a line cannot be told apart. A function inside another has its old code in the old body.
        if len(olds) == 1 and new.co_code != olds[0].co_code and new.co_freevars == olds[0].co_freevars:
            result[new.co_qualname, new.co_firstlineno] = olds[0], new
    return result


def _codes(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _codes(each)


_HERE = str(Path(__file__).resolve().parent.parent)
_LIBRARIES = tuple(
    {os.path.realpath(path) + os.sep for key in ("stdlib", "platstdlib", "purelib", "platlib")
     if (path := sysconfig.get_paths().get(key))}
    | {os.path.join(os.path.realpath(each), "") for each in (*torch.__path__, _HERE)}
)  # fmt: skip


def _is_library(path: str) -> bool:
    return bool({"site-packages", "dist-packages"} & set(path.split(os.sep))) or path.startswith(_LIBRARIES)


class LineRecorder:
    """Rewrites functions of the user's own files, switches their records on and off, and knows what they cost."""

    def __init__(self, root: str | os.PathLike[str] = "") -> None:
        """`root` is the folder to which the names of files are relative; it may lie within a library."""
        self._root = os.path.realpath(root or os.getcwd())
        self._is_of_library = _is_library(os.path.join(self._root, ""))
        self._files: dict[str, dict[tuple[str, int], tuple[CodeType, CodeType]]] = {}
        self._old: list[tuple[FunctionType, CodeType]] = []
        self._watched: dict[FrameType, str] = {}
        self._open: dict[FrameType, Any] = {}
        self._names: dict[str, str] = {}
        self.files: dict[str, dict[str, str]] = {}
        """The path and the digest of each rewritten file, by the name that records have for it."""

    def install(self) -> None:
        """Rewrite the functions that exist, those of modules that were imported since then included."""
        functions = [each for each in gc.get_objects() if type(each) is FunctionType]
        for function in functions:
            old = function.__code__
            pair = self._pairs(old.co_filename).get((old.co_qualname, old.co_firstlineno))
            if pair is None or old.co_code != pair[0].co_code or _is_compiled(old):
                continue
            function.__globals__.update(_HELPERS)
            function.__code__ = pair[1]
            self._old.append((function, old))

    def switch(self, is_on: bool) -> None:
        """Record lines from now on, or no more."""
        _IS_ON[0] = is_on

    def restore(self) -> None:
        """Put the old code back."""
        self.switch(False)
        self.leave_frames()
        for function, old in self._old:
            function.__code__ = old
        self._old.clear()

    def _pairs(self, filename: str) -> dict[tuple[str, int], tuple[CodeType, CodeType]]:
        if filename not in self._files:
            pairs: dict[tuple[str, int], tuple[CodeType, CodeType]] = {}
            if path := self._own_file(filename):
                try:
                    if os.path.getsize(path) <= MAX_SOURCE_BYTES:
                        source = Path(path).read_bytes()
                        name = self._name(path)
                        pairs = rewritten(source, filename, name)
                        self.files[name] = {"path": path, "sha256": hashlib.sha256(source).hexdigest()}
                except (OSError, SyntaxError, ValueError, RecursionError):
                    pairs = {}
            self._files[filename] = pairs
        return self._files[filename]

    def _own_file(self, filename: str) -> str:
        """The real path of a file of the user's own; empty for one of a library, and for what is no file."""
        path = os.path.realpath(filename) if filename.endswith(".py") else ""
        is_own = not _is_library(path) or (self._is_of_library and path.startswith(os.path.join(self._root, "")))
        return path if path and is_own and os.path.isfile(path) else ""

    def _name(self, path: str) -> str:
        """A short name of a file: below the root, else below a folder of `sys.path`, else whole."""
        if path not in self._names:
            folders = [self._root, *sorted((os.path.realpath(each) for each in sys.path), key=len, reverse=True)]
            below = next((each for each in folders if path.startswith(os.path.join(each, ""))), "")
            name = os.path.relpath(path, below) if below else path
            # The profiler writes names as they are.
            self._names[path] = "".join(c if c.isascii() and c.isprintable() and c not in '"\\' else "_" for c in name)
        return self._names[path]

    # A loop that runs already keeps its old code: its lines come from the interpreter.

    def watch_frames(self) -> str:
        """Record the lines of functions of the user's own that run now; the reason why not, empty where it does."""
        if sys.gettrace() is not None:
            return "The lines of the loop itself are not recorded: a debugger or coverage follows it."
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            if path := self._own_file(frame.f_code.co_filename):
                self._pairs(frame.f_code.co_filename)
                frame.f_trace = self._moved
                self._watched[frame] = self._name(path)
            frame = frame.f_back
        if self._watched:
            sys.settrace(_ignore_call)
        return ""

    def close_lines(self) -> None:
        """End the records of the lines on which these functions are."""
        while self._open:
            self._open.popitem()[1].__exit__(None, None, None)

    def leave_frames(self) -> None:
        """Follow these functions no more."""
        if self._watched and sys.gettrace() is _ignore_call:
            sys.settrace(None)
        for frame in self._watched:
            frame.f_trace = None
        self._watched.clear()
        self.close_lines()

    def _moved(self, frame: FrameType, event: str, _: object) -> Any:
        """Begin the record of a line of a function that runs already, in place of that of the line before."""
        if (last := self._open.pop(frame, None)) is not None:
            last.__exit__(None, None, None)
        if event == "line" and _IS_ON[0]:
            self._open[frame] = _enter(f"{PREFIX}{self._watched[frame]}:{frame.f_lineno}")
        return self._moved


def _ignore_call(*_: object) -> None:
    return None


def _is_compiled(code: CodeType) -> bool:
    """True where Dynamo has compiled the function: it would compile the new code again."""
    if "torch._dynamo.eval_frame" not in sys.modules:
        return False
    from torch._C._dynamo.eval_frame import _debug_get_cache_entry_list

    return bool(_debug_get_cache_entry_list(code))


def metadata(recorder: LineRecorder, records: int, step_us: Sequence[float]) -> dict[str, Any]:
    """The entry `lines` of a trace with so many records, whose steps took so long; call it after the recording."""
    cost = cost_of_record()
    # Of one step that took far longer, because of the profiler's start or another program, the median knows nothing.
    share = 1e6 * cost * records / (len(step_us) * median(step_us)) if step_us else 0.0
    return {
        "files": recorder.files,
        "records": records,
        "record_us": round(1e6 * cost, 3),
        "cost_pct": round(100 * share, 2),
    }


def sentence(lines: Mapping[str, Any], steps: int) -> tuple[str, str]:
    """The cost of lines in words, and its level as a note."""
    if not lines["records"]:
        return "No line was recorded: nothing of your own source ran in the steps, other than compiled.", "warning"
    words = f"Lines: {lines['records'] / max(steps, 1):,.0f} records a step take about {lines['cost_pct']:.1f} %"
    if lines["cost_pct"] <= 100 * MAX_COST:
        return f"{words} of its time.", "info"
    return f"{words} of its time: short lines look longer than they are.", "warning"


def cost_of_record() -> float:
    """Seconds that one record takes while a profiler runs; call it after the recording, as it starts one."""
    from torch.profiler import ProfilerActivity, profile

    def statement() -> None:
        with Record("line"):
            pass

    def expression() -> None:
        _leave(_enter("line"), None)

    with profile(activities=[ProfilerActivity.CPU]):
        return max(_seconds_per_call(each) for each in (statement, expression))


def _seconds_per_call(call: Callable[[], None], calls: int = 500, rounds: int = 5) -> float:
    times = []
    for _ in range(rounds):
        began = perf_counter()
        for _ in range(calls):
            call()
        times.append((perf_counter() - began) / calls)
    return sorted(times)[rounds // 2]
