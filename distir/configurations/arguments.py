"""Arguments of a command line, as a shell script or a plain list gives them: each option with its value and its line.

A script is not run. Of the shell's language what launch scripts are made of is read: variables, arrays, arithmetic,
continued lines, comments, and conditions on variables. Whatever else decides which arguments there are is reported.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import islice

from distir.configurations.options import ConfigurationError, Setting
from distir.files import limits

_NAME = r"[A-Za-z_]\w*"
_ASSIGNED = re.compile(rf"(?:(?:export|local|declare|readonly)\s+(?:-\w+\s+)*)?({_NAME})(\+?=)(.*)\Z", re.DOTALL)
_EXPANDED = re.compile(
    rf"\$(?:\(\((?P<sum>[^()]*(?:\([^()]*\)[^()]*)*)\)\)|\{{(?P<braced>{_NAME}|\d+)"
    rf"(?P<all>\[[@*]\])?(?::?-(?P<default>[^}}]*))?\}}|(?P<plain>{_NAME}|\d+))"
)
_WORD = re.compile(
    r"""(?:\$\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)|`[^`]*`|"(?:[^"\\]|\\.)*"|'[^']*'|\\."""
    r"""|(?<=\S)\#|[^\s"'\\#;&|()])+""",
    re.DOTALL,
)
_COMPARED = re.compile(r"\[\[?\s+(?P<left>.+?)\s+(?P<how>=|==|!=|-eq|-ne|-gt|-lt|-ge|-le)\s+(?P<right>.+?)\s+\]?\]")
_PIECE = re.compile(
    r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|\\.|\((?:[^()"']|"[^"]*"|'[^']*'|\((?:[^()]|\([^()]*\))*\))*\)|[^;"'\\])+""",
    re.DOTALL,
)
"""Of a logical line: what semicolons outside of quotes and brackets divide."""
_PATTERN = re.compile(r"\(?(?P<either>[^\s()=;-][^\s()=;]*(?:\s*\|\s*[^\s()=;]+)*)\)")
"""Of a branch of `case`."""
_EMPTY = re.compile(r"\[\[?\s+(?P<how>-[nz])\s+(?P<value>.+?)\s+\]?\]")


@dataclass(slots=True)
class CommandLine:
    """What a text says: words with their lines, and reports of what was not read."""

    words: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    skipped: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])


Value = list[tuple[str, int]]
"""Of a variable or an array: words, each with its line."""


def arguments(text: str, path: str) -> CommandLine:
    """The arguments of a text: those of the command with the most options, or of all lines if none is a command.

    Raises ConfigurationError for quotes or lists that never end.
    """
    found, variables, commands = CommandLine(), dict[str, Value](), list[Value]()
    branches: list[_Branch] = []
    for statement, line in _statements(text, path):
        head, _, rest = statement.partition(" ")
        if head in ("if", "case"):
            value = _replaced(rest.strip().removesuffix(" in"), variables) if head == "case" else ""
            branches.append(_Branch(line, _unquoted(value), _holds(rest, variables) if head == "if" else False))
        elif head in ("elif", "else") and branches:
            branches[-1].turn(_holds(rest, variables) if head == "elif" else True)
        elif head in ("fi", "esac") and branches:
            branches.pop()
        elif branches and branches[-1].value and (pattern := _PATTERN.fullmatch(statement)):
            branches[-1].turn(_matches(branches[-1].value, pattern["either"]))
        elif all(branch.holds for branch in branches) and head not in ("do", "done", "}", "{"):
            try:
                _step(statement, line, variables, commands)
            except _TooLongError as error:
                raise ConfigurationError(f"{path}:{line}: {error}", "write out what variables repeat") from None
        elif all(branch.holds is not False for branch in branches) and (
            "--" in statement or _ASSIGNED.match(statement)
        ):
            unknown = next(branch for branch in branches if branch.holds is None)
            found.skipped.append((f"not read: it depends on the condition of line {unknown.begun}", line))
    with_options = [command for command in commands if any(word.startswith("--") for word, _ in command)]
    found.words = max(
        with_options, key=lambda words: sum(word.startswith("--") for word, _ in words), default=list[tuple[str, int]]()
    )
    return found


class _TooLongError(ValueError):
    """Variables that stand for more than is read; the text says what."""


def _bounded(words: Iterator[tuple[str, int]]) -> Value:
    """Words, of which there may be so many. Raises _TooLongError."""
    found = list(islice(words, limits.WORDS + 1))
    if len(found) > limits.WORDS:
        raise _TooLongError(f"with variables written out there are more than {limits.WORDS:,} words")
    return found


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


def _step(statement: str, line: int, variables: dict[str, Value], commands: list[Value]) -> None:
    assigned = _ASSIGNED.match(statement)
    if assigned:
        name, how, value = assigned[1], assigned[2], assigned[3].strip()
        inner = value[1:-1] if value.startswith("(") and value.endswith(")") else value
        shift = line + statement[: assigned.start(3)].count("\n")
        words = _bounded(_expanded(inner, shift, variables, split=value.startswith("(")))
        if (how == "+=" and value.startswith("(")) or (how == "+=" and _unquoted(value)[:1].isspace()):
            words = _bounded(iter([*variables.get(name, []), *words]))
        elif how == "+=":
            before = variables.get(name, [("", line)])
            words = [*before[:-1], (before[-1][0] + (words[0][0] if words else ""), before[-1][1]), *words[1:]]
        variables[name] = words
        return
    commands.append(_bounded(_expanded(statement, line, variables, split=True)))


def _statements(text: str, path: str) -> Iterator[tuple[str, int]]:
    """Logical lines, each with the number of its first: continued ones are one, as is a list over several lines."""
    pending, start, depth = "", 0, 0
    for number, raw in enumerate(text.splitlines(), start=1):
        line = _without_comment(raw) if not _open_quote(pending) else raw
        start = start if pending else number
        pending += ("\n" if pending else "") + line
        if _open_quote(pending):
            continue
        if pending.rstrip().endswith("\\"):
            pending = pending.rstrip()[:-1]
            continue
        bare = re.sub(r"\\.|\"(?:[^\"\\]|\\.)*\"|'[^']*'", "", pending, flags=re.DOTALL)
        depth = bare.count("(") - bare.count(")")
        if depth > 0 and re.search(r"=\s*\(", bare):
            continue
        yield from _simple(pending, start)
        pending = ""
    if _open_quote(pending) or (depth > 0 and pending):
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


def _expanded(text: str, line: int, variables: Mapping[str, Value], *, split: bool) -> Iterator[tuple[str, int]]:
    """The words of a text, variables replaced. Words of a quoted option and its value are two."""
    for found in _WORD.finditer(text):
        at = line + text.count("\n", 0, found.start())
        word = found[0]
        whole = re.fullmatch(rf"\"?\$\{{?({_NAME})(?:\[[@*]\])?\}}?\"?", word)
        if whole and whole[1] in variables:
            yield from ((part, where) for value, where in variables[whole[1]] for part in _parted(value))
            continue
        plain = _unquoted(_replaced(word, variables))
        if split and word[:1] == '"' and plain.startswith("-") and " " in plain:
            yield from ((part, at) for part in plain.split())
        elif not split and word[:1] in "\"'":
            offset = 0
            for part in plain.split():
                offset = word.find(part, offset)
                yield part, at + word.count("\n", 0, max(offset, 0))
        else:
            yield plain, at


def _parted(value: str) -> list[str]:
    return value.split() if value.startswith("-") else [value]


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


def _unquoted(word: str) -> str:
    return re.sub(r"\\(.)|[\"']", lambda m: m[1] or "", word, flags=re.DOTALL)


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
        if word.endswith(".py"):  # the program: what follows are its options
            word = "--"
        elif not re.match(r"--[A-Za-z]|--$", word):
            values.append(word)
            continue
        if name:
            found[name] = Setting(" ".join(values) if values else True, line)
        name, equals, value = word.removeprefix("--").partition("=")
        name, line, values = name.replace("-", "_"), at, [value] if equals else []
    return found
