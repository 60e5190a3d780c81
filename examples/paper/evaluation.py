"""What the parts of the evaluation share: the paper's models and batch sizes, and their grids, searched once.

A grid's rows are kept in `build/paper` as they are found, with the time that they took: an evaluation that was
interrupted goes on where it was, and one that is complete is not repeated. To begin anew, remove the folder.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from distir import models
from distir.cost import load
from distir.search import Log, Row, Search, Space, Subject, Table, Workers, read_rows
from distir.transform.strategy import Strategy

ROOT = Path(__file__).parent.parent.parent
OUT = ROOT / "build" / "paper"
"""What is kept between runs, traces and pages to point at."""

REPORT = ROOT / "docs" / "explanation" / "paper"
"""The pictures of the report, which stands beside this folder."""

HARDWARE = "dgx2-v100"
SUMS = ("stage",)
"""The paper's pipelines add up the gradients of a stage together."""
DEVICES = 16
SUMS_SHOWN = Strategy(1, 1, 1).sums
"""What plans need not state."""
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
    search = Search(subject, Space(DEVICES, batches, sums=SUMS), workers=Workers(jobs=1))
    known, spent = [], {"cpu_s": 0.0, "wall_s": 0.0}
    if times.exists() and csv.exists():
        found = json.loads(times.read_text())
        if found.pop("search") == search.digest:
            known, spent = read_rows(str(csv), search.digest), found
    total = search.configurations
    if len(known) < total:
        print(f"{name}: {total - len(known)} of {total} configurations to simulate", file=sys.stderr, flush=True)
        known = _searched(replace(search, known=tuple(known)), csv, times, spent)
    return Grid(model, Table(tuple(known)), **spent)


def _searched(search: Search, csv: Path, times: Path, spent: dict[str, float]) -> list[Row]:
    """All rows, those known first; however it ends, the file has those found, and `times` what they cost."""
    rows, before = list(search.known), dict(spent)
    cpu, wall = time.process_time(), time.perf_counter()
    with Log(str(csv), resume=bool(rows)) as log:
        try:
            for row in search.rows():
                log.add(row)
                rows.append(row)
        finally:
            spent["cpu_s"] = before["cpu_s"] + time.process_time() - cpu
            spent["wall_s"] = before["wall_s"] + time.perf_counter() - wall
            times.write_text(json.dumps({"search": search.digest, **spent}))
    return rows


def table_1_grid(model: str) -> Grid:
    """The grid that Table 1 counts: 75 configurations of an MLP, 1,035 of a GPT-2."""
    batches = (TABLE_1_BATCH[model],) if model in TRAINING else GPT2_BATCHES
    return grid(model, batches, model)


def layout(row: Row) -> str:
    """A row's plan as the paper writes it, D/T/P/K. All rows of a grid add up gradients alike."""
    return str(replace(row.plan, sums=SUMS_SHOWN))


def markdown(columns: list[str], rows: list[list[object]]) -> str:
    """A table; numbers to the right."""
    head = [columns, ["---:" if rows and isinstance(cell, (int, float)) else "---" for cell in (rows or [[]])[0]]]
    return "\n".join(f"| {' | '.join(map(_cell, row))} |" for row in [*head, *rows]) + "\n"


def _cell(value: object) -> str:
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


def write(name: str, text: str) -> None:
    """Print a part of the report, and keep it, its paragraphs in lines as long as elsewhere in the documentation."""
    OUT.mkdir(parents=True, exist_ok=True)
    fill = textwrap.TextWrapper(120, break_long_words=False, break_on_hyphens=False).fill
    text = "\n".join(line if line.startswith(("|", "#", "!")) else fill(line) for line in text.split("\n"))
    (OUT / f"{name}.md").write_text(text, encoding="utf-8")
    print(text)


def picture(name: str, draw: Callable[[Path], None]) -> str:
    """Let `draw` write an SVG of the report. Gives the words that show it.

    Coordinates are kept to a hundredth of a point: half the file, and nothing to be seen.
    """
    REPORT.mkdir(parents=True, exist_ok=True)
    path = REPORT / f"{name}.svg"
    draw(path)
    text = path.read_text(encoding="utf-8")
    path.write_text(re.sub(r"(\d+\.\d\d)\d+", r"\1", text), encoding="utf-8")
    return f"![{name}](paper/{name}.svg)"


def save(figure: Figure, path: Path) -> None:
    """A figure as SVG, the same each time, with text as text."""
    with matplotlib.rc_context({"svg.hashsalt": "distir", "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None})
