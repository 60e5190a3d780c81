"""The step `overlap`: applies its kinds in turn, and reports the simulated gain of each."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from distir.analysis.provenance import with_phases
from distir.cost import show_seconds
from distir.diagnostics import Diagnostic, Note, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.diagnostics.spelling import nearest
from distir.ir import Apply, Call, Constant, Function, Module, Part, Site
from distir.simulate import BindError
from distir.transform.checking import check_result, checked
from distir.transform.entry import entry_of
from distir.transform.mesh.on_machine import simulated
from distir.transform.overlap.kinds import KINDS, Inapplicable, Machine, Overlapped, applied
from distir.transform.overlap.runs import in_runs
from distir.transform.steps import StepError, always, bound_sizes, in_order, is_heard, step, tell

EVERYTHING = "all"
"""The word for all kinds, those included that are applied only if they are named."""


@step(
    after=("grad", "checkpoint", "attention", "fp8", "accumulate", "pp", "tp", "ep", "dp", "dtp", "zero", "mesh"),
    on_mesh=True,
    choices={"value": KINDS},
    parts=KINDS,
    tries=always("overlap"),
)
def overlap(
    module: Module,
    value: tuple[str, ...] = (),
    *,
    hardware: str = "dgx-a100",
    bind: tuple[str, ...] = (),
    **options: Any,
) -> Module:
    """Communication beside computation: what communicates is put on streams of its own, and issued early.

    `overlap` does all that applies but `passes`, `overlap=all` that too, `overlap=gradients,weights` what is named.
    Apply it to a distributed program, after `dp`, `tp`, `pp` and `zero`, or `mesh`, on which it stays. The results stay
    the same: a stream changes what a program costs, never what it means.

    For each kind it says what is on which stream now, what it left alone, and what that gains in a simulation on
    `hardware`. `bind=B=64` sets sizes.

    Raises ProgramError where nothing applies, or a kind that is named does not.
    """
    checked(module)
    entry, sizes = entry_of(module), bound_sizes(bind)
    value = () if (everything := value == (EVERYTHING,)) else value
    kinds = tuple(KINDS) if everything else value
    found = overlapped(module, kinds, options, Machine(hardware, sizes))
    named = {name: why for name, why in found.refused.items() if name in value}
    if refused := named if found.done else found.refused:
        raise ProgramError([_refusal(module, entry, refused)])
    if is_heard():
        _report(found, hardware, sizes)
    return in_runs(found.module)


@dataclass(frozen=True, slots=True)
class OverlapsFound:
    """The results of several kinds: the initial program, what each kind did, and why others do not apply."""

    before: Module
    done: Mapping[str, Overlapped]
    refused: Mapping[str, str]

    @property
    def module(self) -> Module:
        """The program after the last kind; the initial one if none applies."""
        return [self.before, *(each.module for each in self.done.values())][-1]


def overlapped(
    module: Module,
    kinds: Collection[str] = (),
    options: Mapping[str, Any] | None = None,
    machine: Machine = Machine(),  # noqa: B008 - frozen
) -> OverlapsFound:
    """A program after all kinds of overlap that apply, or of those that are named. What does not apply is no mistake.

    Raises StepError for a kind that there is not, an option of none of them, or a value of one that does not fit;
    ProgramError where a kind gives the next one a program that does not check, with DIR606. What the last one gives is
    for the caller to check.
    """
    given = options or {}
    module = with_phases(module, entry_of(module))
    for name in kinds:
        if name not in KINDS:
            near = nearest(name, KINDS)
            hint = f"did you mean `{near}`?" if near else f"the kinds are {', '.join(KINDS)}"
            raise StepError(f"there is no kind of overlap `{name}`; {hint}")
    chosen = in_order([kind for kind in KINDS.values() if kind.name in kinds or not (kinds or kind.asked)])
    for option in given:
        if not any(option in kind.options for kind in chosen):
            owner = next((kind.name for kind in KINDS.values() if option in kind.options), None)
            raise StepError(
                f"there is no option `{option}`" if owner is None else f"`{option}` is an option of the kind `{owner}`"
            )
    versions, done, refused = [module], dict[str, Overlapped](), dict[str, str]()
    for kind in chosen:
        if done:
            check_result(f"overlap={next(reversed(done))}", *versions[-2:])
        own = {name: value for name, value in given.items() if name in kind.options}
        try:
            done[kind.name] = applied(kind, versions[-1], machine, own)
        except Inapplicable as why:
            refused[kind.name] = str(why)
            continue
        versions.append(done[kind.name].module)
    return OverlapsFound(module, done, refused)


def _refusal(module: Module, entry: Function, refused: Mapping[str, str]) -> Diagnostic:
    site = Site(entry.name, None, Part("name"))
    message = f"nothing in `@{entry.name}` can be overlapped"
    if len(refused) == 1:
        ((name, why),) = refused.items()
        message = f"`{name}` does not apply to `@{entry.name}`: {why}"
        return Diagnostic(codes.NOTHING_TO_OVERLAP, site, message, help=_aside(module))
    notes = tuple(Note(f"`{name}`: {why}") for name, why in refused.items())
    hint = _aside(module) or "apply it to a distributed program: `grad optimizer=adam dp=4 overlap`"
    return Diagnostic(codes.NOTHING_TO_OVERLAP, site, message, notes, hint)


def _aside(module: Module) -> str | None:
    """What may be the reason where a program has streams already."""
    streams = dict.fromkeys(s.stream for f in module for s in f.body if isinstance(s, (Apply, Call)) and s.stream)
    names = ", ".join(f"`{name}`" for name in streams)
    return f"it leaves alone what is on a stream already, here on {names}" if streams else None


def _report(found: OverlapsFound, hardware: str, bind: Mapping[str, Constant]) -> None:
    """Report what each kind did, and its gain."""
    before = _latency(found.before, hardware, bind)
    for name, each in found.done.items():
        after = before if isinstance(before, str) else _latency(each.module, hardware, bind)
        tell(f"{name}: {each.done}; {_gain(before, after, hardware)}")
        for line in each.left:
            tell(f"{name}: {line}")
        before = after
    for name, why in found.refused.items():
        tell(f"{name}: does not apply: {why}")


def _latency(module: Module, hardware: str, bind: Mapping[str, Constant]) -> float | str:
    """The latency of a program in seconds, or the reason why it is unknown."""
    try:
        return simulated(module, hardware, bind=bind).latency_s
    except ProgramError as error:
        return error.diagnostics[0].message
    except BindError as error:
        return str(error)


def _gain(before: float | str, after: float | str, hardware: str) -> str:
    if isinstance(before, str) or isinstance(after, str):
        return f"the gain is not known: {before if isinstance(before, str) else after}"
    change = (before - after) / before if before else 0.0
    words = "less" if change >= 0 else "more"
    return f"{show_seconds(before)} before, {show_seconds(after)} now on {hardware}, {abs(change):.1%} {words}"
