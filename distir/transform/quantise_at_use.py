"""Quantises weights to 8-bit floats where they are used, so that the copies are freed with the gathered weights.

The step `fp8` quantises a weight once per training step, which is less work if weights are replicated. The copy of a
partitioned weight would be a whole one that is retained; instead each use quantises the weight that it gathers. FSDP
with torchao's `Float8Linear` does the same in its forward and backward passes (torchao/float8/float8_linear.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, Union

from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.ir import (
    DISCARD,
    NO_FACTS,
    Apply,
    Arg,
    Attributes,
    Call,
    Function,
    Module,
    Return,
    Site,
    Statement,
    names,
    operands,
)
from distir.ir.dataflow import uses
from distir.ir.rewrite import Rewriter, Variants, facts_of, with_operands
from distir.ir.types import TensorType, TupleType, Type
from distir.ops import type_of
from distir.transform.checking import checked

A = TypeVar("A", bound=Arg)

MAKERS = ("QuantizeFloat8", "ScaleToFloat8")


@dataclass(frozen=True, slots=True)
class _Copy:
    """How a copy is computed: the op, its attributes, and the types of its operands, the first of which is the weight.

    `number`: an index among the copies of a function. `others`: the number of results besides elements and scales.
    """

    number: int
    op: str
    attrs: Attributes
    types: tuple[Type, ...]
    others: int


@dataclass(frozen=True, slots=True)
class _Result:
    """A value that is the result of that number of the op that computes a copy."""

    copy: _Copy
    number: int


_Held = Union[_Result, "tuple[_Held | None, ...]"]
"""The copy that a value holds; for tuples, by item."""


def quantised_at_use(module: Module, entry: Function, weights: Collection[str]) -> tuple[Module, Mapping[str, str]]:
    """The module in which these `weights` are quantised where they are used, and by new function its origin."""
    places = _makers(entry, weights)
    if not places:
        return module, {}
    state = checked(module).states[entry.name]
    copies: dict[int, _Copy] = {}
    for place in places:
        maker = entry.body[place]
        assert isinstance(maker, Apply)
        types = tuple(type_of(state[name]) for name in names(maker.args))
        copies[place] = _Copy(len(copies), maker.op, maker.attrs, types, len(maker.results) - 2)
    pushed = _Pushed(Variants(module))
    changed = pushed.entry(entry, copies)
    functions = (*module.replacing(changed), *pushed.variants.made.values())
    return Module(functions), pushed.variants.origins


def cast_at_use(entry: Function, weights: Collection[str]) -> Function:
    """The function in which each phase casts the weights that it uses, for each microbatch, and keeps no copy.

    It is little work: of the part that a device has. A forward pass that is computed again is of the backward phase, so
    that it shares what this gathers, as in FSDP2, where the hook before the backward pass unshards for both
    (`_pre_forward` of torch/distributed/fsdp/_fully_shard/_fsdp_state.py). Statements without a phase have a copy each.
    """
    edit = Rewriter(entry)
    for _, statement in edit:
        if not isinstance(statement, Apply) or statement.op != "Cast" or statement.args[0] not in weights:
            continue
        (name,) = statement.results
        copies: dict[object, str] = {}
        for place in uses(entry).get(name, ()):
            user = entry.body[place]
            if isinstance(user, Return):
                continue
            facts = facts_of(user)
            phase = (facts.phase, facts.microbatch) if facts.phase else place
            if phase not in copies:
                copies[phase] = edit.fresh(f"{name}_again") if copies else name
                if copies[phase] != name:
                    edit.before(place, replace(statement, results=(copies[phase],), facts=NO_FACTS))
            if copies[phase] != name:
                edit.rename({name: copies[phase]}, [place])
    return edit.done()


def _makers(entry: Function, weights: Collection[str]) -> list[int]:
    """The statements that quantise a weight, or its cast."""
    known = set(weights)
    found: list[int] = []
    for place, statement in enumerate(entry.body):
        if isinstance(statement, Apply) and statement.args and statement.args[0] in known:
            if statement.op == "Cast":
                known.update(statement.results)
            elif statement.op in MAKERS and all(isinstance(arg, str) for arg in statement.args):
                found.append(place)
    return found


@dataclass(slots=True)
class _Pushed:
    """Rewrites functions to take weights instead of copies. `variants`: by function and the copies in its arguments."""

    variants: Variants

    def entry(self, entry: Function, copies: Mapping[int, _Copy]) -> Function:
        """The entry function, in which the statements at these indices compute copies."""
        body = _Body(self, entry, {})
        last = len(entry.body)
        for place, copy in copies.items():
            maker = entry.body[place]
            assert isinstance(maker, Apply)
            for number, name in enumerate(maker.results[:2]):
                body.held[name] = _Result(copy, number)
            body.sources[copy.number] = tuple(names(maker.args))
            others = [name for name in maker.results[2:] if name != DISCARD]
            by = min((i for name in others for i in uses(entry).get(name, ())), default=last)
            if others:
                body.others[copy.number] = (by, tuple(maker.results[2:]))
        return body.rewritten({*copies})

    def taking(self, name: str, helds: Sequence[_Held | None]) -> Function:
        """The rewritten function for arguments that hold copies in tuples."""
        order: dict[int, int] = {}
        of = tuple(_renumbered(held, order) for held in helds)

        def written(function: Function) -> Function:
            held = {p.name: item for p, item in zip(function.params, of, strict=True) if item is not None}
            params = tuple(replace(p, type=_type(p.type, held.get(p.name))) for p in function.params)
            return replace(_Body(self, function, held).rewritten(()), params=params)

        return self.variants.of(name, of, written)


class _Body:
    """Rewrites the body of one function, with each copy computed where it is used."""

    def __init__(self, owner: _Pushed, function: Function, held: Mapping[str, _Held]) -> None:
        self.owner, self.function, self.edit = owner, function, Rewriter(function)
        self.held: dict[str, _Held] = dict(held)
        self.sources: dict[int, tuple[str, ...]] = {}
        """By number of a copy: the operands from which it is computed."""
        self.others: dict[int, tuple[int, tuple[str, ...]]] = {}
        """By number of a copy: further results of its op, and their first use."""

    def rewritten(self, makers: Collection[int]) -> Function:
        """The function, with its old parameters.

        `makers`: the statements that compute copies, which stay only for their further results.
        """
        numbers: dict[int, int] = {}
        """By maker: its copy."""
        for index, statement in self.edit:
            if index in makers:
                assert isinstance(statement, Apply)
                held = next(self.held[name] for name in statement.results if name in self.held)
                assert isinstance(held, _Result)
                numbers[index] = held.copy.number
                only = replace(statement, results=(DISCARD, DISCARD, *statement.results[2:]), claims=())
                self.edit.replace(index, only)
            else:
                self.edit.replace(index, self._statement(index, statement))
        self.edit.erase(*(index for index, number in numbers.items() if number not in self.others))
        return self.edit.done(result_types=None)

    def _statement(self, index: int, statement: Statement) -> Statement:
        used = [name for name in dict.fromkeys(names(operands(statement))) if name in self.held]
        if not used:
            return statement
        packed = [name for name in used if isinstance(self.held[name], tuple)]
        match statement:
            case Apply(op="MakeTuple"):
                items = tuple(self.held.get(arg) if isinstance(arg, str) else None for arg in statement.args)
                self.held[statement.results[0]] = items
                args = _instead(statement.args, items, lambda copy: self.sources[copy.number])
                return replace(statement, args=tuple(args), claims=())
            case Apply(op="UnpackTuple") if packed:
                return self._unpacked(statement)
            case Call():
                helds = [self.held.get(arg) if isinstance(arg, str) else None for arg in statement.args]
                tuples = [of if isinstance(of, tuple) else None for of in helds]
                if any(tuples):
                    statement = replace(statement, function=self.owner.taking(statement.function, tuples).name)
            case _:
                if packed:
                    message = f"this statement needs `%{packed[0]}` whole, and copies of weights are made where used"
                    raise ProgramError([Diagnostic(codes.NOT_PARTITIONABLE, Site(self.function.name, index), message)])
        return self._with_copies(index, statement, [name for name in used if name not in packed])

    def _unpacked(self, statement: Apply) -> Apply:
        (arg,) = statement.args
        assert isinstance(arg, str)
        items = self.held[arg]
        assert isinstance(items, tuple)
        made = list(zip(statement.results, items, strict=True))
        self.held |= {name: of for name, of in made if name != DISCARD and of is not None}
        wanted = {of.copy.number: name for name, of in made if isinstance(of, _Result) and name != DISCARD}

        def sources(copy: _Copy) -> tuple[str, ...]:
            if copy.number not in wanted:
                return (DISCARD,) * len(copy.types)
            hint = wanted[copy.number].removesuffix(".scale").removesuffix(".fp8")
            self.sources[copy.number] = tuple(self.edit.fresh(hint) for _ in copy.types)
            return self.sources[copy.number]

        return replace(statement, results=_instead(statement.results, items, sources), claims=())

    def _with_copies(self, index: int, statement: Statement, used: Sequence[str]) -> Statement:
        """The statement, before which its copies are computed."""
        renamed: dict[str, str] = {}
        wanted: dict[_Copy, list[str]] = {}
        for name in used:
            of = self.held[name]
            assert isinstance(of, _Result)
            results = wanted.setdefault(of.copy, [DISCARD, DISCARD])
            results[of.number] = renamed[name] = self.edit.fresh(name)
        self.edit.before(index, *(self._made(copy, results, index) for copy, results in wanted.items()))
        return with_operands(statement, renamed)

    def _made(self, copy: _Copy, results: Sequence[str], index: int) -> Apply:
        """The op that computes a copy before a statement, with the further results that are not used earlier."""
        by, others = self.others.get(copy.number, (-1, ()))
        if by >= index:
            self.others.pop(copy.number, None)
        else:
            others = (DISCARD,) * copy.others
        return Apply((*results, *others), copy.op, self.sources[copy.number], copy.attrs)


def _instead(
    args: Sequence[A], items: Sequence[_Held | None], sources: Callable[[_Copy], Sequence[A]]
) -> tuple[A, ...]:
    """The items of a tuple, with a copy's operands in place of its first result."""
    found: list[A] = []
    seen: set[int] = set()
    for arg, of in zip(args, items, strict=True):
        if not isinstance(of, _Result):
            found.append(arg)
        elif of.copy.number not in seen:
            seen.add(of.copy.number)
            found += sources(of.copy)
    return tuple(found)


def _renumbered(held: _Held | None, order: dict[int, int]) -> _Held | None:
    """Renumber copies in the order of their first occurrence."""
    if isinstance(held, _Result):
        number = order.setdefault(held.copy.number, len(order))
        return replace(held, copy=replace(held.copy, number=number))
    return None if held is None else tuple(_renumbered(item, order) for item in held)


def _type(stated: Type, held: _Held | None) -> Type:
    """The type of a value that held copies and now holds their operands."""
    if not isinstance(held, tuple) or not isinstance(stated, TupleType):
        return stated
    found: list[Type] = []
    seen: set[int] = set()
    for item, of in zip(stated.items, held, strict=True):
        if not isinstance(of, _Result):
            found.append(_type(item, of))
        elif of.copy.number not in seen:
            seen.add(of.copy.number)
            device = item.device if isinstance(item, TensorType) else None
            found += [replace(t, device=device) if isinstance(t, TensorType) else t for t in of.copy.types]
    return TupleType(tuple(found))
