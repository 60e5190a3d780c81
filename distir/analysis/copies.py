"""What each value that a distributed program returns must be: a copy, or a part, of which result on one device.

`@main.gather` takes one copy of what several devices hold. The others are no less results: each is what the next step
begins with on its device. So for all of them there is a claim, which proofs and verification check alike:

- new weights and state: what `@main.scatter` gives, of the sequential program's new values, for the parameter that they
  replace;
- any other value that gather leaves out: the same as the one that gather takes in its place.

Which result a value is of, the data flow of gather says, and of those that it leaves out their names there (`%loss_2`
beside `%loss_1`), else what they update. What the distributed entry function computes has no say in it, where it can be
avoided: it may be wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from distir.analysis.updates import ParameterUpdates, mentioned
from distir.ir import Function, Module, Type, types

_NUMBERS = re.compile(r"(?:[_.](?:\d+|part))+$")


@dataclass(frozen=True, slots=True)
class CopyClaim:
    """A value that the distributed entry function returns, and what it must be."""

    returned: int
    """Which of the values returned it is."""
    of: int
    """Which result of the sequential program it is a copy or a part of."""
    replaces: int | None = None
    """The parameter that it replaces in the next step: it must be placed as `.scatter` places that one."""
    like: tuple[int, ...] = ()
    """Where it replaces none: the values returned, taken by gather, one of which it must equal."""


@dataclass(frozen=True, slots=True)
class CopyClaims:
    """The claims of all values that a distributed program returns, beside what gather makes of those that it takes."""

    claims: tuple[CopyClaim, ...] = ()
    unclaimed: tuple[str, ...] = ()
    """What is not claimed: values returned that nothing relates, and copies of which no new value is returned."""
    updated: Mapping[int, int] = field(default_factory=dict[int, int])
    """By parameter of the sequential program: the result that is its new value."""


def copies(distributed: Module, sequential: Module) -> CopyClaims:
    """The claims of a distributed program. Both programs must check, and belong together."""
    main, entry = distributed.entry(), sequential.entry()
    gather = None if main is None else distributed.functions.get(f"{main.name}.gather")
    if main is None or entry is None or gather is None:
        return CopyClaims()  # it returns the results themselves
    scatter = distributed.functions.get(f"{main.name}.scatter")
    return _Relating(distributed, main, scatter, gather, ParameterUpdates(sequential).replaced(entry)).found()


@dataclass
class _Relating:
    """`updated`: by number of a sequential parameter, the result that is its new value."""

    module: Module
    main: Function
    scatter: Function | None
    gather: Function
    updated: Mapping[int, int]
    of: dict[int, int] = field(default_factory=dict[int, int])
    """By value returned: which result of the sequential program it is of."""
    taken: set[int] = field(default_factory=set[int])
    """The values that gather takes."""
    replaces: dict[int, int] = field(default_factory=dict[int, int])
    """By value returned: the parameter that it replaces in the next step."""

    def found(self) -> CopyClaims:
        self._taken_by_gather()
        self._left_out()
        values: dict[int, list[int]] = {}
        for i, k in sorted(self.of.items()):
            values.setdefault(k, []).append(i)
        lacking = [f"the next %{self.main.params[p].name}" for p in self._replaced(values)]
        unrelated = [self._name(i) for i in range(len(self.gather.params)) if i not in self.of and i not in self.taken]
        claims = [CopyClaim(i, self.of[i], p) for i, p in self.replaces.items()]
        claims += [claim for own in values.values() for claim in self._repeated(own)]
        return CopyClaims(tuple(sorted(claims, key=lambda c: c.returned)), (*unrelated, *lacking), self.updated)

    def _taken_by_gather(self) -> None:
        numbers = {p.name: i for i, p in enumerate(self.gather.params)}
        several = set[int]()
        for k, depends in enumerate(mentioned(self.gather)):
            for i in (numbers[name] for name in depends):
                self.taken.add(i)
                if self.of.setdefault(i, k) != k:
                    several.add(i)
        for i in several:
            del self.of[i]

    def _left_out(self) -> None:
        """Values that gather leaves out belong to what is called so and on another device, else to what they update."""
        params = self.gather.params
        named = [p.name for p in params]
        stems: dict[str, list[int]] = {}
        for i in self.of:
            stems.setdefault(_stem(named[i]), []).append(i)
        updates: ParameterUpdates | None = None
        for i, param in enumerate(params):
            if i in self.taken:
                continue
            like = [j for j in sorted(stems.get(_stem(named[i]), ())) if _are_alike(param.type, params[j].type)]
            if like:
                alone = len({self.of[j] for j in like}) == 1
                self.of[i] = self.of[like[0] if alone else _nearest(i, like, named)]
                continue
            updates = updates or ParameterUpdates(self.module)
            self._updating(i, {name for name, _ in updates.consists(self.main, self.main.returned[i])})

    def _updating(self, i: int, consists: set[str]) -> None:
        """A value that consists of one parameter, or of its update."""
        own = [p for p, param in enumerate(self.main.params) if param.name in consists]
        source = self._sources[own[0]] if len(own) == 1 else None
        if source is not None and source in self.updated:
            self.of[i], self.replaces[i] = self.updated[source], own[0]

    @cached_property
    def _sources(self) -> list[int | None]:
        """By parameter of the entry function: the sequential one that scatter makes it of."""
        if self.scatter is None:
            return [*range(len(self.main.params))]
        numbers = {p.name: i for i, p in enumerate(self.scatter.params)}
        return [numbers[of[0]] if len(of) == 1 else None for of in mentioned(self.scatter)]

    def _replaced(self, values: Mapping[int, list[int]]) -> Iterator[int]:
        """Find which parameters new weights and state replace, each one of its type. Yields what nothing replaces."""
        sources: dict[int, list[int]] = {}
        for p, source in enumerate(self._sources):
            if source is not None:
                sources.setdefault(source, []).append(p)
        replaced = {*self.replaces.values()}
        for source, k in self.updated.items():
            free = [p for p in sources.get(source, ()) if p not in replaced]
            for i in values.get(k, ()):
                own = next((p for p in free if self.main.params[p].type == self.gather.params[i].type), None)
                if own is not None and i not in self.replaces:
                    self.replaces[i] = own
                    free.remove(own)
            yield from free

    def _repeated(self, own: Sequence[int]) -> Iterator[CopyClaim]:
        """Of the values of a result: those that are no new weight or state, and that gather leaves out."""
        params = self.gather.params
        taken = [n for n, i in enumerate(own) if i in self.taken]
        repeats = repeated(taken, len(own))
        for n, i in enumerate(own):
            if i in self.taken or i in self.replaces:
                continue
            like = taken if repeats is None else [repeats[n]]
            equal = [own[j] for j in like if _are_alike(params[own[j]].type, params[i].type)]
            yield CopyClaim(i, self.of[i], like=tuple(equal or [own[j] for j in taken]))

    def _name(self, i: int) -> str:
        arg = self.main.returned[i]
        return f"%{arg}" if isinstance(arg, str) else f"%{self.gather.params[i].name}"


def repeated(taken: list[int], count: int) -> list[int] | None:
    """By place: which of those `taken` it repeats, where places number the devices of a mesh.

    Along some of its axes those taken are all parts of a value, along the others they are the first of equal ones. None
    where they are not so.
    """
    if count == 1 or taken[:1] != [0]:
        return [0] if taken == [0] else None
    block = next((n for n, i in enumerate(taken) if n != i), len(taken))
    step = block if block > 1 else taken[1] if len(taken) > 1 else count  # the size of the innermost axis
    outer = [i // step for i in taken[::block]]
    if count % step or taken != [o * step + n for o in outer for n in range(block)]:
        return None
    found = repeated(outer, count // step)
    return None if found is None else [o * step + (n if block > 1 else 0) for o in found for n in range(step)]


def _stem(name: str) -> str:
    """A name without the numbers behind it, as of devices, and of their parts (`%w_new_2_part`)."""
    return _NUMBERS.sub("", name)


def _nearest(i: int, among: Iterable[int], named: Sequence[str]) -> int:
    """The value whose name begins most as this one's; of several, the one before it."""
    return max(among, key=lambda j: (_in_common(named[i], named[j]), j < i, -abs(j - i)))


def _in_common(a: str, b: str) -> int:
    """How many characters two names begin with alike."""
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _are_alike(a: Type, b: Type) -> bool:
    """Whether two types differ in their devices alone."""
    return types.device_of(a) != types.device_of(b) and _nowhere(a) == _nowhere(b)


@lru_cache(maxsize=1 << 12)  # equal weights have equal types
def _nowhere(type: Type) -> Type:
    return types.on_device(type, None)
