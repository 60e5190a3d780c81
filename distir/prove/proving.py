"""`prove`: both programs in the domain of relations, and whether their results are the same terms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

from distir.analysis.copies import CopyClaims, copies
from distir.analysis.interpreter import State, interpret
from distir.analysis.parameters import parameters
from distir.ir import HOST, Apply, Function, Module, TensorType, TupleType, Type, types
from distir.ir.collection import paused_collection
from distir.ops import Reject
from distir.ops.group import represented
from distir.prove import runs as places
from distir.prove.algebra import Algebra
from distir.prove.batches import batches
from distir.prove.comparing import Failure, Proof, ProveError, Reference, failure, is_same, leaves
from distir.prove.domain import Relations, value_of, valued
from distir.prove.erasures import by_erasure
from distir.prove.groups import axes_of_atom
from distir.prove.history import Related
from distir.prove.pieces import TermPiece, shape_of
from distir.prove.ranks import MeshAxis, mesh, ranks
from distir.prove.stated import Stated
from distir.prove.terms import Terms, Unproved


@dataclass(eq=False)
class FollowedProgram:
    """A distributed program of which each value has been followed."""

    module: Module
    reference: Reference
    domain: Relations
    states: Mapping[str, State]
    """The values of the functions that are not called: the entry function, and those that scatter and gather."""
    proof: Proof


def prove(
    distributed: Module,
    sequential: Module,
    sizes: Mapping[str, int] | None = None,
    stated: Stated | None = None,
    pause: Callable[[], None] = lambda: None,
) -> Proof:
    """Whether `gather(main(scatter(x))) = sequential(x)`, for all values, at the programs' own sizes.

    And whether what gather leaves out is equal to it: every copy that a device returns (`analysis/copies.py`).
    `sizes` are those of named dimensions. Both programs must check. A program without `@main.scatter` takes the
    parameters of the sequential one, and without `@main.gather` gives its results; or `stated` says what parameters and
    results are. What is not proved is not necessarily wrong. `pause` is called at each statement, and may raise to give
    up. Raises ProveError where parameters or results do not belong together, or a size is not known, and StatedError
    for placements that cannot be.
    """
    if distributed.mesh or sequential.mesh:
        if stated is not None:
            raise ProveError("the types of a program on a mesh say where values are: leave out what states it besides")
        return by_erasure(distributed, sequential, sizes or {}, partial(prove, sizes=sizes, pause=pause))
    found = follow(distributed, reference(sequential, sizes, pause), stated, pause).proof
    if found.proved:
        return found
    # What failed is looked for in the calls themselves: it may hold for their operands, and not for all.
    return follow(distributed, reference(sequential, sizes, pause, renames=False), stated, pause).proof


@paused_collection()
def reference(
    sequential: Module,
    sizes: Mapping[str, int] | None = None,
    pause: Callable[[], None] = lambda: None,
    *,
    renames: bool = True,
) -> Reference:
    """The sequential program in the domain of relations. `pause` may raise to give up. Raises ProveError.

    `renames`: calls that differ in their operands' terms alone are interpreted once, in distributed programs too.
    """
    entry = sequential.entry()
    if entry is None:
        raise ProveError("there is no function to compare")
    domains: list[Relations] = []
    terms = Terms(lambda: domains[-1].place if domains else None, axes_of_atom)
    algebra = Algebra(terms)
    try:
        given = [_parameter(algebra, p.name, types.substitute(p.type, sizes or {})) for p in entry.params]
    except Unproved as reason:
        raise ProveError(f"{reason}; give its dimensions sizes with `--bind`") from None
    domains.append(Relations(sequential, algebra, pause=pause, renames=renames))
    expected = _run(domains[-1], entry, given).returned
    return Reference(entry, algebra, tuple(given), expected, domains)


@paused_collection()
def follow(
    distributed: Module,
    against: Reference,
    stated: Stated | None = None,
    pause: Callable[[], None] = lambda: None,
) -> FollowedProgram:
    """Each value of a distributed program, and whether its results are those of the sequential one.

    Another version of the program against the same reference costs what is new in it. `pause` is called at each
    statement, and may raise to give up. Raises ProveError, and StatedError for placements that cannot be.
    """
    main = distributed.entry()
    if main is None:
        raise ProveError("there is no function to compare")
    algebra = against.algebra
    algebra.sequential = False
    domain = Relations(
        distributed,
        algebra,
        pause=pause,
        steps=against.steps,
        renames=against.domains[0].renames,
        mesh=_mesh(distributed, main),
    )
    against.domains[1:] = [domain]
    found: tuple[Related, ...] = against.given
    names = (f"{main.name}.scatter", main.name, f"{main.name}.gather")
    if stated is not None:
        found = stated.parameters(against, main)
        names = (main.name,)
    elif len((first := distributed.functions.get(names[0], main)).params) == len(found):
        found = tuple([_on_device(piece, p.type) for piece, p in zip(found, first.params, strict=True)])
    states: dict[str, State] = {}
    for name in names:
        function = distributed.functions.get(name)
        if function is not None:
            if function is main:
                against.batches = batches(main, found)
            states[name] = _run(domain, function, found)
            found = states[name].returned
    if stated is not None:
        proof = stated.proof(against, main, found)
    else:
        proof = _with_copies(_proof(against, main, found), against, domain, states)
    return FollowedProgram(distributed, against, domain, states, proof)


def _proof(against: Reference, main: Function, found: Sequence[Related]) -> Proof:
    """Whether results are those of the sequential program, in its order. Raises ProveError."""
    if len(found) != len(against.expected):
        message = f"expected {len(against.expected)} results, as `@{against.entry.name}` has, found {len(found)}"
        raise ProveError(f"{message}; is `@{main.name}.gather` missing?")
    failures = [
        failure(against, name, number, wanted, piece)
        for number, (name, a, b) in enumerate(zip(against.results, against.expected, found, strict=True))
        for wanted, piece in _differing(a, b)
    ]
    return Proof(against.results, tuple(failures), tuple(against.algebra.laws))


def _with_copies(proof: Proof, against: Reference, domain: Relations, states: Mapping[str, State]) -> Proof:
    """The same, of all copies and parts that devices hold; a result that is not proved is not looked at again."""
    main = domain.module.entry()
    assert main is not None
    found = copies(domain.module, against.domains[0].module)
    returned = states[main.name].returned
    placed = _placed(against, domain, main, found)
    failures: dict[int, Failure] = {}
    for claim in found.claims:
        due = [returned[k] for k in claim.like] if claim.replaces is None else [placed[claim.replaces]]
        wrong = [_differing(wanted, returned[claim.returned]) for wanted in due]
        if all(wrong) and against.results[claim.of] not in {f.result for f in proof.failures}:
            wanted, piece = wrong[0][0]
            name = against.results[claim.of]
            failed = failure(against, name, claim.returned, wanted, piece)
            failures.setdefault(claim.of, replace(failed, is_copy=True))
    unclaimed = found.unclaimed
    return replace(proof, failures=(*proof.failures, *failures.values()), copies=len(found.claims), unclaimed=unclaimed)


def _placed(against: Reference, domain: Relations, main: Function, found: CopyClaims) -> tuple[Related, ...]:
    """The parameters of the next step: what scatter makes of the sequential program's new weights and state."""
    if not any(claim.replaces is not None for claim in found.claims):
        return ()
    scatter = domain.module.functions.get(f"{main.name}.scatter")
    first = main if scatter is None else scatter
    given = [against.expected[found.updated[i]] if i in found.updated else v for i, v in enumerate(against.given)]
    on_devices = tuple([_on_device(piece, p.type) for piece, p in zip(given, first.params, strict=True)])
    return on_devices if scatter is None else _run(domain, scatter, on_devices).returned


