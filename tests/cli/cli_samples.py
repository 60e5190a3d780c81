"""Programs, and ways to call the command line, that the tests here share."""

import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Ended

PATIENCE_S = 300
"""How long a process may take to end, on however slow a machine."""

GOLDEN = Path(__file__).parent / "golden"
MACHINE = str(GOLDEN / "machine.toml")

PIPELINE = """\
// Two stages on two devices, two microbatches.
func @layer(%w, %x) {
  %h = MatMul(%x, %w)
  %y = Relu(%h) // activations
  return %y
}

func @main(
  %w1: Tensor[Float32, (40, 40), 1] {param},
  %w2: Tensor[Float32, (40, 40), 2] {param},
  %x: Tensor[Float32, (B, 40), 1] {batch = 0}
) {
  %x_1, %x_2 = Split[axis = 0, num_outputs = 2](%x)
  %a_1 = @layer(%w1, %x_1)
  %b_1 = Send[device = 2](%a_1)
  %a_2 = @layer(%w1, %x_2)
  %y_1: D2 = @layer(%w2, %b_1)
  %b_2 = Send[device = 2](%a_2)
  %y_2 = @layer(%w2, %b_2)
  %size = Shape(%x)
  %y = Concat[axis = 0](%y_1, %y_2)
  return %y, %size
}
"""

SMALL = """\
func @main(%x: Tensor[Float32, (2, 3), 1], %w: Tensor[Float32, (3, 2), 1]) {
  %y = MatMul(%x, %w)
  return %y
}
"""

WRONG = SMALL.replace("(3, 2)", "(4, 2)")
"""A program whose dimensions do not agree: DIR301."""

UNUSED = SMALL.replace("  return", "  %z = Relu(%y)\n  return")
"""A program with a warning and no error."""

UNTIDY = SMALL.replace("  %y = MatMul(%x, %w)", "%y   =MatMul( %x,%w )  // product")


@pytest.fixture
def file(tmp_path):
    """Writes a file: `file("a.dir", text)` gives its path."""

    def write(name, content):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.fixture
def golden(request):
    """Compares a text with a file in `golden`; `--bless` writes it anew."""

    def compare(name, found):
        path = GOLDEN / name
        if request.config.getoption("--bless"):
            path.write_text(found)
        assert found == path.read_text()

    return compare


def start(*words, **options):
    """The command line as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", "import sys; from distir.cli import main; sys.exit(main())", *map(str, words)],
        stdin=options.pop("stdin", subprocess.PIPE),
        stdout=options.pop("stdout", subprocess.PIPE),
        stderr=options.pop("stderr", subprocess.PIPE),
        **options,
    )


def run_process(*words, stdin=b"", **options):
    process = start(*words, **options)
    out, err = process.communicate(stdin, timeout=PATIENCE_S)
    return Ended(process.returncode, out.decode() if out is not None else "", err.decode())
