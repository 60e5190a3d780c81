"""What is fuzzed: functions of bytes that must return, whatever the bytes, and soon. And the laws that hold on the way.

A target raises only where the code under test is wrong: refusals with a message are what a hostile input should get.
"""

import contextlib
import functools
import os
import tempfile
from itertools import pairwise
from pathlib import Path

import distir
from distir.analysis.program import read
from distir.config import ConfigError
from distir.config import load as load_settings
from distir.cost import HardwareError
from distir.cost import load as load_hardware
from distir.diagnostics import ProgramError, Report, Span
from distir.diagnostics.formats import FORMATS
from distir.ide.actions import annotations, fixes, functions, recompute, schedule, transforms
from distir.ide.calls import incoming, outgoing, prepare_calls
from distir.ide.completion import completions
from distir.ide.diagnostics import findings
from distir.ide.document import Setup, open_document
from distir.ide.edits import applied
from distir.ide.folding import folds
from distir.ide.formatting import format_document, format_on_type, format_range
from distir.ide.hints import Hints, hints, tooltip
from distir.ide.hover import hover
from distir.ide.instances import View
from distir.ide.lenses import lens_text, lenses
from distir.ide.links import links
from distir.ide.memory import memory_view
from distir.ide.navigation import definition, highlights, references, type_definition
from distir.ide.rank_program import rank_program
from distir.ide.rename import RenameError, prepare, rename
from distir.ide.selection import selections
from distir.ide.signature_help import signature_help
from distir.ide.status import status
from distir.ide.symbols import document_symbols, workspace_symbols
from distir.ide.timeline import timeline_view
from distir.ide.tokens import pieces
from distir.ops import canonical
from distir.syntax import decode, parse, print_module
from distir.syntax import format as formatted

LONGEST = 10_000
"""Bytes of an input. Longer ones are the business of the tests of large files."""

ROOT = Path(__file__).parents[2]
MACHINE = load_hardware(ROOT / "tests" / "golden" / "machine.toml")


def text_of(data):
    """Any bytes as a text: most inputs are UTF-8, and what is not is a text all the same."""
    return data.decode("utf-8", errors="replace")


def text(data):
    """Bytes as a program: decoded, parsed, checked, its diagnostics written; if it is sound, printed and simulated."""
    decode(data)
    source = text_of(data)
    program = read(source, "input.dir")
    for found in program.diagnostics:
        assert isinstance(found.site, Span), found
        assert 0 <= found.site.start <= found.site.end <= len(source), found
    reports = [Report(program.source, program.diagnostics[:50])]
    for form in FORMATS.values():
        form(reports).encode("utf-8", "surrogatepass")
    _formatted(source)
    if program.errors:
        return
    printed = print_module(program.module)
    again = distir.parse(printed)
    assert again == program.module, "what is printed is another program"
    assert print_module(again) == printed, "printing is not stable"
    with contextlib.suppress(ProgramError, LookupError):
        simulated = distir.simulate(program.module, MACHINE)
        assert simulated.latency_s >= 0


def _formatted(source):
    """The formatter changes a text once, and not what it means."""
    syntax = parse(source, "input.dir", canonical)
    try:
        once = formatted(syntax)
    except ProgramError:
        return
    again = parse(once, "input.dir", canonical)
    assert formatted(again) == once, "formatting is not stable"
    assert syntax.duplicates or again.module == syntax.module, "formatting changes the program"


def editor(data):
    """A text in the editor: the first bytes say where the cursor is; every query is asked, before and after an edit.

    Bytes: 2 for the cursor, 1 for the length of the selection, 2 for where something is typed, 1 for how much of what
    stands there goes, 1 for how much of the rest is typed; then what is typed, and the text.
    """
    head, rest = data[:7].ljust(7, b"\0"), data[7:]
    typed, source = text_of(rest[: head[6]]), text_of(rest[head[6] :])
    document = open_document(source, "program.dir", Setup(MACHINE))
    every_query(document, *_selected(head, source))
    at = int.from_bytes(head[3:5], "little") % (len(source) + 1)
    changed = source[:at] + typed + source[at + head[5] % 32 :]
    after = document.edited(changed, 1)
    fresh = open_document(changed, "program.dir", Setup(MACHINE))
    assert after.program.diagnostics == fresh.program.diagnostics, "an edit is not as if read anew"
    assert findings(after) == findings(fresh), "an edit is not as if simulated anew"
    every_query(after, *_selected(head, changed), before=document)


