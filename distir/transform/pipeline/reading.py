"""Reading a sequential entry function: what is done per microbatch, what once before, and what once at the end.

Goes by data flow alone: what depends on the batch is done per microbatch; what takes a sum over the batch, such as a
gradient, waits for the last one. Knows no stages and no schedules.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum

from distir.analysis import Analysis, Checker, State, check
from distir.diagnostics import Diagnostic, Note, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.ir import (
    DISCARD,
    HOST,
    Apply,
    Call,
    DimensionError,
    Function,
    Literal,
    Module,
    Param,
    Part,
    Site,
    TensorType,
    TupleType,
    Type,
    dims,
    names,
    types,
)
from distir.ops import Reject, Value, type_of
from distir.transform.pipeline.microbatches import (
    Held,
    Microbatches,
    Share,
    Shares,
    holds_sum,
    is_plain,
    is_whole,
    leaf_shares,
    whole_like,
)

Work = Apply | Call


class Phase(Enum):
    """When a statement runs."""

    HOST = "before the program runs"
    BEFORE = "once, before the microbatches: it depends on weights alone"
    MICROBATCH = "per microbatch"
    AFTER = "once, when the sums over all microbatches are known"


@dataclass(frozen=True)
class Reading:
    """A sequential entry function, understood. Statements without their claims, which speak of the whole batch."""

    module: Module
    entry: Function
    checker: Checker
    count: int
    """How many microbatches there are."""
    device: int
    """Where the function runs."""
    values: dict[str, Held]
    statements: list[tuple[Work, Phase]]
    batch: dict[str, int]
    """The parameters that are split, and along which axis."""
    symbols: set[str]
    """The named dimensions that the batch has."""

    def part(self, name: str) -> Value:
        """What is known of a microbatch's part of a value. One microbatch is the whole batch."""
        held = self.values[name]
        return held.micro if self.count > 1 else held.full

    def is_host(self, name: str) -> bool:
        return types.device_of(type_of(self.values[name].full)) == HOST

    def is_whole(self, name: str) -> bool:
        return is_whole(self.values[name].shares)


def read(module: Module, count: int) -> Reading:
    """Read the entry function of a module, for `count` microbatches. Raises ProgramError."""
    entry = module.entry()
    if entry is None:
        raise ProgramError([Diagnostic(codes.NO_ENTRY, None, "there is no function to make a pipeline of")])
    analysis = check(module)
    if analysis.errors:
        raise ProgramError(analysis.errors)
    full = analysis.states[entry.name]
    device = _one_device(entry, full)
    batch = _batch(entry)
    parts = count if count > 1 else _some_parts(entry, batch)
    if parts == 1 and (doubled := _doubled(entry, analysis, full, batch)) is not None:
        found = _Reader(module, entry, analysis, doubled, device, batch, count, 2).read()
        for name, held in found.values.items():
            found.values[name] = Held(held.micro, held.micro, held.shares)
        return found
    return _Reader(module, entry, analysis, full, device, batch, count, parts).read()


def _some_parts(entry: Function, batch: dict[str, int]) -> int:
    """A number of parts that the batch does divide into: so that it shows where it is, if it is to stay whole."""
    size = 0
    for param in entry.params:
        shape = param.type.shape if isinstance(param.type, TensorType) else None
        if param.name in batch and shape is not None and batch[param.name] < len(shape):
            dim = shape[batch[param.name]]
            size = math.gcd(size, dim) if isinstance(dim, int) else size
    return next((n for n in range(2, min(size, 1000) + 1) if size % n == 0), 1) if size else 2


def _one_device(entry: Function, state: State) -> int:
    found = {d for value in state.values() if value is not None for d in types.devices(type_of(value))}
    if len(found) != 1:
        several = f"devices {', '.join(map(str, sorted(found)))}" if found else "no device"
        message = f"`pp` expected a program on one device, found {several} in `@{entry.name}`"
        raise ProgramError([Diagnostic(codes.NOT_A_PIPELINE, Site(entry.name, None, Part("name")), message)])
    return found.pop()


def _batch(entry: Function) -> dict[str, int]:
    found: dict[str, int] = {}
    for param in entry.params:
        axis = param.roles.get("batch")
        if isinstance(axis, int):
            found[param.name] = axis
    if not found:
        message = f"no parameter of `@{entry.name}` says which dimension the batch is"
        hint = "mark the inputs: `%x: Tensor[Float32, (64, 768), 1] {batch = 0}`"
        site = Site(entry.name, None, Part("name"))
        raise ProgramError([Diagnostic(codes.NOT_A_PIPELINE, site, message, help=hint)])
    return found


