"""Small pieces of markdown that hovers and tooltips are put together from. Knows no program."""

from __future__ import annotations

from collections.abc import Iterable


def code(text: str) -> str:
    """A piece of text as code, whatever is in it."""
    fence = "`"
    while fence in text:
        fence += "`"
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def block(text: str, language: str = "dir") -> str:
    """A block of program text, or of another language."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text}\n{fence}"


def items(lines: Iterable[str]) -> str:
    """A list with an item for each line."""
    return "\n".join(f"- {line}" for line in lines)


def paragraphs(parts: Iterable[str]) -> str:
    """The parts that are not empty, one below the other."""
    return "\n\n".join(part for part in parts if part)


def counted(count: int, noun: str) -> str:
    """A number with its noun, in the plural but for one."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def line_link(line: int) -> str:
    """A line of the text, from 1, as a link within the document: `[line 38](#L38)`; the server gives it an address."""
    return f"[line {line}](#L{line})"


def listed(things: Iterable[object], most: int = 8) -> str:
    """`1, 2, 3`; of many the first ones, and how many there are."""
    shown = [str(thing) for thing in things]
    return ", ".join(shown) if len(shown) <= most else f"{', '.join(shown[: most - 1])}, … ({len(shown)} in all)"
