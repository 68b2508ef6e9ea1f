"""The colours of slices in a report, as styles: those of the screen's palette, by family."""

from __future__ import annotations

from tracetui.drawing.timeline.palette import FAMILIES, palette, rgb

INK = 0.66
"""By this factor the lines of a hatching are darker on a light ground."""


def letter(family: int) -> str:
    """The letter that stands for a family where there is no room for a name."""
    letters = palette(16).letters
    assert letters is not None
    return chr(int(letters[family]))


def slice_class(family: int, odd: int) -> str:
    """The class of a slice: neighbours of a family differ in shade."""
    return f"f{family}{'b' if odd else 'a'}"


def lane_styles() -> str:
    """Styles for every class of `slice_class`, and for the words on them."""
    colours = palette()
    lines = []
    for family in range(FAMILIES):
        for odd in (0, 1):
            colour = int(colours.shades[family, odd])
            name = slice_class(family, odd)
            lines.append(f".{name}{{fill:{hexadecimal(colour)}}}")
            lines.append(f".i{name}{{fill:{'#000' if colours.ink[colour] == 16 else '#fff'}}}")
    lines += [f".idle{number}{{color:{hexadecimal(int(colour), INK)}}}" for number, colour in enumerate(colours.idle)]
    dark = "".join(f".idle{number}{{color:{hexadecimal(int(colour))}}}" for number, colour in enumerate(colours.idle))
    lines.append(f"@media screen and (prefers-color-scheme: dark){{{dark}}}")
    return "\n".join(lines) + "\n"


def hexadecimal(colour: int, share: float = 1.0) -> str:
    """One of the 256 colours as `#rrggbb`, darker where the share is below 1."""
    return "#{:02x}{:02x}{:02x}".format(*(round(channel * share) for channel in rgb(colour)))
