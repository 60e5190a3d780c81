"""Cuts the statements of a microbatch into stages, forward and backward.

The forward pass is the part before the first gradient of a weight; it is cut in program order. A statement of the
backward pass belongs to the stage of the weights that it uses, else to that of the forward values. Independent of
schedules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import pairwise

from distir.cost import Hardware
from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.diagnostics.core import Code
from distir.diagnostics.quantities import show_bytes
from distir.ir import DISCARD, Apply, Arg, Call, Constant, Module, Part, Site, TensorType, Type, names, operands
from distir.ir.rewrite import with_operands
from distir.ops import OPS, type_of
from distir.transform.pipeline.balance import bytes_held, least_bytes, most_even, within
from distir.transform.pipeline.holding import pieces
from distir.transform.pipeline.microbatches import is_sum
from distir.transform.pipeline.passes import Pass
from distir.transform.pipeline.reading import Phase, Reading, Work, read

Cost = Callable[[int], float]
"""Seconds that a statement of the reading takes, by its number."""


@dataclass(frozen=True)
class Stages:
    """The statements of each stage and pass, in program order, by their numbers in the reading."""

    count: int
    passes: Mapping[tuple[int, Pass], Sequence[int]]
    trained: bool
    """Whether there is a backward pass."""
    anchors: Mapping[int, int]
    """By statement of the backward pass: its place in the forward pass."""
    firsts: tuple[int, ...] = ()
    """The place in the forward pass where each stage begins."""
    layers: tuple[int, ...] = ()
    """How many layers, or other units of stages, each stage has."""


@dataclass(frozen=True, slots=True)
class Layers:
    """The units of stages, by the places in the forward pass where they begin."""

    begins: Sequence[int]
    called: str
    """Their name in messages, with a placeholder for the plural `s`."""

    @property
    def counted(self) -> str:
        """`4 layers`."""
        return f"{len(self.begins)} {self.called.format('' if len(self.begins) == 1 else 's')}"


@dataclass(frozen=True)
class StageLimits:
    """The limits for stages that must fit into memory, or use little."""

    homes: Sequence[int]
    """By stage: its device."""
    in_flight: Sequence[int]
    """By stage: the most microbatches in flight."""
    limit: float | None
    """The bytes available on a device; None: no limit."""
    machine: Hardware
    bind: Mapping[str, Constant]
    """The sizes of named dimensions."""
    replicas: int = 1
    """The number of replicas over which the batch is split."""
    shards: int = 1
    """The number of devices over which weights and activations are split evenly."""


def cut(
    reading: Reading,
    count: int,
    balance: str,
    cost: Cost | None,
    limits: StageLimits | None = None,
    together: Mapping[str, int] | None = None,
) -> Stages:
    """Cut the statements of a microbatch into `count` stages. Raises ProgramError where there are too few layers.

    `together`: by weight, the number of its layer, where a layer is many statements: it is not cut.

    `balance`: "uniform", equally many layers; "2,3,2", so many layers each; "cost", the slowest stage as fast as can be
    by `cost`, or equally many layers where that is not known; "memory", the stage that holds most holding as little as
    can be. With `limits`, which "memory" needs, "cost" keeps to its limit. Raises ProgramError where there is no such
    cut.
    """
    forward, backward = _directions(reading)
    if not forward:
        raise _refused(reading, "nothing in `@{}` depends on the batch", "mark its inputs with `{batch = 0}`")
    once, twice = _made(reading, forward), _made(reading, backward)
    again = _again(reading, [*forward, *backward])
    again = {new: old for new, old in again.items() if old in once and new in twice}
    anchors = _anchors(reading, forward, backward, again)
    weighty = _weighty(reading, forward, together)
    layers = _layers(reading, forward, count - _ends_without_layers(balance), weighty)
    if limits is not None or (balance == "cost" and cost is not None):
        seconds = [cost(i) if cost else 0.0 for i in forward]
        for statement, anchor in anchors.items():
            seconds[anchor] += cost(statement) if cost else 0.0
        begins = _begins(reading, weighty, layers, count)
        if limits is None:
            weights = [sum(seconds[begin:end]) for begin, end in pairwise([*begins, len(forward)])]
            chosen = most_even(weights, count)
        else:
            chosen = _within(reading, forward, anchors, begins, seconds, balance, limits)
        firsts = [begins[first] for first in chosen]
    else:
        firsts = _by_layers(reading, layers, len(forward), count, "uniform" if balance == "cost" else balance)
    stage_of = [0] * len(forward)
    for stage, (first, following) in enumerate(zip(firsts, [*firsts[1:], len(forward)], strict=True)):
        stage_of[first:following] = [stage] * (following - first)
    passes: dict[tuple[int, Pass], list[int]] = {}
    for position, statement in enumerate(forward):
        passes.setdefault((stage_of[position], Pass.FORWARD), []).append(statement)
    made = {name: stage_of[anchors[i]] for i in backward for name in reading.statements[i][0].results}
    for statement in backward:
        stage = stage_of[anchors[statement]]
        passes.setdefault((stage, Pass.BACKWARD), []).append(statement)
        _take_what_was_sent(reading, statement, {new: old for new, old in again.items() if made[new] != stage})
    _wait_within_stages(reading, passes)
    belongs = {i: forward[place] for i, place in anchors.items()}
    own = Counter(stage_of[begin] for begin in layers.begins)
    return Stages(count, passes, bool(backward), belongs, tuple(firsts), tuple(own[stage] for stage in range(count)))


def layer_count(module: Module, stages: int = 2) -> int:
    """The number of the entry function's layers, which `balance` distributes over stages. Raises ProgramError."""
    reading = read(module, 1)
    forward, _ = _directions(reading)
    return len(_layers(reading, forward, stages, _weighty(reading, forward)).begins)


