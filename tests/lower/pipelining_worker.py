"""Ranks of `torch.distributed.pipelining`: they run schedules from CSV files, and write losses and gradients.

Run as a script by `test_torch_pipelining.py`, with the folder of the jobs and the number of ranks, which are forks of
this process, so that torch is imported once. A job is a folder with `job.json` (ranks, microbatches, format),
`order.csv`, `weights.npy` and `inputs.npy`.
"""

import json
import os
import sys
import traceback
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime


class Layers(torch.nn.Module):
    """Some of the model's layers: tanh(x w)."""

    def __init__(self, weights):
        super().__init__()
        self.weights = torch.nn.ParameterList([torch.nn.Parameter(torch.from_numpy(w.copy())) for w in weights])

    def forward(self, x):
        for w in self.weights:
            x = torch.tanh(x @ w)
        return x


def work(folder, rank, world):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", f"file://{folder}/store", rank=rank, world_size=world, timeout=timedelta(seconds=60)
    )
    groups = {ranks: dist.new_group(list(range(ranks))) for ranks in range(2, world + 1)}
    for place in sorted(path.parent for path in folder.glob("*/job.json")):
        job = json.loads((place / "job.json").read_text())
        if rank < job["ranks"]:
            run(place, job, rank, groups[job["ranks"]])
    dist.barrier()
    dist.destroy_process_group()


def run(place, job, rank, group):
    weights, inputs = np.load(place / "weights.npy"), torch.from_numpy(np.load(place / "inputs.npy"))
    stages = job["stages"]
    layers = np.array_split(np.arange(len(weights)), stages)
    parts = {s: Layers(weights[layers[s]]) for s in job["homes"][rank]}
    made = [PipelineStage(part, s, stages, torch.device("cpu"), group=group) for s, part in parts.items()]
    schedule = _PipelineScheduleRuntime(made, job["microbatches"], loss_fn=torch.nn.functional.mse_loss)
    schedule._load_csv(os.fspath(place / "order.csv"), format=job["format"])
    losses = []
    x, target = inputs
    given = {"target": target, "losses": losses} if stages - 1 in parts else {}
    schedule.step(*([x] if 0 in parts else []), **given)
    found = {str(i): w.grad.numpy() for s, part in parts.items() for i, w in zip(layers[s], part.weights, strict=True)}
    if losses:
        found["loss"] = torch.stack(losses).mean().detach().numpy()
    np.savez(place / f"results.{rank}.npz", **found)


def forked(folder, rank, world):
    """The process of a rank; it ends with 1 where the rank raises an error."""
    process = os.fork()
    if not process:
        try:
            work(folder, rank, world)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return process


def main(folder, world):
    processes = [forked(folder, rank, world) for rank in range(world)]
    return max(abs(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])) for process in processes)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
