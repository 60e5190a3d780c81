"""The order of steps: properties of programs that some steps give them, and that others cannot be applied behind.

A step declares what it `makes` of a program, and `before` which such properties it comes. A property is found in the
program, not in the steps that were applied: programs come from files, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from distir.analysis import analysed
from distir.ir import Apply, Function, Module, Part, Site, Statement, TensorType, types
from distir.ir.places import show_mesh
from distir.ops.devices import devices_of
from distir.ops.group import represented
from distir.ops.optimizer import OPTIMIZERS
from distir.ops.purpose import is_gradient, op_of
from distir.transform.entry import ROLES

Evidence = tuple[Site, str]
"""Where a program has a property, and how it shows."""


@dataclass(frozen=True, slots=True)
class Property:
    """What steps do to a program, in words that follow `that`; and what shows it in one, or None."""

    words: str
    shown: Callable[[Module, Function], Evidence | None]

    def evidence(self, module: Module) -> Evidence | None:
        """Where the program has the property, and how it shows."""
        entry = module.entry()
        return None if entry is None else self.shown(module, entry)


def _scattered(module: Module, entry: Function) -> Evidence | None:
    for role in ROLES:
        if f"{entry.name}.{role}" in module.functions:
            site = Site(f"{entry.name}.{role}", None, Part("name"))
            return site, f"`@{entry.name}` is distributed already: it has `@{entry.name}.{role}`"
    return None


def _distributed(module: Module, entry: Function) -> Evidence | None:
    if found := _scattered(module, entry):
        return found
    analysis = analysed(module)
    devices = () if analysis.errors else devices_of(analysis.states[entry.name].values())
    if len(devices) > 1:
        listed = ", ".join(map(str, devices))
        return Site(entry.name, None, Part("name")), f"`@{entry.name}` is distributed already, over devices {listed}"
    return None


def _sharded(module: Module, entry: Function) -> Evidence | None:
    if any({"replicas", "context"} & param.roles.keys() for param in entry.params):
        return Site(entry.name, None, Part("name")), f"a device of `@{entry.name}` represents several already"
    scatter = module.functions.get(f"{entry.name}.scatter")
    functions = module if scatter is None else Module([scatter])
    return _statement(functions, _is_of_several, f"`{{}}` belongs to `@{entry.name}` over several devices")


def _is_of_several(statement: Statement) -> bool:
    if not isinstance(statement, Apply) or represented(statement.op, statement.attrs) is not None:
        return isinstance(statement, Apply)
    op = op_of(statement)
    return op is not None and op.communication is not None and statement.op != "Send"


def _differentiated(module: Module, entry: Function) -> Evidence | None:
    return _statement(module, _is_of_training, "`{}` belongs to a training step")


def _is_of_training(statement: Statement) -> bool:
    op = op_of(statement)
    return is_gradient(statement) or any(rule.op is op for rule in OPTIMIZERS.values())


def _in_kernels(module: Module, entry: Function) -> Evidence | None:
    for function in module:
        if function.kernel:
            return Site(function.name, None, Part("name")), f"`@{function.name}` is a kernel"
    return None


def _with_state_on_hosts(module: Module, entry: Function) -> Evidence | None:
    for index, param in enumerate(entry.params):
        if any(isinstance(leaf, TensorType) and leaf.offloaded for leaf in types.leaves(param.type)):
            return Site(entry.name, None, Part("param_type", index)), f"`%{param.name}` is in the memory of a host"
    return None


def _on_mesh(module: Module, entry: Function) -> Evidence | None:
    if not module.mesh:
        return None
    return Site(entry.name, None, Part("name")), f"`@{entry.name}` is on a mesh: `{show_mesh(module.mesh)}`"


def _statement(module: Module, chosen: Callable[[Statement], bool], words: str) -> Evidence | None:
    for function in module:
        for index, statement in enumerate(function.body):
            if isinstance(statement, Apply) and chosen(statement):
                return Site(function.name, index, Part("callee")), words.format(statement.op)
    return None


SCATTERED = Property("distribute a program", _scattered)
"""The program has functions that scatter its parameters, and gather its results."""

DISTRIBUTED = Property("distribute a program", _distributed)
"""The program has such functions, or values on several devices."""

SPREAD = (SCATTERED, DISTRIBUTED)
"""What steps make of a program that they distribute."""

SHARDED = Property("make several devices of one", _sharded)
"""Devices have copies or parts of what a device had: the program has collectives of them, where it is scattered."""

SHARDS = (*SPREAD, SHARDED)
"""What steps make of a program of which each device becomes several."""

DIFFERENTIATED = Property("take gradients", _differentiated)
IN_KERNELS = Property("form kernels", _in_kernels)
ON_MESH = Property("write a program on a mesh", _on_mesh)
"""The program has a mesh: steps that do not declare `on_mesh` refuse it, as do those that come before."""

STATE_ON_HOSTS = Property("keep state in the memory of hosts", _with_state_on_hosts)


def listed(names: Collection[str], last: str = "and") -> str:
    """Names of steps as a sentence has them."""
    *others, final = [f"`{name}`" for name in names]
    return f"{', '.join(others)} {last} {final}" if others else final
