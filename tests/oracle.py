"""The oracle: one simulation that is plainly right and plainly slow, from the rules of the language alone.

It walks the program call by call and keeps a list of all ops, of all storages, and of who uses them. It takes types,
work and costs from the rooms below, asking the rules of each op anew, and shares nothing with `distir.simulate`. All
that is fast must give what this gives, to the last bit: times are whole ticks of 2⁻⁸⁰ s, of which sums are exact.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise

from distir.analysis import lookup
from distir.analysis.domains import MOST_PRECISE_FIRST, Types
from distir.ir import DISCARD, HOST, Apply, Call, Module, Return, TensorType, types
from distir.ops import NO_WORK, Work, dense, type_of, work
from distir.ops.loops import kind_of

TICK = Fraction(1, 1 << 80)


@dataclass
class Op:
    """One op as it runs: where it stands, what it works on, and for how long."""

    function: str
    index: int
    statement: Apply | Call
    """A call of a kernel is one op."""
    devices: tuple
    """The devices that it occupies; none for views and host ops."""
    operands: list
    """The storage of each leaf of the operands, None for host values."""
    results: list
    """The same for the results."""
    made: list
    """The storages among those that it makes."""
    ticks: int
    seconds: float
    communicates: bool
    temporary: int
    donations: list
    """Leaves of results, and the leaves of operands whose memory they may take over."""
    stream: str
    """The one that it runs on; "" is that of compute."""
    issue: list
    """By device: for how many ticks its host issues it; None where the host waits for it."""
    taxes: list
    """By device: by how many ticks its compute stream gets on later if this runs on another one."""
    work: Work = NO_WORK
    reuses: list = field(default_factory=list)
    """The same where no memory of the entry function's parameters may be taken over."""

    @property
    def streams(self):
        return [("stream", device, self.stream) for device in self.devices]

    @property
    def waits(self):
        """The clocks that it waits for, and how long after each it may start."""
        hosts = [(("host", device), spent or 0) for device, spent in zip(self.devices, self.issue, strict=True)]
        return [(clock, 0) for clock in self.streams] + hosts + [(("ready", s), 0) for s in {*self.operands} - {None}]

    @property
    def ends_on(self):
        """The clocks that stand at its end when it ends."""
        blocked = [("host", d) for d, spent in zip(self.devices, self.issue, strict=True) if spent is None]
        return self.streams + blocked + [("ready", storage) for storage in self.made]

    @property
    def delays(self):
        """Clocks that it moves on by so much, wherever they are."""
        found = [(("host", d), spent) for d, spent in zip(self.devices, self.issue, strict=True) if spent is not None]
        if self.stream:
            found += [(("stream", device, ""), tax) for device, tax in zip(self.devices, self.taxes, strict=True)]
        return found

    @property
    def name(self):
        return self.statement.op if isinstance(self.statement, Apply) else f"@{self.statement.function}"


