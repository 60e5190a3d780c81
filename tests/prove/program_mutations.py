"""Wrong programs, made of right ones: one mistake each, as people and transforms make them."""

from dataclasses import replace

from distir.ir import Apply, Attributes, Call, Literal, Module, Return
from distir.ops.group import represented

COLLECTIVES = ("MPIAllreduce", "MPIAllgather", "MPIReduceScatter", "MPIAlltoall", "MPIReduce", "MPIGather", "MPIShift")
COLLECTIVES += ("GroupAllreduce", "GroupAllgather", "GroupReduceScatter", "GroupAlltoall", "GroupFirst", "GroupPart")


def mutants(module, random, count, kinds=None):
    """So many pairs of what was done, and the program with it; some of them do not check."""
    functions = [f for f in module if f.body]
    while count:
        function = random.choice(functions)
        kind = random.choice(kinds or KINDS)
        changed = kind(function, random, module)
        if changed is not None and changed != function:
            count -= 1
            yield kind.__name__, Module([changed if f is function else f for f in module])


def _with(function, index, statement):
    return replace(function, body=(*function.body[:index], statement, *function.body[index + 1 :]))


def _statements(function, kinds=(Apply, Call)):
    return [i for i, s in enumerate(function.body) if isinstance(s, kinds)]


def _pick(function, random, keep=lambda s: True, kinds=(Apply, Call)):
    found = [i for i in _statements(function, kinds) if keep(function.body[i])]
    return random.choice(found) if found else None


def _defined(function, index):
    names = [p.name for p in function.params]
    return names + [r for s in function.body[:index] for r in s.results if r]


def collective_dropped(function, random, module):
    """Each device keeps what it had."""
    index = _pick(function, random, lambda s: isinstance(s, Apply) and s.op in COLLECTIVES)
    if index is None:
        return None
    old = function.body[index]
    new = [Apply((r,), "Identity", (x,)) for r, x in zip(old.results, old.args, strict=False) if r]
    return replace(function, body=(*function.body[:index], *new, *function.body[index + 1 :]))


def collective_doubled(function, random, module):
    """What was summed is summed again."""
    index = _pick(function, random, lambda s: isinstance(s, Apply) and s.op.endswith("Allreduce"))
    if index is None:
        return None
    old = function.body[index]
    inner = tuple(f"{r}.once" for r in old.results)
    new = [replace(old, results=inner), replace(old, args=inner)]
    return replace(function, body=(*function.body[:index], *new, *function.body[index + 1 :]))


def group_of_fewer(function, random, module):
    """A collective leaves a device out."""
    index = _pick(function, random, lambda s: isinstance(s, Apply) and s.op == "MPIAllreduce" and len(s.args) > 2)
    if index is None:
        return None
    old = function.body[index]
    new = [Apply(old.results[:1], "Identity", old.args[:1]), replace(old, results=old.results[1:], args=old.args[1:])]
    return replace(function, body=(*function.body[:index], *new, *function.body[index + 1 :]))


def operands_swapped(function, random, module):
    """Two operands of a statement change places."""
    index = _pick(function, random, lambda s: len(s.args) > 1)
    if index is None:
        return None
    old = function.body[index]
    i, j = random.sample(range(len(old.args)), 2)
    args = list(old.args)
    args[i], args[j] = args[j], args[i]
    return _with(function, index, replace(old, args=tuple(args)))


def results_swapped(function, random, module):
    """Two results of a statement change places: another microbatch, or the part of another device."""
    index = _pick(function, random, lambda s: len(s.results) > 1)
    if index is None:
        return None
    old = function.body[index]
    i, j = random.sample(range(len(old.results)), 2)
    results = list(old.results)
    results[i], results[j] = results[j], results[i]
    return _with(function, index, replace(old, results=tuple(results), claims=()))


def operand_replaced(function, random, module):
    """A statement takes another value: stale weights, another layer's or another device's."""
    index = _pick(function, random, lambda s: bool(s.args))
    if index is None:
        return None
    old = function.body[index]
    i = random.randrange(len(old.args))
    if not isinstance(old.args[i], str):
        return None
    stem = old.args[i].split("_")[0].split(".")[0]
    names = _defined(function, index)
    near = [n for n in names if n.split("_")[0].split(".")[0] == stem and n != old.args[i]] or names
    args = (*old.args[:i], random.choice(near if random.random() < 0.7 else names), *old.args[i + 1 :])
    return _with(function, index, replace(old, args=args))


def returned_replaced(function, random, module):
    """The function returns another value: weights as they were before the step."""
    last = function.body[-1]
    if not isinstance(last, Return) or not last.args:
        return None
    names = _defined(function, len(function.body) - 1)
    i = random.randrange(len(last.args))
    stem = str(last.args[i]).removesuffix("_new").split("_new")[0]
    near = [n for n in names if n.startswith(stem)] or names
    choice = random.choice(near if random.random() < 0.6 else names)
    return _with(function, len(function.body) - 1, Return((*last.args[:i], choice, *last.args[i + 1 :])))


