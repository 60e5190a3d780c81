"""Pages with code in them: their blocks, and what it means that a block is true.

| block | it is true if |
|---|---|
| any, with `title="name"` | it is the file of that name for the blocks after it, and holds for its own kind |
| `console` | each `$ ` line runs, and prints what stands below it; `…` stands for lines, or the rest of one, left out |
| `python` | it runs, after those before it |
| `dir` | the program checks, but for the diagnostics that its comments state |
| `toml`, `json`, `yaml` | it parses; a table of settings or a profile is used by a command that follows |
| `sh` | the lines that begin with `distir` name commands and options that exist |

`console` blocks say `(exit code 1)` on a last line where the command ends so.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import typer
from expectations import surprises

from distir.cli import main
from distir.cli.app import COMMANDS
from distir.cli.app import command as command_of

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^( *)```(\w*)(?: title=\"([^\"]*)\")?\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
FIGURE = re.compile(r"[+-]?\d[\d.,]*(?:e[+-]\d+)?(?:(?:[mun]?s|[kMGT]?B|%)(?![a-z]))?(?:/s)?")
"""A number with its unit, as commands print it."""
EXIT = re.compile(r"^\(exit code (\d+)\)\n", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    kind: str
    title: str
    text: str
    line: int


def blocks(text):
    """What stands between fences."""
    for found in FENCE.finditer(text):
        indent, kind, title, body = found.groups()
        body = "".join(line.removeprefix(indent) for line in body.splitlines(keepends=True))
        yield Block(kind, title or "", body, text[: found.start()].count("\n") + 1)


def left_out(shown, printed):
    """The first of the passages shown, with `…` between them, that is not printed after those before it."""
    printed = "".join(line.rstrip() + "\n" for line in printed.splitlines())
    for passage in filter(None, re.split(r"…\n", shown)):
        _, found, printed = printed.partition(passage)
        if not found:
            return passage
    return None


def renewed(shown, printed):
    """What is shown, each line as it is printed now: the next line that is the same but for its figures.

    Lines that are not printed any more stay as they are.
    """
    lines, left = [], printed.splitlines()
    for line in shown.splitlines():
        exact = (i for i, now in enumerate(left) if now.rstrip() == line)
        found = next(exact, next((i for i, now in enumerate(left) if worded(now) == worded(line)), None))
        if line.endswith("…") or found is None:
            lines.append(line)
        else:
            lines.append(left[found].rstrip())
            left = left[found + 1 :]
    return "".join(f"{line}\n" for line in lines)


def worded(line):
    """A line without its figures, and without the space that these need."""
    return " ".join(FIGURE.sub("#", line).split())


class Reader:
    """Follows a page from its beginning: what a block needs, those before it have made.

    If it blesses, output that differs is not wrong: `renew` gives the page with what is printed now.
    """

    def __init__(self, folder, capsys, blesses=False):
        self.folder = folder
        self.capsys = capsys
        self.blesses = blesses
        self.differing = []
        self.names = {"__name__": "__page__"}

    def follow(self, block):
        """Raises AssertionError, with what is wrong, for a block that is not true."""
        if block.title:
            path = self.folder / block.title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
        getattr(self, f"_{block.kind}", lambda block: None)(block)

    def renew(self, page):
        """The text of a page with what its commands print now. Blocks that are indented stay as they are."""
        for old, new in self.differing:
            page = page.replace(old, new, 1)
        return page

    def _console(self, block):
        for command, shown in COMMAND.findall(block.text):
            expected = int(found.group(1)) if (found := EXIT.search(shown)) else 0
            code, printed = self._run(command)
            assert code == expected, f"{command}\n{printed}"
            if self.blesses and left_out(EXIT.sub("", shown), printed) is not None:
                self.differing.append((f"$ {command}\n{shown}", f"$ {command}\n{renewed(shown, printed)}"))
                continue
            missing = left_out(EXIT.sub("", shown), printed)
            assert missing is None, f"{command}\nprinted:\n{printed}\nmissing:\n{missing}"

    def _run(self, command):
        words = shlex.split(command)
        if words[0] != "distir" or {"|", ">", "<"} & set(words):
            path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
            ended = subprocess.run(
                command, shell=True, capture_output=True, text=True, env={**os.environ, "PATH": path}, check=False
            )
            return ended.returncode, ended.stdout + ended.stderr
        code = main(words[1:])
        captured = self.capsys.readouterr()
        return code, captured.out + captured.err

    def _python(self, block):
        if not block.title.endswith(".py") or block.title == "":
            exec(compile(block.text, f"line {block.line}", "exec"), self.names)
        else:
            compile(block.text, block.title, "exec")

    def _dir(self, block):
        assert "\n".join(surprises(block.text)) == ""

    def _toml(self, block):
        tomllib.loads(block.text)

    def _json(self, block):
        json.loads(block.text)

    def _yaml(self, block):
        import yaml

        yaml.safe_load(block.text)

    def _sh(self, block):
        for line in block.text.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words and words[0] == "distir":
                assert_exists(words[1:])


def assert_exists(words):
    """That a command has these options; it is not run."""
    if not words or words[0].startswith("-"):
        return
    assert words[0] in COMMANDS, f"no command `{words[0]}`"
    app = typer.Typer(add_completion=False)
    app.command()(command_of(words[0]))
    options = {name for param in typer.main.get_command(app).params for name in param.opts} | {"--help"}
    for word in words[1:]:
        if re.match(r"--?[a-z]", word):
            assert word.partition("=")[0] in options, f"`distir {words[0]}` has no option `{word}`"
