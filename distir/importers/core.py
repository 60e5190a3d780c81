"""What an import gives: a module, the data of its weights by name, and what is to be said of it. Knows no format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from distir.ir import Dim, DType, Function, Module, SymbolicDim, dims
from distir.ir.errors import DistirError


class ImportRefused(DistirError, ValueError):  # noqa: N818 - an answer about the model, not a failure of ours
    """A model that cannot be imported; the text says what, where in the model, and `help` what to do.

    `value`: a value of the model's graph that cannot be made, by which its importer knows the place in the source.
    """

    def __init__(self, message: str, help: str | None = None) -> None:
        super().__init__(message if help is None else f"{message}; {help}")
        self.message, self.help = message, help
        self.value: str | None = None


@dataclass(frozen=True, slots=True)
class Weight:
    """A tensor that is read only when it is asked for: `load` gives its array, of this element type and shape."""

    dtype: DType
    shape: tuple[int, ...]
    load: Callable[[], Any]


class Weights(Mapping[str, Any]):
    """Arrays by the names of the parameters that take them; each is read when it is looked up."""

    def __init__(self, entries: Mapping[str, Weight]) -> None:
        self.entries = dict(entries)

    def __getitem__(self, name: str) -> Any:
        return self.entries[name].load()

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


class Imported(Module):
    """A module and where it came from.

    `weights` holds the data of its `{param}` parameters, nothing if it was imported by types alone; `notes` are
    remarks for the user: what was left as it is, or is not ours. `comparison` says what a comparison with the
    framework that the model came from has found, or why there was none.
    """

    __slots__ = ("comparison", "notes", "weights")

    weights: Weights
    notes: tuple[str, ...]
    comparison: str

    def __init__(
        self,
        functions: Iterable[Function],
        weights: Mapping[str, Weight] | None = None,
        notes: Iterable[str] = (),
        comparison: str = "",
    ) -> None:
        super().__init__(functions)
        self.weights = Weights(weights or {})
        self.notes = tuple(notes)
        self.comparison = comparison


@dataclass(frozen=True, slots=True)
class Freed:
    """The batch dimension that an export has fixed. `guesses`: numbers of its size are taken for it where they lead."""

    name: str
    size: int
    guesses: bool = False

    @property
    def dim(self) -> SymbolicDim:
        """The dimension of that name."""
        return dims.named(self.name)

    def within(self, dim: Dim) -> bool:
        """Whether a dimension depends on it."""
        return isinstance(dim, SymbolicDim) and self.name in dim.names
