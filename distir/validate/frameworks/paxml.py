"""Paxml."""

from __future__ import annotations

from distir.validate.causes import cause
from distir.validate.frameworks.definition import Framework, framework

PAXML = framework(
    Framework(
        name="paxml",
        title="Paxml on JAX",
        sources=(
            cause(
                "sharding",
                "google/paxml, praxis: fully sharded weights (ici_mesh_shape), compiled by XLA; with Transformer "
                "Engine's layers (contrib/gpu/scripts_gpu/te_helper.py)",
            ),
            cause(
                "recompute",
                "NVIDIA/dgxc-benchmarking, paxml/paxml_mod_configs.py: `SAVE_QKV_OUT_PROJ`; google/praxis, "
                "layers/checkpoint_policy.py: queries, keys, values and the attention's output projection are saved, "
                "and of each layer its input",
            ),
            cause(
                "shards_weights_over",
                "NVIDIA/dgxc-benchmarking, paxml/configure.sh: `FSDP=16` nodes, weights are sharded over 128 GPUs",
            ),
            cause(
                "overlap",
                "NVIDIA/JAX-Toolbox, rosetta/docs/GPU_performance.md: XLA's latency-hiding scheduler, with "
                "asynchronous all-gathers and reduce-scatters",
            ),
        ),
        kernels="fused",
        recompute="modules:layernorm,context,mlp",
        sharding="zero3",
        shards_weights_over=128,
        overlap=("weights", "gradients"),
    )
)
