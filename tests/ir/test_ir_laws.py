"""Laws of dimensions, of types, of constants, and of programs as values."""

import math
import pickle

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import constants, functions, modules, symbolic_dims, tensor_types
from strategies import types as any_types
from thorough import most_examples

from distir.ir import (
    UNKNOWN,
    AnyType,
    Apply,
    Attributes,
    Call,
    Dense,
    DimensionError,
    Function,
    Literal,
    Module,
    Param,
    Return,
    SymbolicDim,
    TensorType,
    TupleType,
    dims,
    identity,
    types,
)
from distir.ir.builder import FunctionBuilder
from distir.ir.dtypes import DTYPES

LAW = settings(deadline=None)
some_dims = st.integers(0, 50) | symbolic_dims()
bindings = st.fixed_dictionaries({name: st.integers(1, 12) for name in "BSN"})


def value(dim, sizes):
    """The number that a dimension stands for; None where it is none."""
    try:
        return dims.substitute(dim, sizes)
    except DimensionError:
        return None


# Dimensions.


@given(some_dims, some_dims, some_dims)
@LAW
def test_dimensions_are_a_commutative_ring(a, b, c):
    assert dims.add(a, b) == dims.add(b, a)
    assert dims.multiply(a, b) == dims.multiply(b, a)
    assert dims.add(dims.add(a, b), c) == dims.add(a, dims.add(b, c))
    assert dims.add(a, 0) == dims.multiply(a, 1) == a
    assert dims.multiply(a, 0) == 0
    assert dims.subtract(dims.add(a, b), b) == a


@given(some_dims, some_dims, bindings)
@LAW
def test_arithmetic_and_substitution_may_be_done_in_any_order(a, b, sizes):
    m, n = value(a, sizes), value(b, sizes)
    assume(m is not None and n is not None)
    for operation, number in ((dims.add, m + n), (dims.multiply, m * n)):
        assert value(operation(a, b), sizes) in (number, None)


@given(some_dims, st.integers(1, 8), bindings)
@LAW
def test_a_quotient_times_the_divisor_is_the_dimension(a, parts, sizes):
    try:
        quotient = dims.divide(a, parts)
    except DimensionError:
        assert isinstance(a, int)
        assert a % parts
        return
    assert dims.multiply(quotient, parts) == a
    if value(quotient, sizes) is not None:
        assert value(quotient, sizes) * parts == value(a, sizes)


@given(st.lists(some_dims, max_size=4))
@LAW
def test_sums_and_products_of_many(many):
    assert dims.total(many) == (0 if not many else dims.add(dims.total(many[:-1]), many[-1]))
    assert dims.product(many) == (1 if not many else dims.multiply(dims.product(many[:-1]), many[-1]))


@given(some_dims)
@LAW
def test_what_is_unknown_stays_unknown(a):
    assert dims.add(a, None) is dims.add(None, a) is dims.total([a, None]) is None
    assert dims.multiply(None, a) in (None, 0)


def test_dimensions_that_cannot_be():
    with pytest.raises(DimensionError):
        dims.divide(5, 2)
    with pytest.raises(DimensionError):
        dims.substitute(dims.divide(dims.named("B"), 2), {"B": 5})


# Types.


@given(any_types)
@LAW
def test_a_type_agrees_with_itself_and_adds_nothing_to_the_unknown(a):
    assert types.meet(a, a) == a
    assert types.meet(a, UNKNOWN) == types.meet(UNKNOWN, a) == a


@given(any_types, any_types)
@LAW
def test_to_agree_is_symmetric(a, b):
    assert types.meet(a, b) == types.meet(b, a)


@given(any_types, any_types)
@LAW
def test_what_two_types_state_together_states_each_of_them(a, b):
    met = types.meet(a, b)
    if met is not None:
        assert types.meet(met, a) == types.meet(met, b) == met


@given(tensor_types(), tensor_types(), tensor_types())
@LAW
def test_three_types_agree_in_any_order(a, b, c):
    def meet(x, y):
        return None if x is None or y is None else types.meet(x, y)

    assert meet(meet(a, b), c) == meet(a, meet(b, c))


@given(any_types)
@LAW
def test_what_is_asked_of_a_type_is_asked_of_its_leaves(a):
    leaves = list(types.leaves(a))
    assert types.devices(a) == {leaf.device for leaf in leaves if leaf.device not in (None, -1)}
    if types.device_of(a) is not None:
        assert {leaf.device for leaf in leaves} <= {types.device_of(a), -1}


