"""The element types in which a training step holds weights, computes, and accumulates gradients.

A precision sets the element type of weights, and the type of what is computed with them follows: if an op combines
their type with another floating-point type, the other operand is cast. So values computed from positions alone keep
their type until an op combines them with an activation, as in frameworks, and values that the program itself casts to
Float32 stay Float32. Normalisations, softmax and losses compute in Float32 for any operands.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from distir.analysis import Analysis, State
from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.diagnostics.codes import types as type_codes
from distir.ir import (
    DISCARD,
    DTYPES,
    NO_FACTS,
    Apply,
    Arg,
    Attributes,
    Call,
    Dense,
    DType,
    Function,
    Literal,
    Module,
    Param,
    Part,
    Return,
    Site,
    Statement,
    TensorType,
    TupleType,
    Type,
    names,
    operands,
    types,
)
from distir.ir.builder import FunctionBuilder
from distir.ir.calls import callees_first
from distir.ir.rewrite import Rewriter
from distir.ops import OPS, Reject, Value, dense, infer_types, type_of
from distir.ops.float8 import MEASURES
from distir.transform.instances import first_instances

FLOAT32 = DTYPES["Float32"]


@dataclass(frozen=True, slots=True)
class Precision:
    """What a word after `precision=` means.

    `weights`: the element type of weights and of what is computed with them; None: as the program says. `masters`:
    whether the optimizer's state has the weights in Float32 too, which it updates. `gradients`: the element type in
    which gradients are added up; None: as they come. `scaled`: whether the loss is scaled.
    """

    weights: DType | None
    masters: bool = False
    gradients: DType | None = None
    scaled: bool = False


PRECISIONS: Final[dict[str, Precision]] = {
    "keep": Precision(None),
    "fp32": Precision(FLOAT32),
    "bf16": Precision(DTYPES["BFloat16"]),
    "mixed": Precision(DTYPES["BFloat16"], masters=True, gradients=FLOAT32),
    "fp16": Precision(DTYPES["Float16"], masters=True, gradients=FLOAT32, scaled=True),
}
"""The precisions. With Adam, bytes per parameter are 16 for `fp32`, 12 for `bf16`, 18 for `mixed` and `fp16`."""

GRADIENTS: Final[dict[str, DType | None]] = {
    "auto": None,
    "fp32": FLOAT32,
    "bf16": DTYPES["BFloat16"],
    "fp16": DTYPES["Float16"],
}
"""The element types in which gradients are accumulated, by the words after `gradients=`."""


MASTERS: Final = ("beside", "only")
"""Where master weights are, by the words after `master=`: beside weights in 16 bits, or as the only weights."""


def needs_master(type: Type) -> bool:
    """Whether a weight is too narrow to be updated in small steps."""
    leaves = [leaf for leaf in types.leaves(type) if isinstance(leaf, TensorType)]
    return any(leaf.dtype is not None and leaf.dtype.bytes < FLOAT32.bytes for leaf in leaves)


def widened(type: Type) -> Type:
    """The type of a weight's optimizer state: at least as wide as Float32."""
    if isinstance(type, TupleType):
        return TupleType(tuple(map(widened, type.items)))
    if isinstance(type, TensorType) and type.dtype is not None and type.dtype.bytes < FLOAT32.bytes:
        return TensorType(FLOAT32, type.shape, type.device)
    return type


def with_weights_in(analysis: Analysis, entry: Function, weights: Collection[str], target: DType) -> Module:
    """The program with the weights in another element type, and all that is computed with them.

    `weights` are parameters of the entry function. Arguments and results of functions in the weights' old element type
    get the new one. Raises ProgramError if an op does not take it.
    """
    state = analysis.states[entry.name]
    leaves = [leaf for name in weights for leaf in types.leaves(type_of(state[name]))]
    own = frozenset(dtype for leaf in leaves if (dtype := _float(leaf)) is not None)
    if own <= {target}:
        return analysis.module
    retyped = _Retyped(own, target)
    states = {i.function.name: i.state for i in first_instances(analysis, entry)}
    for function in callees_first(analysis.module):
        if function.name in states:
            given = set(weights)
            if function.name != entry.name:
                given = {p.name for p in function.params} - retyped.measures(function)
            retyped.rewrite(function, states[function.name], given)
    return analysis.module.replacing(*retyped.functions.values())


