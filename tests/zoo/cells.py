"""What is done with each family of models, and what became of it.

A column is a chain of steps, and how its result is verified; a cell is a column of a family. A cell is good, or says
with a diagnostic why it cannot be. A result that is wrong, or an error without a diagnostic, is a fault in DistIR.
"""

import copy
import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
import transformers
from families import BATCH, example
from torch.nn.modules.batchnorm import _BatchNorm

import distir
from distir.analysis import execute
from distir.diagnostics import ProgramError, Severity
from distir.files.scratch import scratch_folder
from distir.importers import import_torch
from distir.transform import transform, verify

F = torch.nn.functional

GRAD = ("grad", "mode=train")
"""A step of training, with the statistics of the batch where a model has such."""

TRAINING = (*GRAD, "optimizer=adam")
"""What strategies are tried on."""

TOLERANCE = 1e-5
"""How far a result in Float32 may lie off PyTorch's, relative to its greatest element, or to 1."""

EXACT = 1e-9
"""The same in Float64, off that of the sequential program: no mistake of a strategy hides behind its rounding."""

LAUNCH_S = 300
"""The most that a launch may take."""

Words = tuple[str, ...]


class Faulty(Exception):  # noqa: N818 - a verdict
    """A result is not what it should be."""


class Family:
    """The model of a family, and the programs made of it."""

    def __init__(self, name: str) -> None:
        self.name = name

    @cached_property
    def example(self):
        return example(self.name)

    @cached_property
    def forward(self):
        """The program that infers."""
        module, inputs = self.example
        return import_torch(module, kwargs=inputs, dynamic_batch=True)

    @cached_property
    def training(self):
        """A step of training."""
        return transform(self.forward, *TRAINING)

    @cached_property
    def compared(self):
        """Both by table, and how far their results may lie off: in Float64 if their ops allow it."""
        programs = {"inference": self.forward, "training": self.training}
        return {table: _in_double(program) for table, program in programs.items()}


def _in_double(program):
    made = distir.parse(distir.format(program).replace("Float32", "Float64"))
    sound = all(found.severity is not Severity.ERROR for found in distir.check(made))
    return (made, EXACT) if sound else (program, TOLERANCE)


# What is verified.


def _first(found):
    return found if isinstance(found, torch.Tensor) else found[0]


def _assert_near(found, wanted, allowed, what):
    apart = np.abs(np.asarray(found) - wanted).max(initial=0.0)
    if not apart <= allowed:
        raise Faulty(f"{what} is {apart:.1e} apart from PyTorch's, {allowed:.1e} are allowed")


def infers_as_torch(family: Family) -> None:
    """The first result is that of the PyTorch model, on the model's own weights."""
    module, inputs = family.example
    given = {key: value.numpy() for key, value in inputs.items()}
    with torch.no_grad():
        wanted = _first(module(**inputs)).numpy()
    found = execute(family.forward, {**family.forward.weights, **given})[0].value
    _assert_near(found, wanted, TOLERANCE * max(1.0, np.abs(wanted).max()), "the first result")


def learns_as_torch(family: Family) -> None:
    """Loss, gradients and running statistics are PyTorch's in Float64, but for what PyTorch's own are off in Float32.

    What is zero but for rounding is so beside the greatest gradient of all.
    """
    forward, (module, inputs) = family.forward, family.example
    step = transform(forward, *GRAD, "optimizer=none")
    (target_type,) = (p.type for p in step.entry().params if p.name == "target")
    target = _target(_first(module(**inputs)), classes=target_type.dtype.kind == "int")
    given = {key: value.numpy() for key, value in {**inputs, "target": target}.items()}
    found = [output.value for output in execute(step, {**forward.weights, **given})]
    loss, wanted, running = _torch_step(module, inputs, target, torch.float64)
    _, rough, _ = _torch_step(module, inputs, target, torch.float32)
    _assert_near(found[0], loss, 2e-6 * abs(loss), "the loss")
    trained = [p.name for p in forward.entry().params if "param" in p.roles and "frozen" not in p.roles]
    gradients = dict(zip(trained, found[1:], strict=False))
    greatest = max(np.abs(gradient).max() for gradient in wanted.values())
    for names, gradient in wanted.items():
        (name,) = names & gradients.keys()
        rounding = np.abs(rough[names] - gradient).max()
        allowed = 1e-5 * np.abs(gradient).max() + 1e-7 * greatest + 4 * rounding
        _assert_near(gradients[name], gradient, allowed, f"the gradient of `{name}`")
    statistics = [p.name for p in forward.entry().params if p.name in running]
    for name, new in zip(statistics, found[1 + len(trained) :], strict=True):
        _assert_near(new, running[name], TOLERANCE * max(1.0, np.abs(running[name]).max()), f"the new `{name}`")


