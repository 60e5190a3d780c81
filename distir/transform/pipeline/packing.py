"""Packs values with the same source and uses into tuples, so that a stage's call is one short line for any depth.

The weights of a stage become one value, and so do its residuals, the values that it sends to another stage, and its
gradients. Packing is a view and costs nothing. Device-independent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from distir.ir import DISCARD, Apply, Facts, TupleType, names
from distir.ops import type_of
from distir.transform.pipeline.microbatches import Held, Share, is_sum, leaf_shares
from distir.transform.pipeline.passes import Pass
from distir.transform.pipeline.placement import Place
from distir.transform.pipeline.reading import Phase, Reading, Work

Bodies = dict[Place, list[Work]]


def pack(
    reading: Reading, bodies: Mapping[Place, Sequence[Work]], outside: Mapping[Place, set[str]]
) -> tuple[Reading, Bodies, dict[Place, set[str]]]:
    """The reading, the bodies of passes, and each pass's values used outside of it, with values packed."""
    packer = _Packer(reading, bodies, outside)
    packer.pack_made()
    packer.pack_weights()
    return replace(packer.reading, values=packer.values, statements=packer.statements), packer.bodies, packer.outside


class _Packer:
    """Rewrites statements of passes, and those before and after the microbatches."""

    def __init__(
        self, reading: Reading, bodies: Mapping[Place, Sequence[Work]], outside: Mapping[Place, set[str]]
    ) -> None:
        self.reading = reading
        self.bodies: Bodies = {where: list(body) for where, body in bodies.items()}
        self.values = dict(reading.values)
        self.statements = list(reading.statements)
        self.stated = reading.stated()
        self.outside = {where: set(used) for where, used in outside.items()}
        self.joint: dict[str, list[str]] = {}
        """By tuple of terms: the joint sums of these terms."""
        self.used = {where: {n for s in body for n in names(s.args)} for where, body in bodies.items()}

    def pack_weights(self) -> None:
        """Pack the weights of each stage, and values computed from weights alone, in program order."""
        early = [p.name for p in self.reading.entry.params]
        early += [r for s, phase in self.statements if phase is Phase.BEFORE for r in s.results if r != DISCARD]
        early = [n for n in early if n not in self.reading.batch and not self.reading.is_host(n)]
        position = 1 + max((i for i, (_, phase) in enumerate(self.statements) if phase is Phase.BEFORE), default=-1)
        for stage in sorted({stage for stage, _ in self.bodies}):
            places = [where for where in self.bodies if where[0] == stage]
            used = set[str]().union(*(self.used[where] for where in places))
            members = [n for n in early if n in used]
            if len(members) < 2:
                continue
            tuple_name, packing = self._packed("weights", stage, members)
            self.statements.insert(position, (packing, Phase.BEFORE))
            position += 1
            for where in places:
                self._unpack(where, tuple_name, members)

    def pack_made(self) -> None:
        """Pack the values defined by one pass that have the same users."""
        groups: dict[tuple[Place, frozenset[Place] | str, object], list[str]] = {}
        joint = self.reading.joint
        returned = set(names(self.reading.entry.returned))
        at_the_end = {n for s, phase in self.statements if phase is Phase.AFTER for n in names(s.args)}
        order = {name: number for number, name in enumerate(dict.fromkeys(joint.values()))}
        made = [(n, where) for where, body in self.bodies.items() for s in body for n in s.results]
        for name, where in made:
            if name not in self.outside[where] or self.reading.is_host(name):
                continue
            users = frozenset(w for w, used in self.used.items() if name in used and w != where)
            summed = is_sum(self.values[name].shares)
            ended = joint.get(name, name) in at_the_end or joint.get(name, name) in returned
            if summed and ended and not users:
                scales = {s.scale for s in leaf_shares(self.values[name].shares) if isinstance(s, Share)}
                groups.setdefault((where, "sums", (name in joint, frozenset(scales))), []).append(name)
            elif users and not ended:
                groups.setdefault((where, users, None), []).append(name)
        for (where, users, _), members in groups.items():
            if len(members) > 1:
                members.sort(key=lambda n: order[joint[n]] if n in joint else -1)
                self._pack_group(where, users, members)
        self._join()

    def _pack_group(self, where: Place, users: frozenset[Place] | str, members: list[str]) -> None:
        stage, kind = where
        if isinstance(users, str):
            hint = "sums" if kind is Pass.FORWARD else "gradients"
        else:
            hint = "kept" if {s for s, _ in users} == {stage} else "sent"
        tuple_name, packing = self._packed(hint, stage, members)
        self.bodies[where].append(packing)
        self.outside[where] = (self.outside[where] - set(members)) | {tuple_name}
        if isinstance(users, str) and members[0] in self.reading.joint:
            self.joint[tuple_name] = members
        elif isinstance(users, str):
            first = next((i for i, (_, p) in enumerate(self.statements) if p is Phase.AFTER), len(self.statements))
            unpacking = Apply(tuple(members), "UnpackTuple", (tuple_name,), facts=self._facts(members))
            self.statements.insert(first, (unpacking, Phase.AFTER))
        else:
            for user in users:
                self._unpack(user, tuple_name, members)

    def _join(self) -> None:
        """Tuples of terms of the same sums are terms of one sum."""
        whole: dict[tuple[str, ...], str] = {}
        joint = dict(self.reading.joint)
        for tuple_name, members in self.joint.items():
            totals = tuple(joint[name] for name in members)
            joint[tuple_name] = first = whole.setdefault(totals, tuple_name)
            if first == tuple_name:
                at = next((i for i, (_, p) in enumerate(self.statements) if p is Phase.AFTER), len(self.statements))
                self.statements.insert(
                    at, (Apply(totals, "UnpackTuple", (tuple_name,), facts=self._facts(members)), Phase.AFTER)
                )
        self.reading = replace(self.reading, joint=joint)

    def _packed(self, hint: str, stage: int, members: Sequence[str]) -> tuple[str, Apply]:
        """A new tuple of values, and the statement that makes it."""
        name, number = f"{hint}_{stage + 1}", 1
        while name in self.values:
            number += 1
            name = f"{hint}{number}_{stage + 1}"
        held = [self.values[n] for n in members]
        self.values[name] = Held(
            TupleType(tuple(type_of(v.full) for v in held)),
            TupleType(tuple(type_of(v.micro) for v in held)),
            tuple(v.shares for v in held),
        )
        return name, Apply((name,), "MakeTuple", tuple(members), facts=self._facts(members))

    def _facts(self, members: Sequence[str]) -> Facts:
        """The phase of the statement that makes the first of some values; that of weights is forward."""
        if members[0] in self.stated:
            return Facts(self.stated[members[0]].phase)
        return Facts("forward" if any(facts.phase for facts in self.stated.values()) else "")

    def _unpack(self, where: Place, tuple_name: str, members: Sequence[str]) -> None:
        used = self.used[where]
        if any(n in used for n in members):
            results = tuple(n if n in used else DISCARD for n in members)
            self.bodies[where].insert(0, Apply(results, "UnpackTuple", (tuple_name,)))
