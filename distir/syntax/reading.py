"""What the rules of `dir.lark` mean: from trees to types, constants and statements.

One function per rule, named as the rule is; it gets what the rule's parts mean, with tokens as their text. A function
that finds something wrong raises `Fault`, which `evaluate` places. Knows neither positions in a text nor the ops.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from distir.diagnostics.codes import placements
from distir.diagnostics.codes import syntax as codes
from distir.files import limits
from distir.ir import (
    COMPUTE,
    DISCARD,
    NO_ATTRIBUTES,
    UNKNOWN,
    Arg,
    Attributes,
    Constant,
    Literal,
    Mesh,
    Param,
    Type,
)
from distir.ir.counted import Then
from distir.ir.dims import LARGEST
from distir.ir.facts import FACTS, NO_FACTS, PHASES, Facts
from distir.ir.places import MESH, Size, Stages
from distir.syntax import constants, numbers, types
from distir.syntax.fault import Fault, meant
from distir.syntax.grammar import Node
from distir.syntax.numbers import INT64, large_list
from distir.syntax.ranges import is_range, names_of, width
from distir.syntax.tokens import KERNEL
from distir.syntax.types import OverDevices


class Keyword(NamedTuple):
    """`name = value`, in brackets or among the arguments."""

    name: str
    value: Constant


@dataclass(frozen=True, slots=True)
class Operation:
    """A statement's right-hand side as written; `attrs` is `None` for a call."""

    callee: str
    args: tuple[Arg | Then, ...]
    attrs: Attributes | None
    annotations: tuple[Param, ...] = ()


@dataclass(frozen=True, slots=True)
class WrittenStatement:
    """A statement as written, before its spelling is made canonical.

    `times`: how often it is done; None where nothing is said. In counted ones alone are there lists of results,
    operands `then` others, `last` facts, which differ from `facts`, and several parameters that it is `of`.
    """

    results: tuple[str | tuple[str, ...], ...]
    claims: tuple[Type | None, ...]
    operation: Operation
    stream: str = ""
    facts: Facts = NO_FACTS
    last: Facts = NO_FACTS
    of: tuple[str, ...] = ()
    times: int | None = None

    def out_of_place(self) -> Fault | None:
        """What only counted statements have, and those in blocks, as an error in others; None if there is nothing."""
        hint = "write how often it is done behind it: `%y, [%r_{1..4}] = @f(%x then %y) 4 times`"
        for found, what, child in (
            (any(isinstance(result, tuple) for result in self.results), "a list of results", 0),
            (any(isinstance(arg, Then) for arg in self.operation.args), "an operand with `then`", 1),
            (bool(self.last), "a range of facts", 4),
            (bool(self.of), "a list behind `of`", 4),
            (counts_on(self.operation.attrs), "a range of numbers", 1),
        ):
            if found:
                return Fault(codes.BAD_COUNTED_CALL, f"{what} belongs to a statement with `times`", hint, child)
        return None


@dataclass(frozen=True, slots=True)
class WrittenBlock:
    """Statements that are done several times, as written."""

    times: int
    statements: tuple[WrittenStatement, ...]


@dataclass(frozen=True, slots=True)
class Head:
    """A function's signature as written."""

    name: str
    params: tuple[Param, ...]
    result_types: tuple[Type, ...] | None
    kernel: bool = False
    facts: Facts = NO_FACTS
    mesh: Mesh = ()
    stages: Stages = ()


def evaluate(node: Node, tokens: Sequence[str]) -> Any:
    """What a tree over these tokens means. Raises Fault."""
    children: list[Any] = []
    for child in node.children:
        if isinstance(child, int):
            children.append(tokens[child])
        else:
            children.append(None if child is None else evaluate(child, tokens))
    try:
        return RULES[node.rule](children)
    except Fault as fault:
        place(fault, node)
        raise


