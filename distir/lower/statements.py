"""One statement in torch: the op's torch form on its operands, leaf by leaf for tuples. Does not depend on torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from distir.diagnostics.codes import lowering as codes
from distir.ir import HOST, Apply, Attributes, Dense, External, Literal, TensorType, TupleType, Type, types
from distir.ops import OPS, Value, bind, dense, item_of, strengthen, type_of
from distir.ops.group import REPRESENTATIVE_OPS
from distir.ops.infer import tuple_structure
from distir.ops.torch_form import (
    STORED_ONLY,
    Expr,
    FormResult,
    Local,
    Unlowerable,
    Unpacked,
    Write,
    dtype_name,
    items,
    known_numbers,
    number,
    unknown,
    written,
)

NONE = "None"
"""The expression of a value that another rank holds."""

MOVING = frozenset(["communication", "tuples", "shape", "constant"])
"""Families of ops that only move elements, and so take element types that torch cannot compute with."""

CONVERTING = frozenset(
    [
        *("Cast", "Identity", "Split", "Concat", "Slice", "Gather"),
        *("DequantizeFloat8", "ScaledMatMul", "ScaledRaggedMatMul", "ScaledRaggedMatMulGrad"),
    ]
)
"""Ops of other families that only convert or move elements, or whose forms convert them first."""


class ProgramContext(Protocol):
    """The definitions of a program that its statements refer to: kernels, constants, ranks, process groups."""

    def kernel(self, name: str) -> str:
        """Include a function of the template `kernels`; returns its name."""
        ...

    def constant(self, value: Dense | External) -> str:
        """The expression of a constant, which is stored beside the program."""
        ...

    def rank(self, device: int) -> int:
        """The rank of a device, from 0."""
        ...

    def group(self, devices: Sequence[int]) -> str:
        """The expression of the process group of these devices."""
        ...


@dataclass(frozen=True, slots=True)
class TupleMessage(Local):
    """A communication of all leaves of a tuple in one message; the expression returns the tuple."""


@dataclass(frozen=True, slots=True)
class StatementWriter(Write):
    """The context in which a form writes a statement."""

    program: ProgramContext
    device: int
    results: Sequence[TensorType]
    overwritable: Callable[[int], bool]

    def kernel(self, name: str) -> str:
        """Include a function of the template `kernels`; returns its name."""
        return self.program.kernel(name)

    def constant(self, value: Dense) -> str:
        """The expression of a constant, which is stored beside the program."""
        return self.program.constant(value)

    def rank(self, device: int) -> int:
        """The rank of a device, from 0."""
        return self.program.rank(device)

    def group(self, devices: Sequence[int]) -> str:
        """The expression of the process group of these devices."""
        return self.program.group(devices)

    def may_overwrite(self, operand: int) -> bool:
        """Whether no other operand and no later statement uses the memory of an operand."""
        return self.overwritable(operand)


@dataclass(frozen=True, slots=True)
class Assignment:
    """A line of a statement. `targets`: indices of the assigned results, in order; empty: an expression statement."""

    targets: tuple[int, ...]
    text: str
    unpacks: bool = False
    """The expression returns a tuple of all targets."""


def lowered(
    op: Apply,
    texts: Sequence[Any],
    vs: Sequence[Value],
    ws: Sequence[Type],
    program: ProgramContext,
    device: int,
    overwritable: Callable[[int], bool],
) -> list[Assignment]:
    """The lines of a statement. `texts`: the expression of each operand. Raises Unlowerable."""
    definition = OPS[op.op]
    if definition.rule("torch") is None:
        hint = f"write it in terms of other ops, or define a form with `{op.op}.torch`"
        if op.op in REPRESENTATIVE_OPS:
            hint = "it represents a group of devices; to run the program, transform without `representative=true`"
        raise Unlowerable(f"`{op.op}` has no form in torch", codes.NO_TORCH_FORM, hint)
    bound = bind(definition, op.attrs)
    count = tuple_structure(definition, vs)
    strong = strengthen(definition, vs, op.attrs) if any(isinstance(v, Literal) for v in vs) else list(vs)
    statement = _Statement(op.op, bound, program, device, overwritable)
    if count is None:
        return _lines(statement.written(texts, strong, ws), range(len(op.results)), device, ws)
    return _leafwise(statement.leaves(texts, strong, ws, count), len(op.results), program)


@dataclass(frozen=True, slots=True)
class _Statement:
    op: str
    attrs: Attributes
    program: ProgramContext
    device: int
    overwritable: Callable[[int], bool]

    def written(self, texts: Sequence[Any], vs: Sequence[Value], ws: Sequence[Type]) -> FormResult:
        """The form of the op on operands that are no tuples; `Local((), "None")` where only other devices take part."""
        here = frozenset[int]().union(*(types.devices(type_of(v)) for v in [*vs, *ws] if v is not None))
        communicates = OPS[self.op].communication is not None
        if here and self.device not in here:
            return Local((), NONE) if communicates else [NONE] * len(ws)
        operands = [None if v is None else self._operand(t, v) for t, v in zip(texts, vs, strict=True)]
        self._check(operands)
        writer = StatementWriter(self.program, self.device, cast("Sequence[TensorType]", ws), self.overwritable)
        definition = OPS[self.op]
        return written(definition.rules["torch"], definition, writer, operands, self.attrs)

    def leaves(self, texts: Sequence[Any], vs: Sequence[Value], ws: Sequence[Type], count: int) -> list[FormResult]:
        """The form of the op on each leaf of tuples, nested ones included."""
        parts = [
            (
                [_item_text(t, v, i) for t, v in zip(texts, vs, strict=True)],
                [item_of(v, i) for v in vs],
                [cast("TupleType", w).items[i] for w in ws],
            )
            for i in range(count)
        ]
        if (message := self._together(parts)) is not None:
            return [message]
        return [self._leaf(*part) for part in parts]

    def _leaf(self, texts: Sequence[Any], vs: Sequence[Value], ws: Sequence[Type]) -> FormResult:
        count = tuple_structure(OPS[self.op], vs)
        if count is None:
            return self.written(texts, vs, ws)
        lines = _leafwise(self.leaves(texts, vs, ws, count), len(ws), self.program)
        if len(lines) > 1:
            raise Unlowerable("the parts of a tuple have their members in different orders")
        (line,) = lines
        if OPS[self.op].communication is not None:
            return Local(line.targets, line.text)
        return Unpacked(line.text) if line.unpacks else line.text

    def _together(self, parts: Sequence[tuple[Sequence[Any], Sequence[Value], Sequence[Type]]]) -> TupleMessage | None:
        """One message for all leaves, where they are tensors with the same members."""
        together = OPS[self.op].rule("torch_together") if len(parts) > 1 else None
        if together is None:
            return None
        members = {tuple(_member(v) for v in [*vs, *ws]) for _, vs, ws in parts}
        (places, *others) = members
        if others or None in places or self.device not in places:
            return None
        operands = [[self._operand(t, v) for t, v in zip(texts, vs, strict=True)] for texts, vs, _ in parts]
        writer = StatementWriter(self.program, self.device, (), self.overwritable)
        message: Local = together(writer, operands, **self.attrs)
        return TupleMessage(message.results, message.text)

    def _operand(self, text: str, v: Value) -> Expr:
        stated = cast("TensorType", type_of(v))
        if isinstance(v, External):
            return Expr(self.program.constant(v), stated)
        if isinstance(v, Literal):
            v = dense(v.value)
            stated = v.type
        if not isinstance(v, Dense):
            _check_concrete(stated)
            return Expr(text, stated)
        if v.symbolic:
            raise unknown("a size")
        shown = number(known_numbers(rounded(v))[0]) if v.shape == () else self.program.constant(v)
        return Expr(shown, stated, v, self.program.constant)

    def _check(self, operands: Sequence[Expr | None]) -> None:
        family = OPS[self.op].family
        for operand in operands:
            if operand is None or not isinstance(operand.type, TensorType):  # pyright: ignore[reportUnnecessaryIsInstance]
                continue
            dtype_name(operand.type.dtype)
            if operand.dtype.name in STORED_ONLY and family not in MOVING and self.op not in CONVERTING:
                raise Unlowerable(f"torch cannot compute `{self.op}` of {operand.dtype} elements")


def _member(v: Value) -> int | None:
    """The device of a tensor; None for anything else."""
    found = v.device if isinstance(v, TensorType) else None
    return None if found == HOST else found


def rounded(value: Dense) -> Dense:
    """A constant with its elements rounded to its element type."""
    from distir.ops import to_array, to_dense

    return to_dense(to_array(value)) if value.dtype.kind == "float" else value


def _check_concrete(stated: Type) -> None:
    for leaf in types.leaves(stated):
        known = isinstance(leaf, TensorType) and leaf.dtype is not None and leaf.shape is not None
        if not known or not all(isinstance(dim, int) for dim in cast("TensorType", leaf).shape or ()):
            raise unknown(f"the size of `{leaf}`")


def _lines(written: FormResult, results: Sequence[int], device: int, ws: Sequence[Type]) -> list[Assignment]:
    match written:
        case Unpacked(text):
            return [Assignment(tuple(results), text, unpacks=True)]
        case Local(targets, text):
            return [Assignment(targets, text)]
        case str():
            return [Assignment(tuple(results), written)]
        case _:
            return [Assignment((i,), text) for i, text in zip(results, written, strict=True)]


def _item_text(text: Any, v: Value, i: int) -> Any:
    if isinstance(v, tuple):  # a list of operands
        return text[i]
    return f"{text}[{i}]" if isinstance(v, TupleType) and text != NONE else text


def _leafwise(leaves: Sequence[FormResult], results: int, program: ProgramContext) -> list[Assignment]:
    """The results, as tuples of the results of each leaf."""
    if not leaves:
        return [Assignment((i,), "()") for i in range(results)]
    if isinstance(leaves[0], TupleMessage):
        return [Assignment(leaves[0].results, leaves[0].text)]
    if all(isinstance(leaf, str) for leaf in leaves):
        return [Assignment((0,), items([cast("str", leaf) for leaf in leaves]))]
    if not any(isinstance(leaf, Local) for leaf in leaves):
        texts = [leaf.text if isinstance(leaf, Unpacked) else items(cast("list[str]", leaf)) for leaf in leaves]
        return [Assignment(tuple(range(results)), f"{program.kernel('leafwise')}({', '.join(texts)})", unpacks=True)]
    found = [cast("Local", leaf) for leaf in leaves]
    targets = {target for leaf in found for target in leaf.results}
    everything = items([leaf.text for leaf in found])
    if len(targets) <= 1:
        return [Assignment(tuple(targets), everything)]
    # The members are in different orders: first all messages, leaf by leaf on every rank, then the assignments.
    shared = [
        Assignment(
            (target,), items([f"{{parts}}[{i}]" if target in leaf.results else NONE for i, leaf in enumerate(found)])
        )
        for target in sorted(targets)
    ]
    return [Assignment((), f"{{parts}} = {everything}"), *shared]
