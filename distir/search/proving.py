"""Whether the programs of the best rows compute what the sequential one does, for all values, at their real sizes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from distir.diagnostics import ProgramError
from distir.prove import ProveError, prove
from distir.search.distributed import program
from distir.search.rows import Row
from distir.search.subject import Subject, batch_dimension
from distir.transform.steps import StepError


@dataclass(frozen=True, slots=True)
class ProofOfRow:
    """The proof of a row's program. `reason`: why it is not proved; None if it is."""

    row: Row
    reason: str | None
    laws: tuple[str, ...] = ()
    """Laws of real numbers that were used, which floating-point numbers obey up to rounding."""


class _OutOfTime(Exception):  # noqa: N818 - ends a proof, no failure
    """A proof takes longer than it may."""


def proofs(subject: Subject, rows: Iterable[Row], timeout_s: float) -> Iterator[ProofOfRow]:
    """A proof of each row, or why there is none. `timeout_s`: how long each may take.

    Experts have room for all tokens, whatever `skew` the row was simulated with: with less, some are dropped.
    """
    for row in rows:
        try:
            yield _proof(subject, row, timeout_s)
        except _OutOfTime:
            yield ProofOfRow(row, f"it takes longer than {timeout_s:g} s")
        except (ProveError, StepError) as error:
            yield ProofOfRow(row, str(error))
        except ProgramError as error:
            yield ProofOfRow(row, error.diagnostics[0].message)


def _proof(subject: Subject, row: Row, timeout_s: float) -> ProofOfRow:
    end = time.monotonic() + timeout_s

    def pause() -> None:
        if time.monotonic() > end:
            raise _OutOfTime

    module = program(subject, replace(row.plan, skew=0.0), row.batch_size)
    dimension = batch_dimension(subject.entry)
    sizes = {name: value for name, value in subject.bind if isinstance(value, int)}
    if dimension is not None and row.batch_size is not None:
        sizes[dimension] = row.batch_size
    proof = prove(module, subject.module, sizes, pause=pause)
    return ProofOfRow(row, None if proof.proved else proof.failures[0].reason, proof.laws)