def place(fault: Fault, node: Node) -> None:
    """Place what is wrong at a part of a tree."""
    if fault.first >= 0:
        return
    part = node if fault.child is None else node.children[fault.child]
    if isinstance(part, int):
        fault.first = fault.last = part
    else:
        part = part or node
        fault.first, fault.last = part.first, part.last


# ---- heads and statements


def head(parts: list[Any]) -> Head:
    name, params, result_types, marked = parts
    return Head(name[1:], params, result_types, *(marked or ()))


def marks(parts: list[Any]) -> tuple[bool, Facts, Mesh, Stages]:
    kernels = [number for number, (name, value) in enumerate(parts) if name == KERNEL and value is True]
    for number in kernels[1:]:
        raise Fault(codes.DUPLICATE_ATTRIBUTE, f"`{KERNEL}` is given twice", "keep one of them", number)
    meshes: dict[int, Mesh] = {}
    stated = [number for number, (_, value) in enumerate(parts) if isinstance(value, _StatedMesh)]
    for number in stated:
        found = parts[number].value
        if found.stage in meshes:
            word = f"{MESH} {found.stage}" if found.stage else MESH
            raise Fault(codes.DUPLICATE_ATTRIBUTE, f"`{word}` is given twice", "keep one of them", number)
        meshes[found.stage] = found.axes
    if meshes and 0 not in meshes:
        hint = "state it before: `mesh (dp = 4, tp = 2), mesh 2 (dp = 2, tp = 4)`"
        raise Fault(placements.BAD_MESH, "the mesh of the other stages is not stated", hint, stated[0])
    stages = tuple(sorted((stage, axes) for stage, axes in meshes.items() if stage))
    return bool(kernels), _stated(parts, (*kernels, *stated)), meshes.get(0, ()), stages


def mesh(parts: list[Any]) -> Keyword:
    word, stage, *axes = parts
    if word != MESH:
        near = meant(word, (MESH,)) or "a mesh is stated so: `mesh (dp = 4, tp = 2)`"
        raise Fault(codes.BAD_FACT, f"there is no fact `{word}` with axes", near, 0)
    if stage is not None and not 0 < int(stage) <= LARGEST:
        raise Fault(placements.BAD_MESH, f"`{stage}` is no stage", "devices 1, 2, … of the program are its stages", 1)
    for number, (name, size) in enumerate(axes, 2):
        if name in dict(axes[: number - 2]):
            raise Fault(
                placements.BAD_MESH, f"two axes of the mesh are called `{name}`", "give one another name", number
            )
        if isinstance(size, int) and not 0 < size <= LARGEST:
            hint = "an axis has one device or more"
            raise Fault(placements.BAD_MESH, f"`{size}` is no size of the axis `{name}`", hint, number)
    return Keyword(MESH, cast("Any", _StatedMesh(int(stage or 0), tuple(axes))))


def axis_size(parts: list[Any]) -> tuple[str, Size]:
    name, size = parts
    return name, size


class _StatedMesh(NamedTuple):
    """The axes of a mesh, which a mark states; of one stage or, 0, of all others."""

    stage: int
    axes: Mesh


def fact(parts: list[Any]) -> Keyword:
    name, value = parts
    return Keyword(name, True if value is None else value)


def facts(parts: list[Any]) -> tuple[Facts, Facts, tuple[str, ...]]:
    """The facts of the first time and those of the last, the same where no range is written, and a list behind `of`."""
    of = next((value for name, value in parts if name == "of" and isinstance(value, _Listed)), _Listed())
    single = [Keyword(name, _Value("") if isinstance(value, _Listed) else value) for name, value in parts]
    firsts, lasts = ([Keyword(name, _end_of(value, end)) for name, value in single] for end in (0, -1))
    return _stated(firsts), _stated(lasts), tuple(of)


