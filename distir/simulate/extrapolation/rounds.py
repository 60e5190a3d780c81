"""The effect of further rounds of a pipeline on clocks, where values on other streams have clocks of their own.

Each round makes values that a later round uses, under new names. So before the second round there is a clock for each
value in flight, and after another round each of these clocks belongs to the value one round later. A round followed by
this renaming is a block, and its power is that many rounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import pairwise

from distir.simulate.algebra.clocks import Step, Summary, compose, power, ready
from distir.simulate.body import Body


def more_rounds(body: Body, row: Sequence[int], times: int, many: int) -> list[Step] | None:
    """The effect of additional rounds, inserted before the second one of a sequence; from `many` on as one block.

    `row`: the calls of the round, one after the other, all but the first and the last the same. None where the values
    under way are not the same in each round.
    """
    first = row[1]
    before = {storage for index in range(first) for storage in _made(body, index)}
    under_way = before & {s for index in range(first, len(body.steps)) for s in _awaited(body, index)}
    there = under_way.union(_made(body, first))
    following = _following(body, row, under_way)
    if following is None or any(following.get(storage) not in there for storage in under_way):
        return None
    move = body.moves[first]
    if move is None:
        return []
    steps = [move, *_renaming({s: following[s] for s in sorted(under_way) if following[s] != s})]
    return steps * times if times < many else [power(compose(steps), times)]


def _following(body: Body, row: Sequence[int], storages: Set[int]) -> Mapping[int, int] | None:
    """By storage, of some that rounds take or make: the one in its place a round later. None where that is not one."""
    found: dict[int, int] = {}
    taken: dict[int, int] = {}
    if not storages:
        return found
    for now, later in pairwise(row):
        one, other = body.steps[now], body.steps[later]
        if not isinstance(one, Body) or not isinstance(other, Body) or one.parameters != other.parameters:
            return None
        made = dict(body.created[later])
        pairs = [*zip(body.arguments[now], body.arguments[later], strict=True)]
        pairs += [(ours, made[theirs]) for theirs, ours in body.created[now] if theirs in made]
        for storage, next_one in pairs:
            if storage in storages:
                same = found.setdefault(storage, next_one) == next_one
                if not same or taken.setdefault(next_one, storage) != storage:
                    return None
    return found


def _awaited(body: Body, index: int) -> Iterable[int]:
    """The storages of which a statement awaits the clock."""
    step = body.steps[index]
    if isinstance(step, Body):
        return [body.arguments[index][storage] for storage in step.edge.awaited]
    flow = body.flow.get(index)
    return flow.awaited if flow is not None else ()


def _made(body: Body, index: int) -> Iterable[int]:
    """The storages of which a statement sets the clock."""
    step = body.steps[index]
    if isinstance(step, Body):
        made = dict(body.created[index])
        return [made[storage] for storage in step.edge.made]
    flow = body.flow.get(index)
    return flow.made if flow is not None else ()


def _renaming(following: Mapping[int, int]) -> list[Step]:
    """Each of some values gets the clock of the one that follows it; at once."""
    if not following:
        return []
    lanes = dict.fromkeys(ready(storage) for pair in following.items() for storage in pair)
    rows = tuple([((ready(later), 0),) for later in following.values()])
    ends = tuple([(ready(storage), row, 0) for row, storage in enumerate(following)])
    return [Summary(tuple(lanes), 0, rows, ends, (), {}, {}, {}, 0, None)]
