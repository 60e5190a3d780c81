"""Measured runs: model, machine, parallelism and measured figures. Reads their CSV files.

A file begins with lines of comments (`# source: …`), then a header, then a row for each run. The columns are the
fields of `MeasuredRun`; others are ignored. An empty cell means that the source does not say: `dp` follows then from
the other ranks. Files that a spreadsheet wrote are read, too: cells between semicolons or tabs, a comma in a number
where it does not separate cells, UTF-16, `TRUE`, `256.0`, empty columns at the end.
"""

from __future__ import annotations

import codecs
import csv
import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import PurePath
from typing import Any, Final

from distir.diagnostics.spelling import nearest
from distir.files.reading import ROWS, read_bytes
from distir.ir.errors import DistirError
from distir.transform.checkpoint.modules import modules_of
from distir.transform.steps import StepError
from distir.transform.strategy import FIELDS as STRATEGY
from distir.transform.strategy.partial import (
    LOSS,
    Partial,
    Stating,
    of_precision,
    of_recomputation,
    of_sharding,
    partial,
)
from distir.transform.strategy.record import virtual_of


class RunsError(DistirError, ValueError):
    """A file that does not hold runs; the text says what is wrong, and in which line and column."""


class UnsupportedError(DistirError, ValueError):
    """A run that cannot be expressed; the text says why."""


Share = float
"""A share, from 0 to below 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun(Stating):
    """A run. Sizes in elements, memory in bytes, times in seconds, bandwidth in Gbit/s; None: not said.

    Beside what is `said`, columns say more of how it runs: `attention`, `fused_norm`, `async_tp`
    (whether what tensor parallelism communicates runs beside products), `cuda_graphs` (whether steps are replayed as a
    whole, so that the host issues a graph and no ops), `overlap_experts` (whether tokens are sent to experts beside
    what layers of another microbatch compute), `dispatcher` (what sends them: `alltoall`, `deepep`, `hybridep`).
    `layers` and the like are those of what ran. `micro_batch` is of one replica. `status`: `ok`, or `oom` for a run
    that ended out of memory and so has no measurements. `hardware`: the profile of a node, by name or path, in the
    place of the GPU's, which may then be any GPU.
    """

    id: str
    model: str = ""
    hidden: int
    layers: int
    heads: int
    kv_heads: int | None = None
    head_dim: int | None = None
    ffn: int
    mlp: str = "gelu"
    norm: str = "layernorm"
    position: str = "learned"
    tied: bool | None = None
    vocab: int
    bias: bool | None = None
    experts: int | None = None
    top_k: int | None = None
    expert_ffn: int | None = None
    shared_experts: int | None = None
    dense_layers: int | None = None
    attention_kind: str = "mha"
    seq: int
    gpu: str
    gpus: int
    gpus_per_node: int | None = None
    node_gbps: float | None = None
    hardware: str = ""
    micro_batch: int | None = None
    global_batch: int
    attention: str = ""
    dropout: Share | None = None
    fused_norm: bool | None = None
    async_tp: bool | None = None
    cuda_graphs: bool | None = None
    overlap_experts: bool | None = None
    dispatcher: str = ""
    framework: str
    status: str = "ok"
    step_time_s: float | None = None
    tokens_per_s_per_gpu: float | None = None
    tflops_per_gpu: float | None = None
    peak_memory_bytes: int | None = None
    source: str = ""
    """The file that it is of, without its suffix."""
    fault: str = ""
    """Why it cannot be expressed, if a cell has a word that is not known."""

    @property
    def group(self) -> str:
        """The group in which its errors are reported: the same file and framework."""
        return f"{self.source}/{self.framework}"

    @property
    def layout(self) -> tuple[object, ...]:
        """How it is distributed and computed, where that is chosen."""
        return self.said, self.micro_batch, self.attention, self.fused_norm, self.dropout

    @property
    def cluster(self) -> tuple[object, ...]:
        """The set in which it is compared: layouts of the same model and work on the same number of equal devices."""
        return self.source, self.model, self.seq, self.global_batch, self.precision, self.gpu, self.gpus


@dataclass(frozen=True, slots=True)
class StrategyColumn:
    """A column that says something of a strategy: what its cells are, and the fields that a cell says."""

    kind: str
    said: Callable[[Any], Mapping[str, Any]]


def _of_field(name: str) -> StrategyColumn:
    """The column of one field of a strategy."""
    return StrategyColumn(type(STRATEGY[name].default).__name__, lambda value: {name: value})


IN_WORDS: Final[Mapping[str, StrategyColumn]] = {
    "dp": _of_field("data"),
    "tp": _of_field("tensor"),
    "pp": _of_field("pipeline"),
    "cp": _of_field("context"),
    "ep": _of_field("expert_parallel"),
    "etp": _of_field("etp"),
    "virtual": StrategyColumn("int", lambda _: {}),  # with the schedule
    "schedule": StrategyColumn("str", lambda _: {}),
    "stages": StrategyColumn("layers", lambda layers: {"stages": layers}),
    "sequence_parallel": _of_field("sequence"),
    "sharding": StrategyColumn("str", of_sharding),
    "precision": StrategyColumn("str", of_precision),
    "gradients": _of_field("gradients"),
    "recompute": StrategyColumn("str", of_recomputation),
    "compile": _of_field("fuse"),
    "offload": _of_field("offloaded"),
    "offload_optimizer": _of_field("state_on_host"),
    "loss_parallel": StrategyColumn("bool", lambda each_its_part: {"whole": () if each_its_part else LOSS}),
    "optimizer": StrategyColumn("str", lambda name: {} if "adam" in name.lower() else {"optimizer": name.lower()}),
}
"""By column: what it says of a strategy. Sources say Adam of any form of it: the framework's is meant.

