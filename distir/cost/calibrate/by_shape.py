"""Measurements of products and attention by shape, as tables for `examples/profiles/fit.py`."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from distir.cost.calibrate.measuring import Sample
from distir.ir import TensorType
from distir.ops.resources import MatrixProduct, Scores

PRODUCTS, ATTENTION = "products.csv", "attention.csv"
_COLUMNS = {
    PRODUCTS: ("dtype", "m", "n", "k", "batch", "seconds"),
    ATTENTION: ("dtype", "batch", "seq", "heads", "kv_heads", "head_dim", "seconds"),
}


def tables(samples: Sequence[Sample]) -> dict[str, str]:
    """The tables, by the names of their files: a row for each shape, in CSV with a header."""
    rows: dict[str, list[tuple[object, ...]]] = {PRODUCTS: [], ATTENTION: []}
    for sample in samples:
        b = sample.benchmark
        alone = len(b.devices) == 1 and len(b.work.contractions) == 1
        match [one for _, _, one in b.work.contractions] if alone else []:
            case [MatrixProduct(m=m, n=n, k=k, batch=batch)]:
                rows[PRODUCTS].append((_dtype(sample), m, n, k, batch, f"{sample.seconds:.6g}"))
            case [Scores()]:
                batch, heads, length, size = _shape(sample, 0)
                row = (_dtype(sample), batch, length, heads, _shape(sample, 1)[1], size, f"{sample.seconds:.6g}")
                rows[ATTENTION].append(row)
            case _:
                pass
    return {name: _csv(_COLUMNS[name], own) for name, own in rows.items()}


def _shape(sample: Sample, operand: int) -> tuple[int, ...]:
    stated = sample.benchmark.function.params[operand].type
    assert isinstance(stated, TensorType)
    return tuple(size for size in stated.shape or () if isinstance(size, int))


def _dtype(sample: Sample) -> str:
    dtype = sample.benchmark.work.contractions[0][0]
    return "" if dtype is None else dtype.name


def _csv(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([columns, *rows])
    return text.getvalue()
