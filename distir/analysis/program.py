"""A text read and checked: what `distir check`, the editor and the API all go by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from distir.analysis.checking import Analysis, check, known
from distir.diagnostics import Diagnostic, Note, Severity, Source, Span
from distir.diagnostics.codes import names as codes
from distir.diagnostics.codes.lints import UNUSED_VALUE
from distir.ir import Module, Part, Site, Statement
from distir.ir.counted import times_in
from distir.ops import canonical
from distir.syntax import Syntax, parse, ranges

PLACES_KEPT = 20_000

Place = tuple[Statement, Span]
"""A statement, and where a part of it stands, counted from the statement's start."""


@dataclass(eq=False)
class Program:
    """One version of one text. Everything below is found once, when first asked for.

    `earlier`, the analysis of another version, makes no difference but in time.
    """

    syntax: Syntax
    earlier: Analysis | None = None
    places: dict[tuple[int, Part | None], Place] = field(default_factory=dict[tuple[int, Part | None], Place])
    """By the identity of a statement: where its parts are, as far as they were requested."""

    @property
    def source(self) -> Source:
        """The text that was read."""
        return self.syntax.source

    @property
    def module(self) -> Module:
        """The program, with what could not be read left out."""
        return self.syntax.module

    @cached_property
    def analysis(self) -> Analysis:
        """What the checker found, computed when first asked for."""
        found = known(check(self.module, self.earlier))
        self.earlier = None  # nothing keeps old versions alive
        return found

    @cached_property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All that is wrong with the text, located, in the order of the text."""
        found = [*self.syntax.diagnostics, *self._duplicates(), *self._of_ranges(self.located(self._of_statements()))]
        if not self.syntax.functions and not found:
            found.append(Diagnostic(codes.NO_FUNCTION, Span(0, 0), "the text holds no function"))
        return tuple(sorted(found, key=_position))

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The diagnostics that are errors, not warnings."""
        return tuple(d for d in self.diagnostics if d.severity is Severity.ERROR)

    def located(self, diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
        """Diagnostics of the module with their places in the text."""
        return tuple(d.located(self.locate) for d in diagnostics)

    def locate(self, site: Site) -> Span | None:
        """Where a site stands; the whole of it for a part that is not written; None for what is not in the text."""
        written = self.syntax.by_name.get(site.function)
        if site.index is None or site.part is None or written is None or not 0 <= site.index < len(written.starts):
            return self.syntax.source_map(site)
        start = written.starts[site.index]
        statement = written.function.body[site.index]
        known = self.places.get((id(statement), site.part))
        if known is None or known[0] is not statement:
            span = self.syntax.source_map(site)
            if span is not None:
                self.places[id(statement), site.part] = statement, Span(span.start - start, span.end - start)
            return span
        return Span(start + known[1].start, start + known[1].end)

    def place(self, site: Site) -> str | None:
        """The file and the line of a statement, as `program.dir:12`; None for what is not in the text."""
        span = self.syntax.source_map(site)
        return None if span is None else f"{self.source.path}:{self.source.position(span.start)[0]}"

    def edited(self, text: str) -> Program:
        """The next version of the text."""
        analysis = self.__dict__.get("analysis", self.earlier)
        places = self.places if len(self.places) <= PLACES_KEPT else {}
        return Program(parse(text, self.source.path, canonical, previous=self.syntax), analysis, places)

    def _of_statements(self) -> Iterator[Diagnostic]:
        """What the checker found; what it found several times in a counted statement is one, with the times."""
        alike: dict[object, list[tuple[Diagnostic, Site | None]]] = {}
        for number, found in enumerate(self.analysis.diagnostics):
            site = found.site if isinstance(found.site, Site) and found.site.function in self.syntax.counted else None
            key: object = number
            if site is not None:
                key = site.function, (site.index or 0) % self._period(site), site.part, found.code, found.message
            alike.setdefault(key, []).append((found, site))
        for together in alike.values():
            first, site = together[0]
            if site is None or len(together) == (times := times_in(self.syntax.counted[site.function])):
                yield first
            else:
                number = (site.index or 0) // self._period(site) + 1
                which = f"at time {number}" if len(together) == 1 else f"{len(together)} times"
                yield replace(first, notes=(*first.notes, Note(f"{which} of {times}")))

    def _of_ranges(self, found: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
        """The findings; of values that nothing uses, one for each range of names."""
        alike: dict[object, list[Diagnostic]] = {}
        for number, each in enumerate(found):
            alike.setdefault(each.site if each.code is UNUSED_VALUE else number, []).append(each)
        for first, *others in alike.values():
            text, place = self.source.text, first.site
            written = text[place.start : place.end] if first.code is UNUSED_VALUE and isinstance(place, Span) else ""
            count, unused = ranges.width(written), len(others) + 1
            if count == 1:
                yield from (first, *others)
            elif unused == count:
                is_list = isinstance(place, Span) and text[place.start - 1] == "["
                hint = "write `_` in place of the list" if is_list else None
                yield replace(first, message=f"`{written}` is never used", help=hint)
            elif unused == 1:
                which = first.message.removesuffix(" is never used")
                yield replace(first, message=f"{which} of `{written}` is never used", help=None)
            else:
                yield replace(first, message=f"{unused} of `{written}` are never used", help=None)

    def _period(self, site: Site) -> int:
        """How many statements are done each time, in the counted statement in which a site is."""
        function = self.syntax.counted[site.function]
        return len(function.body) // times_in(function)

    def _duplicates(self) -> Iterable[Diagnostic]:
        for name, first, second in self.syntax.duplicates:
            note = Note("the first one is here", first)
            yield Diagnostic(codes.DUPLICATE_FUNCTION, second, f"two functions are called `@{name}`", (note,))


def read(text: str, path: str = "<text>") -> Program:
    """Read a text; never raises, whatever the text."""
    return Program(parse(text, path, canonical))


def _position(diagnostic: Diagnostic) -> int:
    return diagnostic.site.start if isinstance(diagnostic.site, Span) else -1
