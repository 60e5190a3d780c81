"""Which files are read, and that reading one never executes what is in it."""

import ast
import io
import os
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

from distir.cli import main

ROOT = Path(__file__).parents[2]
MODULES = sorted([*(ROOT / "distir").rglob("*.py"), *(ROOT / "lsp").rglob("*.py")])
TEMPLATES = sorted((ROOT / "distir").rglob("*.py.txt"))

PROGRAM = """\
func @main(%x: Tensor[Float32, (2,), 1]) {
  %w = Constant[value = external<Float32, (2,), "REFERENCE#w">]()
  %c = Cast[to = Float32](%w)
  %y = Add(%x, %c)
  return %y
}
"""

MAKER = ROOT / "distir" / "syntax" / "templates.py"
"""The one place that compiles an expression: of numbers and words of its own, see `TEXTS`."""


class Trap:
    """Something that, unpickled, makes a folder."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "home" / "a.dir"
    path.parent.mkdir()
    path.write_text("func @main(%x: Tensor[Float32, (2,), 1]) {\n  %y = Relu(%x)\n  return %y\n}\n")
    return path


def test_arrays_of_objects_are_refused_and_not_unpickled(program, tmp_path, capsys):
    trap = tmp_path / "trapped"
    array = np.array([Trap(trap)], dtype=object)
    np.save(tmp_path / "x.npy", array, allow_pickle=True)
    np.savez(tmp_path / "x.npz", x=array)
    (tmp_path / "bare.npy").write_bytes(__import__("pickle").dumps(Trap(trap)))
    for flags in (
        ["--input", f"x={tmp_path}/x.npy"],
        ["--inputs", f"{tmp_path}/x.npz"],
        ["--input", f"x={tmp_path}/bare.npy"],
        ["--inputs", f"{tmp_path}/bare.npy"],
    ):
        assert main(["run", str(program), *flags]) == 2
        assert "non-numeric" in capsys.readouterr().err
        assert not trap.exists()


def test_an_archive_that_unpacks_to_more_than_there_is(program, tmp_path, capsys):
    """10 kB that claim to be a terabyte."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (2**38,)})
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", header.getvalue() + bytes(10_000_000))
    assert (tmp_path / "x.npz").stat().st_size < 20_000
    assert main(["run", str(program), "--inputs", f"{tmp_path}/x.npz", "--max-memory", "1GB"]) == 2
    assert "bug" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "reference",
    ["../secret.safetensors", "SECRET", "link.safetensors", "folder/../../secret.safetensors", "up/secret.safetensors"],
)
@pytest.mark.parametrize("words", [["run"], ["lower", "-o", "OUT"]], ids=["run", "lower"])
def test_a_program_reads_tensors_beside_it_alone(program, tmp_path, capsys, reference, words):
    secret = tmp_path / "secret.safetensors"
    header = b'{"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}'
    secret.write_bytes(len(header).to_bytes(8, "little") + header + b"\0\0\x80?\0\0\x80?")
    (program.parent / "folder").mkdir()
    (program.parent / "link.safetensors").symlink_to(secret)
    (program.parent / "up").symlink_to(tmp_path)
    program.write_text(PROGRAM.replace("REFERENCE", reference.replace("SECRET", str(secret))))
    words = [word.replace("OUT", str(tmp_path / "out")) for word in words]
    assert main([*words, str(program)]) in (1, 2)
    assert re.search(r"folder|beside", capsys.readouterr().err)
    assert not (tmp_path / "out" / "constants.safetensors").exists()


def executing(path):
    """What a module does that may execute what is in a file."""
    tree = ast.parse(re.sub(r"^\{\w+\}$", "", path.read_text(), flags=re.MULTILINE))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from UNPICKLERS & {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            yield from UNPICKLERS & {node.module}
        elif isinstance(node, ast.Call):
            name = dotted(node.func)
            given = {keyword.arg: keyword.value for keyword in node.keywords}
            said = {key: getattr(given[key], "value", None) for key in SAFE.keys() & given.keys()}
            if name in EVALUATORS or (name == "eval" and path != MAKER):
                yield name
            unsaid = name in MUST_SAY and MUST_SAY[name] not in said
            if unsaid or any(value is not SAFE[key] for key, value in said.items()):
                yield ast.unparse(node)


UNPICKLERS = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve"}
EVALUATORS = {"exec", "os.system", "os.popen", "yaml.load"}
SAFE = {"allow_pickle": False, "shell": False, "weights_only": True}
MUST_SAY = {"torch.load": "weights_only", "np.load": "allow_pickle"}
"""Calls that must say so, whatever is so by default."""


def dotted(function):
    """`a.b` of the call `a.b(…)`; of the call of something that has no name, nothing."""
    if isinstance(function, ast.Attribute):
        return f"{dotted(function.value)}.{function.attr}"
    return function.id if isinstance(function, ast.Name) else ""


def test_nothing_is_unpickled_evaluated_or_given_to_a_shell():
    found = {path.relative_to(ROOT).as_posix(): [*executing(path)] for path in [*MODULES, *TEMPLATES]}
    assert {path: what for path, what in found.items() if what} == {}


TEXTS = [
    "%y = Relu(%x)",
    '%y = Constant[value = "__import__(\\"os\\").abort()"]()',
    "%y, _ = Split[axis = 0, num_outputs = 2](%x)",
    "%y = Sum(%x, [%x, 1.5], %x)",
    "%y = @__import__(%x, [2, 3])",
    "%__import__ = Nonsense[a = [1, 2]](%x.y-z, 7)",
    "return %x, 3, [%x]",
]


def test_the_one_expression_that_is_compiled_holds_nothing_of_a_text(monkeypatch):
    from distir.syntax import parse, templates

    sources = []
    original = templates._maker
    monkeypatch.setattr(templates, "_maker", lambda source: sources.append(source) or original(source))
    for number, text in enumerate(TEXTS):
        parse(f"func @f{number}(%x) {{\n  {text}\n  return %x\n}}\n", "a.dir")
    assert sources
    for source in sources:
        assert re.fullmatch(
            r"(Apply|Call|Facts|Return|callee|attrs|claims|stream|given|facts(\.[a-z]+)?|[pc]\[\d+\]|[(), ])+", source
        ), source
