"""A lowered program as a training step: the results that replace parameters, and how weights enter and leave.

Optimizer ops update an operand in place. A result that is derived from the update of a parameter (also through sends,
gathers and splits) is that parameter's new value, for which the parameter is donated; on another device, it is the new
value of the replica or shard of the same sequential parameter. Host state, such as a step count, is donated to the
result that depends on it alone. `@main.scatter` and `@main.gather` are each split in two: one function for the state,
one for the batch or the other results. Does not depend on torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from distir.analysis import Analysis, Checker, Instance, check, index_bounds
from distir.analysis import result_names as named_results
from distir.ir import DISCARD, Apply, Arg, Call, Function, Module, Return, Type, names, types
from distir.ir.deep import Deep, finish
from distir.ir.roles import is_held
from distir.lower import templates
from distir.lower.folder import EntryPoint, Lowered, lower, readme
from distir.lower.projection import callee
from distir.ops import OPS, Value, type_of
from distir.simulate import Bind, arguments

REARRANGING = frozenset(
    [
        *("Identity", "Cast", "MakeTuple", "UnpackTuple", "Reshape", "Flatten", "Squeeze", "Unsqueeze"),
        *("Split", "Concat", "Slice", "Pad", "Transpose"),
    ]
)
"""Ops whose results consist of elements of their operands, besides communication."""

ROWS = """\
| `training.py` | the step for a custom training loop: `init`, `state`, `step`, `weights`, `save` |
| `train.py` | a training loop: `torchrun --nproc-per-node=... train.py --data module:function --save FILE` |
"""
"""The rows of README.md for these files."""


@dataclass(frozen=True, slots=True)
class LoweredStep:
    """The interface of a training step, in names of the entry function's parameters and results."""

    donated: Mapping[str, str]
    """Result -> the parameter that is donated to it: its previous value."""
    sequential: Mapping[str, str]
    """State parameter -> its name in the sequential program."""
    entries: tuple[EntryPoint, ...]
    """The entry point itself, and those that scatter the state and the batch, and gather the state and the results."""
    scattered: Mapping[str, Sequence[str]]
    """By entry point: the step's parameters that its results are passed to."""
    gathered: Mapping[str, Mapping[str, str]]
    """By entry point: its parameter -> the parameter (for state) or the result of the step that is passed."""
    gathered_names: Mapping[str, Sequence[str]]
    """By entry point: the names of its results in the sequential program."""


def training_step(entry: EntryPoint, bind: Bind) -> LoweredStep | None:
    """The interface of the entry point as a training step; None if it updates no state.

    `bind`: the sizes of named dimensions. Raises ProgramError for a program with errors.
    """
    analysis = check(entry.module)
    result_names = named_results(entry.function)
    return _step(analysis, entry, result_names, bind)


def lower_training(entry: EntryPoint, bind: Bind, source: str = "") -> Lowered | None:
    """The folder of a training step, with `train.py`; None if the entry point is none. Raises as `lower`."""
    step = training_step(entry, bind)
    if step is None:
        return None
    described = {
        "entry": entry.name,
        "donated": step.donated,
        "sequential": step.sequential,
        "scattered": step.scattered,
        "gathered": step.gathered,
        "gathered_names": step.gathered_names,
    }
    lowered = lower(step.entries, source, {"training": described})
    files = {
        "training.py": templates.text("training"),
        "train.py": templates.text("train"),
        "README.md": readme(lowered.ranks, source, ROWS),
    }
    return replace(lowered, files={**lowered.files, **files})


