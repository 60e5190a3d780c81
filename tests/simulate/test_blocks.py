"""A long body cut into blocks is simulated as it is written, and so are its next versions."""

import random
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle import oracle, same
from simulate_samples import machine, random_module, with_hosts, with_streams
from thorough import most_examples

from distir.analysis import check
from distir.cost import parse
from distir.cost.host import Host
from distir.ir import Apply, Function, Module
from distir.simulate import simulate
from distir.simulate.blocks import outlined
from distir.simulate.body import Body
from distir.simulate.revision import replan

MACHINE = machine()
law = settings(max_examples=most_examples(30), deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


def simulated(module, earlier, hardware=MACHINE):
    """The plan for a version of a module, from that of an earlier one; None where it does not check."""
    analysis = check(module, None if earlier is None else earlier[0])
    if analysis.errors:
        return None
    main = module.functions["main"]
    instance = analysis.instance(main, tuple(param.type for param in main.params))
    plan = replan(module, analysis.domain, instance, hardware, None if earlier is None else earlier[1])
    return analysis, plan


def edited(module, rng):
    """The module with another op in the place of one, one more, or one less."""
    function = rng.choice([*module])
    at = rng.randrange(len(function.body))
    statement = function.body[at]
    if not isinstance(statement, Apply):
        return module
    others = {"Relu": "Neg", "Neg": "Identity", "Identity": "Relu", "Add": "Mul", "Mul": "Add", "SGD": "Add"}
    new = rng.choice(
        [
            (replace(statement, op=others.get(statement.op, statement.op), attrs=Apply((), "Relu", ()).attrs),),
            (statement, replace(statement, results=tuple(f"{name}.again" for name in statement.results), claims=())),
            (),
        ]
    )
    body = (*function.body[:at], *new, *function.body[at + 1 :])
    functions = [Function(f.name, f.params, body, f.result_types) if f is function else f for f in module]
    return Module(functions)


@law
@given(st.integers(0, 2**32), st.booleans())
def test_every_version_is_as_the_oracle_says(seed, streams):
    rng, hardware = random.Random(seed), MACHINE
    module = random_module(rng, statements=rng.choice([60, 120]))
    if streams:
        module = with_streams(rng, module, 0.3)
        hardware = with_hosts(MACHINE, rng.choice([Host(), Host(3e-6)]), Host(2e-6), interference=0.2)
    known = simulated(module, None, hardware)
    if known is None:
        return
    for _ in range(6):
        found, expected = known[1].simulation, oracle(module, hardware)
        same(found, expected)
        profile = found.memory()
        highest = {}
        for point in profile.points():
            highest[point.memory] = max(highest.get(point.memory, 0), point.nbytes)
        for memory, peak in expected.peaks.items():
            assert highest.get(memory, 0) == peak
            _, event, live = profile.peak(memory)
            temporary = dict(found.timeline().effects[event].temporary).get(memory, 0) if event is not None else 0
            assert sum(value.nbytes for value in live) + temporary == peak
        after = edited(module, rng)
        following = simulated(after, known, hardware)
        if following is not None:
            module, known = after, following


def test_an_edit_builds_one_block_again():
    rng = random.Random(3)
    module = random_module(rng, statements=200)
    first = simulated(module, None)
    main = module.functions["main"]
    index = next(i for i in range(100, len(main.body)) if isinstance(main.body[i], Apply) and main.body[i].op == "Relu")
    body = (*main.body[:index], replace(main.body[index], op="Neg"), *main.body[index + 1 :])
    after = Module([Function("main", main.params, body) if f is main else f for f in module])
    second = simulated(after, first)
    kept = {id(block) for block in outlined_blocks(first)}
    assert len(kept) > 4
    assert sum(id(block) not in kept for block in outlined_blocks(second)) == 1
    steps = zip(first[1].simulation.body.steps, second[1].simulation.body.steps, strict=True)
    assert sum(a is not b for a, b in steps) == 1


def outlined_blocks(found):
    return found[1].cut.functions["main"].blocks


def test_what_blocks_need_of_the_machine_is_what_the_program_needs():
    rng = random.Random(5)
    module = random_module(rng, statements=200)
    hardware = parse('title = "old"\nextends = "dgx-a100"\n[kinds.a100.process]\ncommunicator = "500MB"\n')
    known = None
    for _ in range(4):
        known = simulated(module, known, hardware) or known
        found, alone = known[1].simulation, simulate(known[0].module, hardware)
        assert found.memory_uses == alone.memory_uses
        assert any(use.overhead.communicators for use in found.memory_uses.values())
        assert found.planned.needs.groups.keys() == alone.planned.needs.groups.keys()
        assert found.planned.needs.arithmetic == alone.planned.needs.arithmetic
        module = edited(known[0].module, rng)


def test_an_edit_leaves_what_other_blocks_need():
    rng = random.Random(3)
    module = random_module(rng, statements=200)
    first = simulated(module, None)
    _ = first[1].simulation.notices()
    main = module.functions["main"]
    index = next(i for i in range(100, len(main.body)) if isinstance(main.body[i], Apply) and main.body[i].op == "Relu")
    body = (*main.body[:index], replace(main.body[index], op="Neg"), *main.body[index + 1 :])
    second = simulated(Module([Function("main", main.params, body) if f is main else f for f in module]), first)
    blocks = [step for step in second[1].simulation.planned.blocks.steps if isinstance(step, Body)]
    assert sum("needs" not in vars(block) for block in blocks) == 1


def test_a_short_body_is_not_cut():
    assert all(outlined(function) is None for function in random_module(random.Random(1), statements=5))
