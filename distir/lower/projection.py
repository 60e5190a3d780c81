"""Projection: from one program over all devices to one program per device (paper, section 3.2).

A rank's program holds the statements with operands or results on its device, in program order. A communication op is
kept unchanged: its operands and results name all members of the group, in their order. An operand that another rank
holds becomes a parameter with the role `{remote}`, which states its type and has no value on this rank. Results that
the rank neither holds nor uses are `_`. So the program of a rank is an ordinary program: it can be parsed
and checked, and its statements communicate in the order of the rank.

Functions are projected to functions: one that runs on the rank's device alone is unchanged, another one is projected
once per placement of its arguments. Host values are computed by every rank that needs them.

Does not depend on torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from distir.analysis import Analysis, Checker, Instance, refuse_mesh
from distir.analysis.parameters import parameters
from distir.analysis.reached import callee
from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import lowering as codes
from distir.ir import (
    DISCARD,
    HOST,
    AnyType,
    Apply,
    Arg,
    Attributes,
    Broken,
    Call,
    Function,
    Module,
    Param,
    Return,
    Site,
    TensorType,
    Type,
    names,
    operands,
    results,
    types,
)
from distir.ir.calls import reachable
from distir.ir.deep import Deep, finish
from distir.ir.rewrite import with_sizes
from distir.ops import Value, type_of

REMOTE = Attributes({"remote": True})
"""The role of parameters for values that other ranks hold."""


HOST_ONLY = 1
"""The rank of a program that computes host values only, and so runs on no device."""


def project(analysis: Analysis, entry: Instance) -> dict[int, Module]:
    """The program of each rank, by device: the entry function and its callees, with their names.

    A program of host values only has one rank, 1. Raises ProgramError where the device of a statement is unknown.
    """
    refuse_mesh(analysis.module)
    activity = Activity(analysis.domain)
    devices = sorted(activity.of(entry))
    home = devices[0] if devices else HOST_ONLY
    return {device: _Rank(analysis.domain, activity, device, home).program(entry) for device in devices or [home]}


@dataclass
class Activity:
    """The devices that the bodies of instances run on."""

    domain: Checker
    known: dict[int, frozenset[int]] = field(default_factory=dict[int, frozenset[int]])
    instances: list[Instance] = field(default_factory=list[Instance])

    def of(self, instance: Instance) -> frozenset[int]:
        """The devices of all values of the instance, callees included. Raises ProgramError for an unknown device."""
        return finish(self._found(instance))

    def _found(self, instance: Instance) -> Deep[frozenset[int]]:
        found = self.known.get(id(instance))
        if found is None:
            found = devices_of(instance.args)
            for index, statement in enumerate(instance.function.body):
                if isinstance(statement, Call):
                    found |= yield self._found(callee(self.domain, instance, statement))
                else:
                    found |= self._statement(instance, index, statement)
            self.known[id(instance)] = found
            self.instances.append(instance)  # an `id` is unique only while its object lives
        return found

    def _statement(self, instance: Instance, index: int, statement: object) -> frozenset[int]:
        if not isinstance(statement, Apply):
            return frozenset()
        made = _result_types(self.domain, instance, statement)
        for leaf in (leaf for w in made for leaf in types.leaves(w)):
            if leaf.device is None:
                message = f"the device that `{statement.op}` runs on is unknown"
                hint = "state the device in the types of the entry function's parameters"
                raise ProgramError([Diagnostic(codes.UNPLACED, Site(instance.function.name, index), message, (), hint)])
        return devices_of(instance.state(statement.args)) | devices_of(made)


def held_results(instance: Instance, device: int) -> list[int]:
    """The indices of a function's results that a rank returns: those on its device, and host values."""
    where = [devices_of([w]) for w in instance.state.returned]
    return [i for i, found in enumerate(where) if device in found or not found]


def devices_of(vs: Iterable[Value]) -> frozenset[int]:
    """The devices that values live on."""
    return frozenset[int]().union(*(types.devices(type_of(v)) for v in vs if v is not None))


def _result_types(domain: Checker, instance: Instance, statement: Apply) -> list[Type]:
    """The types of an op's results, discarded ones included."""
    named = [type_of(instance.state[name]) for name in statement.results if name != DISCARD]
    if len(named) == len(statement.results):
        return named
    return [*named, *map(type_of, domain.answer(statement, instance.state(statement.args)))]


