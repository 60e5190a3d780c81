"""A function's body cut into blocks of statements, each as if it were a function that is called once.

A call means the same as its inlined body, in time and in memory, so a block can be simulated by the rules for calls:
its effect depends on its statements, on its operands, on which of these share memory and whether that memory is freed
or donated, and on which of its results are needed later. In the next version of a program, blocks whose statements are
unchanged are reused.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import count

from distir.analysis import Instance, State
from distir.analysis.revision import change
from distir.ir import DISCARD, UNKNOWN, Call, Function, Param, Return, Statement, names, operands, results
from distir.simulate.body import Body
from distir.simulate.effects import DataFlow, Effect
from distir.simulate.late import Late, LateMapping
from distir.simulate.leaves import Leaves

LEAST = 16
"""How many statements a block has at least, when a body is cut."""

_NUMBERS = count()


@dataclass(eq=False)
class Block:
    """Some statements of a body, which follow each other. Blocks are distinguished by identity."""

    statements: Sequence[Statement]
    _call: Call | None = None

    def __post_init__(self) -> None:
        defined: dict[str, None] = {}
        takes: dict[str, None] = {}
        for statement in self.statements:
            takes.update((name, None) for name in names(operands(statement)) if name not in defined)
            defined.update(dict.fromkeys(results(statement)))
        self.takes = tuple(takes)
        """The names of the values that it needs from outside."""
        self.taken = frozenset(takes)
        self.order = {name: number for number, name in enumerate(defined) if name != DISCARD}
        """The values that it defines, by name, in order."""
        self.defined = frozenset(self.order)
        self.calls = frozenset(s.function for s in self.statements if isinstance(s, Call))

    def call(self, wanted: frozenset[str]) -> Call:
        """The call that represents the block where these of its values are needed later; the same while they are."""
        given = tuple(sorted(wanted, key=self.order.__getitem__))
        if self._call is None or self._call.results != given:
            self._call = Call(given, f"block {next(_NUMBERS)}", self.takes)
        return self._call


@dataclass(frozen=True, slots=True)
class BlockedFunction:
    """A function of which the body is calls of blocks."""

    function: Function
    """As it is written."""
    blocks: Sequence[Block]
    calls: Function

    @classmethod
    def of(cls, function: Function, blocks: Sequence[Block]) -> BlockedFunction:
        """The function of these blocks; its last statement, which returns, is in none of them."""
        last = function.body[-1]
        needed = set(names(operands(last)))
        calls: list[Statement] = [last]
        for block in reversed(blocks):
            calls.append(block.call(block.defined & needed))
            needed |= block.taken
        return cls(function, blocks, Function(function.name, function.params, tuple(reversed(calls))))

    def revised(self, function: Function, changed: Set[str]) -> BlockedFunction:
        """The next version of it: blocks that an edit did not reach, and that call no `changed` function, stay."""
        found: list[Block] = []
        size = size_of_blocks(len(function.body))
        edit = change(self.function.body, function.body)
        start = old_start = 0
        for block in self.blocks:
            old_end = old_start + len(block.statements)
            is_last = block is self.blocks[-1]
            end = len(function.body) - 1 if is_last else min(edit.new_boundary(old_end), len(function.body) - 1)
            same = end - start == len(block.statements) and not edit.changes(old_start, old_end)
            if same and changed.isdisjoint(block.calls):
                found.append(block)
            else:
                found += cut(function.body[start:end], size)
            start, old_start = end, old_end
        return BlockedFunction.of(function, found)


def outlined(function: Function) -> BlockedFunction | None:
    """A function cut into blocks; None for a short one, which would be a single block."""
    size = size_of_blocks(len(function.body))
    if len(function.body) <= 2 * size or not isinstance(function.body[-1], Return):
        return None
    return BlockedFunction.of(function, list(cut(function.body[:-1], size)))


def size_of_blocks(statements: int) -> int:
    """The number of statements in a block: balances the costs of an edit inside it and over all blocks."""
    return max(LEAST, 2 * math.isqrt(statements))


def cut(statements: Sequence[Statement], size: int) -> Iterator[Block]:
    """Blocks of some statements, of up to twice as many as `size`."""
    start = 0
    while len(statements) - start > 2 * size:
        yield Block(statements[start : start + size])
        start += size
    if start < len(statements):
        yield Block(statements[start:])


def instance_of(block: Block, call: Call, caller: Instance) -> Instance:
    """A block as the instance of a function, in the instance of the one that it is cut from."""
    state = caller.state
    args = state(call.args)
    function = Function(
        call.function,
        tuple([Param(name, UNKNOWN) for name in block.takes]),
        (*block.statements, Return(call.results)),
    )
    own = State((), (), state.semantics)
    own.update((name, state[name]) for name in (*block.takes, *block.order))
    own.returned = own(call.results)
    return Instance(function, args, caller.dims, own)


def joined(calls: Body, instance: Instance) -> Body:
    """The body of a function as written, from the body of its blocks' calls.

    Properties of the whole body are those of its blocks; properties of statements are computed on demand.
    """
    storages = Late(lambda: (_Numbered(calls),))
    streamed = calls.streamed or any(isinstance(block, Body) and block.streamed for block in calls.steps)
    body = Body(
        instance,
        calls.parameters,
        Late(lambda: _steps(calls)),
        Late(lambda: storages[0].sizes),
        Late(lambda: storages[0].taken),
        Late(lambda: storages[0].given),
        LateMapping(lambda: storages[0].moved),
        LateMapping(lambda: storages[0].arguments),
        LateMapping(lambda: storages[0].created),
        calls.live_out,
        calls.pinned,
        calls.passed_on,
        LateMapping(lambda: storages[0].order),
        LateMapping(lambda: storages[0].flow) if streamed else {},
        calls.edge,
        blocks=calls,
    )
    vars(body).update(events=calls.events, ops=calls.ops, memory=calls.memory, streamed=streamed)
    vars(body).update(summaries=calls.summaries, summaries_alone=calls.summaries_alone)
    return body


def _steps(calls: Body) -> list[Effect | Body | None]:
    """The steps of all blocks, and the return."""
    found: list[Effect | Body | None] = []
    for block in calls.steps:
        found += block.steps[:-1] if isinstance(block, Body) else (None,)
    return found


class _Numbered:
    """The effects of a body's statements on its storages: first those of the blocks' calls, then those inside."""

    def __init__(self, calls: Body) -> None:
        self.sizes = [*calls.sizes]
        self.taken: list[Leaves] = []
        self.given: list[Leaves] = []
        self.moved: dict[int, tuple[tuple[int, int], ...]] = {}
        self.arguments: dict[int, Leaves] = {}
        self.created: dict[int, tuple[tuple[int, int], ...]] = {}
        self.order: dict[int, Leaves] = {}
        self.flow: dict[int, DataFlow] = {}
        for index, block in enumerate(calls.steps):
            if isinstance(block, Body):
                self._add(block, dict(enumerate(calls.arguments[index])) | dict(calls.created[index]))
            else:
                self.taken.append(())
                self.given.append(())

    def _add(self, block: Body, ours: dict[int, int]) -> None:
        """The statements of a block. `ours`: its storages that others know, by its numbers."""
        for storage, size in enumerate(block.sizes):
            if storage not in ours:
                ours[storage] = len(self.sizes)
                self.sizes.append(size)
        first = len(self.taken)
        for index in range(len(block.steps) - 1):
            self.taken.append(tuple([ours[s] for s in block.taken[index]]))
            self.given.append(tuple([ours[s] for s in block.given[index]]))
        for index, pairs in block.moved.items():
            self.moved[first + index] = tuple([(ours[new], ours[old]) for new, old in pairs])
        for index, storages in block.arguments.items():
            self.arguments[first + index] = tuple([ours[s] for s in storages])
        for index, pairs in block.created.items():
            self.created[first + index] = tuple([(theirs, ours[mine]) for theirs, mine in pairs])
        for index, flow in block.flow.items():
            awaited, made = (tuple([ours[s] for s in storages]) for storages in (flow.awaited, flow.made))
            self.flow[first + index] = DataFlow(flow.stream, awaited, made)
        for index in block.moved:
            made = sorted([*block.taken[index], *(new for new, _ in block.moved[index])])
            self.order[first + index] = tuple([ours[s] for s in made])
