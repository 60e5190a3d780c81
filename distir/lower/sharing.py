"""Alias analysis: the values that share memory in torch, and those that may be overwritten. Does not depend on torch.

The results of an op whose torch form is *fresh* alias no operand; any other result may be a view of every operand. A
value is a tree like its type (a leaf, or a tuple of trees); a leaf has the set of tensors that it may alias. Arguments
belong to the caller: a callee never overwrites them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Union

from distir.analysis import Checker, Instance
from distir.analysis.liveness import last_uses
from distir.analysis.reached import callee
from distir.ir import DISCARD, Apply, Arg, Call, Return, Statement, TupleType, Type, names, operands
from distir.ir.deep import Deep, finish
from distir.ops import OPS, type_of

Root = tuple[str, tuple[int, ...]]
"""A tensor: the name of its value, and the path in that value."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A tensor. `roots`: the tensors that it may alias; `whole`: it is its only root, not a part or a view of it."""

    roots: frozenset[Root]
    whole: bool = False


Tree = Union[Leaf, "tuple[Tree, ...]"]

NOTHING = Leaf(frozenset())
"""A leaf without memory: a host value, or a value of another rank."""


@dataclass
class Sharing:
    """The aliases among a function's values. `own_params`: its parameters may be overwritten, too."""

    instance: Instance
    own_params: bool
    trees: dict[str, Tree] = field(default_factory=dict[str, Tree])
    returned: tuple[Tree, ...] = ()
    last: dict[Root, int] = field(default_factory=dict[Root, int])
    """By tensor: the index of the last statement that uses its memory."""
    streams: dict[Root, set[str]] = field(default_factory=dict[Root, set[str]])
    """By tensor: the streams of the statements that read it."""

    def overwritable(self, index: int, operand: int) -> bool:
        """Whether statement `index` may overwrite an operand: no other operand or later statement uses its memory.

        Nor does an earlier one that may still run: one on another stream, but for the one that computes, whose last use
        of that memory the statement waits for.
        """
        statement = self.instance.function.body[index]
        arg = operands(statement)[operand]
        if not isinstance(arg, str) or arg not in self.trees:
            return False
        mine = leaves(self.trees[arg])
        others = [leaf for i, other in enumerate(operands(statement)) if i != operand for leaf in self._of(other)]
        used = frozenset[Root]().union(*(leaf.roots for leaf in others))
        params = frozenset[str]() if self.own_params else {p.name for p in self.instance.function.params}
        roots = [root for leaf in mine for root in leaf.roots]
        return (
            bool(mine)
            and len(set(roots)) == len(roots)
            and all(leaf.whole and len(leaf.roots) == 1 for leaf in mine)
            and all(self.last[r] == index and r not in used and r[0] not in params for r in roots)
            and all(self.streams[r] <= {stream_of(statement), ""} for r in roots)
        )

    def reads(self, read: Sequence[Leaf], streams: Set[str]) -> None:
        """Note on which streams statements read tensors."""
        for leaf in read:
            for root in leaf.roots:
                self.streams.setdefault(root, set()).update(streams)

    def _of(self, arg: Arg) -> list[Leaf]:
        return [leaf for name in names((arg,)) for leaf in leaves(self.trees.get(name, NOTHING))]


