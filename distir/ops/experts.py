"""Mixtures of experts: the router, the order of the tokens by expert, grouped products, and the sum by token.

A layer of experts is a composition, in the words of Megatron and torch. `x` is (…, tokens, width), for instance
(batch, tokens, width); `gate`, `up` and `down` hold a matrix for each expert:

    %logits = MatMul(%x, %router)                          # (batch, tokens, experts)
    %weights, %experts = Route[top_k = 2](%logits)         # (batch, tokens, 2) each
    %places, %counts = Dispatch[num_experts = 8](%experts) # the row of each choice; the tokens of each expert
    %rows = Permute(%x, %places)                           # (batch, tokens * 2, width): sorted by expert
    %g = RaggedMatMul(%rows, %gate, %counts)               # (batch, tokens * 2, inner width)
    %u = RaggedMatMul(%rows, %up, %counts)
    %s = Swish(%g)
    %h = Mul(%s, %u)
    %o = RaggedMatMul(%h, %down, %counts)
    %y = Unpermute(%o, %places, %weights)                  # (batch, tokens, width), in token order

Shared experts are dense layers beside it. What each expert adds is `RaggedExpand` of its bias, added to the product.

Each sequence (all dimensions before the tokens) is sorted by itself, as the groups of GShard are, so that devices can
share the batch; a `Reshape` to one group sorts all tokens together. Without a capacity nothing is dropped: there are as
many rows as choices, and how many belong to an expert is data (`counts`, which devices can exchange). With
`Dispatch[num_experts = e, capacity = c]` each expert has c rows, of which `Permute[rows = e * c]` leaves empty ones 0,
and `RaggedMatMul` takes no counts.

Auxiliary losses are compositions, too (`docs/how-to/experts.md`).

The work of `RaggedMatMul` is that of grouped kernels (Gale et al., *MegaBlocks*, MLSys 2023): each row once, and once
the matrix of each expert that has rows. `GroupedMatMul` does both in one, for rows in token order: each is multiplied
with the matrices of its experts, and no token moves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from distir.diagnostics.codes import types as codes
from distir.ir import Dim, Part, Shape, TensorType, dims, types
from distir.ops.activation import log_softmax, logistic
from distir.ops.core import op
from distir.ops.host import Operand, known_dims, known_ints
from distir.ops.layout import Layout, Letters
from distir.ops.numeric import Array, np
from distir.ops.precision import wide
from distir.ops.specs import FIRST_ORDER_ONLY
from distir.ops.unify import Reject

if TYPE_CHECKING:
    from distir.ops.backward import Backward, Gradients
    from distir.ops.torch_form import Expr, Unpacked, Write


SCORES = ("softmax", "sigmoid")

MEANINGLESS = 1e-20
"""Added to the sum of sigmoids, which may all be 0."""


def _route_flops(*, e: int, s: int = 1, **_: Any) -> int:
    """A softmax, and a search for the greatest."""
    return s * e * (5 + e.bit_length())


@op(
    "Tensor[t:float, (*s, e), d], Optional[Tensor[u:float, (e,), d]]"
    " -> Tensor[t, (*s, _), d], Tensor[Int64, (*s, _), d]",
    flops=_route_flops,
    whole=("e",),
)
def Route(
    logits: Array,
    bias: Array | None = None,
    *,
    top_k: int,
    score: str = "softmax",
    normalize: bool = True,
    scale: float = 1.0,
    n_group: int = 1,
    topk_group: int = 1,
    topk_in_group: int = 2,
) -> tuple[Array, Array]:
    """The `top_k` experts of each token, best first, and their weights: the router of a mixture of experts.

    A token's scores are the softmax or the sigmoid (`score`) of its logits. The experts with the greatest sum of score
    and `bias` are chosen; of equal ones, the first. The weights are the scores of the chosen without the bias
    (DeepSeek-V3's balancing without an auxiliary loss), divided by their sum if `normalize`, times `scale`. The softmax
    of the chosen logits alone (Mixtral, gpt-oss, Megatron without `--moe-router-pre-softmax`) is the normalised softmax.

    With `n_group` > 1 experts are chosen from the `topk_group` best groups of neighbouring experts; a group counts by
    the sum of its `topk_in_group` greatest scores, bias included (DeepSeek-V3: 2; DeepSeek-V2: 1).

    Scores are computed in Float32 at least.

    %weights, %experts = Route[top_k = 2](%logits: Tensor[Float32, (3, 4), 1])
    %weights, %experts = Route[top_k = 2, normalize = false](%logits: Tensor[Float32, (2, 3, 4), 1])
    %weights, %experts = Route[top_k = 3, score = "sigmoid", scale = 2.5, n_group = 4, topk_group = 2](%logits: Tensor[Float32, (5, 8), 1], %bias: Tensor[Float32, (8,), 1])
    """  # noqa: E501 - an example is one line
    scores = _scores(wide(logits), score)
    choice = scores if bias is None else scores + wide(bias)
    if n_group > 1:
        groups = choice.reshape(*choice.shape[:-1], n_group, -1)
        best = np.sort(groups, axis=-1)[..., groups.shape[-1] - topk_in_group :].sum(axis=-1)
        among = np.zeros(best.shape, bool)
        np.put_along_axis(among, _greatest(best, topk_group), True, axis=-1)
        choice = np.where(among[..., None], groups, -np.inf).reshape(choice.shape)
    experts = _greatest(choice, top_k)
    weights = _chosen_weights(wide(logits), scores, experts, score, normalize) * scale
    return weights.astype(logits.dtype, copy=False), experts


@Route.shapes
def _(
    logits: TensorType,
    bias: TensorType | None = None,
    *,
    top_k: int,
    score: str,
    n_group: int,
    topk_group: int,
    topk_in_group: int,
    **_: Any,
) -> list[Shape | None]:
    _check_score("Route", score)
    experts = logits.shape[-1] if logits.shape else None
    if experts is None and bias is not None and bias.shape is not None:
        experts = bias.shape[0]
    if n_group < 1:
        raise Reject(codes.BAD_VALUE, f"`Route` expected at least 1 group, found {n_group}", "n_group")
    if not 1 <= topk_group <= n_group:
        message = f"`Route` expected from 1 to {n_group} groups to choose from, found {topk_group}"
        raise Reject(codes.BAD_VALUE, message, "topk_group")
    among = experts
    if isinstance(experts, int):
        if experts % n_group:
            message = f"`Route` expected groups of equal size, found {experts} experts in {n_group} groups"
            raise Reject(codes.BAD_VALUE, message, "n_group")
        among = experts // n_group * topk_group
        if n_group > 1 and not 1 <= topk_in_group <= experts // n_group:
            message = f"`Route` expected from 1 to {experts // n_group} experts to count a group by"
            raise Reject(codes.BAD_VALUE, f"{message}, found {topk_in_group}", "topk_in_group")
    if top_k < 1 or (isinstance(among, int) and top_k > among):
        most = "" if n_group == 1 else f", those of {topk_group} of {n_group} groups"
        message = f"`Route` expected `top_k` from 1 to {'?' if among is None else among} experts{most}, found {top_k}"
        raise Reject(codes.BAD_VALUE, message, "top_k")
    return [None if logits.shape is None else (*logits.shape[:-1], top_k)] * 2


@Route.sharding
def _(logits: TensorType, bias: TensorType | None = None, *, results: Sequence[Shape], **_: Any) -> Layout:
    tokens = _letters_of(logits, 1)
    given: tuple[Letters, ...] = ((*tokens, None),) if bias is None else ((*tokens, None), (None,))
    return Layout(given, ((*tokens, None),) * 2)


@Route.grad
def _(g: Backward) -> Gradients:
    if g.dys[0] is None:
        return [None, None]
    kept = {name: v for name, v in g.statement.attrs.items() if name in ("score", "normalize", "scale")}
    return [g("RouteGrad", g.dy, g.x[0], g.y[1], **kept), None]


@Route.torch(fresh=True)
def _(
    write: Write,
    logits: Expr,
    bias: Expr | None = None,
    *,
    top_k: int,
    score: str,
    normalize: bool,
    scale: float,
    n_group: int,
    topk_group: int,
    topk_in_group: int,
) -> Unpacked:
    chosen = f"{top_k}, {n_group}, {topk_group}, {topk_in_group}"
    given = f"{logits}, {None if bias is None else bias.tensor}, {chosen}, {score!r}, {normalize}"
    return write.unpacked(f"{write.kernel('route')}({given}, {write.number(scale)})")


@op(
    "Tensor[t:float, (*s, k), d], Tensor[t:float, (*s, e), d], Tensor[i:int, (*s, k), d] -> Tensor[t, (*s, e), d]",
    flops=lambda e, s=1, **_: 9 * s * e,
    linear=("dy",),
    whole=("e", "k"),
    non_differentiable=FIRST_ORDER_ONLY,
)
def RouteGrad(
    dy: Array, logits: Array, experts: Array, *, score: str = "softmax", normalize: bool = True, scale: float = 1.0
) -> Array:
    """The gradient of `Route` with respect to the logits, from that of the weights.

    %dlogits = RouteGrad(%dy: Tensor[Float32, (3, 2), 1], %logits: Tensor[Float32, (3, 4), 1], [[0, 1], [3, 1], [2, 0]])
    """
    _check_experts("RouteGrad", experts, logits.shape[-1])
    x, slope = wide(logits), wide(dy) * scale
    scores = _scores(x, score)
    chosen = np.take_along_axis(scores, experts, axis=-1)
    if normalize:
        weights = _chosen_weights(x, scores, experts, score, normalize)
        slope = slope - np.sum(slope * weights, axis=-1, keepdims=True)
        slope = slope * weights if score == "softmax" else slope / (np.sum(chosen, -1, keepdims=True) + MEANINGLESS)
    result = np.zeros_like(scores)
    np.put_along_axis(result, experts, slope, axis=-1)
    if score == "sigmoid":
        result = result * scores * (1 - scores)
    elif not normalize:
        result = scores * (result - np.sum(result * scores, axis=-1, keepdims=True))
    return result.astype(logits.dtype, copy=False)


@RouteGrad.checks
def _(dy: TensorType, logits: TensorType, experts: TensorType, *, score: str, **_: Any) -> None:
    _check_score("RouteGrad", score)


@RouteGrad.torch(fresh=True)
def _(write: Write, dy: Expr, logits: Expr, experts: Expr, *, score: str, normalize: bool, scale: float) -> str:
    given = f"{dy}, {logits}, {experts.tensor}, {score!r}, {normalize}, {write.number(scale)}"
    return f"{write.kernel('route_gradient')}({given})"


def _softmax(x: Array) -> Array:
    return np.exp(log_softmax(x, -1))


def _scores(x: Array, score: str) -> Array:
    return _softmax(x) if score == "softmax" else logistic(x)


def _chosen_weights(x: Array, scores: Array, experts: Array, score: str, normalize: bool) -> Array:
    """The weights of the chosen experts, before they are scaled."""
    if normalize and score == "softmax":
        return _softmax(np.take_along_axis(x, experts, axis=-1))
    chosen = np.take_along_axis(scores, experts, axis=-1)
    return chosen / (np.sum(chosen, axis=-1, keepdims=True) + MEANINGLESS) if normalize else chosen


def _greatest(x: Array, count: int) -> Array:
    """The indices of the greatest elements along the last axis, in order; of equal ones, the first."""
    return np.argsort(-x, axis=-1, kind="stable")[..., :count]


def _check_score(name: str, score: str) -> None:
    if score not in SCORES:
        raise Reject(codes.BAD_VALUE, f'`{name}` expected "softmax" or "sigmoid", found "{score}"', "score")


def _check_experts(name: str, experts: Array, count: int) -> None:
    if experts.size and not (experts.min() >= 0 and experts.max() < count):
        message = f"`{name}` expected experts from 0 to {count - 1}, found {experts.min()} to {experts.max()}"
        raise Reject(codes.BAD_VALUE, message, "experts")


@op(
    "Tensor[i:int, (*g, n, k), d] -> Tensor[Int64, (*g, n, k), d], Tensor[Int64, (*g, _), d]",
    flops=2,
    whole=("n", "k"),
)
def Dispatch(experts: Array, *, num_experts: int, capacity: int | None = None) -> tuple[Array, Array]:
    """The order of tokens by expert: the row of each choice of each token, and how many choices each expert has.

    `experts` is (…, tokens, choices), from 0 to `num_experts` - 1. Rows are counted in each group (the dimensions
    before) by expert, and for one expert in token order. `Permute` moves the tokens there, `Unpermute` back.

    With a `capacity`, the rows of expert e begin at e * `capacity`, and the choices beyond it, in token order, are
    dropped: their row is -1. The counts include them.

    %places, %counts = Dispatch[num_experts = 4](%experts: Tensor[Int64, (2, 3, 2), 1])
    %places, %counts = Dispatch[num_experts = 4, capacity = 2](%experts: Tensor[Int64, (3, 2), 1])
    """
    _check_experts("Dispatch", experts, num_experts)
    *outer, n, k = experts.shape
    flat = experts.reshape(-1, n * k).astype(np.int64)
    places = np.argsort(np.argsort(flat, axis=1, kind="stable"), axis=1)
    counts = np.zeros((len(flat), num_experts), np.int64)
    np.add.at(counts, (np.arange(len(flat))[:, None], flat), 1)
    if capacity is not None:
        first = np.cumsum(counts, axis=1) - counts
        at = places - np.take_along_axis(first, flat, axis=1)
        places = np.where(at < capacity, flat * capacity + at, -1)
    return places.reshape(experts.shape), counts.reshape(*outer, num_experts)


@Dispatch.shapes
def _(experts: TensorType, *, num_experts: int, capacity: int | None = None) -> list[Shape | None]:
    if num_experts < 1:
        raise Reject(codes.BAD_VALUE, f"`Dispatch` expected at least 1 expert, found {num_experts}", "num_experts")
    if capacity is not None and capacity < 1:
        raise Reject(codes.BAD_VALUE, f"`Dispatch` expected a capacity of at least 1, found {capacity}", "capacity")
    shape = experts.shape
    return [shape, None if shape is None else (*shape[:-2], num_experts)]


@Dispatch.sharding
def _(experts: TensorType, *, results: Sequence[Shape], **_: Any) -> Layout:
    groups = _letters_of(experts, 2)
    return Layout(((*groups, None, None),), ((*groups, None, None), (*groups, None)))


@Dispatch.grad
def _(g: Backward) -> Gradients:
    return [None]


@Dispatch.torch(fresh=True)
def _(write: Write, experts: Expr, *, num_experts: int, capacity: int | None = None) -> Unpacked:
    return write.unpacked(f"{write.kernel('dispatch')}({experts.tensor}, {num_experts}, {capacity})")


@op(
    "Tensor[t:float, (*g, n, h), d], Tensor[i:int, (*g, n, k), d], Optional[Tensor[u:float, (*g, n, k), d]],"
    " Optional[Tensor[Int64, (), host]] -> Tensor[t, (*g, _, h), d]",
    flops=lambda elements, u=0, **_: elements if u else 0,
    linear=("x", "weights"),
)
def Permute(x: Array, places: Array, weights: Array | None = None, rows: Array | None = None) -> Array:
    """The tokens at their rows in the order by expert, each once for each choice, times its weight if there are any.

    `places` are those of `Dispatch`; -1 is left out. There are as many `rows` in each group as choices, by default;
    with a capacity, there are experts * capacity, and empty ones are 0. Rows in one place are added up: this is the
    transposition of `Unpermute`.

    %rows = Permute(%x: Tensor[Float32, (2, 3, 4), 1], %places: Tensor[Int64, (2, 3, 2), 1])
    %rows = Permute[rows = 8](%x: Tensor[Float32, (3, 4), 1], [[0, 2], [1, 4], [3, -1]], %weights: Tensor[Float32, (3, 2), 1])
    """  # noqa: E501 - an example is one line
    *outer, n, k = places.shape
    count, width = n * k if rows is None else int(rows), x.shape[-1]
    _check_places("Permute", places, count)
    each = np.broadcast_to(wide(x)[..., None, :], (*outer, n, k, width))
    if weights is not None:
        each = each * wide(weights)[..., None]
    result = np.zeros((math.prod(outer), count + 1, width), each.dtype)  # the last one takes what is left out
    groups = np.arange(math.prod(outer))[:, None]
    np.add.at(result, (groups, places.reshape(-1, n * k)), each.reshape(-1, n * k, width))
    return result[:, :count].reshape(*outer, count, width).astype(x.dtype, copy=False)


@Permute.shapes
def _(
    x: TensorType, places: TensorType, weights: TensorType | None = None, rows: Operand | None = None
) -> Shape | None:
    stated = None if rows is None else _stated_rows("Permute", rows)
    if x.shape is None or places.shape is None:
        return None
    choices = dims.multiply(places.shape[-2], places.shape[-1])
    return (*x.shape[:-2], choices if rows is None else stated, x.shape[-1])


@Permute.sharding
def _(x: TensorType, places: TensorType, *others: Operand | None, results: Sequence[Shape]) -> Layout:
    groups = _letters_of(x, 2)
    choices: Letters = (*groups, None, None)
    given = [choices if k == 0 and other is not None else () for k, other in enumerate(others)]
    return Layout(((*groups, None, "h"), choices, *given), ((*groups, None, "h"),))


@Permute.grad
def _(g: Backward) -> Gradients:
    x, places, weights, _ = g.x
    dx = g("Unpermute", g.dy, places, weights) if g.wants(0) else None
    return [dx, None, g("UnpermuteGrad", x, g.dy, places, weights) if g.wants(2) else None]


@Permute.torch(fresh=True)
def _(write: Write, x: Expr, places: Expr, weights: Expr | None = None, rows: Expr | None = None) -> str:
    *_, count, _ = write.results[0].shape or (0, 0)
    given = f"{x}, {places.tensor}, {None if weights is None else weights.tensor}"
    return f"{write.kernel('permute')}({given}, {count})"


@op(
    "Tensor[t:float, (*g, r, h), d], Tensor[i:int, (*g, n, k), d], Optional[Tensor[u:float, (*g, n, k), d]]"
    " -> Tensor[t, (*g, n, h), d]",
    flops=lambda n, k, h, u=0, g=1, **_: (2 if u else 1) * g * n * k * h,
    bytes=lambda t, i, n, k, h, u=0, g=1, **_: g * n * (t * (k + 1) * h + k * (i + u)),
    linear=("rows", "weights"),
    whole=("r", "k"),
)
def Unpermute(rows: Array, places: Array, weights: Array | None = None) -> Array:
    """The sum of each token's rows, times their weights if there are any: back from the order by expert to that of tokens.

    `places` are those of `Dispatch`, -1 adds nothing; `weights` those of `Route`. The sum is that of Float32 at least.

    %y = Unpermute(%rows: Tensor[Float32, (2, 6, 4), 1], %places: Tensor[Int64, (2, 3, 2), 1], %weights: Tensor[Float32, (2, 3, 2), 1])
    %y = Unpermute(%rows: Tensor[Float32, (6, 4), 1], [[0, 2], [1, 5], [3, -1]])
    """  # noqa: E501 - an example is one line
    each = wide(_rows_of("Unpermute", rows, places))
    total = np.sum(each if weights is None else each * wide(weights)[..., None], axis=-2, dtype=each.dtype)
    return total.astype(rows.dtype, copy=False)


@Unpermute.grad
def _(g: Backward) -> Gradients:
    rows, places, weights = g.x
    dropless = g.known_shape(rows)[-2] == dims.multiply(*g.known_shape(places)[-2:])
    count = None if dropless else g.size_along(rows, g.rank(rows) - 2)
    drows = g("Permute", g.dy, places, weights, count) if g.wants(0) else None
    return [drows, None, g("UnpermuteGrad", g.dy, rows, places, weights) if g.wants(2) else None]


@Unpermute.torch(fresh=True)
def _(write: Write, rows: Expr, places: Expr, weights: Expr | None = None) -> str:
    return f"{write.kernel('unpermute')}({rows}, {places.tensor}, {None if weights is None else weights.tensor})"


@op(
    "Tensor[t:float, (*g, n, h), d], Tensor[t:float, (*g, r, h), d], Tensor[i:int, (*g, n, k), d],"
    " Tensor[u:float, (*g, n, k), d] -> Tensor[u, (*g, n, k), d]",
    flops=lambda n, k, h, g=1, **_: 2 * g * n * k * h,
    bytes=lambda t, i, u, n, k, h, g=1, **_: g * n * (t * (k + 1) * h + k * (i + u)),
    linear=("dy", "rows"),
    whole=("r", "k"),
    non_differentiable=FIRST_ORDER_ONLY,
)
def UnpermuteGrad(dy: Array, rows: Array, places: Array, weights: Array) -> Array:
    """The gradient of `Unpermute` with respect to the weights: the products of each token's `dy` with its rows.

    It has the element type of the weights, which are not read.

    %dw = UnpermuteGrad(%dy: Tensor[Float32, (3, 4), 1], %rows: Tensor[Float32, (6, 4), 1], [[0, 2], [1, 5], [3, -1]], %w: Tensor[Float32, (3, 2), 1])
    """  # noqa: E501 - an example is one line
    each = wide(_rows_of("UnpermuteGrad", rows, places))
    return np.sum(each * wide(dy)[..., None, :], axis=-1, dtype=each.dtype).astype(weights.dtype, copy=False)


@UnpermuteGrad.torch(fresh=True)
def _(write: Write, dy: Expr, rows: Expr, places: Expr, weights: Expr) -> str:
    form = f"{write.kernel('unpermute_gradient')}({dy}, {rows}, {places.tensor})"
    return f"{form}.to({write.dtype(weights.dtype)})"


def _rows_of(name: str, rows: Array, places: Array) -> Array:
    """The rows of each choice of each token, zeros for -1."""
    *outer, n, k = places.shape
    _check_places(name, places, rows.shape[-2])
    found = np.take_along_axis(rows, np.maximum(places, 0).reshape(*outer, n * k, 1), axis=-2) if rows.size else None
    if found is None:
        return np.zeros((*places.shape, rows.shape[-1]), rows.dtype)
    return np.where(places[..., None] < 0, np.zeros((), rows.dtype), found.reshape(*places.shape, rows.shape[-1]))


def _check_places(name: str, places: Array, rows: int) -> None:
    if places.size and not (places.min() >= -1 and places.max() < rows):
        message = f"`{name}` expected rows from -1 to {rows - 1}, found {places.min()} to {places.max()}"
        raise Reject(codes.BAD_VALUE, message, "places")


def _touched(rows: float, e: int, top_k: int) -> float:
    """The expected number of experts that have rows, if each token chooses `top_k` of them evenly."""
    return e * (1 - (1 - min(top_k / e, 1)) ** (rows / top_k)) if e else 0


def _ragged_flops(*, n: int, k: int, elements: int, load: float, **_: Any) -> int:
    return round(load * 2 * k * elements)


def _ragged_bytes(
    *,
    t: int,
    e: int,
    r: int,
    s: int,
    n: int,
    k: int,
    elements: int,
    load: float,
    top_k: int,
    g: int = 1,
    i: int = 0,
    **_: Any,
) -> int:
    rows = load * g * n
    matrices = _touched(rows, e, top_k) if i else e
    return round(t * (rows * k + load * elements + matrices * r * s)) + i * g * e


@op(
    "Tensor[t:float, (*g, n, k), d], Tensor[t:float, (e, r, s), d], Optional[Tensor[i:int, (*g, e), d]]"
    " -> Tensor[t, (*g, n, _), d]",
    flops=_ragged_flops,
    bytes=_ragged_bytes,
    linear=("x", "w"),
)
def RaggedMatMul(
    x: Array, w: Array, counts: Array | None = None, *, transW: bool = False, load: float = 1.0, top_k: int = 1
) -> Array:
    """Rows that are sorted by expert, times the matrices of their experts, transposed if `transW`.

    In each group the first `counts[0]` rows of `x` are multiplied with `w[0]`, the next `counts[1]` with `w[1]`, and so
    on; rows after them give 0. Without `counts` each expert has equally many rows (a capacity). It is `grouped_mm` of
    torch, `ragged_dot` of JAX, Megatron's grouped GEMM.

    Two attributes concern the work alone. `load` is the number of rows that a run multiplies, over those of `x`: 1.3 on
    a device whose experts get 1.3 times the mean, less than 1 where a static bound leaves rows empty. FLOPs and the
    traffic of rows are multiplied by it. `top_k` says how many rows are of one token, and so of different experts. Of E
    experts, R rows read the weights of E * (1 - (1 - top_k / E) ** (R / top_k)), which is all of them for many rows.

    %y = RaggedMatMul(%x: Tensor[Float32, (6, 5), 1], %w: Tensor[Float32, (4, 5, 3), 1], [2, 0, 3, 1])
    %y = RaggedMatMul[transW = true](%x: Tensor[Float32, (2, 4, 5), 1], %w: Tensor[Float32, (3, 6, 5), 1], %counts: Tensor[Int64, (2, 3), 1])
    %y = RaggedMatMul(%x: Tensor[Float32, (2, 6, 5), 1], %w: Tensor[Float32, (3, 5, 4), 1])
    """  # noqa: E501 - an example is one line
    matrices = wide(w).swapaxes(1, 2) if transW else wide(w)
    rows, result = wide(x), np.zeros((*x.shape[:-1], matrices.shape[2]), matrices.dtype)
    counts = _even(x, len(w)) if counts is None else counts
    for expert, own in _of_experts("RaggedMatMul", counts, x.shape[-2]):
        result[own] = rows[own] @ matrices[expert]
    return result.astype(x.dtype, copy=False)


@RaggedMatMul.shapes
def _(
    x: TensorType, w: TensorType, counts: TensorType | None = None, *, transW: bool, load: float, top_k: int
) -> Shape | None:
    _check_load("RaggedMatMul", load, top_k)
    e, r, s = w.shape or (None, None, None)
    if counts is None:
        _check_even("RaggedMatMul", x, e)
    k, m = (s, r) if transW else (r, s)
    found = x.shape[-1] if x.shape else None
    if found is not None and k is not None and found != k:
        note = (Part("operand", 0), f"`k` is {found} here")
        message = f"`RaggedMatMul` operands disagree on dimension `k`: expected {found}, found {k}"
        raise Reject(codes.SHAPE_MISMATCH, message, "w", (note,))
    return None if x.shape is None else (*x.shape[:-1], m)


@RaggedMatMul.sharding
def _(
    x: TensorType, w: TensorType, counts: TensorType | None = None, *, results: Sequence[Shape], transW: bool, **_: Any
) -> Layout:
    matrix: Letters = (None, "m", "k") if transW else (None, "k", "m")
    groups = _letters_of(x, 2)
    given: tuple[Letters, ...] = ((*groups, None, "k"), matrix, (*groups, None))
    return Layout(given[: 2 if counts is None else 3], ((*groups, None, "m"),))


@RaggedMatMul.grad
def _(g: Backward) -> Gradients:
    x, w, counts = g.definite(0), g.definite(1), g.definite(2)
    other = {name: value for name, value in g.statement.attrs.items() if name != "transW"}
    if not g.attrs["transW"]:
        other["transW"] = True
    dx = g("RaggedMatMul", g.dy, w, counts, **other) if g.wants(0) else None
    experts = g.size_along(w, 0) if counts is None and g.wants(1) else None
    dw = g("RaggedMatMulGrad", g.dy, x, counts, experts, **g.statement.attrs) if g.wants(1) else None
    return [dx, dw, None]


@RaggedMatMul.torch(fresh=True)
def _(write: Write, x: Expr, w: Expr, counts: Expr | None = None, *, transW: bool, load: float, top_k: int) -> str:
    matrices = f"{w}.transpose(1, 2)" if transW else str(w)
    given = None if counts is None else counts.tensor
    return f"{write.kernel('ragged_product')}({x}, {matrices}, {given})"


def _ragged_gradient_flops(*, n: int, m: int, k: int, load: float, g: int = 1, **_: Any) -> int:
    return round(load * 2 * g * n * m * k)


def _ragged_gradient_bytes(
    *, t: int, n: int, m: int, k: int, load: float, elements: int, g: int = 1, e: int = 0, i: int = 0, **_: Any
) -> int:
    return round(load * t * g * n * (m + k)) + t * elements + i * g * e


@op(
    "Tensor[t:float, (*g, n, m), d], Tensor[t:float, (*g, n, k), d], Optional[Tensor[i:int, (*g, e), d]],"
    " Optional[Tensor[Int64, (), host]] -> Tensor[t, (_, _, _), d]",
    flops=_ragged_gradient_flops,
    bytes=_ragged_gradient_bytes,
    linear=("dy", "x"),
    non_differentiable=FIRST_ORDER_ONLY,
)
def RaggedMatMulGrad(
    dy: Array,
    x: Array,
    counts: Array | None = None,
    experts: Array | None = None,
    *,
    transW: bool = False,
    load: float = 1.0,
    top_k: int = 1,
) -> Array:
    """The gradient of `RaggedMatMul` with respect to `w`. The gradients of all experts are written.

    Without `counts`, each of `experts` has equally many rows.

    %dw = RaggedMatMulGrad(%dy: Tensor[Float32, (6, 3), 1], %x: Tensor[Float32, (6, 5), 1], [2, 0, 3, 1])
    %dw = RaggedMatMulGrad[experts = 3](%dy: Tensor[Float32, (2, 6, 3), 1], %x: Tensor[Float32, (2, 6, 5), 1])
    """
    left, right = (wide(dy), wide(x)) if transW else (wide(x), wide(dy))
    counts = _even(x, 1 if experts is None else int(experts)) if counts is None else counts
    result = np.zeros((counts.shape[-1], left.shape[-1], right.shape[-1]), left.dtype)
    for expert, own in _of_experts("RaggedMatMulGrad", counts, x.shape[-2]):
        result[expert] += left[own].T @ right[own]
    return result.astype(dy.dtype, copy=False)


@RaggedMatMulGrad.shapes
def _(
    dy: TensorType,
    x: TensorType,
    counts: TensorType | None = None,
    experts: Operand | None = None,
    *,
    transW: bool,
    load: float,
    top_k: int,
) -> Shape:
    _check_load("RaggedMatMulGrad", load, top_k)
    if (counts is None) == (experts is None):
        message = "`RaggedMatMulGrad` expected either `counts` or `experts`, found "
        raise Reject(codes.BAD_VALUE, message + ("neither" if counts is None else "both"), Part("callee"))
    (stated,) = known_dims(experts) or (None,)
    if counts is None:
        _check_even("RaggedMatMulGrad", x, stated)
    elif counts.shape:
        stated = counts.shape[-1]
    m, k = (operand.shape[-1] if operand.shape else None for operand in (dy, x))
    return (stated, *((m, k) if transW else (k, m)))


@RaggedMatMulGrad.sharding
def _(
    dy: TensorType,
    x: TensorType,
    counts: TensorType | None = None,
    experts: Operand | None = None,
    *,
    results: Sequence[Shape],
    transW: bool,
    **_: Any,
) -> Layout:
    matrix: Letters = (None, "m", "k") if transW else (None, "k", "m")
    groups = _letters_of(x, 2)
    others: tuple[Letters, ...] = ((*groups, None),) if experts is None else ((), ())
    return Layout(((*groups, None, "m"), (*groups, None, "k"), *others), (matrix,))


@RaggedMatMulGrad.torch(fresh=True)
def _(
    write: Write,
    dy: Expr,
    x: Expr,
    counts: Expr | None = None,
    experts: Expr | None = None,
    *,
    transW: bool,
    load: float,
    top_k: int,
) -> str:
    left, right = (dy, x) if transW else (x, dy)
    count, *_ = write.results[0].shape or (0,)
    given = None if counts is None else counts.tensor
    return f"{write.kernel('ragged_outer_product')}({left}, {right}, {given}, {count})"


@op(
    "Tensor[t:float, (e, h), d], Tensor[i:int, (*g, e), d], Tensor[Int64, (), host] -> Tensor[t, (*g, _, h), d]",
    flops=0,
    bytes=lambda t, i, elements, e, g=1, **_: 2 * t * elements + i * g * e,
    linear=("x",),
    whole=("e",),
)
def RaggedExpand(x: Array, counts: Array, rows: Array) -> Array:
    """The row of each expert, for each of the rows that are sorted by expert: what is added as the experts' biases.

    In each group there are `counts[e]` times `x[e]`, and zeros up to `rows`. torch's `repeat_interleave`.

    %y = RaggedExpand(%bias: Tensor[Float32, (4, 5), 1], [2, 0, 3, 1], 6)
    %y = RaggedExpand(%bias: Tensor[Float32, (3, 5), 1], %counts: Tensor[Int64, (2, 3), 1], 4)
    """
    result = np.zeros((*counts.shape[:-1], int(rows), x.shape[-1]), x.dtype)
    for expert, own in _of_experts("RaggedExpand", counts, int(rows)):
        result[own] = x[expert]
    return result


@RaggedExpand.shapes
def _(x: TensorType, counts: TensorType, rows: Operand) -> Shape | None:
    stated, width = _stated_rows("RaggedExpand", rows), x.shape[-1] if x.shape else None
    return None if counts.shape is None else (*counts.shape[:-1], stated, width)


@RaggedExpand.grad
def _(g: Backward) -> Gradients:
    return [g("RaggedSum", g.dy, g.definite(1)), None, None]


@RaggedExpand.torch(fresh=True)
def _(write: Write, x: Expr, counts: Expr, rows: Expr) -> str:
    *_, count, _ = write.results[0].shape or (0, 0)
    return f"{write.kernel('ragged_expand')}({x.tensor}, {counts.tensor}, {count})"


@op(
    "Tensor[t:float, (*g, n, h), d], Tensor[i:int, (*g, e), d] -> Tensor[t, (e, h), d]",
    flops=lambda inputs, **_: inputs,
    linear=("x",),
    whole=("n", "e"),
)
def RaggedSum(x: Array, counts: Array) -> Array:
    """The sum of each expert's rows, over all groups: the transposition of `RaggedExpand`.

    %y = RaggedSum(%x: Tensor[Float32, (6, 5), 1], [2, 0, 3, 1])
    %y = RaggedSum(%x: Tensor[Float32, (2, 4, 5), 1], %counts: Tensor[Int64, (2, 3), 1])
    """
    total = np.zeros((counts.shape[-1], x.shape[-1]), wide(x).dtype)
    for expert, own in _of_experts("RaggedSum", counts, x.shape[-2]):
        total[expert] += np.sum(wide(x[own]), axis=0)
    return total.astype(x.dtype, copy=False)


@RaggedSum.grad
def _(g: Backward) -> Gradients:
    x = g.x[0]
    return [g("RaggedExpand", g.dy, g.definite(1), g.size_along(x, g.rank(x) - 2)), None]


@RaggedSum.torch(fresh=True)
def _(write: Write, x: Expr, counts: Expr) -> str:
    return f"{write.kernel('ragged_sum')}({x}, {counts.tensor})"


def _of_experts(name: str, counts: Array, rows: int) -> Iterator[tuple[int, tuple[int | slice, ...]]]:
    """Each expert of each group that has rows, and where they are."""
    last = np.cumsum(counts, axis=-1)
    if counts.size and (counts.min() < 0 or last.max() > rows):
        message = f"`{name}` expected counts whose sum is at most {rows} rows, found {last[..., -1].max()}"
        raise Reject(codes.BAD_VALUE, message, "counts")
    for place in zip(*np.nonzero(counts), strict=True):
        *group, expert = map(int, place)
        end = int(last[place])
        yield expert, (*group, slice(end - int(counts[place]), end))


def _stated_rows(name: str, rows: Operand) -> Dim:
    """The number of rows in a host operand; None if unknown."""
    (count,) = known_dims(rows) or (None,)
    if isinstance(count, int) and count < 0:
        raise Reject(codes.BAD_VALUE, f"`{name}` expected a number of rows from 0, found {count}", "rows")
    return count


def _even(x: Array, experts: int) -> Array:
    """The counts where each expert has equally many rows."""
    return np.full((*x.shape[:-2], experts), x.shape[-2] // max(experts, 1))


def _check_even(name: str, x: TensorType, experts: Dim) -> None:
    rows = x.shape[-2] if x.shape else None
    if isinstance(experts, int) and experts < 1:
        raise Reject(codes.BAD_VALUE, f"`{name}` expected at least 1 expert, found {experts}", Part("callee"))
    if isinstance(rows, int) and isinstance(experts, int) and rows % experts:
        message = f"`{name}` without `counts` expected equally many rows for each of {experts} experts, found {rows}"
        raise Reject(codes.SHAPE_MISMATCH, message, "x", help="give the number of rows of each expert as `counts`")


def _check_load(name: str, load: float, top_k: int) -> None:
    if not 0 < load < math.inf:
        raise Reject(codes.BAD_VALUE, f"`{name}` expected a load above 0, found {load}", "load")
    if top_k < 1:
        raise Reject(codes.BAD_VALUE, f"`{name}` expected at least 1 row for a token, found {top_k}", "top_k")


def _letters_of(operand: TensorType, last: int) -> tuple[str, ...]:
    """A letter for each dimension but the last ones."""
    return tuple(f"g{axis}" for axis in range(len(operand.shape or ()) - last))


def _grouped_bytes(
    *, t: int, i: int, n: int, c: int, e: int, r: int, s: int, inputs: int, elements: int, **_: Any
) -> int:
    rows = inputs - e * r * s - n * c
    return t * (rows + elements + min(n * c, e) * r * s) + i * n * c


@op(
    "Tensor[t:float, (n, k), d], Tensor[t:float, (e, r, s), d], Tensor[i:int, (n, c), d] -> Tensor[t, _, d]",
    "Tensor[t:float, (n, c, k), d], Tensor[t:float, (e, r, s), d], Tensor[i:int, (n, c), d] -> Tensor[t, _, d]",
    flops=lambda k, elements, **_: 2 * k * elements,
    bytes=_grouped_bytes,
    linear=("x", "w"),
)
def GroupedMatMul(x: Array, w: Array, group: Array, *, transW: bool = False) -> Array:
    """Each row of `x` times the matrices of `w` that `group` names for it, transposed if `transW`.

    The result at [i, j] is `x[i] @ w[group[i, j]]`, or `x[i, j] @ w[group[i, j]]` where `x` has a row for each. Groups
    can be empty.

    %y = GroupedMatMul(%x: Tensor[Float32, (3, 5), 1], %w: Tensor[Float32, (4, 5, 6), 1], [[0, 1], [1, 3], [0, 1]])
    %y = GroupedMatMul[transW = true](%x: Tensor[Float32, (3, 2, 5), 1], %w: Tensor[Float32, (4, 6, 5), 1], [[0, 1], [1, 3], [0, 1]])
    """  # noqa: E501
    _check_groups("GroupedMatMul", group, len(w))
    matrices = wide(w).swapaxes(1, 2) if transW else wide(w)
    rows = _row_for_each(wide(x), group)
    result = np.zeros((*group.shape, matrices.shape[2]), matrices.dtype)
    for expert, matrix in enumerate(matrices):
        own = group == expert
        result[own] = rows[own] @ matrix
    return result.astype(x.dtype, copy=False)


@GroupedMatMul.shapes
def _(x: TensorType, w: TensorType, group: TensorType, *, transW: bool) -> Shape:
    k = x.shape[-1] if x.shape else None
    n, c = group.shape or (None, None)
    _, r, s = w.shape or (None, None, None)
    k_w, m = (s, r) if transW else (r, s)
    if k is not None and k_w is not None and k != k_w:
        note = (Part("operand", 0), f"`k` is {k} here")
        message = f"`GroupedMatMul` operands disagree on dimension `k`: expected {k}, found {k_w}"
        raise Reject(codes.SHAPE_MISMATCH, message, "w", (note,))
    return (n, c, m)


@GroupedMatMul.sharding
def _(x: TensorType, w: TensorType, group: TensorType, *, results: Sequence[Shape], transW: bool) -> Layout:
    matrix: Letters = (None, "m", "k") if transW else (None, "k", "m")
    return Layout((_letters(x, "k"), matrix, ("n", "c")), (("n", "c", "m"),))


@GroupedMatMul.grad
def _(g: Backward) -> Gradients:
    x, w, group = g.definite(0), g.definite(1), g.definite(2)
    flip = {} if g.attrs["transW"] else {"transW": True}
    dx = g("GroupedMatMul", g.dy, w, group, **flip) if g.wants(0) else None
    if dx is not None and g.rank(x) == 2:
        dx = g("ReduceSum", dx, (1,), keepdims=False)
    flip = {"transW": True} if g.attrs["transW"] else {}
    dw = g("GroupedMatMulGrad", g.dy, x, group, g.shape_of(w), **flip) if g.wants(1) else None
    return [dx, dw, None]


@GroupedMatMul.torch(fresh=True)
def _(write: Write, x: Expr, w: Expr, group: Expr, *, transW: bool) -> str:
    matrices = f"{w}.transpose(1, 2)" if transW else str(w)
    return f"{write.kernel('grouped_product')}({x}, {matrices}, {group.tensor})"


@op(
    "Tensor[t:float, (n, c, m), d], Tensor[t:float, (n, k), d], Tensor[i:int, (n, c), d], Tensor[Int64, (r,), host]"
    " -> Tensor[t, _, d]",
    "Tensor[t:float, (n, c, m), d], Tensor[t:float, (n, c, k), d], Tensor[i:int, (n, c), d],"
    " Tensor[Int64, (r,), host] -> Tensor[t, _, d]",
    flops=lambda n, c, m, k, **_: 2 * n * c * m * k,
    linear=("dy", "x"),
    non_differentiable=FIRST_ORDER_ONLY,
)
def GroupedMatMulGrad(dy: Array, x: Array, group: Array, shape: Array, *, transW: bool = False) -> Array:
    """The gradient of `GroupedMatMul` with respect to `w`, which has this `shape`.

    %dw = GroupedMatMulGrad(%dy: Tensor[Float32, (3, 2, 6), 1], %x: Tensor[Float32, (3, 5), 1], [[0, 1], [1, 3], [0, 1]], [4, 5, 6])
    """  # noqa: E501
    experts = int(shape[0])
    _check_groups("GroupedMatMulGrad", group, experts)
    rows = _row_for_each(wide(x), group)
    left, right = (wide(dy), rows) if transW else (rows, wide(dy))
    result = np.zeros((experts, left.shape[-1], right.shape[-1]), left.dtype)
    for expert in range(experts):
        own = group == expert
        result[expert] = left[own].T @ right[own]
    return result.astype(dy.dtype, copy=False)


@GroupedMatMulGrad.shapes
def _(dy: TensorType, x: TensorType, group: TensorType, shape: Operand, *, transW: bool) -> Shape:
    m, k = (operand.shape[-1] if operand.shape else None for operand in (dy, x))
    own = (m, k) if transW else (k, m)
    sizes = known_ints(shape)
    if sizes is None:
        return (None, *own)
    matrix = zip(sizes[1:], own, strict=False)
    if len(sizes) != 3 or any(isinstance(found, int) and found != stated for stated, found in matrix):
        message = f"`GroupedMatMulGrad` expected the shape {types.show_shape((None, *own))}"
        raise Reject(codes.SHAPE_MISMATCH, f"{message}, found {types.show_shape(sizes)}", "shape")
    return (sizes[0], *own)


@GroupedMatMulGrad.sharding
def _(
    dy: TensorType, x: TensorType, group: TensorType, shape: Operand, *, results: Sequence[Shape], transW: bool
) -> Layout:
    matrix: Letters = (None, "m", "k") if transW else (None, "k", "m")
    return Layout((("n", "c", "m"), _letters(x, "k"), ("n", "c"), ()), (matrix,), stated=3)


@GroupedMatMulGrad.torch(fresh=True)
def _(write: Write, dy: Expr, x: Expr, group: Expr, shape: Expr, *, transW: bool) -> str:
    left, right = (dy, x) if transW else (x, dy)
    experts, *_ = write.results[0].shape or (0,)
    return f"{write.kernel('grouped_outer_product')}({left}, {right}, {group.tensor}, {experts})"


def _letters(x: TensorType, width: str) -> Letters:
    return ("n", width) if len(x.shape or ()) == 2 else ("n", "c", width)


def _row_for_each(x: Array, group: Array) -> Array:
    """The rows as (n, c, k): one for each matrix to multiply with."""
    return x if x.ndim == 3 else np.broadcast_to(x[:, None], (*group.shape, x.shape[-1]))


def _check_groups(op: str, group: Array, experts: int) -> None:
    if group.size and not (group.min() >= 0 and group.max() < experts):
        message = f"`{op}` expected groups from 0 to {experts - 1}, found {group.min()} to {group.max()}"
        raise Reject(codes.BAD_VALUE, message, "group")
