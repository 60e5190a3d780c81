"""Losses and their gradients in torch."""

from __future__ import annotations

from distir.lower.forms import Operand, Unpacked, Write, dtype_name, narrowed, torch_form

NO_LABEL = -100
"""What torch takes as the label to ignore where none is named. No label is negative."""


@torch_form("SoftmaxCrossEntropyLoss", fresh=True)
def _(
    write: Write,
    scores: Operand,
    labels: Operand,
    weights: Operand | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str,
) -> str | Unpacked:
    settings = _settings(weights, ignore_index, reduction)
    if len(write.results) == 1:
        return narrowed(f"F.cross_entropy({scores.wide}, {_labels(labels)}{settings})", scores.dtype)
    return Unpacked(f"{write.kernel('cross_entropy_and_log_prob')}({scores}, {_labels(labels)}{settings})")


@torch_form("NegativeLogLikelihoodLoss", fresh=True)
def _(
    write: Write,
    input: Operand,
    target: Operand,
    weight: Operand | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str,
) -> str:
    settings = _settings(weight, ignore_index, reduction)
    return narrowed(f"F.nll_loss({input.wide}, {_labels(target)}{settings})", input.dtype)


def _labels(labels: Operand) -> str:
    return labels.tensor if labels.dtype.name == "Int64" else f"{labels.tensor}.long()"


def _settings(weights: Operand | None, ignore_index: int | None, reduction: str) -> str:
    text = "" if weights is None else f", weight={weights.wide}"
    ignored = NO_LABEL if ignore_index is None else ignore_index
    return f"{text}, ignore_index={ignored}, reduction={reduction!r}"


def _likelihood_gradient(name: str, kernel: str) -> None:
    @torch_form(name, fresh=True)
    def _(
        write: Write,
        dy: Operand,
        x: Operand,
        labels: Operand,
        weights: Operand | None = None,
        *,
        ignore_index: int | None = None,
        reduction: str,
    ) -> str:
        given = f"{dy}, {x}, {_labels(labels)}, {weights}"
        return f"{write.kernel(kernel)}({given}, {ignore_index}, {reduction == 'mean'})"


_likelihood_gradient("SoftmaxCrossEntropyLossGrad", "cross_entropy_gradient")
_likelihood_gradient("NegativeLogLikelihoodLossGrad", "likelihood_gradient")


@torch_form("MSELoss", fresh=True)
def _(write: Write, prediction: Operand, target: Operand, *, reduction: str) -> str:
    if not prediction.elements and reduction == "mean":
        return f'torch.full((), float("nan"), dtype={dtype_name(prediction.dtype)}, device=DEVICE)'
    return narrowed(f"F.mse_loss({prediction.wide}, {target.wide}, reduction={reduction!r})", prediction.dtype)


@torch_form("MSELossGrad", fresh=True)
def _(write: Write, dy: Operand, prediction: Operand, target: Operand, *, reduction: str) -> str:
    count = max(prediction.elements, 1) if reduction == "mean" else 1
    scale = f"(2 * {dy.wide} / {count})" if count != 1 else f"(2 * {dy.wide})"
    return narrowed(f"{scale} * ({prediction.wide} - {target.wide})", prediction.dtype)
