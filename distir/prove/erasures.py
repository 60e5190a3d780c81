"""Proof of a program on a mesh: its types, and its erasure compared with the sequential program.

That it checks says that each device computes parts, copies or terms of sums of the values of its erasure. So what is
left to prove is that the erasure is the sequential program: that their results are the same terms (`structure`), or
equal ones (`domain`). No device is written out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import replace

from distir.analysis.checking import analysed
from distir.analysis.erasure import as_identities
from distir.analysis.placement_states import erased_type
from distir.diagnostics import ProgramError
from distir.ir import (
    Apply,
    Arg,
    Attributes,
    Call,
    Function,
    Module,
    Param,
    Statement,
    TensorType,
    TupleType,
    Type,
    types,
)
from distir.ir.rewrite import mapped
from distir.ops import OPS
from distir.ops.mesh import COLLECTIVES
from distir.prove.comparing import Failure, Proof, ProveError
from distir.prove.history import MadeBy
from distir.prove.structure import (
    FirstApart,
    Number,
    Place,
    ReadTerms,
    Structures,
    TermsApart,
    TooDifferent,
)
from distir.prove.words import attributes
from distir.syntax import print_literal

Terms = Callable[[Module, Module], Proof]
"""The proof that two sequential programs give equal terms. Raises ProveError."""


def by_erasure(distributed: Module, sequential: Module, sizes: Mapping[str, int], terms: Terms) -> Proof:
    """Whether a program on a mesh, or what it is compared with, erases to the same program as the other.

    Raises ProgramError where one does not check, ProveError where parameters or results do not belong together.
    """
    meshes = distributed.meshes
    one, other = map(_erased, (distributed, sequential))
    if _ends(one) != _ends(other):  # a pipeline, whose stages take and give what others call otherwise
        proof = terms(one, other)
        return replace(proof, laws=(*_laws(distributed), *proof.laws), meshes=meshes)
    _refuse_other_parameters(_entry(one), _entry(other), sizes)
    failures, others = _differing(distributed, one, other)
    results = tuple(_named(arg, k) for k, arg in enumerate(_entry(other).returned, 1))
    laws = _laws(distributed)
    if not failures:
        return Proof(results, (), laws, meshes=meshes, any_size=True)
    try:
        proof = terms(one, other)
    except ProveError:  # a size is not known
        return Proof(results, tuple(failures.values()), (), meshes=meshes, any_size=True)
    placed = [f if f.result in others else failures.get(f.result, f) for f in proof.failures]
    return replace(proof, failures=tuple(placed), laws=(*laws, *proof.laws), meshes=meshes)


SUMMED = ("each device adds its terms of a sum before they are added up",)
"""The law that sums over an axis rest on."""


def _ends(module: Module) -> Set[str]:
    """What a program has around its entry function, that scatters parameters over stages and gathers results."""
    return module.functions.keys() & {f"{_entry(module).name}.{role}" for role in ("scatter", "gather")}


def _laws(distributed: Module) -> tuple[str, ...]:
    return SUMMED if any(_sums(f) for f in distributed) else ()


def _sums(function: Function) -> bool:
    collectives = (s for s in function.body if isinstance(s, Apply) and s.op in COLLECTIVES)
    return any(COLLECTIVES[s.op].before in ("sum", "pending") for s in collectives)


def _erased(module: Module) -> Module:
    """The program without its mesh, with each statement in its place. Raises ProgramError."""
    if module.mesh and (found := analysed(module)).errors:
        raise ProgramError(found.errors)
    return Module(mapped(function, _in_any_manner) for function in as_identities(module))


def _in_any_manner(statement: Statement) -> Statement:
    """The statement without what says how devices compute it."""
    manner = OPS[statement.op].manner if isinstance(statement, Apply) else ()
    if not isinstance(statement, Apply) or not manner:
        return statement
    return replace(statement, attrs=Attributes({n: v for n, v in statement.attrs.items() if n not in manner}))


def _entry(module: Module) -> Function:
    entry = module.entry()
    if entry is None:
        raise ProveError("there is no function to compare")
    return entry


def _refuse_other_parameters(one: Function, other: Function, sizes: Mapping[str, int]) -> None:
    """Raises ProveError where parameters or results are others than those of the sequential program."""
    for what, found, wanted in (("parameters", one.params, other.params), ("results", one.returned, other.returned)):
        if len(found) != len(wanted):
            raise ProveError(f"expected {len(wanted)} {what}, as `@{other.name}` has, found {len(found)}")
    for a, b in zip(one.params, other.params, strict=True):
        if _shaped(a, sizes) != _shaped(b, sizes):
            said = f"`%{a.name}` is `{a.type}`, and `%{b.name}`, in its place in the sequential program, `{b.type}`"
            named = any(types.dim_names(erased_type(p.type)) for p in (a, b))
            raise ProveError(said + ("; give named dimensions sizes with `--bind`" if named else ""))


def _shaped(param: Param, sizes: Mapping[str, int]) -> object:
    """What a parameter's type says besides devices."""
    return _shape(types.substitute(erased_type(param.type), sizes))


