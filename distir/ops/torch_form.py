"""How an op is written in torch: what a form sees of a statement, and what it writes with. Knows no torch.

A form stands beside its op. It is the text of a Python expression, in which operands and attributes stand by name, or a
function that gives such a text:

    Relu.torch("torch.relu({x})", fresh=True)

    @Softplus.torch(fresh=True)
    def _(write: Write, x: Expr) -> str:
        return f"F.softplus({x}, threshold={write.number(40.0)})"

A function takes the operands (None: left out) and the attributes by keyword, as the op's body does. For several results
it gives a list with one text for each, or `write.unpacked` for an expression that gives them all. Sizes and host values
are known by then, so texts hold numbers. What needs more than an expression calls a function of the template `kernels`
of the room `lower`, by `write.kernel`. Every text that stems from a program goes through `repr` or through names that
are made here: nothing that a program says becomes code.
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
"""torch's element types by our names."""

STORED_ONLY = frozenset(
    name for name in TORCH_DTYPES if name.startswith("Float8") or name in ("UInt16", "UInt32", "UInt64")
)
"""Element types that torch can hold and convert, but hardly compute with."""


class Unlowerable(Exception):  # noqa: N818 - a verdict on a program, not a failure of ours
    """A statement that cannot be written in torch."""

    def __init__(self, message: str, code: Code = codes.UNSUPPORTED, help: str | None = None) -> None:
        super().__init__(message)
        self.message, self.code, self.help = message, code, help


@dataclass(frozen=True, slots=True)
class Expr:
    """An operand as a form sees it. Formatted, it is a Python expression: a variable, a number, a constant."""

    text: str
    type: TensorType
    """With all sizes known."""
    value: Dense | None = None
    """The value, where that is known."""
    constant: Callable[[Dense], str] | None = field(default=None, compare=False)
    """Names a tensor that holds a known value."""

    def __str__(self) -> str:
        return self.text

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions, all known."""
        return cast("tuple[int, ...]", self.type.shape)

    @property
    def rank(self) -> int:
        """How many dimensions there are."""
        return len(self.shape)

    @property
    def elements(self) -> int:
        """How many elements there are."""
        return math.prod(self.shape)

    @property
    def dtype(self) -> DType:
        """The element type, which is known."""
        assert self.type.dtype is not None
        return self.type.dtype

    @property
    def floating(self) -> bool:
        """Whether elements are floating-point numbers."""
        return self.dtype.kind == "float"

    @property
    def narrow(self) -> bool:
        """Whether the reference implementation computes in Float32 what is stored in less."""
        return self.floating and self.dtype.bytes < 4

    @property
    def wide(self) -> str:
        """The operand in the type to compute in."""
        return f"{self.text}.float()" if self.narrow and self.value is None else self.text

    @property
    def tensor(self) -> str:
        """The operand as a tensor, where a number will not do."""
        if self.value is None or self.type.shape != () or self.constant is None:
            return self.text
        return self.constant(self.value)

    @property
    def numbers(self) -> tuple[Scalar, ...]:
        """The elements of an operand whose value is known. Raises Unlowerable where some are symbols."""
        assert self.value is not None
        return known_numbers(self.value)

    def ints(self, what: str) -> tuple[int, ...]:
        """The integers that the operand holds. Raises Unlowerable where they are not known."""
        if self.value is None:
            raise unknown(what)
        return tuple(int(v) for v in known_numbers(self.value))

    def scalar(self, what: str) -> int | float | bool:
        """The one number that the operand holds. Raises Unlowerable where it is not known."""
        if self.value is None:
            raise unknown(what)
        return known_numbers(self.value)[0]


def known_numbers(value: Dense) -> tuple[Scalar, ...]:
    """The elements of a constant. Raises Unlowerable where some are symbols."""
    if any(isinstance(v, SymbolicDim) for v in value.values):
        raise unknown("a size")
    return cast("tuple[Scalar, ...]", value.values)


def unknown(what: str) -> Unlowerable:
    """The error that a size or value, in words, is not known."""
    hint = "give sizes to named dimensions and values to host parameters with `--bind`"
    return Unlowerable(f"{what} is not known when the program is lowered", codes.UNKNOWN_VALUE, hint)


@dataclass(frozen=True, slots=True)
class Unpacked:
    """An expression that gives all results, as a tuple."""

    text: str


@dataclass(frozen=True, slots=True)
class Local:
    """A communication as one rank writes it: which results it holds, and the expression that gives them.

    Without results the expression stands for itself; with several, it gives a tuple.
    """

    results: tuple[int, ...]
    text: str


Written = str | list[str] | Unpacked | Local


class Write(ABC):
    """What a form may ask of the statement that it writes, and the spellings that it writes with."""

    __slots__ = ()

    device: int
    """The device whose program is written."""
    results: Sequence[TensorType]
    """The types of the results."""

    @abstractmethod
    def kernel(self, name: str) -> str:
        """The name of a function of the template `kernels`, which the program will hold."""

    @abstractmethod
    def constant(self, value: Dense) -> str:
        """An expression for a tensor that holds a constant; it is made once, when the program starts."""

    @abstractmethod
    def rank(self, device: int) -> int:
        """Torch's number of the rank of a device."""

    @abstractmethod
    def group(self, devices: Sequence[int]) -> str:
        """An expression for the process group of devices."""

    @abstractmethod
    def may_overwrite(self, operand: int) -> bool:
        """Whether nobody needs the operand any more, nor anything that shares its memory."""

    def number(self, value: Scalar | SymbolicDim) -> str:
        """A number, fit to stand anywhere in an expression. Raises Unlowerable where it is a symbol."""
        if isinstance(value, SymbolicDim):
            raise unknown("a size")
        return number(value)

    def items(self, values: Sequence[object]) -> str:
        """A tuple of integers, or of expressions."""
        return items(values)

    def dtype(self, dtype: DType | None) -> str:
        """Torch's name of an element type. Raises Unlowerable where it has none."""
        return dtype_name(dtype)

    def narrowed(self, text: str, dtype: DType) -> str:
        """What was computed in Float32, in the element type it is stored in."""
        return narrowed(text, dtype)

    def unpacked(self, text: str) -> Unpacked:
        """An expression that gives all results, as a tuple."""
        return Unpacked(text)

    def local(self, results: tuple[int, ...], text: str) -> Local:
        """A communication as this rank writes it: the results that it holds, and the expression that gives them."""
        return Local(results, text)

    def refuse(self, reason: str, help: str | None = None) -> Unlowerable:
        """What to raise where torch cannot do this."""
        return Unlowerable(reason, help=help)


