"""Programs on a mesh with one change, as people and tools make mistakes."""

from dataclasses import replace

from distir.ir import Apply, Attributes, Call, Function, Literal, Module, Return, TensorType
from distir.ir.places import OwnedAlong, PendingAlong, SplitAlong, places
from distir.ir.rewrite import with_operands
from distir.ops.mesh import COLLECTIVES


def mutants(module, draw, count):
    """So many pairs of what was done, and the program with it; most do not check."""
    functions = [function for function in module if function.body]
    while count:
        function, kind = draw.choice(functions), draw.choice(KINDS)
        changed = kind(function, draw, module.mesh)
        if changed is not None and changed != function:
            count -= 1
            yield kind.__name__, Module(changed if own is function else own for own in module)


def _pick(function, draw, keep):
    found = [k for k, s in enumerate(function.body) if isinstance(s, (Apply, Call)) and keep(s)]
    return draw.choice(found) if found else None


def _is_collective(statement):
    return isinstance(statement, Apply) and statement.op in COLLECTIVES


def _with(function: Function, index, *statements):
    return replace(function, body=(*function.body[:index], *statements, *function.body[index + 1 :]))


def _defined(function, index):
    made = (r for s in function.body[:index] for r in s.results if r)
    return [*(param.name for param in function.params), *made]


def _axis(draw, mesh):
    return draw.choice([axis for axis, _ in mesh])


def collective_dropped(function, draw, mesh):
    """What it was given is used instead."""
    index = _pick(function, draw, _is_collective)
    if index is None:
        return None
    old = function.body[index]
    names = {old.results[0]: old.args[0]}
    return replace(
        function,
        body=(*function.body[:index], *(with_operands(s, names) for s in function.body[index + 1 :])),
    )


def collective_doubled(function, draw, mesh):
    """It is done once more with its result."""
    index = _pick(function, draw, _is_collective)
    if index is None:
        return None
    old = function.body[index]
    once = f"{old.results[0]}_once"
    return _with(function, index, replace(old, results=(once,)), replace(old, args=(once,)))


def collective_changed(function, draw, mesh):
    """It is along another axis, of another dimension, or another one."""
    index = _pick(function, draw, _is_collective)
    if index is None:
        return None
    old = function.body[index]
    attrs = dict(old.attrs)
    match draw.randrange(3):
        case 0:
            attrs["axis"] = _axis(draw, mesh)
        case 1:
            for name in ("dim", "split", "join", "to"):
                if name in attrs:
                    attrs[name] = draw.randrange(3)
        case _:
            return _with(function, index, _collective(old.results[0], old.args[0], draw, mesh))
    return _with(function, index, replace(old, attrs=Attributes(attrs)))


def order_changed(function, draw, mesh):
    """Parts are in zig-zag, or no more."""
    index = _pick(function, draw, lambda s: isinstance(s, Apply) and s.op in ("Shard", "ReduceScatter"))
    if index is None:
        return None
    old = function.body[index]
    attrs = Attributes({**old.attrs, "zigzag": not old.attrs.get("zigzag", False)})
    return _with(function, index, replace(old, attrs=attrs))


def _collective(result, arg, draw, mesh):
    op, attrs = draw.choice(sorted(COLLECTIVES)), {"axis": _axis(draw, mesh)}
    rule = COLLECTIVES[op]
    attrs |= {name: draw.randrange(3) for name in (rule.taken, rule.given) if name}
    if op == "Reduce":
        attrs["to"] = draw.randint(1, 2)
    if op == "AllReduce" and draw.random() < 0.3:
        attrs["op"] = "max"
    return Apply((result,), op, (arg,), Attributes(attrs))


def collective_added(function, draw, mesh):
    """A value is moved before a statement uses it."""
    index = _pick(function, draw, lambda s: any(isinstance(arg, str) and arg for arg in s.args))
    if index is None:
        return None
    old = function.body[index]
    arg = draw.choice([arg for arg in old.args if isinstance(arg, str) and arg])
    made = _collective(f"{arg}_moved", arg, draw, mesh)
    return _with(function, index, made, with_operands(old, {arg: made.results[0]}))


