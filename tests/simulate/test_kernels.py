"""A call of a kernel is one op: in time, in memory, on the timeline; in values it is its body."""

import numpy as np
import pytest
from oracle import oracle, same

from distir.analysis import check, execute
from distir.cost import load
from distir.diagnostics import ProgramError
from distir.simulate import Sweep, simulate
from distir.syntax import parse, print_module
from distir.transform import transform

NORM = """
func @norm(%x, %y, %w) kernel {
  %s = Add(%x, %y)
  %n = RMSNormalization(%s, %w)
  return %s, %n
}

func @main(
  %x: Tensor[BFloat16, (512, 4096), 1], %y: Tensor[BFloat16, (512, 4096), 1], %w: Tensor[BFloat16, (4096,), 1]
) {
  %s, %n = @norm(%x, %y, %w)
  return %s, %n
}
"""  # fmt: skip
ROWS = 512 * 4096 * 2


def module_of(text):
    syntax = parse(text)
    assert not syntax.diagnostics
    assert not check(syntax.module).errors
    return syntax.module


def test_one_launch_and_the_traffic_of_operands_and_results():
    found = simulate(module_of(NORM), "dgx-h100")
    (event,) = found.timeline().events()
    assert (event.op, event.label, found.ops) == ("@norm", "%s", 1)
    assert event.effect.work.bytes == 4 * ROWS + 4096 * 2
    kind = found.hardware.kinds[0]
    assert found.latency_s == pytest.approx(kind.launch + event.effect.work.bytes / kind.bandwidth, rel=1e-12)
    inline = simulate(transform(module_of(NORM), "inline"), "dgx-h100")
    assert sum(e.effect.work.flops for e in inline.timeline().events()) == event.effect.work.flops
    assert found.latency_s < inline.latency_s


def test_a_kernel_of_one_op_costs_what_the_op_costs():
    ops = ["Gelu(%x)", "MatMul(%x, %w)", "Softmax(%x)", "ReduceSum(%x, [1])", "Transpose(%x)", "Cast[to = Float32](%x)"]
    for op in ops:
        used = "%x, %w" if "%w" in op else "%x"
        head = "(%x: Tensor[BFloat16, (64, 64), 1], %w: Tensor[BFloat16, (64, 64), 1])"
        plain = f"func @main{head} {{\n  %y = {op}\n  return %y\n}}\n"
        kernel = f"func @k({used}) kernel {{\n  %y = {op}\n  return %y\n}}\n"
        called = f"func @main{head} {{\n  %y = @k({used})\n  return %y\n}}\n"
        a, b = simulate(module_of(plain), "dgx-h100"), simulate(module_of(kernel + called), "dgx-h100")
        assert (a.latency_s, a.peaks) == (b.latency_s, b.peaks), op


def test_what_is_computed_in_between_takes_no_memory():
    text = """
func @mlp(%x, %w) kernel {
  %a = MatMul(%x, %w)
  %b = Relu(%a)
  %c = ReduceSum(%b)
  return %c
}

func @main(%x: Tensor[Float32, (64, 32), 1], %w: Tensor[Float32, (32, 4096), 1]) {
  %c = @mlp(%x, %w)
  return %c
}
"""
    found = simulate(module_of(text), "dgx-h100")
    assert found.peaks == {0: 4 * (64 * 32 + 32 * 4096 + 1)}


def test_each_element_type_has_its_rate():
    text = """
func @k(%x) kernel {
  %a = MatMul(%x, %x)
  %f = Cast[to = Float32](%a)
  %b = MatMul(%f, %f)
  return %b
}

func @main(%x: Tensor[BFloat16, (8192, 8192), 1]) {
  %b = @k(%x)
  return %b
}
"""
    found = simulate(module_of(text), "dgx-h100")
    (event,) = found.timeline().events()
    kind = found.hardware.kinds[0]
    flops = {str(dtype): count for dtype, count in event.effect.work.arithmetic}
    assert flops["BFloat16"] == 2 * 8192**3
    assert flops["Float32"] > 2 * 8192**3 - 1
    spent = sum(count / kind.rates[dtype].achieved(count) for dtype, count in event.effect.work.arithmetic)
    assert found.latency_s == pytest.approx(kind.launch + spent, rel=1e-12)