@dataclass
class Oracle:
    """What a program does. Devices are those of the program, memories the machine's."""

    ops: list
    place: dict
    storages: list
    """The memory and the bytes of each storage; those of the entry function's parameters come first."""
    parameters: int
    returned: set
    donated: set
    """The storages of the entry function's parameters that it may use again."""
    machine: object
    starts: list = field(default_factory=list)
    """By event (an op that occupies devices), in ticks."""
    hosted: list = field(default_factory=list)
    """By event: when it would have started with hosts that issue all at once."""
    clocks: dict = field(default_factory=dict)
    """By device: when the last of its streams is done."""
    busy: dict = field(default_factory=dict)
    communication: dict = field(default_factory=dict)
    peaks: dict = field(default_factory=dict)
    use: dict = field(default_factory=dict)
    """By memory: (event, bytes in use while it runs) for each op; None for the parameters alone."""

    @property
    def events(self):
        return [op for op in self.ops if op.devices]

    @property
    def latency_s(self):
        return seconds(max(self.clocks.values(), default=0))

    @property
    def devices(self):
        """By device: busy, idle and communication seconds, peak bytes, and the bytes that there are."""
        latency = self.latency_s
        return {
            device: (
                seconds(self.busy.get(device, 0)),
                max(0.0, latency - seconds(self.busy.get(device, 0))),
                seconds(self.communication.get(device, 0)),
                self.peaks.get(position, 0),
                self.machine.capacity(position),
            )
            for device, position in sorted(self.place.items())
        }

    def latency_with(self, durations):
        """The latency where some events, by number, take other seconds."""
        return seconds(max(Run(self.events, durations).by_device.values(), default=0))

    @property
    def slack(self):
        """By event: by how many seconds it could end later, by the definition: each event, later by more and more."""
        finish, events = max(self.clocks.values(), default=0), self.events
        latest: list = [finish] * len(events)
        due: dict = {}
        for number in range(len(events) - 1, -1, -1):
            event = events[number]
            latest[number] = min(due.get(clock, finish) for clock in event.ends_on)
            for clock, delay in event.delays:
                due[clock] = due.get(clock, finish) - delay
            for clock in event.ends_on:
                due.pop(clock, None)  # whatever it was before
            for clock, delay in event.waits:
                due[clock] = min(due.get(clock, finish), latest[number] - event.ticks - delay)
        ends = [start + event.ticks for start, event in zip(self.starts, events, strict=True)]
        return [seconds(last - end) for last, end in zip(latest, ends, strict=True)]

    def shares(self):
        """Of (devices × latency): idle, communicating without computing, and idle as a host has yet to issue something;
        between any two moments."""
        pieces = []
        for event, start, allowed in zip(self.events, self.starts, self.hosted, strict=True):
            pieces.append((set(event.devices), start, start + event.ticks, event.communicates))
            pieces.append((set(event.devices), allowed, start, None))
        finish = max(self.clocks.values(), default=0)
        idle = exposed = hosts = 0
        for device in self.place:
            ours = [piece for piece in pieces if device in piece[0] and piece[1] < piece[2]]
            moments = sorted({moment for _, a, b, _ in ours for moment in (a, b)} | {0, finish})
            for a, b in pairwise(moments):
                kinds = {communicates for _, start, end, communicates in ours if start <= a and b <= end}
                idle += (b - a) * (not kinds - {None})
                exposed += (b - a) * (kinds - {None} == {True})
                hosts += (b - a) * (kinds == {None})
        whole = finish * len(self.place)
        return tuple(float(Fraction(part, whole)) for part in (idle, exposed, hosts)) if whole else (0.0, 0.0, 0.0)


def oracle(module: Module, machine, bind=None, name=None) -> Oracle:
    """Run the entry function of a module that checks."""
    entry = module.entry(name)
    assert entry is not None
    args = _arguments(entry, bind or {})
    domain = _Types(module)
    place = machine.place(_Walk(domain, machine, {}).through(entry, args).devices)
    walk = _Walk(domain, machine, place).through(entry, args)
    ran = Oracle(walk.ops, place, walk.storages, walk.parameters, walk.returned, walk.donated, machine)
    _memory(ran)
    if machine.cached:  # costs depend on the working set, never the other way round
        ran.ops = _Walk(domain, machine.running(ran.peaks), place).through(entry, args).ops
    _times(ran)
    return ran


def same(found, expected: Oracle, *, events=True):
    """Assert that a simulation says what the oracle says, to the last bit."""
    assert found.latency_s == expected.latency_s
    assert {
        device: (use.busy_s, use.idle_s, use.comm_s, use.peak_memory_bytes, use.capacity_bytes)
        for device, use in found.devices.items()
    } == expected.devices
    assert _nonzero(found.peaks) == _nonzero(expected.peaks)
    if not events:
        return
    timeline = found.timeline()
    assert found.ops == len(expected.ops)
    assert timeline.clocks == {device: seconds(ticks) for device, ticks in expected.clocks.items()}
    assert [effect.devices for effect in timeline.effects] == [event.devices for event in expected.events]
    assert list(timeline.starts) == [seconds(start) for start in expected.starts]
    assert list(timeline.slack) == expected.slack


def seconds(ticks):
    """The double next to so many ticks."""
    return float(ticks * TICK)


def _nonzero(numbers):
    return {key: number for key, number in numbers.items() if number}


class _Types(Types):
    """Types and known values, straight from the rules."""

    def __init__(self, module):
        super().__init__(module, rules=MOST_PRECISE_FIRST)

    def most_precise(self, op, vs):
        definition, count = lookup(op.op), len(op.results)
        answers = (rule(definition, vs, op.attrs, count) for rule in self.rules)
        return next(tuple(ws) for ws in answers if ws is not None)


