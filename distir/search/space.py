"""The space of strategies for a number of devices. Independent of programs and machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TypedDict

from distir.transform.pipeline import SCHEDULES, SUMS

MICROBATCHES = (2, 4, 8, 16, 32, 64, 128)
"""How many microbatches the paper's search tries for pipelines (section 5.1)."""


class SpaceError(ValueError):
    """No strategy satisfies the constraints; the text says why."""


class PipelineOptions(TypedDict, total=False):
    """Options of the steps `dtp` and `pp`, by name."""

    microbatches: int
    schedule: str
    virtual: int
    balance: str
    sums: str


@dataclass(frozen=True, slots=True, order=True)
class Plan:
    """How a program is distributed, whatever the batch size: D replicas of P stages of T shards, K microbatches.

    With one stage, K microbatches are run one after the other, and their gradients are accumulated.
    `stages`: how many layers each stage has, if not equally many. `sums`: when a pipeline adds up the gradients of
    microbatches, as the step `pp` says. `fuse`: whether ops become kernels. `overlap`: whether communication runs
    beside computation, as by the step `overlap`. `experts`: how many of the replicas share the experts of a model, and
    `skew` the load of the busiest of them, as the step `ep` says. A row of a search is a plan and a batch size.
    """

    data: int
    tensor: int
    pipeline: int
    microbatches: int = 1
    schedule: str = "1f1b"
    zero: int = 0
    checkpoint: bool = False
    stages: tuple[int, ...] = ()
    sums: str = SUMS[0]
    fuse: bool = False
    overlap: bool = False
    experts: int = 1
    skew: float = 0.0

    @property
    def devices(self) -> int:
        """How many devices it takes."""
        return self.data * self.tensor * self.pipeline

    @property
    def pure(self) -> str | None:
        """`D`, `T` or `P` where only that degree exceeds 1; None for mixtures."""
        degrees = {"D": self.data, "T": self.tensor, "P": self.pipeline}
        used = [name for name, degree in degrees.items() if degree > 1]
        return used[0] if len(used) == 1 else None

    @property
    def stages_per_device(self) -> int:
        """How many stages each device of a pipeline runs: the default of its schedule."""
        known = SCHEDULES.get(self.schedule) if self.pipeline > 1 else None
        return known.stages if known else 1

    @property
    def pipeline_options(self) -> PipelineOptions:
        """The options of the steps `dtp` and `pp` for this plan, without the degrees."""
        found = PipelineOptions()
        if self.microbatches > 1:
            found["microbatches"] = self.microbatches
        if self.pipeline > 1:
            found = PipelineOptions(microbatches=self.microbatches, schedule=self.schedule, balance="uniform")
            known = SCHEDULES.get(self.schedule)
            if known is not None and known.virtual:
                found["virtual"] = self.stages_per_device
        if self.stages:
            found["balance"] = ",".join(map(str, self.stages))
        if self.sums != SUMS[0]:
            found["sums"] = self.sums
        return found

    def steps(self) -> list[str]:
        """The arguments of `distir transform` for this plan. ZeRO gives each replica as much, where that divides."""
        words = ["checkpoint"] if self.checkpoint else []
        words.append(f"dtp={self.data},{self.tensor},{self.pipeline}")
        words += [f"{name}={value}" for name, value in self.pipeline_options.items()]
        words += [f"experts={self.experts}"] if self.experts > 1 else []
        words += [f"skew={self.skew:g}"] if self.experts > 1 and self.skew else []
        zero = [f"zero={self.zero}", "partition=split"] if self.zero else []
        return [*words, *zero, *(["overlap"] if self.overlap else []), *(["fuse"] if self.fuse else [])]

    def __str__(self) -> str:
        """As the paper writes it, `D/T/P/K`, followed by whatever differs from the defaults."""
        extras = [f"ep={self.experts}"] if self.experts > 1 else []
        extras += [self.schedule] if self.pipeline > 1 and self.schedule != "1f1b" else []
        extras += [f"zero={self.zero}"] if self.zero else []
        extras += ["checkpoint"] if self.checkpoint else []
        extras += [f"stages={','.join(map(str, self.stages))}"] if self.stages else []
        extras += [f"sums={self.sums}"] if self.sums != SUMS[0] else []
        extras += ["overlap"] if self.overlap else []
        extras += ["fuse"] if self.fuse else []
        return " ".join([f"{self.data}/{self.tensor}/{self.pipeline}/{self.microbatches}", *extras])


