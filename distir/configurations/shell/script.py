"""A shell script, read statement by statement: its variables, and the commands that it amounts to. Nothing is run.

Branches are taken where their conditions are known, loops for one turn (while arguments are left, for as many as it
takes), functions where they are called, commands in strings where `eval` or a shell is given them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

from distir.configurations.options import ConfigurationError
from distir.configurations.shell.conditions import holds, known
from distir.configurations.shell.words import (
    NAME,
    UNRESOLVED,
    TooLongError,
    Value,
    bounded,
    expanded,
    replaced,
    unquoted,
)
from distir.files import limits

PRINTING: Final = ("echo", "printf")
"""Commands that say what is run, and do not run it."""

MOST_STATEMENTS: Final = 20_000
"""Statements that are read, those of functions and loops as often as they run."""

_DECLARES = re.compile(r"(?:export|local|declare|readonly|typeset)\s+(?:-\w+\s+)*")
_ASSIGNED = re.compile(rf"({NAME})(\+?=)")
_TOKEN = re.compile(
    r"""(?P<redirect>(?:(?<=\s)\d+)?(?:&>>?|>>?[&|]?|<<<|<(?![A-Za-z][\w ./:-]*>)&?)\s*)"""
    r"""|(?P<control>\|\|?&?|&&?|[;)]|\((?!\[[\d,]+\][][\d,*+]*\)))"""
    r"""|(?P<word>(?:\(\[[][\d,*+]*\)|\$\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)|\$\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}|`[^`]*`"""
    r"""|"(?:[^"\\]|\\.)*"|'[^']*'|\\.|(?<=\S)\#|[^\s"'\\#;&|()<>`]|`|<[A-Za-z][\w ./:-]*>)+)""",
    re.DOTALL,
)
"""A redirection, what ends a command, or a word with its quotes; `<path>` is a word that is to be replaced.

So is `([0]*3+[1]*57)`, a list of layers as Megatron writes them, which a list of arguments need not quote.
"""
_LIST = re.compile(r"\((?:[^()\"']|\"(?:[^\"\\]|\\.)*\"|'[^']*'|\((?:[^()]|\([^()]*\))*\))*\)", re.DOTALL)
"""The words of an array."""
_HERE = re.compile(r"(?<!<)<<(?P<indented>-?)\s*(?P<quote>['\"]?)(?P<end>\w+)(?P=quote)")
_SHELLS = re.compile(r"(?:.*/)?(?:ba|z|da|k)?sh|sbatch|qsub|bsub")
_PIECE = re.compile(
    r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|\\.|\((?:[^()"']|"[^"]*"|'[^']*'|\((?:[^()]|\([^()]*\))*\))*\)|[^;"'\\])+""",
    re.DOTALL,
)
"""Of a logical line: what semicolons outside of quotes and brackets divide."""
_PATTERN = re.compile(r"\(?(?P<either>[^\s()=;-][^\s()=;]*(?:\s*\|\s*[^\s()=;]+)*|--?[\w-]+(?:\s*\|\s*--?[\w-]+)*)\)")
"""Of a branch of `case`."""
_LOOP = re.compile(rf"for\s+(?P<name>{NAME})\s+in\s+(?P<values>.+)", re.DOTALL)
_FUNCTION = re.compile(r"(?:function\s+(?P<named>[\w:-]+)\s*(?:\(\s*\))?|(?P<plain>[\w:-]+)\s*\(\s*\))\s*(?P<open>\{)?")
_OPTION = re.compile(r"(?<!\S)[\"']?--([A-Za-z][\w-]*)")

Statement = tuple[str, int]
"""A text, and the line in which it begins."""


@dataclass(slots=True)
class _Branch:
    """Of `if`, `case` or a loop, since line `begun`: whether it is taken, None where that is not known.

    `condition`: what the present branch depends on; `start`: where the body of a loop starts that runs while arguments
    are left.
    """

    begun: int
    condition: str
    holds: bool | None
    value: str = ""
    before: bool | None = False
    start: int = -1

    def turn(self, holds: bool | None, condition: str) -> None:
        """Come to the next branch: it is taken if its condition holds and no branch before it was taken."""
        self.before = True if self.holds or self.before else None if None in (self.holds, self.before) else False
        self.holds = False if self.before or holds is False else None if self.before is None else holds
        self.condition += f" {condition}"


@dataclass(frozen=True, slots=True)
class Skipped:
    """What is not read, and why, with its line; `options`: those it names, `deciding`: arguments that decide it."""

    text: str
    line: int
    options: frozenset[str] = frozenset()
    deciding: frozenset[str] = frozenset()


@dataclass(slots=True)
class Script:
    """What was read of a script: its variables, and its commands, each with its words.

    `given`: variables that its caller sets, which the script does not change. `places`: by the number of an argument,
    the variable that takes it. `decided`: by a variable that is set on a condition that is not known, the variables in
    that. `choices`: the words that variables are compared with. `untaken`: variables that other branches set.
    """

    path: str
    given: frozenset[str] = frozenset()
    variables: dict[str, Value] = field(default_factory=dict[str, Value])
    commands: list[Value] = field(default_factory=list[Value])
    skipped: list[Skipped] = field(default_factory=list[Skipped])
    places: dict[str, str] = field(default_factory=dict[str, str])
    decided: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    choices: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    untaken: set[str] = field(default_factory=set[str])
    _functions: dict[str, list[Statement]] = field(default_factory=dict[str, "list[Statement]"])
    _called: set[str] = field(default_factory=set[str])
    _count: int = 0

    def read(self, text: str, first: int = 1, before: Value | None = None, depth: int = 0) -> None:
        """Read statements, of which the first is in line `first`; `before`: the words of what runs them."""
        found = [(statement, line + first - 1) for statement, line in _statements(text, self.path)]
        self._run(found, before or [], depth)

    def read_uncalled(self) -> None:
        """Read the functions that nothing calls: they may be called by name, by what starts processes."""
        for name, body in list(self._functions.items()):
            if name not in self._called and any("--" in statement for statement, _ in body):
                self._run(body, [], 1)

    def _run(self, statements: list[Statement], before: Value, depth: int) -> None:
        branches: list[_Branch] = []
        at = 0
        while at < len(statements):
            statement, line = statements[at]
            at += 1
            self._count += 1
            if self._count > MOST_STATEMENTS:
                raise ConfigurationError(f"{self.path}:{line}: it runs more than {MOST_STATEMENTS:,} statements")
            head, _, rest = statement.partition(" ")
            if (function := _FUNCTION.match(statement)) is not None:
                at = self._define(function, statements, at)
            elif head == "done" and branches:
                at = self._turned(branches, at)
            elif not self._branched(head, rest, statement, line, branches, at):
                if all(branch.holds for branch in branches):
                    self._guarded(statement, line, before, depth)
                elif any(branch.holds is False for branch in branches):
                    self.untaken.update(name[1] for name in _ASSIGNED.finditer(statement))
                else:
                    self._leave_out(statement, line, [branch for branch in branches if branch.holds is None])

    def _guarded(self, statement: str, line: int, before: Value, depth: int) -> None:
        try:
            self._step(statement, line, before, depth)
        except TooLongError as error:
            raise ConfigurationError(f"{self.path}:{line}: {error}", "write out what variables repeat") from None

    def _branched(self, head: str, rest: str, statement: str, line: int, branches: list[_Branch], at: int) -> bool:
        """Whether a statement begins, ends or changes a branch, which is noted."""
        is_read = all(branch.holds for branch in branches)
        if head in ("if", "while", "until"):
            found = self._holds(rest) if is_read else False
            found = found if head != "until" or found is None else not found
            repeats = head == "while" and re.search(r"\$(#|\{?1\b)", rest) is not None
            # Whatever is not known of a loop, it turns once.
            taken = found if head == "if" else found is not False
            branches.append(_Branch(line, rest, taken, start=at if repeats and found else -1))
        elif head == "case":
            value = unquoted(replaced(rest.strip().removesuffix(" in"), self.variables)) if is_read else ""
            branches.append(_Branch(line, rest, False, value=value))
        elif (loop := _LOOP.match(statement)) is not None:
            branches.append(_Branch(line, "", self._loop(loop, line) if is_read else False))
        elif head in ("elif", "else") and branches:
            branches[-1].turn(self._holds(rest) if head == "elif" else True, rest)
        elif head in ("fi", "esac") and branches:
            branches.pop()
        elif branches and branches[-1].value and (pattern := _PATTERN.fullmatch(statement)):
            branches[-1].turn(self._matches(branches[-1].value, pattern["either"]), branches[-1].value)
        else:
            return head in ("do", "done", "}", "{", "then", "fi", "esac")
        return True

    def _turned(self, branches: list[_Branch], at: int) -> int:
        """The place behind a turn of a loop: at its start again while arguments are left."""
        loop = branches[-1]
        if loop.start >= 0 and self._holds(loop.condition):
            return loop.start
        branches.pop()
        return at

    def _holds(self, condition: str) -> bool | None:
        condition = re.sub(r"\s*;?\s*(?:then|do)?\s*$", "", condition)
        for name, word in re.findall(rf"\"?\$\{{?({NAME}|\d+)\}}?\"?\s+={{1,2}}\s+[\"']?([\w.+-]+)", condition):
            self._choose(name, word)
        return holds(condition, self.variables)

    def _choose(self, name: str, word: str) -> None:
        known_words = self.choices.setdefault(self.places.get(name, name), [])
        if word not in known_words:
            known_words.append(word)

    def _matches(self, value: str, either: str) -> bool | None:
        """Whether a value is of a pattern of `case`; None where it is not known."""
        is_known = known(value, self.variables) is not None and "$" not in either
        return any(fnmatchcase(value, unquoted(one.strip())) for one in either.split("|")) if is_known else None

    def _loop(self, loop: re.Match[str], line: int) -> bool:
        """Begin the first turn of a loop; whether there is one."""
        text = re.sub(r"\s*;?\s*do$", "", loop["values"])
        values = [(word, at) for word, at in self._words(text, line) if word not in ("$@", "$*", "")]
        self.variables[loop["name"]] = values[:1]
        if len(values) > 1:
            self.skipped.append(
                Skipped(f"of the loop over `{loop['name']}` the turn of `{values[0][0]}` is read", line)
            )
        return bool(values)

    def _define(self, function: re.Match[str], statements: list[Statement], at: int) -> int:
        """Keep the body of a function; the place behind it."""
        body: list[Statement] = []
        rest = statements[at - 1][0][function.end() :].strip()
        depth = 1 if function["open"] else 0
        queue = ([(rest, statements[at - 1][1])] if rest else []) + statements[at:]
        for index, (statement, line) in enumerate(queue, start=1):
            depth += (statement == "{") - (statement.startswith("}"))
            if depth <= 0:
                at += index - bool(rest)
                break
            body.append((statement, line))
        else:
            at = len(statements)
        self._functions[function["named"] or function["plain"]] = [pair for pair in body if pair[0] != "{"]
        return at

    def _leave_out(self, statement: str, line: int, unknown: list[_Branch]) -> None:
        """Report a statement that depends on what is not known, and remember what decides its variable."""
        declares = _DECLARES.match(statement)
        assigned = _ASSIGNED.match(statement, declares.end() if declares else 0)
        is_command = statement.startswith("--") or (".py" in statement and not statement.startswith(PRINTING))
        if not (assigned or is_command):
            return
        deciding = frozenset(name for branch in unknown for name in self.lacking(branch.condition + branch.value))
        if assigned:
            self.decided.setdefault(assigned[1], set()).update(deciding)
        options = frozenset(name.replace("-", "_") for name in _OPTION.findall(statement))
        text = f"not read: it depends on the condition of line {unknown[0].begun}"
        self.skipped.append(Skipped(text, line, options, deciding))

    def lacking(self, text: str) -> list[str]:
        """The variables in a text that take an argument which is not given, by name, or by number if none does."""
        found: dict[str, None] = {}
        for name in dict.fromkeys(one["braced"] or one["plain"] for one in UNRESOLVED.finditer(text)):
            if name.isdecimal():
                found[self.places.get(name, name)] = None
            elif self.decided.get(name):
                found.update(dict.fromkeys(self.decided[name]))
            else:
                words = " ".join(word for word, _ in self.variables.get(name, ()))
                numbers = [one["braced"] or one["plain"] for one in UNRESOLVED.finditer(words)]
                found.update({self.places.get(n, n): None for n in numbers if n.isdecimal()})
        return list(found)

    def _step(self, statement: str, line: int, before: Value, depth: int) -> None:
        """Assign variables, or run a command, each part of a pipeline by itself."""
        at = self._assigned(statement, line)
        body = _HERE.search(statement)
        end = statement.find("\n", body.end()) if body else -1
        inner = statement[end + 1 :] if end >= 0 else ""
        rest = statement[at : end if end >= 0 else len(statement)]
        for words, offset in _commands(rest):
            here = line + statement.count("\n", 0, at + offset)
            command = bounded(
                found for raw, place in words for found in self._expanded_word(raw, line, statement, at + place)
            )
            if command and command[0][0] in self._functions and depth < limits.NESTED // 4:
                self._call(command[0][0], command[1:], before, depth)
                continue
            if command and command[0][0] == "shift":
                self._shift(command[1:])
                continue
            if body and not body["quote"]:
                inner = replaced(inner, self.variables)
            script = _script_in(command, inner)
            if script is not None and depth < limits.NESTED:
                self.read(script[1], line + statement.count("\n", 0, end + 1) if inner else here,
                          [*before, *script[0]], depth + 1)  # fmt: skip
            elif command and command[0][0] not in PRINTING:
                self.commands.append([*before, *command])

    def _call(self, name: str, arguments: Value, before: Value, depth: int) -> None:
        """Read the body of a function with its arguments."""
        self._called.add(name)
        own = {key: value for key, value in self.variables.items() if key.isdecimal() or key in "#@*"}
        for key in own:
            del self.variables[key]
        self.pass_arguments(arguments)
        self._run(self._functions[name], before, depth + 1)
        for key in [key for key in self.variables if key.isdecimal() or key in "#@*"]:
            del self.variables[key]
        self.variables |= own

    def pass_arguments(self, arguments: Value) -> None:
        """Set the arguments `$1`, `$2`, …, all of them `$@`, and how many they are."""
        self.variables |= {str(number): [word] for number, word in enumerate(arguments, start=1)}
        self.variables |= {"#": [(str(len(arguments)), 0)], "@": list(arguments), "*": list(arguments)}

    def _shift(self, words: Value) -> None:
        by = int(words[0][0]) if words and words[0][0].isdecimal() else 1
        left = self.variables.get("@", [])[by:]
        for key in [key for key in self.variables if key.isdecimal()]:
            del self.variables[key]
        self.pass_arguments(left)

    def _expanded_word(self, raw: str, line: int, statement: str, place: int) -> Iterator[tuple[str, int]]:
        return expanded(raw, line + statement.count("\n", 0, place), self.variables, split=True)

    def _words(self, text: str, line: int) -> Value:
        """The words of a text, variables replaced."""
        pieces = (token for token in _TOKEN.finditer(text) if token["word"])
        return bounded(word for token in pieces for word in self._expanded_word(token[0], line, text, token.start()))

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
        if (place := re.fullmatch(r"\"?\$\{?(\d+)(?::?-[^}]*)?\}?\"?", value)) is not None:
            self.places.setdefault(place[1], name)
        if name in self.given:
            return
        is_array = value.startswith("(")
        plain = expanded(value, line, self.variables, split=False)
        words = self._words(value[1:-1], line) if is_array else bounded(plain)
        before = self.variables.get(name, [])
        if how == "+=" and (is_array or unquoted(value)[:1].isspace()):
            words = bounded(iter([*before, *words]))
        elif how == "+=":
            before = before or [("", line)]
            words = [*before[:-1], (before[-1][0] + (words[0][0] if words else ""), before[-1][1]), *words[1:]]
        if sum(len(word) for word, _ in words) > limits.CHARACTERS:
            raise TooLongError(f"the value of `{name}` has more than {limits.CHARACTERS:,} characters")
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
                return command[:index], " ".join(names[given + 1 :])
            return (command[:index], inner) if inner else None
    return ([], inner) if inner and names[:1] == ["cat"] and "--" in inner and ".py" in inner else None


def _statements(text: str, path: str) -> Iterator[Statement]:
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


def _simple(text: str, line: int) -> Iterator[Statement]:
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
