"""Proof: whether a distributed program computes what a sequential one does, for all values, at the real sizes.

One more domain for Algorithm 1, in which a value stands for what it is of the sequential program: all of a term, some
places of its dimensions, a partial sum.

- `terms.py`: what values of the sequential program are;
- `pieces.py`: what a value of the distributed program is of terms; `algebra.py`, `moving.py`: arithmetic on that;
- `lifting.py`: what an op makes of pieces, by its layout;
- `own.py`, `owned.py`, `shares.py`, `greatest.py`: of rows of a table, of rows of experts, of attention, of maxima;
- `renaming.py`: calls that differ in their operands' terms alone;
- `domain.py`: the domain; `comparing.py`: whether values are what is due; `words.py`: pieces in words;
- `batches.py`, `reasons.py`: microbatches and replicas, and why a statement is not what is due, in words;
- `stated.py`: what a file says parameters and results are; `proving.py`: both programs in the domain;
- `structure.py`: whether two sequential programs are one, however they are cut into functions; `erasures.py`: programs
  on a mesh, by their types and this;
- `placements.py`: what each value of a program is, for editors.

Ops have rules of their own beside their definitions (`@Op.pieces`, `ops/pieces.py`) where a layout does not tell.
"""

from distir.prove.comparing import Failure, Proof, ProveError
from distir.prove.proving import FollowedProgram, follow, prove, reference
from distir.prove.stated import Stated, StatedError, read_stated

__all__ = [
    "Failure",
    "FollowedProgram",
    "Proof",
    "ProveError",
    "Stated",
    "StatedError",
    "follow",
    "prove",
    "read_stated",
    "reference",
]