def number_range(parts: list[Any]) -> NumberRange:
    first, last, *step = parts[0].split("..")
    if step:
        hint = f"how far each is from the one before follows from how often: `{first}..{last}`"
        raise Fault(codes.BAD_COUNTED_CALL, f"expected the first and the last number, found `{parts[0]}`", hint)
    return NumberRange((int(first), int(last)))


class NumberRange(tuple[int, int]):
    """The numbers of the first and the last of several times."""


def counts_on(attrs: Attributes | None) -> bool:
    """Whether attributes are not the same each time."""
    return attrs is not None and any(isinstance(value, NumberRange) for value in attrs.values())


class _Listed(tuple[str, ...]):
    """The parameters of several times."""


def _end_of(value: Any, end: int) -> Any:
    return value[end] if isinstance(value, NumberRange) else value


def _stated(keywords: Sequence[Keyword], beside: Container[int] = ()) -> Facts:
    """The facts that are stated; `beside`: the numbers of marks that are none. Raises Fault for what is no fact."""
    found: dict[str, Any] = {}
    for number, (name, value) in enumerate(keywords):
        if number in beside:
            continue
        fact, stated = ("phase", name) if name in PHASES and value is True else (name, value)
        if fact in found:
            raise Fault(codes.BAD_FACT, *_twice(fact, found[fact], stated), number)
        wrong = _wrong(fact, stated)
        if wrong is not None:
            raise Fault(codes.BAD_FACT, *wrong, number)
        found[fact] = stated
    return Facts(**found) if found else NO_FACTS


def _twice(fact: str, one: object, other: object) -> tuple[str, str]:
    if one == other:
        return f"`{fact}` is stated twice", "keep one of them"
    return f"`{fact}` is stated as both `{one}` and `{other}`", "a statement has one: keep the one that holds"


def _wrong(fact: str, value: object) -> tuple[str, str | None] | None:
    """What is wrong with a fact, and what would do; None if nothing is."""
    if fact == "phase":
        phases = ", ".join(f"`{phase}`" for phase in PHASES)
        return None if value in PHASES else ("a phase is written as its word alone", f"there are {phases}")
    if fact == "of":
        known = isinstance(value, _Value)
        return None if known else ("`of` names a parameter", "write its name, as in `of = %w`")
    if isinstance(value, NumberRange):
        return "a range of numbers belongs to a statement with `times`", f"write one number: `{fact} = {value[0]}`"
    if fact in FACTS:
        fits = type(value) is int and value > 0
        return None if fits else (f"`{fact}` is a number, counted from 1", f"write it so: `{fact} = 1`")
    known = (*PHASES, *(name for name in FACTS if name != "phase"))
    near = meant(fact, (*known, KERNEL))
    return f"there is no fact `{fact}`", near or f"there are {', '.join(known)}; behind a head, `{KERNEL}`, too"


class _Value(str):
    """A value's name, where a constant may stand, too."""


@dataclass(frozen=True, slots=True)
class WrittenParam:
    """Parameters as they are written: by a name, or by a range of names."""

    name: str
    type: Type | OverDevices
    roles: Attributes


def param(parts: list[Any]) -> WrittenParam:
    name, stated, roles = parts
    return WrittenParam(name[1:], UNKNOWN if stated is None else stated, NO_ATTRIBUTES if roles is None else roles)


def params(parts: list[WrittenParam | tuple[Param, ...]]) -> tuple[Param, ...]:
    found: list[Param] = []
    for part in parts:
        found += _written_out(part) if isinstance(part, WrittenParam) else part
    return tuple(found)


def _written_out(param: WrittenParam) -> list[Param]:
    """The parameters that one is written for; what names another parameter in its roles counts on, too."""
    written = names_of(param.name)
    stated = param.type.over(len(written)) if isinstance(param.type, OverDevices) else [param.type] * len(written)
    if len(written) == 1:
        return [Param(written[0], stated[0], param.roles)]
    named = {
        role: names_of(value)
        for role, value in param.roles.items()
        if isinstance(value, str) and is_range(value) and width(value) == len(written)
    }
    roles = [
        Attributes({**param.roles, **{role: names[n] for role, names in named.items()}}) for n in range(len(written))
    ]
    return [
        Param(name, own, given if named else param.roles)
        for name, own, given in zip(written, stated, roles, strict=True)
    ]


