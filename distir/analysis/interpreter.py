"""Algorithm 1 of the paper: an abstract interpreter, parametric in the domain. Nothing else.

The letters are the paper's: `rho` maps values to abstract values, `S` is the semantics, `xs` and `ys` are the
arguments and results of a statement, `vs` and `ws` abstract values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from distir.ir import DISCARD, Apply, Arg, Broken, Call, Function, Return
from distir.ir.deep import Deep, finish


class Domain:
    """What values are, and what ops do to them. A domain that checks raises `Reject`."""

    unknown: Any = None
    """Stands for what a broken statement would have defined."""

    def apply(self, op: Apply, vs: tuple[Any, ...]) -> Sequence[Any]:
        """The results of an op on arguments."""
        raise NotImplementedError

    def call(self, call: Call, vs: tuple[Any, ...]) -> Sequence[Any]:
        """The results of a call: those of `interpret` on the function's body."""
        return finish(self.called(call, vs))

    def called(self, call: Call, vs: tuple[Any, ...]) -> Deep[Sequence[Any]]:
        """The same, for who waits for it."""
        raise NotImplementedError

    def constant(self, arg: Arg) -> Any:
        """The value of a literal operand."""
        raise NotImplementedError


class State(dict[str, Any]):
    """Values by name. `returned` is what the function returned."""

    __slots__ = ("returned", "semantics")

    def __init__(self, names: Iterable[str], vs: Iterable[Any], S: Domain) -> None:  # noqa: N803
        super().__init__(zip(names, vs, strict=True))
        self[DISCARD] = None
        self.semantics = S
        self.returned: tuple[Any, ...] = ()

    def __call__(self, xs: tuple[Arg, ...]) -> tuple[Any, ...]:
        """The values of arguments: of names as bound, of the others as the domain has it."""
        return tuple([self[x] if isinstance(x, str) else self._other(x) for x in xs])

    def __missing__(self, name: str) -> Any:
        return self.semantics.unknown

    def _other(self, x: Arg) -> Any:
        return self(x) if isinstance(x, tuple) else self.semantics.constant(x)


def interpret(f: Function, vs: Sequence[Any], S: Domain) -> State:  # noqa: N803
    """Run `f` on the abstract values `vs` under the semantics `S`, and give the final state."""
    return finish(algorithm_1(f, vs, S))


def algorithm_1(f: Function, vs: Sequence[Any], S: Domain) -> Deep[State]:  # noqa: N803
    """The same, for who waits for it: calls may be nested deeper than Python's stack."""
    rho = State((p.name for p in f.params), vs, S)
    for op in f.body:
        match op:
            case Apply(ys, _, xs):
                rho.update(zip(ys, S.apply(op, rho(xs)), strict=True))
            case Call(ys, _, xs):
                rho.update(zip(ys, (yield S.called(op, rho(xs))), strict=True))
            case Return(xs):
                rho.returned = rho(xs)
            case Broken():
                continue
        rho[DISCARD] = None
    return rho
