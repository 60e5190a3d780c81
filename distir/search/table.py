"""The table of a search: its rows, their ranking, and what notebooks show of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

from distir.cost import show_seconds
from distir.ir import notebook
from distir.search.plot import figure
from distir.search.rows import COLUMNS, Row, pareto, rank, show_rate, shown_memory, shown_row
from distir.simulate.notebook import needed


@dataclass(frozen=True, slots=True, repr=False)
class Table(Sequence[Row]):
    """The rows of a search, in the order in which they were found."""

    rows: tuple[Row, ...]

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        return self.rows[index]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __repr__(self) -> str:
        best = self.best
        said = "none of which fits" if best is None else f"the best {shown_row(best)}"
        return f"Table({len(self.rows)} rows, {said})"

    def _repr_html_(self) -> str:
        columns = ("strategy", "D/T/P/K", "schedule", "batch", "latency", "throughput", "peak memory")
        rows = [
            (
                str(row.plan),
                row.degrees,
                row.plan.schedule if row.plan.pipeline > 1 else "",
                row.batch_size or "",
                show_seconds(row.latency_s or 0.0),
                show_rate(row.throughput),
                shown_memory(row),
            )
            for row in self.ranked
        ]
        failed = f"{len(self.failed)} could not be simulated; " if self.failed else ""
        fit = f"{failed}{len(rows)} of {len(self.rows)} fit in memory"
        return notebook.lines(repr(self), fit) + notebook.table(columns, rows)

    def to_pandas(self) -> Any:
        """The rows as a `pandas.DataFrame`, with the columns of `search --csv`. Raises ImportError without pandas."""
        return needed("pandas").DataFrame([row.columns for row in self.rows], columns=list(COLUMNS))

    def plot(self, capacity_bytes: int | None = None) -> Any:
        """Memory and throughput of all rows, with the Pareto front, as a `matplotlib.figure.Figure`.

        `capacity_bytes` is drawn as a limit. Raises search.PlotError without rows, ImportError without matplotlib.
        """
        return figure(self, repr(self), capacity_bytes)

    @property
    def ranked(self) -> list[Row]:
        """The rows that fit in memory, highest throughput first."""
        return sorted((row for row in self.rows if row.fits), key=rank)

    @property
    def best(self) -> Row | None:
        """The row of the highest throughput that fits in memory; None if none fits."""
        return min((row for row in self.rows if row.fits), key=rank, default=None)

    @property
    def best_by_batch(self) -> list[Row]:
        """The best of each batch size, by size."""
        sizes = sorted({row.batch_size or 0 for row in self.rows})
        bests = (Table(tuple(r for r in self.rows if (r.batch_size or 0) == size)).best for size in sizes)
        return [row for row in bests if row is not None]

    @property
    def failed(self) -> list[Row]:
        """The rows that could not be simulated."""
        return [row for row in self.rows if row.latency_s is None]

    def pareto(self, first: str = "memory", second: str = "throughput") -> list[Row]:
        """The Pareto front of two of `MEASURES`, by the first: no row of it is beaten in both."""
        return pareto(self.rows, first, second)
