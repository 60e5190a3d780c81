"""Models by name: the six of the paper's evaluation (table 1), and published ones."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, Literal

from distir.diagnostics.spelling import nearest
from distir.ir import Module
from distir.models.decoder import Decoder
from distir.models.decoder_program import decode, decoder, prefill
from distir.models.encoder_decoder import T5
from distir.models.perceptron import mlp
from distir.models.published import PUBLISHED, Model, resized
from distir.models.repositories import of_repository
from distir.models.sizes import ModelError, check_dropout
from distir.models.transformer import gpt2

SEQUENCE = 8
"""Tokens in a sequence of the paper's inference workloads."""


@dataclass(frozen=True, slots=True)
class Named:
    """A row of table 1, see `paper`. `heads` is None for an MLP; the table does not give it for the others."""

    layers: int
    width: int
    table_gb: float
    """The size that the table prints, in 10^9 bytes, two for each parameter."""
    heads: int | None = None

    @property
    def training(self) -> bool:
        """Whether the workload is a training step; else it is inference."""
        return self.heads is None


NAMED: Final = {
    "mlp-1b": Named(16, 8192, 2.2),
    "mlp-17b": Named(64, 16384, 34.4),
    "mlp-103b": Named(96, 32768, 206.2),
    "gpt2-1.6b": Named(24, 2048, 3.2, heads=16),
    "gpt2-13b": Named(40, 5120, 25.8, heads=80),
    "gpt2-175b": Named(96, 12288, 394.4, heads=96),
}
"""By name, in the table's order. See `paper` for where the table contradicts itself."""


Phase = Literal["prefill", "decode"]
PHASES: Final[tuple[Phase, ...]] = ("prefill", "decode")
"""Of serving."""


def published_as(name: str) -> str:
    """The name under which a model is published here, of its repository or another spelling; else the name itself."""
    return name if name in PUBLISHED or name in NAMED else of_repository(name, PUBLISHED) or name


def named(
    name: str,
    batch: int | None = None,
    sequence: int | None = None,
    dtype: str | None = None,
    phase: str | None = None,
    context: int | None = None,
    dropout: float = 0.0,
    capacity_factor: float | None = None,
    **sizes: int,
) -> Module:
    """The forward pass of a published model, or a model of the paper's evaluation. Raises ModelError.

    A published model has the name of its repository, too: `meta-llama/Llama-3.1-8B`. Without `batch` the batch
    dimension is called `B`. Published models (`PUBLISHED`) are in BFloat16, on sequences as long as their context by
    default; `sizes` overrides others of `SIZES`, such as `layers`. `phase` is a phase of serving, with caches that have
    place for `context` tokens: see `prefill` and `decode`. With `dropout`, the share of embeddings, of attention's
    weights and of what layers add that is dropped, the last parameter is `%seed`, a host integer: each training step
    takes another. With `capacity_factor`, each expert takes so many times an even share of the choices of each
    sequence, in token order, and drops others.

    Those of the paper's evaluation have no options: see `paper`.
    """
    name = published_as(name)
    if name in PUBLISHED:
        model = replace(resized(name, PUBLISHED[name], sizes), dropout=check_dropout(dropout))
        if capacity_factor is not None:
            model = _with_capacity(name, model, capacity_factor)
        if dropout and (phase is not None or context is not None):
            raise ModelError("expected no `dropout` where there is a `phase`, or a `context`: serving drops nothing")
        if phase is None and context is None:
            found = program(model, sequence, batch, dtype or "BFloat16")
            return _seeded(found) if dropout else found
        return _served(name, model, phase, context, sequence, batch, dtype or "BFloat16")
    if name not in NAMED:
        known = [*NAMED, *PUBLISHED]
        near = nearest(name, known)
        hint = f"did you mean `{near}`?" if near else f"one of {', '.join(known)}"
        raise ModelError(f"there is no model `{name}`; {hint}")
    others = {"sequence": sequence, "dtype": dtype, "phase": phase, "context": context, "dropout": dropout or None}
    others["capacity_factor"] = capacity_factor
    given = [*(other for other, value in others.items() if value is not None), *sizes]
    if given:
        raise ModelError(f"the model `{name}` has no size `{given[0]}`; its sizes are fixed")
    return paper(name, batch)


