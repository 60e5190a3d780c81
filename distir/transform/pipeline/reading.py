"""Reads a sequential entry function: classifies its statements as per microbatch, before all of them, or after.

By data flow alone: a statement that depends on the batch runs per microbatch; one that uses a sum over the batch, such
as a gradient, runs after the last microbatch. Independent of stages and schedules.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum

from distir.analysis import Analysis, Checker, State, analysed
from distir.analysis.provenance import with_phases
from distir.diagnostics import Diagnostic, Note, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.ir import (
    DISCARD,
    HOST,
    Apply,
    Arg,
    Call,
    Dense,
    Facts,
    Function,
    Literal,
    Module,
    Param,
    Part,
    Return,
    Site,
    SymbolicDim,
    TensorType,
    Type,
    dims,
    names,
    results,
    types,
)
from distir.ir.builder import FunctionBuilder
from distir.ir.per_thread import kept_per_thread
from distir.ir.rewrite import with_operands
from distir.ops import OPS, Reject, Value, type_of
from distir.transform.as_sums import written_as_sums
from distir.transform.checking import checked
from distir.transform.inline import inline
from distir.transform.pipeline.any_device import on_any_device
from distir.transform.pipeline.batch import batch_axes, doubled, one_device, part, some_parts
from distir.transform.pipeline.microbatches import (
    Held,
    Microbatches,
    Share,
    Shares,
    Unlocated,
    holds_sum,
    is_plain,
    is_sum,
    is_whole,
    leaf_shares,
    reads_sizes,
    whole_like,
)
from distir.transform.pipeline.named_sizes import write_sizes
from distir.transform.pipeline.written_sizes import sizes_from_values

Work = Apply | Call

CAST_TERMS = "CastGradient"
"""The op that casts each microbatch's term of a sum, so that the sum is accumulated in its element type."""


class Phase(Enum):
    """When a statement runs."""

    HOST = "before the program runs"
    BEFORE = "once, before the microbatches: it depends on weights alone"
    MICROBATCH = "per microbatch"
    AFTER = "once, when the sums over all microbatches are known"


@dataclass(frozen=True)
class Reading:
    """A classified entry function. Statements have no claims, which would be about the whole batch."""

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
    """Values that are split into microbatches, and along which axis: parameters, and positions of examples."""
    symbols: set[str]
    """The named dimensions of the batch."""
    joint: Mapping[str, str] = field(default_factory=dict[str, str])
    """By term of a sum with terms from several passes: the first of these terms, which names the sum."""
    postponed: ProgramError | None = None
    """The reason why the first op that mixes examples runs after all microbatches."""

    def stated(self) -> Mapping[str, Facts]:
        """By value: the facts of the statement that defines it."""
        return {name: s.facts for s, _ in self.statements for name in s.results}

    def part(self, name: str) -> Value:
        """The value of a microbatch. A single microbatch is the whole batch."""
        held = self.values[name]
        return held.micro if self.count > 1 else held.full

    def is_host(self, name: str) -> bool:
        """Whether a value is on the host."""
        return types.device_of(type_of(self.values[name].full)) == HOST

    def is_whole(self, name: str) -> bool:
        """Whether a value is the same for every microbatch."""
        return is_whole(self.values[name].shares)

    def totals(self) -> set[str]:
        """The sums over microbatches that are used after all of them, or returned."""
        ended = {name for s, phase in self.statements if phase is Phase.AFTER for name in names(s.args)}
        wanted = {*names(self.entry.returned), *ended} & self.values.keys()
        wanted |= {name for name, total in self.joint.items() if total in wanted}
        return {name for name in wanted if is_sum(self.values[name].shares)}

    def joined(self) -> set[str]:
        """Parts of the batch that are concatenated after all microbatches: returned, or used whole."""
        at_the_end = (name for s, phase in self.statements if phase is Phase.AFTER for name in names(s.args))
        wanted = {*names(self.entry.returned), *at_the_end} & self.values.keys()
        return {name for name in wanted if _is_part(self.values[name].shares)}


def types_of_parts(reading: Reading) -> Callable[[str], Type]:
    """The types of values in the functions of passes."""
    whole = {name: dims.multiply(dims.named(name), reading.count) for name in reading.symbols}
    return lambda name: types.substitute(types.on_device(type_of(reading.part(name)), None), whole)


