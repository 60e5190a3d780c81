"""Writes the pipeline: the entry function over all devices, its `.scatter` and its `.gather`.

Names: `%a_3` is `%a` of the third microbatch, `%a_3.2` its copy sent to device 2, `%w.2` the copy on device 2 of a
parameter that several devices have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from distir.ir import (
    DISCARD,
    HOST,
    NO_FACTS,
    UNKNOWN,
    Apply,
    Arg,
    Dense,
    Facts,
    Function,
    Literal,
    Module,
    Param,
    TensorType,
    TupleType,
    Type,
    names,
    types,
)
from distir.ir.builder import FunctionBuilder
from distir.ops import Value, type_of
from distir.transform.pipeline.frames import TOTAL, Frame, Key
from distir.transform.pipeline.microbatches import Share, is_plain, leaf_shares, scale_of
from distir.transform.pipeline.outlining import bindable, renamed
from distir.transform.pipeline.placement import Placement
from distir.transform.pipeline.reading import Phase, Work, types_of_parts
from distir.transform.pipeline.repetition import Timetable


def write(placement: Placement, timetable: Timetable, functions: Sequence[Function]) -> Module:
    """The module of a pipeline: `functions`, rounds, then the entry function, `.scatter` and `.gather`."""
    return _Writer(placement, functions).write(timetable)


def each_once(placement: Placement, functions: Sequence[Function]) -> Module | None:
    """A program that calls each pass once, to time it; None where passes take what may be sizes from the host."""
    reading, main = placement.reading, FunctionBuilder(placement.reading.entry.name)
    type_of = types_of_parts(reading)
    for (stage, _), outlined in placement.passes.items():
        given: list[str | Literal] = []
        for name in outlined.takes:
            value = reading.part(name)
            if isinstance(value, Dense):
                given.append(Literal(value))
            elif name in placement.hosts and not _is_of_floats(value):
                return None
            else:
                given.append(main.param(name, types.on_device(type_of(name), placement.device(stage))))
        main.call(outlined.function.name, *given, results=len(outlined.gives))
    return Module([*functions, main.returns()])


def _is_of_floats(value: Value) -> bool:
    return isinstance(value, TensorType) and value.dtype is not None and value.dtype.kind == "float"


class _Writer:
    """Writes the entry function."""

    def __init__(self, placement: Placement, functions: Sequence[Function]) -> None:
        self.placement = placement
        self.reading = placement.reading
        self.entry = self.reading.entry
        self.functions = {f.name: f for f in functions}
        self.hosts = placement.hosts
        self.main = FunctionBuilder(self.entry.name)
        self.frame = Frame(placement, self.main, self._whole)
        self.scatter = FunctionBuilder(f"{self.entry.name}.scatter")
        self.scattered: list[str] = []
        self.there: dict[tuple[str, int], str] = {}
        """What a value that is the same for all microbatches is called on a device."""
        self.stated = self.reading.stated()
        self.prepared = Facts("forward") if any(facts.phase for facts in self.stated.values()) else NO_FACTS
        """The facts of what is done with weights, and with the batch, before the passes."""
        self.device_of: dict[str, int] = {}
        """By value that all microbatches share: a device that has it."""

    def write(self, timetable: Timetable) -> Module:
        for param in self.entry.params:  # reserved before other values are named
            self.scatter.param(param.name, param.type)
        self.scatter.params[:] = self.entry.params
        for param in self.entry.params:
            self._parameter(param)
        self._before()
        self._split_batch()
        self.frame.run(timetable, self.functions)
        self.frame.finish_sums()
        self._scale_sums()
        self._after()
        returned = [self._returned(arg) for arg in self.entry.returned]
        main = self.main.returns(*(arg for arg, _ in returned))
        gather = self._gather([t for _, t in returned])
        return Module([*self.functions.values(), main, self.scatter.returns(*self.scattered), gather])

    def _parameter(self, param: Param) -> None:
        """A parameter on each device that needs it, unless its home sends it to the others."""
        source = param.name
        devices = sorted(self.placement.needed.get(param.name, ()))
        home = self.placement.home.get(param.name)
        if not devices:  # a host value
            self._add(param, param.name, source, HOST)
            return
        for device in [home] if home is not None else devices:
            hint = param.name if home is not None or len(devices) == 1 else f"{param.name}.{device}"
            copy = source
            if device != self.reading.device:
                (copy,) = self.scatter.apply("Send", source, device=device, results=(f"{param.name}.{device}",))
            self._add(param, hint, copy, device)

    def _add(self, param: Param, hint: str, copy: str, device: int) -> None:
        name = self.main.param(hint, types.on_device(param.type, device))
        self.main.params[-1] = replace(self.main.params[-1], roles=param.roles)
        self.scattered.append(copy)
        self._found(param.name, device, name)

    def _found(self, name: str, device: int, called: str) -> None:
        self.there[name, device] = called
        self.device_of.setdefault(name, device)

    def _before(self) -> None:
        """Write host values, weights to send, and values computed from weights alone, wherever they are needed."""
        for name, home in self.placement.home.items():
            for device in sorted(self.placement.needed[name] - {home}):
                self._bring(name, home, device)
        for statement, phase in self.reading.statements:
            if phase is Phase.HOST:
                self._copy(statement, HOST, "")
            elif phase is Phase.BEFORE:
                needed = set[int]().union(*(self.placement.needed.get(r, set()) for r in statement.results))
                for device in sorted(needed):
                    self._copy(statement, device, f".{device}" if len(needed) > 1 else "")

    def _copy(self, statement: Work, device: int, suffix: str) -> None:
        """A statement of the sequential program, on a device."""
        written = renamed(statement, lambda n: self.main.fresh(n + suffix))
        args = tuple(self._arg(arg, device) for arg in statement.args)
        self.main.body.append(replace(written, args=args))
        for name, new in zip(statement.results, written.results, strict=True):
            if name != DISCARD:
                self._found(name, HOST if name in self.hosts else device, new)

    def _arg(self, arg: Arg, device: int) -> Arg:
        if isinstance(arg, str):
            return arg if arg == DISCARD else self._at(arg, device)
        return tuple(self._arg(a, device) for a in arg) if isinstance(arg, tuple) else arg

    def _at(self, name: str, device: int) -> str:
        """The name of a value on a device, to which it is sent if necessary."""
        if name not in self.device_of:
            self._join(name)
        if (name, HOST) in self.there:
            return self.there[name, HOST]
        if device == HOST:  # a host value can be computed from a value on any device
            return self.there[name, self.device_of[name]]
        if (name, device) not in self.there:
            self._bring(name, self.device_of[name], device)
        return self.there[name, device]

    def _bring(self, name: str, source: int, device: int) -> None:
        hints = (f"{name}.{device}",)
        self._state(name)
        (self.there[name, device],) = self.main.apply("Send", self.there[name, source], device=device, results=hints)

    def _state(self, name: str) -> None:
        """State, from now on, the facts of the statement that defines a value of the sequential program."""
        made = self.placement.made.get(name)
        self.main.facts = self.stated.get(name, self.prepared) if made is None else self.placement.facts(name)

    def _split_batch(self) -> None:
        self.main.facts = self.prepared
        count = self.reading.count
        for name, axis in self.reading.batch.items():
            devices = [HOST] if name in self.hosts else sorted(self.placement.needed.get(name, ()))
            for device in devices:
                whole = self.there[name, device]
                suffix = f".{device}" if len(devices) > 1 else ""
                hints = tuple(f"{name}_{k}{suffix}" for k in range(1, count + 1))
                passes = self.placement.passes.items()
                taken = any(name in o.takes for (s, _), o in passes if device in (HOST, self._on(s)))
                parts: Sequence[str] = [whole] * count
                if taken and count > 1:
                    parts = self.main.apply("Split", whole, axis=axis, num_outputs=count, results=hints)
                for k, part in enumerate(parts):
                    self.frame.called[name, k, device] = part

    def _on(self, stage: int) -> int:
        return self.placement.device(stage)

    def _whole(self, key: Key) -> str:
        """What a value that is the same for all microbatches is called on a device."""
        name, _, device = key
        return self._at(name, device)

    def _scale_sums(self) -> None:
        """Divide sums over all microbatches that were means."""
        for name, device in self.frame.totals:
            total = self.frame.find((name, TOTAL, device))
            scale = scale_of(self.reading.values[name].shares)
            self._state(name)
            if scale and self.reading.count > 1:
                total = self._scaled(total, type_of(self.reading.values[name].full), 1.0 / self.reading.count**scale)
            self._found(name, device, total)

    def _scaled(self, name: str, type: Type, factor: float) -> str:
        if not isinstance(type, TupleType):
            return self.main.apply("Mul", name, factor, results=(f"{name}_mean",))[0]
        items = self.main.apply("UnpackTuple", name, results=(f"{name}_item",) * len(type.items))
        scaled = [self._scaled(item, inner, factor) for item, inner in zip(items, type.items, strict=True)]
        return self.main.apply("MakeTuple", *scaled, results=(f"{name}_mean",))[0]

    def _after(self) -> None:
        for i, (statement, phase) in enumerate(self.reading.statements):
            devices = self.placement.shared.get(i)
            if phase is Phase.AFTER and devices is None:
                self._copy(statement, self.placement.at_the_end[i], "")
            elif devices is not None and isinstance(statement, Apply) and statement.op == "Sum":
                self._sum_over(statement, devices)
            elif devices is not None:
                for device in devices:
                    self._copy(statement, device, f".{device}")

    def _sum_over(self, statement: Apply, devices: Sequence[int]) -> None:
        """A sum of scalars on several devices: first on each device, then over the devices."""
        (name,) = statement.results
        self._state(name)
        for mentioned in names(statement.args):
            if mentioned not in self.device_of:
                self._join(mentioned)
        parts: list[str] = []
        for device in devices:
            own = [self.there[n, device] for n in names(statement.args) if self.device_of[n] == device]
            hints = (f"{name}_part.{device}",)
            parts += own if len(own) == 1 else self.main.apply("Sum", *own, results=hints)
        hints = tuple(f"{name}.{device}" for device in devices)
        for device, total in zip(devices, self.main.apply("MPIAllreduce", *parts, results=hints), strict=True):
            self._found(name, device, total)

    def _returned(self, arg: Arg) -> tuple[Arg, Type]:
        """A result, and its type."""
        if not isinstance(arg, str):
            return arg, UNKNOWN
        if arg not in self.device_of:
            self._join(arg)
        device = self.device_of[arg]
        return self.there[arg, device], types.on_device(type_of(self.reading.values[arg].full), device)

    def _join(self, name: str) -> None:
        """Concatenate the microbatches' parts of a value on the device that computes them, or on the host."""
        home = self.placement.on(name, self._on(self.placement.made[name][0]))
        self._found(name, home, self._joined(name, home))

    def _joined(self, name: str, device: int) -> str:
        if self.reading.count == 1 or is_plain(self.reading.values[name].shares):  # equal in every microbatch
            return self.frame.called[name, 0, device]
        parts = [self.frame.called[name, k, device] for k in range(self.reading.count)]
        self._state(name)
        (share,) = leaf_shares(self.reading.values[name].shares)
        assert isinstance(share, Share)
        assert share.axis is not None
        return self.main.apply("Concat", *parts, axis=share.axis, results=(name,))[0]

    def _gather(self, result_types: Sequence[Type]) -> Function:
        f = FunctionBuilder(f"{self.entry.name}.gather")
        gathered: list[str] = []
        hints = [arg if isinstance(arg, str) else "result" for arg in self.entry.returned]
        params = [f.param(hint, t) for hint, t in zip(hints, result_types, strict=True)]
        f.params[:] = bindable(f.params)
        for name, t in zip(params, result_types, strict=True):
            if types.device_of(t) in (None, HOST, self.reading.device):
                gathered.append(name)
            else:
                gathered += f.apply(
                    "Send", name, device=self.reading.device, results=(f"{name}.{self.reading.device}",)
                )
        return f.returns(*gathered)


__all__ = ["write"]
