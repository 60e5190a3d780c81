"""Equivalence classes of dimensions, their blocks, and the traits of each class."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations, product

from distir.ops.layout import Block, Blocks, Repeated

Place = tuple[str, tuple[int, ...], int]
"""A dimension: the value's name, the path to the leaf if it is a tuple, the axis."""

Pieces = tuple[tuple[int, Block], ...]
"""The classes of which a dimension consists, each with its block; one class without a block is the whole dimension."""


def is_one(pieces: Pieces) -> bool:
    """Whether a dimension has no blocks."""
    return len(pieces) == 1 and pieces[0][1] is None


IN_BLOCKS = "it is regrouped with others, in parts that do not match"


@dataclass(slots=True)
class Traits:
    """The traits of a class of dimensions."""

    whole: str = ""
    """The reason why it must not be split; empty if there is none."""
    contiguous: bool = False
    """An op needs it to have no blocks."""
    sizes: frozenset[int] = frozenset()
    """The sizes that the number of devices must divide."""
    counts: frozenset[tuple[str, int]] = frozenset()
    """Sizes in attributes of ops, such as numbers of heads, with the attributes' names."""
    sums: int = 0
    """The number of ops that contract it: the collectives that splitting it costs."""
    parted: bool = False
    """Splitting it replaces an op by others: it is the length of a table, or a number of classes."""
    owned: bool = False
    """It numbers experts, whose weights stay while tokens are sent to them."""
    sequence: bool = False
    """It is a sequence dimension, along which attention may be split."""

    def absorb(self, other: Traits) -> None:
        """Merge the traits of another class."""
        self.whole = self.whole or other.whole
        self.contiguous |= other.contiguous
        self.parted |= other.parted
        self.owned |= other.owned
        self.sequence |= other.sequence
        if not other.sizes <= self.sizes:
            self.sizes |= other.sizes
        if other.counts:
            self.counts |= other.counts
        self.sums += other.sums