def read(module: Module, count: int) -> Reading:
    """Read the entry function of a module, for `count` microbatches. Raises ProgramError."""
    found = _found(module, count)
    return replace(found, values=dict(found.values), statements=list(found.statements))


@kept_per_thread(8)  # plans of a search share numbers of microbatches among numbers of stages
def _found(module: Module, count: int) -> Reading:
    entry = module.entry()
    if entry is None:
        raise ProgramError([Diagnostic(codes.NO_ENTRY, None, "there is no function to make a pipeline of")])
    analysis = checked(module)
    one_device(entry, analysis.states[entry.name])
    batch = batch_axes(entry)
    module = with_phases(module, entry)
    entry = module.functions[entry.name]
    changed, refusal = written_as_sums(on_any_device(module, entry)), None
    while True:
        try:
            return _understood(changed, entry, batch, count)
        except ProgramError as error:
            refusal = refusal or error
            called = _refused_call(error, entry)
            if called not in changed.functions:
                raise refusal from None
        # A sum over the batch and its uses can be classified separately only if they are inlined.
        changed = written_as_sums(inline(changed, (called,)))


def _refused_call(error: ProgramError, entry: Function) -> str:
    """The function that cannot be called with a microbatch, if that is the error."""
    found = error.diagnostics[0]
    index = found.site.index if isinstance(found.site, Site) and found.code is codes.NOT_IN_MICROBATCHES else None
    statement = None if index is None else entry.body[index]
    return statement.function if isinstance(statement, Call) else ""


def _understood(module: Module, given: Function, batch: dict[str, int], count: int) -> Reading:
    """The reading of a rewritten program; `given` is the original entry function."""
    entry, analysis = module.functions[given.name], analysed(module)
    try:
        found = _read(analysis, entry, batch, count, _places(entry, given))
        refusal = found.postponed
    except ProgramError as error:
        found, refusal = None, error
        if all(d.code is not codes.NOT_IN_MICROBATCHES for d in error.diagnostics):
            raise
    if refusal is not None and (freed := sizes_from_values(analysis, entry, batch)) is not module:
        entry = freed.functions[given.name]
        with suppress(ProgramError):
            return _read(analysed(freed), entry, batch, count, _places(entry, given))
    if found is None:
        assert refusal is not None
        raise refusal
    return found


def _read(analysis: Analysis, entry: Function, batch: dict[str, int], count: int, places: Sequence[int]) -> Reading:
    full, module = analysis.states[entry.name], analysis.module
    device = one_device(entry, full)
    parts = count if count > 1 else some_parts(entry, batch)
    if parts == 1 and (larger := doubled(entry, analysis, full, batch)) is not None:
        found = _Reader(module, entry, analysis, larger, device, batch, count, 2, places).read()
        for name, held in found.values.items():
            found.values[name] = Held(held.micro, held.micro, held.shares)
        return found
    return _Reader(module, entry, analysis, full, device, batch, count, parts, places).read()


def _places(entry: Function, before: Function) -> Sequence[int]:
    """By statement: its number before statements were inserted."""
    number, found, last = 0, list[int](), len(before.body) - 1
    for statement in entry.body:
        found.append(number)
        made, wanted = results(statement), results(before.body[number])
        done = made == wanted or not {*made, DISCARD}.isdisjoint({*wanted} - {DISCARD})
        number = min(number + done, last)
    return found


