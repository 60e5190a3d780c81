"""The order in which to drop residuals of layers: those first that free the most bytes per second of recomputation.

A layer's function saves residuals for its VJP function. Each can be dropped, and recomputed from the remaining ones and
the layer's parameters. The order is greedy: next comes the residual with the fewest additional seconds per byte, given
those dropped before, since values that several of them depend on are recomputed once. Costs are those of single ops on
the machine; the simulator determines time and memory of the whole step.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from distir.analysis import Analysis, State
from distir.ir import HOST, Apply, Call, Function, Module, Statement, TensorType, names, operands, results, types
from distir.ir.dataflow import definitions
from distir.ops import type_of
from distir.transform.checkpoint.selective import Pair, instance_at, pairs_of

if TYPE_CHECKING:
    from distir.simulate import Simulation

Dropped = Mapping[str, frozenset[str]]
"""By function: the residuals that its VJP functions recompute."""


@dataclass(frozen=True, slots=True)
class Rung:
    """A dropped residual of a function, and the statements of the entry function that call it."""

    function: str
    value: str
    calls: tuple[int, ...]


@dataclass(slots=True)
class _Layer:
    """A function that layers call: the bytes of its residuals and the seconds of its ops."""

    function: Function
    seconds: dict[int, float]
    """By statement."""
    calls: set[int] = field(default_factory=set[int])
    saved: dict[str, int] = field(default_factory=dict[str, int])
    dropped: list[str] = field(default_factory=list[str])

    def again(self, dropped: Collection[str]) -> float:
        """The seconds to recompute values, each op once."""
        kept, made = self.saved.keys() - set(dropped), definitions(self.function)
        waiting, done, total = list(dropped), set[int](), 0.0
        while waiting:
            number = made.get(waiting.pop())
            if number is not None and number not in done:
                done.add(number)
                total += self.seconds[number]
                waiting += [name for name in names(operands(self.function.body[number])) if name not in kept]
        return total


def ladder(
    module: Module, entry: Function, analysis: Analysis, turn: int, calls: Collection[int], machine: Simulation
) -> list[Rung]:
    """The residuals to drop, one after the other. `calls`: the statements of the entry function that are layers.

    Empty if layers are not functions, or save no residuals.
    """
    layers = list(_layers(module, entry, analysis, turn, calls, machine))
    found: list[Rung] = []
    while steps := [
        (_price(layer, name), i, name)
        for i, layer in enumerate(layers)
        for name in layer.saved
        if name not in layer.dropped
    ]:
        _, i, name = min(steps)
        layers[i].dropped.append(name)
        found.append(Rung(layers[i].function.name, name, tuple(sorted(layers[i].calls))))
    return found


def dropped_by(rungs: Sequence[Rung], more: int) -> Iterator[tuple[Dropped, set[int]]]:
    """The residuals dropped by these rungs, the last one in the first `more` of its calls (0: in all)."""
    sets: dict[str, set[str]] = {}
    places: dict[str, set[int]] = {}
    for rung in rungs:
        sets.setdefault(rung.function, set()).add(rung.value)
        places.setdefault(rung.function, set()).update(rung.calls)
    last = rungs[-1] if rungs and more else None
    for function, values in sets.items():
        own = places[function]
        if last is not None and last.function == function:
            first = set(last.calls[:more])
            yield {function: frozenset(values)}, first
            values, own = values - {last.value}, own - first
        if values and own:
            yield {function: frozenset(values)}, own


def _price(layer: _Layer, name: str) -> float:
    """The additional seconds per byte of dropping one more residual."""
    more = layer.again([*layer.dropped, name]) - layer.again(layer.dropped)
    return more / layer.saved[name]


def _layers(
    module: Module, entry: Function, analysis: Analysis, turn: int, calls: Collection[int], machine: Simulation
) -> Iterator[_Layer]:
    found: dict[str, _Layer] = {}
    for pair, places, _ in pairs_of(module, entry, turn, calls):
        function = pair.function
        state, made = instance_at(entry, analysis, places[0]).state, definitions(function)
        if function.name not in found:
            numbers = {*made.values()}
            seconds = {number: _seconds(analysis, state, function.body[number], machine) for number in numbers}
            found[function.name] = _Layer(function, seconds)
        layer = found[function.name]
        layer.calls.update(places)
        for name in _own(entry, pair, places, turn):
            if name in made and (size := _bytes(state, name)):
                layer.saved[name] = size
    yield from (layer for layer in found.values() if layer.saved)


def _own(entry: Function, pair: Pair, places: Sequence[int], turn: int) -> set[str]:
    """The values that a function returns for its VJP function alone."""
    position = {arg: i for i, arg in enumerate(pair.function.returned) if isinstance(arg, str)}
    other = {name for s in entry.body[:turn] for name in names(getattr(s, "args", ()))} | {*names(entry.returned)}
    found: set[str] = set()
    for name in pair.values.values():
        at = position.get(name)
        made = [results(entry.body[place])[at] for place in places] if at is not None else []
        if made and not other.intersection(made):
            found.add(name)
    return found


def _bytes(state: State, name: str) -> int:
    found = type_of(state[name])
    if not isinstance(found, TensorType) or found.device == HOST or found.dtype is None:
        return 0
    elements = found.elements
    return elements * found.dtype.bits // 8 if isinstance(elements, int) else 0


def _seconds(analysis: Analysis, state: State, statement: Statement, machine: Simulation) -> float:
    if not isinstance(statement, (Apply, Call)):
        return 0.0
    if isinstance(statement, Apply):
        if any(types.device_of(type_of(state[name])) == HOST for name in statement.results if name):
            return 0.0
        return machine.effect_of(statement, state(statement.args)).cost.seconds
    inner = analysis.domain.instance(statement.function, state(statement.args))
    return sum(_seconds(analysis, inner.state, each, machine) for each in inner.function.body)
