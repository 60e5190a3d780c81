"""What a program of representative devices means: it written out for all devices that they represent.

Each statement is there for each device of the mesh, on the values of that device, and a collective of a group once for
its devices. So the executor can run it.
"""

from itertools import product
from math import prod

from distir.ir import DISCARD, HOST, Apply, Attributes, Call, Function, Literal, Module, Param, Return, types
from distir.ops.group import GROUPED, represented
from distir.prove.ranks import axes_of, mesh
from distir.transform.sharding.mesh import on_devices

PLAIN = {op.name: name for name, op in GROUPED.items()}


def written_out(module, given_by=0):
    """The program of all devices; its results are those of one of them, by its number."""
    statements = [s for f in module for s in f.body if isinstance(s, Apply)]
    axes = mesh(group for s in statements if (group := represented(s.op, s.attrs)))
    written = _Written(axes)
    entry = module.entry().name
    return Module(
        written.scatter(f)
        if f.name == f"{entry}.scatter"
        else written.gather(f, given_by)
        if f.name == f"{entry}.gather"
        else written.function(f)
        for f in module
    )


class _Written:
    def __init__(self, axes):
        self.axes = axes
        self.members = list(product(*(range(axis.size) for axis in axes)))
        """The ranks of each device."""

    def offset(self, number):
        return sum(rank * axis.stride for rank, axis in zip(self.members[number], self.axes, strict=True))

    def groups(self, size, stride):
        """The numbers of the devices of each group, in their order."""
        inner = axes_of(self.axes, size, stride)
        assert prod(axis.size for axis in inner) == size
        found = {}
        for number in sorted(range(len(self.members)), key=self.offset):
            ranks = zip(self.axes, self.members[number], strict=True)
            found.setdefault(tuple(rank for axis, rank in ranks if axis not in inner), []).append(number)
        return list(found.values())

    def arg(self, arg, number):
        if isinstance(arg, str):
            return arg if arg == DISCARD else f"{arg}.of.{number}"
        return arg if isinstance(arg, Literal) else tuple(self.arg(item, number) for item in arg)

    def args(self, args, number):
        return tuple(self.arg(arg, number) for arg in args)

    def all(self, args):
        return tuple(self.arg(arg, number) for arg in args for number in range(len(self.members)))

    def type(self, type, number):
        return type and on_devices(type, lambda device: device + self.offset(number))

    def params(self, function):
        every = range(len(self.members))
        return tuple(Param(self.arg(p.name, n), self.type(p.type, n), p.roles) for p in function.params for n in every)

    def body(self, function):
        return [new for s in function.body if not isinstance(s, Return) for new in self.statement(s)]

    def function(self, function):
        body = (*self.body(function), Return(self.all(function.returned)))
        return Function(function.name, self.params(function), body)

    def scatter(self, function):
        """Each device gets what the first one is given."""
        copies = []
        for param in function.params:
            names = tuple(self.arg(param.name, number) for number in range(len(self.members)))
            device = types.device_of(param.type)
            if isinstance(device, int) and device != HOST:
                devices = tuple(device + self.offset(number) for number in range(len(self.members)))
                copies.append(Apply(names, "MPIBroadcast", (param.name,), Attributes({"devices": devices})))
            else:
                copies += [Apply((name,), "Identity", (param.name,)) for name in names]
        body = (*copies, *self.body(function), Return(self.all(function.returned)))
        return Function(function.name, function.params, body)

    def gather(self, function, given_by):
        of = given_by % len(self.members)
        body = (*self.body(function), Return(self.args(function.returned, of)))
        return Function(function.name, self.params(function), body)

    def statement(self, s):
        if isinstance(s, Call):
            yield Call(self.all(s.results), s.function, self.all(s.args))
            return
        group = represented(s.op, s.attrs)
        for numbers in [[n] for n in range(len(self.members))] if group is None else self.groups(*group):
            attrs = {name: value for name, value in s.attrs.items() if group is None or name not in ("size", "stride")}
            if s.op in PLAIN:
                results, args = (tuple(self.arg(one[0], n) for n in numbers) for one in (s.results, s.args))
                yield Apply(results, PLAIN[s.op], args, Attributes(attrs))
                continue
            for rank, number in enumerate(numbers):
                yield self.own(s, attrs, number, rank, len(numbers))

    def own(self, s, attrs, number, rank, size):
        """A statement of one device."""
        results, args = self.args(s.results, number), self.args(s.args, number)
        if s.op == "GroupPart":
            parts = tuple(results[0] if k == rank else DISCARD for k in range(size))
            return Apply(parts, "Split", args, Attributes({**attrs, "num_outputs": size}))
        if s.op == "GroupParts":
            count, numbers = sum(map(len, attrs["parts"])), attrs["parts"][rank]
            parts = tuple(results[numbers.index(k)] if k in numbers else DISCARD for k in range(count))
            return Apply(parts, "Split", args, Attributes({"axis": attrs.get("axis", 0), "num_outputs": count}))
        if s.op == "GroupConstant":
            return Apply(results, "Constant", (), Attributes({"value": attrs["values"][rank]}))
        if s.op == "GroupFirst":
            return Apply(results, "Mul", (*args, Literal(0.0 if rank else 1.0)))
        if represented(s.op, s.attrs):  # of a cut, the first result is the device's own part
            results = tuple(results[(k - rank) % size] for k in range(size))
        moved = {}
        for name, value in attrs.items():
            if name in ("device", "root"):
                value += self.offset(number)
            elif name == "devices":
                value = tuple(device + self.offset(number) for device in value)
            moved[name] = value
        return Apply(results, s.op, args, Attributes(moved))
