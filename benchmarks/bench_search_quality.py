"""How near the winner of a search with a budget comes to that of all configurations, over drawn smaller spaces.

    bench_search_quality.py                20 spaces of at most 150 configurations, of which 24 are simulated
    bench_search_quality.py --spaces 5 --budget 12 --most 80

A space is a decoder of drawn sizes, a machine, and what a search of training tries on it, restricted on drawn axes as
options restrict it. `slower`: by how much the winner of the search is slower than the best of all. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from distir.cost import load
from distir.models import named
from distir.search import Annealing, Search, Space, SpaceError, Subject, Workers
from distir.search.whole import admitted, whole
from distir.transform import transform

MACHINES = ("dgx-h100", "dgx-a100", "dgx-h100x2")
STEPS = ("grad", "optimizer=adamw", "precision=mixed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--spaces", type=int, default=20)
    parser.add_argument("--budget", type=int, default=24)
    parser.add_argument("--most", type=int, default=150, help="configurations of a space")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    print(f"{'space':<46}{'plans':>6}{'tried':>6}{'best':>9}{'found':>9}{'slower':>8}{'CPU s':>8}")
    slower: list[float] = []
    for search, _ in zip(drawn(asked.seed, asked.most), range(asked.spaces), strict=False):
        start = time.process_time()
        few = replace(search, method="anneal", budget=asked.budget, annealing=Annealing(asked.budget // 3))
        rows = [*few.rows()]
        spent = time.process_time() - start
        (size,) = search.batch_sizes
        every = [*search.rows()]
        best, found = (
            min((row.latency_s for row in some if row.fits and row.latency_s), default=0.0) for some in (every, rows)
        )
        slower.append(found / best - 1 if best and found else 0.0 if not best else float("inf"))
        space = f"{search.subject.model}, {search.subject.hardware.name}, batch {size}"
        line = f"{space:<46}{search.configurations:>6}{len(rows):>6}{best * 1e3:>7.2f}ms{found * 1e3:>7.2f}ms"
        print(f"{line}{slower[-1]:>8.2%}{spent:>8.1f}", flush=True)
    near = sum(each <= 0.01 for each in slower)
    print(f"{near} of {len(slower)} within 1 % of the best of all; the worst {max(slower):.2%}")


def drawn(seed: int, most: int) -> Iterator[Search]:
    """Searches of all configurations of drawn spaces, each of a third to all of `most`."""
    draw = random.Random(seed)
    while True:
        width, layers = draw.choice((1024, 2048, 4096)), draw.choice((2, 4))
        sizes: dict[str, Any] = {
            "layers": layers,
            "width": width,
            "heads": 16,
            "kv_heads": 8,
            "ffn": 3 * width,
            "vocabulary": 8192,
        }
        sequence, devices = draw.choice((1024, 4096)), draw.choice((4, 8, 16))
        machine = load(draw.choice(MACHINES))
        if devices > machine.devices:
            continue
        machine = machine.with_memory(draw.choice((80, 24, 8)) << 30)
        batch = devices * draw.choice((2, 4, 8))
        module = transform(named("llama3-8b", None, sequence, **sizes), *STEPS)
        subject = Subject(f"{layers} x {width}, {sequence} tokens", module, machine)
        space = restricted(whole(subject, devices, (batch,)), draw)
        try:
            count = len(admitted(subject, space.for_experts(None), batch, True)[0])
        except SpaceError:
            continue
        if most / 3 <= count <= most:
            yield Search(subject, space, "grid", Workers(jobs=1))


def restricted(space: Space, draw: random.Random) -> Space:
    """The space with few values on each axis."""
    return replace(
        space,
        schedule=tuple(draw.sample(space.schedule, 2)),
        virtual=space.virtual[:1],
        zero=tuple(sorted(draw.sample(space.zero, 2))),
        shard=(),
        checkpoint=draw.choice(((False,), (True,), (False, True))),
        recompute=("",),
        context=draw.choice(((1,), (1, 2))),
        kind=space.kind[:1],
        sequence=(draw.random() < 0.5,),
        overlap=draw.choice(((True,), (False, True))),
        fuse=True,
        balance=draw.choice((("uniform",), ("uniform", "cost"))),
        micro_batches=space.micro_batches[: draw.choice((1, 2))],
    )


if __name__ == "__main__":
    main()
