"""Selective recomputation (Korthikanti et al., arXiv:2205.05198): of the attention core alone.

The core is the computation between the product of queries and keys and the product with values: scores, mask, softmax,
dropout. Its memory grows with the square of the sequence length, and recomputing it from queries and keys, which are
retained, takes little time. Attention that is one op saves nothing of that size and has no core.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from distir.analysis import Analysis, State
from distir.ir import (
    DISCARD,
    HOST,
    Apply,
    Arg,
    Call,
    Function,
    Module,
    Param,
    Return,
    Statement,
    TensorType,
    names,
    operands,
    types,
)
from distir.ir.builder import FunctionBuilder, namer
from distir.ir.calls import called_by
from distir.ir.rewrite import with_operands
from distir.ops import OPS, Value, type_of
from distir.ops.loops import kind_of
from distir.transform.dead_code import live
from distir.transform.entry import entry_of
from distir.transform.inline import inline
from distir.transform.orphans import without_orphans

PRODUCTS = frozenset({"MatMul", "Einsum"})
"""The ops between which an attention core lies."""

BATCHED = 3
"""The least rank of operands in a product of activations; products with weights take matrices."""

Makers = Mapping[str, Apply]


def attention_core(function: Function, state: State) -> dict[str, Apply]:
    """The values of attention cores in a function, on a device, and the statements that compute them."""
    users: dict[str, list[Apply | Call]] = {}
    made: set[str] = set()
    for statement in function.body:
        if isinstance(statement, (Apply, Call)):
            for name in set(names(statement.args)):
                users.setdefault(name, []).append(statement)
            made.update(statement.results)
    found: dict[str, Apply] = {}
    for statement in function.body:
        if isinstance(statement, Apply) and _is_batched_product(statement, state, made):
            inside, ended = _followers(statement, users)
            if ended and any(s.op == "Softmax" for s in inside):
                found.update((n, s) for s in inside for n in s.results if n != DISCARD and not _on_host(state, n))
    return found


def with_shallow_cores(module: Module) -> Module:
    """The module with calls inlined such that each softmax is in a function that the entry function calls.

    The VJP functions of such functions are called by the entry function too, so their residuals are visible there.
    """
    entry = entry_of(module)
    bodies = {f.name: f.body for f in module}
    deep = called_by(f for f in module if f.name != entry.name)
    waiting = [n for n in deep if any(isinstance(s, Apply) and s.op == "Softmax" for s in bodies[n])]
    if not waiting:
        return module
    return inline(module, tuple(sorted(deep)))


def _is_batched_product(statement: Apply, state: State, made: Collection[str]) -> bool:
    """Whether two activations are multiplied."""
    if statement.op not in PRODUCTS or len(statement.args) != 2:
        return False
    return all(isinstance(a, str) and a in made and _rank(state, a) >= BATCHED for a in statement.args)


def _rank(state: State, name: str) -> int:
    found = type_of(state[name])
    return len(found.shape or ()) if isinstance(found, TensorType) else 0


def _on_host(state: State, name: str) -> bool:
    return name in state and types.device_of(type_of(state[name])) == HOST


def _followers(product: Apply, users: Mapping[str, Sequence[Apply | Call]]) -> tuple[list[Apply], bool]:
    """A product and the ops after it up to the next products; whether all paths from it end in one."""
    found = [product]
    ended = True
    for statement in found:  # grows while it is walked
        following = [user for name in statement.results for user in users.get(name, ())]
        ended &= bool(following) or statement.results[1:] != ()
        for user in following:
            if isinstance(user, Apply) and user.op not in PRODUCTS:
                found += [] if user in found else [user]
            elif isinstance(user, Call):
                ended = False
    return found, ended


@dataclass(frozen=True, slots=True)
class Pair:
    """A function, its VJP function, and which parameters of the latter are values of the function."""

    function: Function
    vjp: Function
    values: Mapping[int, str]
    """By parameter of the VJP function: the parameter or returned value of the function."""


def recomputed_cores(
    module: Module, entry: Function, analysis: Analysis, turn: int, calls: Collection[int]
) -> Module | None:
    """The module with attention cores recomputed inside the functions of the backward pass.

    `turn`: the first statement of the backward pass. `calls`: the statements of the entry function with these cores.
    None if no call saves a core.
    """
    writer = _Variants(module, entry)
    for pair, places, back in pairs_of(module, entry, turn, calls):
        state = analysis.domain.instance(pair.function.name, arguments_of(entry, analysis, places[0])).state
        core = attention_core(pair.function, state)
        dropped = {i: name for i, name in pair.values.items() if name in core}
        if dropped:
            writer.replace(pair, dropped, places, back)
    return writer.module() if writer.changed else None


def recomputed_values(
    module: Module, entry: Function, turn: int, groups: Iterable[tuple[Mapping[str, Collection[str]], Collection[int]]]
) -> Module | None:
    """The module with values recomputed inside the functions of the backward pass.

    `groups`: by function, the values and the statements of the entry function that call it; each call is in one group.
    None if no value is saved for the backward pass.
    """
    writer = _Variants(module, entry)
    for values, calls in groups:
        for pair, places, back in pairs_of(module, entry, turn, calls):
            chosen = values.get(pair.function.name, ())
            dropped = {i: name for i, name in pair.values.items() if name in chosen}
            if dropped:
                writer.replace(pair, dropped, places, back)
    return writer.module() if writer.changed else None


def dropped_between_products(function: Function) -> frozenset[str]:
    """The values that a function returns, except results of attention and of its first, third, fifth, … product.

    If it returns not the product itself, but a value computed from it, such as rotated queries, that one is retained.
    """
    returned = set(names(function.returned))
    dropped: set[str] = set()
    kept: set[str] = set()
    """The values to retain, themselves or in the form of a value computed from them."""
    products = 0
    for statement in function.body:
        if not isinstance(statement, (Apply, Call)):
            continue
        is_product = isinstance(statement, Apply) and (
            statement.op in ("ScaledMatMul", "ScaledRaggedMatMul") or kind_of(OPS[statement.op]) == "product"
        )
        products += is_product
        stays = (is_product and products % 2 == 1) or (isinstance(statement, Apply) and statement.op == "Attention")
        if stays or (not is_product and not kept.isdisjoint(names(statement.args)) and statement.results[1:] == ()):
            kept.difference_update(names(statement.args))
            kept.update(name for name in statement.results if name not in returned)
        else:
            dropped.update(name for name in statement.results if name in returned)
    return frozenset(dropped)


def arguments_of(entry: Function, analysis: Analysis, place: int) -> tuple[Value, ...]:
    """The arguments of a call in the entry function, as analysed."""
    return tuple(analysis.states[entry.name](operands(entry.body[place])))


def pairs_of(
    module: Module, entry: Function, turn: int, calls: Collection[int]
) -> Iterable[tuple[Pair, list[int], dict[int, int]]]:
    """Functions with their VJP functions, the statements that call them, and by a VJP's call that of its function."""
    made = {name: i for i, s in enumerate(entry.body[:turn]) if isinstance(s, Call) for name in s.results if name}
    by_functions: dict[tuple[str, str], dict[int, int]] = {}
    for index, statement in enumerate(entry.body[turn:], turn):
        if isinstance(statement, Call):
            taken = Counter(made[arg] for arg in statement.args if isinstance(arg, str) and arg in made)
            for source, _ in taken.most_common(1):  # a value of the previous layer that all layers use
                called = entry.body[source]
                if source in calls and isinstance(called, Call):
                    by_functions.setdefault((called.function, statement.function), {})[index] = source
    for (name, vjp_name), back in by_functions.items():
        function, vjp = module.functions[name], module.functions[vjp_name]
        found = [_values(function, entry.body[source], entry.body[index]) for index, source in back.items()]
        values = {i: n for i, n in found[0].items() if all(other.get(i) == n for other in found)}
        yield Pair(function, vjp, values), sorted(set(back.values())), back


