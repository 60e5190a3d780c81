"""Options of a configuration: what a file sets, and in which line; what was read of it, and what of it was not.

Whatever a file sets is one of: read by the codec of its framework, without effect on a step (paths, logging), or not
simulated, which is reported with its line. An option that the framework does not have is refused. Nothing is dropped
in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, TypeVar, cast

from distir.diagnostics.spelling import nearest
from distir.ir import dims

T = TypeVar("T")


class ConfigurationError(ValueError):
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
    of such options whose names are not listed: those of libraries, of loggers, of an optimizer.
    """

    framework: str
    source: str
    defaults: Mapping[str, Any]
    idle: Sequence[str] = ()
    open: Sequence[str] = ()

    def has(self, name: str) -> bool:
        """Whether there is an option of that name, or may be."""
        return name in self.defaults or any(fnmatchcase(name, pattern) for pattern in self.open)

    def is_idle(self, name: str) -> bool:
        """Whether an option changes nothing that is simulated."""
        return any(fnmatchcase(name, pattern) for pattern in (*self.idle, *self.open))


class Options:
    """The settings of a file, read by name. What was read is remembered, so that `rest` can say what was not."""

    def __init__(self, path: str, settings: Mapping[str, Setting], known: Known) -> None:
        """Raises ConfigurationError for an option that the framework does not have."""
        self.path, self.settings, self.known = path, settings, known
        self.notes: list[Remark] = []
        self._read: set[str] = set()
        for name, setting in settings.items():
            if not known.has(name):
                near = nearest(name, known.defaults) or nearest(_last(name), {_last(n): n for n in known.defaults})
                full = next((n for n in known.defaults if near in (n, _last(n))), None)
                hint = f"did you mean `{full}`?" if full else f"options are those of {known.source}"
                raise self.wrong(setting.line, f"{known.framework} has no option `{name}`", hint)

    def __contains__(self, name: str) -> bool:
        return name in self.settings and self.settings[name].value is not None

    def line(self, name: str) -> int:
        """The line that sets an option; 0 if none does."""
        return self.settings[name].line if name in self.settings else 0

    def wrong(self, line: int, message: str, help: str | None = None) -> ConfigurationError:
        """The error of a line."""
        return ConfigurationError(f"{self.path}:{line}: {message}" if line else f"{self.path}: {message}", help)

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

    def number(self, name: str) -> float | None:
        """A number, or None. Raises ConfigurationError."""
        return self._as(name, float, "a number")

    def flag(self, name: str) -> bool:
        """Whether an option is on. Raises ConfigurationError."""
        return bool(self._as(name, _flag, "true or false"))

    def stays_on_device(self, *names: str) -> None:
        """Refuse options that move state or activations to the host. Raises ConfigurationError."""
        for name in names:
            if self.get(name) not in (None, False, "none", "False", "false", "0"):
                message = f"`{name}`: a configuration's offload of weights, of state, or of parts of layers is not read"
                hint = "leave it out to see how much does not fit, or apply the step `offload` to the program"
                raise self.wrong(self.line(name), message, hint)

    def word(self, name: str, words: Iterable[str]) -> str | None:
        """One of several words, or None. Raises ConfigurationError."""
        words, found = tuple(words), self.get(name)
        if found is None or found in words:
            return found
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
            raise self.wrong(self.line(name), f"`{name}` expected {what}, found `{value}`") from None

    def rest(self) -> list[Remark]:
        """All notes, with those of options that have another value than their default and were not read."""
        for name, setting in self.settings.items():
            if name in self._read or self.known.is_idle(name):
                continue
            if not _same(setting.value, self.known.defaults.get(name)):
                self.notes.append(Remark(f"`{name}` is not simulated", setting.line))
        return sorted(self.notes, key=lambda note: note.line)


def as_list(value: Any) -> list[Any] | None:
    """A list, or None where it is none."""
    return cast("list[Any]", value) if isinstance(value, list) else None


def as_table(value: Any) -> dict[str, Any] | None:
    """A table, or None where it is none."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _last(name: str) -> str:
    return name.rpartition(".")[2]


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
