"""Random programs on a mesh that check: parameters placed at random, and statements that fit, with collectives."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from distir.analysis.domains import MOST_PRECISE_FIRST
from distir.analysis.placing import PlacedTypes
from distir.ir import (
    DTYPES,
    Apply,
    Attributes,
    Function,
    Literal,
    Mesh,
    Module,
    Param,
    PendingAlong,
    Return,
    SplitAlong,
    TensorType,
)
from distir.ir.places import places
from distir.ops import Reject

MESHES: tuple[Mesh, ...] = (
    (("tp", 2),),
    (("dp", 2), ("tp", 2)),
    (("dp", 2), ("tp", 3)),
    (("pp", 2), ("cp", 1), ("tp", 2)),
)
SIZES = (6, 12)
STATEMENTS = 14

Axes = str | tuple[str, ...]

UNARY = ("Relu", "Neg", "Tanh", "Softmax", "Identity")
BINARY = ("Add", "Sub", "Mul", "MatMul", "MatMul")


class Writer:
    """A program that grows by statements that check."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.mesh = self.draw.choice(MESHES)
        self.domain = PlacedTypes(Module([Function("main", (), (), mesh=self.mesh)]), MOST_PRECISE_FIRST)
        self.params: list[Param] = []
        self.body: list[Apply] = []
        self.types: dict[str, TensorType] = {}

    def program(self) -> Module:
        for number in range(3):
            name = f"x{number}"
            self.types[name] = self._placed((self.draw.choice(SIZES), self.draw.choice(SIZES)))
            self.params.append(Param(name, self.types[name]))
        for _ in range(STATEMENTS):
            self._grow()
        returned = [self._ended(name) for name in list(self.types)[-4:]]
        return Module([Function("main", tuple(self.params), (*self.body, Return(tuple(returned))), mesh=self.mesh)])

    def _placed(self, shape: tuple[int, ...]) -> TensorType:
        found: list[SplitAlong] = []
        for axis, size in self.draw.sample(self.mesh, len(self.mesh)):
            dim = self.draw.randrange(len(shape))
            product = size
            zigzag = self.draw.random() < 0.2 and not any(cut.zigzag for cut in found)
            product *= 2 if zigzag else 1
            for cut in found:
                product *= dict(self.mesh)[cut.axis] * (2 if cut.zigzag else 1) if cut.dim == dim else 1
            if self.draw.random() < 0.7 and shape[dim] % product == 0:
                found.append(SplitAlong(dim, axis, zigzag=zigzag))
        return TensorType(DTYPES["Float32"], shape, 1, places=places(found))

    def _grow(self) -> None:
        for op, args, attrs in self._tries():
            statement = Apply((f"y{len(self.body)}",), op, args, Attributes(attrs))
            vs = tuple(self.types[arg] if isinstance(arg, str) else arg for arg in args)
            try:
                (found,) = self.domain.answer(statement, vs)
            except Reject:
                continue
            if isinstance(found, TensorType) and found.shape is not None and found.device == 1:
                self.body.append(statement)
                self.types[statement.results[0]] = found
                return

    def _tries(self) -> Iterator[tuple[str, tuple[str | Literal, ...], dict[str, Any]]]:
        for _ in range(60):
            x, z = (self.draw.choice([*self.types]) for _ in range(2))
            rank = len(self.types[x].shape or ())
            count = 1 if self.draw.random() < 0.7 else min(2, len(self.mesh))
            axes = tuple(axis for axis, _ in self.draw.sample(self.mesh, count))
            axis, dim = axes[0] if count == 1 else axes, self.draw.randrange(max(rank, 1))
            kind = self.draw.random()
            if kind < 0.15:
                yield self.draw.choice(UNARY), (x,), {}
            elif kind < 0.45:
                yield self.draw.choice(BINARY), (x, z), {}
            elif kind < 0.55:
                yield self.draw.choice(("ReduceSum", "ReduceMean", "ReduceMax")), (x, Literal((dim,))), {}
            elif kind < 0.6 and rank == 2:
                yield "Transpose", (x,), {"perm": (1, 0)}
            elif kind < 0.65:
                yield "Mul", (x, Literal(0.5)), {}
            elif kind < 0.7:
                yield "Concat", (x, z), {"axis": dim}
            elif kind < 0.75 and rank == 2:
                n, m = self.types[x].shape or (1, 1)
                yield "Reshape", (x, Literal((n * m,) if self.draw.random() < 0.5 else (n, 2, m // 2))), {}
            else:
                yield self._collective(x, axis, dim)

    def _collective(self, x: str, axis: Axes, dim: int) -> tuple[str, tuple[str], dict[str, int | bool | Axes]]:
        match self.draw.randrange(6):
            case 0:
                return "AllReduce", (x,), {"axis": axis, "op": self.draw.choice(("sum", "max"))}
            case 1:
                return "AllGather", (x,), {"axis": axis, "dim": dim}
            case 2:
                return "ReduceScatter", (x,), {"axis": axis, "dim": dim, **self._order()}
            case 3:
                return "AllToAll", (x,), {"axis": axis, "split": dim, "join": 1 - dim}
            case 4:
                return "Shard", (x,), {"axis": axis, "dim": dim, **self._order()}
            case _:
                return "Share", (x,), {"axis": axis}

    def _order(self) -> dict[str, bool]:
        return {"zigzag": True} if self.draw.random() < 0.3 else {}

    def _ended(self, name: str) -> str:
        """A value with what is pending in it ended."""
        while pending := [place for place in self.types[name].places if isinstance(place, PendingAlong)]:
            attrs = Attributes({"axis": pending[0].axis, "op": pending[0].how})
            statement = Apply((f"y{len(self.body)}",), "AllReduce", (name,), attrs)
            (self.types[statement.results[0]],) = self.domain.answer(statement, (self.types[name],))
            self.body.append(statement)
            name = statement.results[0]
        return name


def random_program(seed: int) -> Module:
    """A program on a mesh that checks."""
    return Writer(seed).program()
