"""Which phase of a training step an op belongs to, and which microbatch it works on, as far as the program says.

Both follow from data flow, through calls:

- *optimizer*: an op that updates weights (`SGD`, `Adam`, …), and what depends on one;
- *backward*: a gradient (an op or a function called `…Grad`, a function called `…_backward`, a value `%dx` beside a
  `%x`), and what depends on one; in a function called `…_weight`, as `schedule=zb-h1` writes them, *weights*;
- *forward*: all the rest of a program that has gradients or updates. What is computed again for the backward pass is
  forward, unless it is done in a backward function.

A *microbatch* is one of the parts into which a `Split` in the entry function cuts a `{batch}` parameter, where some
device works on several of them. What depends on one part belongs to it; what depends on several belongs to none.
Nothing is said where nothing follows: of programs without gradients there are no phases.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from distir.ir import Apply, Call, Function, Module, Return, names
from distir.ops import OPS
from distir.simulate.body import Body

FORWARD, BACKWARD, OPTIMIZER = 0, 1, 2
"""Levels: what depends on several is of the highest."""

_GRADIENT = re.compile(r"(Grad(_input)?|_backward)(_\d+)?$")
_WEIGHTS = re.compile(r"_weight(_\d+)?$")


@dataclass(frozen=True, slots=True)
class KnownPlace:
    """The phase, microbatch and stage of an op or a call, as far as they are known."""

    phase: str | None
    microbatch: int | None


@dataclass(frozen=True, slots=True)
class Value:
    """The properties of a value, and the parameters of its function on which it depends, as a set of bits."""

    level: int
    params: int
    parts: int
    """The parts of the batch that it depends on, as a set of bits; in the entry function alone."""


NOTHING = Value(FORWARD, 0, 0)


@dataclass(frozen=True)
class FunctionFlow:
    """One function for any arguments: its values, and the dependencies of its statements."""

    function: Function
    values: Mapping[str, Value]
    statements: list[Value]
    """By statement: that of all its operands, and its own level."""


@dataclass(frozen=True)
class Context:
    """One call of a function: the properties of its parameters."""

    flow: FunctionFlow
    backward: int = 0
    """The parameters that are gradients, as a set of bits; likewise below."""
    optimizer: int = 0
    parts: tuple[tuple[int, int], ...] = ()
    """Parts of the batch, each with the parameters that depend on it."""
    least: int = FORWARD
    """The level that all in it has at least."""
    weights: bool = False

    def level(self, value: Value) -> int:
        """The level of a value here."""
        inherited = (
            OPTIMIZER if value.params & self.optimizer else BACKWARD if value.params & self.backward else FORWARD
        )
        return max(value.level, inherited, self.least)

    def of_batch(self, value: Value) -> int:
        """The parts of the batch that a value depends on here."""
        found = value.parts
        for part, params in self.parts:
            if params & value.params:
                found |= part
        return found


class Phases:
    """The phases of a simulated program's ops."""

    def __init__(self, module: Module, body: Body) -> None:
        self._module = module
        self._body = body
        self._flows: dict[str, FunctionFlow] = {}

    @cached_property
    def entry(self) -> Context:
        """The entry function."""
        return Context(self._flow(self._body.instance.function))

    def called(self, context: Context, statement: int) -> Context:
        """The function that a statement calls, as it calls it."""
        call = context.flow.function.body[statement]
        assert isinstance(call, Call)
        backward = optimizer = 0
        parts: dict[int, int] = {}
        for index, arg in enumerate(call.args):
            value = _joined(context.flow.values, names((arg,)))
            level = context.level(value)
            backward |= (level >= BACKWARD) << index
            optimizer |= (level >= OPTIMIZER) << index
            rest = context.of_batch(value)
            while rest:
                part = rest & -rest
                parts[part] = parts.get(part, 0) | 1 << index
                rest ^= part
        named = _named_level(call.function) if self._trained else FORWARD
        least, weights = max(context.least, named), context.weights or bool(_WEIGHTS.search(call.function))
        flow = self._flow(self._module.functions[call.function])
        return Context(flow, backward, optimizer, tuple(parts.items()), least, weights)

    def place(self, context: Context, statement: int) -> KnownPlace:
        """The phase, microbatch and stage of an op."""
        value = context.flow.statements[statement]
        phase = None
        if self._trained:
            phase = ("forward", "weights" if context.weights else "backward", "optimizer")[context.level(value)]
        parts = context.of_batch(value) if self._in_microbatches else 0
        return KnownPlace(phase, parts.bit_length() if parts and not parts & (parts - 1) else None)

    @cached_property
    def _trained(self) -> bool:
        """Whether there are gradients or updates."""
        return any(
            isinstance(s, Apply) and (s.op.endswith("Grad") or (s.op in OPS and OPS[s.op].family == "optimizer"))
            for function in self._reached()
            for s in function.body
        )

    @cached_property
    def _in_microbatches(self) -> bool:
        """Whether some device works on several parts of the batch, so that they are more than replicas' shares."""
        worked: dict[int, int] = {}
        context = self.entry
        for statement, step, value in zip(
            context.flow.function.body, self._body.steps, context.flow.statements, strict=True
        ):
            parts = value.parts
            if step is None or not parts or isinstance(statement, Return):
                continue
            several = bool(parts & (parts - 1))
            if isinstance(step, Body):
                if several and step.events:
                    return True
                devices = step.devices if step.events else ()
            else:
                devices = () if several or step.communicates else step.devices
            for device in devices:
                worked[device] = worked.get(device, 0) | parts
        return any(parts & (parts - 1) for parts in worked.values())

    def _reached(self) -> Iterator[Function]:
        """The functions that the entry function calls, itself included, each once."""
        seen = {self._body.instance.function.name: self._body.instance.function}
        waiting = list(seen.values())
        while waiting:
            function = waiting.pop()
            yield function
            for s in function.body:
                if isinstance(s, Call) and s.function not in seen:
                    seen[s.function] = self._module.functions[s.function]
                    waiting.append(seen[s.function])

    def _flow(self, function: Function) -> FunctionFlow:
        """The flow of a function; those of the functions that it calls are found before it."""
        waiting = [function]
        while waiting:
            current = waiting[-1]
            if current.name in self._flows:
                waiting.pop()
                continue
            called = {s.function for s in current.body if isinstance(s, Call)} - self._flows.keys()
            if called:
                waiting += [self._module.functions[name] for name in sorted(called)]
            else:
                self._flows[current.name] = self._found(current)
        return self._flows[function.name]

    def _found(self, function: Function) -> FunctionFlow:
        values = {param.name: Value(FORWARD, 1 << index, 0) for index, param in enumerate(function.params)}
        statements: list[Value] = []
        batch = self._batch(function)
        for statement in function.body:
            if not isinstance(statement, (Apply, Call)):
                statements.append(NOTHING)
                continue
            used = _joined(values, names(statement.args))
            if isinstance(statement, Apply):
                used = Value(max(used.level, _op_level(statement, values)), used.params, used.parts)
            statements.append(used)
            for index, name in enumerate(statement.results):
                if isinstance(statement, Call):
                    values[name] = self._result(statement, index, values)
                elif _cuts(statement, batch):
                    values[name] = Value(used.level, used.params, 1 << index)
                else:
                    values[name] = used
        return FunctionFlow(function, values, statements)

    def _batch(self, function: Function) -> dict[str, object]:
        """By parameter of the entry function: the dimension along which it holds examples, where all are cut alike."""
        if function.name != self._body.instance.function.name:
            return {}
        batch: dict[str, object] = {p.name: p.roles["batch"] for p in function.params if "batch" in p.roles}
        cuts = [s for s in function.body if isinstance(s, Apply) and _cuts(s, batch)]
        return batch if len({len(s.results) for s in cuts}) == 1 else {}

    def _result(self, call: Call, index: int, values: Mapping[str, Value]) -> Value:
        """A result of a call: its properties, and the arguments on which it depends."""
        flow = self._flows[call.function]
        returned = flow.function.returned[index]
        inside = _joined(flow.values, names((returned,)))
        args = [n for i, arg in enumerate(call.args) if inside.params >> i & 1 for n in names((arg,))]
        joined = _joined(values, args)
        return Value(max(inside.level, joined.level, _named_level(call.function)), joined.params, joined.parts)


def _joined(values: Mapping[str, Value], used: Iterator[str] | list[str]) -> Value:
    """The dependencies of several values together."""
    level = params = parts = 0
    for name in used:
        value = values.get(name, NOTHING)
        level, params, parts = max(level, value.level), params | value.params, parts | value.parts
    return Value(level, params, parts)


def _cuts(statement: Apply, batch: Mapping[str, object]) -> bool:
    """Whether an op cuts the batch into parts."""
    cut = statement.args[0] if statement.op == "Split" and statement.args else None
    return isinstance(cut, str) and cut in batch and batch[cut] == statement.attrs.get("axis", 0)


def _named_level(function: str) -> int:
    return BACKWARD if _GRADIENT.search(function) or _WEIGHTS.search(function) else FORWARD


def _op_level(statement: Apply, values: Mapping[str, Value]) -> int:
    if statement.op in OPS and OPS[statement.op].family == "optimizer":
        return OPTIMIZER
    gradients = (name[1:] in values for name in statement.results if name.startswith("d"))
    return BACKWARD if statement.op.endswith("Grad") or any(gradients) else FORWARD
