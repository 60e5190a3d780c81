"""The protocol's types, each completed when the first object of it is made: of some 550, a session needs a tenth.

`lsprotocol.types` has attrs generate the methods of every class as it is imported, which is most of what starting a
server would cost. Here the import only notes the classes; `attrs.define` does its work when somebody makes an object of
a class or asks for its fields, as converters do. To be imported before `lsprotocol.types` is: where that has happened
already, or is made differently one day, all works as it would without this module, only later. Knows no server.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import attrs

FIELDS = "__attrs_attrs__"
"""Where a class has its fields, by which everybody tells a class of attrs."""

_completing = threading.RLock()


class _Later:
    """Stands for the fields of a class until somebody asks for them."""

    def __get__(self, instance: object, owner: type) -> Any:
        complete(owner)
        return owner.__dict__[FIELDS]


def complete(cls: type) -> None:
    """Give a class and those it is made of all that attrs gives them; what is complete stays as it is."""
    with _completing:
        for each in reversed(cls.__mro__):
            if isinstance(each.__dict__.get(FIELDS), _Later):
                # in place, not as a new class, which slots would take: the class is known by what it was at first
                attrs.define(each, slots=False, init=True)
                attrs.resolve_types(each, _names(), {})


def _noted(cls: type) -> type:
    """A class as `attrs.define` would have to make it, not made yet."""
    setattr(cls, FIELDS, _Later())
    setattr(cls, "__init__", _first)  # noqa: B010 - a class's method is not to be assigned to, says pyright
    return cls


def _first(self: object, *args: Any, **kwargs: Any) -> None:
    """Makes the first object of a class; from then on, the class has an `__init__` of its own."""
    complete(type(self))
    type(self).__init__(self, *args, **kwargs)


def _names() -> dict[str, Any]:
    """What the names in annotations mean."""
    from lsprotocol import types

    return dict(types.ALL_TYPES_MAP)


def _imported() -> None:
    """Import the types and their converters as said above."""
    if "lsprotocol.types" in sys.modules:
        return
    define: Callable[..., Any] = attrs.define

    def noted(cls: type | None = None, /, **options: Any) -> Any:
        return define(cls, **options) if cls is None or options else _noted(cls)

    attrs.define = noted  # pyright: ignore[reportAttributeAccessIssue]
    try:
        import lsprotocol.types  # noqa: F401 # pyright: ignore[reportUnusedImport]
    finally:
        attrs.define = define
    from lsprotocol import _hooks  # pyright: ignore[reportPrivateUsage]

    # the names in annotations are looked up class by class; else all classes would be completed for it at once
    _hooks._resolved_forward_references = True  # pyright: ignore[reportPrivateUsage]


_imported()
