"""The figures by which models are known: parameters, and FLOPs per token, as their programs have them."""

from __future__ import annotations

from dataclasses import dataclass

from distir.analysis import check
from distir.ir import Module, TensorType
from distir.models.catalogue import NAMED, SEQUENCE, named
from distir.models.decoder import Decoder
from distir.models.perceptron import mlp
from distir.models.published import PUBLISHED, Model
from distir.models.sizes import parameter_count
from distir.transform.counting import flops


@dataclass(frozen=True, slots=True)
class Figures:
    """Of a forward pass over one sequence, or one example."""

    name: str
    parameters: int
    active: int
    """Without the experts that a token is not given to."""
    tokens: int
    """The length of the sequence. Of an image, its patches and the class token; of an example for an MLP, 1."""
    flops: int
    """Of all ops. A training step has about three times as many."""
    attention_flops: int | None
    """Those of the op `Attention`, which grow with the square of the tokens; None without such an op."""

    @property
    def flops_per_token(self) -> float:
        """With attention, averaged over the tokens."""
        return self.flops / self.tokens

    @property
    def attention_share(self) -> float | None:
        """The part of them that is attention."""
        return None if self.attention_flops is None else self.attention_flops / self.flops


def figures(name: str, sequence: int | None = None) -> Figures:
    """The figures of a model for sequences of so many tokens, by default its published context. Raises ModelError."""
    paper = NAMED.get(name)
    if paper is not None and paper.training:
        module, tokens = mlp(paper.layers, paper.width, 1), 1
    else:
        module = named(name, 1, sequence)
        tokens = sequence or (PUBLISHED[name].context if name in PUBLISHED else SEQUENCE)
    by_op = flops(check(module, late=True), "main")
    total = parameter_count(module)
    active = total - _idle(PUBLISHED.get(name), module)
    return Figures(name, total, active, tokens, sum(by_op.values()), by_op.get("Attention"))


def _idle(model: Model | None, module: Module) -> int:
    """The parameters of experts that a token is not given to."""
    if not isinstance(model, Decoder) or model.experts is None or model.top_k is None:
        return 0
    entry, of_experts = module.entry(), f".{model.names.mlp}.experts."
    assert entry is not None
    sizes = [p.type.elements for p in entry.params if of_experts in p.name and isinstance(p.type, TensorType)]
    each = sum(size for size in sizes if isinstance(size, int)) // model.experts
    return each * (model.experts - model.top_k)
