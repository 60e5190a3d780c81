"""Frameworks on PyTorch's FSDP, and DeepSpeed with models of transformers, which is defined by them."""

from __future__ import annotations

from dataclasses import replace

from distir.validate.causes import cause
from distir.validate.frameworks.definition import Framework, HeldMemory, framework

LLM_FOUNDRY = framework(
    Framework(
        name="llm-foundry",
        title="MosaicML's llm-foundry and Composer, on PyTorch FSDP",
        also=("llm_foundry", "composer"),
        sources=(
            cause(
                "precision sharding overlap",
                "mosaicml/llm-foundry, scripts/train/benchmarking/README.md: FSDP, one layer a unit; bf16 weights and "
                "optimizer on A100-40GB",
            ),
            cause(
                "kernels flash",
                "mosaicml/llm-foundry, mpt/configuration_mpt.py: flash attention, all else torch's own kernels; "
                "scripts/train/benchmarking/submit_benchmarks.py of 2023: `attn_impl` is `triton`, the kernel of "
                "flash-attn 1's flash_attn_triton.py",
            ),
            cause(
                "backward_prefetch",
                "mosaicml/composer, trainer/dist_strategy.py, `prepare_fsdp_module`: `backward_prefetch` is "
                "BACKWARD_POST where a configuration does not say, as those of MPT do not "
                "(scripts/train/yamls/pretrain/mpt-*.yaml); torch/distributed/fsdp/_runtime_utils.py: so a layer's "
                "gather is issued behind the sum of the gradients before it, in the same process group",
            ),
            cause(
                "flat_gradients",
                "torch/distributed/fsdp/_flat_param.py, _runtime_utils.py: a layer's gradients are copied into one "
                "tensor, which is divided before it is summed",
            ),
            cause(
                "metrics",
                "llmfoundry/models/mpt/modeling_mpt.py: `loss_fn: fused_crossentropy` by default, flash-attn's kernel, "
                "which takes 16-bit logits; `train_metrics` are LanguageCrossEntropy and LanguagePerplexity",
            ),
            cause(
                "metrics",
                "mosaicml/composer, trainer/trainer.py, `_eval_train_metrics`: behind each microbatch's backward pass, "
                "metrics are updated with its logits; metrics/nlp.py: each with torch's cross entropy, which is of "
                "float32 logits under autocast",
            ),
        ),
        precision="bf16",
        kernels="eager",
        flash="triton",
        sharding="zero3",
        overlap=("weights", "gradients"),
        flat_gradients=True,
        backward_prefetch="post",
        metrics=2,
    )
)

TORCHTITAN = framework(
    Framework(
        name="torchtitan",
        title="torchtitan: FSDP2 of PyTorch",
        sources=(
            cause(
                "sharding kernels compiled by_compiler master memory.gradients",
                "pytorch/torchtitan, benchmarks/llama3_h100_202412_torchtitan.md: FSDP2, torch.compile of each block, "
                "selective activation checkpointing per operator; float32 parameters, bf16 computation, gradients "
                "reduced in float32",
            ),
            cause(
                "operators loss",
                "torchtitan/parallelisms/parallelize_llama.py: of each block every other product's result is saved, "
                "and attention's; torchtitan/train.py: torch's cross entropy of float32 logits, not compiled",
            ),
            cause(
                "loss_parallel",
                "torchtitan/parallelisms/parallel_dims.py, `loss_parallel_enabled`: with tensor parallelism, each "
                "shard computes the loss of its part of the vocabulary",
            ),
            cause(
                "memory.gradients",
                "torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py: sharded gradients are allocated on a stream "
                "of their own, whose memory nothing else uses",
            ),
            cause(
                "gathers_once",
                "torchtitan/parallelisms/parallelize_llama.py, `apply_fsdp`: in pipelines weights are not resharded "
                "after the forward pass; torch/distributed/pipelining/stage.py: nor are gradients reduced before the "
                "last microbatch",
            ),
            cause(
                "fused_norm fused_rotary",
                "torchtitan/models/norms.py and models/llama/model.py: of December 2024, norms and rotations are "
                "torch's ops, which torch.compile fuses",
            ),
            cause(
                "overlap always_overlaps",
                "torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py: gathers and reductions are on streams of "
                "their own, which nothing turns off",
            ),
            cause(
                "memory.peak",
                "torchtitan/metrics.py, `DeviceMemoryMonitor`: `reserved_bytes.all.peak`, what the allocator has taken "
                "of the device. What that is beyond tensors has no cause here: it is in the band",
            ),
            cause("attention flash", "torch's scaled_dot_product_attention is FlashAttention 2"),
            cause(
                "context",
                "torch/distributed/tensor/experimental/_attention.py: parts of a sequence are attended to one after "
                "the other, around a ring, balanced",
            ),
        ),
        context="ring",
        precision="mixed",
        master="only",
        kernels="blocks",
        compiled="blocks",
        by_compiler=True,
        always_overlaps=True,
        fused_norm=False,
        fused_rotary=False,
        flash="flash2",
        attention="flash2",
        operators="products",
        loss="gathered",
        loss_parallel=True,
        sharding="zero3",
        gathers_once=True,
        overlap=("weights", "gradients"),
        memory=HeldMemory(peak="reserved", gradients=4),
    )
)

FSDP2 = framework(
    replace(
        TORCHTITAN,
        name="fsdp2",
        title="FSDP2 of PyTorch, each op a kernel of its own",
        also=("fsdp", "pytorch-fsdp"),
        sources=(
            cause(
                "sharding overlap kernels",
                "torch/distributed/fsdp/_fully_shard: weights are gathered, and gradients reduced, beside computation",
            ),
            cause(
                "memory.peak memory.gradients attention flash context operators gathers_once master compiled "
                "by_compiler loss fused_norm fused_rotary",
                "all else as torchtitan, which is built on it",
            ),
        ),
        loss_parallel=False,
        always_overlaps=False,
        kernels="eager",
        compiled="blocks",
    )
)

DEEPSPEED = framework(
    replace(
        FSDP2,
        name="deepspeed",
        also=(),
        title="DeepSpeed with a model of transformers",
        sources=(
            cause(
                "master gradients memory.gradients",
                "deepspeed 0.19.8, runtime/bf16_optimizer.py and runtime/zero/stage_1_and_2.py: 16-bit weights and "
                "gradients, float32 master weights in the optimizer's state",
            ),
            cause("", "runtime/zero/config.py: `overlap_comm` is on by default in stage 3 alone"),
            cause(
                "loss attention flash",
                "huggingface/transformers, loss/loss_utils.py: logits are cast to float32 for the loss; attention is "
                "torch's scaled_dot_product_attention",
            ),
            cause(
                "kernels compiled by_compiler fused_norm fused_rotary",
                "huggingface/transformers, models/llama/modeling_llama.py: norms and rotations are torch's ops",
            ),
            cause("operators gathers_once memory.peak", "as torchtitan (not opened)"),
            cause(
                "context",
                "deepspeed/sequence/layer.py, `DistributedAttention` (Ulysses): parts of sequences are exchanged for "
                "heads",
            ),
        ),
        master="beside",
        gradients="bf16",
        sharding="zero0",
        context="a2a",
        overlap=(),
        memory=HeldMemory(peak="reserved", gradients=2),
    )
)
