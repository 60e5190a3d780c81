"""The steps `pp` and `accumulate`: a sequential program as a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TypeVar

from distir.cost import Hardware, load
from distir.cost.units import UnitError, parse_bytes
from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.diagnostics.spelling import nearest
from distir.files.reading import SCHEDULE, read_text, why_not
from distir.ir import Call, Facts, Function, Module, Part, Site
from distir.ir.calls import reachable
from distir.ir.per_thread import kept_per_thread
from distir.transform.order import DISTRIBUTED, SPREAD, STATE_ON_HOSTS
from distir.transform.pipeline import torch_csv
from distir.transform.pipeline.accumulation import Accumulating, accumulating
from distir.transform.pipeline.batch import count_of
from distir.transform.pipeline.best import BestOrder, placements
from distir.transform.pipeline.chunks import by_chunk, in_chunks, with_joint_sums
from distir.transform.pipeline.costs import PipelineCost, hundredths, pipeline_cost, statement_costs
from distir.transform.pipeline.order import NOMINAL, SPLIT
from distir.transform.pipeline.outlining import Outlined, outline
from distir.transform.pipeline.packing import pack
from distir.transform.pipeline.passes import (
    Lengths,
    Order,
    Pass,
    forward_only,
    stage_devices,
    stages_in_flight,
)
from distir.transform.pipeline.placement import Place, place
from distir.transform.pipeline.prepared import Prepared, some
from distir.transform.pipeline.reading import Phase, Reading, Work, read, types_of_parts
from distir.transform.pipeline.schedules import SCHEDULES, Schedule, as_given, fit
from distir.transform.pipeline.shares import StageShares
from distir.transform.pipeline.shares import stage_shares as found_shares
from distir.transform.pipeline.splitting import split_backward, used_outside
from distir.transform.pipeline.stages import Cost, StageLimits, Stages, cut
from distir.transform.pipeline.validation import ScheduleError
from distir.transform.steps import Count, StepError, always, bound_sizes, doubling, is_heard, step, tell

Made = TypeVar("Made")

SECONDS = 2.0
"""For how long the solver seeks an order for the lengths of passes, by a clock that counts its work."""

BALANCES = ("uniform", "cost", "memory")
"""The words for `balance`."""

OPTION_WORDS = {"balance": (*BALANCES, "2,2"), "memory": ("70GB",)}
"""Examples of what options take that any words may follow."""

CSV = ".csv"
"""The suffix of files with orders in torch's format (`torch_csv`)."""

SUMS = ("layer", "stage")
"""When gradients of microbatches are accumulated: for each layer as they are computed, or for a stage together."""


