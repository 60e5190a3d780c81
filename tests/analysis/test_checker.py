"""The checker on whatever it is given: broken texts, renamed programs, one mistake, very deep and long programs."""

import re
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import programs
from strategies import constants, modules, symbolic_dims
from thorough import most_examples

import distir
from distir.analysis import check, execute, interpret
from distir.analysis.program import read
from distir.diagnostics import Severity, Span
from distir.ir import (
    Apply,
    Broken,
    Call,
    Function,
    Literal,
    Module,
    Param,
    Return,
    Site,
    TensorType,
    types,
)
from distir.ir.builder import FunctionBuilder
from distir.ops import OPS
from distir.simulate import BindError
from distir.syntax import parse_type

ROOT = Path(__file__).parent.parent.parent
TEXTS = [path.read_text() for path in sorted(ROOT.glob("examples/*.dir"))]
TEXTS += [path.read_text() for path in sorted(ROOT.glob("tests/check/*.dir"))]
TOKEN = re.compile(r"\s+|[%@]?[\w.-]+|.")

LAW = settings(max_examples=most_examples(100), deadline=None)


# Any text.


@st.composite
def damaged(draw):
    """A text with tokens deleted, doubled, swapped, and put in from elsewhere."""
    tokens = TOKEN.findall(draw(st.sampled_from(TEXTS)))
    first = draw(st.integers(0, max(0, len(tokens) - 400)))
    tokens = tokens[first : first + 400]  # a piece is damaged in more ways than a whole, and sooner
    for _ in range(draw(st.integers(1, 6))):
        i, j = (draw(st.integers(0, len(tokens) - 1)) for _ in range(2))
        match draw(st.sampled_from(["delete", "double", "swap", "put"])):
            case "delete":
                del tokens[i]
            case "double":
                tokens.insert(i, tokens[i])
            case "swap":
                tokens[i], tokens[j] = tokens[j], tokens[i]
            case "put":
                strange = ["-1", "0", "Tuple[", "]", "[", "(", ")", "{", "}", "_", "%", "@", '"', "/*", "host", "?"]
                strange += ["99999999999999999999", "nan", "é", "\x00", "D1", "dense<Int64, [1]>", "...", "%x", "@main"]
                tokens.insert(i, draw(st.sampled_from(strange)))
        if len(tokens) < 2:
            break
    return "".join(tokens)


@given(damaged())
@settings(max_examples=most_examples(400), deadline=None, derandomize=True)
def test_any_text_is_checked_and_every_diagnostic_lies_in_it(text):
    program = read(text)
    for diagnostic in program.diagnostics:
        for site in [diagnostic.site, *(note.site for note in diagnostic.notes if note.site is not None)]:
            assert isinstance(site, Span)
            assert 0 <= site.start <= site.end <= len(text)
        assert diagnostic.message
        assert "\n" not in diagnostic.message
    assert read(text).diagnostics == program.diagnostics


@given(damaged())
@settings(max_examples=most_examples(100), deadline=None, derandomize=True)
def test_what_checks_can_be_asked_for_its_simulation(text):
    """Simulation says what is missing; it does not fail in ways of its own."""
    program = read(text)
    if not program.errors and program.module.functions:
        with suppress(distir.ProgramError):
            distir.simulate(program.module)


@st.composite
def plausible(draw):
    """Modules that mean nothing, of ops that exist, with literals and attributes of every kind in every place."""
    module = draw(modules)
    ops = sorted(OPS)

    def real(statement):
        if not isinstance(statement, Apply):
            return statement
        op = OPS[draw(st.sampled_from(ops))]
        attrs = dict(statement.attrs)
        for name in op.attributes:
            if draw(st.booleans()):
                attrs[name] = draw(constants)
        return replace(statement, op=op.name, attrs=type(statement.attrs)(attrs))

    return Module(replace(f, body=tuple(map(real, f.body))) for f in module)


@given(plausible())
@settings(max_examples=most_examples(30), deadline=None, derandomize=True)
def test_any_module_is_checked(module):
    first = check(module)
    assert check(module).diagnostics == first.diagnostics
    for found in first.diagnostics:
        assert isinstance(found.site, Site)


