"""torchtitan's configuration since its version 0.3: Python functions of a `config_registry`, by the options of 0.2.

What is written is a function that distributes another one's configuration. Options: torchtitan 0.3.0,
torchtitan/config/configs.py, torchtitan/trainer.py and torchtitan/distributed/activation_checkpoint.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from distir.configurations import torchtitan
from distir.configurations.formats import Format, configuration_format
from distir.configurations.jobs import Job, JobText, ReadJob, Supplied, unsaid
from distir.configurations.options import ConfigurationError, Setting, as_list, renamed
from distir.configurations.python_settings import CHOICE, MADE_BY, PythonSettings, of_python
from distir.validate.strategies import EIGHT_BITS

MOVED = {"enable_async_tensor_parallel": "compile.enable_async_tensor_parallel"}
"""Options of 0.2.2 that are elsewhere in 0.3."""

GONE = ("expert_tensor_parallel_degree", "disable_loss_parallel")
"""Those that it does not have."""

RECOMPUTED = {"full": "FullAC", "selective": "SelectiveAC"}
"""Classes of torchtitan.distributed.activation_checkpoint, by the mode of 0.2.2."""

RENAMED: Final = {
    **{new: f"parallelism.{old}" for old, new in MOVED.items()},
    "validator.": "validation.",
    "profiler.": "profiling.",
    "hf_assets_path": "model.hf_assets_path",
    "dump_folder": "job.dump_folder",
    "dataloader.": "training.dataloader.",
}
"""What options of 0.3 were called in 0.2.2."""

MODES: Final = {"FullAC": "full", "SelectiveAC": "selective", "MemoryBudgetAC": "memory_budget", None: "none"}
"""The mode of 0.2.2, by the class of activation checkpointing."""

CONVERTERS: Final = {
    "Float8LinearConverter": "quantize.linear.float8",
    "MXFP8LinearConverter": "quantize.linear.mx",
    "MXFP8GroupedExpertsConverter": "quantize.grouped_mm.mx",
    "NVFP4LinearConverter": "quantize.linear.nvfp4",
}
"""Converters of a model, by their classes."""

NAMES: Final = ("deepseek_v3", "gpt_oss", "llama4", "llama3", "qwen3")
"""Models whose functions begin with their names."""

UNTOLD: Final = frozenset(("loss", "tokenizer"))
"""Parts that change nothing of a step but how its loss is computed, which is not simulated."""


def read(text: str, path: str, given: Supplied) -> ReadJob:
    """What a function of a file makes: the only one, or the one that `--set config=…` names."""
    written = of_python(text, path, given.variables.get(CHOICE))
    settings = dict(_of_today(written))
    if given.model is None and "model.flavor" not in settings:
        raise ConfigurationError(f"{path}: `{written.name}` does not say its model", "name it with `--model llama3-8b`")
    found = torchtitan.job_of(settings, path, given)
    return ReadJob(found.job, found.framework, [*written.notes, *found.notes])


def _of_today(written: PythonSettings) -> Iterator[tuple[str, Setting]]:
    """The settings by the options of 0.2.2."""
    for name, setting in written.settings.items():
        part, _, rest = name.partition(".")
        if part == "model_spec":
            yield from _model(written, rest, setting)
        elif part == "activation_checkpoint":
            if rest in ("", MADE_BY):
                yield "activation_checkpoint.mode", Setting(MODES.get(setting.value, setting.value), setting.line)
                yield "activation_checkpoint.selective_ac_option", Setting("op", setting.line)
            else:
                yield name, setting
        elif part == "optimizer" and rest == MADE_BY:
            is_muon = "muon" in str(setting.value).lower() or "muon" in written.name
            yield "optimizer.name", Setting("Muon" if is_muon else "AdamW", setting.line)
        elif part not in UNTOLD and not rest.endswith(MADE_BY) and not re.search(r"\b\d+\b", rest):
            yield renamed(RENAMED, name), setting


def _name(written: PythonSettings) -> str:
    """The name of the model of a function: its own, that of the module that it is from, or of most of the others.

    Where these say none, the name of the function.
    """
    module = written.modules.get("model_registry", "").rpartition(".")[2]
    others = [name for other in written.others for name in NAMES if _begins(other, name)]
    named = next((name for name in NAMES if _begins(written.name, name)), module)
    return named or max(others, key=others.count, default=written.name)


def _begins(function: str, name: str) -> bool:
    return re.match(rf"{name}(?![a-z0-9])", function) is not None


def _model(written: PythonSettings, rest: str, setting: Setting) -> Iterator[tuple[str, Setting]]:
    """The model of `model_registry("8B", converters=[…])`, whose name the module says, or the function's."""
    if rest == "0":
        yield "model.name", Setting(_name(written), setting.line)
        yield "model.flavor", setting
    elif rest == "converters":
        classes = [str(CONVERTERS.get(str(one), one)) for one in as_list(setting.value) or ()]
        yield "model.converters", Setting(classes, setting.line)
    elif not rest.endswith(MADE_BY):
        yield f"model.{rest}", setting


def write(job: Job) -> JobText:
    """The Python of a job."""
    why = unsaid(job)
    settings: dict[str, Any] = {
        "training.seq_len": job.seq,
        "training.local_batch_size": torchtitan.local_batch(job),
        "training.global_batch_size": job.global_batch,
    }
    if job.strategy.tensor > 1 and not job.strategy.sequence:
        settings["parallelism.enable_sequence_parallel"] = False
    options = torchtitan.parallelism(job, why)
    settings |= {MOVED.get(name, f"parallelism.{name}"): value for name, value in options.items() if name not in GONE}
    mode, _ = torchtitan.recomputation(job)
    if job.precision in EIGHT_BITS:
        why["precision"] = "8-bit floats: torchtitan 0.3 converts the model by its model_converters"
    if job.precision == "fp32":
        settings["training.mixed_precision_param"] = "float32"
    if job.strategy.fuse or job.async_tp:
        settings["compile.enable"] = True
    made = RECOMPUTED.get(mode)
    lines = [f"    config.{name} = {value!r}" for name, value in settings.items() if value is not None]
    lines.append(f"    config.activation_checkpoint = {f'{made}.Config()' if made else None}")
    imports = f"from torchtitan.distributed.activation_checkpoint import {made}\n\n\n" if made else ""
    body = ["def distributed(config):", '    """A configuration of yours for one model, distributed."""', *lines]
    return JobText("".join([imports, "\n".join([*body, "    return config"]), "\n"]), why)


TORCHTITAN_PYTHON = configuration_format(
    Format(
        name="torchtitan-python",
        title="torchtitan's configuration since 0.3 (Python)",
        version="0.3.0",
        suffixes=(),
        read=read,
        framework="torchtitan",
        beside=("model",),
        runs={**torchtitan.RUNS, "precision": ("bf16", "fp32"), "whole": ((),), "etp": (0,)},
    ),
    write,
)