`stages`: the layers of each stage, as in `7,8,8,9`, where they are not equally many. `sharding` is `zero0` to `zero3`,
perhaps within groups (`zero1:8`, `hsdp:8`).
"""


def said_in(cells: Mapping[str, Any]) -> Partial:
    """What the values of such columns say. Several stages on a device are interleaved where no schedule is said."""
    virtual = cells.get("virtual") or 1
    schedule = cells.get("schedule") or ("interleaved" if virtual > 1 else None)
    order = {} if schedule is None else {"schedule": schedule, "virtual": virtual_of(schedule, virtual)}
    fields = [IN_WORDS[name].said(value) for name, value in cells.items() if value not in (None, "")]
    return partial(**{name: value for said in (*fields, order) for name, value in said.items()})


OWN = {f.name: f for f in fields(MeasuredRun) if f.name not in ("source", "fault", "said")}
KINDS = {name: str(f.type).removesuffix(" | None") for name, f in OWN.items()} | {
    name: column.kind for name, column in IN_WORDS.items()
}
"""By column: what its cells are."""

REQUIRED = (*(name for name, f in OWN.items() if f.default is MISSING), "tp", "pp")
WORDS = {
    "mlp": ("gelu", "relu2", "swiglu"),
    "norm": ("layernorm", "rmsnorm"),
    "position": ("learned", "rope", "alibi"),
    "attention_kind": ("mha", "gqa", "mla"),
    "precision": ("fp32", "bf16", "fp16", "fp8", "mxfp8", "nvfp4"),
    "gradients": ("fp32", "bf16", "fp16"),
    "recompute": ("none", "selective", "full"),
    "attention": ("unfused", "fused", "flash1", "triton", "flash2", "flash"),
    "dispatcher": ("alltoall", "deepep", "hybridep"),
    "schedule": ("1f1b", "interleaved", "gpipe", "looped-bfs", "zb-h1", "zb-v", "dualpipev"),
    "status": ("ok", "oom"),
}
"""The words of columns that have few."""

OPEN = ("framework",)
"""Columns that may have other words than are known, where these misspell none."""

SYNONYMS: Mapping[str, Mapping[str, str]] = {
    "precision": {"fp8-mx": "mxfp8", "fp8_mx": "mxfp8"},
    "sharding": {"ddp": "zero0", "no_shard": "zero0", "shard_grad_op": "zero2", "full_shard": "zero3", "fsdp": "zero3"},
}
"""What sources call a word of a column otherwise, in small letters: Megatron-Bridge's tables, PyTorch's FSDP."""

MEASUREMENTS = ("step_time_s", "tokens_per_s_per_gpu", "peak_memory_bytes")
"""The columns of what a run was measured to take."""

ROUNDED = 0.02
"""By what share a published rate and a published time may disagree, as rounded ones do."""

SEPARATORS = (",", ";", "\t")
"""The possible separators of cells: the first of these in the header is used."""

LONGEST_SHOWN = 40
"""Characters of a cell that an error shows."""

DECIMAL_COMMA = re.compile(r"^(-?\d*),(\d+)$")
"""A number as it is written where cells are not separated by commas."""

PARTS = "modules:"
"""How a cell begins that names the parts of layers that are recomputed, as `modules:layernorm,moe_act`."""

SHARDING = re.compile(r"zero[0-3]|zero1:[1-9]\d*|hsdp:[1-9]\d*")


Warn = Callable[[str], None]
"""Reports in one line what may not be meant."""


def read_runs(
    path: str, known: Mapping[str, Sequence[str] | Mapping[str, str]] | None = None, warn: Warn | None = None
) -> list[MeasuredRun]:
    """The runs of a file. `known`: further columns whose words are limited, perhaps each with the word that it means.

    `warn` gets columns that are ignored. A run whose words are not all known has a `fault`. Raises RunsError for a file
    that holds no runs, or none without a fault, OSError for one that cannot be read.
    """
    data = read_bytes(path, ROWS)
    try:
        text = data.decode("utf-16" if data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        found = f"the byte {data[error.start]:#04x}" if error.start < len(data) else "its end"
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise RunsError(f"{path}:{line}: expected UTF-8 text, found {found} at byte {column} of the line") from None
    return parse_runs(text, path, known, warn)


def parse_runs(
    text: str, path: str, known: Mapping[str, Sequence[str] | Mapping[str, str]] | None = None, warn: Warn | None = None
) -> list[MeasuredRun]:
    """The runs of a text, as `read_runs` reads them; `path` names it. Raises RunsError."""
    lines = text.splitlines(keepends=True)
    first = next((i for i, line in enumerate(lines) if line.strip() and not line.startswith("#")), None)
    if first is None:
        raise RunsError(f"{path}:1: expected a header with the columns {', '.join(REQUIRED)}, found no line")
    separator = next((mark for mark in SEPARATORS if mark in lines[first]), SEPARATORS[0])
    reader = csv.reader(io.StringIO("".join(lines[first:]), newline=""), delimiter=separator, strict=True)
    ended = 0
    try:
        header = [name.strip() for name in next(reader)]
        ended = reader.line_num
        while header and not header[-1]:
            header.pop()
        _check_header(header, f"{path}:{first + 1}")
        for index, name in enumerate(header):
            near = nearest(name, KINDS) if name not in KINDS else None
            if near is not None and near not in header and warn is not None:
                warn(f"{path}:{first + 1}:{index + 1}: the column `{name}` is ignored; did you mean `{near}`?")
        runs: list[MeasuredRun] = []
        seen: dict[str, int] = {}
        for cells in reader:
            ended = reader.line_num
            if not any(map(str.strip, cells)):
                continue
            line = first + reader.line_num
            while len(cells) > len(header) and not cells[-1].strip():
                cells.pop()
            if separator != ",":
                cells = [DECIMAL_COMMA.sub(r"\1.\2", cell.strip()) for cell in cells]
            run = _run(header, cells, path, line, {**WORDS, **(known or {})})
            if run.id in seen:
                at = f"{path}:{line}:{header.index('id') + 1}"
                raise RunsError(f"{at}: `{run.id}` names the run in line {seen[run.id]} already")
            seen[run.id] = line
            runs.append(run)
    except csv.Error as error:
        open_quote = str(error) == "unexpected end of data"
        why = "a quote that this row opens is never closed" if open_quote else error
        raise RunsError(f"{path}:{first + ended + 1}: {why}") from None
    if not runs:
        raise RunsError(f"{path}:{first + 1}: expected runs below the header, found none")
    if all(run.fault for run in runs):
        raise RunsError(runs[0].fault)
    return runs


def _check_header(header: Sequence[str], at: str) -> None:
    if not any(name in KINDS for name in header):
        raise RunsError(f"{at}: expected a header with the columns {', '.join(REQUIRED)}, found none of them")
    for index, name in enumerate(header):
        if name in header[:index]:
            raise RunsError(f"{at}:{index + 1}: the column `{name}` is there twice")
    missing = [name for name in REQUIRED if name not in header]
    if missing:
        unknown = [name for name in header if name not in KINDS]
        near = nearest(missing[0], unknown)
        hint = f"; did you mean it by `{near}`?" if near else ""
        raise RunsError(f"{at}: expected a column `{missing[0]}`, found none{hint}")


def _run(
    header: Sequence[str],
    cells: Sequence[str],
    path: str,
    line: int,
    words: Mapping[str, Sequence[str] | Mapping[str, str]],
) -> MeasuredRun:
    if len(cells) != len(header):
        raise RunsError(f"{path}:{line}: expected {len(header)} cells, as in the header, found {len(cells)}")
    given: dict[str, Any] = {}
    if any(name == "hardware" and cell.strip() for name, cell in zip(header, cells, strict=True)):
        words = {name: some for name, some in words.items() if name != "gpu"}
    for column, (name, cell) in enumerate(zip(header, cells, strict=True), start=1):
        if name not in KINDS:
            continue
        text = _meant(cell.strip(), SYNONYMS.get(name, {}), words.get(name, ()))
        at = f"{path}:{line}:{column}"
        if not text:
            if name in REQUIRED:
                raise RunsError(f"{at}: `{name}` is empty; it must be given")
            continue
        if name == "recompute" and text.startswith(PARTS):
            given[name] = _parts(text, at)
            continue
        if name in words and text not in words[name]:
            near = nearest(text.lower(), list(words[name]))
            if near is None and name in OPEN:
                given[name] = text.lower()
                continue
            hint = f"did you mean `{near}`?" if near else f"expected one of {', '.join(words[name])}"
            given.setdefault("fault", f"{at}: there is no {name} `{text}`; {hint}")
        given[name] = _value(name, text, at)
    if "dp" not in given:
        given["dp"] = _replicas(given, f"{path}:{line}")
    given.setdefault("precision", "bf16")
    said = said_in({name: given.pop(name) for name in IN_WORDS if name in given})
    run = MeasuredRun(**given, said=said, source=PurePath(path).stem)
    _check_together(run, header, f"{path}:{line}")
    if run.status == "ok" and run.step_time_s is None and run.tokens_per_s_per_gpu is not None:
        run = replace(run, step_time_s=run.global_batch * run.seq / (run.gpus * run.tokens_per_s_per_gpu))
    return run


def _meant(text: str, *known: Sequence[str] | Mapping[str, str]) -> str:
    """The word that a cell means, whatever its letters' case; the cell as it is, if there is none."""
    for words in known:
        same = next((word for word in words if word.lower() == text.lower()), None)
        if same is not None:
            return words[same] if isinstance(words, Mapping) else same
    return text


