"""The options that a version of a framework has, as lists of `name = default`; at its head, where it is from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

from distir.configurations.options import Known
from distir.files.reading import beside


@cache
def listed(name: str) -> dict[str, Any]:
    """The options of a list, by name, with their defaults."""
    lines = beside(__file__, f"{name}.txt").splitlines()
    pairs = (line.partition(" = ") for line in lines if not line.startswith("#"))
    return {option: json.loads(default) for option, _, default in pairs}


def words(name: str) -> tuple[str, ...]:
    """The words of a list: names, or patterns of names."""
    lines = beside(__file__, f"{name}.txt").splitlines()
    return tuple(word for line in lines if not line.startswith("#") for word in line.split())


def known(
    framework: str,
    source: str,
    name: str,
    idle: Sequence[str],
    open: Sequence[str] = (),
    sections: Sequence[str] = (),
    **more: Any,
) -> Known:
    """The options of a list, and `more`."""
    return Known(framework, source, {**listed(name), **more}, tuple(idle), tuple(open), dict.fromkeys(sections, ""))
