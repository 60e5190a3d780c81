import os
import stat

import pytest
from cli_samples import PATIENCE_S, SMALL, UNTIDY, WRONG, start

TIDY = SMALL.replace("(%x, %w)\n", "(%x, %w) // product\n")


def test_a_file_is_rewritten(distir, file):
    path = file("a.dir", UNTIDY)
    ended = distir("fmt", path)
    assert (ended.code, ended.out, ended.err) == (0, "", "")
    assert path.read_text() == TIDY


def test_a_canonical_file_is_not_touched(distir, file):
    path = file("a.dir", SMALL)
    os.utime(path, ns=(1, 1))
    assert distir("fmt", path).code == 0
    assert path.stat().st_mtime_ns == 1


def test_a_broken_file_is_left_alone_and_reported(distir, file):
    path = file("a.dir", UNTIDY + "}")
    broken = file("b.dir", "func @f(")
    ended = distir("fmt", path, broken)
    assert ended.code == 1
    assert "b.dir" in ended.err
    assert broken.read_text() == "func @f("
    assert path.read_text().startswith(TIDY)


def test_a_program_that_does_not_check_is_formatted_all_the_same(distir, file):
    path = file("a.dir", WRONG.replace(" = ", "="))
    assert distir("fmt", path).code == 0
    assert path.read_text() == WRONG


def test_check_lists_what_would_change_and_writes_nothing(distir, file, tmp_path):
    path = file("a.dir", UNTIDY)
    file("b.dir", SMALL)
    ended = distir("fmt", "--check", tmp_path)
    assert (ended.code, ended.out) == (1, f"{path}\n")
    assert path.read_text() == UNTIDY
    path.write_text(TIDY)
    assert distir("fmt", "--check", tmp_path).code == 0


def test_diff_shows_what_would_change(distir, file):
    path = file("a.dir", UNTIDY)
    ended = distir("fmt", "--diff", path)
    assert ended.code == 0
    assert "-%y   =MatMul( %x,%w )  // product\n+  %y = MatMul(%x, %w) // product\n" in ended.out
    assert "\x1b" not in ended.out
    assert path.read_text() == UNTIDY


def test_standard_input_to_standard_output(distir):
    assert distir("fmt", "-", stdin=UNTIDY.encode()).out == TIDY
    broken = distir("fmt", "-", stdin=b"func @f(")
    assert (broken.code, broken.out) == (1, "")
    assert "<stdin>" in broken.err


def test_line_ends_are_kept(distir):
    assert distir("fmt", "-", stdin=UNTIDY.replace("\n", "\r\n").encode()).out == TIDY.replace("\n", "\r\n")


def test_permissions_are_kept_and_links_followed(distir, file, tmp_path):
    path = file("real/a.dir", UNTIDY)
    path.chmod(0o640)
    link = tmp_path / "link.dir"
    link.symlink_to(path)
    assert distir("fmt", link).code == 0
    assert link.is_symlink()
    assert path.read_text() == TIDY
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.parametrize("moment", ["mkstemp", "fsync", "replace"])
def test_a_failure_at_any_moment_leaves_the_old_file_and_nothing_else(distir, file, tmp_path, monkeypatch, moment):
    path = file("a.dir", UNTIDY)

    def fail(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.mkstemp" if moment == "mkstemp" else f"os.{moment}", fail)
    ended = distir("fmt", path)
    assert ended.code == 2
    assert "no space left on device" in ended.err
    assert path.read_text() == UNTIDY
    assert list(tmp_path.iterdir()) == [path]


def test_a_process_killed_while_it_writes_leaves_the_old_file(file):
    path = file("a.dir", UNTIDY)
    killed = start("fmt", path, env={**os.environ, "PYTHONPATH": str(_killer(file))})
    killed.communicate(timeout=PATIENCE_S)
    assert killed.returncode == -9
    assert path.read_text() == UNTIDY


def _killer(file):
    """A folder that makes a process kill itself as it is about to put the new file in place."""
    return file(
        "killer/sitecustomize.py",
        "import os, signal\nos.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n",
    ).parent