@step(
    after=("cse",),
    before=(DISTRIBUTED, STATE_ON_HOSTS),
    makes=SPREAD,
    choices={"schedule": SCHEDULES, "sums": SUMS},
    examples=OPTION_WORDS,
    tries=doubling("pp={} microbatches=8"),
)
def pp(
    module: Module,
    value: Count,
    *,
    microbatches: int = 1,
    micro_batch: int = 0,
    schedule: str = "1f1b",
    virtual: int | None = None,
    balance: str = "cost",
    hardware: str = "dgx-a100",
    sums: str = SUMS[0],
    in_flight: int = 0,
    memory: str | None = None,
    bind: tuple[str, ...] = (),
    chunks: int = 1,
) -> Module:
    """Pipeline parallelism over `value` devices.

    Splits the layers of the entry function into stages; the schedule determines their number per device (`virtual`, if
    it supports any number: `interleaved` and `looped-bfs` have 2 unless it is given). Splits the batch into
    `microbatches`, or into microbatches of `micro_batch` examples each; their gradients are accumulated, and the
    weights are updated once, at the end. A program without a backward pass has only forward passes, with any schedule.

    With many microbatches the steady state is a function, `round`, that one counted call calls repeatedly. The step
    `inline=round` writes it out.

    `balance`: `cost` minimizes the estimated time of the slowest stage, embedding and head included; `memory`, what
    the stage holds that holds most: weights, gradients, an optimizer's state, and activations of the microbatches that
    the schedule has in flight there. Both leave equally many layers where these take less by a simulation. `uniform`:
    equally many layers per stage, also where times cannot be estimated; `3,2,3`, numbers of layers, which may be 0 for
    the first and the last stage: an embedding, or a head, by itself. Times are estimated by the rates of `hardware`;
    they also determine the places of sends, and of weight gradients if the schedule splits the backward pass.

    `memory`, such as `memory=70GB`: stages that take the least time of those which fit into so much, by the same
    estimate. Sizes of named dimensions are given by `bind=B=64`.

    `sums`: with `layer` the gradients of a microbatch are added to their sums as soon as a layer has made them, as
    PyTorch and Megatron do it: a stage holds its gradients once, and those of one layer beside them; each takes a
    launch of its own. `stage` adds those of a stage together, when its backward pass is done and has sent what the
    stage before waits for, as in the paper: in one launch, with a second copy of the stage's gradients.

    `schedule`: by name, or a CSV file of torch's pipeline runtime (`schedule=order.csv`), which `distir export
    torch-csv` writes too: the order of the passes is that of the file, and so is the number of microbatches if none is
    given.

    `in_flight`: with the schedule `best`, how many microbatches a device may have gone forward with and not yet back; P
    unless it is given.

    `chunks`: with the schedule `seq1f1b`, how many parts of equal length a sequence is cut into. A chunk's queries meet
    the keys and values of the chunks up to it, which stay where they are; backward passes go from the last chunk to the
    first. So a stage holds the activations of fewer tokens, and waits for shorter passes.

    A note gives each stage's share of time, FLOPs and weights, and names the bottleneck if they are uneven.
    """
    count = schedule_count(schedule, count_of(module, microbatches, micro_batch))
    options = (value, count, schedule, per_device(schedule, virtual, chunks), balance, hardware, sums, in_flight)
    made = pipeline_of(module, *options, memory, bind)
    if is_heard():
        for line in made.lines:
            tell(line)
    return made.written


def per_device(schedule: str, virtual: int | None = None, chunks: int = 1) -> int:
    """The number of stages per device to ask the schedule for: `virtual`, or one for each chunk of sequences.

    Without `virtual` it is the schedule's own, so that `interleaved` interleaves. Raises StepError for chunks with a
    schedule that has none.
    """
    chosen = schedule_of(schedule)
    if chunks < 1 or (chunks > 1 and not chosen.cuts):
        such = " or ".join(f"`schedule={name}`" for name, other in SCHEDULES.items() if other.cuts)
        raise StepError(f"`chunks` expected 1 or more with {such}, found {chunks} with `{schedule}`")
    if virtual is None:
        virtual = chosen.stages if chosen.virtual else 1
    if chosen.cuts and virtual > 1:
        raise StepError(f"`{schedule}` has one stage per device, found `virtual={virtual}`; did you mean `chunks`?")
    return chunks if chosen.cuts else virtual


@step(
    after=("cse",),
    before=(DISTRIBUTED, STATE_ON_HOSTS),
    makes=SPREAD,
    tries=always("accumulate=2", "accumulate=4"),
)
def accumulate(module: Module, value: int = 0, *, micro_batch: int = 0) -> Module:
    """Gradient accumulation: the batch in `value` microbatches one after the other, with one update at the end.

    Or in microbatches of `micro_batch` examples each. The activations of one microbatch are held at a time, and one sum
    for each gradient, to which each layer adds its own. Apply it before `dp`, `tp` and
    `zero`: gradients are summed over devices once per step. It is a pipeline of one stage; `pp` and `dtp` accumulate by
    themselves.

    With many microbatches what repeats is a counted call of a function, `round`, as for `pp`.

    Raises ProgramError where no parameter has a batch, it does not divide, or an op needs all of it at once.
    """
    if value < 0 or not (value or micro_batch):
        raise StepError("`accumulate` expected a number of microbatches, as in `accumulate=4`, or `micro_batch=`")
    count = count_of(module, value, micro_batch, name="accumulate")
    return pipeline_of(module, 1, count, "1f1b", 1, "uniform", "dgx-a100").written


