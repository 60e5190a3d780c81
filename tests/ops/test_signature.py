import math

import pytest

import distir.ops.attention  # noqa: F401 - registers its ops
from distir.diagnostics.codes import names as name_codes
from distir.ir import DTYPES, HOST, NO_ATTRIBUTES, Attributes, Dense, External, Literal, TensorType, dims
from distir.ops import (
    OPS,
    Reject,
    Work,
    bind,
    canonical,
    infer_partial,
    infer_types,
    infer_values,
    op,
    result_count,
    run,
    work,
)
from distir.ops.attributes import KINDS
from distir.ops.signature import (
    AnyPattern,
    Arithmetic,
    Broadcast,
    DimVar,
    DTypeVar,
    Segment,
    Sum,
    TensorPattern,
)
from distir.ops.signature_reader import parse_signature
from distir.syntax import parse_example, print_statement

FLOAT32, INT64 = DTYPES["Float32"], DTYPES["Int64"]


def pattern(text):
    """The one operand of a signature."""
    (operand,) = parse_signature(f"{text} -> T").operands
    return operand


@pytest.mark.parametrize(
    ("written", "shape"),
    [
        ("(m, 3, _)", (DimVar("m"), 3)),
        ("s", (Segment("s"),)),
        ("(*s, n)", (Segment("s"), DimVar("n"))),
        ("(..., n)", (Broadcast(), DimVar("n"))),
        ("...", (Broadcast(),)),
        ("(*a, n@axis, *b)", (Segment("a"), DimVar("n", "axis"), Segment("b"))),
        ("(sum(n_i), m / N)", (Sum(DimVar("n_i")), Arithmetic("/", DimVar("m"), DimVar("N")))),
        ("(n + 1,)", (Arithmetic("+", DimVar("n"), 1),)),
        ("()", ()),
        ("_", None),
    ],
)
def test_shapes(written, shape):
    found = pattern(f"Tensor[t, {written}, d]").pattern
    assert isinstance(found, TensorPattern)
    assert (found.shape if shape is None else found.shape[: len(shape)]) == shape


def test_element_types_and_devices():
    assert pattern("Tensor[Int64, s, host]").pattern == TensorPattern(INT64, (Segment("s"),), "host")
    assert pattern("Tensor[t:float, s, d]").pattern.dtype == DTypeVar("t", "float")
    assert pattern("Tensor[_, s, d]").pattern.dtype is None
    assert pattern("T[d]").pattern == AnyPattern("T", "d")
    assert pattern("T").pattern == AnyPattern("T")


def test_operands_that_repeat_and_operands_that_may_be_left_out():
    assert pattern("*Tensor[t, s, d_i]").variadic
    assert pattern("Optional[Tensor[t, s, d]]").optional
    assert parse_signature("-> T").operands == ()
    assert DimVar("n_i").indexed
    assert not DimVar("n").indexed


@pytest.mark.parametrize(
    "text",
    [
        "Tensor[t, s, d]",
        "Tensor[t, s] -> T",
        "Tensor[t:thing, s, d] -> T",
        "Tensor[t, (n ** 2,), d] -> T",
        "Tensor[1, s, d] -> T",
        "3 -> T",
    ],
)
def test_mistakes_in_a_signature_are_found(text):
    with pytest.raises(ValueError, match=r"signature|not a"):
        parse_signature(text)


@pytest.mark.parametrize("name", OPS)
def test_every_definition_is_whole(name):
    """Its signatures can be read and fit the operands, its attributes are of known kinds, and it is documented."""
    definition = OPS[name]
    assert definition.documentation
    assert definition.examples
    for signature in definition.signatures:
        assert len(signature.operands) <= len(definition.operands)
        for operand, spec in zip(signature.operands, definition.operands, strict=False):
            assert operand.variadic == spec.variadic
            assert operand.optional <= spec.optional
    for attribute in definition.attributes.values():
        assert attribute.kind.removesuffix(" | None") in KINDS
        assert (attribute.default is None) == attribute.kind.endswith(" | None")
    assert set(definition.aliases.values()) <= set(definition.attributes)


