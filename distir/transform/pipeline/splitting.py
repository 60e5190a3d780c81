"""Splits a backward pass: into input gradients, for which the previous stage waits, and weight gradients.

A statement is in the first part if an awaited value depends on it, else in the second. A call with results of both
kinds becomes two calls, of two halves of its callee. Values of the first part that the second uses are passed on, not
recomputed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from distir.analysis import Checker, State, check
from distir.analysis.provenance import with_parameters_named
from distir.ir import DISCARD, HOST, UNKNOWN, Apply, Arg, Call, Function, Module, Param, Return, Type, names, types
from distir.ops import OPS, Value, type_of
from distir.transform.pipeline.microbatches import Held, Share, is_sum
from distir.transform.pipeline.outlining import live, renamed
from distir.transform.pipeline.passes import Pass
from distir.transform.pipeline.placement import Place
from distir.transform.pipeline.reading import Phase, Reading, Work


@dataclass(frozen=True)
class Halves:
    """A function in two halves. `first` returns the results `waited`, then the values `handed` to `second`.

    `second` takes the operands of the function numbered in `operands`, then `handed`, and returns the results `left`.
    """

    first: Function
    second: Function
    operands: tuple[int, ...]
    handed: tuple[str, ...]


@dataclass
class Splitter:
    """Splits functions of one module, each once for the same results."""

    functions: dict[str, Function]
    """The functions of the module, and the halves."""
    checker: Checker
    known: dict[tuple[str, tuple[int, ...], tuple[int, ...]], Halves] = field(
        default_factory=dict[tuple[str, tuple[int, ...], tuple[int, ...]], Halves]
    )

    def split(self, body: Sequence[Work], waited: Collection[str], taken: set[str]) -> tuple[list[Work], list[Work]]:
        """The statements on which the awaited values depend, and the others. New names are added to `taken`."""
        needed = set(waited)
        first: list[Work] = []
        second: list[Work] = []
        for statement in reversed(body):
            wanted = [r for r in statement.results if r in needed]
            other = [r for r in statement.results if r not in needed and r != DISCARD]
            if not wanted:
                second.append(statement)
                continue
            if other and isinstance(statement, Call):
                one, two = self._call(statement, needed, taken)
                second.append(two)
                statement = one
            first.append(statement)
            needed.update(names(statement.args))
        return first[::-1], second[::-1]

    def _call(self, call: Call, needed: Collection[str], taken: set[str]) -> tuple[Call, Call]:
        """A call with results of both kinds as two calls."""
        waited = tuple(i for i, r in enumerate(call.results) if r in needed)
        left = tuple(i for i, r in enumerate(call.results) if r not in needed and r != DISCARD)
        halves = self._halves(call.function, waited, left)
        handed: list[str] = []
        for name in halves.handed:
            fresh = f"{name}_{call.results[waited[0]]}"
            while fresh in taken:
                fresh += "_"
            taken.add(fresh)
            handed.append(fresh)
        args = tuple(call.args[i] for i in halves.operands)
        results = (*(call.results[i] for i in waited), *handed)
        one = replace(call, results=results, function=halves.first.name, claims=())
        later = tuple(call.results[i] for i in left)
        other = replace(call, results=later, function=halves.second.name, args=(*args, *handed), claims=())
        return one, other

    def _half(
        self, whole: Function, role: str, params: tuple[Param, ...], body: tuple[Apply | Call | Return, ...]
    ) -> Function:
        """One half; the halves of a kernel are kernels."""
        name = self._fresh(f"{whole.name}_{role}")
        half = replace(whole, name=name, params=params, body=body, result_types=None)
        return with_parameters_named(half, {p.name: "" for p in whole.params})

    def _halves(self, name: str, waited: tuple[int, ...], left: tuple[int, ...]) -> Halves:
        key = (name, waited, left)
        if key not in self.known:
            self.known[key] = self._cut(self.functions[name], waited, left)
        return self.known[key]

    def _cut(self, function: Function, waited: tuple[int, ...], left: tuple[int, ...]) -> Halves:
        body = [s for s in function.body if isinstance(s, (Apply, Call))]
        wanted: list[Arg] = [function.returned[i] for i in waited]
        rest: list[Arg] = [function.returned[i] for i in left]
        inside = {p.name for p in function.params} | {r for s in body for r in s.results}
        first, second = self.split(body, set(names(wanted)), inside)
        second, _ = live(second, names(rest))
        found = self._types(function)
        second = self._repeated(first, second, rest, found)
        made = {r for s in second for r in s.results} | {p.name for p in function.params}
        missing = [n for s in second for n in names(s.args)] + list(names(rest))
        handed = tuple(dict.fromkeys(n for n in missing if n not in made))
        first, needed = live(first, [*names(wanted), *handed])
        used = {n for s in second for n in names(s.args)} | set(names(rest))
        operands = tuple(i for i, p in enumerate(function.params) if p.name in used)
        whole = [renamed(s, lambda n: n if n in needed else DISCARD) for s in first]
        _, later = live(second, names(rest))
        trimmed = [renamed(s, lambda n: n if n in later else DISCARD) for s in second]
        params = (*(function.params[i] for i in operands), *(Param(n, found.get(n, UNKNOWN)) for n in handed))
        halves = Halves(
            self._half(function, "input", function.params, (*whole, Return((*wanted, *handed)))),
            self._half(function, "weight", params, (*trimmed, Return(tuple(rest)))),
            operands,
            handed,
        )
        self.functions[halves.first.name] = halves.first
        self.functions[halves.second.name] = halves.second
        return halves

    def _types(self, function: Function) -> Mapping[str, Type]:
        """The types of a function's values, with unknown devices."""
        args: tuple[Value, ...] = tuple(p.type for p in function.params)
        state = self.checker.instance(function.name, args).state
        return {n: type_of(v) for n, v in state.items() if n != DISCARD and v is not None}

    def _repeated(
        self, first: Sequence[Work], second: list[Work], rest: Sequence[Arg], found: Mapping[str, Type]
    ) -> list[Work]:
        """The second part with free statements of the first repeated instead of their results being passed on."""
        needed = {n for s in second for n in names(s.args)} | set(names(rest))
        again: list[Work] = []
        for statement in reversed(first):
            free = isinstance(statement, Apply) and (
                (statement.op in OPS and OPS[statement.op].view)
                or all(types.device_of(found.get(r, UNKNOWN)) == HOST for r in statement.results)
            )
            if free and needed.intersection(statement.results):
                again.append(statement)
                needed.update(names(statement.args))
        return [*reversed(again), *second]

    def _fresh(self, name: str) -> str:
        while name in self.functions:
            name += "_"
        return name