def _take_what_was_sent(reading: Reading, number: int, sent: Mapping[str, str]) -> None:
    """Replace operands recomputed in another stage by equal values that the stage received in the forward pass."""
    statement, phase = reading.statements[number]
    if any(name in sent for name in names(statement.args)):
        changed = with_operands(statement, sent)
        assert isinstance(changed, (Apply, Call))
        reading.statements[number] = changed, phase


def _wait_within_stages(reading: Reading, passes: Mapping[tuple[int, Pass], Sequence[int]]) -> None:
    """Let streams wait for what their own stage makes: an event of another one would be sent to be waited for."""
    stage_of = {r: s for (s, _), numbers in passes.items() for i in numbers for r in reading.statements[i][0].results}
    for (stage, _), numbers in passes.items():
        for i in numbers:
            statement, phase = reading.statements[i]
            if _awaits(statement):
                value, *events = statement.args
                own = [event for event in events if stage_of.get(str(event), stage) == stage]
                reading.statements[i] = replace(statement, args=(value, *(own or [value]))), phase


def _awaits(statement: Work) -> bool:
    """Whether all operands of a statement but the first are only waited for."""
    return isinstance(statement, Apply) and OPS[statement.op].awaits


def _made(reading: Reading, numbers: Iterable[int]) -> set[str]:
    return {name for i in numbers for name in reading.statements[i][0].results}


def _directions(reading: Reading) -> tuple[list[int], list[int]]:
    """The statements of a microbatch's forward and backward pass, in program order."""
    working = [i for i, (_, phase) in enumerate(reading.statements) if phase is Phase.MICROBATCH]
    ending, updating = _updating(reading)
    gradients = {name for name in updating if is_sum(reading.values[name].shares)}
    reaching = _reaching(reading, working, updating)
    turn = next((i for i in working if any(r in gradients for r in reading.statements[i][0].results)), None)
    if turn is None:
        return working, []
    back: set[int] = set()
    made_back: set[str] = set()
    for i in working:
        statement = reading.statements[i][0]
        if (i >= turn and i in reaching) or any(n in made_back for n in names(statement.args)):
            back.add(i)
            made_back.update(statement.results)
    made_back.discard(DISCARD)
    _begin_back_early(reading, working, back, reaching, ending)
    return [i for i in working if i not in back], [i for i in working if i in back]


def _begin_back_early(
    reading: Reading, working: Sequence[int], back: set[int], reaching: set[int], ending: Set[int]
) -> None:
    """Move the gradient of the loss, and recomputation for it, to the backward pass.

    Both follow the last layer, and only the backward pass uses them, or what computes gradients of the whole batch
    (`ending`). So do fetches of residuals, wherever they are: each is in the stage that has offloaded it.
    """
    users, again = _users(reading), _again(reading, working)
    behind_layers = True
    for i in reversed([i for i in working if i not in back]):
        statement = reading.statements[i][0]
        if _weights(reading, statement) and not any(r in again for r in statement.results):
            behind_layers = False
        if not (behind_layers or _fetches(statement)):
            continue
        if i in reaching and all(users.get(r, set()) <= back | ending for r in statement.results if r != DISCARD):
            back.add(i)


def _fetches(statement: Work) -> bool:
    """Whether a statement brings a value back from the memory of the host, or lets that wait."""
    return isinstance(statement, Apply) and (statement.op == "Fetch" or OPS[statement.op].awaits)


