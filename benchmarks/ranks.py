"""Runs a script of a benchmark's own on the ranks of a lowered program, as `launch` runs the program itself."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from distir.lower import EntryPoint, Launch, launch, lower

START = """
import argparse, json, os, statistics, time
from pathlib import Path
import torch
import runtime

parser = argparse.ArgumentParser()
for name in ("backend", "timeout", "store", "errors", "report"):
    parser.add_argument(f"--{name}")
parser.add_argument("--supervised", action="store_true")
options = parser.parse_args()
runtime.watch_parent()
runtime.set_threads(1)
rank = int(os.environ["RANK"])
try:
    device = runtime.connect(backend=options.backend, timeout=120.0, store=options.store, bind=True)
    program = runtime.LoweredProgram().prepare(rank, device)
    report = measure()
    if rank == 0:
        Path(options.report).write_text(json.dumps(report))
    runtime.barrier()
    runtime.leave()
except Exception as error:
    (Path(options.errors) / f"{rank}.json").write_text(json.dumps(runtime.failure(error)))
    os._exit(1)
"""
"""Behind a function `measure`, which uses `program`, `runtime`, `torch`, and gives what rank 0 reports."""


def reported(entries: Sequence[EntryPoint], measure: str) -> Any:
    """What rank 0 reports. `measure`: the text of the function of that name, and of others that it calls."""
    with tempfile.TemporaryDirectory(prefix="distir-bench-") as scratch:
        folder = Path(scratch)
        lowered = lower(entries)
        lowered.write(folder)
        (folder / "measuring.py").write_text(measure + START)
        return launch(Launch(folder, lowered.ranks, timeout_s=120, script="measuring.py"))
