"""From tokens to trees, by the rules of `dir.lark`.

The shape of a tree depends on the kinds of the tokens alone. So Lark is asked once per sequence of kinds, and the tree
it gives, with the numbers of the tokens as leaves, serves every text with that sequence. Knows no meaning.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Union, cast

from distir.files.reading import beside
from distir.syntax.tokens import END

if TYPE_CHECKING:  # lark is imported when something is parsed: not every command does
    from collections.abc import Callable
    from pathlib import Path

    from lark import Lark, Token, Tree
    from lark.parsers.lalr_interactive_parser import InteractiveParser

Kinds = tuple[str, ...]
Child = Union["Node", int, None]
"""A node, the number of a token, or `None` for an optional part that is absent."""

_SHAPES_KEPT = 20_000
_LONGEST = 500
"""Longer sequences of kinds are not cached: they hold constants, and rarely repeat."""


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A rule of the grammar applied to the tokens `first` to `last`; a rule without tokens has `last < first`."""

    rule: str
    children: tuple[Child, ...]
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Unexpected:
    """Token number `index` (one past the last: the end) does not fit; `expected` are the kinds that would."""

    index: int
    expected: frozenset[str]


folder_for_tables: Callable[[], Path | None] | None = None
"""Finds a folder where Lark keeps what it computes from the grammar, for the next process; to be set before parsing."""

_shapes: dict[tuple[str, Kinds], Node] = {}


def shape(rule: str, kinds: Kinds) -> Node | Unexpected:
    """The tree of a sequence of kinds under a start rule: `line`, `head`, `type`, `literal` or `example`."""
    found = _shapes.get((rule, kinds))
    if found is None:
        made = _parse(rule, kinds)
        if isinstance(made, Unexpected):
            return made
        if len(kinds) > _LONGEST:
            return made
        if len(_shapes) >= _SHAPES_KEPT:
            _shapes.clear()
        found = _shapes[rule, kinds] = made
    return found


def forget() -> None:
    """Empty the cache of shapes."""
    _shapes.clear()


@cache
def lark() -> Lark:
    """The grammar of `dir.lark`. Building it takes some 60 ms, reading kept tables 5 ms."""
    from lark import Lark

    folder = folder_for_tables() if folder_for_tables is not None else None
    return Lark(
        beside(__file__, "dir.lark"),
        parser="lalr",
        lexer="basic",
        start=["module", "line", "head", "type", "literal", "example"],
        propagate_positions=True,
        cache=False if folder is None else str(folder / "grammar.tables"),
    )


@cache
def _terminals() -> dict[str, str]:
    """Lark's names of the kinds: its own for punctuation and keywords."""
    named = {t.name: t.name for t in lark().terminals} | {"LARGE_LIST": "LARGE_LIST"}
    return named | {t.pattern.value: t.name for t in lark().terminals if t.pattern.type == "str"}


@cache
def _kinds_of_terminals() -> dict[str, str]:
    return {name: kind for kind, name in _terminals().items()} | {"$END": END}


def _parse(rule: str, kinds: Kinds) -> Node | Unexpected:
    from lark import Token, UnexpectedToken

    terminals = _terminals()
    parser = lark().parse_interactive(start=rule)  # pyright: ignore[reportUnknownMemberType]: partly untyped
    for index, kind in enumerate(kinds):
        name = terminals.get(kind)
        if name is None:
            return _unexpected(index, parser)
        try:
            parser.feed_token(Token(name, kind, start_pos=index, end_pos=index))
        except UnexpectedToken:
            return _unexpected(index, parser)
    try:
        return _node(parser.feed_eof())  # pyright: ignore[reportUnknownMemberType]: partly untyped
    except UnexpectedToken:
        return _unexpected(len(kinds), parser)


def _unexpected(index: int, parser: InteractiveParser) -> Unexpected:
    named = _kinds_of_terminals()
    accepted = cast("set[str]", parser.accepts())
    return Unexpected(index, frozenset(named[name] for name in accepted))


def _node(tree: Tree[Token]) -> Node:
    from lark import Tree

    children = tuple(
        _node(child) if isinstance(child, Tree) else None if child is None else child.start_pos  # pyright: ignore[reportUnnecessaryComparison]: an absent optional part is None
        for child in tree.children
    )
    meta = tree.meta
    if meta.empty:
        return Node(str(tree.data), children, 0, -1)
    return Node(str(tree.data), children, meta.start_pos, meta.end_pos)
