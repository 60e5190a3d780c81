"""The step `checkpoint`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from distir.analysis import Analysis
from distir.cost import UnitError, parse_bytes, show_bytes, show_seconds
from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import simulation as simulation_codes
from distir.diagnostics.codes import transforms as codes
from distir.ir import HOST, Apply, Call, Function, Module, Part, Site, ops_in, results, types
from distir.ops import type_of
from distir.transform.checking import checked
from distir.transform.checkpoint.blocks import TrainingStep, training_step
from distir.transform.checkpoint.ladder import Rung, dropped_by, ladder
from distir.transform.checkpoint.modules import MODULES, modules_of, with_copies
from distir.transform.checkpoint.recompute import inside_runs, recomputed
from distir.transform.checkpoint.selective import (
    attention_core,
    dropped_between_products,
    instance_at,
    recomputed_cores,
    recomputed_values,
    with_shallow_cores,
)
from distir.transform.entry import entry_of, refused
from distir.transform.order import DISTRIBUTED, IN_KERNELS
from distir.transform.steps import StepError, always, is_heard, step, steps_behind, tell, unheard

if TYPE_CHECKING:
    from distir.simulate import Simulation

WORDS = {"value": ("full", "selective", "products", "2", "16GB"), "modules": ("layernorm", "core_attn,mlp")}
"""Examples of what to recompute."""

FULL = ("full", "block")
"""The values of the step that mean full recomputation; the second is the older name."""


@step(
    after=("cse", "grad"),
    before=(DISTRIBUTED, IN_KERNELS),
    examples=WORDS,
    tries=always("checkpoint=selective", "checkpoint=products", "checkpoint=full"),
)
def checkpoint(
    module: Module, value: str = "full", *, layers: int = 0, modules: str = "", hardware: str = "dgx-a100"
) -> Module:
    """Activation recomputation in a training step: drop activations, and recompute them as late as possible.

    `full` saves the inputs of each block (a layer that is stated, else a call that uses weights) and recomputes the
    rest; a number, such as `checkpoint=4`, saves only the inputs of groups of so many blocks. `selective` recomputes
    the attention core alone: scores, mask, softmax, dropout, which take memory with the square of the sequence's
    length. `products` saves results of attention and of every other matrix product of a block, the first one
    included, and recomputes all else inside, as torchtitan's selective checkpointing by operator does. `layers=8`
    applies any of these to the first 8 blocks, and the others save what they did.

    `checkpoint=selective modules=layernorm,moe_act` recomputes parts of layers, as Megatron Core names them:
    `core_attn` (attention that is one op runs again, too), `layernorm` (normalised inputs of attention and feed-forward
    layers), `mlp` (dense feed-forward layers), `moe` (layers of experts), `shared_experts`, `moe_act` (activation
    functions of experts), `mla_up_proj` (of multi-head latent attention, from latents to queries, keys and values).
    And as others do: `context` (`core_attn` with attention's result), `gates` (the activation of each gate, which fused
    kernels of SwiGLU recompute).

    A memory size, such as `checkpoint=16GB`, selects the fastest choice that fits, by simulation on `hardware`: among
    sets of values of layers, those first that take the fewest seconds for each byte to compute again, in any number of
    layers; `selective` and `full` for any number of layers, `full` for some and `selective`, or a set, for the others;
    and groups. It says what is recomputed, and what that costs. What has to fit is each device of the program with all
    steps applied that follow in the same command, as in `checkpoint=70GB dp=8 zero=3`.

    Raises ProgramError if there is nothing to recompute, or the memory size cannot be reached.
    """
    choice, target = _read(value, layers, modules_of(modules))
    if choice.selective != 0 or target is not None:
        module = with_shallow_cores(module)
    entry, analysis = entry_of(module), checked(module)
    blocks = training_step(module, entry)
    if blocks is None:
        raise _nothing(
            entry,
            "uses no weight that is marked `{param}` first in the forward pass, then in the backward pass",
            "apply `grad` to the program that gives the loss; gradients that came with it are found anew",
        )
    if layers > len(blocks.blocks):
        raise StepError(f"`layers` expected at most {len(blocks.blocks)}, the blocks of the program, found {layers}")
    plan = _Recomputation(module, entry, blocks, analysis)
    if target is not None:
        return _within(plan, target, hardware)
    found = plan.carried_out(choice)
    if found is None:
        raise _nothing_inside(plan, choice)
    return found


@dataclass(frozen=True, slots=True)
class Recomputed:
    """What to recompute: all inside the first `full` blocks, in groups; attention cores of `selective` ones.

    `selective` blocks follow the `full` ones. None: all blocks. Otherwise residuals of the other blocks: the first
    `rungs` rungs of the ladder, the last of them in the first `places` blocks that have it (0: all).
    """

    full: int | None = 0
    group: int = 1
    selective: int | None = 0
    rungs: int = 0
    places: int = 0
    products: int | None = 0
    """The number of first blocks in which all but attention and every other product is recomputed."""
    modules: tuple[str, ...] = ()
    """The parts recomputed in the `selective` blocks, instead of attention cores."""

    def __str__(self) -> str:
        said = [f"checkpoint={'full' if self.group == 1 else self.group}{_layers(self.full)}"] if self.full != 0 else []
        parts = f" modules={','.join(self.modules)}" if self.modules else ""
        said += [f"checkpoint=selective{parts}{_layers(self.selective)}"] if self.selective != 0 else []
        said += [f"checkpoint=products{_layers(self.products)}"] if self.products != 0 else []
        return " and ".join(f"`{one}`" for one in said) or "without recomputation"


def _layers(number: int | None) -> str:
    return "" if number is None else f" layers={number}"


def _read(value: str, layers: int, modules: tuple[str, ...]) -> tuple[Recomputed, int | None]:
    """Parse the step's value: what to recompute, or a memory size in bytes. Raises StepError."""
    text, some = str(value), layers or None
    if modules and text != "selective":
        raise StepError(f"`modules` is an option of `checkpoint=selective`, found `checkpoint={text}`")
    if layers < 0:
        raise StepError(f"`layers` expected 1 or more, found {layers}")
    if text in FULL:
        return Recomputed(full=some), None
    if text == "selective":
        return Recomputed(selective=some, modules=modules), None
    if text == "products":
        return Recomputed(products=some), None
    if text.isdecimal():
        if int(text) < 1:
            raise StepError(f"expected 1 block or more, found {text}")
        return Recomputed(full=some, group=int(text)), None
    try:
        target = parse_bytes(text)
    except UnitError:
        words = "`full`, `selective`, `products`, a number of blocks, or a memory size such as `16GB`"
        message = f"expected {words}, found `{text}`"
        raise StepError(message) from None
    if layers:
        raise StepError(f"a memory size chooses the layers itself: leave out `layers={layers}`")
    return Recomputed(), target


