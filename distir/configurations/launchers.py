"""How a command is launched: on how many nodes, with how many processes each. A launcher is one entry.

Facts of torchrun (torch/distributed/run.py), DeepSpeed's and Accelerate's launchers, Slurm's srun and the `#SBATCH`
lines of sbatch, Open MPI's mpirun, and the `#PBS` and `#BSUB` lines of batch systems.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

Number = tuple[int, int]
"""A number, and the line that says it."""

Word = tuple[str, int]
"""A word, and its line."""


@dataclass(frozen=True, slots=True)
class ProcessCounts:
    """Nodes, processes (one a GPU) of each, and of all, as far as they are said; `unclear`: what is no number."""

    nodes: Number | None = None
    each: Number | None = None
    total: Number | None = None
    unclear: Sequence[tuple[str, str, int]] = ()

    def behind(self, other: ProcessCounts) -> ProcessCounts:
        """What `other` says, and this where it does not."""
        one = other.each is None and other.total is not None
        each = other.each if one else other.each or self.each
        return ProcessCounts(
            other.nodes or self.nodes, each, other.total or self.total, (*other.unclear, *self.unclear)
        )

    def variables(self) -> Mapping[str, Number]:
        """The variables that a batch system sets of it."""
        nodes, each, total = self.nodes, self.each, self.total
        if total is None and nodes and each:
            total = nodes[0] * each[0], each[1]
        of = {("SLURM_NNODES", "SLURM_JOB_NUM_NODES"): nodes, ("SLURM_NTASKS", "SLURM_NPROCS"): total,
              ("SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"): each}  # fmt: skip
        return {name: number for names, number in of.items() if number is not None for name in names}


NODES, EACH, TOTAL, TASKS = "nodes", "each", "total", "tasks"
"""What options say: nodes; processes, one a GPU, of each, and of all; processes of each that may launch others."""

LAUNCHERS: Final[dict[str, dict[str, str]]] = {
    "torchrun": {"nnodes": NODES, "nproc_per_node": EACH},
    "deepspeed": {"num_nodes": NODES, "num_gpus": EACH},
    "accelerate": {"num_machines": NODES, "num_processes": TOTAL},
    "mpirun": {"np": TOTAL, "n": TOTAL, "npernode": EACH, "map_by": EACH},
    "srun": {
        **dict.fromkeys(("N", "nodes"), NODES),
        **dict.fromkeys(("gpus_per_node", "gres"), EACH),
        **dict.fromkeys(("n", "ntasks", "G", "gpus"), TOTAL),
        "ntasks_per_node": TASKS,
    },
}
"""By launcher: what its options say, dashes as underscores. Of several the last that says a thing is heeded."""


def says_nodes(option: str) -> bool:
    """Whether an option of a launcher says how many nodes there are."""
    return any(known.get(option) == NODES for known in LAUNCHERS.values())


CALLED: Final = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "mpiexec": "mpirun",
    "sbatch": "srun",
    "deepspeed.launcher.runner": "deepspeed",
    "accelerate.commands.launch": "accelerate",
}
"""Launchers by other names."""

_FORMS = {"gres": r"gpu(?::[A-Za-z]\w*)?:(\d+)", "map_by": r"ppr:(\d+):node.*"}
_DIRECTIVE = re.compile(r"^#(?P<kind>SBATCH|PBS|BSUB)\s+(?P<words>.*)$", re.MULTILINE)
_CHUNKS = re.compile(r"(?:select|nodes)=(?P<nodes>\d+)(?::\S*?(?:ngpus|gpus)=(?P<each>\d+))?")


def directives(text: str) -> ProcessCounts:
    """What the lines of a script say that a batch system reads."""
    found = ProcessCounts()
    for line in _DIRECTIVE.finditer(text):
        at = text.count("\n", 0, line.start()) + 1
        words = line["words"].partition(" #")[0].split()
        chunks = _CHUNKS.search(line["words"]) if line["kind"] == "PBS" else None
        if chunks:
            each = (int(chunks["each"]), at) if chunks["each"] else None
            found = found.behind(ProcessCounts((int(chunks["nodes"]), at), each))
        elif line["kind"] == "BSUB" and words[:1] == ["-nnodes"] and words[1:] and words[1].isdecimal():
            found = found.behind(ProcessCounts((int(words[1]), at)))
        elif line["kind"] == "SBATCH":
            found = found.behind(_said([(word, at) for word in words], LAUNCHERS["srun"]))
    return found


def launched(words: Sequence[Word], header: ProcessCounts) -> ProcessCounts:
    """What the words of launchers say before the program; `header`: what holds where they do not."""
    found, start, known = header, 0, dict[str, str]()
    for index, (word, _) in enumerate([*words, ("", 0)]):
        name = word.rpartition("/")[2]
        name = CALLED.get(name, name)
        if name in LAUNCHERS or index == len(words):
            said = _said(words[start:index], known) if known else ProcessCounts()
            if known is LAUNCHERS["torchrun"] and said.each and not said.nodes and not said.unclear:
                said = ProcessCounts((1, said.each[1]), said.each)  # as torchrun starts them
            found, start, known = found.behind(said), index + 1, LAUNCHERS.get(name, known)
    return found


def _said(words: Sequence[Word], known: Mapping[str, str]) -> ProcessCounts:
    """What options say: `--nodes=2`, `--nodes 2`, `-N2`, `-N 2`."""
    numbers, unclear = dict[str, Number](), list[tuple[str, str, int]]()
    for index, (word, at) in enumerate(words):
        name, equals, value = re.sub(r"^--?", "", word).partition("=")
        name = name.replace("-", "_")
        if not word.startswith("-"):
            continue
        if not equals and not word.startswith("--") and name not in known and name[:1] in known:
            name, value, equals = name[:1], name[1:], "="
        if name not in known:
            continue
        value = value if equals else words[index + 1][0] if index + 1 < len(words) else ""
        number = _number(name, value)
        if number is None:
            unclear.append((name, value, at))
        else:
            numbers[known[name]] = number, at
    tasks, nodes, total = numbers.get(TASKS), numbers.get(NODES), numbers.get(TOTAL)
    each = numbers.get(EACH) or (tasks if tasks and tasks[0] > 1 else None)
    one_each = nodes and total and nodes[0] == total[0]  # each of which launches others
    return ProcessCounts(nodes, each, None if one_each else total, tuple(unclear))


def _number(name: str, value: str) -> int | None:
    """Of `8`, `2:4` (the least that may start), `gpu:a100:8`, `ppr:8:node`; None for another word."""
    found = re.fullmatch(_FORMS.get(name, r"(?:[A-Za-z]\w*:)?(\d+)(?:[-:]\d+)?"), value)
    return int(found[1]) if found and int(found[1]) else None
