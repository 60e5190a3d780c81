"""Torch forms: the PyTorch expressions of ops, and the interface of functions that write them. Does not import torch.

A form is registered beside its op. It is the text of a Python expression with the names of operands and attributes in
braces, or a function that returns such a text:

    Relu.torch("torch.relu({x})", fresh=True)

    @Softplus.torch(fresh=True)
    def _(write: Write, x: Expr) -> str:
        return f"F.softplus({x}, threshold={write.number(40.0)})"

The arguments of a function are the operands (None: omitted) and the attributes by keyword, as of the op's body. For
several results it returns a list with a text for each, or `write.unpacked` for an expression that returns a tuple. All
sizes and host values are known, and are literals in the text. A form that needs more than an expression calls a
function of the template `kernels` in `distir/lower/templates`, with `write.kernel`. No text of a program becomes code:
its strings pass through `repr`, and its names are replaced by generated ones.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, cast

from distir.diagnostics import Code
from distir.diagnostics.codes import lowering as codes
from distir.ir import Dense, DType, Scalar, SymbolicDim, TensorType
from distir.ir.registry import DefinitionError
from distir.ops.core import Op
from distir.ops.specs import TorchForm

TORCH_DTYPES: dict[str, str] = {
    "Bool": "torch.bool",
    **{f"Int{bits}": f"torch.int{bits}" for bits in (8, 16, 32, 64)},
    **{f"UInt{bits}": f"torch.uint{bits}" for bits in (8, 16, 32, 64)},
    **{f"Float{bits}": f"torch.float{bits}" for bits in (16, 32, 64)},
    "BFloat16": "torch.bfloat16",
    "Float8E4M3FN": "torch.float8_e4m3fn",
    "Float8E4M3FNUZ": "torch.float8_e4m3fnuz",
    "Float8E5M2": "torch.float8_e5m2",
    "Float8E5M2FNUZ": "torch.float8_e5m2fnuz",
}
"""The element types of torch by those of DistIR."""

STORED_ONLY = frozenset(
    name for name in TORCH_DTYPES if name.startswith("Float8") or name in ("UInt16", "UInt32", "UInt64")
)
"""Element types that torch can store and convert, with few other ops."""


class Unlowerable(Exception):  # noqa: N818 - a property of the program, not an error in DistIR
    """A statement that has no equivalent in torch."""

    def __init__(self, message: str, code: Code = codes.UNSUPPORTED, help: str | None = None) -> None:
        super().__init__(message)
        self.message, self.code, self.help = message, code, help


@dataclass(frozen=True, slots=True)
class Expr:
    """An operand as an argument of a form. Formatted, it is a Python expression: a variable, a number, a constant."""

    text: str
    type: TensorType
    """All sizes are known."""
    value: Dense | None = None
    """The value, if known."""
    constant: Callable[[Dense], str] | None = field(default=None, compare=False)
    """Returns the expression of a tensor with a known value."""

    def __str__(self) -> str:
        return self.text

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions."""
        return cast("tuple[int, ...]", self.type.shape)

    @property
    def rank(self) -> int:
        """The rank."""
        return len(self.shape)

    @property
    def elements(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def dtype(self) -> DType:
        """The element type."""
        assert self.type.dtype is not None
        return self.type.dtype

    @property
    def floating(self) -> bool:
        """Whether the elements are floating-point numbers."""
        return self.dtype.kind == "float"

    @property
    def narrow(self) -> bool:
        """Whether the elements are floating-point numbers narrower than Float32, which are computed in Float32."""
        return self.floating and self.dtype.bytes < 4

    @property
    def wide(self) -> str:
        """The operand in the type in which it is computed."""
        return f"{self.text}.float()" if self.narrow and self.value is None else self.text

    @property
    def tensor(self) -> str:
        """The operand as a tensor, for functions that take no numbers."""
        if self.value is None or self.type.shape != () or self.constant is None:
            return self.text
        return self.constant(self.value)

    @property
    def numbers(self) -> tuple[Scalar, ...]:
        """The elements of an operand with a known value. Raises Unlowerable for symbolic ones."""
        assert self.value is not None
        return known_numbers(self.value)

    def ints(self, what: str) -> tuple[int, ...]:
        """The integers in the operand. Raises Unlowerable if they are unknown."""
        if self.value is None:
            raise unknown(what)
        return tuple(int(v) for v in known_numbers(self.value))

    def scalar(self, what: str) -> int | float | bool:
        """The number in the operand. Raises Unlowerable if it is unknown."""
        if self.value is None:
            raise unknown(what)
        return known_numbers(self.value)[0]


def known_numbers(value: Dense) -> tuple[Scalar, ...]:
    """The elements of a constant. Raises Unlowerable for symbolic ones."""
    if any(isinstance(v, SymbolicDim) for v in value.values):
        raise unknown("a size")
    return cast("tuple[Scalar, ...]", value.values)


def unknown(what: str) -> Unlowerable:
    """The error for an unknown size or value, which `what` describes."""
    hint = "give sizes to named dimensions and values to host parameters with `--bind`"
    return Unlowerable(f"{what} is not known when the program is lowered", codes.UNKNOWN_VALUE, hint)


@dataclass(frozen=True, slots=True)
class Unpacked:
    """An expression that returns all results, as a tuple."""

    text: str


@dataclass(frozen=True, slots=True)
class Local:
    """A communication on one rank: the indices of its results, and the expression that returns them.

    Without results, it is an expression statement; with several, it returns a tuple.
    """

    results: tuple[int, ...]
    text: str


FormResult = str | list[str] | Unpacked | Local


class Write(ABC):
    """The context of the statement that a form writes, and functions for its text."""

    __slots__ = ()

    device: int
    """The device of the program that is written."""
    results: Sequence[TensorType]
    """The types of the results."""

    @abstractmethod
    def kernel(self, name: str) -> str:
        """Include a function of the template `kernels` in the program; returns its name."""

    @abstractmethod
    def constant(self, value: Dense) -> str:
        """The expression of a tensor with a constant value, created once when the program starts."""

    @abstractmethod
    def rank(self, device: int) -> int:
        """The rank of a device."""

    @abstractmethod
    def group(self, devices: Sequence[int]) -> str:
        """The expression of the process group of devices."""

    @abstractmethod
    def may_overwrite(self, operand: int) -> bool:
        """Whether this is the last use of the operand and of all its aliases."""

    def number(self, value: Scalar | SymbolicDim) -> str:
        """A number as an atom of an expression. Raises Unlowerable for a symbolic one."""
        if isinstance(value, SymbolicDim):
            raise unknown("a size")
        return number(value)

    def items(self, values: Sequence[object]) -> str:
        """A tuple of integers, or of expressions."""
        return items(values)

    def dtype(self, dtype: DType | None) -> str:
        """The name of an element type in torch. Raises Unlowerable if torch has no such type."""
        return dtype_name(dtype)

    def narrowed(self, text: str, dtype: DType) -> str:
        """An expression computed in Float32, converted to the element type of the result."""
        return narrowed(text, dtype)

    def unpacked(self, text: str) -> Unpacked:
        """An expression that returns all results, as a tuple."""
        return Unpacked(text)

    def local(self, results: tuple[int, ...], text: str) -> Local:
        """A communication on this rank: the indices of its results, and the expression that returns them."""
        return Local(results, text)

    def refuse(self, reason: str, help: str | None = None) -> Unlowerable:
        """The exception to raise where torch has no equivalent."""
        return Unlowerable(reason, help=help)


def written(
    form: TorchForm, op: Op, write: Write, operands: Sequence[Expr | None], attrs: Mapping[str, Any]
) -> FormResult:
    """The op written by its form. Raises Unlowerable, and DefinitionError for a text that cannot be filled in."""
    if not isinstance(form.text, str):
        return form.text(write, *operands, **attrs)
    named = {spec.name: operand for spec, operand in zip_longest(op.operands, operands)}
    try:
        return form.text.format_map({**named, **{name: _spelled(value) for name, value in attrs.items()}})
    except (KeyError, AttributeError, ValueError) as error:
        why = f"it has {error}, which is no operand or attribute" if isinstance(error, KeyError) else str(error)
        raise DefinitionError(f"the torch form of the op `{op.name}` is `{form.text}`: {why}") from None


def _spelled(value: Any) -> str:
    """The value of an attribute as a Python literal."""
    if isinstance(value, DType):
        return dtype_name(value)
    return number(value) if isinstance(value, (int, float)) else repr(value)


def dtype_name(dtype: DType | None) -> str:
    """The name of an element type in torch. Raises Unlowerable if torch has no such type."""
    if dtype is None or dtype.name not in TORCH_DTYPES:
        raise Unlowerable(f"torch has no element type `{dtype}`")
    return TORCH_DTYPES[dtype.name]


def number(value: Scalar) -> str:
    """A number as a Python literal, in parentheses if negative."""
    if isinstance(value, bool):
        return repr(value)
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return f"({value!r})" if value < 0 or math.copysign(1, value) < 0 else repr(value)


def items(values: Sequence[object]) -> str:
    """A tuple display of integers or expressions."""
    return f"({', '.join(map(str, values))}{',' if len(values) == 1 else ''})"


def narrowed(text: str, dtype: DType) -> str:
    """An expression computed in Float32, converted to the element type of the result."""
    return f"({text}).to({dtype_name(dtype)})" if dtype.kind == "float" and dtype.bytes < 4 else text