@dataclass(frozen=True, slots=True)
class _Recomputation:
    """A training step to which choices can be applied."""

    module: Module
    entry: Function
    step: TrainingStep
    analysis: Analysis

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return len(self.step.blocks)

    def ladder(self, machine: Simulation) -> list[Rung]:
        """The ladder of residuals to drop. `machine`: the simulation of the unchanged program."""
        return ladder(self.module, self.entry, self.analysis, self.step.turn, self._calls(None), machine)

    def _calls(self, last: int | None, first: int = 0) -> dict[int, str]:
        """The functions that blocks call, by statement."""
        places = (i for block in self.step.blocks[first:last] for i in block)
        return {i: s.function for i in places if isinstance(s := self.entry.body[i], Call)}

    def carried_out(self, choice: Recomputed, rungs: Sequence[Rung] = ()) -> Module | None:
        """The module with a choice applied; None if a part of the choice changes nothing. `rungs`: the ladder."""
        state = self.analysis.states[self.entry.name]
        host = {n for n, v in state.items() if v is not None and types.device_of(type_of(v)) == HOST}
        full = self.blocks if choice.full is None else choice.full
        selective = self.blocks if choice.selective is None else full + choice.selective
        module, entry = self.module, self.entry
        inside: dict[str, Apply | Call] = {}
        if selective > full:
            ours = {i for block in self.step.blocks[full:selective] for i in block}
            calls = self._calls(selective, full)
            if choice.modules:
                values = self._parts(choice.modules, calls)
                changed = recomputed_values(module, entry, self.step.turn, [(values, calls)])
                if changed is None:
                    return None
            else:
                changed = recomputed_cores(module, entry, self.analysis, self.step.turn, calls)
            if changed is not None:
                module, entry = changed, entry_of(changed)
            core = attention_core(self.entry, state) if not choice.modules else {}
            made = {n for i in ours for n in results(self.entry.body[i])}
            inside = {n: s for n, s in core.items() if n in made}
            if changed is None and not inside:
                return None
        if choice.rungs:
            ours = {i for block in self.step.blocks[full:] for i in block}
            groups = ((values, calls & ours) for values, calls in dropped_by(rungs[: choice.rungs], choice.places))
            changed = recomputed_values(module, entry, self.step.turn, groups)
            if changed is None:
                return None
            module, entry = changed, entry_of(changed)
        if choice.products != 0:
            changed = self._between_products(choice.products)
            if changed is None:
                return None
            module, entry = changed, entry_of(changed)
        if full:
            inside |= inside_runs(entry, self.step, choice.group, full, host)
        if not inside:
            return module if module is not self.module or choice == Recomputed() else None
        found = recomputed(entry, self.step.turn, inside)
        if found is None:
            return None
        return module.replacing(found)

    def _parts(self, modules: Sequence[str], calls: Collection[int]) -> dict[str, set[str]]:
        """By callee: the values of these parts. Raises ProgramError for a part that no layer has."""
        found: dict[str, set[str]] = {}
        missing = set(modules)
        for place in sorted(calls):
            call = self.entry.body[place]
            if isinstance(call, Call) and call.function not in found:
                found_at = instance_at(self.entry, self.analysis, place)
                parts = {name: MODULES[name](found_at.function, found_at.state) for name in modules}
                found[call.function] = with_copies(found_at.function, {v for values in parts.values() for v in values})
                missing -= {name for name, values in parts.items() if values}
        if missing:
            reason = f"has no `{'`, `'.join(sorted(missing))}` in its layers"
            raise _nothing(self.entry, reason, f"parts of layers are {', '.join(MODULES)}")
        return found

    def _between_products(self, layers: int | None) -> Module | None:
        """The module with blocks recomputed except attention and every other product; None if that changes nothing."""
        calls = self._calls(layers)
        values = {name: dropped_between_products(self.module.functions[name]) for name in {*calls.values()}}
        return recomputed_values(self.module, self.entry, self.step.turn, [(values, calls)])


