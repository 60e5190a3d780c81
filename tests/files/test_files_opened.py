"""Files of a folder that somebody else made: none hangs or fills the memory of who reads them, wherever it is named."""

import ast
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from distir.files.reading import FileKind, UnreadError, bounded, mapped, opened, read_bytes

ROOT = Path(__file__).parents[2]
MODULES = sorted([*(ROOT / "distir").rglob("*.py"), *(ROOT / "lsp").rglob("*.py")])
ITSELF = ROOT / "distir" / "files" / "reading.py"

SMALL = FileKind("a small file", 100, "make it smaller")
COMMAND = [sys.executable, "-c", "import sys; from distir.cli import main; sys.exit(main())"]
PROGRAM = "func @main(%x: Tensor[Float32, (2,), 1]) {\n  %y = Relu(%x)\n  return %y\n}\n"
WITH_TENSOR = PROGRAM.replace("Relu(%x)", 'Constant[value = external<Float32, (2,), "BAD.safetensors#w">]()')
SOON_S = 60
"""More than any of these commands takes, on however slow a machine; less than for ever."""

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")


@pytest.fixture(params=["pipe", "endless", "socket"])
def bad(request, tmp_path, monkeypatch):
    """Makes a path that is no regular file."""
    monkeypatch.chdir(tmp_path)
    kept = []

    def make(name):
        if request.param == "pipe":
            os.mkfifo(name)
        elif request.param == "endless":
            os.symlink("/dev/zero", name)
        else:
            kept.append(socket.socket(socket.AF_UNIX))
            kept[-1].bind(name)
        return name

    yield make
    for each in kept:
        each.close()


def ended(*words):
    """How a command ends with little memory; it fails the test where it does not end."""
    limited = "import resource; resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, 4 << 30)); " + COMMAND[2]
    return subprocess.run(
        [*COMMAND[:2], limited, *words], capture_output=True, text=True, timeout=SOON_S, stdin=subprocess.DEVNULL
    )


def test_what_is_no_regular_file_is_not_read(bad):
    for read in (lambda path: read_bytes(path, SMALL), mapped):
        with pytest.raises(OSError, match=r"expected a file, found a|No such device"):
            read(bad(f"x{read.__name__}.dir"))


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(IsADirectoryError):
        read_bytes(tmp_path, SMALL)


def test_a_file_is_read_to_its_bound_and_no_further(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"x" * 100)
    assert read_bytes(path, SMALL) == b"x" * 100
    path.write_bytes(b"x" * 101)
    with pytest.raises(UnreadError, match=r"it has 101B, a small file may have 100B") as caught:
        read_bytes(path, SMALL)
    assert caught.value.help == "make it smaller"


def test_a_stream_is_read_to_its_bound(tmp_path):
    with open("/dev/zero", "rb") as endless, pytest.raises(UnreadError, match="more than 100B"):
        bounded(endless, SMALL, "<stdin>")


def test_files_that_grow_while_they_are_read(tmp_path, monkeypatch):
    """Between the question how large a file is and its end there may be more."""
    path = tmp_path / "a"
    path.write_bytes(b"x" * 200)
    with opened(path) as file, pytest.raises(UnreadError):
        bounded(file, SMALL, "a", expected=10)


def test_an_empty_file_is_mapped(tmp_path):
    (tmp_path / "a").touch()
    assert len(mapped(tmp_path / "a")) == 0


@pytest.mark.each_once
@pytest.mark.parametrize(
    "words",
    [
        ["check", "BAD.dir"],
        ["check", "."],
        ["fmt", "--check", "BAD.dir"],
        ["simulate", "BAD.dir"],
        ["run", "BAD.dir"],
        ["search", "BAD.dir"],
        ["diff", "a.dir", "BAD.dir"],
        ["diff", "a.dir", "BAD.json"],
        ["hardware", "./BAD.toml"],
        ["simulate", "a.dir", "--hardware", "./BAD.toml"],
        ["simulate", "inner/a.dir"],
        ["check", "inner/a.dir", "--max-latency", "1s"],
        ["simulate", "extending/a.dir"],
        ["run", "a.dir", "--input", "x=BAD.npy"],
        ["run", "a.dir", "--inputs", "BAD.npz"],
        ["run", "a.dir", "--inputs", "BAD.safetensors"],
        ["run", "constant.dir"],
        ["lower", "constant.dir", "-o", "out"],
        ["search", "mlp-1b", "--batch-size", "64", "--csv", "BAD.csv", "--resume", "--devices", "1"],
        ["import", "onnx", "BAD.onnx"],
    ],
    ids=" ".join,
)
def test_no_command_hangs_or_fills_the_memory(bad, words):
    for name in {word.rpartition("=")[2] for word in words if "BAD" in word} or {"BAD.dir"}:
        bad(name)
    if "constant.dir" in words:
        bad("BAD.safetensors")
    Path("a.dir").write_text(PROGRAM)
    Path("constant.dir").write_text(WITH_TENSOR)
    for folder in ("inner", "extending"):
        os.mkdir(folder)
        Path(folder, "a.dir").write_text(PROGRAM)
    bad("inner/distir.toml")
    bad("extending/BAD.toml")
    Path("extending/distir.toml").write_text('hardware = "mine.toml"\n')
    Path("extending/mine.toml").write_text('extends = "./BAD.toml"\n')
    if words == ["check", "."]:
        for other in ("inner", "extending"):
            for path in Path(other).iterdir():
                path.unlink()
    done = ended(*words)
    assert "Traceback" not in done.stderr
    assert "bug in DistIR" not in done.stderr
    if "--resume" not in words:
        assert done.returncode in (1, 2)
        said = ("expected a file, found a", "no such device", "not in the program's folder")
        assert any(each in done.stderr for each in said)


