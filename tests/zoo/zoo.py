"""Tries every family of models with every strategy, and writes docs/reference/models.md (`make zoo`).

With --family or --column, only these cells are tried, and nothing is written. Ends with exit code 1 where a result is
wrong, or something is raised that is no diagnostic.
"""

import argparse
import os
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the processes share the cores

import joblib
from cells import COLUMNS, GOOD, Cell, cells
from families import FAMILIES
from joblib.externals.loky import get_reusable_executor
from page import PAGE, text

from distir.files.scratch import ended_on_termination


def main() -> int:
    options = _options()
    wanted = options.family or list(FAMILIES)
    start, found = time.perf_counter(), list[Cell]()
    jobs = joblib.Parallel(n_jobs=options.jobs, return_as="generator_unordered", batch_size=1)
    with ended_on_termination(), _processes_ended():
        for row in jobs(joblib.delayed(_tried)(name, options.column) for name in wanted):
            found += row
            _print(row, detailed=bool(options.family or options.column))
    faults = [cell for cell in found if cell.is_fault]
    for cell in faults:
        print(f"fault: {cell.family} {cell.table} {cell.column}: {cell.mark}: {cell.reason}", file=sys.stderr)
    good = sum(cell.mark == GOOD for cell in found)
    print(f"{good} of {len(found)} cells are good, {len(faults)} are faults; {time.perf_counter() - start:.0f} s")
    if not (options.family or options.column):
        PAGE.write_text(text(found), encoding="utf-8")
        print(f"wrote {PAGE}")
    return 1 if faults else 0


@contextmanager
def _processes_ended() -> Generator[None]:
    """Where the block is left before its end, none goes on with what nobody waits for."""
    try:
        yield
    except BaseException:
        get_reusable_executor().shutdown(wait=True, kill_workers=True)
        raise


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    columns = list(dict.fromkeys(column.name for columns in COLUMNS.values() for column in columns))
    parser.add_argument("--family", action="append", choices=list(FAMILIES), help="may be given several times")
    parser.add_argument("--column", action="append", choices=columns, help="may be given several times")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many families at once")
    return parser.parse_args()


def _tried(name: str, columns: list[str] | None) -> list[Cell]:
    return cells(name, lambda _, column: columns is None or column.name in columns)


def _print(row: list[Cell], detailed: bool) -> None:
    """A line for each table, with the seconds of CPU that each cell took."""
    for table in dict.fromkeys(cell.table for cell in row):
        own = [cell for cell in row if cell.table == table]
        shown = "  ".join(f"{cell.column} {cell.mark} {cell.seconds:.1f}s" for cell in own)
        print(f"{own[0].family:12} {table:9}  {shown}", flush=True)
        for cell in own if detailed else ():
            if cell.reason:
                print(f"  {cell.column}: {cell.mark}: {cell.reason}")


if __name__ == "__main__":
    sys.exit(main())
