"""Random programs that are right: every op is given what its law asks for, over several devices.

Beside each program stands what a person would say of its values' types, found without the checker. The programs hold
calls of device-polymorphic functions, tuples, host values, collectives, discarded results, and unused arguments.
"""

from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from distir.ir import (
    DISCARD,
    DTYPES,
    HOST,
    NO_ATTRIBUTES,
    UNKNOWN,
    Apply,
    Attributes,
    Call,
    Dense,
    Facts,
    Function,
    Literal,
    Module,
    Param,
    Return,
    TensorType,
    TupleType,
    types,
)
from distir.syntax import print_module

INT64, FLOAT64 = DTYPES["Int64"], DTYPES["Float64"]
DEVICES = (1, 2, 3)
SIZES = (1, 2, 4)
FACTS = st.sampled_from(
    [*[Facts()] * 6, Facts("forward"), Facts("backward", layer=2), Facts("weight", 3, 2), Facts(of="x"), Facts(stage=1)]
)
STREAMS = st.sampled_from(["", "", "", "copy", "reduce"])


@dataclass
class Body:
    """A body as it grows, and what is known of its values."""

    env: dict = field(default_factory=dict)
    """Types by name; of host values the type alone."""
    known: dict = field(default_factory=dict)
    """The values of host values by name."""
    statements: list = field(default_factory=list)
    functions: dict = field(default_factory=dict)
    """Callable functions: the types of parameters on one device, and how to tell the results' types."""

    has_literals: bool = False
    """Whether literals may be operands of arithmetic. (One beside an untyped operand is a test of its own.)"""

    def fresh(self):
        return f"v{len(self.env)}"

    def add(self, types_, make):
        """A statement with results of these types."""
        names = []
        for found in types_:
            names.append(self.fresh())
            self.env[names[-1]] = found
        self.statements.append(make(tuple(names)))
        return names

    def apply(self, types_, op, *args, **attrs):
        attributes = Attributes(attrs) if attrs else NO_ATTRIBUTES
        return self.add(types_, lambda names: Apply(names, op, args, attributes))

    def tensors(self, where=lambda t: True):
        return [n for n, t in self.env.items() if isinstance(t, TensorType) and t.device != HOST and where(t)]

    def like(self, type):
        """Tensors of exactly this type."""
        return self.tensors(lambda t: t == type)


def tensor(shape, device):
    return TensorType(FLOAT64, tuple(shape), device)


@st.composite
def shapes(draw):
    return tuple(draw(st.lists(st.sampled_from(SIZES), min_size=1, max_size=2)))


def _unary(draw, body, x):
    body.apply([body.env[x]], draw(st.sampled_from(["Relu", "Tanh", "Neg", "Abs", "Identity"])), x)


def _binary(draw, body, x):
    literals = [Literal(2.0), Literal(-1)] if body.has_literals else []
    other = draw(st.sampled_from([*body.like(body.env[x]), *literals]))
    body.apply([body.env[x]], draw(st.sampled_from(["Add", "Sub", "Mul"])), x, other)


def _outer(draw, body, x):
    t = body.env[x]
    if len(t.shape) == 2:
        others = body.tensors(lambda u: u.device == t.device and len(u.shape) == 2 and u.shape[1] == t.shape[1])
        y = draw(st.sampled_from(others))
        body.apply([tensor((t.shape[0], body.env[y].shape[0]), t.device)], "Gemm", x, y, transB=True)


def _transpose(draw, body, x):
    t = body.env[x]
    body.apply([tensor(t.shape[::-1], t.device)], "Transpose", x)


def _flatten(draw, body, x):
    t = body.env[x]
    body.apply([tensor((t.elements,), t.device)], "Reshape", x, Literal((-1,)))


def _total(draw, body, x):
    t = body.env[x]
    keep = draw(st.booleans())
    if not t.shape:
        return
    shape = (1, *t.shape[1:]) if keep else t.shape[1:]
    body.apply([tensor(shape, t.device)], "ReduceSum", x, Literal((0,)), keepdims=keep)


