"""How a training step is used again and again: which result takes over which parameter, and how weights get in and out.

What a step does to its parameters follows from its optimizer ops, which update an operand in its place: the result
that comes of a parameter's update (sent, gathered or cut as it may be) takes over that parameter, or on another device
the copy or the part of the same sequential parameter. Host state, as a step count, is taken over by the result that
comes of it alone. `@main.scatter` and `@main.gather` are cut in two: what they do for the state, and for the batch or
the other results. Knows no torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from distir.analysis import Analysis, Checker, Instance, check
from distir.analysis import result_names as named_results
from distir.ir import DISCARD, Apply, Arg, Call, Function, Module, Return, Type, names, types
from distir.ir.deep import Deep, finish
from distir.ir.roles import is_held
from distir.lower import templates
from distir.lower.folder import Entry, Lowered, lower, readme
from distir.lower.projection import callee
from distir.ops import OPS, Value, type_of
from distir.simulate import Bind, arguments

CARRYING = frozenset(
    [
        *("Identity", "Cast", "MakeTuple", "UnpackTuple", "Reshape", "Flatten", "Squeeze", "Unsqueeze"),
        *("Split", "Concat", "Slice", "Pad", "Transpose"),
    ]
)
"""Ops whose results are parts of their operands, beside those that communicate."""

ROWS = """\
| `training.py` | the step in a loop of your own: `init`, `state`, `step`, `weights`, `save` |
| `train.py` | such a loop, as `torchrun --nproc-per-node=... train.py --data module:function --save FILE` |
"""
"""What README.md says of these files."""


@dataclass(frozen=True, slots=True)
class Step:
    """A training step, by names of the entry's parameters and results."""

    takeover: Mapping[str, str]
    """Result -> parameter."""
    sequential: Mapping[str, str]
    """State parameter -> what the sequential program calls it."""
    entries: tuple[Entry, ...]
    """The entry itself; those that bring state and batch to their devices, and state and results back."""
    scattered: Mapping[str, Sequence[str]]
    """By entry: the parameters that its results are."""
    gathered: Mapping[str, Mapping[str, str]]
    """By entry: its parameters -> the entry's parameter (for state) or result."""
    gathered_names: Mapping[str, Sequence[str]]
    """By entry: what its results are called in the sequential program."""


def training_step(entry: Entry, bind: Bind) -> Step | None:
    """How the entry is used as a step; None if it hands no state on, so that it is none.

    `bind` gives sizes to named dimensions. Raises ProgramError for a program that does not check for its arguments.
    """
    analysis = check(entry.module)
    result_names = named_results(entry.function)
    return _step(analysis, entry, result_names, bind)


