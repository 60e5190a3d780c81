"""What holds of every op there is, by its own documentation: its examples check, run and can be costed."""

import importlib
import pkgutil

import pytest
from op_samples import is_instance, random_value

import distir.ops
from distir.ir import HOST, NO_ATTRIBUTES, Apply, Literal, TensorType, TupleType, types
from distir.ops import (
    OPS,
    REQUIRED,
    Reject,
    bind,
    canonical,
    dense,
    infer_partial,
    infer_types,
    infer_values,
    run,
    strengthen,
    to_array,
    work,
)
from distir.ops.attributes import KINDS
from distir.ops.signature_reader import parse_signature

MODULES = [importlib.import_module(f"distir.ops.{module.name}") for module in pkgutil.iter_modules(distir.ops.__path__)]
OURS = {name: op for name, op in OPS.items() if op.body.__module__.startswith("distir.")}
of_every_op = pytest.mark.parametrize("op", OURS.values(), ids=OURS)


def parsed(text):
    """The operands' types or literals, and the statement, of an example."""
    from distir.syntax import parse_example

    params, apply = parse_example(text, canonical)
    assert isinstance(apply, Apply)
    known = {param.name: param.type for param in params}
    return [known[arg] if isinstance(arg, str) and arg else arg or None for arg in apply.args], apply


def values_of(op, args, apply):
    """Random values of the operands, small enough to be indices; literals as arrays."""
    strong = strengthen(op, args, apply.attrs)
    return [
        to_array(s) if isinstance(arg, Literal) else arg if arg is None else random_value(arg, i, low=0, high=1)
        for i, (arg, s) in enumerate(zip(args, strong, strict=True))
    ]


@of_every_op
def test_an_example_checks_runs_and_can_be_costed(op):
    for text in op.examples:
        args, apply = parsed(text)
        count = len(apply.results)
        assert apply.op == op.name
        inferred = infer_types(op, args, apply.attrs, count)
        results = run(op, values_of(op, args, apply), bind(op, apply.attrs), count)
        assert len(inferred) == len(results) == count, text
        for described, result in zip(inferred, results, strict=True):
            assert isinstance(described, (TensorType, TupleType)), f"all of {text} should be known, found {described}"
            assert all(isinstance(leaf, TensorType) and leaf.elements is not None for leaf in types.leaves(described))
            assert is_instance(result, described), f"{text}: {described} does not describe the result"

        done = work(op, args, inferred, apply.attrs)
        for amount in (done.flops, done.bytes, done.temporary):
            assert isinstance(amount, int)
            assert amount >= 0
        assert (done.communication is not None) == (op.communication is not None)


OTHERS = ["Float16", "BFloat16", "Float64", "Int32", "Float8E4M3FN"]


@of_every_op
def test_an_example_runs_with_the_other_element_types_that_the_op_takes(op):
    for text in [text.replace("Float32", dtype) for text in op.examples if "Float32" in text for dtype in OTHERS]:
        args, apply = parsed(text)
        count = len(apply.results)
        try:
            inferred = infer_types(op, args, apply.attrs, count)
        except Reject:
            continue
        results = run(op, values_of(op, args, apply), bind(op, apply.attrs), count)
        for described, result in zip(inferred, results, strict=True):
            assert is_instance(result, described), f"{text}: {described} does not describe {result!r}"


@of_every_op
def test_an_example_leaves_its_operands_alone(op):
    for text in op.examples:
        args, apply = parsed(text)
        values = values_of(op, args, apply)
        before = [_bytes(value) for value in values]
        run(op, values, bind(op, apply.attrs), len(apply.results))
        assert [_bytes(value) for value in values] == before, text


def _bytes(value):
    return tuple(map(_bytes, value)) if isinstance(value, tuple) else None if value is None else value.tobytes()


@of_every_op
def test_more_precise_rules_agree_with_the_types(op):
    for text in op.examples:
        args, apply = parsed(text)
        count = len(apply.results)
        inferred = infer_types(op, args, apply.attrs, count)
        for rule in (infer_values, infer_partial):
            known = rule(op, args, apply.attrs, count)
            for value, described in zip(known or (), inferred, strict=known is not None):
                assert types.meet(distir.ops.type_of(value), described) is not None, text


@of_every_op
def test_nothing_is_wrong_where_nothing_is_known(op):
    """And what is inferred then agrees with what is inferred where all is known."""
    for text in op.examples:
        args, apply = parsed(text)
        unknown = [_unknown(arg) for arg in args]
        vague = infer_types(op, unknown, apply.attrs, len(apply.results))
        inferred = infer_types(op, args, apply.attrs, len(apply.results))
        for less, more in zip(vague, inferred, strict=True):
            assert types.meet(less, more) is not None, f"{text}: {less} contradicts {more}"


def _unknown(arg):
    if isinstance(arg, Literal):
        described = dense(arg.value).type if not hasattr(arg.value, "type") else arg.value.type
        return TensorType(described.dtype, None, HOST) if described.dtype.kind != "float" else arg
    return types.UNKNOWN if arg is not None else None


@of_every_op
def test_a_definition_is_complete(op):
    assert op.documentation, "what does it do?"
    assert op.examples, "an example says more"
    assert op.documentation[0].isalnum() or op.documentation[0] in "`-"
    for attribute in op.attributes.values():
        assert attribute.kind.removesuffix(" | None") in KINDS
        assert attribute.default is not None or attribute.kind.endswith(" | None")
    assert op.flops is not None or op.view or op.communication is not None or op.copies or not op.operands


@of_every_op
def test_a_signature_reads_back_as_it_was_written(op):
    for signature in op.signatures:
        assert parse_signature(str(signature)) == signature
        assert len(signature.results) == len(op.signatures[0].results)
        assert len(signature.operands) <= len(op.operands)
        for pattern, spec in zip(signature.operands, op.operands, strict=False):
            assert pattern.variadic == spec.variadic
            assert spec.optional or not pattern.optional
    assert max(len(signature.operands) for signature in op.signatures) == len(op.operands)


@of_every_op
def test_defaults_are_of_their_kind(op):
    if all(attribute.default is not REQUIRED for attribute in op.attributes.values()):
        assert bind(op, bind(op, NO_ATTRIBUTES)) == bind(op, NO_ATTRIBUTES)


def test_every_family_is_loaded():
    loaded = {module.__name__.rpartition(".")[2] for module in distir.ops.FAMILIES}
    assert {op.family for op in OURS.values()} == loaded
