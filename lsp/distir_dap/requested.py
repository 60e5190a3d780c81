"""The arguments of requests, as far as they are what the protocol says. Each raises RequestError where one is not."""

from __future__ import annotations

from typing import Any, cast

from distir_dap.connection import Json, RequestError


def table(given: Any) -> Json:
    """An object; an empty one for what is none."""
    return cast("Json", given) if isinstance(given, dict) else {}


def whole(given: Json, name: str, default: int | None = None) -> int:
    """A whole number."""
    found = given.get(name, default)
    if type(found) is not int:
        raise RequestError(f"expected a whole number as `{name}`, found `{found}`")
    return found


def text(given: Json, name: str, default: str | None = None) -> str:
    """A text."""
    found = given.get(name)
    found = default if found is None else found
    if not isinstance(found, str):
        raise RequestError(f"expected a text as `{name}`, found `{found}`")
    return found


def objects(given: Json, name: str) -> list[Json]:
    """A list of objects; an empty one where it is missing."""
    return [table(each) for each in _items(given, name)]


def texts(given: Json, name: str) -> list[str]:
    """A list of texts, likewise."""
    return [str(each) for each in _items(given, name)]


def _items(given: Json, name: str) -> list[Any]:
    found = given.get(name)
    if found is None:
        return []
    if not isinstance(found, list):
        raise RequestError(f"expected a list as `{name}`, found `{found}`")
    return cast("list[Any]", found)
