"""A function of one's own: how it is found, what it is called with, and what is said when it does not fit; no torch."""

from __future__ import annotations

import sys

import pytest
from tracetui_workloads.api import BadRequest, Prepared, Workload
from tracetui_workloads.programs import user_function
from tracetui_workloads.recording.protocol import Options, Request
from tracetui_workloads.recording.recorder import resolve

SOURCE = """
from __future__ import annotations
import helper
from tracetui_workloads.api import Context, Prepared, Workload, Param
import tracetui_workloads.api as api

def step(batch: int, *, rate: float = 0.5, name="x", flag: bool | None = None, **more): return batch
def _private(): pass
def factory(ctx: Context, size: int = 2) -> Prepared: return Prepared(lambda: None, "mine", flops=size)
def other_factory(size: int = 2) -> api.Prepared: return Prepared(lambda: None, "mine", flops=size)
def liar() -> Prepared: return 3
def prepare(context, size): return Prepared(lambda: None, "registered", flops=size)
def positional(a, /): pass
def tensor(x: list): pass

class Model:
    def __call__(self, x=1): pass
    def forward(self): pass

model = Model()
prepared = Prepared(lambda: None, "ready")
WORKLOAD = Workload("own", "mine", "workloads_own_file:prepare", (Param("size", 3),))
number = 3

if __name__ == "__main__":
    raise SystemExit("the guard is open")
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A file with functions, and a module beside it that it imports."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "helper.py").write_text("VALUE = 1")
    path = tmp_path / "workloads_own_file.py"
    path.write_text(SOURCE)
    before = set(sys.modules)
    yield path
    for name in {"helper", "workloads_own_file", "workloads_own_file_of_user", "json_of_user"} - before:
        sys.modules.pop(name, None)


class FakeContext:
    """A context that compiles nothing."""

    device, dtype, seed, compiled = "cpu", None, 0, False
    rank, ranks = 0, 1

    def compile(self, step):
        """The function itself."""
        return step

    def note(self, text):
        """Nobody listens."""


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"batch": "3"}, {"batch": 3}),
        ({"batch": "3", "rate": "1e-3"}, {"batch": 3, "rate": 0.001}),
        ({"batch": "3", "name": "3"}, {"batch": 3, "name": "3"}),
        ({"batch": "3", "flag": "yes"}, {"batch": 3, "flag": True}),
        ({"batch": "3", "anything": "3"}, {"batch": 3, "anything": "3"}),
    ],
)
def test_parameters_are_what_the_signature_says(own, given, wanted):
    function = user_function.load(f"{own}:step")
    values = user_function.arguments(function, given)
    assert values == wanted
    prepared = user_function.prepare(function, "own.step", values, FakeContext())
    assert prepared.step() == 3


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("step", {}, r"step\(batch: 'int'.*requires batch"),
        ("step", {"batch": "many"}, "batch must be a whole number, not many"),
        ("step", {"batch": "1", "flag": "perhaps"}, "flag is true or false"),
        ("factory", {"width": "1"}, "There is no parameter width in factory"),
        ("factory", {"ctx": "1"}, "There is no parameter ctx"),
        ("positional", {}, "requires a"),
        ("tensor", {"x": "1"}, "x has the type list, which cannot be given as text"),
    ],
)
def test_parameters_that_do_not_fit(own, name, given, words):
    with pytest.raises(BadRequest, match=words):
        user_function.arguments(user_function.load(f"{own}:{name}"), given)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("{own}:stepp", "it has step, factory, other_factory, liar.*WORKLOAD"),
        ("{own}:Model.backward", "has no Model.backward"),
        ("{own}:number", "is a int, and neither a function nor a Workload"),
        ("{own}:", "not of the form"),
        (":step", "not of the form"),
        ("absent.py:step", "absent.py does not exist"),
        ("./absent:step", "does not exist"),
        ("absent.module:step", "no module absent.module"),
    ],
)
def test_a_name_that_names_nothing(own, name, words):
    with pytest.raises(BadRequest, match=words):
        user_function.load(name.format(own=own))


def test_a_name_with_dots_and_an_object_that_can_be_called(own):
    assert callable(user_function.load(f"{own}:Model.forward"))
    assert user_function.arguments(user_function.load(f"{own}:model"), {"x": "2"}) == {"x": 2}


def test_an_installed_module(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert user_function.load("os.path:join") is not None


def test_what_a_module_imports_in_vain_is_missing_and_no_mistake_in_the_command(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "needs_more.py").write_text("import nowhere_to_be_found")
    with pytest.raises(ModuleNotFoundError):
        user_function.load("needs_more:step")


def test_a_file_with_the_name_of_a_module_takes_nobodys_place(own, tmp_path):
    import json

    (tmp_path / "json.py").write_text("def step(): pass")
    user_function.load(f"{tmp_path / 'json.py'}:step")
    assert sys.modules["json"] is json


@pytest.mark.parametrize(
    ("name", "label"), [("a/b/train.py:step", "train.step"), ("pkg.mod:Model.forward", "mod.Model.forward")]
)
def test_the_annotation(name, label):
    assert user_function.label(name) == label


@pytest.mark.parametrize("name", ["factory", "other_factory"])
def test_a_function_that_says_it_returns_a_prepared_prepares(own, name):
    found = resolve(Request(f"{own}:{name}", "x", {"size": "5"}))
    prepared = found.prepare(FakeContext())
    assert (prepared.label, prepared.flops, found.params) == ("mine", 5, {"size": 5})


def test_one_that_only_says_so(own):
    with pytest.raises(BadRequest, match="returned a int"):
        resolve(Request(f"{own}:liar", "x")).prepare(FakeContext())


def test_a_workload_or_a_prepared_is_used_as_such(own):
    found = resolve(Request(f"{own}:WORKLOAD", "x", {"size": "5"}))
    assert isinstance(found.workload, Workload)
    assert (found.workload.name, found.prepare(FakeContext()).flops) == ("own", 5)
    ready = resolve(Request(f"{own}:prepared", "x")).prepare(FakeContext())
    assert isinstance(ready, Prepared)
    with pytest.raises(BadRequest, match="takes no parameters"):
        resolve(Request(f"{own}:prepared", "x", {"size": "5"}))


def test_a_data_type_for_a_function_that_makes_its_own_tensors(own):
    with pytest.raises(BadRequest, match="makes its own tensors"):
        resolve(Request(f"{own}:step", "x", {"batch": "1"}, Options(dtype="bf16")))
    assert resolve(Request(f"{own}:factory", "x", {}, Options(dtype="bf16")))


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("async def step(): pass", "a coroutine function"),
        ("def step(): yield 1", "a generator function"),
        ("async def step(): yield 1", "an asynchronous generator function"),
        ("import functools\nasync def real(n): pass\nstep = functools.partial(real, 1)", "a coroutine function"),
        ("class Step:\n    async def __call__(self): pass\nstep = Step()", "a coroutine function"),
    ],
)
def test_a_function_whose_call_runs_nothing_is_refused(tmp_path, code, words):
    path = tmp_path / "mine.py"
    path.write_text(code)
    with pytest.raises(BadRequest, match=words):
        user_function.load(f"{path}:step")


def test_an_object_whose_call_runs_is_a_step(tmp_path):
    path = tmp_path / "fine.py"
    path.write_text(
        "import asyncio, functools\nasync def real(): pass\n"
        "class Step:\n    def __call__(self): pass\nstep = Step()\n"
        "@functools.wraps(real)\ndef fast(): asyncio.run(real())\n"
    )
    assert callable(user_function.load(f"{path}:step"))
    assert callable(user_function.load(f"{path}:fast"))
