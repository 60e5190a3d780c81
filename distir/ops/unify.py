"""Unification of a signature with the types of operands: the bindings of its letters, or an error.

An unknown type matches everything, so that one mistake is reported once. Every variable records the operand that bound
it: an error shows both places.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from distir.diagnostics import Code
from distir.diagnostics.codes import devices as device_codes
from distir.diagnostics.codes import types as type_codes
from distir.ir import (
    HOST,
    OFFLOADED,
    AnyType,
    Constant,
    Device,
    Dim,
    DimensionError,
    DType,
    Part,
    Shape,
    TensorType,
    TupleType,
    Type,
    dims,
    types,
)
from distir.ops.signature import (
    DTYPE_CLASSES,
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
    Sum,
    TensorPattern,
)


class Reject(Exception):  # noqa: N818 - an error in the program, not in DistIR
    """An error in a statement. `part`: its location in the statement, or the name of an operand or attribute.

    `cause`: as of a diagnostic.
    """

    def __init__(
        self,
        code: Code,
        message: str,
        part: Part | str | None = None,
        notes: Iterable[tuple[Part, str]] = (),
        help: str | None = None,
        cause: str = "",
    ) -> None:
        super().__init__(message)
        self.code, self.message, self.part, self.notes, self.help = code, message, part, tuple(notes), help
        self.cause = cause


@dataclass(slots=True)
class Bindings:
    """The bindings of a signature's variables in one statement."""

    op: str
    attrs: Mapping[str, Constant]
    dtypes: dict[str, DType] = field(default_factory=dict[str, DType])
    dims: dict[str, Dim] = field(default_factory=dict[str, Dim])
    segments: dict[str, Shape] = field(default_factory=dict[str, Shape])
    broadcast: Shape | None = ()
    devices: dict[str, int] = field(default_factory=dict[str, int])
    open_devices: set[str] = field(default_factory=set[str])
    memories: dict[str, bool] = field(default_factory=dict[str, bool])
    """By letter: whether the value is offloaded."""
    indexed_dims: dict[str, list[Dim]] = field(default_factory=dict[str, list[Dim]])
    indexed_devices: dict[str, list[Device]] = field(default_factory=dict[str, list[Device]])
    count: int = 0
    """`N`."""
    bound_by: dict[str, Part] = field(default_factory=dict[str, Part])

    def size(self, name: str) -> Dim:
        """The value of a letter in arithmetic: a dimension, `N`, or an attribute."""
        if name == "N":
            return self.count
        if name in self.dims:
            return self.dims[name]
        value = self.attrs.get(name)
        return value if isinstance(value, int) else None


def match(operand: OperandPattern, type: Type, part: Part, bindings: Bindings) -> None:
    """Unify one operand. Raises Reject."""
    pattern = operand.pattern
    if isinstance(pattern, AnyPattern):
        for leaf in types.leaves(type):
            if pattern.device is not None:
                _match_device(pattern.device, leaf.device, part, bindings)
        return
    if isinstance(type, AnyType):
        _match_device(pattern.device, type.device, part, bindings)
        _match_shape(pattern.shape, None, part, bindings)
        return
    if isinstance(type, TupleType):
        message = f"`{bindings.op}` expected a tensor, found a tuple of {len(type.items)}"
        raise Reject(type_codes.KIND_MISMATCH, message, part, help="unpack it with `UnpackTuple`")
    _match_dtype(pattern.dtype, type.dtype, part, bindings)
    _match_shape(pattern.shape, type.shape, part, bindings)
    _match_device(pattern.device, type.device, part, bindings)
    _match_memory(pattern.memory, type, part, bindings)


def result_types(results: Sequence[OperandPattern], bindings: Bindings, count: int) -> tuple[Type, ...]:
    """The types of the results. A starred pattern gives as many as its length, or fills up to `count` if unknown."""
    given: list[Type] = []
    for operand in results:
        if operand.variadic:
            number = _variadic_count(operand, bindings)
            number = count - len(results) + 1 if number is None else number
            given += [_result(operand.pattern, bindings, i) for i in range(max(number, 0))]
        else:
            given.append(_result(operand.pattern, bindings, 0))
    return tuple(given)


