"""Checkpointing: activations are dropped on the way forward, and recomputed on the way back (Chen et al., 2016).

Paper, section 2.2 and its checkpointing listing.
"""

from distir.transform.checkpoint.steps import checkpoint

__all__ = ["checkpoint"]
