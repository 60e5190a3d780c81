"""What the tests with real editors share: a program, and the command that starts the server."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

PROGRAM = """\
// é😀
func @dense(%x: Tensor[Float32, (4, 4), 1], %w: Tensor[Float32, (4, 4), 1]) {
  %h = Gemm(%x, %w) // é😀
  %a = Relu(%h)
  return %a
}
"""


def with_server(folder):
    """An environment at home in a folder, where the command `distir-lsp` of this checkout is found."""
    command = folder / "bin" / "distir-lsp"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}:{ROOT / "lsp"}" exec "{sys.executable}" -m distir_lsp "$@"\n')
    command.chmod(0o755)
    return os.environ | {"PATH": f"{command.parent}:{os.environ['PATH']}", "HOME": str(folder)}