def _again(reading: Reading, working: Sequence[int]) -> dict[str, str]:
    """By recomputed value: the original."""
    first: dict[Hashable, tuple[str, ...]] = {}
    again: dict[str, str] = {}
    for i in working:
        statement = reading.statements[i][0]
        args = operands(with_operands(statement, again))
        does = statement.function if isinstance(statement, Call) else (statement.op, statement.attrs)
        before = first.setdefault((does, args), statement.results)
        if before is not statement.results:
            pairs = zip(statement.results, before, strict=True)
            again.update((new, old) for new, old in pairs if DISCARD not in (new, old))
    return again


def _updating(reading: Reading) -> tuple[set[int], set[str]]:
    """What behind all microbatches updates weights, or gives results that are no scalars; and the values that it takes.

    Without an optimizer, gradients are such results.
    """
    ending = set[int]()
    updating = {n for n in names(reading.entry.returned) if not _scalar(type_of(reading.values[n].full))}
    weights = {p.name for p in reading.entry.params if p.name not in reading.batch}
    for i, (statement, phase) in reversed([*enumerate(reading.statements)]):
        if phase is Phase.AFTER:
            mentioned = set(names(statement.args))
            if mentioned & weights or updating.intersection(statement.results):
                ending.add(i)
                updating |= mentioned
    return ending, updating


def _scalar(type: Type) -> bool:
    return isinstance(type, TensorType) and type.shape == ()


def _reaching(reading: Reading, working: Sequence[int], gradients: set[str]) -> set[int]:
    """The statements on which a gradient depends."""
    wanted, found = set(gradients), set[int]()
    for i in reversed(working):
        statement = reading.statements[i][0]
        if wanted.intersection(statement.results):
            found.add(i)
            wanted.update(names(statement.args))
    return found


def _users(reading: Reading) -> dict[str, set[int]]:
    """By value: the statements that use it; -1 for the function's return."""
    users: dict[str, set[int]] = {}
    for i, (statement, _) in enumerate(reading.statements):
        for name in names(statement.args):
            users.setdefault(name, set()).add(i)
    for name in names(reading.entry.returned):
        users.setdefault(name, set()).add(-1)
    return users


def _weights(reading: Reading, statement: Work) -> list[str]:
    """The device values that a statement uses and that do not depend on the batch."""
    return [n for n in names(statement.args) if reading.is_whole(n) and not reading.is_host(n)]


def _anchors(
    reading: Reading, forward: Sequence[int], backward: Sequence[int], again: Mapping[str, str]
) -> dict[int, int]:
    """By statement of the backward pass: the place in `forward` whose stage it joins.

    It is that of the weights and forward values that the statement uses, but not after the places of its incoming
    gradients, so that gradients flow backward only. A recomputed value (`again`) is a forward value, at the place of
    the original.
    """
    places: dict[str, set[int]] = {}
    made: dict[str, int] = {}
    for place, i in enumerate(forward):
        statement = reading.statements[i][0]
        for name in names(_taken(statement)):
            if name in made or (reading.is_whole(name) and not reading.is_host(name)):
                places.setdefault(name, set()).add(place)
        for name in statement.results:
            made[name] = place
            places[name] = {place}
    found: dict[int, int] = {}
    back: dict[str, int] = {}
    for i in backward:
        statement = reading.statements[i][0]
        taken = names(_taken(statement))
        bound = min((back[n] for n in taken if n in back), default=len(forward) - 1)
        first = [made[again[r]] for r in statement.results if again.get(r) in made]
        if first and first[0] <= bound:
            found[i] = first[0]
            back.update((r, first[0]) for r in statement.results if r not in again)  # what the forward pass discards
            continue
        mentioned = [again.get(n, n) for n in taken if not reading.is_host(n)]
        found[i] = _anchor([n for n in mentioned if n in places], places, made, bound)
        back.update(dict.fromkeys(statement.results, found[i]))
    return found


def _taken(statement: Work) -> Sequence[Arg]:
    """The operands that a statement takes; what it waits for says nothing of its stage."""
    return statement.args[:1] if _awaits(statement) else statement.args


def _anchor(mentioned: Sequence[str], places: Mapping[str, set[int]], made: Mapping[str, int], bound: int) -> int:
    """The last place up to `bound` with all the values, else with all the weights, else with some value."""
    weights = [n for n in mentioned if n not in made]
    for values in (mentioned, weights):
        common = set[int].intersection(*(places[n] for n in values)) if values else set[int]()
        if fitting := [p for p in common if p <= bound]:
            return max(fitting)
    fitting = [p for n in weights or mentioned for p in places[n] if p <= bound]
    return max(fitting, default=bound)


def _weighty(reading: Reading, forward: Sequence[int], together: Mapping[str, int] | None = None) -> list[int]:
    """The places of statements with weights; the first of consecutive ones in a layer."""
    own = [(place, _weights(reading, reading.statements[i][0])) for place, i in enumerate(forward)]
    if together is None:
        return [place for place, weights in own if weights]
    found: list[int] = []
    last: int | None = None
    for place, weights in own:
        layer = next((together[name] for name in weights if name in together), None)
        if layer is not None and layer != last:
            found.append(place)
            last = layer
    return found