def split_backward(
    reading: Reading, bodies: Mapping[Place, list[Work]]
) -> tuple[dict[Place, list[Work]], dict[str, Function]]:
    """The passes with each backward pass split, and all functions.

    Awaited are operands of another stage's backward pass, and values returned per microbatch.
    """
    splitter = Splitter(dict(reading.module.functions), reading.checker)
    outside = used_outside(reading, bodies)
    taken = set(reading.values)
    found = dict(bodies)
    for (stage, kind), body in bodies.items():
        if kind is Pass.BACKWARD:
            waited = {n for n in outside[stage, kind] if not is_sum(reading.values[n].shares)}
            first, second = splitter.split(body, waited, taken)
            found[stage, Pass.BACKWARD], found[stage, Pass.WEIGHT] = first, second
    _add_types(reading, splitter.functions, [s for where in bodies for s in found[where]])
    return found, splitter.functions


def _add_types(reading: Reading, functions: Mapping[str, Function], statements: Iterable[Work]) -> None:
    """Add the values passed from one half to the other to the reading."""
    domain = check(Module(functions.values())).domain
    rho = State((), (), domain)
    rho.update((name, reading.part(name)) for name in reading.values)
    for statement in statements:
        if isinstance(statement, Call) and statement.function not in reading.module.functions:
            given = domain.instance(statement.function, rho(statement.args)).state.returned
            rho.update(zip(statement.results, given, strict=True))
            for name, value in zip(statement.results, given, strict=True):
                reading.values.setdefault(name, Held(value, value, Share(0)))


def used_outside(reading: Reading, bodies: Mapping[Place, Sequence[Work]]) -> dict[Place, set[str]]:
    """By stage and pass: its values that are used elsewhere."""
    after = [s for s, phase in reading.statements if phase is Phase.AFTER]
    wanted = set(names(reading.entry.returned)) | {n for s in after for n in names(s.args)}
    wanted -= {n for s in after for n in s.results}
    wanted |= set(reading.joint)
    own = {where: {n for s in body for n in s.results} for where, body in bodies.items()}
    for where, body in bodies.items():
        wanted |= {n for s in body for n in names(s.args)} - own[where]
    return {where: own[where] & wanted for where in bodies}
