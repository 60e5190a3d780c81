"""The spans of a program's parts, computed on demand from the text of the one statement.

A site counts the operands and attributes of the canonical statement, the text may spell it otherwise: `Send(%x, 2)`
holds the attribute `device`. Reading the statement again, with numbered names, shows which words became what.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache

from distir.diagnostics import Source, Span
from distir.ir import Apply, Arg, Attributes, Call, Constant, Literal, Part, Return, Site, identity
from distir.ir.counted import Then
from distir.syntax import scan
from distir.syntax.fault import Fault
from distir.syntax.function import FunctionSyntax
from distir.syntax.grammar import Child, Node, Unexpected, shape
from distir.syntax.ranges import is_range, means, readable_names, width
from distir.syntax.reading import WrittenStatement, evaluate
from distir.syntax.statements import Abbreviation, Spelling, Words, canonical, numbered, statement, tokens, words
from distir.syntax.tokens import TIMES, VALUE

Tokens = tuple[int, int]
"""The numbers of the first and the last token of something."""


def locate(
    source: Source, found: FunctionSyntax, spelling: Spelling | None, site: Site, within: int | None = None
) -> Span | None:
    """Where a site stands that is in `found`; the whole statement for a part that is not written.

    `within`: the number of a statement of a counted one, of which the site's part is one. None for what is not in the
    text.
    """
    if site.index is None:
        whole = Span(found.span.start, max(found.name.end, found.span.start + 4))
        if site.part == Part("name") and found.name.start < found.name.end:
            return found.name  # known from the parse: heads can be long
        return whole if site.part is None else _placed(source, found, spelling, found.head, site.part) or whole
    if not 0 <= site.index < len(found.starts):
        return None
    whole = found.statement(site.index)
    if site.part is None and within is None:
        return whole
    return _placed(source, found, spelling, whole, site.part or Part("all"), within) or whole


def statements_in(source: Source, found: FunctionSyntax, index: int) -> list[Span]:
    """Where the statements stand that are written as statement `index`."""
    whole = found.statement(index)
    read = _reading(words_of(source, found, whole), False, None)
    if not isinstance(read.node, Node):
        return []
    spans = (read.piece.span(node.first, node.last) for node in _statements(read.node))
    return [Span(whole.start + span.start, whole.start + span.end) for span in spans]


def _placed(
    source: Source,
    function: FunctionSyntax,
    spelling: Spelling | None,
    whole: Span,
    part: Part,
    within: int | None = None,
) -> Span | None:
    read = _reading(words_of(source, function, whole), whole is function.head, spelling)
    tokens = read.tokens_of(part) if within is None else read.tokens_within(within, part)
    if tokens is None:
        return None
    span = read.piece.span(*tokens)
    return Span(whole.start + span.start, whole.start + span.end)


def words_of(source: Source, function: FunctionSyntax, whole: Span) -> Words:
    """The tokens of a head or statement; their spans count from its start."""
    text = scan.normalized(source.text[whole.start : whole.end])
    first, last = (bisect_left(function.comments, (offset,)) for offset in (whole.start, whole.end))
    inside = [(a - whole.start, b - whole.start) for a, b in function.comments[first:last]]
    return _words(scan.blanked(text, 0, len(text), inside))


_words = lru_cache(maxsize=2)(words)
"""A statement with many mistakes is read once for all of them."""


def params_of(head: Words) -> list[Node]:
    """Where each parameter of a head is written; those of a range, where that is."""
    return _Reading(head, True, None).params


class _Reading:
    """A head or a statement, read again. What many sites in it need is computed once."""

    def __init__(self, piece: Words, is_head: bool, spelling: Spelling | None) -> None:
        self.piece, self.is_head, self.spelling = piece, is_head, spelling
        self.node = shape("head" if is_head else "line", piece.kinds)

    def tokens_of(self, part: Part) -> Tokens | None:
        """The tokens of a part; None for one that is not written."""
        if isinstance(self.node, Unexpected):
            return None
        if self.is_head:
            return self._of_head(self.node, part)
        if part.kind in ("result", "claim", "operand") and self.spread is not None:
            return self._of_spread(self.spread, part)
        return self._of_line(self.node, part)

    def tokens_within(self, number: int, part: Part) -> Tokens | None:
        """The tokens of a part of one of the statements of a counted one; of all of it for one that is not written."""
        if isinstance(self.node, Unexpected):
            return None
        node = _statements(self.node)[number]
        results, operation, _, _, _ = node.children
        assert isinstance(operation, Node)
        match part.kind:
            case "operand":
                operands = [o for o in _operands(operation) for _ in range(self._width(o))]
                found = tokens(_nth(operands, part.key))
            case "attribute":
                found = tokens(dict(_written_attributes(operation, self.piece.tokens)).get(str(part.key)))
                found = found or _callee(operation)
            case "result" | "claim":
                given = [r for r in _children(results) for _ in range(self._width(r))]
                found = tokens(_nth(given, part.key))
            case _:
                found = self._of_line(node, part)
        return found or tokens(node)

    @cached_property
    def params(self) -> list[Node]:
        """Of a head: where each parameter is written."""
        assert isinstance(self.node, Node)
        return [param for param, _ in self._params()]

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Of the parameters of a head, by name."""
        return {name: number for number, (_, name) in reversed([*enumerate(self._params())])}

    def _params(self) -> list[tuple[Node, str]]:
        """Each parameter's node and name, ranges written out."""
        assert isinstance(self.node, Node)
        found: list[tuple[Node, str]] = []
        for child in _children(self.node.children[1]):
            assert isinstance(child, Node)
            grouped = child.rule == "param_group"
            together = [param for param in (child.children if grouped else (child,)) if isinstance(param, Node)]
            columns = [readable_names(self.piece.tokens[param.first][1:]) for param in together]
            found += [(p, name) for row in zip(*columns, strict=False) for p, name in zip(together, row, strict=True)]
        return found

    @cached_property
    def spread(self) -> Abbreviation | None:
        """What a statement means that has ranges, or is a counted call; None for another."""
        if TIMES not in self.piece.kinds and not any(map(is_range, self.piece.names)):
            return None
        made = statement(self.piece, self.spelling)
        return made if isinstance(made, Abbreviation) else None

    def _of_spread(self, made: Abbreviation, part: Part) -> Tokens | None:
        """The tokens where a value is named first, among the results or the operands."""
        assert isinstance(self.node, Node)
        if not isinstance(part.key, int) or self.node.rule == "return_":
            return None
        given = made.statement.args if part.kind == "operand" else _results(made)
        name = given[part.key] if part.key < len(given) else None
        parts = (tokens(node.children[part.kind == "operand"]) for node in _statements(self.node))
        numbers = (number for bounds in parts if bounds is not None for number in range(bounds[0], bounds[1] + 1))
        values = (n for n in numbers if self.piece.kinds[n] == VALUE and means(self.piece.tokens[n][1:], str(name)))
        return tokens(next(values, None)) if isinstance(name, str) else None

    def _width(self, part: Child) -> int:
        """How many operands or results stand where one is written."""
        if not isinstance(part, Node) or part.rule not in ("value", "result") or part.first != part.last:
            return 1
        return width(self.piece.tokens[part.first][1:])

    @cached_property
    def statement(self) -> tuple[WrittenStatement, Apply | Call] | None:
        """What is written, and the canonical statement; None for what is none."""
        assert isinstance(self.node, Node)
        try:
            written: WrittenStatement = evaluate(self.node, numbered(self.piece))
            return written, canonical(written, self.spelling)
        except Fault:
            return None

    @cached_property
    def leaves(self) -> dict[object, Tokens]:
        """The tokens of each operand of a statement, and of all within it."""
        assert isinstance(self.node, Node)
        assert self.statement is not None
        found: dict[object, Tokens] = {}
        for arg, child in zip(self.statement[0].operation.args, _operands(self.node.children[1]), strict=True):
            if not isinstance(arg, Then):
                _note(arg, child, found)
        return found

    def _of_head(self, node: Node, part: Part) -> Tokens | None:
        name, _, result_types, marks = node.children
        if part.kind == "name":
            return tokens(name)
        if part.kind == "facts":
            return tokens(marks)
        if part.kind == "result_type":
            return tokens(_nth(_children(result_types), part.key))
        param = _nth(self.params, self.numbers.get(part.key, -1) if isinstance(part.key, str) else part.key)
        if part.kind == "role" and param is None:
            roles = (role for child in self.params for role in _children(child.children[2]))
            named = (role for role in roles if isinstance(role, Node) and self.piece.tokens[role.first] == part.key)
            return tokens(next(named, None))
        if not isinstance(param, Node):
            return None
        chosen = {"param_type": param.children[1], "role": param.children[2]}.get(part.kind)
        return tokens(chosen) or tokens(param.children[0])

    def _of_line(self, node: Node, part: Part) -> Tokens | None:
        if node.rule == "return_":
            return tokens(_nth(node.children, part.key)) if part.kind == "operand" else None
        if node.rule == "repetition":
            return None
        results, operation, _, stream, facts = node.children
        assert isinstance(operation, Node)
        match part.kind:
            case "callee":
                return _callee(operation)
            case "stream":
                return tokens(stream.children[1] if isinstance(stream, Node) else None)
            case "facts":
                return tokens(facts)
            case "result" | "claim":
                result = _nth(_children(results), part.key)
                if not isinstance(result, Node):
                    return None
                return tokens(result.children[1] if part.kind == "claim" else None) or tokens(result.children[0])
            case "operand":
                return self._operand(part)
            case "attribute":
                return self._attribute(operation, part)
            case _:
                return None

    def _operand(self, part: Part) -> Tokens | None:
        if self.statement is None:
            return None
        _, made = self.statement
        wanted = made.args[part.key] if isinstance(part.key, int) and 0 <= part.key < len(made.args) else None
        return None if wanted is None else _found(wanted, self.leaves)

    def _attribute(self, operation: Node, part: Part) -> Tokens | None:
        if self.statement is None:
            return None
        written, made = self.statement
        if isinstance(made, Call) or part.key not in made.attrs:
            return _callee(operation)
        stated = dict(_written_attributes(operation, self.piece.tokens))
        if part.key in stated:
            return tokens(stated[str(part.key)])
        operands = _operands(operation)
        return _spelled_otherwise(str(part.key), made.attrs, made.args, stated, written, operands) or _callee(operation)


