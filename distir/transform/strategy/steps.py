"""A strategy as steps, applied or in words, and steps in words as a strategy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from inspect import signature
from typing import Any, Final, NamedTuple

from distir.ir import Module
from distir.transform.all_steps import STEPS, parse_steps
from distir.transform.pipeline import steady
from distir.transform.steps import Application, StepError, applied, written
from distir.transform.strategy.declared import VALUE
from distir.transform.strategy.record import FIELDS, Strategy

TRAINING: Final = ("fp8", "seeded", "grad", "cse", "checkpoint", "offload=activations")
DISTRIBUTION: Final = ("dtp", "zero", "decompose")
SCHEDULING: Final = ("overlap", "offload=optimizer", "fuse")

ORDER: Final = (*TRAINING, *DISTRIBUTION, *SCHEDULING)
"""The steps of a strategy, in the order in which they are applied: of a step on one device, and on several."""

WHERE: Final = ("hardware", "bind", "ends", "representative")
"""Options of steps that say where, for which sizes, and for what use they are applied: they are of no strategy."""


class At(NamedTuple):
    """What the steps of some strategies depend on: sizes of named dimensions, and a machine by its name."""

    bind: tuple[tuple[str, int], ...]
    hardware: str

    @property
    def sizes(self) -> tuple[str, ...]:
        """The option `bind` of steps."""
        return tuple(f"{name}={size}" for name, size in self.bind)


def steps_of(strategy: Strategy, at: At | None = None, **more: Any) -> list[Application]:
    """The steps of a strategy, in their order; ZeRO gives each replica as much, where that divides.

    `at`: sizes and machine, for a strategy whose steps decide by them. `more`: further options of the step `dtp`.
    """
    said: dict[str, dict[str, Any]] = {}
    for field in FIELDS.values():
        options = field.said(strategy)
        if options is not None and (field.step in said or field is _first(field.step)):
            said.setdefault(field.step, {}).update(options)
    if at is not None and strategy.balance == "memory":
        said["dtp"]["bind"] = at.sizes
    if at is not None and "overlap" in said and strategy.passes:
        said["overlap"] |= {"hardware": at.hardware, "bind": at.sizes}
    said["dtp"] |= more
    found: list[Application] = []
    for name in reversed(ORDER):
        if (options := said.get(name)) is not None:
            value = options.pop(VALUE, None)
            found.insert(0, Application(STEPS[name.partition("=")[0]], value, options, tuple(found)))
    return found


def _first(step: str) -> Any:
    """The field that says whether a step is applied: the first one of it."""
    return next(field for field in FIELDS.values() if field.step == step)


def name_of(application: Application) -> str:
    """The name of a step in `ORDER`: one that comes twice is named with its value."""
    return name if (name := application.step.name) in ORDER else str(application)


def part(steps: Iterable[Application], names: Sequence[str]) -> list[Application]:
    """Those of these names in `ORDER`."""
    return [application for application in steps if name_of(application) in names]


def words_of(strategy: Strategy, at: At | None = None) -> list[str]:
    """The arguments of `distir transform` for a strategy; `at` as for `steps_of`."""
    return [word for application in steps_of(strategy, at) for word in application.words]


def strategy_of(words: Sequence[str]) -> Strategy:
    """The strategy of steps in words. Where and for which sizes they are applied is left out.

    Raises StepError for steps that no strategy consists of, or that come in another order.
    """
    given = parse_steps(words)
    names = [name_of(application) for application in given]
    if names != [name for name in ORDER if name in names] or "dtp" not in names:
        expected = ", ".join(f"`{name}`" for name in ORDER)
        raise StepError(f"a strategy is some of the steps {expected}, in this order and with `dtp`: found {words}")
    options = {name_of(one): dict(one.options) | ({} if one.value is None else {VALUE: one.value}) for one in given}
    found = Strategy(**{f.name: f.read(options[f.step]) for f in FIELDS.values() if f.step in options})
    again = {name_of(one): one for one in steps_of(found)}
    for one in given:
        if name_of(one) not in again:
            raise StepError(f"no strategy has the step `{one}` without more")
        _require_same(one, again[name_of(one)])
    return found


def _require_same(given: Application, again: Application) -> None:
    """Raises StepError for a value or an option that no field of a strategy carries."""
    step = given.step
    if _value(given) != _value(again):
        raise StepError(f"no strategy has the step `{given}`")
    for name, option in step.options.items():
        stated, carried = (one.options.get(name, option.default) for one in (given, again))
        is_left_to_step = name not in given.options and option.default is None
        if name not in WHERE and stated != carried and not is_left_to_step:
            raise StepError(f"no strategy has `{name}={written(stated)}` of the step `{step.name}`")


def _value(application: Application) -> Any:
    declared = application.step.value
    return application.value if application.value is not None or declared is None else declared.default


def apply(module: Module, strategy: Strategy, at: At | None = None) -> Module:
    """The program, distributed by a strategy.

    Raises StepError for fields that have no effect beside the others, ProgramError where a step cannot be applied.
    """
    if unused := [*without_effect(strategy)]:
        raise StepError("; ".join(unused))
    return applied(module, steps_of(strategy, at))


def without_effect(strategy: Strategy) -> Iterator[str]:
    """The fields of a strategy that no step says, as others contradict them: what each is for, and what would do."""
    said = words_of(strategy)
    for name, field in FIELDS.items():
        value = getattr(strategy, name)
        if value == field.default or words_of(replace(strategy, **{name: field.default})) != said:
            continue
        needs = field.asked.needs if field.asked is not None else ()
        unmet = next((need for need in needs if not need.met(strategy)), None)
        if unmet is not None:
            why = f"it is for {unmet.what.partition(',')[0]}: {unmet.hint}"
        else:
            why = f"it is of the step `{field.step}`, which the field `{_first(field.step).name}` says"
        yield f"`{name}={written(value)}` has no effect: {why}"


def unchecked(module: Module, steps: Iterable[Application]) -> Module:
    """The program after steps whose results are not checked one by one. Raises ProgramError as they do."""
    return reduce(lambda made, application: application.unchecked(made), steps, module)


PIPELINES: Final = tuple(signature(steady).parameters)
"""The options of the step `dtp` on which a pipeline's stages and order depend."""


def pipeline_options(steps: Iterable[Application]) -> Mapping[str, Any]:
    """Those of a strategy's step `dtp`."""
    options = next(application.options for application in steps if application.step.name == "dtp")
    return {name: value for name, value in options.items() if name in PIPELINES}
