"""Random programs that check, the same programs without calls, and a small machine to run them on."""

from __future__ import annotations

import random
from dataclasses import replace

from distir.analysis import Mixed, check
from distir.analysis.reached import callee, reached
from distir.cost import parse
from distir.ir import (
    DISCARD,
    DTYPES,
    HOST,
    UNKNOWN,
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
    dims,
    names,
    operands,
    results,
    types,
)
from distir.ops import Reject, op, type_of

FLOAT32 = DTYPES["Float32"]

MACHINE = """
title = "five GPUs of two kinds"
groups = [{ kind = "fast", count = 2 }, { kind = "slow", count = 1 }, { kind = "fast", count = 2 }]

[kinds.fast]
title = "fast"
memory = "@MEMORY@"
launch = "1us"
memory_bandwidth = { peak = "3GB/s", achieved = "1GB/s" }
flops = { Float32 = { peak = "1TFLOP/s", achieved = "0.7GFLOP/s" }, other = { like = "Float32" } }

[kinds.slow]
title = "slow"
memory = "@MEMORY@"
launch = "3us"
memory_bandwidth = { peak = "1GB/s", achieved = "0.3GB/s" }
flops = { Float32 = { peak = "1GFLOP/s", achieved = "0.1GFLOP/s" }, other = { like = "Float32" } }

[levels.link]
devices = 5
send = { startup = "2us", latency = "1us", bandwidth = "0.1GB/s" }
collective = { startup = "3us", latency = "1.7us", bandwidth = "0.2GB/s" }
"""
"""Position 2 is the slow one."""


def machine(memory="1GB", more=0):
    """`more`: devices that programs of five do not use, but that theirs may represent."""
    text = MACHINE.replace("devices = 5", f"devices = {5 + more}").replace("count = 2 }]", f"count = {2 + more} }}]")
    return parse(text.replace("@MEMORY@", memory))


def scratch_op():
    """Register an op that needs temporary memory: twice its operand. Forget it with `del OPS["Scratch"]`."""

    @op(
        "Tensor[t, s, d] -> Tensor[t, s, d]",
        flops=3,
        temporary=lambda elements, t, **_: 2 * elements * t,
        leafwise=True,
    )
    def Scratch(x):
        """Sorts, say."""
        return x


def tensor(rows, device, columns=4, dtype="Float32"):
    return TensorType(DTYPES[dtype], (rows, columns), device)


# Random programs. Statements are drawn blindly and kept where the mixed domain accepts them.

UNARY = ("Relu", "Identity", "Transpose", "Scratch", "Shape", "Neg")
BINARY = ("Add", "Mul", "MatMul", "SGD", "Optimizer", "After")


