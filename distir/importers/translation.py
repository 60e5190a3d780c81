"""A function in the making, as the rules for single ops see it: what is known of each value, and how to add to it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from distir.importers.core import Freed, Weight
from distir.importers.functions import Functions
from distir.importers.names import value_name
from distir.importers.onnx_file import weight
from distir.importers.onnx_nodes import LARGEST_ATTRIBUTE, tensor_constant
from distir.importers.weight_roles import role_of
from distir.ir import DISCARD, UNKNOWN, Apply, Call, Dense, TensorType, Type
from distir.ir.builder import FunctionBuilder
from distir.ops import Reject, Value, type_of

if TYPE_CHECKING:
    import onnx


MAIN = "main"
"""What the function is called that takes the weights."""

DEVICE = 1
"""Where an imported model lives."""


class Translation(ABC):
    """One function in the making. `values` and `statements` speak in names of the program, `env` maps the graph's."""

    def __init__(self, name: str, functions: Functions, folder: str, batch: Freed | None = None) -> None:
        self.builder = FunctionBuilder(name)
        self.functions, self.folder, self.batch = functions, folder, batch
        self.env: dict[str, str] = {"": DISCARD}
        self.values: dict[str, Value] = {DISCARD: None}
        self.statements: list[Apply | Call] = []
        self.makers: dict[str, Apply] = {}
        self.weights: dict[str, Weight] = {}
        self.replaced: set[str] = set()
        """Weights that are constants elsewhere; those that nothing uses are left out."""
        self.wanted: dict[str, str] = {}
        """What results that reach the outside by another name are called."""
        self.used: frozenset[str] = frozenset()

    def known(self, name: str) -> Dense | None:
        """The value of a name, where all of it is known."""
        value = self.values.get(name)
        return value if isinstance(value, Dense) and not value.symbolic else None

    def type_of(self, name: str) -> Type | None:
        """The type of a value of the graph; None where there is none."""
        given = self.env.get(name)
        return type_of(self.values[given]) if given is not None and given in self.values else None

    def parameter(self, name: str, type: Any, roles: Mapping[str, Any]) -> str:
        """Add a parameter for a value of the graph."""
        self.env[name] = given = self.builder.param(value_name(name), type, **roles)
        self.values[given] = type
        return given

    def weight(self, name: str, found: Weight, device: int, roles: Mapping[str, bool]) -> None:
        """Add a parameter whose data lies beside the program."""
        given = self.parameter(name, TensorType(found.dtype, found.shape, device), roles)
        self.weights[given] = found

    def constant(self, name: str, value: Dense, hint: str = "") -> None:
        """Let a value of the graph be a constant. `hint`: what to call it, if not as in the graph."""
        self.env[name] = given = self.builder.fresh(self.wanted.get(name) or value_name(hint or name))
        self.values[given] = value

    def tensor(self, name: str, tensor: onnx.TensorProto, where: str, hint: str = "") -> None:
        """Let a value of the graph be a tensor that a node or an inner graph holds: a weight, if it is large.

        Raises ImportRefused for one that is large in a function, which has no weights.
        """
        found = weight(tensor, self.folder)
        if math.prod(found.shape) <= LARGEST_ATTRIBUTE or self.builder.name != MAIN:
            self.constant(name, tensor_constant(tensor, self.folder, where), hint)
        else:
            self.weight(hint or name, found, DEVICE, role_of(found))
            self.env[name] = self.env[hint or name]

    def append(self, statement: Apply | Call) -> None:
        """Add a statement, and what is known of its results."""
        vs = tuple(self.values[arg] for arg in statement.args if isinstance(arg, str))
        domain = self.functions.domain
        try:
            ws: Sequence[Value] = (
                domain.apply(statement, vs) if isinstance(statement, Apply) else domain.call(statement, vs)
            )
        except Reject:  # the checker will report it, with the place in the program
            ws = (UNKNOWN,) * len(statement.results)
        self.values.update((name, value) for name, value in zip(statement.results, ws, strict=True) if name)
        self.statements.append(statement)
        if isinstance(statement, Apply):
            self.makers.update(dict.fromkeys(statement.results, statement))

    @abstractmethod
    def compute(self, statement: Apply) -> None:
        """Add an op, on what its operands were before they were expanded."""

    @abstractmethod
    def nodes(self, nodes: Sequence[onnx.NodeProto]) -> None:
        """Translate nodes, in an order that they can be run in. Raises ImportRefused."""

    @abstractmethod
    def node(self, node: onnx.NodeProto) -> None:
        """Translate one node. Raises ImportRefused."""
