"""What a character looks like in a terminal: never a control sequence, and how many cells it takes.

A program may come from anywhere. Whatever is not printable (control characters, invisible and direction-changing ones,
unusual spaces, lone surrogates) is shown by its number, as in `<U+001B>`, so it can neither act nor hide.
"""

from __future__ import annotations

TAB = "    "
"""How a tab is shown: always four cells, so that text below it lines up whatever stands before it."""


def visible(text: str) -> str:
    """The text with every unprintable character shown by its number, and tabs as spaces."""
    return text if text.isprintable() else "".join(map(visible_character, text))


def visible_character(character: str) -> str:
    """A character as it can be printed: a tab as spaces, what cannot be seen by its number."""
    if character.isprintable():
        return character
    return TAB if character == "\t" else f"<U+{ord(character):04X}>"


def cells(shown: str) -> int:
    """How many cells of a terminal a printable text takes: 2 for wide characters, 0 for combining ones."""
    if shown.isascii():
        return len(shown)
    from rich.cells import get_character_cell_size

    return sum(map(get_character_cell_size, shown))
