"""Type and value inference of an op's results, from its definition.

A `Value` is an abstract value of the domains of `analysis`: a type, a constant (`Dense`, or a `Literal` whose element
type adapts to its neighbours), an `External`, a tuple of values, or None for an omitted operand.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Union, cast

from distir.diagnostics.codes import devices as device_codes
from distir.diagnostics.codes import names as name_codes
from distir.diagnostics.codes import types as type_codes
from distir.ir import (
    HOST,
    INTEGER_RANGES,
    AnyType,
    Attributes,
    Dense,
    DType,
    External,
    Literal,
    Part,
    Shape,
    TensorType,
    TupleType,
    Type,
    types,
)
from distir.ops.attributes import bind, describe
from distir.ops.core import Op
from distir.ops.numeric import dense, np, to_array, to_dense
from distir.ops.signature import DTYPE_CLASSES, DTypeVar, OperandPattern, Signature, TensorPattern
from distir.ops.unify import Bindings, Reject, match, result_types

Value = Union[Type, Dense, External, Literal, "tuple[Value, ...]", None]

FOLD_LIMIT = 1 << 16
"""The greatest number of elements of a host value that is computed before the program runs."""

ADDRESSABLE = 1 << 63
"""Tensors of this size in bytes, or larger, are refused."""


def type_of(value: Value) -> Type:
    """The type of a value; unknown for an omitted operand."""
    if isinstance(value, TensorType):
        return value  # the most frequent case
    match value:
        case Dense() | External():
            return value.type
        case Literal():
            return _literal_type(value)
        case tuple():
            return TupleType(tuple(map(type_of, value)))
        case None:
            return types.UNKNOWN
        case _:
            return value


def item_of(value: Value, index: int) -> Value:
    """The item of a tuple; a value that is no tuple is each of its items."""
    if isinstance(value, TupleType):
        return value.items[index]
    return value[index] if isinstance(value, tuple) else value


def result_count(op: Op, attrs: Attributes) -> int | None:
    """The number of results; None if it depends on the operands."""
    return None if any(r.variadic for r in op.signatures[0].results) else len(op.signatures[0].results)


def infer_types(op: Op, args: Sequence[Value], attrs: Attributes, count: int) -> tuple[Type, ...]:
    """The results' types, from the signature and the `shapes` rule. `count`: the number of results. Raises Reject."""
    bound = bind(op, attrs)
    structure = tuple_structure(op, args)
    if structure is not None:
        leaves = [infer_types(op, leaf, attrs, count) for leaf in leaf_calls(args, structure)]
        if not leaves:
            return (TupleType(()),) * count
        return tuple(TupleType(items) for items in zip(*leaves, strict=True))
    matched = match_operands(op, args, bound)
    given = result_types(matched.signature.results, matched.bindings, max(count, 1))
    if rule := op.rules.get("checks"):
        _call_rule(rule, matched, bound, count)
    if rule := op.rules.get("shapes"):
        given = _with_shapes(rule, given, matched, bound, count)
    if rule := op.rules.get("types"):
        given = tuple(rule(*map(type_of, matched.values), **_keywords(rule, bound, count)))
    if op.leafwise and any(isinstance(arg, AnyType) for arg in args):
        return tuple(AnyType(types.device_of(t)) for t in given)
    for result in given:
        _check_size(op, result)
    return given


def infer_partial(op: Op, args: Sequence[Value], attrs: Attributes, count: int) -> tuple[Value, ...] | None:
    """The results from the `partial` rule; None if it does not know them. Raises Reject."""
    rule = op.rules.get("partial")
    if rule is None:
        return None
    infer_types(op, args, attrs, count)
    bound = bind(op, attrs)
    known = _call_rule(rule, match_operands(op, args, bound), bound, count)
    return None if known is NotImplemented else (known,)


