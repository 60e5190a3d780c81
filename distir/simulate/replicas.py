"""Bodies on other devices: of calls that differ in their devices alone, one is looked at, the others follow from it.

They follow where the machine has equal devices with equal links: then ops take as long there, and their memories fill
alike. The statements of such a body are renamed when somebody looks into it. Knows bodies and effects, no programs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from distir.analysis import Instance, Replica
from distir.ops.devices import Renaming
from distir.simulate.algebra import clocks, usage
from distir.simulate.effects import Effect, Effects, elsewhere
from distir.simulate.late import Late

if TYPE_CHECKING:
    from distir.simulate.body import Body
    from distir.simulate.storage import Storages

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, eq=False)
class Move:
    """From the devices and memories of one call to those of another."""

    renaming: Renaming
    memories: Mapping[int, int]

    @classmethod
    def along(cls, renaming: Renaming, effects: Effects) -> Move | None:
        """None where the machine tells the devices apart."""
        place = effects.place
        if any(device not in place for device in renaming.before):
            return None
        if effects.shape(renaming.before) != effects.shape(renaming.after):
            return None
        return cls(renaming, {effects.memory(old): effects.memory(new) for old, new in renaming.devices.items()})

    def storages(self, origin: Storages, instance: Instance) -> Storages:
        """The storages of an instance as they are in the one that it follows."""
        moved = replace(origin, instance=instance, sizes=self.sizes(origin.sizes), replica=(origin, self))
        same = ("last_uses", "widths", "used_parameters")
        vars(moved).update({name: getattr(origin, name) for name in same})
        return moved

    def body(self, origin: Body, instance: Instance) -> Body:
        """The body of an instance from that of the one that it follows. What has been found of that is moved, too."""
        steps, sizes = Late(lambda: self._steps(origin)), Late(lambda: self.sizes(origin.sizes))
        moved = origin.alike(steps, sizes, self.sizes(origin.parameters))
        moved.instance = instance
        found = vars(origin)
        if "memory" in found:
            vars(moved)["memory"] = usage.rename(origin.memory, self.memories)
        if "summary" in found:
            vars(moved)["summary"] = clocks.rename(origin.summary, self.renaming.devices)
        return moved

    def sizes(self, sizes: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """Memories, with bytes."""
        memories = self.memories
        return [(memories[memory], size) for memory, size in sizes]

    def effect(self, effect: Effect) -> Effect:
        """What an op does there."""
        return elsewhere(effect, self.renaming.devices, self.memories)

    def _steps(self, origin: Body) -> list[Effect | Body | None]:
        return self._distinct(origin.steps, self._step)

    def _step(self, step: Effect | Body | None) -> Effect | Body | None:
        if step is None or isinstance(step, Effect):
            return step and self.effect(step)
        return self.body(step, Replica.of(step.instance, self.renaming))

    def _distinct(self, items: Sequence[Item], move: Callable[[Item], Item]) -> list[Item]:
        """Each of many items, of which few are distinct."""
        moved = {id(item): move(item) for item in {id(item): item for item in items}.values()}
        return [moved[id(item)] for item in items]
