"""What runs of a framework that has no definition are predicted as."""

from __future__ import annotations

from distir.validate.causes import cause
from distir.validate.frameworks.definition import FRAMEWORKS, Framework, HeldMemory, framework

GENERIC = framework(
    Framework(
        name="generic",
        title="a framework that is not known",
        sources=(
            cause(
                "operators sequence_parallel micro_batch overlap loss memory.peak memory.gradients",
                "assumed, as most of the others do it: mixed precision with float32 master weights and gradients, "
                "fused kernels and attention in one, gradients and weights communicated beside computation, sequence "
                "parallelism with tensor parallelism, one sequence in a micro batch, what torch's allocator reserves",
            ),
            cause(
                "band",
                "band: measured over predicted of 27 runs of seven other definitions on up to 64 GPUs, from the first "
                "tenth to the last; small models that wait for their hosts take up to 4.2 times as long",
            ),
        ),
        operators="core_attn",
        band=(0.9, 2.2),
        sequence_parallel=True,
        micro_batch=1,
        overlap=("gradients", "weights"),
        loss="apart",
        memory=HeldMemory(peak="reserved", gradients=4),
    )
)
"""What runs of a framework that has no definition here are predicted as."""


def definition_of(name: str) -> Framework:
    """The definition of a framework, `GENERIC` for one that is not known."""
    return FRAMEWORKS.get(name, GENERIC)
