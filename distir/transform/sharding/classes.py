"""Dimensions that are one: groups that are equal, groups that are blocks of others, and what is known of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations

from distir.ops.layout import Blocks

Place = tuple[str, tuple[int, ...], int]
"""A dimension: the value's name, the way to the leaf if it is a tuple, the axis."""

IN_BLOCKS = "it is regrouped with others, in parts that are at odds"


@dataclass(slots=True)
class Traits:
    """What is known of dimensions that are one."""

    whole: str = ""
    """Why it must be whole; empty if nothing needs it so."""
    contiguous: bool = False
    """Something needs it to be in no blocks."""
    sizes: set[int] = field(default_factory=set[int])
    """What the number of devices must divide."""
    sums: int = 0
    """How many ops it is summed over in: what splitting it costs."""
    parted: bool = False
    """Something becomes other ops if it is split: it is the length of a table, or a number of classes."""

    def absorb(self, other: Traits) -> None:
        """Take over what is known of another class."""
        self.whole = self.whole or other.whole
        self.contiguous |= other.contiguous
        self.parted |= other.parted
        self.sizes |= other.sizes
        self.sums += other.sums


class Classes:
    """Dimensions of one function under way: groups that are equal, and links between a group and its blocks."""

    def __init__(self) -> None:
        self._parent: list[int] = []
        self._traits: list[Traits] = []
        self._nodes: dict[Place, int] = {}
        self._links: list[tuple[int, int, Blocks]] = []
        self._conflicts: list[tuple[int, ...]] = []

    def node(self, place: Place) -> int:
        """The number of a place, new if it was not met before."""
        known = self._nodes.get(place)
        if known is None:
            known = self._nodes[place] = self.new()
        return known

    def put(self, place: Place, node: int) -> None:
        """Say that a place is in the class of a node; one that was not met before needs no node of its own."""
        known = self._nodes.setdefault(place, node)
        if known != node:
            self.unite(known, node)

    def new(self) -> int:
        """A node of its own."""
        self._parent.append(len(self._parent))
        self._traits.append(Traits())
        return len(self._parent) - 1

    def find(self, node: int) -> int:
        """The number that stands for the class of a node."""
        root = node
        while self._parent[root] != root:
            root = self._parent[root]
        while self._parent[node] != root:
            self._parent[node], node = root, self._parent[node]
        return root

    def unite(self, a: int, b: int) -> None:
        """Make one class of two."""
        a, b = self.find(a), self.find(b)
        if a != b:
            self._parent[b] = a
            self._traits[a].absorb(self._traits[b])

    def traits(self, node: int) -> Traits:
        """What is known of the class of a node."""
        return self._traits[self.find(node)]

    def link(self, joined: int, part: int, blocks: Blocks) -> None:
        """`joined` consists of `blocks`, each of which is split as `part` is."""
        self._links.append((joined, part, blocks))

    def conflict(self, nodes: Iterable[int]) -> None:
        """At most one of these dimensions, of one value or op, can be split."""
        found = tuple(nodes)
        if len(found) > 1:
            self._conflicts.append(found)

    def settled(self) -> Settled:
        """Groups joined over their blocks, once all is known."""
        blocks: dict[int, Blocks] = {}
        roots = [self.find(n) for n in range(len(self._parent))]
        above = {root: root for root in roots}

        def top(root: int) -> int:
            while above[root] != root:
                root = above[root]
            return root

        spoiled: set[int] = set()
        for joined, part, sizes in self._links:
            a, b = roots[joined], roots[part]
            if blocks.setdefault(a, sizes) != sizes or a == b:
                spoiled.add(a)
            above[top(a)] = top(b)
        tops = {root: top(root) for root in above}
        traits: dict[int, Traits] = {}
        for root in above:
            own = self._traits[root]
            if root in spoiled or (root in blocks and own.contiguous):
                own.whole = own.whole or IN_BLOCKS
            traits.setdefault(tops[root], Traits()).absorb(own)
        for _, part, sizes in self._links:
            found = traits[tops[roots[part]]]
            if roots[part] in blocks:
                found.whole = found.whole or IN_BLOCKS
            found.sizes |= {size for size in sizes if isinstance(size, int)}
        classes = [tops[root] for root in roots]
        conflicts = {tuple([classes[node] for node in conflict]) for conflict in self._conflicts}  # few are distinct
        pairs = {frozenset(pair) for conflict in conflicts for pair in combinations(conflict, 2)}
        for pair in pairs:
            if len(pair) == 1:
                one = traits[min(pair)]
                one.whole = one.whole or "a value has it twice"
        placed = {root: (tops[root], blocks.get(root, ())) for root in above}
        return Settled(
            {place: placed[roots[node]] for place, node in self._nodes.items()},
            traits,
            frozenset(pair for pair in pairs if len(pair) == 2),
        )


@dataclass(frozen=True, slots=True)
class Settled:
    """The classes of a function's dimensions. A class is known by a number."""

    places: dict[Place, tuple[int, Blocks]]
    traits: dict[int, Traits]
    conflicts: frozenset[frozenset[int]]

    def name(self, same: Mapping[str, str]) -> None:
        """Add values that have the same dimensions as others, by those."""
        by_name: dict[str, list[str]] = {}
        for name, earlier in same.items():
            by_name.setdefault(earlier, []).append(name)
        for (earlier, path, axis), found in list(self.places.items()) if same else ():
            for name in by_name.get(earlier, ()):
                self.places[name, path, axis] = found
