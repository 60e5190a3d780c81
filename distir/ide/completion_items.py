"""The data types of completions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from distir.diagnostics import Span
from distir.ide.edits import Edit


class CompletionKind(Enum):
    """The kind of a completion. A template needs the client to support snippets."""

    VALUE = "value"
    FUNCTION = "function"
    OP = "op"
    ATTRIBUTE = "attribute"
    CONSTANT = "constant"
    TYPE = "type"
    KEYWORD = "keyword"
    TEMPLATE = "template"


@dataclass(frozen=True, slots=True)
class Completion:
    """One thing that can be written. `text` takes the place of the word at the cursor.

    `snippet`: `text` with places to fill in as `${1:name}`, for editors that know these. `op`: whose documentation
    tells more. `edits`: what is changed elsewhere with it.
    """

    label: str
    kind: CompletionKind
    text: str
    detail: str = ""
    snippet: str | None = None
    op: str | None = None
    edits: tuple[Edit, ...] = ()


@dataclass(frozen=True, slots=True)
class Completions:
    """Completions, the likeliest first. They replace `word`. `complete`: further letters only filter the list."""

    word: Span
    items: tuple[Completion, ...]
    complete: bool = True
