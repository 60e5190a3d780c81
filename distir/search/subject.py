"""The subject of a search: a sequential program, the machine to run it on, and the program's batch."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property

from distir.cost import Hardware
from distir.diagnostics import ProgramError
from distir.ir import Constant, Function, Module, SymbolicDim, TensorType, ops_in, types
from distir.ops import Reject
from distir.ops.optimizer import OPTIMIZERS
from distir.search.space import SpaceError
from distir.simulate.tokens import tokens
from distir.syntax import print_module
from distir.transform.pipeline import layer_count


@dataclass(frozen=True)  # without slots: what bounds of plans ask of the program is read once
class Subject:
    """A sequential program, the machine to run it on, and the sizes of all named dimensions but the batch."""

    model: str
    module: Module
    hardware: Hardware
    bind: tuple[tuple[str, Constant], ...] = ()

    @property
    def entry(self) -> Function:
        """The function that is distributed. Raises SpaceError for an empty program."""
        entry = self.module.entry()
        if entry is None:
            raise SpaceError("the program has no function")
        return entry

    def tokens(self, batch_size: int | None) -> int | None:
        """How many tokens a step processes at this batch size; None if no parameter's type determines it."""
        sizes = {name: size for name, size in self.bind if isinstance(size, int)}
        dimension = batch_dimension(self.entry)
        if dimension is not None and batch_size is not None:
            sizes[dimension] = batch_size
        return tokens(self.entry, [types.substitute(param.type, sizes) for param in self.entry.params])

    @cached_property
    def experts(self) -> int | None:
        """The number of experts of its layers, or the common divisor of several numbers; None for a model without."""
        counts = {n for s in ops_in(self.module, "Dispatch") if isinstance(n := s.attrs.get("num_experts"), int)}
        return math.gcd(*counts) if counts else None

    @cached_property
    def weights_bytes(self) -> int:
        """The size of all its weights."""
        return self._bytes_of("param")

    @cached_property
    def weights_count(self) -> int:
        """How many weights there are, each a number."""
        return sum(
            math.prod(size if isinstance(size, int) else 1 for size in leaf.shape)
            for param in self.entry.params
            if "param" in param.roles
            for leaf in types.leaves(param.type)
            if isinstance(leaf, TensorType) and leaf.shape
        )

    @cached_property
    def state_bytes(self) -> int:
        """The size of what an optimizer keeps of them."""
        return self._bytes_of("state")

    @cached_property
    def trains(self) -> bool:
        """Whether it is a training step: it has an optimizer's state, or gives as many weights as it takes."""
        updates = {rule.op.name for rule in OPTIMIZERS.values()}
        return any("state" in param.roles for param in self.entry.params) or any(ops_in(self.module, *updates))

    @cached_property
    def attends(self) -> bool:
        """Whether it has attention that could be split along the sequence."""
        return any(ops_in(self.module, "Attention"))

    def _bytes_of(self, role: str) -> int:
        sizes = {name: size for name, size in self.bind if isinstance(size, int)}
        found = (types.nbytes(types.substitute(p.type, sizes)) for p in self.entry.params if role in p.roles)
        return sum(nbytes for nbytes in found if isinstance(nbytes, int))

    def digest(self, version: str) -> str:
        """Identifies a search: rows with different digests must not be mixed."""
        machine = repr((self.hardware.name, self.hardware.kinds, self.hardware.levels))
        text = "\0".join([version, print_module(self.module), machine, repr(self.bind)])
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def layers_of(subject: Subject) -> int | None:
    """How many layers a pipeline's stages are made of; None for a program without layers."""
    try:
        return max(1, layer_count(subject.module))
    except (ProgramError, Reject):
        return None


def batch_dimension(entry: Function) -> str | None:
    """The named dimension of the `{batch}` parameters; None where the program fixes the size.

    Raises SpaceError if no parameter is marked, or the marked ones disagree.
    """
    found: dict[str | None, None] = {}
    for param in entry.params:
        axis = param.roles.get("batch")
        if isinstance(axis, int) and not isinstance(axis, bool):
            for leaf in types.leaves(param.type):
                shape = leaf.shape if isinstance(leaf, TensorType) else None
                size = shape[axis] if shape else None
                found[str(size) if isinstance(size, SymbolicDim) else None] = None
    if not found:
        raise SpaceError(f"no parameter of `@{entry.name}` is marked as carrying the batch: write `{{batch = 0}}`")
    if len(found) > 1:
        raise SpaceError(f"the `{{batch}}` parameters of `@{entry.name}` have batches of different names")
    return next(iter(found))


def fixed_batch(entry: Function) -> int | None:
    """The batch size that the program fixes; None if it does not."""
    for param in entry.params:
        axis = param.roles.get("batch")
        if isinstance(axis, int) and not isinstance(axis, bool):
            for leaf in types.leaves(param.type):
                size = leaf.shape[axis] if isinstance(leaf, TensorType) and leaf.shape else None
                if isinstance(size, int):
                    return size
    return None
