"""How the laboratory trains: a fork of Megatron-LM, for the column `framework` of measured runs."""

from dataclasses import replace

from distir.validate import FRAMEWORKS, cause, framework

MEGATRON = FRAMEWORKS["megatron"]

framework(
    replace(
        MEGATRON,
        name="my-megatron",
        title="our fork of Megatron-LM",
        sources=(
            cause("issue gradients", "train/arguments.py of our fork: graphs of whole layers, gradients in BFloat16"),
            *MEGATRON.sources,
        ),
        issue=5e-6,
        gradients="bf16",
    )
)
