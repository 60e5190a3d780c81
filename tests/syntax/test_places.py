"""Where things stand: every part of a program can be pointed at in its text."""

import pytest

from distir.diagnostics import Span
from distir.ir import Attributes, Literal, Part, Site
from distir.syntax import parse

TEXT = """\
// first
func @f(%w: Tensor[Float32, (8, 8), 1] {param}, %x) -> (D1, ?) {
  %y: D1, _ = Split[axis = 0](%x, // why
     [%w, %x], 2.0)

  %z = @g(%y) %u = Relu(%z) on side // beside
  return %z, %u
}
func @g(%x) { return %x }
"""


def spelling(op, args, attrs):
    """Two of the paper's ops."""
    if op == "Send" and len(args) == 2:
        assert isinstance(args[1], Literal)
        return args[:1], Attributes({"device": args[1].value, **attrs})
    if op == "Reduce" and isinstance(args[0], tuple):
        return args[0], Attributes({"root": args[1].value, "axis": attrs["dim"]})
    return args, attrs


@pytest.mark.parametrize(
    ("site", "text"),
    [
        (Site("f"), "func @f"),
        (Site("f", None, Part("name")), "@f"),
        (Site("f", None, Part("param", 1)), "%x"),
        (Site("f", None, Part("param", "w")), "%w"),
        (Site("f", None, Part("param_type", 0)), "Tensor[Float32, (8, 8), 1]"),
        (Site("f", None, Part("param_type", "x")), "%x"),
        (Site("f", None, Part("role", 0)), "{param}"),
        (Site("f", None, Part("role", "param")), "param"),
        (Site("f", None, Part("result_type", 1)), "?"),
        (Site("f", 0, Part("result", 0)), "%y"),
        (Site("f", 0, Part("result", 1)), "_"),
        (Site("f", 0, Part("claim", 0)), "D1"),
        (Site("f", 0, Part("claim", 1)), "_"),
        (Site("f", 0, Part("callee")), "Split"),
        (Site("f", 0, Part("attribute", "axis")), "axis = 0"),
        (Site("f", 0, Part("attribute", "none")), "Split"),
        (Site("f", 0, Part("operand", 0)), "%x"),
        (Site("f", 0, Part("operand", 1)), "[%w, %x]"),
        (Site("f", 0, Part("operand", 2)), "2.0"),
        (Site("f", 1), "%z = @g(%y)"),
        (Site("f", 1, Part("callee")), "@g"),
        (Site("f", 2), "%u = Relu(%z) on side"),
        (Site("f", 2, Part("stream")), "side"),
        (Site("f", 1, Part("stream")), "%z = @g(%y)"),
        (Site("f", 1, Part("facts")), "%z = @g(%y)"),
        (Site("f", 3, Part("operand", 1)), "%u"),
        (Site("f", 3, Part("operand", 7)), "return %z, %u"),
        (Site("g", 0), "return %x"),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_every_part_has_its_place(site, text, end):
    source = TEXT.replace("\n", end)
    span = parse(source).source_map(site)
    assert source[span.start : span.end] == text


def test_what_is_not_in_the_text_has_no_place():
    syntax = parse(TEXT)
    assert syntax.source_map(Site("h")) is None
    assert syntax.source_map(Site("f", 99)) is None


@pytest.mark.parametrize(
    ("part", "start", "text"),
    [
        (Part("operand", 0), 13, "%a"),
        (Part("operand", 2), 21, "%a"),
        (Part("attribute", "root"), 26, "1"),
        (Part("attribute", "axis"), 29, "dim = 0"),
    ],
)
def test_places_are_those_of_what_was_written(part, start, text):
    statement = "%r = Reduce([%a, %b, %a], 1, dim = 0)"
    source = f"func @f(%a, %b) {{\n  {statement}\n  return %r\n}}"
    syntax = parse(source, spelling=spelling)
    assert syntax.module.functions["f"].body[0].args == ("a", "b", "a")
    span = syntax.source_map(Site("f", 0, part))
    assert source[span.start : span.end] == text
    assert span.start == source.index(statement) + start


def test_the_spelling_is_canonical_and_called_once_per_skeleton():
    calls = []

    def counted(op, args, attrs):
        calls.append(op)
        return spelling(op, args, attrs)

    lines = "\n".join(f"  %y{i} = Send(%x{i}, 2)" for i in range(100))
    syntax = parse(f"func @f(%x) {{\n{lines}\n  return %x\n}}", spelling=counted)
    body = syntax.module.functions["f"].body
    assert all(s.args == (f"x{i}",) and dict(s.attrs) == {"device": 2} for i, s in enumerate(body[:-1]))
    assert calls == ["Send"]


def test_the_statement_at_an_offset_is_found():
    syntax = parse(TEXT)
    f = syntax.functions[0]
    assert f.statement_at(TEXT.index("Split")) == 0
    assert f.statement_at(TEXT.index("// first")) is None
    assert f.statement_at(TEXT.index("\n\n") + 1) is None
    assert f.statement(3) == Span(TEXT.index("return"), TEXT.index("return") + 13)
    assert syntax.function_at(TEXT.index("Split")) is f
    assert syntax.function_at(0) is None
    assert syntax.function_at(len(TEXT)) is None