def stage_shares(
    module: Module,
    value: int,
    *,
    microbatches: int = 1,
    schedule: str = "1f1b",
    virtual: int | None = None,
    balance: str = "cost",
    hardware: str = "dgx-a100",
    sums: str = SUMS[0],
) -> StageShares:
    """Each stage's layers, and its share of time, FLOPs and weights, in the pipeline of `pp=value`.

    Raises ProgramError as `pp` does.
    """
    stages = per_device(schedule, virtual)
    return pipeline_of(module, value, microbatches, schedule, stages, balance, hardware, sums).shares


def pipeline_of(
    module: Module,
    devices: int,
    microbatches: int,
    schedule: str,
    virtual: int,
    balance: str,
    hardware: str,
    sums: str = SUMS[0],
    in_flight: int = 0,
    memory: str | None = None,
    bind: tuple[str, ...] = (),
    replicas: int = 1,
    shards: int = 1,
) -> Prepared:
    """The pipeline that `pp` makes with these options, and what is known of it. Raises ProgramError as `pp` does.

    `replicas`: over how many the batch is split later; `shards`: over how many weights are.
    """
    chosen, room = schedule_of(schedule), None
    if balance == "memory" or memory is not None:
        if balance not in ("cost", "memory"):
            raise StepError(f"`memory` expected `balance=cost` or `balance=memory`, found `balance={balance}`")
        room = Room(_parsed(memory), bind, replicas, shards)
    options = (module, devices, microbatches, chosen, virtual, balance, load(hardware), sums, in_flight, room)
    made = _prepared(*options)
    return _better(*options) if balance in MEASURES and memory is None and not made.is_uniform else made


MEASURES: dict[str, Callable[[PipelineCost], float]] = {"cost": lambda c: c.seconds, "memory": lambda c: c.peak_bytes}
"""By `balance`: the cost of the pipeline that is minimised."""


@kept_per_thread(16)
def _better(
    module: Module,
    devices: int,
    microbatches: int,
    chosen: Schedule,
    virtual: int,
    balance: str,
    machine: Hardware,
    sums: str,
    in_flight: int,
    room: Room | None,
) -> Prepared:
    """The pipeline with stages cut by `balance`, unless that with equally many layers takes less, messages and all."""
    options = (machine, sums, in_flight)
    tried = [
        _prepared(module, devices, microbatches, chosen, virtual, balance, *options, room),
        _prepared(module, devices, microbatches, chosen, virtual, "uniform", *options),
    ]
    bind = None if room is None else bound_sizes(room.bind)
    cost = [MEASURES[balance](pipeline_cost(made.written, microbatches, devices, machine, bind)) for made in tried]
    if cost[0] <= cost[1]:
        return tried[0]
    # Report the cut as one by time: no other cut between layers is better.
    return tried[1] if balance != "cost" else replace(tried[1], find_shares=lambda: _settled(tried[1].shares))


def _settled(shares: StageShares) -> StageShares:
    return replace(shares, by_cost=True)


@dataclass(frozen=True, slots=True)
class Room:
    """The memory limit of stages in bytes, with sizes of named dimensions, replicas and shards."""

    limit: int | None
    bind: tuple[str, ...]
    replicas: int
    shards: int


def _parsed(memory: str | None) -> int | None:
    try:
        return None if memory is None else parse_bytes(memory)
    except UnitError as error:
        raise StepError(f"`memory={memory}`: {error}") from None


@dataclass(frozen=True, slots=True)
class Steady:
    """A pipeline derived from one for `microbatches`.

    `more`: by function called for repetitions, the number of additional calls. With fewer microbatches, the last ones
    are omitted; each device runs the rest in the same order.
    """

    microbatches: int
    more: Mapping[str, int]


