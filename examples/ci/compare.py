"""What a change does to programs, as Markdown: `distir diff` of each .dir file that differs from a commit.

    python compare.py BASE [--hardware H] [--fail-if 'latency>+5%'] [--pictures FOLDER]

The timelines stand in the text, and in the folder as pictures. The text fits into a comment: of what does not, programs
are named, and so are programs that are new or gone. Settings are those of `distir.toml` at BASE. With conditions
(`distir diff --help` says what they are), the exit code is 1 if one holds for some program, or if a program cannot be
compared. Needs git and nothing else.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

MOST = 60_000
"""Characters; a comment on GitHub may have 65,536."""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", help="the commit to compare with")
    parser.add_argument("--hardware", help="the machine to simulate on")
    parser.add_argument("--fail-if", action="append", default=[], metavar="CONDITION", help="as of `distir diff`")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="where to write timelines as SVG")
    parser.add_argument("--distir", default="distir", help="the command")
    arguments = parser.parse_args()
    if not known(arguments.base):
        print(f"error: git knows no commit {code(arguments.base)}", file=sys.stderr)
        print("  help: give a commit, and let actions/checkout fetch all of them, with fetch-depth: 0", file=sys.stderr)
        return 2
    print("### What changes in distributed programs")
    changes = changed(arguments.base)
    if not changes:
        print("\nNothing.")
        return 0
    if arguments.pictures is not None:
        arguments.pictures = arguments.pictures.absolute()
        arguments.pictures.mkdir(parents=True, exist_ok=True)
    root = Path(git("rev-parse", "--show-toplevel").strip())
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        git("worktree", "add", "--quiet", "--detach", str(folder / "before"), arguments.base)
        try:
            (folder / "after").symlink_to(root, target_is_directory=True)
            found = [compared(folder, *change, arguments) for change in changes]
        finally:
            git("worktree", "remove", "--force", str(folder / "before"))
    left = MOST
    for (said, _), (*_, path) in zip(found, changes, strict=True):
        short = said if len(said) <= left else f"{code(path)} is compared in the log of the run."
        print(f"\n{short}")
        left -= len(short) + 1
    return 1 if arguments.fail_if and any(failed for _, failed in found) else 0


def known(commit):
    """Whether the repository has the commit."""
    words = ["git", "rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}"]
    return subprocess.run(words, stdout=subprocess.DEVNULL, check=False).returncode == 0


def changed(base):
    """The programs that differ from a commit: git's letter for how, and the path before and after."""
    words = iter(git("diff", "--name-status", "--find-renames", "-z", base, "--", "*.dir").split("\0")[:-1])
    changes = []
    for status in words:
        before = next(words)
        changes.append((status[0], before, next(words) if status[0] == "R" else before))
    return changes


def compared(folder, status, before, path, arguments):
    """One program, in Markdown, and whether a condition holds or it cannot be compared."""
    if status not in "MR":
        return f"{'New' if status == 'A' else 'Gone' if status == 'D' else 'Changed'}: {code(path)}", False
    flags = [f"--hardware={arguments.hardware}"] if arguments.hardware else []
    flags += [f"--fail-if={condition}" for condition in arguments.fail_if]
    if arguments.pictures is not None:
        flags.append(f"--picture={arguments.pictures / re.sub(r'[^A-Za-z0-9._-]', '_', path)}.svg")
    words = [arguments.distir, "diff", "--markdown", *flags, "--", f"before/{before}", f"after/{path}"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    if not done.stdout:
        said = "\n".join(f"    {line}" for line in done.stderr.splitlines())
        return f"{code(path)} cannot be compared:\n\n{said}", True
    return done.stdout.rstrip(), done.returncode != 0


def code(text):
    """A name, which may be any text, as code."""
    return "`" + "".join(c if c.isprintable() and c != "`" else "?" for c in text) + "`"


def git(*words):
    return subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        print(f"error: {' '.join(error.cmd)}: {error.stderr.strip()}", file=sys.stderr)
        sys.exit(2)
