"""The space of strategies for a number of devices. Independent of programs and machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from distir.ir.errors import DistirError
from distir.search.plans import Plans
from distir.transform.strategy import AXES, Choices, Strategy


class SpaceError(DistirError, ValueError):
    """No strategy satisfies the constraints; the text says why."""


@dataclass(frozen=True, slots=True)
class Space(Choices):
    """All plans for `devices` devices, times `batch_sizes`.

    By default the paper's space: powers of two with D·T·P = devices, K in 2…128 where P > 1, else 1, 1F1B. With
    `all_divisors`, any factors. `batch_sizes` is empty where the program fixes the size.
    """

    def for_experts(self, count: int | None) -> Space:
        """The space for a model with `count` experts per layer, or whose layers' numbers have this common divisor."""
        if self.experts is not None:
            return self
        return replace(self, experts=(1,) if count is None else self._sharing(count))

    def plans(self) -> Plans:
        """All plans, each once, ordered by P, then D. Raises SpaceError if there is none."""
        plans = self.grid()
        shares = plans.column("data") % plans.column("experts") == 0
        if shares.any():
            return plans.take(shares)
        if self.experts not in (None, (1,)):
            shared = ", ".join(map(str, self.experts or ()))
            fitting = {n for data, *_ in self.degrees() for n in divisors(data)}
            least = min(fitting, key=lambda n: (min(abs(n - asked) for asked in self.experts or ()), n))
            raise SpaceError(
                f"no strategy is left: D is no multiple of {shared}, the replicas that share experts; "
                f"EP = {least} would do"
            )
        raise SpaceError("no strategy is left: `zero` needs D of 2 or more")

    def grid(self) -> Plans:
        """All plans, and those whose experts do not divide the replicas. Raises SpaceError if there are none at all."""
        made = Plans.of(
            Strategy(data, tensor, pipeline, context=context) for data, tensor, pipeline, context in self.degrees()
        )
        for axis in AXES:
            made = made.along(axis, self)
        return made

    def degrees(self) -> Iterator[tuple[int, int, int, int]]:
        """D, T, P and CP, whose product is the number of devices. Raises SpaceError where there are none."""
        if self.devices < 1:
            raise SpaceError(f"expected 1 device or more, found {self.devices}")
        found = False
        for degrees in self._possible():
            found = True
            yield degrees
        if not found and (self.fixed or self.context != (1,)):
            given = {**self.fixed, **({} if self.context == (1,) else {"CP": self.context})}
            every = {n for n in divisors(self.devices) if n & (n - 1) == 0}
            stated = {name: values for name, values in given.items() if not every.issubset(values)} or given
            held = " and ".join(f"{name} in {{{', '.join(map(str, v))}}}" for name, v in stated.items())
            nearest = "".join(self._nearest(name) for name in stated)
            raise SpaceError(
                f"{self.devices} devices cannot be split into D·T·P{'·CP' * ('CP' in stated)} with {held}{nearest}"
            )
        if not found:
            raise SpaceError(
                f"{self.devices} devices are no product of powers of two; `--all-divisors` tries all factors"
            )

    def allows(self, batch_size: int, plan: Strategy) -> bool:
        """Whether the batch divides evenly into the microbatches of all replicas, of a size that is allowed."""
        size, rest = divmod(batch_size, plan.data * plan.microbatches)
        return not rest and (not self.micro_batches or size in self.micro_batches)

    def holds(self, plan: Strategy) -> bool:
        """Whether D, T and P satisfy the restrictions of `fixed`."""
        degrees = {"D": plan.data, "T": plan.tensor, "P": plan.pipeline}
        return all(degrees[name] in allowed for name, allowed in self.fixed.items())

    @property
    def of_its_best(self) -> Space:
        """The space with what is tried of the best rows alone, too."""
        found = self
        for name, value in self.of_the_best:
            tried = getattr(found, name)
            found = replace(found, **{name: tried if value in tried else (*tried, value)})
        return found

    def reaches(self, plan: Strategy) -> bool:
        """Whether annealing that starts from one of `plans` can reach this one."""
        counts = self.counts(plan.pipeline)
        if plan.devices != self.devices or not self.holds(plan) or plan.context not in self.context:
            return False
        if not min(counts) <= plan.microbatches <= max(counts):
            return False

        def tries(name: str, values: Sequence[Any]) -> bool:
            return name == "microbatches" or getattr(plan, name) in values or (name == "zero" and plan.zero == 0)

        wide = self.of_its_best
        return all(tries(axis.name, axis.tried(wide, plan)) for axis in AXES)

    def _nearest(self, name: str) -> str:
        """Which degree would do in the place of the stated ones, the others as they are; nothing where none would."""
        fixed = {other: held for other, held in self.fixed.items() if other != name}
        free = replace(self, fixed=fixed, context=tuple(divisors(self.devices)) if name == "CP" else self.context)
        at = ("D", "T", "P", "CP").index(name)
        possible = {degrees[at] for degrees in free._possible()}
        if not possible:
            return ""
        asked = self.context if name == "CP" else self.fixed[name]
        least = min(possible, key=lambda n: (min(abs(n - stated) for stated in asked), n))
        return f"; {name} = {least} would do"

    def _sharing(self, count: int) -> tuple[int, ...]:
        """The numbers of replicas that may share the experts."""
        tried = (n for n in divisors(count) if self.all_divisors or n & (n - 1) == 0)
        return tuple(n for n in tried if n <= self.devices)

    def _possible(self) -> Iterator[tuple[int, int, int, int]]:
        """The same; nothing where there are none."""
        stated = {n for allowed in self.fixed.values() for n in allowed}
        factors = [n for n in divisors(self.devices) if self.all_divisors or n & (n - 1) == 0 or n in stated]
        for context in self.context:
            for pipeline in factors:
                for data in reversed(factors):
                    tensor, rest = divmod(self.devices, pipeline * data * context)
                    if not rest and tensor in factors and self.holds(Strategy(data, tensor, pipeline)):
                        yield data, tensor, pipeline, context


def check_batch_sizes(sizes: Sequence[int]) -> None:
    """Raises SpaceError for a size below 1."""
    for size in sizes:
        if size < 1:
            raise SpaceError(f"expected a batch size of 1 or more, found {size}")


def divisors(number: int) -> list[int]:
    """Those of a number, in ascending order."""
    small = [n for n in range(1, int(number**0.5) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})
