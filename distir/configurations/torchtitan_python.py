"""torchtitan's configuration since its version 0.3: a Python function that distributes another one. It is only written.

Options: torchtitan 0.3.0, torchtitan/config/configs.py and torchtitan/distributed/activation_checkpoint.py.
"""

from __future__ import annotations

from typing import Any

from distir.configurations import torchtitan
from distir.configurations.formats import Format, configuration_format
from distir.configurations.jobs import Exported, Job, on_hosts, unsaid

MOVED = {"enable_async_tensor_parallel": "compile.enable_async_tensor_parallel"}
"""Options of 0.2.2 that are elsewhere in 0.3."""

GONE = ("expert_tensor_parallel_degree", "disable_loss_parallel")
"""Those that it does not have."""

RECOMPUTED = {"full": "FullAC", "selective": "SelectiveAC"}
"""Classes of torchtitan.distributed.activation_checkpoint, by the mode of 0.2.2."""


def write(job: Job) -> Exported:
    """The Python of a job, and what of it is lost."""
    lost = [*unsaid(job), *on_hosts(job)]
    if job.optimizer:
        lost.append(f"the optimizer {job.optimizer}: set it beside the configuration")
    settings: dict[str, Any] = {
        "training.seq_len": job.seq,
        "training.local_batch_size": torchtitan.local_batch(job),
        "training.global_batch_size": job.global_batch,
    }
    if job.tp > 1 and not job.sequence_parallel:
        settings["parallelism.enable_sequence_parallel"] = False
    for name, value in torchtitan.parallelism(job, lost).items():
        if name in GONE:
            lost.append(f"{name}: torchtitan 0.3 has no such option")
        else:
            settings[MOVED.get(name, f"parallelism.{name}")] = value
    if job.tp > 1 and not job.sequence_parallel:
        lost.remove(torchtitan.BOTH)
    mode, option = torchtitan.recomputation(job, lost)
    if mode == "selective" and option != "op":
        lost.append(f"recomputation of one layer in {option}: torchtitan 0.3 recomputes by op")
    if job.precision == "fp8":
        lost.append("8-bit floats: torchtitan 0.3 converts the model by its model_converters")
    if job.compile or job.async_tp:
        settings["compile.enable"] = True
    made = RECOMPUTED.get(mode)
    lines = [f"    config.{name} = {value!r}" for name, value in settings.items() if value is not None]
    lines.append(f"    config.activation_checkpoint = {f'{made}.Config()' if made else None}")
    imports = f"from torchtitan.distributed.activation_checkpoint import {made}\n\n\n" if made else ""
    body = ["def distributed(config):", '    """A configuration of yours for one model, distributed."""', *lines]
    return Exported("".join([imports, "\n".join([*body, "    return config"]), "\n"]), lost)


TORCHTITAN_PYTHON = configuration_format(
    Format(
        name="torchtitan-python",
        title="torchtitan's configuration since 0.3 (Python); only written",
        version="0.3.0",
        suffixes=(),
        read=None,
        write=write,
    )
)
