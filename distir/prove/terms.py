"""Terms: what values of the sequential program are, at their real sizes, each one object however often it is made.

An atom is an op on whole operands, a parameter, or a constant. A whole value is a linear combination of atoms: sums,
differences and factors are not atoms, so that their order does not matter. Equal terms are equal values: two atoms are
the same only if op, attributes, element types and operands are. Nothing here knows of devices or of pieces.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from distir.ir import Attributes

DIGITS = 12
"""To so many digits factors are computed. Those that are a simple fraction then, are that: 1/3 three times is 1."""

SIMPLE = 10**5
"""The greatest denominator of a simple fraction, which may also be multiplied by a power of 2."""

MOST = 1e150
"""The largest factor, and the inverse of the smallest: the product of two is neither infinite nor zero."""

Shape = tuple[int, ...]


class Unproved(Exception):  # noqa: N818 - a verdict on a statement, not a failure of ours
    """Nothing can be said of a statement's results; the message is the reason."""


@dataclass(frozen=True, slots=True)
class OpDetails:
    """What distinguishes an op's results besides the operands."""

    result: int
    attributes: Attributes
    dtypes: tuple[str | None, ...]
    shapes: tuple[Shape | None, ...]
    """Of the operands; None: left out."""
    count: int
    """Of the results, those included that only a gradient asks for."""


Form = tuple[tuple["Atom", float], ...]
"""A linear combination: atoms with their factors, in the order in which the atoms were first made. Empty: zeros."""


@dataclass(frozen=True, slots=True, eq=False)
class Atom:
    """A whole value that is no linear combination. Compared by identity."""

    number: int
    kind: str
    """The op's name, or what it is instead: `parameter`, `constant`, `fill`, `unknown`, or a movement of another."""
    shape: Shape
    operands: tuple[Form, ...] = ()
    details: Any = None
    """All else that distinguishes it."""
    linear: tuple[int, ...] = ()
    """The operands in each of which it is linear by itself."""
    origin: Any = None
    """Where it was first made, and in which program."""
    reason: str | None = None
    """Why nothing is known of it but how it was computed."""
    is_open: bool = False
    """Whether it is made of a `formal`, that represents any value."""
    is_unknown: bool = False
    """Whether it is made of an `unknown`."""
    axes: frozenset[Any] = frozenset()
    """Along which axes of the mesh it is another one for each device (`ranks.py`)."""

    def __lt__(self, other: Atom) -> bool:
        return self.number < other.number

    def __repr__(self) -> str:
        return f"{self.kind}#{self.number}"


def factor(value: float) -> float:
    """A factor, rounded as all are. Raises Unproved for one that is too large or too small to be distinguished."""
    return value if value in _EXACT else _rounded(value)


_EXACT = frozenset((0.0, 1.0, -1.0, 0.5, 2.0))


@lru_cache(maxsize=1 << 12)
def _rounded(value: float) -> float:
    if not 1 / MOST <= abs(value) <= MOST:
        raise Unproved("a factor is too large, or too small, to be followed")
    rounded = float(f"{value:.{DIGITS - 1}e}")
    if rounded.is_integer():
        return rounded
    mantissa, exponent = math.frexp(value)
    simple = Fraction(mantissa).limit_denominator(SIMPLE)
    exact = math.ldexp(simple.numerator / simple.denominator, exponent)
    return exact if float(f"{exact:.{DIGITS - 1}e}") == rounded else rounded


def combined(parts: Sequence[tuple[Atom, float]]) -> Form:
    """The linear combination of these."""
    if len(parts) == 1 and parts[0][1]:
        return tuple(parts)
    totals: dict[Atom, float] = {}
    for atom, c in parts:
        totals[atom] = totals.get(atom, 0.0) + c
    return tuple(sorted(((atom, factor(c)) for atom, c in totals.items() if factor(c)), key=lambda part: part[0]))