def _arguments(entry, bind):
    def bound(param):
        if param.name in bind:
            dtype = param.type.dtype if isinstance(param.type, TensorType) else None
            return dense(bind[param.name], dtype)
        return types.substitute(param.type, {n: v for n, v in bind.items() if n in types.dim_names(param.type)})

    return tuple(bound(param) for param in entry.params)


class _Walk:
    """The program walked, callees in the place of their calls."""

    def __init__(self, domain, machine, place):
        self.domain, self.machine, self.place = domain, machine, place
        """While no device has a place yet, only the devices are found."""
        self.ops: list = []
        self.storages: list = []
        self.devices: set = set()
        self.parameters = 0
        self.returned: set = set()
        self.donated: set = set()

    def through(self, entry, args):
        """Walk the entry function."""
        given = [self._made(type_of(arg)) for arg in args]
        self.parameters = len(self.storages)
        pairs = zip(entry.params, given, strict=True)
        self.donated = {s for param, leaves in pairs if "donated" in param.roles for s in leaves if s is not None}
        self.returned = {s for result in self._run(entry, args, given) for s in result if s is not None}
        return self

    def _run(self, function, args, given):
        """Run a function; gives the storages of each result, by leaf."""
        rho = self.domain.instance(function.name, args).state
        where = {param.name: leaves for param, leaves in zip(function.params, given, strict=True)}

        def at(arg):
            if isinstance(arg, tuple):
                return [leaf for item in arg for leaf in at(item)]
            if isinstance(arg, str):
                return where[arg] if arg != DISCARD else []
            return [None] * types.width(type_of(arg))

        for index, statement in enumerate(function.body):
            operands = [at(arg) for arg in statement.args]
            if isinstance(statement, Return):
                return operands
            if isinstance(statement, Call):
                callee = self.domain.module.functions[statement.function]
                run = self._kernel if callee.kernel and self.place else self._run
                results = run(callee, rho(statement.args), operands)
                if run == self._kernel:
                    self.ops[-1].function, self.ops[-1].index, self.ops[-1].statement = function.name, index, statement
                    self.ops[-1].stream = statement.stream
            else:
                results = self._op(function.name, index, statement, rho, [leaf for arg in operands for leaf in arg])
            where |= {name: leaves for name, leaves in zip(statement.results, results, strict=True) if name != DISCARD}
        return []

    def _op(self, function, index, statement, rho, operands):
        """Run an op; gives the storages of each result."""
        definition, vs = lookup(statement.op), rho(statement.args)
        answers = self.domain.answer(statement, vs)
        ws = [type_of(a if n == DISCARD else rho[n]) for n, a in zip(statement.results, answers, strict=True)]
        ts = [type_of(v) for v in vs if v is not None]
        devices = tuple(sorted({d for t in [*ts, *ws] for d in types.devices(t)}))
        self.devices.update(devices)
        if not self.place:
            return [self._made(w) for w in ws]
        done = work(definition, vs, ws, statement.attrs)
        positions = tuple(self.place[device] for device in devices)
        view = bool(ts) and bool(definition.view)  # a constant is a view of nothing: its result is made
        first = len(self.storages)
        whole = operands[: types.width(ts[0])] * len(ws) if definition.view == "first" else operands
        results = _split(whole, ws) if view else [self._made(w) for w in ws]
        measured = len(devices) == 1 and self.machine.measured(statement.op, positions)
        if (definition.view or done == NO_WORK) and not measured and not definition.awaits:
            devices = ()
        spent = self._seconds(statement.op, done, positions) if devices else 0.0
        self.ops.append(Op(
            function, index, statement, devices, operands, [leaf for leaves in results for leaf in leaves],
            [*range(first, len(self.storages))], round(Fraction(spent) / TICK), spent, done.moves,
            done.temporary, [] if view else _donations(definition, ts, ws),
            statement.stream, *self._hosts(positions[: len(devices)], done, spent, definition.awaits), done,
        ))  # fmt: skip
        return results

    def _kernel(self, function, args, given):
        """Run a kernel: its ops together are one, which reads what is given, and writes what it returns."""
        outside, self.ops, first = self.ops, [], len(self.storages)
        inner_results = self._run(function, args, given)
        inside, self.ops = self.ops, outside
        sizes = self.storages[:]
        del self.storages[first:]

        leaves = [leaf for arg in args for leaf in types.leaves(type_of(arg))]
        operands = [storage for arg in given for storage in arg]
        used = {storage for op in inside for storage in op.operands}
        read = {}
        for leaf, storage in zip(leaves, operands, strict=True):
            if storage is not None and storage in used:
                read[storage] = max(read.get(storage, 0), leaf.nbytes)
        ws = [type_of(w) for w in self.domain.instance(function.name, args).returned]
        results, written = [], 0
        for w, storages in zip(ws, inner_results, strict=True):
            results.append([])
            for leaf, storage in zip(types.leaves(w), storages, strict=True):
                mine = storage is None or storage < first  # an operand, or a view of one
                results[-1] += [storage] if mine else self._made(leaf)
                written += 0 if mine else leaf.nbytes
        flops = Counter()
        for op in inside:
            for dtype, count in op.work.arithmetic:
                flops[dtype] += count
        (dtype, most), *others = sorted(flops.items(), key=lambda item: -item[1]) or [(None, 0)]
        others = tuple((dtype, count) for dtype, count in others if count)
        alone = sum(op.work.bytes for op in inside)
        contractions = tuple(one for op in inside for one in op.work.contractions)
        done = Work(most, min(alone, sum(read.values()) + written), dtype, others=others, contractions=contractions)
        devices = tuple(sorted({d for t in [*map(type_of, args), *ws] for d in types.devices(t)}))
        devices = devices if done.flops or done.bytes else ()
        spent = self._seconds(f"@{function.name}", done, [self.place[d] for d in devices]) if devices else 0.0

        returned = [storage for storages in inner_results for storage in storages]
        heirs = {}
        for number, op in enumerate(inside):
            later = {s for other in inside[number + 1 :] for s in other.operands} | set(returned)
            for result, operand in op.donations:
                new, old = op.results[result], op.operands[operand]
                free = None not in (new, old) and old not in later and old not in heirs.values()
                if free and sizes[new] == sizes[old]:
                    heirs[new] = old
        donations = []
        for leaf, storage in enumerate(returned):
            held = storage
            while held in heirs:
                held = heirs[held]
            if held != storage and held in operands:
                donations.append((leaf, operands.index(held)))
        reuses = self._reused(function, args, operands, leaves, returned, ws)
        made = [*range(first, len(self.storages))]
        flat = [storage for storages in results for storage in storages]
        self.ops.append(Op(
            "", 0, None, devices, operands, flat, made, round(Fraction(spent) / TICK), spent, False, 0, donations,
            "", *self._hosts([self.place[d] for d in devices], done, spent), done,
            [pair for pair in reuses if pair not in donations],
        ))  # fmt: skip
        return results

    def _hosts(self, positions, done, spent, awaits=False):
        """By device: for how long its host issues an op, and by how much it delays what is computed beside it."""
        kinds = [self.machine.kind(position) for position in positions]
        experts = sum(c.batch for _, _, c in done.contractions if getattr(c, "grouped", False))
        each = [0 if awaits else max(k.host.issue, experts * k.host.each_expert) for k in kinds]
        waits = [self._waits(kind.host, done) for kind in kinds]
        issue = [None if w else round(Fraction(s) / TICK) for w, s in zip(waits, each, strict=True)]
        communicates = done.communication is not None
        delays = [kind.begin + kind.interference * spent if communicates else 0 for kind in kinds]
        return issue, [round(Fraction(delay) / TICK) for delay in delays]

    @staticmethod
    def _waits(host, done):
        """Whether a host waits until an op is done."""
        sent = done.communication is not None and done.communication.pattern == "send"
        return host.blocking or (host.waits_for_sends and sent) or (host.waits_for_counts and done.counts)

    def _reused(self, function, args, operands, leaves, returned, ws):
        """Results of a kernel, and the operands of their size of which it needs each element in its turn only."""
        rho, found, start = self.domain.instance(function.name, args).state, [], 0
        outcomes = [leaf for w in ws for leaf in types.leaves(w)]
        for param, arg in zip(function.params, args, strict=True):
            leaf, start = start, start + types.width(type_of(arg))
            alone = (
                operands[leaf : leaf + 1] != [None] and operands.count(operands[leaf]) == 1 if start > leaf else False
            )
            if not isinstance(type_of(arg), TensorType) or not alone or operands[leaf] in returned:
                continue
            size, same = leaves[leaf].elements, {param.name}  # values that hold the operand's elements, in its order
            in_turn = True
            for statement in function.body:
                if not isinstance(statement, Apply) or same.isdisjoint(statement.args):
                    continue
                kind, turned = kind_of(lookup(statement.op)), statement.op == "RotaryEmbedding"
                looped = statement.args[1] if statement.op == "SoftmaxCrossEntropyLossGrad" else statement.args[0]
                looped = looped if kind in ("rows", "reduction") else statement.results[0]
                ordered = statement.op in ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity")
                known = isinstance(looped, str) and statement.results[0] != DISCARD
                over = type_of(rho[looped]) if known and looped != DISCARD else None
                read = [type_of(rho[name]) for name in statement.args if name in same]
                both = isinstance(over, TensorType) and all(isinstance(t, TensorType) for t in read)
                fits = both and all(over.elements == t.elements for t in read)
                in_turn &= fits and not turned and (kind in ("pointwise", "rows", "reduction") or ordered)
                same |= set() if kind == "reduction" else {name for name in statement.results if name != DISCARD}
            for result, outcome in enumerate(outcomes):
                made = isinstance(outcome, TensorType) and returned[result] not in operands
                alike = made and (outcome.elements, outcome.nbytes) == (size, leaves[leaf].nbytes)
                found += [(result, leaf)] if in_turn and alike and outcome.device == leaves[leaf].device else []
        return found

    def _seconds(self, op, done, positions):
        communication = done.communication
        if communication is not None and communication.root is not None:
            done = replace(done, communication=replace(communication, root=self.place[communication.root]))
        if communication is not None and communication.group is not None:  # one device stands for a group
            size, stride = communication.group
            positions = tuple(positions[0] + rank * stride for rank in range(size))
        return self.machine.cost(done, positions, op).seconds

    def _made(self, type):
        """A storage for each leaf of a value; None for those on the host."""
        found: list = []
        for leaf in types.leaves(type):
            self.devices |= types.devices(leaf)
            found.append(None if leaf.device == HOST else len(self.storages))
            if leaf.device != HOST:
                assert isinstance(leaf.nbytes, int), leaf
                memory = self.place[leaf.device] if self.place else 0
                memory = -1 - memory if getattr(leaf, "offloaded", False) else memory  # that of the device's host
                self.storages.append((memory, leaf.nbytes))
        return found