@given(any_types, bindings)
@LAW
def test_substitution_leaves_no_name_that_is_bound(a, sizes):
    try:
        bound = types.substitute(a, sizes)
    except DimensionError:
        return
    assert types.dim_names(bound) == frozenset()
    assert types.substitute(bound, sizes) == bound


# Values of programs.


@given(constants, constants)
@LAW
def test_constants_are_equal_where_they_are_the_same_constant(a, b):
    assert (Literal(a) == Literal(b)) == (identity(a) == identity(b))
    assert Literal(a) == Literal(a)
    assert hash(Literal(a)) == hash(Literal(a))


def test_a_number_is_not_another_kind_of_number():
    assert len({Literal(1), Literal(1.0), Literal(True)}) == 3
    assert Attributes({"a": 1}) != Attributes({"a": 1.0})
    assert Literal(math.nan) == Literal(math.nan)
    assert Literal(0.0) != Literal(-0.0)


def test_a_dense_tensor_is_filled():
    assert Dense(DTYPES["Int64"], (2, 2), (1, 2, 3, 4)).type == TensorType(DTYPES["Int64"], (2, 2), -1)
    with pytest.raises(ValueError, match="do not fill"):
        Dense(DTYPES["Int64"], (2, 2), (1, 2, 3))


@given(modules)
@settings(max_examples=most_examples(50), deadline=None)
def test_programs_are_values(module):
    again = Module(Function(f.name, f.params, f.body, f.result_types, f.kernel) for f in module)
    assert again == module
    assert hash(again) == hash(module)
    copied = pickle.loads(pickle.dumps(list(module)))
    assert Module(copied) == module


@given(functions())
@settings(max_examples=most_examples(50), deadline=None)
def test_a_program_cannot_be_changed(function):
    with pytest.raises((AttributeError, TypeError)):
        function.name = "other"
    for statement in function.body:
        with pytest.raises((AttributeError, TypeError)):
            statement.args = ()


def test_two_functions_of_one_name_are_no_module():
    f = Function("f", (), (Return(()),))
    with pytest.raises(ValueError, match="two functions are called `@f`"):
        Module([f, Function("f", (Param("x", UNKNOWN),), (Return(()),))])


@pytest.mark.parametrize(
    ("names", "entry"),
    [
        (["f", "g"], "g"),
        (["main", "g"], "main"),
        (["f", "f.scatter", "f.gather"], "f"),
        (["main", "main.scatter", "main.gather"], "main"),
        (["f", "x.scatter"], "x.scatter"),
        ([], None),
    ],
)
def test_the_entry(names, entry):
    module = Module(Function(name, (), (Return(()),)) for name in names)
    found = module.entry()
    assert (found.name if found else None) == entry
    for name in names:
        assert module.entry(name) == module.entry(f"@{name}") == module.functions[name]
    assert module.entry("nowhere") is None


def test_a_builder_gives_names_that_are_free():
    f = FunctionBuilder("f")
    x, y = f.param("x"), f.param("x", batch=0)
    assert (x, y) == ("x", "x_1")
    (z,) = f.apply("Relu", x, results=("x",))
    a, b = f.call("g", z, 2.0, results=("x", ""))
    assert (z, a, b) == ("x_2", "x_3", "")
    function = f.returns(a, ("x", 1))
    assert function.body == (
        Apply(("x_2",), "Relu", ("x",)),
        Call(("x_3", ""), "g", ("x_2", Literal(2.0))),
        Return(("x_3", ("x", Literal(1)))),
    )
    assert function.params[1].roles == Attributes({"batch": 0})


def test_spellings():
    assert str(TensorType(DTYPES["Float16"], (128, 64), 1)) == "Tensor[Float16, (128, 64), 1]"
    assert str(TensorType(None, None, None)) == "Tensor[?, ??]"
    assert str(TupleType((AnyType(1), AnyType(-1), UNKNOWN))) == "Tuple[D1, host, ?]"
    assert isinstance(dims.named("B"), SymbolicDim)
    assert str(TensorType(DTYPES["Float32"], (dims.multiply(8, dims.named("B")),), 0)) == "Tensor[Float32, (8*B,), 0]"
