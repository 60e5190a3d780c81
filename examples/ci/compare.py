"""What a change does to programs, as Markdown: `distir diff` of each .dir file that differs from a commit.

    python compare.py BASE [--hardware H] [--fail-if 'latency>+5%'] [--pictures FOLDER]

The timelines stand in the text, and in the folder as pictures. The text fits into a comment: of what does not, programs
are named, and so are programs that are new or gone. Settings are those of `distir.toml` at BASE. With conditions
(`distir diff --help` says what they are), the exit code is 1 if one holds for some program, or if a program cannot be
compared. Needs git and nothing else.

The repository may be a stranger's: git reads its commits, index and files, but not its configuration, which could name
programs to run. So there are no hooks, no filters (files of Git LFS stay pointers), no signatures and no fetching.
"""

import argparse
import os
import re
import shutil
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
    root = next((place for place in (Path.cwd(), *Path.cwd().parents) if (place / ".git").exists()), None)
    if root is None:
        print("error: this folder is in no git repository", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        return reported(Repository(root, Path(scratch)), Path(scratch), arguments)


def reported(repository, folder, arguments):
    """Compare all programs that differ, and give the exit code. `folder` is empty."""
    if not repository.known(arguments.base):
        print(f"error: git knows no commit {code(arguments.base)}", file=sys.stderr)
        print("  help: give a commit, and let actions/checkout fetch all of them, with fetch-depth: 0", file=sys.stderr)
        return 2
    print("### What changes in distributed programs")
    changes = changed(repository, arguments.base)
    if not changes:
        print("\nNothing.")
        return 0
    if arguments.pictures is not None:
        arguments.pictures = arguments.pictures.absolute()
        arguments.pictures.mkdir(parents=True, exist_ok=True)
    repository.write_tree(arguments.base, folder / "before")
    (folder / "after").symlink_to(repository.root, target_is_directory=True)
    found = [compared(folder, *change, arguments) for change in changes]
    left = MOST
    for (said, _), (*_, path) in zip(found, changes, strict=True):
        short = said if len(said) <= left else f"{code(path)} is compared in the log of the run."
        print(f"\n{short}")
        left -= len(short) + 1
    return 1 if arguments.fail_if and any(failed for _, failed in found) else 0


class Repository:
    """The repository at `root`, read through a git directory in `scratch` that has a configuration of its own."""

    def __init__(self, root, scratch):
        self.root = root
        theirs = root / ".git"
        if theirs.is_file():  # of a worktree or a submodule
            theirs = root / theirs.read_text().removeprefix("gitdir:").strip()
        shared = theirs / (theirs / "commondir").read_text().strip() if (theirs / "commondir").exists() else theirs
        self.own, self.index = scratch / "git", scratch / "index"
        self.own.mkdir()
        (self.own / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = false\n")
        shutil.copyfile(theirs / "HEAD", self.own / "HEAD")
        for name in ("objects", "refs", "packed-refs", "shallow"):
            if (shared / name).exists():
                (self.own / name).symlink_to((shared / name).resolve())
        if (theirs / "index").exists():
            shutil.copy2(theirs / "index", self.index)  # with its time: what was written since then may differ

    def git(self, *words, index=None, tree=None):
        """What git says. Raises CalledProcessError."""
        others = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        ours = {
            "GIT_DIR": self.own,
            "GIT_INDEX_FILE": index or self.index,
            "GIT_WORK_TREE": tree or self.root,
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_OPTIONAL_LOCKS": "0",
        }
        environment = {**others, **{name: str(value) for name, value in ours.items()}}
        words = ["git", "--no-pager", *words]
        done = subprocess.run(words, cwd=tree or self.root, env=environment, capture_output=True, text=True, check=True)
        return done.stdout

    def known(self, commit):
        """Whether the repository has the commit."""
        try:
            return bool(self.git("rev-parse", "--verify", "--end-of-options", f"{commit}^{{commit}}"))
        except subprocess.CalledProcessError:
            return False

    def write_tree(self, commit, folder):
        """Write the files of a commit to a new folder."""
        folder.mkdir()
        self.git("read-tree", "-u", "--reset", commit, index=folder.with_suffix(".index"), tree=folder)


def changed(repository, base):
    """The programs that differ from a commit: git's letter for how, and the path before and after."""
    said = repository.git("diff", "--name-status", "--find-renames", "-z", base, "--", "*.dir")
    words = iter(said.split("\0")[:-1])
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


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        print(f"error: {' '.join(error.cmd)}: {error.stderr.strip()}", file=sys.stderr)
        sys.exit(2)
