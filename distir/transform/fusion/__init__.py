"""Fusion: elementwise ops with their reductions as kernels, and transposes as views."""

from distir.transform.fusion.step import fuse, with_kernels

__all__ = ["fuse", "with_kernels"]