def _step(analysis: Analysis, entry: EntryPoint, result_names: Sequence[str], bind: Bind) -> LoweredStep | None:
    checker = analysis.domain
    module, main = entry.module, entry.function
    instance = analysis.instance(main, entry.args)
    scatter = module.functions.get(f"{main.name}.scatter")
    gather = module.functions.get(f"{main.name}.gather")
    state = {p.name: type_of(v) for p, v in zip(main.params, entry.args, strict=True) if is_held(p)}
    sequential = _sequential(main, scatter, state)
    donated = _donations(checker, instance, result_names, state, sequential)
    if not donated:
        return None
    entries, scattered = [entry], dict[str, Sequence[str]]()
    gathered, gathered_names = dict[str, Mapping[str, str]](), dict[str, Sequence[str]]()
    if scatter is not None:
        # What the batch is an index of, only the step itself says.
        bounds = index_bounds(checker, analysis.instance(scatter, arguments(scatter, _known(scatter, bind))))
        for name, wanted in _halves(f"{main.name}.scatter", [p.name in state for p in main.params]):
            cut = sliced(scatter, wanted, name)
            entries.append(replace(_entry(module, cut, name, bind), bounds=bounds))
            scattered[name] = [main.params[i].name for i in wanted]
    if gather is not None:
        origin = {p.name: result for p, result in zip(gather.params, result_names, strict=True)}
        comes = [_mentioned(gather, arg) for arg in gather.returned]
        is_state = [bool(found) and all(origin[n] in donated for n in found) for found in comes]
        for name, wanted in _halves(f"{main.name}.gather", is_state):
            cut = sliced(gather, wanted, name)
            entries.append(_entry(module, cut, name, bind))
            gathered[name] = {p.name: donated.get(origin[p.name], origin[p.name]) for p in cut.params}
            gathered_names[name] = [_result_name(gather, i, comes[i], origin, donated, sequential) for i in wanted]
    return LoweredStep(donated, sequential, tuple(entries), scattered, gathered, gathered_names)


def _halves(stem: str, is_state: Sequence[bool]) -> list[tuple[str, list[int]]]:
    halves = [
        (f"{stem}.state", [i for i, own in enumerate(is_state) if own]),
        (f"{stem}.rest", [i for i, own in enumerate(is_state) if not own]),
    ]
    return [(name, wanted) for name, wanted in halves if wanted]


def _entry(module: Module, function: Function, name: str, bind: Bind) -> EntryPoint:
    return EntryPoint(name, Module([*module, function]), function, arguments(function, _known(function, bind)))


def _known(function: Function, bind: Bind) -> Bind:
    """The sizes of the dimensions that a function names."""
    sizes = frozenset[str]().union(*(types.dim_names(p.type) for p in function.params))
    return {name: size for name, size in bind.items() if name in sizes}


def _result_name(
    gather: Function,
    index: int,
    comes: Sequence[str],
    origin: Mapping[str, str],
    donated: Mapping[str, str],
    sequential: Mapping[str, str],
) -> str:
    """The name of a gathered result: that of the parameter donated to it, or else its own."""
    for name in comes:
        if origin[name] in donated:
            return sequential[donated[origin[name]]]
    arg = gather.returned[index]
    return arg.partition(".")[0] if isinstance(arg, str) else f"result_{index}"


def sliced(function: Function, wanted: Sequence[int], name: str) -> Function:
    """The function restricted to some of its results, without dead code."""
    returned = tuple(function.returned[i] for i in wanted)
    needed = set(names(returned))
    body: list[Apply | Call] = []
    for statement in reversed(function.body):
        if isinstance(statement, (Apply, Call)) and needed.intersection(statement.results):
            body.append(statement)
            needed.update(names(statement.args))
    params = tuple(p for p in function.params if p.name in needed)
    stated = None if function.result_types is None else tuple(function.result_types[i] for i in wanted)
    return Function(name, params, (*reversed(body), Return(returned)), stated, function.kernel)


def _mentioned(function: Function, arg: Arg) -> list[str]:
    """The parameters that a result depends on, in their order."""
    needed = set(names((arg,)))
    for statement in reversed(function.body):
        if isinstance(statement, (Apply, Call)) and needed.intersection(statement.results):
            needed.update(names(statement.args))
    return [p.name for p in function.params if p.name in needed]


def _sequential(main: Function, scatter: Function | None, state: Mapping[str, Type]) -> dict[str, str]:
    """The name of each state parameter in the sequential program."""
    if scatter is None:
        return {name: name for name in state}
    found: dict[str, str] = {}
    for param, arg in zip(main.params, scatter.returned, strict=True):
        comes = _mentioned(scatter, arg)
        if param.name in state:
            found[param.name] = comes[0] if comes else param.name
    return found


