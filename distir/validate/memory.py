"""The device memory of a run, by part: the program's tensors, and the framework's memory beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from distir.analysis.kinds import ValueKinds, kinds_of
from distir.cost.hardware import EXACT_MEMORY, Fit, MemoryErrors
from distir.ir import Apply, Function, TensorType, types
from distir.ir.roles import ROLES
from distir.ops import type_of
from distir.simulate.memory import Live
from distir.simulate.simulation import Simulation
from distir.transform.float8 import SCALINGS
from distir.validate.frameworks import HeldMemory
from distir.validate.machines import BEFORE_HOPPER, BLACKWELL, architecture_of
from distir.validate.programs import RunProgram

WIDE: Final = 2
"""Bytes of an element of weights that are not quantised."""

BLOCK = SCALINGS["mx"]
"""The step whose scales are a byte for so many elements, and in the program Float32: OCP Microscaling Formats 1.0."""


@dataclass(frozen=True, slots=True)
class MemoryParts:
    """A device's memory at its peak, in bytes.

    `weights`, `gradients` and `optimizer` are of the parameters, `activations` all other tensors; `workspace`: what
    libraries take of the framework's allocator; `reserved`: what that has taken of the device and does not use;
    `outside`: what the process holds beside it, such as the context and communicators, less what the device has beyond
    the memory that its profile states.
    """

    weights: int = 0
    gradients: int = 0
    optimizer: int = 0
    activations: int = 0
    workspace: int = 0
    reserved: int = 0
    outside: int = 0

    @property
    def tensors(self) -> int:
        """Those of the program, and what is like them."""
        return self.weights + self.gradients + self.optimizer + self.activations

    def peak(self, use: HeldMemory) -> int:
        """The peak as a framework reports it."""
        return self.tensors + self.workspace + (self.reserved if use.peak == "reserved" else 0)

    @property
    def needed(self) -> int:
        """Of the memory that the profile states. Workspaces are in the figures of the device's profile."""
        return self.tensors + self.reserved + self.outside


@dataclass(frozen=True, slots=True)
class RunMemory:
    """The device memory of a run, in bytes.

    `needed`: what a process needs of the fullest device, the one that comes nearest to its limit; `capacity`: what that
    device has. `reported`: the peak as the framework reports it, perhaps of another device (`HeldMemory`).
    `host_fits`: whether the hosts have memory for what is offloaded. `errors`: how far simulated memory is off.
    """

    needed: int
    capacity: int
    reported: int
    host_fits: bool = True
    errors: MemoryErrors = EXACT_MEMORY

    @property
    def fits(self) -> bool:
        """Whether every device has what a process needs, and so has every host."""
        return self.needed <= self.capacity and self.host_fits

    @property
    def fit(self) -> Fit:
        """The same with the errors of simulated memory: `may not fit` where they leave it open."""
        return self.errors.fit(self.needed, self.capacity) if self.host_fits else "does not fit"


def memory_of(program: RunProgram, simulation: Simulation) -> RunMemory:
    """The memory that a run needs, and the peak that its framework would report."""
    use = program.memory
    # How much there is depends on the parts alone where the framework holds more of some of them than the program.
    parts_matter = use.gradients > 0 or _copies_outputs(program) or program.share < 1
    found = (parts_by_device if parts_matter else totals_by_device)(program, simulation)
    reported = found[max(found)].peak(use) if use.of == "last" else max(parts.peak(use) for parts in found.values())
    has = simulation.memory_uses
    fullest = max(found, key=lambda device: found[device].needed - has[device].capacity_bytes)
    beyond = has[fullest].overhead.beyond
    host_fits = all(own.offloaded_bytes <= own.host_capacity_bytes for own in has.values())
    needed, capacity = found[fullest].needed + beyond, has[fullest].capacity_bytes + beyond
    return RunMemory(needed, capacity, reported, host_fits, program.hardware.memory_errors)


def totals_by_device(program: RunProgram, simulation: Simulation) -> dict[int, MemoryParts]:
    """By device: its memory at its peak, all tensors as activations: what they are is not looked for."""
    memory, last = simulation.memory(), max(simulation.memory_uses)
    return {
        device: _beside(program, simulation, device, MemoryParts(activations=memory.most(place) + kept))
        for device in simulation.memory_uses
        for place, kept in [(simulation.memory_of(device), program.kept if device == last else 0)]
    }


def parts_by_device(program: RunProgram, simulation: Simulation) -> dict[int, MemoryParts]:
    """By device: its memory at its peak."""
    elements, state = Counter[int](), 0
    for param, value in zip(simulation.function.params, simulation.instance.args, strict=True):
        for leaf in types.leaves(type_of(value)):
            if isinstance(leaf, TensorType) and isinstance(leaf.device, int) and isinstance(leaf.elements, int):
                elements[leaf.device] += leaf.elements if "param" in param.roles else 0
                bytes_ = leaf.elements * leaf.dtype.bytes if leaf.dtype is not None else 0
                state += bytes_ if "state" in param.roles else 0
    each = state / max(1, elements.total())
    kinds = kinds_of(simulation.module, simulation.function)
    found: dict[int, MemoryParts] = {}
    for device in simulation.memory_uses:
        is_last = device == max(simulation.memory_uses)
        tied, kept = (program.tied, program.kept) if is_last else (0, 0)
        found[device] = _parts(program, simulation, device, kinds, elements[device] + tied, round(tied * each), kept)
    return found


