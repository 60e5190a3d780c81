"""A real Neovim, without a screen: opening, editing, hovering, renaming, formatting, writing."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from editor_samples import PROGRAM, ROOT, with_server


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
        timeout=600,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert program.read_text("utf-8") == PROGRAM.replace("%h", "%hidden")


@pytest.mark.skipif(shutil.which("nvim") is None, reason="Neovim is not installed")
def test_the_configuration_to_paste_works(tmp_path):
    newer, older = re.findall(r"```lua\n(.*?)```", (ROOT / "docs/editors.md").read_text("utf-8"), re.DOTALL)
    program = tmp_path / "program.dir"
    program.write_text(PROGRAM.replace("Relu", "Reul"), "utf-8")
    (tmp_path / "init.lua").write_text(f"if vim.lsp.config then\n{newer}\nelse\n{older}\nend\n", "utf-8")
    seen = "vim.wait(300000, function() return #vim.diagnostic.get(0) > 0 end, 20)"
    done = subprocess.run(
        ["nvim", "--headless", "-n", "-i", "NONE", "-u", str(tmp_path / "init.lua"), str(program)]
        + ["-c", f"lua vim.cmd({seen} and 'qall!' or 'cquit 1')"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        cwd=tmp_path,
        env=with_server(tmp_path),
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(shutil.which("nvim") is None, reason="Neovim is not installed")
def test_a_proof_in_neovim(tmp_path):
    from test_proofs_in_the_editor import SEQUENTIAL, SHARDS, WRONG

    (tmp_path / "model.dir").write_text(SEQUENTIAL)
    (tmp_path / "distir.toml").write_text('sequential = "model.dir"\n')
    program = tmp_path / "shards.dir"
    program.write_text(WRONG)
    given = {"PYTHON": sys.executable, "PATHS": f"{ROOT}:{ROOT / 'lsp'}", "PROGRAM": str(program)}
    done = subprocess.run(
        ["nvim", "--headless", "--clean", "-n"]
        + ["-c", f"lua {'; '.join(f'{name} = [[{value}]]' for name, value in given.items())}"]
        + ["-c", f"luafile {Path(__file__).with_name('neovim_proof.lua')}"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert program.read_text() == SHARDS
