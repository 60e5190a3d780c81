"""Aleph Alpha's training code."""

from __future__ import annotations

from distir.validate.causes import cause
from distir.validate.frameworks.definition import Framework, HeldMemory, framework

ALEPH = framework(
    Framework(
        name="aleph",
        title="Aleph Alpha's training code",
        sources=(
            cause(
                "sharding kernels gradients",
                "Hagemann et al., arXiv:2311.05610, sections 3 and 4: AdamW, ZeRO-1, bf16 with fp32 master weights, "
                "1F1B; kernels and recomputation as the rows say",
            ),
            cause(
                "loss",
                "Aleph-Alpha/scaling, transformer/model/layers/lm_head.py and losses/cross_entropy.py: logits of all "
                "shards are gathered, and torch's cross entropy is of float32 logits",
            ),
            cause(
                "memory.kept_logits",
                "Aleph-Alpha/scaling, core/nn/parallel_module/parallel_module.py: a stage's output is read from its "
                "buffer for the loss, and stays there; core/nn/pipeline_schedule/train.py: microbatches take turns at "
                "two buffers or more",
            ),
            cause(
                "recomputes_logits",
                "Aleph-Alpha/scaling, core/nn/parallel_module/parallel_module.py, `forward`: of the layers that are "
                "all recomputed, the output layer is one",
            ),
            cause("fused_rotary", "Aleph-Alpha/scaling, core/nn/rotary.py: positions are rotated by torch's ops"),
            cause(
                "float32_sums",
                "Aleph-Alpha/scaling, core/optimizer/allreduce.py: gradients are summed by all-reduces of Float32 "
                "copies, whole on each replica, also where the optimizer's state is sharded",
            ),
        ),
        kernels="eager",
        gradients="bf16",
        recomputes_logits=True,
        float32_sums=True,
        fused_rotary=False,
        sharding="zero1",
        clip=True,
        loss="gathered",
        memory=HeldMemory(kept_logits=2),
    )
)