# A memory target.


@dataclass(frozen=True, slots=True)
class _Measured:
    """The cost of a program: its latency in seconds, and the greatest peak of a device in bytes."""

    seconds: float
    peak: int

    @classmethod
    def of(cls, simulation: Simulation) -> _Measured:
        """The cost of a simulated program."""
        return cls(simulation.latency_s, max((u.peak_memory_bytes for u in simulation.devices.values()), default=0))


class _Choices:
    """The choices for a training step on one device, simulated on demand."""

    def __init__(self, plan: _Recomputation, hardware: str) -> None:
        from distir.simulate import simulate  # needed for memory targets alone

        self.plan, self.hardware, self.simulate = plan, hardware, simulate
        plain = simulate(plan.module, hardware, plan.entry.name)
        self.rungs = plan.ladder(plain)
        self.made: dict[Recomputed, Module] = {Recomputed(): plan.module}
        self.known: dict[Recomputed, _Measured | None] = {Recomputed(): _Measured.of(plain)}

    def tried(self, choice: Recomputed) -> _Measured | None:
        """The cost of a choice; None if it changes nothing."""
        if choice not in self.known:
            made = self.plan.carried_out(choice, self.rungs)
            self.known[choice] = None
            if made is not None:
                self.made[choice] = made
                self.known[choice] = _Measured.of(self.simulate(made, self.hardware, self.plan.entry.name))
        return self.known[choice]

    def fastest(self, target: int) -> Recomputed | None:
        """The fastest choice within a memory limit."""

        def fits(choice: Recomputed) -> bool:
            found = self.tried(choice)
            return found is not None and found.peak <= target

        for family in _families(self.plan.blocks, self.rungs):
            _narrowed(family, fits)
        return min(filter(fits, [*self.known]), key=lambda choice: self._of(choice).seconds, default=None)

    def least(self) -> Recomputed:
        """The choice with the lowest peak of those tried so far."""
        return min((c for c, found in self.known.items() if found), key=lambda choice: self._of(choice).peak)

    def peak(self, choice: Recomputed) -> int:
        """The peak of a choice that was tried."""
        return self._of(choice).peak

    def _of(self, choice: Recomputed) -> _Measured:
        found = self.known[choice]
        assert found is not None
        return found


