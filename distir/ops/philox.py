"""Philox4x32-10, a counter-based random number generator: equal counters and keys give equal numbers, anywhere.

Salmon, Moraes, Dror and Shaw, *Parallel random numbers: as easy as 1, 2, 3*, 2011. The torch programs have the same
functions (`distir/lower/templates/kernels.py.txt`). Words of 32 bits are held in Int64, whose products wrap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from distir.ops.numeric import Array, np

WORD = 0xFFFFFFFF

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_MIXING = 0x9E3779B1
"""Joins coordinates for which the counter has no word of their own."""


def philox(counter: tuple[Any, Any, Any, Any], key: int) -> tuple[Any, Any, Any, Any]:
    """Four random words for a counter of four words, which broadcast, and a key of 64 bits."""
    a, b, c, d = counter
    low, high = key & WORD, key >> 32 & WORD
    for _ in range(_ROUNDS):
        first, second = a * _MULTIPLIERS[0], c * _MULTIPLIERS[1]
        a, b, c, d = (second >> 32 & WORD) ^ b ^ low, second & WORD, (first >> 32 & WORD) ^ d ^ high, first & WORD
        low, high = low + _KEY_STEPS[0] & WORD, high + _KEY_STEPS[1] & WORD
    return a, b, c, d


def folded_in(key: int, number: int) -> int:
    """The key of a stream of its own, signed, for each number."""
    a, b, _, _ = philox((number & WORD, number >> 32 & WORD, WORD, WORD), key)
    found = b << 32 | a
    return found - (1 << 64) if found >> 63 else found


def words(key: int, places: Sequence[Array]) -> Array:
    """A random word for each position, given by its coordinates along each dimension.

    The counter is the last coordinate divided by 4 (its remainder selects one of the four words), the one before, the
    one before that, and all others joined; each modulo 2^32.
    """
    *outer, third, second, last = [np.zeros(1, np.int64)] * max(3 - len(places), 0) + list(places)
    joined = np.zeros((), np.int64)
    for place in outer:
        joined = ((joined * _MIXING)[..., None] + place) & WORD
    blocks, which = np.unique(last >> 2, return_inverse=True)
    counter = (blocks & WORD, second[:, None] & WORD, third[:, None, None] & WORD, joined[..., None, None, None])
    every = np.stack(np.broadcast_arrays(*philox(counter, key)), -1)
    every = every.reshape((*every.shape[:-2], 4 * len(blocks)))[..., 4 * which + (last & 3)]
    return every.reshape(tuple(map(len, places)))