@dataclass
class Terms:
    """The table of all atoms of one proof."""

    origin: Callable[[], Any] = lambda: None
    """Gives the place at which an atom is being made."""
    axes: Callable[[str, Any], frozenset[Any]] = lambda _, __: frozenset()
    """Gives the axes of the mesh that an atom depends on by what distinguishes it."""
    _known: dict[Any, Atom] = field(default_factory=dict[Any, Atom])
    _factored: dict[Form, Form] = field(default_factory=dict[Form, Form])

    def atom(
        self,
        kind: str,
        shape: Shape,
        operands: tuple[Form, ...] = (),
        details: Any = None,
        linear: tuple[int, ...] = (),
        reason: str | None = None,
    ) -> Atom:
        """The atom with these; made where it is new."""
        key = (kind, shape, operands, details)
        found = self._known.get(key)
        if found is None:
            number = len(self._known)
            is_open = is_unknown = False
            axes = self.axes(kind, details)
            for form in operands:
                for inner, _ in form:
                    is_open = is_open or inner.is_open
                    is_unknown = is_unknown or inner.is_unknown
                    axes = axes | inner.axes if inner.axes else axes
            found = self._known[key] = Atom(
                number,
                kind,
                shape,
                operands,
                details,
                linear,
                self.origin(),
                reason,
                is_open or kind == "formal",
                is_unknown or kind == "unknown",
                axes,
            )
        return found

    def __len__(self) -> int:
        return len(self._known)

    def formal(self, index: int, shape: Shape) -> Atom:
        """The `index`-th of the values of which something holds whatever they are."""
        return self.atom("formal", shape, details=index)

    def __iter__(self) -> Iterator[Atom]:
        """All atoms, in the order in which they were made."""
        return iter(self._known.values())

    def fill(self, value: float, shape: Shape) -> Atom:
        """A tensor all of whose elements are one number."""
        return self.atom("fill", shape, details=repr(float(value)))

    def reshaped(self, atom: Atom, shape: Shape) -> Atom:
        """The elements in another shape, in row-major order."""
        if atom.shape == shape:
            return atom
        if atom.kind == "fill":
            return self.atom("fill", shape, details=atom.details)
        if atom.kind == "reshape":
            return self.reshaped(atom.operands[0][0][0], shape)
        if atom.kind == "guarded":
            inner, guard = (self.reshaped(form[0][0], shape) for form in atom.operands)
            return self.atom("guarded", shape, (((inner, 1.0),), ((guard, 1.0),)), atom.details)
        return self.atom("reshape", shape, (((atom, 1.0),),), linear=(0,))

    def transposed(self, atom: Atom, perm: tuple[int, ...]) -> Atom:
        """The dimensions in another order."""
        if perm == tuple(range(len(perm))):
            return atom
        shape = tuple([atom.shape[axis] for axis in perm])
        if atom.kind == "fill":
            return self.atom("fill", shape, details=atom.details)
        if atom.kind == "transpose":
            inner = atom.operands[0][0][0]
            return self.transposed(inner, tuple([atom.details[axis] for axis in perm]))
        return self.atom("transpose", shape, (((atom, 1.0),),), perm, linear=(0,))

    def spread(self, atom: Atom, shape: Shape) -> Atom:
        """Broadcast to a shape."""
        if atom.shape == shape:
            return atom
        if atom.kind == "fill":
            return self.atom("fill", shape, details=atom.details)
        if atom.kind == "spread":
            return self.spread(atom.operands[0][0][0], shape)
        return self.atom("spread", shape, (((atom, 1.0),),), linear=(0,))

    def window(self, atom: Atom, axis: int, start: int, stop: int) -> Atom | None:
        """The places from `start` to `stop` of a dimension; None where these are zeros of a padded one."""
        size = atom.shape[axis]
        if (start, stop) == (0, size):
            return atom
        shape = (*atom.shape[:axis], stop - start, *atom.shape[axis + 1 :])
        if atom.kind == "fill":
            return self.atom("fill", shape, details=atom.details)
        if atom.kind == "window" and atom.details[0] == axis:
            first = atom.details[1]
            return self.window(atom.operands[0][0][0], axis, first + start, first + stop)
        if atom.kind == "padded" and atom.details[0] == axis:
            inner = atom.operands[0][0][0]
            first, last = atom.details[1], atom.details[1] + inner.shape[axis]
            if stop <= first or start >= last:
                return None
            if first <= start and stop <= last:
                return self.window(inner, axis, start - first, stop - first)
        return self.atom("window", shape, (((atom, 1.0),),), (axis, start, stop), linear=(0,))

    def padded(self, atom: Atom, axis: int, start: int, size: int) -> Atom:
        """The value from place `start` on of a dimension of `size`, which is zero elsewhere."""
        if atom.shape[axis] == size:
            return atom
        shape = (*atom.shape[:axis], size, *atom.shape[axis + 1 :])
        return self.atom("padded", shape, (((atom, 1.0),),), (axis, start), linear=(0,))

    def moved(self, movement: Movement, atom: Atom) -> Atom | None:
        """The elements of an atom moved as another movement moves those of its operand; None where zeros are left."""
        match movement.kind:
            case "reshape":
                return self.reshaped(atom, movement.shape)
            case "transpose":
                return self.transposed(atom, movement.details)
            case "spread":
                return self.spread(atom, movement.shape)
            case "padded":
                axis, start = movement.details
                return self.padded(atom, axis, start, movement.shape[int(axis)])
            case _:
                return self.window(atom, *movement.details)

    def factored(self, form: Form) -> Form:
        """The combination with what is linear in a sum taken of the sum: f(a) + f(b) is f(a + b)."""
        if len(form) < 2:
            return form
        found = self._factored.get(form)
        if found is None:
            found = self._factored[form] = self._with_sums(form)
        return form if found == form else found

    def _with_sums(self, form: Form) -> Form:
        """The same, found."""
        for place in (0, 1):
            heads: dict[Any, list[tuple[Atom, float]]] = {}
            for atom, c in form:
                core, moved = movements(atom)
                if place in core.linear:
                    others = (*core.operands[:place], *core.operands[place + 1 :])
                    key = core.kind, core.shape, others, core.details, moved
                    heads.setdefault(key, []).append((atom, c))
            groups = [group for group in heads.values() if len(group) > 1]
            if not groups:
                continue
            rest = dict(form)
            for group in groups:
                for atom, _ in group:
                    del rest[atom]
                first, moved = movements(group[0][0])
                cores = [(movements(atom)[0], c) for atom, c in group]
                inner = combined([(a, factor(c * d)) for core, c in cores for a, d in core.operands[place]])
                inner = self.factored(inner)
                if not inner:
                    continue
                whole, scale = scaled_out(inner)
                operands = (*first.operands[:place], whole, *first.operands[place + 1 :])
                made = self.atom(first.kind, first.shape, operands, first.details, first.linear)
                for step in reversed(moved):
                    made = self.atom(step.kind, step.shape, (((made, 1.0),),), step.details, linear=(0,))
                rest[made] = rest.get(made, 0.0) + scale
            return self.factored(combined(list(rest.items())))
        return form


MOVEMENTS = frozenset({"reshape", "transpose", "spread", "window", "padded"})
"""Kinds of atoms that move elements and compute nothing: of a combination, each of its atoms is moved."""


class Movement(NamedTuple):
    """How elements are moved, whatever is moved."""

    kind: str
    shape: Shape
    """Of what they are moved to."""
    details: Any


def movements(atom: Atom) -> tuple[Atom, tuple[Movement, ...]]:
    """What an atom moves, and how: the last movement first."""
    steps: list[Movement] = []
    while atom.kind in MOVEMENTS:
        steps.append(Movement(atom.kind, atom.shape, atom.details))
        atom = atom.operands[0][0][0]
    return atom, tuple(steps)


def scaled_out(form: Form) -> tuple[Form, float]:
    """A combination whose first factor is 1, and what to multiply it by."""
    if not form or form[0][1] == 1.0:
        return form, 1.0
    c = form[0][1]
    return tuple([(atom, factor(d / c)) for atom, d in form]), c
