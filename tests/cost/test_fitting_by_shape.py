"""`examples/profiles/fit.py`: it computes what the simulator computes, and finds the figures that made a table."""

import importlib
import random
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from distir.cost import load, parse
from distir.cost.correction import Correction
from distir.ops.resources import MatrixProduct, Scores

PROFILES = Path(__file__).parents[2] / "examples" / "profiles"
MODULES = ("fit", "fitting.tables", "fitting.products", "fitting.attention", "fitting.output")


@pytest.fixture(scope="module")
def fit():
    """All names of the script and of its parts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(PROFILES)
        modules = [importlib.import_module(name) for name in MODULES]
        yield SimpleNamespace(**{name: value for module in modules for name, value in vars(module).items()})


def shapes(count):
    dice = random.Random(0)
    return [tuple(2 ** dice.uniform(0, 14) // 1 for _ in range(3)) for _ in range(count)]


def products(fit, figures, count, quantised=False):
    """A table that follows the figures to the digit."""
    rows = shapes(count)
    m, n, k = (np.array(numbers) for numbers in zip(*rows, strict=True))
    moved = 2 * (m * n + n * k + m * k)
    seconds = [
        figures.spent(MatrixProduct(*map(int, row)), 2, nbytes).seconds for row, nbytes in zip(rows, moved, strict=True)
    ]
    return fit.Products(m, n, k, np.ones(count), np.array(seconds), 2), moved / figures.memory


@pytest.mark.parametrize("name", ["dgx-h100", "dgx-a100", "gb200"])
def test_it_computes_what_the_simulator_computes(fit, name):
    figures = load(name).kinds[0].products["BFloat16"]
    table, memory = products(fit, figures, 300)
    assert fit.Choices(table, figures).seconds(figures, memory) == pytest.approx(table.measured, rel=1e-9)


def test_attention_is_what_the_simulator_computes(fit):
    for figures in load("dgx-h100").kinds[0].attention["BFloat16"]:
        numbers = np.array([(1, 128, 8, 8), (4, 2048, 32, 8), (16, 512, 12, 12)], float).T
        table = fit.Attentions(*numbers, figures.size, np.ones(3), 2)
        found = [
            figures.spent(Scores(int(b * h), int(s), int(s), figures.size, 0.5, group=int(h // g)), nbytes).seconds
            for b, s, h, g, nbytes in zip(*numbers, table.traffic, strict=True)
        ]
        assert table.seconds(figures) == pytest.approx(found, rel=1e-9)


def write(path, header, rows):
    path.write_text("# made up\n" + "\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


def test_the_figures_that_made_a_table_of_products_are_found(fit, tmp_path, capsys):
    kind = load("dgx-h100").kinds[0]
    figures = replace(kind.products["BFloat16"], correction=None, filling=None, streaming=None)
    table, _ = products(fit, figures, 500)
    rows = zip(table.m, table.n, table.k, table.measured * 1e3, strict=True)
    path = write(tmp_path / "ops.csv", "m,n,k,latency_ms", rows)
    # Caches as small as nothing, as the table knows none; it starts from figures that are off by a third.
    off = tmp_path / "off.toml"
    about = 'extends = "dgx-h100"\ntitle = "off"\n[kinds.h100.products]\nBFloat16 = { like = "Float16" }\n'
    stated = fit.product_toml("h100", "Float16", replace(figures, memory=figures.memory * 0.8), 'source = "products"')
    off.write_text(about + stated)
    fit.main(["products", str(path), "--like", str(off), "--cache", "0.001", "--restarts", "0", "--source", "products"])
    printed = capsys.readouterr().out
    head, toml = printed.split("\n", 1)
    assert float(head.split("median ")[1].split("%")[0]) < 1.0
    found = parse(f'extends = "dgx-h100"\ntitle = "found"\n{toml}').kinds[0].products["BFloat16"]
    assert found.memory == pytest.approx(figures.memory, rel=0.05)
    assert found.usual.launch == pytest.approx(figures.usual.launch, rel=0.05)
    assert found.rate == pytest.approx(figures.rate, rel=0.05)


def test_the_correction_that_made_a_table_is_found(fit):
    form = replace(load("dgx-h100").kinds[0].products["BFloat16"], correction=None, filling=None, streaming=None)
    # Thin products and those of short sums take less than the form says.
    made = Correction(((1, 16_384),) * 3, (((-0.2, -0.1), (0.0, 0.1)), ((-0.1, 0.2), (0.2, 0.3))))
    table, _ = products(fit, replace(form, correction=made), 1500)
    seen, unseen = table.part(np.arange(1500) % 5 > 0), table.part(np.arange(1500) % 5 == 0)
    plain = fit.ProductFit(form, 1e3, ())  # caches as small as nothing, as the table knows none
    found = fit.fit_correction(plain, seen)
    off = [fit.quantiles(unseen.measured, one.seconds(unseen))[0] for one in (plain, found)]
    assert off[0] > 0.05
    assert off[1] < 0.015


def test_a_correction_that_foretells_nothing_is_left_out(fit):
    form = replace(load("dgx-h100").kinds[0].products["BFloat16"], correction=None, filling=None, streaming=None)
    table, _ = products(fit, form, 1500)
    noise = np.exp(np.random.default_rng(0).normal(0, 0.05, 1500))
    noisy = replace(table, measured=table.measured * noise)
    few = noisy.part(np.arange(300))
    for rows in (noisy, few):
        found = fit.fit_correction(fit.ProductFit(form, 1e3, ()), rows).figures
        assert found.correction is None
        assert found.filling is None


def test_corrections_keep_larger_products_from_taking_less_time(fit):
    """A table where products of short sums, of some size, take longer by accident: not so in what is fitted."""
    form = replace(load("dgx-h100").kinds[0].products["BFloat16"], correction=None, filling=None, streaming=None)
    table, _ = products(fit, form, 1500)
    slow = (table.m * table.n > 2**13) & (table.m * table.n < 2**16)
    odd = replace(table, measured=table.measured * np.where(slow, 2.0, 1.0))
    found = fit.fit_correction(fit.ProductFit(form, 1e3, ()), odd).figures
    assert found.correction is not None

    def seconds(m, n, k):
        return found.spent(MatrixProduct(m, n, k), 2, 2 * (m * k + n * k + m * n)).seconds

    sides = [2**power for power in range(4, 13)]
    for m, n, k in [(m, n, k) for m in sides for n in sides for k in (32, 128, 1024)]:
        assert seconds(2 * m, n, k) > 0.9 * seconds(m, n, k)
        assert seconds(m, n, 2 * k) > 0.9 * seconds(m, n, k)


@pytest.mark.parametrize("name", ["dgx-a100", "dgx-h100"])
def test_the_errors_that_a_profile_states_are_those_of_rows_that_the_fit_has_not_seen(fit, capsys, name):
    """A sample of the rows that were held out: the script finds the errors that the profile's note has."""
    sample = Path(__file__).with_name("measured") / f"products-{name}.csv"
    fit.main(["products", str(sample), "--like", name, "--check", "--turns", "6", "--cache", "50"])
    said = [float(found) for found in re.findall(r"([\d.]+)%", capsys.readouterr().out)]
    note = next(one.note for one in load(name).figures if "products BFloat16 memory" in one.name)
    stated = [float(found) for found in re.findall(r"([\d.]+)%", note)]
    assert said[0] == pytest.approx(stated[0], abs=1.0)
    assert said[1] == pytest.approx(stated[1], abs=3.0)


