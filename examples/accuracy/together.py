"""Time lowered programs of one rank, one after the other in one process: torch and a GPU start once. Needs only torch.

For each folder a line of JSON on standard output: seconds of each run, and the most bytes that were allocated.
"""

import argparse
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import torch

FEWEST, MOST, ROUND_S = 10, 60, 0.5
"""Timed runs of a program: about so many seconds."""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    folders = parser.parse_args().folders
    sys.path.insert(0, str(folders[0]))
    import run  # of any lowered program: it is the same for all
    import runtime

    device = runtime.connect(backend="nccl" if torch.cuda.is_available() else "gloo")
    torch.set_grad_enabled(False)
    for folder in folders:
        found = {"folder": folder.name}
        try:
            program = runtime.LoweredProgram(folder).prepare(0, device)
            entry = next(iter(program.manifest["entries"]))
            values = program.inputs(entry, {})
            found["peak_memory_bytes"] = peak(run, program, entry, values, device)
            options = SimpleNamespace(cuda_graphs=False, warmup=2, repeat=3)
            slowest = max(run.measured(program, entry, values, device, options))
            options.repeat = max(FEWEST, min(MOST, round(ROUND_S / slowest)))
            found["seconds"] = run.measured(program, entry, values, device, options)
            del program, values
        except Exception as error:  # in its line: the others run
            found["error"] = " ".join(str(error).split())
        print(json.dumps(found), flush=True)
        if device.type == "cuda":
            torch.cuda.empty_cache()


def peak(run, program, entry, values, device):
    """Bytes at most, without the copies of what the program overwrites; none on CPUs, whose allocator does not say."""
    if device.type != "cuda":
        return None
    given, copied = run.given_and_bytes(program, entry, values, device)
    torch.cuda.reset_peak_memory_stats()
    program.call(entry, given)
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - copied


if __name__ == "__main__":
    main()
