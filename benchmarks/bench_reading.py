"""How long hover, hints, lenses and tokens take, in milliseconds of CPU time, by the size of the file.

Run it as a script. Nothing is asserted: times depend on the machine, ratios within one run less so.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable

from bench_check import flat

from distir.config import Hints
from distir.cost import load
from distir.diagnostics import Span
from distir.ide.document import Setup, open_document
from distir.ide.hints import hints, tooltip
from distir.ide.hover import hover
from distir.ide.instances import View
from distir.ide.lenses import lenses
from distir.ide.tokens import pieces
from distir.syntax import print_module

REQUESTS = 200


def measured(work: Callable[[], object]) -> float:
    before = time.process_time()
    work()
    return 1000 * (time.process_time() - before)


def median_and_p95(times: list[float]) -> str:
    ordered = sorted(times)
    return (
        f"first {times[0]:7.2f}  median {ordered[len(ordered) // 2]:6.2f}  p95 {ordered[int(0.95 * len(ordered))]:6.2f}"
    )


def main(sizes: list[int]) -> None:
    machine = load("dgx-a100")
    for size in sizes:
        text = print_module(flat(size))
        document = open_document(text, "bench.dir", Setup(machine))
        document.program.diagnostics  # noqa: B018 (as the server does before)
        document.simulation  # noqa: B018
        view = View(document, document)
        starts = document.program.syntax.functions[0].starts
        chooser = random.Random(0)
        some = [chooser.randrange(max(1, len(starts) - 60)) for _ in range(REQUESTS)]
        middle = len(starts) // 2

        def lines(first: int) -> Span:
            return Span(starts[first], starts[min(first + 59, len(starts) - 1)])  # noqa: B023

        print(f"{size} statements")
        print("  hover on values  ", median_and_p95([measured(lambda: hover(view, starts[i] + 1)) for i in some]))  # noqa: B023
        callee = [text.index("(", starts[i]) - 2 for i in some]
        print("  hover on ops     ", median_and_p95([measured(lambda: hover(view, i)) for i in callee]))  # noqa: B023
        print("  hints, 60 lines  ", median_and_p95([measured(lambda: hints(view, lines(i), Hints())) for i in some]))  # noqa: B023
        found = hints(view, lines(0), Hints())
        tips = [measured(lambda: tooltip(view, h.function, h.kind, h.index, h.part)) for h in found]  # noqa: B023
        print("  tooltips         ", median_and_p95(tips))
        print("  lenses           ", f"{measured(lambda: lenses(document)):7.2f}")  # noqa: B023
        ranges = [measured(lambda: list(pieces(view, lines(i).start, lines(i).end, len))) for i in some]  # noqa: B023
        print("  tokens, 60 lines ", median_and_p95(ranges))
        whole = [measured(lambda: list(pieces(view, 0, len(text), len))) for _ in range(3)]  # noqa: B023
        print("  tokens, all      ", f"first {whole[0]:7.2f}  again {whole[2]:7.2f}")
        edited = text[: starts[size // 2]] + "  %fresh = Relu(%x)\n" + text[starts[size // 2] :]
        after = document.edited(edited, 1)
        print("  edit and check   ", f"{measured(lambda: after.program.diagnostics):7.2f}")  # noqa: B023
        stale = View(after, document)
        print("  then hover       ", f"{measured(lambda: hover(stale, starts[middle] + 1)):7.2f}")  # noqa: B023
        print("  then hints       ", f"{measured(lambda: hints(stale, lines(middle), Hints())):7.2f}")  # noqa: B023
        print("  then tokens, all ", f"{measured(lambda: list(pieces(stale, 0, len(edited), len))):7.2f}")  # noqa: B023


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]] or [100, 1000, 10_000, 50_000])
