"""A law over all ops: split along any letter of its layout, an op gives what it gives of whole operands."""

import itertools

import pytest
from sharding_samples import assert_same

from distir.analysis import check
from distir.ir import DISCARD, Apply, Dense, Function, Literal, Module, Return, TensorType, types
from distir.ops import FAMILIES, OPS, canonical
from distir.ops.splitting import layout
from distir.placement.along import WHOLE, Split, whole_like
from distir.syntax import parse_example
from distir.transform.sharding import split

OURS = [name for name in OPS if OPS[name].family in {family.__name__.rpartition(".")[2] for family in FAMILIES}]


def module_of(text):
    """An example of an op as a program in Float64 on device 1, with every result returned, and its statement."""
    params, statement = parse_example(text.replace("Float32", "Float64"), canonical)
    names = tuple(name if name != DISCARD else f"unnamed_{i}" for i, name in enumerate(statement.results))
    statement = Apply(names, statement.op, statement.args, statement.attrs)
    return Module([Function("main", params, (statement, Return(names)))]), statement


def on_one_device(text):
    """Whether the example has operands, all of them on device 1."""
    params = module_of(text)[0].functions["main"].params
    return bool(params) and all(types.devices(p.type) == {1} for p in params)


SPLIT = [OPS[name] for name in OURS if OPS[name].family != "mesh"]
EXAMPLES = [text for op in SPLIT for text in op.examples if on_one_device(text)]
all_examples = pytest.mark.parametrize("text", EXAMPLES, ids=[text.split(" = ", 1)[-1][:70] for text in EXAMPLES])


def letters_of(module, statement):
    """The letters of the op that its operands have, with the number of devices they divide by, and their places."""
    state = check(module).states["main"]
    vs = state(statement.args)
    ws = [types_of(w) for w in state(statement.results)]
    if any(not isinstance(v, (TensorType, Dense, Literal)) for v in vs):
        return {}
    found = layout(OPS[statement.op], vs, ws, statement.attrs)
    if found is None:
        return {}
    places = {}
    for i, (letters, v) in enumerate(zip(found.operands, vs, strict=True)):
        for axis, letter in enumerate(letters):
            if letter is not None and isinstance(v, TensorType) and isinstance(statement.args[i], str):
                places.setdefault(letter, []).append((statement.args[i], axis, v.shape[axis]))
    return places


def types_of(value):
    return value.type if isinstance(value, (Dense, Literal)) else value


@all_examples
def test_an_op_split_along_a_letter_gives_the_same(text):
    module, statement = module_of(text)
    params = module.functions["main"].params
    for letter, places in letters_of(module, statement).items():
        sizes = {size for _, _, size in places}
        for size in {n for n in (2, 3, 5) if all(isinstance(s, int) and s % n == 0 for s in sizes)}:
            states = {name: Split(axis) for name, axis, _ in places}
            plan = [states.get(p.name, WHOLE) for p in params]
            assert_same(module, split(module, size, "innermost", lambda *_, plan=plan: plan)), letter


@all_examples
def test_an_op_gives_the_same_whatever_operands_are_split(text):
    """Also where operands must be brought together first, or the op cannot be split at all."""
    module, _ = module_of(text)
    params = module.functions["main"].params
    options = [states_of(p.type) for p in params]
    for plan in itertools.islice(itertools.product(*options), 1, 30):
        assert_same(module, split(module, 2, "innermost", lambda *_, plan=plan: plan))


def states_of(type):
    """Every state in which an operand may lie, but partial sums."""
    axes = range(len(type.shape)) if isinstance(type, TensorType) else ()
    return [whole_like(type), *(Split(axis) for axis in axes if type.shape[axis] % 2 == 0)]
