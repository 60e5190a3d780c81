"""Reductions in torch, and what goes along one axis."""

from __future__ import annotations

from collections.abc import Callable

from distir.lower.forms import Operand, Unpacked, Write, dtype_name, items, narrowed, torch_form

Along = tuple[int, ...]


def _axes(data: Operand, axes: Operand | None, noop: bool) -> Along:
    """The axes that are reduced, counted from 0."""
    named = () if axes is None else axes.ints("which axes are reduced")
    if not named:
        return () if noop else tuple(range(data.rank))
    return tuple(axis % data.rank for axis in named)


def _reduction(name: str, nothing: str, along: Callable[[Write, Operand, Along, bool], str]) -> None:
    """Declare a reduction. `nothing`: what it is of each element by itself, with `{x}` for the element."""

    @torch_form(name, fresh=True)
    def _(
        write: Write, data: Operand, axes: Operand | None = None, *, keepdims: bool, noop_with_empty_axes: bool
    ) -> str:
        reduced = _axes(data, axes, noop_with_empty_axes)
        return along(write, data, reduced, keepdims) if reduced else nothing.format(x=data)


def _dims(along: Along, keepdims: bool) -> str:
    return f"{items(along)}, keepdim={keepdims}"


def _sum(write: Write, x: Operand, along: Along, keepdims: bool) -> str:
    kept = "" if x.floating else f", dtype={dtype_name(x.dtype)}"
    return f"torch.sum({x}, {_dims(along, keepdims)}{kept})"


def _mean(write: Write, x: Operand, along: Along, keepdims: bool) -> str:
    if x.floating:
        return f"torch.mean({x}, {_dims(along, keepdims)})"
    count = 1
    for axis in along:
        count *= x.shape[axis]
    total = f"torch.sum({x}, {_dims(along, keepdims)})"
    return f'torch.div({total}, {count}, rounding_mode="trunc").to({dtype_name(x.dtype)})'


def _extreme(function: str) -> Callable[[Write, Operand, Along, bool], str]:
    def along(write: Write, x: Operand, axes: Along, keepdims: bool) -> str:
        if not x.elements:
            return f"{write.kernel('extreme_of_none')}({x}, {items(axes)}, {keepdims}, {function!r})"
        return f"torch.{function}({x}, {_dims(axes, keepdims)})"

    return along


def _product(write: Write, x: Operand, along: Along, keepdims: bool) -> str:
    text = x.wide
    for axis in sorted(along, reverse=True):
        kept = "" if x.floating else f", dtype={dtype_name(x.dtype)}"
        text = f"torch.prod({text}, {axis}, keepdim={keepdims}{kept})"
    return narrowed(text, x.dtype)


def _squares(write: Write, x: Operand, along: Along, keepdims: bool) -> str:
    kept = "" if x.floating else f", dtype={dtype_name(x.dtype)}"
    return narrowed(f"torch.sum(torch.square({x.wide}), {_dims(along, keepdims)}{kept})", x.dtype)


def _norm(write: Write, x: Operand, along: Along, keepdims: bool) -> str:
    return narrowed(f"torch.linalg.vector_norm({x.wide}, dim={_dims(along, keepdims)})", x.dtype)


def _log_sum_exp(write: Write, x: Operand, along: Along, keepdims: bool) -> str:
    return narrowed(f"torch.logsumexp({x.wide}, {_dims(along, keepdims)})", x.dtype)


_reduction("ReduceSum", "{x}.clone()", _sum)
_reduction("ReduceMean", "{x}.clone()", _mean)
_reduction("ReduceMax", "{x}.clone()", _extreme("amax"))
_reduction("ReduceMin", "{x}.clone()", _extreme("amin"))
_reduction("ReduceProd", "{x}.clone()", _product)
_reduction("ReduceSumSquare", "torch.square({x})", _squares)
_reduction("ReduceL2", "torch.abs({x})", _norm)
_reduction("ReduceLogSumExp", "{x}.clone()", _log_sum_exp)


def _place(name: str, function: str) -> None:
    @torch_form(name, fresh=True)
    def _(write: Write, data: Operand, *, axis: int, keepdims: bool, select_last_index: bool) -> str:
        if not select_last_index:
            return f"torch.{function}({data}, {axis}, keepdim={keepdims})"
        last = data.shape[axis] - 1
        return f"{last} - torch.{function}(torch.flip({data}, ({axis},)), {axis}, keepdim={keepdims})"


_place("ArgMax", "argmax")
_place("ArgMin", "argmin")


@torch_form("CumSum", fresh=True)
def _(write: Write, x: Operand, axis: Operand, *, exclusive: bool, reverse: bool) -> str:
    along = int(axis.scalar("the axis")) % max(x.rank, 1)
    if not exclusive and not reverse:
        kept = "" if x.floating else f", dtype={dtype_name(x.dtype)}"
        return narrowed(f"torch.cumsum({x.wide}, {along}{kept})", x.dtype)
    return f"{write.kernel('cumulative_sum')}({x}, {along}, exclusive={exclusive}, reverse={reverse})"


@torch_form("TopK", fresh=True)
def _(write: Write, x: Operand, k: Operand, *, axis: int, largest: bool, sorted: bool) -> Unpacked:
    count = k.ints("how many elements are taken")[0]
    return Unpacked(f"{write.kernel('top_k')}({x}, {count}, {axis}, {largest})")
