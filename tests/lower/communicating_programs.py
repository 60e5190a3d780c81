"""Random programs that communicate: every op that does, in random groups, in functions and on tuples too."""

import random
from dataclasses import replace

from distir.ir import (
    DISCARD,
    DTYPES,
    Apply,
    Attributes,
    Call,
    Function,
    Literal,
    Module,
    Param,
    Return,
    TensorType,
    TupleType,
    names,
)

MOVED = ("Float32", "Float64", "Float16", "Int64", "Int16", "Bool")
SUMMED = ("Float32", "Float64", "Int64", "Int16")
ROWS = 12
"""Divides by every group size."""


class Body:
    """A body as it grows, with the types of its values."""

    def __init__(self, rng, devices):
        self.rng, self.devices = rng, devices
        self.types, self.statements = {}, []

    def add(self, op, args, results, **attrs):
        names = []
        for stated in results:
            names.append(f"v{len(self.types)}")
            self.types[names[-1]] = stated
        self.statements.append(Apply(tuple(names), op, tuple(args), Attributes(attrs)))
        return names

    def of(self, stated, device):
        """A value of this type on a device, made if there is none."""
        wanted = on(stated, device)
        found = [n for n, t in self.types.items() if t == wanted]
        if found:
            return self.rng.choice(found)
        if isinstance(wanted, TupleType):
            return self.add("MakeTuple", [self.of(item, device) for item in wanted.items], [wanted])[0]
        sources = [n for n, t in self.types.items() if isinstance(t, TensorType) and on(t, device) == wanted]
        if sources:
            return self.add("Send", [self.rng.choice(sources)], [wanted], device=device)[0]
        return None

    def group(self, least=2):
        count = self.rng.randint(least, len(self.devices))
        return self.rng.sample(self.devices, count)


def on(stated, device):
    if isinstance(stated, TupleType):
        return TupleType(tuple(on(item, device) for item in stated.items))
    return TensorType(stated.dtype, stated.shape, device)


def tensors(body, dtypes=MOVED):
    return [(n, t) for n, t in body.types.items() if isinstance(t, TensorType) and t.dtype.name in dtypes]


def send(body):
    name, stated = body.rng.choice(list(body.types.items()))
    device = body.rng.choice(body.devices)
    if device not in {leaf.device for leaf in leaves(stated)}:
        body.add("Send", [name], [on(stated, device)], device=device)


def leaves(stated):
    return [x for item in stated.items for x in leaves(item)] if isinstance(stated, TupleType) else [stated]


def broadcast(body):
    name, stated = body.rng.choice(tensors(body))
    others = [d for d in body.group(1) if d != stated.device]
    group = body.rng.sample([stated.device, *others], 1 + len(others))
    body.add("MPIBroadcast", [name], [on(stated, d) for d in group], devices=tuple(group))


