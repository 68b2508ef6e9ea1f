"""Variants of one computation: which names pair up, and what is offered of a trace."""

from __future__ import annotations

import pytest

from tests.support.build import Event, annotation, make_trace, op, python
from tests.support.comparing.played import compiled, eager, trace_of
from tests.support.traces import loaded
from tracetui.comparing.side import side
from tracetui.comparing.variants import alike, apart, variants


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        ("fused", "unfused", True),
        ("eager", "compiled", True),
        ("first_sum", "second_sum", True),
        ("mlp", "mlp_compiled", True),
        ("runEager", "runCompiled", True),
        ("forward", "backward", False),
        ("encoder_layer", "decoder_layer", False),
        ("load", "forward", False),
        ("layer_1", "layer_2", False),
        ("sum", "sum", False),
        ("f", "f_loss_scaled", False),
    ],
)
def test_names_that_pair_up(one: str, other: str, wanted: bool) -> None:
    assert alike(one, other) is alike(other, one) is wanted


def called(*names: str, each: int = 1000) -> list[Event]:
    """A function that calls others one after the other, each with an operator."""
    events = [python("bench.py(1): main", 0, each * len(names))]
    for number, name in enumerate(names):
        events += [python(f"bench.py({10 + number}): {name}", number * each, each - 10)]
        events += [op("aten::mm", number * each + 100, 500)]
    return events


def test_functions_that_one_function_calls_are_offered_in_order() -> None:
    (found,) = variants(make_trace(called("second_sum", "setup", "first_sum")))
    assert found.scopes == ("second_sum", "first_sum")


def test_what_is_within_a_variant_is_none_beside_it() -> None:
    inner = [python("bench.py(30): fused", 0, 900), python("bench.py(31): unfused", 10, 800), op("aten::mm", 20, 500)]
    assert variants(make_trace(inner)) == []


def test_names_of_libraries_and_what_runs_nothing_are_left_out() -> None:
    events = [annotation(f"## {name}_dist ##", at, 90) for name, at in (("data", 0), ("wait_data", 100))]
    events += [op("aten::mm", 10, 50), op("aten::mm", 110, 50)]
    assert variants(make_trace(events)) == []
    assert variants(make_trace([each for each in called("first_sum", "second_sum") if each.name != "aten::mm"])) == []


def test_runs_of_a_name_that_differ_stand_apart() -> None:
    trace = trace_of(eager(), compiled(), eager(), steps=False)
    assert [each.scope for each in apart(side(trace, "f"))] == ["f[1]", "f[2]"]
    assert [each.scope for each in apart(side(trace, "f[1]"))] == ["f[1]"]


@pytest.mark.parametrize(
    ("file", "scopes"),
    [
        ("fusion_mwe_trace", ("unfused[1]", "fused[1]", "unfused[2]", "fused[2]")),
        ("addition_d2h_sync_final", ("first_sum", "second_sum", "third_sum")),
    ],
)
def test_the_puzzlers(shared_trace, file: str, scopes: tuple[str, ...]) -> None:
    assert variants(loaded(shared_trace(f"puzzlers/{file}.json.gz")))[0].scopes == scopes
