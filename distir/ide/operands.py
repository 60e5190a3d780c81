"""The types that an op or function expects of its operands, given the known ones, and how they are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from distir.analysis.parameters import parameters
from distir.ide.document import Document
from distir.ide.instances import View
from distir.ir import (
    HOST,
    NO_ATTRIBUTES,
    UNKNOWN,
    Arg,
    Attributes,
    Dim,
    DimensionError,
    DType,
    Function,
    Literal,
    Part,
    Type,
    dims,
    types,
)
from distir.ops import REQUIRED, Op, Reject, Value, bind, infer_types, type_of
from distir.ops.infer import leaf_calls, match_operands, tuple_structure
from distir.ops.signature import (
    AnyDim,
    AnyPattern,
    Arithmetic,
    Broadcast,
    DimTerm,
    DimVar,
    DTypeVar,
    OperandPattern,
    Segment,
    ShapeTerm,
    Signature,
    Sum,
    TensorPattern,
)
from distir.ops.unify import Bindings


def values_of(view: View, function: str, args: Sequence[Arg]) -> list[Value]:
    """The values of arguments written in a function, in the call shown; unknown for names that it does not define."""
    return [_value(view.values(function), arg) for arg in args]


def fits(op: Op, attrs: Attributes, known: Sequence[Value], index: int, candidate: Value) -> bool:
    """Whether a value can be the operand `index`, given the operands before it and the known ones after it."""
    args = list(known[:index]) + [candidate, *known[index + 1 :]]
    args += [UNKNOWN] * (sum(not o.optional for o in op.operands) - len(args))
    bound = bound_so_far(op, attrs)
    try:
        structure = tuple_structure(op, args)
        for leaf in leaf_calls(args, structure) if structure else [args]:
            match_operands(op, leaf, bound)
        infer_types(op, args, attrs, 1)
    except Reject as reject:
        return not _blames_operand(op, reject)
    return True


def _blames_operand(op: Op, reject: Reject) -> bool:
    if isinstance(reject.part, Part):
        return reject.part.kind == "operand"
    return any(o.name == reject.part for o in op.operands)


def fits_call(function: Function, known: Sequence[Value], index: int, candidate: Value) -> bool:
    """Whether a value can be the argument `index` of a call, for those that are known, as far as the head says."""
    args = [*known[:index], candidate, *known[index + 1 :]]
    args = args[: len(function.params)] + [UNKNOWN] * (len(function.params) - len(args))
    try:
        parameters(function, args)
    except Reject as reject:
        return not isinstance(reject.part, Part) or reject.part.key != index
    return True


def bound_so_far(op: Op, attrs: Attributes) -> Attributes:
    """The attributes with defaults, also while required ones are missing or some are wrong."""
    try:
        return bind(op, attrs)
    except Reject:
        optional = (a for a in op.attributes.values() if a.default is not REQUIRED and a.default is not None)
        found = {a.name: a.default for a in optional}
        found |= {name: value for name, value in attrs.items() if name in op.attributes}
        return Attributes(found) if found else NO_ATTRIBUTES


def bindings_of(op: Op, attrs: Attributes, known: Sequence[Value]) -> tuple[Signature, Bindings]:
    """The signature that the known operands fit, and the sizes of its letters; bare letters if none fits."""
    args = list(known) + [UNKNOWN] * (sum(not o.optional for o in op.operands) - len(known))
    bound = bound_so_far(op, attrs)
    try:
        matched = match_operands(op, args, bound)
    except Reject:
        return op.signatures[0], Bindings(op.name, bound)
    return matched.signature, matched.bindings


def results_of(op: Op, attrs: Attributes, known: Sequence[Value], count: int) -> tuple[Type, ...] | None:
    """The results' types for these operands; None where these do not fit (yet)."""
    try:
        return infer_types(op, known, attrs, count)
    except Reject:
        return None


def show_pattern(operand: OperandPattern, bindings: Bindings) -> str:
    """An operand's pattern in a signature, with its letters replaced by known values."""
    pattern = operand.pattern
    if isinstance(pattern, AnyPattern):
        device = None if pattern.device is None else _device(pattern.device, bindings)
        return "any" if device is None else f"any on {device}"
    shape = _shape(pattern.shape, bindings)
    return f"Tensor[{_dtype(pattern, bindings)}, {shape}, {_device(pattern.device, bindings)}]"


def show_parameter(type: Type, dims_known: Mapping[str, Dim]) -> str:
    """The type of a function's parameter with what is known of its named dimensions."""
    try:
        return str(types.substitute(type, dims_known))
    except DimensionError:
        return str(type)


def _value(value: Callable[[str], Value], arg: Arg) -> Value:
    if isinstance(arg, str):
        return value(arg)
    return arg if isinstance(arg, Literal) else tuple(_value(value, item) for item in arg)


def _dtype(pattern: TensorPattern, bindings: Bindings) -> str:
    term = pattern.dtype
    if isinstance(term, DTypeVar):
        chosen = bindings.attrs.get(term.name)
        found = chosen if isinstance(chosen, DType) else bindings.dtypes.get(term.name)
        return (
            str(found) if found is not None else f"{term.name}:{term.allowed}" if term.allowed != "any" else term.name
        )
    return "?" if term is None else str(term)


def _device(term: str, bindings: Bindings) -> str:
    if term in bindings.devices:
        return str(bindings.devices[term])
    chosen = bindings.attrs.get(term)
    return str(chosen) if isinstance(chosen, int) else term


def _shape(term: ShapeTerm, bindings: Bindings) -> str:
    if term is None:
        return "??"
    parts: list[str] = []
    for t in term:
        if isinstance(t, Segment):
            known = bindings.segments.get(t.name)
            parts += [f"*{t.name}"] if known is None else map(dims.show, known)
        elif isinstance(t, Broadcast):
            parts += ["..."] if not bindings.broadcast else map(dims.show, bindings.broadcast)
        else:
            parts.append(_dim(t, bindings))
    needs_comma = len(parts) == 1 and not parts[0].startswith(("*", "."))
    return f"({', '.join(parts)}{',' if needs_comma else ''})"


def _dim(term: DimTerm, bindings: Bindings) -> str:
    match term:
        case int():
            return str(term)
        case AnyDim():
            return "_"
        case DimVar(name):
            known = None if term.indexed else bindings.size(name)
            return name if known is None else dims.show(known)
        case Sum(variable):
            return f"sum({variable.name})"
        case Arithmetic(operator, left, right):
            return f"{_dim(left, bindings)} {operator} {_dim(right, bindings)}"


def devices_used(document: Document) -> list[int]:
    """The devices that the text's values live on, and one more: where the next stage might go."""
    values = {v for state in document.program.analysis.states.values() for v in state.values() if v is not None}
    found = {device for value in values for device in types.devices(type_of(value))}
    return sorted(found | {max(found, default=0) + 1})


def is_host(value: Value) -> bool:
    """Whether a value lives on no device."""
    return types.device_of(type_of(value)) == HOST
