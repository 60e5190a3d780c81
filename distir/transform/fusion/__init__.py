"""Fusion: elementwise ops with their reductions as kernels, and transposes as views."""

from distir.transform.fusion.step import fuse

__all__ = ["fuse"]
