"""Elides copies: transposes, expansions, splits and slices become views if every reader accepts strides.

Matrix products, attention, kernels, elementwise and row-wise ops accept strided operands. A `Reshape` that merges
dimensions does not, nor does communication, and results of the program are contiguous. Attention and its gradient write
results in any order of dimensions, so a transpose of one costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from distir.analysis import State
from distir.ir import (
    Apply,
    Arg,
    Attributes,
    Call,
    Dim,
    Function,
    Module,
    Return,
    Statement,
    TensorType,
    dims,
    names,
    operands,
    ops_in,
)
from distir.ir.calls import calls_of
from distir.ir.dataflow import maker, uses
from distir.ir.rewrite import Rewriter, mapped
from distir.ops import OPS, type_of
from distir.ops.loops import kind_of
from distir.ops.views import VIEWS

READ_STRIDES = frozenset({"MatMul", "Gemm", "Einsum", "Attention", "AttentionGrad"})
KEEP_STRIDES = frozenset({"Squeeze", "Unsqueeze", "Identity", *VIEWS, *VIEWS.values()})
"""Ops that are views of strided operands too: they accept strides if the readers of their results do."""
WRITE_STRIDES = frozenset({"Attention", "AttentionGrad"})

Place = tuple[str, str]
"""A value: the names of its function and of itself."""


def with_transposed_products(module: Module) -> Module:
    """The module with transposes of products as products: `(A·B)ᵀ = Bᵀ·Aᵀ`.

    So the gradient of a weight that a layer transposes needs no copy, as in PyTorch, and can accumulate.
    """
    return Module(f if f.kernel else _with_factors_in_turn(f) for f in module)


def _with_factors_in_turn(function: Function) -> Function:
    edit, used = Rewriter(function), uses(function)
    for index, statement in edit:
        if not isinstance(statement, Apply) or statement.op != "Gemm" or statement.args[2:]:
            continue
        users = used.get(statement.results[0], [])
        read = function.body[users[0]] if len(users) == 1 else None
        if not isinstance(read, Apply) or read.op != "Transpose" or read.attrs.get("perm", (1, 0)) != (1, 0):
            continue
        flipped = {flag: not statement.attrs.get(other) for flag, other in (("transA", "transB"), ("transB", "transA"))}
        kept = {name: value for name, value in statement.attrs.items() if name not in flipped}
        attrs = Attributes({**kept, **{flag: True for flag, is_set in flipped.items() if is_set}})
        a, b = statement.args[:2]
        edit.replace(index, replace(read, op="Gemm", args=(b, a), attrs=attrs, stream=statement.stream))
        edit.erase(users[0])
    return edit.done()


def with_views(module: Module, entry: Function, states: Mapping[str, State]) -> Module:
    """The module with views instead of unnecessary copies. `states`: those of the functions that the entry runs."""
    return _Readers(module, entry, states).module_with_views()


@dataclass
class _Readers:
    """Finds which values of a module are read by strides alone."""

    module: Module
    entry: Function
    states: Mapping[str, State]
    laid_out: set[Place] = field(default_factory=set[Place])
    """Transposes of values that are written in any order: their results are contiguous."""

    def __post_init__(self) -> None:
        self.calls = calls_of(self.module)
        for function in self.module:
            moved: dict[str, list[Apply]] = {}
            for statement in ops_in(function, "Transpose"):
                made = maker(function, source := str(statement.args[0]))
                if isinstance(made, Apply) and made.op in WRITE_STRIDES:
                    moved.setdefault(source, []).append(statement)
            self.laid_out |= {(function.name, s[0].results[0]) for s in moved.values() if len(s) == 1}

    def module_with_views(self) -> Module:
        """The module with views."""
        read = self._by_strides()
        return Module(f if f.kernel else mapped(f, partial(self._view, f, read)) for f in self.module)

    def _view(self, function: Function, read: set[Place], statement: Statement) -> Statement:
        """The statement as a view, where that is all that its readers need."""
        if isinstance(statement, Apply) and statement.op in VIEWS and self._on_a_device(function, statement):
            results = [(function.name, name) for name in statement.results if name]
            source = statement.args[0]
            is_laid_out = results[0] in self.laid_out and (function.name, source) in read
            is_one_part = not statement.attrs.get("blocks")  # of several blocks a part is joined
            if is_one_part and (is_laid_out or all(result in read for result in results)):
                return replace(statement, op=VIEWS[statement.op])
        return statement

    def _on_a_device(self, function: Function, statement: Apply) -> bool:
        return function.name in self.states and any(statement.results)

    def _by_strides(self) -> set[Place]:
        """The values whose every use accepts strides: a greatest fixed point."""
        values = {(f.name, n) for f in self.module for s in f.body for n in names(operands(s))}
        read = set(values)
        feeds: dict[Place, list[Place]] = {}
        """By value: those that depend on it for being read by strides."""
        lost: list[Place] = []
        for function in self.module:
            for statement in function.body:
                for number, arg in enumerate(operands(statement)):
                    for name in names((arg,)):
                        here = (function.name, name)
                        becomes = self._becomes(function, statement, number, arg)
                        if becomes is None:
                            lost.append(here)
                        for other in becomes or ():
                            if other in values:
                                feeds.setdefault(other, []).append(here)
        while lost:
            place = lost.pop()
            if place in read:
                read.remove(place)
                lost += feeds.get(place, ())
        return read

    def _becomes(self, function: Function, statement: Statement, number: int, arg: Arg) -> Iterable[Place] | None:
        """The results that share an operand's memory, to be read by strides too; None if it must be contiguous."""
        if isinstance(statement, Return):
            if function.name == self.entry.name or isinstance(arg, tuple):
                return None
            return [(f.name, call.results[number]) for f, _, call in self.calls.get(function.name, ())]
        if isinstance(statement, Call):
            callee = self.module.functions[statement.function]
            if callee.kernel:
                return ()
            return None if isinstance(arg, tuple) else ((callee.name, callee.params[number].name),)
        if not isinstance(statement, Apply):
            return None
        results = [(function.name, name) for name in statement.results]
        if number == 0 and results and results[0] in self.laid_out:
            return ()
        if number == 0 and (statement.op in KEEP_STRIDES or self._only_splits(function, statement)):
            return results
        op = OPS.get(statement.op)
        is_part = op is not None and kind_of(op) in ("pointwise", "rows", "reduction", "move")
        return () if is_part or statement.op in READ_STRIDES else None

    def _only_splits(self, function: Function, statement: Apply) -> bool:
        """Whether a reshape splits dimensions and merges none, so that it is a view of a strided value too."""
        state, source = self.states.get(function.name), statement.args[0] if statement.args else None
        if state is None or statement.op not in ("Reshape", "Flatten") or not isinstance(source, str):
            return False
        before, after = (type_of(state[name]) for name in (source, statement.results[0]))
        if not isinstance(before, TensorType) or not isinstance(after, TensorType):
            return False
        return before.shape is not None and after.shape is not None and _splits(before.shape, after.shape)


def _splits(before: Sequence[Dim | None], after: Sequence[Dim | None]) -> bool:
    """Whether each dimension equals one, or the product of several consecutive ones, of the result."""
    rest = list(after)
    for size in before:
        taken: list[Dim] = []
        while rest and (not taken or dims.product(taken) != size):
            taken.append(rest.pop(0))
        if size is None or dims.product(taken) != size:
            return False
    return all(size == 1 for size in rest)
