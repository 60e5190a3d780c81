"""Each device's share of FLOPs and weights after a split, and what is replicated and why: the report of `tp`.

Other splits report the FLOPs that are not divided, if there are any.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from distir.analysis import Analysis
from distir.diagnostics import Diagnostic, Note, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.ir import Function, Site, TensorType, Type
from distir.ops.layout import Shared
from distir.placement.along import Split, State, is_whole
from distir.placement.part_types import part_of, whole_block
from distir.transform.counting import flops, percent, weight_bytes
from distir.transform.sharding.classes import Settled

HEAVY = 0.01
"""The share of all weights, or of all FLOPs, above which something is reported."""

_NOTHING = "nothing would be gained"


@dataclass(frozen=True, slots=True)
class ParameterShares:
    """Parameters that are replicated, wholly or in some blocks, for one reason; `share`: of the weights' bytes."""

    names: tuple[str, ...]
    share: float
    largest: float
    """The share of the largest of them."""
    why: str

    def __str__(self) -> str:
        others = len(self.names) - 1
        stay = f" and {others} more stay" if others else " stays"
        return f"`%{self.names[0]}`{stay} whole, {percent(self.share)} of the weights: {self.why}"


@dataclass(frozen=True, slots=True)
class Shares:
    """The share of each of `size` devices in the work and weights of one device.

    `flops` is None if sizes are unknown. `weights` counts bytes. `ops`: for ops with heavy replication, the share of
    their FLOPs on each device, and the excess over an even share of all FLOPs.
    """

    size: int
    flops: float | None
    weights: float
    ops: Mapping[str, tuple[float, float]]
    whole: tuple[ParameterShares, ...]
    each: str = "device"
    """What has such a share: on a mesh a shard, of which replicas may store parts."""

    @property
    def lines(self) -> list[str]:
        """The lines of the report."""
        counted = "" if self.flops is None else f"{percent(self.flops)} of the FLOPs and "
        even = percent(1 / self.size)
        lines = [f"each {self.each} has {counted}{percent(self.weights)} of the weights, where {even} is an even part"]
        return [*lines, *_said(self.ops), *map(str, self.whole)]

    @property
    def heavy(self) -> list[str]:
        """The lines about heavy replication."""
        return [*_said(self.ops), *(str(whole) for whole in self.whole if whole.largest >= HEAVY)]


def shares(
    before: Analysis, after: Analysis, entry: Function, states: Sequence[State], size: int, written: int, why: Reasons
) -> Shares:
    """Compare a program with what it was split into.

    `states`: the placement of the entry function's parameters. `written`: how many of the `size` devices the program
    contains. `why` gives the reason why a parameter is replicated.
    """
    work, ops = _work(before, after, entry, size, written)
    return replace(shares_of_weights(entry, states, size, why), flops=work, ops=ops)


def shares_of_weights(entry: Function, states: Sequence[State], size: int, why: Reasons) -> Shares:
    """The same without the shares of FLOPs."""
    held = split = 0
    whole: dict[str, list[tuple[str, float]]] = {}
    for param, state in zip(entry.params, states, strict=True):
        if "param" in param.roles:
            own, part = weight_bytes(param.type), weight_bytes(part_of(param.type, state, size))
            held, split = held + own, split + part
            if is_whole(state):
                whole.setdefault(why.of(param.name, param.type), []).append((param.name, own))
            elif isinstance(state, Split) and state.is_mixed:
                shared = own * _share_of_shared(state)
                whole.setdefault(why.of_shared(param.name, state), []).append((param.name, shared))
    found = [
        ParameterShares(
            tuple(n for n, _ in of), _ratio(sum(b for _, b in of), held), _ratio(max(b for _, b in of), held), reason
        )
        for reason, of in whole.items()
    ]
    return Shares(
        size,
        None,
        split / held if held else 1.0,
        {},
        tuple(sorted(found, key=lambda w: -w.share)),
    )


def undivided(before: Analysis, after: Analysis, entry: Function, size: int, written: int) -> list[str]:
    """What is said where devices share a batch, sequences or experts, and not all work: nothing if it is even.

    `written`: how many of the `size` devices the program contains.
    """
    work, ops = _work(before, after, entry, size, written)
    if work is None or not ops:
        return []
    total = f"each device has {percent(work)} of the FLOPs, where {percent(1 / size)} is an even part"
    return [total, *_said(ops)]


