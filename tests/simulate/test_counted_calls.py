"""A counted statement means what is done each time: in values, types, devices, ticks, bytes, proofs and texts."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from programs import FLOAT64
from simulate_samples import machine
from thorough import most_programs

import distir
from distir.analysis.program import read
from distir.ir import Apply, Attributes, Call, Facts, Function, Literal, Module, Param, Return, TensorType
from distir.ir.counted import times_in
from distir.ir.rolling import LEAST, rolled, unrolled
from distir.ir.types import UNKNOWN
from distir.models import gpt2
from distir.ops import canonical
from distir.prove import prove
from distir.simulate import simulate
from distir.syntax import format, parse, print_module, print_rolled  # noqa: A004
from distir.transform import transform

MACHINE = machine()
T = TensorType(FLOAT64, (2, 2), 1)
quick = settings(max_examples=most_programs(150), deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def repeated(draw):
    """A program that calls a function several times: with the same value, one for each call, or what others gave."""
    params, results = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    body, known = [], [f"p{i}" for i in range(params)]
    for number in range(draw(st.integers(1, 4))):
        op = draw(st.sampled_from(["Add", "Mul", "Relu", "MatMul"]))
        args = tuple(draw(st.sampled_from(known)) for _ in range(1 if op == "Relu" else 2))
        body.append(Apply((f"v{number}",), op, args))
        known.append(f"v{number}")
    returned = tuple(draw(st.sampled_from(known)) for _ in range(results))
    layer = Function("layer", tuple(Param(f"p{i}", UNKNOWN) for i in range(params)), (*body, Return(returned)))
    times = draw(st.integers(LEAST - 1, 7))
    inputs, calls = [], []

    def taken(hint):
        inputs.append(hint)
        return hint

    kinds = [draw(st.sampled_from(["same", "each", "carried", "lagging"])) for _ in range(params)]
    sources = [draw(st.integers(0, results - 1)) for _ in range(params)]
    first = draw(st.sampled_from([Facts(), Facts("forward", layer=1), Facts("backward", microbatch=3, layer=9)]))
    step = draw(st.sampled_from([0, 1, -1])) if first.layer == 9 else draw(st.integers(0, 1)) * bool(first.layer)
    shared = {k: taken(f"s{k}") for k, kind in enumerate(kinds) if kind == "same"}
    for i in range(times):
        args = []
        for k, kind in enumerate(kinds):
            back = {"carried": 1, "lagging": 2}.get(kind, times)
            if kind == "same":
                args.append(shared[k])
            else:
                args.append(f"r{sources[k]}_{i - back}" if i >= back else taken(f"x{k}_{i}"))
        facts = Facts(first.phase, 0, first.microbatch, first.layer and first.layer + step * i)
        calls.append(Call(tuple(f"r{j}_{i}" for j in range(results)), "layer", tuple(args), facts=facts))
    shown = [
        f"r{j}_{i}" for j in range(results) for i in range(times) if i == times - 1 or draw(st.integers(0, 2)) == 0
    ]
    main = Function("main", tuple(Param(name, T) for name in inputs), (*calls, Return(tuple(shown))))
    return Module([layer, main])


@st.composite
def blocks(draw):
    """A program that does a few statements several times: with what is the same, an item, or what was given before."""
    period, times = draw(st.integers(2, 4)), draw(st.integers(LEAST, 6))
    layer = Function(
        "layer", (Param("a", UNKNOWN), Param("b", UNKNOWN)), (Apply(("c",), "Add", ("a", "b")), Return(("c", "a")))
    )
    kinds, ops = ["same", "each", "now", "carried", "lagging"], ["Add", "Mul", "Relu", "MatMul", "@layer"]
    does = [draw(st.sampled_from(ops + ["Send"] * (number > 0))) for number in range(period)]
    sources = [number for number, op in enumerate(does) if op != "Send"]
    arity = [1 if op in ("Relu", "Send") else 2 for op in does]
    given_by = [[(draw(st.sampled_from(kinds)), draw(st.sampled_from(sources))) for _ in range(n)] for n in arity]
    inputs, body = [], []

    def taken(hint):
        if hint not in inputs:
            inputs.append(hint)
        return hint

    facts = [
        draw(st.sampled_from([(Facts(), 0), (Facts("optimizer"), 0), (Facts("forward", 2, layer=9), -1)])) for _ in does
    ]
    for i in range(times):
        for j, op in enumerate(does):
            args = []
            for k, (kind, source) in enumerate(given_by[j]):
                at = i - {"now": 0, "carried": 1, "lagging": 2}.get(kind, times)
                source = source if kind != "now" or source < j else 0
                if kind == "same":
                    args.append(taken(f"s{j}_{k}"))
                elif kind == "each" or at < 0 or (kind == "now" and j == 0):
                    args.append(taken(f"x{j}_{k}.{i}"))
                else:
                    args.append(f"r{source}_{at}")
            stated, step = facts[j]
            of = taken(f"w{j}.{i}") if stated.phase == "optimizer" else ""
            stated = Facts(stated.phase, stated.stage, 0, stated.layer and stated.layer + step * i, of)
            if op == "@layer":
                body.append(Call((f"r{j}_{i}", f"t{j}_{i}"), "layer", tuple(args), facts=stated))
            else:
                attrs = {"device": 2 + i if j % 2 else 7 - i} if op == "Send" else {}
                body.append(Apply((f"r{j}_{i}",), op, tuple(args), Attributes(attrs), facts=stated))
    every = draw(st.booleans())
    shown = [f"r{j}_{i}" for j in range(period) for i in range(times) if every or draw(st.integers(0, 2)) == 0]
    main = Function("main", tuple(Param(name, T) for name in inputs), (*body, Return(tuple(shown))))
    return Module([layer, main])


def values(module):
    rng = np.random.default_rng(1)
    inputs = {param.name: rng.standard_normal((2, 2)) for param in module.functions["main"].params}
    return list(distir.run(module, inputs).values())


@given(repeated())
@quick
def test_it_means_its_calls(module):
    short = rolled(module)
    assert any(map(times_in, short)) == (len(module.functions["main"].body) > LEAST)
    means_the_same(module, short)


@given(blocks())
@quick
def test_a_block_means_its_statements(module):
    short = rolled(module)
    means_the_same(module, short, "dgx-h100")
    assert len(unrolled(short).functions["main"].body) == len(module.functions["main"].body)


def means_the_same(module, short, machine=MACHINE):
    assert not [d for d in distir.check(short) if d.severity == "error"]
    for back in (short, unrolled(short)):
        for one, other in zip(values(module), values(back), strict=True):
            assert np.array_equal(one, other)
        was, now = simulate(module, machine), simulate(back, machine)
        assert now.latency_s == was.latency_s
        assert {d: use.peak_memory_bytes for d, use in now.devices.items()} == {
            d: use.peak_memory_bytes for d, use in was.devices.items()
        }
        assert now.ops == was.ops
    assert [s.facts for s in unrolled(short).functions["main"].body[:-1]] == [
        s.facts for s in module.functions["main"].body[:-1]
    ]


@given(repeated() | blocks())
@quick
def test_its_text_is_read_back_and_every_version_of_it_is(module):
    short = rolled(module)
    text = print_module(short)
    syntax = parse(text, spelling=canonical)
    assert not syntax.diagnostics
    assert syntax.module == short
    assert format(syntax) == text
    for old, new in (
        ("\n}", "\n  %extra = Relu(%x0_0)\n}"),
        ("    %", "    %also = Relu(%x)\n    %"),
        ("  }\n", "\n"),
        ("{\n    ", "{"),
    ):
        edited = text.replace(old, new, 1)
        again = parse(edited, spelling=canonical, previous=syntax)
        fresh = parse(edited, spelling=canonical)
        assert again.module == fresh.module
        assert again.diagnostics == fresh.diagnostics


@given(repeated() | blocks())
@quick
def test_it_is_proved_and_lowered_like_its_calls(module):
    short = rolled(module)
    assert prove(short, module).proved
    assert prove(module, short).proved


def test_a_training_step_is_shorter_and_simulates_as_before():
    model = gpt2(layers=6, heads=2, width=32, sequence=16, vocabulary=64)
    long = transform(model, "grad", "loss=cross_entropy", "optimizer=adamw", "dtp=1,2,2", "microbatches=8")
    short = rolled(long)
    assert len(print_module(short).splitlines()) < len(print_module(long).splitlines())
    assert simulate(short, bind={"B": 16}).latency_s == simulate(long, bind={"B": 16}).latency_s


def test_steps_take_and_give_counted_calls():
    model = parse(
        print_rolled(gpt2(layers=6, heads=2, width=32, sequence=16, vocabulary=64)), spelling=canonical
    ).module
    assert any(map(times_in, model))
    made = transform(model, "grad", "loss=cross_entropy")
    assert any(map(times_in, made))
    assert simulate(made, bind={"B": 4}).latency_s == simulate(unrolled(made), bind={"B": 4}).latency_s


PROGRAM = """func @layer(%x: Tensor[Float32, (4, 4), 1], %w: Tensor[Float32, (4, 4), 1]) {
  %s = MatMul(%x, %w)
  %y = Relu(%s)
  return %y, %s
}