@st.composite
def op_calls(draw):
    """One op, given as many operands as it takes or nearly so, of types that may fit."""
    op = OPS[draw(st.sampled_from(sorted(OPS)))]
    f = FunctionBuilder("f")
    count = draw(st.integers(max(0, len(op.operands) - 1), len(op.operands) + 1))
    dtypes = st.sampled_from([distir.ir.DTYPES[name] for name in ("Float32", "Int64", "Bool")])
    size = st.none() | st.integers(0, 4) | symbolic_dims()
    shapes = st.none() | st.lists(size, max_size=3).map(tuple)
    tensors = st.builds(TensorType, st.none() | dtypes, shapes, st.sampled_from([None, -1, 1, 2]))
    some = st.one_of(tensors, tensors, tensors, st.builds(types.TupleType, st.tuples(tensors)), st.just(types.UNKNOWN))
    numbers = st.integers(-3, 5) | st.floats(-2, 2) | st.lists(st.integers(-3, 5), max_size=3).map(tuple)
    operands = [
        Literal(draw(numbers)) if draw(st.integers(0, 3)) == 0 else f.param("x", draw(some)) for _ in range(count)
    ]
    attrs = {}
    for attribute in op.attributes.values():
        if draw(st.booleans()):
            attrs[attribute.name] = draw(numbers | st.booleans() | st.sampled_from(["sum", "tanh"]) | dtypes)
    results = f.apply(op.name, *operands, results=draw(st.integers(1, 3)), **attrs)
    return Module([f.returns(*results)])


@given(op_calls())
@settings(max_examples=most_examples(300), deadline=None, derandomize=True)
def test_any_op_on_any_operands_is_checked(module):
    analysis = check(module)
    for found in analysis.errors:
        assert found.message
    if not analysis.errors:
        with suppress(distir.ProgramError, BindError):
            distir.simulate(module, bind=dict.fromkeys(dim_names(module), 4))


def dim_names(module):
    return sorted({name for f in module for p in f.params for name in types.dim_names(p.type)})


# Renaming.


@st.composite
def mistaken(draw):
    """A right program with something made wrong in it: an op, an operand, a claim, an argument, a device."""
    program = draw(programs())
    main = program.main
    index = draw(st.integers(0, len(main.body) - 2))
    statement = main.body[index]
    kind = draw(st.sampled_from(["name", "claim", "count", "op", "operand"]))
    if kind == "name":
        statement = replace(statement, args=("nowhere", *statement.args[1:]))
    elif kind == "claim":
        statement = replace(statement, claims=tuple(parse_type("Tensor[Bool, (99,), 9]") for _ in statement.results))
    elif kind == "count":
        statement = replace(statement, args=(*statement.args, *statement.args, *statement.args))
    elif kind == "op":
        statement = Apply(statement.results, "Nonsense", statement.args)
    else:
        other = draw(st.sampled_from([p.name for p in main.params]))
        statement = replace(statement, args=(*statement.args[:-1], other))
    body = (*main.body[:index], statement, *main.body[index + 1 :])
    others = [f for f in program.module if f.name != "main"]
    return Module([*others, replace(main, body=body)])


def shape_of(diagnostics):
    return [(d.code.number, d.site, [n.site for n in d.notes]) for d in diagnostics if d.severity is Severity.ERROR]


def renamed(module, value):
    """The module with other names for its values."""

    def arg(a):
        return value(a) if isinstance(a, str) else tuple(map(arg, a)) if isinstance(a, tuple) else a

    def statement(s):
        s = replace(s, args=tuple(map(arg, s.args)))
        return s if isinstance(s, Return) else replace(s, results=tuple(map(value, s.results)))

    return Module(
        replace(
            f,
            params=tuple(replace(p, name=value(p.name)) for p in f.params),
            body=tuple(map(statement, f.body)),
        )
        for f in module
    )


@given(mistaken())
@LAW
def test_other_names_for_values_leave_the_diagnostics_where_they_were(module):
    other = renamed(module, lambda name: f"q{name}z" if name else "")
    assert shape_of(check(other).diagnostics) == shape_of(check(module).diagnostics)


