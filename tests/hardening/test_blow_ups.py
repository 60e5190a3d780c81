"""Small files that ask for much end soon, with a result or one message: a law over generated inputs of each format."""

import re
import tracemalloc

import pytest
from blow_ups import BLOW_UPS

MODEL = "func @main(%x: Tensor[Float32, (8, 8), 1] {batch = 0}) {\n  %y = Relu(%x)\n  %z = Relu(%y)\n  return %z\n}\n"

CPU_S = 10
"""A second per 10 kB is what SECURITY.md promises. A slow machine is given more; what does not end takes all of it."""


@pytest.mark.by_turns
@pytest.mark.parametrize("name", BLOW_UPS)
def test_a_small_file_that_asks_for_much_ends(commands, tmp_path, name):
    words, file, content = BLOW_UPS[name]
    path = tmp_path / file
    path.write_bytes(content)
    known = {"FILE": path, "FOLDER": tmp_path, "OUT": tmp_path / "out.dir", "schedule=FILE": f"schedule={path}"}
    known["MODEL"] = tmp_path / "model.dir"
    known["MODEL"].write_text(MODEL)
    ended = commands.run(
        *(known.get(word, word) for word in words), limits={"RLIMIT_CPU": CPU_S, "RLIMIT_DATA": 4 << 30}
    )
    assert ended.code in (0, 1, 2), f"ended by {ended.code}: {ended.err[-500:]}"
    assert "Traceback" not in ended.err
    assert "this is a bug" not in ended.err, ended.err[-500:]
    assert ended.code == 0 or re.search(r"^(?:error|warning)\b", ended.err + ended.out, re.MULTILINE)
    assert len(ended.err) < 10_000_000


def test_a_collective_of_thousands_of_devices_is_checked(commands, tmp_path):
    """A second per 10 kB, of 190 kB: time that grows with the square of the devices takes ten times as much."""
    numbers = range(1, 3_001)
    params = ", ".join(f"%x{i}: Tensor[Float32, (8, 8), {i}]" for i in numbers)
    results, operands = (", ".join(f"%{letter}{i}" for i in numbers) for letter in "rx")
    path = tmp_path / "a.dir"
    path.write_text(f"func @main({params}) {{\n  {results} = MPIAllreduce({operands})\n  return %r1\n}}\n")
    ended = commands.run("check", path, limits={"RLIMIT_CPU": 2 * CPU_S})
    assert (ended.code, ended.err.count("is never used")) == (0, 2_999)


def test_a_constant_in_hexadecimal_takes_a_few_times_its_length():
    from distir.importers.stablehlo.text import read_module

    text = f'module {{\n  "a.b"() {{value = "0x{"00" * 1_000_000}"}} : () -> ()\n}}\n'
    tracemalloc.start()
    try:
        read_module(text, "a.mlir")
        assert tracemalloc.get_traced_memory()[1] < 10 * len(text)
    finally:
        tracemalloc.stop()


def test_a_dimension_of_too_many_terms_is_unknown_and_says_so_where_it_is_written():
    from distir.ir import dims

    factors = [dims.total(map(dims.named, "AB")), *(dims.total(map(dims.named, (f"C{i}", f"D{i}"))) for i in range(40))]
    assert dims.product(factors) is None
    assert dims.product([dims.named("A")] * 400) is None
    assert dims.show(dims.product(factors[:3])).count("*") == 16
    assert dims.product([*factors, 0]) == 0


def test_what_concatenates_its_own_parts_is_proved_at_once(commands, tmp_path):
    """Each concatenation of parts of the one before has twice the terms: 20 took more than half a minute."""
    body, last = "", "x"
    for i in range(40):
        body += f"  %a{i}, %b{i} = Split[axis = 0, num_outputs = 2](%{last})\n"
        body += f"  %t{i} = Concat[axis = 1](%b{i}, %a{i})\n  %y{i} = Reshape(%t{i}, [8, 8])\n"
        last = f"y{i}"
    path = tmp_path / "a.dir"
    path.write_text(f"func @main(%x: Tensor[Float32, (8, 8), 1]) {{\n{body}  return %{last}\n}}\n")
    ended = commands.run("prove", path, "--against", path, limits={"RLIMIT_CPU": CPU_S})
    assert (ended.code, "proved: 1 result" in ended.err + ended.out) == (0, True)


def test_the_first_of_many_unknown_options_is_said_at_once(commands, tmp_path):
    path = tmp_path / "a.json"
    path.write_text("{" + ",".join(f'"k{i}": 1' for i in range(100_000)) + "}")
    ended = commands.run("import", "deepspeed", path, "--gpus", 8, limits={"RLIMIT_CPU": CPU_S})
    assert (ended.code, ended.err.count("has no option")) == (2, 1)
    assert "`k0`" in ended.err
