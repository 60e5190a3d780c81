"""docs/reference/models.md: which cells are good, as `make zoo` finds them, and the cells that the page states."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
import transformers
from cells import COLUMNS, FAULTS, GOOD, GRAD, TRAINING, Cell, Column
from families import BATCH, FAMILIES, example

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "models.md"

TITLES = {"inference": "Inference", "training": "Training"}

HEAD = f"""# Models and strategies

Which model families work with which strategies. `make zoo` runs and verifies every combination and writes this page;
the tests run some of them again and compare.

## How to read it

A row is a model family, a column a strategy. Each was run on a small model with random weights,
[imported](../how-to/models.md) with a batch of any size.

| mark | meaning |
|---|---|
| {GOOD} | done, and the results are those of the sequential program (*run*, *grad*: those of PyTorch) |
| a code | refused: the diagnostic says why, and [below](#why-not) there is what it said |
{{faults}}
Results agree if no element differs by more than 10⁻⁹ of the greatest one, or of 1. Strategies are compared in Float64,
so that rounding hides no mistake; in Float32, with 10⁻⁵, where an op of the model requires that. For the columns
*launch* the program is lowered and launched as 2 processes of PyTorch, and compared with the reference executor.
"""

FAULT = "| {mark} | a fault in DistIR: please do not rely on it |\n"


def text(cells: Iterable[Cell]) -> str:
    """The page."""
    found = list(cells)
    faults = "".join(FAULT.format(mark=f"**{m}**") for m in FAULTS if any(c.mark == m for c in found))
    parts = [HEAD.format(faults=faults)]
    for table, columns in COLUMNS.items():
        parts.append(f"## {TITLES[table]}\n\n{_about(table)}\n\n{_table(table, columns, found)}\n")
        parts.append(_columns(columns))
    parts += [_reasons(found), _models(), _one(), _versions()]
    return "\n".join(parts)


def _about(table: str) -> str:
    if table == "inference":
        return "Programs that give what the model gives."
    return f"Steps of training: `distir transform {' '.join(TRAINING)}`."


def _table(table: str, columns: Sequence[Column], cells: Sequence[Cell]) -> str:
    by_place = {(cell.family, cell.column): cell for cell in cells if cell.table == table}
    rows = [["family", *(column.name for column in columns)], ["---", *(":-:" for _ in columns)]]
    rows += [[name, *(_shown(by_place[name, column.name]) for column in columns)] for name in FAMILIES]
    return _lines(rows)


def _shown(cell: Cell) -> str:
    if cell.mark == GOOD:
        return GOOD
    return f"**{cell.mark}**" if cell.is_fault else _linked(cell.mark)


def _linked(number: str) -> str:
    return f"[{number}](../../distir/diagnostics/codes#{number})"


def _columns(columns: Sequence[Column]) -> str:
    rows = [["column", "steps", "what is verified"], ["---"] * 3]
    return _lines([*rows, *([c.name, f"`{' '.join(c.steps)}`" if c.steps else "", c.done] for c in columns)]) + "\n"


def _reasons(cells: Sequence[Cell]) -> str:
    """What was said, once, with the cells that it was said of."""
    said: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        if cell.mark != GOOD:
            said.setdefault((cell.mark, _short(cell.reason)), []).append(f"{cell.family} {cell.table} *{cell.column}*")
    lines = ["## Why not\n"]
    for (mark, reason), places in sorted(said.items()):
        shown = f"**{mark}**" if mark in FAULTS else _linked(mark)
        lines.append(f"- {shown} {reason}: {', '.join(places)}")
    return "\n".join([*lines, ""])


LONGEST = 200


def _short(reason: str) -> str:
    """A line of it."""
    line = " ".join(reason.split()).replace("|", "\\|")
    if len(line) <= LONGEST:
        return line
    cut = line[:LONGEST]
    return f"{cut}…`" if cut.count("`") % 2 else f"{cut}…"


def _models() -> str:
    rows = [["family", "model", "weights", "inputs"], ["---", "---", "--:", "---"]]
    for name in FAMILIES:
        module, inputs = example(name)
        count = sum(parameter.numel() for parameter in module.parameters())
        kind = type(module).__name__
        shown = (
            f"`transformers.{kind}`" if type(module).__module__.startswith("transformers.") else f"`{kind}`, by hand"
        )
        given = ", ".join(f"`{key}` {tuple(value.shape)}" for key, value in inputs.items())
        rows.append([name, shown, f"{count:,}", given])
    return f"## The models\n\nSmall ones, defined in `tests/zoo/families.py`.\n\n{_lines(rows)}\n"


def _one() -> str:
    return f"""## Try one

A cell of the tables, with what was said and how long it took:

```sh
.venv/bin/python tests/zoo/zoo.py --family llama --column pp
```

The same for your model:

```sh
distir import hf config.json --layers 2 -o model.dir
distir transform pp=2 microbatches=2 model.dir --verify --bind B={BATCH} -o pipeline.dir
distir transform {" ".join(GRAD)} optimizer=adam dp=2 zero=1 model.dir --verify --bind B={BATCH} -o zero.dir
distir launch zero.dir --verify --bind B={BATCH}
```
"""


def _versions() -> str:
    release = torch.__version__.partition("+")[0]
    return f"Tried with PyTorch {release} and transformers {transformers.__version__}.\n"


def _lines(rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def stated(page: str) -> dict[tuple[str, str, str], str]:
    """By family, table and column: the mark that a page shows."""
    found: dict[tuple[str, str, str], str] = {}
    for table, title in TITLES.items():
        section = page.partition(f"\n## {title}\n")[2].partition("\n\n| family |")[2].partition("\n\n")[0]
        head, _, *rows = ("| family |" + section).splitlines()
        columns = _row(head)[1:]
        for family, *marks in map(_row, rows):
            found |= {(family, table, column): mark for column, mark in zip(columns, marks, strict=True)}
    return found


def _row(line: str) -> list[str]:
    """The cells of a table's line: of a link its text."""
    return [re.sub(r"\[(\w+)\]\(.*?\)|\*\*(\w+)\*\*", r"\1\2", part.strip()) for part in line.strip("| ").split(" | ")]
