"""A real Emacs, without a screen, with the configuration of `docs/editors.md`."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LACKS_EGLOT = 77

PROGRAM = """\
// é😀
func @dense(%x: Tensor[Float32, (4, 4), 1], %w: Tensor[Float32, (4, 4), 1]) {
  %h = Gemm(%x, %w) // é😀
  %a = Relu(%h)
  return %a
}
"""


@pytest.mark.skipif(shutil.which("emacs") is None, reason="Emacs is not installed")
def test_a_day_in_emacs_with_the_configuration_to_paste(tmp_path):
    (pasted,) = re.findall(r"```elisp\n(.*?)```", (ROOT / "docs/editors.md").read_text("utf-8"), re.DOTALL)
    init, program = tmp_path / "init.el", tmp_path / "program.dir"
    init.write_text(pasted, "utf-8")
    program.write_text(PROGRAM.replace("Relu", "Reul"), "utf-8")
    command = tmp_path / "bin" / "distir-lsp"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}:{ROOT / "lsp"}" exec "{sys.executable}" -m distir_lsp "$@"\n')
    command.chmod(0o755)
    done = subprocess.run(
        ["emacs", "--batch", "--no-init-file"]
        + ["--eval", f'(setq INIT "{init}" PROGRAM "{program}")']
        + ["--load", str(Path(__file__).with_name("eglot.el"))],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"PATH": f"{command.parent}:{os.environ['PATH']}", "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"},
    )
    if done.returncode == LACKS_EGLOT:
        pytest.skip("this Emacs has no eglot")
    assert done.returncode == 0, done.stderr
    assert program.read_text("utf-8") == PROGRAM.replace("%h", "%hidden")
