"""Offloads residuals: what the backward pass uses of the first blocks of a training step on one device.

The copies of a block's residuals begin as they are there. Something that is computed behind a later block, the end of
the block's *window*, waits for them: from then on their memory is free. The backward pass is the mirror of this: they
are fetched from where the backward pass of that block begins.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from distir.analysis import Analysis
from distir.cost import show_bytes
from distir.diagnostics import ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.ir import (
    HOST,
    Apply,
    Arg,
    Function,
    Module,
    Statement,
    TensorType,
    names,
    operands,
    results,
    types,
)
from distir.ir.dataflow import uses
from distir.ir.rewrite import Rewriter, with_operands
from distir.ops import type_of
from distir.transform.checking import checked
from distir.transform.checkpoint.blocks import TrainingStep, training_step
from distir.transform.entry import entry_of, refused
from distir.transform.steps import StepError, tell

OFFLOADING, FETCHING = "offload", "fetch"
"""The streams of copies to the host and back."""


def with_activations_offloaded(module: Module, layers: int | None) -> Module:
    """The module with the residuals of its first blocks offloaded: so many, or all but the last one.

    Raises ProgramError where there are none, StepError where there are fewer blocks.
    """
    entry, analysis = entry_of(module), checked(module)
    step = training_step(module, entry)
    if step is None:
        raise _nothing(
            entry, "uses no weight first in the forward pass, then in the backward pass", "apply `grad` first"
        )
    most = len(step.blocks) - 1
    if most < 1:
        raise _nothing(entry, "has one block, whose activations are needed at once", "outline its layers as functions")
    if layers is not None and layers > most:
        reason = f"the {len(step.blocks)} blocks of the program but the last, whose activations are needed at once"
        raise StepError(f"`layers` expected at most {most}, {reason}; found {layers}")
    count = most if layers is None else layers
    saved = _saved(entry, analysis, step)
    if not any(saved[:count]):
        raise _nothing(entry, f"saves nothing on its device in its first {count} blocks", None)
    moved = {name: analysis.states[entry.name][name] for block in saved[:count] for name in block}
    sizes = [types.nbytes(type_of(value)) for value in moved.values() if value is not None]
    known = sum(size for size in sizes if isinstance(size, int))
    what = f", {show_bytes(known)}" if len(sizes) == sum(isinstance(size, int) for size in sizes) else ""
    tell(f"offload: {len(moved)} activations of {count} of {len(step.blocks)} blocks{what}, on `{OFFLOADING}`")
    found = _Offloading(entry, Rewriter(entry), analysis.states[entry.name], step, saved, count).rewritten()
    return module.replacing(found)


def window(block: int, offloaded: int, blocks: int) -> int:
    """The last block behind which the copies of an offloaded block must be done: evenly spread, and one later at least.

    As `layer_window_map` in NVIDIA/TransformerEngine, pytorch/cpu_offload.py, which gives the first blocks what does
    not divide.
    """
    spread = -(-(block + 1) * blocks // offloaded) - 1
    return min(max(spread, block + 1), blocks - 1)


def _saved(entry: Function, analysis: Analysis, step: TrainingStep) -> list[list[str]]:
    """By block: the values on a device that the forward pass computes of the batch, and the backward pass uses.

    A value belongs to the one block that uses it, or else that makes it: the input of a block to that block. What
    several blocks use, or what is behind the last one, to none.
    """
    state = analysis.states[entry.name]
    block_of = {index: number for number, block in enumerate(step.blocks) for index in block}
    behind = len(step.blocks)
    makers: dict[str, int] = {}
    users: dict[str, set[int]] = {}
    for index, statement in enumerate(entry.body[: step.turn]):
        place = block_of.get(index, behind)
        for name in names(operands(statement)):
            users.setdefault(name, set()).add(place)
        makers.update(dict.fromkeys(results(statement), place))
    again = dict.fromkeys(n for statement in entry.body[step.turn :] for n in names(operands(statement)))
    kept = {*names(entry.returned), *step.prepared}
    found: list[list[str]] = [[] for _ in step.blocks]
    for name in again:
        if name not in makers or name in kept or not _is_on_device(state, name):
            continue
        own = users.get(name, set()) - {makers[name]} or {makers[name]}
        (place, *others) = own
        if not others and place != behind:
            found[place].append(name)
    return found


def _is_on_device(state: Mapping[str, object], name: str) -> bool:
    """Whether a value is on a device, and no single number."""
    value = state.get(name)
    found = type_of(value) if value is not None else None  # pyright: ignore[reportArgumentType]
    if not isinstance(found, TensorType) or found.offloaded:
        return False
    return found.device not in (None, HOST) and found.shape != ()


@dataclass(slots=True)
class _Offloading:
    entry: Function
    edit: Rewriter
    state: Mapping[str, object]
    step: TrainingStep
    saved: Sequence[Sequence[str]]
    count: int
    copies: dict[str, str] = field(default_factory=dict[str, str])
    """By value: its copy on the host."""
    computed: list[str] = field(default_factory=list[str])
    """Values of the backward pass so far that say how far it has come: of each statement the first on a device."""

    def rewritten(self) -> Function:
        """The entry function, with copies and who waits for them."""
        owned = {name for block in self.saved[: self.count] for name in block}
        ends = {block.stop: number for number, block in enumerate(self.step.blocks)}
        fetches = self._fetches()
        waiting: list[str] = []
        renamed: dict[str, Arg] = {}
        for index, statement in self.edit:
            waiting += self._of_window(ends[index]) if index in ends else []
            for number in fetches.get(index, ()):
                renamed |= self._fetched(number, index, statement)
            statement = with_operands(statement, renamed)
            if waiting and (value := self._operand(statement)) is not None:
                later = self.edit.fresh(f"{value}.behind_copies")
                self.edit.before(index, Apply((later,), "After", (value, *waiting)))
                statement, waiting = with_operands(statement, {value: later}), []
            self.edit.replace(index, statement)
            for name in results(statement):
                if name in owned and index < self.step.turn:
                    self.copies[name] = self.edit.fresh(f"{name}.offloaded")
                    self.edit.behind(index, Apply((self.copies[name],), "Offload", (name,), stream=OFFLOADING))
            if index >= self.step.turn:
                self.computed += [name for name in results(statement) if _is_on_device(self.state, name)][:1]
        return self.edit.done()

    def _window(self, number: int) -> int:
        return window(number, self.count, len(self.step.blocks))

    def _of_window(self, end: int) -> list[str]:
        """The copies that must be done behind a block."""
        return [
            self.copies[n] for number in range(self.count) if self._window(number) == end for n in self.saved[number]
        ]

    def _operand(self, statement: Statement) -> str | None:
        """An operand that the program computes on the device, where a statement has one."""
        made = (name for name in names(operands(statement)) if name not in self._parameters)
        return next((name for name in made if _is_on_device(self.state, name)), None)

    @property
    def _parameters(self) -> Container[str]:
        return {param.name for param in self.entry.params}

    def _fetches(self) -> dict[int, list[int]]:
        """By statement: the blocks that are fetched in front of it, the last one first."""
        turn, used = self.step.turn, uses(self.entry)
        first = {name: min(i for i in used[name] if i >= turn) for block in self.saved for name in block}
        begins = [min((first[name] for name in block), default=self.step.turn) for block in self.saved]
        found: dict[int, list[int]] = {}
        for number in reversed(range(self.count)):
            if self.saved[number]:
                place = min(begins[self._window(number)], begins[number])
                found.setdefault(place, []).append(number)
        return found

    def _fetched(self, number: int, index: int, statement: Statement) -> dict[str, str]:
        """Fetch the residuals of a block in front of a statement. Returns their names."""
        copies = [self.copies[name] for name in self.saved[number]]
        given = {*names(operands(statement))}
        event = next((name for name in reversed(self.computed) if name in given), None)
        event = event or next(iter(self.computed[-1:]), None)
        if event is not None:  # on their stream, the others come behind the first one
            begun = self.edit.fresh(f"{copies[0]}.needed")
            self.edit.before(index, Apply((begun,), "After", (copies[0], event), stream=FETCHING))
            copies[0] = begun
        found = {name: self.edit.fresh(f"{name}.fetched") for name in self.saved[number]}
        pairs = zip(found.values(), copies, strict=True)
        self.edit.before(index, *(Apply((name,), "Fetch", (copy,), stream=FETCHING) for name, copy in pairs))
        return found


def _nothing(entry: Function, reason: str, hint: str | None) -> ProgramError:
    message = f"`@{entry.name}` {reason}, so there is nothing to offload"
    return refused(entry, codes.NOTHING_TO_OFFLOAD, message, hint)