def _work(
    before: Analysis, after: Analysis, entry: Function, size: int, written: int
) -> tuple[float | None, dict[str, tuple[float, float]]]:
    """Each device's share of all FLOPs, None if sizes are unknown; and of those of ops with heavy replication.

    These with their excess over an even share of all FLOPs, greatest first.
    """
    one, several = flops(before, entry.name), flops(after, entry.name)
    total = sum(one.values())
    if not total:
        return None, {}
    shares = {op: several.get(op, 0) / written / count for op, count in one.items() if count}
    excess = {op: (share - 1 / size) * one[op] / total for op, share in shares.items()}
    heavy = sorted((op for op, beyond in excess.items() if beyond >= HEAVY), key=lambda op: -excess[op])
    return sum(several.values()) / written / total, {op: (shares[op], excess[op]) for op in heavy}


def _said(ops: Mapping[str, tuple[float, float]]) -> list[str]:
    return [f"`{op}`: each device does {percent(share)} of its FLOPs" for op, (share, _) in ops.items()]


def refuse_heavy(shares: Shares, entry: Function) -> None:
    """Raises ProgramError where something heavy is replicated."""
    if heavy := shares.heavy:
        message = f"`@{entry.name}` is not split evenly over {shares.size} devices: {heavy[0]}"
        notes = tuple(Note(line) for line in heavy[1:])
        hint = "state a split by hand (`shard=w1:1,w2:0`), or leave out `strict`"
        raise ProgramError([Diagnostic(codes.STAYS_WHOLE, Site(entry.name), message, notes, hint)])


@dataclass(frozen=True, slots=True)
class Reasons:
    """Why dimensions of parameters are not split. `inputs`: by class, the input of the program that has it."""

    settled: Settled
    inputs: Mapping[int, str]
    chosen: frozenset[int]
    size: int
    by_hand: str
    """The option that states which parameters are split, if it does."""

    def of(self, name: str, type: Type) -> str:
        """The reasons, with dimensions grouped by reason."""
        if self.by_hand:
            return f"`{self.by_hand}` does not name it"
        found = [(self._of(place), place[2]) for place in self._places(name, type)]
        if not found:
            return "it has no dimension"
        groups = [(why, [axis for _, axis in of]) for why, of in groupby(found, key=lambda pair: pair[0])]
        return "; ".join(f"dimension {' and '.join(map(str, axes))}: {why}" for why, axes in groups)

    def of_shared(self, name: str, state: Split) -> str:
        """Why some blocks of a dimension are not split."""
        pairs = zip(self.settled.places[name, (), state.axis], state.blocks, strict=True)
        shared = [(of, block.size) for (of, _), block in pairs if isinstance(block, Shared)]
        whole = sum(size for size in map(whole_block, state.blocks) if isinstance(size, int))
        reasons = dict.fromkeys(self._of_class(of) or _NOTHING for of, _ in shared)
        return f"{sum(size for _, size in shared)} of {whole} in dimension {state.axis}: {' and '.join(reasons)}"

    def _places(self, name: str, type: Type) -> Iterable[tuple[str, tuple[int, ...], int]]:
        rank = len(type.shape or ()) if isinstance(type, TensorType) else 0
        return [(name, (), axis) for axis in range(rank)]

    def _of(self, place: tuple[str, tuple[int, ...], int]) -> str:
        return next(filter(None, (self._of_class(of) for of, _ in self.settled.places[place])), _NOTHING)

    def _of_class(self, of: int) -> str:
        """Why a class is not split; empty if nothing speaks against it."""
        traits = self.settled.traits[of]
        if traits.whole:
            return traits.whole
        if of in self.inputs:
            return f"the input `%{self.inputs[of]}` has it"
        rest = next((n for n in sorted(traits.sizes) if n % self.size), None)
        if rest is not None:
            return f"{self.size} does not divide {rest}"
        apart = any(of in group and group & self.chosen for group in self.settled.conflicts)
        return "another dimension of the same values is split" if apart else ""


def _share_of_shared(state: Split) -> float:
    """The share of a dimension that every device has."""
    sizes = [size for size in map(whole_block, state.blocks) if isinstance(size, int)]
    return sum(block.size for block in state.blocks if isinstance(block, Shared)) / sum(sizes)


def _ratio(part: float, whole: int) -> float:
    return part / whole if whole else 0.0
