"""From tokens to trees, by the rules of `dir.lark`.

The shape of a tree depends on the kinds of the tokens alone. So Lark is asked once per sequence of kinds, and the tree
it gives, with the numbers of the tokens as leaves, serves every text with that sequence. Knows no meaning.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, TypeGuard, Union, cast

from distir.files.reading import beside
from distir.syntax.tokens import END, IDENT, INT, ON, REPEAT, THEN, TUPLE, VALUE

if TYPE_CHECKING:  # lark is imported when something is parsed: not every command does
    from collections.abc import Callable, Iterator
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
        made = _made(rule, kinds)
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


def _made(rule: str, kinds: Kinds) -> Node | Unexpected:
    if rule == "line" and kinds[:1] == (REPEAT,):
        return _block(kinds)
    listed = _Listed(kinds) if rule == "line" else None
    if listed is not None and listed.counts:
        return listed.expanded(shape(rule, listed.short))
    return (_Tuples(kinds).tree(rule) if TUPLE in kinds else None) or _parse(rule, kinds)


class _Listed:
    """A sequence of kinds in which lists of values are one value each: there are few such sequences."""

    LEAST = 4
    """So many values at least are one."""

    def __init__(self, kinds: Kinds) -> None:
        short: list[str] = []
        self.counts: dict[int, int] = {}
        """By index of a value that is several: how many."""
        self.places: list[int] = []
        """By index: that of the token, or the first one, in the whole sequence."""
        index = 0
        while index < len(kinds):
            count = self._values(kinds, index)
            if count >= self.LEAST:
                self.counts[len(short)] = count
            else:
                count = 1
            self.places.append(index)
            short.append(kinds[index])
            index += 2 * count - 1
        self.places.append(len(kinds))
        self.short: Kinds = tuple(short)

    @staticmethod
    def _values(kinds: Kinds, start: int) -> int:
        """How many values are listed from one on, each of them a whole item."""
        if kinds[start] != VALUE or (start and kinds[start - 1] in (THEN, "=")):
            return 0
        end = start
        while end + 2 < len(kinds) and kinds[end + 1] == "," and kinds[end + 2] == VALUE:
            end += 2
        is_whole = end + 1 >= len(kinds) or kinds[end + 1] in (",", ")", "]", "=")
        return (end - start) // 2 + is_whole

    def expanded(self, found: Node | Unexpected) -> Node | Unexpected:
        """The tree of the whole sequence."""
        if isinstance(found, Unexpected):
            return Unexpected(self.places[found.index], found.expected)
        return self._node(found)

    def _node(self, node: Node) -> Node:
        children: list[Child] = []
        for child in node.children:
            if isinstance(child, int):
                children += self._tokens(child)
            elif child is None:
                children.append(None)
            elif child.first == child.last and child.first in self.counts and child.rule in ("value", "result"):
                rest = child.children[1:]
                children += [Node(child.rule, (at, *rest), at, at) for at in self._tokens(child.first)]
            else:
                children.append(self._node(child))
        last = node.last if node.last < node.first else self._tokens(node.last)[-1]
        return Node(node.rule, tuple(children), self.places[node.first], last)

    def _tokens(self, index: int) -> list[int]:
        """The tokens of the whole sequence that one is."""
        first = self.places[index]
        return [first + 2 * number for number in range(self.counts.get(index, 1))]


class _Tuples:
    """A sequence of kinds in which each item of a tuple type is one token: items are read by themselves, once each."""

    def __init__(self, kinds: Kinds) -> None:
        self.kinds = kinds
        self.ends: dict[int, int] = {}
        """By index of an item: where it ends in the whole sequence."""
        self.places: list[int] = []
        """By index: that of the token, or the first one, in the whole sequence."""
        index = 0
        while index < len(kinds):
            self.places.append(index)
            index += 1
            if kinds[index - 1] == TUPLE and kinds[index : index + 1] == ("[",):
                index = self._items(index)

    def _items(self, index: int) -> int:
        """Add the items behind a bracket; where they end."""
        depth = 0
        while index < len(self.kinds) and self.kinds[index] != "]":
            self.places.append(index)  # a bracket or a comma
            start = index = index + 1
            while index < len(self.kinds) and (depth or self.kinds[index] not in (",", "]")):
                depth += (self.kinds[index] in "([{") - (self.kinds[index] in ")]}")
                index += 1
            if index > start:
                self.ends[len(self.places)] = index
                self.places.append(start)
        return index

    def tree(self, rule: str) -> Node | None:
        """The tree of the whole sequence; None where something is wrong."""
        found = _parse(
            rule, tuple("?" if at in self.ends else self.kinds[place] for at, place in enumerate(self.places))
        )
        try:
            return self._node(found) if isinstance(found, Node) else None
        except _WrongItem:
            return None

    def _node(self, node: Node) -> Node:
        if node.last < node.first:
            return Node(node.rule, node.children, self.places[node.first], node.last)
        if node.first == node.last and node.first in self.ends:
            start, end = self.places[node.first], self.ends[node.first]
            item = shape("type", self.kinds[start:end])
            if isinstance(item, Unexpected):
                raise _WrongItem
            return _moved(item, start)
        children = tuple(
            self._node(child) if isinstance(child, Node) else None if child is None else self.places[child]
            for child in node.children
        )
        return Node(
            node.rule, children, self.places[node.first], self.ends.get(node.last, self.places[node.last] + 1) - 1
        )


class _WrongItem(Exception):  # noqa: N818
    """An item of a tuple type is no type."""


def _block(kinds: Kinds) -> Node | Unexpected:
    """The tree of a block: that of each of its statements, which other blocks may have, too."""
    opened = kinds.index("{") + 1 if "{" in kinds else 0
    head = _parse("line", (*kinds[:opened], IDENT, "(", ")", "}")) if opened and kinds[-1:] == ("}",) else None
    statements = list(_statements(kinds, opened)) if isinstance(head, Node) else []
    made = [shape("line", kinds[first:end]) for first, end in statements]
    nodes = [_moved(node, first) for node, (first, _) in zip(made, statements, strict=True) if _is_statement(node)]
    if not nodes or len(nodes) != len(made) or not isinstance(head, Node):
        return _parse("line", kinds)
    return Node(head.rule, (*head.children[:2], *nodes), 0, len(kinds) - 1)


def _statements(kinds: Kinds, start: int) -> Iterator[tuple[int, int]]:
    """Where the statements of a block begin and end: behind their operands, a stream and facts."""
    first, index, last = start, start, len(kinds) - 1
    depth = 0
    while index < last:
        depth += (kinds[index] in "([{") - (kinds[index] in ")]}")
        ends = depth == 0 and kinds[index] in (")", "}")
        index += 1
        if ends and kinds[index] == ON:
            index += 2
        if ends and kinds[index] not in ("{", INT, "-"):
            yield first, index
            first = index
    if first < last:
        yield first, last


def _is_statement(node: Node | Unexpected) -> TypeGuard[Node]:
    return isinstance(node, Node) and node.rule == "statement"


def _moved(node: Node, by: int) -> Node:
    """The tree of tokens that come later."""
    children = tuple(
        _moved(child, by) if isinstance(child, Node) else None if child is None else child + by
        for child in node.children
    )
    return Node(node.rule, children, node.first + by, node.last + by)


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
