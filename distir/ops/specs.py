"""The parts of an op's definition: operands, attributes, torch form, and reasons for a missing gradient."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final, NamedTuple

REQUIRED: Final = inspect.Parameter.empty
"""The default of an attribute that has none."""

FIRST_ORDER_ONLY: Final = "it is part of a gradient, and second-order gradients are not supported"
BOOLEAN_RESULTS: Final = "its results are Booleans"
HOST_RESULTS: Final = "its results are host values, known before the program runs"


class OperandSpec(NamedTuple):
    """One operand of an op."""

    name: str
    variadic: bool = False
    optional: bool = False


class AttributeSpec(NamedTuple):
    """One attribute. `kind`: the parameter's annotation as written; `default`: a value, or `REQUIRED`."""

    name: str
    kind: str
    default: Any
    aliases: tuple[str, ...] = ()


class TorchForm(NamedTuple):
    """The PyTorch expression of an op: its text, or a function that returns it (`distir.ops.torch_form`)."""

    text: str | Callable[..., Any]
    fresh: bool
    """No result is a view of an operand."""