def _match_dtype(term: DType | DTypeVar | None, found: DType | None, part: Part, bindings: Bindings) -> None:
    if term is None or found is None:
        return
    if isinstance(term, DType):
        if found is not term:
            message = f"`{bindings.op}` expected {term} elements, found {found}"
            raise Reject(type_codes.DTYPE_MISMATCH, message, part, help=f"insert `Cast[to = {term}]`")
        return
    if found not in DTYPE_CLASSES[term.allowed]:
        message = f"`{bindings.op}` expected {_CLASS_WORDS[term.allowed]} elements, found {found}"
        raise Reject(type_codes.DTYPE_MISMATCH, message, part)
    bound = bindings.dtypes.setdefault(term.name, found)
    by = bindings.bound_by.setdefault(f"dtype {term.name}", part)
    if bound is not found:
        message = f"`{bindings.op}` operands have different element types: expected {bound}, found {found}"
        note = (by, f"`{term.name}` is {bound} here")
        raise Reject(type_codes.DTYPE_MISMATCH, message, part, (note,), f"insert `Cast[to = {bound}]`")


_CLASS_WORDS = {"float": "floating-point", "int": "integer", "number": "numeric", "bool": "Bool", "any": "any"}


def _match_shape(term: ShapeTerm, shape: Shape | None, part: Part, bindings: Bindings) -> None:
    if term is None:
        return
    if shape is None:
        _match_unknown_shape(term, bindings)
        return
    spreads = [i for i, t in enumerate(term) if isinstance(t, (Segment, Broadcast))]
    fixed = len(term) - len(spreads)
    if len(shape) < fixed or (not spreads and len(shape) != fixed):
        few = "" if not spreads else "at least "
        message = f"`{bindings.op}` expected a tensor of rank {few}{fixed}, found rank {len(shape)}"
        raise Reject(type_codes.RANK_MISMATCH, message, part)
    lengths = _spread_lengths(term, spreads, len(shape), bindings)
    position = 0
    for index, t in enumerate(term):
        if isinstance(t, (Segment, Broadcast)):
            piece = shape[position : position + lengths[index]]
            position += lengths[index]
            if isinstance(t, Segment):
                _match_segment(t.name, piece, part, bindings)
            else:
                bindings.broadcast = _broadcast(bindings.broadcast, piece, part, bindings)
        else:
            _match_dim(t, shape[position], part, bindings)
            position += 1


def _spread_lengths(term: tuple[object, ...], spreads: list[int], rank: int, bindings: Bindings) -> dict[int, int]:
    """The number of dimensions of each spread: one takes the remaining ones; of two, the first ends at the axis."""
    free = rank - (len(term) - len(spreads))
    if len(spreads) <= 1:
        return dict.fromkeys(spreads, free)
    variable = term[spreads[0] + 1]
    assert isinstance(variable, DimVar)
    assert variable.axis is not None
    axis = normal_axis(bindings.attrs.get(variable.axis), rank, bindings.op, variable.axis)
    return {spreads[0]: axis, spreads[1]: rank - 1 - axis}


def normal_axis(value: object, rank: int, op: str, attribute: str) -> int:
    """The non-negative axis. Raises Reject where the tensor has no such axis."""
    if isinstance(value, int) and -rank <= value < rank:
        return value % rank
    expected = f"an axis from {-rank} to {rank - 1}" if rank else "a tensor of rank 1 at least"
    raise Reject(type_codes.BAD_VALUE, f"`{op}` expected {expected}, found {value}", attribute)


def _match_unknown_shape(term: tuple[object, ...], bindings: Bindings) -> None:
    for t in term:
        if isinstance(t, Broadcast):
            bindings.broadcast = None
        elif isinstance(t, DimVar) and t.indexed:
            bindings.indexed_dims.setdefault(t.name, []).append(None)


def _match_segment(name: str, piece: Shape, part: Part, bindings: Bindings) -> None:
    bound = bindings.segments.get(name)
    by = bindings.bound_by.setdefault(f"segment {name}", part)
    if bound is None:
        bindings.segments[name] = piece
        return
    if len(bound) != len(piece):
        message = f"`{bindings.op}` operands have different ranks: expected {types.show_shape(bound)}"
        message += f", found {types.show_shape(piece)}"
        raise Reject(type_codes.RANK_MISMATCH, message, part, ((by, f"{types.show_shape(bound)} here"),))
    for index, (old, new) in enumerate(zip(bound, piece, strict=True)):
        if old is not None and new is not None and old != new:
            message = f"`{bindings.op}` operands disagree on dimension {index}: expected {old}, found {new}"
            raise Reject(type_codes.SHAPE_MISMATCH, message, part, ((by, f"it is {old} here"),))
    bindings.segments[name] = tuple(n if o is None else o for o, n in zip(bound, piece, strict=True))


