"""Sizes of named dimensions as host values, each stated once, from the parameters that have these dimensions.

Exported models compute the shape of every tensor anew from its neighbours. What is known to be `[B, S, 192]` is taken
from the inputs here, so that equal layers do not depend on each other's shapes.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any, TypeGuard

from distir.ir import Apply, Attributes, Dense, Literal, Statement, SymbolicDim, TensorType
from distir.ir.builder import FunctionBuilder


class Sizes:
    """Collects the statements, which depend on parameters alone. `named`: what has been stated, by its value."""

    def __init__(self, builder: FunctionBuilder) -> None:
        self.builder = builder
        self.body: list[Statement] = []
        self.named: dict[Dense, str] = {}
        self._places: dict[SymbolicDim, tuple[str, int]] = {}
        for param in builder.params:
            for axis, dim in enumerate((isinstance(param.type, TensorType) and param.type.shape) or ()):
                if isinstance(dim, SymbolicDim):
                    self._places.setdefault(dim, (param.name, axis))

    def covers(self, value: Any) -> TypeGuard[Dense]:
        """Whether this is a number, or a list, of sizes that parameters have, and of others that are known."""
        return (
            isinstance(value, Dense)
            and value.symbolic
            and len(value.shape) < 2
            and value.dtype.name == "Int64"
            and all(size in self._places or isinstance(size, int) for size in value.values)
        )

    def state(self, value: Dense) -> str:
        """The name of these sizes; stated now if they were not."""
        if value in self.named:
            return self.named[value]
        if value.shape == ():
            vector = self.state(Dense(value.dtype, (1,), value.values))
            self.named[value] = self._append(f"{vector}.size", "Squeeze", (vector, Literal((0,))))
            return self.named[value]
        parts = [self._part(list(sizes)) for _, sizes in groupby(value.values, lambda s: isinstance(s, int))]
        flat = [name for part in parts for name in part]
        self.named[value] = flat[0] if len(flat) == 1 else self._append("sizes", "Concat", tuple(flat), axis=0)
        return self.named[value]

    def _part(self, sizes: list[Any]) -> list[str]:
        if isinstance(sizes[0], int):
            return [self._append("sizes.known", "Constant", (), value=tuple(sizes))]
        return [self._shape(size) for size in sizes]

    def _shape(self, size: SymbolicDim) -> str:
        alone = Dense(_int64(), (1,), (size,))
        if alone not in self.named:
            param, axis = self._places[size]
            name = str(size) if str(size) in size.names else "sizes"
            self.named[alone] = self._append(name, "Shape", (param,), start=axis, end=axis + 1)
        return self.named[alone]

    def _append(self, hint: str, op: str, args: tuple[Any, ...], **attrs: Any) -> str:
        name = self.builder.fresh(hint)
        self.body.append(Apply((name,), op, args, Attributes(attrs)))
        return name


def _int64() -> Any:
    from distir.ir import DTYPES

    return DTYPES["Int64"]
