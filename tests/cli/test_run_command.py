import hashlib
import json
import os
import struct

import ml_dtypes
import numpy as np
import pytest
from cli_samples import PIPELINE, SMALL

TUPLES = """\
func @main(%w: Tuple[Tensor[Float32, (2,), 1], Tensor[BFloat16, (2,), 1]], %k: Int64) {
  %a, %b = UnpackTuple(%w)
  %c = Add(%a, %a)
  %t = MakeTuple(%c, %b)
  return %t, %k
}
"""

BESIDE = """\
func @main(%x: Tensor[Float32, (2,), 1]) {
  %w = Constant[value = external<DTYPE, SHAPE, "REFERENCE">]()
  %c = Cast[to = Float32](%w)
  %y = Add(%x, %c)
  return %y
}
"""


def beside(dtype="Float32", shape="(2,)", reference="m.safetensors#w"):
    return BESIDE.replace("DTYPE", dtype).replace("SHAPE", shape).replace("REFERENCE", reference)


def safetensors(**arrays):
    """The bytes of a file with arrays of Float32 and BFloat16."""
    header, data = {}, b""
    for name, array in arrays.items():
        names = {"float32": "F32", "bfloat16": "BF16"}
        end = len(data) + array.nbytes
        header[name] = {"dtype": names[array.dtype.name], "shape": list(array.shape), "data_offsets": [len(data), end]}
        data += array.tobytes()
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def outputs(ended):
    assert ended.code == 0, ended.err
    return {output["name"]: output for output in json.loads(ended.out)["outputs"]}


def digest(array):
    return hashlib.sha256(array.tobytes()).hexdigest()


def test_results_are_printed(distir, file):
    ended = distir("run", file("a.dir", SMALL))
    assert ended.code == 0
    assert "random with seed 0: %x, %w" in ended.err
    header, row, *_ = ended.out.split("\n")
    assert header.split() == ["result", "type", "shape", "device", "sha256"]
    assert row.startswith("y        Float32   (2, 2)        1")
    assert "y = [[" in ended.out


def test_json_has_the_keys_that_others_read(distir, file):
    found = outputs(distir("run", file("a.dir", PIPELINE), "--bind", "B=4", "--json"))
    assert found["y"].keys() >= {"name", "dtype", "shape", "device", "sha256"}
    assert (found["y"]["dtype"], found["y"]["shape"], found["y"]["device"]) == ("Float32", [4, 40], 2)
    assert (found["size"]["dtype"], found["size"]["shape"], found["size"]["device"]) == ("Int64", [2], None)
    assert found["size"]["sha256"] == digest(np.array([4, 40], np.int64))


def test_the_same_seed_gives_the_same_and_another_does_not(distir, file):
    path = file("a.dir", SMALL)
    first, again, other = (
        outputs(distir("run", path, "--json", "--seed", seed))["y"]["sha256"] for seed in ("7", "7", "8")
    )
    assert first == again != other


def test_inputs_and_outputs_are_files(distir, file, tmp_path):
    x, w = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((3, 2), ">f4")
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "in.npz", w=w)
    out = tmp_path / "out.npz"
    path = file("a.dir", SMALL)
    ended = distir("run", path, "--input", f"x={tmp_path / 'x.npy'}", "--inputs", tmp_path / "in.npz", "--output", out)
    assert (ended.code, ended.err) == (0, "")
    with np.load(out) as found:
        assert found.files == ["y"]
        np.testing.assert_array_equal(found["y"], x @ w)


def test_named_dimensions_are_measured_on_the_inputs(distir, file, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((6, 40), np.float32))
    found = outputs(distir("run", file("a.dir", PIPELINE), "--input", f"x={tmp_path / 'x.npy'}", "--json"))
    assert found["y"]["shape"] == [6, 40]


def test_parts_of_tuples_and_narrow_floats_survive_a_round_trip(distir, file, tmp_path):
    path, out = file("a.dir", TUPLES), tmp_path / "out.npz"
    first = outputs(distir("run", path, "--output", out, "--bind", "k=3", "--json"))
    assert list(first) == ["t.0", "t.1", "k"]
    with np.load(out) as found:
        assert set(found.files) == {"t.0", "t.1.bfloat16", "k"}
        np.savez(tmp_path / "in.npz", **{"w.0": found["t.0"] / 2, "w.1.bfloat16": found["t.1.bfloat16"]})
    again = outputs(distir("run", path, "--inputs", tmp_path / "in.npz", "--bind", "k=3", "--json"))
    assert again == first


def test_inputs_from_safetensors(distir, file, tmp_path):
    narrow = np.array([1.5, -2], ml_dtypes.bfloat16)
    weights = file("w.safetensors", safetensors(**{"w.0": np.array([1, 2], np.float32), "w.1": narrow}))
    found = outputs(distir("run", file("a.dir", TUPLES), "--inputs", weights, "--json"))
    assert found["t.0"]["sha256"] == digest(np.array([2, 4], np.float32))
    assert found["t.1"]["sha256"] == digest(narrow)


@pytest.mark.parametrize(("dtype", "numpy"), [("Float32", np.float32), ("BFloat16", ml_dtypes.bfloat16)])
def test_constants_beside_the_program(distir, file, tmp_path, dtype, numpy):
    file("m.safetensors", safetensors(w=np.array([1, 2], numpy)))
    np.save(tmp_path / "x.npy", np.array([10, 20], np.float32))
    found = outputs(distir("run", file("a.dir", beside(dtype)), "--input", f"x={tmp_path / 'x.npy'}", "--json"))
    assert found["y"]["sha256"] == digest(np.array([11, 22], np.float32))


