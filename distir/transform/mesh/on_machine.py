"""What is simulated of a program on a mesh: one device of each stage, which represents all of them.

Devices of a stage do the same. Where the machine has equal devices with equal links for all of them, they do it at the
same times: by induction over the program, ops that begin at the same time take equally long, and those of a collective
wait for each other anyway. So they are where an op takes others less time than the first, as attention that reads fewer
keys: the first is never waited for. Where some take longer than the first, or groups of an axis are within a node and
others are not, every device is written out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from os import PathLike

from distir.analysis import Analysis, Checker, Instance, check
from distir.cost import Hardware, larger, load
from distir.cost.alike import alike
from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import placements as codes
from distir.diagnostics.codes import simulation
from distir.ir import Apply, Attributes, Constant, Module, OwnedAlong, Part, Site, TensorType, Type, ops_in, types
from distir.ir.per_thread import kept_per_thread
from distir.ir.places import show_mesh
from distir.ir.types import device_of
from distir.ops import OPS, Reject, Value, type_of
from distir.ops.group import GroupConstant, represented
from distir.ops.mesh import Reduce
from distir.ops.resources import Work
from distir.ops.workload import work
from distir.simulate import Simulation, arguments, plan, simulate
from distir.transform.checking import check_result
from distir.transform.entry import entry_of
from distir.transform.instances import first_instances
from distir.transform.mesh.expansion import NO_SIZES, expand
from distir.transform.mesh.sizes import axes_of_device, names_of_sizes, refuse_names, sized
from distir.transform.sharding.items import NoRun
from distir.transform.sharding.mesh import Mesh, mesh_of

MOST_WRITTEN = 4096
"""So many devices may be written out each."""


@dataclass(frozen=True, slots=True)
class OnMachine:
    """The program of devices that is simulated; each of them represents `copies` of the mesh."""

    module: Module
    copies: int = 1
    in_lines: bool = False
    """Whether it has a statement for each of the program's, in the same place."""
    sooner: str = ""
    """An op that some of the devices finish sooner than the one which represents them; none if they are alike."""
    of: Module | None = None
    """The program on a mesh, where each device represents several."""

    def simulated(self, machine: Hardware, function: str | None, bind: Mapping[str, Constant]) -> Simulation:
        """The simulation of the program. It is checked for the sizes that are bound. Raises what `simulate` does."""
        entry = self.module.entry(function)
        if self.of is None or entry is None:
            return simulate(self.module, machine, function, bind)
        analysis = checked_late(self.module)
        try:
            instance = analysis.instance(entry, arguments(entry, bind))
        except ProgramError:
            check_result("expand", self.of, self.module)
            raise
        return plan(self.module, analysis.domain, instance, machine).standing_for(self.copies, self.sooner, self.of)


def simulated(
    module: Module,
    hardware: Hardware | str | PathLike[str],
    function: str | None = None,
    bind: Mapping[str, Constant] = NO_SIZES,
) -> Simulation:
    """The simulation of a program, on a mesh or not; `bind` has sizes of the mesh, too. Raises what `simulate` does."""
    if not module.mesh:
        return simulate(module, hardware, function, bind)
    own = names_of_sizes(module)
    machine, module = load(hardware), sized(module, bind)
    found = on_machine(module, machine)
    left = {name: value for name, value in bind.items() if name not in own}
    return found.simulated(machine, function, left)


def on_machine(module: Module, machine: Hardware, *, every: bool = False) -> OnMachine:
    """What is simulated of a program, on a mesh or not. `every`: each device is written out.

    Raises ProgramError where the program does not check, the machine has too few devices, or more than `MOST_WRITTEN`
    have to be written out.
    """
    if not module.mesh:
        return OnMachine(module)
    if module.meshes.stages:  # each is another number of devices
        return OnMachine(expand(module))
    devices = _devices(module)
    if every:
        _refuse_larger(module, devices, machine)
        return OnMachine(expand(module))
    found = one_for_all(module, machine)
    if isinstance(found, OnMachine):
        return found
    if devices.size * devices.count > MOST_WRITTEN:
        message = f"{found}; each of at most {MOST_WRITTEN:,} devices is simulated by itself then, "
        message += f"found {devices.size * devices.count:,}"
        hint = "simulate fewer devices, or give the innermost axes sizes that divide the devices of a node"
        raise ProgramError([Diagnostic(codes.BAD_MESH, _site(module), message, help=hint)])
    return OnMachine(expand(module))


@kept_per_thread(2)
def checked_late(module: Module) -> Analysis:
    """The analysis of a program of representatives: what it runs is checked for the arguments that it is given."""
    return check(module, late=True)


@kept_per_thread(2)
def one_for_all(module: Module, machine: Hardware) -> OnMachine | str:
    """The program of one device of each stage of a mesh, where it represents all; else why it does not.

    Raises ProgramError where the program does not check, or the machine has too few devices.
    """
    if module.meshes.stages:
        return f"stages are differently many devices of `{module.meshes}`"
    devices = _devices(module)
    _refuse_larger(module, devices, machine)
    if owned := _owned(module):
        return f"{owned} is on one device alone"
    try:
        one = expand(module, representative=True, ends=False)
        later, sooner = _uneven(one, devices, machine)
        unlike = _unlike(one, devices, machine)
    except NoRun as found:
        axes = ", ".join(f"`{module.mesh[factor][0]}`" for factor in found.factors)
        return f"devices along {axes}, in this order, are not equally far apart"
    if later:
        return f"`{later}` takes longer on some devices than on the first"
    if unlike is None:
        return OnMachine(one, devices.size, True, sooner, module)
    return f"devices of `{show_mesh(module.mesh)}` are not alike on `{machine.name}`: {unlike}"


