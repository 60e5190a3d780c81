"""Tensors of 10^18 elements, in every command: an answer, or a refusal with a message, soon and with little memory."""

import io
import json

import numpy as np
import pytest

HUGE = "(1000000000, 1000000000)"

PROGRAM = f"""\
func @main(%w: Tensor[Float32, {HUGE}, 1] {{param}}, %x: Tensor[Float32, {HUGE}, 1] {{batch = 0}}) {{
  %h = MatMul(%x, %w)
  %y = Relu(%h)
  %z = Send[device = 2](%y)
  return %z
}}
"""

GROWING = """\
func @main(%x: Tensor[Float32, (1,), 1], %to: Int64) {
  %a = Expand(%x, [1000000000, 1])
  %b = Transpose[perm = [1, 0]](%a)
  %c = Add(%a, %b)
  %d = Relu(%c)
  return %d
}
"""
"""Small inputs, large results: only what happens inside tells."""

HOST = """\
func @main(%x: Tensor[Float32, (4,), 1]) {
  %n = ConstantOfShape([1000000000, 1000000000])
  %s = Shape(%n)
  %r = Range(0, 1000000000000000000, 1)
  %y = Relu(%x)
  return %y
}
"""

MODERATE = """\
func @layer(%x) {
  %a = Relu(%x)
  %b = Relu(%a)
  return %b
}

func @main(%x: Tensor[Float64, (1000, 1000), 1]) {
  %y = @layer(%x)
  %z = @layer(%y)
  return %z
}
"""
"""8 MB of input; at most 16 + 8 MB of results at once."""

LIMITS = {"RLIMIT_CPU": 100, "RLIMIT_DATA": 4 << 30}
"""CPU seconds and bytes for a command. A second or two is usual; the point is that it is no hour."""


@pytest.fixture
def distir(commands):
    """Runs the command line with little memory and time."""

    def call(*words):
        ended = commands.run(*words, limits=LIMITS)
        assert ended.code >= 0, f"ended by signal {-ended.code}"
        assert "bug" not in ended.err, ended.err
        assert "Traceback" not in ended.err, ended.err
        return ended.code, ended.out, ended.err

    return call


@pytest.fixture
def program(tmp_path):
    def write(text, name="program.dir"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize("text", [PROGRAM, GROWING, HOST], ids=["huge", "growing", "host"])
@pytest.mark.parametrize(
    "words",
    [
        ("check", "FILE"),
        ("fmt", "--check", "FILE"),
        ("show", "FILE", "--bind", "to=1"),
        ("simulate", "FILE", "--bind", "to=1"),
        ("check", "FILE", "--max-memory", "32GB"),
        ("run", "FILE", "--bind", "to=1"),
        ("transform", "dce", "FILE"),
        ("transform", "fold", "FILE"),
        ("transform", "dce", "FILE", "--verify", "--bind", "to=1"),
        ("transform", "grad", "FILE"),
        ("project", "FILE", "--rank", "1", "--bind", "to=1"),
        ("diff", "FILE", "FILE"),
        ("lower", "FILE", "-o", "FOLDER", "--bind", "to=1"),
        ("launch", "FILE", "--bind", "to=1", "--timeout", "300s", "--verify"),
        ("search", "FILE", "--devices", "2", "--jobs", "1"),
    ],
    ids=" ".join,
)
def test_every_command_ends(distir, program, tmp_path, text, words):
    known = {"FILE": program(text), "FOLDER": tmp_path / "lowered"}
    words = [known.get(word, word) for word in words]
    if "%to" not in text and "--bind" in words:
        at = words.index("--bind")
        del words[at : at + 2]
    code, out, err = distir(*words)
    assert code in (0, 1, 2)
    assert out or err or code == 0, "what is refused is explained"


def test_run_says_how_much_memory_it_would_take(distir, program):
    code, _, err = distir("run", program(PROGRAM))
    assert code == 2
    assert "the inputs need " in err
    code, _, err = distir("run", program(GROWING), "--bind", "to=1")
    assert code == 2
    assert "`@main` needs " in err
    assert "of memory" in err
    assert "--max-memory" in err


@pytest.mark.parametrize(("limit", "code"), [("15MB", 2), ("20MB", 2), ("100MB", 0)])
def test_run_keeps_within_the_memory_that_it_is_given(distir, program, limit, code):
    """The inputs as they are drawn take 16 MB, results 24 MB."""
    ended, _, err = distir("run", program(MODERATE), "--max-memory", limit)
    assert ended == code, err
    assert code == 0 or "memory" in err


def test_the_estimate_follows_calls(program):
    from distir.analysis import TooLargeError, execute
    from distir.syntax import parse

    module = parse(MODERATE, "a.dir").module
    inputs = {"x": np.zeros((1000, 1000))}
    assert execute(module, inputs, max_bytes=24_000_000)
    with pytest.raises(TooLargeError, match=r"needs 24\.0MB of memory, 20\.0MB are allowed"):
        execute(module, inputs, max_bytes=20_000_000)


def test_verifying_keeps_within_the_memory_that_it_is_given(distir, program):
    path = program(MODERATE)
    assert distir("transform", "inline", path, "--verify", "--max-memory", "200MB")[0] == 0
    code, _, err = distir("transform", "inline", path, "--verify", "--max-memory", "20MB")
    assert code == 2
    assert "--max-memory" in err


def test_a_memory_that_is_no_size(distir, program):
    code, _, err = distir("run", program(MODERATE), "--max-memory", "much")
    assert code == 2
    assert "--max-memory" in err


def test_an_onnx_model_comes_in_whatever_its_sizes(distir, tmp_path):
    import onnx
    from onnx import TensorProto, helper

    size = helper.make_tensor("size", TensorProto.INT64, [2], [10**9, 10**9])
    nodes = [helper.make_node("ConstantOfShape", ["size"], ["big"]), helper.make_node("Add", ["big", "x"], ["y"])]
    info = helper.make_tensor_value_info
    inputs = [info("x", TensorProto.FLOAT, [10**9, 10**9])]
    graph = helper.make_graph(nodes, "g", inputs, [info("y", TensorProto.FLOAT, None)], [size])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), tmp_path / "m.onnx")
    out = tmp_path / "m.dir"
    assert distir("import", "onnx", tmp_path / "m.onnx", "-o", out)[0] == 0
    assert distir("check", out)[0] == 0
    assert distir("run", out)[0] == 2


