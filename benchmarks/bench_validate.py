"""What predictions of measured runs cost: CPU time a row of each file in `examples/measured`, in one process.

    bench_validate.py                          all of them: minutes
    bench_validate.py examples/measured/*.csv  some

Run it as a script. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from distir.validate.predictions import predict_all
from distir.validate.runs import read_runs

MEASURED = Path(__file__).parents[1] / "examples" / "measured"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("files", nargs="*", default=sorted(MEASURED.glob("*.csv")), help="files of measured runs")
    rows, seconds = 0, 0.0
    for path in arguments.parse_args().files:
        start = time.process_time()
        found = list(predict_all(read_runs(str(path)), jobs=1))
        spent = time.process_time() - start
        rows, seconds = rows + len(found), seconds + spent
        show(Path(path).name, len(found), spent)
    show("all", rows, seconds)


def show(what: str, rows: int, seconds: float) -> None:
    """Print the CPU time of some rows."""
    print(f"{what}: {rows} rows, {seconds:.1f} s of CPU, {seconds / rows:.2f} s a row", flush=True)


if __name__ == "__main__":
    main()