def infer_values(op: Op, args: Sequence[Value], attrs: Attributes, count: int) -> tuple[Value, ...] | None:
    """The results, computed from known host operands; None if the op cannot be folded. Raises Reject."""
    if not op.foldable or not all(isinstance(arg, (Dense, Literal)) or arg is None for arg in args):
        return None
    given = infer_types(op, args, attrs, count)
    sizes = [t.elements if isinstance(t, TensorType) and t.device == HOST else None for t in given]
    if not all(isinstance(size, int) and size <= FOLD_LIMIT for size in sizes):
        return None
    if any(isinstance(arg, Dense) and len(arg.values) > FOLD_LIMIT for arg in args):
        return None
    bound = bind(op, attrs)
    matched = match_operands(op, args, bound)
    if any(isinstance(value, External) for value in [*matched.values, *bound.values()]):
        return None
    arrays = [None if v is None else to_array(cast(Dense, v)) for v in matched.values]
    try:
        return tuple(to_dense(array) for array in run(op, arrays, bound, count))
    except (TypeError, ValueError, ArithmeticError, AttributeError, IndexError) as error:
        if any(isinstance(v, Dense) and v.symbolic for v in matched.values):
            return None  # a symbolic size where a number is needed
        raise Reject(type_codes.BAD_VALUE, f"`{op.name}` cannot be computed: {error}", Part("callee")) from None


def run(op: Op, operands: Sequence[Any], attrs: Mapping[str, Any], count: int) -> tuple[Any, ...]:
    """Run the reference implementation on arrays (tuples of arrays; None: omitted), with bound attributes."""
    lengths = [len(cast("tuple[Any, ...]", o)) for o in operands if isinstance(o, tuple)] if op.leafwise else []
    if lengths:
        calls = [[_item(o, i) for o in operands] for i in range(lengths[0])]
        if not calls:
            return ((),) * count
        return tuple(zip(*(run(op, call, attrs, count) for call in calls), strict=True))
    keywords = dict(attrs) | ({"count": count} if op.takes_count else {})
    with np.errstate(all="ignore"):
        outcome = op.body(*operands, **keywords)
    return tuple(map(_result, (outcome,) if op.single_result else outcome))


def _item(operand: Any, index: int) -> Any:
    return cast("tuple[Any, ...]", operand)[index] if isinstance(operand, tuple) else operand


def _result(outcome: Any) -> Any:
    return cast("tuple[Any, ...]", outcome) if isinstance(outcome, tuple) else np.asarray(outcome)


def strengthen(op: Op, args: Sequence[Value], attrs: Attributes) -> list[Value]:
    """The operands, with literals converted to the element types of their neighbours. Raises Reject."""
    structure = tuple_structure(op, args)
    if structure:  # the element types of the first leaves
        strong = strengthen(op, leaf_calls(args, structure)[0], attrs)
        return [s if isinstance(arg, Literal) else arg for arg, s in zip(args, strong, strict=True)]
    return match_operands(op, args, bind(op, attrs)).values


@dataclass(slots=True)
class Matched:
    """Operands matched with a signature. `values`: one per argument, literals with their element types."""

    signature: Signature
    bindings: Bindings
    values: list[Value]


def match_operands(op: Op, args: Sequence[Value], bound: Attributes) -> Matched:
    """Match the operands with the first signature that accepts them. Raises the most specific rejection."""
    _check_count(op, args)
    rejections: list[Reject] = []
    for signature in op.signatures:
        if len(args) > len(signature.operands) and not any(o.variadic for o in signature.operands):
            continue
        try:
            return _match_signature(op, signature, args, bound)
        except Reject as rejection:
            rejections.append(rejection.with_traceback(None))  # which would hold this frame, and so all that call it
    devices = [r for r in rejections if r.code is device_codes.DEVICE_MISMATCH]  # all other checks passed
    specific = [r for r in rejections if r.code is not type_codes.RANK_MISMATCH]
    try:
        raise (devices or specific or rejections)[0]
    finally:
        del rejections, devices, specific  # likewise