def alike_on(module: Module, machine: Hardware) -> OnMachine:
    """The program of one device of each stage, which represents all.

    Raises ProgramError as `one_for_all`, and where it does not.
    """
    found = one_for_all(module, machine)
    if isinstance(found, OnMachine):
        return found
    hint = "`distir simulate` shows each, `distir expand` writes its program"
    raise ProgramError([Diagnostic(codes.BAD_MESH, _site(module), f"{found}: each has times of its own", help=hint)])


def _owned(module: Module) -> str:
    """A value that one device along an axis has, as a message names it; empty if there is none."""
    given = (param.name for param in entry_of(module).params if any(map(_is_owned, types.leaves(param.type))))
    made = (s.results[0] for f in module for s in ops_in(f, Reduce.name))
    return next((f"`%{name}`" for name in (*given, *made)), "")


def _is_owned(found: Type) -> bool:
    return isinstance(found, TensorType) and any(isinstance(place, OwnedAlong) for place in found.places)


def _devices(module: Module) -> Mesh:
    """The devices of a program on a mesh: the first of each stage, and how many it represents."""
    refuse_names(module)
    count = math.prod(size for _, size in axes_of_device(module.meshes, None))
    return mesh_of(module, entry_of(module), count, "innermost", representative=True)


def _site(module: Module) -> Site:
    """Where the mesh is stated."""
    stating = next(function for function in module if function.mesh)
    return Site(stating.name, None, Part("name"))


def _refuse_larger(module: Module, devices: Mesh, machine: Hardware) -> None:
    """Raises ProgramError for a mesh with more devices than the machine has."""
    base = min(devices.first, 1)
    last = devices.device(devices.first + devices.count - 1, devices.size - 1)
    if last - base < machine.devices:
        return
    first = machine.devices + base
    message = f"`{machine.name}` has no device {first}: it has {machine.devices}, numbered {base} to {first - 1}"
    message += f", and `{show_mesh(module.mesh)}` has {devices.size:,}"
    message += f" in each of {devices.count} stages" if devices.count > 1 else ""
    enough = larger.devices_in_words(machine, last - base + 1)
    raise ProgramError([Diagnostic(simulation.DEVICE_NOT_IN_HARDWARE, _site(module), message, help=enough)])


def _unlike(one: Module, devices: Mesh, machine: Hardware) -> str | None:
    """In what devices of a stage differ on a machine; None where they do not."""
    base = min(devices.first, 1)
    firsts = [devices.device(devices.first + stage, 0) - base for stage in range(devices.count)]
    if not alike(machine, ([first + rank for first in firsts] for rank in range(devices.size))):
        return "they are of several kinds" if len(firsts) == 1 else "stages are linked otherwise"
    groups = {group for f in one for s in f.body if isinstance(s, Apply) and (group := represented(s.op, s.attrs))}
    at = {first % machine.period: first for first in firsts}.values()  # others begin at the same place of the period
    for size, stride in sorted(groups):
        if not all(alike(machine, _groups(first, devices.size, size, stride)) for first in at):
            apart = "neighbours" if stride == 1 else f"{stride} apart"
            return f"some groups of {size} devices, {apart}, are linked otherwise than others"
    return None


def _uneven(one: Module, devices: Mesh, machine: Hardware) -> tuple[str, str]:
    """An op that takes more time, or workspace, on some devices than on the first, and one that takes less there.

    Its work depends on a number that is another for each device, as that of causal attention of a part of the queries,
    of which the first have fewer keys before them. Empty where there is none.
    """
    later = sooner = ""
    if not any(ops_in(one, GroupConstant.name)):
        return later, sooner
    analysis, base = checked_late(one), min(devices.first, 1)
    for instance in first_instances(analysis, entry_of(one)):
        numbers = {s.results[0]: s for s in ops_in(instance.function, GroupConstant.name)}
        for statement in ops_in(instance.function):
            own = {arg: numbers[arg] for arg in statement.args if isinstance(arg, str) and arg in numbers}
            if not own:
                continue
            at = next((d for t in map(type_of, instance.state(statement.results)) if (d := device_of(t))), base) - base
            work_of_each = [*_work_of_each(statement, own, instance, analysis.domain)]
            each = [(machine.cost(done, (at,), statement.op).seconds, done.temporary) for done in work_of_each]
            if any(time > each[0][0] or space > each[0][1] for time, space in each):
                later = later or statement.op
            elif len({*each}) > 1:
                sooner = sooner or statement.op
    return later, sooner


def _work_of_each(
    statement: Apply, numbers: Mapping[str, Apply], instance: Instance, domain: Checker
) -> Iterator[Work]:
    """The work of a statement on each device of a group, of which its operands have a number each."""
    args, made = instance.state(statement.args), [*map(type_of, instance.state(statement.results))]
    groups: dict[Constant, dict[str, Sequence[Value]]] = {}
    for name, number in numbers.items():
        values = number.attrs["values"]
        assert isinstance(values, tuple)
        each = [domain.answer(replace(number, attrs=Attributes({"values": (value,)})), ())[0] for value in values]
        groups.setdefault(number.attrs.get("stride", 1), {})[name] = each
    for group in groups.values():
        for values in zip(*group.values(), strict=True):
            own = dict(zip(group, values, strict=True))
            vs = [own.get(arg, v) if isinstance(arg, str) else v for arg, v in zip(statement.args, args, strict=True)]
            with suppress(Reject):  # for an unknown size the simulator has a message
                yield work(OPS[statement.op], vs, made, statement.attrs)


def _groups(first: int, count: int, size: int, stride: int) -> Iterator[Sequence[int]]:
    """The groups of so many devices, so far apart, of a stage."""
    for block in range(first, first + count, size * stride):
        for member in range(block, block + stride):
            yield range(member, member + size * stride, stride)