_reading = lru_cache(maxsize=2)(_Reading)


def _statements(node: Node) -> list[Node]:
    """The statements that are written as one."""
    return [child for child in node.children[2:] if isinstance(child, Node)] if node.rule == "repetition" else [node]


def _results(made: Abbreviation) -> tuple[Arg, ...]:
    return () if isinstance(made.statement, Return) else made.statement.results


def _operands(operation: Child) -> list[Child]:
    return [child for child in _arguments(operation) if not _is_attribute(child)] if isinstance(operation, Node) else []


def _spelled_otherwise(
    name: str,
    attrs: Attributes,
    args: tuple[Arg, ...],
    stated: dict[str, Child],
    written: WrittenStatement,
    operands: list[Child],
) -> Tokens | None:
    """The words that became the attribute `name`: the first of that value that became nothing of their own name."""
    kept = {id(arg) for arg in args}
    unused: list[tuple[Constant, Child]] = []
    for arg, child in zip(written.operation.args, operands, strict=True):
        if isinstance(arg, Literal) and id(arg) not in kept:
            unused.append((arg.value, child))
    for alias, child in stated.items():
        if alias not in attrs and written.operation.attrs is not None:
            unused.append((written.operation.attrs[alias], child))
    for attribute in (attribute for attribute in attrs if attribute not in stated):
        value = identity(attrs[attribute])
        match = next((entry for entry in unused if identity(entry[0]) == value), None)
        if match is not None:
            unused.remove(match)
            if attribute == name:
                return tokens(match[1])
    return None