def _selected(head, source):
    start = int.from_bytes(head[:2], "little") % (len(source) + 1)
    return Span(start, min(len(source), start + head[2])), start


def every_query(document, span, offset, before=None):
    """Ask all that an editor asks. `before`: an earlier version, which may be what is simulated."""
    for query in (definition, references, highlights, type_definition, selections, completions, signature_help):
        query(document, offset)
    with contextlib.suppress(RenameError):
        prepare(document, offset)
        rename(document, offset, "fresh")
    syntax = document.program.syntax
    document_symbols(document)
    list(workspace_symbols(syntax, "m"))
    folds(document)
    links(syntax)
    for view in (View(document, document), View(document, before), View(document, None)):
        hover(view, offset)
        for hint in hints(view, span, Hints()):
            tooltip(view, hint.function, hint.kind, hint.index, hint.part)
        for lens in lenses(document):
            lens_text(view, lens.function, lens.kind)
    list(pieces(View(document, document), 0, len(document.text), lambda piece: len(piece.encode("utf-16-le")) // 2))
    status(document, before)
    _views(document)
    item = prepare_calls(document, offset)
    if item is not None:
        incoming(document, item.name)
        outgoing(document, item.name)
    _changes(document, span, offset)


def _views(document):
    memory_view(document)
    timeline_view(document)
    with contextlib.suppress(LookupError):
        rank_program(document, 1)


def _changes(document, span, offset):
    changes = [format_document(document), format_range(document, span)]
    changes += [format_on_type(document, offset, typed) for typed in ("\n", "}")]
    offered = [*fixes.quick_fixes(document, span), *annotations.state_types(document, span)]
    offered += [*functions.inline_call(document, span), *functions.outline_selection(document, span)]
    offered += [*schedule.faster_moves(document, span), *recompute.recomputations(document, span)]
    unused = fixes.remove_unused(document)
    transforms.offers(document, span)
    for edits in (*changes, *(a.edits for a in offered), unused.edits if unused is not None else ()):
        ordered = sorted(edits, key=lambda e: (e.span.start, e.span.end))
        assert all(a.span.end <= b.span.start for a, b in pairwise(ordered)), "edits overlap"
        applied(document.text, edits)


def settings(data):
    """Bytes as `distir.toml`, and as a hardware profile."""
    path = scratch() / "distir.toml"
    path.write_bytes(data)
    with contextlib.suppress(ConfigError):
        load_settings(path)
    with contextlib.suppress(HardwareError):
        load_hardware(path)


def onnx(data):
    """Bytes as an ONNX model. What comes in checks without failing, and prints and parses back."""
    from distir.importers import ImportRefused

    path = scratch() / "model.onnx"
    path.write_bytes(data)
    try:
        module = distir.import_onnx(path)
    except ImportRefused:
        return
    for name in module.weights:
        with contextlib.suppress(ImportRefused, MemoryError):
            module.weights[name]
    distir.check(module)
    assert distir.parse(distir.format(module)) == module


def tensors(data):
    """Bytes as files of tensors: safetensors, npy, npz."""
    from distir.cli.endings import Refused
    from distir.cli.tensors import given_inputs
    from distir.files.safetensors import FormatError, read
    from distir.ir import UNKNOWN, Param

    path = scratch() / "tensors.safetensors"
    path.write_bytes(data)
    with contextlib.suppress(FormatError):
        for tensor in read(path).values():
            tensor.load()
    for name in ("x.npy", "x.npz"):
        path = scratch() / name
        path.write_bytes(data)
        with contextlib.suppress(Refused):
            given = [f"x={path}"] if name == "x.npy" else []
            given_inputs([Param("x", UNKNOWN)], given, None if given else str(path))


TARGETS = {"text": text, "editor": editor, "settings": settings, "onnx": onnx, "tensors": tensors}


@functools.cache
def scratch():
    """A folder in memory, where there is one, for what is read as a file."""
    shared = "/dev/shm"
    folder = tempfile.TemporaryDirectory(dir=shared if os.access(shared, os.W_OK) else None)
    _KEPT.append(folder)
    return Path(folder.name)


_KEPT = []


def clean():
    """Remove what `scratch` made, before a process that does not end as others do."""
    while _KEPT:
        _KEPT.pop().cleanup()
