"""How far `distir search` goes: its method, how many plans it simulates, and the batch where none is stated."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from distir.cli.endings import Refused

if TYPE_CHECKING:
    from distir.search import Search, Space, Subject
    from distir.search.searching import Method

METHODS: tuple[Method, ...] = ("grid", "bounded", "anneal")
STEPS, STEP = 200, 3
"""How many steps annealing takes; behind a best-first search that no option asks for, one for each so many plans."""

PER_DEVICE = 16
"""Sequences of a step for each device, where no option says how many."""

MOST_TOKENS = 1 << 24
"""Of such a step at most: the largest batch of Llama 3 405B (The Llama 3 Herd of Models, section 3.4.1)."""


def usual_batch(subject: Subject, devices: int) -> tuple[int, str]:
    """The batch of a training step where none is stated, and how it is chosen."""
    batch = PER_DEVICE * devices
    tokens = subject.tokens(batch) or 0
    if tokens <= MOST_TOKENS:
        return batch, f"{PER_DEVICE} for each device"
    while tokens > MOST_TOKENS and batch % 2 == 0:
        batch, tokens = batch // 2, tokens // 2
    return batch, f"{tokens:,} tokens"


class Effort(NamedTuple):
    """The method of a search and how far it goes, as options say; None where they do not."""

    method: str | None
    budget: int | None
    steps: int | None
    seed: int
    trained: bool

    def search(self, subject: Subject, space: Space, jobs: int, backend: str) -> Search:
        """The search. Without a method, of training: best first up to the usual budget, then some annealing."""
        from distir.diagnostics import suggestion
        from distir.search import Annealing, Search, Workers
        from distir.search.bounded import usual_budget

        method = self.method or ("anneal" if self.trained else "grid")
        methods: dict[str, Method] = {each: each for each in METHODS}
        if method not in methods:
            raise Refused(
                f"`--method` expected one of {', '.join(METHODS)}, found `{method}`", suggestion(method, METHODS)
            )
        for flag, value in {"--steps": self.steps, "--seed": self.seed or None}.items():
            if value is not None and method != "anneal":
                raise Refused(f"`{flag}` is for annealing, and the method is `{method}`", "`--method anneal`")
        usual = self.budget is None and self.trained and method == "anneal"
        budget = usual_budget(subject) if usual else self.budget
        if self.steps is None and self.method is None and budget is not None:
            annealing = Annealing(max(1, budget // STEP), self.seed, pipelines=True)
        else:
            annealing = Annealing(self.steps or STEPS, self.seed)
        return Search(subject, space, methods[method], Workers(jobs, backend), annealing, budget=budget)
