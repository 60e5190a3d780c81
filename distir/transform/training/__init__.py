"""The training step of a forward program: loss, gradients, clipping and loss scaling, the optimizer's updates.

`precision` says in which element types, `schedule` at which learning rate.
"""

from distir.transform.training.step import grad

__all__ = ["grad"]
