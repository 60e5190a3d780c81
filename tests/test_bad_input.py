"""Input that nobody meant: it gets a diagnostic with a place, soon, and no failure of ours."""

from contextlib import suppress

import pytest

import distir
from distir import ProgramError
from distir.analysis.program import read
from distir.diagnostics import Report, Severity, Span, terminal
from distir.syntax import decode


def problems(text):
    """The codes found, with the line of each; everything has a place in the text, and can be shown."""
    program = read(text, "input.dir")
    for found in program.diagnostics:
        assert isinstance(found.site, Span)
        assert 0 <= found.site.start <= found.site.end <= len(text)
        assert len(found.message) < 2000
    assert len(terminal.text([Report(program.source, program.diagnostics[:20])])) < 20_000
    if program.errors:
        refused_by_parse_or_simulate(text)
    return [(d.code.number, program.source.position(d.site.start)[0]) for d in program.diagnostics]


def refused_by_parse_or_simulate(text):
    """What is wrong with a text is never noticed by the checker alone."""
    with pytest.raises((ProgramError, LookupError)):
        distir.simulate(distir.parse(text))


def function(statement, params="%x: Tensor[Float32, (4,), 1]"):
    return f"func @f({params}) {{\n  {statement}\n  return %y\n}}\n"


# Files that are not programs.


@pytest.mark.parametrize("text", ["", "\n", "  \t\r\n", "// only a comment", "/* only\na comment */", "\ufeff"])
def test_empty_texts_hold_no_function(text):
    assert [d.code.number for d in read(text).diagnostics] == ["DIR214"]
    assert list(distir.parse(text)) == []
    with pytest.raises(LookupError, match="no function"):
        distir.simulate(distir.parse(text))
    with pytest.raises(LookupError, match="no function"):
        distir.run(distir.parse(text), [])


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"\x93NUMPY\x01\x00", 1),
        (b"func @f(%\xff) { return %x }", 1),
        (b"\n\n\xc3(", 3),
        (b"\x00" * 1000, 1),
        ("func".encode("utf-16"), 1),
        (b"// \xe4hnlich\n", 1),
    ],
)
def test_bytes_that_are_no_text(data, line):
    text, (found,) = decode(data)
    assert text is None
    assert found.code.number == "DIR119"
    assert isinstance(found.site, Span)
    assert f"line {line}," in found.message


def test_text_in_utf_8_is_text():
    text, found = decode("func @f() {\n  // grüße, 你好\n  %y = Constant[value = 1]()\n  return %y\n}\n".encode())
    assert (list(found), problems(text)) == ([], [])


def test_random_bytes():
    import random

    generator = random.Random(0)
    for length in (1, 10, 100, 3000):
        data = generator.randbytes(length)
        decode(data)
        problems(data.decode("utf-8", errors="replace"))
        problems(data.decode("latin-1"))


def test_other_languages():
    assert problems("import torch\n\ndef f(x):\n    return x @ x\n")
    assert problems('{"functions": [{"name": "main"}]}')
    assert problems("<html><body>func @f</body></html>")
    assert problems("module {\n  func.func @main(%arg0: tensor<2xf32>) {\n    return\n  }\n}\n")


# Ends of lines, tabs, spaces.


@pytest.mark.parametrize("end", ["\r\n", "\r", "\n\n\n"])
@pytest.mark.parametrize("space", [" ", "\t", "\t \t"])
def test_ends_of_lines_and_tabs_mean_nothing(end, space):
    text = function("%y = Relu(%x)")
    other = text.replace("\n", end).replace("  ", space * 2)
    assert problems(other) == []
    assert distir.parse(other) == distir.parse(text)


def test_lines_are_counted_the_same_whatever_ends_them():
    text = "\n\n" + function("%y = Nonsense(%x)")
    for end in ("\n", "\r\n", "\r"):
        assert problems(text.replace("\n", end)) == [("DIR205", 4)]