def moved(module, device):
    """The module with other numbers for its devices."""

    def type_on(t):
        if isinstance(t, types.TupleType):
            return types.TupleType(tuple(map(type_on, t.items)))
        number = device(t.device)
        return TensorType(t.dtype, t.shape, number) if isinstance(t, TensorType) else types.AnyType(number)

    def statement(s):
        if not isinstance(s, Apply):
            return s
        attrs = {
            n: device(v) if n in ("device", "root") else tuple(map(device, v)) if n == "devices" else v
            for n, v in s.attrs.items()
        }
        claims = tuple(c and type_on(c) for c in s.claims)
        return replace(s, attrs=type(s.attrs)(attrs), claims=claims)

    return Module(
        replace(
            f,
            params=tuple(replace(p, type=type_on(p.type)) for p in f.params),
            body=tuple(map(statement, f.body)),
        )
        for f in module
    )


@given(mistaken())
@LAW
def test_other_numbers_for_devices_leave_the_diagnostics_where_they_were(module):
    other = moved(module, lambda d: d if d in (None, -1) else {1: 3, 2: 11, 3: 0, 9: 5}[d])
    assert shape_of(check(other).diagnostics) == shape_of(check(module).diagnostics)


# One mistake.


@given(programs(literals=False), st.data())
@LAW
def test_one_broken_statement_is_one_error_with_nothing_in_its_train(program, data):
    main = program.main
    places = [i for i, s in enumerate(main.body[:-1]) if isinstance(s, Apply) and s.args]
    index = data.draw(st.sampled_from(places))
    wrong = data.draw(st.sampled_from(["op", "attribute", "name"]))
    statement = main.body[index]
    if wrong == "op":
        statement = replace(statement, op="Nonsense")
    elif wrong == "attribute":
        statement = replace(statement, attrs=type(statement.attrs)({**statement.attrs, "nonsense": 1}))
    else:
        statement = replace(statement, args=("nowhere", *statement.args[1:]))
    body = (*main.body[:index], statement, *main.body[index + 1 :])
    module = Module([*(f for f in program.module if f.name != "main"), replace(main, body=body)])
    found = check(module).errors
    assert len(found) == 1, found
    assert found[0].site.function == "main"
    assert found[0].site.index == index


@given(programs(literals=False), st.data())
@LAW
def test_what_could_not_be_read_is_no_further_error(program, data):
    main = program.main
    index = data.draw(st.integers(0, len(main.body) - 2))
    body = (*main.body[:index], Broken(main.body[index].results), *main.body[index + 1 :])
    module = Module([*(f for f in program.module if f.name != "main"), replace(main, body=body)])
    assert check(module).errors == ()


# Calls.

DENSE = """
func @dense(%x, %w) {
  %h = MatMul(%x, %w)
  %y = Relu(%h)
  return %y
}
"""


def errors(text):
    program = read(text)
    return [(d, program.source.position(d.site.start)[0]) for d in program.errors]


def test_what_is_wrong_for_certain_arguments_is_reported_at_the_call_with_the_reason_in_the_callee():
    text = DENSE + (
        "func @main(%x: Tensor[Float32, (2, 3), 1], %w: Tensor[Float32, (4, 5), 1], %v: Tensor[Float32, (3, 5), 1]) {\n"
        "  %a = @dense(%x, %v)\n"
        "  %b = @dense(%x, %w)\n"
        "  return %a, %b\n"
        "}\n"
    )
    ((found, line),) = errors(text)
    assert (found.code.number, line) == ("DIR310", 9)
    program = read(text)
    reason = found.notes[0]
    assert "`MatMul` operands disagree" in reason.message
    assert text[reason.site.start : reason.site.end] == "%w"
    assert program.source.position(reason.site.start)[0] == 3


def test_a_call_through_a_call_is_reported_in_the_outermost_function_whose_types_are_known():
    text = DENSE + (
        "func @two(%x, %w) {\n  %a = @dense(%x, %w)\n  %b = @dense(%a, %w)\n  return %b\n}\n"
        "func @main(%x: Tensor[Float32, (2, 3), 1], %w: Tensor[Float32, (3, 5), 1]) {\n"
        "  %y = @two(%x, %w)\n"
        "  return %y\n"
        "}\n"
    )
    ((found, line),) = errors(text)
    assert (found.code.number, line) == ("DIR310", 13)
    assert [note.site is not None for note in found.notes][:2] == [True, True]


