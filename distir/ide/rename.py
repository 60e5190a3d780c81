"""Renaming values, functions and streams, and refusing what would change the program's meaning."""

from __future__ import annotations

import re

from distir.diagnostics import Span
from distir.ide.document import Document
from distir.ide.edits import Edit
from distir.ide.mentions import Word, WordKind, functions_mentioned, streams_mentioned, values_mentioned, word_at
from distir.ir import COMPUTE, DISCARD, Function, Module, results
from distir.ir.errors import DistirError
from distir.syntax.tokens import IDENT, NAME, TOKEN, kinds
from distir.transform.entry import ROLES


class RenameError(DistirError, ValueError):
    """A rename that is refused; the message says why."""


def prepare(document: Document, offset: int) -> tuple[Span, str]:
    """The name under the cursor without its `%` or `@`, and where it stands. Raises RenameError."""
    word = _renamed(document, offset)
    return Span(word.span.end - len(word.name), word.span.end), word.name


def rename(document: Document, offset: int, new: str) -> list[Edit]:
    """The edits that give the value, function or stream under the cursor another name, with or without `%` or `@`.

    With a function go `@name.scatter` and `@name.gather`. Raises RenameError for a name that is none, that is taken,
    or that would make another function the entry of the program.
    """
    word = _renamed(document, offset)
    if word.kind is WordKind.STREAM:
        return _stream_renamed(document, word.name, new)
    name = new.removeprefix("%" if word.kind is WordKind.VALUE else "@")
    if not re.fullmatch(NAME, name):
        raise RenameError(f"`{new}` is no name: names are of letters, digits, `_`, `.` and `-`")
    if name == word.name:
        return []
    if word.kind is WordKind.VALUE:
        return _value_renamed(document, word, name)
    return _function_renamed(document, word.name, name)


def _renamed(document: Document, offset: int) -> Word:
    word = word_at(document.program.syntax, offset)
    if word is None or word.kind not in (WordKind.VALUE, WordKind.FUNCTION, WordKind.STREAM):
        what = f"`{word.name}` is" if word is not None and word.kind is not WordKind.OTHER else "this is"
        raise RenameError(f"{what} no value, function or stream of the program")
    if word.kind is WordKind.FUNCTION and not any(
        m.defines for m in functions_mentioned(document.program.syntax, word.name)
    ):
        raise RenameError(f"there is no function `@{word.name}` in this text")
    return word


def _stream_renamed(document: Document, old: str, name: str) -> list[Edit]:
    """A stream's name is the same in all functions. One that is taken would make two streams one."""
    if TOKEN.findall(name) != [name] or kinds([name]) != (IDENT,):
        raise RenameError(f"`{name}` is no stream's name: it is of letters, digits and `_`")
    if old == COMPUTE:
        raise RenameError(f"`{COMPUTE}` is the stream of all statements that name none")
    syntax = document.program.syntax
    if name == COMPUTE or (name != old and streams_mentioned(syntax, name)):
        raise RenameError(f"`{name}` is another stream of the program: the two would become one")
    return [Edit(m.span, name) for m in streams_mentioned(syntax, old)] if name != old else []


def _value_renamed(document: Document, word: Word, name: str) -> list[Edit]:
    function = word.piece.function
    taken = {p.name for p in function.function.params}
    taken.update(n for statement in function.function.body for n in results(statement) if n != DISCARD)
    if name in taken or values_mentioned(document.program.syntax, function, name):
        raise RenameError(f"`%{name}` is taken in `@{function.function.name}`")
    found = values_mentioned(document.program.syntax, function, word.name)
    if any(m.span.end - m.span.start != len(word.name) + 1 for m in found):
        raise RenameError(f"`%{word.name}` is one of a range of names: write its names one by one first")
    return [Edit(m.span, f"%{name}") for m in found]


def _function_renamed(document: Document, old: str, name: str) -> list[Edit]:
    program = document.program
    if any(first == old for first, _, _ in program.syntax.duplicates):
        raise RenameError(f"two functions are called `@{old}`: rename one of them by hand first")
    renamed = {old: name}
    renamed |= {f"{old}.{role}": f"{name}.{role}" for role in ROLES if f"{old}.{role}" in program.module.functions}
    for taken in renamed.values():
        if functions_mentioned(program.syntax, taken):
            raise RenameError(f"`@{taken}` is taken")
    _check_entry(document, renamed)
    return [
        Edit(m.span, f"@{target}")
        for source, target in renamed.items()
        for m in functions_mentioned(program.syntax, source)
    ]


def _check_entry(document: Document, renamed: dict[str, str]) -> None:
    """Whether the same function stays the entry. Raises RenameError."""
    module, named = document.program.module, (document.setup.entry or "").removeprefix("@")
    if named in renamed:
        raise RenameError(f"the settings say that `@{named}` is the entry of the program: change them first")
    before = document.entry
    after = _entry([renamed.get(f, f) for f in module.functions], named)
    if before is not None and after != renamed.get(before.name, before.name):
        wanted = renamed.get(before.name, before.name)
        raise RenameError(f"`@{after}` would become the entry of the program, which is `@{wanted}`")


def _entry(functions: list[str], named: str) -> str | None:
    """The entry of a module with functions of these names."""
    module = Module(Function(name, (), ()) for name in functions)
    found = module.functions.get(named) or module.entry()
    return None if found is None else found.name