def _match_dim(term: DimTerm, found: Dim, part: Part, bindings: Bindings) -> None:
    match term:
        case AnyDim():
            return
        case int():
            if found is not None and found != term:
                message = f"`{bindings.op}` expected a dimension of {term}, found {found}"
                raise Reject(type_codes.SHAPE_MISMATCH, message, part)
        case DimVar(name) if term.indexed:
            bindings.indexed_dims.setdefault(name, []).append(found)
        case DimVar(name):
            bound = bindings.dims.get(name)
            if bound is None:
                bindings.dims[name] = found
                bindings.bound_by[f"dim {name}"] = part
            elif found is not None and found != bound:
                message = f"`{bindings.op}` operands disagree on dimension `{name}`: expected {bound}, found {found}"
                note = (bindings.bound_by[f"dim {name}"], f"`{name}` is {bound} here")
                raise Reject(type_codes.SHAPE_MISMATCH, message, part, (note,))
        case _:
            expected = _dim(term, bindings, 0)
            if None not in (found, expected) and found != expected:
                message = f"`{bindings.op}` expected a dimension of {expected}, found {found}"
                raise Reject(type_codes.SHAPE_MISMATCH, message, part)


def _broadcast(a: Shape | None, b: Shape, part: Part, bindings: Bindings) -> Shape | None:
    by = bindings.bound_by.setdefault("broadcast", part)
    if a is None:
        return None
    try:
        return broadcast(a, b)
    except DimensionError as error:
        message = f"`{bindings.op}` operands do not broadcast: {error}"
        raise Reject(type_codes.SHAPE_MISMATCH, message, part, ((by, f"{types.show_shape(a)} here"),)) from None


def broadcast(a: Shape, b: Shape) -> Shape:
    """The shape broadcast by NumPy's rule, also of unknown dimensions. Raises DimensionError where two conflict."""
    rank = max(len(a), len(b))
    wide_a, wide_b = ((1,) * (rank - len(s)) + s for s in (a, b))
    return tuple(_broadcast_dim(m, n, a, b) for m, n in zip(wide_a, wide_b, strict=True))


def _broadcast_dim(m: Dim, n: Dim, a: Shape, b: Shape) -> Dim:
    if m == n or n == 1:
        return m
    if m == 1 or m is None:
        return n
    if n is None:
        return m
    raise DimensionError(f"expected {types.show_shape(a)}, found {types.show_shape(b)}: {m} is not {n}")


def _match_device(term: str, found: Device, part: Part, bindings: Bindings) -> None:
    if term.endswith("_i"):
        _match_indexed_device(term, found, part, bindings)
    elif term == "host":
        if found is not None and found != HOST:
            message = f"`{bindings.op}` expected a host value, found a value on device {found}"
            raise Reject(type_codes.NOT_HOST, message, part)
    elif found is None:
        bindings.open_devices.add(term)
    elif found != HOST:
        bound = bindings.devices.setdefault(term, found)
        by = bindings.bound_by.setdefault(f"device {term}", part)
        if bound != found:
            message = f"`{bindings.op}` operands live on different devices: expected {bound}, found {found}"
            note = (by, f"on device {bound}")
            send = f"insert `Send[device = {bound}]`"
            raise Reject(device_codes.DEVICE_MISMATCH, message, part, (note,), send)


def _match_memory(term: str | None, found: TensorType, part: Part, bindings: Bindings) -> None:
    if term is None and found.offloaded:
        message = f"`{bindings.op}` expected a value in its device's memory, found one in its host's"
        raise Reject(device_codes.OFFLOADED_OPERAND, message, part, help="bring it back with `Fetch` first")
    if term == OFFLOADED and not found.offloaded and found.device is not None:
        message = f"`{bindings.op}` expected an offloaded value, found one that is in its device's memory"
        raise Reject(device_codes.OFFLOADED_OPERAND, message, part, help="use the value as it is")
    if term is not None:
        bindings.memories.setdefault(term, found.offloaded)