def _within(plan: _Recomputation, target: int, hardware: str) -> Module:
    """The fastest program that fits, the unchanged one included, once all later steps of the command are applied."""
    _check_sizes(plan.entry)
    finished = _finished(plan, hardware)
    choices = _Choices(plan, hardware)
    if finished is None:
        best, measured = choices.fastest(target), choices.known
    else:
        measured = dict[Recomputed, _Measured | None]()
        best = _fastest_finished(choices, finished, target, measured)
    plain = measured[Recomputed()]
    assert plain is not None
    if best is not None and (found := measured[best]) is not None:
        if is_heard():
            tell(_told(best, choices.rungs, found, plain.seconds))
        return choices.made[best]
    peaks = {choice: found.peak for choice, found in measured.items() if found is not None}
    least = min(peaks, key=peaks.__getitem__)
    message = (
        f"`@{plan.entry.name}` takes {show_bytes(peaks[least])} at least, {_said(least, choices.rungs)}; "
        f"expected {show_bytes(target)} at most"
    )
    hint = (
        None if finished else "where devices share it, add the steps that distribute it: `checkpoint=16GB dp=8 zero=3`"
    )
    raise refused(plan.entry, codes.OVER_CHECKPOINT_TARGET, message, hint)


Finished = Callable[[Module], _Measured]


def _finished(plan: _Recomputation, hardware: str) -> Finished | None:
    """The cost of a program with the later steps applied; None if there are none, or they refuse it.

    On `hardware`; if it has too few devices, on the hardware that one of these steps names.
    """
    from distir.simulate import simulate  # needed for memory targets alone

    behind = steps_behind()
    if not behind:
        return None

    def made(module: Module) -> Module:
        with unheard():
            for application in behind:
                module = application.unchecked(module)
        return module

    try:
        first = made(plan.module)
    except (ProgramError, StepError):
        return None  # these steps report it themselves when they are applied
    machines = dict.fromkeys([hardware, *(str(a.options["hardware"]) for a in behind if "hardware" in a.options)])
    refused: ProgramError | None = None
    for machine in machines:
        try:
            plain = _Measured.of(simulate(first, machine, plan.entry.name))
        except ProgramError as error:
            refused = refused or error
            continue

        def finished(module: Module, machine: str = machine, plain: _Measured = plain) -> _Measured:
            if module is plan.module:
                return plain
            return _Measured.of(simulate(made(module), machine, plan.entry.name))

        return finished
    assert refused is not None
    raise refused


TRIES = 6
"""The most choices tried with the later steps, each of which may take seconds."""


def _fastest_finished(
    choices: _Choices, finished: Finished, target: int, measured: dict[Recomputed, _Measured | None]
) -> Recomputed | None:
    """The fastest choice that fits once the later steps are applied. `measured`: costs by choice.

    The program on one device determines which choice saves a number of bytes for the fewest seconds. That number is
    found by bisection between a choice that does not fit and one that does.
    """

    def peak(choice: Recomputed) -> int:
        if choice not in measured:
            measured[choice] = finished(choices.made[choice])
        found = measured[choice]
        assert found is not None
        return found.peak

    over = Recomputed()
    if peak(over) <= target:
        return over
    choices.fastest(0)
    under = choices.least()
    for _ in range(TRIES):
        if peak(under) > target:
            break
        part = (target - peak(under)) / (peak(over) - peak(under))
        low, high = choices.peak(under), choices.peak(over)
        if part < 0.01 or low >= high:
            break
        between = choices.fastest(low + int((high - low) * min(max(part, 0.1), 0.9)))
        if between is None or between in (under, over):
            break
        if peak(between) <= target:
            under = between
        else:
            over = between
    fitting = {c: m.seconds for c, m in measured.items() if m is not None and m.peak <= target}
    return min(fitting, key=fitting.__getitem__, default=None)


def _told(choice: Recomputed, rungs: Sequence[Rung], found: _Measured, before: float) -> str:
    """The line that reports what is recomputed and what it costs."""
    if choice == Recomputed():
        return "fits as it is"
    more = f", {(found.seconds / before - 1):.1%} longer" if before else ""
    return f"recomputes {_said(choice, rungs)}: {show_bytes(found.peak)}, {show_seconds(found.seconds)}{more}"