func @main(%x: Tensor[Float32, (4, 4), 1], %w_{1..4}: Tensor[Float32, (4, 4), 1], %v: Tensor[Float32, (4, 5), 1]) {
  STATEMENT
  return %y
}
"""
WRONG = [
    ("%y, [%s_{1..4}] = @layer(%x then %y, [%w_{1..3}]) 4 times", "[%w_{1..3}]", "this list has 3 items"),
    ("%y, [%s_{1..3}] = @layer(%x then %y, [%w_{1..4}]) 4 times", "[%s_{1..3}]", "lists 3 names"),
    ("%y, _ = @layer(%x then %z, [%w_{1..4}]) 4 times", "%x then %z", "`%z` is not a result"),
    ("%y, _ = @layer(%y, [%w_{1..4}]) 4 times", "%y", "which the first time does not have"),
    ("%y, _ = @layer(%x then %y, [%w_{1..4}]) -4 times", "-4 times", "no number of times"),
    ("%y, _ = @layer(%x then %y, [%w_{1..4}]) 0 times", "0 times", "no number of times"),
    ("%y, _ = @layer(%x then %y, [%w_{1..4}]) 9999999 times", "9999999 times", "no number of times"),
    ("%y, _ = @layer(%x then %y, [%w_{1..4}]) n times", "n", "expected the end of the statement"),
    ("%y, [%s_{1..4}] = @layer(%x then %y, [%w_{1..4}])", "%y, [%s_{1..4}]", "a list of results belongs to"),
    ("%y = @layer(%x then %y)", "@layer(%x then %y)", "an operand with `then` belongs to"),
    ("%y = Relu(%x) {layer = 1..4}", "{layer = 1..4}", "a range of facts belongs to"),
    ("%y = Relu(%x) {of = [%x]}", "{of = [%x]}", "a list behind `of` belongs to"),
    ("%y = Relu(%x then %y) 4 times {of = [%x, %v]}", "{of = [%x, %v]}", "`of` lists 2 parameters"),
    ("repeat 4 times { %y = Relu([%w_{1..3}]) }", "[%w_{1..3}]", "this list has 3 items"),
    ("repeat 4 times { %y = Relu(%s)  %s = Relu(%x) }", "%s", "which the first time does not have"),
    ("repeat 1 times { %y = Relu(%x) }", "1 times", "are done once"),
    ("repeat 4 times { %y = Relu(%x then %y) 4 times }", "%y = Relu(%x then %y) 4 times", "nothing that is counted"),
    ("repeat 4 times { %y = Concat[axis = 0]([%x, %y]) }", "[%x, %y]", "this list has 2 items"),
    ("repeat 4 times { %y = Relu(%x)  %y = Relu(%x) }", "%y", "`%y` is given twice"),
    ("%y, _ = @layer(%x then %y, [%w_{1..4}]) 4 times {layer = 1..6}", "{layer = 1..6}", "do not count on evenly"),
    ("%y, [%s_{1..4}] = @layer(%x, [%w_1, %s_3, %s_1, %s_2]) 4 times", "[%w_1, %s_3, %s_1, %s_2]", "is what time 3"),
    (
        "%y, [%s_{1..9999999}] = @layer(%x then %y, [%w_{1..4}]) 4 times",
        "[%s_{1..9999999}]",
        "means more than 65536 names",
    ),
    ("%y, _ = @layer(%x then %y, [%w_{1..3}, %v]) 4 times", "%v", "expected `Tensor[Float32, (4, 4), 1]`"),
    ("%y, _ = @layer(%x then %y) 4 times", "@layer", "expected 2 arguments (%x, %w), found 1"),
    ("%y, _ = @layr(%x then %y, %w_1) 4 times", "@layr", "there is no function `@layr`"),
]


@pytest.mark.parametrize(("statement", "where", "words"), WRONG)
def test_what_does_not_fit_is_one_finding_at_its_place(statement, where, words):
    program = read(PROGRAM.replace("STATEMENT", statement))
    found = program.errors[0]
    assert len(program.errors) == 1
    assert words in found.message
    assert program.source.text[found.site.start : found.site.end] == where


def test_a_value_that_changes_its_type_from_call_to_call_is_refused():
    text = """func @double(%x: Tensor[Float32, (4, 4), 1]) {
  %y = Concat[axis = 1](%x, %x)
  return %y
}