def test_the_figures_that_made_a_table_of_attention_are_found(fit, tmp_path, capsys):
    figures = next(one for one in load("dgx-h100").kinds[0].attention["BFloat16"] if one.size == 128)
    figures = replace(figures, correction=None)
    rows = [
        (b, s, h, g) for b in (1, 4, 16) for s in (128, 512, 2048, 8192) for h, g in ((2, 1), (8, 8), (32, 4), (96, 8))
    ]
    numbers = np.array(rows, float).T
    measured = fit.Attentions(*numbers, 128, np.ones(len(rows)), 2).seconds(figures)
    path = write(
        tmp_path / "ops.csv",
        "batch,seq,heads,kv_heads,head_dim,seconds",
        [(*row, 128, seconds) for row, seconds in zip([*rows, *rows], [*measured, *measured], strict=True)],
    )
    fit.main(["attention", str(path), "--like", "dgx-h100", "--restarts", "0", "--source", "attention"])
    head, toml = capsys.readouterr().out.split("\n", 1)
    assert float(head.split("median ")[1].split("%")[0]) < 2.0
    (found,) = parse(f'extends = "dgx-h100"\ntitle = "found"\n{toml}').kinds[0].attention["BFloat16"]
    assert found.rate == pytest.approx(figures.rate, rel=0.1)
    assert found.launch == pytest.approx(figures.launch, rel=0.1)


