"""A wrap plan for PyTorch's FSDP2: a small Python file that calls `fully_shard` in order, by the plan at its head.

Read is that plan, `PLAN`, a literal; the code below it is the same in every file. A file whose code was changed is
read by its plan, and says so. Facts of PyTorch 2.13: torch/distributed/fsdp/_fully_shard (`fully_shard`,
`MixedPrecisionPolicy`), torch/distributed/device_mesh.py; a two-dimensional mesh shards within, and replicates across.
"""

from __future__ import annotations

import ast
from typing import Any, Final

from distir.configurations.carried import named
from distir.configurations.formats import Format, configuration_format
from distir.configurations.jobs import Job, JobText, ReadJob, Supplied, checked, overlapping, replicas, unsaid
from distir.configurations.models import published_decoder
from distir.configurations.options import ConfigurationError, Known, Options, Remark, Setting
from distir.transform.strategy.partial import of_precision, of_recomputation, partial

VERSION: Final = "PyTorch 2.13"

DEFAULTS: Final[dict[str, Any]] = {
    "model": None,
    "sequence": None,
    "micro_batch": None,
    "global_batch": None,
    "replicate": 1,
    "shard": None,
    "layers": "model.layers",
    "reshard_after_forward": True,
    "param_dtype": "bfloat16",
    "reduce_dtype": "float32",
    "checkpoint": False,
    "compile": False,
}

PRECISIONS: Final = {"bfloat16": "bf16", "float32": "fp32", "float16": "fp16"}
"""What products compute in, by the type that weights are gathered in."""

KNOWN: Final = Known("the plan", "`distir export fsdp2`", DEFAULTS)

CODE: Final = '''

import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard


def wrap(model: nn.Module, device: str = "cuda") -> nn.Module:
    """Shard a model by the plan, each layer by itself; call it before the optimizer is made."""
    sizes = (PLAN["replicate"], PLAN["shard"])
    names = ("replicate", "shard")
    if sizes[0] == 1:
        sizes, names = sizes[1:], names[1:]
    mesh = init_device_mesh(device, sizes, mesh_dim_names=names)
    policy = MixedPrecisionPolicy(
        param_dtype=getattr(torch, PLAN["param_dtype"]), reduce_dtype=getattr(torch, PLAN["reduce_dtype"])
    )
    layers = model.get_submodule(PLAN["layers"])
    for name, layer in list(layers.named_children()):
        if PLAN["checkpoint"]:
            layer = checkpoint_wrapper(layer)
        if PLAN["compile"]:
            layer.compile()
        layers.register_module(name, layer)
        fully_shard(layer, mesh=mesh, mp_policy=policy, reshard_after_forward=PLAN["reshard_after_forward"])
    return fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=False)
'''
"""What every file says below its plan."""


def read(text: str, path: str, given: Supplied) -> ReadJob:
    """What a plan says. Raises ConfigurationError."""
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise ConfigurationError(f"{path}:{error.lineno or 1}: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError):
        raise ConfigurationError(f"{path}: not Python") from None
    plan = next((s for s in tree.body if isinstance(s, ast.Assign) and ast.unparse(s.targets[0]) == "PLAN"), None)
    if plan is None or not isinstance(plan.value, ast.Dict):
        hint = "only files that `distir export fsdp2` wrote are read: a plan in other code is known when it runs"
        raise ConfigurationError(f"{path}: no `PLAN = {{…}}`", hint)
    options = Options(path, _settings(plan.value, path), KNOWN)
    if text[text.find("\n}\n") + 3 :].strip() != CODE.strip():
        options.notes.append(Remark("the code below the plan was changed; the plan is read, the code is not"))
    name = options.get("model") or given.name
    model = published_decoder(str(name)) or given.model
    if name and model is None:
        raise options.wrong(options.line("model"), f"there is no model `{name}`", "`distir model --list` names them")
    replicate, shard = options.whole("replicate"), options.optional("shard")
    dp, assumed = replicas(path, given, replicate * shard if shard else None, replicate)
    if assumed:
        options.note(assumed)
    dp *= replicate
    if options.word("reduce_dtype", ("bfloat16", "float32", "float16")) != "float32":
        options.note("gradients are reduced in float32 here", "reduce_dtype")
    micro = options.optional("micro_batch")
    total = options.optional("global_batch") or (micro * dp if micro else None)
    options.get("layers")
    job = Job(
        name=str(name or ""),
        model=model,
        seq=options.optional("sequence") or given.seq,
        said=partial(
            data=dp,
            zero=3 if options.flag("reshard_after_forward") else 2,
            shard=dp // replicate if replicate > 1 else 0,
            fuse=options.flag("compile"),
            **of_precision(PRECISIONS[options.word("param_dtype", PRECISIONS) or "float32"]),
            **of_recomputation("full" if options.flag("checkpoint") else "none"),
            **overlapping(True),
        ),
        micro_batch=micro,
        global_batch=total,
        node=given.node,
    )
    return ReadJob(checked(path, job), "fsdp2", options.rest())


def _settings(table: ast.Dict, path: str) -> dict[str, Setting]:
    found: dict[str, Setting] = {}
    for key, value in zip(table.keys, table.values, strict=True):
        try:
            assert key is not None
            found[str(ast.literal_eval(key))] = Setting(ast.literal_eval(value), key.lineno)
        except (ValueError, AssertionError, TypeError, SyntaxError):
            raise ConfigurationError(f"{path}:{value.lineno}: expected a literal in `PLAN`") from None
    return found


def write(job: Job) -> JobText:
    """The plan of a job."""
    own = job.strategy
    why = {
        field: f"{named(field)} of {getattr(own, field)}: FSDP2 shards data-parallel replicas"
        for field in ("tensor", "pipeline", "context", "expert_parallel")
    }
    why |= unsaid(job) | {"optimizer": f"the optimizer {own.optimizer}: make it behind the plan"}
    published = published_decoder(job.name)
    if job.name and published is None:
        why["model"] = f"the model {job.name}: `wrap` takes yours"
    shard = own.shard or own.data
    plan = {
        "model": job.name if published else None,
        "sequence": job.seq,
        "micro_batch": job.micro_batch,
        "global_batch": job.global_batch,
        "replicate": own.data // shard,
        "shard": shard,
        "layers": job.model.names.layers if job.model else DEFAULTS["layers"],
        "reshard_after_forward": own.zero != 2,
        "param_dtype": next((word for word, own in PRECISIONS.items() if own == job.precision), "bfloat16"),
        "reduce_dtype": "float32",
        "checkpoint": job.recompute == "full",
        "compile": own.fuse,
    }
    lines = "".join(f"    {name!r}: {value!r},\n".replace("'", '"') for name, value in plan.items())
    return JobText(f"PLAN = {{\n{lines}}}\n{CODE}", why)


FSDP2 = configuration_format(
    Format(
        name="fsdp2",
        title="a wrap plan for PyTorch's FSDP2 (Python)",
        version=VERSION,
        suffixes=(".py",),
        read=read,
        framework="fsdp2",
        runs={
            **dict.fromkeys(("tensor", "pipeline", "context"), (1,)),
            "expert_parallel": (0,),
            "zero": (2, 3),
            "precision": tuple(PRECISIONS.values()),
            "gradients": ("auto",),
            "attention": ("",),
            "recompute": ("none", "full"),
            "overlap": (True,),
            "optimizer": ("",),
            "offloaded": (0,),
            "state_on_host": (False,),
        },
    ),
    write,
)