func @main(%x: Tensor[Float32, (4, 4), 1]) {
  %y = @double(%x then %y) 2 times
  return %y
}
"""
    (found,) = read(text).errors
    assert text[found.site.start : found.site.end] == "%x then %y"
    assert "found `Tensor[Float32, (4, 8), 1]`" in found.message
    assert [note.message for note in found.notes] == ["at time 2 of 2"]


def test_a_short_text_does_not_stand_for_millions_of_calls():
    line = "  %y{} = @layer(%x then %y{}, %w_1) 60000 times"
    lines = "\n".join(line.format(n, n).replace(f"%y{n} =", f"%y{n}, _ =") for n in range(200))
    program = read(PROGRAM.replace("  STATEMENT", lines).replace("return %y\n", "return %y1\n"))
    assert any("mean more names and statements than" in found.message for found in program.errors)


def test_literals_are_items_and_constants():
    text = PROGRAM.replace("STATEMENT", "%y, _ = @layer(%x then %y, [1.0, 2.0, 3.0, 4.0]) 4 times").replace(
        ", %w: Tensor[Float32, (4, 4), 1]) {\n  %s = MatMul(%x, %w)", ", %w) {\n  %s = Mul(%x, %w)"
    )
    program = read(text)
    assert not program.errors
    call = program.module.functions["main"].body[0]
    assert [s.args[1] for s in program.module.functions[call.function].body[:-1]] == [
        Literal(float(n)) for n in range(1, 5)
    ]


def test_a_report_names_what_is_repeated_as_the_text_does(tmp_path, capsys):
    from distir.cli import main

    path = tmp_path / "a.dir"
    text = "func @main(%x_{1..4}: Tensor[Float32, (512, 512), 1]) {\n  repeat 4 times {\n"
    text += (
        "    %s = Relu([%x_{1..4}])\n    [%y_{1..4}] = MatMul(%s, %s)\n  }\n  return %y_1, %y_2, %y_3, %y_4, %s\n}\n"
    )
    path.write_text(text)
    assert main(["simulate", str(path)]) == 0
    said = capsys.readouterr().out
    row = next(line for line in said.splitlines() if "%y_3 = MatMul" in line)
    assert row.split()[-2:] == ["@main", "4"]
    assert "_x4_" not in said


def test_of_names_the_parameter_of_the_counted_function():
    """As in any function: a reader that follows the call finds the weight, whatever that is called."""
    text = "func @main(%x2_{1..4}: Float32[1] {param}, %g_{1..4}: Float32[1]) {\n"
    text += "  [%x2_{1..4}_new] = Sub([%x2_{1..4}], [%g_{1..4}]) 4 times {optimizer, of = [%x2_{1..4}]}\n"
    text += "  return %x2_1_new, %x2_2_new, %x2_3_new, %x2_4_new\n}\n"
    module = parse(text, spelling=canonical).module
    (call, _) = module.functions["main"].body
    inside = module.functions[call.function]
    given = dict(zip([p.name for p in inside.params], call.args, strict=True))
    assert [given[s.facts.of] for s in inside.body[:-1]] == [f"x2_{n}" for n in range(1, 5)]
    assert [s.facts.of for s in unrolled(module).functions["main"].body[:-1]] == [f"x2_{n}" for n in range(1, 5)]
    assert parse(print_module(module), spelling=canonical).module == module
