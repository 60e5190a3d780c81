"""From the text of a settings file to `Config`: all mistakes are reported, each with its position."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from distir.config.settings import DEFAULT_HARDWARE, Budget, Config, ConfigError, Hints, display
from distir.diagnostics import Code, Diagnostic, Report, Source, Span, nearest
from distir.diagnostics.codes.settings import SETTING_VALUE, SETTINGS_SYNTAX, UNKNOWN_SETTING, UNREADABLE_SETTINGS
from distir.files import limits
from distir.files.reading import SETTINGS, advice, read_bytes, why_not
from distir.files.toml import Key, Toml, TomlError, TomlPlace, parse

Table = Mapping[str, object]

TOP_LEVEL = ("hardware", "nodes", "entry", "sequential", "bind", "budget", "hints")
_QUANTITY = re.compile(r"(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*[A-Za-zµμ]+")
_SIZES = 2**63


@dataclass(frozen=True, slots=True)
class _Mistake:
    """Something wrong with a setting: with its name, or with its value."""

    code: Code
    key: Key
    message: str
    help: str | None = None


def read(path: Path) -> Config:
    """The settings in a file. Raises ConfigError."""
    source = _source(path)
    mistakes: list[_Mistake] = []
    parsed = _parsed(source)
    config = _config(parsed.table, path, mistakes)
    if mistakes:
        raise ConfigError(_located(source, parsed.places, mistakes))
    return config


def _located(source: Source, places: Mapping[Key, TomlPlace], mistakes: Iterable[_Mistake]) -> Report:
    diagnostics: list[Diagnostic] = []
    for mistake in mistakes:
        place = places.get(mistake.key)
        span = place and (place.key if mistake.code == UNKNOWN_SETTING else place.value)
        diagnostics.append(Diagnostic(mistake.code, span, mistake.message, help=mistake.help))
    return Report(source, tuple(diagnostics))


def _source(path: Path) -> Source:
    name = display(path)
    empty = Source(name, "")
    try:
        content = read_bytes(path, SETTINGS)
    except OSError as error:
        message = f"cannot read `{path.name}`: {why_not(error)}"
        raise _error(empty, UNREADABLE_SETTINGS, message, help=advice(error)) from error
    content = content.removeprefix(b"\xef\xbb\xbf")
    try:
        return Source(name, content.decode("utf-8"))
    except UnicodeDecodeError as error:
        start = len(content[: error.start].decode("utf-8"))
        source = Source(name, content.decode("utf-8", "replace"))
        message = f"expected UTF-8, found the byte 0x{content[error.start]:02X}"
        raise _error(source, UNREADABLE_SETTINGS, message, Span(start, start + 1), "save the file as UTF-8") from error


def _parsed(source: Source) -> Toml:
    try:
        return parse(source.text)
    except TomlError as error:
        raise _error(source, SETTINGS_SYNTAX, f"broken TOML: {error.message}", error.span) from error


def _config(settings: Table, path: Path, mistakes: list[_Mistake]) -> Config:
    _check_names(settings, TOP_LEVEL, (), mistakes)
    entry = _text(settings, ("entry",), "main", mistakes)
    sequential = _text(settings, ("sequential",), "model.dir", mistakes, "the path of a program")
    return Config(
        path=path,
        hardware=_hardware(_text(settings, ("hardware",), DEFAULT_HARDWARE, mistakes), path),
        nodes=_nodes(settings, mistakes),
        names_hardware="hardware" in settings,
        entry=entry and entry.removeprefix("@"),
        sequential=sequential and os.path.normpath(path.parent / sequential),
        bind=_bind(_table(settings, "bind", mistakes), mistakes),
        budget=_budget(_table(settings, "budget", mistakes), mistakes),
        hints=_hints(_table(settings, "hints", mistakes), mistakes),
    )


def _hardware(named: str | None, path: Path) -> str:
    if named is None:
        return DEFAULT_HARDWARE
    is_path = "/" in named or os.sep in named or re.search(r"\.(toml(x\d+)?|json)$", named.partition("@")[0])
    return os.path.normpath(path.parent / named) if is_path else named


def _nodes(settings: Table, mistakes: list[_Mistake]) -> int | None:
    value = settings.get("nodes")
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= limits.NODES):
        return value
    _wrong_value(("nodes",), f"a whole number from 1 to {limits.NODES}", value, None, mistakes)
    return None


def _bind(table: Table, mistakes: list[_Mistake]) -> dict[str, int | str]:
    bound: dict[str, int | str] = {}
    for name, value in table.items():
        size = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _SIZES
        if size or (isinstance(value, str) and value.strip()):
            bound[name.removeprefix("%")] = cast("int | str", value)
        else:
            hint = 'write the literal of a host parameter as text, for example `"0.5"`'
            _wrong_value(("bind", name), "the size of a dimension, or a literal as text", value, hint, mistakes)
    return bound


def _budget(table: Table, mistakes: list[_Mistake]) -> Budget:
    _check_names(table, _names(Budget), ("budget",), mistakes)
    return Budget(
        max_latency=_quantity(table, ("budget", "max_latency"), "5ms", mistakes),
        max_memory=_quantity(table, ("budget", "max_memory"), "32GB", mistakes),
    )


def _hints(table: Table, mistakes: list[_Mistake]) -> Hints:
    _check_names(table, _names(Hints), ("hints",), mistakes)
    shown: dict[str, Any] = {}
    for field in dataclasses.fields(Hints):
        value = table.get(field.name, field.default)
        if isinstance(field.default, bool):
            expected, fits = "`true` or `false`", isinstance(value, bool)
        else:
            expected = "a number of characters, 0 for no limit"
            fits = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _SIZES
        if fits:
            shown[field.name] = value
        else:
            _wrong_value(("hints", field.name), expected, value, None, mistakes)
    return Hints(**shown)


def _table(settings: Table, name: str, mistakes: list[_Mistake]) -> Table:
    value = settings.get(name, {})
    if isinstance(value, dict):
        return cast("Table", value)
    _wrong_value((name,), "a table", value, f"write its settings below a line `[{name}]`", mistakes)
    return {}


def _text(table: Table, key: Key, example: str, mistakes: list[_Mistake], what: str = "a name") -> str | None:
    value = table.get(key[-1])
    if value is None or (isinstance(value, str) and value.strip()):
        return value
    _wrong_value(key, f"{what}, as text", value, f'write for example `{key[-1]} = "{example}"`', mistakes)
    return None


def _quantity(table: Table, key: Key, example: str, mistakes: list[_Mistake]) -> str | None:
    value = table.get(key[-1])
    if value is None or (isinstance(value, str) and _QUANTITY.fullmatch(value)):
        return value
    hint = f'write for example `{key[-1]} = "{example}"`'
    _wrong_value(key, "a number with a unit, as text", value, hint, mistakes)
    return None


def _check_names(table: Table, known: Sequence[str], where: Key, mistakes: list[_Mistake]) -> None:
    for name in table:
        if name not in known:
            closest = nearest(name, [k for k in known if k not in table])
            listed = ", ".join(f"`{k}`" for k in known)
            hint = f"did you mean `{closest}`?" if closest else f"what can be set here: {listed}"
            hint = _home(name, table[name]) or hint
            place = f" in `[{'.'.join(where)}]`" if where else ""
            mistakes.append(_Mistake(UNKNOWN_SETTING, (*where, name), f"unknown setting `{name}`{place}", hint))


def _home(name: str, value: object) -> str | None:
    """The table that a misplaced setting belongs to."""
    if name in TOP_LEVEL and not isinstance(value, dict):
        return "it belongs at the top, before the first `[table]`"
    if name in TOP_LEVEL:
        return f"write it as a table of its own, `[{name}]`"
    return next(
        (f"it belongs in `[{t}]`" for t, kind in (("budget", Budget), ("hints", Hints)) if name in _names(kind)), None
    )


def _wrong_value(key: Key, expected: str, found: object, hint: str | None, mistakes: list[_Mistake]) -> None:
    message = f"`{'.'.join(key)}`: expected {expected}, found {_described(found)}"
    mistakes.append(_Mistake(SETTING_VALUE, key, message, hint))


def _error(source: Source, code: Code, message: str, span: Span | None = None, help: str | None = None) -> ConfigError:
    return ConfigError(Report(source, (Diagnostic(code, span, message, help=help),)))


def _names(settings: type[Budget | Hints]) -> tuple[str, ...]:
    return tuple(f.name for f in dataclasses.fields(settings))


def _described(value: object) -> str:
    match value:
        case bool():
            return f"`{str(value).lower()}`"
        case int() if abs(value) < _SIZES:
            return f"the integer {value}"
        case int():
            return "an integer of more than 64 bits"
        case float():
            return f"the number {value}"
        case str():
            return f"the text `{value[:40]}`" + (" and more" if len(value) > 40 else "")
        case dict():
            return "a table"
        case list():
            return "a list"
        case _:
            return "a date or time"
