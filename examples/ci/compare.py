"""What a change does to programs, as Markdown: `distir diff` of each .dir file that differs from a commit.

    python compare.py BASE [--hardware H]

Programs that are new or gone are named. Settings are those of `distir.toml` at BASE. Needs git and nothing else.
"""

import argparse
import subprocess
import tempfile
from pathlib import Path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", help="the commit to compare with")
    parser.add_argument("--hardware", help="the machine to simulate on")
    parser.add_argument("--distir", default="distir", help="the command")
    arguments = parser.parse_args()
    print("### What changes in distributed programs")
    changes = changed(arguments.base)
    if not changes:
        print("\nNothing.")
        return
    root = Path(git("rev-parse", "--show-toplevel").strip())
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        git("worktree", "add", "--quiet", "--detach", str(folder / "before"), arguments.base)
        try:
            (folder / "after").symlink_to(root, target_is_directory=True)
            for status, path in changes:
                print(f"\n{compared(folder, status, path, arguments)}")
        finally:
            git("worktree", "remove", "--force", str(folder / "before"))


def changed(base):
    """The programs that differ from a commit, with git's letter for how."""
    words = git("diff", "--name-status", "--no-renames", "-z", base, "--", "*.dir").split("\0")
    return list(zip(words[:-1:2], words[1::2], strict=True))


def compared(folder, status, path, arguments):
    """One program, in Markdown."""
    if status != "M":
        return f"{'New' if status == 'A' else 'Gone' if status == 'D' else 'Changed'}: {code(path)}"
    hardware = [f"--hardware={arguments.hardware}"] if arguments.hardware else []
    words = [arguments.distir, "diff", "--markdown", *hardware, "--", f"before/{path}", f"after/{path}"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        said = "\n".join(f"    {line}" for line in done.stderr.splitlines())
        return f"{code(path)} cannot be compared:\n\n{said}"
    return done.stdout.rstrip()


def code(text):
    """A name, which may be any text, as code."""
    return "`" + "".join(c if c.isprintable() and c != "`" else "?" for c in text) + "`"


def git(*words):
    return subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    main()
