"""The state of delayed scaling: histories of the greatest magnitudes (amax) of quantised tensors.

A history is a parameter of the entry function, one per call of a function that quantises: a row for each tensor, a
column for each step, the newest first. The greatest value of a row is the expected amax of its tensor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from distir.ir import (
    DISCARD,
    DTYPES,
    Apply,
    Arg,
    Attributes,
    Call,
    Facts,
    Function,
    Literal,
    Module,
    Param,
    Statement,
    TensorType,
    names,
)
from distir.ir.builder import FunctionBuilder
from distir.ir.calls import callees_first
from distir.ir.rewrite import Rewriter

EXPECTED = "greatest"
"""The name hint for values that hold expected amax values."""


def with_history(
    f: FunctionBuilder, hint: str, tensors: int, steps: int, device: int, expected: str
) -> tuple[Param, Statement]:
    """A parameter for a history, and the statement that computes the `expected` amax values from it."""
    name = f.fresh(f"{hint}.history")
    stated = TensorType(DTYPES["Float32"], (tensors, steps), device)
    found = Apply((expected,), "ReduceMax", (name, Literal((1,))), Attributes({"keepdims": False}))
    return Param(name, stated, Attributes({"state": True})), found


@dataclass(frozen=True, slots=True)
class _Seen:
    """An amax value that a function returns: the slot of its tensor, in the history of which parameter."""

    param: int
    slot: int
    value: str


def recorded(module: Module, entry: Function) -> Module:
    """The training step that updates the histories and returns them after its other results.

    Functions return the amax of what they quantise as further results. Unchanged if no tensor has a history.
    """
    seen: dict[str, list[_Seen]] = {}
    functions: dict[str, Function] = {}
    for function in callees_first(module):
        writer = _Writer(function, Rewriter(function), seen)
        writer.write(entry.name)
        functions[function.name] = writer.written
        seen[function.name] = writer.found
    return Module(functions[f.name] for f in module)


@dataclass
class _Writer:
    """Writes one function that returns the amax of the tensors it quantises."""

    function: Function
    edit: Rewriter
    seen: Mapping[str, list[_Seen]]
    found: list[_Seen] = field(default_factory=list["_Seen"])
    by_value: dict[str, list[tuple[int, str]]] = field(default_factory=dict[str, "list[tuple[int, str]]"])
    """By value that holds expected amax values: their slots, and the amax of this step."""
    written: Function = field(init=False)

    def write(self, entry: str) -> None:
        """Write the function."""
        for index, statement in self.edit:
            self.edit.replace(index, self._statement(statement))
        if not self.by_value:
            self.written = self.function
            return
        returned = list(self.function.returned)
        if self.function.name == entry:
            self.edit.before(self.edit.end, *self._updates(returned), facts=Facts("optimizer"))
        else:
            params = {p.name: i for i, p in enumerate(self.function.params)}
            for name, values in self.by_value.items():
                for slot, value in values if name in params else ():
                    self.found.append(_Seen(params[name], slot, value))
                    returned.append(value)
        self.edit.returns(returned)
        self.written = self.edit.done(result_types=None)

    def _statement(self, statement: Statement) -> Statement:
        if isinstance(statement, Apply) and statement.op == "ScaleToFloat8":
            q, scale, now = (*statement.results, DISCARD, DISCARD)[:3]
            now = now or self.edit.fresh(f"{next(iter(names(statement.args)))}.now")
            slot = statement.attrs.get("slot", 0)
            self._note(statement.args[1], slot, now)
            return replace(statement, results=(q, scale, now), claims=())
        if isinstance(statement, Call) and self.seen.get(statement.function):
            more: list[str] = []
            for seen in self.seen[statement.function]:
                more.append(self.edit.fresh(seen.value))
                self._note(statement.args[seen.param], seen.slot, more[-1])
            return replace(statement, results=(*statement.results, *more), claims=())
        return statement

    def _note(self, expected: object, slot: object, now: str) -> None:
        assert isinstance(expected, str)
        assert isinstance(slot, int)
        self.by_value.setdefault(expected, []).append((slot, now))

    def _updates(self, returned: list[Arg]) -> list[Statement]:
        """The statements that compute the new histories, and those that are returned."""
        body: list[Statement] = []
        for expected, values in self.by_value.items():
            maker = self.edit.maker(expected)
            assert isinstance(maker, Apply)
            history = maker.args[0]
            assert isinstance(history, str)
            current = self.edit.fresh(history)
            body.append(Apply((current,), "NextHistory", (history,)))
            each = [self.edit.fresh(f"{now}.{EXPECTED}") for _, now in values]
            body += [Apply((greatest,), "Greatest", (now,)) for greatest, (_, now) in zip(each, values, strict=True)]
            # All at once, so that a maximum over several devices takes one collective.
            found, new = self.edit.fresh(f"{history}.now"), self.edit.fresh(f"{history}_new")
            body.append(Apply((found,), "Concat", tuple(each), Attributes({"axis": 0})))
            slots = tuple(slot for slot, _ in values)
            body.append(Apply((new,), "RecordGreatest", (current, found), Attributes({"slots": slots})))
            returned.append(new)
        return body