def _note(arg: Arg, child: Child, leaves: dict[object, Tokens]) -> None:
    """Note the tokens of an argument and of all within it."""
    here = tokens(child)
    assert here is not None
    leaves[arg if isinstance(arg, str) else id(arg)] = here
    if isinstance(arg, tuple):
        for item, inner in zip(arg, _children(child), strict=True):
            _note(item, inner, leaves)


def _found(arg: Arg, leaves: dict[object, Tokens]) -> Tokens | None:
    """The tokens of an argument: its own, or from the first to the last of what it consists of."""
    own = leaves.get(arg if isinstance(arg, str) else id(arg))
    if own is not None or not isinstance(arg, tuple):
        return own
    parts = [tokens for tokens in (_found(item, leaves) for item in arg) if tokens is not None]
    return (min(first for first, _ in parts), max(last for _, last in parts)) if parts else None


def _written_attributes(operation: Node, tokens: Sequence[str]) -> Iterator[tuple[str, Child]]:
    """The attributes with their names, those in square brackets first."""
    for group in operation.children[1:]:
        for child in _children(group):
            if isinstance(child, Node) and _is_attribute(child):
                yield tokens[child.first], child


def _arguments(operation: Node) -> tuple[Child, ...]:
    return _children(operation.children[-1])


def _is_attribute(child: Child) -> bool:
    return isinstance(child, Node) and child.rule == "attribute"


def _callee(operation: Node) -> Tokens:
    return operation.first, operation.first


def _children(node: Child) -> tuple[Child, ...]:
    return node.children if isinstance(node, Node) else ()


def _nth(children: Sequence[Child], key: int | str) -> Child:
    return children[key] if isinstance(key, int) and 0 <= key < len(children) else None
