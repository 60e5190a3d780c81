"""The buffers of delayed scaling: histories of the greatest magnitudes (amax) of quantised tensors.

A history is a parameter of the entry function, one per call of a function that quantises: a row for each tensor, a
column for each step, the newest first. The greatest value of a row is the expected amax of its tensor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from distir.ir import (
    DISCARD,
    DTYPES,
    Apply,
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
from distir.ir.rewrite import Rewriter, bottom_up

EXPECTED = "greatest"
"""The name hint for values that hold expected amax values."""


def with_history(
    f: FunctionBuilder, hint: str, tensors: int, steps: int, device: int, expected: str
) -> tuple[Param, Statement]:
    """A parameter for a history, and the statement that computes the `expected` amax values from it."""
    name = f.fresh(f"{hint}.history")
    stated = TensorType(DTYPES["Float32"], (tensors, steps), device)
    found = Apply((expected,), "ReduceMax", (name, Literal((1,))), Attributes({"keepdims": False}))
    return Param(name, stated, Attributes({"buffer": True})), found


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
    found = _Recording(entry.name)
    return bottom_up(module, found.rewritten)


@dataclass
class _Recording:
    """Writes functions that return the amax of the tensors they quantise."""

    entry: str
    seen: dict[str, list[_Seen]] = field(default_factory=dict[str, "list[_Seen]"])

    def rewritten(self, function: Function) -> Function:
        """The function; unchanged where it quantises nothing."""
        edit = Rewriter(function)
        by_value: dict[str, list[tuple[int, str]]] = {}
        """By value that holds expected amax values: their slots, and the amax of this step."""

        def note(expected: object, slot: object, now: str) -> None:
            assert isinstance(expected, str)
            assert isinstance(slot, int)
            by_value.setdefault(expected, []).append((slot, now))

        for index, statement in edit:
            if isinstance(statement, Apply) and statement.op == "ScaleToFloat8":
                q, scale, now = (*statement.results, DISCARD, DISCARD)[:3]
                now = now or edit.fresh(f"{next(iter(names(statement.args)))}.now")
                note(statement.args[1], statement.attrs.get("slot", 0), now)
                edit.replace(index, replace(statement, results=(q, scale, now), claims=()))
            elif isinstance(statement, Call) and (inside := self.seen[statement.function]):
                more = [edit.fresh(seen.value) for seen in inside]
                for seen, now in zip(inside, more, strict=True):
                    note(statement.args[seen.param], seen.slot, now)
                edit.replace(index, replace(statement, results=(*statement.results, *more), claims=()))
        self.seen[function.name] = found = list[_Seen]()
        if not by_value:
            return function
        if function.name == self.entry:
            new = self._updates(edit, by_value)
            edit.before(edit.end, *edit.written(), facts=Facts("optimizer"))
        else:
            params = {p.name: i for i, p in enumerate(function.params)}
            own = ((params[name], values) for name, values in by_value.items() if name in params)
            found += [_Seen(param, slot, value) for param, values in own for slot, value in values]
            new = [seen.value for seen in found]
        edit.returns((*function.returned, *new))
        return edit.done(result_types=None)

    def _updates(self, edit: Rewriter, by_value: Mapping[str, Sequence[tuple[int, str]]]) -> list[str]:
        """Write the new histories, and give them."""
        f, new = edit.builder, list[str]()
        for expected, values in by_value.items():
            maker = edit.maker(expected)
            assert isinstance(maker, Apply)
            history = maker.args[0]
            assert isinstance(history, str)
            (current,) = f.apply("NextHistory", history, results=(history,))
            each = [f.fresh(f"{now}.{EXPECTED}") for _, now in values]
            f.body += [Apply((greatest,), "Greatest", (now,)) for greatest, (_, now) in zip(each, values, strict=True)]
            # All at once, so that a maximum over several devices takes one collective.
            (found,) = f.apply("Concat", *each, results=(f"{history}.now",), axis=0)
            slots = tuple(slot for slot, _ in values)
            new += f.apply("RecordGreatest", current, found, results=(f"{history}_new",), slots=slots)
        return new
