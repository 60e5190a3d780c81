"""Functions out of statements, and statements out of functions: inline a call, outline a selection."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from distir.diagnostics import ProgramError, Span
from distir.ide.actions.core import EXTRACT, INLINE, Action, has_errors, statement_at
from distir.ide.document import Document
from distir.ide.edits import Edit, applied, line_end, rewritten
from distir.ir import Apply, Call, Function, Module, names
from distir.ir.builder import namer
from distir.ir.outlining import Windows
from distir.syntax import FunctionSyntax, print_function
from distir.transform.generic import declared, generic
from distir.transform.inline import inline
from distir.transform.steps import StepError


def inline_call(document: Document, span: Span) -> Iterator[Action]:
    """Write the function's body in the place of the call at a place."""
    chosen = statement_at(document, span)
    if chosen is None or has_errors(document):
        return
    written, index = chosen
    call = written.function.body[index]
    if not isinstance(call, Call):
        return
    body = inlined(document.program.module, written.function, index)
    if body is None:
        return
    edits = rewritten(document.program.syntax, written, body.body)
    if _still_checks(document, edits):
        yield Action(f"inline this call of `@{call.function}`", INLINE, edits)


def inlined(module: Module, function: Function, index: int) -> Function | None:
    """A function with one of its calls written out; None where that cannot be done."""
    call = function.body[index]
    assert isinstance(call, Call)
    copy = replace(module.functions[call.function], name=namer(module).fresh(call.function))
    body = (*function.body[:index], replace(call, function=copy.name), *function.body[index + 1 :])
    changed = replace(function, body=body)
    try:
        result = inline(Module([copy, *(changed if f is function else f for f in module)]), (copy.name,))
    except (ProgramError, StepError):
        return None
    return result.functions[function.name]


def outline_selection(document: Document, span: Span) -> Iterator[Action]:
    """Make a function of the statements that are selected, and call it in their place."""
    syntax = document.program.syntax
    written = syntax.function_at(span.start)
    if written is None or syntax.by_name.get(written.function.name) is not written or has_errors(document):
        return
    chosen = [i for i in range(len(written.starts)) if _overlaps(written, i, span)]
    body = written.function.body
    if not chosen or span.start == span.end or not all(isinstance(body[i], (Apply, Call)) for i in chosen):
        return
    name = namer(document.program.module).fresh("block")
    function, block = Windows(written.function, (chosen[0],), len(chosen)).outlined(name)
    if not block.returned or any(not isinstance(arg, str) for arg in block.returned):
        return
    stated = _with_types(document, function, block, chosen[0])
    edits = (*_above(document, written, stated), *rewritten(syntax, written, function.body))
    count = f"{len(chosen)} statement{'' if len(chosen) == 1 else 's'}"
    if _still_checks(document, edits):
        yield Action(f"outline {count} as `@{block.name}`", EXTRACT, edits)


def _overlaps(written: FunctionSyntax, index: int, span: Span) -> bool:
    return written.starts[index] < span.end and span.start < written.ends[index]


def _with_types(document: Document, caller: Function, block: Function, index: int) -> Function:
    """The outlined function with the types of its arguments."""
    call = caller.body[index]
    assert isinstance(call, Call)
    state = document.program.analysis.states[caller.name]
    stated = declared([generic(state[name]) for name in names(call.args)])
    params = (replace(p, type=t) for p, t in zip(block.params, stated, strict=True))
    return replace(block, params=tuple(params))


def _above(document: Document, written: FunctionSyntax, block: Function) -> tuple[Edit, ...]:
    """The edit that writes a function above another one, and above the comments that head that one."""
    syntax = document.program.syntax
    text = syntax.source.text
    at = written.span.start
    for start, end in reversed(syntax.comments):
        if end <= at and not text[end:at].strip() and text.count("\n", end, at) <= 1:
            at = start
    end_of_line = line_end(text)
    printed = print_function(block).replace("\n", end_of_line) + end_of_line
    return (Edit(Span(at, at), printed),)


def _still_checks(document: Document, edits: tuple[Edit, ...]) -> bool:
    after = document.edited(applied(document.text, edits), document.version)
    return bool(edits) and not has_errors(after)