def _differing(wanted: Related, found: Related) -> list[tuple[TermPiece, TermPiece | None]]:
    """The parts of a value that are not what is due."""
    return [(due, piece) for due, piece in leaves(wanted, found) if not is_same(due, piece)]


def _mesh(module: Module, main: Function) -> tuple[MeshAxis, ...]:
    """The mesh of the groups that devices represent. Raises ProveError for groups that have devices in common."""
    statements = [s for function in module for s in function.body if isinstance(s, Apply)]
    groups = {group for s in statements if (group := represented(s.op, s.attrs)) is not None}
    try:
        axes = mesh(groups)
    except Unproved as reason:
        raise ProveError(str(reason)) from None
    named = {device for param in main.params for device in types.devices(param.type)}
    named |= {device for s in statements if isinstance(device := s.attrs.get("device"), int)} if axes else set()
    represents: dict[int, int] = {}
    for device in sorted(named - {HOST}) if axes else ():
        for own in ranks(axes):
            other = device + sum(axis.stride * rank for axis, rank in own.items())
            if represents.setdefault(other, device) != device:
                raise ProveError(f"devices {represents[other]} and {device} both represent device {other}")
    return axes


def _run(domain: Relations, function: Function, given: Sequence[Related]) -> State:
    """The values of a function. Raises ProveError."""
    if len(given) != len(function.params):
        message = f"`@{function.name}` expected {len(function.params)} parameters, found {len(given)} values for them"
        raise ProveError(f"{message}; {_missing(domain.module, function)}")
    try:
        args, _ = parameters(function, tuple(map(value_of, given)))
        with domain.inside(function.name):
            return interpret(function, tuple(map(valued, given, args)), domain)
    except Reject as reject:
        raise ProveError(reject.message) from None
    except Unproved as reason:
        raise ProveError(str(reason)) from None


def _missing(module: Module, function: Function) -> str:
    """What may be the matter with a function that is given too few values, or too many."""
    if function.name.endswith(".scatter"):
        return "is it of the same model, and of the same step?"
    before = f"{function.name.removesuffix('.gather')}{'' if function.name.endswith('.gather') else '.scatter'}"
    return f"it takes what `@{before}` returns" if before in module.functions else f"is `@{before}` missing?"


def _parameter(algebra: Algebra, name: str, type: Type) -> Related:
    """A parameter of the sequential program."""
    if isinstance(type, TupleType):
        return tuple(_parameter(algebra, f"{name}.{k}", item) for k, item in enumerate(type.items))
    shape = shape_of(type)
    atom = algebra.terms.atom("parameter", shape, details=name)
    piece = TermPiece(type, shape, tuple(map(places.full, shape)), ((atom, 1.0, ()),))
    algebra.name(piece, name)
    return piece


def _on_device(v: Related, type: Type) -> Related:
    """A parameter of the sequential program as one of the distributed program's first function: where that has it."""
    if isinstance(v, tuple):
        items = cast("tuple[Related, ...]", v)
        stated = type.items if isinstance(type, TupleType) and len(type.items) == len(items) else (type,) * len(items)
        return tuple(map(_on_device, items, stated))
    own = v.value
    if not (isinstance(own, TensorType) and isinstance(type, TensorType)):
        return v
    device, offloaded = (own.device, own.offloaded) if type.device is None else (type.device, type.offloaded)
    return valued(v, TensorType(own.dtype, own.shape, device, offloaded))