@dataclass(frozen=True, slots=True)
class Space:
    """All plans for `devices` devices, times `batch_sizes`.

    By default the paper's space: powers of two with D·T·P = devices, K in 2…128 where P > 1, else 1, 1F1B. With
    `all_divisors`, any factors. `batch_sizes` is empty where the program fixes the size.
    """

    devices: int
    batch_sizes: tuple[int, ...] = ()
    microbatches: tuple[int, ...] = MICROBATCHES
    schedules: tuple[str, ...] = ("1f1b",)
    zero: tuple[int, ...] = (0,)
    checkpoint: tuple[bool, ...] = (False,)
    all_divisors: bool = False
    fixed: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]], hash=False)
    """The degrees that `D`, `T` and `P` are restricted to, by name. Those stated here need not be powers of two."""
    micro_batches: tuple[int, ...] = ()
    """Sizes that a replica's microbatches are restricted to; empty: any."""
    sums: tuple[str, ...] = SUMS[:1]
    """When pipelines add up the gradients of microbatches."""
    fuse: bool = False
    """Whether the step `fuse` follows each plan's steps."""
    accumulate: tuple[int, ...] = (1,)
    """K where P is 1: in how many microbatches, one after the other, a replica runs its part of the batch."""
    overlap: tuple[bool, ...] = (False,)
    """Whether communication runs beside computation, where there are several devices."""
    experts: tuple[int, ...] | None = None
    """How many replicas share the experts of a model; None: as many as divide them, 1 for a model without experts."""
    skew: float = 1.0
    """The load of the busiest of these replicas, as a multiple of the mean; 0: room for all tokens on each."""

    def for_experts(self, count: int | None) -> Space:
        """The space for a model whose layers have so many experts, or numbers of experts with this common divisor."""
        if self.experts is not None:
            return self
        return replace(self, experts=(1,) if count is None else self._sharing(count))

    @property
    def undivided(self) -> int:
        """How many plans are none because the number of replicas that share experts does not divide all replicas."""
        return sum(plan.data % plan.experts != 0 for plan in self._grid())

    def plans(self) -> Iterator[Plan]:
        """All plans, each once, ordered by P, then D. Raises SpaceError if there is none."""
        found = False
        for plan in self._grid():
            if plan.data % plan.experts == 0:
                found = True
                yield plan
        if not found and self.experts not in (None, (1,)):
            shared = ", ".join(map(str, self.experts or ()))
            raise SpaceError(f"no strategy is left: D is no multiple of {shared}, the replicas that share experts")
        if not found:
            raise SpaceError("no strategy is left: `zero` needs D of 2 or more")

    def _grid(self) -> Iterator[Plan]:
        """All plans, and those whose experts do not divide the replicas."""
        for data, tensor, pipeline in self._degrees():
            piped = pipeline > 1
            for schedule in self.schedules if piped else self.schedules[:1]:
                for zero in self.zero:
                    if zero and data == 1:
                        continue
                    overlap = self.overlap if data * tensor * pipeline > 1 else (False,)
                    for checkpoint, count in product(self.checkpoint, self.counts(pipeline)):
                        several = self.sums if piped or count > 1 else SUMS[:1]
                        for sums, beside, experts in product(several, overlap, self.experts or (1,)):
                            degrees = data, tensor, pipeline, count
                            how = schedule, zero, checkpoint, (), sums, self.fuse, beside
                            yield Plan(*degrees, *how, experts, self.skew if experts > 1 else 0.0)

    def counts(self, pipeline: int) -> tuple[int, ...]:
        """K to try for so many stages."""
        return self.microbatches if pipeline > 1 else self.accumulate

    def allows(self, batch_size: int, plan: Plan) -> bool:
        """Whether the batch divides evenly into the microbatches of all replicas, of a size that is allowed."""
        size, rest = divmod(batch_size, plan.data * plan.microbatches)
        return not rest and (not self.micro_batches or size in self.micro_batches)

    def holds(self, plan: Plan) -> bool:
        """Whether D, T and P satisfy the restrictions of `fixed`."""
        degrees = {"D": plan.data, "T": plan.tensor, "P": plan.pipeline}
        return all(degrees[name] in allowed for name, allowed in self.fixed.items())

    def reaches(self, plan: Plan) -> bool:
        """Whether annealing that starts from one of `plans` can reach this one."""
        return (
            plan.devices == self.devices
            and self.holds(plan)
            and min(self.counts(plan.pipeline)) <= plan.microbatches <= max(self.counts(plan.pipeline))
            and (plan.pipeline == 1 or plan.schedule in self.schedules)
            and (plan.sums in self.sums if plan.pipeline > 1 or plan.microbatches > 1 else plan.sums == SUMS[0])
            and plan.zero in (0, *self.zero)
            and plan.checkpoint in self.checkpoint
            and plan.fuse == self.fuse
            and plan.overlap in (self.overlap if plan.devices > 1 else (False,))
            and plan.experts in (self.experts or (1,))
            and plan.skew == (self.skew if plan.experts > 1 else 0.0)
        )

    def _sharing(self, count: int) -> tuple[int, ...]:
        """How many replicas may share so many experts."""
        tried = (n for n in _divisors(count) if self.all_divisors or n & (n - 1) == 0)
        return tuple(n for n in tried if n <= self.devices)

    def _degrees(self) -> Iterator[tuple[int, int, int]]:
        if self.devices < 1:
            raise SpaceError(f"expected 1 device or more, found {self.devices}")
        stated = {n for allowed in self.fixed.values() for n in allowed}
        divisors = [n for n in _divisors(self.devices) if self.all_divisors or n & (n - 1) == 0 or n in stated]
        found = False
        for pipeline in divisors:
            for data in reversed(divisors):
                tensor, rest = divmod(self.devices, pipeline * data)
                if rest or tensor not in divisors or not self.holds(Plan(data, tensor, pipeline)):
                    continue
                found = True
                yield data, tensor, pipeline
        if not found and self.fixed:
            held = " and ".join(f"{name} in {{{', '.join(map(str, v))}}}" for name, v in self.fixed.items())
            raise SpaceError(f"{self.devices} devices cannot be split into D·T·P with {held}")
        if not found:
            raise SpaceError(
                f"{self.devices} devices are no product of powers of two; `--all-divisors` tries all factors"
            )


def check_batch_sizes(sizes: Sequence[int]) -> None:
    """Raises SpaceError for a size below 1."""
    for size in sizes:
        if size < 1:
            raise SpaceError(f"expected a batch size of 1 or more, found {size}")


def _divisors(number: int) -> list[int]:
    """In ascending order."""
    small = [n for n in range(1, int(number**0.5) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})
