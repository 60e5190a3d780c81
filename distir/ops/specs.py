"""What a definition says of its operands and attributes, and of its form in torch."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final, NamedTuple

REQUIRED: Final = inspect.Parameter.empty
"""The default of an attribute that has none."""


class OperandSpec(NamedTuple):
    """One operand as the definition names it."""

    name: str
    variadic: bool = False
    optional: bool = False


class AttributeSpec(NamedTuple):
    """One attribute: its kind is the parameter's annotation as written, its default may be `REQUIRED`."""

    name: str
    kind: str
    default: Any
    aliases: tuple[str, ...] = ()


class TorchForm(NamedTuple):
    """How an op is written in torch: a text, or a function that gives one (`distir.ops.torch_form`)."""

    text: str | Callable[..., Any]
    fresh: bool
    """Each result is a tensor of its own, which shares no memory with operands."""
