"""Fields of a run's strategy: its schedule, sharding, recomputation, 8-bit floats and experts."""

from __future__ import annotations

from math import gcd
from typing import Any, Final

from distir.models.decoder import Decoder
from distir.transform.mesh.folding import parts_along
from distir.transform.sharding import DISPATCHERS, shards_of_expert
from distir.transform.steps import StepError
from distir.transform.strategy import Strategy
from distir.validate.frameworks import Framework
from distir.validate.runs import MeasuredRun, UnsupportedError

EIGHT_BITS: Final = ("fp8", "mxfp8")
"""The precisions with products in 8-bit floats."""

ALL_TO_ALL, FORWARDING = DISPATCHERS
"""How the step `dtp` sends tokens to their experts."""

HYBRID: Final = "hybridep"
"""The library HybridEP: a word of the column `dispatcher`. It forwards tokens, too, by kernels of its own."""


def usual_of(chosen: Framework) -> Strategy:
    """What a framework does where its configuration says nothing, as far as others than its own may ask for it."""
    return Strategy(kind=chosen.context, skew=chosen.skew, fuse=chosen.kernels != "eager")


def pipelining(run: MeasuredRun, chosen: Framework) -> dict[str, Any]:
    """The schedule of a run's pipeline, and the layers of its stages.

    Where the framework has the embedding and the loss count as layers, the first and the last stage have one less.
    """
    own = run.strategy
    stages, sizes = own.pipeline * own.stages_per_device, own.stages
    each, left = divmod(run.layers + 2, stages)
    if not sizes and chosen.counts_ends and not left and run.layers % stages:
        sizes = (each - 1, *[each] * (stages - 2), each - 1)
    return {"schedule": own.schedule, "virtual": own.virtual, "stages": sizes}


def sharding_in_parts(model: Decoder, shards: int, replicas: int, chosen: Framework) -> tuple[str, float]:
    """How state is sharded in the program, a word of the column `sharding`, and what share of it a device holds.

    Frameworks cut one buffer of all weights, and the program each weight. Where these do not divide over all replicas,
    ZeRO-1 is within groups of as many as they divide over, and the replicas of a part share it once more: as much is
    sent, and a device holds a share of the state that it has. Raises UnsupportedError for other stages. `shards`: those
    of tensor parallelism.
    """
    name, _, group = chosen.sharding.partition(":")
    parts, heads = int(group or replicas), (model.heads, model.kv_heads or model.heads)
    across = (model.vocabulary, model.ffn, *(n * (model.head_size or 1) for n in heads))
    if name == "zero0" or model.width % parts == 0 or all(size // shards % parts == 0 for size in across):
        return chosen.sharding, 1.0
    most = max(n for n in range(1, parts + 1) if parts % n == model.width % n == 0)
    if chosen.sharding != "zero1" or chosen.float32_sums or model.experts:
        word = "zero0" if most == 1 else f"{'hsdp' if name in ('zero3', 'hsdp') else 'zero1'}:{most}"
        one = f"weights of width {model.width} do not divide over {parts} replicas"
        raise UnsupportedError(f"{one}: say `{word}` in `sharding`")
    return ("zero0" if most == 1 else f"zero1:{most}"), most / parts


def recomputation(chosen: Framework, gated: bool) -> dict[str, Any]:
    """What a framework recomputes, with what a run says in the place of defaults.

    `gated`: whether feed-forward layers have gates.
    """
    what, _, layers = chosen.recompute.partition(":")
    if what == "selective" and chosen.operators == "core_attn":
        what, layers = "modules", chosen.operators
    parts = layers.split(",") if what == "modules" else []
    fuses_gates = gated and chosen.fused_gates and chosen.kernels == "fused"
    if fuses_gates and what in ("none", "modules") and "mlp" not in parts:
        parts.append("gates")
    if parts:
        return {"checkpoint": True, "recompute": "selective", "modules": ",".join(parts)}
    if what == "none":
        return {}
    found = chosen.operators or what if what == "selective" else what
    return {"checkpoint": True, "recompute": f"{found}:{layers}" if layers else "" if found == "full" else found}


def eight_bits(run: MeasuredRun, chosen: Framework) -> dict[str, Any]:
    """Products of a run in 8-bit floats. For experts, scales are of blocks in the place of current scaling.

    With tensor parallelism experts' products stay in 16 bits, where shards would gather rows for them.
    """
    experts = bool(run.experts) and run.strategy.tensor == 1
    scaling = "mx" if run.precision == "mxfp8" else "block" if experts else chosen.fp8
    return {"scaling": scaling, "scaled_experts": experts}


def _shards_of_experts(run: MeasuredRun) -> int:
    """Over how many ranks an expert is cut: as many as a layer, Megatron's default, if the experts leave so many."""
    own = run.strategy
    left, rest = divmod(own.data * own.tensor * own.context, own.expert_parallel or 1)
    return own.etp or (own.tensor if rest else gcd(own.tensor, left))


def placement_of_experts(run: MeasuredRun, chosen: Framework) -> dict[str, Any]:
    """Which ranks have parts of the experts. Raises UnsupportedError where a rank has none."""
    own = run.strategy
    ranks, cut = own.expert_parallel or 1, _shards_of_experts(run) if run.experts else own.tensor
    if not run.experts or (ranks == own.context == 1 and cut == own.tensor):
        return {}
    try:
        groups = own.tensor // shards_of_expert(cut, own.tensor)
        shards, _, replicas = parts_along(ranks, groups, own.context, own.data)
    except StepError as error:
        raise UnsupportedError(str(error)) from None
    if groups > shards and not chosen.sequence_parallel:
        same = f"{groups // shards} of {own.tensor} shards have the same experts, each for its own tokens"
        raise UnsupportedError(f"{same}: say `sequence_parallel` 1")
    over = {"expert_parallel": ranks, "etp": cut}
    if groups == own.context == 1:
        over = {"experts": replicas}
    once = replicas > 1 and chosen.dispatcher != ALL_TO_ALL  # each token to a node, by either library
    return {**over, "skew": chosen.skew, **({"dispatcher": FORWARDING} if once else {})}