class _Reader:
    """Classifies the statements in one pass over them."""

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
        places: Sequence[int],
    ) -> None:
        self.entry = entry
        self.places = places
        """By statement: its number in the original program."""
        self.full = full
        self.found = Reading(module, entry, analysis.domain, count, device, {}, [], dict(batch), set())
        self.domain = Microbatches(module, analysis.domain, parts, self.found.symbols)
        self.rho = State((), (), self.domain)
        self.after: set[str] = set()
        self.mixed: dict[str, ProgramError] = {}
        """Values computed at the end because they mix examples, each with the error if that is impossible."""
        self.alike: set[str] = set()
        """Values computed with every microbatch although they are equal, by calls that also use parts of the batch."""
        self.of_batch: dict[str, Arg] = {}
        """By host value that depends on the size of a microbatch: its equivalent for the whole batch."""
        self.makers: dict[str, Work] = {}
        """By value computed from inputs without weights: its statement."""
        self.inputs = {p.name for p in entry.params if p.name in batch or _is_given(p)}
        self.ahead: dict[str, str] = {}
        """By such a value: its name when computed before the microbatches, for the whole batch."""

    def read(self) -> Reading:
        for index, param in enumerate(self.entry.params):
            self.rho[param.name] = self._parameter(index, param)
        for index, statement in zip(self.places, self.entry.body, strict=True):
            if isinstance(statement, (Apply, Call)):
                self._statement(index, statement)
        self.rho.pop(DISCARD, None)
        self.found.values.update(self.rho)
        entry = replace(self.entry, body=(*self.entry.body[:-1], Return(self._returned())))
        self._drop_unused(entry)
        refused = next(iter(self.mixed.values()), None)
        if refused is not None and not any(map(self._is_of_a_layer, self.found.statements)):
            raise refused
        return replace(self.found, entry=entry, postponed=refused)

    def _is_of_a_layer(self, statement: tuple[Work, Phase]) -> bool:
        """Whether a statement uses a microbatch and also weights."""
        mentioned = names(statement[0].args)
        return statement[1] is Phase.MICROBATCH and any(is_plain(self.rho[n].shares) for n in mentioned)

    def _returned(self) -> tuple[Arg, ...]:
        """The returned values, with sizes of the whole batch."""
        index = self.places[-1]
        returned = self._with_whole_sizes(self.entry.returned)
        for name in names(returned):
            if not is_plain(self.rho[name].shares) and is_whole(self.rho[name].shares):
                message = f"`%{name}` depends on the size of the batch, and a microbatch tells its own only"
                raise ProgramError([Diagnostic(codes.NOT_IN_MICROBATCHES, Site(self.entry.name, index), message)])
        return returned

    def _drop_unused(self, entry: Function) -> None:
        wanted = set(names(entry.returned))
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
        axis = self.found.batch[param.name]
        micro, share = part(whole, axis, self.domain.count, site)
        assert isinstance(whole, TensorType)
        assert whole.shape is not None
        if isinstance(whole.shape[axis], SymbolicDim):
            self.found.symbols.update(name for name in types.dim_names(whole) if name == str(whole.shape[axis]))
        return Held(whole, micro, share)

    def _statement(self, index: int, statement: Work) -> None:
        if all(self._is_input(name) for name in names(statement.args)):
            self.makers.update(dict.fromkeys(statement.results, statement))
        operands = [self.rho[name] for name in names(statement.args)]
        mentioned = set(names(statement.args))
        plain = _unclaimed(statement)
        sums = any(holds_sum(v.shares) for v in operands) and not _reads_sizes(plain)
        cast = isinstance(plain, Apply) and plain.op == CAST_TERMS
        if mentioned & self.after or (sums and not cast and not self._takes_terms(plain, operands)):
            self._at_the_end(index, statement)
            return
        try:
            held = self._held(plain)
        except Reject as reject:
            if (
                isinstance(reject, Unlocated)
                and isinstance(plain, Apply)
                and self._split_ahead(index, plain, reject.shares)
            ):
                return
            parts = self._parts(plain)  # ambiguous: a microbatch's part of a host value, or the whole value
            for kept in (parts | self._stated_shape(plain), parts, ()):
                again = replace(plain, args=self._with_whole_sizes(plain.args, kept))
                with suppress(Reject):
                    held = self._held(again)
                    break
                again = self._with_parts_of_host_values(again)
                with suppress(Reject):
                    held = self._held(again)
                    break
            else:
                refused = self._refused(index, statement, reject)
                if not (isinstance(statement, Apply) and reject.code is codes.NOT_IN_MICROBATCHES):
                    raise refused from None
                self._mix(index, statement, refused)
                return
            plain, operands = again, [self.rho[name] for name in names(again.args)]
        self._add_for_batch(plain)
        if not all(is_plain(v.shares) for v in operands) or not self.alike.isdisjoint(names(plain.args)):
            self._per_microbatch(index, plain, list(held))
            return
        self.rho.update(zip(statement.results, held, strict=True))
        host = all(types.device_of(type_of(v.full)) == HOST for v in held)
        self.found.statements.append((plain, Phase.HOST if host else Phase.BEFORE))

    def _split_ahead(self, index: int, statement: Work, shares: Sequence[Shares]) -> bool:
        """Compute a value from inputs before the microbatches, for the whole batch, and split it as inputs are.

        False if it also uses other values.
        """
        if not all(name in self.found.batch or is_plain(self.rho[name].shares) for name in names(statement.args)):
            return False
        for name, share in zip(statement.results, shares, strict=True):
            if name != DISCARD and isinstance(share, Share) and share.axis is not None:
                whole = type_of(self.full[name])
                micro, _ = part(whole, share.axis, self.domain.count, Site(self.entry.name, index))
                self.rho[name] = Held(whole, micro, share)
                self.found.batch[name] = share.axis
        self.found.statements.append((statement, Phase.BEFORE))
        return True

    def _with_parts_of_host_values(self, statement: Work) -> Work:
        """A statement that takes a microbatch's part of host values of all examples, such as their indices.

        These are computed for the whole batch, and split as inputs are.
        """
        if not isinstance(statement, Apply):
            return statement
        args = list(statement.args)
        for i, axis in self.domain.along_batch(statement, self.rho(statement.args)).items():
            arg = args[i]
            (held,) = self.rho((arg,))
            whole = type_of(held.full)
            try:
                micro, share = part(whole, axis, self.domain.count, Site(self.entry.name, None))
            except ProgramError:
                continue
            args[i] = name = self._fresh(f"{arg}_split" if isinstance(arg, str) else "split")
            self.rho[name] = Held(whole, micro, share)
            self.found.batch[name] = axis
            self.found.statements.append((Apply((name,), "Identity", (arg,), facts=statement.facts), Phase.HOST))
        return replace(statement, args=tuple(args))

    def _takes_terms(self, statement: Work, operands: Sequence[Held]) -> bool:
        """Whether a statement uses parts of the batch together with terms of sums over it."""
        if not any(_is_part(v.shares) for v in operands):
            return False
        try:
            self._held(statement)
        except Reject:
            return False
        return True

    def _held(self, statement: Work) -> list[Held]:
        vs = self.rho(statement.args)
        if isinstance(statement, Apply):
            return list(self.domain.apply(statement, vs))
        return list(self.domain.call(statement, vs))

    def _add_for_batch(self, statement: Work) -> None:
        """Add a host value computed from the size of a microbatch once more for the size of the batch, if needed.

        A size states a shape, which is the microbatch's; or it divides a sum over the whole batch.
        """
        mentioned = list(names(statement.args))
        known = all(n in self.found.batch or n in self.of_batch or self._is_plain_host(n) for n in mentioned)
        sized = any(n in self.found.batch or n in self.of_batch for n in mentioned)
        if not (known and sized and isinstance(statement, Apply)):
            return
        if not all(n == DISCARD or types.device_of(type_of(self.full[n])) == HOST for n in statement.results):
            return
        of_batch = tuple(n if n == DISCARD else self._fresh(f"{n}_of_batch") for n in statement.results)
        for name, whole in zip(statement.results, of_batch, strict=True):
            if name != DISCARD:
                self.of_batch[name] = whole  # unless its value is known: see `_add_sizes`
                self.rho[whole] = Held(self.full[name], self.full[name], whole_like(type_of(self.full[name])))
        made = replace(_with_results(statement, of_batch), args=self._with_whole_sizes(statement.args))
        self.found.statements.append((made, Phase.HOST))

    def _is_plain_host(self, name: str) -> bool:
        held = self.rho[name]
        return is_plain(held.shares) and types.device_of(type_of(held.full)) == HOST and name not in self.alike

    def _parts(self, statement: Work) -> set[str]:
        """The operands of a statement that are parts of the batch."""
        return {name for name in names(statement.args) if _is_part(self.rho[name].shares)}

    def _stated_shape(self, statement: Work) -> set[str]:
        """The operand of a statement that states the shape of its result, which is that of a microbatch."""
        if not isinstance(statement, Apply):
            return set()
        place = self.domain.shape_operand(statement, self.rho(statement.args))
        return set() if place is None else set(names(statement.args[place : place + 1]))

    def _with_whole_sizes(self, args: tuple[Arg, ...], kept: Collection[str] = ()) -> tuple[Arg, ...]:
        """Arguments with sizes of a microbatch replaced by those of the batch."""
        return tuple(self.of_batch.get(a, a) if isinstance(a, str) and a not in kept else a for a in args)

    def _mix(self, index: int, statement: Apply, refused: ProgramError) -> None:
        """Add a statement that uses the whole batch, by concatenating its parts. Raises `refused`."""
        plain = replace(_unclaimed(statement), args=self._with_whole_sizes(statement.args))
        for name in names(plain.args):
            shares = self.rho[name].shares
            is_part = isinstance(shares, Share) and shares.axis is not None and not shares.scale
            if not (is_part or is_plain(shares)):
                raise refused
        self._end(statement, plain)
        self.mixed.update(dict.fromkeys(statement.results, refused))

    def _at_the_end(self, index: int, statement: Work) -> None:
        """Add a statement that uses a sum over the batch, or mixes its examples."""
        if known := self._with_sums_ahead(statement):
            self._statement(index, known)
            return
        mixed = next((self.mixed[name] for name in names(statement.args) if name in self.mixed), None)
        plain = replace(_unclaimed(statement), args=self._with_whole_sizes(statement.args))
        for name in names(plain.args):
            shares = self.rho[name].shares
            if _is_part(shares):
                if mixed is not None:
                    raise mixed
                reason = "it takes a sum over the whole batch together with the batch itself"
                raise self._refused(index, statement, _cannot(statement, reason, SUMS_LATE))
            if is_whole(shares) and not is_plain(shares):
                raise self._refused(index, statement, _cannot(statement, "it depends on the size of the batch"))
        if mixed is not None:
            if isinstance(statement, Call):  # a layer: statements after it could not be pipelined
                raise mixed
            self.mixed.update(dict.fromkeys(statement.results, mixed))
        self._end(statement, plain)

    def _end(self, statement: Work, plain: Work) -> None:
        for name in statement.results:
            if name != DISCARD:
                value = self.full[name]
                self.rho[name] = Held(value, value, whole_like(type_of(value)))
                self.after.add(name)
        self.found.statements.append((plain, Phase.AFTER))

    def _with_sums_ahead(self, statement: Work) -> Work | None:
        """A statement that uses a part of the batch with a sum over it that is computed before the microbatches.

        Or with the size of such a part. None if it does not use both, or the sum depends on weights and so is known
        only at the end.
        """
        mentioned = dict.fromkeys(names(statement.args))
        sums = [n for n in mentioned if n in self.after or holds_sum(self.rho[n].shares)]
        others = [self.rho[n].shares for n in mentioned if n not in sums]
        if all(map(is_plain, others)) or not all(map(self._is_input, sums)):
            return None
        for name in sums:
            self._compute_ahead(name)
        return with_operands(statement, {name: self.ahead[name] for name in sums})

    def _is_input(self, name: str) -> bool:
        """Whether a value is computed from inputs without weights."""
        return name in self.inputs or name in self.makers

    def _is_known(self, maker: Work) -> bool:
        """Whether a statement's results do not depend on the batch, and so are already known."""
        return all(n == DISCARD or (n not in self.after and is_plain(self.rho[n].shares)) for n in maker.results)

    def _compute_ahead(self, name: str) -> None:
        """Add the statements that compute a value again, before the microbatches, for the whole batch."""
        needed: dict[int, Work] = {}
        order = {id(s): i for i, s in enumerate(self.entry.body)}
        waiting = [name]
        while waiting:
            maker = self.makers.get(waiting.pop())
            known = maker is None or any(n in self.ahead for n in maker.results) or order[id(maker)] in needed
            if maker is not None and not known and not self._is_known(maker):
                needed[order[id(maker)]] = maker
                waiting += names(maker.args)
        for _, maker in sorted(needed.items()):
            for result in maker.results:
                if result != DISCARD:
                    self.ahead[result] = whole = self._fresh(f"{result}_of_batch")
                    self.rho[whole] = Held(self.full[result], self.full[result], whole_like(type_of(self.full[result])))
            written = with_operands(_unclaimed(maker), self.ahead)
            host = all(n == DISCARD or types.device_of(type_of(self.full[n])) == HOST for n in maker.results)
            of_batch = tuple(self.ahead.get(n, n) for n in maker.results)
            self.found.statements.append((_with_results(written, of_batch), Phase.HOST if host else Phase.BEFORE))

    def _per_microbatch(self, index: int, statement: Work, held: list[Held]) -> None:
        """Add a statement; a part of the batch that is too large by a scale is corrected at once."""
        results: list[str] = []
        correcting: list[Work] = []
        for name, value in zip(statement.results, held, strict=True):
            made, scale = name, self._excess(index, statement, value.shares)
            if scale and name != DISCARD:
                made = self._fresh(f"{name}_of_part")
                self.rho[made] = value
                correcting.append(Apply((name,), "Mul", (made, Literal(1.0 / self.found.count**scale))))
                assert isinstance(value.shares, Share)
                value = Held(value.full, value.micro, Share(value.shares.axis))
            self.rho[name] = value
            results.append(made)
            if name != DISCARD and is_plain(value.shares):
                self.alike.add(name)
        self.rho[DISCARD] = None
        self._add_sizes(statement)
        written = _with_results(statement, tuple(results))
        self.found.statements.extend((s, Phase.MICROBATCH) for s in (written, *correcting))

    def _excess(self, index: int, statement: Work, shares: Shares) -> int:
        """The power of the number of microbatches by which a part of the batch is too large."""
        scale = max((s.scale for s in leaf_shares(shares) if isinstance(s, Share) and s.axis is not None), default=0)
        if scale and isinstance(shares, tuple):
            reason = "a tuple holds what was divided by the size of a microbatch, not of the batch"
            raise self._refused(index, statement, Reject(codes.NOT_IN_MICROBATCHES, reason))
        return scale

    def _add_sizes(self, statement: Work) -> None:
        """Add sizes that a microbatch has, and others computed from them, once more for the size of the batch."""
        for name in statement.results:
            value = None if name == DISCARD else self.full[name]
            if isinstance(value, Dense) and not value.symbolic:
                self.of_batch[name] = Literal(value)
            elif isinstance(value, Dense) and name not in self.of_batch:
                self._add_named_sizes(name, value)

    def _add_named_sizes(self, name: str, value: Dense) -> None:
        """Add sizes of the batch that have names, computed from those of the parameters that have them."""
        f = FunctionBuilder(self.entry.name)
        f.take([*self.full, *self.rho])
        whole = write_sizes(f, self.entry, value, f"{name}_of_batch")
        if whole is None:
            return
        self.of_batch[name] = whole
        for made in f.body:
            assert isinstance(made, Apply)
            given = tuple(held.full for held in self.rho(made.args))
            for result, known in zip(made.results, self.found.checker.answer(made, given), strict=True):
                self.rho[result] = Held(known, known, whole_like(type_of(known)))
            self.found.statements.append((made, Phase.HOST))

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


def _reads_sizes(statement: Work) -> bool:
    return isinstance(statement, Apply) and reads_sizes(OPS[statement.op])


def _is_part(shares: Shares) -> bool:
    """Whether a value is a part of the batch."""
    return any(isinstance(s, Share) and s.axis is not None for s in leaf_shares(shares))


def _is_given(param: Param) -> bool:
    """Whether a parameter is an input, which no step updates."""
    return "buffer" in param.roles or "frozen" in param.roles


SUMS_LATE = (
    "such a sum is complete only after all microbatches: use `dp` without `pp`, or batch normalization with running"
    " statistics (`grad mode=eval`)"
)


def _cannot(statement: Work, reason: str, hint: str | None = None) -> Reject:
    name = statement.op if isinstance(statement, Apply) else f"@{statement.function}"
    return Reject(codes.NOT_IN_MICROBATCHES, f"`{name}` cannot be computed by microbatches: {reason}", help=hint)


def _unclaimed(statement: Work) -> Work:
    return _with_results(statement, statement.results)


def _with_results(statement: Work, results: tuple[str, ...]) -> Work:
    return replace(statement, results=results, claims=())