def test_an_op_in_ten_lines():
    @op("Tensor[t:float, (m, n), d], Optional[Tensor[t, (n,), d]] -> Tensor[t, (n, m + 1), d]", flops=2)
    def Widened(x, b=None, *, fill: float = 0.0):
        """The transposed matrix with one more column.

        %y = Widened[fill = 1.0](%x: Tensor[Float32, (2, 3), 1])
        """
        import numpy as np

        return np.pad(x.T, ((0, 0), (0, 1)), constant_values=fill)

    try:
        params, statement = parse_example(Widened.examples[0], canonical)
        given = [p.type for p in params]
        assert Widened.documentation == "The transposed matrix with one more column."
        types = infer_types(OPS["Widened"], given, statement.attrs, 1)
        assert types == (TensorType(FLOAT32, (3, 3), 1),)
        assert work(Widened, given, types, statement.attrs) == Work(flops=18, bytes=4 * (6 + 9), dtype=FLOAT32)
        x = random_matrix()
        assert run(Widened, [x], bind(Widened, statement.attrs), 1)[0].tolist() == [[0, 3, 1], [1, 4, 1], [2, 5, 1]]
        assert print_statement(statement).strip() == "%y = Widened[fill = 1.0](%x)"
    finally:
        del OPS["Widened"]
    assert "Widened" not in OPS
    assert OPS.get("Widened") is None


def random_matrix():
    import numpy as np

    return np.arange(6, dtype=np.float32).reshape(2, 3)


def test_a_later_definition_takes_the_place_of_an_earlier_one():
    versions = [OPS.version]
    try:
        for factor in (1, 2):

            @op("Tensor[t, s, d] -> Tensor[t, s, d]", name="Again", flops=factor)
            def again(x):
                return x

            versions.append(OPS.version)
            assert OPS["Again"].flops == factor
    finally:
        del OPS["Again"]
    assert sorted({*versions, OPS.version}) == [*versions, OPS.version]


def test_letters_of_amounts():
    seen = {}

    def flops(**letters):
        seen.update(letters)
        return 7

    @op("Tensor[t, (*a, n@axis), d], *Tensor[u, (..., k_i), d] -> Tensor[t, (*a, n), d]", flops=flops, temporary=3)
    def Letters(x, *ys, axis: int = -1):
        return x

    try:
        x, y, z = (TensorType(DTYPES[d], s, 1) for d, s in (("Float16", (2, 3, 4)), ("Int64", (5, 6)), ("Int64", (7,))))
        done = work(Letters, [x, y, z], [x], NO_ATTRIBUTES)
    finally:
        del OPS["Letters"]
    assert done == Work(flops=7, bytes=48 + 240 + 56 + 48, dtype=DTYPES["Float16"], temporary=3 * 24)
    expected = {"t": 2, "u": 8, "a": 6, "n": 4, "k_i": 13, "batch": 5, "N": 2, "elements": 24, "inputs": 61, "axis": -1}
    assert expected.items() <= seen.items()
    assert seen["shapes"] == [(2, 3, 4), (5, 6), (7,)]


def test_work_on_unknown_or_named_sizes_is_unknown():
    for n in (None, dims.named("B")):
        x = TensorType(FLOAT32, (n, 4), 1)
        with pytest.raises(Reject, match="unknown"):
            work(OPS["Transpose"], [x], [x], NO_ATTRIBUTES)


def test_host_values_cost_nothing():
    a = TensorType(FLOAT32, (2, 3), HOST)
    assert work(OPS["Transpose"], [a], [a], NO_ATTRIBUTES) == Work()


def test_attributes_are_bound_by_name_alias_and_kind():
    split = OPS["Split"]
    assert bind(split, Attributes({"dim": 1})) == Attributes({"axis": 1})
    assert bind(OPS["Gemm"], Attributes({"transA": 1}))["transA"] is True
    for attrs, code, words in (
        ({"axes": 1}, name_codes.UNKNOWN_ATTRIBUTE, "has no attribute `axes`"),
        ({"axis": 1.5}, name_codes.ATTRIBUTE_TYPE, "expected an integer for `axis`, found the number 1.5"),
        ({"axis": True}, name_codes.ATTRIBUTE_TYPE, "expected an integer"),
        ({"axis": 0, "dim": 0}, name_codes.ATTRIBUTE_TYPE, "twice"),
    ):
        with pytest.raises(Reject) as caught:
            bind(split, Attributes(attrs))
        assert caught.value.code is code
        assert words in caught.value.message
    with pytest.raises(Reject) as caught:
        bind(OPS["Concat"], NO_ATTRIBUTES)
    assert caught.value.code is name_codes.MISSING_ATTRIBUTE
    assert "axis" in caught.value.message