def param_group(parts: list[WrittenParam]) -> tuple[Param, ...]:
    """The parameters of a group: all with the first number of their ranges, then all with the next one."""
    columns = [_written_out(param) for param in parts]
    for number, column in enumerate(columns):
        if len(column) != len(columns[0]) or len(column) == 1:
            message = "the names in brackets are ranges that are equally long"
            hint = "brackets hold parameters that count on together: `[%w_{1..4}: T, %b_{1..4}: T]`"
            raise Fault(codes.BAD_COUNTED_CALL, message, hint, number)
    return tuple(param for row in zip(*columns, strict=True) for param in row)


def role(parts: list[Any]) -> Keyword:
    name, value = parts
    return Keyword(name, True if value is None else _checked(value, 1))


def statement(parts: list[Any]) -> WrittenStatement:
    names, operation, times, stream, stated = parts
    stream, (stated, last, of) = stream or "", stated or (NO_FACTS, NO_FACTS, ())
    claims = tuple(claim for _, claim in names or ())
    results = tuple(name for name, _ in names or ())
    last = last if last != stated else NO_FACTS
    return WrittenStatement(results, claims if any(claims) else (), operation, stream, stated, last, of, times)


def repeated(parts: list[Any]) -> int:
    *sign, count, _ = parts
    most = f"it is done once or more, {limits.CALLS} times at most"
    if sign and sign[0] is not None:
        raise Fault(codes.BAD_COUNTED_CALL, f"`-{count}` is no number of times", most)
    if len(count) > _DIGITS or not 0 < int(count) <= limits.CALLS:
        raise Fault(codes.BAD_COUNTED_CALL, f"`{count}` is no number of times", most)
    return int(count)


def counted_block(parts: list[Any]) -> WrittenBlock:
    _, times, *statements = parts
    for number, statement in enumerate(statements, 1):
        if statement.times is not None:
            hint = "write it out, or put it into a function"
            raise Fault(
                codes.BAD_COUNTED_CALL, "what is done several times holds nothing that is counted", hint, number + 1
            )
    if times == 1:
        raise Fault(codes.BAD_COUNTED_CALL, "these statements are done once", "write them without `repeat 1 times`", 1)
    return WrittenBlock(times, tuple(statements))


_DIGITS = 9


def result_list(parts: list[Any]) -> tuple[str, ...]:
    return tuple(DISCARD if name == "_" else name[1:] for name in parts)


def then(parts: list[Any]) -> Then:
    first, _, later = parts
    return Then(first[1:] if first[:1] == "%" else Literal(_checked(first, 0)), later[1:])


def stream(parts: list[Any]) -> str:
    _, name = parts
    return "" if name == COMPUTE else name


def result(parts: list[Any]) -> tuple[str | tuple[str, ...], Type | None]:
    name: str | tuple[str, ...] = parts[0]
    claim: Type | None = parts[1]
    if isinstance(name, str):
        name = DISCARD if name == "_" else name[1:]
    return name, claim


def apply(parts: list[Any]) -> Operation:
    name, attributes, arguments = parts
    attrs: Attributes = attributes or NO_ATTRIBUTES
    keywords = [argument for argument in arguments if isinstance(argument, Keyword)]
    if keywords:
        try:
            attrs = _attributes([*map(Keyword._make, attrs.items()), *keywords])
        except Fault as fault:
            fault.child = 2
            raise
    annotations = tuple(_annotations(arguments))
    args = tuple(_unannotated(argument) for argument in arguments if not isinstance(argument, Keyword))
    return Operation(name, args, attrs, annotations)


