"""Frameworks that people train with: what each does where a run does not say. A framework is one definition.

A definition (`definition`) states facts of the framework's code and of its defaults, each with its source. What a run
states counts before them. A file has the definitions that share causes: `megatron`, `fsdp`, `paxml`, `aleph`.
`generic` is what runs of others are predicted as. `attention`: what kernels of attention cost.
"""

from distir.validate.frameworks.aleph import ALEPH
from distir.validate.frameworks.attention import ATTENTION_RATES, HOPPERS_DROPOUT, HOPPERS_RATES
from distir.validate.frameworks.definition import (
    ASYNC_TP,
    FRAMEWORKS,
    NO_OTHER_MEMORY,
    Attention,
    Framework,
    HeldMemory,
    framework,
    framework_names,
)
from distir.validate.frameworks.fsdp import DEEPSPEED, FSDP2, LLM_FOUNDRY, TORCHTITAN
from distir.validate.frameworks.generic import GENERIC, definition_of
from distir.validate.frameworks.megatron import MEGATRON, MEGATRON_DEEPSPEED, NEMO
from distir.validate.frameworks.paxml import PAXML

__all__ = [
    "ALEPH",
    "ASYNC_TP",
    "ATTENTION_RATES",
    "DEEPSPEED",
    "FRAMEWORKS",
    "FSDP2",
    "GENERIC",
    "HOPPERS_DROPOUT",
    "HOPPERS_RATES",
    "LLM_FOUNDRY",
    "MEGATRON",
    "MEGATRON_DEEPSPEED",
    "NEMO",
    "NO_OTHER_MEMORY",
    "PAXML",
    "TORCHTITAN",
    "Attention",
    "Framework",
    "HeldMemory",
    "definition_of",
    "framework",
    "framework_names",
]
