"""Options of a configuration: what a file sets, and in which line; what was read of it, and what of it was not.

Whatever a file sets is one of: read by the codec of its framework, without effect on a step (paths, logging), or not
simulated, which is reported with its line. So is an option that this version of the framework does not have; where one
that it has is spelt alike, all such options are refused together. Nothing is dropped in silence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import translate
from functools import lru_cache
from itertools import islice
from typing import Any, Final, TypeVar, cast

from distir.diagnostics.spelling import LISTED, nearest
from distir.ir import dims
from distir.ir.errors import DistirError

T = TypeVar("T")

_WORD = re.compile(r"[A-Za-z0-9]+")

IDLE_WORDS = frozenset((
    *("log", "logs", "logger", "logging", "wandb", "tensorboard", "comet", "mlflow", "swanlab", "metrics", "print"),
    *("verbose", "profiler", "profiling", "save", "saves", "ckpt", "dataset", "datasets", "dataloader", "tokenizer"),
    *("vocab", "lr", "learning", "scheduler", "warmup", "decay", "seed", "eval", "evaluation", "validation", "test"),
    *("path", "paths", "dir", "folder", "project", "entity", "experiment", "comment", "timeout", "port", "addr"),
    *("workers", "kill", "abort", "hostfile", "betas", "momentum", "nesterov", "coeff"),
))  # fmt: skip
"""Words of options that change nothing of what a step computes, sends or holds, whatever the framework."""


LONGEST = 60
"""How many characters of a value messages quote."""


class ConfigurationError(DistirError, ValueError):
    """A configuration that is not read or written: what is wrong, with file and line; `help`: what to do."""

    def __init__(self, message: str, help: str | None = None) -> None:
        super().__init__(message)
        self.message, self.help = message, help


@dataclass(frozen=True, slots=True)
class Setting:
    """A value that a file sets, and the line that sets it, from 1; 0 where the file does not."""

    value: Any
    line: int


@dataclass(frozen=True, slots=True)
class Remark:
    """What a configuration says that is not simulated, or what was assumed of one that does not say."""

    text: str
    line: int = 0

    def shown(self, path: str) -> str:
        """On one line, with its place."""
        return f"{path}:{self.line}: {self.text}" if self.line else self.text


@dataclass(frozen=True, slots=True)
class Known:
    """The options that a version of a framework has, with their defaults, and where that list is from.

    `idle`: patterns of options that change nothing of what a training step computes, sends or holds. `open`: patterns
    of such options whose names are not listed: those of libraries, of loggers, of an optimizer. `sections`: tables
    whose options are not listed, and not simulated, perhaps with what is instead. `simulated`: the values that are
    simulated where they are not the defaults. `other_names`: of options that other formats call so.
    """

    framework: str
    source: str
    defaults: Mapping[str, Any]
    idle: Sequence[str] = ()
    open: Sequence[str] = ()
    sections: Mapping[str, str] = field(default_factory=dict[str, str])
    simulated: Mapping[str, Any] = field(default_factory=dict[str, Any])
    other_names: frozenset[str] = frozenset()

    def has(self, name: str) -> bool:
        """Whether there is an option of that name, or may be."""
        return name in self.defaults or _matches(tuple(self.open), name) or self.section(name) is not None

    def section(self, name: str) -> str | None:
        """The table that is not simulated of which an option is."""
        return next((section for section in self.sections if f"{name}.".startswith(f"{section}.")), None)

    def is_idle(self, name: str) -> bool:
        """Whether an option changes nothing that is simulated."""
        return _matches((*self.idle, *self.open), name)

    def meant(self, names: Iterable[str]) -> dict[str, str]:
        """The options that names, which are none, misspell, by name."""
        words = {word for known in self.defaults for word in _WORD.findall(known)}
        return {name: near for name in names if (near := self._meant(name, words))}

    def _meant(self, name: str, words: Collection[str]) -> str | None:
        """What a name misspells: with its words mended, it is an option, or half of one or more."""
        if name in self.other_names:
            return nearest(name, self.defaults)
        mended = _WORD.sub(lambda word: word[0] if word[0] in words else nearest(word[0], words) or word[0], name)
        most = 2 * len(_WORD.findall(mended))
        begun = (
            known
            for known in self.defaults
            if known == mended or (known.startswith(f"{mended}_") and len(_WORD.findall(known)) <= most)
        )
        return next(begun, None) if mended != name else None


def _matches(patterns: tuple[str, ...], name: str) -> bool:
    """Whether a name is as one of the patterns says."""
    return _expression(patterns).match(name) is not None


@lru_cache(maxsize=64)
def _expression(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, patterns)) or r"(?!)")


MOST_UNKNOWN: Final = 200
"""With as many options that a framework does not have, a file is none of it."""


class Options:
    """The settings of a file, read by name. What was read is remembered, so that `rest` can say what was not."""

    def __init__(self, path: str, settings: Mapping[str, Setting], known: Known) -> None:
        """Raises ConfigurationError for options that are misspelt, or where none is one of the framework."""
        self.path, self.settings, self.known = path, settings, known
        self.notes: list[Remark] = []
        self._read: set[str] = set()
        unknown = list(islice((name for name in settings if not known.has(name)), MOST_UNKNOWN))
        meant = known.meant(name for name in unknown if name not in known.idle)
        if meant or len(unknown) == MOST_UNKNOWN or (unknown and len(unknown) == len(settings)):
            raise self._none_of(unknown, meant)
        tables = {name.partition(".")[0] for name in known.defaults if "." in name}
        said = set[str]()
        for name in unknown:
            table = name.partition(".")[0]
            what = name if table in tables or table == name else table
            if what not in said and not (known.is_idle(name) or _has_idle_words(name)):
                kind = "option" if what == name else "table"
                self.note(f"`{what}` is not simulated: {known.framework} has no such {kind} here", name)
                said.add(what)

    def __contains__(self, name: str) -> bool:
        return name in self.settings and self.settings[name].value is not None

    def line(self, name: str) -> int:
        """The line that sets an option; 0 if none does."""
        return self.settings[name].line if name in self.settings else 0

    def wrong(self, line: int, message: str, help: str | None = None) -> ConfigurationError:
        """The error of a line."""
        return ConfigurationError(f"{self.path}:{line}: {message}" if line else f"{self.path}: {message}", help)

    def _none_of(self, unknown: Sequence[str], meant: Mapping[str, str]) -> ConfigurationError:
        """The error of all options that are not known; `meant`: what some of them likely are."""
        first, *others = unknown
        shown = [f"`{name}` (line {self.line(name)})" if self.line(name) else f"`{name}`" for name in others]
        more = ", ".join(shown if len(unknown) < MOST_UNKNOWN else [*shown[:LISTED], "others"])
        message = f"{self.known.framework} has no option `{first}`" + (f", nor {more}" if more else "")
        each = [f"`{near}`" if len(unknown) == 1 else f"`{near}` for `{name}`" for name, near in meant.items()]
        hint = f"did you mean {', '.join(each)}?" if each else f"options are those of {self.known.source}"
        return self.wrong(self.line(first), message, hint)

    def note(self, text: str, name: str = "") -> None:
        """Report what is not simulated, or assumed, where an option is set."""
        self.notes.append(Remark(text, self.line(name)))

    def get(self, name: str) -> Any:
        """The value of an option, or its default; strings as they are. It counts as read."""
        self._read.add(name)
        return self.settings[name].value if name in self.settings else self.known.defaults.get(name)

    def whole(self, name: str, least: int = 1) -> int:
        """A whole number. Raises ConfigurationError."""
        found = self.optional(name, least)
        if found is None:
            raise self.wrong(self.line(name), f"`{name}` is not set", "set it to a whole number")
        return found

    def optional(self, name: str, least: int = 1) -> int | None:
        """A whole number, or None where there is none. Raises ConfigurationError."""
        return self._as(name, lambda value: _whole(value, least), f"a whole number from {least} to {dims.LARGEST}")

    def supplied(self, name: str, given: int | None, flag: str) -> int | None:
        """A whole number that the file says, or what is given beside it. Raises ConfigurationError if these differ."""
        found = self.optional(name)
        if name in self and given and found != given:
            raise self.wrong(self.line(name), f"`{name}` is {found}, and `{flag}` says {given}")
        return given or found

    def number(self, name: str) -> float | None:
        """A number, or None. Raises ConfigurationError."""
        return self._as(name, float, "a number")

    def flag(self, name: str) -> bool:
        """Whether an option is on. Raises ConfigurationError."""
        value = self.get(name)
        if isinstance(value, str) and value.startswith("$"):  # arguments behind it, of which nothing is known
            self.note(f"`{value}` is set nowhere; what it may say is not read", name)
            return True
        return bool(self._as(name, _flag, "true or false"))

    def is_off(self, name: str) -> bool:
        """Whether an option, or its default, turns something off. Raises ConfigurationError."""
        return self.get(name) is not None and not self.flag(name)

    def stays_on_device(self, *names: str) -> None:
        """Refuse options that move weights or parts of layers to the host. Raises ConfigurationError."""
        for name in names:
            if self.get(name) not in (None, False, "none", "False", "false", "0"):
                message = f"`{name}`: a configuration's offload of weights, or of parts of layers, is not read"
                hint = "leave it out to see how much does not fit, or apply the step `offload` to the program"
                raise self.wrong(self.line(name), message, hint)

    def word(self, name: str, words: Iterable[str]) -> str | None:
        """One of several words, in whatever case, or None. Raises ConfigurationError."""
        words, found = tuple(words), self.get(name)
        if found is None or found in words:
            return found
        if (same := {word.lower(): word for word in words}.get(str(found).lower())) is not None:
            return same
        near = nearest(str(found), words)
        hint = f"did you mean `{near}`?" if near else f"expected one of {', '.join(words)}"
        raise self.wrong(self.line(name), f"`{name}` is `{found}`", hint)

    def _as(self, name: str, read: Callable[[Any], T], what: str) -> T | None:
        value = self.get(name)
        if value is None:
            return None
        try:
            return read(value)
        except (ValueError, TypeError, KeyError, OverflowError):
            unset = isinstance(value, str) and "$" in value
            hint = "set that variable with `--set NAME=VALUE`; `--set 1=VALUE` is a script's `$1`" if unset else None
            shown = value if len(f"{value}") <= LONGEST else f"{value}"[:LONGEST] + "…"
            raise self.wrong(self.line(name), f"`{name}` expected {what}, found `{shown}`", hint) from None

    def rest(self) -> list[Remark]:
        """All notes, with those of options that have another value than their default and were not read."""
        said = set[str]()
        for name, setting in self.settings.items():
            what = self.known.section(name) or name
            if name in self._read or what in said or not self.known.has(name) or self._is_off(name):
                continue
            if not self.known.is_idle(name) and not _same(setting.value, self._simulated(name)):
                instead = self.known.sections.get(what)
                text = f"`{what}` is not simulated" + (f": {instead}" if instead else "")
                self.notes.append(Remark(text, setting.line))
                said.add(what)
        return sorted(self.notes, key=lambda note: note.line)

    def _is_off(self, name: str) -> bool:
        """Whether an option is in a table that the file turns off."""
        tables = (name[:index] for index, char in enumerate(name) if char == ".")
        switches = (self.settings.get(f"{table}.{word}") for table in tables for word in ("enabled", "enable"))
        return any(switch is not None and _same(switch.value, False) for switch in switches)

    def _simulated(self, name: str) -> Any:
        """The value of an option that is simulated where it is not read."""
        return self.known.simulated.get(name, self.known.defaults.get(name))


def _has_idle_words(name: str) -> bool:
    """Whether the words of an option say that it changes nothing of a step."""
    words = set(name.lower().replace("-", "_").replace(".", "_").split("_"))
    return bool(words & IDLE_WORDS) and not words & {"activation", "activations", "parallel", "recompute", "offload"}


def renamed(names: Mapping[str, str], name: str) -> str:
    """What an option is called since: by its name, or, of a table or a beginning, by how it begins."""
    if name in names:
        return names[name]
    begun = next((old for old in names if old.endswith((".", "_")) and name.startswith(old)), None)
    return name if begun is None else names[begun] + name.removeprefix(begun)


def as_list(value: Any) -> list[Any] | None:
    """A list, or None where it is none."""
    return cast("list[Any]", value) if isinstance(value, list) else None


def as_table(value: Any) -> dict[str, Any] | None:
    """A table, or None where it is none."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _whole(value: Any, least: int) -> int:
    found = int(value) if isinstance(value, str) else value
    if isinstance(found, float) and found.is_integer():
        found = int(found)
    if isinstance(found, bool) or not isinstance(found, int) or not least <= found <= dims.LARGEST:
        raise ValueError
    return found


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False, "1": True, "0": False}[str(value).lower()]


def _same(one: Any, other: Any) -> bool:
    """Whether a value is the default, as text or as what it means."""
    return one == other or (other is not None and str(one).lower() == str(other).lower())
