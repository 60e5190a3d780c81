"""What can be said about a program: `Diagnostic`, its `Code`, and the text it is said of.

Analyses give a `Site` in the program. Where that is in a text they do not know: `Diagnostic.located`
takes a function from sites to spans (`syntax.SourceMap` is one). Renderers take located diagnostics and a `Source`.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property

from distir.ir import Site
from distir.ir.errors import DistirError


class Severity(StrEnum):
    """How bad it is: an error makes a program wrong, a warning does not."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a text: offsets in characters, `end` excluded."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Code:
    """One kind of diagnostic. `documentation` is markdown: what it means, an example, what to write instead.

    A fenced `dir` block in which a line ends in `// error: DIR301` raises exactly that there; a block without such a
    comment raises nothing. A test runs them all.
    """

    number: str
    name: str
    severity: Severity
    documentation: str

    def __str__(self) -> str:
        return self.number

    @property
    def title(self) -> str:
        """The first sentence of the documentation."""
        return self._sentences[0]

    @property
    def summary(self) -> str:
        """The first paragraph of the documentation, without a sentence at its end that leads over to an example."""
        first, *others = self._sentences
        return " ".join((first, *(sentence for sentence in others if not sentence.endswith(":"))))

    @property
    def _sentences(self) -> list[str]:
        paragraph = self.documentation.strip().split("\n\n")[0].replace("\n", " ")
        return _SENTENCE_END.split(paragraph)


_SENTENCE_END = re.compile(r"(?<=[.!?]) +(?=[A-Z`@%])")

CODES: dict[str, Code] = {}
"""Every code by its number."""


def code(number: str, name: str, documentation: str, severity: Severity = Severity.ERROR) -> Code:
    """Declare a code. Raises ValueError where the number is declared already."""
    declared = Code(number, name, severity, documentation.strip() + "\n")
    if CODES.setdefault(number, declared) is not declared:
        raise ValueError(f"{number} is declared twice")
    return declared


@dataclass(frozen=True, slots=True)
class Note:
    """Something that explains a diagnostic, at its own place (or none)."""

    message: str
    site: Site | Span | None = None


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding. `message`: lower case, no final stop, names in backticks, *expected … found …*.

    `help`: what to do, at most one sentence.
    """

    code: Code
    site: Site | Span | None
    message: str
    notes: tuple[Note, ...] = ()
    help: str | None = None
    cause: str = ""
    """What may be behind many findings, of which the first then represents all: the axis of a mesh."""

    @property
    def severity(self) -> Severity:
        """That of its code."""
        return self.code.severity

    def __str__(self) -> str:
        where = f" in `@{self.site.function}`" if isinstance(self.site, Site) else ""
        lines = [f"{self.severity}[{self.code}]{where}: {self.message}"]
        lines += [f"  note: {note.message}" for note in self.notes]
        lines += [f"  help: {self.help}"] if self.help else []
        return "\n".join(lines)

    def located(self, locate: Callable[[Site], Span | None]) -> Diagnostic:
        """The same with every site replaced by its place in a text."""

        def place(site: Site | Span | None) -> Span | None:
            return locate(site) if isinstance(site, Site) else site

        notes = tuple(Note(note.message, place(note.site)) for note in self.notes)
        return replace(self, site=place(self.site), notes=notes)


class ProgramError(DistirError):
    """A program has errors; `diagnostics` says where and why."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__("\n".join(map(str, self.diagnostics)))


@dataclass(frozen=True)
class Source:
    r"""A text and its name. Lines and columns count from 1, columns in characters; `\n`, `\r\n`, `\r` end lines."""

    path: str
    text: str = field(repr=False)

    @cached_property
    def line_starts(self) -> list[int]:
        """The offset at which each line begins."""
        return [0, *(match.end() for match in re.finditer(r"\r\n|\n|\r", self.text))]

    def position(self, offset: int) -> tuple[int, int]:
        """The line and column of an offset; one past the end is the last position."""
        offset = max(0, min(offset, len(self.text)))
        line = bisect.bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def line(self, number: int) -> str:
        """A line without its end."""
        start = self.line_starts[number - 1]
        end = self.line_starts[number] if number < len(self.line_starts) else len(self.text)
        return self.text[start:end].rstrip("\r\n")
