"""Fits the figures of products and attention by shape (`distir/cost/contractions.py`) to a table of measured ops.

    python examples/profiles/fit.py products TABLE.csv --like dgx-h100 --dtype BFloat16 [--where system=h100_sxm …]
    python examples/profiles/fit.py experts TABLE.csv --like dgx-h100 --dtype BFloat16 [--where …]
    python examples/profiles/fit.py attention TABLE.csv --like dgx-h100 --dtype BFloat16 [--where …]
    python examples/profiles/fit.py products TABLE.csv --like dgx-h100 --dtype BFloat16 --check
    python examples/profiles/fit.py --tables DIR --like dgx-h100

Prints the tables for a profile, and the errors on a fifth of the rows, by a hash of their shapes, that the fit has not
seen. `--like` is a profile whose first device has the peak rates and the bandwidth; its figures by shape, if it has
some, are where the fit starts, unless `--anew` is given. See docs/how-to/hardware.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path

import collectives
import numpy as np
from fitting.attention import Attentions, fit_attention
from fitting.experts import Experts, fit_experts
from fitting.output import attention_toml, product_toml
from fitting.products import (
    Products,
    default_figures,
    fit_correction,
    fit_products,
    measured_as,
    spread,
    uncorrected,
    worth,
)
from fitting.tables import Array, add_conditions, column, held_out, loaded, quantiles, read_rows, seconds_of

from distir.cost import DeviceKind
from distir.cost.contractions import ProductFigures
from distir.ir import DTYPES

ENOUGH = 2500
"""Rows that a fit looks at: more change no figure."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Read tables, fit, print the tables of a profile and the errors."""
    asked = _asked(arguments)
    if asked.tables is None:
        _fitted(asked)
        return
    found = [name for name in (*FITS, "collectives") if (asked.tables / f"{name}.csv").exists()]
    if not found:
        names = ", ".join(f"`{name}.csv`" for name in (*FITS, "collectives"))
        raise SystemExit(f"`{asked.tables}` has none of {names}")
    for name in found:
        path = str(asked.tables / f"{name}.csv")
        if name == "collectives":
            collectives.main([path, "--like", asked.like, "--source", asked.source, "--correct"])
            continue
        dtypes = sorted({row.get("dtype") or asked.dtype for row in read_rows(path, {})})
        for dtype in dtypes:
            if dtype not in DTYPES:
                raise SystemExit(f"`{path}`: the column `dtype` has `{dtype}`, expected one of {', '.join(DTYPES)}")
            named = copy(asked)
            named.op, named.table, named.dtype = name, path, dtype
            named.where = [*asked.where, *([("dtype", dtype)] if len(dtypes) > 1 else [])]
            _fitted(named)


def _fitted(asked: argparse.Namespace) -> None:
    rows = read_rows(asked.table, dict(asked.where))
    rows = [row for row in rows if all(row.get(name) != value for name, value in asked.but)]
    if len(rows) < 50:
        stated = ", ".join(f"{name}={value}" for name, value in asked.where)
        raise SystemExit(f"`{asked.table}` has {len(rows)} rows{f' where {stated}' if stated else ''}")
    kind = loaded(asked.like).kinds[0]
    peak = kind.rates[DTYPES[asked.dtype]].peak
    FITS[asked.op](asked, rows, kind, peak, f'source = "{asked.source}"\nbasis = "derived"\n')