def _split(leaves, ws):
    """Leaves by result."""
    found, start = [], 0
    for w in ws:
        found.append(leaves[start : start + types.width(w)])
        start += types.width(w)
    return found


def _donations(definition, ts, ws):
    pairs = {i: i for i in range(len(ws))} if definition.inplace == "each" else dict(definition.inplace)
    width = lambda t: len(list(types.leaves(t)))  # noqa: E731
    found = []
    for result, operand in pairs.items():
        if result < len(ws) and operand < len(ts) and width(ws[result]) == width(ts[operand]):
            a, b = sum(map(width, ws[:result])), sum(map(width, ts[:operand]))
            found += [(a + i, b + i) for i in range(width(ws[result]))]
    return found


class Run:
    """The events, one after the other, by the rule of clocks: of streams, hosts, and values that get ready."""

    def __init__(self, events, durations=None):
        self.clocks: dict = {}
        self.starts: list = []
        self.hosted: list = []
        for number, event in enumerate(events):
            ticks = event.ticks
            if durations and number in durations:
                ticks = round(Fraction(durations[number]) / TICK)
            waits = event.waits
            start = max(self.clocks.get(clock, 0) + delay for clock, delay in waits)
            self.starts.append(start)
            blocked = event.ends_on
            others = [c for c, _ in waits if c[0] != "host" or c in blocked]
            self.hosted.append(max(self.clocks.get(clock, 0) for clock in others))
            for clock, delay in event.delays:
                self.clocks[clock] = self.clocks.get(clock, 0) + delay
            self.clocks.update(dict.fromkeys(event.ends_on, start + ticks))

    @property
    def by_device(self):
        """When the last stream of each device is done."""
        found: dict = {}
        for clock, ticks in self.clocks.items():
            if clock[0] == "stream":
                found[clock[1]] = max(found.get(clock[1], 0), ticks)
        return found


