"""Offload: what a device does not need for a while is in its host's memory meanwhile.

`steps.py` registers the step, `activations.py` offloads what the backward pass needs of layers.
"""

from distir.transform.offload.steps import offload

__all__ = ["offload"]
