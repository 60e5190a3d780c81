"""A search from beginning to end: the space, the workers, the rows known already, and new rows as they come."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from typing import Literal, NoReturn

from distir.cost import Hardware, load
from distir.ir import Constant, Module
from distir.ir.rolling import unrolled
from distir.search.annealing import HOT, Annealing, anneal
from distir.search.binding import evaluated
from distir.search.bounded import Certificate, Stages, bounded, certificate, effort, may_be, settled
from distir.search.distributed import layers_of_stages
from distir.search.evaluate import evaluate
from distir.search.least import LeastMemory, least_needed
from distir.search.options import options
from distir.search.plans import Plans
from distir.search.pricing import Pricing
from distir.search.progress import watched
from distir.search.rows import Row
from distir.search.space import Space, SpaceError, check_batch_sizes
from distir.search.subject import Subject, batch_dimension, fixed_batch, layers_of
from distir.search.table import Table
from distir.search.whole import UNSHARED, admitted
from distir.search.work import Work, Workers, carry_out, units
from distir.transform.pipeline import SCHEDULES
from distir.transform.sharding.mesh import devices_of
from distir.transform.strategy import Strategy

REACHED = 1 + 2 * HOT
"""The slow-down, relative to the grid's best plan, at which annealing hardly accepts a plan."""

SHORT = 64
"""The effort of a pipeline that annealing tries as often as it is asked for."""

Method = Literal["grid", "bounded", "anneal"]