class Classes:
    """A union-find structure over the dimensions of one function, with links between classes and their blocks."""

    def __init__(self) -> None:
        self._parent: list[int] = []
        self._traits: list[Traits | None] = []
        """By node that represents a class: its traits, if it has any."""
        self._nodes: dict[Place, int] = {}
        self._links: list[tuple[int, Sequence[int], Blocks]] = []
        self._conflicts: list[tuple[tuple[int, ...], str]] = []

    def node(self, place: Place) -> int:
        """The node of a dimension, new if it has none."""
        known = self._nodes.get(place)
        if known is None:
            known = self._nodes[place] = self.new()
        return known

    def put(self, place: Place, node: int) -> None:
        """Put a dimension into the class of a node."""
        known = self._nodes.setdefault(place, node)
        if known != node:
            self.unite(known, node)

    def new(self) -> int:
        """A new node."""
        self._parent.append(len(self._parent))
        self._traits.append(None)
        return len(self._parent) - 1

    def find(self, node: int) -> int:
        """The representative of a node's class."""
        root = node
        while self._parent[root] != root:
            root = self._parent[root]
        while self._parent[node] != root:
            self._parent[node], node = root, self._parent[node]
        return root

    def unite(self, a: int, b: int) -> None:
        """Merge two classes."""
        a, b = self.find(a), self.find(b)
        if a != b:
            self._parent[b] = a
            own, other = self._traits[a], self._traits[b]
            if own is None:
                self._traits[a] = other
            elif other is not None:
                own.absorb(other)

    def traits(self, node: int) -> Traits:
        """The traits of a node's class."""
        root = self.find(node)
        found = self._traits[root]
        if found is None:
            found = self._traits[root] = Traits()
        return found

    def link(self, joined: int, parts: Sequence[int], blocks: Blocks) -> None:
        """Record that `joined` consists of `blocks`, each split like the corresponding one of `parts`."""
        self._links.append((joined, parts, blocks))

    def conflict(self, nodes: Iterable[int], of: str) -> None:
        """Record that at most one of these dimensions can be split, as `of`, a value, an op or a function, has them."""
        found = tuple(nodes)
        if len(found) > 1:
            self._conflicts.append((found, of))

    def settled(self) -> Settled:
        """The traits of each class, and the classes of which each dimension consists."""
        made, spoiled = self._made()
        roots = [self.find(n) for n in range(len(self._parent))]
        pieces: dict[int, Pieces] = {}
        for root in dict.fromkeys(roots):
            pieces[root] = self._pieces(root, made, spoiled)
        traits = {root: Traits() for root in pieces}
        for root in pieces:
            traits[root].absorb(self.traits(root))
        for root, own in pieces.items():
            known = self.traits(root)
            if root in spoiled:
                traits[root].whole = traits[root].whole or IN_BLOCKS
            if own == ((root, None),):
                continue
            for of in dict.fromkeys(of for of, _ in own):
                found = traits[of]
                found.whole = found.whole or known.whole or (IN_BLOCKS if known.contiguous else "")
                found.sums += known.sums
                found.parted |= known.parted
                found.sequence |= known.sequence
            for of, block in own:
                size = block.size if isinstance(block, Repeated) else block
                traits[of].sizes |= {size} if isinstance(size, int) else frozenset()
        conflicts: dict[tuple[int, ...], str] = {}  # few are distinct
        for nodes, name in self._conflicts:
            conflicts.setdefault(tuple([roots[node] for node in nodes]), name)
        groups: set[frozenset[int]] = set()
        for conflict, name in conflicts.items():
            found = [frozenset(of for of, _ in pieces[one]) for one in conflict]
            for of in {of for one, other in combinations(found, 2) for of in one & other}:
                traits[of].whole = traits[of].whole or f"`{name}` has it twice"
            groups.update(map(frozenset, product(*found)))
        places = {place: pieces[roots[node]] for place, node in self._nodes.items()}
        return Settled(places, traits, frozenset(group for group in groups if len(group) > 1))

    def _made(self) -> tuple[dict[int, tuple[Sequence[int], Blocks]], set[int]]:
        """The blocks of joined dimensions by class, and the classes for which they are unknown.

        Two joins of equal blocks have equal parts; if one join has coarser and another finer blocks, the coarser ones
        consist of the finer ones.
        """
        links, odd = self._links, list[int]()
        changed = True
        while changed:
            changed = False
            known: dict[int, tuple[Sequence[int], Blocks]] = {}
            left: list[tuple[int, Sequence[int], Blocks]] = []
            for joined, parts, blocks in links:
                root = self.find(joined)
                first, own = known.setdefault(root, (parts, blocks))
                if own == blocks:
                    left += [(joined, parts, blocks)] if first is parts else []
                    for a, b in zip(first, parts, strict=True):
                        changed |= self.find(a) != self.find(b)
                        self.unite(a, b)
                    continue
                finer, coarser = (
                    ((first, own), (parts, blocks)) if len(own) > len(blocks) else ((parts, blocks), (first, own))
                )
                within = _within(coarser[1], finer[1])
                if within is None:
                    odd += [joined, *first, *parts]
                    continue
                changed = True
                known[root] = finer
                left = [link for link in left if link[1] is not coarser[0]]
                left.append((joined, *finer))
                for part, inside in zip(coarser[0], within, strict=True):
                    if len(inside) == 1:
                        self.unite(part, finer[0][inside[0]])
                    else:
                        left.append((part, [finer[0][k] for k in inside], tuple(finer[1][k] for k in inside)))
            links = left
        self._links = links
        return {self.find(joined): (parts, blocks) for joined, parts, blocks in links}, set(map(self.find, odd))

    def _pieces(
        self,
        root: int,
        made: Mapping[int, tuple[Sequence[int], Blocks]],
        spoiled: set[int],
        above: tuple[int, ...] = (),
    ) -> Pieces:
        """The atomic classes of which a class consists; itself if it is atomic, or cyclic."""
        if root not in made:
            return ((root, None),)
        if root in above or root in spoiled:
            spoiled.add(root)
            return ((root, None),)
        found: list[tuple[int, Block]] = []
        for part, block in zip(*made[root], strict=True):
            inner = self._pieces(self.find(part), made, spoiled, (*above, root))
            if inner == ((self.find(part), None),):
                found.append((inner[0][0], block))
                spoiled |= {root} if self.find(part) in spoiled else set()
            else:
                if isinstance(block, Repeated) or any(isinstance(b, Repeated) for _, b in inner):
                    spoiled.update(of for of, _ in inner)
                found += inner
        return tuple(found)


def _within(coarse: Blocks, fine: Blocks) -> list[list[int]] | None:
    """For each coarse block, its fine blocks; None if their boundaries do not match."""
    if not all(isinstance(block, int) for block in (*coarse, *fine)):
        return None
    ends = list(accumulate(block for block in coarse if isinstance(block, int)))
    found: list[list[int]] = [[] for _ in coarse]
    at = end = 0
    for k, block in enumerate(fine):
        assert isinstance(block, int)
        end += block
        if at == len(ends) or end > ends[at]:
            return None
        found[at].append(k)
        at += end == ends[at]
    return found if at == len(ends) else None


@dataclass(frozen=True, slots=True)
class Settled:
    """The classes of a function's dimensions, by number."""

    places: dict[Place, Pieces]
    traits: dict[int, Traits]
    conflicts: frozenset[frozenset[int]]
    """Sets of classes, of one value or one op, of which at most one can be split."""

    def of(self, sources: Mapping[str, str]) -> Settled:
        """The classes for values that are copies: `sources` maps each to its original."""
        by_name: dict[str, list[Place]] = {}
        for place in self.places:
            by_name.setdefault(place[0], []).append(place)
        places = {
            (name, path, axis): self.places[source, path, axis]
            for name, source in sources.items()
            for _, path, axis in by_name.get(source, ())
        }
        return Settled(places, self.traits, self.conflicts)

    def name(self, same: Mapping[str, str]) -> None:
        """Add values with the same dimensions as others."""
        by_name: dict[str, list[str]] = {}
        for name, earlier in same.items():
            by_name.setdefault(earlier, []).append(name)
        for (earlier, path, axis), found in list(self.places.items()) if same else ():
            for name in by_name.get(earlier, ()):
                self.places[name, path, axis] = found