def test_the_nearest_attribute_is_proposed():
    with pytest.raises(Reject) as caught:
        bind(OPS["Split"], Attributes({"axi": 1}))
    assert caught.value.help == "did you mean `axis`?"


@pytest.mark.parametrize("name", OPS)
def test_the_canonical_spelling_is_a_fixed_point(name):
    for example in OPS[name].examples:
        _, statement = parse_example(example, canonical)
        assert canonical(statement.op, statement.args, statement.attrs) == (statement.args, statement.attrs)
        bind(OPS[name], statement.attrs)


PAPER = {
    "%y = Split(%x, dim=0, num_splits=2)": "%y = Split[axis = 0, num_outputs = 2](%x)",
    "%y = Send(%x, 2)": "%y = Send[device = 2](%x)",
    "%y = MPIReduce([%a, %b], 1)": "%y = MPIReduce[root = 1](%a, %b)",
    "%y = Constant[value = 2]()": "%y = Constant[value = 2]()",
    "%y = Gather[axis = 0](%a, %b)": "%y = Gather[axis = 0](%a, %b)",
    "%y = Unsqueeze[axes = [0]](%x)": "%y = Unsqueeze(%x, [0])",
    "%y = Mul(%x, 2.0)": "%y = Mul(%x, 2.0)",
    "%y = Gemm[transA = 1](%a, %b)": "%y = Gemm[transA = true](%a, %b)",
}


@pytest.mark.parametrize("written", PAPER)
def test_the_papers_spellings(written):
    _, statement = parse_example(written, canonical)
    assert print_statement(statement).strip() == PAPER[written]


def test_statements_that_fit_no_definition_stay_as_they_are():
    for name, args in (("Nothing", ("x", Literal(1))), ("Relu", ("x", "y")), ("Send", ("x", Literal(1), Literal(2)))):
        assert canonical(name, args, NO_ATTRIBUTES) == (args, NO_ATTRIBUTES)


def test_how_many_results():
    assert result_count(OPS["MatMul"], NO_ATTRIBUTES) == 1
    assert result_count(OPS["Split"], NO_ATTRIBUTES) is None


def test_data_that_is_not_loaded_is_not_computed_with():
    external = External(INT64, (2,), "model.safetensors#shape")
    assert infer_values(OPS["ConstantOfShape"], (Literal(external),), NO_ATTRIBUTES, 1) is None
    assert infer_types(OPS["ConstantOfShape"], (Literal(external),), NO_ATTRIBUTES, 1)[0].shape == (None, None)
    attrs = Attributes({"value": external})
    assert infer_values(OPS["Constant"], (), attrs, 1) is None
    assert infer_partial(OPS["Constant"], (), attrs, 1) == (external,)


def test_large_host_values_are_typed_but_not_computed():
    large = Dense(FLOAT32, (1, 1 << 17), tuple(map(float, range(1 << 17))))
    assert infer_values(OPS["Transpose"], (large,), NO_ATTRIBUTES, 1) is None
    assert infer_types(OPS["Transpose"], (large,), NO_ATTRIBUTES, 1) == (TensorType(FLOAT32, (1 << 17, 1), HOST),)


def test_sizes_that_no_memory_holds_are_refused():
    with pytest.raises(Reject, match="too large"):
        infer_types(OPS["ConstantOfShape"], (Dense(INT64, (2,), (1 << 32, 1 << 32)),), NO_ATTRIBUTES, 1)
    assert math.isfinite(infer_types(OPS["ConstantOfShape"], (Literal((1 << 40,)),), NO_ATTRIBUTES, 1)[0].elements)