def lower_training(entry: Entry, bind: Bind, source: str = "") -> Lowered | None:
    """The folder of a training step, with `train.py`; None if the entry is no step. Raises what `lower` raises."""
    step = training_step(entry, bind)
    if step is None:
        return None
    described = {
        "entry": entry.name,
        "takeover": step.takeover,
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


def _step(analysis: Analysis, entry: Entry, result_names: Sequence[str], bind: Bind) -> Step | None:
    checker = analysis.domain
    module, main = entry.module, entry.function
    instance = analysis.instance(main, entry.args)
    scatter = module.functions.get(f"{main.name}.scatter")
    gather = module.functions.get(f"{main.name}.gather")
    state = {p.name: type_of(v) for p, v in zip(main.params, entry.args, strict=True) if is_held(p)}
    sequential = _sequential(main, scatter, state)
    takeover = _takeover(checker, instance, result_names, state, sequential)
    if not takeover:
        return None
    entries, scattered = [entry], dict[str, Sequence[str]]()
    gathered, gathered_names = dict[str, Mapping[str, str]](), dict[str, Sequence[str]]()
    if scatter is not None:
        for name, wanted in _halves(f"{main.name}.scatter", [p.name in state for p in main.params]):
            cut = sliced(scatter, wanted, name)
            entries.append(_entry(module, cut, name, bind))
            scattered[name] = [main.params[i].name for i in wanted]
    if gather is not None:
        origin = {p.name: result for p, result in zip(gather.params, result_names, strict=True)}
        comes = [_mentioned(gather, arg) for arg in gather.returned]
        is_state = [bool(found) and all(origin[n] in takeover for n in found) for found in comes]
        for name, wanted in _halves(f"{main.name}.gather", is_state):
            cut = sliced(gather, wanted, name)
            entries.append(_entry(module, cut, name, bind))
            gathered[name] = {p.name: takeover.get(origin[p.name], origin[p.name]) for p in cut.params}
            gathered_names[name] = [_result_name(gather, i, comes[i], origin, takeover, sequential) for i in wanted]
    return Step(takeover, sequential, tuple(entries), scattered, gathered, gathered_names)


def _halves(stem: str, is_state: Sequence[bool]) -> list[tuple[str, list[int]]]:
    halves = [
        (f"{stem}.state", [i for i, own in enumerate(is_state) if own]),
        (f"{stem}.rest", [i for i, own in enumerate(is_state) if not own]),
    ]
    return [(name, wanted) for name, wanted in halves if wanted]


def _entry(module: Module, function: Function, name: str, bind: Bind) -> Entry:
    whole = Module([*module, function])
    sizes = frozenset[str]().union(*(types.dim_names(p.type) for p in function.params))
    known = {name: size for name, size in bind.items() if name in sizes}
    return Entry(name, whole, function, arguments(function, known))


def _result_name(
    gather: Function,
    index: int,
    comes: Sequence[str],
    origin: Mapping[str, str],
    takeover: Mapping[str, str],
    sequential: Mapping[str, str],
) -> str:
    """What a gathered result is called: the parameter that it takes over, else its own name."""
    for name in comes:
        if origin[name] in takeover:
            return sequential[takeover[origin[name]]]
    arg = gather.returned[index]
    return arg.partition(".")[0] if isinstance(arg, str) else f"result_{index}"


def sliced(function: Function, wanted: Sequence[int], name: str) -> Function:
    """The function with some of its results alone, and what they need."""
    returned = tuple(function.returned[i] for i in wanted)
    needed = set(names(returned))
    body: list[Apply | Call] = []
    for statement in reversed(function.body):
        if isinstance(statement, (Apply, Call)) and needed.intersection(statement.results):
            body.append(statement)
            needed.update(names(statement.args))
    params = tuple(p for p in function.params if p.name in needed)
    stated = None if function.result_types is None else tuple(function.result_types[i] for i in wanted)
    return Function(name, params, (*reversed(body), Return(returned)), stated)


def _mentioned(function: Function, arg: Arg) -> list[str]:
    """The parameters that a result comes of, in their order."""
    needed = set(names((arg,)))
    for statement in reversed(function.body):
        if isinstance(statement, (Apply, Call)) and needed.intersection(statement.results):
            needed.update(names(statement.args))
    return [p.name for p in function.params if p.name in needed]


def _sequential(main: Function, scatter: Function | None, state: Mapping[str, Type]) -> dict[str, str]:
    """What the sequential program calls each state parameter."""
    if scatter is None:
        return {name: name for name in state}
    found: dict[str, str] = {}
    for param, arg in zip(main.params, scatter.returned, strict=True):
        comes = _mentioned(scatter, arg)
        if param.name in state:
            found[param.name] = comes[0] if comes else param.name
    return found


def _takeover(
    checker: Checker,
    instance: Instance,
    result_names: Sequence[str],
    state: Mapping[str, Type],
    sequential: Mapping[str, str],
) -> dict[str, str]:
    """Result -> the state parameter that it takes over: one each, of its own type and device."""
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
    """Which state parameters a value is an update of."""

    checker: Checker
    state: Mapping[str, Type]
    known: dict[tuple[int, str], frozenset[str]] = field(default_factory=dict[tuple[int, str], frozenset[str]])

    def of(self, instance: Instance, arg: Arg) -> frozenset[str]:
        """The entry's parameters whose update the value is, or is made of."""
        tagged = _of(finish(self._table(instance)), arg)
        return frozenset(name for name, updated in tagged if updated and name in self.state)

    def _table(self, instance: Instance) -> Deep[dict[str, frozenset[tuple[str, bool]]]]:
        """By value: the parameters that it is a part of, and whether they were updated on the way."""
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
        if op.inplace and op.inplace != "each" and op.communication is None:
            taken = dict(op.inplace)
            return [
                frozenset((name, True) for name, _ in given[taken[i]]) if i in taken else nothing for i in range(count)
            ]
        if op.communication is not None or statement.op in CARRYING:
            return [nothing.union(*given)] * count
        counted = [tags for arg, tags in zip(statement.args, given, strict=True) if isinstance(arg, str)]
        if statement.op == "Add" and len(counted) == 1:  # a count of steps
            return [frozenset((name, True) for name, _ in counted[0])]
        return [nothing] * count


def _of(table: Mapping[str, frozenset[tuple[str, bool]]], arg: Arg) -> frozenset[tuple[str, bool]]:
    return frozenset[tuple[str, bool]]().union(*(table.get(name, frozenset()) for name in names((arg,))))
