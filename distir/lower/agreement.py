"""Whether the programs of the ranks agree on what they tell each other, and in which order.

One program executes synchronous ops in one order; every rank executes the part of that order that it takes part in,
so no ranks ever wait for each other in a circle: take the first op that is not done, all its members have done
everything before it. Projections inherit this. A rank's program that was changed need not, so before anything is
started the ranks' communications are matched, as the processes would match them. Knows nothing of torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from distir.analysis import Checker, Instance, check
from distir.analysis.size import refuse_beyond
from distir.diagnostics import Diagnostic, Note, ProgramError
from distir.diagnostics.codes import lowering as codes
from distir.ir import DISCARD, Apply, Attributes, Call, Literal, Module, Site, Statement, Type
from distir.ir.calls import inlined_sizes
from distir.lower.projection import callee, devices_of
from distir.ops import OPS, Value, type_of
from distir.syntax import print_statement

MOST_MATCHED = 1_000_000
"""So many communications of a rank are matched with those of others."""


@dataclass(frozen=True, slots=True)
class Event:
    """A communication that a rank takes part in. Members of one communication have equal events."""

    op: str
    attrs: Attributes
    group: frozenset[int]
    """The devices of the members."""
    operands: tuple[Type | None, ...]
    """What the members bring, in their order."""


@dataclass(frozen=True, slots=True)
class Step:
    """An event of a rank, and where it comes from."""

    event: Event
    site: Site
    text: str


def communications(module: Module, name: str | None = None, args: Sequence[Value] | None = None) -> list[Step]:
    """What a rank's program communicates, in order, calls followed. Raises ProgramError if it does not check.

    `args`: what is known of the parameters, by default what their types state.
    """
    analysis = check(module)
    entry = module.entry(name)
    if analysis.errors or entry is None:
        raise ProgramError(analysis.errors)
    found = inlined_sizes(module, counts=_communicates)[entry.name]
    refuse_beyond(found, MOST_MATCHED, entry.name, "of a rank are matched", of="communications, calls written out")
    instance = analysis.instance(entry, args or [p.type for p in entry.params])
    return list(_steps(analysis.domain, instance))


@dataclass(slots=True)
class _Call:
    """A call that is being followed."""

    instance: Instance
    rest: Iterator[tuple[int, Statement]]
    """The statements that are still to come."""
    communicates: bool = False


def _steps(domain: Checker, entry: Instance) -> Iterator[Step]:
    silent: set[int] = set()
    """The instances that communicate nothing, by identity."""
    calls = [_Call(entry, enumerate(entry.function.body))]
    while calls:
        current = calls[-1]
        for index, statement in current.rest:
            if isinstance(statement, Call):
                inner = callee(domain, current.instance, statement)
                if id(inner) not in silent:
                    calls.append(_Call(inner, enumerate(inner.function.body)))
                    break
            elif isinstance(statement, Apply) and _communicates(statement):
                current.communicates = True
                site = Site(current.instance.function.name, index)
                yield Step(_event(statement, current.instance), site, print_statement(statement))
        else:
            calls.pop()
            if not current.communicates:
                silent.add(id(current.instance))
            elif calls:
                calls[-1].communicates = True


def _communicates(op: Apply) -> bool:
    return OPS[op.op].communication is not None


def _event(statement: Apply, instance: Instance) -> Event:
    vs = instance.state(statement.args)
    ws = [instance.state[name] for name in statement.results if name != DISCARD]
    named = statement.attrs.get("devices", statement.attrs.get("device", statement.attrs.get("root", ())))
    stated = frozenset(d for d in (named if isinstance(named, tuple) else (named,)) if isinstance(d, int))
    group = devices_of(vs) | devices_of(ws) | stated
    return Event(statement.op, statement.attrs, group, tuple(map(_described, vs)))


def _described(v: Value) -> Type | None:
    return None if v is None or isinstance(v, Literal) else type_of(v)


def check_order(
    programs: Mapping[int, Module], name: str | None = None, args: Mapping[int, Sequence[Value]] | None = None
) -> dict[int, list[int]]:
    """Match the communications of all ranks, given by device; number them, and give each rank's in its order.

    Raises ProgramError (DIR702) where the ranks would wait for each other for ever, or tell each other different
    things. The programs' entry functions are called `name`, if that is given; `args`: their arguments, by device.
    """
    given = args or {}
    steps = {device: iter(communications(module, name, given.get(device))) for device, module in programs.items()}
    heads = {device: next(own, None) for device, own in steps.items()}
    numbers: dict[int, list[int]] = {device: [] for device in programs}
    matched = 0
    ready = set(programs)
    while ready:
        device = min(ready)
        ready.discard(device)
        head = heads[device]
        if head is None or not _agreed(head.event, heads):
            continue
        for member in head.event.group or {device}:
            numbers[member].append(matched)
            heads[member] = next(steps[member], None)
            ready.add(member)
        matched += 1
    stuck = {device: head for device, head in heads.items() if head is not None}
    if stuck:
        raise ProgramError([_disorder(stuck, heads)])
    return numbers


def _agreed(event: Event, heads: Mapping[int, Step | None]) -> bool:
    steps = [heads.get(member) for member in event.group]
    return all(step is not None and step.event == event for step in steps)


def _disorder(stuck: Mapping[int, Step], heads: Mapping[int, Step | None]) -> Diagnostic:
    """What each rank is about to do when nothing can go on."""
    device, first = min(stuck.items())
    notes = [Note(f"rank {rank} is about to run `{step.text}`", step.site) for rank, step in sorted(stuck.items())]
    ended = sorted(member for member in first.event.group if heads.get(member) is None)
    notes += [Note(f"rank {rank} has ended, or does not exist") for rank in ended]
    others = ", ".join(str(member) for member in sorted(first.event.group - {device}))
    message = f"rank {device} would wait for ever for rank{'s' if ',' in others else ''} {others} in `{first.text}`"
    hint = "let all ranks communicate in the order of one program"
    return Diagnostic(codes.ORDER, first.site, message, tuple(notes), hint)
