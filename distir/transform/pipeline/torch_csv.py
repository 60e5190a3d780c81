"""Orders of passes as the CSV files that `torch.distributed.pipelining` loads and dumps (`_PipelineScheduleRuntime`).

A line is a rank, a cell what it does next, `[stage][action][microbatch]`, all counted from 0: `2F0` is the forward pass
of stage 2 over microbatch 0, `B` the backward pass, `I` and `W` its two halves, for the stage's input and its weights.
These alone are torch's format `compute_only`; `compute_comms` says also when to send and receive (`2SEND_F0`), and when
a stage that FSDP has sharded is gathered (`2UNSHARD`), let go (`2RESHARD`) and its gradients reduced (`2REDUCE_GRAD`).
Spelled as in torch 2.13; files of torch 2.5 are read, too, where `B` beside `W` is the half for the input, now `I`,
and `BW` both halves, now `B`. Knows no programs, and does not need torch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from distir.files import limits
from distir.ir.errors import DistirError
from distir.transform.pipeline.passes import Order, Pass, Task, needs, stage_devices

FORMATS = ("compute_only", "compute_comms")
"""As torch calls them."""

UNSHARDED = 3
"""The most stages gathered on a rank, prefetched ones included: torch's own default."""

_PASSES: Mapping[str, tuple[Pass, ...]] = {
    "F": (Pass.FORWARD,),
    "I": (Pass.BACKWARD,),
    "W": (Pass.WEIGHT,),
    "B": (Pass.BACKWARD, Pass.WEIGHT),
}
_TODAY = {"B": "I", "BW": "B"}
"""The letters of torch 2.5, and today's."""

_MESSAGES = ("SEND_F", "RECV_F", "SEND_B", "RECV_B")
_OF_STAGES = ("UNSHARD", "RESHARD", "REDUCE_GRAD", "WAIT_REDUCE_GRAD")
_ACTION = re.compile(r"(\d+)([A-Z_]+?)(\d*)")
_TOGETHER = re.compile(r"\(([^()]*)\)OVERLAP_F_B")
_EXPECTED = "expected an action such as `2F0`, `2B0`, `2I0`, `2W0`, `2SEND_F0` or `2UNSHARD`"


_Said = tuple[int, str, int]
"""Stage, action, microbatch, as a file spells it."""