def test_a_text_without_a_last_line_end():
    assert problems(function("%y = Relu(%x)").rstrip()) == []


# Large texts.


def test_a_large_file():
    """50 MB of one program."""
    statements = "".join(f"  %{i} = Relu(%x)\n  _ = Add(%{i}, %x)\n" for i in range(1000))
    body = statements * 1 + "  // " + "x" * 50_000_000 + "\n"
    assert problems(f"func @f(%x: Float32[1]) {{\n{body}  return %x\n}}\n") == []


def test_a_large_file_of_something_else():
    assert problems("x" * 50_000_000) == [("DIR105", 1)]


def test_a_large_file_of_brackets_and_of_nonsense():
    assert problems("(" * 1_000_000)
    assert problems("{" * 1_000_000)
    assert problems("%a = " * 200_000)
    assert problems('"' * 1_000_000)
    assert problems("/*" * 1_000_000)


def test_a_line_of_a_million_characters():
    operands = ", ".join("%a_long_name_" + "x" * 100 for _ in range(10_000))
    known = f"%a_long_name_{'x' * 100}: Tensor[Float32, (4,), 1]"
    assert problems(function(f"%y = Sum({operands})", known)) == []
    assert problems(function(f"%y = Nonsense({operands})", known)) == [("DIR205", 2)]
    numbers = ", ".join("1" for _ in range(330_000))
    assert problems(function(f"%y = Constant[value = [{numbers}]]()")) == []


def test_many_statements_on_a_line():
    text = "func @f(%x: Float32[1]) { " + " ".join("_ = Relu(%x)" for _ in range(5000)) + " return %x }"
    assert problems(text) == []


def test_thousands_of_mistakes():
    text = "func @f(%x: Float32[1]) {\n" + "  _ = Nonsense(%x)\n" * 2000 + "  return %x\n}\n"
    assert problems(text) == [("DIR205", 2 + i) for i in range(2000)]


def test_many_functions():
    text = "".join(f"func @f{i}(%x) {{\n  return %x\n}}\n" for i in range(5000))
    assert problems(text) == []


# Nesting.


@pytest.mark.parametrize(
    ("opened", "closed"),
    [
        ("Tuple[", "]"),
        ("Tensor[Float32, (" + "(" * 3, ")" * 3 + ",), 1]"),
        ("(", ")"),
    ],
)
def test_types_nested_10_000_deep(opened, closed):
    found = problems(f"func @f(%x: {opened * 10_000}Float32[1]{closed * 10_000}) {{\n  return %x\n}}\n")
    assert ("DIR118", 1) in found or ("DIR101", 1) in found


@pytest.mark.parametrize("depth", [99, 101, 10_000, 300_000])
def test_lists_nested_deeply(depth):
    found = problems(function(f"%y = Constant[value = {'[' * depth}1{']' * depth}]()", ""))
    assert (("DIR118", 2) in found) == (depth > 100)


def test_operands_and_parentheses_nested_deeply():
    assert problems(function(f"%y = Concat[axis = 0]({'[' * 10_000}%x{']' * 10_000})"))[0] == ("DIR118", 2)
    assert problems(function(f"%y = Relu({'(' * 10_000}%x{')' * 10_000})"))
    dims = "(" * 10_000 + "B" + ")" * 10_000
    assert problems(f"func @f(%x: Tensor[Float32, ({dims},), 1]) {{\n  return %x\n}}\n")[0][0] == "DIR118"


def test_tuples_made_in_long_chains():
    """A tuple in a tuple in a tuple: 3,000 deep by statements, where no bracket is nested."""
    chain = "".join(f"  %{i + 1} = MakeTuple(%{i})\n" for i in range(3000))
    found = problems(f"func @f(%0: Float32[1]) {{\n{chain}  return %3000\n}}\n")
    assert found[0] == ("DIR306", 102)
    assert {code for code, _ in found} == {"DIR306"}


