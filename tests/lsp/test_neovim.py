"""A real Neovim, without a screen: opening, editing, hovering, renaming, formatting, writing."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PROGRAM = """\
// é😀
func @dense(%x: Tensor[Float32, (4, 4), 1], %w: Tensor[Float32, (4, 4), 1]) {
  %h = Gemm(%x, %w) // é😀
  %a = Relu(%h)
  return %a
}
"""


@pytest.mark.skipif(shutil.which("nvim") is None, reason="Neovim is not installed")
def test_a_day_in_neovim(tmp_path):
    program = tmp_path / "program.dir"
    program.write_text(PROGRAM, "utf-8")
    given = {"PYTHON": sys.executable, "PATHS": f"{ROOT}:{ROOT / 'lsp'}", "PROGRAM": str(program)}
    command = ["nvim", "--headless", "--clean", "-n"]
    command += ["-c", f"lua {'; '.join(f'{name} = [[{value}]]' for name, value in given.items())}"]
    done = subprocess.run(
        [*command, "-c", f"luafile {Path(__file__).with_name('neovim.lua')}"],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert program.read_text("utf-8") == PROGRAM.replace("%h", "%hidden")
