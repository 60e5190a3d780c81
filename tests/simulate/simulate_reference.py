"""A simulator that is plainly right and plainly slow, for programs without calls.

Straight from the language's definitions of time and memory. Types, work and costs are taken from the rooms below.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from distir.analysis import check
from distir.ir import DISCARD, HOST, Apply, Module, Return, types
from distir.ops import NO_WORK, OPS, type_of, work


@dataclass
class Ran:
    """What the reference finds. `events`: (statement, devices, seconds, start)."""

    latency: float = 0.0
    clocks: dict = field(default_factory=dict)
    busy: dict = field(default_factory=dict)
    communication: dict = field(default_factory=dict)
    events: list = field(default_factory=list)
    ops: int = 0
    peaks: dict = field(default_factory=dict)
    """By physical memory."""
    over: dict = field(default_factory=dict)
    """By physical memory: bytes in use while each op runs, by its event; None for the parameters alone."""


def reference(module: Module, machine, durations=None) -> Ran:
    """Run the one function of a module. `durations`: other seconds for some events, by number."""
    (function,) = module
    analysis = check(module)
    assert not analysis.errors, analysis.errors
    rho = analysis.instance(function, tuple(p.type for p in function.params)).state
    plans = [
        _planned(analysis.domain, machine, statement, rho)
        for statement in function.body
        if not isinstance(statement, Return)
    ]
    ran = Ran()
    _times(plans, ran, durations or {})
    _memory(function, plans, machine, rho, ran)
    return ran


@dataclass
class Planned:
    """One op: what it works on, and for how long."""

    statement: Apply
    operands: list
    """(name, leaf) of every leaf of its operands, None for those of host values."""
    results: list
    """The types of its results."""
    devices: tuple
    seconds: float
    communicates: bool
    temporary: int
    shares: bool
    """The results are where the operands are."""


def _planned(domain, machine, statement, rho):
    definition = OPS[statement.op]
    vs = rho(statement.args)
    answers = domain.answer(statement, vs)
    ws = [type_of(a if n == DISCARD else rho[n]) for n, a in zip(statement.results, answers, strict=True)]
    ts = [type_of(v) for v in vs if v is not None]
    done = work(definition, vs, ws, statement.attrs)
    devices = tuple(sorted({d for t in [*ts, *ws] for d in types.devices(t)}))
    if definition.view or done == NO_WORK:
        return Planned(statement, _leaves(statement, rho), ws, (), 0.0, False, 0, definition.view)
    base = _base(rho)
    if done.communication is not None and done.communication.root is not None:
        done = replace(done, communication=replace(done.communication, root=done.communication.root - base))
    seconds = machine.cost(done, tuple(d - base for d in devices)).seconds if devices else 0.0
    memories = {machine.memory_of(d - base) for d in devices}
    operands = _leaves(statement, rho)
    # Between streams of one GPU nothing is copied, unless something comes from the host.
    shares = statement.op == "Send" and len(devices) > 1 and len(memories) == 1 and None not in operands
    return Planned(statement, operands, ws, devices, seconds, done.communication is not None, done.temporary, shares)


def _base(rho):
    """0 where the program uses device 0. Our programs name all their devices in named values."""
    return 0 if any(0 in types.devices(type_of(v)) for v in rho.values() if v is not None) else 1


def _leaves(statement, rho):
    return [leaf for arg in statement.args for leaf in _of(arg, rho)]


def _of(arg, rho):
    if isinstance(arg, tuple):
        return [leaf for item in arg for leaf in _of(item, rho)]
    leaves = types.leaves(type_of(rho((arg,))[0]))
    return [None if leaf.device == HOST else (arg, i) for i, leaf in enumerate(leaves)]


def _times(plans, ran, durations):
    clocks = {}
    for p in plans:
        ran.ops += 1
        if not p.devices:
            continue
        seconds = durations.get(len(ran.events), p.seconds)
        start = max(clocks.get(d, 0.0) for d in p.devices)
        for d in p.devices:
            clocks[d] = start + seconds
            ran.busy[d] = ran.busy.get(d, 0.0) + seconds
            ran.communication[d] = ran.communication.get(d, 0.0) + seconds * p.communicates
        ran.events.append((p.statement, p.devices, seconds, start))
    ran.clocks = clocks
    ran.latency = max(clocks.values(), default=0.0)


def _memory(function, plans, machine, rho, ran):
    """Keep a list of all storages; after every op, recompute what is in use from who needs what."""
    base = _base(rho)
    where: dict = {}  # (value, leaf) -> storage
    storages: list = []  # (memory, bytes)
    for param in function.params:
        for i, leaf in enumerate(types.leaves(type_of(rho[param.name]))):
            if leaf.device != HOST:
                where[param.name, i] = len(storages)
                storages.append((machine.memory_of(leaf.device - base), leaf.nbytes))
    permanent = set(range(len(storages)))
    # First find all storages, and who uses them.
    uses: list[set[int]] = []
    makes: list[dict[int, int]] = []  # by op: new storage -> position of the leaf among all results' leaves
    for p in plans:
        operands = [None if leaf is None else where[leaf] for leaf in p.operands]
        uses.append({s for s in operands if s is not None})
        made, position = {}, 0
        for name, w in zip(p.statement.results, p.results, strict=True):
            for i, leaf in enumerate(types.leaves(w)):
                if leaf.device != HOST:
                    if p.shares:
                        storage = operands[position]
                    else:
                        storage = len(storages)
                        storages.append((machine.memory_of(leaf.device - base), leaf.nbytes))
                        made[storage] = position
                    if name != DISCARD:
                        where[name, i] = storage
                position += 1
        makes.append(made)
    returned = set()
    for name in _mentioned(function.returned):
        returned |= {where[name, i] for i, leaf in enumerate(types.leaves(type_of(rho[name]))) if leaf.device != HOST}

    def needed_after(storage, index):
        return storage in returned or any(storage in used for used in uses[index + 1 :])

    # Then run: `alive` are storages in use; a storage may be taken over by a newer one.
    alive = set(permanent)
    _note(alive, storages, ran, {}, None)
    event = -1
    for index, p in enumerate(plans):
        event += bool(p.devices)
        taken_over = {}
        if not p.shares:
            for position, operand in _takeovers(p, rho):
                new = next((s for s, at in makes[index].items() if at == position), None)
                leaf = p.operands[operand]
                if new is None or leaf is None:
                    continue
                old = where[leaf]
                fits = storages[old] == storages[new] and old not in taken_over.values()
                if fits and old in alive and not needed_after(old, index):
                    taken_over[new] = old
        for new, old in taken_over.items():
            alive.remove(old)
            if old in permanent:
                permanent.add(new)
        alive |= makes[index].keys()
        temporary: dict = {}
        for d in p.devices:
            memory = machine.memory_of(d - base)
            temporary[memory] = temporary.get(memory, 0) + p.temporary
        _note(alive, storages, ran, temporary, event)
        alive = {s for s in alive if s in permanent or needed_after(s, index)}


def _mentioned(args):
    for arg in args:
        if isinstance(arg, str):
            yield arg
        elif isinstance(arg, tuple):
            yield from _mentioned(arg)


def _takeovers(p, rho):
    """Positions of results and operands, counted in leaves: who may take over whose memory."""
    inplace = OPS[p.statement.op].inplace
    pairs = {i: i for i in range(len(p.results))} if inplace == "each" else dict(inplace)
    ts = [type_of(v) for v in rho(p.statement.args)]
    width = lambda t: len(list(types.leaves(t)))  # noqa: E731
    for result, operand in pairs.items():
        if result >= len(p.results) or operand >= len(ts):
            continue
        first_result = sum(map(width, p.results[:result]))
        first_operand = sum(map(width, ts[:operand]))
        if width(p.results[result]) == width(ts[operand]):
            for i in range(width(ts[operand])):
                yield first_result + i, first_operand + i


def _note(alive, storages, ran, temporary, event):
    use = dict(temporary)
    for s in alive:
        memory, size = storages[s]
        use[memory] = use.get(memory, 0) + size
    for memory, nbytes in use.items():
        ran.peaks[memory] = max(ran.peaks.get(memory, 0), nbytes)
        ran.over.setdefault(memory, []).append((event, nbytes))
