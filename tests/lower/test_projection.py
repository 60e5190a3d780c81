"""Projection: what the ranks' programs are, alone and together."""

import pytest
from hypothesis import HealthCheck, assume, given, settings
from programs import programs
from thorough import most_examples

import distir
from distir.analysis import check
from distir.diagnostics import ProgramError
from distir.ir import DISCARD, Apply, Call, Function, Module, Return, operands, results, types
from distir.lower import check_order, communications, is_remote, project
from distir.ops import OPS, type_of
from distir.simulate import arguments
from distir.syntax import print_module

LAWS = settings(max_examples=most_examples(60), deadline=None, suppress_health_check=list(HealthCheck))


def ranks(module):
    analysis = check(module)
    entry = module.entry()
    return project(analysis, analysis.instance(entry, [p.type for p in entry.params]))


def values_of(module):
    analysis = check(module)
    entry = module.entry()
    return analysis.instance(entry, [p.type for p in entry.params])


def devices_in(rho, values):
    return set().union(*(types.devices(type_of(rho[v])) for v in values if v != DISCARD), set())


@LAWS
@given(programs())
def test_a_ranks_program_is_a_program(program):
    for own in ranks(program.module).values():
        assert distir.parse(print_module(own)) == own
        assert not check(own).errors


@LAWS
@given(programs())
def test_every_collective_is_on_every_member_in_one_order(program):
    found = {device: [s.key for s in communications(own)] for device, own in ranks(program.module).items()}
    for device, own in found.items():
        assert all(device in event.group for event in own)
        for other, theirs in found.items():
            assert [e for e in own if other in e.group] == [e for e in theirs if device in e.group]
    check_order(ranks(program.module))


@LAWS
@given(programs())
def test_the_union_of_the_projections_is_the_program(program):
    main = program.main
    found = ranks(program.module)
    assume(found)
    together = {}
    for own in found.values():
        own_main = own.functions["main"]
        place = -1
        for statement in own_main.body[:-1]:
            place = next(i for i in range(place + 1, len(main.body)) if is_part(statement, main.body[i]))
            together.setdefault(place, []).append(statement)
    assert sorted(together) == list(range(len(main.body) - 1))
    for place, statements in together.items():
        if isinstance(main.body[place], Apply):
            merged = [
                next((n for n in column if n != DISCARD), DISCARD)
                for column in zip(*map(results, statements), strict=True)
            ]
            assert tuple(merged) == main.body[place].results
    params = {p.name: p for own in found.values() for p in own.functions["main"].params if not is_remote(p)}
    assert params == {p.name: p for p in main.params}
    returned = [arg for own in found.values() for arg in own.functions["main"].returned]
    assert set(returned) == set(main.returned)


def is_part(statement, whole):
    if isinstance(statement, Call):
        named = isinstance(whole, Call) and statement.function.split(".rank")[0] == whole.function
        return named and {n for n in statement.results if n != DISCARD} <= set(whole.results)
    return isinstance(whole, Apply) and same_op(statement, whole)


def same_op(a, b):
    kept = all(x in (y, DISCARD) for x, y in zip(a.results, b.results, strict=False))
    return (a.op, a.args, a.attrs, len(a.results)) == (b.op, b.args, b.attrs, len(b.results)) and kept


@LAWS
@given(programs())
def test_a_statement_is_on_the_ranks_that_it_concerns(program):
    instance = values_of(program.module)
    found = ranks(program.module)
    for statement in program.main.body:
        if not isinstance(statement, Apply) or OPS[statement.op].family == "constant":
            continue
        mentioned = [a for a in operands(statement) if isinstance(a, str)]
        where = devices_in(instance.state, [*mentioned, *statement.results])
        made = devices_in(instance.state, statement.results)
        for device, own in found.items():
            has = any(isinstance(s, Apply) and same_op(s, statement) for s in own.functions["main"].body)
            if device in where:
                assert has
            elif made:
                assert not has


