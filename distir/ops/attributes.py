"""Attributes: binding them to an op's definition, and their canonical spelling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from distir.diagnostics.codes import names as codes
from distir.diagnostics.codes.types import BAD_VALUE
from distir.diagnostics.spelling import nearest
from distir.ir import (
    DTYPES,
    NO_ATTRIBUTES,
    Arg,
    Attributes,
    Constant,
    Dense,
    DType,
    External,
    Literal,
    Part,
    SymbolicDim,
)
from distir.ops.core import OPS, Op
from distir.ops.specs import REQUIRED, AttributeSpec
from distir.ops.unify import Reject

Coercion = Callable[[Constant], Any]


def _int(value: Constant) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ValueError


def _float(value: Constant) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    raise ValueError


def _bool(value: Constant) -> bool:
    if isinstance(value, (bool, int)) and value in (0, 1):
        return bool(value)
    raise ValueError


def _str(value: Constant) -> str:
    if isinstance(value, str):
        return value
    raise ValueError


def _ints(value: Constant) -> tuple[int, ...]:
    if isinstance(value, Dense) and len(value.shape) == 1:
        value = tuple(v for v in value.values if not isinstance(v, SymbolicDim))
    if isinstance(value, tuple):
        return tuple(map(_int, value))
    raise ValueError


def _floats(value: Constant) -> tuple[float, ...]:
    if isinstance(value, tuple):
        return tuple(map(_float, value))
    raise ValueError


def _strs(value: Constant) -> tuple[str, ...]:
    if isinstance(value, tuple):
        return tuple(map(_str, value))
    raise ValueError


def _str_or_strs(value: Constant) -> str | tuple[str, ...]:
    found = (value,) if isinstance(value, str) else _strs(value)
    return found[0] if len(found) == 1 else found


def _int_or_ints(value: Constant) -> int | tuple[int, ...]:
    found = _ints(value) if isinstance(value, tuple) else (_int(value),)
    return found[0] if len(found) == 1 else found


def _dtype(value: Constant) -> DType:
    if isinstance(value, str) and value in DTYPES:
        return DTYPES[value]
    if isinstance(value, DType):
        return value
    raise ValueError


def _constant(value: Constant) -> Constant:
    if isinstance(value, (str, DType)):
        raise ValueError  # noqa: TRY004
    return value


KINDS: dict[str, tuple[str, Coercion]] = {
    "int": ("an integer", _int),
    "float": ("a number", _float),
    "bool": ("true or false", _bool),
    "str": ("a string", _str),
    "tuple[int, ...]": ("a list of integers", _ints),
    "tuple[float, ...]": ("a list of numbers", _floats),
    "tuple[str, ...]": ("a list of strings", _strs),
    "str | tuple[str, ...]": ("a string, or a list of strings", _str_or_strs),
    "int | tuple[int, ...]": ("an integer, or a list of integers", _int_or_ints),
    "DType": ("an element type", _dtype),
    "Constant": ("a number, a list of numbers, or a dense tensor", _constant),
}
"""The kinds of attributes by the annotation of the parameter: a description for messages, and the conversion."""


def check_word(op: str, attribute: str, found: str, known: Sequence[str]) -> None:
    """Raises Reject for a word that is none of those that an attribute takes."""
    if found not in known:
        *others, last = [f'"{word}"' for word in known]
        near = nearest(found, known)
        message = f'`{op}` expected {", ".join(others)} or {last} as `{attribute}`, found "{found}"'
        raise Reject(BAD_VALUE, message, attribute, help=f'did you mean "{near}"?' if near else None)


@lru_cache(maxsize=4096)
def bind(op: Op, attrs: Attributes) -> Attributes:
    """The attributes by the names of the definition, converted to their kinds, with defaults. Raises Reject."""
    given: dict[str, Constant] = {}
    for name, value in attrs.items():
        attribute = attribute_named(op, name)
        if attribute is None:
            near = nearest(name, list(op.attributes))
            message = f"`{op.name}` has no attribute `{name}`"
            hint = f"did you mean `{near}`?" if near else _attribute_list(op)
            raise Reject(codes.UNKNOWN_ATTRIBUTE, message, Part("attribute", name), help=hint)
        if attribute.name in given:
            message = f"`{op.name}` is given `{attribute.name}` twice"
            raise Reject(codes.ATTRIBUTE_TYPE, message, Part("attribute", name))
        given[attribute.name] = _coerce(op, attribute, name, value)
    missing = [a.name for a in op.attributes.values() if a.default is REQUIRED and a.name not in given]
    if missing:
        message = f"`{op.name}` needs the attribute `{missing[0]}`"
        hint = f"write `{op.name}[{missing[0]} = …]`"
        raise Reject(codes.MISSING_ATTRIBUTE, message, Part("callee"), help=hint)
    defaults = {a.name: a.default for a in op.attributes.values() if a.name not in given and a.default is not None}
    return Attributes({**defaults, **given})


def attribute_named(op: Op, name: str) -> AttributeSpec | None:
    """The attribute of that name or alias."""
    return op.attributes.get(op.aliases.get(name, name))


def canonical(name: str, args: tuple[Arg, ...], attrs: Attributes) -> tuple[tuple[Arg, ...], Attributes]:
    """The canonical spelling of a statement's arguments and attributes.

    Literals after the operands become attributes, in the order of the definition (`Send(%x, 2)`). Aliases become
    attribute names, a list for a variadic operand is spliced, and an attribute with the name of an operand becomes that
    operand. Statements that match no definition are unchanged: the checker reports them.
    """
    if name not in OPS:
        return args, attrs
    op = OPS[name]
    operands, rest = _operands(op, args)
    named: dict[str, Constant] = {}
    free = [a for a in op.attributes if a not in {op.aliases.get(n, n) for n in attrs}]
    if len(rest) > len(free) or not all(isinstance(arg, Literal) for arg in rest):
        return args, attrs
    for arg, attribute in zip(rest, free, strict=False):
        assert isinstance(arg, Literal)
        named[attribute] = arg.value
    places = {o.name: i for i, o in enumerate(op.operands) if not o.variadic}
    for given, value in attrs.items():
        target = op.aliases.get(given, given)
        if target in op.attributes or target not in places:
            named[target] = value
        elif not _place(operands, places[target], Literal(value)):
            return args, attrs
    spelled = {n: _respell(op, n, v) for n, v in named.items()}
    return tuple(operands), Attributes(spelled) if spelled else NO_ATTRIBUTES


def _operands(op: Op, args: tuple[Arg, ...]) -> tuple[list[Arg], tuple[Arg, ...]]:
    """The arguments for operands, and the arguments after them."""
    variadic = op.variadic
    if variadic is None:
        return list(args[: len(op.operands)]), args[len(op.operands) :]
    operands: list[Arg] = list(args[:variadic])
    rest = args[variadic:]
    if rest and isinstance(rest[0], tuple):
        return operands + list(rest[0]), rest[1:]
    if rest and isinstance(rest[0], Literal) and rest[0].value == ():
        return operands, rest[1:]
    values = len(rest)
    while values and isinstance(rest[values - 1], Literal) and any(isinstance(a, str) for a in rest):
        values -= 1
    return operands + list(rest[:values]), rest[values:]


def _place(operands: list[Arg], index: int, arg: Arg) -> bool:
    """Set the operand at `index`, with `_` for omitted ones before it."""
    if index < len(operands) and operands[index] != "":
        return False
    operands += [""] * (index + 1 - len(operands))
    operands[index] = arg
    return True


def _respell(op: Op, name: str, value: Constant) -> Constant:
    """A value converted to its attribute's kind, where that is possible: `1` for a flag is `true`."""
    if name not in op.attributes:
        return value
    try:
        return KINDS[_kind(op.attributes[name])][1](value)
    except ValueError:
        return value


def _kind(attribute: AttributeSpec) -> str:
    kind = attribute.kind.removesuffix(" | None")
    if kind not in KINDS:
        raise TypeError(f"the attribute `{attribute.name}` is annotated `{kind}`; an op's can be {', '.join(KINDS)}")
    return kind


def _coerce(op: Op, attribute: AttributeSpec, spelled: str, value: Constant) -> Constant:
    words, read = KINDS[_kind(attribute)]
    try:
        return read(value)
    except ValueError:
        message = f"`{op.name}` expected {words} for `{attribute.name}`, found {describe(value)}"
        raise Reject(codes.ATTRIBUTE_TYPE, message, Part("attribute", spelled)) from None


def describe(value: Constant) -> str:
    """A description of a constant, for messages."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"the number {value}"
        case str():
            return "a string"
        case tuple():
            return f"a list of {len(value)}"
        case DType():
            return f"the element type {value}"
        case Dense() | External():
            return "a dense tensor"


def _attribute_list(op: Op) -> str:
    known = ", ".join(f"`{a}`" for a in op.attributes)
    return f"its attributes are {known}" if known else "it has none"