def _match_indexed_device(term: str, found: Device, part: Part, bindings: Bindings) -> None:
    if found == HOST:
        message = f"`{bindings.op}` expected values that live on devices, found a host value"
        raise Reject(device_codes.DEVICE_MISMATCH, message, part, help="place it with `Send` first")
    earlier = bindings.indexed_devices.setdefault(term, [])
    if found is not None and found in earlier:
        message = f"`{bindings.op}` expected operands on distinct devices, found two on device {found}"
        first = Part("operand", int(bindings.bound_by[f"{term} first"].key) + earlier.index(found))
        raise Reject(device_codes.REPEATED_DEVICE, message, part, ((first, f"device {found} takes part here"),))
    bindings.bound_by.setdefault(f"{term} first", part)
    earlier.append(found)


def _variadic_count(operand: OperandPattern, bindings: Bindings) -> int | None:
    device = operand.pattern.device
    if device is not None and device.endswith("_i"):
        known = bindings.indexed_devices.get(device)
        if known is not None:
            return len(known)
        listed = bindings.attrs.get(device.removesuffix("_i"))
        return len(listed) if isinstance(listed, tuple) else None
    return None


def _result(pattern: TensorPattern | AnyPattern, bindings: Bindings, index: int) -> Type:
    device = _result_device(pattern.device, bindings, index)
    if isinstance(pattern, AnyPattern):
        return AnyType(device)
    dtype = bindings.dtypes.get(pattern.dtype.name) if isinstance(pattern.dtype, DTypeVar) else pattern.dtype
    if isinstance(pattern.dtype, DTypeVar) and isinstance(chosen := bindings.attrs.get(pattern.dtype.name), DType):
        dtype = chosen
    if pattern.memory is None:
        return TensorType(dtype, _result_shape(pattern.shape, bindings, index), device)
    offloaded = True if pattern.memory == OFFLOADED else bindings.memories.get(pattern.memory)
    if offloaded is None:  # of an operand of unknown type
        return AnyType(device)
    return TensorType(dtype, _result_shape(pattern.shape, bindings, index), device, offloaded)


def _result_device(term: str | None, bindings: Bindings, index: int) -> Device:
    if term is None:
        return None
    if term == "host":
        return HOST
    if term.endswith("_i"):
        listed: Sequence[object] | None = bindings.indexed_devices.get(term)
        if listed is None:
            value = bindings.attrs.get(term.removesuffix("_i"))
            listed = value if isinstance(value, tuple) else ()
        entry = listed[index] if index < len(listed) else None
        return entry if isinstance(entry, int) else None
    if isinstance(chosen := bindings.attrs.get(term), int):
        return chosen
    if term in bindings.devices:
        return bindings.devices[term]
    return None if term in bindings.open_devices else HOST


def _result_shape(term: ShapeTerm, bindings: Bindings, index: int) -> Shape | None:
    if term is None:
        return None
    shape: list[Dim] = []
    for t in term:
        if isinstance(t, Segment):
            if t.name not in bindings.segments:
                return None
            shape += bindings.segments[t.name]
        elif isinstance(t, Broadcast):
            if bindings.broadcast is None:
                return None
            shape += bindings.broadcast
        else:
            shape.append(_dim(t, bindings, index))
    return tuple(shape)


def _dim(term: DimTerm, bindings: Bindings, index: int) -> Dim:
    match term:
        case int():
            return term
        case AnyDim():
            return None
        case DimVar(name) if term.indexed:
            known = bindings.indexed_dims.get(name, [])
            return known[index] if index < len(known) else None
        case DimVar(name):
            return bindings.size(name)
        case Sum(variable):
            return dims.total(bindings.indexed_dims.get(variable.name, []))
        case Arithmetic(operator, left, right):
            a, b = _dim(left, bindings, index), _dim(right, bindings, index)
            try:
                return _ARITHMETIC[operator](a, b)
            except DimensionError as error:
                message = f"`{bindings.op}` cannot divide dimension `{_letter(left)}`: {error}"
                raise Reject(type_codes.INDIVISIBLE, message, bindings.bound_by.get(f"dim {_letter(left)}")) from None


_ARITHMETIC = {"+": dims.add, "-": dims.subtract, "*": dims.multiply, "/": dims.divide}


def _letter(term: DimTerm) -> str:
    return term.name if isinstance(term, DimVar) else "?"
