"""The backward pass of one function under construction: gradients by value, their sums, and their names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from distir.analysis import State
from distir.ir import DISCARD, HOST, Arg, DType, Function, TensorType, Type, names, types
from distir.ir.builder import FunctionBuilder
from distir.ir.rewrite import substituted, with_names
from distir.ops import type_of

if TYPE_CHECKING:  # rules are loaded only where something is differentiated
    from distir.ops.backward import Tape

Gradient = Arg | None


@dataclass(slots=True)
class BackwardPass:
    """The backward pass of one function under construction."""

    function: Function
    state: State
    builder: FunctionBuilder
    active: set[str]
    uses: dict[str, int]
    weight: Callable[[str], str]
    """The parameter of the function of which a value is a copy; empty if it is of none that is a weight."""
    phase: str = ""
    """What its statements state; nothing where their function does."""
    contributions: dict[str, list[Arg]] = field(default_factory=dict[str, list[Arg]])
    counts: dict[str, int] = field(default_factory=dict[str, int])

    def keep(self, tape: Tape, pairs: Sequence[tuple[Arg, Arg]], stream: str = "") -> None:
        """Append the statements of a gradient rule, with descriptive names, on the stream of the forward statement."""
        statements = tape.take(gradient for _, gradient in pairs)
        lasting: dict[str, str] = {}
        for arg, gradient in pairs:
            if isinstance(arg, str) and isinstance(gradient, str) and gradient.startswith("~"):
                lasting.setdefault(gradient, self.contribution_name(arg))
        for statement in statements:
            for name in statement.results:
                if name != DISCARD:
                    lasting.setdefault(name, self.builder.fresh(statement.op.lower()))
        of = {str(gradient): self.weight(arg) for arg, gradient in pairs if isinstance(arg, str)}
        for statement in statements:
            weight = next((of[name] for name in statement.results if of.get(name)), "")
            made = replace(statement, stream=stream, facts=replace(self.builder.facts, of=weight))
            self.builder.body.append(with_names(made, lasting))
        for name, last in lasting.items():
            tape.values[last] = tape.values.pop(name)
        for arg, gradient in pairs:
            self.contribute(arg, *substituted((gradient,), lasting))

    def contribute(self, arg: Arg, gradient: Arg) -> None:
        """Add to the gradient of a value, or of the items of a list."""
        if isinstance(arg, str):
            self.contributions.setdefault(arg, []).append(gradient)
        elif isinstance(arg, tuple):
            wanted = [not self.active.isdisjoint(names((item,))) for item in arg]
            hints = tuple(self._hint(item) if want else DISCARD for item, want in zip(arg, wanted, strict=True))
            parts = self.builder.apply("UnpackTuple", gradient, results=hints)
            for item, part in zip(arg, parts, strict=True):
                if part != DISCARD:
                    self.contribute(item, part)

    def _hint(self, arg: Arg) -> str:
        return f"d{arg}" if isinstance(arg, str) else "dtuple"

    def contribution_name(self, arg: str) -> str:
        """`dx`; or `dx_1`, `dx_2`, … if several contributions are summed to `dx`."""
        if self.uses.get(arg, 0) < 2:
            return self.builder.fresh(f"d{arg}")
        self.counts[arg] = self.counts.get(arg, 0) + 1
        return self.builder.fresh(f"d{arg}_{self.counts[arg]}")

    def dtype(self, tape: Tape, name: str) -> DType | None:
        """The element type of a value's gradient; None if no contribution has a known one."""
        for gradient in self.contributions.get(name, ()):
            found = type_of(tape.values[gradient]) if isinstance(gradient, str) and gradient in tape.values else None
            if isinstance(found, TensorType) and found.dtype is not None:
                return found.dtype
        return None

    def total(self, name: str) -> Gradient:
        """The gradient of a value: the sum of its contributions, written once."""
        found = self.contributions.get(name, [])
        if len(found) < 2:
            return found[0] if found else None
        self.contributions[name] = list(self.builder.apply("Sum", *found, results=(f"d{name}",)))
        return self.contributions[name][0]


def is_differentiable(type: Type) -> bool:
    """Whether a value holds floating-point numbers on a device, or may."""
    return any(
        leaf.device != HOST and (not isinstance(leaf, TensorType) or leaf.dtype is None or leaf.dtype.kind == "float")
        for leaf in types.leaves(type)
    )