def test_an_update_in_a_kernel_takes_over_the_memory_of_what_it_updates():
    text = """
func @step(%w, %g) kernel {
  %h = Mul(%g, 0.5)
  %v = SGD[lr = 0.1](%w, %h)
  return %v
}

func @main(%x: Tensor[Float32, (1024,), 1], %g: Tensor[Float32, (1024,), 1]) {
  %w = Neg(%x)
  %v = @step(%w, %g)
  return %v
}
"""
    assert simulate(module_of(text), "dgx-h100").peaks == {0: 3 * 4096}


def reused(body, head="%a, %b", more=""):
    """By how much less memory a kernel needs than one that reuses none: operands are free after it."""
    text = f"""
func @k({head}) kernel {{
{body}
}}

func @main(%x: Tensor[Float32, (64, 64), 1], %y: Tensor[Float32, (64, 64), 1]) {{
  %a = Sin(%x)
{"  %b = Cos(%y)" if "%b" in head else ""}
  %z = @k({head})
{more}  return %z
}}
"""
    found = simulate(module_of(text), "dgx-h100")
    same(found, oracle(module_of(text), found.hardware))
    return 3 + len(head.split()) - found.peaks[0] / (4 * 64 * 64)


def test_a_loop_writes_where_it_has_read():
    assert reused("  %c = Add(%a, %b)\n  return %c") == 1
    assert reused("  %c = Softmax(%a)\n  %d = Mul(%c, %b)\n  return %d") == 1
    assert reused("  %c = Reshape(%a, [4096])\n  %d = Neg(%c)\n  return %d", "%a") == 1
    rows = "  %s = ReduceSum[keepdims = true](%a, [1])\n  %d = Div(%b, %s)\n  %e = Add(%d, %a)\n  return %e"
    assert reused(rows) == 1


def test_what_is_read_out_of_turn_is_not_overwritten():
    turned = "  %t = Transpose(%a)\n  %c = Add(%t, {0})\n  return %c"
    assert reused(turned.format("%a"), "%a") == 0
    assert reused(turned.format("%b")) == 1  # the other operand is read in turn
    assert reused("  %n = Neg(%a)\n" + turned.replace("(%a)", "(%n)").format("%n"), "%a") == 0
    assert reused("  %c = MatMul(%a, %b)\n  return %c") == 0
    assert reused("  %c = MatMul(%a, %a)\n  %d = Add(%c, %b)\n  return %d") == 1
    assert reused("  %c = Neg(%a)\n  return %c", "%a", more="  %u = ReduceSum(%a)\n") == -4 / (4 * 64 * 64)
    assert reused("  %c = Cast[to = BFloat16](%a)\n  %d = Cast[to = Float32](%c)\n  return %d", "%a") == 1
    assert reused("  %c = Cast[to = BFloat16](%a)\n  return %c", "%a") == 0.5


def test_what_the_program_is_given_is_not_overwritten_by_a_loop():
    text = """
func @k(%x, %y) kernel {
  %a = Add(%x, %y)
  return %a
}

func @main(%x: Tensor[Float32, (32, 32), 1], %y: Tensor[Float32, (32, 32), 1]) {
  %a = @k(%x, %y)
  return %a
}
"""
    assert simulate(module_of(text), "dgx-h100").peaks == {0: 3 * 4096}
    donated = text.replace("main(%x: Tensor[Float32, (32, 32), 1]", "main(%x: Tensor[Float32, (32, 32), 1] {donated}")
    assert simulate(module_of(donated), "dgx-h100").peaks == {0: 2 * 4096}


def test_a_result_that_is_an_operand_is_where_that_is():
    text = """
func @k(%x) kernel {
  %y = Relu(%x)
  %z = Reshape(%x, [-1])
  return %y, %z
}

func @main(%x: Tensor[Float32, (32, 32), 1]) {
  %y, %z = @k(%x)
  return %y, %z
}
"""
    found = simulate(module_of(text), "dgx-h100")
    assert found.peaks == {0: 2 * 4096}
    (event,) = found.timeline().events()
    assert event.effect.work.bytes == 2 * 4096


def test_a_kernel_is_timed_where_it_is_called():
    with pytest.raises(ProgramError) as failed:
        simulate(module_of(NORM), "dgx-h100", function="norm")
    assert failed.value.diagnostics[0].code.number == "DIR511"


