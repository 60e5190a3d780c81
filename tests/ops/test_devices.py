"""What ops' rules say is found once for all devices: it is what they say on each of them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distir.ir import DTYPES, HOST, AnyType, Apply, Attributes, Dense, Literal, TensorType, TupleType
from distir.ops import OPS, Reject, canonical, infer_partial, infer_types, infer_values, work
from distir.ops.devices import answer, canonical_devices, devices_of, known_work, renaming
from distir.syntax import parse_example

RULES = (infer_values, infer_partial, infer_types)
EXAMPLES = [(op, text) for op in OPS.values() for text in op.examples if op.body.__module__.startswith("distir.")]


def on(type, device):
    """The type on a device, as the test understands that."""
    match type:
        case TupleType(items):
            return TupleType(tuple(on(item, device) for item in items))
        case TensorType(device=int(there)) if there != HOST:
            return replace(type, device=device)
        case _:
            return type


def asked(text):
    params, apply = parse_example(text, canonical)
    assert isinstance(apply, Apply)
    known = {param.name: param.type for param in params}
    return tuple(known[arg] if isinstance(arg, str) and arg else arg or None for arg in apply.args), apply


def by_the_rules(op, vs, attrs, count):
    return next(tuple(ws) for rule in RULES if (ws := rule(op, vs, attrs, count)) is not None)


@pytest.mark.parametrize("device", [0, 1, 6])
def test_every_op_says_the_same_as_its_rules_on_every_device(device):
    alone = 0
    for op, text in EXAMPLES:
        vs, apply = asked(text)
        if op.communication is None:
            vs = tuple(on(v, device) if isinstance(v, (TensorType, TupleType)) else v for v in vs)
        expected = by_the_rules(op, vs, apply.attrs, len(apply.results))
        assert answer(RULES, op, vs, apply.attrs, len(apply.results)) == expected, text
        alone += devices_of(vs) == (device,)
        try:
            costs = work(op, vs, expected, apply.attrs)
        except Reject:
            with pytest.raises(Reject):
                known_work(op, vs, expected, apply.attrs)
        else:
            assert known_work(op, vs, expected, apply.attrs) == costs, text
    assert alone > len(EXAMPLES) // 2


def test_what_is_wrong_is_said_of_the_device_where_it_is():
    a, b = (TensorType(DTYPES["Float32"], (2, n), 7) for n in (3, 5))
    with pytest.raises(Reject) as expected:
        infer_types(OPS["MatMul"], (a, b), Attributes(), 1)
    with pytest.raises(Reject) as found:
        answer((infer_types,), OPS["MatMul"], (a, b), Attributes(), 1)
    assert found.value.message == expected.value.message
    assert str(found.value.notes) == str(expected.value.notes)


def test_a_device_that_an_attribute_names_is_kept():
    x = TensorType(DTYPES["Float32"], (2, 3), 1)
    for device in (2, 9):
        (sent,) = answer((infer_types,), OPS["Send"], (x,), Attributes({"device": device}), 1)
        assert sent == on(x, device)


tensors = st.builds(TensorType, st.just(DTYPES["Float16"]), st.just((4, 2)), st.sampled_from([None, HOST, 0, 1, 2]))
values = st.one_of(
    st.recursive(tensors, lambda inner: st.builds(TupleType, st.lists(inner, max_size=3).map(tuple)), max_leaves=4),
    st.sampled_from([None, Literal(1.0), AnyType(1), Dense(DTYPES["Int64"], (1,), (3,))]),
)


def places(value):
    if isinstance(value, TupleType):
        return [place for item in value.items for place in places(item)]
    return [value.device] if isinstance(value, (TensorType, AnyType)) else []


@given(st.lists(values, max_size=4).map(tuple))
def test_values_are_renamed_and_back(vs):
    devices = devices_of(vs)
    assert devices == tuple(sorted({place for v in vs for place in places(v)} - {HOST, None}))
    there = canonical_devices(devices)
    assert devices_of(there(vs)) == there.after
    assert there.back(there(vs)) == vs
    others = renaming(devices, tuple(10 * device + 7 for device in devices))
    assert canonical_devices(others.after)(others(vs)) == there(vs)


@pytest.mark.parametrize("device", [0, 3])
def test_work_between_devices_has_its_root_among_them(device):
    for op, text in EXAMPLES:
        if op.communication is None:
            continue
        vs, apply = asked(text)
        moves = renaming(devices_of(vs, op, apply.attrs), tuple(d + device for d in devices_of(vs, op, apply.attrs)))
        vs, attrs = moves(vs), moves.attributes(op, apply.attrs)
        ws = by_the_rules(op, vs, attrs, len(apply.results))
        assert answer(RULES, op, vs, attrs, len(apply.results)) == ws, text
        assert known_work(op, vs, ws, attrs) == work(op, vs, ws, attrs), text