STAGES = """
func @layer(%w, %x) {
  %h = MatMul(%x, %w)
  %y = Relu(%h)
  return %y
}

func @shards(%w_1, %w_2, %x_1, %x_2) {
  %h_1 = MatMul(%x_1, %w_1)
  %h_2 = MatMul(%x_2, %w_2)
  %y_1, %y_2 = MPIAllreduce(%h_1, %h_2)
  return %y_1, %y_2
}

func @main(
  %w_1: Tensor[Float32, (4, 4), 1] {param}, %w_2: Tensor[Float32, (4, 4), 2] {param},
  %w_3: Tensor[Float32, (4, 4), 3] {param}, %w_4: Tensor[Float32, (4, 4), 4] {param},
  %x_1: Tensor[Float32, (B, 4), 1] {batch = 0}, %x_2: Tensor[Float32, (B, 4), 2] {batch = 0}
) {
  %a_1, %a_2 = @shards(%w_1, %w_2, %x_1, %x_2)
  %size = Shape(%a_1)
  %b_3 = Send[device = 3](%a_1)
  %b_4 = Send[device = 4](%a_2)
  %c_3, %c_4 = @shards(%w_3, %w_4, %b_3, %b_4)
  %d_3 = @layer(%w_3, %c_3)
  %e_3 = Reshape(%d_3, %size)
  return %e_3, %c_4
}
"""

STAGE_OF_RANK_3 = """\
func @layer(%w, %x) {
  %h = MatMul(%x, %w)
  %y = Relu(%h)
  return %y
}

func @shards.rank3(%w_1, %x_1, %h_2: D4 {remote}) {
  %h_1 = MatMul(%x_1, %w_1)
  %y_1, _ = MPIAllreduce(%h_1, %h_2)
  return %y_1
}

func @main(
  %w_3: Tensor[Float32, (4, 4), 3] {param},
  %a_1: Tensor[Float32, (B, 4), 1] {remote},
  %shards.rank3.h_2: Tensor[Float32, (B, 4), 4] {remote}
) {
  %size = Shape(%a_1)
  %b_3 = Send[device = 3](%a_1)
  %c_3 = @shards.rank3(%w_3, %b_3, %shards.rank3.h_2)
  %d_3 = @layer(%w_3, %c_3)
  %e_3 = Reshape(%d_3, %size)
  return %e_3
}
"""


def test_functions_are_projected_as_functions():
    assert print_module(ranks(distir.parse(STAGES))[3]) == STAGE_OF_RANK_3


def test_an_unknown_device_is_reported():
    module = distir.parse("func @main(%x: Tensor[Float32, (2,)]) {\n  %y = Relu(%x)\n  return %y\n}\n")
    with pytest.raises(ProgramError, match=r"DIR701.*the device that `Relu` runs on is unknown"):
        ranks(module)


def swapped(module, first, second):
    """The program with two statements of its entry in each other's place."""
    main = module.functions["main"]
    body = list(main.body)
    body[first], body[second] = body[second], body[first]
    rest = [f for f in module if f.name != "main"]
    return Module([*rest, Function("main", main.params, tuple(body), main.result_types)])


TWO_MESSAGES = """
func @main(%x: Tensor[Float32, (2,), 1], %y: Tensor[Float32, (3,), 2]) {
  %a = Send[device = 2](%x)
  %b = Send[device = 1](%y)
  %c = Relu(%a)
  return %c, %b
}
"""


def test_another_order_on_one_rank_is_refused():
    found = ranks(distir.parse(TWO_MESSAGES))
    assert check_order(found) == {1: [0, 1], 2: [0, 1]}
    assert [type(s) for s in found[2].functions["main"].body] == [Apply, Apply, Apply, Return]
    found[2] = swapped(found[2], 0, 1)
    with pytest.raises(ProgramError) as caught:
        check_order(found)
    (problem,) = caught.value.diagnostics
    assert problem.code.number == "DIR702"
    assert "rank 1 would deadlock waiting for rank 2" in problem.message
    assert any("rank 2 is about to run `%b = Send" in note.message or "Send" in note.message for note in problem.notes)


def test_a_rank_that_leaves_early_is_refused():
    found = ranks(distir.parse(TWO_MESSAGES))
    main = found[1].functions["main"]
    found[1] = Module([Function("main", main.params, (main.body[0], Return(())))])
    with pytest.raises(ProgramError, match="rank 2 would deadlock waiting for rank 1"):
        check_order(found)


@pytest.mark.parametrize("degrees", ["2,1,1", "1,2,1", "1,1,2", "2,2,2"])
def test_sizes_that_are_given_hold_in_every_rank(degrees):
    model = distir.models.mlp(4, 8, dtype="Float64", training=True)
    module = distir.transform(model, f"dtp={degrees}", microbatches=2)
    entry = module.entry()
    analysis = check(module)
    instance = analysis.instance(entry, arguments(entry, {"B": 16}))
    for program in project(analysis, instance).values():
        assert not check(program).errors