def _shape(type: Type) -> object:
    if isinstance(type, TupleType):
        return tuple(map(_shape, type.items))
    return (type.dtype, type.shape) if isinstance(type, TensorType) else None


def _named(arg: Arg, number: int) -> str:
    return arg if isinstance(arg, str) else f"result {number}"


def _differing(distributed: Module, one: Module, other: Module) -> tuple[dict[str, Failure], frozenset[str]]:
    """By name, the results that are other terms, and the statements where they part; and which part at other ops.

    Such may be another way to write what is due: of those, what is known of terms tells where they go wrong.
    """
    structures = Structures()
    readings = [ReadTerms(module, structures) for module in (one, other)]
    found, wanted = (reading.results(_entry(reading.module).name) for reading in readings)
    names = [_named(arg, k) for k, arg in enumerate(_entry(other).returned, 1)]
    try:
        wrong = [k for k, pair in enumerate(zip(found, wanted, strict=True)) if not structures.same(*pair)]
        words = _Words(distributed, FirstApart(*readings), _entry(one), _entry(other))
        failures = {names[k]: words.failure(names[k], k, found[k], wanted[k]) for k in wrong}
    except TooDifferent:
        reason = "the programs are cut into functions so differently that comparing them would take too long"
        return {name: Failure(name, None, reason) for name in names}, frozenset(names)
    return failures, frozenset(words.others)


class _Words:
    """Says what is wrong with results that differ. `written`: the program on the mesh."""

    def __init__(self, written: Module, parting: FirstApart, one: Function, other: Function) -> None:
        self.written, self.parting, self.one, self.other = written, parting, one, other
        self.terms = parting.one.structures.terms
        self.others: set[str] = set()
        """The results that part at other ops."""

    def failure(self, name: str, number: int, found: Number, wanted: Number) -> Failure:
        """The statement where a result and what is due part."""
        at = self.parting.found(found, wanted)
        if at.place is None or self.parting.is_known(found):
            reason = f"expected {self._due(wanted)}, found {self._given(found)}"
            return Failure(name, None, reason, returned=number, is_copy=True)
        statement = self._statement(at.place)
        if at.operand is None and self.terms[at.one].op != self.terms[at.other].op:
            self.others.add(name)
        if isinstance(statement, Call):
            return Failure(name, None, self._reason(at, f"`@{statement.function}`"), call=(at.place[0], statement, ()))
        made = MadeBy(at.place[0], statement, False)
        return Failure(name, made, self._reason(at, f"`{statement.op}`"))

    def _statement(self, place: Place) -> Apply | Call:
        found = self.written.functions[place[0]].body[place[1]]
        assert isinstance(found, (Apply, Call))
        return found

    def _reason(self, at: TermsApart, what: str) -> str:
        if at.operand is not None:
            given, due = at.operand
            return f"{what} is given {self._given(given)}, and in the sequential program {self._due(due)}"
        a, b = self.terms[at.one], self.terms[at.other]
        if a.op and a.op == b.op and (found := attributes(a.attrs, b.attrs)):
            return f"{what} has {found}, and in the sequential program {attributes(b.attrs, a.attrs)}"
        return f"{what} is in the place of {self._due(at.other)}, in the sequential program"

    def _given(self, number: Number) -> str:
        return self._said(number, self.parting.one, self.one)

    def _due(self, number: Number) -> str:
        return self._said(number, self.parting.other, self.other)

    def _said(self, number: Number, reading: ReadTerms, entry: Function) -> str:
        term = self.terms[number]
        if term.formal is not None:
            return f"`%{entry.params[term.formal].name}`"
        if term.constant is not None:
            return f"`{print_literal(term.constant.value)}`"
        name = reading.names.get(number) or (reading.names.get(term.body) if term.body is not None else None)
        if name is None:
            return f"a result of `{term.op}`" if term.op else "another value"
        return f"`%{name}`, of `{term.op}`" if term.op else f"`%{name}`"
