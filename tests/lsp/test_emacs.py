"""A real Emacs, without a screen, with the configuration of `docs/editors.md`."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from editor_samples import PROGRAM, ROOT, with_server

LACKS_EGLOT = 77


@pytest.mark.skipif(shutil.which("emacs") is None, reason="Emacs is not installed")
def test_a_day_in_emacs_with_the_configuration_to_paste(tmp_path):
    (pasted,) = re.findall(r"```elisp\n(.*?)```", (ROOT / "docs/editors.md").read_text("utf-8"), re.DOTALL)
    init, program = tmp_path / "init.el", tmp_path / "program.dir"
    init.write_text(pasted, "utf-8")
    program.write_text(PROGRAM.replace("Relu", "Reul"), "utf-8")
    done = subprocess.run(
        ["emacs", "--batch", "--no-init-file"]
        + ["--eval", f'(setq INIT "{init}" PROGRAM "{program}")']
        + ["--load", str(Path(__file__).with_name("eglot.el"))],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        cwd=tmp_path,
        env=with_server(tmp_path) | {"LC_ALL": "C.UTF-8"},
    )
    if done.returncode == LACKS_EGLOT:
        pytest.skip("this Emacs has no eglot")
    assert done.returncode == 0, done.stderr
    assert program.read_text("utf-8") == PROGRAM.replace("%h", "%hidden")
