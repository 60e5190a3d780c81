"""The step `checkpoint`."""

from __future__ import annotations

from collections.abc import Iterator

from distir.analysis import Analysis
from distir.cost import UnitError, parse_bytes, show_bytes
from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import simulation as simulation_codes
from distir.diagnostics.codes import transforms as codes
from distir.ir import HOST, Function, Module, Part, Site, types
from distir.ops import type_of
from distir.transform.checking import checked
from distir.transform.checkpoint.blocks import TrainingStep, training_step
from distir.transform.checkpoint.recompute import recomputed
from distir.transform.entry import entry_of
from distir.transform.steps import StepError, step


@step(after=("cse", "grad"))
def checkpoint(module: Module, value: str = "block", *, hardware: str = "dgx-a100") -> Module:
    """Activation checkpointing of a training step: recompute activations in the backward pass, as late as possible.

    `block` saves the inputs of each block (a call of a function that uses weights) and recomputes everything inside; a
    number, such as `checkpoint=4`, saves only the inputs of groups of so many blocks; a memory size, such as
    `checkpoint=16GB`, selects the fastest choice that fits, by simulation on `hardware`. Apply it after `grad`, and
    before `dp`, `tp`, `pp` and `zero`, which distribute the result.

    Raises ProgramError if there is nothing to recompute, or the memory size cannot be reached.
    """
    count, target = _read(value)
    analysis = checked(module)
    entry = entry_of(module)
    _check_one_device(module, entry, analysis)
    blocks = training_step(entry)
    if blocks is None:
        raise _nothing(
            entry,
            "uses no weight that is marked `{param}` first on the way forward, then on the way back",
            "apply `grad` to the program that gives the loss; gradients that came with it are found anew",
        )
    if target is not None:
        return _within(module, entry, blocks, analysis, target, hardware)
    found = _every(module, entry, blocks, analysis, count)
    if found is None:
        several = len(blocks.blocks) > count
        raise _nothing(
            entry,
            f"keeps nothing inside {_runs(count)} for the backward pass",
            f"take several blocks at a time: `checkpoint={count + 1}`" if several else None,
        )
    return found


def _read(value: str) -> tuple[int, int | None]:
    """How many blocks, or a size in bytes. Raises StepError."""
    text = str(value)
    if text == "block":
        return 1, None
    if text.isdecimal():
        if int(text) < 1:
            raise StepError(f"expected 1 block or more, found {text}")
        return int(text), None
    try:
        return 1, parse_bytes(text)
    except UnitError:
        message = f"expected `block`, a number of blocks, or a memory size such as `16GB`, found `{text}`"
        raise StepError(message) from None


def _check_one_device(module: Module, entry: Function, analysis: Analysis) -> None:
    values = (value for value in analysis.states[entry.name].values() if value is not None)
    devices = {device for value in values for device in types.devices(type_of(value))}
    if f"{entry.name}.scatter" in module.functions or len(devices) > 1:
        message = f"`checkpoint` expected a program on one device, found `@{entry.name}` distributed already"
        hint = "apply it before `dp`, `tp`, `pp` and `zero`"
        raise ProgramError(
            [Diagnostic(codes.CHECKPOINT_FIRST, Site(entry.name, None, Part("name")), message, (), hint)]
        )


def _every(module: Module, entry: Function, blocks: TrainingStep, analysis: Analysis, count: int) -> Module | None:
    """The module with runs of `count` blocks recomputed; None if that changes nothing."""
    state = analysis.states[entry.name]
    host = {n for n, v in state.items() if v is not None and types.device_of(type_of(v)) == HOST}
    found = recomputed(entry, blocks, count, host)
    return None if found is None else Module(found if f.name == entry.name else f for f in module)


# A memory target.


def _within(
    module: Module, entry: Function, blocks: TrainingStep, analysis: Analysis, target: int, hardware: str
) -> Module:
    """The fastest program that fits, the one given included."""
    from distir.simulate import simulate  # needed for memory targets alone

    _check_sizes(entry)
    least: tuple[int, str] | None = None
    best: tuple[float, Module] | None = None
    for count in _candidates(len(blocks.blocks)):
        candidate = module if count == 0 else _every(module, entry, blocks, analysis, count)
        if candidate is None:
            continue
        simulation = simulate(candidate, hardware, entry.name)
        peak = max((use.peak_memory_bytes for use in simulation.devices.values()), default=0)
        if least is None or peak < least[0]:
            least = peak, f"`checkpoint={count}`" if count else "without checkpoints"
        if peak <= target and (best is None or simulation.latency_s < best[0]):
            best = simulation.latency_s, candidate
    if best is not None:
        return best[1]
    assert least is not None
    message = (
        f"`@{entry.name}` takes {show_bytes(least[0])} at least, {least[1]}; expected {show_bytes(target)} at most"
    )
    site = Site(entry.name, None, Part("name"))
    raise ProgramError([Diagnostic(codes.OVER_CHECKPOINT_TARGET, site, message)])


def _candidates(blocks: int) -> Iterator[int]:
    """Numbers of blocks to be tried: 0, which is no checkpoints, 1, 2, 3, 4, 6, 8, 12 and so on, and all of them."""
    yield 0
    size = 1
    while size < blocks:
        yield size
        if size > 1 and size * 3 // 2 < blocks:
            yield size * 3 // 2
        size *= 2
    yield blocks


def _check_sizes(entry: Function) -> None:
    for index, param in enumerate(entry.params):
        for name in sorted(types.dim_names(param.type)):
            message = f"the dimension `{name}` has no size, so nothing can be said of memory"
            hint = f"write a number for `{name}`, or say how many blocks: `checkpoint=2`"
            site = Site(entry.name, None, Part("param_type", index))
            raise ProgramError([Diagnostic(simulation_codes.UNBOUND, site, message, (), hint)])


def _nothing(entry: Function, reason: str, hint: str | None) -> ProgramError:
    site = Site(entry.name, None, Part("name"))
    message = f"`@{entry.name}` {reason}, so there is nothing to recompute"
    return ProgramError([Diagnostic(codes.NOTHING_TO_RECOMPUTE, site, message, (), hint)])


def _runs(count: int) -> str:
    return "its blocks" if count == 1 else f"runs of {count} blocks"