def test_external_data_of_a_model_is_not_read_from_a_pipe(tmp_path):
    onnx = pytest.importorskip("onnx")
    import distir
    from distir.importers import ImportRefused

    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4096]) for name in "xy")
    w = onnx.numpy_helper.from_array(np.ones(4096, np.float32), "w")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Add", ["x", "w"], ["y"])], "g", [x], [y], [w])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)])
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    (tmp_path / "m.data").unlink()
    os.mkfifo(tmp_path / "m.data")
    found = distir.import_onnx(tmp_path / "m.onnx")
    with pytest.raises(ImportRefused, match="expected a file, found a pipe"):
        found.weights["w"]


def test_what_a_shell_passes_is_read(tmp_path):
    """`distir check <(distir model mlp)`: the caller has opened the pipe already."""
    (tmp_path / "a.dir").write_text(PROGRAM)
    words = " ".join(f"'{word}'" for word in COMMAND)
    script = f"{words} check <(cat a.dir) && cat a.dir | {words} check /dev/stdin"
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=SOON_S)
    assert done.returncode == 0, done.stderr


def test_the_language_server_answers_beside_a_pipe(bad, tmp_path):
    sys.path.insert(0, str(ROOT / "tests" / "lsp"))
    try:
        from server_session import Session
    finally:
        sys.path.pop(0)
    for folder, setting in (("a", 'hardware = "f.toml"\n'), ("b", None)):
        os.mkdir(folder)
        if setting is None:
            bad(f"{folder}/distir.toml")
        else:
            Path(folder, "distir.toml").write_text(setting)
            bad(f"{folder}/f.toml")
    os.mkdir("c")
    with Session() as session:
        for folder in ("a", "b", "c"):
            uri = (tmp_path / folder / "x.dir").as_uri()
            session.open(uri, PROGRAM.replace("Relu(%x)", "Relu(%nothing)"))
            assert [found["code"] for found in session.diagnostics(uri)] == ["DIR201"]


# That everything is opened by this module.

OPENERS = {"open", "read_text", "read_bytes", "memmap", "fromfile", "loadtxt", "genfromtxt", "mmap"}
LOADERS = {
    "np.load",
    "onnx.load",
    "onnx.load_model",
    "torch.load",
    "tomllib.load",
    "json.load",
    "np.lib.format.open_memmap",
}
LAST = OPENERS | {name.rpartition(".")[2] for name in LOADERS}
OWN = {"read_text", "read_bytes", "reading.read_bytes", "files.read_bytes"}
"""How this module's functions are called."""


def reads(node):
    """Whether a call may open a file for reading."""
    last = getattr(node.func, "attr", None) or getattr(node.func, "id", None)
    if last not in LAST:
        return False
    name = ast.unparse(node.func)
    if name in LOADERS:
        return not (name == "np.load" and ast.unparse(node.args[0]) == "file")  # one that is open already
    if last not in OPENERS or name in OWN:
        return False
    if last == "open" and name != "os.open" and isinstance(node.args[0], ast.Call):  # of what is open already
        return False
    if name == "os.open":
        return "O_WRONLY" not in ast.unparse(node) and "O_RDWR" not in ast.unparse(node)
    if last == "open":
        given = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg == "mode")]
        modes = [a.value for a in given if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        return not any(mode[:1] in ("w", "a", "x") for mode in modes)
    return True


def test_files_are_opened_for_reading_in_one_place():
    elsewhere = [
        f"{path.relative_to(ROOT).as_posix()}:{node.lineno}: {ast.unparse(node)}"
        for path in MODULES
        if path != ITSELF
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and reads(node)
    ]
    assert not elsewhere
