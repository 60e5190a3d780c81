"""Megatron: Megatron-LM, NeMo and Megatron-Bridge on Megatron Core, and Megatron-DeepSpeed."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from distir.validate.causes import cause
from distir.validate.frameworks.definition import ASYNC_TP, Framework, HeldMemory, framework

ISSUE_OF_MEGATRON: Final = cause(
    "issue",
    "calibrated: all 23 runs of vtrain_single, which wait for the host, chose it among five figures, 42 to 50 us. An "
    "op of the fused program is two or three launches, with the states of random numbers, which the program does not "
    "have",
    "VIA-Research/vTrain",
)
MEGATRONS_ISSUE_OF_COMMUNICATION: Final = cause(
    "issue_of_communication",
    "a collective is one launch, which takes the 20 us of an eager op in the profiles: pytorch/pytorch, issue 41383, "
    "and facebookresearch/sam2, issue 768",
)

MEGATRONS_MEMORY: Final = HeldMemory(
    of="last",
    gradients=4,
    copies_tied=True,
    workspace=(68 << 20, 96 << 20),
    copied_outputs=("a100_40gb", "a100_80gb", "b200", "gb200", "b300", "gb300"),
    weighed_experts=True,
)
"""Megatron Core with Transformer Engine."""

MEGATRONS_MEMORY_CAUSES: Final = (
    cause(
        "memory.of",
        "NVIDIA/Megatron-LM, megatron/training/global_vars.py: rank world_size - 1 writes what is logged; "
        "training/training.py: `mem-max-allocated-bytes` is the peak of what torch has allocated",
    ),
    cause(
        "memory.gradients",
        "megatron/core/distributed/param_and_grad_buffer.py: buffers of gradients, in fp32, are allocated with the "
        "model",
    ),
    cause(
        "memory.copies_tied",
        "megatron/core/models/common/language_module: the last stage shares the embedding's values, not its memory",
    ),
    cause(
        "memory.weighed_experts",
        "megatron/core/transformer/moe/experts.py, `TEGroupedMLP`, since 0.12: the probabilities of routing are "
        "factors of the activation, before the second product",
    ),
    cause(
        "memory.workspace",
        "NVIDIA/TransformerEngine, cpp_extensions/gemm.py: a workspace for products of 32 MiB since Hopper, of 4 MiB "
        "before; and torch's (aten/src/ATen/cuda/CublasHandlePool.cpp), one for each thread, so another one for the "
        "backward pass, of 32 MiB with `CUBLAS_WORKSPACE_CONFIG=:4096:8`, which Megatron's tests set",
    ),
    cause(
        "memory.copied_outputs",
        "NVIDIA/TransformerEngine, attention/utils.py: cuDNN's kernel on Hopper, FlashAttention elsewhere, whose "
        "output is transposed into the layout of what follows; on Blackwell cuDNN's is not deterministic, which "
        "Megatron's tests ask for (inferred)",
    ),
)

MEGATRON = framework(
    Framework(
        name="megatron",
        title="Megatron-LM (Megatron Core)",
        also=("megatron-lm", "megatron_lm", "megatron-core", "megatron_core", "mcore"),
        sources=(
            cause(
                "vocabulary dropout",
                "NVIDIA/Megatron-LM, megatron/training/arguments.py: bf16 accumulates gradients in fp32; clip_grad "
                "1.0, vocabulary padded to a multiple of 128 · tp; Adam by default",
            ),
            cause("operators", "Korthikanti et al., arXiv:2205.05198: fused kernels, sequence parallelism"),
            cause(
                "context",
                "megatron/training/arguments.py: `--cp-comm-type` is p2p by default, a ring (Transformer Engine's "
                "AttnFuncWithCPAndKVP2P)",
            ),
            cause(
                "fused_gates", "megatron/core/fusions/fused_bias_swiglu.py, used by default: what it saves is its input"
            ),
            cause(
                "float32_attention",
                "NVIDIA/TransformerEngine, pytorch/attention, `get_attention_backend`: neither FlashAttention nor "
                "cuDNN's kernel takes Float32: attention is products, and a kernel for scale, mask and softmax",
            ),
            cause(
                "",
                "megatron/core/distributed, the distributed optimizer: state of experts is sharded over the replicas "
                "of an expert, all other state over all replicas",
            ),
            cause(
                "expert_bias",
                "megatron/core/transformer/moe/experts.py, `TEGroupedMLP._apply_bias`: biases of experts' last "
                "products, times the weights of rows, are added in Float32, expert by expert; not where Transformer "
                "Engine fuses the ops of experts, as recipes in 8 bits let it",
            ),
            cause(
                "clamps",
                "megatron/core/fusions/fused_bias_geglu.py, `weighted_bias_quick_geglu_impl`: both halves of the first "
                "products of experts are clamped and concatenated before the fused kernel of the gate, for which the "
                "host copies a number to the device, and waits",
            ),
            cause(
                "sorts_rows",
                "megatron/core/transformer/moe/token_dispatcher.py, `MoEAlltoAllTokenDispatcher`: rows are sorted by "
                "expert behind the all-to-all, and back before the other one; probabilities travel with them (not "
                "expressed)",
            ),
            cause(
                "overlap_of_sharded",
                "megatron/core/distributed/fsdp, `MegatronFSDP`: with `optim_grads_params` it sets "
                "`overlap_param_gather` and `overlap_grad_reduce`, which are off otherwise",
            ),
            cause(
                "layer_wise",
                "megatron/core/optimizer, `LayerWiseDistributedOptimizer` with `dist_muon`: gradients are summed "
                "whole, each replica updates some matrices, and broadcasts them at the end; master weights and "
                "momentum are in Float32. The one replica of a program here updates its part of each matrix instead, "
                "and orthogonalises all; that sums are whole is not expressed, and the first products of experts, "
                "which are one matrix there, are two here",
            ),
            cause(
                "waits_for_sends",
                "megatron/core/model_parallel_config.py: `batch_p2p_comm` and `batch_p2p_sync` are on by default, so "
                "that the host waits for each transfer (core/pipeline_parallel/p2p_communication.py)",
            ),
            cause(
                "loss",
                "megatron/core/tensor_parallel/cross_entropy.py: logits are copied to Float32, and their gradients "
                "written in their place",
            ),
            ISSUE_OF_MEGATRON,
            MEGATRONS_ISSUE_OF_COMMUNICATION,
            *MEGATRONS_MEMORY_CAUSES,
        ),
        overlap_of_sharded=("gradients", "weights"),
        layer_wise=True,
        fused_gates=True,
        expert_bias="apart",
        clamps="apart",
        sorts_rows=True,
        operators="core_attn",
        float32_attention="fused",
        context="ring",
        vocabulary=128,
        issue=46e-6,
        issue_of_communication=20e-6,
        waits_for_sends=True,
        loss="apart",
        dropout=0.1,
        memory=MEGATRONS_MEMORY,
    )
)

NEMO = framework(
    replace(
        MEGATRON,
        name="nemo",
        title="NeMo and Megatron-Bridge",
        also=("megatron-bridge", "megatron_bridge"),
        sources=(
            *MEGATRON.sources,
            cause(
                "sharding overlap sequence_parallel micro_batch",
                "NVIDIA-NeMo/NeMo, recipes of nemo.collections.llm: distributed optimizer, sequence parallelism with "
                "tp, overlap of gradient reduction and parameter gathers, micro_batch_size=1 at long sequences",
            ),
            cause(
                "gradients memory.gradients",
                "NVIDIA-NeMo/Megatron-Bridge, scripts/performance/configs/llama, `set_llama3_common_configs`: "
                "`grad_reduce_in_fp32 = False` in all precisions, so that buffers of gradients are bf16, as with "
                "`grad_sync_dtype: bf16` in NVIDIA/dgxc-benchmarking, nemo_megatron/gpt3_175b_hydra.yaml",
            ),
            cause(
                "loss",
                "NVIDIA/NeMo, scripts/performance/helpers.py: `cross_entropy_fusion_impl` is Transformer Engine's, one "
                "kernel on 16-bit logits",
            ),
            cause(
                "dispatcher",
                "NVIDIA-NeMo/Megatron-Bridge, scripts/performance/configs: `moe_router_force_load_balancing`, all "
                "experts get as many tokens; `moe_flex_dispatcher_backend` is DeepEP or HybridEP in most recipes",
            ),
            cause(
                "waits_for_counts issue_of_expert",
                "NVIDIA/TransformerEngine, pytorch/module/grouped_linear.py: a product of cuBLAS for each expert, "
                "whose rows are quantised by themselves in 8 bits; NVIDIA/Megatron-LM, "
                "core/transformer/moe/token_dispatcher.py: the host waits for the tokens of each expert",
            ),
            cause(
                "issue_of_expert",
                "16 bits: yanring/Megatron-MoE-ModelZoo, issue 7: `nvte_cublas_gemm` takes the host 20 us in the mean, "
                "14 in the median (8 B200, under a profiler); 8 bits: NVIDIA/TransformerEngine, issue 761: the host "
                "takes more than twice as long for a linear layer in 8 bits as for one in 16, here twice (H100, April "
                "2024). Before this cause was known, two runs of Megatron-Bridge had chosen as much over 30 and 46 us",
            ),
            cause(
                "issue_of_expert_bias",
                "megatron/core/transformer/moe/experts.py, `_apply_bias`: 2 launches forward and 8 backward for the "
                "nine products of an expert, at 18 us, as an op of 46 us is two or three launches",
                *ISSUE_OF_MEGATRON.chosen_by,
            ),
            cause(
                "waits_for_sends",
                "NVIDIA-NeMo/Megatron-Bridge, recipes: `overlap_p2p_comm`, with which no transfer is waited for",
            ),
            cause(
                "dropout gpt_dropout",
                "NVIDIA/dgxc-benchmarking, nemo_megatron/gpt3_175b_hydra.yaml (NeMo 24.05 and 24.12): `hidden_dropout` "
                "and `attention_dropout` are 0.1; so NVIDIA/NeMo-Framework-Launcher, conf/training/gpt3. In those of "
                "Llama and Nemotron they are 0",
            ),
            cause(
                "overlap",
                "NVIDIA/NeMo-Framework-Launcher, conf/training (gpt3/175b, llama3_1_70b, llama3_1_405b, nemotron_15b, "
                "nemotron_340b): `ub_tp_comm_overlap: True`; so NeMo's and Megatron-Bridge's performance recipes. Of "
                "its user buffers, what is in bulk (gradients of QKV and of the first product) is expressed; what is "
                "cut with its product (`ring_exchange`, `pipeline`) waits here",
            ),
            cause(
                "counts_ends",
                "NVIDIA-NeMo/Megatron-Bridge, recipes of Llama 3.1 405B and Qwen3 235B: "
                "`account_for_embedding_in_pipeline_split` and `account_for_loss_in_pipeline_split`, which each count "
                "as a layer (NVIDIA/Megatron-LM, core/transformer/transformer_block.py, `get_num_layers_to_build`)",
            ),
            cause(
                "memory.eight_bit_weights",
                "NVIDIA-NeMo/Megatron-Bridge, training/mixed_precision.py (delayed and current scaling, MXFP8), and "
                "NVIDIA/NeMo, llm/recipes/precision/mixed_precision.py (delayed and current scaling): "
                "`fp8_param_gather = True`, so that weights of products are in 8 bits alone; NVIDIA/TransformerEngine, "
                "pytorch/utils.py, `is_non_tn_fp8_gemm_supported`: before Blackwell products take them transposed, "
                "too; tensor/mxfp8_tensor.py: MXFP8 has them quantised along rows and along columns",
            ),
            cause(
                "memory.remainders",
                "NVIDIA/NeMo, scripts/performance/helpers.py, and NVIDIA-NeMo/Megatron-Bridge, "
                "scripts/performance/utils/overrides.py: `use_precision_aware_optimizer = True` in bf16, with which "
                "Transformer Engine's Adam holds what bf16 weights lack (NVIDIA/Megatron-LM, "
                "core/optimizer/__init__.py, `store_param_remainders`)",
            ),
            cause(
                "layer_wise",
                "NVIDIA-NeMo/Megatron-Bridge, recipes/kimi/kimi_k2.py and scripts/performance/configs/kimi: Muon is "
                "`dist_muon`, without `use_distributed_optimizer`, `overlap_param_gather`, `fp8_param_gather` and "
                "`use_precision_aware_optimizer`, and with `grad_reduce_in_fp32 = False`",
            ),
            cause(
                "memory.copied_outputs",
                "NVIDIA-NeMo/Megatron-Bridge, recipes: none asks for deterministic kernels, so that cuDNN's attention "
                "runs on Blackwell, too, whose output is not copied",
            ),
        ),
        waits_for_sends=False,
        counts_ends=True,
        sharding="zero1",
        overlap=("gradients", "weights", "transfers", ASYNC_TP),
        sequence_parallel=True,
        dropout=0.0,
        gpt_dropout=0.1,
        micro_batch=1,
        loss="fused",
        gradients="bf16",
        memory=replace(
            MEGATRONS_MEMORY,
            gradients=2,
            copied_outputs=("a100_40gb", "a100_80gb"),
            eight_bit_weights=True,
            remainders=True,
        ),
        waits_for_counts=True,
        issue_of_expert=(20e-6, 40e-6),
        issue_of_expert_bias=20e-6,
        dispatcher="deepep",
    )
)

MEGATRON_DEEPSPEED = framework(
    Framework(
        name="vtrain",
        title="Megatron-DeepSpeed, as in vTrain's measurements",
        also=("megatron-deepspeed", "megatron_deepspeed"),
        sources=(
            cause(
                "recompute",
                "VIA-Research/vTrain, config/validation: activation checkpointing, 1F1B, no ZeRO, gradients not "
                "bucketed",
            ),
            cause(
                "attention",
                "microsoft/Megatron-DeepSpeed: fp16 with fp32 master weights, Megatron's softmax and layer norm "
                "kernels",
            ),
            cause(
                "waits_for_sends",
                "NVIDIA/Megatron-LM v2, megatron/p2p_communication.py: torch.cuda.synchronize() behind each transfer",
            ),
            ISSUE_OF_MEGATRON,
            MEGATRONS_ISSUE_OF_COMMUNICATION,
            cause(
                "dropout vocabulary",
                "VIA-Research/vTrain, src/model/gpt_model.py: 0.1 of embeddings, of attention's weights and of outputs "
                "is dropped, as by default in Megatron-LM",
            ),
        ),
        attention="fused",
        dropout=0.1,
        recompute="full",
        vocabulary=128,
        issue=46e-6,
        issue_of_communication=20e-6,
        waits_for_sends=True,
    )
)