def returned_swapped(function, random, module):
    """The function returns two values in each other's place."""
    last = function.body[-1]
    if not isinstance(last, Return) or len(last.args) < 2:
        return None
    i, j = random.sample(range(len(last.args)), 2)
    args = list(last.args)
    args[i], args[j] = args[j], args[i]
    return _with(function, len(function.body) - 1, Return(tuple(args)))


def number_changed(function, random, module):
    """A factor or a size is another one."""
    index = _pick(function, random, lambda s: any(isinstance(a, Literal) for a in s.args))
    if index is None:
        return None
    old = function.body[index]
    i = random.choice([i for i, a in enumerate(old.args) if isinstance(a, Literal)])
    value = old.args[i].value
    if isinstance(value, float):
        value = value * random.choice((0.5, 2.0, -1.0))
    elif isinstance(value, int) and not isinstance(value, bool):
        value += random.choice((-1, 1))
    elif isinstance(value, tuple) and value and all(isinstance(n, int) for n in value):
        k = random.randrange(len(value))
        value = tuple(n + random.choice((-1, 1)) if j == k else n for j, n in enumerate(value))
    else:
        return None
    return _with(function, index, replace(old, args=(*old.args[:i], Literal(value), *old.args[i + 1 :])))


def attribute_changed(function, random, module):
    """An axis, a factor, a flag or a device is another one."""
    index = _pick(function, random, lambda s: bool(s.attrs), (Apply,))
    if index is None:
        return None
    old = function.body[index]
    name = random.choice(list(old.attrs))
    value = old.attrs[name]
    if isinstance(value, bool):
        value = not value
    elif isinstance(value, int):
        value += random.choice((-1, 1))
    elif isinstance(value, float):
        value *= random.choice((0.5, 2.0))
    elif isinstance(value, tuple) and len(value) > 1:
        value = (value[1], value[0], *value[2:])
    else:
        return None
    return _with(function, index, replace(old, attrs=Attributes({**old.attrs, name: value})))


def functions_swapped(function, random, module):
    """A call is of another function, as another stage's."""
    index = _pick(function, random, kinds=(Call,))
    if index is None:
        return None
    old = function.body[index]
    others = [f.name for f in module if f.name != old.function and len(f.params) == len(old.args)]
    return _with(function, index, replace(old, function=random.choice(others))) if others else None


def calls_swapped(function, random, module):
    """Two calls of a function are given each other's operands: another microbatch, or another layer's weights."""
    first = _pick(function, random, kinds=(Call,))
    if first is None:
        return None
    name = function.body[first].function
    same = [i for i in _statements(function, (Call,)) if function.body[i].function == name and i != first]
    if not same:
        return None
    low, high = sorted((first, random.choice(same)))
    a, b = function.body[low], function.body[high]
    names = set(_defined(function, low))
    i = random.randrange(len(a.args))
    if b.args[i] not in names:
        return None
    swapped = _with(function, low, replace(a, args=(*a.args[:i], b.args[i], *a.args[i + 1 :])))
    return _with(swapped, high, replace(b, args=(*b.args[:i], a.args[i], *b.args[i + 1 :])))


def op_dropped(function, random, module):
    """The result of an op is one of its operands."""
    index = _pick(function, random, lambda s: len(s.results) == 1 and any(isinstance(a, str) for a in s.args), (Apply,))
    if index is None:
        return None
    old = function.body[index]
    x = random.choice([a for a in old.args if isinstance(a, str) and a])
    return _with(function, index, Apply(old.results, "Identity", (x,)))


KINDS = (
    collective_dropped,
    collective_doubled,
    group_of_fewer,
    operands_swapped,
    results_swapped,
    operand_replaced,
    operand_replaced,
    returned_replaced,
    returned_swapped,
    number_changed,
    attribute_changed,
    functions_swapped,
    calls_swapped,
    op_dropped,
)


def _collective(function, random, keep=lambda s: True):
    """A collective of several devices, and the number of one of its operands."""
    index = _pick(function, random, lambda s: _is_of_several(s) and keep(s))
    return None if index is None else (index, random.randrange(len(function.body[index].args)))


def _is_of_several(s):
    return isinstance(s, Apply) and s.op in COLLECTIVES and len(s.args) > 1 and len(s.args) == len(s.results)


def _own(old, k, own, new):
    """A collective of which the device `k` does not take the result, but what other statements give."""
    results = (*old.results[:k], f"{old.results[k]}.unused", *old.results[k + 1 :])
    return [replace(old, results=results, claims=()), *own, Apply((old.results[k],), *new)]


def _spliced(function, index, statements):
    return replace(function, body=(*function.body[:index], *statements, *function.body[index + 1 :]))


