"""Simulated beside measured: how the two rank, and how far they are apart."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from configurations import Configuration

import distir
from distir.cost import Hardware, load, show_seconds

COLUMNS = ("number", "workload", "strategy", "layers", "width", "batch", "tokens", "runs", "measured_s", "spread")
ON_GPU_COLUMNS = (*COLUMNS, "peak_memory_bytes")
PROFILES = {1: "one_rank.toml", 2: "two_ranks.toml"}


@dataclass(frozen=True, slots=True)
class Measured:
    """One configuration as it ran. `seconds`: the median of its `runs`, and of rounds."""

    configuration: Configuration
    runs: int
    seconds: float
    spread: float
    """By how much the longest tenth of the runs is longer, as a share: how noisy it was."""
    peak_memory_bytes: int | None = None
    """Of a GPU: how much was allocated at most."""


@dataclass(frozen=True, slots=True)
class Row:
    """One configuration: measured, and simulated with its band."""

    measured: Measured
    simulated_s: float
    band: tuple[float, float]
    simulated_bytes: int

    @property
    def error(self) -> float:
        return self.simulated_s / self.measured.seconds - 1

    @property
    def memory_error(self) -> float | None:
        """Of the peak memory, where it was measured."""
        peak = self.measured.peak_memory_bytes
        return None if peak is None else self.simulated_bytes / peak - 1

    @property
    def within(self) -> bool:
        """Whether what was measured lies in the band."""
        return self.band[0] <= self.measured.seconds <= self.band[1]


def write(path: Path, rows: Sequence[Measured]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        on_gpu = any(row.configuration.on_gpu for row in rows)
        writer.writerow(ON_GPU_COLUMNS if on_gpu else COLUMNS)
        for row in rows:
            c = row.configuration
            own = (c.number, c.workload, c.strategy, c.layers, c.width, c.batch, c.tokens, row.runs)
            memory = (row.peak_memory_bytes,) if on_gpu else ()
            writer.writerow((*own, f"{row.seconds:.6g}", f"{row.spread:.3f}", *memory))


def read(path: Path) -> list[Measured]:
    with path.open(newline="") as file:
        return [
            Measured(
                Configuration(
                    int(row["number"]),
                    row["workload"],
                    row["strategy"],
                    *(int(row[name]) for name in ("layers", "width", "batch", "tokens")),
                    on_gpu="peak_memory_bytes" in row,
                ),
                int(row["runs"]),
                float(row["measured_s"]),
                float(row["spread"]),
                int(row["peak_memory_bytes"]) if "peak_memory_bytes" in row else None,
            )
            for row in csv.DictReader(file)
        ]


def machines(folder: Path) -> dict[int, Hardware]:
    """The profiles of a folder, by the number of ranks that they were measured with."""
    return {ranks: load(folder / name) for ranks, name in PROFILES.items() if (folder / name).exists()}


def compare(rows: Sequence[Measured], hardware: dict[int, Hardware]) -> list[Row]:
    found: list[Row] = []
    for row in rows:
        simulation = distir.simulate(row.configuration.program(), hardware[row.configuration.ranks])
        seconds = simulation.latency_s
        peak = max(device.peak_memory_bytes for device in simulation.devices.values())
        found.append(Row(row, seconds, simulation.band or (seconds, seconds), peak))
    return found


def spearman(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Spearman's rank correlation; equal values share their mean rank."""
    return statistics.correlation(_ranks(xs), _ranks(ys))