def test_the_figures_that_made_a_table_of_experts_are_found(fit, tmp_path, capsys):
    figures = load("dgx-h100").kinds[0].experts["BFloat16"]
    dice = random.Random(1)
    lines = []
    for _ in range(400):
        tokens, hidden, inter = (2 ** dice.randint(low, high) for low, high in ((6, 14), (10, 13), (9, 13)))
        experts, topk = dice.choice([(8, 2), (64, 4), (128, 8)])
        rows = -(-tokens * topk // experts)
        seconds = 25e-6 + tokens * topk * 2 * (3 * inter / 5e12 + hidden / 1e12)  # what is around the products
        for n, k in ((2 * inter, hidden), (hidden, inter)):
            moved = 2 * experts * (rows * k + n * k + rows * n)
            seconds += figures.spent(MatrixProduct(rows, n, k, experts, grouped=True), 2, moved).seconds
        lines.append((tokens, hidden, inter, topk, experts, seconds))
    path = write(tmp_path / "moe.csv", "tokens,hidden,inter,topk,experts,seconds", lines)
    fit.main(["experts", str(path), "--like", "dgx-h100", "--restarts", "0", "--source", "experts"])
    left_out, head, toml = capsys.readouterr().out.split("\n", 2)
    assert "rows left out" in left_out
    assert float(head.split("median ")[1].split("%")[0]) < 3.0
    found = parse(f'extends = "dgx-h100"\ntitle = "found"\n{toml}').kinds[0].experts["BFloat16"]
    for shape in (MatrixProduct(512, 4096, 4096, 8, grouped=True), MatrixProduct(64, 2048, 1024, 128, grouped=True)):
        nbytes = 2 * shape.batch * (shape.m * shape.k + shape.n * shape.k + shape.m * shape.n)
        there, here = (one.spent(shape, 2, nbytes).seconds for one in (figures, found))
        assert here == pytest.approx(there, rel=0.2)


def test_a_row_is_held_out_by_its_shape_alone(fit):
    m, n, k = np.arange(1, 2001), np.full(2000, 64), np.full(2000, 64)
    chosen = fit.held_out(m, n, k)
    assert 0.15 < chosen.mean() < 0.25
    assert (fit.held_out(m[::-1], n, k)[::-1] == chosen).all()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("m,n,k,latency_ms\n" + "8,8,8,x\n" * 60, "row 1 has no number in the column `latency_ms`, but `x`"),
        ("m,n,k,latency_ms\n" + "8,8,0,1\n" * 60, "row 1: `k` is `0`, expected a number above zero"),
        ("m,n,k,time\n" + "8,8,8,1\n" * 60, "no column `seconds`"),
        ("m,n,k,latency_ms\n8,8,8,1\n", "has 1 rows"),
        ("m,n,k,latency_ms\n" + "8,inf,8,1\n" * 60, "row 1: `n` is `inf`, expected a number above zero"),
        ("m,n,k,latency_ms\n" + "8,8,8,1\n" * 60 + "8,8,8,\n", "row 61 has no number in the column `latency_ms`"),
    ],
)
def test_a_faulty_table_is_refused(fit, tmp_path, text, said):
    path = tmp_path / "ops.csv"
    path.write_text(text)
    with pytest.raises(SystemExit) as caught:
        fit.main(["products", str(path), "--like", "dgx-h100"])
    assert said in str(caught.value)