def test_tuples_that_double():
    """A value of 2 to the 40 leaves in 40 statements."""
    doubled = "".join(f"  %{i + 1} = MakeTuple(%{i}, %{i})\n" for i in range(40))
    assert problems(f"func @f(%0: Float32[1]) {{\n{doubled}  return %40\n}}\n")[0] == ("DIR306", 18)


# Names.


def test_two_functions_of_one_name():
    text = function("%y = Relu(%x)") * 2
    assert problems(text) == [("DIR204", 5)]


def test_unknown_ops_and_functions():
    assert problems(function("%y = Nonsense(%x)")) == [("DIR205", 2)]
    assert problems(function("%y = @nonsense(%x)")) == [("DIR203", 2)]
    assert problems(function('%a, %b, %y = Nonsense[a = 1, b = [2, 3], c = "d"](%x, 1, [%x])'))[-1] == ("DIR205", 2)


# Numbers.


@pytest.mark.parametrize("dim", ["-1", "-9223372036854775808", "100000000000000000000", "9" * 5000])
def test_dimensions_out_of_range(dim):
    ((code, line),) = problems(f"func @f(%x: Tensor[Float32, ({dim},), 1]) {{\n  return %x\n}}\n")
    assert (code in ("DIR110", "DIR111"), line) == (True, 1)


@pytest.mark.parametrize(
    "shape", ["(9223372036854775807,)", "(4294967296, 4294967296)", "(65536, 65536, 65536, 65536)"]
)
def test_sizes_that_overflow_64_bits(shape):
    assert problems(f"func @f(%x: Tensor[Float32, {shape}, 1]) {{\n  return %x\n}}\n") == [("DIR309", 1)]


def test_sizes_that_overflow_on_the_way():
    wide = "%x: Tensor[Float32, (4294967296, 1), 1], %y: Tensor[Float32, (1, 4294967296), 1]"
    text = f"func @f({wide}) {{\n  %z = MatMul(%x, %y)\n  return %z\n}}\n"
    assert problems(text) == [("DIR309", 2)]
    assert problems(text.replace("MatMul", "Add")) == [("DIR309", 2)]


def test_named_dimensions_of_high_degree():
    product = "*".join("B" for _ in range(200))
    problems(f"func @f(%x: Tensor[Float32, ({product},), 1]) {{\n  return %x\n}}\n")
    many = "+".join(f"N{i}" for i in range(2000))
    problems(f"func @f(%x: Tensor[Float32, ({many},), 1]) {{\n  %y = Relu(%x)\n  return %y\n}}\n")


def test_division_by_zero():
    assert problems("func @f(%x: Tensor[Float32, (B/0,), 1]) {\n  return %x\n}\n")[0][1] == 1


@pytest.mark.parametrize("size", ["0", "0, 5", "5, 0, 3"])
def test_empty_tensors_are_tensors(size):
    text = f"func @f(%x: Tensor[Float32, ({size},), 1]) {{\n  %y = Relu(%x)\n  return %y\n}}\n"
    assert problems(text) == []
    simulation = distir.simulate(distir.parse(text))
    assert simulation.devices[1].peak_memory_bytes == 0
    assert simulation.latency_s >= 0


