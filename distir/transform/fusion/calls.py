"""Moves ops across calls, where one kernel can compute them with ops on the other side. Functions stay functions.

- Elementwise ops at the end of a layer, above all its residual sum, go to where the result is used first: into the
  caller, or on into the function that it calls next. So the next layer takes both terms and fuses their sum with its
  norm, as torch.compile does, which sees no layers.
- The sum over microbatches of a gradient goes from the caller into the function that computes the gradient, so that
  the product adds to the sum itself (`accumulation`).

A function into which ops move becomes a second function, written once, beside the one without them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from distir.analysis import Analysis, Instance
from distir.analysis.placement_states import held
from distir.ir import (
    DISCARD,
    NO_FACTS,
    UNKNOWN,
    Apply,
    Arg,
    Call,
    Dim,
    Function,
    Module,
    Param,
    Statement,
    TensorType,
    Type,
    names,
    results,
)
from distir.ir.builder import FunctionBuilder, namer
from distir.ir.calls import calls_of
from distir.ir.dataflow import definitions, maker, uses
from distir.ir.rewrite import Rewriter, facts_of, stated_with, substituted
from distir.ops import type_of
from distir.transform.entry import entry_names
from distir.transform.fusion.accumulation import Accumulation, accumulation_of, makes_a_weight_gradient
from distir.transform.fusion.groups import Grouping, placed_part
from distir.transform.fusion.kernels import name_of
from distir.transform.orphans import without_orphans

MOVABLE = frozenset({"pointwise", "view", "move"})
READING = frozenset({"pointwise", "rows", "reduction"})


def with_sums_inside(module: Module) -> Module:
    """The module in which functions add weight gradients to their sums, instead of their callers."""
    return _Sums(module).done()


def with_ends_moved(analysis: Analysis, reached: Sequence[Instance]) -> Module:
    """The module with elementwise ops at the ends of functions moved to the first use of their results.

    The same module if nothing moves. `reached`: the instances that the entry runs.
    """
    return _Ends(analysis, reached).done()


@dataclass
class _Variants:
    """The functions of a module, and their variants."""

    module: Module
    functions: dict[str, Function] = field(default_factory=dict[str, Function])
    known: dict[object, str] = field(default_factory=dict[object, str])
    """By moved ops and function: the name of the variant."""
    made: dict[str, list[str]] = field(default_factory=dict[str, "list[str]"])
    """By function: its variants."""

    def __post_init__(self) -> None:
        self.functions = dict(self.module.functions)
        self.taken = namer(self.module)

    def module_of_used(self) -> Module:
        """The module without functions that are no longer called; variants follow their originals."""
        order: list[str] = []
        waiting = list(self.module.functions)[::-1]
        while waiting:
            order.append(waiting.pop())
            waiting += reversed(self.made.get(order[-1], ()))
        return without_orphans(self.module, (self.functions[name] for name in order))

    def add(self, origin: str, hint: str, function: Function) -> str:
        """Add a variant of a function, under a free name."""
        name = self.taken.fresh(hint)
        self.functions[name] = replace(function, name=name)
        self.made.setdefault(origin, []).append(name)
        return name


@dataclass
class _Sums(_Variants):
    """Moves sums of gradients into the functions that compute their terms."""

    def done(self) -> Module:
        waiting = [name for name, function in self.functions.items() if not function.kernel]
        for name in waiting:  # grows while it is walked
            known = len(self.functions)
            self.functions[name] = self._moved(self.functions[name])
            waiting += list(self.functions)[known:]
        return self.module_of_used() if len(self.functions) > len(self.module.functions) else self.module

    def _moved(self, function: Function) -> Function:
        edit, used, made = Rewriter(function), uses(function), definitions(function)
        for index, call in edit:
            if not isinstance(call, Call) or self.functions[call.function].kernel:
                continue
            moved: dict[int, Accumulation] = {}
            for number, name in enumerate(call.results):
                found = accumulation_of(name, "", function.body, used) if name != DISCARD else None
                if found is None or made.get(found.so_far, -1) >= index:
                    continue
                if self._is_weight_gradient(call.function, number):
                    moved[number] = found
            if moved:
                edit.replace(index, self._called(call, moved, function.body))
                edit.erase(*(i for found in moved.values() for i in found.chain))
        return edit.done()

    def _is_weight_gradient(self, name: str, number: int) -> bool:
        """Whether a function computes a result by a product that can accumulate, and does not use it otherwise."""
        while True:
            function = self.functions[name]
            returned = function.returned[number]
            if function.kernel or not isinstance(returned, str):
                return False
            used, made = uses(function).get(returned, ()), maker(function, returned)
            if len(used) > 1 or function.returned.count(returned) > 1 or not isinstance(made, (Apply, Call)):
                return False
            if isinstance(made, Apply):
                return made.stream == "" and makes_a_weight_gradient(made)
            name, number = made.function, made.results.index(returned)

    def _called(self, call: Call, moved: Mapping[int, Accumulation], body: Sequence[Statement]) -> Call:
        """A call that takes sums and returns the new sums instead of terms."""
        chains = {n: [s for i in found.chain if isinstance(s := body[i], Apply)] for n, found in moved.items()}
        made, claims = list(call.results), list(call.claims)
        forms: list[object] = [call.function]
        for number, chain in chains.items():
            so_far = moved[number].so_far
            forms.append((number, tuple((s.op, s.attrs, tuple(arg == so_far for arg in s.args)) for s in chain)))
            made[number] = chain[-1].results[0]
            if claims:
                claims[number] = chain[-1].claims[0] if chain[-1].claims else None
        key = tuple(forms)
        if key not in self.known:
            terms = {n: call.results[n] for n in moved}
            self.known[key] = self._with_sums(self.functions[call.function], moved, chains, terms)
        args = (*call.args, *(found.so_far for found in moved.values()))
        stated = tuple(claims) if any(claims) else ()
        return replace(call, results=tuple(made), function=self.known[key], args=args, claims=stated)

    def _with_sums(
        self,
        function: Function,
        moved: Mapping[int, Accumulation],
        chains: Mapping[int, Sequence[Apply]],
        terms: Mapping[int, str],
    ) -> str:
        """The name of the variant that adds its results to sums. `terms`: the caller's names of these results."""
        builder, returned = namer(function), list(function.returned)
        params, behind = list(function.params), dict[str, list[Statement]]()
        for number, chain in chains.items():
            term = str(returned[number])
            so_far = builder.fresh(f"{term}_sum")
            params.append(Param(so_far, UNKNOWN))
            instead: dict[str, Arg] = {moved[number].so_far: so_far, terms[number]: term}
            behind[term] = _renamed(chain, instead, builder)
            returned[number] = instead[chain[-1].results[0]]
        made = _with(function, params, returned, behind=behind)
        return self.add(function.name, f"{function.name}_sum", made)