class ScheduleFileError(DistirError, ValueError):
    """An error in a schedule file, with line and column from 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {message}")
        self.line, self.column = line, column


def read(text: str) -> Order:
    """The order of the passes in a file, either format. Raises ScheduleFileError.

    A whole backward pass (`B`) is one task where the file splits none, else its two halves. What passes send, and when
    stages are gathered, follows from the program: such actions must be well-formed, and are passed over. Empty cells
    are steps at which a rank waits.
    """
    lines = text.removeprefix("\ufeff").splitlines()
    while lines and not lines[-1].strip(" \t,"):
        lines.pop()
    if not lines:
        raise ScheduleFileError("expected a line for each rank, found none", 1, 1)
    rows = [list(_actions(line, number)) for number, line in enumerate(lines, 1)]
    old = _old_letters(rows)
    if old and (both := next((a for row in rows for a in row if a[1] == "I"), None)):
        raise ScheduleFileError(_mixed(old[0], both), *_place(old[0], lines, rows))

    def passes(said: _Said) -> Iterator[Task]:
        stage, action, microbatch = said
        return (Task(stage, microbatch, kind) for kind in _PASSES[_TODAY[action] if said in old else action])

    by: dict[Task, _Said] = {}
    for said in (said for row in rows for said in row):
        if again := next((by[task] for task in passes(said) if by.get(task, said) != said), None):
            first, second = (f"{stage}{action}{microbatch}" for stage, action, microbatch in (again, said))
            message = f"`{second}` and `{first}` run the same pass: `{_whole(said, again)}` is both halves"
            raise ScheduleFileError(message, *_place(said, lines, rows))
        by |= dict.fromkeys(passes(said), said)
    splits = any(said[1] in "IW" or (said in old and said[1] == "B") for said in by.values())
    kinds = Pass if splits else (Pass.FORWARD, Pass.BACKWARD)
    return tuple(tuple(task for said in row for task in passes(said) if task.kind in kinds) for row in rows)


def _old_letters(rows: Sequence[Sequence[_Said]]) -> list[_Said]:
    """The passes whose letters are those of torch 2.5: `BW`, and `B` of what has a `W` beside it, and no `I`."""
    passes = dict.fromkeys(action for row in rows for action in row)

    def is_old(stage: int, action: str, microbatch: int) -> bool:
        halved = (stage, "W", microbatch) in passes and (stage, "I", microbatch) not in passes
        return action == "BW" or (action == "B" and halved)

    return [action for action in passes if is_old(*action)]


def _mixed(old: _Said, new: _Said) -> str:
    ours, theirs = (f"{stage}{action}{microbatch}" for stage, action, microbatch in (old, new))
    first = f"`{ours}` is of torch 2.5, which wrote `B` for what is `I` now, and `BW` for `B`"
    return f"{first}; and `{theirs}` is of today's"


def _whole(*several: _Said) -> str:
    """Of passes that are of one stage and microbatch, the one that is a whole backward pass."""
    stage, action, microbatch = max(several, key=lambda said: (said[1] == "BW", said[1] == "B"))
    return f"{stage}{action}{microbatch}"


def _place(action: _Said, lines: Sequence[str], rows: Sequence[Sequence[_Said]]) -> tuple[int, int]:
    """Line and column of a pass, from 1."""
    row = next(number for number, row in enumerate(rows) if action in row)
    stage, name, microbatch = action
    return row + 1, lines[row].index(f"{stage}{name}{microbatch}") + 1


def _actions(line: str, number: int) -> Iterator[_Said]:
    """The passes of a rank: stage, action, microbatch."""
    at, empty = 0, True
    for cell in line.split(","):
        start = at + len(cell) - len(cell.lstrip(' \t"'))
        at += len(cell) + 1
        said = cell.strip(' \t"')
        together = _TOGETHER.fullmatch(said)
        inside = together[1].split(";") if together else [said] if said else []
        start += together is not None  # the opening bracket
        for action in inside:
            empty = False
            found = _action(action.strip(), number, start + 1)
            start += len(action) + 1
            if found is not None:
                yield found
    if empty:
        raise ScheduleFileError("expected what this rank does, found nothing", number, 1)


def _action(said: str, line: int, column: int) -> _Said | None:
    """A pass; None for what is none."""
    match = _ACTION.fullmatch(said)
    known = (*_PASSES, *_TODAY, *_MESSAGES, *_OF_STAGES)
    if match is None or match[2] not in known:
        raise ScheduleFileError(f"{_EXPECTED}, found `{said}`", line, column)
    stage, action, microbatch = match.groups()
    if (action in _OF_STAGES) == bool(microbatch):
        wanted = "no microbatch" if microbatch else "the number of a microbatch"
        raise ScheduleFileError(f"expected {wanted} after `{action}`, found `{said}`", line, column)
    if max(len(stage), len(microbatch)) > 7 or max(int(stage), int(microbatch or 0)) > limits.ROWS:
        raise ScheduleFileError(f"expected numbers up to {limits.ROWS:,}, found `{said}`", line, column)
    return (int(stage), action, int(microbatch)) if action in _PASSES or action in _TODAY else None


def write(order: Order, format: str = FORMATS[0]) -> str:
    """An order as a file of that format.

    Sends come right behind the passes whose results they send, and so do receives on the other rank, as torch places
    them. Raises ValueError for another format, and for an order that cannot be run.
    """
    if format not in FORMATS:
        raise ValueError(f"expected {' or '.join(f'`{name}`' for name in FORMATS)}, found `{format}`")
    rows = [_row(tasks) for tasks in order]
    if format == FORMATS[1]:
        rows = _with_messages([_with_stages(row) for row in rows], stage_devices(order))
    return "".join(",".join(map(_said, row)) + "\r\n" for row in rows)  # line ends as of torch, and of RFC 4180


Action = tuple[int, str, int | None]
"""Stage, action, microbatch."""


def _said(action: Action) -> str:
    stage, name, microbatch = action
    return f"{stage}{name}{'' if microbatch is None else microbatch}"


def _row(tasks: Sequence[Task]) -> list[Action]:
    """The passes of a rank. Consecutive halves stay separate: the first one's results are sent before the second."""
    splits = any(task.kind is Pass.WEIGHT for task in tasks)
    names = {Pass.FORWARD: "F", Pass.BACKWARD: "I" if splits else "B", Pass.WEIGHT: "W"}
    return [(task.stage, names[task.kind], task.microbatch) for task in tasks]


