"""The plans of a search as a framework runs them: `distir search --framework`.

A plan becomes a job, which is written in the format of the framework and read again, as `distir export` and
`distir import` do: what is lost on the way the framework does not run, and what is read is simulated. So a row has the
time and the memory of its export.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, NamedTuple

from distir.configurations.answers import answer, gpu_of_machine, program_of
from distir.configurations.formats import FORMATS
from distir.configurations.jobs import Exported, Supplied
from distir.configurations.options import ConfigurationError
from distir.configurations.rows import exported_row
from distir.cost import HardwareError
from distir.search.evaluate import costs
from distir.search.plans import Plans
from distir.search.rows import Row
from distir.search.space import Space
from distir.search.subject import Subject
from distir.transform.strategy import AXES, DEGREES, FIELDS, Declared, Strategy

np: Any = import_module("numpy")


UNCHANGED = ("microbatches", "stages")
"""Fields of which no values are taken out of a space: each batch has its own."""


class Lacking(NamedTuple):
    """Values of a field that a framework has not, and those that it has; `all`: whether it has none that are tried."""

    lacks: tuple[Any, ...]
    has: tuple[Any, ...]
    all: bool


NARROWED = tuple(field for field in (*map(FIELDS.__getitem__, DEGREES[:3]), *AXES) if field.name not in UNCHANGED)


@dataclass(frozen=True, slots=True)
class RunBy:
    """A framework by its format. `most`: bytes of a device that it may use, where that is less than there are."""

    name: str
    most: int | None = None

    def lost(self, subject: Subject, plan: Strategy, batch_size: int | None) -> Mapping[str, str]:
        """What of a plan the framework does not run, in words, by field."""
        return self._of_plan(self._written(_row(subject, plan, batch_size)))

    def of_model(self, subject: Subject) -> list[str]:
        """What of the model it does not run, in words."""
        losses = self._written(_row(subject, Strategy(), 1)).losses
        return [text for field, text in losses.items() if field.startswith("model.")]

    @staticmethod
    def _of_plan(written: Exported) -> dict[str, str]:
        """What is lost of a plan: a model that a framework knows by no name is said in its own code, or beside."""
        return {
            field: text for field, text in written.losses.items() if field.partition(".")[0] not in ("model", "name")
        }

    def rows(self, subject: Subject, plan: Strategy, batch_sizes: Sequence[int | None]) -> Iterator[Row]:
        """The rows of a plan, each with the time and memory of what is written of it."""
        for size in batch_sizes:
            row = _row(subject, plan, size)
            written = self._written(row)
            if lost := self._of_plan(written):
                yield replace(
                    row, reason=f"{self.name} does not run it: {'; '.join(lost.values())}", framework=self.name
                )
            else:
                yield replace(self._priced(row, written, subject), framework=self.name)

    def narrowed(self, space: Space, subject: Subject, asked: Collection[str] = ()) -> tuple[Space, dict[str, Lacking]]:
        """The space without what the framework lacks, by field of a strategy, but for fields of which nothing is left.

        It lacks a value if it runs no plan that has it, whatever the fields are on which that does not depend, and runs
        one with another value. `asked`: the fields of which all values are listed that it has; of others some are.
        """
        plans, lacking = space.for_experts(subject.experts).grid(), dict[str, Lacking]()
        probed = _Probed(self, subject, {field.name: _values(field, plans) for field in NARROWED})
        for field in NARROWED:
            _, place = plans.groups(field.name)
            lacks, has = dict[Any, int](), dict[Any, None]()
            numbers = range(int(place.max(initial=-1)) + 1)
            for number in numbers:
                plan = _where_it_counts(field, plans.take(place == number))
                if plan is None or probed.runs_some(plan, field):
                    continue
                others = [replace(plan, **{field.name: value}) for value in probed.values[field.name]]
                more = [other for other in others if other != plan]
                if runs := [getattr(p, field.name) for p in more if probed.runs_some(p, field, field.name in asked)]:
                    lacks[getattr(plan, field.name)] = number
                    has |= dict.fromkeys(runs)
            if lacks:
                lacking[field.name] = Lacking(tuple(lacks), tuple(has), len(lacks) == len(numbers))
                if not lacking[field.name].all:
                    plans = plans.take(~np.isin(place, [*lacks.values()]))
                    probed.values[field.name] = [v for v in probed.values[field.name] if v not in lacks]
        left, fixed = dict[str, Any](), dict(space.fixed)
        for name in [name for name, found in lacking.items() if not found.all]:
            if name in DEGREES[:3]:
                fixed[FIELDS[name].column] = tuple(probed.values[name])
            else:
                left[name] = _without(getattr(space, name), lacking[name].lacks)
        return replace(space, fixed=fixed, **left), lacking

    def _written(self, row: Row) -> Exported:
        """What is written of a row; without the text, which has nothing more."""
        return exported_row(row, Supplied(), self.name)

    def _priced(self, row: Row, written: Exported, subject: Subject) -> Row:
        """The row with what a step takes as the framework runs it."""
        assert written.reading is not None
        job, framework = written.reading.job, FORMATS[self.name].framework
        try:
            found = program_of(job, framework, gpu_of_machine(row.hardware))
            if self.most is not None:
                found = replace(found, hardware=found.hardware.with_memory(self.most))
            said = answer(job, found)
        except (ConfigurationError, HardwareError) as error:
            return replace(row, reason=str(error))
        memory, seconds = said.memory, said.step_time_s
        return replace(
            row,
            latency_s=seconds,
            throughput=(row.batch_size or 0) / seconds,
            peak_memory_bytes=memory.needed,
            fits=memory.fits,
            fit=memory.fit,
            **costs(subject, seconds, row.batch_size, row.plan.devices),
        )


def _row(subject: Subject, plan: Strategy, size: int | None) -> Row:
    return Row(subject.model, size, plan, None, None, None, False, hardware=subject.hardware.name)


class _Probed:
    """Plans that are tried with a framework, to see what it has. `values`: by field, those of a space, and others."""

    def __init__(self, by: RunBy, subject: Subject, values: dict[str, list[Any]]) -> None:
        self.by, self.subject, self.values = by, subject, values
        self.good = Strategy()
        """One that it runs, as far as that is known."""
        self._known = dict[Strategy, frozenset[str]]()

    def runs_some(self, plan: Strategy, field: Declared, thorough: bool = True) -> bool:
        """Whether it runs a plan, perhaps with other values of fields on which this one does not depend.

        If it is not `thorough`, only with those of a plan that it runs.
        """
        lost = self._lost(plan)
        others = [name for name in self.values if name != field.name and name not in field.depends]
        good = {name: [getattr(self.good, name)] for name in others}
        for values in (good, self.values) if thorough else (good,):
            for name in others:
                for value in values[name] if lost else ():
                    less = self._lost(changed := replace(plan, **{name: value}))
                    if less < lost:
                        plan, lost = changed, less
        if not lost:
            self.good = plan
        return not lost

    def _lost(self, plan: Strategy) -> frozenset[str]:
        if plan not in self._known:
            microbatches_of_one = plan.data * plan.microbatches
            self._known[plan] = frozenset(self.by.lost(self.subject, plan, microbatches_of_one))
        return self._known[plan]


def _values(axis: Declared, plans: Plans) -> list[Any]:
    """The values of a field that plans have, and the others that it can have, where these are few."""
    first, _ = plans.groups(axis.name)
    tried, asked = [getattr(plan, axis.name) for plan in plans.take(first)], axis.asked
    known: Sequence[Any] = ()
    if asked is not None and asked.kind == "switch":
        known = (False, True)
    elif asked is not None and asked.kind == "words" and axis.name != "checkpoint":
        known = tuple(asked.values())
    elif asked is not None and asked.most is not None:
        known = range(asked.least, asked.most + 1)
    return [*dict.fromkeys((*tried, *known))]


def _where_it_counts(axis: Declared, plans: Plans) -> Strategy | None:
    """The first of some plans that has what a field needs to count."""
    first, _ = plans.groups(*axis.depends)
    needs = axis.asked.needs if axis.asked is not None else ()
    return next((plan for plan in plans.take(first) if all(need.met(plan) for need in needs)), None)


def _without(tried: Any, lacks: Sequence[Any]) -> Any:
    """The values of a field that a space tries, without some."""
    if tried is None:  # of `fuse`, which tries both
        return not lacks[0]
    return tuple(value for value in tried if value not in lacks)
