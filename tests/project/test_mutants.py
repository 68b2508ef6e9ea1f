"""What `make mutants` changes, and what is to notice it, is there."""

from __future__ import annotations

import pytest

from tests.mutants.modules import MODULES
from tests.support.paths import ROOT


@pytest.mark.parametrize("name", sorted(MODULES))
def test_a_mutated_module_and_its_tests_are_there(name):
    module = MODULES[name]
    text = (ROOT / module.path).read_text()
    assert [part for part in module.indifferent if part not in text] == []
    for test in module.tests:
        path, _, function = test.partition("::")
        assert f"def {function}" in (ROOT / path).read_text()
