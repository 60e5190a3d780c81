"""Rules for calls, loops and branches, which are written out, and for what only speaks to a compiler."""

from __future__ import annotations

from collections.abc import Sequence

from distir.files import limits
from distir.importers.stablehlo.shardings import of_constraint
from distir.importers.stablehlo.text import MlirOperation, SymbolReference, refuse
from distir.importers.stablehlo.translating import StableHlo, rule


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
    return into.run(function, operands, operation.place)


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


@rule("propagation_barrier")
def _propagation_barrier(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> Sequence[str]:
    return operands


@rule("sharding_constraint", "reshard")
def _sharding_constraint(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    (x,) = operands
    found = of_constraint(operation, into.mesh, into.shape(x))
    if into.known(x) is not None:
        return x
    if x not in into.makers or x in into.constraints:
        (x,) = into.several("Identity", 1, x)
    into.constraints[x] = found
    return x


@rule("manual_computation")
def _manual_computation(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    advice = "export the function before `jax.shard_map`, with shardings of arguments and constraints"
    refuse("a program written for one device of a mesh (`jax.shard_map`)", operation.place, advice)


@rule("custom_call")
def _custom_call(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> Sequence[str]:
    name = operation.symbol or str(operation.attribute("call_target_name"))
    if name == "Sharding":
        if operation.attribute("mhlo.sharding") == "{replicated}":
            return operands
        advice = "export with Shardy (`jax.config.update('jax_use_shardy_partitioner', True)`), or a newer jax"
        refuse("a constraint of GSPMD", operation.place, advice)
    advice = "write this part of the function with ops of jax, or export a part without it"
    return refuse(f"the custom call `@{name}` has no op here", operation.place, advice)
