"""ZeRO: optimizer state, gradients and parameters partitioned over data-parallel devices (Rajbhandari et al., 2020).

A program that `dp` made holds each of them once per replica. Paper, section 2.2 and its ZeRO listing.
"""

from distir.transform.zero.steps import zero

__all__ = ["zero"]