@lru_cache(maxsize=64)  # plans of a search have the same pipelines with other degrees of the others
def steady(
    module: Module,
    value: int,
    *,
    microbatches: int = 1,
    schedule: str = "1f1b",
    virtual: int | None = None,
    balance: str = "cost",
    hardware: str = "dgx-a100",
    sums: str = SUMS[0],
) -> Steady | None:
    """How the pipeline of `pp` with these options is derived from another one; None if it is from none.

    Apart from what `Steady` says, the two differ in the size of a microbatch, and in numbers that are no sizes. Raises
    ProgramError where `pp` does.
    """
    if microbatches == 1:
        return None  # the batch is not cut
    if balance == "memory":
        return None  # stages depend on the number of microbatches in flight
    chosen, virtual = schedule_of(schedule), per_device(schedule, virtual)
    if chosen.given is not None:
        return None  # the schedule is for one number of microbatches
    try:
        stages = value * chosen.stages_per_device(virtual)
    except ScheduleError:
        return None  # `pp` says why
    if chosen.splits:  # an order that depends on the lengths of passes is its own
        made = _prepared(module, value, microbatches, chosen, virtual, balance, load(hardware), sums, 0, None)
        if made.timed is not None:
            return None
    for few in some(value, stages, microbatches):
        if few == microbatches:
            return None
        # With all arguments, as `pipeline_of` has them: then it is prepared once.
        other = _prepared(module, value, few, chosen, virtual, balance, load(hardware), sums, 0, None)
        if not other.is_uniform:
            return None  # which cut is faster depends on the number of microbatches
        if (more := other.more(microbatches)) is not None:
            return Steady(few, more)
        if few > microbatches:
            return None
    return None


