"""Trains a small model under `torch.profiler`, once per way to distribute it: what rank `RANK` of two does.

None of it knows DistIR. Ways: `ddp`, `fsdp` (FSDP2), `pipeline` (GPipe, two stages, two microbatches); the traces go to
a folder of each, as `rankN.json`, those of `pipeline` compressed.
"""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.profiler import ProfilerActivity, profile, schedule

BATCH = 16
"""Samples, over both ranks."""


def layers():
    return [layer for _ in range(2) for layer in (nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 64), nn.ReLU())]


def train(step, parameters, path, **options):
    """Profile three steps, after two."""
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    options |= {"schedule": schedule(wait=1, warmup=1, active=3), "activities": [ProfilerActivity.CPU]}
    with profile(on_trace_ready=lambda own: own.export_chrome_trace(str(path)), record_shapes=True, **options) as own:
        for _ in range(5):
            optimizer.zero_grad()
            step()
            optimizer.step()
            own.step()


def main(folder, rank):
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    for way in ("ddp", "fsdp", "pipeline"):
        (folder / way).mkdir(exist_ok=True)

    model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers()))
    x, target = torch.randn(BATCH // 2, 64), torch.randn(BATCH // 2, 64)
    path = folder / "ddp" / f"rank{rank}.json"
    train(lambda: nn.functional.mse_loss(model(x), target).backward(), model.parameters(), path, with_stack=True)

    sharded = nn.Sequential(*layers())
    for layer in (*sharded[::2], sharded):
        fully_shard(layer, mesh=init_device_mesh("cpu", (2,)))
    path = folder / "fsdp" / f"rank{rank}.json"
    train(lambda: nn.functional.mse_loss(sharded(x), target).backward(), sharded.parameters(), path)

    part = nn.Sequential(*layers()[4 * rank :][:4])
    runtime = ScheduleGPipe(PipelineStage(part, rank, 2, torch.device("cpu")), 2, loss_fn=nn.MSELoss())
    whole = torch.randn(BATCH, 64)
    given = ({"target": whole}, ()) if rank else ({}, (whole,))
    path = folder / "pipeline" / f"rank{rank}.json.gz"
    train(lambda: runtime.step(*given[1], **given[0]), part.parameters(), path)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(os.environ["RANK"]))