@pytest.mark.parametrize(
    "statement",
    [
        "%y = Reshape(%x, [-5])",
        "%y = Reshape(%x, [9223372036854775807, 2])",
        "%y = Split[num_outputs = 0](%x)",
        "%y = Split[num_outputs = -1](%x)",
        "%y = Split[num_outputs = 1000000000000](%x)",
        "%y = Tile(%x, [9223372036854775807])",
        "%y = Tile(%x, [-1])",
        "%y = Pad(%x, [-9, 0])",
        "%y = Pad(%x, [9223372036854775807, 9223372036854775807])",
        "%y = Expand(%x, [-4])",
        "%y = Slice(%x, [0], [4], [0], [0])",
        "%y = Slice(%x, [-9223372036854775808], [9223372036854775807], [7])",
        "%y = Gather[axis = 9](%x, 0)",
        "%y = Transpose[perm = [9223372036854775807]](%x)",
        "%y = TopK(%x, -1)",
        "%y = TopK(%x, 99)",
        "%y = ReduceSum(%x, [-9])",
        "%y = ConstantOfShape([-1])",
        "%y = ConstantOfShape([9223372036854775807])",
        "%y = Range(0, 9223372036854775807, 1)",
        "%y = Range(0, 1, 0)",
        "%y = OneHot(%x, 3, [0, 1])",
        "%y = Softmax[axis = 99999](%x)",
        "%y = MPIBroadcast[devices = []](%x)",
        "%y = MPIScatter[devices = [1, 2, 3]](%x)",
        "%y = MPIAllreduce()",
        "%y = Concat[axis = 0]()",
        "%y = Sum()",
        "%y = UnpackTuple(%x)",
        "%y = Send[device = 9223372036854775807](%x)",
        "%y = Cast[to = 3](%x)",
    ],
)
def test_strange_numbers_in_ops(statement):
    """They check, or are refused; and what checks simulates, or is refused."""
    text = function(statement)
    if not problems(text):
        with suppress(ProgramError):
            distir.simulate(distir.parse(text))


def test_a_host_value_too_large_to_compute_is_not_computed():
    text = function("%y = ConstantOfShape([1000000, 1000000])", "")
    assert problems(text) == []
    state = read(text).analysis.states["f"]
    assert str(state["y"]) == "Tensor[Float32, (1000000, 1000000), host]"


# Devices and machines.


def test_devices_that_the_machine_lacks():
    text = function("%y = Send[device = 9](%x)")
    assert problems(text) == []
    with pytest.raises(ProgramError) as error:
        distir.simulate(distir.parse(text), "dgx-a100")
    (found,) = error.value.diagnostics
    assert found.code.number == "DIR504"
    assert (found.site.function, found.site.index) == ("f", 0)
    assert "`dgx-a100`" in found.message
    assert "9" in found.message
    assert distir.simulate(distir.parse(text), "dgx2-v100").devices.keys() == {1, 9}


def test_many_devices():
    devices = list(range(1, 3000))
    results = ", ".join(f"%y{d}" for d in devices)
    text = f"func @f(%x: Float32[1]) {{\n  {results} = MPIBroadcast[devices = {devices}](%x)\n  return {results}\n}}\n"
    assert problems(text) == []
    with pytest.raises(ProgramError):
        distir.simulate(distir.parse(text))


def test_hardware_that_is_not_there():
    module = distir.parse(function("%y = Relu(%x)"))
    from distir.cost import HardwareError

    with pytest.raises(HardwareError, match="`dgx-a100`"):
        distir.simulate(module, "dgx-a10")
    with pytest.raises(HardwareError):
        distir.simulate(module, "nowhere/machine.toml")


def test_things_to_bind_that_are_not_there():
    from distir.simulate import BindError

    module = distir.parse("func @f(%x: Tensor[Float32, (B,), 1]) {\n  %y = Relu(%x)\n  return %y\n}\n")
    assert distir.simulate(module, bind={"B": 8}).latency_s > 0
    for bind in ({"N": 8}, {"B": -8}, {"B": 2.5}, {"B": "8"}, {"B": 8, "x": 1}):
        with pytest.raises(BindError):
            distir.simulate(module, bind=bind)
    for bind in ({}, {"B": 2**62}):
        with pytest.raises(ProgramError) as error:
            distir.simulate(module, bind=bind)
        assert all(d.severity is Severity.ERROR for d in error.value.diagnostics)


def test_functions_that_are_not_there():
    module = distir.parse(function("%y = Relu(%x)"))
    with pytest.raises(LookupError, match="there is no function `@g`"):
        distir.simulate(module, function="g")
