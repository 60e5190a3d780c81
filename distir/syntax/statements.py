"""One statement, head, type, constant or example: from its text to its value. Knows nothing of the text around it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from distir.diagnostics import Code, Diagnostic, ProgramError, Span
from distir.diagnostics.codes import syntax as codes
from distir.files import limits
from distir.ir import DISCARD, UNKNOWN, Apply, Call, Constant, Function, Param, Return, Type
from distir.ir.counted import Then
from distir.syntax import scan
from distir.syntax.fault import Fault
from distir.syntax.grammar import Child, Node, Unexpected, shape
from distir.syntax.problems import TokenProblem, problem
from distir.syntax.ranges import is_range, readable_names, width
from distir.syntax.reading import WrittenStatement, evaluate, place
from distir.syntax.spreading import Abbreviated, Places, Spelling, spread
from distir.syntax.tokens import REPEAT, TIMES, TOKEN, VALUE, kinds, spans


class SyntaxProblem(ProgramError):  # noqa: N818 (it holds findings)
    """A type, constant or example that does not parse; `message` says why, `span` where in the given text."""

    def __init__(self, message: str, span: Span, help: str | None = None, code: Code = codes.UNEXPECTED) -> None:
        super().__init__([Diagnostic(code, span, message, help=help)])
        self.message, self.span, self.help = message, span, help


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """The tokens of a piece of text, and their kinds. Compared by identity, so that caches need not read them."""

    text: str
    tokens: list[str]
    kinds: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """The values named, in order, with repetitions."""
        return [token[1:] for token, kind in zip(self.tokens, self.kinds, strict=True) if kind == VALUE]

    def span(self, first: int, last: int) -> Span:
        """The span of tokens `first` to `last` in the piece; one past the last token is its end."""
        found = _bounds(self.text)
        if first >= len(found):
            return Span(len(self.text), len(self.text))
        return Span(found[first][0], found[max(first, min(last, len(found) - 1))][1])


@lru_cache(maxsize=2)
def _bounds(text: str) -> tuple[tuple[int, int], ...]:
    """Kept for the next: a statement with many mistakes is asked about as often."""
    return tuple(spans(text))


def words(text: str) -> Words:
    """Cut a piece of text, comments blanked, into tokens."""
    tokens = TOKEN.findall(text)
    return Words(text, tokens, kinds(tokens))


def numbered(piece: Words) -> list[str]:
    """The tokens with `%0`, `%1`, … for the names of values."""
    result = list(piece.tokens)
    number = 0
    for index, kind in enumerate(piece.kinds):
        if kind == VALUE:
            result[index] = f"%{number}"
            number += 1
    return result


def statement(
    piece: Words, spelling: Spelling | None, most: int = limits.meant(limits.CHARACTERS)
) -> Apply | Call | Return | Abbreviation | TokenProblem:
    """The statement with `0`, `1`, … for the names of its values; one that means more, with the names.

    `most`: how many names and calls it may mean.
    """
    node = shape("line", piece.kinds)
    if isinstance(node, Unexpected):
        return problem(node, piece.tokens, piece.kinds)
    try:
        made = evaluate(node, numbered(piece))
        if isinstance(made, WrittenStatement) and made.times is None and (fault := made.out_of_place()) is not None:
            place(fault, node)
            raise fault
        if TIMES in piece.kinds or any(map(is_range, piece.names)):
            return _spread(made, node, piece, spelling, most)
        return canonical(made, spelling) if isinstance(made, WrittenStatement) else Return(made)
    except Fault as fault:
        return TokenProblem(fault.code, fault.message, fault.help, fault.first, fault.last)


@dataclass(frozen=True, slots=True)
class Abbreviation:
    """A statement that means more than its words, with the names of its values.

    `function`: what a counted statement calls. `size`: how many names and statements it means.
    """

    statement: Apply | Call | Return
    function: Function | None
    size: int


def _spread(made: Abbreviated, node: Node, piece: Words, spelling: Spelling | None, most: int) -> Abbreviation:
    found = spread(made, piece.names, places(node, len(piece.kinds)), spelling, most)
    whole = found.made
    if isinstance(whole, tuple):
        whole = Return(whole)
    elif isinstance(whole, WrittenStatement):
        whole = canonical(whole, spelling)
    return Abbreviation(whole, found.function, found.size)


def places(node: Node, size: int) -> list[Places]:
    """Where the parts of a statement of `size` tokens stand; of a block, those of each of its statements."""
    if node.rule != "repetition":
        return [_places(node, (0, size - 1))]
    return [_places(child, (child.first, child.last)) for child in node.children[2:] if isinstance(child, Node)]


def _places(node: Node, whole: tuple[int, int]) -> Places:
    if node.rule == "return_":
        return Places([tokens(child) for child in node.children], (), None, whole)
    results, operation, _, _, facts = node.children
    assert isinstance(operation, Node)
    operands = operation.children[-1]
    children = operands.children if isinstance(operands, Node) else ()
    positional = [tokens(c) for c in children if not (isinstance(c, Node) and c.rule == "attribute")]
    named = [tokens(child) for child in results.children] if isinstance(results, Node) else []
    return Places(positional, named, tokens(facts), whole)


def tokens(child: Child) -> tuple[int, int] | None:
    """The first and the last token of a part of a tree; None where nothing is written."""
    if isinstance(child, Node):
        return None if child.last < child.first else (child.first, child.last)
    return None if child is None else (child, child)


def canonical(written: WrittenStatement, spelling: Spelling | None) -> Apply | Call:
    """The statement in canonical spelling."""
    operation = written.operation
    results = tuple(result for result in written.results if isinstance(result, str))
    args = tuple(arg for arg in operation.args if not isinstance(arg, Then))
    if operation.attrs is None:
        return Call(results, operation.callee, args, written.claims, written.stream, written.facts)
    attrs = operation.attrs
    if spelling is not None:
        args, attrs = spelling(operation.callee, args, attrs)
    return Apply(results, operation.callee, args, attrs, written.claims, written.stream, written.facts)


def defined(piece: Words, most: int) -> tuple[str, ...]:
    """The results that a broken statement still seems to define: the names before its `=`, or those of a block.

    None of ranges, where the statement's mean more than `most` names.
    """
    may_be_ranges = sum(map(width, piece.names)) <= most
    if piece.kinds[:1] == (REPEAT,):
        return tuple(_defined_in_block(piece)) if may_be_ranges else ()
    names: list[str] = []
    depth = 0
    in_type = False
    for token, kind in zip(piece.tokens, piece.kinds, strict=True):
        if in_type and (depth or kind not in (",", "=")):
            depth += (kind in ("[", "(")) - (kind in ("]", ")"))
        elif kind in (VALUE, "_"):
            if may_be_ranges or not is_range(token):
                names += readable_names(token[1:]) if kind == VALUE else [DISCARD]
        elif kind == ":":
            in_type = True
        elif kind in (",", "[", "]"):
            in_type = False
        else:
            break
    return tuple(names)


def _defined_in_block(piece: Words) -> list[str]:
    """The names before each `=` of statements in a block."""
    names: list[str] = []
    before: list[str] = []
    for token, kind in zip(piece.tokens, piece.kinds, strict=True):
        if kind == VALUE:
            before += readable_names(token[1:])
        elif kind == "=":
            names += before
            before = []
        elif kind in (")", "{", "}"):
            before = []
    return list(dict.fromkeys(names))


def parse_type(text: str) -> Type:
    """A type as in `.dir`: `Tensor[Float32, (2, 3), 1]`. Raises SyntaxProblem."""
    return _whole("type", text)


def parse_literal(text: str) -> Constant:
    """A constant as in `.dir`: `[1, 2]`, `dense<Int64, [2, 3]>`, `"sum"`. Raises SyntaxProblem."""
    return _whole("literal", text)


def parse_example(text: str, spelling: Spelling | None = None) -> tuple[tuple[Param, ...], Apply]:
    """An op's example, `%y: T = MatMul(%a: T, %b: T)`: the values it is given, with their types, and the statement.

    Raises SyntaxProblem.
    """
    written: WrittenStatement = _whole("example", text)
    params: dict[str, Param] = {}
    for param in written.operation.annotations:
        if params.setdefault(param.name, param).type == UNKNOWN:
            params[param.name] = param
    made = canonical(written, spelling)
    assert isinstance(made, Apply)
    return tuple(params.values()), made


def _whole(rule: str, text: str) -> Any:
    source = scan.normalized(text)
    comments: scan.Comments = []
    depth = _depth(source, comments)
    piece = words(scan.blanked(source, 0, len(source), comments))
    if depth is not None:
        raise SyntaxProblem(TOO_DEEP_MESSAGE, Span(depth, depth + 1), code=codes.TOO_DEEP)
    node = shape(rule, piece.kinds)
    if isinstance(node, Unexpected):
        raise _raised(problem(node, piece.tokens, piece.kinds), piece)
    try:
        return evaluate(node, piece.tokens)
    except Fault as fault:
        found = TokenProblem(fault.code, fault.message, fault.help, fault.first, fault.last)
        raise _raised(found, piece) from fault


TOO_DEEP_MESSAGE = f"brackets are nested more than {limits.NESTED} deep"


def _depth(text: str, comments: scan.Comments) -> int | None:
    """Notes the comments of a text that need not be a statement, and gives where its brackets become too deep."""
    start = 0
    too_deep: int | None = None
    while start < len(text):
        extent = scan.statement(text, start, comments)
        too_deep = extent.too_deep if too_deep is None else too_deep
        start = max(extent.end, start + 1)
    return too_deep


def _raised(found: TokenProblem, piece: Words) -> SyntaxProblem:
    message = found.message.replace("the end of the statement", "the end of the text")
    return SyntaxProblem(message, piece.span(found.first, found.last), found.help, found.code)
