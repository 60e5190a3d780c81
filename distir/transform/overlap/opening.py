"""Inlines calls in the entry function that compute gradients layer by layer, and traces items of tuples.

A stage's backward pass is a function, and several passes may be a `round`; a statement can be issued between two layers
only if their calls are inlined. Adjacent calls of one function on several devices are interleaved, so that each device
reaches its layers when its peers do. Which call gives an item is a matter of data flow, of which facts say nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import partial

from distir.ir import Apply, Arg, Call, Function, Module, Statement, names
from distir.ir.builder import namer
from distir.ir.dataflow import definitions
from distir.ir.rewrite import mapped, with_names
from distir.ops import OPS
from distir.transform.interleaving import interleaved_calls
from distir.transform.overlap.cutting import is_product


class Tuples:
    """The tuples that a function packs, unpacks, and adds up."""

    def __init__(self, function: Function) -> None:
        self.made = definitions(function)
        self._body = function.body

    def maker(self, name: Arg) -> Statement | None:
        """The statement that defines a value; None for a parameter or a constant."""
        return self._body[self.made[name]] if isinstance(name, str) and name in self.made else None

    def item(self, name: Arg) -> Arg:
        """The original value of a name that is unpacked from a tuple packed in this function."""
        while isinstance(name, str) and isinstance(maker := self.maker(name), Apply) and maker.op == "UnpackTuple":
            packed = self.items(maker.args[0])
            if packed is None:
                break
            name = packed[maker.results.index(name)]
        return name

    def items(self, name: Arg) -> Sequence[Arg] | None:
        """The items of a tuple that is packed in this function."""
        maker = self.maker(name)
        return maker.args if isinstance(maker, Apply) and maker.op == "MakeTuple" else None

    def last(self, args: Iterable[Arg]) -> str | None:
        """The value that is defined last; None if all are parameters or constants."""
        return max((name for name in names(args) if name in self.made), key=self.made.__getitem__, default=None)

    def total(self, name: Arg) -> tuple[Apply, int] | None:
        """The sum of tuples of which a value is an item, and the item's number."""
        maker = self.maker(name)
        if not isinstance(maker, Apply) or maker.op != "UnpackTuple" or not isinstance(name, str):
            return None
        total = self.maker(maker.args[0])
        if not isinstance(total, Apply) or total.op != "Sum":
            return None
        return total, maker.results.index(name)


def opened(module: Module, entry: Function, wanted: Collection[str]) -> Function:
    """The entry function with calls inlined that compute values in `wanted` by calls of their own."""
    called: dict[str, bool] = {}

    def is_opened(statement: Statement) -> bool:
        if not isinstance(statement, Call):
            return False
        function = module.functions[statement.function]
        if function.facts.within(statement.facts).phase == "forward":
            return False
        if function.name not in called:
            inner = [s.function for s in function.body if isinstance(s, Call)]
            called[function.name] = not function.kernel and any(not module.functions[name].kernel for name in inner)
        return called[function.name]

    while True:
        makers = {index for index in _makers(entry, wanted) if is_opened(entry.body[index])}
        if not makers:
            return entry
        named = _inner_names(module, entry, makers)
        entry = _written(module, mapped(entry, partial(with_names, names=named)), makers)
        wanted = [named.get(name, name) for name in wanted]


def _makers(entry: Function, wanted: Iterable[str]) -> set[int]:
    """The calls that compute values: through tuples, and through the last operand of ops other than products."""
    tuples = Tuples(entry)
    found: set[int] = set()
    for name in wanted:
        value: Arg | None = name
        while value is not None:
            value = tuples.item(value)
            maker = tuples.maker(value)
            if isinstance(maker, Call) and isinstance(value, str):
                found.add(tuples.made[value])
            total = tuples.total(value)
            if total is not None:
                last = tuples.last(total[0].args)
                packed = None if last is None else tuples.items(last)
                value = last if packed is None else packed[total[1]]
            else:
                value = tuples.last(maker.args) if isinstance(maker, Apply) and not is_product(maker) else None
    return found


def _written(module: Module, entry: Function, makers: Collection[int]) -> Function:
    """The entry function with some calls inlined, adjacent ones of one function interleaved.

    Statements between them, which gather or pack weights for one of them, move before them.
    """
    params = {p.name for p in entry.params}

    def moves(statement: Apply) -> bool:
        packs = statement.op in OPS and bool(OPS[statement.op].view)
        return packs or params.issuperset(names(statement.args))

    return interleaved_calls(module, entry, makers, moves)


def _inner_names(module: Module, entry: Function, makers: Iterable[int]) -> dict[str, str]:
    """By result of some calls: its name in the function, so that those of all its layers count on."""
    builder, found = namer(entry), dict[str, str]()
    for index in makers:
        call = entry.body[index]
        assert isinstance(call, Call)
        for name, inner in zip(call.results, module.functions[call.function].returned, strict=True):
            if name and isinstance(inner, str):
                found[name] = builder.fresh(inner)
    return found
