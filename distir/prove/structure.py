"""Whether two sequential programs are the same, however they are cut into functions, and what their values are called.

A value is a *term*: an op of terms, a parameter of the program, or a constant. Equal terms are one number. What a call
gives is a term of its own, the callee's result with arguments for its parameters, and is written out only where two
programs differ in where their functions begin: so layers and microbatches that are equal in both cost what one costs.
Equal terms are equal values, for all parameters and all sizes; terms that differ may be equal values still.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from distir.analysis.known_ops import lookup
from distir.ir import NO_ATTRIBUTES, Apply, Arg, Attributes, Call, Literal, Module, Return
from distir.ir.deep import Deep, finish
from distir.ops import bind
from distir.ops.mesh import COLLECTIVES

Number = int
"""A term, in `Structures`."""

Place = tuple[str, int]
"""A function, and the number of a statement in it."""

MOST_STEPS = 1_000_000
"""How often calls are written out in a comparison."""


class TooDifferent(Exception):  # noqa: N818 - ends a comparison, no failure
    """Two programs are cut into functions so differently that comparing them would take too long."""


@dataclass(frozen=True, slots=True)
class Term:
    """What a value is: an op of terms, a parameter, a constant, or what a call gives."""

    op: str = ""
    attrs: Attributes = NO_ATTRIBUTES
    """With their defaults."""
    results: int = 0
    """How many results the op has, where that counts."""
    result: int = 0
    """Which of them it is."""
    args: tuple[Number, ...] = ()
    formal: int | None = None
    """Of a parameter, its number."""
    constant: Literal | None = None
    body: Number | None = None
    """Of what a call gives, the callee's result; `args` are for the parameters that it depends on, in order."""


@dataclass(eq=False)
class Structures:
    """The terms of two programs."""

    terms: list[Term] = field(default_factory=list[Term])
    _numbers: dict[Term, Number] = field(default_factory=dict[Term, Number])
    _used: list[int] = field(default_factory=list[int])
    """By term: the parameters that it depends on, as bits."""
    _listed: dict[int, tuple[int, ...]] = field(default_factory=dict[int, "tuple[int, ...]"])
    """The numbers of parameters, by bits."""
    _same: dict[tuple[Number, Number], bool] = field(default_factory=dict[tuple[Number, Number], bool])
    _steps: dict[Number, Number | None] = field(default_factory=dict[Number, "Number | None"])

    def of(self, term: Term) -> Number:
        """The number of a term."""
        known = self._numbers.get(term)
        if known is None:
            known = self._numbers[term] = len(self.terms)
            self.terms.append(term)
            used = 0 if term.formal is None else 1 << term.formal
            for arg in term.args:
                used |= self._used[arg]
            self._used.append(used)
        return known

    def applied(self, term: Term) -> Number:
        """A result of an op; an item of a tuple that is made there is what it was made of."""
        if term.op == UNPACKED and (made := self.terms[term.args[0]]).op == PACKED:
            return made.args[term.result]
        return self.of(term)

    def called(self, body: Number, args: Sequence[Number] | Mapping[int, Number]) -> Number:
        """What a callee's result is for arguments, by the numbers of its parameters."""
        formal = self.terms[body].formal
        if formal is not None:
            return args[formal]
        used = self._parameters(body)
        return self.of(Term(args=tuple([args[k] for k in used]), body=body)) if used else body

    def _parameters(self, number: Number) -> tuple[int, ...]:
        """The numbers of the parameters that a term depends on."""
        bits = self._used[number]
        known = self._listed.get(bits)
        if known is None:
            known = tuple([found.start() for found in re.finditer("1", f"{bits:b}"[::-1])])
            self._listed[bits] = known
        return known

    def stepped(self, number: Number) -> Number | None:
        """The same value with its outermost call written out; None where it is an op, a parameter or a constant."""
        if number not in self._steps:
            if len(self._steps) > MOST_STEPS:
                raise TooDifferent
            self._steps[number] = self._step(self.terms[number])
        return self._steps[number]

    def _step(self, term: Term) -> Number | None:
        if term.body is not None:
            inner, given = self.terms[term.body], dict(zip(self._parameters(term.body), term.args, strict=True))
            own = tuple([self.called(arg, given) for arg in inner.args])
            if inner.body is not None:
                return self.of(replace(inner, args=own))
            return self.applied(replace(inner, args=own))
        if term.op == UNPACKED and (opened := self.stepped(term.args[0])) is not None:
            return self.applied(replace(term, args=(opened,)))
        return None

    def same(self, one: Number, other: Number) -> bool:
        """Whether two terms are the same, all calls written out. Raises TooDifferent."""
        return one == other or finish(self._compared(one, other))

    def _compared(self, one: Number, other: Number) -> Deep[bool]:
        known = self._same.get((one, other))
        if known is not None:
            return known
        pairs = self.alike(one, other)
        found = pairs is not None
        for a, b in pairs or ():
            if a != b and not (yield self._compared(a, b)):
                found = False
                break
        if not found and (further := self.further(one, other)) is not None:
            a, b = further
            found = a == b or (yield self._compared(a, b))
        self._same[one, other] = found
        return found

    def alike(self, one: Number, other: Number) -> list[tuple[Number, Number]] | None:
        """The arguments of two terms of one op, or of one callee's result; None for others."""
        a, b = self.terms[one], self.terms[other]
        if len(a.args) != len(b.args) or replace(a, args=()) != replace(b, args=()):
            return None
        return [*zip(a.args, b.args, strict=True)]

    def further(self, one: Number, other: Number) -> tuple[Number, Number] | None:
        """Two terms with a call of one, or of both, written out; None where neither is of a call."""
        inner, others = self._depth(one), self._depth(other)
        a = self.stepped(one) if inner >= others else None
        b = self.stepped(other) if others >= inner else None
        if a is None and b is None:
            a, b = self.stepped(one), self.stepped(other)
        return None if a is None and b is None else (one if a is None else a, other if b is None else b)

    def _depth(self, number: Number) -> int:
        """How many calls are around an op."""
        depth, term = 0, self.terms[number]
        while term.body is not None:
            depth, term = depth + 1, self.terms[term.body]
        return depth


