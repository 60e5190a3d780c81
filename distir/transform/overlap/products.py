"""Kind: the collectives of tensor parallelism beside adjacent products.

A collective moves onto a stream, before independent statements: so another product of a backward pass hides it. If the
next statement depends on it, it is cut into chunks with its products (`cutting`): one chunk is communicated while
another is computed. Cutting costs copies, latencies and smaller products; the simulator decides whether it is faster.

So do `_micro_pipeline_tp` of torch (async TP) and Transformer Engine's `tp_comm_overlap` (in bulk, and in chunks); Wang
et al., *Overlap communication with dependent computation via decomposition*, ASPLOS 2023.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from distir.analysis import Instance, State, check
from distir.cost import Hardware, load, show_seconds
from distir.diagnostics import ProgramError
from distir.diagnostics.codes.simulation import UNBOUND
from distir.ir import (
    Apply,
    Call,
    Dense,
    Function,
    Literal,
    Meshes,
    Module,
    Param,
    Return,
    Statement,
    TensorType,
    types,
)
from distir.ir.builder import FunctionBuilder
from distir.ir.calls import reachable
from distir.ir.dataflow import definitions
from distir.ops import Value, type_of
from distir.simulate import BindError, arguments, plan
from distir.transform.checking import checked
from distir.transform.entry import entry_of
from distir.transform.mesh.on_machine import simulated
from distir.transform.overlap.cutting import (
    Cut,
    cut_at,
    group_size,
    issued_early,
    issued_early_in,
    sites,
    written,
)
from distir.transform.overlap.gradients import gradient_sums
from distir.transform.overlap.kinds import Inapplicable, Machine, Overlapped, kind
from distir.transform.overlap.weights import gathers_of_weights
from distir.transform.steps import StepError

STREAM = "tensor"
"""The stream of tensor parallelism: its collectives share one communicator, and so one order."""


@kind(after=("gradients", "weights"))
def products(module: Module, machine: Machine, *, chunks: int = 0) -> Overlapped:
    """Gathers before products, and sums of products, as tensor parallelism has them, on the stream `tensor`.

    What does not depend on a collective runs beside it. Where the simulation on `hardware` gains by it, a collective is
    cut into `chunks` with its products, so that one is computed while another one travels: by default as many as gain
    most, of the divisors of the number of devices; 1 cuts nothing. On a mesh nothing is cut.
    """
    if chunks < 0:
        raise StepError(f"`chunks` expected 1 or more, or 0 for what gains most, found {chunks}")
    entry = entry_of(module)
    found = _Overlapping(module, entry, load(machine.hardware), chunks)
    try:
        given = found.reached(arguments(entry, machine.bind))
    except (ProgramError, BindError) as error:
        first = error.diagnostics[0] if isinstance(error, ProgramError) else None
        why = str(error) if first is None else first.message
        bound = "; `bind=B=…` states one" if first is not None and first.code is UNBOUND else ""
        raise Inapplicable(f"what it gains is not known: {why}{bound}") from None
    if not given:
        raise Inapplicable("no collective gathers an operand of a product, or sums one; apply `tp` first")
    for name, instances in given.items():
        found.improve(name, instances)
    whole, cut = found.moved, found.cut
    many = "s" * (whole + cut > 1)
    done = f"{whole + cut} collective{many} of products on `{STREAM}`" + (f", {cut} of them in chunks" if cut else "")
    return Overlapped(found.module, done, tuple(found.left))


def in_bulk(module: Module) -> Module:
    """The program with the collectives of its layers' tensor parallelism on the stream, none cut, on any machine.

    As Transformer Engine does in bulk: what a product of a backward pass does not need travels beside it. What the
    next product needs is waited for. The entry function keeps its order: it has the collectives of one microbatch, and
    the statements of all.
    """
    entry = entry_of(module)
    found = _Overlapping(module, entry)
    places = {f.name: [*found.sites(f)] for f in module if f is not entry}
    return module.replacing(*issued_early_in(module, STREAM, places).values())


@dataclass(frozen=True, slots=True)
class _Reached:
    """The arguments of a call: with the sizes that are bound, for what is gained, and as the program has them."""

    bound: tuple[Value, ...]
    general: tuple[Value, ...]


@dataclass
class _Overlapping:
    """A program in progress: the number of collectives `moved` onto the stream, and of those `cut` into chunks."""

    module: Module
    entry: Function
    hardware: Hardware | None = None
    chunks: int = 1
    moved: int = 0
    cut: int = 0
    left: list[str] = field(default_factory=list[str])

    def reached(self, args: Sequence[Value]) -> dict[str, list[_Reached]]:
        """By function with a collective next to products: the calls that differ in more than devices."""
        domain = check(self.module, late=True).domain
        found: dict[str, list[_Reached]] = {}
        seen: set[tuple[str, object]] = set()
        general = domain.entered(self.entry, tuple(p.type for p in self.entry.params))
        waiting = [(domain.entered(self.entry, tuple(args)), general)]
        for instance, general in waiting:  # grows while it is walked
            if any(True for _ in self.sites(instance.function)):
                found.setdefault(instance.function.name, []).append(_Reached(instance.args, general.args))
            for statement in instance.function.body:
                if isinstance(statement, Call):
                    vs = instance.state(statement.args)
                    key = statement.function, tuple(map(_on_no_device, vs))
                    if key not in seen:
                        seen.add(key)
                        inner = domain.instance(statement.function, general.state(statement.args))
                        waiting.append((domain.instance(statement.function, vs), inner))
        return found

    def sites(self, function: Function) -> Iterator[int]:
        """The collectives adjacent to products, without sums of gradients and gathers of weights."""
        others = self.of_replicas.get(function.name, frozenset[str]())
        return (index for index in sites(function) if _first(function, index) not in others)

    @cached_property
    def of_replicas(self) -> dict[str, frozenset[str]]:
        """By function: the first results of collectives of data parallelism, with or without ZeRO."""
        states, gathers = checked(self.module).states, gathers_of_weights(self.module)
        return {
            f.name: frozenset(
                _first(f, index) for index in (*gradient_sums(self.module, f, states[f.name]), *gathers.get(f.name, ()))
            )
            for f in self.module
        }

    def improve(self, name: str, instances: Sequence[_Reached]) -> None:
        """Move the collectives of one function onto the stream, cut where that is faster; skip those without a gain."""
        function = self.module.functions[name]
        places = [*self.sites(function)]
        before = self.seconds(function, instances)
        values = check(_alone(self.module, function), late=True).domain.instance(name, instances[0].bound).state
        best = issued_early(values, function, STREAM, places)
        least = self.seconds(best, instances)
        if least > before:
            best, least = function, before
        moved = len(places) if best is not function else 0
        cut = 0
        for result in [_first(function, place) for place in places]:
            made, seconds, why = self.in_chunks(best, result, instances, least)
            if made is not None:
                best, least, cut = made, seconds, cut + 1
                moved -= moved > 0
            elif why:
                self.left.append(f"`%{result}` of `@{name}` is not cut: {why}")
        if best is not function:
            self.module = self.module.replacing(best)
            self.moved, self.cut = self.moved + moved, self.cut + cut

    def in_chunks(
        self, function: Function, result: str, instances: Sequence[_Reached], least: float
    ) -> tuple[Function | None, float, str]:
        """The function with a collective in the best number of chunks, and its time; or a reason not to cut it."""
        at = definitions(function)[result]
        size = group_size(function.body[at])
        counts = (self.chunks,) if self.chunks else tuple(n for n in range(2, size + 1) if size % n == 0)
        tried: dict[int, tuple[float, Function]] = {}
        for count in counts if self.chunks != 1 else ():
            made = self.cut_into(function, at, count, instances)
            if made is not None:
                tried[count] = self.seconds(made, instances), made
        if not tried:
            sizes = " for all sizes of the program" if any(each.bound != each.general for each in instances) else ""
            return None, least, f"it cannot be divided into {self.chunks} chunks{sizes}" if self.chunks > 1 else ""
        count, (seconds, made) = min(tried.items(), key=lambda each: each[1][0])
        if seconds < least:
            return made, seconds, ""
        more = "as long" if seconds == least else f"{show_seconds(seconds - least)} more"
        return None, least, f"in {count} chunks `@{function.name}` takes {more}"

    def cut_into(self, function: Function, at: int, count: int, instances: Sequence[_Reached]) -> Function | None:
        """The function with a collective cut, if that is possible in the same way for all its calls."""
        domain = check(_alone(self.module, function), late=True).domain
        found: set[Function | None] = set()
        for each in instances:
            bound, rho = (domain.instance(function.name, args).state for args in (each.bound, each.general))
            cut = cut_at(bound, function, at, count)
            if cut is not None and each.bound != each.general and not _is_symbolic(rho, function.body[at], cut):
                cut = cut_at(rho, function, at, count)  # decided as the program has it, so right for all sizes
            found.add(None if cut is None else written(domain, rho, function, cut, STREAM))
        return found.pop() if len(found) == 1 else None

    def seconds(self, function: Function, instances: Sequence[_Reached]) -> float:
        """The total time of one call of each kind of a function."""
        assert self.hardware is not None
        module = _alone(self.module, function)
        if self.module.mesh:
            calls = (_called(module, function, each.bound, self.module.meshes) for each in instances)
            return sum(simulated(call, self.hardware).latency_s for call in calls)
        domain = check(module, late=True).domain
        ran: Sequence[Instance] = [domain.instance(function.name, each.bound) for each in instances]
        return sum(plan(module, domain, instance, self.hardware).latency_s for instance in ran)


def _is_symbolic(rho: State, site: Statement, cut: Cut) -> bool:
    """Whether a collective is cut along a dimension whose size the program leaves open."""
    assert isinstance(site, Apply)
    found = type_of(rho[site.results[0]])
    return isinstance(found, TensorType) and not isinstance((found.shape or ())[cut.state.axis], int)


def _first(function: Function, place: int) -> str:
    statement = function.body[place]
    assert isinstance(statement, Apply)
    return statement.results[0]


def _on_no_device(value: Value) -> object:
    """A key of a value that does not depend on devices."""
    if isinstance(value, tuple):
        return tuple(map(_on_no_device, value))
    found = type_of(value)
    shapes = tuple(
        (leaf.dtype, leaf.shape) if isinstance(leaf, types.TensorType) else leaf for leaf in types.leaves(found)
    )
    return shapes if types.devices(found) else value


def _called(module: Module, function: Function, args: Sequence[Value], meshes: Meshes) -> Module:
    """A program on a mesh that calls a function with certain arguments."""
    names = FunctionBuilder(function.name)
    params = [Param(names.fresh(p.name), type_of(v)) for p, v in zip(function.params, args, strict=True)]
    given = (Literal(v) if isinstance(v, Dense) else p.name for p, v in zip(params, args, strict=True))
    made = tuple(names.fresh("result") for _ in function.returned)
    body = (Call(made, function.name, tuple(given)), Return(()))  # they may be pending sums, which no program returns
    taken = tuple(p for p, v in zip(params, args, strict=True) if not isinstance(v, Dense))
    return Module((*module, Function(f"{function.name}.alone", taken, body, mesh=meshes.mesh, stages=meshes.stages)))


def _alone(module: Module, function: Function) -> Module:
    """A function with what it calls: its callers may be long, and make no difference to it."""
    return Module((function, *map(module.functions.__getitem__, reachable(module.functions, [function]))))
