"""Texts of configurations as settings by name, each with its line: TOML, JSON, YAML. Names of tables end in dots."""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, cast

from distir.configurations.options import ConfigurationError, Setting, as_list, as_table
from distir.files import limits, toml

_COMMENT = re.compile(r'(?P<string>"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+")|//[^\n]*|#[^\n]*|/\*.*?\*/', re.DOTALL)
"""A string, or a comment of Hjson, as which DeepSpeed reads its configuration (deepspeed/runtime/config.py)."""


_JSON_TOKEN = re.compile(r'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"|[\n{}\[\]:]')


TOO_MUCH = "a value is too long or nested too deep"


def of_toml(text: str, path: str) -> dict[str, Setting]:
    """Settings of a TOML text. Raises ConfigurationError."""
    try:
        read = toml.parse(text)
    except toml.TomlError as error:
        place = f"{path}:{_line(_line_ends(text), error.span.start)}" if error.span else path
        raise ConfigurationError(f"{place}: {error.message}") from None
    ends = _line_ends(text)
    lines = {key: _line(ends, place.key.start) for key, place in read.places.items()}
    return _settings(read.table, lines, path)


def of_json(text: str, path: str) -> dict[str, Setting]:
    """Settings of a JSON object, comments left out. Raises ConfigurationError."""
    text = _COMMENT.sub(lambda found: found["string"] or "\n" * found[0].count("\n"), text)
    try:
        table = as_table(json.loads(text))
    except json.JSONDecodeError as error:
        raise ConfigurationError(f"{path}:{error.lineno}: {error.msg[:1].lower()}{error.msg[1:]}") from None
    except (ValueError, RecursionError):
        raise ConfigurationError(f"{path}: {TOO_MUCH}") from None
    if table is None:
        raise ConfigurationError(f"{path}:1: expected an object, found `{text.strip()[:20]}`")
    return _settings(table, _json_lines(text), path)


def _json_lines(text: str) -> dict[tuple[str, ...], int]:
    """The line of each key of objects within objects, by the keys on the way to it."""
    lines: dict[tuple[str, ...], int] = {}
    path: list[str] = []
    line, last = 1, ""
    for token in _JSON_TOKEN.finditer(text):
        mark = token[0]
        if mark == "\n":
            line += 1
        elif mark in "{[":
            path.append("")
        elif mark in "}]" and path:
            path.pop()
        elif mark == ":" and path:
            path[-1] = last
            lines.setdefault(tuple(path), line)
        else:
            last = mark[1:-1]
    return lines


def of_yaml(text: str, path: str) -> dict[str, Setting]:
    """Settings of a YAML text. Raises ConfigurationError, and ImportError without PyYAML."""
    yaml: Any = import_module("yaml")
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        count = _written_out(node, {})
        table = as_table(loader.construct_document(node) if node and count <= limits.SETTINGS else None)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{path}:{mark.line + 1}" if mark else path
        raise ConfigurationError(f"{place}: {error.problem or 'not YAML'}") from None
    except RecursionError:
        raise ConfigurationError(f"{path}: {TOO_MUCH}") from None
    except (yaml.YAMLError, ValueError) as error:
        said = f"not YAML: {' '.join(str(error).split())[:80]}"  # a date that there is not, and the like
        raise ConfigurationError(f"{path}: {TOO_MUCH if 'integer string' in str(error) else said}") from None
    if count > limits.SETTINGS:
        message = f"{path}: with aliases written out there are more than {limits.SETTINGS:,} values"
        raise ConfigurationError(message, "repeat fewer mappings by aliases")
    if table is None:
        raise ConfigurationError(f"{path}:1: expected a mapping of options")
    return _settings(table, dict(_yaml_lines(node, ())), path)


def _line_ends(text: str) -> list[int]:
    return [found.start() for found in re.finditer("\n", text)]


def _line(ends: list[int], offset: int) -> int:
    """The number of the line of an offset, from 1."""
    return bisect_left(ends, offset) + 1


def _written_out(node: Any, known: dict[Any, float]) -> float:
    """How many values a node of YAML has, aliases written out; infinitely many where it is in itself."""
    if node not in known:
        known[node] = math.inf
        total = 1.0
        for item in as_list(getattr(node, "value", None)) or ():
            pair = cast("tuple[Any, ...]", item) if isinstance(item, tuple) else (item,)
            total += sum(_written_out(part, known) for part in pair)
        known[node] = total
    return known[node]


def _settings(table: Mapping[Any, Any], lines: Mapping[tuple[str, ...], int], path: str) -> dict[str, Setting]:
    """The settings of a table, by names with dots. Raises ConfigurationError for numbers that no message can show."""
    if limits.has_long_number(table):
        raise ConfigurationError(f"{path}: {TOO_MUCH}")
    return dict(_flat(table, (), lines))


def _flat(
    table: Mapping[Any, Any], before: tuple[str, ...], lines: Mapping[tuple[str, ...], int]
) -> Iterator[tuple[str, Setting]]:
    for key, value in table.items():
        names = (*before, str(key))
        if inner := as_table(value):
            yield from _flat(inner, names, lines)
        else:
            yield ".".join(names), Setting(value, lines.get(names, 0))


def _yaml_lines(node: Any, before: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int]]:
    for pair in as_list(getattr(node, "value", None)) or ():
        if isinstance(pair, tuple):
            key, value = cast("tuple[Any, Any]", pair)
            names = (*before, str(key.value))
            yield names, key.start_mark.line + 1
            yield from _yaml_lines(value, names)