@kept_per_thread(16)
def _prepared(
    module: Module,
    devices: int,
    microbatches: int,
    chosen: Schedule,
    virtual: int,
    balance: str,
    machine: Hardware,
    sums: str = SUMS[0],
    in_flight: int = 0,
    room: Room | None = None,
) -> Prepared:
    _check_options(devices, microbatches, virtual, balance)
    if in_flight and (in_flight < 0 or not chosen.fitted):
        such = " or ".join(f"`schedule={name}`" for name, other in SCHEDULES.items() if other.fitted)
        raise StepError(f"`in_flight` expected 1 or more with {such}, found {in_flight} with `{chosen.name}`")
    if sums not in SUMS:
        near = nearest(sums, SUMS)
        raise StepError(
            f"`sums` expected {' or '.join(f'`{s}`' for s in SUMS)}, found `{sums}`"
            + (f"; did you mean `{near}`?" if near else "")
        )
    parts, chunks = None, virtual if chosen.cuts else 1
    if chunks > 1:
        module, parts = in_chunks(module, chunks)
    reading = read(module, microbatches)
    # By shape would be wrong: shards, which come later, are narrower. And stages would change with each better fit.
    machine = machine.by_rates()
    cost = _cost(reading, machine)
    if chosen.given is None:
        stages = devices * _reported(reading, lambda: chosen.stages_per_device(virtual))
        if stages > len(reading.statements):  # an order of so many would take long to make
            cut(reading, stages, "uniform", None)
    order = _order(reading, chosen, devices, virtual)
    homes = stage_devices(order)
    limits = None
    if room is not None:
        under_way = stages_in_flight(order)
        own = [under_way[first : first + chunks] for first in range(0, len(homes), chunks)]
        held = [-(-sum(each) // chunks) for each in own]
        limits = StageLimits(
            homes[::chunks],
            held,
            room.limit,
            machine,
            bound_sizes(room.bind),
            room.replicas,
            room.shards,
        )
    stages = whole = cut(reading, len(homes) // chunks, balance, cost, limits, None if parts is None else parts.layers)
    if parts is not None:
        stages = by_chunk(reading, whole, parts)
    is_uniform = balance not in MEASURES or chunks > 1 or stages.firsts == _uniform(module, microbatches, len(homes))
    if stages.trained and not chosen.trains:
        _reported(reading, lambda: _refuse_forward_only(chosen))
    lengths = _lengths(stages, chosen, cost)
    if chosen.fitted and stages.trained:
        homes = _fitted_homes(reading, homes, lengths, in_flight)
    shares = partial(found_shares, reading, whole, homes[::chunks], cost, balance == "cost")
    bodies = {where: [reading.statements[i][0] for i in numbers] for where, numbers in stages.passes.items()}
    functions = dict(reading.module.functions)
    if parts is not None:
        reading = with_joint_sums(reading, bodies, parts)
    split = chosen.splits and stages.trained
    if split:
        bodies, functions = split_backward(reading, bodies)
    reading, bodies, outside = pack(reading, bodies, used_outside(reading, bodies))
    passes = _outlined(reading, bodies, outside, chunks)
    adding = _accumulating(reading, passes) if sums == "layer" and microbatches > 1 else {}
    placement = place(reading, homes, passes, adding)
    functions_left = [*_kept(functions, reading, passes), *(o.function for o in passes.values())]
    functions_left += [a.function for a in adding.values()]
    timed = machine if split and cost is not None else None

    def rule(count: int) -> Order:
        if not stages.trained:
            return forward_only(chosen(devices, count, virtual))
        return fit(homes, lengths, count, in_flight).order if chosen.fitted else chosen(devices, count, virtual)

    def fitted(count: int, lengths: Lengths, sends: Lengths) -> BestOrder:
        return _reported(reading, lambda: fit(homes, lengths, count, in_flight, SECONDS, sends))

    return Prepared(
        placement,
        devices,
        functions_left,
        rule,
        lengths,
        timed,
        shares,
        fitted if chosen.fitted else None,
        is_uniform,
        chosen.given is not None,
    )


def _refuse_forward_only(chosen: Schedule) -> None:
    message = f"`{chosen.name}` has forward passes alone, and the program has a backward pass"
    raise ScheduleError(message, codes.SCHEDULE_PASSES)


def _uniform(module: Module, microbatches: int, stages: int) -> tuple[int, ...]:
    return cut(read(module, microbatches), stages, "uniform", None).firsts


def _fitted_homes(reading: Reading, homes: tuple[int, ...], lengths: Lengths, in_flight: int) -> tuple[int, ...]:
    """The devices of stages for which the shortest order is found."""
    devices = max(homes) + 1
    tried = list(placements(devices, len(homes) // devices))
    if len(tried) == 1:
        return homes
    return min(tried, key=lambda h: _reported(reading, lambda: fit(h, lengths, reading.count, in_flight)).span)


def schedule_of(name: str) -> Schedule:
    """The schedule of that name, or in that CSV file. Raises StepError where there is none."""
    if name.endswith(CSV) and name not in SCHEDULES:
        return _from_file(name)
    if name not in SCHEDULES:
        near = nearest(name, SCHEDULES)
        hint = f"did you mean `{near}`?" if near else f"the schedules are {', '.join(SCHEDULES)}, and files `*{CSV}`"
        raise StepError(f"there is no schedule `{name}`; {hint}")
    return SCHEDULES[name]


def _from_file(path: str) -> Schedule:
    try:
        return as_given(path, torch_csv.read(read_text(path, SCHEDULE)))
    except torch_csv.ScheduleFileError as error:
        raise StepError(f"`{path}`, {error}") from None
    except UnicodeDecodeError:
        raise StepError(f"`{path}` is no text in UTF-8") from None
    except OSError as error:
        raise StepError(f"cannot read `{path}`: {why_not(error)}") from None


def schedule_count(schedule: str, count: int) -> int:
    """The number of microbatches: the one given, else that of the file's order."""
    return (schedule_of(schedule).microbatches or count) if count == 1 and schedule.endswith(CSV) else count


def _check_options(devices: int, microbatches: int, virtual: int, balance: str) -> None:
    for name, number in (("pp", devices), ("microbatches", microbatches), ("virtual", virtual)):
        if number < 1:
            raise StepError(f"`{name}` expected 1 or more, found {number}")
    if balance not in BALANCES and not all(part.strip().isdecimal() for part in balance.split(",")):
        words = ", ".join(f"`{word}`" for word in BALANCES)
        raise StepError(f"`balance` expected {words}, or numbers with commas between them, found `{balance}`")


def _cost(reading: Reading, machine: Hardware) -> Cost | None:
    """The costs of statements; None if unknown."""
    try:
        return statement_costs(reading, machine)
    except ProgramError:
        return None


def _order(reading: Reading, chosen: Schedule, devices: int, virtual: int) -> Order:
    """The order for the reading's microbatches. Raises ProgramError if the schedule has none that can run."""
    return _reported(reading, lambda: chosen(devices, reading.count, virtual))


def _reported(reading: Reading, made: Callable[[], Made]) -> Made:
    """The result of `made`; a ScheduleError is raised as ProgramError."""
    try:
        return made()
    except ScheduleError as error:
        site = Site(reading.entry.name, None, Part("name"))
        raise ProgramError([Diagnostic(error.code, site, str(error))]) from None


def _outlined(
    reading: Reading, bodies: Mapping[Place, Sequence[Work]], outside: Mapping[Place, set[str]], chunks: int
) -> dict[Place, Outlined]:
    """The function of each stage and pass, for each chunk of sequences one."""
    type_of_part = types_of_parts(reading)
    found: dict[Place, Outlined] = {}
    taken = {*reading.module.functions}
    for where in sorted(bodies, key=lambda w: (w[0], list(Pass).index(w[1]))):
        stage, kind = where
        of = f"_chunk_{stage % chunks + 1}" if chunks > 1 else ""
        name = f"stage_{stage // chunks + 1}{of}_{kind.value}"
        while name in taken:
            name += "_"
        taken.add(name)
        outlined = outline(
            name, bodies[where], outside[where], type_of_part, _facts(reading, stage // chunks + 1, kind)
        )
        if outlined is not None:
            found[where] = outlined
    return found


def _facts(reading: Reading, stage: int, kind: Pass) -> Facts:
    """The facts of a pass; of a program that states no phases, the stage alone."""
    return Facts(kind.value if any(s.facts.phase for s, _ in reading.statements) else "", stage)


def _accumulating(reading: Reading, passes: Mapping[Place, Outlined]) -> dict[Place, Accumulating]:
    """The variants that accumulate, of passes with terms of sums over microbatches."""
    summed = reading.totals()
    used = {name for outlined in passes.values() for name in outlined.takes}
    taken = {*reading.module.functions, *(outlined.function.name for outlined in passes.values())}
    found: dict[Place, Accumulating] = {}
    for (stage, kind), outlined in passes.items():
        if summed.isdisjoint(outlined.gives):
            continue
        name = f"stage_{stage + 1}_accumulate_{kind.value}"
        while name in taken:
            name += "_"
        taken.add(name)
        found[stage, kind] = accumulating(name, outlined, summed, used, types_of_parts(reading))
    return found


def _lengths(stages: Stages, chosen: Schedule, cost: Cost | None) -> dict[Place, float]:
    """The length of each pass of each stage: an estimate in hundredths of the longest, or else a nominal one.

    Coarse on purpose: passes that take about as long count as equal, and sums of whole numbers are exact.
    """
    nominal = SPLIT if chosen.splits else NOMINAL
    places = [(stage, kind) for stage in range(stages.count) for kind in Pass]
    if cost is None:
        return {(stage, kind): nominal[kind] for stage, kind in places}
    found = {where: sum(cost(i) for i in stages.passes.get(where, ())) for where in places}
    if chosen.splits:  # weight gradients are about half of a backward pass
        for stage in range(stages.count):
            half = found[stage, Pass.BACKWARD] / 2
            found[stage, Pass.BACKWARD] = found[stage, Pass.WEIGHT] = half
    return hundredths(found)


def _kept(functions: Mapping[str, Function], reading: Reading, passes: Mapping[Place, Outlined]) -> list[Function]:
    """The functions of the sequential module, without those that only the sequential entry function called."""
    others = [s for s, phase in reading.statements if phase is not Phase.MICROBATCH]
    called = {s.function for s in others if isinstance(s, Call)}
    roots = [*(o.function for o in passes.values()), *(functions[name] for name in called)]
    now = called.union(reachable(functions, roots))
    gone = {reading.entry.name, *set(reachable(functions, [reading.entry])) - now}
    return [f for f in functions.values() if f.name not in gone]
