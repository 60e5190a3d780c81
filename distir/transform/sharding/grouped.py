"""Dispatches tokens in groups of consecutive ones, so that devices with parts of a sequence each dispatch their own.

`Dispatch` sorts the tokens of a group by themselves, and without a capacity the groups change no result. With as many
groups of a sequence as it has parts, a split of the sequence is one of the groups: Megatron's dispatchers sort the
tokens that a rank has, too.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache, partial

from distir.analysis import Analysis, Instance
from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.ir import (
    DISCARD,
    Apply,
    Arg,
    Attributes,
    Call,
    Function,
    Literal,
    Module,
    Shape,
    Site,
    TensorType,
    TupleType,
    Type,
    ops_in,
    results,
)
from distir.ir.builder import FunctionBuilder, namer
from distir.ops import type_of
from distir.transform.checking import checked
from distir.transform.entry import entry_of
from distir.transform.instances import first_instances
from distir.transform.sharding.owned import RAGGED, retyped


def with_groups(module: Module, count: int) -> Module:
    """The program with the tokens of each group of `Dispatch` in so many groups.

    Raises ProgramError where tokens beyond a capacity are dropped, as other ones would be then, and where the tokens of
    a group do not divide.
    """
    return module if count == 1 else _with_groups(module, count)


@lru_cache(maxsize=16)  # cached for searches
def _with_groups(module: Module, count: int) -> Module:
    analysis, entry = checked(module), entry_of(module)
    firsts = {i.function.name: [i] for i in first_instances(analysis, entry)}
    changed = module.replacing(*(_Grouped(instance, count).function() for (instance,) in firsts.values()))
    made = retyped(module, changed, entry, firsts, _opened, partial(_in_type, count))
    _check_groups(analysis, checked(made), entry, count)
    return made


@dataclass
class _Grouped:
    """One function, with groups around what depends on the order of tokens."""

    instance: Instance
    count: int
    done: dict[Arg, str] = field(default_factory=dict[Arg, str])
    """By value in token order: the same in groups."""
    sums: dict[Arg, str] = field(default_factory=dict[Arg, str])
    """By numbers of choices of each expert: those of all groups together."""

    def function(self) -> Function:
        function = self.instance.function
        f = namer(function)
        for index, statement in enumerate(function.body):
            if isinstance(statement, Apply):
                self.statement(f, index, statement)
            elif isinstance(statement, Call):
                f.body.append(statement)
        return function if not self.done else replace(function, body=(*f.body, function.body[-1]))

    def statement(self, f: FunctionBuilder, index: int, statement: Apply) -> None:
        args = [self.sums.get(arg, arg) if statement.op not in RAGGED else arg for arg in statement.args]
        match statement.op:
            case "Dispatch" if statement.results[0] != DISCARD:
                if statement.attrs.get("capacity") is not None:
                    hint = "with `cp_experts=true` devices that share a sequence gather its tokens for them"
                    message = "experts with a capacity drop tokens of whole sequences, not those of parts"
                    site = Site(self.instance.function.name, index)
                    raise ProgramError([Diagnostic(codes.BAD_SPLIT, site, message, (), hint)])
                args[0] = self.grouped(f, index, args[0])
                self.append(f, statement, args)
                if statement.results[1] != DISCARD:
                    self.counted(f, statement.results[1])
            case "Permute":
                args[0] = self.grouped(f, index, args[0])
                if args[2:3] not in ([], [DISCARD]):
                    args[2] = self.grouped(f, index, args[2])
                args[3:] = map(self.rows, args[3:])
                self.append(f, statement, args)
            case "Unpermute" | "UnpermuteGrad":
                for place in (2,) if statement.op == "Unpermute" else (0, 3):
                    if args[place : place + 1] not in ([], [DISCARD]):
                        args[place] = self.grouped(f, index, args[place])
                (name,) = statement.results
                made = f.fresh(f"{name}_groups")
                self.append(f, replace(statement, results=(made,)), args)
                shape = self.shape(index, name)
                sizes = (*(0,) * (len(shape) - 2), *shape[-2:])
                f.body.append(Apply((name,), "Reshape", (made, Literal(sizes))))
            case "RaggedExpand":
                self.append(f, statement, [*args[:2], *map(self.rows, args[2:])])
            case _:
                own = replace(statement, args=tuple(args)) if [*statement.args] != args else statement
                f.body.append(self.from_the_end(own))

    def append(self, f: FunctionBuilder, statement: Apply, args: list[Arg]) -> None:
        f.body.append(replace(statement, args=tuple(args), claims=()))

    def refused(self, index: int, message: str, hint: str | None = None) -> ProgramError:
        return ProgramError([Diagnostic(codes.BAD_SPLIT, Site(self.instance.function.name, index), message, (), hint)])

    def from_the_end(self, statement: Apply) -> Apply:
        """The statement with the last dimension of its operand named from the end, where groups add none."""
        first = statement.args[0] if statement.args else ()
        found = type_of(self.instance.state[first]) if isinstance(first, str) else None
        rank = len(found.shape) if isinstance(found, TensorType) and found.shape is not None else 0
        if rank and statement.attrs.get("axis") == rank - 1:
            return replace(statement, attrs=Attributes({**statement.attrs, "axis": -1}))
        axes = statement.args[3] if statement.op == "Slice" and len(statement.args) > 3 else None
        if rank and isinstance(axes, Literal) and axes.value == (rank - 1,):
            return replace(statement, args=(*statement.args[:3], Literal((-1,)), *statement.args[4:]))
        return statement

    def rows(self, arg: Arg) -> Arg:
        return Literal(arg.value // self.count) if isinstance(arg, Literal) and isinstance(arg.value, int) else arg

    def counted(self, f: FunctionBuilder, counts: str) -> None:
        """What is not of rows gets the choices of all groups."""
        if any(counts in s.args and s.op not in RAGGED for s in ops_in(self.instance.function)):
            (self.sums[counts],) = f.apply("ReduceSum", counts, (-2,), results=(f"{counts}_sum",), keepdims=False)

    def grouped(self, f: FunctionBuilder, index: int, arg: Arg) -> str:
        if arg not in self.done:
            shape = self.shape(index, arg)
            if shape[-2] % self.count:
                raise self.refused(index, f"{shape[-2]} tokens do not divide into {self.count} parts of equally many")
            sizes = (*(0,) * (len(shape) - 2), self.count, shape[-2] // self.count, shape[-1])
            hint = arg if isinstance(arg, str) else "tokens"
            self.done[arg] = f.apply("Reshape", arg, Literal(sizes), results=(f"{hint}_in_groups",))[0]
        return self.done[arg]

    def shape(self, index: int, arg: Arg) -> tuple[int, ...]:
        """The shape of a value, of which the last two are known. Raises ProgramError for others."""
        found = type_of(self.instance.state[arg]) if isinstance(arg, str) else None
        shape = found.shape if isinstance(found, TensorType) else None
        if shape is None or len(shape) < 2 or not all(isinstance(dim, int) for dim in shape[-2:]):
            raise self.refused(index, f"the tokens of a group must be known to dispatch parts of them, found `{found}`")
        return tuple(dim if isinstance(dim, int) else 0 for dim in shape)


def _opened(type: Type) -> Type:
    """The type with an unknown shape."""
    if isinstance(type, TupleType):
        return TupleType(tuple(map(_opened, type.items)))
    return replace(type, shape=None) if isinstance(type, TensorType) else type


def _in_type(count: int, stated: Type, before: Type, after: Type) -> Type:
    """The type of a parameter in groups, where its arguments are."""
    if isinstance(stated, TupleType) and isinstance(before, TupleType) and isinstance(after, TupleType):
        return TupleType(tuple(map(partial(_in_type, count), stated.items, before.items, after.items)))
    if before == after or not isinstance(stated, TensorType) or not isinstance(before, TensorType):
        return stated
    for outer, shape in _in_groups(before, count):
        if isinstance(after, TensorType) and after.shape == shape:
            return replace(stated, shape=(*(stated.shape or ())[:outer], *shape[outer:]))
    return stated


def _check_groups(before: Analysis, after: Analysis, entry: Function, count: int) -> None:
    """Raise ProgramError for a value that is neither as it was nor in groups."""
    now = {i.function.name: i.state for i in first_instances(after, entry_of(after.module))}
    for instance in first_instances(before, entry):
        name = instance.function.name
        for index, statement in enumerate(instance.function.body):
            for result in results(statement):
                old, new = type_of(instance.state[result]), type_of(now[name][result])
                if result != DISCARD and not _is_grouped(old, new, count):
                    message = f"`%{result}` depends on all tokens of a group, which cannot be dispatched in parts"
                    raise ProgramError([Diagnostic(codes.BAD_SPLIT, Site(name, index), message)])


def _is_grouped(old: Type, new: Type, count: int) -> bool:
    if isinstance(old, TupleType) and isinstance(new, TupleType):
        return all(map(partial(_is_grouped, count=count), old.items, new.items))
    if old == new or not isinstance(old, TensorType) or not isinstance(new, TensorType):
        return old == new
    return any(new.shape == shape for _, shape in _in_groups(old, count))


def _in_groups(type: TensorType, count: int) -> list[tuple[int, Shape]]:
    """The shapes that a value may have in groups, each with the number of dimensions before that of the groups.

    They are that of rows of tokens, and that of how many choices each expert has.
    """
    if not type.shape:
        return []
    *outer, last = type.shape
    found: list[tuple[int, Shape]] = [(len(outer), (*outer, count, last))]
    if outer and isinstance(rows := outer[-1], int):
        found.insert(0, (len(outer) - 1, (*outer[:-1], count, rows // count, last)))
    return found
