"""What is known of a module without knowing what its ops do: names, single assignment, returns, recursion, roles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from distir.analysis.revision_names import FunctionNames, defining, gather, mentioning, revised
from distir.analysis.size import MOST_OPS, too_many
from distir.analysis.stated_places import Uneven, complaint, together
from distir.diagnostics import Diagnostic, Note
from distir.diagnostics.codes import devices as device_codes
from distir.diagnostics.codes import lints
from distir.diagnostics.codes import names as codes
from distir.diagnostics.codes import placements as placement_codes
from distir.diagnostics.codes import types as type_codes
from distir.diagnostics.spelling import nearest
from distir.ir import (
    DISCARD,
    HOST,
    Apply,
    Broken,
    Call,
    Constant,
    Function,
    Meshes,
    Module,
    Param,
    Part,
    Return,
    Site,
    TensorType,
    Type,
    names,
    operands,
    results,
    types,
)
from distir.ir.places import show_mesh
from distir.ir.roles import ROLES
from distir.ops import OPS
from distir.ops.devices import device_terms
from distir.ops.infer import ADDRESSABLE

MOST_HINTS = 20
"""For how many undefined names of a function the one that was meant is looked for: each is compared with all others."""


Wrong = tuple[tuple[Diagnostic, Uneven | None], ...]
"""What is wrong with parameters; of those that do not divide, what and by what."""

Head = tuple[tuple[Param, ...], Meshes, Wrong]
"""Parameters, the meshes, and what is wrong with them on it."""


@dataclass(frozen=True, slots=True)
class Structure:
    """What was found, and the functions on a cycle of calls, which must not be followed."""

    diagnostics: tuple[Diagnostic, ...]
    recursive: frozenset[str]
    order: tuple[str, ...]
    """All functions, each after those that it calls."""
    names: Mapping[str, FunctionNames]
    """By function: its names."""
    heads: Mapping[str, Head]
    """By function: what is wrong with its parameters."""


def structure(module: Module, earlier: Structure | None = None) -> Structure:
    """Check the structure of every function. `earlier`: that of another version of the module, which saves time."""
    before: Mapping[str, FunctionNames] = earlier.names if earlier is not None else {}
    known = {f.name: revised(before[f.name], f) if f.name in before else gather(f) for f in module}
    if earlier is not None and _same_calls(before, known):
        recursive, order = earlier.recursive, earlier.order
    else:
        recursive, order = _call_graph({name: list(facts.calls) for name, facts in known.items()})
    old_heads: Mapping[str, Head] = earlier.heads if earlier is not None else {}
    meshes = module.meshes
    heads = {f.name: (f.params, meshes, _known_head(f, meshes, old_heads.get(f.name))) for f in module}
    found: list[Diagnostic] = []
    for function in module:
        facts = known[function.name]
        found += (diagnostic for diagnostic, uneven in heads[function.name][2] if uneven is None)
        if function.mesh and Meshes(function.mesh, function.stages) != meshes:
            found.append(_other_mesh(function, meshes))
        elif function.stages:
            found += _no_stages(module, function)
        if facts.wrong:
            found += _names(function, facts)
        if any(name not in module.functions or name in recursive for name in facts.calls):
            found += _calls(module, function, recursive)
        if facts.streams:
            found += _streams(module, function)
        found += _return(function, facts)
    wrong = (each for function in module for each in heads[function.name][2])
    found += together((diagnostic, uneven) for diagnostic, uneven in wrong if uneven is not None)
    return Structure((*found, *_sizes(known, recursive, order)), recursive, order, known, heads)


def unused(
    function: Function, facts: FunctionNames | None = None, passed_on: Callable[[int, int], bool] = lambda *_: False
) -> Iterator[Diagnostic]:
    """Results that no statement uses.

    Silent where a statement could not be read or names what nothing defines: it may be meant to use them. `passed_on`:
    whether a statement uses one of its results itself, by the numbers of both.
    """
    facts = facts or gather(function)
    if facts.broken or facts.undefined:
        return
    places = {facts.defined[name] for name in facts.unused if facts.defined[name] >= 0}
    if repeated := facts.unused & facts.repeated:
        places.update(defining(function.body, repeated))
    for index in sorted(places):
        statement = function.body[index]
        for i, name in enumerate(results(statement)):
            if name not in facts.uses and name != DISCARD and not passed_on(index, i):
                site = Site(function.name, index, Part("result", i))
                several = len(results(statement)) > 1
                hint = "write `_` in its place" if several else "remove the statement"
                yield Diagnostic(lints.UNUSED_VALUE, site, f"`%{name}` is never used", help=hint)


def _same_calls(before: Mapping[str, FunctionNames], now: Mapping[str, FunctionNames]) -> bool:
    return before.keys() == now.keys() and all(
        before[name] is facts or before[name].calls.keys() == facts.calls.keys() for name, facts in now.items()
    )


def _known_head(function: Function, meshes: Meshes, earlier: Head | None) -> Wrong:
    if earlier is not None and earlier[0] is function.params and earlier[1] == meshes:
        return earlier[2]
    return (*((diagnostic, None) for diagnostic in _head(function)), *_misplaced(function, meshes))


def _other_mesh(function: Function, meshes: Meshes) -> Diagnostic:
    own = Meshes(function.mesh, function.stages)
    message = f"`@{function.name}` states `{own}`, another function `{meshes}`"
    hint = "a module has one mesh, which one of its functions states"
    return Diagnostic(placement_codes.BAD_MESH, Site(function.name, None, Part("name")), message, help=hint)


def _no_stages(module: Module, function: Function) -> Iterator[Diagnostic]:
    """Meshes of devices that the module does not name; silent where a statement could not be read, for it might."""
    if any(isinstance(statement, Broken) for each in module for statement in each.body):
        return
    named = {device for each in module for device in _devices_named(each)}
    for stage, mesh in function.stages:
        if stage not in named:
            message = f"`{show_mesh(mesh, stage)}`: the program has no device {stage}"
            known = ", ".join(map(str, sorted(named))) or "none"
            hint = f"devices are its stages: it names {known}"
            yield Diagnostic(placement_codes.BAD_MESH, Site(function.name, None, Part("name")), message, help=hint)


def _devices_named(function: Function) -> Iterator[int]:
    stated: list[Type | None] = [*(param.type for param in function.params), *(function.result_types or ())]
    for statement in function.body:
        if isinstance(statement, (Apply, Call)):
            stated += statement.claims
        if isinstance(statement, Apply) and statement.op in OPS:
            values = (statement.attrs[name] for name in device_terms(OPS[statement.op]) & statement.attrs.keys())
            listed = (each for value in values for each in (value if isinstance(value, tuple) else (value,)))
            yield from (each for each in listed if isinstance(each, int))
    yield from (device for claim in stated if claim is not None for device in types.devices(claim) if device != HOST)


def _misplaced(function: Function, meshes: Meshes) -> Iterator[tuple[Diagnostic, Uneven | None]]:
    """The parameters that cannot be placed on the mesh as their types state."""
    for index, param in enumerate(function.params):
        wrong = complaint(param.type, meshes) if _has_sound_sizes(param.type) else None
        if wrong is not None:
            site = Site(function.name, None, Part("param_type", index))
            message = f"`%{param.name}`: {wrong.message}"
            yield Diagnostic(wrong.code, site, message, (), wrong.help, wrong.cause), wrong.uneven


def _head(function: Function) -> Iterator[Diagnostic]:
    seen: dict[str, int] = {}
    sound: set[tuple[int, int]] = set()
    """Types and roles that are sound, by identity: parameters are many, their types few, and mostly one object."""
    for index, param in enumerate(function.params):
        stated = id(param.type), id(param.roles)
        if param.name not in seen and stated in sound:
            seen[param.name] = index
            continue
        if param.name in seen:
            first = Note("the first one is here", Site(function.name, None, Part("param", seen[param.name])))
            site = Site(function.name, None, Part("param", index))
            yield Diagnostic(codes.REDEFINED_VALUE, site, f"two parameters are called `%{param.name}`", (first,))
        seen.setdefault(param.name, index)
        wrong = [] if _has_sound_sizes(param.type) else [*_dimensions(function, index)]
        if param.roles:
            wrong += _roles(function, index)
        if wrong:
            yield from wrong
        else:
            sound.add(stated)


def _dimensions(function: Function, index: int) -> Iterator[Diagnostic]:
    site = Site(function.name, None, Part("param_type", index))
    for leaf in types.leaves(function.params[index].type):
        if isinstance(leaf, TensorType):
            if any(isinstance(dim, int) and dim < 0 for dim in leaf.shape or ()):
                message = f"a dimension cannot be negative: `{leaf}`"
                yield Diagnostic(type_codes.BAD_DIMENSION, site, message)
            elif isinstance(leaf.nbytes, int) and leaf.nbytes >= ADDRESSABLE:
                yield Diagnostic(type_codes.BAD_DIMENSION, site, f"a tensor too large to address: `{leaf}`")


@lru_cache(maxsize=1 << 12)  # parameters of one type are many
def _has_sound_sizes(type: Type) -> bool:
    tensors = [leaf for leaf in types.leaves(type) if isinstance(leaf, TensorType)]
    negative = any(isinstance(dim, int) and dim < 0 for tensor in tensors for dim in tensor.shape or ())
    return not negative and not any(isinstance(t.nbytes, int) and t.nbytes >= ADDRESSABLE for t in tensors)


def _roles(function: Function, index: int) -> Iterator[Diagnostic]:
    param = function.params[index]
    for message, hint in _wrong_roles(param):
        yield Diagnostic(codes.ROLE, Site(function.name, None, Part("role", index)), message, help=hint)


def _wrong_roles(param: Param) -> Iterator[tuple[str, str | None]]:
    """What is wrong with them, and what helps."""
    for role, value in param.roles.items():
        if role not in ROLES:
            near = nearest(role, ROLES)
            hint = f"did you mean `{near}`?" if near else f"roles are {', '.join(f'`{known}`' for known in ROLES)}"
            yield f"there is no role `{role}`", hint
        elif role == "batch":
            if not _is_dimension(value, param.type):
                yield f"expected a dimension of `{param.type}` for `batch`, found {value}", None
        elif role in ("context", "replicas"):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                yield f"expected a number of devices for `{role}`, found {value}", None
        elif role == "initial":
            if not isinstance(value, (int, float, str)) or isinstance(value, bool):
                yield f"expected a number or the name of a weight for `initial`, found {value}", None
        elif value is not True:
            yield f"the role `{role}` takes no value, found {value}", None
        elif role == "frozen" and "param" not in param.roles:
            hint = "write `{param, frozen}` for a weight that is not trained, `{buffer}` for what is no weight"
            yield "only a weight can be `frozen`", hint


def _is_dimension(value: Constant, type: Type) -> bool:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        return False
    return not isinstance(type, TensorType) or type.shape is None or value < len(type.shape)


def _names(function: Function, facts: FunctionNames) -> Iterator[Diagnostic]:
    body, defined = function.body, facts.defined
    missing: dict[str, str | None] = {}
    places = {*mentioning(body, facts.early | facts.undefined, 0, len(body)), *defining(body, facts.repeated)}
    for index in sorted(places):
        statement = body[index]
        for i, arg in enumerate(operands(statement)):
            for name in names((arg,)):
                if name in facts.undefined:
                    if name not in missing:
                        missing[name] = _hint(facts, name, index) if len(missing) < MOST_HINTS else None
                    yield _undefined(function, index, i, f"`%{name}` is not defined", missing[name])
                elif name in facts.early and index <= defined[name]:
                    yield _undefined(function, index, i, f"`%{name}` is used before its definition", None)
        for i, name in enumerate(results(statement)):
            if name in facts.repeated and _first(function, facts, name) != (index, i):
                at, part = _first(function, facts, name)
                place = Part("param", part) if at is None else Part("result", part)
                first = Note("it is defined here", Site(function.name, at, place))
                site = Site(function.name, index, Part("result", i))
                yield Diagnostic(codes.REDEFINED_VALUE, site, f"`%{name}` is defined twice", (first,))


def _first(function: Function, facts: FunctionNames, name: str) -> tuple[int | None, int]:
    """Where a name is defined first: the statement, and which of its results; or which parameter."""
    index = facts.defined[name]
    if index < 0:
        return None, max(i for i, param in enumerate(function.params) if param.name == name)
    return index, results(function.body[index]).index(name)


def _undefined(function: Function, index: int, operand: int, message: str, near: str | None) -> Diagnostic:
    site = Site(function.name, index, Part("operand", operand))
    return Diagnostic(codes.UNDEFINED_VALUE, site, message, help=f"did you mean `%{near}`?" if near else None)


def _hint(facts: FunctionNames, name: str, index: int) -> str | None:
    """The value most like `name` of those defined before the first statement that uses it."""
    if name not in facts.hints:
        before = [other for other, at in facts.defined.items() if at < index]
        facts.hints[name] = nearest(name, sorted(before, key=facts.defined.__getitem__))
    return facts.hints[name]


def _calls(module: Module, function: Function, recursive: frozenset[str]) -> Iterator[Diagnostic]:
    for index, statement in enumerate(function.body):
        if not isinstance(statement, Call):
            continue
        site = Site(function.name, index, Part("callee"))
        if statement.function not in module.functions:
            near = nearest(statement.function, module.functions)
            hint = f"did you mean `@{near}`?" if near else None
            message = f"there is no function `@{statement.function}`"
            yield Diagnostic(codes.UNDEFINED_FUNCTION, site, message, help=hint)
        elif function.name in recursive and statement.function in recursive:
            message = f"`@{function.name}` calls itself"
            if statement.function != function.name:
                message += f" through `@{statement.function}`"
            yield Diagnostic(codes.RECURSION, site, message)


def _streams(module: Module, function: Function) -> Iterator[Diagnostic]:
    """Streams of what is not one op."""
    named = (Apply, Call) if function.kernel else Call
    for index, statement in enumerate(function.body):
        if not isinstance(statement, named) or not statement.stream:
            continue
        callee = module.functions.get(statement.function) if isinstance(statement, Call) else None
        if callee is None and not function.kernel:
            continue
        site = Site(function.name, index, Part("stream"))
        if function.kernel:
            message = f"`@{function.name}` is one kernel: what is in it has no stream of its own"
            yield Diagnostic(device_codes.BAD_STREAM, site, message, help="name the stream where the kernel is called")
        elif callee is not None and not callee.kernel:
            message = f"`@{callee.name}` is no kernel: a call of it has no stream"
            hint = f"name the stream at the ops in `@{callee.name}`, or mark it as a `kernel`"
            yield Diagnostic(device_codes.BAD_STREAM, site, message, help=hint)


def _return(function: Function, facts: FunctionNames) -> Iterator[Diagnostic]:
    last = function.body[-1] if function.body else None
    if facts.returns == 1 and isinstance(last, Return):
        return
    for index, statement in enumerate(function.body[:-1]):
        if isinstance(statement, Return):
            site = Site(function.name, index + 1)
            note = Note("the function returns here", Site(function.name, index))
            yield Diagnostic(codes.RETURN_PLACE, site, "a statement after `return` is never executed", (note,))
            return
    if not isinstance(last, (Return, Broken)):
        site = Site(function.name, None, Part("name"))
        yield Diagnostic(codes.RETURN_PLACE, site, f"`@{function.name}` does not end in `return`")


def _sizes(known: Mapping[str, FunctionNames], recursive: frozenset[str], order: Iterable[str]) -> Iterator[Diagnostic]:
    """Functions that have too many ops with all calls written out, while none that they call has."""
    sizes: dict[str, int] = {}
    for name in order:
        facts = known[name]
        called = {c: times for c, times in facts.calls.items() if c in sizes and c not in recursive}
        ops = len(facts.function.body) - facts.returns - facts.broken - sum(facts.calls.values())
        ops += sum(sizes[callee] * times for callee, times in called.items())
        if ops > MOST_OPS and all(sizes[callee] <= MOST_OPS for callee in called):
            yield too_many(name, ops, f"no program has more than {MOST_OPS:,}")
        sizes[name] = min(ops, MOST_OPS + 1)


def _call_graph(called: Mapping[str, Iterable[str]]) -> tuple[frozenset[str], tuple[str, ...]]:
    """The functions on cycles of calls (Tarjan's components, without recursion), and all, each after its callees."""
    edges = {name: [c for c in names if c in called] for name, names in called.items()}
    recursive: set[str] = set()
    number: dict[str, int] = {}
    finished: list[str] = []
    low: dict[str, int] = {}
    component: list[str] = []
    on_stack: set[str] = set()
    for start in edges:
        if start in number:
            continue
        work = [(start, iter(edges[start]))]
        number[start] = low[start] = len(number)
        component.append(start)
        on_stack.add(start)
        while work:
            name, rest = work[-1]
            callee = next(rest, None)
            if callee is not None:
                if callee not in number:
                    number[callee] = low[callee] = len(number)
                    component.append(callee)
                    on_stack.add(callee)
                    work.append((callee, iter(edges[callee])))
                elif callee in on_stack:
                    low[name] = min(low[name], number[callee])
                continue
            work.pop()
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[name])
            if low[name] == number[name]:
                members: list[str] = []
                while not members or members[-1] != name:
                    members.append(component.pop())
                    on_stack.discard(members[-1])
                if len(members) > 1 or name in edges[name]:
                    recursive.update(members)
                finished += members
    return frozenset(recursive), tuple(finished)
