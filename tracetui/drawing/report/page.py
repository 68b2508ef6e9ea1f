"""A report as one HTML file: no script, style, font or picture from elsewhere, and a policy that allows none.

It is complete with scripts off; the one script in it sorts tables.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path
from string import Template

from tracetui.drawing.report.colours import lane_styles
from tracetui.drawing.report.section import Report, Section, Tile
from tracetui.drawing.report.tables import table_html
from tracetui.drawing.report.words import anchor, text

_HERE = Path(__file__).parent

_PAGE = Template("""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="$policy">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<meta name="generator" content="$made_by">
<title>$title</title>
<style>$style</style>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
<header>
<h1>$title</h1>
$subtitle
$verdict
$tiles
</header>
<nav aria-label="Sections"><ul>$contents</ul></nav>
<main id="content">
$sections
</main>
<footer><p>Made by $made_by. – is what the trace does not hold,
~ marks numbers that are doubtful.</p></footer>
<script>$script</script>
</body>
</html>
""")


def page(report: Report) -> str:
    """The whole file."""
    style, script = _style(), _script()
    return _PAGE.substitute(
        policy=policy(style, script),
        style=style,
        script=script,
        made_by=text(report.made_by),
        title=text(report.title),
        subtitle=f'<p class="origin">{text(" · ".join(report.subtitle))}</p>' if report.subtitle else "",
        verdict=f'<p class="verdict">{text(report.verdict)}</p>' if report.verdict else "",
        tiles=_tiles(report.tiles),
        contents="".join(
            f'<li><a href="#{anchor(section.title)}">{text(section.title)}</a></li>' for section in report.sections
        ),
        sections="\n".join(map(_section, report.sections)),
    )


def policy(style: str, script: str) -> str:
    """What a browser may do with the page: apply this style and run this script, and nothing else."""
    return (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(content: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}"


@cache
def _style() -> str:
    return "\n" + (_HERE / "page.css").read_text(encoding="utf-8") + lane_styles()


@cache
def _script() -> str:
    return "\n" + (_HERE / "sort.js").read_text(encoding="utf-8")


def _tiles(tiles: tuple[Tile, ...]) -> str:
    if not tiles:
        return ""
    made = "".join(
        f'<div title="{text(tile.help)}"><dt>{text(tile.name)}</dt><dd>{text(tile.value)}</dd></div>' for tile in tiles
    )
    return f'<dl class="tiles">{made}</dl>'


def _section(section: Section) -> str:
    name = anchor(section.title)
    said = "".join(f"<p>{text(sentence)}</p>" for sentence in section.sentences if sentence)
    return (
        f'<section id="{name}" aria-labelledby="{name}-title">\n<h2 id="{name}-title">{text(section.title)}</h2>\n'
        f"{said}{section.figure}{table_html(section)}\n</section>"
    )
