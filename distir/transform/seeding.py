"""Seeds dropout: gives ops that drop in training a key for their random numbers, and the positions of examples.

The entry function takes `%seed`. Every function that leads to a `Dropout` takes the positions of the examples and a key
as its last parameters; `FoldIn` derives a key for each of its statements and calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from distir.analysis import Analysis
from distir.diagnostics.codes import transforms as codes
from distir.ir import (
    DISCARD,
    DTYPES,
    HOST,
    Apply,
    Attributes,
    Call,
    Dense,
    Function,
    Literal,
    Module,
    Param,
    Statement,
    TensorType,
    results,
)
from distir.ir.rewrite import Rewriter, bottom_up
from distir.transform.checking import checked
from distir.transform.dead_code import with_results
from distir.transform.entry import entry_of, refused
from distir.transform.order import DIFFERENTIATED, DISTRIBUTED
from distir.transform.sharding.batch import batch_places
from distir.transform.steps import step

SEED = TensorType(DTYPES["Int64"], (), HOST)
ROWS = TensorType(DTYPES["Int64"], (None,))

ATTENTION, KEY = "Attention", 6
"""Attention, which may drop softmax weights, and the position of its operand `key`."""


@step(before=(DIFFERENTIATED, DISTRIBUTED), changes_results=True)
def seeded(module: Module) -> Module:
    """Dropout from a seed: what drops in training draws its numbers from the new parameter `%seed`, a host integer.

    That is each `Dropout` in training and each `Attention` with `dropout`; every statement and every call gets a key of
    its own. Where the inputs declare a batch, what is dropped follows the examples: the distributed program drops what
    the sequential one does, also in microbatches. Masks of `Dropout` are kept for the gradient, one byte per element;
    attention's are drawn again. What has a key keeps it.

    Raises ProgramError if there is nothing to seed.
    """
    entry = entry_of(module)
    keyed = _Seeding(module, entry, {}).module()  # ops with a key relate their dimensions to the batch
    return _Seeding(module, entry, _batch_axes(checked(keyed), entry_of(keyed))).module()


def _batch_axes(analysis: Analysis, entry: Function) -> Mapping[str, Mapping[str, int]]:
    """By function and value: its batch dimension."""
    batch = {p.name: axis for p in entry.params if isinstance(axis := p.roles.get("batch"), int)}
    if not batch:
        return {}
    places = batch_places(analysis, entry, batch).places
    return {name: {value: axis for value, path, axis in found if not path} for name, found in places.items()}


@dataclass(frozen=True)
class _Seeding:
    before: Module
    entry: Function
    axes: Mapping[str, Mapping[str, int]]

    def module(self) -> Module:
        """The module with keys. Raises ProgramError where there is no `Dropout` that needs one."""
        located: dict[str, bool] = {}
        """By function that needs a key: whether it also needs the positions of the examples."""
        made = bottom_up(self.before, lambda function: self._function(function, located))
        if self.entry.name not in located:
            message = f"no `Dropout` in training is called from `@{self.entry.name}` that has no key"
            hint = "import the model with dropout, or give `Dropout` the operand `training_mode = true`"
            raise refused(self.entry, codes.NOTHING_TO_SEED, message, hint)
        return made

    def _wants_rows(self, function: Function, statement: Statement, located: Mapping[str, bool]) -> bool | None:
        """Whether a statement that needs a key needs positions; None where it needs no key."""
        if isinstance(statement, Call):
            return located.get(statement.function)
        return self._axis(function, statement) is not None if _is_unseeded(statement) else None

    def _axis(self, function: Function, statement: Statement) -> int | None:
        """The batch dimension of a statement's result."""
        return self.axes.get(function.name, {}).get(results(statement)[0])

    def _function(self, function: Function, located: dict[str, bool]) -> Function:
        each = ((i, self._wants_rows(function, s, located)) for i, s in enumerate(function.body))
        needing = {index: wants for index, wants in each if wants is not None}
        if not needing:
            return function
        located[function.name] = any(needing.values())
        edit = Rewriter(function)
        fresh = edit.fresh
        seed = fresh("seed")
        rows = fresh("rows") if located[function.name] else DISCARD
        params = [*function.params]
        if rows and function.name == self.entry.name:
            param = next(p for p in params if isinstance(p.roles.get("batch"), int))
            axis = param.roles["batch"]
            edit.behind(-1, Apply((rows,), "Positions", (param.name,), Attributes({"axis": axis} if axis else {})))
        elif rows:
            params.append(Param(rows, ROWS))
        params.append(Param(seed, SEED))
        for number, (index, wants) in enumerate(needing.items()):
            statement = function.body[index]
            key = fresh(f"{results(statement)[0] or 'dropped'}.key")
            edit.before(index, Apply((key,), "FoldIn", (seed, Literal(number))))
            if isinstance(statement, Call):
                edit.replace(index, replace(statement, args=(*statement.args, *((rows,) if wants else ()), key)))
            else:
                assert isinstance(statement, Apply)
                axis = self._axis(function, statement)
                if statement.op == ATTENTION:
                    own = statement.args[:KEY] + (DISCARD,) * (KEY - len(statement.args))
                    edit.replace(index, replace(statement, args=(*own, key, *(() if axis is None else (rows,)))))
                    continue
                mask = (fresh(f"{statement.results[0]}.mask"),) if len(statement.results) == 1 else ()
                args = (*statement.args[:3], key, *(() if axis is None else (rows,)))
                attrs = {name: value for name, value in statement.attrs.items() if name != "seed"}
                own = Attributes({**attrs, "axis": axis} if axis else attrs)
                dropped = with_results(statement, (*statement.results, *mask))
                edit.replace(index, replace(dropped, args=args, attrs=own))
        return edit.done(params=tuple(params))


def _is_unseeded(statement: Statement) -> bool:
    """Whether a statement drops elements and has no key."""
    if isinstance(statement, Apply) and statement.op == ATTENTION:
        key = statement.args[KEY] if len(statement.args) > KEY else DISCARD
        return bool(statement.attrs.get("dropout")) and key == DISCARD
    if not isinstance(statement, Apply) or statement.op != "Dropout" or len(statement.args) < 3:
        return False
    mode, key = statement.args[2], statement.args[3] if len(statement.args) > 3 else DISCARD
    if isinstance(mode, Literal):
        value = mode.value
        return key == DISCARD and bool(value.values[0] if isinstance(value, Dense) else value)
    return key == DISCARD and mode != DISCARD
