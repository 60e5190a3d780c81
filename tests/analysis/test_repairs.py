"""What diagnostics of devices and element types say to do: it stands at the operand, mends, and is the first fix."""

import re
import sys
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from programs import programs
from thorough import most_examples

sys.path.insert(0, str(Path(__file__).parent.parent / "ide"))
from editing_samples import after, opened

from distir.diagnostics import Severity, Span
from distir.ide.actions.fixes import quick_fixes
from distir.ir import Apply, Call, Function, Module, names, operands, results
from distir.ir.rewrite import with_operands
from distir.syntax import print_module

HEAD = """\
func @dense(%w, %x) {
  %A, %b = UnpackTuple(%w)
  %h = Gemm(%x, %A, %b)
  %a = Relu(%h)
  return %a
}

func @outer(%w, %x) {
  %y = @dense(%w, %x)
  return %y
}

func @typed(%x: Tensor[Float32, (200, 100), 1]) {
  %y = Relu(%x)
  return %y
}

func @main(
  %w1: Tuple[Tensor[Float32, (100, 100), 1], Tensor[Float32, (100,), 1]],
  %w2: Tuple[Tensor[Float32, (100, 100), 2], Tensor[Float32, (100,), 2]],
  %x: Tensor[Float32, (200, 100), 1],
  %wide: Tensor[Float32, (200, 90), 1],
  %half: Tensor[Float16, (200, 100), 1]
) {
  %as_1 = @dense(%w1, %x)
  %ar_1 = Send[device = 2](%as_1)
"""
UNFIT = "does not check for these arguments"


@pytest.mark.parametrize(
    ("statement", "message", "guilty", "help"),
    [
        (
            "%y = @dense(%w2, %as_1)",  # weights stay where they are
            f"`@dense` {UNFIT}: expected `%as_1` on device 2, found 1",
            "%as_1",
            "insert `Send[device = 2]` for `%as_1`",
        ),
        (
            "%y: D1 = @dense(%w2, %as_1)",  # but where the result is wanted elsewhere
            f"`@dense` {UNFIT}: expected `%w2` on device 1, found 2",
            "%w2",
            "insert `Send[device = 1]` for `%w2`",
        ),
        (
            "%y = @outer(%w2, %as_1)",
            f"`@outer` {UNFIT}: expected `%as_1` on device 2, found 1",
            "%as_1",
            "insert `Send[device = 2]` for `%as_1`",
        ),
        (
            "%y = @outer(%w1, %half)",
            f"`@outer` {UNFIT}: expected Float32 elements in `%half`, found Float16",
            "%half",
            "insert `Cast[to = Float32]` for `%half`",
        ),
        (
            "%y = @outer(%w1, %wide)",
            f"`@outer` {UNFIT}: `Gemm` operands disagree on dimension `k`: expected 90, found 100",
            "%w1",
            None,
        ),
        (
            "%y = @typed(%ar_1)",
            "`@typed` expected `Tensor[Float32, (200, 100), 1]` for `%x`, found `Tensor[Float32, (200, 100), 2]`",
            "%ar_1",
            None,  # to send it where it came from is no repair
        ),
        (
            "%y = Add(%as_1, %ar_1)",
            "`Add` operands live on different devices: expected 1, found 2",
            "%ar_1",
            "insert `Send[device = 1]` for `%ar_1`",
        ),
        (
            "%y: D2 = Add(%as_1, %ar_1)",
            "`Add` operands live on different devices: expected 2, found 1",
            "%as_1",
            "insert `Send[device = 2]` for `%as_1`",
        ),
        (
            "%y = Add(%as_1, %half)",
            "`Add` operands have different element types: expected Float32, found Float16",
            "%half",
            "insert `Cast[to = Float32]` for `%half`",
        ),
    ],
)
def test_headline_place_and_help_are_about_one_operand(statement, message, guilty, help):
    document = opened(f"{HEAD}  {statement}\n  return %y, %ar_1\n}}\n")
    (found,) = [d for d in document.program.diagnostics if d.severity is Severity.ERROR]
    assert found.message == message
    assert document.text[found.site.start : found.site.end] == guilty
    if help is not None:
        assert found.help == help
        agrees(document, found)


def agrees(document, found):
    """The first fix does what the help says, and is preferred."""
    op, value, listed = re.fullmatch(r"insert `(Send|Cast)\[\w+ = (\w+)\]` for (.*)", found.help).groups()
    actions = quick_fixes(document, found.site)
    first = next(a for a in actions if found in a.fixes and a.title.startswith(("send", "cast", "use")))
    assert first.preferred
    assert first.title in (
        f"send {listed} to device {value}",
        f"use what device {value} has of {listed}",
        f"cast {listed} to {value}",
    )
    assert first.title.startswith("cast") == (op == "Cast")
    return opened(after(document, first.edits))


def test_a_mistake_of_the_function_itself_keeps_no_repair_away():
    text = HEAD.replace("  %a = Relu(%h)", "  %z = Softmax[axes = 1](%h)\n  %a = Relu(%h)")
    document = opened(f"{text}  %y = @dense(%w2, %as_1)\n  return %y, %ar_1\n}}\n")
    found = [d for d in document.program.diagnostics if d.code.number == "DIR310"]
    assert [d.help for d in found] == ["insert `Send[device = 2]` for `%as_1`"]


@settings(max_examples=most_examples(60), deadline=None)
@given(programs(), st.data())
def test_help_and_the_preferred_fix_agree_and_mend(program, data):
    main, body = program.main, list(program.main.body)
    index = data.draw(st.sampled_from([i for i, s in enumerate(body) if isinstance(s, (Apply, Call))]))
    used = [n for n in names(operands(body[index])) if n in program.env]
    assume(used)
    defined = {p.name for p in main.params} | {n for s in body[:index] for n in getattr(s, "results", ())}
    others = sorted(defined & set(program.env))
    body[index] = with_operands(body[index], {data.draw(st.sampled_from(used)): data.draw(st.sampled_from(others))})
    changed = Function(main.name, main.params, tuple(body), main.result_types)
    document = opened(print_module(Module([*(f for f in program.module if f.name != "main"), changed])))
    for found in document.program.diagnostics:
        if found.help and found.help.startswith("insert `") and found.code.number in ("DIR302", "DIR310", "DIR401"):
            assert isinstance(found.site, Span)
            word = document.text[found.site.start : found.site.end]
            assert any(word == name or name in word for name in re.findall(r"%[\w.\-]+", found.help)), word
            mended = agrees(document, found)
            where = document.program.syntax.by_name["main"].statement_at(found.site.start)
            written = mended.program.syntax.by_name["main"]
            (there,) = (i for i, s in enumerate(written.function.body) if results(s) == results(body[where]))
            here = [e for e in mended.program.errors if written.starts[there] <= e.site.start < written.ends[there]]
            assert found.code not in [e.code for e in here]
