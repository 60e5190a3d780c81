"""Laws of the checker, the domains and the executor, over random programs that are right."""

import operator

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import host_value, inlined, programs
from thorough import most_examples

import distir
from distir.analysis import Devices, Mixed, Types, Values, check, execute, interpret, random_inputs
from distir.ir import Module, types
from distir.ops import dtype_of, type_of

LAW = settings(max_examples=most_examples(150), deadline=None)


def arrays(value):
    return [a for item in value for a in arrays(item)] if isinstance(value, tuple) else [value]


def places(value):
    """The devices of a value's parts. (A parameter that a call returns keeps its type, in the Devices domain too.)"""
    return [leaf.device for leaf in types.leaves(type_of(value))]


def adds_to(left, right):
    """Whether one type states all that another states. (A callee's parameters may say more than types alone tell.)"""
    return types.meet(left, right) == left


def inputs(program):
    return tuple(random_inputs(program.module, 0, {}).values())


@given(programs())
@LAW
def test_right_programs_are_accepted_and_their_types_are_those_of_the_law(program):
    analysis = check(program.module)
    assert analysis.errors == ()
    state = analysis.states["main"]
    assert {name: type_of(state[name]) for name in program.env} == program.env
    assert {name: state[name] for name in program.known} == {n: host_value(v) for n, v in program.known.items()}


@given(programs())
@LAW
def test_values_are_instances_of_the_inferred_types(program):
    state = check(program.module).states["main"]
    computed = interpret(program.main, inputs(program), Values(program.module))
    for name in program.env:
        found = arrays(computed[name]) if not hasattr(computed[name], "values") else []
        for array, leaf in zip(found, types.leaves(type_of(state[name])), strict=False):
            assert (dtype_of(array), array.shape) == (leaf.dtype, leaf.shape)
    for name, value in program.known.items():
        assert np.array_equal(computed[name], value)


@given(programs())
@LAW
def test_outputs_are_instances_of_their_types(program):
    for output in execute(program.module, inputs(program)):
        for array, leaf in zip(arrays(output.value), types.leaves(output.type), strict=True):
            assert (dtype_of(array), array.shape) == (leaf.dtype, leaf.shape)
            assert leaf.device in (1, 2, 3)


@given(programs())
@LAW
def test_a_call_means_its_inlined_body_in_every_domain(program):
    flat, rename = inlined(program.module)
    params = tuple(p.type for p in program.main.params)
    for domain, seen in ((Types, type_of), (Mixed, lambda value: value), (Devices, places)):
        same = adds_to if domain is Types else operator.eq
        ours = interpret(program.main, params, domain(program.module))
        theirs = interpret(flat, params, domain(Module([flat])))
        assert all(map(same, map(seen, ours.returned), map(seen, theirs.returned)))
        for name in program.env:
            assert same(seen(ours[name]), seen(theirs[rename[name]]))
    given_ = inputs(program)
    ours = interpret(program.main, given_, Values(program.module))
    theirs = interpret(flat, given_, Values(Module([flat])))
    for left, right in zip(ours.returned, theirs.returned, strict=True):
        for a, b in zip(arrays(left), arrays(right), strict=True):
            np.testing.assert_array_equal(a, b)


@given(programs())
@LAW
def test_the_mixed_domain_is_never_less_precise_than_types_alone(program):
    params = tuple(p.type for p in program.main.params)
    by_types = interpret(program.main, params, Types(program.module))
    mixed = interpret(program.main, params, Mixed(program.module))
    for name in program.env:
        precise, rough = type_of(mixed[name]), type_of(by_types[name])
        assert types.meet(precise, rough) == precise


@given(programs())
@LAW
def test_the_devices_domain_tells_the_devices_of_the_mixed_domain(program):
    params = tuple(p.type for p in program.main.params)
    placed = interpret(program.main, params, Devices(program.module))
    mixed = interpret(program.main, params, Mixed(program.module))
    for name in program.env:
        assert types.device_of(placed[name]) == types.device_of(type_of(mixed[name]))


@given(programs())
@LAW
def test_a_program_survives_its_text(program):
    text = distir.format(program.module)
    assert distir.parse(text) == program.module
    assert [d for d in distir.check_text(text) if d.severity == "error"] == []


@given(programs())
@LAW
def test_checking_twice_finds_the_same(program):
    first, second = check(program.module), check(program.module)
    assert first.diagnostics == second.diagnostics
    assert {n: dict(s) for n, s in first.states.items()} == {n: dict(s) for n, s in second.states.items()}


@given(programs(), st.data())
@LAW
def test_the_inferred_types_as_annotations_change_nothing(program, data):
    """Inference proves what it found, and refutes what it did not find."""
    from dataclasses import replace

    from distir.ir import Apply

    state = check(program.module).states["main"]
    claimed = tuple(
        replace(s, claims=tuple(type_of(state[n]) if n else None for n in s.results)) if isinstance(s, Apply) else s
        for s in program.main.body
    )
    module = Module([*(f for f in program.module if f.name != "main"), replace(program.main, body=claimed)])
    analysis = check(module)
    assert analysis.errors == ()
    assert {n: type_of(v) for n, v in analysis.states["main"].items() if n} == {
        n: type_of(v) for n, v in state.items() if n
    }
    wrong = [i for i, s in enumerate(claimed) if isinstance(s, Apply) and any(s.results)]
    if wrong:
        index = data.draw(st.sampled_from(wrong))
        claims = tuple(types.AnyType(77) for _ in claimed[index].claims)
        broken = (*claimed[:index], replace(claimed[index], claims=claims), *claimed[index + 1 :])
        module = Module([*(f for f in program.module if f.name != "main"), replace(program.main, body=broken)])
        assert {d.code.number for d in check(module).errors} >= {"DIR303"}