def _renamed(
    statements: Iterable[Statement],
    instead: dict[str, Arg],
    builder: FunctionBuilder,
    named: Mapping[str, str] | None = None,
    hints: Mapping[str, str] | None = None,
) -> list[Statement]:
    """Statements renamed for another function by `instead`, to which the names of their results are added.

    `named`: names that results must have; others are fresh, from `hints` or their old names.
    """
    written: list[Statement] = []
    for statement in statements:
        assert isinstance(statement, Apply)
        made = {
            name: (named or {}).get(name) or builder.fresh((hints or {}).get(name, name))
            for name in statement.results
            if name != DISCARD
        }
        own = tuple(made.get(name, DISCARD) for name in statement.results)
        written.append(replace(statement, results=own, args=substituted(statement.args, instead), claims=()))
        instead.update(made)
    return written


def _with(
    function: Function,
    params: Sequence[Param],
    returned: Sequence[Arg],
    *,
    first: Sequence[Statement] = (),
    behind: Mapping[str, Sequence[Statement]] | None = None,
    without: Collection[int] = (),
) -> Function:
    """A function with other parameters and results, statements inserted first or after values, and some omitted."""
    edit, made = Rewriter(function), definitions(function)
    edit.behind(-1, *first)
    for value, statements in (behind or {}).items():
        edit.behind(made[value], *statements, facts=NO_FACTS)
    edit.erase(*without)
    edit.returns(returned)
    return edit.done(params=tuple(params), result_types=None)


