"""`distir import` and `distir model`: programs, their weights beside them, and one line where it cannot be done."""

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx.reference import ReferenceEvaluator
from onnx_models import FLOAT, model, node, saved, stack, weight


@pytest.fixture
def call(distir, monkeypatch, tmp_path):
    """Runs the command line in a folder of its own; gives the exit code, standard output and standard error."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        ended = distir(*words)
        return ended.code, ended.out, ended.err

    return run


def test_a_model_and_its_weights_run(call, tmp_path):
    proto = stack(3)
    x = weight(4, 8, seed=50)
    np.save(tmp_path / "x.npy", x)
    saved(tmp_path, proto)
    assert call("import", "onnx", "model.onnx", "-o", "net.dir") == (0, "", "")
    assert call("check", "net.dir")[0] == 0
    flags = ("--inputs", "net.safetensors", "--input", "x=x.npy", "--output", "y.npz", "--json")
    code, out, _ = call("run", "net.dir", *flags)
    assert code == 0
    assert json.loads(out)["outputs"][0]["name"] == "y"
    (expected,) = ReferenceEvaluator(proto).run(None, {"x": x})
    np.testing.assert_allclose(np.load(tmp_path / "y.npz")["y"], expected, rtol=1e-5, atol=1e-6)
    assert "net.safetensors" in (tmp_path / "net.dir").read_text().splitlines()[0]


def test_without_an_output_the_program_is_printed(call, tmp_path):
    saved(tmp_path, stack(2))
    code, out, _ = call("import", "onnx", "model.onnx")
    assert code == 0
    assert out.startswith("func @h(")
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]


def test_types_alone(call, tmp_path):
    saved(tmp_path, stack(2))
    assert call("import", "onnx", "model.onnx", "-o", "net.dir", "--no-weights")[0] == 0
    assert not (tmp_path / "net.safetensors").exists()


def test_the_batch_can_be_named(call, tmp_path):
    saved(tmp_path, stack(2, rows=16))
    _, out, _ = call("import", "onnx", "model.onnx", "--batch", "x=0")
    assert "%x: Tensor[Float32, (B, 8), 1] {batch = 0}" in out


def test_somebody_elses_file_is_not_replaced(call, tmp_path):
    saved(tmp_path, stack(2))
    theirs = tmp_path / "net.safetensors"
    theirs.write_bytes(b"theirs")
    code, _, err = call("import", "onnx", "model.onnx", "-o", "net.dir")
    assert code == 2
    assert "not written by DistIR" in err
    assert theirs.read_bytes() == b"theirs"
    assert not (tmp_path / "net.dir").exists()
    theirs.unlink()
    for _ in range(2):  # ours may be
        assert call("import", "onnx", "model.onnx", "-o", "net.dir")[0] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("onnx", "nothing.onnx"), "cannot read `nothing.onnx`: no such file"),
        (("onnx", "."), "found the folder"),
        (("tensorflow", "x"), "no importer for `tensorflow`"),
        (("onnx", "model.onnx", "--batch", "x"), "expected a name and a number"),
        (("onnx", "model.onnx", "--batch", "q=0"), "no input `q`"),
        (("onnx", "empty.onnx"), "is no ONNX model"),
    ],
)
def test_what_cannot_be_imported_is_said_in_one_line(call, tmp_path, words, said):
    saved(tmp_path, stack(1))
    (tmp_path / "empty.onnx").write_bytes(b"")
    code, out, err = call("import", *words)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert said in err
    assert "Traceback" not in err


def test_an_op_that_is_not_known_is_a_warning(call, tmp_path):
    import onnx

    custom = onnx.helper.make_node("Odd", ["x"], ["y"], domain="com.example")
    opsets = [onnx.helper.make_opsetid("com.example", 1)]
    saved(
        tmp_path, model([custom, node("Relu", "y", "z")], {"x": (FLOAT, [3])}, {"z": (FLOAT, [3])}, extra_opsets=opsets)
    )
    code, _, err = call("import", "onnx", "model.onnx")
    assert code == 0
    assert err.startswith("warning: `Odd` of the domain `com.example`")


@pytest.mark.parametrize(
    "words",
    [
        ("mlp",),
        ("mlp", "--layers", "3", "--width", "16", "--training"),
        ("gpt2", "--layers", "2", "--width", "64", "--heads", "4", "--dtype", "Float32", "--batch", "2"),
        ("gpt2-1.6b",),
        ("llama3-8b", "--seq", "64", "--micro-batch", "1", "--layers", "2", "--kv-heads", "4", "--vocabulary", "1000"),
        ("llama3-8b", "--phase", "decode", "--context", "64", "--batch", "16", "--layers", "2"),
        ("gemma2-2b", "--window", "16", "--head-size", "64", "--ffn", "32", "--width", "128", "--dtype", "Float32"),
    ],
)
def test_models_of_any_size_check(call, words):
    assert call("model", *words, "-o", "m.dir") == (0, "", "")
    assert call("check", "m.dir")[0] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("gpt3",), "there is no model `gpt3`"),
        (("gpt2", "--width", "10", "--heads", "3"), "expected `heads` to divide"),
        (("mlp", "--heads", "3"), "has no option `--heads`"),
        (("mlp-1b", "--layers", "3"), "has no option `--layers`"),
        (("mlp", "--dtype", "Int8"), "floating-point"),
        (("bert-base", "--phase", "decode"), "the model `bert-base` has no phase `decode`"),
        (("gpt2", "--phase", "decode"), "the model `gpt2` has no option `--phase`"),
        (("llama3-8b", "--context", "64"), "expected a `phase` where there is a `context`"),
        (("llama3-8",), "did you mean `llama3-8b`?"),
        (("llama3-8b", "--heads", "5"), "expected `heads` to divide the width 4096, found 5"),
        (("llama3-8b", "--window", "5"), "the model `llama3-8b` has no option `--window`"),
        (("mpt-7b", "--kv-heads", "4"), "the model `mpt-7b` has no option `--kv-heads`"),
        (("vit-b", "--seq", "4"), "the model `vit-b` has no option `--sequence`"),
        (("bert-base", "--training"), "the model `bert-base` has no option `--training`"),
        (("llama3-8b", "--json"), "`--json` is for `--list`"),
        ((), "expected the name of a model"),
    ],
)
def test_models_that_are_none(call, words, said):
    code, out, err = call("model", *words, "-o", "m.dir")
    assert (code, out) == (2, "")
    assert said in err
    assert not Path("m.dir").exists()


def test_models_are_listed_with_their_parameters_and_flops(call):
    code, out, _ = call("model", "--list")
    assert code == 0
    rows = {line.split()[0]: line for line in out.splitlines() if line}
    assert "8,030,261,248" in rows["llama3-8b"]
    found = {row["name"]: row for row in json.loads(call("model", "--list", "--json")[1])}
    assert found["llama3-8b"]["parameters"] == 8_030_261_248
    assert found["llama3-8b"]["tokens"] == 8192
    assert 15e9 < found["llama3-8b"]["flops_per_token"] < 20e9
    assert found["gpt2-175b"]["attention_share"] is None


def test_the_name_of_a_repository_is_taken_and_the_user_reads_as_what(distir):
    ended = distir("model", "meta-llama/Llama-3.1-8B", "--layers", 2)
    assert ended.code == 0
    assert ended.err == "`meta-llama/Llama-3.1-8B` is taken as `llama3.1-8b`\n"
    assert ended.out == distir("model", "llama3.1-8b", "--layers", 2).out