def written(
    form: TorchForm, op: Op, write: Write, operands: Sequence[Expr | None], attrs: Mapping[str, Any]
) -> Written:
    """An op as its form writes it. Raises Unlowerable."""
    if not isinstance(form.text, str):
        return form.text(write, *operands, **attrs)
    named = {spec.name: operand for spec, operand in zip_longest(op.operands, operands)}
    return form.text.format_map({**named, **{name: _spelled(value) for name, value in attrs.items()}})


def _spelled(value: Any) -> str:
    """The value of an attribute as Python spells it."""
    if isinstance(value, DType):
        return dtype_name(value)
    return number(value) if isinstance(value, (int, float)) else repr(value)


def dtype_name(dtype: DType | None) -> str:
    """Torch's name of an element type. Raises Unlowerable where it has none."""
    if dtype is None or dtype.name not in TORCH_DTYPES:
        raise Unlowerable(f"torch has no element type `{dtype}`")
    return TORCH_DTYPES[dtype.name]


def number(value: Scalar) -> str:
    """A number as Python spells it, fit to stand anywhere in an expression."""
    if isinstance(value, bool):
        return repr(value)
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return f"({value!r})" if value < 0 or math.copysign(1, value) < 0 else repr(value)


def items(values: Sequence[object]) -> str:
    """A tuple as Python spells it. `values` are integers, or texts of expressions."""
    return f"({', '.join(map(str, values))}{',' if len(values) == 1 else ''})"


def narrowed(text: str, dtype: DType) -> str:
    """What was computed in Float32, in the element type it is stored in."""
    return f"({text}).to({dtype_name(dtype)})" if dtype.kind == "float" and dtype.bytes < 4 else text