def _with_capacity(name: str, model: Model, factor: float) -> Model:
    if not isinstance(model, Decoder) or model.experts is None:
        raise ModelError(f"the model `{name}` has no `capacity_factor`: it has no experts")
    if not (factor > 0 and math.isfinite(factor)):
        raise ModelError(f"expected `capacity_factor` to be above 0, found {factor:g}")
    return replace(model, router=replace(model.router, capacity_factor=factor))


def _seeded(module: Module) -> Module:
    from distir.transform.seeding import seeded  # transforms are needed for dropout alone

    return seeded(module)


def program(model: Model, sequence: int | None = None, batch: int | None = None, dtype: str = "BFloat16") -> Module:
    """The forward pass of a described model. Raises ModelError."""
    if isinstance(model, Decoder):
        return decoder(model, sequence, batch, dtype)
    return model.module(sequence, batch, dtype)


def _served(
    name: str,
    model: Model,
    phase: str | None,
    context: int | None,
    sequence: int | None,
    batch: int | None,
    dtype: str,
) -> Module:
    if phase is None:
        raise ModelError("expected a `phase` where there is a `context`, the places of caches; prefill or decode")
    if phase not in PHASES:
        near = nearest(phase, PHASES)
        hint = f"did you mean `{near}`?" if near else "one of prefill, decode"
        raise ModelError(f"there is no phase `{phase}`; {hint}")
    if not isinstance(model, (Decoder, T5)):
        raise ModelError(
            f"the model `{name}` has no phase `{phase}`: it has no decoder, which generates token by token"
        )
    if phase == "prefill":
        if isinstance(model, T5):
            return model.prefill(context, sequence, batch, dtype)
        return prefill(model, context, sequence, batch, dtype)
    if sequence is not None:
        raise ModelError("expected no `sequence` where the phase is `decode`, a token of each; give `context`")
    return model.decode(context, batch, dtype) if isinstance(model, T5) else decode(model, context, batch, dtype)


def paper(name: str, batch: int | None = None) -> Module:
    """A model of the paper's evaluation, in Float16: `mlp-...` a training step, `gpt2-...` inference on 8 tokens.

    Without `batch` the batch dimension is called `B`: the batch size is part of the paper's search. Layers and width
    are those of table 1, but for one width. The sizes printed there follow from them, two bytes for each parameter, but
    for:

    - `mlp-1b`: 2.15 GB, printed as 2.2.
    - `gpt2-1.6b`: 24 layers of width 2048 hold 1.31 billion parameters, 2.6 GB, not 1.6 billion and 3.2 GB (GPT-2 XL,
      48 layers of width 1600, holds 1.56 billion).
    - `gpt2-13b`: the width is 5120 here, 5140 in print. The paper takes its sizes from table 2.1 of Brown et al.
      (arXiv:2005.14165), which prints 5140 too, beside 40 heads of size 128, which make 5120; and 5140 = 4 x 5 x 257
      has no number of heads that 8 or 16 devices could share, as they do in the paper's search. 12.85 billion
      parameters, 25.7 GB, printed as 25.8 (5140 makes 25.9).
    - `gpt2-175b`: 174.6 billion parameters, 349.2 GB; the 394.4 in print look like 349.4 with two digits swapped.

    All have GPT-2's vocabulary of 50257 tokens, 1024 positions, and logits from the token embedding. Of their heads
    table 1 is silent. They are of size 128, as in Brown et al., except in `gpt2-13b`: 16 devices cannot share 40 heads,
    so that it has 80 of size 64, the size in all four published GPT-2. The number of heads changes neither the
    parameters nor the work of the matrix products.

    Raises ModelError.
    """
    model = NAMED[name]
    if model.heads is None:
        return mlp(model.layers, model.width, batch, training=True)
    return gpt2(model.layers, model.width, model.heads, SEQUENCE, batch)