def test_a_table_that_is_not_there_and_a_condition_without_a_value_are_refused(fit, tmp_path):
    with pytest.raises(SystemExit, match="cannot be read as a table"):
        fit.main(["products", str(tmp_path / "none.csv"), "--like", "dgx-h100"])
    with pytest.raises(SystemExit, match="as in `device=h100`, found `device`"):
        fit.main(["products", str(tmp_path / "none.csv"), "--like", "dgx-h100", "--where", "device"])


def test_a_small_table_is_fitted(fit, capsys, monkeypatch):
    """Few rows say nothing of some figures."""
    sample = Path(__file__).with_name("measured") / "products-dgx-h100.csv"
    lines = ["products", str(sample), "--like", "dgx-h100", "--where", "k=4096", "--where", "n=4096"]
    with pytest.raises(SystemExit, match="rows where k=4096, n=4096"):
        fit.main(lines)
    words = ["products", str(sample), "--like", "dgx-h100", "--processors", "132", "--restarts", "0"]
    # All of it is held out.
    monkeypatch.setitem(fit.main.__globals__, "held_out", lambda *shape: np.arange(len(shape[0])) % 5 == 0)
    fit.main(words)
    assert "rows not seen: median" in capsys.readouterr().out


def test_all_tables_of_a_folder_are_fitted(fit, tmp_path, capsys):
    """As `distir calibrate --shapes` leaves some of them: a figure for each element type of each table."""
    kind = load("dgx-h100").kinds[0]
    table, _ = products(fit, replace(kind.products["BFloat16"], correction=None, filling=None, streaming=None), 120)
    rows = [
        (dtype, *map(int, row), 1, seconds)
        for dtype in ("BFloat16", "Float16")
        for *row, seconds in zip(table.m, table.n, table.k, table.measured, strict=True)
    ]
    write(tmp_path / "products.csv", "dtype,m,n,k,batch,seconds", rows)
    lines = [
        (pattern, devices, 2**power, 1e-5 + 2**power / 2e11)
        for pattern in ("allreduce", "allgather")
        for devices in (2, 4, 8)
        for power in range(10, 30, 2)
    ]
    write(tmp_path / "collectives.csv", "pattern,devices,bytes,seconds", lines)
    plain = tmp_path / "plain.toml"  # one level only, so that the links fitted are those of the node
    plain.write_text('title = "a node"\nextends = "dgx-h100"\n[levels.nvlink]\ncorrection = {}\n')
    fit.main(["--tables", str(tmp_path), "--like", str(plain), "--correct", "--source", "products"])
    printed = capsys.readouterr().out
    figures = "\n".join(line for line in printed.splitlines() if not line.startswith("#"))
    found = parse(f'extends = "dgx-h100"\ntitle = "found"\n{figures}')
    assert {"[kinds.h100.products.BFloat16]", "[kinds.h100.products.Float16]"} <= set(printed.splitlines())
    assert found.levels[0].corrections
    with pytest.raises(SystemExit, match=r"has none of `products\.csv`"):
        fit.main(["--tables", str(tmp_path / "none"), "--like", "dgx-h100"])


def test_what_a_table_itself_differs_by_is_that_of_large_products_of_the_same_sides(fit):
    large = (2048, 4096, 8192, 16_384)
    sides = [(a, b, c) for a in large for b in large for c in (*large, 64)]
    m, n, k = (np.array(one, float) for one in zip(*sides, strict=True))
    seconds = m * n * k * np.where(m < n, 1.1, 1.0)
    table = fit.Products(m, n, k, np.ones(len(m)), seconds, 2)
    median, decile, count = fit.spread(table)
    assert count == 24  # without those of one, and without those of 64 terms
    assert 0 <= median <= decile <= 0.1 + 1e-9
    assert decile > 0.02


@pytest.mark.parametrize(("text", "said"), [("", "`title` is missing"), ('title = "x"\nextends = "h10"', "h10")])
def test_a_faulty_profile_is_said_as_one(fit, tmp_path, text, said):
    table = write(tmp_path / "ops.csv", "m,n,k,latency_ms", [(8, 64, 64, 0.01)] * 60)
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(SystemExit, match=said):
        fit.main(["products", str(table), "--like", str(tmp_path / "mine.toml")])