@dataclass
class SharingMap:
    """The alias analysis of instances, cached."""

    domain: Checker
    known: dict[tuple[int, bool], Sharing] = field(default_factory=dict[tuple[int, bool], Sharing])

    def of(self, instance: Instance, own_params: bool = False) -> Sharing:
        """The aliases in an instance. `own_params`: its parameters may be overwritten."""
        return finish(self._known(instance, own_params))

    def _known(self, instance: Instance, own_params: bool = False) -> Deep[Sharing]:
        key = (id(instance), own_params)
        if key not in self.known:
            self.known[key] = yield from self._found(instance, own_params)
        return self.known[key]

    def _found(self, instance: Instance, own_params: bool) -> Deep[Sharing]:
        found = Sharing(instance, own_params)
        for param, v in zip(instance.function.params, instance.args, strict=True):
            found.trees[param.name] = _fresh(param.name, type_of(v))
        for index, statement in enumerate(instance.function.body):
            if isinstance(statement, Return):
                found.returned = tuple(_tree(found.trees, arg) for arg in statement.args)
            elif isinstance(statement, (Apply, Call)):
                trees = (
                    self._applied(found, statement)
                    if isinstance(statement, Apply)
                    else (yield from self._called(found, statement, index))
                )
                for name in names(statement.args):
                    found.reads(leaves(found.trees.get(name, NOTHING)), {stream_of(statement)})
                found.trees.update((n, t) for n, t in zip(statement.results, trees, strict=True) if n != DISCARD)
        for name, use in last_uses(instance.function).items():
            for leaf in leaves(found.trees.get(name, NOTHING)):
                for root in leaf.roots:
                    found.last[root] = max(found.last.get(root, -1), use)
        return found

    def _applied(self, found: Sharing, op: Apply) -> Sequence[Tree]:
        args = [_tree(found.trees, arg) for arg in op.args]
        if op.op == "MakeTuple":
            return [tuple(args)]
        if op.op == "UnpackTuple" and isinstance(args[0], tuple):
            return args[0]
        if op.op == "Identity":
            return args
        form = OPS[op.op].rule("torch")
        stated = [type_of(found.instance.state[name]) for name in op.results]
        if form is not None and form.fresh:
            return [_fresh(name, t) for name, t in zip(op.results, stated, strict=True)]
        roots = frozenset[Root]().union(*(leaf.roots for arg in args for leaf in leaves(arg)))
        return [_filled(t, Leaf(roots)) for t in stated]

    def _called(self, found: Sharing, call: Call, index: int) -> Deep[Sequence[Tree]]:
        inner = yield self._known(callee(self.domain, found.instance, call))
        params = inner.instance.function.params
        given = {p.name: _tree(found.trees, arg) for p, arg in zip(params, call.args, strict=True)}
        for root, streams in inner.streams.items():
            if root[0] in given:
                found.reads(leaves(_outside(Leaf(frozenset({root})), given, "")), streams)
        return [_outside(tree, given, f"{index} ") for tree in inner.returned]


def _outside(tree: Tree, given: Mapping[str, Tree], prefix: str) -> Tree:
    """The tree of a callee's result, in terms of the caller's values."""
    if isinstance(tree, tuple):
        return tuple(_outside(item, given, prefix) for item in tree)
    roots: set[Root] = set()
    whole = tree.whole
    for name, path in tree.roots:
        if name not in given:
            roots.add((prefix + name, path))
            continue
        for leaf in leaves(_at(given[name], path)):
            roots |= leaf.roots
            whole = whole and leaf.whole
    return Leaf(frozenset(roots), whole)


def _at(tree: Tree, path: Sequence[int]) -> Tree:
    for step in path:
        if isinstance(tree, tuple):
            tree = tree[step]
    return tree


def _tree(trees: Mapping[str, Tree], arg: Arg) -> Tree:
    if isinstance(arg, tuple):
        return tuple(_tree(trees, item) for item in arg)
    return trees.get(arg, NOTHING) if isinstance(arg, str) else NOTHING


def _fresh(name: str, type: Type, path: tuple[int, ...] = ()) -> Tree:
    if isinstance(type, TupleType):
        return tuple(_fresh(name, item, (*path, i)) for i, item in enumerate(type.items))
    return Leaf(frozenset({(name, path)}), whole=True)


def _filled(type: Type, leaf: Leaf) -> Tree:
    return tuple(_filled(item, leaf) for item in type.items) if isinstance(type, TupleType) else leaf


def leaves(tree: Tree) -> list[Leaf]:
    """The leaves of a tree, left to right."""
    return [leaf for item in tree for leaf in leaves(item)] if isinstance(tree, tuple) else [tree]


def stream_of(statement: Statement) -> str:
    """The stream that a statement names; none for a `return`."""
    return statement.stream if isinstance(statement, (Apply, Call)) else ""