def scatter(body):
    name, stated = body.rng.choice(tensors(body))
    others = [d for d in body.group(1) if d != stated.device]
    group = body.rng.sample([stated.device, *others], 1 + len(others))
    axis = body.rng.randrange(len(stated.shape))
    if stated.shape[axis] % len(group) == 0:
        shape = resized(stated.shape, axis, stated.shape[axis] // len(group))
        results = [TensorType(stated.dtype, shape, d) for d in group]
        body.add("MPIScatter", [name], results, devices=tuple(group), axis=axis)


def resized(shape, axis, size):
    return (*shape[:axis], size, *shape[axis + 1 :])


def members(body, dtypes, least=1):
    """Operands of one type, one on each device of a random group."""
    _, stated = body.rng.choice(tensors(body, dtypes))
    found = [(body.of(stated, d), d) for d in body.group(least)]
    return stated, [name for name, _ in found], [d for _, d in found]


def gather(body):
    stated, names, group = members(body, MOVED)
    axis = body.rng.randrange(len(stated.shape))
    shape = resized(stated.shape, axis, stated.shape[axis] * len(names))
    if body.rng.random() < 0.5:
        root = body.rng.choice(group)
        body.add("MPIGather", names, [TensorType(stated.dtype, shape, root)], root=root, axis=axis)
    else:
        body.add("MPIAllgather", names, [TensorType(stated.dtype, shape, d) for d in group], axis=axis)


def uneven(body):
    """Pieces of different sizes."""
    name, stated = body.rng.choice(tensors(body))
    group = body.group(2)[:2]
    rows = stated.shape[0]
    if rows < 3:
        return
    parts = [TensorType(stated.dtype, (n, *stated.shape[1:]), stated.device) for n in (1, rows - 1)]
    pieces = body.add("Split", [name, Literal((1, rows - 1))], parts, axis=0)
    placed = [body.of(t, d) for t, d in zip(parts, group, strict=True)]
    assert pieces
    if body.rng.random() < 0.5:
        body.add("MPIGather", placed, [on(stated, group[0])], root=group[0], axis=0)
    else:
        body.add("MPIAllgather", placed, [on(stated, d) for d in group], axis=0)


def reduce(body):
    stated, names, group = members(body, SUMMED)
    kind = body.rng.choice(["MPIReduce", "MPIAllreduce", "MPIReduceScatter"])
    if kind == "MPIReduce":
        root = body.rng.choice(group)
        body.add(kind, names, [on(stated, root)], root=root)
    elif kind == "MPIAllreduce":
        body.add(kind, names, [on(stated, d) for d in group])
    else:
        axis = body.rng.randrange(len(stated.shape))
        if stated.shape[axis] % len(names) == 0:
            shape = resized(stated.shape, axis, stated.shape[axis] // len(names))
            body.add(kind, names, [TensorType(stated.dtype, shape, d) for d in group], axis=axis)


def all_to_all(body):
    stated, names, group = members(body, MOVED)
    split, concat = body.rng.randrange(len(stated.shape)), body.rng.randrange(len(stated.shape))
    if stated.shape[split] % len(names) == 0:
        shape = list(stated.shape)
        shape[split] //= len(names)
        shape[concat] *= len(names)
        results = [TensorType(stated.dtype, tuple(shape), d) for d in group]
        body.add("MPIAlltoall", names, results, split_axis=split, concat_axis=concat)


def tuple_of(body):
    names = [n for n, _ in body.rng.sample(tensors(body), 2)]
    body.add("MakeTuple", names, [TupleType(tuple(body.types[n] for n in names))])


def nested(body):
    """A tuple in a tuple."""
    pairs = [n for n, t in body.types.items() if isinstance(t, TupleType) and t.width < 5]
    if pairs:
        args = [body.rng.choice(pairs), body.rng.choice(tensors(body))[0]]
        body.add("MakeTuple", args, [TupleType(tuple(body.types[n] for n in args))])


def tuple_sum(body):
    """A sum of tuples, whose leaves may live on different devices."""
    pairs = [(n, t) for n, t in body.types.items() if isinstance(t, TupleType)]
    if pairs:
        _, stated = body.rng.choice(pairs)
        if all(leaf.dtype.name in SUMMED for leaf in leaves(stated)):
            group = body.group()
            names = [body.of(stated, d) for d in group]
            body.add("MPIAllreduce", names, [on(stated, d) for d in group])


def compute(body):
    name, stated = body.rng.choice(tensors(body))
    if stated.dtype.name == "Bool":
        body.add("Not", [name], [stated])
    else:
        body.add(body.rng.choice(["Neg", "Abs", "Identity", "Sign"]), [name], [stated])


def transpose(body):
    name, stated = body.rng.choice(tensors(body))
    body.add("Transpose", [name], [TensorType(stated.dtype, stated.shape[::-1], stated.device)])


STEPS = (
    *(send, broadcast, scatter, gather, uneven, reduce, reduce, all_to_all, tuple_of, nested, tuple_sum, compute),
    *(transpose,),
)


def random_program(seed):
    """A module over 2 to 4 devices; each value is small. Some of its statements are a function's."""
    rng = random.Random(seed)
    devices = rng.sample([0, 1, 2, 5], rng.randint(2, 4))
    body = Body(rng, devices)
    params = []
    for device in devices:
        for _ in range(rng.randint(1, 2)):
            dtype = DTYPES[rng.choice(MOVED)]
            stated = TensorType(dtype, tuple(rng.choice([(ROWS,), (ROWS, 2), (2, ROWS), (4, 6)])), device)
            name = f"x{len(params)}"
            params.append(Param(name, stated))
            body.types[name] = stated
    body.types["s"] = TensorType(DTYPES["Float32"], (ROWS,), devices[0])
    params.append(Param("s", body.types["s"]))
    for _ in range(rng.randint(3, 10)):
        rng.choice(STEPS)(body)
        if max((leaf.elements for t in body.types.values() for leaf in leaves(t)), default=0) > 4000:
            break
    made = [n for n in body.types if n.startswith("v")] or ["s"]
    returned = tuple(rng.sample(made, min(len(made), rng.randint(1, 4))))
    if rng.random() < 0.3:
        discard_unused(body, returned)
    apart = random.Random(seed)
    body.statements = [replace(s, stream=apart.choice(["", "", "copy", "reduce"])) for s in body.statements]
    if rng.random() < 0.5:
        return Module([Function("main", tuple(params), (*body.statements, Return(returned)))])
    return with_function(rng, body, params, returned)


def discard_unused(body, returned):
    """Write `_` for results that nobody uses: they are made and sent all the same."""
    used = {*returned, *(n for s in body.statements for n in names(s.args))}
    for i, s in enumerate(body.statements):
        results = tuple(n if n in used else DISCARD for n in s.results)
        body.statements[i] = replace(s, results=results)


def with_function(rng, body, params, returned):
    """The program with its last statements in a function of their own, which is called twice."""
    cut = rng.randint(0, len(body.statements))
    first, rest = body.statements[:cut], body.statements[cut:]
    known = [p.name for p in params] + [n for s in first for n in s.results if n != DISCARD]
    inner = Function("inner", tuple(Param(n, on_none(body.types[n])) for n in known), (*rest, Return(returned)))
    again = tuple(f"w{i}" for i in range(len(returned)))
    twice = tuple(f"u{i}" for i in range(len(returned)))
    calls = (Call(again, "inner", tuple(known)), Call(twice, "inner", tuple(known)))
    main = Function("main", tuple(params), (*first, *calls, Return((*again, *twice))))
    return Module([inner, main])


def on_none(stated):
    """A type without its device: the function runs where its arguments live."""
    return on(stated, None)
