"""The rule of hosts and streams once more, as a machine runs it: a heap of events in the order of time, no algebra.

Streams and hosts are queues. What is at the head of all its queues, and has its operands, begins; its end is an event,
at which the next ones are looked at. Nothing here goes through the program in its order, as the oracle does.
"""

from collections import defaultdict, deque
from dataclasses import dataclass, field
from heapq import heappop, heappush


@dataclass(eq=False)
class Task:
    """An op, what a host does to issue it, or compute that gets on later beside it."""

    queues: list
    ticks: int
    waits_for: int = 0
    """How many tasks it needs that have not ended."""
    needed_by: list = field(default_factory=list)
    start: int | None = None


def starts_of(ops):
    """When each op begins, in ticks, and when the last stream is done. `ops`: an oracle's that occupy devices."""
    queues, makers, found = defaultdict(deque), {}, []

    def put(task, after=()):
        for other in after:
            other.needed_by.append(task)
        task.waits_for = len(after)
        for queue in task.queues:
            queues[queue].append(task)
        return task

    tasks = []
    for op in ops:
        hosts = list(zip(op.devices, op.issue, strict=True))
        issuing = [put(Task([("host", device)], spent)) for device, spent in hosts if spent is not None]
        held = [("host", device) for device, spent in hosts if spent is None]
        own = {id(makers[s]): makers[s] for s in op.operands if s in makers}
        found.append(put(Task([*op.streams, *held], op.ticks), [*issuing, *own.values()]))
        beside = zip(op.devices, op.taxes, strict=True) if op.stream else ()
        late = [put(Task([("stream", device, "")], tax)) for device, tax in beside]
        tasks += [*issuing, found[-1], *late]
        makers.update(dict.fromkeys(op.made, found[-1]))

    now, events = 0, []

    def begin(task):
        if task.start is None and not task.waits_for and all(queues[queue][0] is task for queue in task.queues):
            task.start = now
            heappush(events, (now + task.ticks, id(task), task))

    for task in tasks:
        begin(task)
    while events:
        now, _, task = heappop(events)
        for queue in task.queues:
            queues[queue].popleft()
        for other in task.needed_by:
            other.waits_for -= 1
        for other in [*task.needed_by, *(queues[queue][0] for queue in task.queues if queues[queue])]:
            begin(other)
    assert not any(queues.values()), "a task that never began"
    ends = [task.start + task.ticks for task in tasks if any(queue[0] == "stream" for queue in task.queues)]
    return [task.start for task in found], max(ends, default=0)