def test_each_wrong_call_is_reported_once():
    calls = "".join(f"  %y{i} = @dense(%x, %w)\n" for i in range(5))
    text = DENSE + (
        "func @main(%x: Tensor[Float32, (2, 3), 1], %w: Tensor[Float32, (4, 5), 1]) {\n"
        f"{calls}  return %y0, %y1, %y2, %y3, %y4\n}}\n"
    )
    assert [(d.code.number, line) for d, line in errors(text)] == [("DIR310", 8 + i) for i in range(5)]


def test_what_is_wrong_in_a_function_by_itself_is_not_reported_again_at_its_calls():
    text = DENSE.replace("Relu(%h)", "Nonsense(%h)") + (
        "func @main(%x: Tensor[Float32, (2, 3), 1], %w: Tensor[Float32, (3, 5), 1]) {\n"
        "  %y = @dense(%x, %w)\n  %z = @dense(%x, %w)\n  return %y, %z\n}\n"
    )
    assert [d.code.number for d, _ in errors(text)] == ["DIR205"]


def test_a_statement_that_names_no_result_is_one_error():
    for op in ("Relu", "Split[num_outputs = 2]", "Split", "MPIAlltoall", "MPIBroadcast[devices = [1, 2]]"):
        found = errors(f"func @f(%y: Tensor[Float32, (4,), 2]) {{\n  {op}(%y)\n  return %y\n}}\n")
        assert len(found) == 1, op


def test_a_literal_beside_an_untyped_operand_does_not_decide_its_element_type():
    assert errors("func @f(%x) {\n  %y = Mul(%x, 2)\n  %z = Tanh(%y)\n  return %z\n}\n") == []


# Deep and long programs.

VECTOR = TensorType(distir.ir.DTYPES["Float32"], (4,), 1)


def chain(depth):
    """`@f0` calls `@f1`, which calls `@f2`, …"""
    functions = [
        Function(f"f{i}", (Param("x", types.UNKNOWN),), (Call(("y",), f"f{i + 1}", ("x",)), Return(("y",))))
        for i in range(depth)
    ]
    last = Function(f"f{depth}", (Param("x", types.UNKNOWN),), (Apply(("y",), "Relu", ("x",)), Return(("y",))))
    main = Function("main", (Param("x", VECTOR),), (Call(("y",), "f0", ("x",)), Return(("y",))))
    return Module([main, *functions, last])


def test_a_long_chain_of_calls_checks():
    limit = sys.getrecursionlimit()
    analysis = check(chain(3000))
    assert analysis.diagnostics == ()
    assert analysis.states["main"]["y"] == VECTOR
    assert sys.getrecursionlimit() == limit


def test_a_long_chain_of_calls_checks_in_any_order_of_the_functions():
    assert check(Module(reversed(list(chain(3000))))).diagnostics == ()


def test_a_long_cycle_of_calls_is_found():
    functions = [
        Function(f"f{i}", (Param("x", VECTOR),), (Call(("y",), f"f{(i + 1) % 3000}", ("x",)), Return(("y",))))
        for i in range(3000)
    ]
    found = check(Module(functions)).errors
    assert {d.code.number for d in found} == {"DIR211"}
    assert len(found) == 3000


def test_a_long_chain_of_calls_runs():
    import numpy as np

    (output,) = execute(chain(3000), {"x": np.array([-1, 0, 1, 2], np.float32)})
    assert output.value.tolist() == [0, 0, 1, 2]


def long_function(length):
    f = FunctionBuilder("main")
    x = f.param("x", VECTOR)
    for _ in range(length):
        (x,) = f.apply("Relu", x)
    return Module([f.returns(x)])