def _torch_step(module, inputs, target, dtype):
    """PyTorch's loss; gradients by all names of the parameter, of which a program has one; running statistics."""
    module = copy.deepcopy(module).to(dtype)
    if dtype == torch.float64 and isinstance(module, transformers.PreTrainedModel):
        module.set_experts_implementation("eager")  # the other ones are for narrower types only
    for part in module.modules():
        part.train(isinstance(part, _BatchNorm))
    given = {key: value.to(dtype) if value.is_floating_point() else value for key, value in inputs.items()}
    y = _first(module(**given))
    if target.is_floating_point():
        loss = F.mse_loss(y, target.to(dtype))
    else:
        loss = F.cross_entropy(y.flatten(0, -2), target.flatten())
    loss.backward()
    gradients = {_names(module, p): p.grad.numpy() for p in module.parameters() if p.grad is not None}
    running = {n: b.numpy() for n, b in module.named_buffers() if n.rpartition(".")[2] in STATISTICS}
    return loss.item(), gradients, running


STATISTICS = ("running_mean", "running_var")


def _target(y, classes):
    """One that is drawn: classes along the last dimension of the result, or numbers like it."""
    generator = torch.Generator().manual_seed(1)
    if classes:
        return torch.randint(0, y.shape[-1], y.shape[:-1], generator=generator)
    return torch.randn(y.shape, generator=generator, dtype=y.dtype)


def _names(module, parameter):
    return frozenset(n for n, held in module.named_parameters(remove_duplicate=False) if held is parameter)


def _agrees(program, tolerance: float, steps: Words) -> None:
    agree(program, transform(program, *steps), tolerance)


def agree(program, made, tolerance: float = TOLERANCE) -> None:
    """Both give the same. Raises Faulty."""
    try:
        found = verify(program, made, tolerance=tolerance, bind={"B": BATCH})
    except ProgramError as error:  # a step that cannot be taken says so itself
        first = error.diagnostics[0]
        raise Faulty(f"the result of the steps does not run: {first.code.number}, {first.message}") from None
    wrong = [result for result in found.results if not result.equal]
    if wrong:
        raise Faulty(f"{len(wrong)} of {len(found.results)} results differ: `{wrong[0].name}` {wrong[0].difference}")


def _launches(program, steps: Words) -> None:
    """Each rank is a process with torch; the results are those of the reference executor."""
    made = transform(program, *steps)
    with scratch_folder("zoo") as folder:
        path = folder / "program.dir"
        path.write_text(distir.format(made), encoding="utf-8")
        words = ["launch", path, "--verify", "--any-core", "--bind", f"B={BATCH}", "--timeout", f"{LAUNCH_S}s"]
        ended = subprocess.run(
            [Path(sys.executable).parent / "distir", *words],
            capture_output=True,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            timeout=2 * LAUNCH_S,
            check=False,
        )
    if ended.returncode == 0:
        return
    if found := re.search(r"^error\[(DIR7\d+)\]: (.*)", ended.stderr, re.MULTILINE):  # of lowering
        raise Refused(found[1], found[2])
    raise (Faulty if ended.returncode == 1 else RuntimeError)(ended.stderr.strip())


class Refused(Exception):  # noqa: N818 - a verdict
    """A command says with a diagnostic why something cannot be done."""


# Columns.


@dataclass(frozen=True)
class Column:
    """`steps`: of `distir transform`, after those that make the table's program; `done`: what is done and verified."""

    name: str
    done: str
    check: Callable[[Family], None]
    steps: Words = ()
    launched: bool = False


