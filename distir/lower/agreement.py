"""Matches the communications of all ranks: which operations, between which ranks, in which order.

A program executes synchronous ops in one order, and each rank executes a subsequence of it. So projections never
deadlock: all members of the first pending op have finished every op before it. A rank's program that was edited has no
such guarantee. Its communications are therefore matched with those of the other ranks before the processes start.
Does not depend on torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from distir.analysis import Checker, Instance, check
from distir.analysis.reached import callee
from distir.analysis.size import refuse_beyond
from distir.diagnostics import Diagnostic, Note, ProgramError
from distir.diagnostics.codes import lowering as codes
from distir.ir import DISCARD, Apply, Attributes, Call, Literal, Module, Site, Statement, Type
from distir.ir.calls import inlined_sizes
from distir.lower.projection import devices_of
from distir.ops import OPS, Value, type_of
from distir.syntax import print_statement

MOST_MATCHED = 1_000_000
"""The greatest number of communications of a rank that is matched."""


@dataclass(frozen=True, slots=True)
class CommunicationKey:
    """The identity of a communication: its members have equal keys."""

    op: str
    attrs: Attributes
    group: frozenset[int]
    """The devices of the members."""
    operands: tuple[Type | None, ...]
    """The types of the operands, in the order of the members."""


@dataclass(frozen=True, slots=True)
class CommunicationSite:
    """A communication of a rank, and its statement."""

    key: CommunicationKey
    site: Site
    text: str


def communications(
    module: Module, name: str | None = None, args: Sequence[Value] | None = None
) -> list[CommunicationSite]:
    """The communications of a rank's program in execution order, those of callees included.

    `args`: the values or types of the parameters; default: their declared types. Raises ProgramError for a program with
    errors.
    """
    analysis = check(module)
    entry = module.entry(name)
    if analysis.errors or entry is None:
        raise ProgramError(analysis.errors)
    found = inlined_sizes(module, counts=_communicates)[entry.name]
    refuse_beyond(found, MOST_MATCHED, entry.name, "of a rank are matched", of="communications, calls written out")
    instance = analysis.instance(entry, args or [p.type for p in entry.params])
    return list(_communication_sites(analysis.domain, instance))


@dataclass(slots=True)
class _Call:
    """A call on the stack."""

    instance: Instance
    rest: Iterator[tuple[int, Statement]]
    """The remaining statements."""
    communicates: bool = False


def _communication_sites(domain: Checker, entry: Instance) -> Iterator[CommunicationSite]:
    silent: set[int] = set()
    """Instances without communication, by `id`."""
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
                yield CommunicationSite(_key(statement, current.instance), site, print_statement(statement))
        else:
            calls.pop()
            if not current.communicates:
                silent.add(id(current.instance))
            elif calls:
                calls[-1].communicates = True


def _communicates(op: Apply) -> bool:
    return OPS[op.op].communication is not None


def _key(statement: Apply, instance: Instance) -> CommunicationKey:
    vs = instance.state(statement.args)
    ws = [instance.state[name] for name in statement.results if name != DISCARD]
    named = statement.attrs.get("devices", statement.attrs.get("device", statement.attrs.get("root", ())))
    stated = frozenset(d for d in (named if isinstance(named, tuple) else (named,)) if isinstance(d, int))
    group = devices_of(vs) | devices_of(ws) | stated
    return CommunicationKey(statement.op, statement.attrs, group, tuple(map(_described, vs)))


def _described(v: Value) -> Type | None:
    return None if v is None or isinstance(v, Literal) else type_of(v)


def check_order(
    programs: Mapping[int, Module], name: str | None = None, args: Mapping[int, Sequence[Value]] | None = None
) -> dict[int, list[int]]:
    """Match the communications of all ranks. Returns their numbers by device, in the order of each rank.

    `programs`: by device; `name`: their entry function; `args`: its arguments, by device. Raises ProgramError (DIR702)
    where the ranks would deadlock, or where members of a communication disagree about it.
    """
    given = args or {}
    sites = {device: iter(communications(module, name, given.get(device))) for device, module in programs.items()}
    heads = {device: next(own, None) for device, own in sites.items()}
    numbers: dict[int, list[int]] = {device: [] for device in programs}
    matched = 0
    ready = set(programs)
    while ready:
        device = min(ready)
        ready.discard(device)
        head = heads[device]
        if head is None or not _agreed(head.key, heads):
            continue
        for member in head.key.group or {device}:
            numbers[member].append(matched)
            heads[member] = next(sites[member], None)
            ready.add(member)
        matched += 1
    stuck = {device: head for device, head in heads.items() if head is not None}
    if stuck:
        raise ProgramError([_deadlock(stuck, heads)])
    return numbers


def _agreed(key: CommunicationKey, heads: Mapping[int, CommunicationSite | None]) -> bool:
    others = [heads.get(member) for member in key.group]
    return all(site is not None and site.key == key for site in others)


def _deadlock(stuck: Mapping[int, CommunicationSite], heads: Mapping[int, CommunicationSite | None]) -> Diagnostic:
    """The diagnostic of a deadlock: the next communication of each blocked rank."""
    device, first = min(stuck.items())
    notes = [Note(f"rank {rank} is about to run `{site.text}`", site.site) for rank, site in sorted(stuck.items())]
    ended = sorted(member for member in first.key.group if heads.get(member) is None)
    notes += [Note(f"rank {rank} has ended, or does not exist") for rank in ended]
    others = ", ".join(str(member) for member in sorted(first.key.group - {device}))
    message = f"rank {device} would deadlock waiting for rank{'s' if ',' in others else ''} {others} in `{first.text}`"
    hint = "let all ranks communicate in the order of one program"
    return Diagnostic(codes.ORDER, first.site, message, tuple(notes), hint)