def with_only_masters(module: Module, entry: Function, weights: Collection[str]) -> tuple[Module, dict[str, str]]:
    """The program with these parameters in Float32, cast at its start to the types in which it computes with them.

    So the master weights are the only weights. Returns the casts by the parameters' names.
    """
    edit = Rewriter(entry)
    casts: dict[str, str] = {}
    params: list[Param] = []
    for param in entry.params:
        wide = widened(param.type) if param.name in weights else param.type
        params.append(replace(param, type=wide))
        if wide != param.type:
            casts[param.name] = _cast(edit.builder, param.name, wide, param.type)
    edit.rename(casts)
    edit.behind(-1, *edit.written(), facts=NO_FACTS)
    return module.replacing(edit.done(params=tuple(params))), casts


def _cast(f: FunctionBuilder, name: str, found: Type, wanted: Type) -> str:
    """Write the cast of a value to a type that differs in element types alone."""
    if isinstance(found, TupleType) and isinstance(wanted, TupleType):
        items = f.apply("UnpackTuple", name, results=(name,) * len(found.items))
        pairs = zip(items, found.items, wanted.items, strict=True)
        parts = [item if a == b else _cast(f, item, a, b) for item, a, b in pairs]
        return f.apply("MakeTuple", *parts, results=(f"{name}_cast",))[0]
    assert isinstance(wanted, TensorType)
    assert wanted.dtype is not None
    return f.apply("Cast", name, to=wanted.dtype, results=(f"{name}_{wanted.dtype.compact}",))[0]


@dataclass(slots=True)
class _Retyped:
    """Rewrites functions to a new element type, callees before callers. `own`: the element types that it replaces."""

    own: frozenset[DType]
    target: DType
    functions: dict[str, Function] = field(default_factory=dict[str, Function])
    params: dict[str, list[Type]] = field(default_factory=dict[str, "list[Type]"])
    results: dict[str, list[Type]] = field(default_factory=dict[str, "list[Type]"])
    kept: dict[str, set[str]] = field(default_factory=dict[str, "set[str]"])
    """By function: the parameters that stay in Float32."""

    def measures(self, function: Function) -> set[str]:
        """The parameters used only as scales of 8-bit floats, or to compute such scales."""
        found: dict[str, bool] = {}
        for statement in function.body:
            if isinstance(statement, Call):
                callee, kept = self.functions[statement.function], self.kept[statement.function]
                at = [n for n, p in enumerate(callee.params) if p.name in kept]
            else:
                at = MEASURES.get(statement.op, ()) if isinstance(statement, Apply) else ()
            for number, arg in enumerate(operands(statement)):
                for name in names((arg,)):
                    found[name] = found.get(name, True) and number in at
        self.kept[function.name] = {p.name for p in function.params if found.get(p.name)}
        return self.kept[function.name]

    def rewrite(self, function: Function, state: State, given: Collection[str]) -> None:
        """Add a function, with the parameters in `given` in the new element type."""
        edit = Rewriter(function)
        body = _Body(self, function, state, edit.builder)
        params: list[Param] = []
        for param in function.params:
            found = type_of(state[param.name])
            if param.name in given:
                found, param = self.renewed(found), replace(param, type=self.renewed(param.type))
            body.types[param.name] = found
            params.append(param)
        self.params[function.name] = [body.types[p.name] for p in params]
        for index, statement in edit:
            if not isinstance(statement, Return):
                body.statement(index, statement)
                edit.replace(index, *edit.written())
        self.results[function.name] = [body.type(arg) for arg in function.returned]
        self.functions[function.name] = edit.done(params=tuple(params), result_types=None)

    def renewed(self, found: Type) -> Type:
        """The type with the weights' old element types replaced by the new one."""
        return _with_dtypes(found, lambda dtype: self.target if dtype in self.own else dtype)


