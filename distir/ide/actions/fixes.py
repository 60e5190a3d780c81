"""Repairs: the missing `Send`, the missing `Cast`, the name that was meant, and what nobody uses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from distir.analysis.parameters import parameters
from distir.diagnostics import Diagnostic, Span
from distir.diagnostics.codes import devices as device_codes
from distir.diagnostics.codes import lints
from distir.diagnostics.codes import types as type_codes
from distir.ide.actions.core import FIX_ALL, QUICK_FIX, Action, Found, found_at, namer, renamed_in
from distir.ide.document import Document
from distir.ide.edits import Edit, before_statement, rewritten, whole_line
from distir.ide.sends import moved as moved_to
from distir.ide.sends import name_there, send, sent_before
from distir.ir import (
    DISCARD,
    DTYPES,
    HOST,
    Apply,
    Attributes,
    Call,
    Dense,
    DType,
    Part,
    Return,
    Statement,
    TensorType,
    Type,
    names,
    operands,
    types,
)
from distir.ops import OPS, Reject, Value, type_of
from distir.syntax import FunctionSyntax
from distir.syntax.tokens import NAME
from distir.transform.dead_code import live

_MEANT = re.compile(r"did you mean `([^`]+)`\?")
_QUOTED = re.compile(r"`([^`]+)`")
_NO_GO_ON = r"(?![A-Za-z0-9_.\-])"

MISPLACED = (device_codes.DEVICE_MISMATCH, type_codes.BAD_CALL, type_codes.BAD_ARGUMENT)


MOST_REPAIRED = 50
"""How many findings repairs are looked for, in a piece of the text: nobody reads on in a longer list."""


def quick_fixes(document: Document, span: Span) -> list[Action]:
    """The repairs of what is wrong on the lines of a piece of the text; of very much, of what comes first."""
    actions: list[Action] = []
    lines = _lines(document.text, span)
    for found in islice(found_at(document, lines), MOST_REPAIRED):
        if found.diagnostic.code in MISPLACED:
            actions += _sends(document, found)
        if found.diagnostic.code in (type_codes.DTYPE_MISMATCH, type_codes.BAD_CALL, type_codes.BAD_ARGUMENT):
            actions += _casts(document, found)
        if found.diagnostic.code is lints.UNUSED_VALUE:
            actions += _unused(document, found)
    for diagnostic in islice(_in_lines(document, lines), MOST_REPAIRED):
        actions += _meant(document, diagnostic)
    return list({(a.title, a.edits): a for a in actions}.values())


def remove_unused(document: Document) -> Action | None:
    """Remove every statement that no result of its function needs, and write `_` for results that nothing uses."""
    syntax = document.program.syntax
    unused = [d for d in document.program.diagnostics if d.code is lints.UNUSED_VALUE]
    edits: list[Edit] = []
    for written in syntax.by_name.values():
        function = written.function
        if function.body and isinstance(function.body[-1], Return):
            kept = live(function.body[:-1], names(function.returned))
            edits += rewritten(syntax, written, (*kept, function.body[-1]))
    if not unused or not edits:
        return None
    return Action("remove everything unused", FIX_ALL, tuple(edits), tuple(unused))


def _in_lines(document: Document, lines: Span) -> Iterator[Diagnostic]:
    """What is wrong in a piece of the text, whether or not it is about a statement."""
    for diagnostic in document.program.diagnostics:
        place = diagnostic.site
        if isinstance(place, Span) and place.start <= lines.end and lines.start <= place.end:
            yield diagnostic


def _lines(text: str, span: Span) -> Span:
    """The whole lines of a piece of the text."""
    end = text.find("\n", span.end)
    return Span(text.rfind("\n", 0, span.start) + 1, len(text) if end < 0 else end)


# ---- Send and Cast


def _sends(document: Document, found: Found) -> Iterator[Action]:
    """Bring all operands to one of the devices that they live on, where the statement checks then."""
    written, statement, state = _statement(document, found)
    if statement is None:
        return
    devices = {n: types.device_of(type_of(state[n])) for n in names(statement.args) if n}
    for target in sorted({d for d in devices.values() if d is not None and d != HOST}):
        moved = [n for n, d in devices.items() if d is not None and d not in (target, HOST)]
        there = {n: moved_to(state[n], target) for n in moved}
        if not moved or not _accepted(document, found, statement, there):
            continue
        assert found.site.index is not None
        edits: list[Edit] = []
        made: list[Statement] = []
        builder = namer(written.function)
        for name in moved:
            known = sent_before(written.function, found.site.index, name, target)
            if known is None:
                known = builder.fresh(name_there(name, target))
                made.append(send(name, target, known))
            edits += renamed_in(document, written, found.site.index, name, known)
        edits += before_statement(document.program.syntax, written, found.site.index, made) if made else ()
        listed = ", ".join(f"`%{n}`" for n in moved)
        title = f"send {listed} to device {target}" if made else f"use what device {target} has of {listed}"
        yield Action(title, QUICK_FIX, tuple(edits), (found.located,), preferred=_is_blamed(found, statement, moved))


def _casts(document: Document, found: Found) -> Iterator[Action]:
    """Bring one operand to the element type of another one, where the statement checks then."""
    written, statement, state = _statement(document, found)
    if statement is None:
        return
    dtypes = {n: _dtype(type_of(state[n])) for n in names(statement.args) if n and not isinstance(state[n], Dense)}
    wanted = dict.fromkeys(d for d in dtypes.values() if d is not None)
    wanted |= dict.fromkeys(DTYPES[w] for w in re.findall(r"\w+", found.diagnostic.help or "") if w in DTYPES)
    for name, own in dtypes.items():
        for target in wanted:
            if own in (None, target) or not _accepted(document, found, statement, {name: _as(state[name], target)}):
                continue
            assert found.site.index is not None
            fresh = namer(written.function).fresh(f"{name}_{target.compact}")
            made = Apply((fresh,), "Cast", (name,), Attributes({"to": target}))
            edits = renamed_in(document, written, found.site.index, name, fresh)
            edits += before_statement(document.program.syntax, written, found.site.index, [made])
            is_preferred = _is_blamed(found, statement, [name])
            yield Action(f"cast `%{name}` to {target}", QUICK_FIX, tuple(edits), (found.located,), is_preferred)


def _statement(document: Document, found: Found) -> tuple[FunctionSyntax, Apply | Call | None, dict[str, Value]]:
    written = document.program.syntax.by_name[found.site.function]
    statement = written.function.body[found.site.index or 0]
    state = document.program.analysis.states[found.site.function]
    return written, statement if isinstance(statement, (Apply, Call)) else None, state


def _accepted(document: Document, found: Found, statement: Apply | Call, instead: Mapping[str, Value]) -> bool:
    """Whether what was found wrong with a statement is so no more with other values for some names.

    Something else may be wrong with it still.
    """
    domain = document.program.analysis.domain
    changed = {**document.program.analysis.states[found.site.function], **instead}

    def value(arg: object) -> Value:
        if isinstance(arg, tuple):
            return tuple(map(value, arg))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        return changed.get(arg, types.UNKNOWN) if isinstance(arg, str) else domain.constant(arg)  # type: ignore[arg-type]

    vs = tuple(map(value, statement.args))
    try:
        if isinstance(statement, Apply):
            if statement.op not in OPS:
                return False
            domain.claimed(statement, domain.answer(statement, vs)) if statement.claims else domain.answer(
                statement, vs
            )
            return True
        if statement.function not in document.program.module.functions:
            return False
        if statement.function in domain.structure.recursive:
            return False
        parameters(document.program.module.functions[statement.function], vs)
        returned = domain.instance(statement.function, vs).state.returned
        if statement.claims and len(returned) == len(statement.claims):
            domain.claimed(statement, returned)
        return not domain.problems[statement.function, vs]
    except Reject as reject:
        one_kind = (device_codes.DEVICE_MISMATCH, type_codes.DTYPE_MISMATCH)
        return found.diagnostic.code in one_kind and reject.code in one_kind and reject.code != found.diagnostic.code


def _is_blamed(found: Found, statement: Apply | Call, moved: Sequence[str]) -> bool:
    """Whether the operands are those that the finding blames."""
    part = found.diagnostic.site.part if not isinstance(found.diagnostic.site, Span) and found.diagnostic.site else None
    if not isinstance(part, Part) or part.kind != "operand" or not isinstance(part.key, int):
        return False
    return part.key < len(statement.args) and set(names((statement.args[part.key],))) == set(moved)


def _as(value: Value, dtype: DType) -> Type:
    """The type of a value after it was cast."""
    found = type_of(value)
    return TensorType(dtype, found.shape, found.device) if isinstance(found, TensorType) else found


def _dtype(type: Type) -> DType | None:
    return type.dtype if isinstance(type, TensorType) else None


# ---- names


def _meant(document: Document, diagnostic: Diagnostic) -> Iterator[Action]:
    """Write the name that was meant, as the finding's help says, in the place of the one that there is not."""
    meant = _MEANT.search(diagnostic.help or "")
    place = diagnostic.site
    if meant is None or not isinstance(place, Span):
        return
    text = document.text
    for quoted in _QUOTED.findall(diagnostic.message):
        at = re.compile(rf"(?<![A-Za-z0-9_.%@\-]){re.escape(quoted)}{_NO_GO_ON}").search(text, place.start, place.end)
        if at is None and (word := re.compile(NAME).fullmatch(text, place.start, place.end)) and word[0] == quoted:
            at = word
        if at is not None and quoted != meant[1]:
            edit = Edit(Span(*at.span()), meant[1])
            yield Action(f"write `{meant[1]}`", QUICK_FIX, (edit,), (diagnostic,), preferred=True)
            return


# ---- what nobody uses


def _unused(document: Document, found: Found) -> Iterator[Action]:
    """Remove a statement that nothing uses; of one of several results, write `_` for it."""
    syntax = document.program.syntax
    written = syntax.by_name[found.site.function]
    assert found.site.index is not None
    statement = written.function.body[found.site.index]
    if not isinstance(statement, (Apply, Call)) or found.site.part is None:
        return
    name = statement.results[int(found.site.part.key)]
    used = {n for s in written.function.body for n in names(operands(s))}
    if all(n == DISCARD or n not in used for n in statement.results):
        edit = Edit(whole_line(syntax, written, found.site.index), "")
        yield Action(f"remove `%{name}`", QUICK_FIX, (edit,), (found.located,), preferred=True)
        return
    claim = syntax.source_map(found.site)
    if claim is not None and syntax.source.text[claim.start : claim.end] == f"%{name}":
        yield Action(f"write `_` for `%{name}`", QUICK_FIX, (Edit(claim, "_"),), (found.located,), preferred=True)