def bypassed_by_one(function, random, module):
    """One device goes on with what it had, as large as what the collective would have given."""
    found = _collective(function, random)
    if found is None:
        return None
    index, k = found
    old = function.body[index]
    if old.results[k] in ("", "_") or not isinstance(old.args[k], str):
        return None
    axis, count = Attributes({"axis": old.attrs.get("axis", 0)}), len(old.args)
    if old.op == "MPIAllgather":
        new = "Concat", (old.args[k],) * count, axis
    elif old.op == "MPIReduceScatter":
        parts = tuple(f"{old.results[k]}.{j}" for j in range(count))
        cut = Apply(parts, "Split", (old.args[k],), Attributes({**axis, "num_outputs": count}))
        return _spliced(function, index, _own(old, k, [cut], ("Identity", (parts[k],))))
    else:
        new = "Identity", (old.args[k],)
    return _spliced(function, index, _own(old, k, [], new))


def doubled_by_one(function, random, module):
    """One device counts its own addend twice."""
    found = _collective(function, random, lambda s: s.op == "MPIAllreduce")
    if found is None:
        return None
    index, k = found
    old = function.body[index]
    if old.results[k] in ("", "_"):
        return None
    return _spliced(function, index, _own(old, k, [], ("Add", (f"{old.results[k]}.unused", old.args[k]))))


def another_group(function, random, module):
    """Two collectives exchange what one device gives to each: it takes part in another sum, or another axis."""
    first = _collective(function, random)
    second = first and _collective(function, random, lambda s: s.op == function.body[first[0]].op)
    if not second or first[0] == second[0]:
        return None
    (low, k), (high, _) = sorted((first, second))
    a, b = function.body[low], function.body[high]
    if k >= len(b.args):
        return None
    known = _defined(function, low)
    if b.args[k] not in known:
        return None
    return _with(function, low, replace(a, args=(*a.args[:k], b.args[k], *a.args[k + 1 :])))


def own_gradient(function, random, module):
    """One device's update takes what it computed itself, not what all computed together."""
    reduced = [s for s in function.body if isinstance(s, Apply) and s.op.endswith("Allreduce")]
    sums = {r: a for s in reduced for r, a in zip(s.results, s.args, strict=True)}
    index = _pick(function, random, lambda s: any(a in sums for a in s.args if isinstance(a, str)), (Apply,))
    if index is None:
        return None
    old = function.body[index]
    i = random.choice([i for i, a in enumerate(old.args) if isinstance(a, str) and a in sums])
    return _with(function, index, replace(old, args=(*old.args[:i], sums[old.args[i]], *old.args[i + 1 :])))


def stale_state(function, random, module):
    """The entry function returns what one of its parameters was."""
    last = function.body[-1]
    if function != module.entry() or not isinstance(last, Return) or not last.args:
        return None
    i = random.randrange(len(last.args))
    stem = str(last.args[i]).split("_new")[0]
    near = [p.name for p in function.params if p.name.startswith(stem)]
    if not near:
        return None
    return _with(function, len(function.body) - 1, Return((*last.args[:i], random.choice(near), *last.args[i + 1 :])))


OF_ONE_DEVICE = (
    bypassed_by_one,
    bypassed_by_one,
    doubled_by_one,
    another_group,
    own_gradient,
    own_gradient,
    stale_state,
    operand_replaced,
    returned_replaced,
    returned_swapped,
    number_changed,
    attribute_changed,
    op_dropped,
)
"""Mistakes of one device: the others compute what they should, and what gather takes is often theirs."""


def _represents(statement):
    return isinstance(statement, Apply) and represented(statement.op, statement.attrs) is not None


def group_replaced(function, random, module):
    """A collective of a representative is over another group of devices."""
    index = _pick(function, random, _represents)
    if index is None:
        return None
    old = function.body[index]
    stated = {represented(s.op, s.attrs) for f in module for s in f.body if _represents(s)}
    size, stride = random.choice(sorted(stated))
    new = {**old.attrs, "stride": stride, **({"size": size} if "size" in old.attrs else {})}
    return _with(function, index, replace(old, attrs=Attributes(new)))


def rank_forgotten(function, random, module):
    """All devices of a group take the part, or the constant, of the first."""
    index = _pick(function, random, lambda s: isinstance(s, Apply) and s.op in ("Split", "GroupPart", "GroupConstant"))
    if index is None:
        return None
    old = function.body[index]
    attrs = {name: value for name, value in old.attrs.items() if name not in ("stride", "size")}
    if old.op == "GroupPart":
        size = old.attrs["size"]
        results = (*old.results, *("_",) * (size - 1))
        return _with(function, index, Apply(results, "Split", old.args, Attributes({**attrs, "num_outputs": size})))
    if old.op == "GroupConstant":
        value = Attributes({"value": old.attrs["values"][0]})
        return _with(function, index, Apply(old.results, "Constant", (), value))
    return _with(function, index, replace(old, attrs=Attributes(attrs)))


OF_REPRESENTATIVES = (*KINDS, group_replaced, group_replaced, rank_forgotten)
"""With mistakes in what only the programs of representatives say."""