@dataclass(slots=True)
class _Body:
    """Rewrites one function's body. `types`: those of its values, in their new element types."""

    of: _Retyped
    function: Function
    state: State
    f: FunctionBuilder
    types: dict[str, Type] = field(default_factory=dict[str, Type])
    casts: dict[tuple[str, DType], str] = field(default_factory=dict[tuple[str, DType], str])

    def type(self, arg: Arg) -> Type:
        return type_of(self.value(arg))

    def value(self, arg: Arg) -> Value:
        """The type or known value of an argument, in its new element type."""
        if isinstance(arg, tuple):
            return tuple(map(self.value, arg))
        if not isinstance(arg, str) or arg == DISCARD:
            return self.state((arg,))[0]
        held, found = self.state.get(arg), self.types[arg]
        return held if type_of(held) == found else found

    def statement(self, index: int, statement: Statement) -> None:
        """Write a statement."""
        if isinstance(statement, Call):
            args = tuple(map(self.passed, statement.args, self.of.params[statement.function]))
            self.f.body.append(replace(statement, args=args, claims=()))
            self.define(statement.results, self.of.results[statement.function])
        elif isinstance(statement, Apply):
            op, attrs, args = OPS[statement.op], statement.attrs, statement.args
            to = attrs.get("to")
            if isinstance(to, DType) and to in self.of.own and _follows(statement, to):
                attrs = Attributes({**attrs, "to": self.of.target})
            count = len(statement.results)
            try:
                found = infer_types(op, list(map(self.value, args)), attrs, count)
            except Reject as reject:
                if reject.code is not type_codes.DTYPE_MISMATCH:
                    raise self.refused(index, statement, reject) from None
                args = tuple(map(self.narrowed, args))
                try:
                    found = infer_types(op, list(map(self.value, args)), attrs, count)
                except Reject as still:
                    raise self.refused(index, statement, still) from None
            self.f.body.append(replace(statement, args=args, attrs=attrs, claims=()))
            self.define(statement.results, found)

    def define(self, results: Sequence[str], found: Sequence[Type]) -> None:
        """Set the types of results: as before, with new element types."""
        for name, new in zip(results, found, strict=True):
            if name != DISCARD:
                self.types[name] = _like(type_of(self.state[name]), new)

    def narrowed(self, arg: Arg) -> Arg:
        """An operand, cast if the op combines the new element type with others."""
        found = self.type(arg)
        return arg if _float(found) in (None, self.of.target) else self.cast(arg, self.of.target)

    def passed(self, arg: Arg, wanted: Type) -> Arg:
        """An argument of a call, cast to the parameter's type."""
        found, to = _float(self.type(arg)), _float(wanted)
        return arg if found is None or to is None or found is to else self.cast(arg, to)

    def cast(self, arg: Arg, to: DType) -> Arg:
        if isinstance(arg, Literal):
            value = dense(arg.value) if isinstance(arg.value, (tuple, float)) else arg.value
            return Literal(Dense(to, value.shape, value.values)) if isinstance(value, Dense) else arg
        if not isinstance(arg, str):
            return arg
        if (arg, to) not in self.casts:
            (self.casts[arg, to],) = self.f.apply("Cast", arg, to=to, results=(f"{arg}_{to.compact}",))
            self.types[self.casts[arg, to]] = _with_dtypes(self.types[arg], lambda _: to)
        return self.casts[arg, to]

    def refused(self, index: int, statement: Apply, reject: Reject) -> ProgramError:
        site = Site(self.function.name, index, Part("callee"))
        message = f"`{statement.op}` cannot be computed in {self.of.target}: {reject.message}"
        hint = "cast its operands in the program, or leave out `precision`"
        return ProgramError([Diagnostic(codes.NOT_IN_PRECISION, site, message, (), hint)])


def _follows(statement: Apply, to: DType) -> bool:
    """Whether an op with the element type of its result as an attribute must get the new one."""
    return statement.op in MEASURES or (statement.op == "Cast" and to.bytes < FLOAT32.bytes)


def _float(found: Type) -> DType | None:
    """The floating-point element type of a tensor; None if it is unknown or no float."""
    dtype = found.dtype if isinstance(found, TensorType) else None
    return dtype if dtype is not None and dtype.kind == "float" else None


def _with_dtypes(found: Type, new: Callable[[DType], DType]) -> Type:
    if isinstance(found, TupleType):
        return TupleType(tuple(_with_dtypes(item, new) for item in found.items))
    if isinstance(found, TensorType) and found.dtype is not None:
        return TensorType(new(found.dtype), found.shape, found.device, found.offloaded)
    return found


def _like(before: Type, new: Type) -> Type:
    """A value's former type or known value, with its new element types."""
    if isinstance(before, TupleType) and isinstance(new, TupleType) and len(before.items) == len(new.items):
        return TupleType(tuple(map(_like, before.items, new.items)))
    if isinstance(before, TensorType) and isinstance(new, TensorType):
        return TensorType(new.dtype, before.shape, before.device, before.offloaded)
    return new


__all__ = [
    "GRADIENTS",
    "MASTERS",
    "PRECISIONS",
    "Precision",
    "needs_master",
    "widened",
    "with_only_masters",
    "with_weights_in",
]
