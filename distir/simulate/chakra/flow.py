"""Data dependencies of ops, through calls: the ops that produced the leaves of their operands.

A view is what it is a view of; host values, and what the entry function is given, are made by no op of a device.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from distir.ir import DISCARD, HOST, Apply, Call, Return, TensorType, types
from distir.ops import Value, type_of
from distir.simulate.body import Body
from distir.simulate.effects import Effect
from distir.simulate.leaves import NO_STORAGE, Leaves, leaves_of, name_results


@dataclass(slots=True)
class _Frame:
    """A function as it runs: where it is, and by value what made its leaves."""

    body: Body
    devices: dict[int, Leaves]
    """By statement: the devices of the leaves of its results."""
    next: int = 0
    made: dict[str, Leaves] = field(default_factory=dict[str, Leaves])

    def devices_at(self, index: int, statement: Apply | Call, effect: Effect) -> Leaves:
        """The devices of the leaves of an op's results; HOST for host values, and for results without a name."""
        found = self.devices.get(index)
        if found is None:
            leaves: list[int] = []
            for name, width in zip(statement.results, effect.widths, strict=True):
                if name == DISCARD:
                    leaves += [HOST] * width
                else:
                    leaves += map(_device, types.leaves(type_of(self.body.instance.state[name])))
            found = self.devices[index] = tuple(leaves)
        return found


def data_flow(body: Body, most: int) -> Iterator[set[tuple[int, int]]]:
    """The events that made the operands of each event, in the order of the program, with the devices of these leaves.

    `most`: the largest number of a device.
    """
    known: dict[int, tuple[Body, dict[int, Leaves]]] = {}  # by body: a number is unique while its object lives
    numbers, base = count(), most + 1

    def entered(callee: Body, arguments: Leaves) -> _Frame:
        frame = _Frame(callee, known.setdefault(id(callee), (callee, {}))[1])
        instance = callee.instance
        name_results([p.name for p in instance.function.params], arguments, _widths(instance.args), frame.made)
        return frame

    running = [entered(body, (NO_STORAGE,) * sum(_widths(body.instance.args)))]
    while running:
        frame = running[-1]
        index, instance = frame.next, frame.body.instance
        statement, step = instance.function.body[index], frame.body.steps[index]
        assert isinstance(statement, (Apply, Call, Return)), "what is simulated has no errors"
        operands = leaves_of(statement.args, frame.made)
        if isinstance(statement, Return):
            running.pop()
            if running:
                call = running[-1].body.instance.function.body[running[-1].next - 1]
                assert isinstance(call, Call)
                name_results(call.results, operands, _widths(instance.state.returned), running[-1].made)
            continue
        frame.next += 1
        if isinstance(step, Body):
            running.append(entered(step, operands))
            continue
        assert step is not None
        made = (NO_STORAGE,) * len(step.sizes)
        if step.devices:
            yield {divmod(origin, base) for origin in operands if origin != NO_STORAGE}
            number = base * next(numbers)
            made = tuple([number + d if d != HOST else NO_STORAGE for d in frame.devices_at(index, statement, step)])
        if step.shares:  # of ops that occupy devices, too: `After` delays its stream, not its value
            made = tuple([own if leaf is None else operands[leaf] for own, leaf in zip(made, step.shares, strict=True)])
        name_results(statement.results, made, step.widths, frame.made)


def _widths(values: Iterable[Value]) -> Sequence[int]:
    return [types.width(type_of(value)) for value in values]


def _device(leaf: object) -> int:
    assert isinstance(leaf, TensorType), "what is simulated has known types"
    assert leaf.device is not None
    return leaf.device
