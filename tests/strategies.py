"""Random programs that can be written down: every form of type, constant, statement and parameter.

They are right in syntax only; their ops, names and types mean nothing.
"""

from __future__ import annotations

import math

from hypothesis import strategies as st

from distir.ir import (
    COMPUTE,
    DISCARD,
    DTYPES,
    HOST,
    NO_ATTRIBUTES,
    UNKNOWN,
    AnyType,
    Apply,
    Attributes,
    Call,
    Dense,
    External,
    Function,
    Literal,
    Module,
    Param,
    Return,
    SymbolicDim,
    TensorType,
    TupleType,
    dims,
)
from distir.ir.dtypes import INTEGER_RANGES

RESERVED = {"func", "return", "Tensor", "Tuple", "host", "inf", "nan", "true", "false", "dense", "external", "_"}

names = st.text("abAB019_.-", min_size=1, max_size=6)
words = st.just("on") | st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,6}", fullmatch=True).filter(
    lambda word: word not in RESERVED
)
int64 = st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 99)
floats = st.floats(allow_nan=True, allow_infinity=True)
scalars = st.booleans() | int64 | floats
dtypes = st.sampled_from(sorted(DTYPES.values(), key=lambda dtype: dtype.name))
devices = st.none() | st.just(HOST) | st.integers(0, 20)


@st.composite
def symbolic_dims(draw):
    """Polynomials that are no constants, as arithmetic makes them."""
    dim = dims.named(draw(st.sampled_from("BSN")))
    for _ in range(draw(st.integers(0, 3))):
        other = draw(st.integers(1, 8) | st.sampled_from("BSN").map(dims.named))
        step = draw(st.sampled_from([dims.add, dims.subtract, dims.multiply]))
        dim = step(dim, other)
    if draw(st.booleans()):
        dim = dims.divide(dim, draw(st.integers(1, 6))) if isinstance(dim, SymbolicDim) else dim
    return dim if isinstance(dim, SymbolicDim) else dims.named("B")


sizes = st.none() | st.integers(0, 10**6) | symbolic_dims()
shapes = st.none() | st.lists(sizes, max_size=4).map(tuple)


@st.composite
def tensor_types(draw):
    dtype, shape, device = draw(st.none() | dtypes), draw(shapes), draw(devices)
    if dtype is None and shape == () and device == HOST:  # has no spelling of its own
        device = None
    return TensorType(dtype, shape, device)


any_types = devices.map(AnyType)
types = st.recursive(
    tensor_types() | any_types, lambda inner: st.lists(inner, max_size=3).map(lambda items: TupleType(tuple(items)))
)


def elements(dtype):
    """Values of an element type."""
    if dtype.kind == "float":
        return floats
    if dtype.kind == "bool":
        return st.booleans()
    allowed = INTEGER_RANGES[dtype]
    return st.integers(allowed[0], allowed[-1])


@st.composite
def denses(draw):
    dtype = draw(dtypes)
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=3)))
    count = math.prod(shape)
    if draw(st.booleans()):
        return Dense(dtype, shape, (draw(elements(dtype)),) * count)
    return Dense(dtype, shape, tuple(draw(st.lists(elements(dtype), min_size=count, max_size=count))))


externals = st.builds(
    External,
    dtypes,
    st.lists(st.integers(0, 1000), max_size=3).map(tuple),
    st.from_regex(r"[a-z]{1,5}(/[a-z]{1,5})?\.safetensors#[ -\[\]-~]{0,8}", fullmatch=True),
)
texts = st.text(max_size=12) | st.sampled_from(["%a", "// no", '"', "\\", "/* no */", "@f(%x)", "a\tb\nc", "\ud800"])
atoms = scalars | texts | dtypes | denses() | externals
constants = st.recursive(atoms, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6)
long_lists = st.lists(int64 | floats, min_size=80, max_size=90).map(tuple)
attributes = st.dictionaries(words, constants | long_lists, max_size=3).map(
    lambda items: Attributes(items) if items else NO_ATTRIBUTES
)
roles = st.dictionaries(words, st.just(True) | constants, max_size=2).map(
    lambda items: Attributes(items) if items else NO_ATTRIBUTES
)


def has_name(arg):
    """Whether a value stands in an argument; a list in which none does is a constant."""
    return isinstance(arg, str) or (isinstance(arg, tuple) and any(map(has_name, arg)))


streams = st.just("") | words.filter(lambda word: word != COMPUTE)
operands = st.recursive(
    names | constants.map(Literal),
    lambda inner: st.lists(inner, min_size=1, max_size=3).map(tuple).filter(has_name),
    max_leaves=4,
)


args = st.lists(operands, max_size=4).map(tuple)


@st.composite
def defined(draw):
    """Results, with claims for some of them."""
    results = tuple(draw(st.lists(names | st.just(DISCARD), max_size=3)))
    claims = tuple(draw(st.none() | types) for _ in results)
    return results, claims if any(claim is not None for claim in claims) else ()


@st.composite
def statements(draw):
    (results, claims), op, operands = draw(defined()), draw(words), draw(args)
    if draw(st.booleans()):
        if operands and draw(st.booleans()):
            operands = (*operands, DISCARD, "x")
        return Apply(results, op, operands, draw(attributes), claims, draw(streams))
    return Call(results, draw(names), operands, claims, draw(streams))


params = st.builds(Param, names, st.just(UNKNOWN) | types, roles)


@st.composite
def functions(draw, name=names):
    body = (*draw(st.lists(statements(), max_size=5)), Return(draw(args)))
    result_types = draw(st.none() | st.lists(types, max_size=2).map(tuple))
    params_drawn = tuple(draw(st.lists(params, max_size=4)))
    return Function(draw(name), params_drawn, body, result_types, draw(st.booleans()))


modules = st.lists(functions(), max_size=3, unique_by=lambda function: function.name).map(Module)