def _times(ran):
    run = Run(ran.events)
    ran.starts, ran.hosted, ran.clocks = run.starts, run.hosted, run.by_device
    for device in {device for event in ran.events for device in event.devices}:
        own = [(start, start + event.ticks, event.communicates)
               for event, start in zip(ran.events, ran.starts, strict=True) if device in event.devices]  # fmt: skip
        ran.busy[device] = _covered([(a, b) for a, b, _ in own])
        ran.communication[device] = _covered([(a, b) for a, b, communicates in own if communicates])


def _covered(pieces):
    """For how long at least one of the pieces lasts."""
    found, until = 0, 0
    for a, b in sorted(pieces):
        found += max(0, b - max(a, until))
        until = max(until, b)
    return found


def _pending(ran):
    """The ops on other streams than that of compute that make a value, on each of their devices (by memory).

    Each with the storages that it uses there, and the op that first waits for it there: one on the compute stream which
    uses a value that depends on it; or, where it makes nothing, the next such op on the stream. None if there is none.
    """
    depends: dict = {}
    settled: dict = {}
    sent: dict = {}
    used: dict = {}

    def home(storage):
        memory = ran.storages[storage][0]
        return memory if memory >= 0 else -1 - memory

    def waiting(op, device):
        on = [s for s in op.operands if s is not None and home(s) == device]
        return {token for s in on for token in depends.get(s, ()) if settled[token] is None}

    for index, op in enumerate(ran.ops):
        for device in {home(s) for s in {*op.operands, *op.results} - {None}}:
            before, made = waiting(op, device), [s for s in op.made if home(s) == device]
            if op.devices and not op.stream:
                settled.update(dict.fromkeys(before, index))
                continue
            if op.devices and op.made:
                own = index, device
                settled[own], used[own] = None, [s for s in {*op.operands, *op.results} - {None} if home(s) == device]
                before.add(own)
                if not made:
                    last = sent.get((device, op.stream), ())
                    settled.update({token: index for token in last if settled[token] is None})
                    sent[device, op.stream] = before
            depends.update(dict.fromkeys(made, before))
    return [(token[0], used[token], until) for token, until in settled.items()]


