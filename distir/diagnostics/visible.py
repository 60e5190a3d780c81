"""What a character looks like in a terminal: never a control sequence, and how many cells it takes.

A program may come from anywhere. Whatever is not printable (control characters, invisible and direction-changing ones,
unusual spaces, lone surrogates) is shown by its number, as in `<U+001B>`, so it can neither act nor hide.
"""

from __future__ import annotations

TAB = "    "
"""How a tab is shown: always four cells, so that text below it lines up whatever stands before it."""


CONTROL_PICTURES = 0x2400
"""Where Unicode has signs for control characters: `␛` for an escape."""


def visible(text: str) -> str:
    """The text with every unprintable character shown by its number, and tabs as spaces."""
    return text if text.isprintable() else "".join(map(visible_character, text))


def visible_character(character: str) -> str:
    """A character as it can be printed: a tab as spaces, what cannot be seen by its number."""
    if character.isprintable():
        return character
    return TAB if character == "\t" else f"<U+{ord(character):04X}>"


def visible_lines(text: str, keep: str = "") -> str:
    """Lines of visible text, whichever way they end. `keep`: a character that stays as it is, too."""

    def line(text: str) -> str:
        return text if text.isprintable() else keep.join(map(visible, text.split(keep) if keep else (text,)))

    def lines(text: str) -> str:
        return text if text.isprintable() else "\n".join(map(line, text.split("\n")))

    return "\r\n".join(map(lines, text.split("\r\n")))


def visible_in_place(text: str) -> str:
    """Lines with a sign for each unprintable character, two for what UTF-16 counts as two, so that columns stay."""
    return text if text.isprintable() else "".join(map(_sign, text))


def _sign(character: str) -> str:
    if character.isprintable() or character in "\t\r\n":
        return character
    code = ord(character)
    return chr(CONTROL_PICTURES + code) if code < ord(" ") else "\ufffd" * (2 if code > 0xFFFF else 1)


def cells(shown: str) -> int:
    """How many cells of a terminal a printable text takes: 2 for wide characters, 0 for combining ones."""
    if shown.isascii():
        return len(shown)
    from rich.cells import get_character_cell_size

    return sum(map(get_character_cell_size, shown))
