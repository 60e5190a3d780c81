"""Selective recomputation (Korthikanti et al., arXiv:2205.05198): of the attention core alone.

The core is the computation between the product of queries and keys and the product with values: scores, mask, softmax,
dropout. Its memory grows with the square of the sequence length, and recomputing it from queries and keys, which are
retained, takes little time. Attention that is one op saves nothing of that size and has no core.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from distir.analysis import Analysis, Instance, State
from distir.ir import (
    DISCARD,
    HOST,
    NO_FACTS,
    Apply,
    Arg,
    Call,
    Function,
    Module,
    Param,
    Statement,
    TensorType,
    names,
    operands,
    ops_in,
    types,
)
from distir.ir.builder import namer
from distir.ir.calls import called_by
from distir.ir.dataflow import definitions, needed, uses
from distir.ir.rewrite import Rewriter, with_operands
from distir.ops import OPS, type_of
from distir.ops.loops import kind_of
from distir.transform.dead_code import pruned
from distir.transform.entry import entry_of
from distir.transform.inline import inline
from distir.transform.orphans import without_orphans

PRODUCTS = frozenset({"MatMul", "Einsum"})
"""The ops between which an attention core lies."""

BATCHED = 3
"""The least rank of operands in a product of activations; products with weights take matrices."""


def attention_core(function: Function, state: State) -> dict[str, Apply]:
    """The values of attention cores in a function, on a device, and the statements that compute them."""
    found: dict[str, Apply] = {}
    for statement in ops_in(function, *PRODUCTS):
        if _is_batched_product(statement, state, definitions(function)):
            inside, ended = _followers(statement, function)
            if ended and any(s.op == "Softmax" for s in inside):
                found.update((n, s) for s in inside for n in s.results if n != DISCARD and not _on_host(state, n))
    return found


def with_shallow_cores(module: Module) -> Module:
    """The module with calls inlined such that each softmax is in a function that the entry function calls.

    The VJP functions of such functions are called by the entry function too, so their residuals are visible there.
    """
    entry = entry_of(module)
    deep = called_by(f for f in module if f.name != entry.name)
    has_core = any(any(ops_in(module.functions[name], "Softmax")) for name in deep)
    return inline(module, tuple(sorted(deep))) if has_core else module


def _is_batched_product(statement: Apply, state: State, made: Collection[str]) -> bool:
    """Whether two activations are multiplied."""
    return len(statement.args) == 2 and all(
        isinstance(a, str) and a in made and _rank(state, a) >= BATCHED for a in statement.args
    )


def _rank(state: State, name: str) -> int:
    found = type_of(state[name])
    return len(found.shape or ()) if isinstance(found, TensorType) else 0


def _on_host(state: State, name: str) -> bool:
    return name in state and types.device_of(type_of(state[name])) == HOST


def _followers(product: Apply, function: Function) -> tuple[list[Apply], bool]:
    """A product and the ops after it up to the next products; whether all paths from it end in one."""
    found, used = [product], uses(function)
    ended = True
    for statement in found:  # grows while it is walked
        users = [function.body[i] for name in statement.results for i in used.get(name, ())]
        following = [user for user in users if isinstance(user, (Apply, Call))]
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
        state = instance_at(entry, analysis, places[0]).state
        core = attention_core(pair.function, state)
        dropped = {i: name for i, name in pair.values.items() if name in core}
        if dropped:
            writer.replace(pair, dropped, places, back)
    return writer.module()


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
    return writer.module()


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


def instance_at(entry: Function, analysis: Analysis, place: int) -> Instance:
    """The function that a statement of the entry function calls, with its arguments."""
    call = entry.body[place]
    assert isinstance(call, Call)
    return analysis.domain.instance(call.function, analysis.states[entry.name](call.args))


def pairs_of(
    module: Module, entry: Function, turn: int, calls: Collection[int]
) -> Iterable[tuple[Pair, list[int], dict[int, int]]]:
    """Functions with their VJP functions, the statements that call them, and by a VJP's call that of its function."""
    made = definitions(entry)
    by_functions: dict[tuple[str, str], dict[int, int]] = {}
    for index, statement in enumerate(entry.body[turn:], turn):
        if isinstance(statement, Call):
            makers = (made.get(arg, turn) for arg in statement.args if isinstance(arg, str))
            taken = Counter(i for i in makers if i < turn and isinstance(entry.body[i], Call))
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
        self.before, self.edit, self.names = module, Rewriter(entry), namer(module)
        self.written: list[Function] = []
        self.origins: dict[str, str] = {}
        """By new function: the function of which it is a variant."""

    def replace(self, pair: Pair, dropped: Mapping[int, str], places: Sequence[int], back: Mapping[int, int]) -> None:
        """Let calls of a function save no value in `dropped`, and calls of its VJP function recompute those values."""
        function, gone = pair.function, set(dropped.values())
        left = [i for i, arg in enumerate(function.returned) if arg not in gone]
        kept = Rewriter(function)
        kept.returns(function.returned[i] for i in left)
        forward = self._added(pruned(kept.done(result_types=None)), f"{function.name}Selective")
        written, more = _recomputing(pair, dropped)
        vjp = self._added(written, f"{forward}{pair.vjp.name.removeprefix(function.name)}")
        params = [p.name for p in function.params]
        for index, source in back.items():
            call, forward_call = self.edit[index], self.edit[source]
            assert isinstance(call, Call)
            assert isinstance(forward_call, Call)
            args = [arg for i, arg in enumerate(call.args) if i not in dropped]
            added = [forward_call.args[params.index(name)] for name in more]
            self.edit.replace(index, replace(call, function=vjp, args=(*args, *added), claims=()))
        for index in places:
            call = self.edit[index]
            assert isinstance(call, Call)
            saved = tuple(call.results[i] for i in left)
            self.edit.replace(index, replace(call, results=saved, function=forward, claims=()))

    def _added(self, function: Function, hint: str) -> str:
        """The name of a variant of the function that it is written of."""
        new = self.names.fresh(hint)
        self.origins[new] = function.name
        self.written.append(replace(function, name=new))
        return new

    def module(self) -> Module | None:
        """The module; a function that nothing calls any more leaves its name and its place to its variant.

        None if nothing is replaced.
        """
        if not self.written:
            return None
        left = self.before.functions
        functions = (*self.written, *self.before.replacing(self.edit.done()))
        found = without_orphans(self.before, functions, self.origins).functions
        return Module([*(f for n, f in found.items() if n not in left), *(found[n] for n in left if n in found)])