def _memory(ran):
    """After every op, what is in use follows from who needs what."""
    last_use: dict = {}
    for index, op in enumerate(ran.ops):
        for storage in (*op.operands, *op.results):
            if storage is not None:
                last_use[storage] = index
    holds: dict = {}
    waits: dict = {}
    for issued, used, until in _pending(ran):
        waits.setdefault(until, []).extend(used)
        for storage in used:
            holds.setdefault(storage, []).append((issued, len(ran.ops) if until is None else until))

    def used_after(storage, index):
        return storage in ran.returned or last_use.get(storage, -1) > index

    def held_after(storage, index, before):
        """Whether an op that was issued before another holds it."""
        return any(issued < before and until > index for issued, until in holds.get(storage, ()))

    alive = set(range(ran.parameters))
    permanent = set(alive) - ran.donated
    """The entry function's parameters live throughout, but for donated ones, and what takes over their memory does."""
    _note(ran, alive, {}, None)
    event = -1
    for index, op in enumerate(ran.ops):
        event += bool(op.devices)
        taken_over: dict = {}
        owned = [pair for pair in op.reuses if op.operands[pair[1]] not in permanent]
        for result, operand in [*op.donations, *owned]:
            new, old = op.results[result], op.operands[operand]
            if new in taken_over or new is None or old is None or old not in alive or old in taken_over.values():
                continue
            if used_after(old, index) or held_after(old, index, before=index):
                continue
            if ran.storages[old] == ran.storages[new]:
                taken_over[new] = old
        for new, old in taken_over.items():
            alive.remove(old)
            if old in permanent:
                permanent.add(new)
        alive.update(op.made)
        temporary: dict = Counter()
        for device in op.devices if op.temporary else ():
            temporary[ran.place[device]] += op.temporary
        _note(ran, alive, temporary, event)
        gone = {*op.operands, *op.results, *waits.get(index, ())}
        for storage in (gone & alive) - permanent:
            if not used_after(storage, index) and not held_after(storage, index, before=len(ran.ops)):
                alive.remove(storage)


def _note(ran, alive, temporary, event):
    use: Counter = Counter(temporary)
    for storage in alive:
        memory, nbytes = ran.storages[storage]
        use[memory] += nbytes
    for memory, nbytes in use.items():
        ran.peaks[memory] = max(ran.peaks.get(memory, 0), nbytes)
        ran.use.setdefault(memory, []).append((event, nbytes))