def _layers(reading: Reading, forward: Sequence[int], count: int, weighty: Sequence[int]) -> Layers:
    """The units of stages.

    Layers are calls with weights; if they are too few, statements with weights; without any weights, all statements.
    """
    calls = [p for p in weighty if isinstance(reading.statements[forward[p]][0], Call)]
    if len(calls) >= count or (calls and len(calls) == len(weighty)):
        return Layers(calls, "layer{}")
    if not weighty:
        return Layers(list(range(len(forward))), "statement{}")
    also = f" ({len(calls)} of them layer{'' if len(calls) == 1 else 's'})" if calls else ""
    return Layers(weighty, f"statement{{}} with weights{also}")


def _by_layers(reading: Reading, layers: Layers, end: int, count: int, balance: str) -> list[int]:
    """The first place of each stage, for equally many layers, or the numbers in `balance`. `end`: that behind all."""
    begins = layers.begins
    if len(begins) < count - _ends_without_layers(balance):
        raise _too_few(reading, layers, count)
    if balance == "uniform":
        starts = [-(-stage * len(begins) // count) for stage in range(count)]
    else:
        sizes = [int(size) for size in balance.split(",")]
        if len(sizes) != count or sum(sizes) != len(begins) or min(sizes[1:-1], default=1) < 1:
            message = f"`balance` expected {count} numbers from 1 that add up to the {layers.counted} of `@{{}}`"
            hint = "give the number of them in each stage; the first and the last one may have 0"
            raise _refused(reading, f"{message}, found {balance}", hint)
        starts = [sum(sizes[:stage]) for stage in range(count)]
    places = [*begins, begins[-1] + 1]  # a last stage without layers is what follows them
    firsts = [0, *(places[start] for start in starts[1:])]
    if any(first >= following for first, following in pairwise([*firsts, end])):
        raise _refused(reading, f"`balance={balance}` leaves a stage of `@{{}}` empty", "give it a layer")
    return firsts


def _ends_without_layers(balance: str) -> int:
    """Of the first and the last stage, how many have no layers: what comes before them, and behind."""
    sizes = balance.split(",")
    return (len(sizes) > 1) * (int(sizes[0] == "0") + int(sizes[-1] == "0"))


def _begins(reading: Reading, weighty: Sequence[int], layers: Layers, count: int) -> list[int]:
    """Where stages of unequal layers may begin.

    At layers, and at other statements with weights, such as those of an embedding or a head.
    """
    if len(layers.begins) < count:
        raise _too_few(reading, layers, count)
    return [0, *(weighty or layers.begins)[1:]]


def _within(
    reading: Reading,
    forward: Sequence[int],
    anchors: Mapping[int, int],
    begins: Sequence[int],
    seconds: Sequence[float],
    balance: str,
    limits: StageLimits,
) -> list[int]:
    """The first piece of each stage, for stages that fit or use the least memory."""
    cuttable = pieces(
        reading, forward, anchors, begins, seconds, limits.machine, limits.bind, limits.replicas, limits.shards
    )
    least = least_bytes(cuttable, limits.in_flight)
    if limits.limit is None:
        return least
    found = least if balance == "memory" else within(cuttable, limits.in_flight, limits.homes, limits.limit)
    held = [0.0] * (max(limits.homes) + 1)
    for home, count, (a, b) in zip(limits.homes, limits.in_flight, pairwise([*least, len(cuttable)]), strict=True):
        held[home] += bytes_held(cuttable[a:b], count)
    if not found or max(held) > limits.limit:
        message = f"no cut of `@{{}}` has stages that fit into {show_bytes(limits.limit)}"
        hint = f"about {show_bytes(max(held))} would do; or use more stages, `checkpoint`, or smaller microbatches"
        raise _refused(reading, message, hint, codes.STAGES_TOO_LARGE)
    return found


def _too_few(reading: Reading, layers: Layers, count: int) -> ProgramError:
    most = len(layers.begins)
    message = f"`@{{}}` has {layers.counted}, too few for {count} stages"
    return _refused(reading, message, f"use at most {most} stage{'' if most == 1 else 's'} (devices × `virtual`)")


def _refused(reading: Reading, message: str, hint: str, code: Code = codes.TOO_FEW_LAYERS) -> ProgramError:
    if reading.postponed is not None:  # layers after this op are not per microbatch
        return reading.postponed
    site = Site(reading.entry.name, None, Part("name"))
    return ProgramError([Diagnostic(code, site, message.format(reading.entry.name), help=hint)])
