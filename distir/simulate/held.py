"""Memory that ops on streams other than the compute stream keep in use.

A caching allocator reuses memory in program order: memory that an op on another stream reads or writes must not be
reused before that op is known to have ended. Each device holds its own part until it waits for the op, as PyTorch does:
`WorkNCCL` keeps the tensors of a communication in a `TensorShelf` until `wait()` (ProcessGroupNCCL.hpp).

- An op on such a stream that makes a value is *pending* on each of its devices until a later op on the compute stream
  of that device waits for it: one that uses a value there which depends on it. That op counts as using all that the
  pending one uses of the device's memory.
- Where an op makes nothing, such as a `Send` on the sender, nothing there can use what it makes. The device waits for
  it when it puts the next such op on that stream, as Megatron-LM does with `send_next_wait_handle`
  (megatron/core/pipeline_parallel/schedules.py, `overlap_p2p_comm`).
- What nothing waits for is pending until the program ends.

So a device's use of memory follows from the order of its own statements; those of other devices may stand anywhere.
Knows storages by number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain, count
from typing import NamedTuple

from distir.simulate.effects import hosts_memory
from distir.simulate.leaves import NO_STORAGE, Leaves


class Pending(NamedTuple):
    """An op that is pending on a device: the statement that issued it (-1: before the call), and what it uses there."""

    since: int
    uses: Leaves


class Given(NamedTuple):
    """The pending ops at a call on which its arguments depend.

    `hidden`: memory and bytes of storages that pending ops use and that are no arguments; they come after those of the
    parameters. `uses`: by pending op, storages. `depends`: storages, each with the pending ops that it depends on.
    `sent`: as `PendingOps.sent`, by stream.
    """

    hidden: tuple[tuple[int, int], ...] = ()
    uses: tuple[Leaves, ...] = ()
    depends: tuple[tuple[int, Leaves], ...] = ()
    sent: tuple[tuple[str, Leaves], ...] = ()


class LeftPending(NamedTuple):
    """Pending ops after a call.

    `settled`: those given that it has waited for; `left`: those that it leaves, each with the storages used; `depends`:
    storages, each with the pending ops that it depends on; `sent`: as `PendingOps.sent`, by stream.
    """

    settled: Leaves
    left: tuple[tuple[int, Leaves], ...]
    depends: tuple[tuple[int, Leaves], ...]
    sent: tuple[tuple[str, Leaves], ...]


NOTHING_GIVEN = Given()

NOTHING = frozenset[int]()

Sender = tuple[int, str]
"""A device, by its memory, and a stream on which it puts ops that make nothing there."""


@dataclass(slots=True)
class PendingOps:
    """The pending ops of a function, statement by statement."""

    sizes: Sequence[tuple[int, int]] = ()
    """Memory and bytes of each storage; more are added from outside."""
    pendings: list[Pending] = field(default_factory=list[Pending])
    """Those that are given first."""
    given: int = 0
    """How many are given."""
    depends: dict[int, frozenset[int]] = field(default_factory=dict[int, frozenset[int]])
    """By storage: the ops that it depends on, which were pending as it was made."""
    aside: set[int] = field(default_factory=set[int])
    """The storages that may depend on pending ops, or that no op on the compute stream has used yet."""
    sent: dict[Sender, Leaves] = field(default_factory=dict[Sender, Leaves])
    """The last op that makes nothing on the device, behind those there that it depends on."""
    sends: set[Sender] = field(default_factory=set[Sender])
    """Those from which ops are put here, or in calls."""
    settled: dict[int, int] = field(default_factory=dict[int, int])
    """By pending op: the statement that waits for it."""
    waited: dict[int, Leaves] = field(default_factory=dict[int, Leaves])
    """By statement that waits for pending ops: what they use."""

    @classmethod
    def of(cls, given: Given, sizes: Sequence[tuple[int, int]]) -> PendingOps:
        """At the start of a function."""
        pendings = [Pending(-1, uses) for uses in given.uses]
        found = cls(sizes, pendings, len(pendings))
        for storage, numbers in given.depends:
            found._depend((storage,), frozenset(numbers))
        for stream, numbers in given.sent:
            found.sent[found._sender(stream, numbers)] = numbers
        return found

    def _home(self, storage: int) -> int:
        """The memory of the device that a storage belongs to, though it be in its host's."""
        memory = self.sizes[storage][0]
        return memory if memory >= 0 else hosts_memory(memory)

    def _sender(self, stream: str, numbers: Sequence[int]) -> Sender:
        return self._home(self.pendings[numbers[-1]].uses[0]), stream

    def _by_device(self, storages: Iterable[int]) -> dict[int, list[int]]:
        """Storages by the memory of their devices."""
        found: dict[int, list[int]] = {}
        for storage in dict.fromkeys(storages):
            if storage != NO_STORAGE:
                found.setdefault(self._home(storage), []).append(storage)
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

    def _unsettled(self, numbers: Leaves) -> Leaves:
        return tuple([number for number in numbers if number not in self.settled])

    def sent_before(self, senders: Set[Sender]) -> tuple[tuple[str, Leaves], ...]:
        """What of `sent` is pending, of those from which a call sends, by stream."""
        known = self.sent.keys() & senders
        return tuple(sorted([(sender[1], self._unsettled(self.sent[sender])) for sender in known]))

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

    def start(self, index: int, stream: str, operands: Leaves, made: Sequence[int]) -> None:
        """An op on another stream starts, and makes these."""
        makes = self._by_device(made)
        for device, uses in self._by_device((*operands, *made)).items() if made else ():
            number, before = len(self.pendings), self.unsettled(uses)
            self.pendings.append(Pending(index, tuple(uses)))
            if device in makes:
                self._depend(makes[device], frozenset((*before, number)))
            else:
                self._settle(index, self._unsettled(self.sent.get((device, stream), ())))
                self.sent[device, stream] = (*sorted(before), number)
                self.sends.add((device, stream))

    def derive(self, operands: Leaves, made: Sequence[int]) -> None:
        """Something that takes no time makes these."""
        used = self._by_device(operands) if made else {}
        for device, made_there in self._by_device(made).items() if used else ():
            found = self.unsettled(used.get(device, ()))
            if found:
                self._depend(made_there, frozenset(found))

    def give(
        self, given: Mapping[int, object], sent: tuple[tuple[str, Leaves], ...] = ()
    ) -> tuple[Given, list[int], Leaves]:
        """The pending state of a call, the pending ops by number, and the storages that are no arguments.

        `given`: the arguments, in order. `sent`: what is pending that the call waits for as it sends (`sent_before`).
        """
        depends = self.pending(given.keys()) if self.depends else {}
        if not depends and not sent:
            return NOTHING_GIVEN, [], ()
        numbers = sorted(NOTHING.union(*depends.values(), *[before for _, before in sent]))
        uses = [self.pendings[number].uses for number in numbers]
        used = dict.fromkeys([*chain.from_iterable(uses), *depends])
        hidden = tuple([s for s in used if s not in given])
        theirs = dict(zip([*given, *hidden], count()))
        depends.update(self.pending(hidden))
        order = dict(zip(numbers, count()))
        places = {ns: tuple(sorted([order[n] for n in ns])) for ns in {*depends.values()}}
        return (
            Given(
                tuple([self.sizes[s] for s in hidden]),
                tuple([tuple([theirs[s] for s in used]) for used in uses]),
                tuple(sorted([(theirs[s], places[ns]) for s, ns in depends.items()])),
                tuple([(stream, tuple([order[n] for n in before])) for stream, before in sent]),
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
            self.sent_before(self.sent.keys()),
        )

    def called(self, index: int, callee: LeftPending, numbers: Sequence[int], ours: Sequence[int]) -> None:
        """A call has returned that was given these pending ops; `ours`: our storages, by the callee's places."""
        if callee.settled:
            self._settle(index, [numbers[number] for number in callee.settled])
        if callee.depends or callee.left or callee.sent:
            place = dict(enumerate(numbers))
            for number, uses in callee.left:
                place[number] = len(self.pendings)
                self.pendings.append(Pending(index, tuple([ours[at] for at in uses])))
            for at, pending in callee.depends:
                self._depend((ours[at],), frozenset([place[number] for number in pending]))
            for stream, pending in callee.sent:
                before = tuple([place[number] for number in pending])
                self.sent[self._sender(stream, before)] = before

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
