"""Offloads the state of the optimizer: it is with the host, and with its device while its weight is updated.

Updates follow each other, so the state of a few weights is on the device at a time: that which is updated, that of the
next weight, which is fetched meanwhile, and that of the one before, which is copied back.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from distir.cost import show_bytes
from distir.diagnostics.codes import transforms as codes
from distir.ir import (
    HOST,
    Apply,
    Arg,
    Function,
    Module,
    Param,
    Statement,
    TensorType,
    types,
)
from distir.ir.dataflow import uses
from distir.ir.rewrite import Rewriter, substituted
from distir.ops import OPS
from distir.ops.purpose import is_update
from distir.transform.entry import ROLES, entry_of, refused
from distir.transform.offload.activations import FETCHING, OFFLOADING
from distir.transform.steps import tell

AHEAD = 2
"""While a weight is updated, the state of the next one is fetched, which waits for the update before."""


def with_state_offloaded(module: Module) -> Module:
    """The module with the optimizer's state on hosts. Raises ProgramError where no update takes state."""
    entry = entry_of(module)
    moved = _state(entry)
    if not moved:
        message = f"no update in `@{entry.name}` takes optimizer state, so there is nothing to offload"
        hint = "apply it to a training step, as in `grad optimizer=adam offload=optimizer`, and before `fuse`"
        raise refused(entry, codes.NOTHING_TO_OFFLOAD, message, hint)
    sizes = [types.nbytes(param.type) for param in entry.params if param.name in moved]
    known = sum(size for size in sizes if isinstance(size, int))
    what = f", {show_bytes(known)}" if all(isinstance(size, int) for size in sizes) else ""
    tell(f"offload: {len(moved)} tensors of optimizer state{what}, on `{FETCHING}` and `{OFFLOADING}`")
    written = _Updates(Rewriter(entry), moved).rewritten()
    given = [k for k, param in enumerate(entry.params) if param.name in moved]
    returned = [k for k, (a, b) in enumerate(zip(entry.returned, written.returned, strict=True)) if a != b]
    scatter, gather = (module.functions.get(f"{entry.name}.{role}") for role in ROLES)
    ends = (scatter and _scattered(scatter, given), gather and _gathered(gather, returned))
    return module.replacing(written, *filter(None, ends))


def _state(entry: Function) -> set[str]:
    """The parameters with state, on devices, that an update takes in place, and nothing else uses."""
    used = uses(entry)
    params = {p.name for p in entry.params if "state" in p.roles and _is_tensor(p) and len(used.get(p.name, ())) == 1}
    return {name for s in entry.body if is_update(s) for name in _taken(s).values() if name in params}


def _is_tensor(param: Param) -> bool:
    of = param.type
    return isinstance(of, TensorType) and of.shape != () and of.device not in (None, HOST) and not of.offloaded


def _taken(statement: Statement) -> dict[int, str]:
    """By result of an update: the operand whose memory it takes."""
    assert isinstance(statement, Apply)
    inplace = OPS[statement.op].inplace
    pairs = [(i, i) for i in range(len(statement.results))] if inplace == "each" else list(dict(inplace).items())
    args = statement.args
    return {r: a for r, o in pairs if r < len(statement.results) and o < len(args) and isinstance(a := args[o], str)}


@dataclass(slots=True)
class _Updates:
    edit: Rewriter
    moved: Collection[str]
    before: dict[int, list[tuple[str, list[str]]]] = field(default_factory=dict[int, list[tuple[str, list[str]]]])
    """By device: what an update gives, and its copies on the host, of all that have been so far."""
    copied: dict[str, Arg] = field(default_factory=dict[str, Arg])
    params: dict[str, Param] = field(init=False)
    """By name."""

    def __post_init__(self) -> None:
        self.params = {param.name: param for param in self.edit.function.params}

    def rewritten(self) -> Function:
        """The entry function, which takes and returns state that is offloaded."""
        for index, statement in self.edit:
            if is_update(statement) and any(name in self.moved for name in _taken(statement).values()):
                assert isinstance(statement, Apply)
                self._update(index, statement)
        self.edit.returns(substituted(self.edit.function.returned, self.copied))
        params = tuple(offloaded(p) if p.name in self.moved else p for p in self.params.values())
        return self.edit.done(params=params, result_types=None)

    def _update(self, index: int, statement: Apply) -> None:
        """An update, for which its state is fetched, and copied back."""
        taken = {result: name for result, name in _taken(statement).items() if name in self.moved}
        (first, *_) = taken.values()
        before = self.before.setdefault(types.device_of(self.params[first].type) or 0, [])
        gradient = next(arg for arg in statement.args if isinstance(arg, str) and arg not in self.params)
        fetched: dict[str, Arg] = {}
        for name in taken.values():
            event = before[-AHEAD][0] if len(before) >= AHEAD else gradient
            begun = name
            if not fetched:  # on their stream, the others come behind the first one
                begun = self.edit.fresh(f"{name}.needed")
                self.edit.before(index, Apply((begun,), "After", (name, event), stream=FETCHING))
            fetched[name] = self.edit.fresh(f"{name}.fetched")
            self.edit.before(index, Apply((str(fetched[name]),), "Fetch", (begun,), stream=FETCHING))
        if len(before) >= AHEAD:  # the memory of what has been copied back is free from here on
            later = self.edit.fresh(f"{gradient}.behind_copies")
            self.edit.before(index, Apply((later,), "After", (gradient, *before[-AHEAD][1])))
            fetched[gradient] = later
        self.edit.rename(fetched, [index])
        copies: list[str] = []
        for result in taken:
            made = statement.results[result]
            copies.append(self.edit.fresh(f"{made}.offloaded"))
            self.copied[made] = copies[-1]
            self.edit.behind(index, Apply((copies[-1],), "Offload", (made, taken[result]), stream=OFFLOADING))
        before.append((statement.results[0], copies))


def offloaded(param: Param) -> Param:
    """The parameter, in the memory of its device's host."""
    assert isinstance(param.type, TensorType)
    return replace(param, type=replace(param.type, offloaded=True))


def _scattered(function: Function, places: Collection[int]) -> Function:
    """A function that gives the entry function's parameters, some of them offloaded."""
    edit, returned = Rewriter(function), [*function.returned]
    for k in places:
        value, returned[k] = returned[k], edit.fresh("offloaded")
        edit.before(edit.end, Apply((str(returned[k]),), "Offload", (value,)))
    edit.returns(returned)
    return edit.done(result_types=None)


def _gathered(function: Function, places: Collection[int]) -> Function:
    """A function that takes the entry function's results, some of them offloaded."""
    edit, params, instead = Rewriter(function), [*function.params], dict[str, Arg]()
    for k in places:
        instead[params[k].name] = edit.fresh(f"{params[k].name}.fetched")
        if isinstance(params[k].type, TensorType):
            params[k] = offloaded(params[k])
    edit.rename(instead)
    edit.behind(-1, *(Apply((str(new),), "Fetch", (old,)) for old, new in instead.items()))
    return edit.done(params=tuple(params))
