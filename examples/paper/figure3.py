"""Figure 3: the traces of the pipeline of figure 2, and of the same with two lines swapped.

    python examples/paper/figure3.py

Writes Chrome traces, timelines as pages, and a picture of both.
"""

from __future__ import annotations

from evaluation import OUT, ROOT, write
from matplotlib.figure import Figure

import distir
from distir.analysis.program import read
from distir.simulate.page import timeline_page

PROGRAMS = {"as printed": "mlp_pipeline", "swapped": "mlp_pipeline_swapped"}


def main() -> None:
    """Simulate both on `dgx-a100`."""
    OUT.mkdir(parents=True, exist_ok=True)
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    axes = figure.subplots(2, 1, sharex=True)
    latencies: dict[str, float] = {}
    for plot, (title, name) in zip(axes, PROGRAMS.items(), strict=True):
        path = ROOT / "examples" / f"{name}.dir"
        program = read(path.read_text(encoding="utf-8"), path.name)
        simulation = distir.simulate(program.module)
        simulation.to_chrome_trace(OUT / f"figure3_{name}.json")
        page = timeline_page(simulation, program.source, program.syntax.source_map)
        (OUT / f"figure3_{name}.html").write_text(page, encoding="utf-8")
        latencies[title] = simulation.latency_s
        for event in simulation.timeline().events():
            for device in event.effect.devices:
                colour = "#d55e00" if event.effect.work.communication else ("#0072b2", "#56b4e9")[device % 2]
                bar = {"color": colour, "edgecolor": "white", "linewidth": 0.4}
                plot.barh(device, 1e3 * (event.end - event.start), left=1e3 * event.start, **bar)
        plot.set_title(f"{title}: {1e3 * simulation.latency_s:.1f} ms", fontsize=9, loc="left")
        plot.set_yticks([1, 2], ["device 1", "device 2"])
        plot.invert_yaxis()
    axes[-1].set_xlabel("ms")
    figure.savefig(OUT / "figure3.svg", metadata={"Date": None})
    slower = latencies["swapped"] / latencies["as printed"]
    write(
        "figure3",
        "## Figure 3: the traces of two schedules\n\n![Figure 3](figure3.svg)\n\n"
        f"The swapped schedule takes {slower:.3f} times as long. The paper prints traces without numbers; here as "
        "there, device 2 starts its first layer later in the lower one. Sends are orange.\n",
    )


if __name__ == "__main__":
    main()
