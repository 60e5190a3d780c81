"""The router: the experts of each token, and their weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from distir.diagnostics.codes import types as codes
from distir.ir import Shape, TensorType
from distir.ops.activation import log_softmax, logistic
from distir.ops.core import op
from distir.ops.experts.operands import check_experts, letters_of
from distir.ops.layout import Layout, Letters
from distir.ops.numeric import Array, np
from distir.ops.precision import wide
from distir.ops.specs import FIRST_ORDER_ONLY
from distir.ops.unify import Reject

if TYPE_CHECKING:
    from distir.ops.backward import Backward, Gradients
    from distir.ops.torch_form import Expr, Unpacked, Write


SCORES = ("softmax", "sigmoid")

GRADED = ("score", "normalize", "scale", "epsilon")
"""The attributes that say what the weights of the chosen experts are."""


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
    epsilon: float = 1e-20,
) -> tuple[Array, Array]:
    """The `top_k` experts of each token, best first, and their weights: the router of a mixture of experts.

    A token's scores are the softmax or the sigmoid (`score`) of its logits. The experts with the greatest sum of score
    and `bias` are chosen; of equal ones, the first. The weights are the scores of the chosen without the bias
    (DeepSeek-V3's balancing without an auxiliary loss), divided by their sum if `normalize`, times `scale`. The softmax
    of the chosen logits alone (Mixtral, gpt-oss, Megatron without `--moe-router-pre-softmax`) is the normalised softmax.
    Sigmoids may all be 0: `epsilon` is added to their sum.

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
    weights = _chosen_weights(wide(logits), scores, experts, score, normalize, epsilon) * scale
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
    tokens = letters_of(logits, 1)
    given: tuple[Letters, ...] = ((*tokens, None),) if bias is None else ((*tokens, None), (None,))
    return Layout(given, ((*tokens, None),) * 2)


@Route.grad
def _(g: Backward) -> Gradients:
    if g.dys[0] is None:
        return [None, None]
    kept = {name: v for name, v in g.statement.attrs.items() if name in GRADED}
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
    epsilon: float,
) -> Unpacked:
    chosen = f"{top_k}, {n_group}, {topk_group}, {topk_in_group}"
    given = f"{logits}, {None if bias is None else bias.tensor}, {chosen}, {score!r}, {normalize}"
    return write.unpacked(f"{write.kernel('route')}({given}, {write.number(scale)}, {write.number(epsilon)})")


@op(
    "Tensor[t:float, (*s, k), d], Tensor[t:float, (*s, e), d], Tensor[i:int, (*s, k), d] -> Tensor[t, (*s, e), d]",
    flops=lambda e, s=1, **_: 9 * s * e,
    linear=("dy",),
    whole=("e", "k"),
    non_differentiable=FIRST_ORDER_ONLY,
)
def RouteGrad(
    dy: Array,
    logits: Array,
    experts: Array,
    *,
    score: str = "softmax",
    normalize: bool = True,
    scale: float = 1.0,
    epsilon: float = 1e-20,
) -> Array:
    """The gradient of `Route` with respect to the logits, from that of the weights.

    %dlogits = RouteGrad(%dy: Tensor[Float32, (3, 2), 1], %logits: Tensor[Float32, (3, 4), 1], [[0, 1], [3, 1], [2, 0]])
    """
    check_experts("RouteGrad", experts, logits.shape[-1])
    x, slope = wide(logits), wide(dy) * scale
    scores = _scores(x, score)
    chosen = np.take_along_axis(scores, experts, axis=-1)
    if normalize:
        weights = _chosen_weights(x, scores, experts, score, normalize, epsilon)
        slope = slope - np.sum(slope * weights, axis=-1, keepdims=True)
        slope = slope * weights if score == "softmax" else slope / (np.sum(chosen, -1, keepdims=True) + epsilon)
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
def _(
    write: Write, dy: Expr, logits: Expr, experts: Expr, *, score: str, normalize: bool, scale: float, epsilon: float
) -> str:
    given = f"{dy}, {logits}, {experts.tensor}, {score!r}, {normalize}, {write.number(scale)}, {write.number(epsilon)}"
    return f"{write.kernel('route_gradient')}({given})"


def _softmax(x: Array) -> Array:
    return np.exp(log_softmax(x, -1))


def _scores(x: Array, score: str) -> Array:
    return _softmax(x) if score == "softmax" else logistic(x)


def _chosen_weights(x: Array, scores: Array, experts: Array, score: str, normalize: bool, epsilon: float) -> Array:
    """The weights of the chosen experts, before they are scaled."""
    if normalize and score == "softmax":
        return _softmax(np.take_along_axis(x, experts, axis=-1))
    chosen = np.take_along_axis(scores, experts, axis=-1)
    return chosen / (np.sum(chosen, axis=-1, keepdims=True) + epsilon) if normalize else chosen


def _greatest(x: Array, count: int) -> Array:
    """The indices of the greatest elements along the last axis, in order; of equal ones, the first."""
    return np.argsort(-x, axis=-1, kind="stable")[..., :count]


def _check_score(name: str, score: str) -> None:
    if score not in SCORES:
        raise Reject(codes.BAD_VALUE, f'`{name}` expected "softmax" or "sigmoid", found "{score}"', "score")