def test_files_of_tensors_that_claim_much(distir, program, tmp_path):
    path = program(MODERATE)
    described = {"x": {"dtype": "F64", "shape": [10**9, 10**9], "data_offsets": [0, 8 * 10**18]}}
    header = json.dumps(described).encode()
    (tmp_path / "x.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(64))
    (tmp_path / "y.safetensors").write_bytes((10**18).to_bytes(8, "little") + header)
    array = io.BytesIO()
    np.lib.format.write_array_header_1_0(array, {"descr": "<f8", "fortran_order": False, "shape": (10**9, 10**9)})
    (tmp_path / "x.npy").write_bytes(array.getvalue() + bytes(64))
    for flag in (
        f"--inputs={tmp_path}/x.safetensors",
        f"--inputs={tmp_path}/y.safetensors",
        f"--input=x={tmp_path}/x.npy",
    ):
        code, _, err = distir("run", path, flag)
        assert code == 2
        assert "is not a " in err


BILLIONS = 10**18
VECTOR = f"%x: Tensor[Float32, (B,), 1], %s: Tensor[Int64, ({BILLIONS},)]"


@pytest.mark.parametrize(
    ("params", "statement"),
    [
        ("%x: Tensor[Float32, (B,), 1]", f"%y = Split[axis = 0, num_outputs = {BILLIONS}](%x)"),
        (f"%x: Tensor[Float32, ({BILLIONS},), 1]", f"%y = Split[axis = 0, num_outputs = {BILLIONS}](%x)"),
        (VECTOR, "%y = Split[axis = 0](%x, %s)"),
        (VECTOR, "%y = Reshape(%x, %s)"),
        (VECTOR, "%y = Expand(%x, %s)"),
        (VECTOR, "%y = Unsqueeze(%x, %s)"),
        (VECTOR, "%y = Squeeze(%x, %s)"),
        (VECTOR, "%y = Tile(%x, %s)"),
        (VECTOR, "%y = Pad(%x, %s)"),
        (VECTOR, "%y = Slice(%x, %s, %s)"),
        (VECTOR, "%y = ReduceSum(%x, %s)"),
        (f"%s: Tensor[Int64, ({BILLIONS},)]", "%y = ConstantOfShape(%s)"),
    ],
)
def test_results_and_dimensions_without_number(distir, program, params, statement):
    """A size may ask for so many results, or for a rank of so many dimensions."""
    code, _, err = distir("check", program(f"func @main({params}) {{\n  {statement}\n  return %y\n}}\n"))
    assert code in (0, 1)
    assert code == 0 or "error[DIR3" in err
