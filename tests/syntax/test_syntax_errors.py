"""Broken text: one finding per mistake, at its place, and everything else is kept."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import modules
from thorough import most_examples

from distir.ir import UNKNOWN, Apply, Broken, Call, Param, Return
from distir.syntax import SyntaxProblem, decode, format, parse, parse_example, parse_literal, parse_type, print_module  # noqa: A004

PROGRAM = """\
func @f(%x: Float32[1]) {{
  {}
  %z = Exp(%x)
  return %z
}}
"""

CASES = [  # the statement, the code, what is marked, and words of the message or the help
    ("%y Relu(%x)", "DIR101", "Relu", "expected `,`, `:` or `=`, found `Relu`"),
    ("%y Relu(%x)", "DIR101", "Relu", "a `=` stands between"),
    ("%y = Relu(%x", "DIR103", "(", "never closed"),
    ("%y = Concat([%x, %x)", "DIR101", ")", "expected `,` or `]`, found `)`"),
    ("%y = Relu(%x))", "DIR101", ")", "expected the end of the statement"),
    ("%y = Relu(%x) on", "DIR101", "", "expected a name, found the end of the statement"),
    ("%y = Relu(%x) on", "DIR101", "", "the name of a stream follows `on`"),
    ("%y = Relu(%x) on 2", "DIR101", "2", "the name of a stream follows `on`"),
    ("%y = Relu(%x) on host", "DIR101", "host", "expected a name, found `host`"),
    ("%y = Relu(%x) at side", "DIR101", "at", "a stream's name follows `on`: `on side`"),
    ("%y = Relu(%x) on side on copy", "DIR101", "on", "expected the end of the statement"),
    ("%y = Relu(%x) on side [%x]", "DIR101", "[", "expected the end of the statement"),
    ("%y = Relu(%x) {forwards}", "DIR120", "forwards", "did you mean `forward`?"),
    ("%y = Relu(%x) {forward, backward}", "DIR120", "backward", "as both `forward` and `backward`"),
    ("%y = Relu(%x) {layer = 1, layer = 1}", "DIR120", "layer = 1", "twice"),
    ("%y = Relu(%x) {stage = 0}", "DIR120", "stage = 0", "counted from 1"),
    ("%y = Relu(%x) {stage = %x}", "DIR120", "stage = %x", "a number, counted from 1"),
    ("%y = Relu(%x) {of = 3}", "DIR120", "of = 3", "write its name, as in `of = %w`"),
    ("%y = Relu(%x) {phase = forward}", "DIR115", "forward", "forward"),
    ("%y = Relu(%x) {forward", "DIR103", "{", "never closed"),
    ("%y = Relu[axis: 1](%x)", "DIR101", ":", "attributes are written `axis = value`"),
    ("%y = Relu[axis = ](%x)", "DIR101", "]", "expected a constant"),
    ("%y = Relu[axis = x](%x)", "DIR115", "x", "found the word `x`"),
    ("%y = Relu[axis = %x](%x)", "DIR101", "%x", "values are operands"),
    ("%y = Relu[a = 1, a = 2](%x)", "DIR116", "a = 2", "`a` is given twice"),
    ("%y = Relu(x)", "DIR115", "x", "`%x`"),
    ("%y = Relu(%x: Float32[1])", "DIR101", ":", "types are stated where a value is defined"),
    ("%y = Relu", "DIR101", "", "operands are in round brackets"),
    ("%y =", "DIR101", "", "expected an op or a function"),
    ("%y: = Relu(%x)", "DIR101", "=", "expected a type"),
    ("y = Relu(%x)", "DIR101", "=", "`%y`"),
    ("% y = Relu(%x)", "DIR101", "%", "a name follows `%` directly"),
    ("%y = @f[a = 1](%x)", "DIR101", "[", "a call has no attributes"),
    ("%y = Relu(%x) -> D1", "DIR101", "->", "result types follow"),
    ("%y = Relu(%x);", "DIR102", ";", "statements end with their line"),
    ("%y = Relu(%x) # no", "DIR102", "#", "comments begin with `//`"),
    ("%y = Rélu(%x)", "DIR102", "é", "found `é`"),
    ("%y = Relu(%x) Exp(%x)", "DIR101", "Exp", "each statement is on its own line"),
    ('%y = Gelu[approximate = "tanh](%x)', "DIR109", '"tanh](%x)', "not closed"),
    (r'%y = Gelu[approximate = "\q"](%x)', "DIR109", r'"\q"', "means nothing"),
    ("%y: Tensor[Float32, (2, -1), 1] = Relu(%x)", "DIR110", "-1", "cannot be negative"),
    ("%y: Tensor[Float32, (8/3,), 1] = Relu(%x)", "DIR110", "8/3", "not divisible"),
    ("%y: Tensor[Float32, (B/S,), 1] = Relu(%x)", "DIR110", "B/S", "cannot be divided"),
    ("%y: Tensor[Float32, ((B+1)/2-B/2,), 1] = Relu(%x)", "DIR110", "(B+1)/2-B/2", "expected an integer"),
    ("%y: Tensor[Float32, (9223372036854775808,), 1] = Relu(%x)", "DIR111", "9223372036854775808", "64 bits"),
    ("%y = Relu[axis = 9223372036854775808](%x)", "DIR111", "9223372036854775808", "64 bits"),
    ("%y = Relu[axis = 1e999](%x)", "DIR111", "1e999", "64 bits"),
    ("%y: Tensor[f32, (2,), 1] = Relu(%x)", "DIR114", "f32", "did you mean `Float32`?"),
    ("%y: Tensor[Float32] = Relu(%x)", "DIR101", "]", "element type, shape, device"),
    ("%y: float32 = Relu(%x)", "DIR114", "float32", "did you mean `Float32`?"),
    ("%y = C[v = dense<Int64, [[1, 2], [3]]>]()", "DIR112", "[[1, 2], [3]]", "differ in length"),
    ("%y = C[v = dense<UInt8, [256]>]()", "DIR112", "[256]", "0 to 255"),
    ("%y = C[v = dense<Int8, [1.5]>]()", "DIR112", "[1.5]", "expected integers"),
    ("%y = C[v = dense<Int8, (2, 3), [1, 2]>]()", "DIR112", "[1, 2]", "expected 6 values, found 2"),
    ("%y = C[v = dense<Int8, (99999999, 9999), 1>]()", "DIR112", "(99999999, 9999)", "too large"),
    ('%y = C[v = external<Int8, (1,), "/etc/x">]()', "DIR113", '"/etc/x"', "relative path"),
    ('%y = C[v = external<Int8, (1,), "a/../../x">]()', "DIR113", '"a/../../x"', "without `..`"),
    ('%y = C[v = external<Int8, (1,), "C:x">]()', "DIR113", '"C:x"', "relative path"),
    ('%y = C[v = external<Int8, (1,), "a\\\\b">]()', "DIR113", '"a\\\\b"', "backslashes"),
    ('%y = C[v = external<Int8, (1,), "\\u0000">]()', "DIR113", '"\\u0000"', "NUL"),
    ("%y = Relu(%x, ...)", "DIR106", "...", "left out"),
    ("...", "DIR106", "...", "left out"),
    ("%y = Relu(" + "[" * 101 + "]" * 101 + ")", "DIR118", "[", "more than 100 deep"),
]


@pytest.mark.parametrize(("statement", "code", "marked", "words"), CASES)
def test_a_mistake_is_one_finding_at_its_place(statement, code, marked, words):
    text = PROGRAM.format(statement)
    syntax = parse(text)
    (found,) = syntax.diagnostics
    assert found.code.number == code
    assert text[found.site.start : found.site.end] == marked
    assert words in f"{found.message} {found.help}"
    body = syntax.module.functions["f"].body
    assert isinstance(body[0], Broken)
    assert body[1:] == (Apply(("z",), "Exp", ("x",)), Return(("z",)))


@pytest.mark.parametrize(
    ("statement", "results"),
    [
        ("%y Relu(%x)", ("y",)),
        ("%a: Tensor[Float32, (2, 3), 1], _, %b = Relu(", ("a", "", "b")),
        ("%a, %b: Tensor[f32, (2, 3), 1] = Relu(%x)", ("a", "b")),
        ("Relu(%x", ()),
    ],
)
def test_a_broken_statement_still_defines_its_results(statement, results):
    assert parse(PROGRAM.format(statement)).module.functions["f"].body[0] == Broken(results)


def test_an_open_bracket_does_not_swallow_what_follows():
    text = "func @f(%x) {\n  %a = Concat([%x,\n  %b = Relu(%x)\n  return %b\n}\nfunc @g(%x) {\n  return %x\n}\n"
    syntax = parse(text)
    assert [d.code.number for d in syntax.diagnostics] == ["DIR103"]
    assert list(syntax.module.functions) == ["f", "g"]
    assert len(syntax.module.functions["f"].body) == 3


@pytest.mark.parametrize(
    "text",
    [
        "func @f(%x) {\n  %y =\n    Concat([%x,\n  return %y\n}\n",
        "func @f(%x) {\n  %y = Concat([%x,\n  %y Relu(%x)\n  return %y\n}\n",
    ],
)
def test_what_is_in_an_open_bracket_is_not_a_second_mistake(text):
    assert len(parse(text).diagnostics) <= 2


@pytest.mark.parametrize(
    ("head", "code", "params"),
    [
        ("func @f(%x: Flaot32[1], %y: D1)", "DIR114", (Param("x", UNKNOWN), Param("y", parse_type("D1")))),
        ("func @f(%x: D1, y, %z)", "DIR101", (Param("x", parse_type("D1")), Param("z", UNKNOWN))),
        ("func @f(%x: D1", "DIR103", (Param("x", parse_type("D1")),)),
        ("func @f %x", "DIR101", ()),
        ("func @f(%x) -> {bad}", "DIR101", (Param("x", UNKNOWN),)),
        ("func f(%x)", "DIR101", (Param("x", UNKNOWN),)),
    ],
)
def test_a_broken_head_keeps_its_function(head, code, params):
    syntax = parse(f"{head} {{\n  %y = Relu(%x)\n  return %y\n}}\nfunc @g() {{ return }}\n")
    assert syntax.diagnostics[0].code.number == code
    assert syntax.functions[0].function.params == params
    assert syntax.functions[-1].function.name == "g"
    if "bad" not in head:
        assert len(syntax.diagnostics) == 1
        assert len(syntax.functions[0].function.body) == 2


@pytest.mark.parametrize(
    ("text", "codes", "functions"),
    [
        ("func @f() {\n  return\n\nfunc @g() {\n  return\n}\n", ["DIR104"], ["f", "g"]),
        ("func @f() {\n  return\n", ["DIR104"], ["f"]),
        ("%y = Relu(%x)\n%z = Relu(%y)\nfunc @f() { return }", ["DIR105"], ["f"]),
        ("hello\n}\nfunc @f() { return }\nworld", ["DIR105", "DIR105"], ["f"]),
        ("func @f() { return }\n}", ["DIR107"], ["f"]),
        ("func @f() { ... }\nfunc @g() { return }", ["DIR106"], ["f", "g"]),
        ("func @f() {\n  return\n}\n/* and", ["DIR108"], ["f"]),
        ("func @f() {\n  return\n/* and\n}", ["DIR108"], ["f"]),
        ("func @f()\n  return\n}\n", ["DIR101"], ["f"]),
        ("func @f(%x) { return %x }", [], ["f"]),
        ("func @f(%x) { %y = Relu(%x) %z = Exp(%y) return %z }", [], ["f"]),
        ("func @f\n(\n%x\n)\n->\nD1\n{\nreturn %x }", [], ["f"]),
        ("", [], []),
        ("// nothing", [], []),
    ],
)
def test_the_frame_of_functions(text, codes, functions):
    syntax = parse(text)
    assert [d.code.number for d in syntax.diagnostics] == codes
    assert list(syntax.module.functions) == functions


def test_of_functions_with_equal_names_the_first_counts():
    text = "func @f() { return }\nfunc @f(%x) { return %x }"
    syntax = parse(text)
    assert syntax.diagnostics == ()
    assert syntax.module.functions["f"].params == ()
    assert len(syntax.functions) == 2
    ((name, first, second),) = syntax.duplicates
    assert (name, text[first.start : first.end], second.start) == ("f", "@f", 26)


@given(st.text())
def test_any_text_is_read(text):
    parse(text)


@given(st.text('%@"[](){}<>=:,.?+-*/ \t\r\nabDfuncretTensor_0123456789e\\', max_size=200))
@settings(max_examples=most_examples(300))
def test_any_text_of_the_right_letters_is_read(text):
    for d in parse("func @f(%a) {\n" + text).diagnostics:
        assert d.site is not None
        assert d.message


@given(modules, st.data())
@settings(max_examples=most_examples(40), deadline=None)
def test_a_program_with_a_hole_is_read_and_its_places_exist(module, data):
    text = print_module(module)
    start = data.draw(st.integers(0, len(text)))
    broken = text[:start] + data.draw(st.sampled_from(["", "(", "]", "}", '"', "/*", "\n", "=", "%", "func "]))
    broken += text[start + data.draw(st.integers(0, 5)) :]
    syntax = parse(broken)
    for d in syntax.diagnostics:
        assert 0 <= d.site.start <= d.site.end <= len(broken)
    for function in syntax.functions:
        assert len(function.starts) == len(function.ends) == len(function.function.body)
        assert 0 <= function.span.start <= function.span.end <= len(broken)
    if not syntax.diagnostics:
        assert parse(format(syntax)).module == syntax.module


@pytest.mark.parametrize("read", [parse_type, parse_literal, parse_example])
@given(text=st.text('%[](){}<>=:,.?-"/ abDTensor01', max_size=30))
def test_small_texts_are_read_or_refused_with_a_reason(read, text):
    with contextlib.suppress(SyntaxProblem):
        read(text)


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (parse_type, "Tensor[Float32, (2, 3), 1", "expected `,` or `]`, found the end of the text"),
        (parse_type, "Tensor[Float32, (2, 3), 1, host]", "expected a name, found `host`"),
        (
            parse_type,
            "Tensor[Float32, (2, 3), 1, offload]",
            "expected `offloaded` behind a tensor's device, found `offload`",
        ),
        (
            parse_type,
            "Tensor[Float32, (2, 3), host, offloaded]",
            "a host value, which is on no device, cannot be offloaded",
        ),
        (parse_type, "Float32[1] 2", "expected the end of the text, found `2`"),
        (parse_literal, "%x", "expected a constant, found `%x`"),
        (parse_literal, "[" * 1000, "brackets are nested more than 100 deep"),
        (parse_example, "%y = @f(%x)", "expected a name, found `@f`"),
    ],
)
def test_why_a_small_text_is_refused(read, text, message):
    with pytest.raises(SyntaxProblem) as caught:
        read(text)
    assert caught.value.message == message


def test_an_example_gives_its_operands_and_its_statement():
    params, statement = parse_example("%y: D1 = MatMul[k = 1](%a: Float32[1], [%b: D2, %a], [1, 2], %c)")
    assert [(p.name, str(p.type)) for p in params] == [("a", "Float32[1]"), ("b", "D2"), ("c", "?")]
    assert isinstance(statement, Apply)
    assert statement.args[:2] == ("a", ("b", "a"))
    assert dict(statement.attrs) == {"k": 1}


def test_bytes_that_are_no_text_are_refused_with_their_place():
    assert decode("// é\r\n".encode()) == ("// é\r\n", ())
    text, (found,) = decode(b"func\r\n\xc3\xa9 \xff")
    assert text is None
    assert "line 2, column 3" in found.message
    text, (found,) = decode(b"PK\x00\x01")
    assert text is None
    assert "NUL" in found.message


@pytest.mark.parametrize(
    "statement",
    [
        f"Foo({'[' * 99}%x{']' * 99})",
        f"Foo[a = {'[' * 99}1{']' * 99}](%x)",
        f"%y: Tensor[Float32, ({'(' * 98}B{')' * 98},), 1] = Foo(%x)",
        f"%y: {'Tuple[' * 100}D1{']' * 100} = Foo(%x)",
    ],
)
def test_what_is_nested_as_deep_as_allowed_is_read(statement):
    syntax = parse(PROGRAM.format(statement))
    assert syntax.diagnostics == ()
    assert parse(format(syntax)).module == syntax.module


def test_what_looks_like_a_name_in_a_string_is_none():
    lines = [f'%y = Foo[s = "%{name}", t = "// %b"](%x) %z = Exp(%{name})' for name in "abc"]
    lines += [f'%y = Foo[s = "%{name}", t = "// %b"](%x)' for name in "abc"]
    lines += [f'%y = Foo[s = "a", t = "// b"](%{name})' for name in "abc"]
    syntax = parse(PROGRAM.format("\n".join(lines)))
    assert syntax.diagnostics == ()
    made = [s for s in syntax.module.functions["f"].body if isinstance(s, Apply) and s.op == "Foo"]
    assert [s.attrs["s"] for s in made] == ["%a", "%b", "%c"] * 2 + ["a"] * 3
    assert [s.args[0] for s in made] == ["x"] * 6 + ["a", "b", "c"]


def test_operands_of_ops_alone_can_be_left_out():
    assert parse(PROGRAM.format("%y = Clip(%x, _, 1.0)")).module.functions["f"].body[0].args[:2] == ("x", "")
    assert len(parse(PROGRAM.format("%y = @g(_)")).diagnostics) == 1


def test_a_call_has_no_keywords():
    assert parse(PROGRAM.format("%y = @g(%x, a = 1)")).diagnostics
    assert parse(PROGRAM.format("%y = @g(%x, 1)")).module.functions["f"].body[0] == Call(
        ("y",), "g", ("x", parse_example("A(1)")[1].args[0])
    )