@dataclass(frozen=True, slots=True)
class _Projected:
    """The projection of a function. `params`, `results`: indices of the original's parameters and results that it has.

    `added`: names and types of further parameters, for values that other ranks compute inside the function.
    """

    function: Function
    params: tuple[int, ...]
    results: tuple[int, ...]
    added: tuple[tuple[str, Type], ...] = ()


@dataclass
class _Rank:
    """Projects functions onto one device. `home`: the device that also runs statements without a device."""

    domain: Checker
    activity: Activity
    device: int
    home: int
    done: dict[object, _Projected] = field(default_factory=dict[object, _Projected])
    taken: set[str] = field(default_factory=set[str])
    """The names of projections."""

    def program(self, entry: Instance) -> Module:
        main = finish(self._projected(entry, entry.function.name, is_entry=True))
        found = {p.function.name: p.function for p in self.done.values()}
        return Module([*_unprojected(self.domain.module, found), *found.values(), main.function])

    def of(self, instance: Instance) -> Deep[_Projected]:
        """The projection of a callee."""
        key = (instance.function.name, instance.args)
        if key not in self.done:
            function = instance.function
            if self.activity.of(instance) <= {self.device}:
                everything = tuple(range(len(function.params))), tuple(range(len(function.returned)))
                self.done[key] = _Projected(function, *everything)
            else:
                self.done[key] = yield self._projected(instance, self._fresh(function.name), is_entry=False)
        return self.done[key]

    def _fresh(self, name: str) -> str:
        """An unused name for a projection."""
        stem = candidate = f"{name}.rank{self.device}"
        number = 0
        while candidate in self.taken or candidate in self.domain.module.functions:
            number += 1
            candidate = f"{stem}.{number}"
        self.taken.add(candidate)
        return candidate

    def _here(self, v: Value) -> bool:
        return v is not None and self.device in types.devices(type_of(v))

    def _projected(self, instance: Instance, name: str, is_entry: bool) -> Deep[_Projected]:
        function = instance.function
        returned = held_results(instance, self.device)
        own, needed = yield from self._taking_part(instance, [function.returned[i] for i in returned])
        params = tuple(
            i
            for i, (param, v) in enumerate(zip(function.params, instance.args, strict=True))
            if self._here(v) or param.name in needed or (not devices_of([v]) and self.device == self.home)
        )
        writer = _BodyBuilder(self, instance, needed)
        heads = [self._param(function.params[i], instance.args[i]) for i in params]
        writer.define(p.name for p in heads)
        for index in own:
            yield from writer.add(function.body[index])
        yield from writer.add(Return(tuple(function.returned[i] for i in returned)))
        stated = None if function.result_types is None else tuple(function.result_types[i] for i in returned)
        added = tuple(Param(n, t if is_entry else AnyType(_one_device(t)), REMOTE) for n, t in writer.added)
        whole = Function(name, (*heads, *added), tuple(writer.body), stated, function.kernel)
        if is_entry:  # the types of remote parameters have the bound sizes, so all other types need them too
            whole = with_sizes(whole, parameters(function, instance.args)[1])
        return _Projected(whole, params, tuple(returned), tuple(writer.added))

    def _param(self, param: Param, v: Value) -> Param:
        remote = bool(devices_of([v])) and not self._here(v)
        return Param(param.name, param.type, Attributes({**param.roles, **REMOTE})) if remote else param

    def _taking_part(self, instance: Instance, returned: Sequence[Arg]) -> Deep[tuple[list[int], set[str]]]:
        """The indices of the statements that this rank takes part in, and the names that they use."""
        needed = set(names(returned))
        own: list[int] = []
        body = instance.function.body
        for index in range(len(body) - 1, -1, -1):
            statement = body[index]
            if isinstance(statement, (Return, Broken)) or not self._takes_part(instance, statement, needed):
                continue
            own.append(index)
            args = statement.args
            if isinstance(statement, Call):
                projected = yield self.of(callee(self.domain, instance, statement))
                args = tuple(args[i] for i in projected.params)
            needed.update(names(args))
        return own[::-1], needed

    def _takes_part(self, instance: Instance, statement: Apply | Call, needed: set[str]) -> bool:
        rho = instance.state
        if isinstance(statement, Call):
            active = self.activity.of(callee(self.domain, instance, statement))
            if self.device in active:
                return True
        else:
            made = devices_of(_result_types(self.domain, instance, statement))
            active = made | devices_of(rho(statement.args))
            if self.device in active:
                return True
        host = {name for name in statement.results if name != DISCARD and not devices_of([rho[name]])}
        return bool(host & needed) or (not active and self.device == self.home)