@dataclass(frozen=True, slots=True)
class Search:
    """A search: subject and settings. `known`: rows that need not be simulated again."""

    subject: Subject
    space: Space
    method: Method = "grid"
    workers: Workers = field(default_factory=Workers)
    annealing: Annealing = field(default_factory=Annealing)
    known: tuple[Row, ...] = field(default=(), hash=False)
    budget: int | None = None
    """How many plans are simulated at each batch size at most, best-first; None: all, or what bounds do not exclude.

    `anneal` starts from the best of these.
    """
    framework: Pricing | None = None
    """What runs the plans, and is asked for their rows; None: no framework."""
    lacking: tuple[str, ...] = ()
    """What the framework lacks, in words: the space is without it."""
    explain: bool = False
    """Whether rows of a bounded search say what binds them."""
    stages: Stages = field(default_factory=Stages, init=False, compare=False, repr=False)
    """What is known of stages from the rows of this search, for its certificates."""

    @property
    def is_bounded(self) -> bool:
        """Whether plans that cannot be the best are passed over."""
        return self.method == "bounded" or self.budget is not None

    @property
    def grid(self) -> Space:
        """The space, completed with values from the program."""
        return self.space.for_experts(self.subject.experts)

    @property
    def digest(self) -> str:
        """The value of `Row.search` for this search."""
        by = f" {self.framework!r}" if self.framework else ""
        return self.subject.digest(version("distir") + by)

    @property
    def batch_sizes(self) -> tuple[int | None, ...]:
        """Those of the space, or the one that the program fixes. Raises SpaceError if neither gives one, or both do."""
        entry = self.subject.entry
        dimension, asked = batch_dimension(entry), self.space.batch_sizes
        if dimension is None and asked and set(asked) != {fixed_batch(entry)}:
            raise SpaceError(
                f"the program itself says the batch size, {fixed_batch(entry)}; leave `--batch-size` out, or give "
                "the dimension a name"
            )
        if dimension is None:
            return (fixed_batch(entry),)
        if not asked:
            raise SpaceError(
                f"the batch dimension `{dimension}` has no size: say which batch sizes to try, such as "
                "`--batch-size 64,128` (in Python: `batch_sizes=[64, 128]`)"
            )
        return asked

    @property
    def configurations(self) -> int:
        """How many rows the grid has, of which `bounded` may leave some out."""
        return sum(len(self._admitted(size)[0]) for size in self.batch_sizes)

    def _admitted(self, size: int | None) -> tuple[Plans, Counter[str]]:
        """The plans that are tried at a batch size, and the reasons why others are not."""
        return admitted(self.subject, self.grid, size, self.is_bounded)

    def asked_for(self, rows: Iterable[Row]) -> list[Row]:
        """The rows that belong to this search's space: others, as of fewer devices, must not be ranked with them."""
        rows = list(rows)
        sizes, plans = set(self.batch_sizes), self.grid.plans() if rows else Plans.of(())
        beyond = self.method == "anneal"
        return [
            row
            for row in rows
            if row.batch_size in sizes and (row.plan in plans or (beyond and self.grid.reaches(row.plan)))
        ]

    def rows(self) -> Generator[Row]:
        """The rows that are not known yet, as they are found.

        Raises SpaceError before the first row if there is nothing to search.
        """
        self.check()
        self.stages.clear()
        digest = self.digest
        for row in self._found():
            yield replace(row, search=digest)

    def certificates(self, rows: Sequence[Row]) -> list[Certificate]:
        """For each batch size, what the rows prove of the plans that the program admits."""
        sizes = () if self.framework else self.batch_sizes  # bounds are of ideal programs
        return [self._certificate(size, rows, self.budget) for size in sizes]

    def least_memory(self, rows: Sequence[Row]) -> LeastMemory | None:
        """The memory that would do, where none of the rows fits; None where nothing can be simulated."""
        return least_needed(self.subject, {size: self._admitted(size)[0] for size in self.batch_sizes}, rows)

    def continues(self, best: Row) -> bool:
        """Whether annealing continues from the best row of a batch size."""
        return self.method == "anneal" and self.annealing_from(best).steps > 0

    def annealing_from(self, best: Row) -> Annealing:
        """The annealing from the best row of a batch size.

        If it only starts from pipelines, of longer ones fewer steps: with unequal stages they cost most.
        """
        if not self.annealing.pipelines:
            return self.annealing
        steps = self.annealing.steps if best.plan.pipeline > 1 else 0
        return replace(self.annealing, steps=int(steps / max(best.plan.effort / SHORT, 1)))

    @property
    def refused(self) -> Counter[str]:
        """How many plans the program or a batch size does not admit, by reason."""
        found = Counter[str]()
        for size in self.batch_sizes:
            found += self._admitted(size)[1]
        if self.space.experts is None:
            del found[UNSHARED]  # which the user has not asked for
        return found

    @property
    def notes(self) -> list[str]:
        """Which rows represent others, and what the framework lacks."""
        zero = self.space.zero
        piped = any(
            bool(((plans.column("pipeline") > 1) & (plans.column("zero") == 1)).any())
            for plans, _ in map(self._admitted, self.batch_sizes)
        )
        found = list[str]()
        if {1, 2} <= {*zero} and piped:
            found.append("in pipelines `zero=1` represents `zero=2`, whose rows are equal")
        if self.framework and self.lacking:
            found.append(f"not tried, as {self.framework.name} lacks it: {'; '.join(self.lacking)}")
        return found

    def table(self) -> Table:
        """All rows. Raises SpaceError."""
        return Table((*self.known, *watched(self.rows(), lambda: self.configurations, "searching")))

    def _found(self) -> Generator[Row]:
        found = list(self.known)
        for row in self._of_the_grid():
            found.append(row)
            yield row
        for size in self.batch_sizes if self.budget is not None else ():
            for row in self._with_options([row for row in found if row.batch_size == size], size):
                found.append(row)
                yield row
        for best in filter(self.continues, Table(tuple(found)).best_by_batch):
            known = {row.plan: row for row in found if row.batch_size == best.batch_size}
            if self.is_bounded and self._is_proven(best, list(known.values())):
                continue
            layers = partial(layers_of_stages, self.subject)
            likely = self._likely(best.batch_size, REACHED * (best.latency_s or 0.0))
            work = self._work(best.latency_s or math.inf)
            yield from anneal(self.subject, self.grid, best, layers, self.annealing_from(best), known, likely, work)

    def _with_options(self, rows: Sequence[Row], size: int | None) -> Generator[Row]:
        """The best rows with options that the grid leaves to this, as many as annealing has steps; fewer of long."""
        best = Table(tuple(rows)).best
        if best is None or best.latency_s is None or self.method != "anneal":
            return
        done = {row.plan for row in rows}
        capacity = max(kind.memory for kind in self.subject.hardware.kinds.distinct)
        likely = self._likely(size, best.latency_s)
        tried = dict.fromkeys(p for p in options(rows, self.grid, capacity) if p not in done and likely(p))
        few, left = list[Strategy](), self.annealing.steps
        for plan in tried:
            if effort(plan) <= left:
                few.append(plan)
                left -= effort(plan)
        workers = settled(self.workers, self.subject, len(few), len(few))
        yield from carry_out(self.subject, [(plan, (size,)) for plan in few], workers, self._work(best.latency_s))

    def _of_the_grid(self) -> Generator[Row]:
        sizes = self.batch_sizes
        if self.is_bounded:
            for size in sizes:
                fitting, _ = self._admitted(size)
                yield from bounded(
                    self.subject,
                    fitting,
                    [size],
                    self.workers,
                    self.known,
                    self.budget,
                    stages=self.stages,
                    work=self._work,
                    runs=self._runs(size) if self.framework else None,
                )
            return
        plans, done = list(self.grid.plans()), {row.key for row in self.known}
        runs = {size: self._runs(size) for size in sizes}
        work = self.framework.rows if self.framework else evaluate
        excluded = {
            (size, plan) for plan in plans for size in sizes if not (self._allows(size, plan) and runs[size](plan))
        }
        yield from carry_out(self.subject, units(plans, sizes, done | excluded), self.workers, work)

    def _runs(self, size: int | None) -> Callable[[Strategy], bool]:
        """Whether the framework, if there is one, runs a plan."""
        asked = self.framework
        return lambda plan: asked is None or not asked.lost(self.subject, plan, size)

    def _likely(self, size: int | None, most: float) -> Callable[[Strategy], bool]:
        """Whether a plan is worth simulating: bounds tell, without a framework."""
        return self._runs(size) if self.framework else may_be(self.subject, size, most, self.stages)

    def _is_proven(self, best: Row, rows: Sequence[Row]) -> bool:
        """Whether nothing of the grid is left, and the best has no stages that could be cut otherwise."""
        return self.framework is None and best.plan.pipeline == 1 and self._certificate(best.batch_size, rows, 0).proven

    def _certificate(self, size: int | None, rows: Sequence[Row], budget: int | None) -> Certificate:
        plans, _ = self._admitted(size)
        workers = settled(self.workers, self.subject, len(plans), budget)
        return certificate(self.subject, plans, size, rows, budget, stages=self.stages, workers=workers)

    @property
    def settled(self) -> Workers:
        """Where programs are carried out of which each is another: with a budget, in as many processes as its rows."""
        return settled(self.workers, self.subject, self.budget, self.budget) if self.budget else self.workers

    def _work(self, best: float) -> Work:
        """What makes the rows of a bounded search whose best row takes so many seconds so far."""
        if self.framework:
            return self.framework.rows
        return partial(evaluated, best) if self.explain else evaluate

    def _allows(self, size: int | None, plan: Strategy) -> bool:
        return size is None or self.space.allows(size, plan)

    def check(self) -> None:
        """Raises SpaceError if there is nothing to search."""
        if not isinstance(self.space.devices, int):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise SpaceError(f"expected a number of devices, found {self.space.devices!r}; a machine is `hardware=…`")
        if self.space.devices > self.subject.hardware.devices:
            machine = self.subject.hardware
            there = f"{machine.devices} device{'s' if machine.devices > 1 else ''}"
            raise SpaceError(
                f"`{machine.name}` has {there}, {self.space.devices} are asked for; "
                "name larger hardware (`distir hardware` lists profiles), or fewer devices"
            )
        named = {device for function in self.subject.module for device in devices_of(function)}
        if len(named) > 1:
            several = ", ".join(map(str, sorted(named)))
            raise SpaceError(
                f"`@{self.subject.entry.name}` is distributed already, over devices {several}; "
                "search for the sequential program that it was made of"
            )
        check_batch_sizes(self.space.batch_sizes)
        shared = max(self.space.experts or (1,))
        if shared > 1 and self.subject.experts is None:
            raise SpaceError(
                f"`@{self.subject.entry.name}` dispatches no tokens to experts, to be split over {shared} devices; "
                "leave out `--ep`"
            )
        self._check_groups()
        self._check_attention()
        self._check_recomputation()
        if self.configurations == 0:
            self._refuse()

    def _check_groups(self) -> None:
        """Raises SpaceError for groups of replicas that partition state, and that no number of replicas consists of."""
        shard = self.space.shard
        if not shard:
            return
        replicas = {*self.grid.plans().column("data").tolist()}
        if bad := [n for n in shard if n > 1 and not any(d % n == 0 for d in replicas)]:
            near = sorted({n for d in replicas for n in range(2, d) if d % n == 0})
            hint = f"; {', '.join(map(str, near))} would do" if near else "; leave out `--shard`"
            raise SpaceError(f"no number of replicas here is a multiple of {bad[0]}, to partition state among{hint}")

    def _check_attention(self) -> None:
        """Raises SpaceError for sequences that are shared or cut, of a program without attention."""
        if self.subject.attends:
            return
        cutting = [name for name in self.space.schedule if (known := SCHEDULES.get(name)) is not None and known.cuts]
        asked = "`--cp`" if max(self.space.context) > 1 else f"`--schedule {cutting[0]}`" if cutting else None
        if asked is not None:
            name = self.subject.entry.name
            raise SpaceError(f"`@{name}` has no attention that could be split along the sequence; leave out {asked}")

    def _check_recomputation(self) -> None:
        """Raises SpaceError for the recomputation of more layers than there are."""
        layers = layers_of(self.subject)
        for what in self.space.recompute:
            count = int(what.partition(":")[2] or 0)
            if layers is not None and count > layers:
                raise SpaceError(f"`{what}` recomputes {count} layers, and there are {layers}; {layers} would do")

    def _refuse(self) -> NoReturn:
        """Raises SpaceError: says why nothing is left, and where it is the batch, which one would do."""
        plans, sizes = list(self.grid.plans()), self.batch_sizes
        if any(self._allows(size, plan) for plan in plans for size in sizes):
            why = ", ".join(f"{count} {why}" for why, count in self.refused.most_common(3))
            layers = layers_of(self.subject)
            fewer = any("more stages" in reason for reason in self.refused)
            hint = f"; P times virtual stages of {layers} or less would do" if fewer else ""
            raise SpaceError(f"no strategy is left of those that the program admits: {why}{hint}")
        least = min(plan.data * plan.microbatches for plan in plans)
        parts = least * min(self.space.micro_batches or (1,))
        wanted = max(max(size or 1 for size in sizes) // parts, 1) * parts
        shown = ", ".join(map(str, sizes))
        raise SpaceError(f"no batch of {shown} can be cut into D·K equal parts for any strategy; {wanted} would do")


def search(
    module: Module,
    space: Space,
    hardware: Hardware | str | os.PathLike[str] = "dgx-a100",
    *,
    model: str = "",
    method: Method = "grid",
    bind: Mapping[str, Constant] | None = None,
    workers: Workers = Workers(),  # noqa: B008 (frozen)
) -> Table:
    """Evaluate every strategy of a space for a sequential program. `model`: the program's name in rows.

    Raises SpaceError if there is nothing to search, ProgramError for a program that does not check,
    cost.HardwareError for an unknown or broken profile.
    """
    machine = hardware if isinstance(hardware, Hardware) else load(hardware)
    subject = Subject(model, unrolled(module), machine, tuple(sorted((bind or {}).items())))
    return Search(subject, space, method, workers).table()
