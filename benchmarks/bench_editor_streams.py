"""What hosts and named streams add in the editor: CPU time of each thing that it does, over that without either.

The programs are the training steps of `bench_simulate`, with overlap. `plain`: the same statements on one stream, on
the same machine, whose hosts take no time; `streams`: as they are; `both`: and hosts take time, as eager PyTorch's do.
The least of some runs in turns, which what else the machine does disturbs least; the goal is 1.5.

Run it as a script: `bench_editor_streams.py [RUNS]`. Nothing is asserted: times depend on the machine.
"""

from __future__ import annotations

import gc
import re
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from bench_simulate import TRAINING, training, without_streams

from distir.config import Hints
from distir.cost import load
from distir.diagnostics import Span
from distir.ide import hints
from distir.ide.diagnostics import findings
from distir.ide.document import Document, Setup, open_document
from distir.ide.hover import hover
from distir.ide.instances import View
from distir.ide.timeline import timeline_view
from distir.syntax import print_module

RUNS, EDITS, HOVERS = 5, 6, 30
PRODUCT = re.compile(r"\n  (%\w+) = (?:Add|Mul)\(%\w+, %\w+\)")
"""A statement after which an edit adds another one."""
NAME = re.compile(r"%\w+ = ")

T = TypeVar("T")
Spent = dict[str, float]


def spread_over(places: list[T], count: int) -> list[T]:
    """Up to so many of them, equally far apart."""
    return places[:: max(1, len(places) // count)][:count]


def timed(spent: Spent, what: str, run: Callable[[], T]) -> T:
    """Run, and add the CPU time in seconds."""
    start = time.process_time()
    found = run()
    spent[what] = spent.get(what, 0.0) + time.process_time() - start
    return found


def visit(text: str, setup: Setup) -> Spent:
    """Open a program, edit it some times, and look at what the editor shows after that: seconds by what is done."""
    spent: Spent = {}
    gc.collect()
    document = timed(spent, "check", lambda: checked(open_document(text, "step.dir", setup)))
    timed(spent, "simulate, first", lambda: simulated(document))
    for number, place in enumerate(spread_over([*PRODUCT.finditer(text)], EDITS)):
        new = f"{text[: place.end()]}\n  %edited = Mul({place[1]}, {place[1]}){text[place.end() :]}"
        document = timed(spent, "check, edits", partial(edited, document, new, number))
        timed(spent, "simulate, edits", partial(simulated, document))
    view = View(document, document, lambda: False, None)
    whole = Span(0, len(document.text))
    timed(spent, "hints", lambda: hints.hints(view, whole, Hints()))
    names = spread_over([place.start() + 1 for place in NAME.finditer(document.text)], HOVERS)
    timed(spent, "hover", lambda: [hover(view, name) for name in names])
    timed(spent, "timeline", lambda: timeline_view(document, columns=True))
    return spent


def edited(document: Document, text: str, version: int) -> Document:
    return checked(document.edited(text, version))


def checked(document: Document) -> Document:
    assert not document.program.errors
    return document


def simulated(document: Document) -> None:
    """Simulate, and find what is to be said of it."""
    document.simulate()
    assert document.simulation is not None, document.unsimulated
    findings(document)


def main() -> None:
    """Print a table for each program."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    for steps, batch, hardware in TRAINING:
        _, overlapped = training(steps, batch, hardware)
        plain, streams = print_module(without_streams(overlapped)), print_module(overlapped)
        cases = {
            "plain": (plain, Setup(load(hardware))),
            "streams": (streams, Setup(load(hardware))),
            "both": (streams, Setup(load(f"{hardware}@eager"))),
        }
        spent: dict[str, list[Spent]] = {name: [] for name in cases}
        for _ in range(runs):
            for name, case in cases.items():
                spent[name].append(visit(*case))
        print(f"llama3-8b {steps}: milliseconds of CPU time, and ratios to it (goal: 1.5)")
        print(f"  {'':16}{'plain':>9}{'streams':>9}{'both':>9}")
        for what in spent["plain"][0]:
            least = {name: min(each[what] for each in found) for name, found in spent.items()}
            ratios = "".join(f"{least[name] / least['plain']:9.2f}" for name in ("streams", "both"))
            print(f"  {what:16}{least['plain'] * 1e3:9.1f}{ratios}", flush=True)


if __name__ == "__main__":
    main()
