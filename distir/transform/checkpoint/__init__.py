"""Checkpointing: activations are dropped in the forward pass, and recomputed in the backward pass (Chen et al., 2016).

Paper, section 2.2 and its checkpointing listing.
"""

from distir.transform.checkpoint.steps import checkpoint

__all__ = ["checkpoint"]
