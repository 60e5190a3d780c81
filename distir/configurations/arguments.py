"""Arguments of a command line, as a shell script or a plain list gives them: each option with its value and line.

Of a script, the arguments are those of the command with the most options. The words before it, and the lines that a
batch system reads, say how it is launched.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from distir.configurations.launchers import ProcessCounts, directives, launched
from distir.configurations.options import ConfigurationError, Setting
from distir.configurations.shell.script import Script, Skipped
from distir.configurations.shell.words import UNRESOLVED, Value

ALL: Final = "@"
"""The name under which a caller gives all arguments of a script."""


@dataclass(slots=True)
class CommandLine:
    """What a text says: the arguments of a program, how it is launched, and reports of what is not read; with lines.

    `launcher`: the words before the program.
    """

    words: Value = field(default_factory=list[tuple[str, int]])
    launch: ProcessCounts = field(default_factory=ProcessCounts)
    skipped: list[Skipped] = field(default_factory=list[Skipped])
    program: str = ""
    script: Script = field(default_factory=lambda: Script(""))
    launcher: Value = field(default_factory=list[tuple[str, int]])


def arguments(text: str, path: str, given: Mapping[str, str] | None = None) -> CommandLine:
    """The arguments of a text: those of the command with the most options; of all lines if these are a list of options.

    `given`: variables that its caller sets, whatever the script sets them to; `1` is its first argument, and `@` all.
    Without any, the arguments are those of the first example of its use in a comment.

    Raises ConfigurationError for quotes or lists that never end.
    """
    given = given or {}
    script = Script(path, frozenset(given))
    header = directives(text)
    script.variables |= {name: [(str(number), line)] for name, (number, line) in header.variables().items()}
    _pass(script, text, given)
    script.variables |= {name: [(value, 0)] for name, value in given.items() if name != ALL}
    script.read(text)
    script.read_uncalled()
    split = [_divided(command) for command in script.commands]
    split.append(([], []))
    launcher, words = max(split, key=lambda pair: (_options(pair[1]), len(pair[1])))
    loose = [command for command in script.commands if command and command[0][0].startswith("--")]
    if not launcher and words and words in loose:
        words = [word for command in loose for word in command]
    else:
        text = "not read: it is of no command; the line before it may lack a `\\`"
        script.skipped += [Skipped(text, command[0][1]) for command in loose]
    if not _options(words):
        return CommandLine(words, ProcessCounts(), script.skipped, script=script)
    words = _given(words, script)
    program = next((word for word, _ in reversed(launcher) if not word.startswith("-")), "")
    return CommandLine(words, launched(launcher, header), script.skipped, program, script, launcher[:-1])


_USAGE = re.compile(
    r"^#+\s*(?:usage:\s*)?(?:\$ )?(?:(?:ba|z)?sh|sbatch|\./)\s*\S+\.(?:sh|slurm)\s+(?P<words>\S.*)$", re.MULTILINE
)


def _pass(script: Script, text: str, given: Mapping[str, str]) -> None:
    """The arguments of a script: those that are given, or those of the first example of its use."""
    if ALL in given:
        try:
            words = shlex.split(given[ALL])
        except ValueError:
            raise ConfigurationError(f"`--set {ALL}={given[ALL]}`: a quote is never closed") from None
        script.pass_arguments([(word, 0) for word in words])
        return
    example = _USAGE.search(text)
    numbered = [int(name) for name in given if name.isdecimal() and len(name) < 4]
    if numbered:
        script.pass_arguments([(given.get(str(n), f"${{{n}}}"), 0) for n in range(1, max(numbered) + 1)])
    elif example is not None and not re.search(r"[<>\[\]$]", example["words"]):
        line = text.count("\n", 0, example.start()) + 1
        words = example["words"].split()
        script.pass_arguments([(word, line) for word in words])
        how = f"`--set {ALL}='…'` gives others, `--set NAME=VALUE` one"
        if re.search(r"\$\{?[1-9]", text):
            script.skipped.append(Skipped(f"its arguments are those of this example; {how}", line))
    else:
        script.variables["#"] = [("0", 0)]


_UNSET = re.compile(r"\$\{?(?P<name>\w+|[@*])(?:\[[@*]\]|:\d+)?\}?")
"""A word that is a variable of which nothing says the value."""


def _given(words: Value, script: Script) -> Value:
    """The words without those of a script's caller; a variable where no value of an option is due is reported."""
    found: Value = []
    for word, line in words:
        unset = _UNSET.fullmatch(word)
        has_value = bool(found) and not found[-1][0].startswith("--")
        if unset and (unset["name"] in "@*" or (has_value and is_reported(unset["name"], script))):
            continue
        if has_value and unset:
            script.skipped.append(Skipped(f"not read: `{word}` is set nowhere", line))
        else:
            found.append((word, line))
    return found