def _products(asked: argparse.Namespace, rows: list[dict[str, str]], kind: DeviceKind, peak: float, cited: str) -> None:
    shape = [column(rows, name) for name in ("m", "n", "k")]
    batch = column(rows, "batch", 1)
    table = Products(
        *shape, batch, seconds_of(rows), DTYPES[asked.dtype].bytes, asked.turns, asked.quantised
    )  # fmt: skip
    unseen = held_out(*shape, batch)
    seen = table.part(~unseen)
    known = kind.products.get(asked.dtype)
    if asked.check:
        _checked(asked, table, known)
        return
    start = default_figures(_processors(asked, kind), peak, kind.peak_bandwidth)
    if known is not None and asked.anew:  # what a table does not show stays
        start = replace(start, thin_to=known.thin_to, splits_from=known.splits_from)
    elif known is not None:
        start = uncorrected(known)
    some = seen.part(np.random.default_rng(0).permutation(len(seen.m))[:ENOUGH])
    if asked.correct:
        found = measured_as(start, some, asked.cache * 1e6)
    else:
        found = worth(fit_products(some, start, peak, kind.peak_bandwidth, asked.cache * 1e6, asked.restarts), some)
    found = fit_correction(found, seen, asked.numbers, asked.slack)
    _report(asked, seen.measured, found.seconds(seen), table.part(unseen).measured, found.seconds(table.part(unseen)))
    note, large = _note(table.part(unseen).measured, found.seconds(table.part(unseen))), spread(table)
    if large is not None:
        note += f"; large products of the same sides differ among themselves by {large[0]:.1%} and {large[1]:.1%}"
    cited += f'note = "{note}"\n'
    print(product_toml(kind.name, asked.dtype, found.figures, cited))


def _checked(asked: argparse.Namespace, table: Products, figures: ProductFigures | None) -> None:
    """Print how far a profile's own figures are off."""
    if figures is None:
        raise SystemExit(f"`{asked.like}` has no figures of products of {asked.dtype} to check")
    found = measured_as(figures, table, asked.cache * 1e6).seconds(table)
    print(f"# {asked.op} of {asked.dtype} on {asked.like}: {_errors(table.measured, found)}")


WIDTH = 64
"""Experts whose width is no multiple of this are made by other kernels, which take up to twice as long."""


def _experts(asked: argparse.Namespace, rows: list[dict[str, str]], kind: DeviceKind, peak: float, cited: str) -> None:
    tokens, hidden, topk, experts = (column(rows, name) for name in ("tokens", "hidden", "topk", "experts"))
    inter = column(rows, "inter") / column(rows, "tp", 1)
    table = Experts(tokens, hidden, inter, topk, experts, seconds_of(rows), DTYPES[asked.dtype].bytes)
    # Rows that read all weights faster than the memory's peak allows had idle experts, whatever they state.
    idle = (tokens * topk < experts) | (table.measured < table.weights / kind.peak_bandwidth)
    table = table.part((inter % WIDTH == 0) & ~idle)
    print(f"# {len(rows) - len(table.measured)} rows left out: widths that are no multiple of {WIDTH}, idle experts")
    unseen = held_out(table.tokens, table.hidden, table.inter, table.topk, table.experts)
    seen, rest = table.part(~unseen), table.part(unseen)
    start = default_figures(_processors(asked, kind), peak, kind.peak_bandwidth)
    found = fit_experts(seen, start, peak, kind.peak_bandwidth, asked.restarts)
    (figures, fitted), (_, estimated) = found(seen), found(rest)
    _report(asked, seen.measured, fitted, rest.measured, estimated)
    cited += f'note = "{_note(rest.measured, estimated)}"\n'
    print(product_toml(kind.name, asked.dtype, figures, cited, "experts"))


def _attention(
    asked: argparse.Namespace, rows: list[dict[str, str]], kind: DeviceKind, peak: float, cited: str
) -> None:
    processors = _processors(asked, kind)
    sizes = column(rows, "head_dim")
    for size in sorted(set(sizes.tolist())):
        some = [row for row, own in zip(rows, sizes, strict=True) if own == size]
        shape = [column(some, name) for name in ("batch", "seq", "heads", "kv_heads")]
        table = Attentions(*shape, int(size), seconds_of(some), DTYPES[asked.dtype].bytes, asked.stored)
        if asked.slowest:
            slowest: dict[tuple[float, ...], int] = {}
            for row, key in enumerate(zip(*shape, strict=True)):
                if key not in slowest or table.measured[row] > table.measured[slowest[key]]:
                    slowest[key] = row
            table = table.part(np.array(list(slowest.values())))
        unseen = held_out(table.batch, table.seq, table.heads, table.kv_heads)
        seen, rest = table.part(~unseen), table.part(unseen)
        found = fit_attention(seen, processors, peak, kind.peak_bandwidth, asked.restarts)
        _report(asked, seen.measured, found.seconds(seen), rest.measured, found.seconds(rest))
        note = f'{cited}note = "{_note(rest.measured, found.seconds(rest))}"\n'
        print(attention_toml(kind.name, asked.dtype, found.figures, note))