def _values(function: Function, call: Statement, back: Statement) -> dict[int, str]:
    """By operand of a VJP function's call: the corresponding value of the function."""
    assert isinstance(call, Call)
    assert isinstance(back, Call)
    known: dict[str, str] = {}
    for param, arg in zip(function.params, call.args, strict=True):
        if isinstance(arg, str):
            known.setdefault(arg, param.name)
    for result, arg in zip(call.results, function.returned, strict=True):
        if isinstance(arg, str) and result != DISCARD:
            known.setdefault(result, arg)
    return {i: known[arg] for i, arg in enumerate(back.args) if isinstance(arg, str) and arg in known}


class _Variants:
    """Writes functions that do not save some values, VJP functions that recompute them, and the calls of both."""

    def __init__(self, module: Module, entry: Function) -> None:
        self.before, self.entry = module, entry
        self.body = list(entry.body)
        self.written: list[Function] = []
        self.origins: dict[str, str] = {}
        """By new function: the function of which it is a variant."""
        self.changed = False
        self.functions = FunctionBuilder("")
        for name in module.functions:
            self.functions.fresh(name)

    def replace(self, pair: Pair, dropped: Mapping[int, str], places: Sequence[int], back: Mapping[int, int]) -> None:
        """Let calls of a function save no value in `dropped`, and calls of its VJP function recompute those values."""
        gone = set(dropped.values())
        vjp, more = self._vjp(pair, dropped)
        left = [i for i, arg in enumerate(pair.function.returned) if arg not in gone]
        kept = tuple(pair.function.returned[i] for i in left)
        body = (*live(pair.function.body[:-1], names(kept)), Return(kept))
        name = self._named(pair.function.name, f"{pair.function.name}Selective")
        forward = replace(pair.function, name=name, body=body, result_types=None)
        end = pair.vjp.name.removeprefix(pair.function.name)
        vjp = replace(vjp, name=self._named(pair.vjp.name, f"{name}{end}"))
        self.written += [forward, vjp]
        params = {p.name: i for i, p in enumerate(pair.function.params)}
        calls = {index: self.body[index] for index in back.values()}
        for index in places:
            call = self.body[index]
            assert isinstance(call, Call)
            saved = tuple(call.results[i] for i in left)
            self.body[index] = replace(call, results=saved, function=forward.name, claims=())
        for index, source in back.items():
            call, forward_call = self.body[index], calls[source]
            assert isinstance(call, Call)
            assert isinstance(forward_call, Call)
            args = [arg for i, arg in enumerate(call.args) if i not in dropped]
            added = [forward_call.args[params[name]] for name in more]
            self.body[index] = replace(call, function=vjp.name, args=(*args, *added), claims=())
        self.changed = True

    def _vjp(self, pair: Pair, dropped: Mapping[int, str]) -> tuple[Function, list[str]]:
        """The VJP function that recomputes dropped values, and the function's parameters that it takes for that."""
        f = namer(pair.vjp)
        called = {name: pair.vjp.params[i].name for i, name in pair.values.items() if i not in dropped}
        makers = {n: s for s in pair.function.body if isinstance(s, (Apply, Call)) for n in s.results}
        stated = {p.name: p for p in pair.function.params}
        more: list[str] = []
        extra: list[Param] = []
        body: list[Statement] = []
        again = {pair.vjp.params[i].name: name for i, name in dropped.items()}

        def need(name: str) -> None:
            """Write the statements that compute a value of the function, unless it is available."""
            waiting = [name]
            while waiting:
                current = waiting[-1]
                if current in called:
                    waiting.pop()
                    continue
                if current in stated:
                    called[current] = f.fresh(current)
                    extra.append(replace(stated[current], name=called[current]))
                    more.append(current)
                    continue
                maker = makers[current]
                missing = [n for n in names(maker.args) if n not in called]
                waiting += missing
                if not missing:
                    renamed = tuple(n if n == DISCARD else f.fresh(f"{n}_again") for n in maker.results)
                    written = with_operands(maker, called)
                    assert isinstance(written, (Apply, Call))
                    body.append(replace(written, results=renamed, claims=()))
                    called.update((n, r) for n, r in zip(maker.results, renamed, strict=True) if n != DISCARD)

        for statement in pair.vjp.body:
            renamed: dict[str, Arg] = {}
            for name in names(operands(statement)):
                if name in again:
                    need(again[name])
                    renamed[name] = called[again[name]]
            body.append(with_operands(statement, renamed) if renamed else statement)
        params = tuple(p for i, p in enumerate(pair.vjp.params) if i not in dropped)
        return replace(pair.vjp, params=(*params, *extra), body=tuple(body)), more

    def _named(self, name: str, hint: str) -> str:
        new = self.functions.fresh(hint)
        self.origins[new] = name
        return new

    def module(self) -> Module:
        """The module; a function that nothing calls any more leaves its name and its place to its variant."""
        entry = replace(self.entry, body=tuple(self.body))
        others = (entry if f.name == entry.name else f for f in self.before)
        found = without_orphans(self.before, (*self.written, *others), self.origins).functions
        left = self.before.functions
        return Module([*(f for n, f in found.items() if n not in left), *(found[n] for n in left if n in found)])
