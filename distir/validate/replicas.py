"""A training step of other replicas: what a program of one representative replica takes if there are more of them.

In such a program the number of replicas is in few places: the sizes of the groups that they form, the parts of weights
and of optimizer state that one has, the batch, and how far apart the stages of a pipeline are. So runs that differ in
replicas alone share one program, which is made for few.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from distir.ir import (
    DISCARD,
    HOST,
    Apply,
    Attributes,
    Constant,
    Dim,
    Function,
    Module,
    Param,
    Shape,
    Statement,
    TensorType,
    dims,
    types,
)
from distir.ir.errors import DistirError
from distir.ir.rewrite import claiming
from distir.ir.types import AnyType, Type
from distir.models.sizes import BATCH
from distir.ops.group import BY_DEVICE, CUTS, represented
from distir.transform.entry import entry_of
from distir.transform.fusion.groups import LONGEST_ROW
from distir.transform.sharding.mesh import DEVICE_ATTRIBUTES


class UnlikeError(DistirError, ValueError):
    """A program whose form depends on the number of replicas."""


@dataclass(frozen=True, slots=True)
class DeviceLayout:
    """The layout of devices: `shards` next to each other, then `context` that share sequences, `replicas`, stages.

    `holding_parts`: so many replicas next to each other hold the parts of the state, if not all do.
    """

    replicas: int
    shards: int = 1
    context: int = 1
    holding_parts: int = 0

    @property
    def stage(self) -> int:
        """The distance of the devices of two stages."""
        return self.replicas * self.context * self.shards

    @classmethod
    def of_few(cls, shards: int, context: int, holding_parts: int = 0) -> DeviceLayout:
        """One of few replicas, whose number tells their groups from those of shards."""
        few = 2 * max(1, holding_parts)
        while not {few, few * context}.isdisjoint((shards, context)):
            few *= 2
        return cls(few, shards, context, holding_parts)

    @property
    def groups(self) -> Sequence[tuple[int, int]]:
        """The sizes and strides of groups that grow with the number of replicas."""
        all_of_them = (self.replicas, self.context * self.shards), (self.replicas * self.context, self.shards)
        each = self.holding_parts
        return (*all_of_them, (self.replicas // each, self.shards * each)) if each else all_of_them

    @property
    def others(self) -> Sequence[tuple[int, int]]:
        """Those of the other groups."""
        found = (self.shards, 1), (self.context, self.shards)
        return (*found, (self.holding_parts, self.shards)) if self.holding_parts else found


def with_replicas(module: Module, whole: Function, now: DeviceLayout, count: int) -> Module:
    """The program for `count` replicas, of one of a representative for a divisor of that. `now`: its devices.

    `whole`: the entry function before ZeRO, whose parameters are not in parts. Neither time nor memory depends on host
    values, and those that count examples remain as they are: this is a program to simulate, not to run.

    Raises UnlikeError where the program for so many replicas has another form, or might have. Where kernels of the
    entry function depend on the sizes of its values, as those that are compiled do, see `have_equal_kernels`.
    """
    return _Replicas(now, replace(now, replicas=count)).module(module, whole)


def have_equal_kernels(entry: Function, whole: Function, now: DeviceLayout, count: int) -> bool:
    """Whether kernels of weights, gradients and optimizer state are those of the program for `count` replicas.

    False where they might differ. What one kernel computes is of one size, and what it reads again is not longer than a
    row may be. Raises UnlikeError as `with_replicas` does; `entry` is that of its module, which may be without kernels.
    """
    sizes: dict[Dim, Dim] = {}
    for param, after in zip(
        entry.params, _Replicas(now, replace(now, replicas=count)).params(entry, whole), strict=True
    ):
        if isinstance(param.type, TensorType) and isinstance(after.type, TensorType) and "batch" not in param.roles:
            size, then = param.type.elements, after.type.elements
            if not isinstance(size, int) or not isinstance(then, int) or sizes.setdefault(size, then) != then:
                return False  # a part and another value are of one size
            if (size <= LONGEST_ROW) != (then <= LONGEST_ROW):
                return False  # parts are rows of kernels for the one number of replicas, not for the other
    return len({*sizes.values()}) == len(sizes)


def fewest_alike(entry: Function, few: DeviceLayout, count: int) -> DeviceLayout:
    """The layout of the fewest replicas, from those of `few` on, over which ZeRO splits weights as over `count`.

    Along the same dimensions: the first that divides. Of a divisor of `count`, or of that many themselves. `entry`: of
    the program on one device, whose weights shards do not split.
    """

    def axis(shape: Shape, parts: int) -> int | None:
        return next((i for i, size in enumerate(shape) if isinstance(size, int) and size % parts == 0), None)

    def axes(replicas: int) -> list[int | None]:
        return [axis(shape, replicas * few.context) for shape in shapes]

    shapes = {p.type.shape or () for p in entry.params if "param" in p.roles and isinstance(p.type, TensorType)}
    divisors = (n for n in range(few.replicas, count) if count % n == 0 and n != few.context)
    return replace(few, replicas=next((n for n in divisors if axes(n) == axes(count)), count))


class _Replicas:
    def __init__(self, now: DeviceLayout, then: DeviceLayout) -> None:
        if then.replicas % now.replicas:
            raise UnlikeError("other dimensions of weights may divide")
        self.now, self.then = now, then
        self._types: dict[Type, Type] = {}
        self._attributes: dict[tuple[str, Attributes], Attributes] = {}

    def module(self, module: Module, whole: Function) -> Module:
        """The program for the other number of replicas."""
        entry = entry_of(module)
        functions: list[Function] = []
        for function in module:
            params = function.params
            if function is entry:
                params = self.params(entry, whole)
            else:
                params = tuple([p if (t := self._type(p.type)) is p.type else replace(p, type=t) for p in params])
            body = tuple(map(self._statement, function.body))
            stated = function.result_types and tuple(map(self._type, function.result_types))
            functions.append(replace(function, params=params, body=body, result_types=stated))
        return Module(functions)

    def params(self, entry: Function, whole: Function) -> tuple[Param, ...]:
        """The parameters of the entry function."""
        before = {param.name: param.type for param in whole.params}
        return tuple([self._of_entry(p, before.get(p.name)) for p in entry.params])

    def _device(self, device: int) -> int:
        stage, offset = divmod(device - 1, self.now.stage)
        if offset:
            raise UnlikeError("a stage has several devices")
        return 1 + stage * self.then.stage

    def _type(self, type: Type) -> Type:
        """The type on the other device."""
        found = self._types.get(type)
        if found is None:
            match type:
                case TensorType(dtype, shape, int(device), offloaded) if device != HOST:
                    found = TensorType(dtype, shape, self._device(device), offloaded)
                case AnyType(int(device)) if device != HOST:
                    found = AnyType(self._device(device))
                case types.TupleType(items):
                    found = types.TupleType(tuple(map(self._type, items)))
                case _:
                    found = type
            found = self._types[type] = types.one(found)
        return found

    def _of_entry(self, param: Param, whole: Type | None) -> Param:
        """A parameter of the entry function: its part of the batch, or of a weight or its state."""
        found, roles = self._type(param.type), param.roles
        if "batch" in roles:
            batch = dims.divide(dims.multiply(dims.named(str(BATCH)), self.now.replicas), self.then.replicas)
            found = types.substitute(found, {str(BATCH): batch})
            each = roles.get("replicas")
            if isinstance(each, int):
                roles = Attributes({**roles, "replicas": self._size(each)})
        elif whole != param.type:
            found = self._part(found, whole)
        return replace(param, type=found, roles=roles)

    def _part(self, part: Type, whole: Type | None) -> Type:
        """The type of a part, which is as many times smaller as its group is larger."""
        if not isinstance(part, TensorType) or not isinstance(whole, TensorType):
            raise UnlikeError("a parameter is no tensor, or has no whole")
        shape: list[Dim] = []
        for size, of in zip(part.shape or (), whole.shape or (), strict=True):
            if size == of:
                shape.append(size)
                continue
            if not isinstance(size, int) or not isinstance(of, int) or of % size:
                raise UnlikeError("a part has no size that divides")
            parts = self._size(of // size)
            if of % parts:
                raise UnlikeError("other dimensions of weights may divide")
            shape.append(of // parts)
        return TensorType(part.dtype, tuple(shape), part.device, part.offloaded)

    def _size(self, size: int) -> int:
        """The size of a group of this size."""
        sizes = {size: then for (size, _), (then, _) in zip(self.now.groups, self.then.groups, strict=True)}
        if size in {size for size, _ in self.now.others}:
            return size
        if size not in sizes:
            raise UnlikeError("a part is of no group")
        return sizes[size]

    def _statement(self, statement: Statement) -> Statement:
        statement = claiming(statement, self._type)
        if not isinstance(statement, Apply) or not statement.attrs:
            return statement
        key = statement.op, statement.attrs
        attrs = self._attributes.get(key)
        if attrs is None:
            attrs = self._attributes[key] = self._of_op(*key)
        if attrs is statement.attrs:
            return statement
        results = statement.results
        if statement.op in CUTS and isinstance(count := attrs.get("num_outputs"), int) and count != len(results):
            if set(results[1:]) != {DISCARD} or statement.claims:
                raise UnlikeError("a replica has several parts")
            results = (results[0], *(DISCARD,) * (count - 1))
        return replace(statement, attrs=attrs, results=results)

    def _of_op(self, op: str, attrs: Attributes) -> Attributes:
        """The attributes of an op, for the other groups and devices."""
        changed: dict[str, Constant] = {n: self._named(attrs[n]) for n in DEVICE_ATTRIBUTES if n in attrs}
        group = represented(op, attrs)
        if group is not None and group in self.now.groups:
            if op in BY_DEVICE:
                raise UnlikeError("replicas have constants of their own")
            size, _ = self.then.groups[self.now.groups.index(group)]
            changed["num_outputs" if op in CUTS else "size"] = size
        elif group is not None and group not in self.now.others:
            raise UnlikeError("a group is along no axis")
        return Attributes({**attrs, **changed}) if changed else attrs

    def _named(self, value: Constant) -> Constant:
        if isinstance(value, tuple):
            return tuple([self._named(item) for item in value])
        return self._device(value) if isinstance(value, int) else value
