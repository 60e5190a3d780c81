"""What notebooks show of values, and the tutorial notebook, run as Jupyter runs it."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import distir
from distir.ir import notebook
from distir.simulate.notebook import needed
from distir.transform import difference

TUTORIAL = Path(__file__).parents[2] / "examples" / "tutorial.ipynb"


@pytest.fixture(scope="module")
def model():
    return distir.models.mlp(layers=4, width=64, batch=32, training=True)


@pytest.fixture(scope="module")
def simulation(model):
    return distir.simulate(distir.transform(model, "pp=2", microbatches=4))


@pytest.fixture(scope="module")
def table(model):
    return distir.search(model, devices=4)


class Tags(HTMLParser):
    """Whether tags are balanced, and what stands between them."""

    def __init__(self, text):
        super().__init__()
        self.open, self.words, self.names = [], "", []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        if tag not in ("br",):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.names.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words += data


def shown(value):
    found = Tags(value._repr_html_())
    assert not found.open
    return found


def test_a_program_is_shown_as_its_text(model):
    assert distir.format(model).strip() in shown(model).words
    function = model.functions["dense"]
    assert "%h = Gemm(%x, %w, %b)" in shown(function).words
    assert repr(function) == "Function(func @dense(%w, %b, %x), 3 statements)"


def test_long_values_are_shown_in_part():
    body = "".join(f"  %x{i + 1} = Relu(%x{i})\n" for i in range(999))
    long = distir.parse("func @main(%x0) {\n" + body + "  return %x999\n}")
    text = shown(long).words
    assert text.count("Relu") < notebook.MOST_LINES
    assert "602 more lines" in text
    assert "… 50 more" in Tags(notebook.table(["a"], [[str(i)] for i in range(100)])).words


def test_what_values_say_is_no_html():
    assert "<script>" not in notebook.table(["<script>"], [["<script>"]]) + notebook.text("<script>", "<script>")


def test_a_simulation_is_shown_with_a_picture_that_scales(simulation):
    found = shown(simulation)
    assert {"svg", "table"} <= set(found.names)
    assert 'width="100%"' in simulation._repr_html_()
    assert repr(simulation).startswith("Simulation(@main on dgx-a100: ")
    assert "bubble" in found.words


def test_the_ops_of_a_simulation_are_a_table(simulation):
    ops = simulation.to_pandas()
    took = (ops.end_s - ops.start_s).groupby(ops.device).sum()
    for device, use in simulation.devices.items():
        assert took[device] == pytest.approx(use.busy_s)
    assert set(ops.microbatch.dropna()) == {1, 2, 3, 4}
    assert ops.end_s.max() == pytest.approx(simulation.latency_s)


def test_rows_of_a_search_are_a_table(table):
    frame = table.to_pandas()
    assert len(frame) == len(table)
    assert frame[frame.fits].latency_s.min() == table.best.latency_s
    assert repr(table).startswith(f"Table({len(table)} rows, the best D/T/P/K ")
    found = shown(table)
    assert f"{len(table.ranked)} of {len(table)} fit in memory" in found.words


def test_a_difference_shows_both_timelines(model, simulation):
    other = distir.simulate(model)
    found = difference(other, simulation)
    assert re.fullmatch(r"Difference\(A \S+, B \S+: \S+ (slower|faster)\)", repr(found))
    words = shown(found).words
    assert "A @main" in words
    assert "B @main" in words
    frame = found.to_pandas()
    assert frame.loc["latency_s", "B"] == simulation.latency_s
    assert frame.loc["ops", "A"] == other.ops
    above, below = found.plot().axes
    assert above.get_title().startswith("A: @main on dgx-a100")
    assert above.get_xlim() == below.get_xlim()
    assert len(below.get_yticklabels()) == 2


def test_figures_are_of_matplotlib(simulation, table):
    axes = simulation.plot().axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["device 1", "device 2"]
    assert "peak memory" in table.plot(80e9).axes[0].get_xlabel()


def test_what_is_missing_is_said(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(ImportError, match=re.escape("pip install 'distir[notebook]'")):
        needed("pandas")


def test_a_machine_in_the_place_of_devices_is_met_with_its_name(model):
    with pytest.raises(ValueError, match=r"expected a number of devices, found 'dgx-a100'; a machine is `hardware=…`"):
        distir.search(model, "dgx-a100")


def test_a_search_takes_all_devices_of_the_machine(model):
    assert {row.plan.devices for row in distir.search(model)} >= {8}
    assert max(row.plan.devices for row in distir.search(model, hardware="dgx-a100")) == 8


def test_the_tutorial_runs():
    nbformat = pytest.importorskip("nbformat")
    client = pytest.importorskip("nbclient")
    pages = nbformat.read(TUTORIAL, as_version=4)
    assert all(not cell.get("outputs") for cell in pages.cells), "the notebook is kept without outputs"
    client.NotebookClient(pages, timeout=120, kernel_name="python3").execute()
    outputs = [output for cell in pages.cells for output in cell.get("outputs", ())]
    kinds = [kind for output in outputs for kind in output.get("data", ())]
    assert kinds.count("text/html") >= 6
    assert kinds.count("image/png") == 2, "figures"
    assert any("searching" in str(output) for output in outputs), "a bar"
