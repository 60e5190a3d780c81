"""Rules for calls, loops and branches, which are written out, and for what only speaks to a compiler."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from distir.files import limits
from distir.importers.stablehlo import gspmd
from distir.importers.stablehlo.elementwise import into_sizes
from distir.importers.stablehlo.shardings import Sharding, of_constraint
from distir.importers.stablehlo.tensors import tensor_type
from distir.importers.stablehlo.text import Braces, FunctionText, MlirOperation, SymbolReference, first_list, refuse
from distir.importers.stablehlo.translating import AROUND_REGIONS, DEVICE, RULES_BY_OP, StableHlo, rule
from distir.ir import DTYPES, Dense

MARKS = frozenset(("annotate_device_placement", "LayoutConstraint", "mark_tensor", "tt.mark_argument"))
"""Custom calls that say something to a compiler, and give what they are given."""


_KEYS = re.compile(r"_?threefry_(?:fold_in|split|seed)(?:_\d+)?")
_KEPT = re.compile(r"_?bernoulli(?:_\d+)?")
"""What jax calls functions that make random keys, and that draw what dropout keeps."""


@rule("tuple")
def _tuple(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    name = into.builder.fresh(into.hint)
    into.tuples[name] = tuple(operands)
    return name


@rule("get_tuple_element")
def _get_tuple_element(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    (x,) = operands
    listed = first_list(operation.words)
    return into.tuples[x][int(listed[0] if listed else operation.attribute("index"))]


@rule("call")
def _call(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> Sequence[str]:
    return _called(into, operation, operation.symbol, operands)


@rule("composite")
def _composite(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> Sequence[str]:
    """What it is made of."""
    of = operation.attribute("decomposition")
    return _called(into, operation, of.name if isinstance(of, SymbolReference) else "", operands)


def _called(into: StableHlo, operation: MlirOperation, name: str, operands: Sequence[str]) -> Sequence[str]:
    function = into.module.functions.get(name)
    if function is None:
        refuse(f"there is no function `@{name}`", operation.place)
    if function.declared:
        refuse(f"`@{name}` is declared, and has no body here", operation.place, "link the module that has it")
    if (drawn := _drawn(into, function, operands)) is not None:
        return drawn
    return into.run(function, operands, operation.place)


def _drawn(into: StableHlo, function: FunctionText, operands: Sequence[str]) -> list[str] | None:
    """What functions of `jax.random` give that dropout takes: keys, which are not followed, and what is kept."""
    of = [tensor_type(result.type, DEVICE, result.place) for result in function.results]
    if _KEYS.fullmatch(function.name):
        return [
            into.expanded(into.known_value(Dense(one.dtype, (), (0,))), into_sizes(one.shape))
            for one in of
            if one.dtype
        ]
    kept = into.array(operands[1]) if _KEPT.fullmatch(function.name) and len(operands) == 2 else None
    if kept is None:
        return None
    into.drawn += 1
    ones = into.expanded(into.known_value(Dense(DTYPES["Float32"], (), (1.0,))), into_sizes(of[0].shape))
    given = (1 - float(kept), True, into.drawn)
    types = ("Float32", "Bool", "Int64")
    known = (into.known_value(Dense(DTYPES[name], (), (value,))) for name, value in zip(types, given, strict=True))
    return [into.several("Dropout", 2, ones, *known)[1]]


@rule("while")
def _while(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> Sequence[str]:
    if len(operation.regions) != 2:
        refuse("expected a condition and a body", operation.place)
    condition, body = operation.regions
    names = [name for name, _ in operation.bound]
    states = [into.operand(given, operation, whole=False) for _, given in operation.bound] or list(operands)
    for _ in range(limits.STEPS + 1):
        (going,) = into.block(condition, names or [n for n, _ in condition.params], states, operation.place, None)
        known = into.array(going)
        if known is None:
            advice = "let the number of steps be fixed, as in `jax.lax.scan` or `fori_loop` with known bounds"
            refuse("how often the loop runs is only known when the program runs", operation.place, advice)
        if not known:
            return states
        states = into.block(body, names or [n for n, _ in body.params], states, operation.place, None)
    return refuse(f"the loop takes more than {limits.STEPS} steps", operation.place, "export the function without it")


@rule("case", "if")
def _case(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> Sequence[str]:
    index = into.array(operands[0])
    if index is None or not operation.regions:
        advice = "compute both and pick with `jnp.where`, or export the function for one case"
        refuse("which branch is taken is only known when the program runs", operation.place, advice)
    if operation.name.endswith(".if"):
        number = 0 if index else 1
    else:
        number = int(index)
        number = number if 0 <= number < len(operation.regions) else len(operation.regions) - 1
    return into.block(operation.regions[number], [], [], operation.place, None)


@rule("optimization_barrier")
def _barrier(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> Sequence[str]:
    return operands


@rule("named_computation")
def _named_computation(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> Sequence[str]:
    """What it is made of."""
    block = operation.regions[0]
    names = [name for name, _ in (operation.bound or block.params)]
    return into.block(block, names, operands, operation.place, None)


@rule("sharding_group")
def _sharding_group(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> Sequence[str]:
    """Values that a propagation splits alike, which changes no value."""
    return ()


@rule("propagation_barrier", "data_flow_edge")
def _propagation_barrier(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> Sequence[str]:
    return operands


@rule("sharding_constraint", "reshard", "placed otherwise")
def _sharding_constraint(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    (x,) = operands
    return constrained(into, x, of_constraint(operation, into.mesh, into.shape(x)))


def constrained(into: StableHlo, x: str, found: Sharding) -> str:
    """A value that is to lie so; what a device has of one, in a region for it, stays as it is."""
    if into.inside:
        return x
    if into.known(x) is not None:
        return x
    if x not in into.makers or x in into.constraints:
        (x,) = into.several("Identity", 1, x)
    into.constraints[x] = found
    return x


@rule("custom_call")
def _custom_call(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> Sequence[str]:
    name = operation.symbol
    if name == "Sharding":
        return [_of_gspmd(into, operation, operands[0])]
    if name in AROUND_REGIONS:
        return [str(RULES_BY_OP[name](into, operation, operands))]
    if name in MARKS and len(operands) == len(operation.results):
        return operands
    if (plain := name.removeprefix("mhlo.")) != name and plain in RULES_BY_OP:
        inner: Any = operation.attribute("mhlo.attributes")
        given = inner.named if isinstance(inner, Braces) else {}
        found = RULES_BY_OP[plain](into, replace(operation, name=name, attributes=given), operands)
        return [found] if isinstance(found, str) else found
    advice = "write this part of the function with ops of jax, or export a part without it"
    return refuse(f"the custom call `@{name}` has no op here", operation.place, advice)


def _of_gspmd(into: StableHlo, operation: MlirOperation, x: str) -> str:
    """A constraint of GSPMD."""
    text = str(operation.attribute(gspmd.SHARDING))
    layout = into.layouts.get(x)
    if into.mesh is None or text == "{manual}":
        return x
    shape = into.whole_shape(x)
    dims = gspmd.dims_of(text, dict(into.mesh.axes), len(shape), operation.place)
    if layout is not None and layout.dims == tuple(dims):
        return x
    return constrained(into, into.whole(x), Sharding(tuple(dims), operation.place))