def _ranks(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    return [ordered.index(v) + (ordered.count(v) - 1) / 2 for v in values]


def report(rows: Sequence[Row], hardware: dict[int, Hardware]) -> str:
    """The comparison as Markdown: figures by group, then each configuration."""
    lines = ["# Simulated and measured", "", "Written by `examples/accuracy/accuracy.py`.", ""]
    for machine in hardware.values():
        lines += [f"- {machine.title}; {machine.sources['calibration']}"]
    lines += ["", "| configurations | number | Spearman's r | median error | worst error | measured within the band |"]
    lines += ["|---|---|---|---|---|---|"]
    groups: dict[str, list[Row]] = {"all": list(rows)}
    for row in rows:
        c = row.measured.configuration
        groups.setdefault(f"{c.ranks} rank{'s' * (c.ranks - 1)}", []).append(row)
        kind = c.workload if not c.on_gpu else f"{'layers of models' if not c.width else 'small'}, {c.phase}"
        groups.setdefault(kind, []).append(row)
        if c.strategy.endswith("overlap"):
            groups.setdefault("overlap", []).append(row)
    for name, own in groups.items():
        errors = [abs(row.error) for row in own]
        r = spearman([row.simulated_s for row in own], [row.measured.seconds for row in own])
        share = statistics.fmean(row.within for row in own)
        middle, worst = 100 * statistics.median(errors), 100 * max(errors)
        lines.append(f"| {name} | {len(own)} | {r:.3f} | {middle:.1f} % | {worst:.0f} % | {100 * share:.0f} % |")
    memory = [abs(row.memory_error) for row in rows if row.memory_error is not None]
    if memory:
        middle, worst = 100 * statistics.median(memory), 100 * max(memory)
        lines += ["", f"Peak memory of {len(memory)}: median error {middle:.1f} %, worst {worst:.0f} %."]
    lines += [
        "",
        "![simulated over measured](accuracy.svg)",
        "",
        "| workload | strategy | layers | width | batch | tokens | measured | longest tenth | simulated",
    ]
    lines[-1] += " | error |"
    lines.append("|---|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        c, m = row.measured.configuration, row.measured
        lines.append(
            f"| {c.workload} | {c.strategy} | {c.layers} | {c.width} | {c.batch} | {c.tokens or ''} "
            f"| {show_seconds(m.seconds)} | +{100 * m.spread:.0f} % | {show_seconds(row.simulated_s)} "
            f"| {100 * row.error:+.0f} % |"
        )
    return "\n".join(lines) + "\n"


def draw(rows: Sequence[Row], path: Path) -> None:
    """The paper's figure of accuracy: simulated over measured, a point per configuration. Raises OSError."""
    import matplotlib as mpl

    mpl.use("agg")
    mpl.rcParams["svg.hashsalt"] = "accuracy"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(5, 5), layout="constrained")
    marks = {"one": "o", "dp": "s", "tp": "^", "pp": "D", "dp overlap": "P", "pp overlap": "X"}
    names = {"one": "one rank", "dp": "data parallel", "tp": "tensor parallel", "pp": "pipeline"}
    names |= {"dp overlap": "data parallel, overlapped", "pp overlap": "pipeline, overlapped"}
    colours = {"mlp training": "C0", "gpt2 inference": "C1", "gpt2 training": "C2"}
    colours |= {"inference": "C3", "training": "C4"}  # of published models
    for row in rows:
        c, x, y = row.measured.configuration, 1e3 * row.measured.seconds, 1e3 * row.simulated_s
        low, high = (1e3 * edge for edge in row.band)
        axes.errorbar(
            x,
            y,
            [[y - low], [high - y]],
            fmt=marks[c.strategy],
            color=colours.get(c.workload) or colours[c.phase],
            ms=5,
            lw=0.7,
        )
    ends = [1e3 * f(f(r.measured.seconds, r.simulated_s) for r in rows) for f in (min, max)]
    axes.plot(ends, ends, color="grey", lw=0.8, zorder=0)
    axes.set(xscale="log", yscale="log", xlabel="measured [ms]", ylabel="simulated [ms]")
    handles = [axes.plot([], [], "o", color=colour, label=name)[0] for name, colour in colours.items()]
    handles += [axes.plot([], [], mark, color="grey", label=names[key])[0] for key, mark in marks.items()]
    r = spearman([row.simulated_s for row in rows], [row.measured.seconds for row in rows])
    axes.legend(handles=handles, fontsize="small", title=f"Spearman's r = {r:.3f}")
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)