def _with_stages(row: Sequence[Action]) -> list[Action]:
    """A rank's passes with FSDP's actions for its stages: the next ones are gathered ahead."""
    found: list[Action] = []
    gathered: dict[int, None] = {}
    last = {stage: at for at, (stage, name, _) in enumerate(row) if name in "BW"}
    ahead = _ahead([stage for stage, _, _ in row])
    for at, (action, wanted) in enumerate(zip(row, ahead, strict=True)):
        for stage in [s for s in gathered if s not in wanted]:
            del gathered[stage]
            found.append((stage, "RESHARD", None))
        found += [(stage, "UNSHARD", None) for stage in wanted if stage not in gathered]
        gathered.update(dict.fromkeys(wanted))
        found.append(action)
        if last.get(action[0]) == at:
            found.append((action[0], "REDUCE_GRAD", None))
    return [*found, *((stage, "RESHARD", None) for stage in gathered)]


def _ahead(stages: Sequence[int]) -> list[tuple[int, ...]]:
    """By pass: the stages that are used next, itself included, each once."""
    found: list[tuple[int, ...]] = []
    wanted: tuple[int, ...] = ()
    for stage in reversed(stages):
        wanted = (stage, *(other for other in wanted if other != stage))[:UNSHARDED]
        found.append(wanted)
    return found[::-1]


def _with_messages(rows: Sequence[Sequence[Action]], homes: Sequence[int]) -> list[list[Action]]:
    """The rows with sends and receives, in one order that all ranks agree about, so that none waits in a circle."""
    found: list[list[Action]] = [[] for _ in rows]
    done: set[Task] = set()
    position = [0] * len(rows)
    moved = True
    while moved:
        moved = False
        for rank, row in enumerate(rows):
            if position[rank] == len(row) or not done.issuperset(_needed(row[position[rank]], len(homes))):
                continue
            action = row[position[rank]]
            position[rank] += 1
            moved = True
            done.update(_tasks(action))
            found[rank].append(action)
            for sent, received in _message(action, len(homes)):
                there = homes[received[0]]
                if there != rank:
                    found[rank].append(sent)
                    found[there].append(received)
    if any(at < len(row) for at, row in zip(position, rows, strict=True)):
        raise ValueError("the passes wait for each other in a circle")
    return found


def _tasks(action: Action) -> Iterable[Task]:
    stage, name, microbatch = action
    return [Task(stage, microbatch, kind) for kind in _PASSES.get(name, ())] if microbatch is not None else []


def _needed(action: Action, stages: int) -> set[Task]:
    """The actions on which one depends, on any rank."""
    tasks = list(_tasks(action))
    return {need for task in tasks for need in needs(task, stages)} - set(tasks)


def _message(action: Action, stages: int) -> Iterator[tuple[Action, Action]]:
    """The message of a pass: the actions of its sender and receiver."""
    stage, name, microbatch = action
    if name == "F" and stage + 1 < stages:
        yield (stage, "SEND_F", microbatch), (stage + 1, "RECV_F", microbatch)
    elif name in ("B", "I") and stage > 0:
        yield (stage, "SEND_B", microbatch), (stage - 1, "RECV_B", microbatch)
