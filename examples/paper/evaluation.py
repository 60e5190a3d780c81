"""What the parts of the evaluation share: the paper's models and batch sizes, and their grids, searched once.

A grid's rows are kept in `build/paper`, with the time that it took; a grid that is there is not searched again.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

from distir import models
from distir.cost import load
from distir.search import Log, Search, Space, Subject, Table, Workers, read_rows

ROOT = Path(__file__).parent.parent.parent
OUT = ROOT / "build" / "paper"
HARDWARE = "dgx2-v100"
DEVICES = 16
TRAINING = ("mlp-1b", "mlp-17b", "mlp-103b")
INFERENCE = ("gpt2-1.6b", "gpt2-13b", "gpt2-175b")
GIGABYTE = 1e9

TABLE_1_BATCH = {"mlp-1b": 65536, "mlp-17b": 65536, "mlp-103b": 256}
"""The fixed batch sizes of the paper's MLP figures, which its Table 1 counts 75 configurations for."""

MLP_BATCHES = tuple(2**n for n in range(7, 19))
GPT2_BATCHES = tuple(2**n for n in range(7, 21))


@dataclass(frozen=True)
class Grid:
    """The rows of one model, and seconds that finding them took: of one CPU, and on the clock."""

    model: str
    table: Table
    cpu_s: float
    wall_s: float


def grid(model: str, batches: tuple[int, ...], name: str) -> Grid:
    """All configurations of a model on 16 devices, from `build/paper` if they are there."""
    OUT.mkdir(parents=True, exist_ok=True)
    csv, times = OUT / f"{name}.csv", OUT / f"{name}.json"
    subject = Subject(model, models.named(model), load(HARDWARE))
    search = Search(subject, Space(DEVICES, batches), workers=Workers(jobs=1))
    if times.exists() and csv.exists():
        found = json.loads(times.read_text())
        if found["search"] == search.digest:
            return Grid(model, Table(tuple(read_rows(str(csv), search.digest))), found["cpu_s"], found["wall_s"])
    cpu, wall = time.process_time(), time.perf_counter()
    rows = []
    with Log(str(csv), resume=False) as log:
        for row in search.rows():
            rows.append(row)
            log.add(row)
    spent = {"cpu_s": time.process_time() - cpu, "wall_s": time.perf_counter() - wall}
    times.write_text(json.dumps({"search": search.digest, **spent}))
    return Grid(model, Table(tuple(rows)), **spent)


def table_1_grid(model: str) -> Grid:
    """The grid that Table 1 counts: 75 configurations of an MLP, 1,035 of a GPT-2."""
    batches = (TABLE_1_BATCH[model],) if model in TRAINING else GPT2_BATCHES
    return grid(model, batches, model)


def markdown(columns: list[str], rows: list[list[object]]) -> str:
    """A table; numbers to the right."""
    head = [columns, ["---:" if rows and isinstance(cell, (int, float)) else "---" for cell in (rows or [[]])[0]]]
    return "\n".join(f"| {' | '.join(map(_cell, row))} |" for row in [*head, *rows]) + "\n"


def _cell(value: object) -> str:
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


def write(name: str, text: str) -> None:
    """Print a part of the report, and keep it."""
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / f"{name}.md").write_text(text, encoding="utf-8")
    print(text)
