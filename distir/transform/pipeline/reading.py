"""Reading a sequential entry function: what is done per microbatch, what once before, and what once at the end.

Goes by data flow alone: what depends on the batch is done per microbatch; what takes a sum over the batch, such as a
gradient, waits for the last one. Knows no stages and no schedules.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from distir.analysis import Analysis, State, check
from distir.diagnostics import Diagnostic, Note, ProgramError
from distir.diagnostics.codes import names as name_codes
from distir.diagnostics.codes import transforms as codes
from distir.ir import (
    DISCARD,
    HOST,
    Apply,
    Call,
    Dim,
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
from distir.ops import Reject, type_of
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
    count: int
    """How many microbatches there are."""
    device: int
    """Where the function runs."""
    values: dict[str, Held]
    statements: list[tuple[Work, Phase]]
    batch: dict[str, int]
    """The parameters that are split, and along which axis."""
    symbols: dict[str, Dim] = field(default_factory=dict[str, Dim])
    """The named dimensions that the batch has, each with what a microbatch leaves of it."""

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
    return _Reader(module, entry, analysis, full, device, batch, count).read()


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
    ) -> None:
        self.entry = entry
        self.full = full
        self.domain = Microbatches(module, analysis.domain, count)
        self.found = Reading(module, entry, count, device, {}, [], batch)
        self.rho = State((), (), self.domain)
        self.after: set[str] = set()

    def read(self) -> Reading:
        for index, param in enumerate(self.entry.params):
            self.rho[param.name] = self._parameter(index, param)
        for index, statement in enumerate(self.entry.body):
            if isinstance(statement, (Apply, Call)):
                self._statement(index, statement)
        self.rho.pop(DISCARD, None)
        self.found.values.update(self.rho)
        return self.found

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
        size, count = whole.shape[axis], self.found.count
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
            self.found.symbols[str(size)] = part
        shape = (*whole.shape[:axis], part, *whole.shape[axis + 1 :])
        return TensorType(whole.dtype, shape, whole.device), Share(axis)

    def _statement(self, index: int, statement: Work) -> None:
        operands = [self.rho[name] for name in names(statement.args)]
        mentioned = set(names(statement.args))
        if mentioned & self.after or any(holds_sum(v.shares) for v in operands):
            self._at_the_end(index, statement, operands)
            return
        try:
            vs = self.rho(statement.args)
            held = (self.domain.apply if isinstance(statement, Apply) else self.domain.call)(statement, vs)  # type: ignore[arg-type]
        except Reject as reject:
            raise self._refused(index, statement, reject) from None
        plain = _unclaimed(statement)
        if not all(is_plain(v.shares) for v in operands):
            self._per_microbatch(index, plain, list(held))
            return
        self.rho.update(zip(statement.results, held, strict=True))
        host = all(types.device_of(type_of(v.full)) == HOST for v in held)
        self.found.statements.append((plain, Phase.HOST if host else Phase.BEFORE))

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
        self.found.statements.append((_unclaimed(statement), Phase.AFTER))

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
