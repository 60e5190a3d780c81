"""What is printed reads back; the parser, which reads piece by piece, agrees with the grammar of whole modules."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lark import Transformer
from strategies import constants, long_lists, modules, types
from thorough import most_examples

from distir.ir import Facts, Function, Module, Return, identity
from distir.syntax import parse, parse_literal, parse_type, print_literal, print_module, print_statement
from distir.syntax.grammar import lark
from distir.syntax.reading import RULES, WrittenStatement
from distir.syntax.statements import canonical
from distir.syntax.tokens import TOKEN, kinds

QUICK = settings(max_examples=most_examples(40), deadline=None)


@given(modules)
@QUICK
def test_a_printed_module_reads_back(module):
    text = print_module(module)
    syntax = parse(text)
    assert syntax.diagnostics == ()
    assert syntax.module == module
    assert print_module(syntax.module) == text


@given(types)
@settings(deadline=None)
def test_a_printed_type_reads_back(type):
    assert parse_type(str(type)) == type


@given(constants | long_lists)
@settings(deadline=None)
def test_a_printed_constant_reads_back(value):
    assert identity(parse_literal(print_literal(value))) == identity(value)


class Meaning(Transformer):
    """What Lark's tree of a whole module means, by the same rules."""

    def __default__(self, data, children, meta):
        if data == "module":
            return Module(children)
        if data == "function":
            head, *body = children
            statements = [canonical(s, None) if isinstance(s, WrittenStatement) else Return(s) for s in body]
            return Function(head.name, head.params, tuple(statements), head.result_types, head.kernel)
        return RULES[data](children)


@given(modules)
@QUICK
def test_the_parser_agrees_with_the_grammar_of_whole_modules(module):
    text = print_module(module)
    tree = lark().parse(text, start="module")
    assert Meaning().transform(tree) == parse(text).module


@given(st.text('%@"[](){}<>=:,.?+-*/ \t\nabDfTensor_0123456789e\\', max_size=40))
def test_tokens_are_those_of_the_grammar(text):
    tokens = TOKEN.findall(text)
    if not {"BAD", "..."} & set(kinds(tokens)) and "/" not in text:
        assert [str(token) for token in lark().lex(text)] == tokens


@given(st.lists(st.floats() | st.integers(-(2**63), 2**63 - 1), min_size=70))
@settings(deadline=None)
def test_a_long_list_means_the_same_as_its_numbers_alone(numbers):
    written = print_literal(tuple(numbers)).replace(", ", " ,\n  ")
    assert identity(parse_literal(written)) == identity(tuple(parse_literal(print_literal(n)) for n in numbers))


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("dense<Int64, [2, 3]>", None),
        ("dense<Int64, 7>", None),
        ("dense<Float32, (2, 3), 0.5>", "dense<Float32, [[0.5, 0.5, 0.5], [0.5, 0.5, 0.5]]>"),
        ("dense<Float32, (4, 3), 0.5>", None),
        ("dense<Float32, (0, 3), []>", None),
        ("dense<Float32, (2, 0), []>", "dense<Float32, [[], []]>"),
        ("dense<Int8, (2, 2), [1, 2, 3, 4]>", "dense<Int8, [[1, 2], [3, 4]]>"),
        ("dense<Float32, [1, 2]>", "dense<Float32, [1.0, 2.0]>"),
        ("dense<Bool, [true, false]>", None),
        ('external<Float32, (768, 768), "model.safetensors#wte">', None),
        ('[1, [2.0, []], "a\\"b", true, Float16, -inf]', None),
        ("1e-5", "1e-05"),
        ("- 2", "-2"),
        ("-9223372036854775808", None),
        ("-nan", "nan"),
    ],
)
def test_constants_are_printed_in_one_way(text, printed):
    assert print_literal(parse_literal(text)) == (printed or text)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("Tensor[Float32, (3), 1]", "Tensor[Float32, (3,), 1]"),
        ("Tensor[Float32, (), 1]", "Float32[1]"),
        ("Tensor[Float32, (B*8, (1+B)/2, S*B-1), ?]", "Tensor[Float32, (8*B, (B+1)/2, B*S-1)]"),
        ("Tensor[?, ??, host]", None),
        ("Float32[?]", None),
        ("Int64", None),
        ("Tuple[D1, Tuple[], ?, host]", None),
    ],
)
def test_types_are_printed_in_one_way(text, printed):
    assert str(parse_type(text)) == (printed or text)


def test_the_sign_of_zero_is_kept():
    zero = parse_literal("-0.0")
    assert isinstance(zero, float)
    assert math.copysign(1, zero) == -1


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("%y = Relu(%x)  {layer=2 ,forward}", "%y = Relu(%x) {forward, layer = 2}"),
        ("%y = @f(%x) on side { of = %x }", "%y = @f(%x) on side {of = %x}"),
        ("%y = Relu(%x) {weight, stage = 2, microbatch = 3, layer = 4, of = %layers.0.w}", None),
        ("%y = Relu(%x) {}", "%y = Relu(%x)"),
        ("%of = Relu(%x) on forward {\n backward // a note\n}", "%of = Relu(%x) on forward {backward}"),
    ],
)
def test_facts_follow_all_else_and_are_written_in_one_order(text, printed):
    syntax = parse(f"func @f(%x: Float32[1]) backward, stage = 2 {{\n  {text}\n}}")
    assert syntax.diagnostics == ()
    assert print_statement(syntax.module.functions["f"].body[0]) == (printed or text)
    again = parse(print_module(syntax.module))
    assert again.module == syntax.module
    assert again.module.functions["f"].facts == Facts("backward", 2)


def test_lines_that_differ_in_facts_alone_are_read_alike():
    """Each is read once the long way, and then by the template of the first."""
    lines = [f"  %y{i} = Relu(%x) {{layer = {1 + i % 3}, of = %w{i}}}" for i in range(9)]
    lines += [f"  %z{i} = Relu(%x) on side {{forward, microbatch = {1 + i % 2}}}" for i in range(9)]
    text = "func @f(%x: Float32[1]) {\n" + "\n".join(lines) + "\n}\n"
    body = parse(text).module.functions["f"].body
    assert [s.facts for s in body[:9]] == [Facts(layer=1 + i % 3, of=f"w{i}") for i in range(9)]
    assert [s.facts for s in body[9:]] == [Facts("forward", microbatch=1 + i % 2) for i in range(9)]
    assert "\n".join(f"  {print_statement(s)}" for s in body) == "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("%y = Relu(%x)  on   side", "%y = Relu(%x) on side"),
        ("%y = Relu(%x) on compute", "%y = Relu(%x)"),
        ("Relu(%x) on /* which */ side", "Relu(%x) on side"),
        ("%y = @f(%x) on on", None),
        ("on[on = 1](%on) on on", None),
    ],
)
def test_a_stream_follows_the_operands_and_its_word_is_not_reserved(text, printed):
    syntax = parse(f"func @f(%x: Float32[1] {{on = 1}}) {{\n  {text}\n}}")
    assert syntax.diagnostics == ()
    assert print_statement(syntax.module.functions["f"].body[0]) == (printed or text)
