"""ZeRO-3 within functions: those that take weights in tuples take parts instead, and gather them before each use.

A pipeline's functions for stages and rounds of microbatches only pass weights on to layers. So a weight is gathered for
each layer's call, and freed after it; calls that follow each other on a device share what is gathered, as a layer's
recomputation and its backward pass do: PyTorch's FSDP recomputes within the unit that it has gathered. A weight that is
cast to a narrower type is cast before it is gathered, and sent in that type.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from distir.analysis import State
from distir.ir import (
    DISCARD,
    Apply,
    Arg,
    Attributes,
    Call,
    Device,
    DType,
    Function,
    Module,
    Return,
    Statement,
    TensorType,
    Type,
    names,
    operands,
    results,
    types,
)
from distir.ir.rewrite import Rewriter, Variants, facts_of
from distir.ops import OPS, type_of
from distir.transform.zero.groups import WeightGroup, needed_whole
from distir.transform.zero.partition import Owner, Partition
from distir.transform.zero.slots import Held, Partitioned, Slot, ranks_of


@dataclass(frozen=True, slots=True)
class _Use:
    """A statement that needs a whole weight: its number, and the name that it uses."""

    place: int
    name: str


@dataclass(frozen=True, slots=True)
class _Gathered:
    """A weight that is gathered once; by rank, the statements that use what it gets, of which there is one at least."""

    weight: int
    uses: Mapping[int, Sequence[_Use]]

    @property
    def users(self) -> dict[int, _Use]:
        """By rank: the first use."""
        return {rank: uses[0] for rank, uses in self.uses.items()}


@dataclass(slots=True)
class GatherAtUse:
    """Rewrites an entry function, and its callees, for weights of which each replica holds a part."""

    variants: Variants
    """The rewritten functions, by original function and the weights in its arguments."""
    partitioned: Partitioned
    states: Mapping[str, State]
    """The values of each function, by name."""

    def entry(self, entry: Function) -> Function:
        """The entry function, in which the names of weights mean parts. Its parameters are not changed here."""
        held = {
            name: Slot(number, rank)
            for number, group in enumerate(self.partitioned.groups)
            for rank, name in enumerate(group.weights)
        }
        own = {index for group in self.partitioned.groups for index in (*group.updates, *group.writes)}
        return _Body(self, entry, held, own).rewritten()

    def taking(self, name: str, helds: Sequence[Held | None]) -> Function:
        """The rewritten function for arguments that hold weights in tuples."""

        def written(function: Function) -> Function:
            held = {p.name: of for p, of in zip(function.params, helds, strict=True) if of is not None}
            left = [p for p in function.params if self.partitioned.remains(held.get(p.name))]
            params = [replace(p, type=self.partitioned.type(p.type, held.get(p.name))) for p in left]
            return replace(_Body(self, function, held, ()).rewritten(), params=tuple(params))

        return self.variants.of(name, self.partitioned.key(helds)[0], written)


class _Body:
    """Rewrites the body of one function. `own`: statements that are left unchanged."""

    def __init__(self, owner: GatherAtUse, function: Function, held: Mapping[str, Held], own: Collection[int]) -> None:
        self.owner, self.function, self.own = owner, function, own
        self.held: dict[str, Held] = dict(held)
        self.edit = Rewriter(function)
        self.sources: dict[str, str] = {}
        """By name of a cast weight: the weight. Casts move to the uses."""
        self.uses: dict[tuple[int, int], list[_Use]] = {}
        """By weight and rank: the statements that need it whole."""

    def rewritten(self) -> Function:
        """The function, with its old parameters."""
        for index, statement in self.edit:
            if index not in self.own:
                self.edit.replace(index, *self._handed_on(index, statement))
        renamed: dict[int, dict[str, str]] = {}
        for place, gathered in self._gathered():
            self._fetch(place, gathered, renamed)
        for place, instead in renamed.items():
            self.edit.rename(instead, [place])
        return self.edit.done(result_types=None)

    def _handed_on(self, index: int, statement: Statement) -> tuple[Statement, ...]:
        """The statement for parts if it passes weights on; nothing if it is written elsewhere."""
        used = [name for name in dict.fromkeys(names(operands(statement))) if name in self.held]
        if not used:
            return (statement,)
        match statement:
            case Apply(op="MakeTuple"):
                self.held[statement.results[0]] = packed = tuple(self._held(arg) for arg in statement.args)
                if not self.owner.partitioned.remains(packed):
                    return ()
                return (replace(statement, args=self._remaining(statement.args), claims=()),)
            case Apply(op="UnpackTuple"):
                held = self.held[used[0]]
                assert isinstance(held, tuple)
                made = list(zip(statement.results, held, strict=True))
                self.held |= {name: of for name, of in made if name != DISCARD and of is not None}
                if not self.owner.partitioned.remains(held):
                    return ()
                kept = tuple(name for name, of in made if self.owner.partitioned.remains(of))
                return (replace(statement, results=kept, claims=()),)
            case Apply(op="Cast") if self._narrows(statement, used[0]):
                slot = self.held[used[0]]
                assert isinstance(slot, Slot)
                self.held[statement.results[0]] = replace(slot, cast=statement.attrs)
                self.sources[statement.results[0]] = used[0]
                return ()
            case Call() if any(isinstance(self._held(arg), tuple) for arg in statement.args):
                helds = [of if isinstance(of := self._held(arg), tuple) else None for arg in statement.args]
                self._use(index, [name for name in used if isinstance(self.held[name], Slot)])
                left = zip(statement.args, helds, strict=True)
                args = tuple(arg for arg, of in left if self.owner.partitioned.remains(of))
                return (replace(statement, function=self.owner.taking(statement.function, helds).name, args=args),)
            case _:
                if isinstance(statement, Return) or any(isinstance(self.held[name], tuple) for name in used):
                    raise needed_whole(self.function, index, used[0])
                self._use(index, used)
                return (statement,)

    def _held(self, arg: Arg) -> Held | None:
        return self.held.get(arg) if isinstance(arg, str) else None

    def _remaining(self, args: Sequence[Arg]) -> tuple[Arg, ...]:
        """The items of a tuple: parts, in the type in which they are held."""
        kept = [arg for arg in args if self.owner.partitioned.remains(self._held(arg))]
        return tuple(self.sources.get(arg, arg) if isinstance(arg, str) else arg for arg in kept)

    def _narrows(self, cast: Apply, name: str) -> bool:
        """Whether a weight is cast to a narrower type than that in which it is held."""
        held, to = self.held[name], cast.attrs.get("to")
        if not isinstance(held, Slot) or held.cast is not None:
            return False
        whole = self.owner.partitioned.groups[held.weight].type
        known = whole.dtype if isinstance(whole, TensorType) else None
        return isinstance(to, DType) and known is not None and to.bytes < known.bytes

    def _use(self, index: int, used: Sequence[str]) -> None:
        for name in used:
            slot = self.held[name]
            assert isinstance(slot, Slot)
            self.uses.setdefault((slot.weight, slot.rank), []).append(_Use(index, name))

    def _gathered(self) -> Iterator[tuple[int, _Gathered]]:
        """What is gathered at once, and before which statement: for each use, or for calls that follow each other.

        All replicas run the same program, so their first uses are gathered together, then their second ones, and so on.
        Devices need not share all weights with the same others, as where replicas share experts: each one gathers all
        that a statement uses at one place, in the order in which it uses them.
        """
        weights = dict.fromkeys(weight for weight, _ in self.uses)
        found = [gathered for weight in weights for gathered in self._of_weight(weight)]
        first: dict[int, int] = {}
        """By statement: one before which all is gathered that is gathered together with what it uses."""

        def place(of: int) -> int:
            while of in first:
                of = first[of]
            return of

        for gathered in found:
            places = {place(use.place) for use in gathered.users.values()}
            first |= dict.fromkeys(places - {min(places)}, min(places))
        turns = self._turns()
        for gathered in sorted(found, key=lambda gathered: turns[gathered.weight]):
            yield place(next(iter(gathered.users.values())).place), gathered

    def _turns(self) -> dict[int, int]:
        """By weight: how many others its devices use before it."""
        used, turns = Counter[int](), dict[int, int]()
        for weight, rank in self.uses:
            device = self.owner.partitioned.groups[weight].devices[rank]
            turns[weight] = min(turns.get(weight, used[device]), used[device])
            used[device] += 1
        return turns

    def _of_weight(self, weight: int) -> Iterator[_Gathered]:
        ranks = range(len(self.owner.partitioned.groups[weight].devices))
        for together in zip_longest(*(self._shared(weight, rank) for rank in ranks)):
            yield _Gathered(weight, {rank: uses for rank, uses in enumerate(together) if uses is not None})

    def _fetch(self, place: int, gathered: _Gathered, renamed: dict[int, dict[str, str]]) -> None:
        """Gather a weight before a statement; the gathered copy is freed after its uses."""
        weight, users = gathered.weight, gathered.users
        group, partition = self.owner.partitioned.groups[weight], self.owner.partitioned.partitions[weight]
        sources = self._parts(place, weight, users)
        wholes = {
            rank: sources[rank]
            if isinstance(partition, Owner) and partition.rank == rank
            else self.edit.fresh(f"{use.name}_{'sent' if isinstance(partition, Owner) else 'whole'}")
            for rank, use in users.items()
        }
        for rank, uses in gathered.uses.items():
            for use in uses:
                renamed.setdefault(use.place, {})[use.name] = wholes[rank]
        fetched = {rank: name for rank, name in wholes.items() if name != sources[rank]}
        if fetched:
            facts = replace(facts_of(self.edit[place]), of="")  # which weight this is follows
            self.edit.before(place, fetching(group, partition, sources, fetched), facts=facts)

    def _shared(self, weight: int, rank: int) -> list[list[_Use]]:
        """The uses of a weight: calls between which its device computes nothing are together."""
        found: list[list[_Use]] = []
        for use in self.uses.get((weight, rank), ()):
            before = found[-1][-1] if found else None
            if before is not None and before.name == use.name and self._follows(before, use):
                found[-1].append(use)
            else:
                found.append([use])
        return found

    def _follows(self, use: _Use, later: _Use) -> bool:
        """Whether the device calls a function for a use and then, next, for a later one; other devices may do more."""
        body, device = self.function.body, types.device_of(self._type(use.name))
        if not isinstance(body[use.place], Call) or not isinstance(body[later.place], Call):
            return False
        return all(self._is_passed_over(body[place], device) for place in range(use.place + 1, later.place))

    def _is_passed_over(self, statement: Statement, device: Device) -> bool:
        """Whether a statement computes nothing on a device."""
        if isinstance(statement, Apply) and statement.op in OPS and OPS[statement.op].view:
            return True
        used = (self._type(name) for name in (*names(operands(statement)), *results(statement)) if name != DISCARD)
        return device is not None and all(device not in types.devices(each) for each in used)

    def _type(self, name: str) -> Type:
        return type_of(self.owner.states[self.function.name][name])

    def _parts(self, place: int, weight: int, users: Mapping[int, _Use]) -> list[str]:
        """By rank: the part of a weight, cast if its users cast it; absent if another replica owns the weight."""
        casts = [of.cast for use in users.values() if isinstance(of := self.held[use.name], Slot)]
        found: list[str] = []
        for rank in range(len(self.owner.partitioned.groups[weight].devices)):
            if not self.owner.partitioned.remains(Slot(weight, rank)):
                found.append(DISCARD)
                continue
            # A replica that does not use the weight here holds it under another name.
            name = users[rank].name if rank in users else self._name(weight, rank)
            found.append(self.sources.get(name, name))
            if casts[0] is not None:
                part = self.edit.fresh(f"{name}_part")
                facts = replace(facts_of(self.edit[place]), of="")
                self.edit.before(place, Apply((part,), "Cast", (found[-1],), casts[0]), facts=facts)
                found[-1] = part
        return found

    def _name(self, weight: int, rank: int) -> str:
        return next(
            name
            for name, of in self.held.items()
            if isinstance(of, Slot) and (of.weight, of.rank) == (weight, rank) and name not in self.sources
        )


def fetching(group: WeightGroup, partition: Partition, sources: Sequence[str], results: Mapping[int, str]) -> Apply:
    """The statement that gathers a weight into `results` on each replica, from the parts in `sources`."""
    if isinstance(partition, Owner):
        return spread(sources[partition.rank], group.devices, partition, results)
    whole = [results.get(rank, DISCARD) for rank in range(len(group.devices))]
    return group.replicas.collective("MPIAllgather", whole, sources, axis=partition.axis)


def spread(source: str, devices: Sequence[int], owner: Owner, results: Mapping[int, str]) -> Apply:
    """The statement that broadcasts a weight from its owner to the ranks in `results`."""
    if len(results) == 1:
        ((rank, name),) = results.items()
        return Apply((name,), "Send", (source,), Attributes({"device": devices[rank]}))
    ranks = sorted({owner.rank, *results})
    found = tuple(results.get(rank, DISCARD) for rank in ranks)
    return Apply(found, "MPIBroadcast", (source,), Attributes({"devices": tuple(devices[rank] for rank in ranks)}))


def handing_on(module: Module, entry: Function, partitioned: Partitioned) -> set[str]:
    """The functions that pass weights directly to layers: a pipeline's passes of a stage, but not its rounds.

    And those that take the weight of some replicas only, in which no collective over all replicas can be placed.
    """
    found: set[str] = set()
    calls: dict[str, set[str]] = {}
    seen: set[tuple[str, Hashable]] = set()
    first: dict[str, Held] = {
        name: Slot(number, rank)
        for number, group in enumerate(partitioned.groups)
        for rank, name in enumerate(group.weights)
    }
    waiting: list[tuple[Function, dict[str, Held]]] = [(entry, first)]
    while waiting:
        function, held = waiting.pop()
        for statement in function.body:
            made: Sequence[Held | None] = ()
            of = [held.get(arg) if isinstance(arg, str) else None for arg in operands(statement)]
            match statement:
                case Apply(op="MakeTuple"):
                    made = (tuple(of),) if any(of) else ()
                case Apply(op="Cast"):
                    made = of[:1]
                case Apply(op="UnpackTuple") if isinstance(of[0], tuple):
                    made = of[0]
                case Call():
                    helds = [item if isinstance(item, tuple) else None for item in of]
                    key = statement.function, partitioned.key(helds)[0]
                    if any(helds):
                        calls.setdefault(function.name, set()).add(statement.function)
                    if any(helds) and key not in seen:
                        seen.add(key)
                        if any(len(r) < len(partitioned.groups[w].devices) for w, r in ranks_of(tuple(helds)).items()):
                            found.add(statement.function)
                        callee = module.functions[statement.function]
                        pairs = zip(callee.params, helds, strict=True)
                        waiting.append((callee, {p.name: item for p, item in pairs if item is not None}))
                case _:
                    pass
            held |= {name: item for name, item in zip(results(statement), made, strict=False) if item is not None}
    taking = {name for names in calls.values() for name in names}
    return found | {name for name in taking if name not in calls}