def call(parts: list[Any]) -> Operation:
    name, arguments = parts
    for argument in arguments:
        if isinstance(argument, Keyword):
            raise Fault(codes.UNEXPECTED, f"a call has no attributes, found `{argument.name} = …`", child=1)
        if argument == DISCARD:
            raise Fault(codes.UNEXPECTED, "a call's operands cannot be left out, found `_`", child=1)
    return Operation(name[1:], arguments, None)


def attribute(parts: list[Any]) -> Keyword:
    name, value = parts
    return Keyword(name, _checked(value, 1))


def value(parts: list[Any]) -> str:
    return parts[0][1:]


def annotated(parts: list[Any]) -> Param:
    name, stated = parts
    return Param(name[1:], UNKNOWN if stated is None else stated)


def constant(parts: list[Any]) -> Literal:
    return Literal(_checked(parts[0], 0))


def operand_list(parts: list[Any]) -> Arg:
    """A list of constants is a constant; a list in which a value stands is a list of operands."""
    if all(isinstance(part, Literal) for part in parts):
        return Literal(tuple(part.value for part in parts))
    return tuple(parts)


def _annotations(arguments: Sequence[Any]) -> Iterator[Param]:
    for argument in arguments:
        if isinstance(argument, Param):
            yield argument
        elif isinstance(argument, tuple) and not isinstance(argument, Keyword):
            yield from _annotations(cast("tuple[Any, ...]", argument))


def _unannotated(argument: Any) -> Arg:
    if isinstance(argument, Param):
        return argument.name
    if isinstance(argument, tuple):
        return tuple(map(_unannotated, cast("tuple[Any, ...]", argument)))
    return argument


def _attributes(keywords: Sequence[Keyword]) -> Attributes:
    if not keywords:
        return NO_ATTRIBUTES
    items: dict[str, Constant] = {}
    for number, keyword in enumerate(keywords):
        if keyword.name in items:
            raise Fault(codes.DUPLICATE_ATTRIBUTE, f"`{keyword.name}` is given twice", "keep one of them", number)
        items[keyword.name] = keyword.value
    return Attributes(items)


def _checked(value: Constant, child: int) -> Constant:
    """The constant itself; its integers must fit in 64 bits."""
    if isinstance(value, tuple):
        for item in value:
            _checked(item, child)
    elif type(value) is int and value not in INT64:
        raise Fault(codes.LARGE_NUMBER, f"`{value}` does not fit in 64 bits", child=child)
    return value


RULES: dict[str, Callable[[list[Any]], Any]] = {
    "head": head,
    "marks": marks,
    "mesh": mesh,
    "axis_size": axis_size,
    "fact": fact,
    "facts": facts,
    "parameter": lambda parts: _Value(parts[0][1:]),
    "parameters": lambda parts: _Listed(part[1:] for part in parts),
    "params": params,
    "param_group": param_group,
    "param": param,
    "roles": _attributes,
    "role": role,
    "result_types": tuple,
    "return_": tuple,
    "statement": statement,
    "stream": stream,
    "example": lambda parts: statement([*parts, None, None, None]),
    "repeated": repeated,
    "repetition": counted_block,
    "minus_sign": lambda parts: parts[0],
    "number_range": number_range,
    "result_list": result_list,
    "then": then,
    "results": tuple,
    "result": result,
    "apply": apply,
    "example_apply": apply,
    "call": call,
    "attributes": _attributes,
    "attribute": attribute,
    "arguments": tuple,
    "example_arguments": tuple,
    "value": value,
    "annotated": annotated,
    "left_out": lambda _: DISCARD,
    "constant": constant,
    "large_constant": lambda parts: Literal(_checked(large_list(parts), 0)),
    "operand_list": operand_list,
    **types.RULES,
    **numbers.RULES,
    **constants.RULES,
}