def is_reported(name: str, script: Script) -> bool:
    """Whether a variable is set in a branch alone: in one that is not taken, or in one that is reported."""
    return name in script.untaken or name in script.decided


def _options(words: Value) -> int:
    return sum(word.startswith("--") for word, _ in words)


def _divided(command: Value) -> tuple[Value, Value]:
    """The words of a command up to the program that it launches, and the arguments of that."""
    for index, (word, _) in enumerate(command):
        is_module = word == "-m" and index + 1 < len(command) and not LAUNCHING.match(command[index + 1][0])
        if word.endswith(".py") or is_module:
            return command[: index + 1], command[index + 1 + is_module :]
    first = next((index for index, (word, _) in enumerate(command) if word.startswith("--")), len(command))
    return command[:first], command[first:]


LAUNCHING: Final = re.compile(r"torch\.distributed|accelerate|deepspeed")
"""Modules of Python that launch a program."""


def asked(command: CommandLine, values: Iterable[str], options: Collection[str]) -> tuple[str, str] | None:
    """What a script takes from its caller that decides values, or whether options are set; and what to do about it.

    None where nothing is lacking.
    """
    script, names = command.script, dict[str, None]()
    for value in values:
        lacking = script.lacking(value) or [one["braced"] or one["plain"] for one in UNRESOLVED.finditer(value)]
        names.update(dict.fromkeys(lacking))
    for skipped in command.skipped:
        if not skipped.options.isdisjoint(options):
            names.update(dict.fromkeys(sorted(skipped.deciding)))
    if not names:
        return None
    numbers = {name: number for number, name in script.places.items()}
    order = sorted(names, key=lambda name: int(numbers.get(name, name if name.isdecimal() else "9999")))
    listed = ", ".join(_described(name, numbers.get(name), script.choices.get(name, ())) for name in order)
    example = next((name for name in order if not name.isdecimal()), order[0])
    choice = next(iter(script.choices.get(example, ())), "…")
    hint = f"give each with `--set`, such as `--set {example}={choice}`"
    if any(name in numbers or name.isdecimal() for name in order):
        hint += f", or all arguments of the script with `--set '{ALL}=…'`"
    return f"it takes from its caller: {listed}", hint


def _described(name: str, number: str | None, choices: Iterable[str]) -> str:
    """A variable as a message names it: with its place among the arguments, and the words that it is compared with."""
    more = [f"`${number}`"] if number else []
    if words := list(choices)[:8]:
        more.append(" or ".join(words))
    return (f"`${name}`" if name.isdecimal() else f"`{name}`") + (f" ({': '.join(more)})" if more else "")


def settings(words: Value) -> dict[str, Setting]:
    """Options by name, dashes as underscores; one without a value is true, several values are joined by blanks."""
    found: dict[str, Setting] = {}
    name, line, values = "", 0, list[str]()
    for word, at in [*words, ("--", 0)]:
        if not re.match(r"--[A-Za-z]|--$", word):
            values.append(word)
            continue
        if name:
            found[name] = Setting(" ".join(values) if values else True, line)
        name, equals, value = word.removeprefix("--").partition("=")
        name, line, values = name.replace("-", "_"), at, [value] if equals else []
    return found