class _BodyBuilder:
    """Builds the body of one function of a rank."""

    def __init__(self, rank: _Rank, instance: Instance, needed: set[str]) -> None:
        self.rank, self.instance, self.needed = rank, instance, needed
        self.body: list[Apply | Call | Return] = []
        self.added: list[tuple[str, Type]] = []
        """Names and types of values that other ranks hold."""
        self._defined: set[str] = {DISCARD}
        function = instance.function
        self._taken = {p.name for p in function.params} | {n for s in function.body for n in results(s)}
        self._passed: dict[tuple[str, str], str] = {}

    def define(self, found: Iterable[str]) -> None:
        self._defined.update(found)

    def add(self, statement: object) -> Deep[None]:
        """Append the projection of a statement."""
        if isinstance(statement, Call):
            statement = yield from self._call(statement)
        elif isinstance(statement, Apply):
            renamed = tuple(map(self._result, statement.results))
            statement = replace(statement, results=renamed)
        assert isinstance(statement, (Apply, Call, Return))
        for name in names(operands(statement)):
            if name not in self._defined:
                self._add_remote(name, type_of(self.instance.state[name]))
        self.define(results(statement))
        self.body.append(statement)

    def _call(self, call: Call) -> Deep[Call]:
        rank, inner = self.rank, callee(self.rank.domain, self.instance, call)
        found: _Projected = yield rank.of(inner)
        args: list[Arg] = [call.args[i] for i in found.params]
        args += [self._remote_param(found, name, stated) for name, stated in found.added]
        claims = tuple(call.claims[i] for i in found.results) if call.claims else ()
        own = tuple(self._result(call.results[i]) for i in found.results)
        return Call(own, found.function.name, tuple(args), claims, call.stream)

    def _remote_param(self, found: _Projected, name: str, type: Type) -> str:
        """The parameter of this function for a value that another rank computes in a callee; shared by all calls."""
        key = (found.function.name, name)
        if key not in self._passed:
            stem = fresh = f"{found.function.name}.{name}"
            number = 0
            while fresh in self._taken:
                number += 1
                fresh = f"{stem}.{number}"
            self._taken.add(fresh)
            self._passed[key] = fresh
            self._add_remote(fresh, type)
        return self._passed[key]

    def _add_remote(self, name: str, type: Type) -> None:
        self.added.append((name, type))
        self._defined.add(name)

    def _result(self, name: str) -> str:
        """The name of a result, or `_` if another rank holds it and this one does not use it."""
        if name == DISCARD or name in self.needed:
            return name
        v = self.instance.state[name]
        return name if self.rank._here(v) or not devices_of([v]) else DISCARD  # pyright: ignore[reportPrivateUsage]


def _one_device(type: Type) -> int | None:
    """The single device of a value; None for host values and for several devices."""
    device = types.device_of(type)
    return None if device == HOST else device


def _unprojected(module: Module, found: Mapping[str, Function]) -> list[Function]:
    """The functions that the projected ones in `found` call without a projection of their own."""
    others = {name: function for name, function in module.functions.items() if name not in found}
    called = {*reachable(others, found.values())}
    return [function for name, function in others.items() if name in called]


def is_remote(param: Param) -> bool:
    """Whether a parameter is a value that another rank holds."""
    return "remote" in param.roles


def concrete(type: Type) -> bool:
    """Whether all element types and sizes are known."""
    return all(
        isinstance(leaf, TensorType)
        and leaf.dtype is not None
        and leaf.shape is not None
        and all(isinstance(dim, int) for dim in leaf.shape)
        for leaf in types.leaves(type)
    )