def _match_signature(op: Op, signature: Signature, args: Sequence[Value], bound: Attributes) -> Matched:
    bindings = Bindings(op.name, bound)
    values = list(args)
    places = [_place(signature, i) for i in range(len(args))]
    bindings.count = sum(place.variadic for place in places)
    bindings.count = bindings.count or _listed_devices(signature, bound)
    weak = [i for i, arg in enumerate(args) if isinstance(arg, Literal)]
    given = [(place, type_of(arg)) for place, arg in zip(places, args, strict=True) if arg is not None]
    undecided = {_variable(place) for place, found in given if _untyped(found)}
    for i in [i for i in range(len(args)) if i not in weak] + weak:
        part = Part("operand", i)
        if isinstance(values[i], Literal):
            strong = _strong(op, cast(Literal, args[i]), places[i], bindings, part)
            decided = _variable(places[i]) not in undecided - {None, *bindings.dtypes}
            values[i] = strong if decided else TensorType(None, strong.shape, HOST)
        if values[i] is not None:
            match(places[i], type_of(values[i]), part, bindings)
        elif places[i].variadic:
            raise Reject(name_codes.OPERAND_COUNT, f"`{op.name}` expected a value, found none", part)
    return Matched(signature, bindings, values)


def _listed_devices(signature: Signature, bound: Attributes) -> int:
    """The length of the attribute with the devices of a variadic result; 0 if there is none."""
    terms = (r.pattern.device or "" for r in signature.results if r.variadic)
    listed = (bound.get(term.removesuffix("_i")) for term in terms if term.endswith("_i"))
    return next((len(devices) for devices in listed if isinstance(devices, tuple)), 0)


def _variable(place: OperandPattern) -> str | None:
    """The letter of an operand's element type."""
    term = place.pattern.dtype if isinstance(place.pattern, TensorPattern) else None
    return term.name if isinstance(term, DTypeVar) else None


def _untyped(type: Type) -> bool:
    return isinstance(type, AnyType) or (isinstance(type, TensorType) and type.dtype is None)


def _place(signature: Signature, index: int) -> OperandPattern:
    return signature.operands[min(index, len(signature.operands) - 1)]


def _check_count(op: Op, args: Sequence[Value]) -> None:
    specs = op.operands
    least = sum(not s.optional for s in specs)
    most = None if op.variadic is not None else len(specs)
    missing = next((s.name for s, arg in zip(specs, args, strict=False) if arg is None and not s.optional), None)
    if len(args) >= least and (most is None or len(args) <= most) and missing is None:
        return
    expected = f"{least} or more" if most is None else str(least) if least == most else f"{least} to {most}"
    named = ", ".join(s.name for s in specs)
    message = f"`{op.name}` expected {expected} operand{'s' if expected != '1' else ''} ({named}), found {len(args)}"
    part = Part("operand", most) if most is not None and len(args) > most else Part("callee")
    raise Reject(name_codes.OPERAND_COUNT, message, part)


def _strong(op: Op, literal: Literal, place: OperandPattern, bindings: Bindings, part: Part) -> Dense | External:
    """A literal with the element type of the signature, or else its default one."""
    value = literal.value
    if isinstance(value, (Dense, External)):
        return value
    try:
        natural = dense(value)
    except ValueError:
        message = f"`{op.name}` expected a tensor, found {describe(value)}"
        raise Reject(type_codes.KIND_MISMATCH, message, part) from None
    wanted = _wanted_dtype(place, bindings, natural.dtype)
    order = ("bool", "uint", "int", "float")
    fits = wanted.kind == natural.dtype.kind or (
        natural.dtype.kind != "bool" and wanted.kind != "bool" and order.index(wanted.kind) > 0
    )
    if not fits or (natural.dtype.kind == "float" and wanted.kind != "float"):
        message = f"`{op.name}` expected {wanted} elements, found {describe(value)}"
        raise Reject(type_codes.DTYPE_MISMATCH, message, part)
    holds = INTEGER_RANGES.get(wanted)
    if holds is not None and any(v not in holds for v in natural.values):
        message = f"`{op.name}` expected numbers that {wanted} can hold, found {describe(value)}"
        raise Reject(type_codes.BAD_VALUE, message, part)
    return dense(value, wanted)


def _wanted_dtype(place: OperandPattern, bindings: Bindings, natural: DType) -> DType:
    term = place.pattern.dtype if isinstance(place.pattern, TensorPattern) else None
    if isinstance(term, DType):
        return term
    if not isinstance(term, DTypeVar):
        return natural
    if term.name in bindings.dtypes:
        return bindings.dtypes[term.name]
    allowed = DTYPE_CLASSES[term.allowed]
    return natural if natural in allowed else dense((1.0,)).dtype