def random_module(rng: random.Random, first_device: int = 1, devices: int = 5, statements: int = 12) -> Module:
    """An entry function and some that it calls, directly or not; devices from `first_device` on."""
    numbers = list(range(first_device, first_device + devices))
    done: list[Function] = []
    for i in range(rng.choice([0, 1, 2, 3])):
        args = tuple(_random_type(rng, numbers) for _ in range(rng.randint(1, 4)))
        done.append(_function(rng, f"f{i}", args, numbers, done, rng.randint(0, statements // 2), stated=False))
    args = tuple(_random_type(rng, numbers) for _ in range(rng.randint(1, 4)))
    # The entry uses the first device, so that the numbering is known.
    args = (tensor(2, first_device), *args)
    main = _function(rng, "main", args, numbers, done, statements, stated=True)
    functions = [*done, main]
    rng.shuffle(functions)
    return Module(functions)


def _random_type(rng, devices, depth=0):
    kind = rng.random()
    if kind < 0.15 and depth < 2:
        return TupleType(tuple(_random_type(rng, devices, depth + 1) for _ in range(rng.randint(1, 3))))
    if kind < 0.2:
        return TensorType(FLOAT32, (), HOST)
    columns, rows = rng.choice([(4, 4), (4, 2), (4, 8)])
    return tensor(rows, rng.choice(devices[:3]), columns)


class _Drawn:
    """A function in the making: its statements, and its values with what is known of them."""

    def __init__(self, module, params, args):
        self.domain = Mixed(module)
        self.body = []
        self.values = dict(zip(params, args, strict=True))
        self.wanted_next = None

    def add(self, statement, hints):
        """Keep the statement if it is right; gives whether."""
        vs = tuple(self.value(arg) for arg in statement.args)
        try:
            apply = self.domain.apply if isinstance(statement, Apply) else self.domain.call
            ws = apply(statement, vs)
        except Reject:
            return False
        self.body.append(statement)
        self.values.update((name, w) for name, w in zip(hints, ws, strict=True) if name != DISCARD)
        return True

    def value(self, arg):
        if isinstance(arg, Literal):
            return arg
        return tuple(map(self.value, arg)) if isinstance(arg, tuple) else self.values[arg]

    def result_count(self, function, vs):
        try:
            return len(self.domain.instance(function, vs).state.returned)
        except Reject:
            return None


def _function(rng, name, args, devices, known, statements, stated):
    params = [f"p{i}" for i in range(len(args))]
    drawn = _Drawn(Module(known), params, args)
    tries = 0
    while len(drawn.body) < statements and tries < 40 * statements:
        tries += 1
        if known and rng.random() < 0.5:
            _draw_call(rng, drawn, rng.choice(known))
        else:
            _draw_op(rng, drawn, devices)
    head = [Param(p, a if stated else _said_of(rng, a)) for p, a in zip(params, args, strict=True)]
    returned = [rng.choice(list(drawn.values)) for _ in range(rng.randint(0, 3))]
    if len(returned) > 1 and rng.random() < 0.15:
        returned = [tuple(returned), *returned[:1]]
    if rng.random() < 0.1:
        returned.append(Literal(2.0))
    return Function(name, tuple(head), (*drawn.body, Return(tuple(returned))))


def _said_of(rng, type):
    """What a function says of a parameter: mostly nothing, now and then all, or the rank, with a named dimension."""
    kind = rng.random()
    if kind < 0.8:
        return UNKNOWN
    if kind < 0.9 or not isinstance(type, TensorType) or not type.shape:
        return type
    return TensorType(type.dtype, (dims.named("B"), *type.shape[1:]))


def _names(rng, drawn, count):
    """Names for results, now and then `_`."""
    number = len(drawn.body)
    return tuple(DISCARD if rng.random() < 0.08 else f"v{number}_{i}" for i in range(count))


def _some(rng, drawn):
    """A value, the younger the likelier."""
    names = list(drawn.values)
    return names[max(rng.randrange(len(names)), rng.randrange(len(names)))]


def _operand(rng, drawn):
    """A value, or now and then a list of two."""
    return (_some(rng, drawn), _some(rng, drawn)) if rng.random() < 0.06 else _some(rng, drawn)


def _draw_call(rng, drawn, callee):
    args = tuple(Literal(3.0) if rng.random() < 0.05 else _operand(rng, drawn) for _ in callee.params)
    count = drawn.result_count(callee.name, tuple(map(drawn.value, args)))
    if count is not None:
        names = _names(rng, drawn, count)
        drawn.add(Call(names, callee.name, args), names)


def _draw_op(rng, drawn, devices):
    kind = rng.random()
    some = lambda: _operand(rng, drawn)  # noqa: E731
    attrs, count = {}, 1
    if kind < 0.2:
        name, args = rng.choice(UNARY), (some(),)
    elif kind < 0.42:
        name, args = rng.choice(BINARY), (some(), some() if rng.random() < 0.85 else Literal(2.0))
    elif kind < 0.6:
        name, args, attrs = "Send", (some(),), {"device": rng.choice(devices)}
    elif kind < 0.65:
        name, args = "MakeTuple", tuple(some() for _ in range(rng.randint(1, 3)))
    elif kind < 0.72:
        tuples = [n for n, v in drawn.values.items() if isinstance(type_of(v), TupleType)]
        if not tuples:
            return
        name, args = "UnpackTuple", (rng.choice(tuples),)
        count = len(type_of(drawn.values[args[0]]).items)
    elif kind < 0.78:
        name, args, count = "MPIAllreduce", (some(), some()), 2
    elif kind < 0.82:
        chosen = rng.sample(devices, rng.randint(1, 3))
        name, args, attrs, count = "MPIBroadcast", (some(),), {"devices": tuple(chosen)}, len(chosen)
    elif kind < 0.86:
        name, args = "MPIGather", (some(), some())
        homes = sorted({d for a in args for d in types.devices(type_of(drawn.value(a)))})
        attrs = {"root": rng.choice(homes or devices), "axis": 0}
    elif kind < 0.9:
        name, args, attrs, count = "Split", (some(),), {"axis": 0, "num_outputs": 2}, 2
    elif kind < 0.94:
        name, args, count = rng.choice([("Momentum", (some(), some(), some()), 2), ("Concat", (some(), some()), 1)])
        attrs = {"axis": 1} if name == "Concat" else {}
    elif kind < 0.97:
        name, args = "Reshape", (some(), Literal(rng.choice([(-1, 4), (-1,), (4, 2, -1)])))
    else:
        name, args, attrs = "Constant", (), {"value": rng.choice([2.0, (1, 2)])}
    names = _names(rng, drawn, count)
    drawn.add(Apply(names, name, args, Attributes(attrs)), names)


def random_rounds(rng: random.Random, first_device: int = 1) -> Module:
    """Rounds that add gradients to sums, as those of a pipeline do: each starts from what the one before it has left.

    A round calls layers, and hands some of the sums back; others it uses itself, or nobody does. In the end replicas
    may exchange sums, and weights are updated.
    """
    devices = range(first_device, first_device + rng.choice([1, 1, 2]))
    homes = {f"s{i}": rng.choice(devices) for i in range(rng.choice([1, 2, 3]))}
    carried = ["x", *homes]

    layer: list[Apply | Call] = []
    for name, home in homes.items():
        x = "x"
        if home != devices[0]:
            x = f"x_{name}"
            layer.append(Apply((x,), "Send", ("x",), Attributes({"device": home})))
        layer.append(Apply((f"g_{name}",), rng.choice(["Relu", "Neg", "Identity"]), (x,)))
        layer.append(Apply((f"next_{name}",), "Add", (name, f"g_{name}")))
    layer.insert(rng.randrange(len(layer) + 1), Apply(("next_x",), "MatMul", ("x", "x")))
    functions = [_function_of("layer", carried, layer, [f"next_{name}" for name in carried])]

    now = dict(zip(carried, carried, strict=True))
    body: list[Apply | Call] = []

    def call(callee, carries):
        arguments, results = tuple(now.values()), {name: f"{name}_{len(body)}" for name in carries}
        body.append(Call(tuple(results.values()), callee, arguments))
        now.update(results)

    for _ in range(rng.choice([1, 1, 2])):
        call("layer", carried)
    left = [name for name in carried if rng.random() < 0.5]
    body += [Apply((f"{name}_used",), "Neg", (now[name],)) for name in carried if rng.random() < 0.3]
    functions.append(_function_of("round", carried, body, [now[name] for name in left]))

    now, body = dict(zip(carried, carried, strict=True)), []
    for _ in range(rng.choice([2, 3, 4])):
        call(*rng.choice([("round", left), ("round", left), ("layer", carried)]))
        if rng.random() < 0.3:  # the next microbatch
            now["x"] = "x"
    for name in homes:
        if rng.random() < 0.6:
            body.append(Apply((f"{name}_reduced",), "Neg", (now[name],)))  # see `with_representatives`
            now[name] = f"{name}_reduced"
        body.append(Apply((f"{name}_updated",), "SGD", (name, now[name])))
    params = [Param(name, tensor(4, homes.get(name, devices[0]))) for name in carried]
    updated = tuple(f"{name}_updated" for name in homes)
    return Module([*functions, Function("main", tuple(params), (*body, Return(updated)))])


def _function_of(name, params, body, returned):
    """A function that says nothing of its parameters' types."""
    return Function(name, tuple(Param(param, UNKNOWN) for param in params), (*body, Return(tuple(returned))))


def with_kernels(module: Module) -> Module:
    """The module with every function that may be one, written out, as a kernel."""
    for function in list(module):
        written = replace(next(iter(inlined(module, function.name))), kernel=True)
        marked = Module(written if f is function else f for f in module)
        if function.name != "main" and not check(marked).errors:
            module = marked
    return module


def with_streams(rng: random.Random, module: Module, often: float = 0.5, names=("side", "third")) -> Module:
    """The module with some ops, and some calls of kernels, on streams of their own; in some functions none or all."""

    def drawn(statement, often):
        kernel = isinstance(statement, Call) and module.functions[statement.function].kernel
        if not (isinstance(statement, Apply) or kernel) or rng.random() > often:
            return statement
        return replace(statement, stream=rng.choice(names))

    def streamed(function):
        share = rng.choice([0, often, often, often, often, 1])
        return function if function.kernel else replace(function, body=tuple(drawn(s, share) for s in function.body))

    return Module(map(streamed, module))


def with_representatives(rng: random.Random, module: Module, often: float = 0.6) -> Module:
    """The module with some ops as collectives of a group that one device represents: of up to 3, up to 2 apart."""

    def drawn(statement):
        if not isinstance(statement, Apply) or statement.op not in ("Relu", "Neg") or rng.random() > often:
            return statement
        attrs = Attributes({"size": rng.choice([2, 3]), "stride": rng.choice([1, 2])})
        return replace(statement, op="GroupAllreduce", attrs=attrs)

    changed = Module(f if f.kernel else replace(f, body=tuple(map(drawn, f.body))) for f in module)
    return module if check(changed).errors else changed


def with_hosts(machine, *hosts, interference=0.0, begin=0.0):
    """The machine with these hosts, one for each of its kinds, in turn."""
    kinds = list(dict.fromkeys(kind.name for kind in machine.kinds))
    own = {name: hosts[i % len(hosts)] for i, name in enumerate(kinds)}
    kinds = machine.kinds.map(lambda kind: replace(kind, host=own[kind.name], interference=interference, begin=begin))
    return replace(machine, kinds=kinds)


def interleaved(rng: random.Random, module: Module) -> Module:
    """The module with its statements in another order, in which each device's come as before."""
    analysis = check(module)
    domain = analysis.domain
    known: dict[int, list[set]] = {}

    def devices(instance) -> list[set]:
        """By statement: the devices on which it has something to do, in calls too."""
        if id(instance) not in known:
            state, found = instance.state, []
            for statement in instance.function.body:
                vs = [*state(statement.args), *(state[n] for n in results(statement) if n != DISCARD)]
                found.append({d for v in vs if v is not None for d in types.devices(type_of(v))})
                if isinstance(statement, Call):
                    found[-1] = found[-1].union(*devices(callee(domain, instance, statement)))
                elif not isinstance(statement, Return):  # those of results that nobody uses
                    answers = domain.answer(statement, state(statement.args))
                    found[-1].update(d for answer in answers for d in types.devices(type_of(answer)))
            known[id(instance)] = found
            several.setdefault(instance.function.name, []).append(found)
        return known[id(instance)]

    several: dict[str, list[list[set]]] = {}
    for instance in reached(domain, domain.own[module.entry().name]):
        devices(instance)

    def reordered(function):
        if function.kernel or function.name not in several:
            return function
        waiting, made, body = [*enumerate(function.body)], {p.name for p in function.params}, []
        while waiting:
            free, before = [], []
            for index, statement in waiting:
                on = [found[index] for found in several[function.name]]
                apart = all(a.isdisjoint(b) for others in before for a, b in zip(on, others, strict=True))
                if apart and made.issuperset(names(operands(statement))) and not isinstance(statement, Return):
                    free.append((index, statement))
                before.append(on)
            index, statement = rng.choice(free) if free else waiting[0]
            waiting.remove((index, statement))
            made.update(results(statement))
            body.append(statement)
        return replace(function, body=tuple(body))

    return Module(map(reordered, module))


# The same without calls.


def inlined(module: Module, entry: str = "main") -> Module:
    """The entry function with every call replaced by the callee's body, its values renamed."""
    function = module.functions[entry]
    body = []
    environment = {p.name: p.name for p in function.params}
    returned = _expand(module, function, environment, "", body)
    return Module([Function(entry, function.params, (*body, Return(returned)), function.result_types)])


def _expand(module, function, environment, prefix, body):
    """Append the function's statements to `body`; gives what it returns. `environment`: what its values are."""

    def real(arg):
        if isinstance(arg, tuple):
            return tuple(map(real, arg))
        return environment[arg] if isinstance(arg, str) else arg

    for index, statement in enumerate(function.body):
        if isinstance(statement, Return):
            return tuple(map(real, statement.args))
        args = tuple(map(real, statement.args))
        if isinstance(statement, Apply):
            names = tuple(f"{prefix}{n}" if n != DISCARD else n for n in statement.results)
            body.append(replace(statement, results=names, args=args))
            environment.update((n, r) for n, r in zip(statement.results, names, strict=True) if n != DISCARD)
        else:
            callee = module.functions[statement.function]
            inner = {p.name: a for p, a in zip(callee.params, args, strict=True)}
            results = _expand(module, callee, inner, f"{prefix}{index}.", body)
            environment.update((n, r) for n, r in zip(statement.results, results, strict=True) if n != DISCARD)
    return ()
