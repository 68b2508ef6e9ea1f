"""The style that widgets keep is the one that Textual would work out, whatever changes above them."""

from __future__ import annotations

import pytest
from textual import constants
from textual.widget import Widget

from tests.support.app import settle, shown, training
from tracetui.ui.widgets.surface import CachedStyle


@pytest.fixture(autouse=True)
def colours(monkeypatch):
    """Themes have colours of their own, whatever the terminal in which the tests run."""
    monkeypatch.setattr(constants, "COLOR_SYSTEM", "truecolor")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)


async def test_kept_styles_follow_themes_and_what_is_set_above():
    async with shown(training()) as (app, pilot):
        kept = [widget for widget in app.screen.query(Widget) if isinstance(widget, CachedStyle)]
        assert len(kept) > 5
        seen = set()
        for _ in range(3):
            seen.add(app.view.panes.view.rich_style)
            assert all(widget.rich_style == super(CachedStyle, widget).rich_style for widget in kept)
            app.action_switch_theme()
            await settle(pilot)
        assert len(seen) == 3
        app.view.styles.background = "#123456"
        assert all(widget.rich_style == super(CachedStyle, widget).rich_style for widget in kept)
        assert any(widget.rich_style.bgcolor.name == "#123456" for widget in kept if widget.rich_style.bgcolor)
