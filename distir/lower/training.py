"""A lowered program as a training step: the results that replace parameters, and how weights enter and leave.

A result that is the update of a parameter (`analysis/updates.py`) is its new value, for which the parameter is donated;
on another device, it is the new value of the replica or shard of the same sequential parameter. `@main.scatter` and
`@main.gather` are each split in two: one function for the state, one for the batch or the other results. Does not
depend on torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from distir.analysis import Analysis, Instance, check, index_bounds
from distir.analysis import result_names as named_results
from distir.analysis.updates import ParameterUpdates, mentioned
from distir.ir import Apply, Call, Function, Module, Return, Type, names, types
from distir.ir.roles import is_held
from distir.lower import templates
from distir.lower.folder import EntryPoint, Lowered, lower, readme
from distir.ops import Value, type_of
from distir.simulate import Bind, arguments

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
    module, main = entry.module, entry.function
    instance = analysis.instance(main, entry.args)
    scatter = module.functions.get(f"{main.name}.scatter")
    gather = module.functions.get(f"{main.name}.gather")
    state = {p.name: type_of(v) for p, v in zip(main.params, entry.args, strict=True) if is_held(p)}
    sequential = _sequential(main, scatter, state)
    donated = _donations(module, instance, result_names, state, sequential)
    if not donated:
        return None
    entries, scattered = [entry], dict[str, Sequence[str]]()
    gathered, gathered_names = dict[str, Mapping[str, str]](), dict[str, Sequence[str]]()
    if scatter is not None:
        # What the batch is an index of, only the step itself says.
        bounds = index_bounds(analysis.domain, analysis.instance(scatter, arguments(scatter, _known(scatter, bind))))
        for name, wanted in _halves(f"{main.name}.scatter", [p.name in state for p in main.params]):
            cut = sliced(scatter, wanted, name)
            entries.append(replace(_entry(module, cut, name, bind), bounds=bounds))
            scattered[name] = [main.params[i].name for i in wanted]
    if gather is not None:
        origin = {p.name: result for p, result in zip(gather.params, result_names, strict=True)}
        comes = mentioned(gather)
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


def _sequential(main: Function, scatter: Function | None, state: Mapping[str, Type]) -> dict[str, str]:
    """The name of each state parameter in the sequential program."""
    if scatter is None:
        return {name: name for name in state}
    found: dict[str, str] = {}
    for param, comes in zip(main.params, mentioned(scatter), strict=True):
        if param.name in state:
            found[param.name] = comes[0] if comes else param.name
    return found


def _donations(
    module: Module,
    instance: Instance,
    result_names: Sequence[str],
    state: Mapping[str, Type],
    sequential: Mapping[str, str],
) -> dict[str, str]:
    """Result -> the state parameter donated to it: one each, of the same type and device."""
    updates = ParameterUpdates(module)
    found: dict[str, str] = {}
    free = dict(state)
    for name, arg, w in zip(result_names, instance.function.returned, instance.state.returned, strict=True):
        updated = updates.of(instance.function, arg) & state.keys()
        wanted = {sequential[p] for p in updated}
        own = next((p for p in free if p in updated and _fits(free[p], w)), None)
        same = own or next((p for p in free if sequential[p] in wanted and _fits(free[p], w)), None)
        if same is not None:
            found[name] = same
            del free[same]
    return found


def _fits(type: Type, w: Value) -> bool:
    return type == type_of(w)