def _split(draw, body, x):
    t = body.env[x]
    if t.shape and t.shape[0] % 2 == 0:
        half = tensor((t.shape[0] // 2, *t.shape[1:]), t.device)
        names = body.apply([half, half], "Split", x, axis=0, num_outputs=2)
        if draw(st.booleans()):
            _discard(body, names[0])


def _discard(body, name):
    """Write `_` for a result of the last statement."""
    last = body.statements[-1]
    results = tuple(DISCARD if n == name else n for n in last.results)
    body.statements[-1] = Apply(results, last.op, last.args, last.attrs)
    del body.env[name]
    body.env[f"{name}_gone"] = UNKNOWN  # keeps names fresh


def _concat(draw, body, x):
    t = body.env[x]
    if t.shape:
        others = body.tensors(lambda u: u.device == t.device and u.shape[1:] == t.shape[1:] and u.shape)
        ys = draw(st.lists(st.sampled_from(others), min_size=1, max_size=2))
        rows = t.shape[0] + sum(body.env[y].shape[0] for y in ys)
        if rows <= 16:
            body.apply([tensor((rows, *t.shape[1:]), t.device)], "Concat", x, *ys, axis=0)


def _send(draw, body, x):
    t = body.env[x]
    device = draw(st.sampled_from([d for d in DEVICES if d != t.device]))
    body.apply([tensor(t.shape, device)], "Send", x, device=device)


def _collective(draw, body, x):
    t = body.env[x]
    group = [x]
    for device in DEVICES:
        if device != t.device and (others := body.like(tensor(t.shape, device))):
            group.append(draw(st.sampled_from(others)))
    devices = [body.env[y].device for y in group]
    if draw(st.booleans()):
        body.apply([tensor(t.shape, d) for d in devices], "MPIAllreduce", *group)
    elif t.shape and t.shape[0] * len(group) <= 16:
        whole = (t.shape[0] * len(group), *t.shape[1:])
        body.apply([tensor(whole, devices[-1])], "MPIGather", *group, root=devices[-1], axis=0)


def _broadcast(draw, body, x):
    t = body.env[x]
    devices = (t.device, *(d for d in DEVICES if d != t.device))
    body.apply([tensor(t.shape, d) for d in devices], "MPIBroadcast", x, devices=devices)


def _tuple(draw, body, x):
    items = [x, draw(st.sampled_from(body.tensors()))]
    (pair,) = body.apply([TupleType(tuple(body.env[i] for i in items))], "MakeTuple", *items)
    if draw(st.booleans()):
        body.apply([body.env[i] for i in items], "UnpackTuple", pair)


def _host(draw, body, x):
    """Shapes as values: what the tensor has, rearranged, and the tensor brought to it."""
    t = body.env[x]
    if t.shape:
        (shape,) = body.apply([TensorType(INT64, (len(t.shape),), HOST)], "Shape", x)
        (last,) = body.apply([TensorType(INT64, (1,), HOST)], "Gather", shape, Literal((-1,)), axis=0)
        (wanted,) = body.apply([TensorType(INT64, (2,), HOST)], "Concat", Literal((-1,)), last, axis=0)
        body.known |= {shape: t.shape, last: t.shape[-1:], wanted: (-1, t.shape[-1])}
        body.apply([tensor((t.elements // t.shape[-1], t.shape[-1]), t.device)], "Reshape", x, wanted)


def _call(draw, body, x):
    if body.functions:
        name = draw(st.sampled_from(sorted(body.functions)))
        params, results = body.functions[name]
        here = [on(p, body.env[x].device) for p in params]
        choices = [[n for n, t in body.env.items() if t == p] for p in here]
        if all(choices):
            args = tuple(draw(st.sampled_from(names)) for names in choices)
            body.add([on(r, body.env[x].device) for r in results], lambda names: Call(names, name, args))


def on(type, device):
    """The type on another device."""
    if isinstance(type, TupleType):
        return TupleType(tuple(on(item, device) for item in type.items))
    return TensorType(type.dtype, type.shape, device)


LOCAL = (_unary, _binary, _outer, _transpose, _flatten, _total, _split, _concat, _tuple, _host, _call)
"""Steps that stay on the device of their operand."""
ANYWHERE = (*LOCAL, _call, _send, _collective, _broadcast)


def _grow(draw, body, steps, least, most):
    for _ in range(draw(st.integers(least, most))):
        draw(st.sampled_from(steps))(draw, body, draw(st.sampled_from(body.tensors())))


def _finish(draw, name, params, body):
    """The function, with the types of its results."""
    values = [n for n, t in body.env.items() if t != UNKNOWN and types.device_of(t) != HOST]
    returned = tuple(draw(st.lists(st.sampled_from(values), min_size=1, max_size=3)))
    statements = [replace(s, stream=draw(STREAMS)) if isinstance(s, Apply) else s for s in body.statements]
    statements = [replace(s, facts=draw(FACTS)) for s in statements]
    function = Function(name, tuple(params), (*statements, Return(returned)), facts=draw(FACTS))
    return function, tuple(body.env[n] for n in returned)


@dataclass(frozen=True, repr=False)
class Program:
    module: Module
    env: dict
    """The types of the values of `@main`, as the generator sees them."""
    known: dict
    """Its host values."""

    def _repr_pretty_(self, printer, _cycle):
        printer.text(print_module(self.module))

    @property
    def main(self):
        return self.module.functions["main"]


@st.composite
def programs(draw, most=12, literals=True):
    """Modules whose entry `@main` is typed and whose other functions are device-polymorphic.

    `literals`: whether literals may be operands of arithmetic in `@main`.
    """
    shape = draw(shapes())
    functions, callable_ = [], {}
    for index in range(draw(st.integers(0, 3))):
        body = Body(functions=dict(callable_))
        inputs = [tensor(shape, 1) for _ in range(draw(st.integers(1, 2)))]
        params = []
        for number, found in enumerate(inputs):
            stated = draw(st.sampled_from([UNKNOWN, TensorType(None, None, None), on(found, None)]))
            params.append(Param(f"p{number}", stated))
            body.env[f"p{number}"] = found
        _grow(draw, body, LOCAL, 1, 4)
        function, results = _finish(draw, f"f{index}", params, body)
        functions.append(function)
        callable_[function.name] = (inputs, results)
    body, params = Body(functions=callable_, has_literals=literals), []
    for device in DEVICES[: draw(st.integers(1, 3))]:
        for number in range(draw(st.integers(1, 2))):
            name = f"x{device}{number}"
            body.env[name] = tensor(shape, device)
            params.append(Param(name, tensor(shape, device)))
    _unary(draw, body, draw(st.sampled_from(body.tensors())))  # so that there is always a statement
    _grow(draw, body, ANYWHERE, 0, most)
    main, _ = _finish(draw, "main", params, body)
    return Program(Module([*functions, main]), {n: t for n, t in body.env.items() if t != UNKNOWN}, body.known)


def host_value(value):
    """What the mixed domain holds for a host value that the generator knows."""
    return Dense(INT64, (len(value),), tuple(value))


def inlined(module, name="main"):
    """The function without calls: every callee's body in the place of the call, with names of its own."""
    count = 0

    def body(function, rename, prefix):
        nonlocal count
        for statement in function.body:
            args = tuple(substituted(arg, rename) for arg in statement.args)
            if isinstance(statement, Return):
                yield args
                continue
            if isinstance(statement, Call):
                count += 1
                callee = module.functions[statement.function]
                inner = {p.name: arg for p, arg in zip(callee.params, args, strict=True)}
                *statements, returned = body(callee, inner, f"{prefix}i{count}.")
                yield from statements
                rename.update(zip(statement.results, returned, strict=True))
                continue
            names = tuple(n if n == DISCARD else prefix + n for n in statement.results)
            rename.update(zip(statement.results, names, strict=True))
            yield replace(statement, results=names, args=args)

    function = module.functions[name]
    rename = {p.name: p.name for p in function.params}
    *statements, returned = body(function, rename, "")
    return Function(name, function.params, (*statements, Return(returned))), rename


def substituted(arg, rename):
    if isinstance(arg, str):
        return rename[arg] if arg != DISCARD else arg
    return tuple(substituted(a, rename) for a in arg) if isinstance(arg, tuple) else arg