def _said(choice: Recomputed, rungs: Sequence[Rung]) -> str:
    """Describes a choice."""
    said = [str(choice)] if choice.full != 0 or choice.selective != 0 or not choice.rungs else []
    taken = rungs[: choice.rungs]
    last = taken[-1:] if choice.places else taken[:0]
    by_function: dict[str, list[str]] = {}
    for rung in taken[: len(taken) - len(last)]:
        by_function.setdefault(rung.function, []).append(f"`{rung.value}`")
    said += [f"{', '.join(values)} of each `@{function}`" for function, values in by_function.items()]
    said += [f"`{r.value}` of {choice.places} of {len(r.calls)} `@{r.function}`" for r in last]
    return " and ".join(said)


Family = list[Recomputed]
"""A sequence of choices, each of which recomputes more than the previous one."""


def _families(blocks: int, rungs: Sequence[Rung]) -> Iterator[Family]:
    yield [Recomputed()]
    yield [
        Recomputed(rungs=k, places=n % len(r.calls)) for k, r in enumerate(rungs, 1) for n in range(1, len(r.calls) + 1)
    ]
    yield [Recomputed(selective=n) for n in range(1, blocks)] + [Recomputed(selective=None)]
    yield [Recomputed(full=n) for n in range(1, blocks)] + [Recomputed(full=None)]
    yield [Recomputed(full=n, selective=None) for n in range(1, blocks)]
    for k in _some(len(rungs)):
        yield [Recomputed(full=n, rungs=k) for n in range(1, blocks)]
    for choice in [Recomputed(full=None, group=group) for group in _groups(blocks)]:
        yield [choice]


def _some(count: int) -> list[int]:
    """A few numbers from 1 to `count`."""
    return sorted({max(1, count * part // 4) for part in range(1, 5)}) if count else []


def _narrowed(family: Family, fits: Callable[[Recomputed], bool]) -> None:
    """Find the first choice that fits, by bisection, as each recomputes more than the previous one."""
    low, high = 0, len(family) - 1
    if not family or not fits(family[high]):
        return
    while low < high:
        middle = (low + high) // 2
        if fits(family[middle]):
            high = middle
        else:
            low = middle + 1
    fits(family[low])


def _groups(blocks: int) -> Iterator[int]:
    """The sizes of groups to try: 2, 3, 4, 6, 8, 12, …, and all blocks."""
    size = 2
    while size < blocks:
        yield size
        if size * 3 // 2 < blocks:
            yield size * 3 // 2
        size *= 2
    if blocks > 1:
        yield blocks


def _check_sizes(entry: Function) -> None:
    for index, param in enumerate(entry.params):
        for name in sorted(types.dim_names(param.type)):
            message = f"the dimension `{name}` has no size, so nothing can be said of memory"
            hint = f"write a number for `{name}`, or say how many blocks: `checkpoint=2`"
            site = Site(entry.name, None, Part("param_type", index))
            raise ProgramError([Diagnostic(simulation_codes.UNBOUND, site, message, (), hint)])


def _nothing_inside(plan: _Recomputation, choice: Recomputed) -> ProgramError:
    if choice.modules:
        return _nothing(plan.entry, f"keeps nothing of `{'`, `'.join(choice.modules)}` for the backward pass", None)
    if choice.selective != 0:
        reason = "keeps no scores of attention for the backward pass"
        if any(ops_in(plan.module, "Attention")):
            reason += ": its attention is one op, which saves nothing of the sequence's length squared"
        return _nothing(plan.entry, reason, "recompute whole blocks: `checkpoint=full`")
    runs = "its blocks" if choice.group == 1 else f"runs of {choice.group} blocks"
    several = plan.blocks > choice.group and choice.full is None
    return _nothing(
        plan.entry,
        f"keeps nothing inside {runs} for the backward pass",
        f"take several blocks at a time: `checkpoint={choice.group + 1}`" if several else None,
    )


def _nothing(entry: Function, reason: str, hint: str | None) -> ProgramError:
    message = f"`@{entry.name}` {reason}, so there is nothing to recompute"
    return refused(entry, codes.NOTHING_TO_RECOMPUTE, message, hint)