@dataclass(frozen=True)
class _End:
    """Elementwise statements at the end of a function whose results only the caller uses."""

    members: tuple[int, ...]
    taken: tuple[str, ...]
    given: tuple[str, ...]


@dataclass(frozen=True)
class _Moving:
    """Such an end in the caller, with the caller's names."""

    statements: Sequence[Statement]
    taken: Mapping[str, Arg]
    """Operands, by their names in the callee."""
    given: tuple[str, ...]
    hints: Mapping[str, str]
    """By the caller's name: the callee's."""


class _Ends(_Variants):
    """Moves ends of functions to the first use of their results."""

    def __init__(self, analysis: Analysis, reached: Sequence[Instance]) -> None:
        super().__init__(analysis.module)
        self.domain = analysis.domain
        self.instances = {instance.function.name: instance for instance in reached}
        self.groupings: dict[str, Grouping] = {}
        self.uses = {function.name: uses(function) for function in self.module}
        self.leaving: dict[str, set[int]] = {}
        """By function: the statements of its ends."""
        self.calls = calls_of(self.module)

    def done(self) -> Module:
        """The resulting module."""
        entries = entry_names(self.module)
        ends = {
            name: found
            for name in self.instances
            if name in self.calls and name not in entries and (found := [*self._ends(name)])
        }
        self.leaving = {name: {i for end in found for i in end.members} for name, found in ends.items()}
        useful = {name: [end for end in found if self._is_useful(name, end)] for name, found in ends.items()}
        ends = {name: found for name, found in useful.items() if found}
        if not ends:
            return self.module
        for name, found in ends.items():
            self.functions[name] = self._without(self.functions[name], found)
        for function in self.module:
            if not function.kernel:
                self.functions[function.name] = self._moved(function, ends)
        return self.module_of_used()

    def _grouping(self, name: str) -> Grouping:
        if name not in self.groupings:
            instance = self.instances[name]
            self.groupings[name] = Grouping(instance.function, self.domain, instance.state, epilogues=False)
        return self.groupings[name]

    def _ends(self, name: str) -> Iterator[_End]:
        """The elementwise kernels and single ops that may leave a function, which has no other use of their results."""
        function = self.instances[name].function
        returned = {arg for arg in function.returned if isinstance(arg, str)}
        makers = [i for i, s in enumerate(function.body) if isinstance(s, Apply) and not returned.isdisjoint(s.results)]
        used, last = self.uses[name], len(function.body) - 1
        seen = set[int]()
        for index in makers:
            statement = function.body[index]
            if index in seen or any(used.get(name, [last]) != [last] for name in results(statement)):
                continue
            part = placed_part(statement, self.domain, self.instances[name].state)
            if part is None or part[0].kind not in MOVABLE:
                continue
            grouping = self._grouping(name)
            group = grouping.owner.get(index)
            members = tuple(sorted(group.members)) if group is not None else (index,)
            seen.update(members)
            parts = [grouping.parts.get(i) for i in members]
            taken, given = grouping.outside(members)
            kinds = {None if part is None else part[0].kind for part in parts}
            ends = all(used.get(n) == [last] for n in given) and returned.issuperset(given)
            ends = ends and all(function.returned.count(n) == 1 for n in given)
            if kinds <= MOVABLE and "pointwise" in kinds and ends and not function.kernel:
                yield _End(members, tuple(taken), tuple(given))

    def _is_useful(self, name: str, end: _End) -> bool:
        """Whether for most callers one kernel would compute the end together with the first use of its results.

        Of a caller that calls it several times, most calls count: with all replicas there are as many times more.
        """
        votes = Counter[str]()
        for caller, index, _ in self.calls[name]:
            found = self._is_read_there(name, end, caller, index)
            votes[caller.name] += 0 if found is None else 1 if found else -1
        return sum((votes[caller] > 0) - (votes[caller] < 0) for caller in votes) > 0

    def _is_read_there(self, name: str, end: _End, caller: Function, index: int) -> bool | None:
        """The same for one call; None if nothing uses the results."""
        call, function = caller.body[index], self.module.functions[name]
        found: bool | None = None
        for value in end.given:
            made = results(call)[function.returned.index(value)]
            users = self.uses[caller.name].get(made, ()) if made != DISCARD else ()
            if users:
                found = bool(found) or self._reads(caller.name, users[0], made, self._size(name, value))
        return found

    def _size(self, name: str, value: str) -> Dim:
        found = held(type_of(self.instances[name].state[value]), self.domain.meshes)
        return found.elements if isinstance(found, TensorType) else None

    def _reads(self, name: str, index: int, value: str, size: Dim) -> bool:
        """Whether a statement, or the callee of a call, reads a value in a loop over that many elements."""
        instance = self.instances.get(name)
        if instance is None or size is None:
            return False
        statement = instance.function.body[index]
        if isinstance(statement, Call):
            callee = self.module.functions[statement.function]
            if callee.kernel or statement.args.count(value) != 1 or list(names(statement.args)).count(value) != 1:
                return False
            inside = callee.params[statement.args.index(value)].name
            reading = set(self.uses[callee.name].get(inside, ())) - self.leaving.get(callee.name, set())
            return any(isinstance(callee.body[i], Apply) and self._reads(callee.name, i, inside, size) for i in reading)
        found = placed_part(statement, self.domain, instance.state)
        return found is not None and found[0].kind in READING and found[0].elements == size

    def _without(self, function: Function, ends: Sequence[_End]) -> Function:
        """The variant that returns the operands of its ends instead of their results."""
        left, gone = {i for end in ends for i in end.members}, {name for end in ends for name in end.given}
        returned = [*(arg for arg in function.returned if arg not in gone), *_more_returned(function, ends)]
        return _with(function, function.params, returned, without=left)

    def _opened(self, call: Call, ends: Sequence[_End], builder: FunctionBuilder) -> tuple[Call, list[_Moving]]:
        """The call of a function without its ends, and the ends in its caller."""
        function = self.module.functions[call.function]
        gone = {name for end in ends for name in end.given}
        instead: dict[str, Arg] = {p.name: arg for p, arg in zip(function.params, call.args, strict=True)}
        wanted = {name for end in ends for name in end.taken}
        made: list[str] = []
        claims: list[Type | None] = []
        stated = call.claims or (None,) * len(call.results)
        for arg, name, claim in zip(function.returned, call.results, stated, strict=True):
            if arg in gone:
                continue
            if name == DISCARD and isinstance(arg, str) and arg in wanted and arg not in instead:
                name = builder.fresh(arg)
            if isinstance(arg, str) and name != DISCARD:
                instead.setdefault(arg, name)
            made.append(name)
            claims.append(claim)
        for name in _more_returned(function, ends):
            instead[name] = builder.fresh(name)
            made.append(str(instead[name]))
            claims.append(None)
        moving: list[_Moving] = []
        given = {arg: name for arg, name in zip(function.returned, call.results, strict=True) if arg in gone}
        for end in ends:
            if any(given[name] != DISCARD for name in end.given):
                statements = [s for i in end.members if isinstance(s := function.body[i], Apply)]
                named = {name: given[name] for name in end.given if given[name] != DISCARD}
                around = function.facts.within(call.facts)
                moved = _renamed(statements, instead, builder, named)
                written = [stated_with(s, facts_of(s).within(around)) for s in moved]
                taken = {name: instead[name] for name in end.taken}
                hints = {new: old for old, new in instead.items() if isinstance(new, str)}
                moving.append(_Moving(written, taken, tuple(named.values()), hints))
        kept = tuple(claims) if any(claims) else ()
        return replace(call, results=tuple(made), claims=kept), moving

    def _moved(self, function: Function, ends: Mapping[str, Sequence[_End]]) -> Function:
        """A function with the ends of its callees moved into itself, or into the callees that it calls next."""
        if not any(isinstance(s, Call) and s.function in ends for s in function.body):
            return self.functions[function.name]
        edit, used = Rewriter(function), self.uses[function.name]
        waiting: dict[int, list[_Moving]] = {}
        edit.erase(*(i for end in ends.get(function.name, ()) for i in end.members))
        for index, statement in edit:
            if isinstance(statement, Call):
                moving: list[_Moving] = []
                if statement.function in ends:
                    statement, moving = self._opened(statement, ends[statement.function], edit.builder)
                if index in waiting:
                    needed = {arg for m in moving for arg in m.taken.values() if isinstance(arg, str)}
                    needed |= {name for m in waiting[index] for name in m.given if used[name] != [index]}
                    statement = self._taking(statement, waiting[index], needed)
                edit.replace(index, statement)
                for m in moving:
                    goal = min(i for name in m.given for i in used[name])
                    if self._goes_into(function, goal, m):
                        waiting.setdefault(goal, []).append(m)
                    else:
                        edit.behind(index, *m.statements, facts=NO_FACTS)
        edit.returns(self.functions[function.name].returned)
        return edit.done()

    def _goes_into(self, caller: Function, goal: int, moving: _Moving) -> bool:
        statement = caller.body[goal]
        if not isinstance(statement, Call) or caller.name not in self.instances:
            return False
        read = [name for name in moving.given if name in names(statement.args)]
        direct = all(statement.args.count(name) == 1 == list(names(statement.args)).count(name) for name in read)
        return direct and any(self._reads(caller.name, goal, name, self._size(caller.name, name)) for name in read)

    def _taking(self, call: Call, moving: Sequence[_Moving], needed: Collection[str]) -> Call:
        """The call of a variant that begins with the moved ends. `needed`: their results that others use."""
        function = self.functions[call.function]
        builder = namer(function)
        params, args = list(function.params), list(call.args)
        instead: dict[str, Arg] = {}
        first: list[Statement] = []
        made, returned = list(call.results), list(function.returned)
        for m in moving:
            named: dict[str, str] = {}
            for hint, arg in m.taken.items():
                if isinstance(arg, str) and arg not in instead:
                    instead[arg] = builder.fresh(hint)
                    params.append(Param(str(instead[arg]), UNKNOWN))
                    args.append(arg)
            for name in m.given:
                if name in args:
                    at = args.index(name)
                    named[name] = params[at].name
                    del params[at], args[at]
            moved = _renamed(m.statements, instead, builder, named, m.hints)
            first += [stated_with(s, NO_FACTS) for s in moved]  # those of the call: for equal layers it is one function
            for name in m.given:
                if name in needed:
                    made.append(name)
                    returned.append(instead[name])
        whole = _with(function, params, returned, first=first)
        key = (call.function, whole)
        if key not in self.known:
            added = name_of([s for m in moving for s in m.statements]).removeprefix("fused")
            self.known[key] = self.add(call.function, f"{call.function}{added}", whole)
        claims = (*call.claims, *(None,) * (len(made) - len(call.results))) if call.claims else ()
        return replace(call, results=tuple(made), function=self.known[key], args=tuple(args), claims=claims)


def _more_returned(function: Function, ends: Sequence[_End]) -> list[str]:
    """The values that a function without its ends returns in addition."""
    known = {*(p.name for p in function.params), *(arg for arg in function.returned if isinstance(arg, str))}
    return [name for name in dict.fromkeys(n for end in ends for n in end.taken) if name not in known]