def _parts(
    program: RunProgram,
    simulation: Simulation,
    device: int,
    kinds: ValueKinds,
    elements: int,
    more_state: int,
    kept: int,
) -> MemoryParts:
    """The parts of a device. `kinds`: of the program's values; `elements`: of its weights.

    `more_state`: of weights that it has a copy of; `kept`: bytes.

    What is `kept` is there at the peak beside the program's tensors.
    """
    use = program.memory
    peak, _, live = simulation.memory().peak(simulation.memory_of(device))
    weights = sum(value.nbytes for value in live if value.role == ROLES["param"])
    state = sum(value.nbytes for value in live if value.role == ROLES["state"])
    made, of = [value for value in live if value.index is not None], simulation.module.functions
    gradients = sum(value.nbytes for value in made if kinds.is_gradient(value.function, value.name))
    activations = peak - weights - state - gradients + kept
    if _copies_outputs(program):
        activations += sum(value.nbytes for value in live if _is_attended(value, simulation))
    if use.weighed_experts:
        weighed = {name: _weighed(of[name]) for name in {value.function for value in made}}
        activations -= sum(value.nbytes for value in made if value.name in weighed[value.function])
    if use.remainders and not program.step.strategy.scaling:
        masters = {p.name for p in simulation.function.params if isinstance(p.roles.get("initial"), str)}
        state -= sum(v.nbytes for v in live if v.role == ROLES["state"] and v.name in masters) // 2
    state = round(state * program.share)
    is_mx = program.step.strategy.scaling == "mx"
    if use.eight_bit_weights:
        for copy, layouts in _quantised_weights(program, simulation, live):
            weights += (layouts - WIDE) * copy.nbytes + is_mx * (layouts - 1) * copy.nbytes // BLOCK
            activations -= copy.nbytes
    if is_mx:
        scales = {name: _scales(of[name]) for name in {value.function for value in made}}
        activations -= sum(value.nbytes * 3 // 4 for value in made if value.name in scales[value.function])
    if use.gradients:
        gradients, state = elements * use.gradients // _parts_of_gradients(program), state + more_state
    return _beside(program, simulation, device, MemoryParts(weights, gradients, state, activations))


def _copies_outputs(program: RunProgram) -> bool:
    """Whether outputs of attention are copied on the GPU of a run: what is known of one holds for its architecture."""
    copied = program.memory.copied_outputs
    return program.gpu in copied or architecture_of(program.gpu) in {architecture_of(gpu) for gpu in copied}


def _parts_of_gradients(program: RunProgram) -> int:
    """Among how many replicas buffers of gradients are divided that hold those of whole weights: with ZeRO-2."""
    strategy = program.step.strategy
    return (strategy.shard or strategy.data * strategy.context) if strategy.zero == 2 else 1


def _beside(program: RunProgram, simulation: Simulation, device: int, tensors: MemoryParts) -> MemoryParts:
    """Tensors, and what is beside them on a device."""
    use, there = program.memory, simulation.memory_uses[device]
    overhead = there.overhead
    outside = overhead.charged - overhead.spare - overhead.fragmentation
    return replace(
        tensors,
        workspace=use.workspace[program.gpu not in BEFORE_HOPPER],
        reserved=overhead.fragmentation,
        outside=outside,
    )


def _quantised_weights(program: RunProgram, simulation: Simulation, live: Sequence[Live]) -> Iterator[tuple[Live, int]]:
    """The 8-bit copies of weights, and in how many layouts products take each of them.

    On Blackwell they take one, where a weight has one scale; earlier devices take its transpose, too. Scales of blocks
    along rows are others than those along columns.
    """
    entry = simulation.function
    weights = {value.name for value in live if value.role == ROLES["param"]}
    for value in live:
        made = entry.body[value.index] if value.index is not None and value.function == entry.name else None
        if not isinstance(made, Apply) or made.op not in ("QuantizeFloat8", "ScaleToFloat8"):
            continue
        if made.results[0] == value.name and made.args[0] in weights:
            has_one_scale = made.op == "ScaleToFloat8" or made.attrs.get("block") == ()
            yield value, 1 if has_one_scale and program.gpu in BLACKWELL else 2


def _is_attended(value: Live, simulation: Simulation) -> bool:
    """Whether a value is the output of an attention kernel."""
    if value.index is None:
        return False
    made = simulation.module.functions[value.function].body[value.index]
    return isinstance(made, Apply) and made.op == "Attention" and made.results[0] == value.name


@lru_cache(maxsize=64)
def _scales(function: Function) -> frozenset[str]:
    """The values of a function that are scales of what it quantises."""
    return frozenset(s.results[1] for s in function.body if isinstance(s, Apply) and s.op == "QuantizeFloat8")


@lru_cache(maxsize=64)
def _weighed(function: Function) -> frozenset[str]:
    """The values of a function that are what experts give, which is summed with weights."""
    sums = (s for s in function.body if isinstance(s, Apply) and s.op == "Unpermute" and len(s.args) > 2)
    return frozenset(arg for s in sums if isinstance(arg := s.args[0], str))
