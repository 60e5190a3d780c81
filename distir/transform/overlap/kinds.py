"""What a kind of overlap is, and the kinds by name.

    @kind
    def gradients(module: Module, *, bucket_bytes: int = 25 << 20) -> Overlapped:
        '''Reductions of gradients in buckets, beside the backward pass, on the stream `reduce`.'''

A kind is a function from a program to one whose results are the same, and what is to be said of it. Its docstring is
shown where the step `overlap` is documented, its keyword-only parameters are options of the step. Where it finds
nothing to do it raises `Inapplicable`. One that asks the simulator takes the `Machine` after the module. Knows no kind.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import overload

from distir.ir import Constant, Module
from distir.ir.registry import Registry
from distir.transform.steps import StepPart, options_of


class Inapplicable(Exception):  # noqa: N818 no error: other kinds may apply
    """A kind finds nothing to do: why, in words that follow a colon."""


@dataclass(frozen=True, slots=True)
class Overlapped:
    """What a kind has made of a program.

    `done`: what it has put on which stream, in words; `left`: what it has left alone, and why, a line each.
    """

    module: Module
    done: str
    left: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Machine:
    """Where the program is to run, and for which sizes: what `hardware` and `bind` of the step say."""

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
    """Register a kind under its own name. Raises TypeError for an option that another kind has, or no word could give.

    It raises `Inapplicable` where it finds nothing to do, StepError for a value of an option that does not fit.
    `after`: the kinds behind which it is applied, which take first what both could. `asked`: only where it is named.
    """

    def register(transform: Kind) -> Kind:
        name, options = transform.__name__, options_of(transform)
        for other in KINDS.values():
            if other.name != name and (shared := options.keys() & other.options.keys()):
                raise TypeError(f"the kinds `{other.name}` and `{name}` both have an option `{min(shared)}`")
        KINDS.register(name, StepPart(name, transform, options, tuple(after), asked), transform.__module__)
        return transform

    return register if transform is None else register(transform)


def applied(kind: StepPart, module: Module, machine: Machine, options: Mapping[str, object]) -> Overlapped:
    """What a kind makes of a program. Raises what it raises."""
    parameters = inspect.signature(kind.transform).parameters.values()
    asks = sum(p.kind is not p.KEYWORD_ONLY for p in parameters) > 1
    return kind.transform(module, *((machine,) if asks else ()), **options)
