"""Kind: transfers between pipeline stages beside computation on both devices.

A transfer is a `Send`, with the statements that serve it alone: the slice or reduce-scatter before it, and the gather
after it. It moves onto a stream, as early as its operands and the order on that stream allow: both devices begin it as
soon as its value is ready, and no transfer overtakes another on its stream.

Each direction between two devices has a stream, so that no transfer waits for those of other devices or the opposite
direction. Names are reused if no device has one twice: `forward` and `forward_2` alternate.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from distir.analysis import Instance
from distir.analysis.reached import reached
from distir.ir import NO_FACTS, Apply, Function, Module, Statement, names, operands, results, types
from distir.ir.dataflow import definitions, uses
from distir.ir.rewrite import Rewriter
from distir.ops import OPS, type_of
from distir.transform.checking import checked
from distir.transform.entry import entry_of
from distir.transform.overlap.kinds import Inapplicable, Overlapped, kind

CUTS = frozenset({"Split"})
"""The ops that slice a value of which each shard sends a part."""


@kind(after=("weights",))
def transfers(module: Module) -> Overlapped:
    """Stages send beside what they compute, on a stream for each direction: `forward`, `backward`."""
    sends = _Sends()
    domain, entry = checked(module).domain, entry_of(module)
    for instance in reached(domain, domain.own[entry.name], domain.replicas.names_devices):
        sends.read(instance)
    if not sends.links:
        raise Inapplicable("nothing is sent from one device to another; apply `pp` or `dtp` with several stages first")
    streams = sends.streams()
    made = Module(_moved(function, streams.get(function.name, {})) for function in module)
    names_used = sorted({stream for found in streams.values() for stream in found.values()})
    listed = ", ".join(f"`{name}`" for name in names_used)
    return Overlapped(made, f"{len(sends.links)} transfers on {listed}")


Link = tuple[int, int]
"""From a device to another one."""

Place = tuple[str, int]
"""A statement: its function, and its number there."""


@dataclass(slots=True)
class _Sends:
    """The transfers of a program."""

    links: dict[Place, set[Link]] = field(default_factory=dict[Place, "set[Link]"])
    """By `Send`: its links, in all calls of its function."""
    serving: dict[Place, Place] = field(default_factory=dict[Place, Place])
    """By a statement that serves sends alone: one of these."""
    together: list[tuple[Place, ...]] = field(default_factory=list[tuple[Place, ...]])
    """Sends of which the parts are gathered, or were cut, together."""

    def read(self, instance: Instance) -> None:
        """Note the sends of a function, in one kind of call."""
        function = instance.function
        first = not any(name == function.name for name, _ in self.links)
        for index, statement in enumerate(function.body):
            if isinstance(statement, Apply) and statement.op == "Send" and not statement.stream:
                value, target = instance.state(statement.args)[0], statement.attrs["device"]
                assert isinstance(target, int)
                sources = types.devices(type_of(value)) if value is not None else frozenset[int]()
                if links := {(source, target) for source in sources if source != target}:
                    self.links.setdefault((function.name, index), set()).update(links)
        if first and any(name == function.name for name, _ in self.links):
            self._serving(function)

    def _serving(self, function: Function) -> None:
        made, users = definitions(function), uses(function)
        own = {index: {index} for name, index in self.links if name == function.name}
        """By statement of a transfer: its sends."""
        for index in reversed(range(len(function.body))):
            statement = function.body[index]
            after = [user for name in results(statement) for user in users.get(name, ())]
            if index not in own and after and _may_lead(statement) and all(user in own for user in after):
                own[index] = {send for user in after for send in own[user]}
        for index, statement in enumerate(function.body):
            before = [made.get(name) for name in names(operands(statement))]
            if index not in own and before and _may_follow(statement) and all(i in own for i in before):
                own[index] = {send for i in before if i is not None for send in own[i]}
        for index, sends in own.items():
            places = tuple([(function.name, send) for send in sorted(sends)])
            self.together.append(places)
            if (function.name, index) not in self.links:
                self.serving[function.name, index] = places[0]

    def streams(self) -> dict[str, dict[int, str]]:
        """By function, and statement of a transfer: its stream."""
        groups = _Groups()
        for places in self.together:
            groups.join(link for place in places for link in self.links[place])
        stream_of: dict[Link, str] = {}
        taken: defaultdict[int, set[str]] = defaultdict(set)
        for links in groups.all():
            devices = {device for link in links for device in link}
            direction = "forward" if min(links)[0] < min(links)[1] else "backward"
            number, name = 1, direction
            while any(name in taken[device] for device in devices):
                number += 1
                name = f"{direction}_{number}"
            for device in devices:
                taken[device].add(name)
            stream_of.update(dict.fromkeys(links, name))
        found: defaultdict[str, dict[int, str]] = defaultdict(dict)
        for place, links in self.links.items():
            found[place[0]][place[1]] = stream_of[min(links)]
        for place, send in self.serving.items():
            found[place[0]][place[1]] = found[send[0]][send[1]]
        return found


@dataclass(slots=True)
class _Groups:
    """Disjoint sets of links that share a stream."""

    of: dict[Link, list[Link]] = field(default_factory=dict[Link, "list[Link]"])

    def join(self, links: Iterable[Link]) -> None:
        """Let these links share a stream."""
        group: list[Link] = []
        for link in links:
            other = self.of.setdefault(link, [link])
            if other is not group:
                group += other
                self.of.update(dict.fromkeys(other, group))

    def all(self) -> list[list[Link]]:
        """Each group once, in order."""
        return [*{id(group): group for group in self.of.values()}.values()]


def _may_lead(statement: Statement) -> bool:
    """Whether a statement may prepare a sent value: a view, a slice, or a collective."""
    if not isinstance(statement, Apply) or statement.stream:
        return False
    op = OPS[statement.op]
    return bool(op.view) or op.communication is not None or statement.op in CUTS


def _may_follow(statement: Statement) -> bool:
    """Whether a statement may restore a received value: a view, or a gather."""
    if not isinstance(statement, Apply) or statement.stream:
        return False
    op = OPS[statement.op]
    return bool(op.view) or op.communication == "allgather"


def _moved(function: Function, streams: Mapping[int, str]) -> Function:
    """The function with statements on streams, each as far forward as its operands and its stream allow."""
    if not streams:
        return function
    place: dict[str, int] = {}
    """By value: the remaining statement that defines it, or that it follows; -1: it is there at the start."""
    last: dict[str, int] = {}
    edit = Rewriter(function)
    for index, statement in edit:
        at = index
        if index in streams:
            name = streams[index]
            needed = [place.get(operand, -1) for operand in names(operands(statement))]
            last[name] = at = max([last.get(name, -1), *needed])
            assert isinstance(statement, Apply)
            edit.erase(index)
            edit.behind(at, statement if OPS[statement.op].view else replace(statement, stream=name), facts=NO_FACTS)
        place.update(dict.fromkeys(results(statement), at))
    return edit.done()