def _replicas(given: Mapping[str, int], at: str) -> int:
    """The replicas of a run that does not state them: those of the other ranks on its GPUs. Raises RunsError."""
    ranks = given["tp"] * given["pp"] * given.get("cp", 1)
    found, left = divmod(given["gpus"], ranks)
    if left:
        raise RunsError(f"{at}: expected a multiple of tp · pp · cp = {ranks} in `gpus`, found {given['gpus']}")
    return found


def _parts(text: str, at: str) -> str:
    """A cell that names parts of layers. Raises RunsError for an unknown one."""
    try:
        modules_of(text.removeprefix(PARTS))
    except StepError as error:
        raise RunsError(f"{at}: {error}") from None
    return text


def _check_together(run: MeasuredRun, header: Sequence[str], at: str) -> None:
    """Raises RunsError where figures of a run contradict each other. `at`: its line."""

    def fault(name: str, expected: str, found: object) -> RunsError:
        return RunsError(f"{at}:{header.index(name) + 1}: expected {expected}, found {found}")

    if (ranks := run.strategy.devices) != run.gpus:
        raise fault("gpus", f"gpus = dp · tp · pp · cp = {ranks}", run.gpus)
    if (run.dense_layers or 0) > run.layers:
        raise fault("dense_layers", f"at most the {run.layers} layers", run.dense_layers)
    seconds, tokens = run.step_time_s, run.tokens_per_s_per_gpu
    if run.status == "oom":
        for name in MEASUREMENTS:
            if getattr(run, name) is not None:
                raise fault(name, "no measurement of a run with the status `oom`", getattr(run, name))
    elif seconds is not None and tokens is not None:
        rate = run.global_batch * run.seq / (run.gpus * seconds)
        if abs(rate / tokens - 1) > ROUNDED:
            raise fault("tokens_per_s_per_gpu", f"global_batch · seq / (gpus · step_time_s) = {rate:.4g}", tokens)


