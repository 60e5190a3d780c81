"""The heads of functions: of a broken one, the name and the parameters that can be read."""

from __future__ import annotations

from dataclasses import replace

from distir.diagnostics.codes import syntax as codes
from distir.ir import UNKNOWN, Mesh, Param, dims
from distir.ir.places import MESH, Size
from distir.syntax.fault import Fault
from distir.syntax.grammar import Unexpected, shape
from distir.syntax.problems import TokenProblem, problem
from distir.syntax.ranges import is_range, readable_names, width
from distir.syntax.reading import Head, evaluate
from distir.syntax.spreading import TOO_MANY
from distir.syntax.statements import Words
from distir.syntax.tokens import FUNCTION, IDENT, INT, VALUE


def head(piece: Words, too_deep: bool, most: int) -> tuple[Head, TokenProblem | None]:
    """The head, and what is wrong with it. Of one that is nested too deep, no type is read.

    `most`: how many names its ranges may mean.
    """
    if sum(map(width, piece.names)) > most:
        found = TokenProblem(codes.BAD_COUNTED_CALL, TOO_MANY, None, 0, len(piece.tokens) - 1)
        return _recovered(piece, types=False, ranges=False), found
    if too_deep:
        return _recovered(piece, types=False), None
    found = _by_parameter(piece)
    if found is not None:
        return found, None
    node = shape("head", piece.kinds)
    if isinstance(node, Unexpected):
        return _recovered(piece), problem(node, piece.tokens, piece.kinds)
    try:
        return evaluate(node, piece.tokens), None
    except Fault as fault:
        return _recovered(piece), TokenProblem(fault.code, fault.message, fault.help, fault.first, fault.last)


def _by_parameter(piece: Words) -> Head | None:
    """The head, each spelling of a type and its roles read once; None if something may be wrong with it.

    A model has thousands of weights, of a handful of types.
    """
    tokens, kinds = piece.tokens, piece.kinds
    if kinds[:3] != ("func", FUNCTION, "("):
        return None
    params: list[Param] = []
    known: dict[tuple[str, ...], Param] = {}
    start = index = 3
    depth = 0
    for index in range(3, len(kinds)):
        kind = kinds[index]
        if kind in ("(", "[", "{"):
            depth += 1
        elif depth and kind in (")", "]", "}"):
            depth -= 1
        elif not depth and kind in (",", ")"):
            if index > start:
                if is_range(tokens[start]):
                    return None
                spelling = tuple(tokens[start + 1 : index])
                param = known.get(spelling)
                if param is None:
                    (param,) = _param(tokens[start:index], kinds[start:index], types=True, strict=True) or (None,)
                if param is None or kinds[start] != VALUE:
                    return None
                known[spelling] = param
                params.append(Param(tokens[start][1:], param.type, param.roles))
            elif kind == ",":
                return None
            start = index + 1
            if kind == ")":
                break
    else:
        return None
    node = shape("head", (*kinds[:3], *kinds[index:]))
    if isinstance(node, Unexpected):
        return None
    try:
        head = evaluate(node, [*tokens[:3], *tokens[index:]])
    except Fault:
        return None
    return replace(head, params=tuple(params))


def _recovered(piece: Words, types: bool = True, ranges: bool = True) -> Head:
    """The name if it is there, and every parameter that begins with a value; a type that cannot be read is unknown.

    Without `ranges`, parameters that are ranges are left out.
    """
    tokens, kinds = piece.tokens, piece.kinds
    name = tokens[1][1:] if len(kinds) > 1 and kinds[1] == FUNCTION else ""
    params: list[Param] = []
    start = kinds.index("(") + 1 if "(" in kinds else len(kinds)
    depth = 0
    for index in range(start, len(kinds)):
        kind = kinds[index]
        if not depth and kind in (",", ")"):
            if ranges or not any(map(is_range, tokens[start : start + 1])):
                params += _param(tokens[start:index], kinds[start:index], types)
            start = index + 1
            if kind == ")":
                break
        depth += (kind in ("(", "[", "{")) - (kind in (")", "]", "}"))
    else:
        if ranges or not any(map(is_range, tokens[start : start + 1])):
            params += _param(tokens[start:], kinds[start:], types)
    meshes = _meshes(tokens, kinds)
    stages = tuple(sorted((stage, mesh) for stage, mesh in meshes.items() if stage is not None))
    return Head(name, tuple(params), None, mesh=meshes.get(None, ()), stages=stages)


def _meshes(tokens: list[str], kinds: tuple[str, ...]) -> dict[int | None, Mesh]:
    """The meshes that a head states, as far as they can be read: without them no type that names an axis is understood.

    By stage, or under None that of all others.
    """
    found: dict[int | None, Mesh] = {}
    for at, token in enumerate(tokens):
        if token == MESH and kinds[at + 1 : at + 2] == ("(",):
            found.setdefault(None, _axes(at, tokens, kinds))
        elif token == MESH and kinds[at + 1 : at + 3] == (INT, "(") and len(tokens[at + 1]) < _DIGITS:
            found.setdefault(int(tokens[at + 1]), _axes(at + 1, tokens, kinds))
    return found


def _axes(at: int, tokens: list[str], kinds: tuple[str, ...]) -> Mesh:
    """The axes of a mesh behind the word, or its number, at a place."""
    axes: dict[str, Size] = {}
    for i in range(at + 2, len(kinds)):
        if kinds[i : i + 3] == (IDENT, "=", INT) and len(tokens[i + 2]) < _DIGITS:
            axes.setdefault(tokens[i], max(1, int(tokens[i + 2])))
        elif kinds[i : i + 3] == (IDENT, "=", IDENT):
            axes.setdefault(tokens[i], dims.named(tokens[i + 2]))
        if kinds[i] == ")":
            break
    return tuple(axes.items())


_DIGITS = 10


def _param(tokens: list[str], kinds: tuple[str, ...], types: bool, strict: bool = False) -> list[Param]:
    """The parameter; nothing if it does not begin with a value or, if `strict`, cannot be read."""
    if not kinds or kinds[0] != VALUE:
        return []
    if not types:
        return [Param(name, UNKNOWN) for name in readable_names(tokens[0][1:])]
    node = shape("head", ("func", FUNCTION, "(", *kinds, ")"))
    if not isinstance(node, Unexpected):
        try:
            return list(evaluate(node, ["func", "@", "(", *tokens, ")"]).params)
        except Fault:
            pass
    return [] if strict else [Param(name, UNKNOWN) for name in readable_names(tokens[0][1:])]