@pytest.mark.parametrize(
    ("text", "content", "expected"),
    [
        (beside(), None, "no such file"),
        (beside(), b"", "is not a safetensors file"),
        (beside(), b"\xff" * 100, "is not a safetensors file"),
        (beside(), struct.pack("<Q", 2) + b"[]", "is not a safetensors file"),
        (beside(), struct.pack("<Q", 9) + b'{"w": {}}', "is not a safetensors file"),
        (beside(), safetensors(w=np.zeros(2, np.float32))[:-1], "is not a safetensors file"),
        (beside(), safetensors(v=np.zeros(2, np.float32)), "has no tensor `w`"),
        (beside(), safetensors(w=np.zeros(3, np.float32)), "expected `Tensor[Float32, (2,)]`, found"),
        (beside("BFloat16"), safetensors(w=np.zeros(2, np.float32)), "expected `Tensor[BFloat16, (2,)]`, found"),
    ],
)
def test_constants_that_are_not_there(distir, file, text, content, expected):
    if content is not None:
        file("m.safetensors", content)
    ended = distir("run", file("a.dir", text))
    assert ended.code == 2
    assert expected in ended.err


def test_only_the_programs_own_folder_is_read(distir, file, tmp_path):
    outside = file("outside/m.safetensors", safetensors(w=np.zeros(2, np.float32)))
    path = file("inside/a.dir", beside())
    (tmp_path / "inside" / "m.safetensors").symlink_to(outside)
    ended = distir("run", path)
    assert ended.code == 2
    assert "not in the program's folder" in ended.err
    ended = distir("run", file("inside/b.dir", beside(reference="../outside/m.safetensors#w")))
    assert ended.code == 1
    assert "DIR113" in ended.err


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--input", "x"), "expected a name and a file"),
        (("--input", "x=none.npy"), "cannot read `none.npy`: no such file"),
        (("--inputs", "none.npz"), "cannot read `none.npz`: no such file"),
        (("--inputs", "none.safetensors"), "cannot read `none.safetensors`: no such file"),
        (("--input", "x=TEXT"), "is not a .npy file"),
        (("--inputs", "TEXT"), "is not a .npz file"),
        (("--input", "x=OBJECTS"), "it has non-numeric elements"),
        (("--input", "x=ARCHIVE"), "expected one array"),
        (("--inputs", "ARRAY"), "expected an archive"),
        (("--input", "y=ARRAY"), "there is no input `y`"),
        (("--input", "x=ARRAY"), "`%x` expected `Tensor[Float32, (2, 3), 1]`, found `Tensor[Float64, (4,)]`"),
        (("--input", "x=COMPLEX"), "found an array of complex128"),
    ],
)
def test_inputs_that_do_not_fit(distir, file, tmp_path, flags, expected):
    (tmp_path / "text").write_text("no array")
    np.save(tmp_path / "objects.npy", np.array([{}, None], object), allow_pickle=True)
    np.savez(tmp_path / "archive.npz", x=np.zeros(3))
    np.save(tmp_path / "array.npy", np.zeros(4))
    np.save(tmp_path / "complex.npy", np.zeros((2, 3), complex))
    files = {"TEXT": "text", "OBJECTS": "objects.npy", "ARCHIVE": "archive.npz"}
    files |= {"ARRAY": "array.npy", "COMPLEX": "complex.npy"}
    words = list(flags)
    for word, name in files.items():
        words[1] = words[1].replace(word, str(tmp_path / name))
    ended = distir("run", file("a.dir", SMALL), *words)
    assert (ended.code, ended.out) == (2, "")
    assert expected in ended.err
    assert "bug" not in ended.err


def test_a_part_of_a_tuple_that_is_missing(distir, file, tmp_path):
    np.savez(tmp_path / "in.npz", **{"w.0": np.zeros(2, np.float32)})
    ended = distir("run", file("a.dir", TUPLES), "--inputs", tmp_path / "in.npz")
    assert ended.code == 2
    assert "`w.1` is missing" in ended.err


@pytest.mark.parametrize("size", [10**10, 10**15, 2**63 - 1])
def test_sizes_beyond_memory_are_refused_before_anything_is_made(distir, file, size):
    ended = distir("run", file("a.dir", PIPELINE), "--bind", f"B={size}")
    assert ended.code == 2
    assert "of memory" in ended.err


def test_a_failure_within_an_op_is_the_programs(distir, file, tmp_path):
    params = "%x: Tensor[Float32, (2,), 1], %i: Tensor[Int64, (1,), 1]"
    gather = f"func @main({params}) {{\n  %y = Gather(%x, %i)\n  return %y\n}}\n"
    np.save(tmp_path / "i.npy", np.array([7]))
    ended = distir("run", file("a.dir", gather), "--input", f"i={tmp_path / 'i.npy'}")
    assert ended.code in (1, 2)
    assert "bug" not in ended.err


def test_a_device_is_written_to_and_not_replaced(distir, file):
    assert distir("run", file("a.dir", SMALL), "--output", os.devnull).code == 0
    assert not os.path.isfile(os.devnull)


def test_results_are_written_at_once_or_not_at_all(distir, file, tmp_path, monkeypatch):
    path, out = file("a.dir", SMALL), file("out.npz", "old")

    def fail(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    assert distir("run", path, "--output", out).code == 2
    assert out.read_text() == "old"
    assert sorted(tmp_path.iterdir()) == [path, out]
