"""Fields of a run's strategy: its schedule, sharding, recomputation, 8-bit floats and experts."""

from __future__ import annotations

from math import gcd
from typing import Any, Final

from distir.models.decoder import Decoder
from distir.transform.mesh.folding import parts_along
from distir.transform.sharding import DISPATCHERS, shards_of_expert
from distir.transform.steps import StepError
from distir.transform.strategy import Strategy
from distir.transform.strategy.record import virtual_of
from distir.validate.frameworks import Framework
from distir.validate.runs import MeasuredRun, UnsupportedError

EIGHT_BITS: Final = ("fp8", "mxfp8")
"""The precisions with products in 8-bit floats."""

ALL_TO_ALL, FORWARDING = DISPATCHERS
"""How the step `dtp` sends tokens to their experts."""

HYBRID: Final = "hybridep"
"""The library HybridEP: a word of the column `dispatcher`. It forwards tokens, too, by kernels of its own."""

LOSS: Final = ("SoftmaxCrossEntropyLoss", "SoftmaxCrossEntropyLossGrad")
"""The ops that shards run on whole logits, as the field `whole` says, where logits are gathered."""


def usual_of(chosen: Framework) -> Strategy:
    """What a framework does where its configuration says nothing, as far as others than its own may ask for it."""
    return Strategy(kind=chosen.context, skew=chosen.skew, fuse=chosen.kernels != "eager")


def stage_sizes(run: MeasuredRun, chosen: Framework, virtual: int) -> str:
    """How layers are divided among stages: a word of the option `balance`, or the layers of each.

    Where the framework has the embedding and the loss count as layers, the first and the last stage have one less.
    """
    stages, ends = run.pp * virtual, 2
    each, left = divmod(run.layers + ends, stages)
    if run.stages or not chosen.counts_ends or left or run.layers % stages == 0:
        return run.stages or "uniform"
    return ",".join(map(str, [each - 1, *[each] * (stages - 2), each - 1]))


def pipelining(run: MeasuredRun, chosen: Framework, virtual: int) -> dict[str, Any]:
    """The schedule of a run's pipeline, and the layers of its stages."""
    name = run.schedule or ("interleaved" if virtual > 1 else "1f1b")
    sizes = stage_sizes(run, chosen, virtual)
    listed = tuple(map(int, sizes.split(","))) if sizes.replace(",", "").isdecimal() else ()
    found = {"schedule": name, "virtual": virtual_of(name, virtual)}
    return found | ({"stages": listed} if listed else {"balance": sizes})


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


def partition(sharding: str) -> dict[str, Any]:
    """The fields of a word such as `zero1`, or `hsdp:8`: stage 3 within groups of 8 replicas."""
    name, _, group = sharding.partition(":")
    stage = 3 if name == "hsdp" else int(name[4])
    return {"zero": stage, "shard": int(group or 0)} if stage else {}


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
    experts = bool(run.experts) and run.tp == 1
    scaling = "mx" if run.precision == "mxfp8" else "block" if experts else chosen.fp8
    return {"scaling": scaling, "scaled_experts": experts}


def _shards_of_experts(run: MeasuredRun) -> int:
    """Over how many ranks an expert is cut: as many as a layer, Megatron's default, if the experts leave so many."""
    left, rest = divmod(run.dp * run.tp * (run.cp or 1), run.ep or 1)
    return run.etp or (run.tp if rest else gcd(run.tp, left))


def placement_of_experts(run: MeasuredRun, chosen: Framework) -> dict[str, Any]:
    """Which ranks have parts of the experts. Raises UnsupportedError where a rank has none."""
    ranks, context, cut = run.ep or 1, run.cp or 1, _shards_of_experts(run) if run.experts else run.tp
    if not run.experts or (ranks == context == 1 and cut == run.tp):
        return {}
    try:
        groups = run.tp // shards_of_expert(cut, run.tp)
        shards, _, replicas = parts_along(ranks, groups, context, run.dp)
    except StepError as error:
        raise UnsupportedError(str(error)) from None
    if groups > shards and not chosen.sequence_parallel:
        same = f"{groups // shards} of {run.tp} shards have the same experts, each for its own tokens"
        raise UnsupportedError(f"{same}: say `sequence_parallel` 1")
    over = {"expert_parallel": ranks, "etp": cut}
    if groups == context == 1:
        over = {"experts": replicas}
    once = replicas > 1 and chosen.dispatcher != ALL_TO_ALL  # each token to a node, by either library
    return {**over, "skew": chosen.skew, **({"dispatcher": FORWARDING} if once else {})}