def _recomputing(pair: Pair, dropped: Mapping[int, str]) -> tuple[Function, list[str]]:
    """The VJP function that recomputes dropped values, and the function's parameters that it takes for that."""
    edit, own = Rewriter(pair.vjp), pair.vjp.params
    there: dict[str, Arg] = {name: own[i].name for i, name in pair.values.items() if i not in dropped}
    makers: dict[str, Apply | Call | Param] = {
        n: s for s in pair.function.body if isinstance(s, (Apply, Call)) for n in s.results
    }
    makers |= {p.name: p for p in pair.function.params}
    more: list[Param] = []
    again = {own[i].name: name for i, name in dropped.items()}
    for index, statement in edit:
        wanted = [name for name in names(operands(statement)) if name in again]
        for name in chain.from_iterable(needed((again[each],), makers, there) for each in wanted):
            maker = makers[name]
            if isinstance(maker, Param):
                there[name] = edit.fresh(name)
                more.append(maker)
                continue
            renamed = tuple(n if n == DISCARD else edit.fresh(f"{n}_again") for n in maker.results)
            edit.before(index, replace(with_operands(maker, there), results=renamed, claims=()), facts=NO_FACTS)
            there.update((n, r) for n, r in zip(maker.results, renamed, strict=True) if n != DISCARD)
        edit.replace(index, with_operands(statement, {name: there[again[name]] for name in wanted}))
    params = (p for i, p in enumerate(own) if i not in dropped)
    extra = (replace(p, name=there[p.name]) for p in more)
    return edit.done(params=(*params, *extra)), [p.name for p in more]
