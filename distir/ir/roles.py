"""What the braces after a parameter's type may hold: what a parameter is for, of which strategies must know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from distir.ir.core import Param

ROLES: Final[Mapping[str, str]] = {
    "param": "a weight",
    "frozen": "a weight that is not trained",
    "buffer": "a tensor of the model that is no weight, such as running statistics",
    "state": "an optimizer's state, or a cache",
    "initial": "what state begins as: a number, or the name of a weight",
    "batch": "the dimension that is the batch",
    "context": "over how many devices sequences are split",
    "replicas": "over how many devices the batch is split, where one of them represents all",
    "donated": "a value whose memory the program may use again when it needs it no more",
    "remote": "a value that another rank holds",
}
"""By role, in a few words, what a parameter with it is."""

HELD: Final = frozenset({"param", "buffer", "state"})
"""The roles of what a training step passes to the next."""


def is_trained(param: Param) -> bool:
    """Whether a parameter is marked as a weight that gradients are taken by and an optimizer updates."""
    return "param" in param.roles and "frozen" not in param.roles


def is_held(param: Param) -> bool:
    """Whether a parameter belongs to the model or its optimizer, rather than to the inputs of one step."""
    return not HELD.isdisjoint(param.roles)


def is_donated(param: Param) -> bool:
    """Whether the caller gives a parameter's memory away: it is free when the parameter is used no more."""
    return "donated" in param.roles


def described(param: Param) -> str:
    """What a parameter is, in words; nothing for one without a role."""
    role = "frozen" if "frozen" in param.roles else next(iter(param.roles), "")
    return ROLES.get(role, "")
