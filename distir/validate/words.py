"""Steps of a run's program, in words: its schedule, sharding, recomputation, 8-bit floats and experts."""

from __future__ import annotations

from math import gcd
from typing import Final

from distir.models.decoder import Decoder
from distir.transform.dtp import folded
from distir.transform.pipeline import SCHEDULES, TURNS
from distir.transform.sharding import DISPATCHERS, shards_of_expert
from distir.transform.steps import StepError
from distir.validate.frameworks import Framework
from distir.validate.runs import MeasuredRun, UnsupportedError

EIGHT_BITS: Final = ("fp8", "mxfp8")
"""The precisions with products in 8-bit floats."""

ALL_TO_ALL, FORWARDING = DISPATCHERS
"""How the step `dtp` sends tokens to their experts."""

HYBRID: Final = "hybridep"
"""The library HybridEP: a word of the column `dispatcher`. It forwards tokens, too, by kernels of its own."""


def stage_sizes(run: MeasuredRun, chosen: Framework, virtual: int) -> str:
    """How layers are divided among stages: a word of the option `balance`.

    Where the framework has the embedding and the loss count as layers, the first and the last stage have one less.
    """
    stages, ends = run.pp * virtual, 2
    each, left = divmod(run.layers + ends, stages)
    if run.stages or not chosen.counts_ends or left or run.layers % stages == 0:
        return run.stages or "uniform"
    return ",".join(map(str, [each - 1, *[each] * (stages - 2), each - 1]))


def schedule_words(run: MeasuredRun, chosen: Framework, virtual: int, profile: str) -> list[str]:
    """Options of the step `dtp`: the schedule of a run's pipeline, and the layers of its stages.

    In which order messages are sent depends on how long passes take, and so on the machine. Without a pipeline it is no
    matter, and runs of one layout on several GPUs are one program.
    """
    name = run.schedule or ("interleaved" if virtual > 1 else "1f1b")
    known = SCHEDULES.get(name)
    stages = [f"virtual={virtual}"] if known is None or known.virtual or virtual == 1 else []
    turns = chosen.flash_turns if chosen.attention == chosen.flash else 1
    name += f"{TURNS}{turns}" if turns > 1 else ""
    return [*stages, f"schedule={name}", f"balance={stage_sizes(run, chosen, virtual)}", f"hardware={profile}"]


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


def sharding_words(sharding: str) -> list[str]:
    """The step `zero` of a word such as `zero1`, or `hsdp:8`: stage 3 within groups of 8 replicas."""
    name, _, group = sharding.partition(":")
    stage = 3 if name == "hsdp" else int(name[4])
    return [f"zero={stage}", "partition=split", *([f"shard={group}"] if group else [])] if stage else []


def recomputation_words(chosen: Framework, gated: bool) -> list[str]:
    """The step `checkpoint` of a framework, with what a run says in the place of defaults, if anything is recomputed.

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
        return ["checkpoint=selective", f"modules={','.join(parts)}"]
    if what == "none":
        return []
    found = chosen.operators or what if what == "selective" else what
    return [f"checkpoint={found}", *([f"layers={layers}"] if layers else [])]


def eight_bit_words(run: MeasuredRun, chosen: Framework) -> list[str]:
    """The step `fp8` of a run. For experts, scales are of blocks in the place of current scaling.

    With tensor parallelism experts' products stay in 16 bits, where shards would gather rows for them.
    """
    experts = bool(run.experts) and run.tp == 1
    scaling = "mx" if run.precision == "mxfp8" else "block" if experts else chosen.fp8
    return [f"fp8={scaling}", *(["experts=true"] if experts else [])]


def _shards_of_experts(run: MeasuredRun) -> int:
    """Over how many ranks an expert is cut: as many as a layer, Megatron's default, if the experts leave so many."""
    left, rest = divmod(run.dp * run.tp * (run.cp or 1), run.ep or 1)
    return run.etp or (run.tp if rest else gcd(run.tp, left))


def expert_words(run: MeasuredRun, chosen: Framework) -> list[str]:
    """Options of the step `dtp`: which ranks have parts of the experts. Raises UnsupportedError where it has none."""
    ranks, context, cut = run.ep or 1, run.cp or 1, _shards_of_experts(run) if run.experts else run.tp
    if not run.experts or (ranks == context == 1 and cut == run.tp):
        return []
    try:
        shards, _, replicas = folded(ranks, shards_of_expert(cut, run.tp), run.tp, context, run.dp)
    except StepError as error:
        raise UnsupportedError(str(error)) from None
    if shards.copies > 1 and not chosen.sequence_parallel:
        same = f"{shards.copies} of {run.tp} shards have the same experts, each for its own tokens"
        raise UnsupportedError(f"{same}: say `sequence_parallel` 1")
    over = [f"expert_parallel={ranks}", f"etp={cut}"]
    if shards.copies == shards.owners == context == 1:
        over = [f"experts={replicas}"] if replicas > 1 else []
    once = replicas > 1 and chosen.dispatcher != ALL_TO_ALL  # each token to a node, by either library
    return [*over, f"skew={chosen.skew:g}", *([f"dispatcher={FORWARDING}"] if once else [])]