def _literal_type(literal: Literal) -> Type:
    try:
        return literal.value.type if isinstance(literal.value, External) else dense(literal.value).type
    except ValueError:
        return types.UNKNOWN


def tuple_structure(op: Op, args: Sequence[Value]) -> int | None:
    """The number of items of the tuples that a leafwise op is applied to; None without tuples. Raises Reject."""
    if not op.leafwise:
        return None
    lengths = {i: len(t.items) for i, a in enumerate(args) if isinstance(t := type_of(a), TupleType)}
    if not lengths:
        return None
    first = next(iter(lengths.values()))
    for i, length in lengths.items():
        if length != first:
            message = f"`{op.name}` expected a tuple of {first}, found a tuple of {length}"
            raise Reject(type_codes.KIND_MISMATCH, message, Part("operand", i))
    for i, arg in enumerate(args):
        if isinstance(arg, TensorType) and arg.shape not in ((), None):
            message = f"`{op.name}` expected a tuple of {first}, found a tensor"
            raise Reject(type_codes.KIND_MISMATCH, message, Part("operand", i))
    return first


def leaf_calls(args: Sequence[Value], items: int) -> list[list[Value]]:
    """The operands for each of `items` items of tuples; an operand that is no tuple is passed for each."""

    def item(arg: Value, i: int) -> Value:
        if isinstance(arg, TupleType):
            return arg.items[i]
        return arg[i] if isinstance(arg, tuple) else arg

    return [[item(arg, i) for arg in args] for i in range(items)]


def _with_shapes(
    rule: Any, given: tuple[Type, ...], matched: Matched, bound: Attributes, count: int
) -> tuple[Type, ...]:
    """The results' types with the shapes of the `shapes` rule."""
    outcome = _call_rule(rule, matched, bound, count)
    shapes = cast("list[Shape | TensorType | None]", outcome if isinstance(outcome, list) else [outcome])
    if len(shapes) != len(given) and given:  # a variadic result: the rule gives the number
        given = (given[0],) * len(shapes)
    return tuple(_shaped(t, shape) if isinstance(t, TensorType) else t for t, shape in zip(given, shapes, strict=True))


def _shaped(result: TensorType, shape: Shape | TensorType | None) -> TensorType:
    if isinstance(shape, TensorType):
        return TensorType(shape.dtype, shape.shape, result.device, result.offloaded)
    return TensorType(result.dtype, shape, result.device, result.offloaded)


def _call_rule(rule: Any, matched: Matched, bound: Attributes, count: int) -> Any:
    return rule(*map(_as_tensor, matched.values), **_keywords(rule, bound, count))


def _keywords(rule: Any, bound: Attributes, count: int) -> dict[str, Any]:
    return dict(bound) | ({"count": count} if _wants_count(rule) else {})


@lru_cache(maxsize=1 << 10)
def _wants_count(rule: Any) -> bool:
    return "count" in inspect.signature(rule).parameters


def _as_tensor(value: Value) -> Value:
    """The argument for a rule: `Dense`, or a tensor type, possibly unknown."""
    if value is None or isinstance(value, (Dense, TensorType)):
        return value
    described = type_of(value)
    return TensorType(None, None, types.device_of(described)) if isinstance(described, AnyType) else described


def _check_size(op: Op, result: Type) -> None:
    for leaf in types.leaves(result):
        if isinstance(leaf, TensorType) and leaf.shape is not None:
            if any(isinstance(d, int) and d < 0 for d in leaf.shape):
                message = f"`{op.name}` gives a negative dimension: {types.show_shape(leaf.shape)}"
                raise Reject(type_codes.BAD_DIMENSION, message, Part("callee"))
            if isinstance(leaf.nbytes, int) and leaf.nbytes >= ADDRESSABLE:
                message = f"`{op.name}` gives a tensor too large to address: {leaf}"
                raise Reject(type_codes.BAD_DIMENSION, message, Part("callee"))
