"""What a kind of overlap is, and the kinds by name.

    @kind
    def gradients(module: Module, *, bucket_bytes: int = 25 << 20) -> Overlapped:
        '''Reductions of gradients in buckets, beside the backward pass, on the stream `reduce`.'''

A kind is a function from a program to one with the same results, and a report. Its docstring is shown in the
documentation of the step `overlap`; its keyword-only parameters are options of the step. It raises `Inapplicable` if it
finds nothing to do. A kind that uses the simulator takes the `Machine` after the module.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import overload

from distir.ir import Constant, Module
from distir.ir.registry import DefinitionError, Registry
from distir.transform.steps import StepPart, options_of


class Inapplicable(Exception):  # noqa: N818 no error: other kinds may apply
    """A kind finds nothing to do; the message is the reason, to follow a colon."""


@dataclass(frozen=True, slots=True)
class Overlapped:
    """The result of a kind.

    `done`: a report of what it moved onto which stream; `left`: lines on what it did not move, and why.
    """

    module: Module
    done: str
    left: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Machine:
    """The hardware and sizes of named dimensions: the step's options `hardware` and `bind`."""

    hardware: str = "dgx-a100"
    bind: Mapping[str, Constant] = field(default_factory=dict[str, Constant])


Kind = Callable[..., Overlapped]

KINDS: Registry[StepPart] = Registry()
"""Every kind by its name."""


@overload
def kind(transform: Kind, /) -> Kind: ...


@overload
def kind(*, after: Sequence[str], asked: bool = False) -> Callable[[Kind], Kind]: ...


def kind(
    transform: Kind | None = None, /, *, after: Sequence[str] = (), asked: bool = False
) -> Kind | Callable[[Kind], Kind]:
    """Register a kind under its function's name. Raises TypeError for options of another kind, or of unsupported types.

    A kind raises `Inapplicable` if it finds nothing to do, StepError for an invalid option. `after`: the kinds applied
    before it, which take precedence. `asked`: whether it is applied only if named.
    """

    def register(transform: Kind) -> Kind:
        name, options = transform.__name__, options_of(transform)
        for other in KINDS.held.values():
            if other.name != name and (shared := options.keys() & other.options.keys()):
                raise TypeError(f"the kinds `{other.name}` and `{name}` both have an option `{min(shared)}`")
        KINDS.register(name, StepPart(name, transform, options, tuple(after), asked), transform.__module__)
        return transform

    return register if transform is None else register(transform)


def applied(kind: StepPart, module: Module, machine: Machine, options: Mapping[str, object]) -> Overlapped:
    """Apply a kind to a program. Raises what it raises, and DefinitionError for one that gives no Overlapped."""
    parameters = inspect.signature(kind.transform).parameters.values()
    asks = sum(p.kind is not p.KEYWORD_ONLY for p in parameters) > 1
    found = kind.transform(module, *((machine,) if asks else ()), **options)
    if not isinstance(found, Overlapped):
        raise DefinitionError(f"the kind of overlap `{kind.name}` gives {type(found).__name__}, expected Overlapped")
    return found
