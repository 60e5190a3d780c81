"""Figures in sentences and tables follow from what the same pages print, which is checked, or from a report.

A change of a profile changes what commands print; these say which sentences are to follow.
"""

import re
import tomllib

import pytest
from page_samples import ROOT

import distir
from distir.cost import parse_seconds

REPORT = (ROOT / "examples" / "accuracy" / "two_cores" / "report.md").read_text()
ACCURACY = ROOT / "docs" / "accuracy.md"


def text(page):
    return (ROOT / page).read_text()


def latencies(page):
    """In seconds, those that `simulate` prints on a page, in turn."""
    return [parse_seconds(found) for found in re.findall(r"^([\d.]+\w?s) latency", text(page), re.MULTILINE)]


def change(before, after):
    """In percent."""
    return 100 * (after / before - 1)


def simulated(name):
    return distir.simulate(distir.parse(text(f"examples/{name}.dir")))


def peak(name):
    return max(use.peak_memory_bytes for use in simulated(name).devices.values())


def slower(name, than):
    return change(simulated(than).latency_s, simulated(name).latency_s)


def left_over():
    """The share of its memory, in percent, that the device with the most in use has left before ZeRO."""
    page = text("examples/walkthrough.md")
    needed, there = re.search(r"([\d.]+)GB +([\d.]+)GB \(90", page).groups()
    return 100 * (1 - float(needed) / float(there))


def replicas_take():
    before, after = latencies("examples/walkthrough.md")[2:4]
    return change(before, after)


def stages_take():
    before, after = latencies("docs/tutorial.md")[:2]
    return change(before, after)


def swapped():
    return slower("mlp_pipeline_swapped", than="mlp_pipeline")


SENTENCES = [
    ("README.md", r"makes it ([\d.]+)× faster", lambda: 1 + swapped() / 100, ".2f"),
    ("docs/tutorial.md", r"stages take (\d+) % more time", stages_take, ".0f"),
    ("docs/tutorial.md", r"where the estimate says (\d+):", lambda: 1e3 * launched(), ".0f"),
    ("examples/walkthrough.md", r"It fits, but (\d+) % are little", left_over, ".0f"),
    ("examples/walkthrough.md", r"That takes (\d+) % more time", replicas_take, ".0f"),
    ("examples/README.md", r"makes the pipeline (\d+) % slower", swapped, ".0f"),
    (
        "examples/README.md",
        r"off the memory for (\d+) % more time",
        lambda: slower("mlp_checkpointing", than="mlp_no_checkpointing"),
        ".0f",
    ),
    (
        "examples/README.md",
        r"less on each device at the peak \((\d+) MB\)",
        lambda: (peak("mlp_data_parallel") - peak("mlp_zero")) / 1e6,
        ".0f",
    ),
]


def launched():
    """Seconds that the tutorial's tensor-parallel program is said to take before it is launched."""
    (found,) = re.findall(r"^latency +[\d.]+\ws +([\d.]+\ws)", text("docs/tutorial.md"), re.MULTILINE)
    return parse_seconds(found)


@pytest.mark.parametrize(
    ("page", "sentence", "figure", "form"), SENTENCES, ids=[f"{page}: {said}" for page, said, *_ in SENTENCES]
)
def test_a_sentence_says_what_is_printed(page, sentence, figure, form):
    (said,) = re.findall(sentence.replace(" ", r"\s+"), text(page))
    assert said == format(figure(), form)


def test_the_stated_accuracy_is_that_of_the_report(pytestconfig):
    """`--bless` takes the table over."""
    table = r"^\| configurations \|.*\n(?:\|.*\n)+"
    measured = re.search(table, REPORT, re.MULTILINE).group()
    if pytestconfig.getoption("--bless"):
        ACCURACY.write_text(re.sub(table, lambda _: measured, ACCURACY.read_text(), flags=re.MULTILINE))
    assert measured in ACCURACY.read_text()


SHAPES = re.findall(
    r"^\| (\w+) \| ([^|]+) \| (\w+) \| \d+ \| ([\d.]+) % \| ([\d.]+) % \|$",
    text("docs/explanation/simulator.md"),
    re.MULTILINE,
)
PROFILES = {"A100": "dgx-a100", "H100": "dgx-h100"}


@pytest.mark.parametrize(("device", "op", "dtype", "half", "most"), SHAPES)
def test_errors_by_shape_are_those_that_profiles_state(device, op, dtype, half, most):
    stem = PROFILES.get(device, device.lower())
    kinds = tomllib.loads(text(f"distir/cost/profiles/{stem}.toml"))["kinds"]
    of = "experts" if "experts" in op else "attention" if "attention" in op else "products"
    figures = kinds[device.lower()][of][dtype]
    figures = figures[op.split()[-1]] if of == "attention" else figures
    assert f"has not seen, half are off by less than {half}%, nine of ten by {most}%" in figures["note"]


def test_the_table_of_errors_by_shape_is_found():
    assert len(SHAPES) == 13