def strategy(name: str, done: str, *steps: str) -> dict[str, Column]:
    """The same steps for each kind of program, verified by the reference executor."""
    return {
        "inference": Column(name, done, lambda family: _agrees(*family.compared["inference"], steps), steps),
        "training": Column(name, done, lambda family: _agrees(*family.compared["training"], steps), steps),
    }


def launch(name: str, done: str, *steps: str) -> dict[str, Column]:
    """The same steps, lowered and launched."""
    return {
        "inference": Column(name, done, lambda family: _launches(family.forward, steps), steps, launched=True),
        "training": Column(name, done, lambda family: _launches(family.training, steps), steps, launched=True),
    }


DP = strategy("dp", "data parallelism over 2 devices", "dp=2")
TP = strategy("tp", "tensor parallelism over 2 devices", "tp=2")
SEQUENCE = strategy("sequence", "with sequence parallelism", "tp=2", "sequence=true")
PP = strategy("pp", "2 stages, 2 microbatches, `1f1b`", "pp=2", "microbatches=2")
DTP = strategy("dtp", "2 replicas of 2 stages of 2 shards, 2 microbatches", "dtp=2,2,2", "microbatches=2")
ZERO = [
    strategy(f"zero {stage}", f"ZeRO stage {stage} over 2 replicas", "dp=2", f"zero={stage}")["training"]
    for stage in (1, 2, 3)
]
CHECKPOINT = strategy("checkpoint", "activations recomputed, block by block", "checkpoint")["training"]
LAUNCH_DP = launch("launch dp", "2 processes of PyTorch, over gloo", "dp=2")
LAUNCH_TP = launch("launch tp", "2 processes of PyTorch, over gloo", "tp=2")

COLUMNS: dict[str, tuple[Column, ...]] = {
    "inference": (
        Column("run", "the imported program, on the model's own weights", infers_as_torch),
        *(kinds["inference"] for kinds in (DP, TP, SEQUENCE, PP, DTP, LAUNCH_DP, LAUNCH_TP)),
    ),
    "training": (
        Column("grad", "`grad`, on the model's own weights", learns_as_torch),
        *(kinds["training"] for kinds in (DP, TP, SEQUENCE, PP)),
        *ZERO,
        CHECKPOINT,
        *(kinds["training"] for kinds in (DTP, LAUNCH_DP, LAUNCH_TP)),
    ),
}
"""By table, its columns from left to right."""


# Cells.


@dataclass(frozen=True)
class Cell:
    """`mark`: ✓, the number of a diagnostic, or a word for a fault; `reason`: what is said where it is not ✓.

    `seconds`: of CPU.
    """

    family: str
    table: str
    column: str
    mark: str
    reason: str = ""
    seconds: float = 0.0

    @property
    def is_fault(self) -> bool:
        return self.mark in FAULTS


GOOD, WRONG, CRASH = "✓", "wrong", "crash"
FAULTS = (WRONG, CRASH)


def cell(family: Family, table: str, column: Column) -> Cell:
    """Try one."""
    start = _cpu_seconds()
    mark, reason = _tried(family, column)
    return Cell(family.name, table, column.name, mark, reason, _cpu_seconds() - start)


def _cpu_seconds() -> float:
    """Of this process, and of those that it has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def _tried(family: Family, column: Column) -> tuple[str, str]:
    try:
        column.check(family)
    except ProgramError as error:
        first = error.diagnostics[0]
        return first.code.number, first.message
    except Refused as refused:
        number, message = refused.args
        return number, message
    except Faulty as fault:
        return WRONG, str(fault)
    except Exception as error:  # whatever else is raised is a fault, which the others are not to wait for
        return CRASH, f"{type(error).__name__}: {error}"
    return GOOD, ""


def cells(name: str, wanted: Callable[[str, Column], bool] = lambda table, column: True) -> list[Cell]:
    """Those of a family, from left to right, by default all."""
    torch.set_num_threads(1)
    family = Family(name)
    return [cell(family, table, c) for table, columns in COLUMNS.items() for c in columns if wanted(table, c)]
