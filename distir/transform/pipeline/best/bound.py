"""How long a pipeline takes at least, in any order."""

from __future__ import annotations

from typing import Any, NamedTuple

from distir.transform.pipeline.best.problem import OrderProblem
from distir.transform.pipeline.passes import Pass

FORWARD, BACKWARD, WEIGHT = Pass


def lower_bound(problem: OrderProblem) -> int:
    """The largest of several bounds: that of one microbatch, and for each device those of its work and its memory."""
    every = range(problem.stages)
    found = problem.of(every, FORWARD, BACKWARD) + problem.of(range(1), WEIGHT)
    for stages in problem.own:
        found = max(found, _of_work(problem, stages), _of_memory(problem, stages), _of_whole_places(problem, stages))
    return found


def _of_work(problem: OrderProblem, stages: tuple[int, ...]) -> int:
    """A device cannot start before a microbatch has come to it.

    When it is done with its backward passes, the last of them still goes back to the first stage.
    """
    head = min(problem.of(range(stage), FORWARD) for stage in stages)
    through = problem.count * problem.work(stages, FORWARD, BACKWARD)
    # What the device sends last is in its own work, and in that of the stage which receives it.
    tail = min(problem.of(range(stage), BACKWARD) - problem.received(stage - 1, BACKWARD) for stage in stages)
    tail += problem.of(range(1), WEIGHT)
    if 0 in stages:
        tail = min(problem.of(range(1), WEIGHT), tail)
    return head + max(through + problem.count * problem.work(stages, WEIGHT), through + tail)


def _of_memory(problem: OrderProblem, stages: tuple[int, ...]) -> int:
    """A microbatch is held from its forward pass to its gradients of weights, at least for the way there and back.

    So many of these times fit into what a device can hold, one beside the other.
    """
    last = problem.stages
    held = sum(
        problem.of(range(stage, last), FORWARD, BACKWARD) + problem.of(range(stage, stage + 1), WEIGHT)
        for stage in stages
    )
    limit = held_at_most(problem, stages)
    return limit.head + -(-(problem.count * held + limit.lost) // limit.room)


def _of_whole_places(problem: OrderProblem, stages: tuple[int, ...]) -> int:
    """A microbatch between its passes in the j-th stage of a device is held in all j: so few are there at once.

    Its backward pass there comes before those in the stages before it, after which these let go of it. With room for 5
    and two stages, 2 microbatches are in the second one, not 2.5 as an average over time would allow. Where one takes
    all the room, the next one comes there only once its last gradients of weights are done.
    """
    found, first = 0, min(stages)
    for j, stage in enumerate(sorted(stages), 1):
        together = min(problem.room // j, problem.count)
        if not together:
            continue  # no order fits
        itself = range(stage, stage + 1)
        held = problem.of(range(stage, problem.stages), FORWARD, BACKWARD)
        back = held + problem.of(range(first, stage), BACKWARD)
        alone = back + problem.of(range(first, first + 1), WEIGHT) if problem.room == j else held
        apart = problem.of(itself, FORWARD, BACKWARD) * (together * (together - 1) // 2)
        last = held + max(problem.of(range(stage), BACKWARD) + problem.of(range(1), WEIGHT), problem.of(itself, WEIGHT))
        others = (problem.count - 1) * alone + held + apart
        found = max(found, problem.of(range(stage), FORWARD) + -(-others // together) + last - held)
    return found


class HoldingLimit(NamedTuple):
    """How long microbatches can be held on a device together, by how long all takes: (span - head) * room - lost."""

    room: int
    head: int
    lost: int

    def __call__(self, span: Any) -> Any:
        """The most for a span, or a variable of one."""
        return (span - self.head) * self.room - self.lost


def held_at_most(problem: OrderProblem, stages: tuple[int, ...]) -> HoldingLimit:
    """For the device of these stages. Its places are taken one after the other, and left one after the other."""
    room = min(problem.room, problem.count * len(stages))
    head = min(problem.of(range(stage), FORWARD) for stage in stages)
    apart = min(problem.of(range(s, s + 1), FORWARD) for s in stages)
    apart += min(problem.of(range(s, s + 1), WEIGHT) or problem.of(range(s, s + 1), BACKWARD) for s in stages)
    return HoldingLimit(room, head, apart * (room * (room - 1) // 2))