def _donations(
    checker: Checker,
    instance: Instance,
    result_names: Sequence[str],
    state: Mapping[str, Type],
    sequential: Mapping[str, str],
) -> dict[str, str]:
    """Result -> the state parameter donated to it: one each, of the same type and device."""
    origins = _Origins(checker, state)
    found: dict[str, str] = {}
    free = dict(state)
    for name, arg, w in zip(result_names, instance.function.returned, instance.state.returned, strict=True):
        updated = origins.of(instance, arg)
        wanted = {sequential[p] for p in updated}
        own = next((p for p in free if p in updated and _fits(free[p], w)), None)
        same = own or next((p for p in free if sequential[p] in wanted and _fits(free[p], w)), None)
        if same is not None:
            found[name] = same
            del free[same]
    return found


def _fits(type: Type, w: Value) -> bool:
    return type == type_of(w)


@dataclass
class _Origins:
    """The state parameters that each value is an update of."""

    checker: Checker
    state: Mapping[str, Type]
    known: dict[tuple[int, str], frozenset[str]] = field(default_factory=dict[tuple[int, str], frozenset[str]])

    def of(self, instance: Instance, arg: Arg) -> frozenset[str]:
        """The entry function's parameters whose updates the value consists of."""
        tagged = _of(finish(self._table(instance)), arg)
        return frozenset(name for name, updated in tagged if updated and name in self.state)

    def _table(self, instance: Instance) -> Deep[dict[str, frozenset[tuple[str, bool]]]]:
        """By value: the parameters that it consists of, and whether they were updated."""
        if id(instance) not in self._tables:
            table = {p.name: frozenset({(p.name, False)}) for p in instance.function.params}
            self._tables[id(instance)] = table
            for statement in instance.function.body:
                if isinstance(statement, (Apply, Call)):
                    tags = yield from self._statement(instance, statement, table)
                    table.update((n, t) for n, t in zip(statement.results, tags, strict=True) if n != DISCARD)
        return self._tables[id(instance)]

    _tables: dict[int, dict[str, frozenset[tuple[str, bool]]]] = field(
        default_factory=dict[int, "dict[str, frozenset[tuple[str, bool]]]"]
    )

    def _statement(
        self, instance: Instance, statement: Apply | Call, table: Mapping[str, frozenset[tuple[str, bool]]]
    ) -> Deep[list[frozenset[tuple[str, bool]]]]:
        nothing = frozenset[tuple[str, bool]]()
        given = [_of(table, arg) for arg in statement.args]
        if isinstance(statement, Call):
            inner = callee(self.checker, instance, statement)
            own = {p.name: tags for p, tags in zip(inner.function.params, given, strict=True)}
            inside = yield self._table(inner)
            return [
                frozenset((name, updated or again) for param, updated in _of(inside, arg) for name, again in own[param])
                for arg in inner.function.returned
            ]
        op = OPS[statement.op]
        count = len(statement.results)
        if op.communication is not None and op.inplace == "each":
            return [nothing.union(*given)] * count
        taken = dict(op.inplace) if op.inplace != "each" else {}
        if taken.get(0) == 0 and op.communication is None:
            return [
                frozenset((name, True) for name, _ in given[taken[i]]) if i in taken else nothing for i in range(count)
            ]
        if op.communication is not None or statement.op in REARRANGING:
            return [nothing.union(*given)] * count
        counted = [tags for arg, tags in zip(statement.args, given, strict=True) if isinstance(arg, str)]
        if statement.op == "Add" and len(counted) == 1:  # a step count
            return [frozenset((name, True) for name, _ in counted[0])]
        return [nothing] * count


def _of(table: Mapping[str, frozenset[tuple[str, bool]]], arg: Arg) -> frozenset[tuple[str, bool]]:
    return frozenset[tuple[str, bool]]().union(*(table.get(name, frozenset()) for name in names((arg,))))