def test_two_devices_calls_and_communication_are_no_part_of_a_kernel():
    two = """
func @k(%a: Tensor[Float32, (2,), 1], %b: Tensor[Float32, (2,), 2]) kernel {
  %c = Relu(%a)
  %d = Relu(%b)
  return %c, %d
}
"""
    called = """
func @f(%a) {
  %b = Relu(%a)
  return %b
}

func @k(%a: Tensor[Float32, (2,), 1]) kernel {
  %b = @f(%a)
  return %b
}
"""
    for text in (two, called):
        (error,) = check(parse(text).module).errors
        assert error.code.number == "DIR405"
    polymorphic = two.replace(": Tensor[Float32, (2,), 1]", "").replace(": Tensor[Float32, (2,), 2]", "")
    polymorphic += """
func @main(%a: Tensor[Float32, (2,), 1], %b: Tensor[Float32, (2,), 2]) {
  %c, %d = @k(%a, %b)
  return %c, %d
}
"""
    (error,) = check(parse(polymorphic).module).errors
    assert (error.site.function, error.site.index) == ("main", 0)
    assert "device" in error.message


def test_the_mark_is_read_printed_and_no_reserved_word():
    text = print_module(module_of(NORM))
    assert "func @norm(%x, %y, %w) kernel {" in text
    assert parse(text).module == module_of(NORM)
    named = "func @main(%x: Tensor[Float32, (kernel, 2), 1]) -> Tensor[Float32, (kernel, 2), 1] {\n  return %x\n}\n"
    assert not parse(named).diagnostics
    (wrong,) = parse("func @f(%x) fast {\n  return %x\n}\n").diagnostics
    assert "`fast`" in wrong.message
    assert "`kernel`" in wrong.help


def test_gradient_inlining_and_values_are_those_of_the_body():
    text = """
func @gelu_scale(%x, %w) kernel {
  %a = Gelu(%x)
  %b = Mul(%a, %w)
  return %b
}

func @main(%w: Tensor[Float32, (8,), 1] {param}, %x: Tensor[Float32, (4, 8), 1] {batch = 0}) {
  %b = @gelu_scale(%x, %w)
  return %b
}
"""
    marked = module_of(text)
    plain = module_of(text.replace(" kernel {", " {"))
    rng = np.random.default_rng(0)
    inputs = {"w": rng.normal(size=8).astype("float32"), "x": rng.normal(size=(4, 8)).astype("float32")}
    for steps in ((), ("inline",), ("grad", "loss=mse"), ("grad", "loss=mse", "inline"), ("cse",), ("dce",), ("fold",)):
        a, b = transform(marked, *steps), transform(plain, *steps)
        given = {p.name: inputs.get(p.name, rng.normal(size=(4, 8)).astype("float32")) for p in a.entry().params}
        for left, right in zip(execute(a, given), execute(b, given), strict=True):
            np.testing.assert_array_equal(left.value, right.value)
        kernels = {f.name for f in a if f.kernel}
        assert kernels == (set() if "inline" in steps else {"gelu_scale"})


def test_replicas_and_shards_call_kernels_and_what_communicates_is_none():
    text = """
func @gelu_norm(%x, %w) kernel {
  %a = Gelu(%x)
  %b = RMSNormalization(%a, %w)
  return %b
}

func @main(
  %n: Tensor[Float32, (8,), 1] {param},
  %w: Tensor[Float32, (8, 8), 1] {param},
  %v: Tensor[Float32, (8, 8), 1] {param},
  %x: Tensor[Float32, (B, 8), 1] {batch = 0}
) {
  %a = MatMul(%x, %w)
  %b = @gelu_norm(%a, %n)
  %c = MatMul(%b, %v)
  return %c
}
"""  # fmt: skip
    module = module_of(text)
    for steps in (("dp=2",), ("tp=2",), ("grad", "loss=mse", "optimizer=adam", "dp=2", "zero=2")):
        made = transform(module, *steps)
        assert not check(made).errors
        assert any(f.kernel for f in made)
        simulate(made, "dgx-h100", bind={"B": 16})


def test_sizes_left_open():
    text = NORM.replace("(512, 4096)", "(B, 4096)")
    module = module_of(text)
    swept = Sweep(check(module), module.entry(), load("dgx-h100"))
    for size in (16, 512, 1000):
        assert swept.at({"B": size}).latency_s == simulate(module, "dgx-h100", bind={"B": size}).latency_s
