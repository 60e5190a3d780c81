"""Memory that ops on streams other than the compute stream keep in use.

A caching allocator reuses memory in program order: memory that an op on another stream reads or writes must not be
reused before that op is known to have ended. An op on such a stream, if it makes a value, is *pending* until a later op
on the compute stream waits for it: one that uses a value which depends on it. That op counts as using all that the
pending one uses. What nothing waits for is pending until the program ends. Knows storages by number, and no sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
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

FIRST: Leaves = (0,)
"""The only pending op of some."""

NOTHING = frozenset[int]()


@dataclass(slots=True)
class PendingOps:
    """The pending ops of a function, statement by statement."""

    pendings: list[Pending] = field(default_factory=list[Pending])
    """Those that are given first."""
    given: int = 0
    """How many are given."""
    depends: dict[int, frozenset[int]] = field(default_factory=dict[int, frozenset[int]])
    """By storage: the pending ops that it depends on, as far as nothing has waited for them."""
    aside: set[int] = field(default_factory=set[int])
    """The storages that have depended on any."""
    settled: dict[int, int] = field(default_factory=dict[int, int])
    """By pending op: the statement that waits for it."""
    waited: dict[int, Leaves] = field(default_factory=dict[int, Leaves])
    """By statement that waits for pending ops: what they use."""
    _dependent: dict[int, list[int]] = field(default_factory=dict[int, "list[int]"], init=False)
    """By pending op: the storages that depend on it, or have."""
    _users: dict[int, list[int]] = field(default_factory=dict[int, "list[int]"], init=False)
    """By storage: the pending ops that use it, of the first `_listed` ones."""
    _listed: int = field(default=0, init=False)

    @classmethod
    def of(cls, given: Given) -> PendingOps:
        """At the start of a function."""
        pendings = [Pending(-1, uses) for uses in given.uses]
        found = cls(pendings, len(pendings))
        for storage, numbers in given.depends:
            found._depend((storage,), frozenset(numbers))
        return found

    def unsettled(self, storages: Iterable[int]) -> list[int]:
        """The pending ops that some storages depend on."""
        depends = self.depends
        if not depends:
            return []
        known = depends.keys() & storages
        return sorted(frozenset[int]().union(*[depends[s] for s in known])) if known else []

    def _depend(self, storages: Iterable[int], numbers: frozenset[int]) -> None:
        """Record the pending ops that some storages depend on, one or more."""
        self.aside.update(storages)
        for storage in storages:
            self.depends[storage] = numbers
            for number in numbers:
                self._dependent.setdefault(number, []).append(storage)

    def settle(self, index: int, storages: Iterable[int]) -> None:
        """A statement waits for all that these depend on."""
        self._settle(index, self.unsettled(storages))

    def _settle(self, index: int, numbers: Iterable[int]) -> None:
        uses: list[int] = [*self.waited.get(index, ())]
        for number in numbers:
            self.settled[number] = index
            uses += self.pendings[number].uses
            for storage in self._dependent.pop(number, ()):
                rest = self.depends.pop(storage, NOTHING) - {number}
                if rest:
                    self.depends[storage] = rest
        if uses:
            self.waited[index] = tuple(dict.fromkeys(uses))

    def start(self, index: int, operands: Leaves, made: Sequence[int]) -> None:
        """An op on another stream starts, and makes these."""
        if made:
            number = len(self.pendings)
            depends = frozenset((*self.unsettled(operands), number)) if self.depends else frozenset((number,))
            uses = tuple([s for s in dict.fromkeys((*operands, *made)) if s != NO_STORAGE])
            self.pendings.append(Pending(index, uses))
            self._depend(made, depends)

    def derive(self, operands: Leaves, made: Sequence[int]) -> None:
        """Something that takes no time makes these."""
        found = self.unsettled(operands) if made else []
        if found:
            self._depend(made, frozenset(found))

    def give(
        self, given: Mapping[int, object], arguments: Leaves, sizes: Sequence[tuple[int, int]]
    ) -> tuple[Given, list[int], Leaves]:
        """The pending state of a call, the pending ops by number, and the storages that are no arguments.

        `given`: the arguments, to look them up.
        """
        depends, pendings = self.depends, self.pendings
        dependent = depends.keys() & given.keys()
        if not dependent:
            return NOTHING_GIVEN, [], ()
        numbers = sorted(frozenset[int]().union(*[depends[s] for s in dependent]))
        if len(numbers) == 1:
            return self._give_one(numbers[0], dependent, given, arguments, sizes)
        used = tuple(dict.fromkeys([s for number in numbers for s in pendings[number].uses]))
        hidden = tuple([s for s in used if s not in given])
        theirs = dict(zip(arguments, count()))
        theirs.update(zip(hidden, count(len(arguments))))
        place = dict(zip(numbers, count()))
        dependent.update([s for s in hidden if s in depends])
        return (
            Given(
                tuple([sizes[s] for s in hidden]),
                tuple([tuple([theirs[s] for s in pendings[number].uses]) for number in numbers]),
                tuple(sorted([(theirs[s], tuple([place[n] for n in sorted(depends[s])])) for s in dependent])),
            ),
            numbers,
            hidden,
        )

    def _give_one(
        self,
        number: int,
        dependent: Iterable[int],
        given: Mapping[int, object],
        arguments: Leaves,
        sizes: Sequence[tuple[int, int]],
    ) -> tuple[Given, list[int], Leaves]:
        """The same of one pending op, as most often."""
        places, hidden, depends = list[int](), list[int](), list[tuple[int, Leaves]]()
        for storage in self.pendings[number].uses:
            if storage in given:
                places.append(arguments.index(storage))
                continue
            place = len(arguments) + len(hidden)
            places.append(place)
            hidden.append(storage)
            if storage in self.depends:
                depends.append((place, FIRST))
        depends += [(arguments.index(storage), FIRST) for storage in dependent]
        depends.sort()
        return Given(tuple([sizes[s] for s in hidden]), (tuple(places),), tuple(depends)), [number], tuple(hidden)

    def after(self, places: Mapping[int, int]) -> LeftPending:
        """What a caller needs to know. `places`: by storage that it knows, where that is for it."""
        known = self.depends.keys() & places.keys()
        return LeftPending(
            tuple([number for number in range(self.given) if number in self.settled]),
            tuple([(number, tuple([places[s] for s in self.pendings[number].uses])) for number in self.left]),
            tuple([(places[storage], tuple(self.depends[storage])) for storage in known]),
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
        for number, pending in enumerate(self.pendings):
            # Of what is given, and left pending here, the caller knows.
            settled = self.settled.get(number, end if number >= self.given else -1)
            for storage in pending.uses:
                found[storage] = max(found.get(storage, -1), settled)
        return found

    def others(self, storage: int, index: int) -> bool:
        """Whether an op that was pending before a statement, and that it does not wait for, uses a storage."""
        for number in range(self._listed, len(self.pendings)):
            for used in self.pendings[number].uses:
                self._users.setdefault(used, []).append(number)
        self._listed = len(self.pendings)
        return any(
            self.pendings[number].since < index and self.settled.get(number, index + 1) > index
            for number in self._users.get(storage, ())
        )
