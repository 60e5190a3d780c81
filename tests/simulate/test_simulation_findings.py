"""Memory by hand, calls, and what a simulation finds wrong: memory and budgets exceeded, sizes and devices unknown."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulate_samples import machine
from thorough import most_examples

from distir.analysis import check
from distir.diagnostics import ProgramError
from distir.diagnostics.codes import simulation as codes
from distir.ir import Part, Site
from distir.simulate import BindError, Sweep, arguments, simulate
from distir.simulate.revision import replan
from distir.syntax import parse

MACHINE = machine()
X = "Tensor[Float32, (10, 10), 1]"
"""400 bytes."""


def module(text):
    parsed = parse(text)
    assert not parsed.diagnostics
    return parsed.module


def run(text, machine=MACHINE, **options):
    return simulate(module(text), machine, **options)


def peak(text, device=1):
    return run(text).devices[device].peak_memory_bytes


def fails(text, machine=MACHINE, **options):
    with pytest.raises(ProgramError) as raised:
        run(text, machine, **options)
    (found,) = raised.value.diagnostics
    return found


# Memory, by hand.


def test_a_value_lives_to_its_last_use():
    assert peak(f"func @main(%x: {X}) {{ %a = Relu(%x)\n %b = Relu(%a)\n %c = Relu(%b)\n return %c }}") == 1200
    assert peak(f"func @main(%x: {X}) {{ %a = Relu(%x)\n %b = Relu(%a)\n %c = Add(%a, %b)\n return %c }}") == 1600


def test_views_and_tuples_take_no_memory():
    text = f"""func @main(%x: {X}) {{
      %a = Reshape(%x, [100])
      %t = MakeTuple(%a, %x)
      %b, %c = UnpackTuple(%t)
      return %b, %c
    }}"""
    simulation = run(text)
    assert simulation.devices[1].peak_memory_bytes == 400
    assert simulation.latency_s == 0
    assert len(simulation.timeline()) == 0


def test_a_constant_takes_no_memory_wherever_it_is():
    text = f"""func @f(%c, %x) {{ %y = Mul(%x, %c)\n return %c, %y }}
    func @main(%x: {X}) {{
      %c = Constant[value = 2.0]()
      %t = MakeTuple(%c, %x)
      %d, %e = UnpackTuple(%t)
      %g, %y = @f(%d, %e)
      %h, %z = @f(%g, %y)
      return %z
    }}"""
    assert peak(text) == 1200


def test_an_optimizer_updates_in_place():
    assert peak(f"func @main(%w: {X}, %g: {X}) {{ %n = SGD(%w, %g)\n return %n }}") == 800


def test_an_optimizer_leaves_alone_what_is_still_needed():
    assert peak(f"func @main(%w: {X}, %g: {X}) {{ %n = SGD(%w, %g)\n return %n, %w }}") == 1200
    assert peak(f"func @main(%w: {X}, %g: {X}) {{ %n = SGD(%w, %g)\n %r = Relu(%w)\n return %n }}") == 1600
    nested = "func @f(%w, %g) { %n = SGD(%w, %g)\n return %n }\n"
    assert peak(nested + f"func @main(%w: {X}, %g: {X}) {{ %n = @f(%w, %g)\n return %n, %w }}") == 1200
    assert peak(nested + f"func @main(%w: {X}, %g: {X}) {{ %n = @f(%w, %g)\n return %n }}") == 800


def test_a_callee_frees_what_the_caller_needs_no_more():
    callee = "func @f(%a) { %b = Relu(%a)\n %c = Relu(%b)\n return %c }\n"
    text = callee + f"func @main(%x: {X}) {{ %a = Relu(%x)\n %c = @f(%a)\n return %c }}"
    assert peak(text) == 1200
    text = callee + f"func @main(%x: {X}) {{ %a = Relu(%x)\n %c = @f(%a)\n return %c, %a }}"
    assert peak(text) == 1600


def test_temporary_memory_counts_while_the_op_runs():
    assert peak(f"func @main(%x: {X}) {{ %a = Scratch(%x)\n return %a }}") == 400 + 400 + 800


def test_tuples_over_several_devices_need_temporary_memory_on_each():
    text = f"""func @main(%x: {X}, %y: Tensor[Float32, (10, 10), 4]) {{
      %t = MakeTuple(%x, %y)
      %s = Scratch(%t)
      return %s
    }}"""
    simulation = run(text)
    values, temporary = 2 * 400, 2 * 800  # each device is given room for all leaves
    assert {simulation.devices[device].peak_memory_bytes for device in (1, 4)} == {values + temporary}
    assert max(p.nbytes for p in simulation.memory().points()) == values + temporary


# Streams that the machine lacks.

TWO_STREAMS = f"""
func @sums(%x: {X}, %y: Tensor[Float32, (10, 10), 2]) {{
  %a, %b = MPIAllreduce(%x, %y) on reduce
  return %a, %b
}}