FITS = {"products": _products, "experts": _experts, "attention": _attention}


def _processors(asked: argparse.Namespace, kind: DeviceKind) -> int:
    known = kind.products.get(asked.dtype)
    if asked.processors or known is not None:
        return asked.processors or known.processors
    raise SystemExit("say how many multiprocessors the device has: `--processors 132`")


def _errors(measured: Array, estimated: Array) -> str:
    median, decile = quantiles(measured, estimated)
    return f"{len(measured)} rows: median {median:.2%}, 90 % below {decile:.2%}"


def _note(measured: Array, estimated: Array) -> str:
    median, decile = quantiles(measured, estimated)
    return f"of rows that the fit has not seen, half are off by less than {median:.1%}, nine of ten by {decile:.1%}"


def _report(asked: argparse.Namespace, seen: Array, fitted: Array, unseen: Array, found: Array) -> None:
    median, decile = quantiles(unseen, found)
    known, tenth = quantiles(seen, fitted)
    name = f"{asked.op} of {asked.dtype} on {asked.like}"
    print(f"# {name}: {len(unseen)} rows not seen: median {median:.2%}, 90 % below {decile:.2%}", end="")
    print(f"; {len(seen)} seen: {known:.2%}, {tenth:.2%}")
    sys.stdout.flush()


def _asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("op", nargs="?", choices=tuple(FITS))
    parser.add_argument("table", nargs="?", help="a CSV file of measured times")
    parser.add_argument(
        "--tables",
        type=Path,
        metavar="DIR",
        help="instead: all of products.csv, experts.csv, attention.csv and "
        "collectives.csv in a folder, as `distir calibrate --shapes` leaves some of them, for each value of `dtype`",
    )
    parser.add_argument("--like", required=True, metavar="PROFILE", help="peak rates and bandwidth; the fit's start")
    parser.add_argument("--dtype", default="BFloat16", choices=sorted(DTYPES))
    add_conditions(parser, "--where", "only these rows")
    add_conditions(parser, "--but", "not these rows")
    parser.add_argument("--processors", type=int, default=0, help="multiprocessors, if the profile does not say")
    parser.add_argument("--cache", type=float, default=50.0, metavar="MB", help="the device's last cache")
    parser.add_argument("--turns", type=int, default=1, help="matrices that the measurement took turns with")
    parser.add_argument(
        "--quantised", action="store_true", help="times include quantising the rows of the left operand"
    )
    parser.add_argument("--stored", action="store_true", help="attention writes keys and values to a cache before")
    parser.add_argument("--slowest", action="store_true", help="of rows of one shape, only the slowest")
    parser.add_argument("--check", action="store_true", help="fit nothing: how far the profile's own figures are off")
    parser.add_argument("--anew", action="store_true", help="the fit starts from no profile's figures")
    parser.add_argument("--correct", action="store_true", help="keep the profile's form, and fit its corrections anew")
    parser.add_argument("--numbers", type=int, default=600, help="the most numbers that corrections of products have")
    parser.add_argument(
        "--slack", type=float, default=0.0, help="the share by which larger products may take less time"
    )
    parser.add_argument("--restarts", type=int, default=4)
    parser.add_argument("--source", default="ours", help="the key in `[sources]` that the figures cite")
    asked = parser.parse_args(arguments)
    if (asked.tables is None) == (asked.table is None):
        parser.error("expected what to fit and a table, or `--tables DIR`")
    return asked


if __name__ == "__main__":
    main()
