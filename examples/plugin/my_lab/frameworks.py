"""How the laboratory trains: a fork of Megatron-LM, for the column `framework` of measured runs."""

from dataclasses import replace

from distir.validate import FRAMEWORKS, framework

framework(
    replace(
        FRAMEWORKS["megatron"],
        name="my-megatron",
        title="our fork of Megatron-LM",
        sources=("train/arguments.py of our fork: CUDA graphs of whole layers, gradients are reduced in BFloat16",),
        issue=5e-6,
        gradients="bf16",
    )
)