func @main(%x: {X}, %y: Tensor[Float32, (10, 10), 2], %z: Tensor[Float32, (B, 10), 1]) {{
  %a, %b = @sums(%x, %y)
  %s = Send[device = 3](%x) on copy
  %t = Relu(%s) on copy
  return %a, %b, %s, %t
}}
"""


def with_stated_streams(stated):
    return replace(MACHINE, kinds=MACHINE.kinds.map(lambda kind: replace(kind, streams=stated)))


@pytest.mark.parametrize("how", ["alone", "sweep", "edited"])
def test_a_device_has_as_many_streams_as_its_profile_says(how):
    text = module(TWO_STREAMS)

    def found(machine):
        if how == "sweep":
            return Sweep(check(text), text.entry(), machine).at({"B": 4})
        if how == "edited":
            analysis, entry = check(text), text.entry()
            instance = analysis.instance(entry, arguments(entry, {"B": 4}))
            return replan(text, analysis.domain, instance, machine).simulation
        return simulate(text, machine, bind={"B": 4})

    free = simulate(text, MACHINE, bind={"B": 4})
    for enough in (2, 3, None):
        assert found(with_stated_streams(enough)).latency_s == free.latency_s
    for few, name in ((1, "`copy`"), (0, "`reduce`")):
        with pytest.raises(ProgramError) as raised:
            found(with_stated_streams(few))
        (diagnostic,) = raised.value.diagnostics
        assert diagnostic.code == codes.TOO_MANY_STREAMS
        assert diagnostic.site == Site(*(("main", 1) if few else ("sums", 0)), Part("stream"))
        assert f"device 1 has no stream {name}" in diagnostic.message


# Calls.


def test_calls_may_be_deep():
    depth = 3000
    chain = "".join(f"func @f{i}(%x) {{ %y = @f{i - 1}(%x)\n return %y }}\n" for i in range(1, depth))
    main = f"func @main(%x: {X}) {{ %y = @f{depth - 1}(%x)\n return %y }}"
    simulation = run(f"func @f0(%x) {{ %y = Relu(%x)\n return %y }}\n{chain}{main}")
    assert simulation.ops == 1
    assert simulation.devices[1].peak_memory_bytes == 800
    (event,) = simulation.timeline().events()
    assert len(event.path) == depth + 1
    assert sum(1 for _ in simulation.memory().points()) > 0


@settings(max_examples=most_examples(20), deadline=None)
@given(st.integers(0, 12), st.integers(1, 3))
def test_calls_count_as_if_inlined(depth, width):
    """A tower of functions, each of which calls the one below several times."""
    lines = ["func @f0(%x) { %y = Relu(%x)\n return %y }"]
    for i in range(1, depth + 1):
        calls = "\n".join(f"%v{k + 1} = @f{i - 1}(%v{k})" for k in range(1, width))
        lines.append(f"func @f{i}(%v0) {{ %v1 = @f{i - 1}(%v0)\n {calls}\n return %v{width} }}")
    if width**depth > 5000:
        return
    lines.append(f"func @main(%x: {X}) {{ %y = @f{depth}(%x)\n return %y }}")
    simulation = run("\n".join(lines))
    assert simulation.ops == len(simulation.timeline()) == width**depth
    relu = simulation.timeline().effects[0].cost.seconds
    assert simulation.latency_s == pytest.approx(relu * width**depth)
    assert simulation.devices[1].peak_memory_bytes == (800 if width**depth == 1 else 1200)


# Findings.


SMALL = machine("2000B")
GROWING = f"""func @grow(%a) {{
  %b = Neg(%a)
  %c = Concat[axis = 0](%a, %b)
  return %c
}}
func @main(%x: {X}) {{
  %a = Relu(%x)
  %c = @grow(%a)
  %d = Relu(%c)
  return %d
}}"""
"""400, 800; in @grow 1200, then 2000; then 400 + 800 + 800."""


def test_nothing_is_found_where_all_fits():
    assert run(GROWING, SMALL).findings() == ()


def test_out_of_memory_is_found_at_the_op_that_overflows():
    (found,) = run(GROWING, machine("1900B")).findings()
    assert found.code == codes.OUT_OF_MEMORY
    assert found.site == Site("grow", 1)
    sizes = [note.message for note in found.notes]
    assert sizes[0].startswith("`%c` takes")
    assert [note.site for note in found.notes] == [
        Site("grow", 1),
        Site("main", None, Part("name")),
        Site("main", 0),
        Site("grow", 0),
    ]


def test_parameters_alone_may_be_too_much():
    (found,) = run(GROWING, machine("300B")).findings()
    assert found.code == codes.OUT_OF_MEMORY
    assert found.site == Site("main", None, Part("name"))


def test_budgets():
    simulation = run(GROWING)
    assert simulation.findings(max_latency_s=simulation.latency_s, max_memory_bytes=2000) == ()
    latency, memory = simulation.findings(max_latency_s=simulation.latency_s / 2, max_memory_bytes=1999)
    assert latency.code == codes.OVER_LATENCY_BUDGET
    assert memory.code == codes.OVER_MEMORY_BUDGET
    assert memory.site == Site("grow", 1)


# Devices.


def test_devices_count_from_zero_where_zero_is_used():
    text = (
        "func @main(%x: Tensor[Float32, (10, 10), {0}]) {{ %y = Send[device = {1}](%x)\n %z = Relu(%y)\n return %z }}"
    )
    from_zero, from_one = run(text.format(0, 2)), run(text.format(1, 3))
    assert from_zero.latency_s == from_one.latency_s
    assert list(from_zero.devices) == [0, 2]
    assert list(from_one.devices) == [1, 3]


@pytest.mark.parametrize(
    ("text", "site"),
    [
        (f"func @main(%x: {X}) {{ %y = Send[device = 6](%x)\n return %y }}", Site("main", 0)),
        (f"func @main(%x: {X}) {{ _ = Send[device = 6](%x)\n return %x }}", Site("main", 0)),
        ("func @main(%x: Float32[6]) { return %x }", Site("main", None, Part("param_type", 0))),
        (
            f"func @f(%x) {{ %y = Send[device = 6](%x)\n return }}\nfunc @main(%x: {X}) {{ @f(%x)\n return }}",
            Site("f", 0),
        ),
    ],
)
def test_a_device_that_the_machine_lacks(text, site):
    found = fails(text)
    assert found.code == codes.DEVICE_NOT_IN_HARDWARE
    assert "no device 6" in found.message
    assert found.site == site


# What must be known.


def test_named_dimensions_are_bound():
    text = "func @main(%x: Tensor[Float32, (B, 10), 1]) { %y = Relu(%x)\n return %y }"
    assert run(text, bind={"B": 7}).devices[1].peak_memory_bytes == 2 * 280
    found = fails(text)
    assert (found.code, found.site) == (codes.UNBOUND, Site("main", None, Part("param_type", 0)))
    for bind in ({"C": 1, "B": 2}, {"B": -1}, {"B": "many"}, {"B": 2.5}):
        with pytest.raises(BindError):
            run(text, bind=bind)


def test_a_dimension_that_must_divide():
    text = "func @main(%x: Tensor[Float32, (B/2, 10), 1]) { %y = Relu(%x)\n return %y }"
    assert run(text, bind={"B": 6}).devices[1].peak_memory_bytes == 2 * 120
    with pytest.raises(BindError):
        run(text, bind={"B": 7})


def test_host_parameters_are_bound():
    text = (
        "func @main(%x: Tensor[Float32, (4, 6), 1], %s: Tensor[Int64, (2,), host]) { %y = Expand(%x, %s)\n return %y }"
    )
    assert run(text, bind={"s": (4, 6)}).devices[1].peak_memory_bytes == 2 * 96
    with pytest.raises(BindError):
        run(text, bind={"s": (4, 6, 8)})


def test_what_is_not_known_has_no_time():
    found = fails("func @main(%x: Tensor[Float32, (?, 10), 1]) { %y = Relu(%x)\n return %y }")
    assert found.code == codes.UNKNOWN_COST
    found = fails("func @main(%x: Tensor[Float32, (4, 10)]) { %y = Relu(%x)\n return %y }")
    assert found.code == codes.UNPLACED


def test_functions_are_found_by_name():
    text = f"func @a(%x: {X}) {{ %y = Relu(%x)\n return %y }}\nfunc @b(%x: {X}) {{ return %x }}"
    assert run(text, function="a").ops == 1
    assert run(text).ops == 0
    with pytest.raises(LookupError):
        run(text, function="c")


def test_a_program_of_too_many_devices_is_offered_a_machine_that_has_them():
    def on(device):
        return f"func @main(%x: {X.replace(', 1]', f', {device}]')}) {{\n  %y = Relu(%x)\n  return %y\n}}\n"

    assert fails(on(9), "dgx-a100").help == "`dgx-a100x2` is large enough: 2 nodes, 16 devices"
    assert fails(on(256), "2x-h200").help == "`h200x32` is large enough: 32 nodes, 256 devices"
    assert fails(on(9), "laptop-cpu").help == "`dgx-a100x2` is large enough: 2 nodes, 16 devices"
    assert run(on(256), "32x-h200").latency_s == run(on(1), "h200").latency_s
    assert fails(on(10**9), "dgx-a100").help is None


def test_a_program_of_too_much_memory_is_offered_a_machine_that_has_it():
    text = "func @main(%x: Tensor[Float32, (N, 262144), {d}]) {{\n  %y = Relu(%x)\n  return %y\n}}\n"
    (found,) = run(text.format(d=1), "dgx-a100", bind={"N": 60_000}).findings()
    assert found.help == "`h200` is large enough: 8 devices of 141GB"
    (found,) = run(text.format(d=9), "2x-dgx-a100", bind={"N": 60_000}).findings()
    assert found.help == "`h200x2` is large enough: 16 devices of 141GB"
    assert not run(text.format(d=9), "2x-h200", bind={"N": 60_000}).findings()
    (found,) = run(text.format(d=1), "dgx-a100", bind={"N": 600_000}).findings()
    assert found.help is None
