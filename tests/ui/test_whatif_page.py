"""`:whatif` shows the text of the command, and says on its line what it does not understand."""

from __future__ import annotations

import pytest
from textual.widgets import Static

from tests.support.app import burst, shown
from tests.support.launch_machine import PROGRAMS, run
from tests.support.waiting import until
from tracetui.drawing.text.whatif_text import as_lines
from tracetui.ui.widgets.picker import TextPage
from tracetui.whatif.prediction import predict


@pytest.mark.full
async def test_a_change_opens_a_page_with_the_text_of_the_command():
    trace = run(PROGRAMS["busy"])
    async with shown(trace) as (app, pilot):
        burst(app, "colon", *"whatif scale(gemm, 0.5) drop(sync)", "enter")
        await until(pilot, lambda: isinstance(app.screen, TextPage))
        expected = as_lines(predict(trace, ["scale(gemm, 0.5)", "drop(sync)"]))
        assert str(app.screen.query_one("#text", Static).content) == "\n".join(expected)
        burst(app, "escape")
        await until(pilot, lambda: not isinstance(app.screen, TextPage))


async def test_what_is_not_offered_is_said_and_what_matches_nothing_too():
    async with shown(run(PROGRAMS["busy"])) as (app, pilot):
        burst(app, "colon", *"whatif nothing", "enter")
        await until(pilot, lambda: "is no change" in app.view.finder.line.below.text)
        burst(app, "escape", "colon", *"whatif scale(nothing, 1)", "enter")
        await until(pilot, lambda: isinstance(app.screen, TextPage))
        assert "Nothing to change" in str(app.screen.query_one("#text", Static).content)
        burst(app, "escape")
        await until(pilot, lambda: "Replaying" not in app.view.hints.text)
