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


def neovim(folder, program, command):
    """Open a program with the `init.lua` in a folder, run a command that ends Neovim, and see that it ends with 0."""
    done = subprocess.run(
        ["nvim", "--headless", "-n", "-i", "NONE", "-u", str(folder / "init.lua"), str(program), "-c", command],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        cwd=folder,
        env=with_server(folder),
    )
    assert done.returncode == 0, done.stderr


def listings():
    """The configurations of the documentation."""
    return re.findall(r"```lua\n(.*?)```", (ROOT / "docs/editors.md").read_text("utf-8"), re.DOTALL)


WAITING = """func @main(%x: Tensor[Float32, (512, 512), 1]) {
  %y = MatMul(%x, %x)
  %z: D2 = Send[device = 2](%y)
  %o = Relu(%z)
  return %o
}
"""


@pytest.mark.skipif(shutil.which("nvim") is None, reason="Neovim is not installed")
def test_keys_go_along_the_critical_path_and_from_wait_to_wait(tmp_path):
    newer, keys, older = listings()
    program = tmp_path / "program.dir"
    program.write_text(WAITING, "utf-8")
    (tmp_path / "init.lua").write_text(f"if vim.lsp.config then\n{newer}\nelse\n{older}\nend\n{keys}", "utf-8")
    # Each key until the program is simulated and the cursor is there.
    script = """
      vim.wait(120000, function() return next(vim.lsp.buf_get_clients(0)) ~= nil end, 20)
      vim.wait(120000, function() return select(2, next(vim.lsp.buf_get_clients(0))).initialized end, 20)
      local function goes(key, from, line)
        for _ = 1, 100 do
          vim.api.nvim_win_set_cursor(0, { from, 0 })
          vim.cmd("normal " .. key)
          if vim.wait(500, function() return vim.api.nvim_win_get_cursor(0)[1] == line end, 10) then return true end
        end
      end
      local done = goes("]c", 2, 3) and goes("]c", 3, 4) and goes("[c", 4, 3) and goes("]w", 1, 3) and goes("[w", 5, 3)
      vim.cmd(done and "qall!" or "cquit 1")
    """
    (tmp_path / "keys.lua").write_text(script, "utf-8")
    neovim(tmp_path, program, f"luafile {tmp_path / 'keys.lua'}")


@pytest.mark.skipif(shutil.which("nvim") is None, reason="Neovim is not installed")
def test_the_configuration_to_paste_works(tmp_path):
    newer, _, older = listings()
    program = tmp_path / "program.dir"
    program.write_text(PROGRAM.replace("Relu", "Reul"), "utf-8")
    (tmp_path / "init.lua").write_text(f"if vim.lsp.config then\n{newer}\nelse\n{older}\nend\n", "utf-8")
    seen = "vim.wait(300000, function() return #vim.diagnostic.get(0) > 0 end, 20)"
    neovim(tmp_path, program, f"lua vim.cmd({seen} and 'qall!' or 'cquit 1')")


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