PACKED: Final = "MakeTuple"
UNPACKED: Final = "UnpackTuple"
LISTED: Final = "[]"
CONSTANT: Final = "constant"


@dataclass(eq=False)
class ReadTerms:
    """A program in terms. `made`: by term, the first statement that gives it."""

    module: Module
    structures: Structures
    made: dict[Number, Place] = field(default_factory=dict[Number, Place])
    names: dict[Number, str] = field(default_factory=dict[Number, str])
    _returned: dict[str, tuple[Number, ...]] = field(default_factory=dict[str, "tuple[Number, ...]"])

    def results(self, function: str) -> tuple[Number, ...]:
        """The results of a function, of its parameters."""
        return finish(self._read(function))

    def _read(self, name: str) -> Deep[tuple[Number, ...]]:
        known = self._returned.get(name)
        if known is not None:
            return known
        function, of = self.module.functions[name], self.structures.of
        values = {param.name: of(Term(formal=k)) for k, param in enumerate(function.params)}
        for index, statement in enumerate(function.body):
            if isinstance(statement, Return):
                known = tuple(self._arg(arg, values) for arg in statement.args)
            elif isinstance(statement, (Apply, Call)):
                args = tuple([self._arg(arg, values) for arg in statement.args])
                if isinstance(statement, Call):
                    callee = yield self._read(statement.function)
                    found = [self.structures.called(body, args) for body in callee]
                else:
                    found = self._applied(statement, args)
                for result, value in zip(statement.results, found, strict=True):
                    values[result] = value
                    self.made.setdefault(value, (name, index))
                    self.names.setdefault(value, result)
        self._returned[name] = known = known or ()
        return known

    def _arg(self, arg: Arg, values: Mapping[str, Number]) -> Number:
        if isinstance(arg, str):
            return values[arg] if arg else self.structures.of(Term(CONSTANT))
        if isinstance(arg, Literal):
            return self._constant(arg)
        return self.structures.of(Term(LISTED, args=tuple([self._arg(item, values) for item in arg])))

    def _constant(self, literal: Literal) -> Number:
        return self.structures.of(Term(CONSTANT, constant=literal))

    def _applied(self, statement: Apply, args: tuple[Number, ...]) -> list[Number]:
        if is_operand(statement.op):
            return [args[0]]
        if statement.op == "Constant" and (value := statement.attrs.get("value")) is not None:
            return [self._constant(Literal(value))]
        attrs, count = _stated(statement.op, statement.attrs, len(statement.results))
        terms = (Term(statement.op, attrs, count, k, args) for k in range(len(statement.results)))
        return list(map(self.structures.applied, terms))


@lru_cache(maxsize=1 << 12)
def is_operand(op: str) -> bool:
    """Whether the result of an op is its first operand, elsewhere or later."""
    definition = lookup(op)
    moves = definition.copies or definition.awaits or definition.communication == "send"
    return moves or op == "Identity" or op in COLLECTIVES


@lru_cache(maxsize=1 << 12)
def _stated(op: str, attrs: Attributes, results: int) -> tuple[Attributes, int]:
    """The attributes with their defaults, and the number of results where that counts."""
    definition = lookup(op)
    return bind(definition, attrs), results if definition.takes_count else 0


@dataclass(frozen=True, slots=True)
class TermsApart:
    """Where two terms part: a statement of each program that gives another value, of which operands are the same.

    `operand`: that one which is not, where ops are the same, and is a value of the other program elsewhere.
    """

    one: Number
    other: Number
    operand: tuple[Number, Number] | None = None
    place: Place | None = None
    """The first program's statement."""


@dataclass(eq=False)
class FirstApart:
    """The search for where the results of two programs part."""

    one: ReadTerms
    other: ReadTerms
    _made: dict[Number, Place] = field(default_factory=dict[Number, Place], init=False)

    def found(self, one: Number, other: Number) -> TermsApart:
        """Where two results that differ part. Raises TooDifferent."""
        structures = self.one.structures
        while True:
            pair = next((p for p in structures.alike(one, other) or () if not structures.same(*p)), None)
            if pair is not None and self.is_known(pair[0]):
                return TermsApart(one, other, pair, self._place(one))
            if pair is None:
                further = structures.further(one, other)
                if further is None:
                    return TermsApart(one, other, None, self._place(one))
                self._follow(one, further[0])
                pair = further
            one, other = pair

    def is_known(self, number: Number) -> bool:
        """Whether the other program has the value, anywhere; of one inside a call, whether it has the statement."""
        term = self.one.structures.terms[number]
        if term.formal is not None or term.op == CONSTANT:
            return True
        return number in self.other.made or (number not in self.one.made and term.body in self.other.made)

    def _place(self, number: Number) -> Place | None:
        return self._made.get(number) or self.one.made.get(number)

    def _follow(self, before: Number, after: Number) -> None:
        """Note where the statements of a call that is written out stand."""
        terms = self.one.structures.terms
        body = terms[before].body
        if before == after or body is None:
            return
        for made, of in [(after, body), *zip(terms[after].args, terms[body].args, strict=False)]:
            if made not in self.one.made and of in self.one.made:
                self._made.setdefault(made, self.one.made[of])