def _doubled(entry: Function, analysis: Analysis, full: State, batch: dict[str, int]) -> State | None:
    """The state for a batch of two where it is one: a dimension of 1 does not show that it is the batch."""
    args: list[Value] = []
    for param in entry.params:
        value = full[param.name]
        if param.name in batch and isinstance(value, TensorType) and value.shape is not None:
            axis = batch[param.name]
            value = TensorType(value.dtype, (*value.shape[:axis], 2, *value.shape[axis + 1 :]), value.device)
        args.append(value)
    wide = replace(entry, params=tuple(replace(p, type=type_of(v)) for p, v in zip(entry.params, args, strict=True)))
    module = Module(wide if f.name == entry.name else f for f in analysis.module)
    doubled = check(module)
    return None if doubled.errors else doubled.states[entry.name]


class _Reader:
    """Goes through the statements once, in order."""

    def __init__(
        self,
        module: Module,
        entry: Function,
        analysis: Analysis,
        full: State,
        device: int,
        batch: dict[str, int],
        count: int,
        parts: int,
    ) -> None:
        self.entry = entry
        self.full = full
        self.domain = Microbatches(module, analysis.domain, parts)
        self.found = Reading(module, entry, analysis.domain, count, device, {}, [], batch, set())
        self.rho = State((), (), self.domain)
        self.after: set[str] = set()
        self.of_batch: dict[str, str] = {}
        """By host value that depends on the size of a microbatch: the same for the whole batch."""

    def read(self) -> Reading:
        for index, param in enumerate(self.entry.params):
            self.rho[param.name] = self._parameter(index, param)
        for index, statement in enumerate(self.entry.body):
            if isinstance(statement, (Apply, Call)):
                self._statement(index, statement)
        self.rho.pop(DISCARD, None)
        self.found.values.update(self.rho)
        self._drop_unused()
        return self.found

    def _drop_unused(self) -> None:
        wanted = set(names(self.entry.returned))
        kept: list[tuple[Work, Phase]] = []
        for statement, phase in reversed(self.found.statements):
            if wanted.intersection(statement.results):
                wanted.update(names(statement.args))
                kept.append((statement, phase))
        self.found.statements[:] = kept[::-1]

    def _parameter(self, index: int, param: Param) -> Held:
        whole = type_of(self.full[param.name])
        if param.name not in self.found.batch:
            return Held(self.full[param.name], self.full[param.name], whole_like(whole))
        site = Site(self.entry.name, None, Part("param_type", index))
        part, shares = self._part(whole, self.found.batch[param.name], site)
        return Held(whole, part, shares)

    def _part(self, whole: Type, axis: int, site: Site) -> tuple[Type, Shares]:
        """The type of a microbatch's part of an input."""
        if isinstance(whole, TupleType):
            parts, shares = zip(*(self._part(item, axis, site) for item in whole.items), strict=True)
            return TupleType(tuple(parts)), tuple(shares)
        if not isinstance(whole, TensorType) or whole.shape is None or not 0 <= axis < len(whole.shape):
            message = f"expected a tensor with a dimension {axis}, the batch, found `{whole}`"
            raise ProgramError([Diagnostic(codes.NOT_A_PIPELINE, site, message)])
        size, count = whole.shape[axis], self.domain.count
        if isinstance(size, int) and size % count:
            divisors = [n for n in range(1, min(size, 4096) + 1) if size % n == 0]
            near = sorted(sorted(divisors, key=lambda n: abs(n - count))[:6])
            message = f"the batch is {size}, which does not divide into {count} microbatches"
            hint = f"numbers of microbatches that would do: {', '.join(map(str, near))}"
            raise ProgramError([Diagnostic(codes.INDIVISIBLE_BATCH, site, message, help=hint)])
        try:
            part = dims.divide(size, count)
        except DimensionError as error:
            raise ProgramError([Diagnostic(codes.INDIVISIBLE_BATCH, site, str(error))]) from None
        if isinstance(size, dims.SymbolicDim) and str(size) in size.names:
            self.found.symbols.add(str(size))
        shape = (*whole.shape[:axis], part, *whole.shape[axis + 1 :])
        return TensorType(whole.dtype, shape, whole.device), Share(axis)

    def _statement(self, index: int, statement: Work) -> None:
        operands = [self.rho[name] for name in names(statement.args)]
        mentioned = set(names(statement.args))
        if mentioned & self.after or any(holds_sum(v.shares) for v in operands):
            self._at_the_end(index, statement, operands)
            return
        plain = _unclaimed(statement)
        try:
            held = self._held(plain)
        except Reject as reject:
            plain = self._with_whole_sizes(plain)
            operands = [self.rho[name] for name in names(plain.args)]
            try:
                held = self._held(plain)
            except Reject:
                raise self._refused(index, statement, reject) from None
        self._add_for_batch(plain)
        if not all(is_plain(v.shares) for v in operands):
            self._per_microbatch(index, plain, list(held))
            return
        self.rho.update(zip(statement.results, held, strict=True))
        host = all(types.device_of(type_of(v.full)) == HOST for v in held)
        self.found.statements.append((plain, Phase.HOST if host else Phase.BEFORE))

    def _held(self, statement: Work) -> list[Held]:
        vs = self.rho(statement.args)
        if isinstance(statement, Apply):
            return list(self.domain.apply(statement, vs))
        return list(self.domain.call(statement, vs))

    def _add_for_batch(self, statement: Work) -> None:
        """A host value made from the size of a microbatch: the same from the size of the batch, if somebody needs it.

        A size states a shape, which for a microbatch is its own; or it divides what is added up over the whole batch.
        """
        mentioned = list(names(statement.args))
        known = all(n in self.found.batch or n in self.of_batch or self._is_plain_host(n) for n in mentioned)
        sized = any(n in self.found.batch or n in self.of_batch for n in mentioned)
        if not (known and sized and isinstance(statement, Apply)):
            return
        if not all(n == DISCARD or types.device_of(type_of(self.full[n])) == HOST for n in statement.results):
            return
        twins = tuple(n if n == DISCARD else self._fresh(f"{n}_of_batch") for n in statement.results)
        for name, twin in zip(statement.results, twins, strict=True):
            if name != DISCARD:
                self.of_batch[name] = twin
                self.rho[twin] = Held(self.full[name], self.full[name], whole_like(type_of(self.full[name])))
        made = self._with_whole_sizes(_with_results(statement, twins))
        self.found.statements.append((made, Phase.HOST))

    def _is_plain_host(self, name: str) -> bool:
        held = self.rho[name]
        return is_plain(held.shares) and types.device_of(type_of(held.full)) == HOST

    def _with_whole_sizes(self, statement: Work) -> Work:
        """The statement with the sizes of the batch for those of a microbatch."""
        args = tuple(self.of_batch.get(a, a) if isinstance(a, str) else a for a in statement.args)
        return replace(statement, args=args)

    def _at_the_end(self, index: int, statement: Work, operands: list[Held]) -> None:
        if any(isinstance(s, Share) and s.axis is not None for v in operands for s in leaf_shares(v.shares)):
            reason = "it needs a sum over the whole batch together with the batch itself"
            name = statement.op if isinstance(statement, Apply) else f"@{statement.function}"
            message = f"`{name}` cannot be computed by microbatches: {reason}"
            raise ProgramError([Diagnostic(codes.NOT_IN_MICROBATCHES, Site(self.entry.name, index), message)])
        for name in statement.results:
            if name != DISCARD:
                value = self.full[name]
                self.rho[name] = Held(value, value, whole_like(type_of(value)))
                self.after.add(name)
        self.found.statements.append((self._with_whole_sizes(_unclaimed(statement)), Phase.AFTER))

    def _per_microbatch(self, index: int, statement: Work, held: list[Held]) -> None:
        """Add a statement; a part of the batch that comes out too large is set right at once."""
        correcting: list[Apply] = []
        results = list(statement.results)
        for i, (name, value) in enumerate(zip(statement.results, held, strict=True)):
            share = value.shares
            if name != DISCARD and isinstance(share, Share) and share.axis is not None and share.scale:
                raw = self._fresh(f"{name}_of_part")
                results[i] = raw
                self.rho[raw] = value
                held[i] = Held(value.full, value.micro, Share(share.axis))
                factor = Literal(1.0 / self.found.count**share.scale)
                correcting.append(Apply((name,), "Mul", (raw, factor)))
            elif isinstance(share, tuple) and any(
                isinstance(s, Share) and s.axis is not None and s.scale for s in leaf_shares(share)
            ):
                reason = "a tuple holds what was divided by the size of a microbatch, not of the batch"
                raise self._refused(index, statement, Reject(codes.NOT_IN_MICROBATCHES, reason))
        if correcting:
            statement = _with_results(statement, tuple(results))
        for name, value in zip(self._names(statement, correcting, results), held, strict=True):
            self.rho[name] = value
        self.rho[DISCARD] = None
        self.found.statements.extend((s, Phase.MICROBATCH) for s in (statement, *correcting))

    def _names(self, statement: Work, correcting: list[Apply], results: list[str]) -> list[str]:
        corrected = {c.args[0]: c.results[0] for c in correcting}
        return [corrected.get(name, name) for name in results]

    def _fresh(self, hint: str) -> str:
        name = hint
        while name in self.full or name in self.rho:
            name += "_"
        return name

    def _refused(self, index: int, statement: Work, reject: Reject) -> ProgramError:
        site = Site(self.entry.name, index)
        if isinstance(statement, Call):
            message = f"`@{statement.function}` cannot be called with a microbatch"
            return ProgramError(
                [Diagnostic(codes.NOT_IN_MICROBATCHES, site, message, (Note(reject.message),), reject.help)]
            )
        own = reject.code is codes.NOT_IN_MICROBATCHES
        message = reject.message if own else f"a microbatch does not fit: {reject.message}"
        return ProgramError([Diagnostic(codes.NOT_IN_MICROBATCHES, site, message, (), reject.help)])


def _unclaimed(statement: Work) -> Work:
    return _with_results(statement, statement.results)


def _with_results(statement: Work, results: tuple[str, ...]) -> Work:
    if isinstance(statement, Apply):
        return Apply(results, statement.op, statement.args, statement.attrs)
    return Call(results, statement.function, statement.args)
