"""Layers as functions, by the modules that statements come from: two layers or eighty, alike or not.

A *layer* is an entry of a list of modules in which several are of one class (`model.layers.3`). What a layer computes
that its weights take no part in, and that other layers use, is computed before the layers. Layers that do the same are
calls of one function, named after their class. Calls state which layer they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from distir.importers.outlining.blocks import Scopes, replaced, with_layers
from distir.ir import Apply, Function, Statement, Type, names, operands, results
from distir.ir.builder import FunctionBuilder
from distir.ir.outlining import Windows, labels_of, wiring

SHORTEST = 4
"""Ops of the shortest layer that is worth a function."""


@dataclass(frozen=True, slots=True)
class ListedModule:
    """An entry of a list of modules: its path (`model.layers.3`) and its class."""

    path: str
    cls: str

    @property
    def stack(self) -> tuple[str, str]:
        """The list and the class: layers that have these in common may do the same."""
        return self.path.rpartition(".")[0], self.cls


Owners = list[ListedModule | None]
"""By statement: the layer that it belongs to."""


def layers_outlined(
    function: Function, scopes: Scopes, stated: Mapping[str, Type], taken: Iterable[str] = ()
) -> tuple[tuple[Function, ...], Function]:
    """The functions made of a function's layers, and the function with calls in their places.

    `stated`: types of the function's values, written at the new functions' parameters where all layers agree. `taken`:
    names that the new functions must not have.
    """
    owners = _owners(function.body, scopes)
    _hoist(function.body, owners)
    body, owners = _gathered(function.body, owners)
    function = Function(function.name, function.params, tuple(body), function.result_types)
    made: list[Function] = []
    functions = FunctionBuilder("")
    functions.take((function.name, *taken))
    for layers in _alike(body, owners):
        of = {results(statement): owner for statement, owner in zip(body, owners, strict=True) if owner is not None}
        places = [of.get(results(statement)) for statement in function.body]
        block = Windows(function, tuple(places.index(layer) for layer in layers), places.count(layers[0]))
        function, inner = replaced(block, functions.fresh(layers[0].cls), stated, f"{layers[0].path}.")
        made.append(inner)
    return tuple(made), with_layers(function, made)


def _owners(body: Sequence[Statement], scopes: Scopes) -> Owners:
    """By statement its layer: the outermost of which another one of its stack has the same ops, else the outermost."""
    entries = [_entries(statement, scopes) for statement in body]
    labels = labels_of(body)
    ops: dict[ListedModule, Counter[int]] = {}
    for statement, label, layers in zip(body, labels, entries, strict=True):
        for layer in layers if isinstance(statement, Apply) else ():
            ops.setdefault(layer, Counter())[label] += 1
    stacks: dict[tuple[str, str], list[ListedModule]] = {}
    for layer, found in ops.items():
        if found.total() >= SHORTEST:
            stacks.setdefault(layer.stack, []).append(layer)
    stacked = {layer for layers in stacks.values() if len(layers) > 1 for layer in layers}
    numbers = Counter((layer.stack, frozenset(ops[layer].items())) for layer in stacked)
    alike = {layer for layer in stacked if numbers[layer.stack, frozenset(ops[layer].items())] > 1}
    repeated = {layer.stack for layer in alike}
    owners: Owners = []
    for layers in entries:
        inside = [layer for layer in layers if layer in stacked]
        owners.append(next((layer for layer in inside if layer.stack in repeated), inside[0] if inside else None))
    return _filled(owners, entries)


def _entries(statement: Statement, scopes: Scopes) -> list[ListedModule]:
    """The entries of lists that a statement is in, from the outermost."""
    scope = next((scopes[name] for name in results(statement) if name in scopes), ())
    return [ListedModule(path, cls) for path, cls in scope if cls and path.rpartition(".")[2].isdigit()]


def _filled(owners: Owners, entries: Sequence[object]) -> Owners:
    """Statements of which it is not known where they come from belong to the layer around them."""
    after: Owners = [*owners]
    for i in range(len(owners) - 2, -1, -1):
        if not entries[i]:
            after[i] = after[i + 1]
    before: ListedModule | None = None
    for i, owner in enumerate(owners):
        if entries[i]:
            before = owner
        elif before == after[i]:
            owners[i] = before
    return owners


def _hoist(body: Sequence[Statement], owners: Owners) -> None:
    """Take out of layers what has nothing to do with their weights and is used by others."""
    makers = {name: i for i, statement in enumerate(body) for name in results(statement) if name}
    own: list[bool] = []
    for i, statement in enumerate(body):
        own.append(
            owners[i] is not None and any(_of_layer(name, owners[i], makers, owners, own) for name in _used(statement))
        )
    shared: list[int] = []
    for i, statement in enumerate(body):
        for maker in (makers[name] for name in _used(statement) if name in makers):
            if owners[maker] not in (None, owners[i]) and owners[i] is not None and not own[maker]:
                shared.append(maker)
    while shared:
        maker = shared.pop()
        if owners[maker] is not None:
            inside = owners[maker]
            owners[maker] = None
            shared += [m for n in _used(body[maker]) if (m := makers.get(n)) is not None and owners[m] == inside]


def _of_layer(
    name: str, layer: ListedModule | None, makers: Mapping[str, int], owners: Owners, own: Sequence[bool]
) -> bool:
    """Whether a value has to do with the weights of a layer, or of one before it."""
    maker = makers.get(name)
    if maker is None:
        return layer is not None and name.startswith(f"{layer.path}.")
    return owners[maker] is not None and own[maker]


def _gathered(body: Sequence[Statement], owners: Owners) -> tuple[list[Statement], Owners]:
    """The statements with those of each layer together; layers for which that cannot be are none."""
    nodes: list[object] = [owner or i for i, owner in enumerate(owners)]
    first: dict[object, int] = {}
    members: dict[object, list[int]] = {}
    for i, node in enumerate(nodes):
        first.setdefault(node, i)
        members.setdefault(node, []).append(i)
    makers = {name: nodes[i] for i, statement in enumerate(body) for name in results(statement) if name}
    needs = {
        node: {makers[n] for i in inside for n in _used(body[i]) if n in makers} - {node}
        for node, inside in members.items()
    }
    users: dict[object, list[object]] = {}
    for node, wanted in needs.items():
        for other in wanted:
            users.setdefault(other, []).append(node)
    waiting = {node: len(wanted) for node, wanted in needs.items()}
    ready = [first[node] for node, count in waiting.items() if not count]
    heapify(ready)
    order: list[int] = []
    while ready:
        node = nodes[heappop(ready)]
        order += members[node]
        del waiting[node]
        for user in users.get(node, ()):
            waiting[user] -= 1
            if not waiting[user]:
                heappush(ready, first[user])
    if waiting:
        return _gathered(body, [None if owner in waiting else owner for owner in owners])
    return [body[i] for i in order], [owners[i] for i in order]


def _alike(body: Sequence[Statement], owners: Owners) -> Iterator[list[ListedModule]]:
    """Layers that do the same, in the order of the first of them."""
    labels = labels_of(body)
    kinds: dict[object, list[ListedModule]] = {}
    for layer in dict.fromkeys(owner for owner in owners if owner is not None):
        start, length = owners.index(layer), owners.count(layer)
        if sum(isinstance(s, Apply) for s in body[start : start + length]) >= SHORTEST:
            kind = (layer.stack, tuple(labels[start : start + length]), wiring(body, start, length))
            kinds.setdefault(kind, []).append(layer)
    yield from kinds.values()


def _used(statement: Statement) -> list[str]:
    return [name for name in names(operands(statement)) if name]
