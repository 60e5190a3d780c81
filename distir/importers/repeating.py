"""Deep models by a few of their layers: the first ones of each kind are exported, the others are like these.

What an export takes grows with the number of layers, and faster. Layers of one kind are modules of the same classes,
with weights of the same types and with the same settings: of these the exporter would write the same again. So it is
shown the first layers of a stack, until each kind has come twice; then the program is given a call for each of the
others. Where the program does not turn out as a chain of layers, all of them are exported.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, cast

from distir.importers.core import Imported, Weight
from distir.ir import Arg, Call, Facts, Function, Param, Statement, names, operands, results
from distir.ir.rewrite import facts_of, stated_with, with_operands

WORTHWHILE = 3
"""So many layers must be left out of a stack for that to be worth it."""


PLAIN = (bool, int, float, str, tuple, type(None))
"""What a setting of a module is."""


LISTS = (list, tuple)
"""What a configuration says of each layer is in."""


class Unlike(Exception):  # noqa: N818 - a finding about a program
    """The program is no chain of layers."""


@dataclass(frozen=True, slots=True)
class Stack:
    """A list of modules, by its path: of which kind each of its entries is, and how many of them are exported."""

    path: str
    kinds: tuple[int, ...]
    shown: int

    @property
    def distinct(self) -> int:
        """How many of the first entries hold one of each kind, and two at least."""
        return max(2, 1 + max(self.kinds.index(kind) for kind in self.kinds))

    def template(self, index: int) -> int:
        """The last exported entry of the same kind."""
        return max(i for i in range(self.shown) if self.kinds[i] == self.kinds[index])


@contextmanager
def thinned(nn_module: Any) -> Generator[list[Stack]]:
    """The module with the first entries alone of lists of many layers; afterwards as it was."""
    found: list[tuple[Any, str, Any, Stack]] = []
    for path, part in nn_module.named_modules():
        for name, child in _pairs(part.named_children()):
            if type(child).__name__ == "ModuleList" and not any(_within(path, s.path) for *_, s in found):
                stack = _stack(f"{path}.{name}" if path else name, list(child), getattr(part, "config", None))
                if len(stack.kinds) - stack.shown >= WORTHWHILE:
                    found.append((part, name, child, stack))
    try:
        for part, name, child, stack in found:
            setattr(part, name, child[: stack.shown])
        yield [stack for *_, stack in found]
    finally:
        for part, name, child, _ in found:
            setattr(part, name, child)


def stretched(found: Imported, stacks: Sequence[Stack], weights: Mapping[str, Weight]) -> Imported:
    """The program of the whole module, of whose stacks the first entries were exported.

    `weights`: of the whole module, by name. Raises Unlike.
    """
    main = found.functions["main"]
    for stack in stacks:
        if any(p.name.startswith(f"{stack.path}.") for p in main.params):  # else it is not run, as without images
            main = _stretched(main, stack)
    functions = [main if function.name == "main" else function for function in found]
    held = {**weights, **found.weights.entries}
    wanted = {p.name: held[p.name] for p in main.params if p.name in held}
    return Imported(functions, wanted, found.notes)


def _within(path: str, stack: str) -> bool:
    return path == stack or path.startswith(f"{stack}.")


def _stack(path: str, layers: list[Any], config: Any) -> Stack:
    seen: dict[object, int] = {}
    kinds = [seen.setdefault(_kind(layer, i, len(layers), config), len(seen)) for i, layer in enumerate(layers)]
    wanted = {kind: min(2, kinds.count(kind)) for kind in kinds}
    shown = next(n for n in range(len(kinds) + 1) if all(kinds[:n].count(k) >= m for k, m in wanted.items()))
    return Stack(path, tuple(kinds), shown)


def _kind(layer: Any, index: int, count: int, config: Any) -> object:
    """What decides of what a layer computes, but for the values of its weights."""
    parts = [(name, type(part).__qualname__, _settings(part, index)) for name, part in _pairs(layer.named_modules())]
    tensors = [*_pairs(layer.named_parameters()), *_pairs(layer.named_buffers())]
    types = [(name, tuple(tensor.shape), str(tensor.dtype), tensor.requires_grad) for name, tensor in tensors]
    fields = _fields(config)
    listed = [key for key, each in fields.items() if _is_by_layer(each, count)]
    stated = [(key, repr(fields[key][index])) for key in listed]
    return tuple(parts), tuple(types), tuple(stated)


def _is_by_layer(each: Any, count: int) -> bool:
    """Whether a setting is a list of what is said of each layer, and none of the numbers of all layers."""
    return isinstance(each, LISTS) and len(cast("Any", each)) == count and [*cast("Any", each)] != [*range(count)]


def _settings(part: Any, index: int) -> tuple[tuple[str, str], ...]:
    """The plain attributes of a module, without its own number, and without what it stores, which its results show."""
    fields = _fields(part)
    plain = [key for key, value in fields.items() if isinstance(value, PLAIN) and not key.startswith("store_")]
    return tuple(
        (key, repr(fields[key])) for key in plain if not (fields[key] == index and key.endswith(("idx", "id")))
    )


def _fields(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", getattr(value, "__dict__", {}))


def _pairs(named: Any) -> list[tuple[str, Any]]:
    return list(named)


def _stretched(main: Function, stack: Stack) -> Function:
    """The function with a call for each entry of a stack. Raises Unlike."""
    calls = _calls(main, stack)
    body, last = list(main.body), stack.shown - 1
    end = body.index(calls[last])
    params = _Params(main, stack)
    used = {p.name for p in main.params} | {name for s in body for name in results(s)}
    chain = [*calls]
    for index in range(stack.shown, len(stack.kinds)):
        like = stack.template(index)
        if like == 0 or len(chain[like - 1].results) != len(chain[index - 1].results):
            raise Unlike
        before = dict(zip(chain[like - 1].results, chain[index - 1].results, strict=True))
        args = tuple(_moved(arg, before, params, like, index) for arg in chain[like].args)
        given = tuple(_fresh(name, used) for name in chain[like].results)
        chain.append(replace(chain[like], results=given, args=args, facts=_further(chain[index - 1].facts, 1)))
    if len(chain[-1].results) != len(calls[last].results):
        raise Unlike
    ends = dict(zip(calls[last].results, chain[-1].results, strict=True))
    more = len(stack.kinds) - stack.shown
    rest = [_behind(with_operands(statement, ends), more) for statement in body[end + 1 :]]
    return replace(main, params=params.all(), body=(*body[: end + 1], *chain[stack.shown :], *rest))


def _behind(statement: Statement, layers: int) -> Statement:
    """A statement behind so many layers more."""
    return stated_with(statement, _further(facts_of(statement), layers))


def _further(facts: Facts, layers: int) -> Facts:
    return replace(facts, layer=facts.layer + layers) if facts.layer else facts


def _calls(main: Function, stack: Stack) -> list[Call]:
    """The call of each entry that was exported. Raises Unlike where there is not one, or others use inner results."""
    found: list[Call] = []
    for index in range(stack.shown):
        own = [s for s in main.body if any(name.startswith(f"{stack.path}.{index}.") for name in names(operands(s)))]
        if len(own) != 1 or not isinstance(own[0], Call):
            raise Unlike
        found.append(own[0])
    for i, call in enumerate(found[:-1]):
        users = [s for s in main.body if not set(call.results).isdisjoint(names(operands(s)))]
        if any(user not in found[i + 1 :] for user in users):
            raise Unlike
    if [main.body.index(call) for call in found] != sorted(main.body.index(call) for call in found):
        raise Unlike
    return found


class _Params:
    """The parameters of a function while those of further layers are added."""

    def __init__(self, main: Function, stack: Stack) -> None:
        self.main, self.stack = main, stack
        self.known = {p.name for p in main.params}
        self.added: set[str] = set()

    def like(self, name: str, template: int, index: int) -> str | None:
        """The parameter of a further layer that is what `name` is of its template; None if that is none of its own."""
        new = self._moved(name, template, index)
        if new is None or name not in self.known:
            return None
        self.added.add(new)
        return new

    def all(self) -> tuple[Param, ...]:
        """All of them, in the order of the module: where layers stand one after the other, the others follow these."""
        order: list[Param] = []
        for ours, run in groupby(self.main.params, lambda p: p.name.startswith(f"{self.stack.path}.")):
            shown = list(run)
            order += shown
            for index in range(self.stack.shown, len(self.stack.kinds) if ours else 0):
                like = self.stack.template(index)
                named = ((p, self._moved(p.name, like, index)) for p in shown)
                order += [replace(p, name=new) for p, new in named if new is not None and new in self.added]
        return tuple(order)

    def _moved(self, name: str, template: int, index: int) -> str | None:
        prefix = f"{self.stack.path}.{template}."
        return f"{self.stack.path}.{index}.{name[len(prefix) :]}" if name.startswith(prefix) else None


def _moved(arg: Arg, before: Mapping[str, str], params: _Params, like: int, index: int) -> Arg:
    if not isinstance(arg, str):
        return arg
    return params.like(arg, like, index) or before.get(arg, arg)


def _fresh(name: str, used: set[str]) -> str:
    if not name:
        return name
    stem = name.rstrip("0123456789").rstrip("_") or name
    new = next(n for n in (f"{stem}_{i}" for i in range(1, len(used) + 2)) if n not in used)
    used.add(new)
    return new