def _value(name: str, text: str, at: str) -> Any:
    kind = KINDS[name]
    what, read = _KINDS[kind]
    try:
        found = read(text)
    except (ValueError, KeyError, OverflowError):
        shown = text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
        raise RunsError(f"{at}: `{name}` expected {what}, found `{shown}`") from None
    if name == "sharding" and not SHARDING.fullmatch(text):
        raise RunsError(f"{at}: `sharding` expected zero0 to zero3, zero1:N or hsdp:N, found `{text}`")
    least = _LEAST.get(name, 1)
    if kind in ("int", "float") and found < least:
        raise RunsError(f"{at}: `{name}` expected {least} or more, found `{text}`")
    return found


def _positive(text: str) -> float:
    found = float(text)
    if not (math.isfinite(found) and found > 0):
        raise ValueError
    return found


def _share(text: str) -> float:
    found = float(text)
    if not 0 <= found < 1:
        raise ValueError
    return found


def _flag(text: str) -> bool:
    return {"0": False, "1": True, "false": False, "true": True}[text.lower()]


def _whole(text: str) -> int:
    """A whole number, as a spreadsheet may write it: `256.0`, `2.56E+05`."""
    try:
        return int(text)
    except ValueError:
        found = float(text)
        if not found.is_integer():
            raise
        return int(found)


_KINDS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "int": ("a whole number", _whole),
    "float": ("a number above 0", _positive),
    "Share": ("a share from 0 to below 1", _share),
    "bool": ("0 or 1", _flag),
    "str": ("a word", str),
    "layers": ("the layers of stages, as 7,8,8,9", lambda text: tuple(map(_whole, text.split(",")))),
}
_LEAST: dict[str, int] = dict.fromkeys(
    (
        *("experts", "top_k", "expert_ffn", "shared_experts", "dense_layers", "offload"),
        *("node_gbps", "step_time_s", "tokens_per_s_per_gpu", "tflops_per_gpu"),
    ),
    0,
)
"""The least that a figure may be, where that is not 1."""
