"""Memory that ops on streams other than the compute stream keep in use.

A caching allocator reuses memory in program order: memory that an op on another stream reads or writes must not be
reused before that op is known to have ended. An op on such a stream, if it makes a value, is *pending* until a later op
on the compute stream waits for it: one that uses a value which depends on it. That op counts as using all that the
pending one uses. What nothing waits for is pending until the program ends. Knows storages by number, and no sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain, count
from typing import NamedTuple

from distir.simulate.leaves import NO_STORAGE, Leaves


class Pending(NamedTuple):
    """A pending op: the statement that issued it (-1: before the call), and the storages that it uses."""

    since: int
    uses: Leaves


class Given(NamedTuple):
    """The pending ops at a call on which its arguments depend.

    `hidden`: memory and bytes of storages that pending ops use and that are no arguments; they come after those of the
    parameters. `uses`: by pending op, storages. `depends`: storages, each with the pending ops that it depends on.
    """

    hidden: tuple[tuple[int, int], ...] = ()
    uses: tuple[Leaves, ...] = ()
    depends: tuple[tuple[int, Leaves], ...] = ()


class LeftPending(NamedTuple):
    """Pending ops after a call.

    `settled`: those given that it has waited for; `left`: those that it leaves, each with the storages used; `depends`:
    storages, each with the pending ops that it depends on.
    """

    settled: Leaves
    left: tuple[tuple[int, Leaves], ...]
    depends: tuple[tuple[int, Leaves], ...]


NOTHING_GIVEN = Given()

NOTHING = frozenset[int]()


@dataclass(slots=True)
class PendingOps:
    """The pending ops of a function, statement by statement."""

    pendings: list[Pending] = field(default_factory=list[Pending])
    """Those that are given first."""
    given: int = 0
    """How many are given."""
    depends: dict[int, frozenset[int]] = field(default_factory=dict[int, frozenset[int]])
    """By storage: the ops that it depends on, which were pending as it was made."""
    aside: set[int] = field(default_factory=set[int])
    """The storages that may depend on pending ops, or that no op on the compute stream has used yet."""
    settled: dict[int, int] = field(default_factory=dict[int, int])
    """By pending op: the statement that waits for it."""
    waited: dict[int, Leaves] = field(default_factory=dict[int, Leaves])
    """By statement that waits for pending ops: what they use."""

    @classmethod
    def of(cls, given: Given) -> PendingOps:
        """At the start of a function."""
        pendings = [Pending(-1, uses) for uses in given.uses]
        found = cls(pendings, len(pendings))
        for storage, numbers in given.depends:
            found._depend((storage,), frozenset(numbers))
        return found

    def pending(self, storages: Iterable[int]) -> dict[int, frozenset[int]]:
        """Of these storages, those that depend on ops which nothing has waited for, each with those ops."""
        known = {storage: self.depends[storage] for storage in self.depends.keys() & storages}
        unsettled = {numbers: numbers.difference(self.settled) for numbers in {*known.values()}}  # few are distinct
        return {storage: unsettled[numbers] for storage, numbers in known.items() if unsettled[numbers]}

    def unsettled(self, storages: Iterable[int]) -> Set[int]:
        """The ops that some storages depend on, and nothing has waited for."""
        known = self.depends.keys() & storages
        return NOTHING.union(*[self.depends[s] for s in known]).difference(self.settled) if known else NOTHING

    def _depend(self, storages: Iterable[int], numbers: frozenset[int]) -> None:
        """Record the pending ops that some storages depend on, one or more."""
        self.aside.update(storages)
        self.depends.update(dict.fromkeys(storages, numbers))

    def settle(self, index: int, storages: Iterable[int]) -> None:
        """A statement on the compute stream waits for all that these depend on."""
        self._settle(index, self.unsettled(storages))
        self.aside.difference_update(storages)

    def _settle(self, index: int, numbers: Iterable[int]) -> None:
        uses: list[int] = [*self.waited.get(index, ())]
        for number in sorted(numbers):
            self.settled[number] = index
            uses += self.pendings[number].uses
        if uses:
            self.waited[index] = tuple(dict.fromkeys(uses))

    def start(self, index: int, operands: Leaves, made: Sequence[int]) -> None:
        """An op on another stream starts, and makes these."""
        if made:
            number = len(self.pendings)
            depends = frozenset((*self.unsettled(operands), number))
            uses = tuple([s for s in dict.fromkeys((*operands, *made)) if s != NO_STORAGE])
            self.pendings.append(Pending(index, uses))
            self._depend(made, depends)

    def derive(self, operands: Leaves, made: Sequence[int]) -> None:
        """Something that takes no time makes these."""
        found = self.unsettled(operands) if made else NOTHING
        if found:
            self._depend(made, frozenset(found))

    def give(self, given: Mapping[int, object], sizes: Sequence[tuple[int, int]]) -> tuple[Given, list[int], Leaves]:
        """The pending state of a call, the pending ops by number, and the storages that are no arguments.

        `given`: the arguments, in order.
        """
        depends = self.pending(given.keys()) if self.depends else None
        if not depends:
            return NOTHING_GIVEN, [], ()
        numbers = sorted(NOTHING.union(*depends.values()))
        uses = [self.pendings[number].uses for number in numbers]
        used = dict.fromkeys([*chain.from_iterable(uses), *depends])
        hidden = tuple([s for s in used if s not in given])
        theirs = dict(zip([*given, *hidden], count()))
        depends.update(self.pending(hidden))
        order = dict(zip(numbers, count()))
        places = {ns: tuple(sorted([order[n] for n in ns])) for ns in {*depends.values()}}
        return (
            Given(
                tuple([sizes[s] for s in hidden]),
                tuple([tuple([theirs[s] for s in used]) for used in uses]),
                tuple(sorted([(theirs[s], places[ns]) for s, ns in depends.items()])),
            ),
            numbers,
            hidden,
        )

    def after(self, places: Mapping[int, int]) -> LeftPending:
        """What a caller needs to know. `places`: by storage that it knows, where that is for it."""
        return LeftPending(
            tuple([number for number in range(self.given) if number in self.settled]),
            tuple([(number, tuple([places[s] for s in self.pendings[number].uses])) for number in self.left]),
            tuple([(places[storage], tuple(numbers)) for storage, numbers in self.pending(places.keys()).items()]),
        )

    def called(self, index: int, callee: LeftPending, numbers: Sequence[int], ours: Sequence[int]) -> None:
        """A call has returned that was given these pending ops; `ours`: our storages, by the callee's places."""
        if callee.settled:
            self._settle(index, [numbers[number] for number in callee.settled])
        if callee.depends or callee.left:
            place = dict(enumerate(numbers))
            for number, uses in callee.left:
                place[number] = len(self.pendings)
                self.pendings.append(Pending(index, tuple([ours[at] for at in uses])))
            for at, pending in callee.depends:
                self._depend((ours[at],), frozenset([place[number] for number in pending]))

    @property
    def left(self) -> list[int]:
        """The pending ops of this function that nothing here has waited for."""
        return [number for number in range(self.given, len(self.pendings)) if number not in self.settled]

    def until(self, end: int) -> dict[int, int]:
        """By storage that pending ops use: the statement that waits for the last of them; `end`: none here does."""
        found: dict[int, int] = {}
        # Of what is given, and left pending here, the caller knows.
        unsettled = [-1] * self.given + [end] * (len(self.pendings) - self.given)
        last = [*map(self.settled.get, count(), unsettled)]
        for number in sorted(range(len(last)), key=last.__getitem__):  # the latest counts
            found.update(dict.fromkeys(self.pendings[number].uses, last[number]))
        return found
