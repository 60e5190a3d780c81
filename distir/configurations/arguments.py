"""Arguments of a command line, as a shell script or a plain list gives them: each option with its value and its line.

A script is not run. Of the shell's language what launch scripts are made of is read: variables, arrays, arithmetic,
continued lines, comments, here-documents, conditions on variables, a loop's first turn, and commands in strings that
`eval` or `bash -c` take. Whatever else decides which arguments there are is reported.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import islice
from typing import Final

from distir.configurations.launchers import ProcessCounts, directives, launched
from distir.configurations.options import ConfigurationError, Setting
from distir.files import limits

PRINTING: Final = ("echo", "printf")
"""Commands that say what is run, and do not run it."""

_NAME = r"[A-Za-z_]\w*"
_DECLARES = re.compile(r"(?:export|local|declare|readonly|typeset)\s+(?:-\w+\s+)*")
_ASSIGNED = re.compile(rf"({_NAME})(\+?=)")
_EXPANDED = re.compile(
    rf"\$(?:\(\((?P<sum>[^()]*(?:\([^()]*\)[^()]*)*)\)\)|\{{(?P<braced>{_NAME}|\d+)"
    rf"(?P<all>\[[@*]\])?(?::?-(?P<default>[^}}]*))?\}}|(?P<plain>{_NAME}|\d+))"
)
_TOKEN = re.compile(
    r"""(?P<redirect>(?:(?<=\s)\d+)?(?:&>>?|>>?[&|]?|<<<|<&?)\s*)|(?P<control>\|\|?&?|&&?|[;()])"""
    r"""|(?P<word>(?:\$\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)|\$\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}|`[^`]*`"""
    r"""|"(?:[^"\\]|\\.)*"|'[^']*'|\\.|(?<=\S)\#|[^\s"'\\#;&|()<>`]|`)+)""",
    re.DOTALL,
)
"""A redirection, what ends a command, or a word with its quotes."""
_LIST = re.compile(r"\((?:[^()\"']|\"(?:[^\"\\]|\\.)*\"|'[^']*'|\((?:[^()]|\([^()]*\))*\))*\)", re.DOTALL)
"""The words of an array."""
_HERE = re.compile(r"(?<!<)<<(?P<indented>-?)\s*(?P<quote>['\"]?)(?P<end>\w+)(?P=quote)")
_SHELLS = re.compile(r"(?:.*/)?(?:ba|z|da|k)?sh|sbatch|qsub|bsub")
_COMPARED = re.compile(r"\[\[?\s+(?P<left>.+?)\s+(?P<how>=|==|!=|-eq|-ne|-gt|-lt|-ge|-le)\s+(?P<right>.+?)\s+\]?\]")
_PIECE = re.compile(
    r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|\\.|\((?:[^()"']|"[^"]*"|'[^']*'|\((?:[^()]|\([^()]*\))*\))*\)|[^;"'\\])+""",
    re.DOTALL,
)
"""Of a logical line: what semicolons outside of quotes and brackets divide."""
_PATTERN = re.compile(r"\(?(?P<either>[^\s()=;-][^\s()=;]*(?:\s*\|\s*[^\s()=;]+)*)\)")
"""Of a branch of `case`."""
_LOOP = re.compile(rf"for\s+(?P<name>{_NAME})\s+in\s+(?P<values>.+)", re.DOTALL)
_EMPTY = re.compile(r"\[\[?\s+(?P<how>-[nz])\s+(?P<value>.+?)\s+\]?\]")


Value = list[tuple[str, int]]
"""Of a variable or an array: words, each with its line."""


@dataclass(slots=True)
class CommandLine:
    """What a text says: the arguments of a program, how it is launched, and reports of what is not read; with lines.

    `launcher`: the words before the program.
    """

    words: Value = field(default_factory=list[tuple[str, int]])
    launch: ProcessCounts = field(default_factory=ProcessCounts)
    launcher: Value = field(default_factory=list[tuple[str, int]])
    skipped: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])


def arguments(text: str, path: str, given: Mapping[str, str] | None = None) -> CommandLine:
    """The arguments of a text: those of the command with the most options; of all lines if these are a list of options.

    `given`: variables that its caller sets; `1` is its first argument.

    Raises ConfigurationError for quotes or lists that never end.
    """
    script = _Script(path)
    header = directives(text)
    script.variables |= {name: [(str(number), line)] for name, (number, line) in header.variables().items()}
    script.variables |= {name: [(value, 0)] for name, value in (given or {}).items()}
    script.read(text)
    split = [_divided(command) for command in script.commands]
    split.append(([], []))
    launcher, words = max(split, key=lambda pair: _options(pair[1]))
    loose = [command for command in script.commands if command and command[0][0].startswith("--")]
    if not launcher and words and words in loose:
        words = [word for command in loose for word in command]
    else:
        text = "not read: it is of no command; the line before it may lack a `\\`"
        script.skipped += [(text, command[0][1]) for command in loose]
    if not _options(words):
        return CommandLine(skipped=script.skipped)
    words = _given(words, script.skipped)
    return CommandLine(words, launched(launcher, header), launcher[:-1], script.skipped)


_UNSET = re.compile(r"\$\{?(?:\w+(?:\[[@*]\])?|[@*](?::\d+)?)\}?")
"""A word that is a variable of which nothing says the value."""


def _given(words: Value, skipped: list[tuple[str, int]]) -> Value:
    """The words without those of a script's caller; a variable where no value of an option is due is reported."""
    found: Value = []
    for word, line in words:
        has_value = bool(found) and not found[-1][0].startswith("--")
        if re.fullmatch(r"\$\{?[@*](?::\d+)?\}?", word):
            continue
        if has_value and _UNSET.fullmatch(word):
            skipped.append((f"not read: `{word}` is set nowhere", line))
        else:
            found.append((word, line))
    return found


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


class _TooLongError(ValueError):
    """Variables whose values are more than is read; the text says what."""


def _bounded(words: Iterator[tuple[str, int]]) -> Value:
    """Words, of which there may be so many. Raises _TooLongError."""
    found = list(islice(words, limits.WORDS + 1))
    if len(found) > limits.WORDS:
        raise _TooLongError(f"with variables written out there are more than {limits.WORDS:,} words")
    return found


@dataclass(slots=True)
class _Script:
    """What was read of a script: its variables, and its commands, each with its words."""

    path: str
    variables: dict[str, Value] = field(default_factory=dict[str, Value])
    commands: list[Value] = field(default_factory=list[Value])
    skipped: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])

    def read(self, text: str, first: int = 1, before: Value | None = None, depth: int = 0) -> None:
        """Read statements, of which the first is in line `first`; `before`: the words of what runs them."""
        branches: list[_Branch] = []
        for statement, at in _statements(text, self.path):
            line = at + first - 1
            head, _, rest = statement.partition(" ")
            if head in ("if", "case"):
                value = _replaced(rest.strip().removesuffix(" in"), self.variables) if head == "case" else ""
                holds = _holds(rest, self.variables) if head == "if" else False
                branches.append(_Branch(line, _unquoted(value), holds))
            elif head in ("elif", "else") and branches:
                branches[-1].turn(_holds(rest, self.variables) if head == "elif" else True)
            elif head in ("fi", "esac") and branches:
                branches.pop()
            elif branches and branches[-1].value and (pattern := _PATTERN.fullmatch(statement)):
                branches[-1].turn(_matches(branches[-1].value, pattern["either"]))
            elif all(branch.holds for branch in branches) and head not in ("do", "done", "}", "{"):
                try:
                    self._read_one(statement, line, before or [], depth)
                except _TooLongError as error:
                    message = f"{self.path}:{line}: {error}"
                    raise ConfigurationError(message, "write out what variables repeat") from None
            elif all(branch.holds is not False for branch in branches) and (
                "--" in statement or _ASSIGNED.match(statement)
            ):
                unknown = [branch.begun for branch in branches if branch.holds is None]
                self.skipped += [(f"not read: it depends on the condition of line {at}", line) for at in unknown[:1]]

    def _read_one(self, statement: str, line: int, before: Value, depth: int) -> None:
        if (loop := _LOOP.match(statement)) is not None:
            self._turn(loop, line)
        else:
            self._step(statement, line, before, depth)

    def _turn(self, loop: re.Match[str], line: int) -> None:
        """The first turn of a loop."""
        values = self._words(loop["values"], line)
        self.variables[loop["name"]] = values[:1]
        if len(values) > 1:
            self.skipped.append((f"of the loop over `{loop['name']}` the turn of `{values[0][0]}` is read", line))

    def _step(self, statement: str, line: int, before: Value, depth: int) -> None:
        """Assign variables, or run a command, each part of a pipeline by itself."""
        at = self._assigned(statement, line)
        body = _HERE.search(statement)
        end = statement.find("\n", body.end()) if body else -1
        inner = statement[end + 1 :] if end >= 0 else ""
        rest = statement[at : end if end >= 0 else len(statement)]
        for words, offset in _commands(rest):
            here = line + statement.count("\n", 0, at + offset)
            command = _bounded(
                found for raw, place in words for found in self._expanded_word(raw, line, statement, at + place)
            )
            script = _script_in(command, inner)
            if script is not None and depth < limits.NESTED:
                self.read(script[1], line + statement.count("\n", 0, end + 1) if inner else here,
                          [*before, *script[0]], depth + 1)  # fmt: skip
            elif command and command[0][0] not in PRINTING:
                self.commands.append([*before, *command])

    def _expanded_word(self, raw: str, line: int, statement: str, place: int) -> Iterator[tuple[str, int]]:
        return _expanded(raw, line + statement.count("\n", 0, place), self.variables, split=True)

    def _words(self, text: str, line: int) -> Value:
        """The words of a text, variables replaced."""
        pieces = (token for token in _TOKEN.finditer(text) if token["word"])
        return _bounded(word for token in pieces for word in self._expanded_word(token[0], line, text, token.start()))

    def _assigned(self, statement: str, line: int) -> int:
        """Assign what a statement begins with assigning; the place behind that."""
        declares = _DECLARES.match(statement)
        at = declares.end() if declares else 0
        while (assigned := _ASSIGNED.match(statement, at)) is not None:
            begin = assigned.end()
            array = _LIST.match(statement, begin)
            token = None if array else _TOKEN.match(statement, begin)
            value = array[0] if array else token[0] if token and token["word"] else ""
            self._assign(assigned[1], assigned[2], value, line + statement.count("\n", 0, begin))
            at = begin + len(value)
            at += len(statement[at:]) - len(statement[at:].lstrip())
        return at

    def _assign(self, name: str, how: str, value: str, line: int) -> None:
        is_array = value.startswith("(")
        plain = _expanded(value, line, self.variables, split=False)
        words = self._words(value[1:-1], line) if is_array else _bounded(plain)
        known = self.variables.get(name, [])
        if how == "+=" and (is_array or _unquoted(value)[:1].isspace()):
            words = _bounded(iter([*known, *words]))
        elif how == "+=":
            before = known or [("", line)]
            words = [*before[:-1], (before[-1][0] + (words[0][0] if words else ""), before[-1][1]), *words[1:]]
        if sum(len(word) for word, _ in words) > limits.CHARACTERS:
            raise _TooLongError(f"the value of `{name}` has more than {limits.CHARACTERS:,} characters")
        self.variables[name] = words


def _commands(text: str) -> list[tuple[list[tuple[str, int]], int]]:
    """The simple commands of a statement: raw words with their places, and the place of each command."""
    found: list[list[tuple[str, int]]] = [[]]
    target = False
    for token in _TOKEN.finditer(text):
        if token["control"]:
            found.append([])
        elif token["word"] and not target:
            found[-1].append((token[0], token.start()))
        target = bool(token["redirect"])
    return [(words, words[0][1]) for words in found if words]


def _script_in(command: Value, inner: str) -> tuple[Value, str] | None:
    """What runs a script that a command has in a string or below itself, and that script; None if it has none."""
    names = [word for word, _ in command]
    if names[:1] == ["eval"]:
        first = next((index for index, name in enumerate(names) if name != "eval"), len(names))
        return [], " ".join(names[first:])
    for index, word in enumerate(names):
        if _SHELLS.fullmatch(word):
            given = next((i for i in range(index + 1, len(names)) if re.fullmatch(r"-\w*c", names[i])), None)
            if given is not None and given + 1 < len(names):
                return command[:index], names[given + 1]
            return (command[:index], inner) if inner else None
    return ([], inner) if inner and names[:1] == ["cat"] and "--" in inner and ".py" in inner else None


@dataclass(slots=True)
class _Branch:
    """Of `if` or `case`, since line `begun`: whether its present branch is taken, None where that is not known."""

    begun: int
    value: str
    holds: bool | None
    before: bool | None = False

    def turn(self, holds: bool | None) -> None:
        """Come to the next branch: it is taken if its condition holds and no branch before it was taken."""
        self.before = True if self.holds or self.before else None if None in (self.holds, self.before) else False
        self.holds = False if self.before or holds is False else None if self.before is None else holds


def _matches(value: str, either: str) -> bool | None:
    """Whether a value is of a pattern of `case`; None where it is not known."""
    if "$" in value or "$" in either:
        return None
    return any(fnmatchcase(value, _unquoted(pattern.strip())) for pattern in either.split("|"))


def _statements(text: str, path: str) -> Iterator[tuple[str, int]]:
    """Logical lines, each with the number of its first: continued ones are one, as is a list over several lines."""
    pending, start, depth, until = "", 0, 0, None
    for number, raw in enumerate(text.splitlines(), start=1):
        if until is not None:  # of a here-document
            pending += f"\n{raw}"
            if (raw.strip() if until[0] else raw) == until[1]:
                yield pending.rpartition("\n")[0], start
                pending, until = "", None
            continue
        line = _without_comment(raw) if not _open_quote(pending) else raw
        start = start if pending else number
        pending += ("\n" if pending else "") + line
        if _open_quote(pending):
            continue
        if pending.rstrip().endswith("\\"):
            pending = pending.rstrip()[:-1]
            continue
        if (here := _HERE.search(pending)) is not None:
            until = here["indented"], here["end"]
            continue
        bare = re.sub(r"\\.|\"(?:[^\"\\]|\\.)*\"|'[^']*'", "", pending, flags=re.DOTALL)
        depth = bare.count("(") - bare.count(")")
        if depth > 0 and re.search(r"=\s*\(", bare):
            continue
        yield from _simple(pending, start)
        pending = ""
    if until is None and (_open_quote(pending) or (depth > 0 and pending)):
        raise ConfigurationError(f"{path}:{start}: what begins here never ends", "close its quotes and brackets")
    yield from _simple(pending, start)


def _simple(text: str, line: int) -> Iterator[tuple[str, int]]:
    """The statements of a logical line, at whose first they begin: a condition, a pattern of `case`, a command."""
    for piece in _PIECE.finditer(text):
        at = line + text.count("\n", 0, piece.start() + len(piece[0]) - len(piece[0].lstrip()))
        statement = re.sub(r"^(then|do)\b", "", piece[0].strip()).strip()
        if (branch := re.match(r"else\s+(?=\S)", statement)) is not None:
            yield "else", at
            statement = statement[branch.end() :]
        elif (pattern := _PATTERN.match(statement)) is not None and pattern.end() < len(statement):
            yield pattern[0], at
            statement = statement[pattern.end() :].strip()
        if statement:
            yield statement, at


def _without_comment(line: str) -> str:
    quote = ""
    for index, char in enumerate(line):
        if quote:
            quote = "" if char == quote and line[index - 1] != "\\" else quote
        elif char in "\"'":
            quote = char
        elif char == "#" and (index == 0 or line[index - 1].isspace()):
            return line[:index]
    return line


def _open_quote(text: str) -> bool:
    if '"' not in text and "'" not in text:  # of most lines: one that is continued over many is asked about as often
        return False
    bare = re.sub(r"\\.", "", text, flags=re.DOTALL)
    bare = re.sub(r"\"[^\"]*\"|'[^']*'", "", bare)
    return '"' in bare or "'" in bare


def _expanded(word: str, line: int, variables: Mapping[str, Value], *, split: bool) -> Iterator[tuple[str, int]]:
    """The words that a raw word is, variables replaced. Words of a quoted option and its value are two."""
    whole = re.fullmatch(rf"\"?\$\{{?({_NAME})(?:\[[@*]\])?\}}?\"?", word)
    if whole and whole[1] in variables:
        quoted = word.startswith('"') and "[" not in word
        for value, at in variables[whole[1]]:
            yield from ((part, at) for part in (value.split() if value.startswith("-") or not quoted else [value]))
        return
    plain = _unquoted(_replaced(word, variables))
    if split and word[:1] == '"' and plain.startswith("-") and " " in plain:
        yield from ((part, line) for part in plain.split())
    elif not split and word[:1] in "\"'":
        offset = 0
        for part in plain.split():
            offset = word.find(part, offset)
            yield part, line + word.count("\n", 0, max(offset, 0))
    else:
        yield plain, line


def _replaced(word: str, variables: Mapping[str, Value], depth: int = 0) -> str:
    if depth > limits.NESTED or word.startswith("'"):
        return word
    length = 0

    def one(found: re.Match[str]) -> str:
        nonlocal length
        value = instead(found)
        length += len(value)
        if length > limits.CHARACTERS:
            raise _TooLongError(f"with variables written out a word has more than {limits.CHARACTERS:,} characters")
        return value

    def instead(found: re.Match[str]) -> str:
        if found["sum"] is not None:
            return _sum(found["sum"], variables)
        name = found["braced"] or found["plain"]
        if name in variables:
            return " ".join(value for value, _ in variables[name])
        default = found["default"]
        return found[0] if default is None else _unquoted(_replaced(default, variables, depth + 1))

    return _EXPANDED.sub(one, word)


def _sum(text: str, variables: Mapping[str, Value]) -> str:
    """Arithmetic of whole numbers and variables."""
    found = re.sub(rf"\$?\{{?({_NAME})\}}?", lambda m: " ".join(v for v, _ in variables.get(m[1], [(m[0], 0)])), text)
    if not re.fullmatch(r"[\d\s+*/%()-]{1,80}", found):
        return f"$(({text}))"
    try:
        return str(_result(ast.parse(found.strip(), mode="eval").body))
    except (SyntaxError, ArithmeticError, ValueError):
        return f"$(({text}))"


def _result(node: ast.AST) -> int:
    """The number that an expression is, by the rules of shells: quotients are rounded towards 0. Raises ValueError."""
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_result(operand)
        case ast.BinOp(left=left, op=operation, right=right):
            a, b = _result(left), _result(right)
            match operation:
                case ast.Add():
                    return a + b
                case ast.Sub():
                    return a - b
                case ast.Mult():
                    return a * b
                case ast.Div():
                    return _quotient(a, b)
                case ast.Mod():
                    return a - b * _quotient(a, b)
                case _:
                    raise ValueError("expected sums, products and quotients")
        case _:
            raise ValueError("expected sums, products and quotients")


def _quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_QUOTED = re.compile(r"\"(?P<double>(?:[^\"\\]|\\.)*)\"|'(?P<single>[^']*)'|\\(?P<escaped>.)|[\"']", re.DOTALL)


def _unquoted(word: str) -> str:
    """A word without its quotes: those within others are letters."""

    def plain(found: re.Match[str]) -> str:
        if found["double"] is not None:
            return re.sub(r"\\(.)", r"\1", found["double"], flags=re.DOTALL)
        return found["single"] or found["escaped"] or ""

    return _QUOTED.sub(plain, word)


def _holds(condition: str, variables: Mapping[str, Value]) -> bool | None:
    """Whether a condition holds; None for one that is not read."""
    condition = condition.rstrip(";").strip()
    if "||" in condition or "&&" in condition:
        mark = "||" if "||" in condition else "&&"
        parts = [_holds(part.strip(), variables) for part in condition.split(mark)]
        if None in parts or ("||" in condition and "&&" in condition):
            return None
        return any(parts) if mark == "||" else all(parts)
    if empty := _EMPTY.fullmatch(condition):
        value = _unquoted(_replaced(empty["value"], variables))
        if set_or_not := re.fullmatch(rf"\$\{{({_NAME}):?\+\w*\}}", value):
            return (set_or_not[1] in variables) == (empty["how"] == "-n")
        if "$" in value:
            return empty["how"] == "-z" if re.fullmatch(r"\$\{?\w+\}?", value) else None
        return bool(value) == (empty["how"] == "-n")
    compared = _COMPARED.fullmatch(condition)
    if not compared:
        return None
    left, right = (_unquoted(_replaced(compared[side], variables)) for side in ("left", "right"))
    if "$" in left or "$" in right:
        return None
    how = compared["how"]
    if how in ("=", "==", "!="):
        return (left == right) == (how != "!=")
    try:
        one, other = int(left), int(right)
    except ValueError:
        return None
    return {"-eq": one == other, "-ne": one != other, "-gt": one > other, "-lt": one < other}.get(
        how, one >= other if how == "-ge" else one <= other
    )


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