def calls_of_rules(module, monkeypatch):
    """How often an op's rules are asked while a module is checked: a measure that no machine disturbs."""
    from distir.analysis import domains

    count = 0

    def counted(*args):
        nonlocal count
        count += 1
        return domains.infer_types(*args)

    monkeypatch.setattr(sys.modules["distir.analysis.checking"], "MOST_PRECISE_FIRST", (counted,))
    check(module)
    return count


def test_a_long_function_checks_and_equal_statements_are_inferred_once(monkeypatch):
    module = long_function(20_000)
    assert check(module).diagnostics == ()
    assert calls_of_rules(module, monkeypatch) == 1


def test_a_function_is_checked_once_for_each_kind_of_arguments(monkeypatch):
    f = FunctionBuilder("layer")
    x = f.param("x")
    f.returns(*f.apply("Relu", *f.apply("Tanh", x)))
    main = FunctionBuilder("main")
    x = main.param("x", VECTOR)
    layer = f.returns(f.body[-1].results[0])
    for _ in range(1000):
        (x,) = main.call("layer", x)
    module = Module([layer, main.returns(x)])
    assert check(module).diagnostics == ()
    assert calls_of_rules(module, monkeypatch) == 4  # two ops, for its own parameters and for the calls'


def test_broken_statements_do_not_make_checking_quadratic():
    """As many mistakes as statements, each found; positions are looked for only where something is wrong."""
    f = FunctionBuilder("main")
    x = f.param("x", VECTOR)
    for _ in range(3000):
        f.apply("Relu", x, x, results=("_",))
    found = check(Module([f.returns(x)])).errors
    assert [d.site.index for d in found] == list(range(3000))


def test_the_states_of_an_analysis_can_be_asked_for_other_arguments():
    module = distir.parse(DENSE)
    analysis = check(module)
    args = [parse_type("Tensor[Float32, (2, 3), 1]"), parse_type("Tensor[Float32, (3, 5), 1]")]
    instance = analysis.instance(module.functions["dense"], args)
    assert instance.state.returned == (parse_type("Tensor[Float32, (2, 5), 1]"),)
    assert interpret(module.functions["dense"], args, analysis.domain).returned == instance.state.returned
    with pytest.raises(distir.ProgramError) as error:
        analysis.instance(module.functions["dense"], list(reversed(args)))
    assert error.value.diagnostics[0].site == Site("dense", 0, error.value.diagnostics[0].site.part)


def test_what_is_checked_late_is_what_an_instance_runs():
    text = """
    func @wrong(%x: Tensor[Float32, (2, 3), 1]) {
      %y = MatMul(%x, %x)
      return %y
    }
    func @main(%x: Tensor[Float32, (N, N), 1]) {
      %y = Add(%x, %x)
      %z = Relu(%x)
      return %y
    }
    func @calls(%x: Tensor[Float32, (2, 3), 1]) {
      %y = @wrong(%x)
      return %y
    }"""
    module = distir.parse(text)
    assert check(module).errors
    late = check(module, late=True)
    assert not late.diagnostics
    x, calls = parse_type("Tensor[Float32, (4, 4), 1]"), module.functions["calls"]
    assert late.instance(module.functions["main"], [x]).returned == (x,)
    with pytest.raises(distir.ProgramError, match="@wrong"):
        late.instance(calls, [p.type for p in calls.params])


def test_what_is_checked_late_has_sound_names_at_once():
    module = Module([Function("main", (), (Return(("nowhere",)),))])
    assert [d.code for d in check(module, late=True).errors] == [d.code for d in check(module).errors] != []


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("Shape(%x) on side", "`Shape` runs on the host"),
        ("Add([1], [2]) on side", "`Add` runs on the host"),
        ("Reshape(%x, [4]) on side", "`Reshape` is a view"),
        ("After(%x, %x) on side", None),
        ("Transpose(%x) on side", None),
    ],
)
def test_a_stream_on_which_nothing_runs_is_said(statement, why):
    text = f"func @main(%x: Tensor[Float32, (2, 2), 1]) {{\n  %y = {statement}\n  return %y\n}}\n"
    said = [found.message for found in distir.check(distir.parse(text)) if found.code.number == "DIR902"]
    assert said == ([] if why is None else [f"nothing runs on the stream `side` here: {why}"])
