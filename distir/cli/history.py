"""The versions of a program in git's history: the commits that change its file, and its text in each."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from distir.cli.endings import Refused
from distir.cli.files import shown
from distir.files.reading import PROGRAM

PATIENCE_S = 60.0
"""How long git may take for one answer."""

_FIELDS = ("%H", "%h", "%as", "%an", "%s")


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit that changes the file, and where the file was then. `day` as 2026-11-23."""

    name: str
    short: str
    day: str
    author: str
    subject: str
    path: str


class History:
    """The history of one file. Raises Refused where there is none."""

    def __init__(self, file: str) -> None:
        path = Path(os.path.abspath(file))
        self._file, self._folder = file, path.parent
        top = self._git("rev-parse", "--show-toplevel", why=f"`{shown(file)}` is not in a git repository").strip()
        self._top = Path(top)
        self._path = path.resolve().relative_to(self._top.resolve()).as_posix()

    def commits(self, revisions: str, most: int) -> list[Commit]:
        """The commits of a range such as `v1..main` that change the file, the first one before them, oldest first.

        At most the last `most`. Raises Refused for a range that there is not.
        """
        first, dots, last = revisions.partition("..")
        good, bad = (self._revision(first) if dots else ""), self._revision((last if dots else first) or "HEAD")
        wanted = f"{good}..{bad}" if good else bad
        if good and good != bad and self._answer("merge-base", "--is-ancestor", bad, good) is not None:
            raise Refused(
                f"`{last or 'HEAD'}` is before `{first}`, so there is nothing between them",
                f"write `{last or 'HEAD'}..{first}`",
            )
        found = self._log("--follow", f"--max-count={most}", wanted)
        if good and len(found) < most:
            found += self._log("--follow", "--max-count=1", good)
        if not found:
            raise Refused(f"no commit of `{revisions}` changes `{shown(self._file)}`")
        return found[::-1]

    def text(self, commit: Commit) -> bytes | None:
        """The file as it was at a commit; None where it was not there. Raises Refused for one that is too long."""
        place = f"{commit.name}:{commit.path}"
        size = self._answer("cat-file", "-s", place)
        if size is None:
            return None
        if int(size) > PROGRAM.most:
            raise Refused(f"`{place}` is too long: {int(size):,} bytes", PROGRAM.help)
        return self._answer("cat-file", "blob", place)

    def _log(self, *words: str) -> list[Commit]:
        form = "%x00" + "%x1f".join(_FIELDS)
        said = self._git(
            "-c", "core.quotePath=false", "log", "--name-only", f"--format={form}", *words, "--", self._path
        )
        found: list[Commit] = []
        for entry in said.split("\0")[1:]:
            head, *names = entry.split("\n")
            path = next((name for name in names if name), self._path)
            name, short, day, author, subject = head.split("\x1f", len(_FIELDS) - 1)
            found.append(Commit(name, short, day, author, subject, path))
        return found

    def _revision(self, name: str) -> str:
        why = f"git knows no commit `{name}`"
        return self._git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", why=why).strip()

    def _git(self, *words: str, why: str = "git failed") -> str:
        said = self._answer(*words)
        if said is None:
            raise Refused(why)
        return said.decode("utf-8", "replace")

    def _answer(self, *words: str) -> bytes | None:
        """The output of git at the top of the repository; None if it fails."""
        folder = getattr(self, "_top", self._folder)
        # ignore settings for another repository, for paging and for colours
        clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        environment = {**clean, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_PAGER": "cat"}
        try:
            ended = subprocess.run(
                ["git", "--no-replace-objects", *words],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PATIENCE_S,
                check=False,
            )
        except FileNotFoundError:
            raise Refused("there is no `git` on the PATH, or no such folder") from None
        except subprocess.TimeoutExpired:
            raise Refused(f"`git {words[0]}` took more than {PATIENCE_S:.0f} s") from None
        return ended.stdout if ended.returncode == 0 else None
