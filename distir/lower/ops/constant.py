"""Tensors made of shapes and numbers. Those that are known before are constants of the program, not statements."""

from __future__ import annotations

from distir.ir import Constant, DType
from distir.lower.forms import Operand, Unlowerable, Write, dtype_name, items, known_numbers, number, torch_form
from distir.ops import dense


@torch_form("Constant")
def _(write: Write, *, value: Constant) -> str:
    raise Unlowerable("the constant's elements are not known")  # known ones, and those in files, are no statements


@torch_form("ConstantOfShape", fresh=True)
def _(write: Write, input: Operand, *, value: Constant) -> str:
    (result,) = write.results
    filling = number(known_numbers(dense(value))[0])
    return f"torch.full({items(result.shape or ())}, {filling}, dtype={dtype_name(result.dtype)}, device=DEVICE)"


@torch_form("Range", fresh=True)
def _(write: Write, start: Operand, limit: Operand, delta: Operand) -> str:
    (result,) = write.results
    count = (result.shape or (None,))[0]
    steps = f"torch.arange({count}, device=DEVICE)"
    return f"({start} + {steps} * {delta}).to({dtype_name(result.dtype)})"


@torch_form("EyeLike", fresh=True)
def _(write: Write, input: Operand, *, dtype: DType | None = None, k: int) -> str:
    rows, columns = input.shape
    above = f"torch.arange({columns}, device=DEVICE) - torch.arange({rows}, device=DEVICE)[:, None]"
    return f"({above} == {number(k)}).to({dtype_name(write.results[0].dtype)})"


@torch_form("OneHot", fresh=True)
def _(write: Write, indices: Operand, depth: Operand, values: Operand, *, axis: int) -> str:
    size = int(depth.scalar("the depth"))
    at = axis % (indices.rank + 1)
    return f"{write.kernel('one_hot')}({indices.tensor}, {size}, {values}, {at})"


@torch_form("Trilu", fresh=True)
def _(write: Write, input: Operand, k: Operand | None = None, *, upper: bool) -> str:
    diagonal = 0 if k is None else int(k.scalar("the diagonal"))
    return f"torch.{'triu' if upper else 'tril'}({input}, {diagonal})"


@torch_form("Shape", fresh=True)
def _(write: Write, data: Operand, *, start: int, end: int | None = None) -> str:
    return f"torch.tensor({list(data.shape[start:end])}, dtype=torch.int64, device=DEVICE)"


@torch_form("Size", fresh=True)
def _(write: Write, data: Operand) -> str:
    return f"torch.tensor({data.elements}, dtype=torch.int64, device=DEVICE)"