def operand_replaced(function, draw, mesh):
    """A statement is given another value: a stale one, another layer's, one that is not summed."""
    index = _pick(function, draw, lambda s: any(isinstance(arg, str) and arg for arg in s.args))
    if index is None:
        return None
    old = function.body[index]
    arg = draw.choice([arg for arg in old.args if isinstance(arg, str) and arg])
    return _with(function, index, with_operands(old, {arg: _near(arg, _defined(function, index), draw)}))


def _near(name, names, draw):
    """Another value, as often as not one whose name begins alike."""
    near = [n for n in names if n.split("_")[0] == name.split("_")[0] and n != name]
    return draw.choice(near if near and draw.random() < 0.6 else names)


def operands_swapped(function, draw, mesh):
    """Two operands change places."""
    index = _pick(function, draw, lambda s: len(s.args) > 1)
    if index is None:
        return None
    args = [*function.body[index].args]
    i, j = draw.sample(range(len(args)), 2)
    args[i], args[j] = args[j], args[i]
    return _with(function, index, replace(function.body[index], args=tuple(args)))


def returned_replaced(function, draw, mesh):
    """The function returns another value: a weight as it was, the loss of one replica."""
    last = function.body[-1]
    if not isinstance(last, Return) or not last.args:
        return None
    args, i = [*last.args], draw.randrange(len(last.args))
    args[i] = _near(str(args[i]), _defined(function, len(function.body) - 1), draw)
    return replace(function, body=(*function.body[:-1], Return(tuple(args))))


def statement_dropped(function, draw, mesh):
    """A statement's operand is used instead of its result."""
    index = _pick(function, draw, lambda s: len(s.results) == 1 and isinstance(s.args[0] if s.args else None, str))
    if index is None:
        return None
    old = function.body[index]
    names = {old.results[0]: old.args[0]}
    return replace(
        function,
        body=(*function.body[:index], *(with_operands(s, names) for s in function.body[index + 1 :])),
    )


def number_changed(function, draw, mesh):
    """A constant is another: a mean over the examples of one replica."""
    index = _pick(function, draw, lambda s: any(isinstance(arg, Literal) for arg in s.args))
    if index is None:
        return None
    old = function.body[index]
    size = draw.choice([2, 0.5])
    args = tuple(
        Literal(type(arg.value)(arg.value * size))
        if isinstance(arg, Literal) and isinstance(arg.value, (int, float))
        else arg
        for arg in old.args
    )
    return _with(function, index, replace(old, args=args))


def parameter_moved(function, draw, mesh):
    """A parameter is split otherwise, or no more, or another device has it."""
    numbers = [k for k, p in enumerate(function.params) if isinstance(p.type, TensorType) and p.type.shape]
    if not numbers:
        return None
    number = draw.choice(numbers)
    param = function.params[number]
    axis = _axis(draw, mesh)
    kept = [place for place in param.type.places if place.axis != axis and not isinstance(place, PendingAlong)]
    if draw.random() < 0.2:
        kept.append(OwnedAlong(axis, draw.randint(1, 2)))
    elif draw.random() < 0.7:
        zigzag = draw.random() < 0.3
        cut = SplitAlong(draw.randrange(len(param.type.shape)), axis, zigzag=zigzag)
        kept.insert(draw.randrange(len(kept) + 1), cut)
    moved = replace(param, type=replace(param.type, places=places(kept)))
    return replace(function, params=(*function.params[:number], moved, *function.params[number + 1 :]))


KINDS = (
    collective_dropped,
    collective_doubled,
    collective_changed,
    collective_added,
    order_changed,
    operand_replaced,
    operands_swapped,
    returned_replaced,
    statement_dropped,
    number_changed,
    parameter_moved,
)
