"""Views by strides: what other ops of the same meaning copy, these share. For operands of ops that take strides.

Matrix products, attention, elementwise ops and fused kernels read an operand by its strides, so a transposed, split,
sliced or expanded tensor need not be written for them. A `Reshape` that merges dimensions, and communication, need
contiguous memory: for these, the ops that copy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from distir.ops.core import OPS, Op
from distir.ops.group import GroupPart, GroupParts
from distir.ops.mesh import Shard
from distir.ops.select import Slice, Split
from distir.ops.shape import Expand, Transpose


def view_of(copy: Op, family: str = "views") -> Callable[[Callable[..., Any]], Op]:
    """Register an op that means what `copy` means, by the same rules, and aliases its first operand."""

    def register(documented: Callable[..., Any]) -> Op:
        @wraps(copy.body)
        def body(*args: Any, **attrs: Any) -> Any:
            return copy.body(*args, **attrs)

        body.__doc__ = documented.__doc__
        name = documented.__name__
        signatures, linear, aliases = copy.signature_texts, copy.linear, copy.aliases
        same: dict[str, Any] = {"foldable": copy.foldable, "non_differentiable": copy.non_differentiable}
        defined = Op(name, signatures, body, view="first", linear=linear, aliases=aliases, family=family, **same)
        defined.rules.update(copy.rules)
        OPS.register(name, defined, documented.__module__)
        return defined

    return register


@view_of(Transpose)
def TransposeView() -> None:
    """`Transpose` as a view: other strides, the same memory.

    %y = TransposeView(%x: Tensor[Float32, (2, 3), 1])
    %y = TransposeView[perm = [0, 2, 1]](%x: Tensor[Float32, (2, 3, 4), 1])
    """


@view_of(Expand)
def ExpandView() -> None:
    """`Expand` as a view: strides of 0, the same memory.

    %y = ExpandView(%x: Tensor[Float32, (3, 1), 1], [2, 1, 4])
    """


@view_of(Split)
def SplitView() -> None:
    """`Split` into views of its operand.

    %a, %b = SplitView[axis = 0, num_outputs = 2](%x: Tensor[Float32, (4, 3), 1])
    %a, %b = SplitView[axis = 1](%x: Tensor[Float32, (4, 3), 1], [1, 2])
    """


@view_of(Slice)
def SliceView() -> None:
    """`Slice` as a view of its operand.

    %y = SliceView(%x: Tensor[Float32, (4, 6), 1], [1, 0], [3, 6])
    %y = SliceView(%x: Tensor[Float32, (4, 6), 1], [-1], [-100], [1], [-2])
    """


@view_of(GroupPart, family="group")
def GroupPartView() -> None:
    """`GroupPart` as a view of its operand.

    %y = GroupPartView[size = 2, axis = 0](%x: Tensor[Float32, (4, 3), 1])
    """


@view_of(GroupParts, family="group")
def GroupPartsView() -> None:
    """`GroupParts` as views of its operand.

    %a, %b = GroupPartsView[parts = [[0, 3], [1, 2]], axis = 1](%x: Tensor[Float32, (2, 8), 1])
    """


@view_of(Shard, family="mesh")
def ShardView() -> None:
    """`Shard` as a view of its operand.

    %y = ShardView[axis = "tp", dim = 0](%x: Tensor[Float32, (4, 3), 1])
    """


COPIES = ("Transpose", "Expand", "Split", "Slice", "GroupPart", "GroupParts", "Shard")
VIEWS = {copy: f"{copy}View" for copy in COPIES}
"""By the op that copies: the view."""
